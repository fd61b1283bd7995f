/* test_cache_lines.c - what the cache of a group holds, batch by batch, beside
 * a plain model of its rules; full sets, locks, what is given away.
 * ranks: 1  fake: 1 */
#include "base/fault.h"
#include "sparse/cache.h"
#include "tests/sparse/cache_group.h"
#include "tests/sparse/cache_model.h"

/* ---- beside the model ---------------------------------------------------- */

typedef struct both {
  world w;
  ts_tbe *t;
  cache_model m;
  kind k;
} both;

typedef struct step {
  batch b;
  uint32_t row[IDS];
  bool held[IDS];
} step;

static void both_start(both *x, const kind *k) {
  x->k = *k;
  start(&x->w, "adagrad", TS_F32, k);
  x->t = group(&x->w);
  x->m =
      model_open(ROWS, model_sets(ROWS, k->load_factor),
                 !strcmp(k->policy, "lfu"), ts_device_is_discrete(x->w.device));
}

static void both_stop(both *x) {
  model_close(&x->m);
  ts_tbe_destroy(x->t);
  stop(&x->w);
}

/* A row is DIM floats, and as many of its state. */
static void compare(both *x) {
  same_counts(x->t, &x->m.count, 2 * DIM * 4);
}

/* Comes with the ids of S filled. */
static void both_hold(both *x, step *s) {
  const int64_t n = s->b.in.n_ids, passes = x->k.passes;
  group_rows(&s->b, s->row);
  ck_assert_ok(ts_tbe_prefetch(x->t, &s->b.in, x->w.lane));
  ck_assert_ok(ts_lane_sync(x->w.lane));
  model_hold(&x->m, s->row, n, (n + passes - 1) / passes, s->held);
  compare(x);
}

/* Updates the rows, unless WRITTEN is false, and lets them go. */
static void both_end(both *x, step *s, int pass, bool written) {
  static float grad[BATCH * WIDTH];
  const int64_t n = s->b.in.n_ids;
  if (written) {
    train_on(&x->w, x->t, &s->b, grad, pass);
    model_write(&x->m, s->row, n);
  } else {
    ck_assert_ok(ts_tbe_release(x->t, &s->b.in, x->w.lane));
    ck_assert_ok(ts_lane_sync(x->w.lane));
  }
  model_release(&x->m, s->row, n, s->held);
  compare(x);
  empty(&s->b, &x->w);
}

/* All load factors, passes and policies; the next batch is held before this
 * one is updated, as the prefetch pipeline has it, or after. */
TS_TESTS(counted, 0, 64) {
  static const double factors[] = {0.01, 0.1, 0.5, 1.0};
  static const int32_t passes[] = {1, 2, 4, 12};
  static step s[2];
  both x;
  const bool ahead = _i / 32;
  if (!strcmp(ts_test_backend(), "emulated") && _i % 5) return; /* it is slow */
  const kind k = {"cached",       _i / 16 % 2 ? "lfu" : "lru",
                  "host",         factors[_i / 4 % 4],
                  passes[_i % 4], 0};
  both_start(&x, &k);
  fill(&s[0].b, &x.w, 90, 8, true);
  both_hold(&x, &s[0]);
  for (int i = 0; i < 12; i++) {
    step *next = &s[(i + 1) % 2];
    if (!ahead) both_end(&x, &s[i % 2], i + 1, i % 4 != 3);
    fill(&next->b, &x.w, 91 + (uint64_t)i, 8, true);
    both_hold(&x, next);
    if (ahead) both_end(&x, &s[i % 2], i + 1, i % 4 != 3);
    if (i == 6 && !ahead) {
      ck_assert_ok(ts_tbe_flush(x.t));
      model_flush(&x.m);
    }
  }
  both_end(&x, &s[0], 20, true);
  if (k.load_factor < 0.5) ck_assert_int_gt(x.m.count.n_written, 0);
  if (k.load_factor < 0.05) ck_assert_int_gt(x.m.count.n_conflicts, 0);
  both_stop(&x);
}

/* Batches that are many, and small beside the lines: uses grow old. */
TS_TESTS(aged, 0, 2) {
  static step s;
  both x;
  const kind k = {"cached", _i ? "lfu" : "lru", "host", 0.05, 1, 0};
  both_start(&x, &k);
  for (int i = 0; i < 150; i++) {
    fill(&s.b, &x.w, 300 + (uint64_t)i, 1, true);
    both_hold(&x, &s);
    both_end(&x, &s, i + 1, i % 3 == 0);
  }
  ck_assert_int_gt(x.m.count.n_evicted, 20 * MODEL_WAYS);
  ck_assert_int_gt(x.m.count.n_written, 0);
  both_stop(&x);
}

/* ---- one set ------------------------------------------------------------- */

/* All rows of a batch in one set, twice as many as it has lines. */
TS_TEST(one_set) {
  static world w;
  static batch b;
  static float grad[BATCH * WIDTH], out[BATCH * WIDTH];
  const kind k = {"cached", "lru", "host", 0.1, 1, 0};
  const int64_t n_sets = ts_cache_lines_for(ROWS, k.load_factor) / 32;
  int32_t row[64];
  int n = 0;
  start(&w, "sgd", TS_F32, &k);
  for (int32_t r = 0; r < table_rows[0] && n < 64; r++)
    if (ts_cache_set(ts_cache_hash((uint32_t)r), n_sets) == 1) row[n++] = r;
  ck_assert_int_eq(n, 64);
  ts_tbe *t = group(&w);
  for (int s = 0; s < 3; s++) {
    fill(&b, &w, 1, 1, true);
    float *at = ts_test_lend(w.device, out, OUT_BYTES, true);
    /* Both features of the table have all of them, in their 64 bags. */
    for (int64_t i = 0; i < b.in.n_ids; i++)
      b.rows[i] = i / BATCH == 1 ? 5 : row[i % BATCH];
    if (b.in.rows != b.rows)
      ts_test_put(w.device, (void *)(uintptr_t)b.in.rows, b.rows,
                  (size_t)b.in.n_ids * sizeof *b.rows);
    ck_assert_ok(ts_tbe_forward(t, at, &b.in, w.lane));
    train_on(&w, t, &b, grad, s + 1);
    ts_test_reclaim(w.device, out, at, OUT_BYTES, false);
    empty(&b, &w);
  }
  const ts_tier_count c = counts(t);
  ck_assert_int_eq(c.n_unique, 3 * 65);
  ck_assert_int_eq(c.n_conflicts, 3 * 32);
  ck_assert_int_eq(c.n_hits, 2 * 33);
  ck_assert_int_eq(c.n_evicted, 0);
  ts_tbe_destroy(t);
  stop(&w);
}

