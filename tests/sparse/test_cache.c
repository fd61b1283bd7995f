/* test_cache.c - tables in slow memory against the same tables in fast
 * memory, bit for bit; the scratch of passes.
 * ranks: 1  fake: 1
 * seconds: 300 */
#include "tests/sparse/cache_group.h"

/* ---- twins --------------------------------------------------------------- */

static size_t take(char *out, world *w, ts_tbe *t) {
  size_t bytes = 0;
  ck_assert_ok(ts_tbe_flush(t));
  for (int i = 0; i < TABLES; i++)
    for (int k = -1; k < ts_tbe_optim(t)->n_states; k++) {
      int32_t cols;
      ts_dtype dtype;
      const void *p = ts_tbe_rows(t, i, k, &cols, &dtype);
      const size_t n = (size_t)(table_rows[i] * cols) * ts_dtype_bytes(dtype);
      ts_test_get(w->device, out + bytes, p, n);
      bytes += n;
    }
  return bytes;
}

/* STEPS steps, the next batch held before this one's backward pass as the
 * prefetch pipeline does; what was looked up to OUTPUT, tables and states to
 * OUT.  In the middle the tables are read, and read back. */
static size_t train(char *out, float *output, const char *optim, ts_dtype type,
                    const kind *k, ts_tier_count *count) {
  static world w;
  static batch b[STEPS];
  static float grad[BATCH * WIDTH];
  const bool cached = !strcmp(k->kernel, "cached");
  start(&w, optim, type, k);
  ts_tbe *t = group(&w);
  for (int s = 0; s < STEPS; s++) fill(&b[s], &w, 7 + (uint64_t)s, 6, cached);
  ck_assert_ok(ts_tbe_prefetch(t, &b[0].in, w.lane));
  for (int s = 0; s < STEPS; s++) {
    float *out_s = output + s * BATCH * WIDTH;
    float *at = ts_test_lend(w.device, out_s, OUT_BYTES, true);
    test_floats(grad, BATCH * WIDTH, 50 + (uint64_t)s);
    ck_assert_ok(ts_tbe_forward(t, at, &b[s].in, w.lane));
    if (s + 1 < STEPS) ck_assert_ok(ts_tbe_prefetch(t, &b[s + 1].in, w.lane));
    train_on(&w, t, &b[s], grad, s + 1);
    ts_test_reclaim(w.device, out_s, at, OUT_BYTES, true);
    if (s == STEPS / 2) {
      ck_assert_ok(ts_tbe_flush(t));
      ck_assert_ok(ts_tbe_reload(t));
    }
  }
  if (cached) {
    ts_tier_figures f;
    ck_assert(ts_tbe_figures(t, &f));
    ck_assert_int_eq(f.n_locks, 0);
    if (count) *count = counts(t);
  }
  const size_t bytes = take(out, &w, t);
  for (int s = 0; s < STEPS; s++) empty(&b[s], &w);
  ts_tbe_destroy(t);
  stop(&w);
  return bytes;
}

enum { STATE_BYTES = ROWS * DIM * 12, OUTPUTS = STEPS * BATCH * WIDTH };

static void compare(const char *optim, ts_dtype type, const kind *k,
                    const char *expect, const float *outputs, size_t n) {
  static char got[STATE_BYTES];
  static float output[OUTPUTS];
  ts_tier_count c = {0};
  const bool cached = !strcmp(k->kernel, "cached");
  memset(output, 0, sizeof output);
  ck_assert_uint_eq(train(got, output, optim, type, k, &c), n);
  ck_assert_msg(!memcmp(outputs, output, sizeof output) &&
                    !memcmp(expect, got, n),
                "%s %s %s %s lf %g passes %d", optim, k->kernel, k->policy,
                k->tier, k->load_factor, k->passes);
  if (!cached) return;
  ck_assert_int_eq(c.n_hits + c.n_misses, c.n_unique);
  ck_assert_int_gt(c.n_misses, 0);
  ck_assert_int_gt(c.n_hits, 0);
  if (k->load_factor > 0.1) return;
  ck_assert_int_gt(c.n_conflicts, 0);
  ck_assert_int_gt(c.n_evicted, 0);
  ck_assert_int_gt(c.n_written, 0);
}

START_TEST(twins) {
  static const char *const optims[] = {
      "sgd",  "adagrad",  "rowwise_adagrad",     "adam", "partial_rowwise_adam",
      "lamb", "lars_sgd", "partial_rowwise_lamb"};
  static const double factors[] = {0.01, 0.1, 0.5, 1.0};
  static const int32_t passes[] = {1, 2, 4, 12};
  static const ts_dtype types[] = {TS_F32, TS_BF16};
  static char expect[STATE_BYTES];
  static float outputs[OUTPUTS];
  const char *optim = optims[_i / 2];
  const ts_dtype type = types[_i % 2];
  const kind fast = {"fused", "lru", "host", 0, 1, 0};
  memset(outputs, 0, sizeof outputs);
  const size_t n = train(expect, outputs, optim, type, &fast, NULL);
  for (int i = 0; i < 64; i++) {
    /* On the fake device each has some of them: its kernels cost more. */
    if (strcmp(ts_test_backend(), "host") && i % 7 != _i % 7) continue;
    const kind k = {
        "cached",           i & 1 ? "lfu" : "lru", i & 2 ? "file" : "host",
        factors[i / 4 % 4], passes[i / 16],        0};
    compare(optim, type, &k, expect, outputs, n);
  }
  const kind host = {"host", "lru", "host", 0, 1, 0};
  const kind file = {"host", "lru", "file", 0, 1, 0};
  compare(optim, type, &host, expect, outputs, n);
  compare(optim, type, &file, expect, outputs, n);
}
END_TEST

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

START_TEST(passes_need_less) {
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
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("cache");
  TCase *tc = tcase_create("cache");
  tcase_add_loop_test(tc, twins, 0, 16);
  tcase_add_test(tc, passes_need_less);
  suite_add_tcase(s, tc);
  return s;
}

TS_TEST_MAIN(suite)
