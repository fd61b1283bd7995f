/* test_tbe_parts.c - the backward pass of a group in parts: replicas that
 * agree, micro-batches, stages.
 * ranks: 1  fake: 1  emulated: 1 */
#include "tests/sparse/tbe_group.h"

static world w;
static batch whole;
static ts_tbe *one; /* it trains on whole batches */
static float grad[BATCH * WIDTH];

static void begin(bool mean) {
  start(&w, "rowwise_adagrad", TS_F32, 2, false);
  one = group(&w, 0, 100, mean);
}

static void end(void) {
  drop(&whole);
  whole = (batch){.in = {0}};
  ts_tbe_destroy(one);
  stop(&w);
}

static void train_one(int64_t pass) {
  test_floats(grad, BATCH * WIDTH, (uint64_t)pass);
  fill(&w, &whole, (uint64_t)pass, false, 0, BATCH, 0, 100);
  train(&w, one, &whole, grad, pass);
}

/* T's weights are near those of ONE, and are FIRST's to the bit. */
static void check_rows(ts_tbe *t, ts_tbe *first) {
  for (int i = 0; i < TABLES; i++) {
    float *rows = weights_of(&w, t, i), *same = weights_of(&w, first, i);
    float *expected = weights_of(&w, one, i);
    ck_assert_mem_eq(same, rows, (size_t)(table_rows[i] * DIM) * 4);
    for (int k = 0; k < table_rows[i] * DIM; k++)
      ck_assert_double_eq_tol(rows[k], expected[k], 2e-5);
    free(rows);
    free(same);
    free(expected);
  }
}

/* ---- replicas ------------------------------------------------------------ */

enum { RANKS = 3 };

/* Each rank's part of the batch PASS, reduced; then all messages, in pinned
 * memory, applied on all. */
static void exchange(ts_tbe **t, int64_t pass) {
  const int cut[RANKS + 1] = {0, 20, 20, BATCH}; /* rank 1 has no bags */
  batch b = {.in = {0}};
  const void *msg[RANKS];
  int64_t bytes[RANKS];
  ts_buffer arrived[RANKS];
  for (int r = 0; r < RANKS; r++) {
    fill(&w, &b, (uint64_t)pass, false, cut[r], cut[r + 1], 0, 100);
    const float *there = send(&w, &b.there[4], grad + cut[r] * WIDTH,
                              (cut[r + 1] - cut[r]) * WIDTH, 4);
    ck_assert_ok(
        ts_tbe_reduce(t[r], &msg[r], &bytes[r], there, &b.in, -1, w.lane));
    ck_assert_ok(ts_lane_sync(w.lane));
    ck_assert_ok(ts_buffer_create(&arrived[r], w.device, (size_t)bytes[r] + 1,
                                  TS_SPACE_PINNED, TS_TAG_MISC));
    ts_test_get(w.device, arrived[r].ptr, msg[r], (size_t)bytes[r]);
    msg[r] = arrived[r].ptr;
  }
  ck_assert_int_eq(bytes[1], 0);
  for (int r = 0; r < RANKS; r++)
    ck_assert_ok(ts_tbe_apply(t[r], msg, bytes, RANKS, 1.0, pass, w.lane));
  ck_assert_ok(ts_lane_sync(w.lane));
  for (int r = 0; r < RANKS; r++) ts_buffer_reset(&arrived[r]);
  drop(&b);
}

TS_TEST(replicas_agree) {
  ts_tbe *t[RANKS];
  begin(false);
  for (int r = 0; r < RANKS; r++) t[r] = group(&w, 0, 100, false);
  for (int pass = 1; pass <= 4; pass++) {
    train_one(pass);
    exchange(t, pass);
  }
  for (int r = 0; r < RANKS; r++) check_rows(t[r], t[0]);
  for (int r = 0; r < RANKS; r++) ts_tbe_destroy(t[r]);
  end();
}

/* ---- parts -----------------------------------------------------------------
 */

/* Micro-batches: three parts of the batch, two of them kept, are as good as
 * the whole. */
TS_TEST(kept) {
  static const int cut[] = {0, 20, 50, BATCH};
  begin(true);
  ts_tbe *t = group(&w, 0, 100, true);
  for (int pass = 1; pass <= 3; pass++) {
    train_one(pass);
    for (int k = 0; k < 3; k++) {
      fill(&w, &whole, (uint64_t)pass, false, cut[k], cut[k + 1], 0, 100);
      const float *part = send(&w, &whole.there[4], grad + cut[k] * WIDTH,
                               (cut[k + 1] - cut[k]) * WIDTH, 4);
      if (k < 2)
        ck_assert_ok(ts_tbe_keep(t, part, &whole.in, w.lane));
      else
        ck_assert_ok(ts_tbe_backward(t, part, &whole.in, 1.0, pass, w.lane));
      ck_assert_ok(ts_lane_sync(w.lane));
    }
  }
  check_rows(t, t);
  ts_tbe_destroy(t);
  end();
}

/* In stages: the row-wise state by statistics of one shard is that of the
 * fused backward. */
TS_TEST(staged) {
  begin(false);
  ts_tbe *t = group(&w, 0, 100, false);
  for (int pass = 1; pass <= 3; pass++) {
    train_one(pass);
    const float *there = whole.there[4].ptr;
    ck_assert_ok(ts_tbe_gather(t, there, &whole.in, w.lane));
    ck_assert_ok(ts_tbe_stage(t, 0, 1.0, pass, w.lane));
    ck_assert_ok(ts_tbe_finish(t, 1.0, pass, w.lane));
    ck_assert_ok(ts_lane_sync(w.lane));
  }
  for (int i = 0; i < TABLES; i++)
    for (int k = -1; k < 1; k++) {
      size_t n, m;
      void *rows = rows_of(&w, t, i, k, &n), *all = rows_of(&w, one, i, k, &m);
      ck_assert_uint_eq(n, m);
      ck_assert_mem_eq(rows, all, n);
      free(rows);
      free(all);
    }
  ts_tbe_destroy(t);
  end();
}

/* Rows of a group are numbered by 32 bits. */
TS_TEST(no_more_rows_than_numbers) {
  ts_tbe *t = NULL;
  ts_tbe_table tables[2];
  static const int32_t table_of[] = {0, 1};
  start(&w, "sgd", TS_F32, 2, false);
  for (int i = 0; i < 2; i++)
    tables[i] = (ts_tbe_table){.config = &w.config[i],
                               .table_id = i,
                               .n_rows = INT64_C(1) << 31,
                               .n_cols = DIM};
  const ts_tbe_spec spec = {.tables = tables,
                            .n_tables = 2,
                            .feature_table = table_of,
                            .n_features = 2};
  ck_assert_int_eq(ts_tbe_create(&t, w.device, &w.kernels, &spec), TS_ERR_DECK);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(), "4294967296 rows on one rank"));
  ts_err_clear();
  stop(&w);
}
