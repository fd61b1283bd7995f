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

/* Both tiers: 10000 rows of 64 floats, 2000 lines (63 sets of 32), states of
 * adam that move or of row-wise Adagrad that stay, passes, files. */
TS_TEST(tiers_by_hand) {
  static char cached[] = "cached", host[] = "host", file[] = "file";
  ts_setting x;
  setting(&x, 1, 4, 0);
  know_ids(&x, 1);
  ts_table_config *t = &x.tables[0];
  const ts_shard s = {0, 0, 10000, 0, 64};
  const double lines = 63 * 32, n = 512;
  x.request.n_ebc_batches = 3;
  t->optimizer.kind = adam;
  const ts_plan_memory fast = memory_of(&x, TS_SHARD_TABLE_WISE, s);
  ck_assert(fast.slow == 0 && fast.disk == 0);
  t->kernel = cached;
  t->cache.tier = host;
  t->cache.load_factor = 0.2;
  for (int passes = 0; passes <= 12; passes += 4) {
    t->cache.passes = passes;
    const ts_plan_memory m = memory_of(&x, TS_SHARD_TABLE_WISE, s);
    ck_assert_double_eq(m.weights, lines * (256 + 20) + 4 * 313);
    ck_assert_double_eq(m.state, lines * 512);
    ck_assert_double_eq(m.slow, 10000.0 * 768);
    ck_assert_double_eq(m.disk, 0);
    const double slots = 1.25 * 4 * n * (3 + 1);
    const double scratch = passes ? 6 * 4 * n / passes : 0;
    ck_assert_double_eq_tol(m.buffers - fast.buffers, slots + scratch, 1);
  }
  t->cache.tier = file;
  t->optimizer.kind = rowwise;
  const ts_plan_memory m = memory_of(&x, TS_SHARD_TABLE_WISE, s);
  ck_assert_double_eq(m.state, 10000.0 * 4);
  ck_assert_double_eq(m.slow, 0);
  ck_assert_double_eq(m.disk, 10000.0 * 256);
  t->kernel = host;
  ck_assert_double_eq(memory_of(&x, TS_SHARD_TABLE_WISE, s).weights, 0);
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
