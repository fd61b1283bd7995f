/* test_cache.c - tables in slow memory against the same tables in fast
 * memory, bit for bit; the scratch of passes.
 * ranks: 1  fake: 1
 * seconds: 300 */
#include "tests/sparse/cache_group.h"
#include "tests/sparse/cache_model.h"

/* ---- twins --------------------------------------------------------------- */

static size_t take(char *out, world *w, ts_tbe *t) {
  size_t bytes = 0;
  ck_assert_ok(ts_tbe_flush(t));
  for (int i = 0; i < TABLES; i++)
    for (int k = -1; k < ts_tbe_optim(t)->n_states; k++) {
      int32_t cols;
      ts_dtype dtype;
      const void *p = ts_tbe_rows(t, i, k, &cols, &dtype);
      const size_t n = (size_t)(table_rows[i] * ts_row_bytes(dtype, cols));
      ts_test_get(w->device, out + bytes, p, n);
      bytes += n;
    }
  return bytes;
}

/* Bytes of a row that move: weights, and states of DIM floats. */
static int64_t moving_bytes(ts_tbe *t) {
  int64_t bytes = 0;
  for (int k = -1; k < ts_tbe_optim(t)->n_states; k++) {
    int32_t cols;
    ts_dtype dtype;
    (void)ts_tbe_rows(t, 0, k, &cols, &dtype);
    if (cols == DIM) bytes += ts_row_bytes(dtype, DIM);
  }
  return bytes;
}

static void check_counts(ts_tbe *t, const ts_tier_count *m) {
  const int64_t bytes = moving_bytes(t);
  ts_tier_figures f;
  same_counts(t, m, bytes);
  ck_assert(ts_tbe_figures(t, &f));
  ck_assert_int_eq(f.n_locks, 0);
  ck_assert_int_eq(f.slow_bytes, ROWS * bytes);
  /* The directory has 20 bytes a line, a bit a row, and counts. */
  int64_t fast = f.n_lines * (bytes + 20);
  for (int k = 0; k < ts_tbe_optim(t)->n_states; k++)
    fast += ts_tbe_optim(t)->state[k].per_row ? 4 * ROWS : 0;
  ck_assert_int_ge(f.fast_bytes, fast);
  ck_assert_int_le(f.fast_bytes, fast + ROWS / 8 + 4096);
}

/* One run: a group, its batches, and what must become of its lines. */
typedef struct run {
  world w;
  ts_tbe *t;
  batch b[STEPS];
  bool cached, held[STEPS][IDS];
  uint32_t row[STEPS][IDS];
  cache_model m;
  int64_t pass;
} run;

static void hold(run *r, int s) {
  if (s == STEPS) return;
  ck_assert_ok(ts_tbe_prefetch(r->t, &r->b[s].in, r->w.lane));
  if (!r->cached) return;
  group_rows(&r->b[s], r->row[s]);
  model_hold(&r->m, r->row[s], r->b[s].in.n_ids, r->pass, r->held[s]);
}

static void step(run *r, int s, float *out) {
  static float grad[BATCH * WIDTH];
  float *at = ts_test_lend(r->w.device, out, OUT_BYTES, true);
  test_floats(grad, BATCH * WIDTH, 50 + (uint64_t)s);
  ck_assert_ok(ts_tbe_forward(r->t, at, &r->b[s].in, r->w.lane));
  hold(r, s + 1);
  train_on(&r->w, r->t, &r->b[s], grad, s + 1);
  ts_test_reclaim(r->w.device, out, at, OUT_BYTES, true);
  if (!r->cached) return;
  model_write(&r->m, r->row[s], r->b[s].in.n_ids);
  model_release(&r->m, r->row[s], r->b[s].in.n_ids, r->held[s]);
}

/* STEPS steps, the next batch held before this one's backward pass as the
 * prefetch pipeline does; what was looked up to OUTPUT, tables and states to
 * OUT.  In the middle the tables are read, and read back. */
static size_t train(char *out, float *output, const char *optim, ts_dtype type,
                    const kind *k) {
  static run r;
  memset(&r, 0, sizeof r);
  r.cached = !strcmp(k->kernel, "cached");
  start(&r.w, optim, type, k);
  r.t = group(&r.w);
  r.m =
      model_open(ROWS, model_sets(ROWS, k->load_factor),
                 !strcmp(k->policy, "lfu"), ts_device_is_discrete(r.w.device));
  for (int s = 0; s < STEPS; s++)
    fill(&r.b[s], &r.w, 7 + (uint64_t)s, 6, r.cached);
  r.pass = (r.b[0].in.n_ids + k->passes - 1) / k->passes;
  hold(&r, 0);
  for (int s = 0; s < STEPS; s++) {
    step(&r, s, output + s * BATCH * WIDTH);
    if (s != STEPS / 2) continue;
    ck_assert_ok(ts_tbe_flush(r.t));
    ck_assert_ok(ts_tbe_reload(r.t));
    model_flush(&r.m);
    model_reload(&r.m);
  }
  if (r.cached) check_counts(r.t, &r.m.count);
  const size_t bytes = take(out, &r.w, r.t);
  for (int s = 0; s < STEPS; s++) empty(&r.b[s], &r.w);
  model_close(&r.m);
  ts_tbe_destroy(r.t);
  stop(&r.w);
  return bytes;
}

