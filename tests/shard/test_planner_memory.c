/* test_planner_memory.c - memory of plans, by hand: tables and their states,
 * tiers, what batches take; the rest of it is in test_planner_report.c.
 * ranks: 1 */
#include "tests/shard/planner_setting.h"

static char sgd[] = "sgd", adam[] = "adam";

static ts_plan_memory memory_of(ts_setting *x, ts_shard_kind kind, ts_shard s) {
  ts_cost c;
  ts_plan_memory m;
  ck_assert_ok(ts_cost_create(&c, &x->request));
  ts_storage_shard(&m, &c, 0, kind, &s);
  ts_cost_reset(&c);
  return m;
}

TS_TEST(storage_by_hand) {
  static char partial[] = "partial_rowwise_adam";
  const struct {
    char *kind;
    double per_row; /* of 16 columns out of 64 */
  } cases[] = {{sgd, 0}, {adam, 2 * 4 * 16}, {rowwise, 4}, {partial, 4 * 17}};
  ts_setting x;
  setting(&x, 1, 4, 2);
  know_ids(&x, 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    x.tables[0].optimizer.kind = cases[i].kind;
    x.tables[0].dtype = i % 2 ? TS_BF16 : TS_F32;
    const ts_plan_memory m =
        memory_of(&x, TS_SHARD_COLUMN_WISE, (ts_shard){1, 0, 10000, 16, 16});
    ck_assert_double_eq(m.weights, 10000.0 * 16 * (i % 2 ? 2 : 4));
    ck_assert_double_eq(m.state, 10000.0 * cases[i].per_row);
  }
  settle(&x);
}

/* table_wise, 4 ranks of 128 samples, one id a bag, dim 64; with weights, which
 * are sent and kept beside the ids. */
TS_TESTS(buffers_by_hand, 0, 2) {
  ts_setting x;
  setting(&x, 1, 4, 0);
  x.tables[0].weighted = _i;
  know_ids(&x, 1);
  const double n = 512, bags = 512, weight = _i ? 4 : 0;
  const double scratch = /* of one more */
      1.25 * (n * (16 + weight) + bags * 12) + 28 + weight;
  const double input = /* and starts */
      1.25 * (bags * 16 + n * (4 + weight)) + 20 + weight + 16;
  const double matrices = 4 * bags * 64;
  for (int ebc_batches = 1; ebc_batches <= 3; ebc_batches++) {
    x.request.n_ebc_batches = ebc_batches;
    const ts_plan_memory m =
        memory_of(&x, TS_SHARD_TABLE_WISE, (ts_shard){0, 0, 10000, 0, 64});
    ck_assert_double_eq_tol(
        m.buffers,
        scratch + ebc_batches * (input + matrices + 1.25 * n * (2 + weight)) +
            48 * 4,
        1e-6);
  }
  settle(&x);
}