static int64_t locks_of(const ts_tbe *t) {
  ts_tier_figures f;
  ck_assert(ts_tbe_figures(t, &f));
  return f.n_locks;
}

/* Two batches of the same rows, many times each: what the first releases the
 * second still has. */
TS_TEST(held_twice) {
  static world w;
  static batch b[2];
  const kind k = {"cached", "lru", "host", 1.0, 4, 0};
  start(&w, "sgd", TS_F32, &k);
  ts_tbe *t = group(&w);
  for (int s = 0; s < 2; s++) {
    fill(&b[s], &w, 1, 30, true);
    ck_assert_ok(ts_tbe_prefetch(t, &b[s].in, w.lane));
    ck_assert_ok(ts_tbe_prefetch(t, &b[s].in, w.lane)); /* once is enough */
  }
  ck_assert_ok(ts_lane_sync(w.lane));
  const ts_tier_count c = counts(t);
  const int64_t lines = c.n_misses - c.n_conflicts;
  ck_assert_int_eq(locks_of(t), 2 * lines);
  ck_assert_ok(ts_tbe_release(t, &b[0].in, w.lane));
  ck_assert_ok(ts_lane_sync(w.lane));
  ck_assert_int_eq(locks_of(t), lines);
  ck_assert_ok(ts_tbe_release(t, &b[1].in, w.lane));
  ck_assert_ok(ts_lane_sync(w.lane));
  ck_assert_int_eq(locks_of(t), 0);
  for (int s = 0; s < 2; s++) empty(&b[s], &w);
  ts_tbe_destroy(t);
  stop(&w);
}

#ifdef TS_FAULTS
/* A prefetch that fails on its own lane holds nothing, and another lane, which
 * has not failed, may be told to release it. */
TS_TEST(released_unheld) {
  static world w;
  static batch b;
  ts_lane *ahead = NULL;
  const kind k = {"cached", "lru", "host", 1.0, 4, 0};
  start(&w, "sgd", TS_F32, &k);
  ts_tbe *t = group(&w);
  ck_assert_ok(ts_lane_create(w.device, &ahead, "ahead", TS_LANE_DATA));
  fill(&b, &w, 1, 30, true);
  ck_assert_ok(ts_fault_set("alloc:0:1", 0));
  (void)ts_tbe_prefetch(t, &b.in, ahead);
  ck_assert_int_eq(ts_lane_sync(ahead), TS_ERR_NOMEM);
  ck_assert_ok(ts_fault_set(NULL, 0));
  ts_err_clear();
  ck_assert_ok(ts_tbe_release(t, &b.in, w.lane));
  ck_assert_ok(ts_lane_sync(w.lane));
  ck_assert_int_eq(locks_of(t), 0);
  empty(&b, &w);
  ts_lane_destroy(ahead);
  ts_tbe_destroy(t);
  stop(&w);
}
#endif

/* ---- what is given away -------------------------------------------------- */

/* A batch of N ids of ROW alone; true where it had a line. */
static bool meets(both *x, int32_t row, int64_t n) {
  static batch b;
  const int64_t before = counts(x->t).n_hits;
  fill_one(&b, &x->w, row, n);
  ck_assert_ok(ts_tbe_prefetch(x->t, &b.in, x->w.lane));
  ck_assert_ok(ts_tbe_release(x->t, &b.in, x->w.lane));
  ck_assert_ok(ts_lane_sync(x->w.lane));
  empty(&b, &x->w);
  return counts(x->t).n_hits > before;
}

/* In a cache of one set: by LRU the oldest goes, by LFU the least used, until
 * what was used long ago counts no more; then the oldest. */
TS_TESTS(policies, 0, 2) {
  both x;
  const bool lfu = _i;
  const kind k = {"cached", lfu ? "lfu" : "lru", "host", 0.001, 1, 0};
  both_start(&x, &k);
  for (int32_t row = 0; row < 32; row++) ck_assert(!meets(&x, row, 40 - row));
  ck_assert_int_eq(counts(x.t).n_evicted, 0);
  ck_assert(!meets(&x, 100, 1)); /* in the place of 0, or of 31 */
  ck_assert_int_eq(counts(x.t).n_evicted, 1);
  for (int i = 0; i < 8 * MODEL_HALF_LIFE; i++) ck_assert(meets(&x, 100, 1));
  ck_assert(!meets(&x, 101, 1)); /* in the place of 1, or of 0 */
  ck_assert(meets(&x, 100, 1));
  for (int32_t row = 2; row < 31; row++) ck_assert(meets(&x, row, 1));
  ck_assert(meets(&x, lfu ? 1 : 31, 1));
  ck_assert_int_eq(counts(x.t).n_evicted, 2);
  ck_assert_int_eq(counts(x.t).n_conflicts, 0);
  both_stop(&x);
}