enum { STATE_BYTES = ROWS * DIM * 12, OUTPUTS = STEPS * BATCH * WIDTH };

static void compare(const char *optim, ts_dtype type, const kind *k,
                    const char *expect, const float *outputs, size_t n) {
  static char got[STATE_BYTES];
  static float output[OUTPUTS];
  memset(output, 0, sizeof output);
  ck_assert_uint_eq(train(got, output, optim, type, k), n);
  ck_assert_msg(!memcmp(outputs, output, sizeof output) &&
                    !memcmp(expect, got, n),
                "%s %s %s %s lf %g passes %d", optim, k->kernel, k->policy,
                k->tier, k->load_factor, k->passes);
}

TS_TESTS(twins, 0, 16) {
  static const char *const optims[] = {
      "sgd",  "adagrad",  "rowwise_adagrad",     "adam", "partial_rowwise_adam",
      "lamb", "lars_sgd", "partial_rowwise_lamb"};
  static const double factors[] = {0.01, 0.1, 0.5, 1.0};
  static const int32_t passes[] = {1, 2, 4, 12};
  static const ts_dtype types[] = {TS_F32, TS_BF16, TS_F32, TS_INT8, TS_INT4};
  static char expect[STATE_BYTES];
  static float outputs[OUTPUTS];
  const char *optim = optims[_i / 2];
  const bool files = ts_test_reads_pages();
  const ts_dtype type = types[_i % 5];
  const kind fast = {"fused", "lru", "host", 0, 1, 0};
  memset(outputs, 0, sizeof outputs);
  const size_t n = train(expect, outputs, optim, type, &fast);
  for (int i = 0; i < 64; i++) {
    /* On the fake device each has some of them: its kernels cost more. */
    if (strcmp(ts_test_backend(), "host") && i % 7 != _i % 7) continue;
    if (i & 2 && !files) continue;
    const kind k = {
        "cached",           i & 1 ? "lfu" : "lru", i & 2 ? "file" : "host",
        factors[i / 4 % 4], passes[i / 16],        0};
    compare(optim, type, &k, expect, outputs, n);
  }
  const kind host = {"host", "lru", "host", 0, 1, 0};
  const kind file = {"host", "lru", "file", 0, 1, 0};
  compare(optim, type, &host, expect, outputs, n);
  if (files) compare(optim, type, &file, expect, outputs, n);
}

/* ---- scratch ------------------------------------------------------------- */

static int64_t scratch(int32_t passes, int64_t min_pass, int per_bag,
                       int64_t *n_ids) {
  static world w;
  static batch b;
  ts_tier_figures f;
  const kind k = {"cached", "lru", "host", 0.5, passes, min_pass};
  start(&w, "sgd", TS_F32, &k);
  ts_tbe *t = group(&w);
  fill(&b, &w, 3, per_bag, true);
  ck_assert_ok(ts_tbe_prefetch(t, &b.in, w.lane));
  ck_assert_ok(ts_tbe_release(t, &b.in, w.lane));
  ck_assert_ok(ts_lane_sync(w.lane));
  ck_assert(ts_tbe_figures(t, &f));
  *n_ids = b.in.n_ids;
  empty(&b, &w);
  ts_tbe_destroy(t);
  stop(&w);
  return f.scratch_bytes;
}

TS_TEST(passes_need_less) {
  static const int32_t passes[] = {2, 4, 12};
  int64_t n;
  const int64_t whole = scratch(1, 0, 200, &n);
  ck_assert_int_gt(whole, 64 << 10);
  ck_assert_int_le(whole, 6 * 4 * n);
  for (int i = 0; i < TEST_COUNT(passes); i++)
    ck_assert_int_le(scratch(passes[i], 0, 200, &n),
                     whole / passes[i] + (64 << 10));
  /* A pass has at least so many ids; few ids make one pass. */
  ck_assert_int_ge(scratch(12, n / 2, 200, &n), whole / 2);
  ck_assert_int_eq(scratch(1000, 0, 1, &n), scratch(1, 0, 1, &n));
}
