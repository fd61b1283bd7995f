/* test_cache_lines.c - the cache's directory of lines: its counts against a
 * plain one, full sets, locks, what is given away.
 * ranks: 1  fake: 1 */
#include "tests/sparse/cache_group.h"
#include "sparse/cache.h"

/* ---- counts against a plain directory ------------------------------------ */

typedef struct plain_line {
  uint32_t row;
  int64_t used;
  int locks;
  bool dirty, full;
} plain_line;

typedef struct plain {
  plain_line line[ROWS + 32];
  ts_tier_count count;
} plain;

/* Devices apart take rows in the order of their hashes, which the cache of the
 * host has for its sets. */
static bool apart;

static uint32_t rank_of(uint32_t row) {
  const ts_cache whole = {.n_sets = INT64_C(1) << 32};
  return apart ? (uint32_t)ts_cache_set_of(&whole, row) : row;
}

static int by_rank(const void *a, const void *b) {
  const uint32_t x = rank_of(*(const uint32_t *)a);
  const uint32_t y = rank_of(*(const uint32_t *)b);
  return (x > y) - (x < y);
}

static plain_line *plain_find(plain *p, int64_t set, uint32_t row) {
  for (int i = 0; i < 32; i++) {
    plain_line *l = &p->line[set * 32 + i];
    if (l->full && l->row == row) return l;
  }
  return NULL;
}

/* The free line, else the unlocked one that was used longest ago. */
static plain_line *plain_victim(plain *p, int64_t set) {
  plain_line *best = NULL;
  for (int i = 0; i < 32; i++) {
    plain_line *l = &p->line[set * 32 + i];
    if (!l->full) return l;
    if (!l->locks && (!best || l->used < best->used)) best = l;
  }
  return best;
}

/* One batch, held and released alone, its rows written. */
static void plain_step(plain *p, const ts_cache *sets, const batch *b,
                       int64_t step) {
  static uint32_t row[IDS];
  const int64_t n = b->in.n_ids;
  p->count.n_ids += n;
  for (int64_t i = 0; i < n; i++) row[i] = group_row(b, i);
  qsort(row, (size_t)n, sizeof *row, by_rank);
  for (int round = 0; round < 2; round++)
    for (int64_t i = 0; i < n; i++) {
      const int64_t set = ts_cache_set_of(sets, row[i]);
      plain_line *l = plain_find(p, set, row[i]);
      if (i && row[i] == row[i - 1]) continue;
      if (round == 0) {
        p->count.n_unique++;
        if (l) l->used = step, l->locks = 1, p->count.n_hits++;
        if (!l) p->count.n_misses++;
        continue;
      }
      if (l) continue;
      l = plain_victim(p, set);
      if (!l) {
        p->count.n_conflicts++;
        continue;
      }
      p->count.n_evicted += l->full;
      p->count.n_written += l->full && l->dirty;
      *l = (plain_line){row[i], step, 1, false, true};
    }
  for (int i = 0; i < ROWS + 32; i++) {
    plain_line *l = &p->line[i];
    if (l->locks) l->dirty = true;
    l->locks = 0;
  }
}

START_TEST(counted) {
  static const double factors[] = {0.01, 0.1, 0.5, 1.0};
  static const int32_t passes[] = {1, 2, 4, 12};
  static world w;
  static batch b;
  static plain p;
  static float grad[BATCH * WIDTH];
  const kind k = {"cached", "lru", "host", factors[_i / 4], passes[_i % 4], 0};
  ts_cache sets;
  memset(&p, 0, sizeof p);
  start(&w, "sgd", TS_F32, &k);
  ck_assert_ok(ts_cache_create(&sets, ROWS, k.load_factor, false));
  apart = ts_device_is_apart(w.device);
  ts_tbe *t = group(&w);
  for (int s = 0; s < 12; s++) {
    fill(&b, &w, 90 + (uint64_t)s, 8, true);
    ck_assert_ok(ts_tbe_prefetch(t, &b.in, w.lane));
    train_on(&w, t, &b, grad, s + 1);
    plain_step(&p, &sets, &b, s + 1);
    empty(&b, &w);
    const ts_tier_count c = counts(t);
    ck_assert_int_eq(c.n_ids, p.count.n_ids);
    ck_assert_int_eq(c.n_unique, p.count.n_unique);
    if (k.passes > 1 && s) continue; /* other rows may find no line */
    ck_assert_int_eq(c.n_hits, p.count.n_hits);
    ck_assert_int_eq(c.n_misses, p.count.n_misses);
    ck_assert_int_eq(c.n_conflicts, p.count.n_conflicts);
    if (k.passes > 1) continue;
    ck_assert_int_eq(c.n_evicted, p.count.n_evicted);
    ck_assert_int_eq(c.n_written, p.count.n_written);
    ck_assert_int_eq(c.bytes_in, (c.n_misses - c.n_conflicts) * DIM * 4);
    ck_assert_int_eq(c.bytes_out, c.n_written * DIM * 4);
  }
  ts_cache_reset(&sets);
  ts_tbe_destroy(t);
  stop(&w);
}
END_TEST

