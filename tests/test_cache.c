/* test_cache.c - tables in slow memory against the same tables in fast
 * memory, bit for bit; the directory of lines and its counts against a plain
 * one; the scratch of passes.
 * ranks: 1  fake: 1
 * seconds: 300 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/store.h"
#include "sparse/cache.h"
#include "sparse/tbe.h"
#include "sparse_util.h"

enum { TABLES = 2, FEATURES = 3, BATCH = 64, DIM = 20, WIDTH = FEATURES * DIM };
enum { IDS = 40000, STEPS = 5, ROWS = 6500 };
static const int64_t table_rows[TABLES] = {4000, 2500};
static const int32_t feature_table[FEATURES] = {0, 1, 0};

/* How a group keeps its rows. */
typedef struct kind {
  const char *kernel, *policy, *tier;
  double load_factor;
  int32_t passes;
  int64_t min_pass;
} kind;

typedef struct world {
  ts_device *device;
  ts_lane *lane;
  ts_kernels kernels;
  ts_table_config config[TABLES];
  char dir[32];
} world;

static char *text(const char *s) {
  return (char *)(uintptr_t)s;
}

static void start(world *w, const char *optim, ts_dtype t, const kind *k) {
  static const char *const names[] = {"users", "items"};
  memset(w, 0, sizeof *w);
  ck_assert_ok(ts_test_kernels(&w->kernels));
  ck_assert_ok(ts_test_device(&w->device, false, 2));
  ck_assert_ok(ts_lane_create(w->device, &w->lane, "work", TS_LANE_COMPUTE));
  strcpy(w->dir, "/tmp/tessera-cache-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(w->dir));
  for (int i = 0; i < TABLES; i++) {
    ts_table_config *c = &w->config[i];
    *c = (ts_table_config){.name = text(names[i]),
                           .rows = table_rows[i],
                           .dim = DIM,
                           .dtype = t,
                           .kernel = text(k->kernel),
                           .init_scale = 0.5};
    c->cache.load_factor = k->load_factor;
    c->cache.policy = text(k->policy);
    c->cache.tier = text(k->tier);
    c->cache.passes = k->passes;
    c->cache.min_pass_size = k->min_pass;
    c->optimizer = (ts_optim_config){
        text(optim), i ? 0.25 : 0.5, NAN, NAN, NAN, NAN, NAN, NAN, TS_WD_NONE};
    ck_assert_ok(ts_row_optim_check(&c->optimizer, "t"));
  }
}

/* Nothing of a file is left under a name. */
static void stop(world *w) {
  ts_lane_destroy(w->lane);
  ts_device_destroy(w->device);
  ck_assert_int_eq(rmdir(w->dir), 0);
}

static ts_tbe *group(world *w) {
  ts_tbe *t = NULL;
  ts_tbe_table tables[TABLES];
  for (int i = 0; i < TABLES; i++)
    tables[i] = (ts_tbe_table){&w->config[i], 3 + i, 0, table_rows[i], 0, DIM};
  const ts_tbe_spec spec = {.tables = tables,
                            .n_tables = TABLES,
                            .feature_table = feature_table,
                            .n_features = FEATURES,
                            .seed = 42,
                            .tier_dir = w->dir};
  ck_assert_ok(ts_tbe_create(&t, w->device, &w->kernels, &spec));
  ck_assert_ok(ts_tbe_init(t));
  return t;
}

/* ---- batches ------------------------------------------------------------- */

typedef struct batch {
  ts_tbe_input in, host; /* as kernels and as the test may touch it */
  ts_tbe_hold hold;
  int64_t starts[FEATURES + 1], at[FEATURES * BATCH];
  int64_t offsets[FEATURES * BATCH + 1];
  int32_t rows[IDS];
} batch;

/* Bags of PER_BAG ids; the hotter half of them are among a tenth of the
 * rows, so that batches share many and differ in many. */
static void fill(batch *b, world *w, uint64_t seed, int per_bag, bool cached) {
  int64_t n = 0;
  for (int bag = 0; bag < FEATURES * BATCH; bag++) {
    const int f = bag / BATCH;
    if (bag % BATCH == 0) b->starts[f] = bag;
    b->at[bag] = bag % BATCH * WIDTH + f * DIM;
    b->offsets[bag] = n;
    for (int i = 0; i < per_bag; i++) {
      const uint32_t rows = (uint32_t)table_rows[feature_table[f]];
      const bool hot = test_random(&seed) & 1;
      b->rows[n++] = (int32_t)(test_random(&seed) % (hot ? rows / 10 : rows));
    }
  }
  ck_assert_int_le(n, IDS);
  b->starts[FEATURES] = FEATURES * BATCH;
  b->offsets[FEATURES * BATCH] = n;
  b->host = (ts_tbe_input){.bag_start = b->starts,
                           .offsets = b->offsets,
                           .at = b->at,
                           .rows = b->rows,
                           .n_ids = n,
                           .hold = cached ? &b->hold : NULL};
  b->in = test_lend_input(w->device, &b->host, FEATURES);
  b->hold = (ts_tbe_hold){.slots = {.space = TS_SPACE_DEVICE,
                                    .tag = TS_TAG_SPARSE,
                                    .owned = true,
                                    .device = w->device}};
}

static void empty(batch *b, world *w) {
  ts_buffer_reset(&b->hold.slots);
  test_reclaim_input(w->device, &b->in, &b->host, FEATURES);
}

enum { OUT_BYTES = BATCH * WIDTH * sizeof(float) };

/* One pass back, with GRAD of the host. */
static void train_on(world *w, ts_tbe *t, batch *b, const float *grad,
                     int64_t pass) {
  float *at = ts_test_lend(w->device, grad, OUT_BYTES, true);
  ck_assert_ok(ts_tbe_backward(t, at, &b->in, 1.0, pass, w->lane));
  ck_assert_ok(ts_tbe_release(t, &b->in, w->lane));
  ck_assert_ok(ts_lane_sync(w->lane));
  ts_test_reclaim(w->device, grad, at, OUT_BYTES, false);
}

static uint32_t group_row(const batch *b, int64_t i) {
  const int64_t per_feature = b->in.n_ids / FEATURES;
  return (uint32_t)(b->rows[i] +
                    (feature_table[i / per_feature] ? table_rows[0] : 0));
}

/* ---- twins --------------------------------------------------------------- */

/* Sum over both tables. */
static ts_tier_count counts(ts_tbe *t) {
  ts_tier_figures f;
  ts_tier_count sum = {0};
  ck_assert(ts_tbe_figures(t, &f));
  int64_t *to = (int64_t *)(void *)&sum;
  for (int i = 0; i < TABLES; i++)
    for (size_t k = 0; k < sizeof sum / 8; k++)
      to[k] += ((const int64_t *)(const void *)&f.count[i])[k];
  return sum;
}

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

/* ---- rows in files ------------------------------------------------------- */

enum { FILE_ROWS = 60000, FILE_BYTES = 300, MOVED = 3000, ALL_PAGES = 5000 };

static char byte_of(int64_t row, int64_t k, int age) {
  return (char)(row * 31 + k * 7 + age * 101);
}

static bool holds(const char *p, int64_t row, int age) {
  for (int64_t k = 0; k < FILE_BYTES; k++)
    if (p[k] != byte_of(row, k, age)) return false;
  return true;
}

/* Rows to lines, changed there, and back. */
static void there_and_back(ts_store *s, const uint32_t *rows,
                           const uint32_t *slots, int age) {
  ck_assert_ok(ts_store_read(s, rows, slots, MOVED));
  for (int i = 0; i < MOVED; i++) {
    char *line = ts_store_at(s, slots[i]);
    ck_assert(holds(line, rows[i], age));
    for (int64_t k = 0; k < FILE_BYTES; k++)
      line[k] = byte_of(rows[i], k, age + 1);
  }
  ck_assert_ok(ts_store_write(s, rows, slots, MOVED));
  for (int i = 0; i < MOVED; i++)
    ck_assert(holds(ts_store_at(s, rows[i]), rows[i], age + 1));
}

static bool lacks_pages(const ts_store *s) {
  static unsigned char there[ALL_PAGES];
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t n = (s->slow_bytes + page - 1) / page;
  bool lacks = false;
  ck_assert_int_le(n, ALL_PAGES);
  ck_assert_int_eq(mincore(s->base, (size_t)s->slow_bytes, there), 0);
  for (int64_t i = 0; i < n; i++) lacks = lacks || !(there[i] & 1);
  return lacks;
}

/* The same rows come and go whether pages are in memory or not; the store
 * finds out which, where the file system lets pages be forgotten. */
START_TEST(cold_and_warm) {
  static uint32_t rows[MOVED], slots[MOVED];
  ts_store s;
  struct stat st;
  char dir[] = "./tessera-cache-XXXXXX";
  ck_assert_ptr_nonnull(mkdtemp(dir));
  ck_assert_ok(
      ts_store_create(&s, dir, FILE_ROWS, MOVED, FILE_BYTES, TS_TAG_TABLES));
  ck_assert_int_eq(fstat(s.fd, &st), 0);
  ck_assert_int_ge(st.st_blocks * 512, (int64_t)FILE_ROWS * FILE_BYTES);
  for (int i = 0; i < MOVED; i++) {
    rows[i] = (uint32_t)(i * (FILE_ROWS / MOVED) + i % 7);
    slots[i] = (uint32_t)(s.first_line + i * 7 % MOVED);
    for (int64_t k = 0; k < FILE_BYTES; k++)
      ts_store_at(&s, rows[i])[k] = byte_of(rows[i], k, 0);
  }
  for (int age = 0; age < 2; age++) {
    s.cold = age;
    there_and_back(&s, rows, slots, age);
  }
  ck_assert_int_eq(madvise(s.base, (size_t)s.slow_bytes, MADV_DONTNEED), 0);
  ck_assert_int_eq(fdatasync(s.fd), 0);
  (void)posix_fadvise(s.fd, 0, 0, POSIX_FADV_DONTNEED);
  const bool lacks = lacks_pages(&s);
  s.cold = 0;
  there_and_back(&s, rows, slots, 2);
  ck_assert(!lacks || s.cold);
  s.cold = 1;
  ts_store_look(&s, rows, MOVED); /* all of them were moved just now */
  ck_assert(!s.cold);
  ts_store_ask(&s, rows, MOVED);
  there_and_back(&s, rows, slots, 3);
  ts_store_reset(&s);
  ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* Files that others have, or that a killed process left, are in nobody's way.
 */
START_TEST(names_are_free) {
  enum { LEFT = 2000 };
  char dir[] = "./tessera-cache-XXXXXX", path[80];
  ts_store s;
  ck_assert_ptr_nonnull(mkdtemp(dir));
  for (int i = 0; i < LEFT; i++) {
    snprintf(path, sizeof path, "%s/tessera-%ld-%d.tier", dir, (long)getpid(),
             i);
    const int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_ge(fd, 0);
    close(fd);
  }
  const ts_err err = ts_store_create(&s, dir, 10, 32, 64, TS_TAG_TABLES);
  for (int i = 0; i < LEFT; i++) {
    snprintf(path, sizeof path, "%s/tessera-%ld-%d.tier", dir, (long)getpid(),
             i);
    unlink(path);
  }
  ck_assert_ok(err);
  ts_store_reset(&s);
  ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* ---- a full disk --------------------------------------------------------- */

START_TEST(no_room) {
  ts_store s;
  char dir[] = "/tmp/tessera-cache-XXXXXX";
  ts_err_clear();
  ck_assert_ptr_nonnull(mkdtemp(dir));
  ck_assert_int_eq(
      ts_store_create(&s, dir, INT64_C(1) << 32, 32, 4096, TS_TAG_TABLES),
      TS_ERR_IO);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), dir));
  ts_err_clear();
  ck_assert_int_eq(
      ts_store_create(&s, "/nowhere/at/all", 10, 32, 64, TS_TAG_TABLES),
      TS_ERR_IO);
  ts_err_clear();
  ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("cache");
  TCase *tc = tcase_create("cache");
  tcase_add_loop_test(tc, twins, 0, 16);
  tcase_add_loop_test(tc, counted, 0, 16);
  tcase_add_test(tc, one_set);
  tcase_add_test(tc, held_twice);
  tcase_add_test(tc, policies);
  tcase_add_test(tc, passes_need_less);
  tcase_add_test(tc, cold_and_warm);
  tcase_add_test(tc, names_are_free);
  tcase_add_test(tc, no_room);
  suite_add_tcase(s, tc);
  return s;
}

TS_TEST_MAIN(suite)
