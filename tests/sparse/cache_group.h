/* cache_group.h - a group of two tables in slow memory, and batches for it:
 * what the tests of the cache share. */
#pragma once

#include <unistd.h>

#include "tests/support/sparse_util.h"

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

static inline char *text(const char *s) {
  return (char *)(uintptr_t)s;
}

static inline void start(world *w, const char *optim, ts_dtype t,
                         const kind *k) {
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
        text(optim), i ? 0.25 : 0.5, NAN, NAN, NAN, NAN, NAN, NAN,
        0,           TS_WD_NONE};
    ck_assert_ok(ts_row_optim_check(&c->optimizer, "t"));
  }
}

/* Nothing of a file is left under a name. */
static inline void stop(world *w) {
  ts_lane_destroy(w->lane);
  ts_device_destroy(w->device);
  ck_assert_int_eq(rmdir(w->dir), 0);
}

static inline ts_tbe *group(world *w) {
  ts_tbe *t = NULL;
  ts_tbe_table tables[TABLES];
  for (int i = 0; i < TABLES; i++)
    tables[i] = (ts_tbe_table){.config = &w->config[i],
                               .table_id = 3 + i,
                               .n_rows = table_rows[i],
                               .n_cols = DIM};
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

/* The N ids of B, whose bags begin at its offsets. */
static inline void send(batch *b, world *w, int64_t n, bool cached) {
  ck_assert_int_le(n, IDS);
  for (int f = 0; f <= FEATURES; f++) b->starts[f] = f * BATCH;
  for (int bag = 0; bag < FEATURES * BATCH; bag++)
    b->at[bag] = bag % BATCH * WIDTH + bag / BATCH * DIM;
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

/* Bags of PER_BAG ids; the hotter half of them are among a tenth of the
 * rows, so that batches share many and differ in many. */
static inline void fill(batch *b, world *w, uint64_t seed, int per_bag,
                        bool cached) {
  int64_t n = 0;
  for (int bag = 0; bag < FEATURES * BATCH; bag++) {
    b->offsets[bag] = n;
    for (int i = 0; i < per_bag; i++) {
      const uint32_t rows = (uint32_t)table_rows[feature_table[bag / BATCH]];
      const bool hot = test_random(&seed) & 1;
      b->rows[n++] = (int32_t)(test_random(&seed) % (hot ? rows / 10 : rows));
    }
  }
  send(b, w, n, cached);
}

/* N ids of ROW of the first table, in one bag. */
static inline void fill_one(batch *b, world *w, int32_t row, int64_t n) {
  for (int bag = 1; bag < FEATURES * BATCH; bag++) b->offsets[bag] = n;
  for (int64_t i = 0; i < n; i++) b->rows[i] = row;
  send(b, w, n, true);
}

static inline void empty(batch *b, world *w) {
  ts_buffer_reset(&b->hold.slots);
  test_reclaim_input(w->device, &b->in, &b->host, FEATURES);
}

enum { OUT_BYTES = BATCH * WIDTH * sizeof(float) };

/* One pass back, with GRAD of the host. */
static inline void train_on(world *w, ts_tbe *t, batch *b, const float *grad,
                            int64_t pass) {
  float *at = ts_test_lend(w->device, grad, OUT_BYTES, true);
  ck_assert_ok(ts_tbe_backward(t, at, &b->in, 1.0, pass, w->lane));
  ck_assert_ok(ts_tbe_release(t, &b->in, w->lane));
  ck_assert_ok(ts_lane_sync(w->lane));
  ts_test_reclaim(w->device, grad, at, OUT_BYTES, false);
}

/* The group's rows of B. */
static inline void group_rows(const batch *b, uint32_t *row) {
  for (int f = 0; f < FEATURES; f++)
    for (int64_t i = b->offsets[f * BATCH]; i < b->offsets[(f + 1) * BATCH];
         i++)
      row[i] = (uint32_t)(b->rows[i] + (feature_table[f] ? table_rows[0] : 0));
}

/* Sum over both tables. */
static inline ts_tier_count counts(ts_tbe *t) {
  ts_tier_figures f;
  ts_tier_count sum = {0};
  ck_assert(ts_tbe_figures(t, &f));
  int64_t *to = (int64_t *)(void *)&sum;
  for (int i = 0; i < TABLES; i++)
    for (size_t k = 0; k < sizeof sum / 8; k++)
      to[k] += ((const int64_t *)(const void *)&f.count[i])[k];
  return sum;
}

/* BYTES of a row move. */
static inline void same_counts(ts_tbe *t, const ts_tier_count *m,
                               int64_t bytes) {
  const ts_tier_count c = counts(t);
  ck_assert_int_eq(c.n_ids, m->n_ids);
  ck_assert_int_eq(c.n_unique, m->n_unique);
  ck_assert_int_eq(c.n_hits, m->n_hits);
  ck_assert_int_eq(c.n_misses, m->n_misses);
  ck_assert_int_eq(c.n_conflicts, m->n_conflicts);
  ck_assert_int_eq(c.n_evicted, m->n_evicted);
  ck_assert_int_eq(c.n_written, m->n_written);
  ck_assert_int_eq(c.bytes_in, (m->n_misses - m->n_conflicts) * bytes);
  ck_assert_int_eq(c.bytes_out, m->n_written * bytes);
}