/* ---- one set ------------------------------------------------------------- */

/* All rows of a batch in one set, twice as many as it has lines. */
START_TEST(one_set) {
  static world w;
  static batch b;
  static float grad[BATCH * WIDTH], out[BATCH * WIDTH];
  const kind k = {"cached", "lru", "host", 0.1, 1, 0};
  ts_cache sets;
  int32_t row[64];
  int n = 0;
  start(&w, "sgd", TS_F32, &k);
  ck_assert_ok(ts_cache_create(&sets, ROWS, k.load_factor, false));
  for (int32_t r = 0; r < table_rows[0] && n < 64; r++)
    if (ts_cache_set_of(&sets, (uint32_t)r) == 1) row[n++] = r;
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
  ts_cache_reset(&sets);
  ts_tbe_destroy(t);
  stop(&w);
}
END_TEST

static int64_t locks_of(const ts_tbe *t) {
  ts_tier_figures f;
  ck_assert(ts_tbe_figures(t, &f));
  return f.n_locks;
}

/* Two batches of the same rows, many times each: what the first releases the
 * second still has. */
START_TEST(held_twice) {
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
END_TEST

static int64_t line_of(ts_cache *c, uint32_t row, uint32_t *old) {
  bool dirty;
  return ts_cache_take(c, row, old, &dirty);
}

/* What is given away: by LRU the oldest, by LFU the least used, until what
 * was used long ago counts no more. */
START_TEST(policies) {
  for (int lfu = 0; lfu < 2; lfu++) {
    ts_cache c;
    uint32_t old;
    ck_assert_ok(ts_cache_create(&c, 32, 1.0, lfu));
    ck_assert_int_eq(ts_cache_n_lines(&c), 32);
    for (uint32_t row = 0; row < 32; row++) {
      ts_cache_begin(&c);
      const int64_t line = line_of(&c, row, &old);
      ck_assert_uint_eq(old, TS_CACHE_NONE);
      for (uint32_t i = row; i < 40; i++) (void)ts_cache_use(&c, line);
      ts_cache_round_begin(&c);
      ck_assert(ts_cache_unlock(&c, line));
      ck_assert(!ts_cache_unlock(&c, line));
    }
    ts_cache_begin(&c);
    const int64_t line = line_of(&c, 100, &old);
    ck_assert_uint_eq(old, lfu ? 31 : 0);
    ck_assert_int_eq(ts_cache_find(&c, 100), line);
    ck_assert_int_eq(ts_cache_find(&c, old), -1);
    for (int i = 0; i < 8 * TS_CACHE_AGE; i++) ts_cache_begin(&c);
    /* The locked one stays; of those that have aged away the oldest goes. */
    (void)line_of(&c, 101, &old);
    ck_assert_uint_eq(old, lfu ? 0 : 1);
    ts_cache_reset(&c);
  }
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("cache lines");
  TCase *tc = tcase_create("cache lines");
  tcase_add_loop_test(tc, counted, 0, 16);
  tcase_add_test(tc, one_set);
  tcase_add_test(tc, held_twice);
  tcase_add_test(tc, policies);
  suite_add_tcase(s, tc);
  return s;
}

TS_TEST_MAIN(suite)
