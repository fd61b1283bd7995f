/* tbe_group.h - a group of two tables and batches for it, all in memory of the
 * device. */
#pragma once

#include "tests/support/optim_config.h"
#include "tests/support/sparse_util.h"

enum { TABLES = 2, FEATURES = 3, BATCH = 60, DIM = 20, WIDTH = FEATURES * DIM };
static const int64_t table_rows[TABLES] = {40, 25};
static const int32_t feature_table[FEATURES] = {0, 1, 0};
static const int32_t feature_col[FEATURES] = {0, DIM, 2 * DIM};

typedef struct {
  ts_device *device;
  ts_lane *lane;
  ts_kernels kernels;
  ts_table_config config[TABLES];
} world;

static inline void start(world *w, const char *kind, ts_dtype t, int threads,
                         bool serial) {
  static char names[TABLES][8] = {"users", "items"};
  memset(w, 0, sizeof *w);
  ck_assert_ok(ts_test_kernels(&w->kernels));
  ck_assert_ok(ts_test_device(&w->device, serial, threads));
  ck_assert_int_eq(ts_lane_create(w->device, &w->lane, "work", TS_LANE_COMPUTE),
                   TS_OK);
  for (int i = 0; i < TABLES; i++) {
    w->config[i] = (ts_table_config){.name = names[i],
                                     .rows = table_rows[i],
                                     .dim = DIM,
                                     .dtype = t,
                                     .init_scale = 0.5};
    w->config[i].optimizer = test_optim(kind, i ? 0.25 : 0.5);
    ck_assert_int_eq(ts_row_optim_check(&w->config[i].optimizer, "t"), TS_OK);
  }
}

static inline void stop(world *w) {
  ts_lane_destroy(w->lane);
  ts_device_destroy(w->device);
}

/* N elements in memory of the device, which is grown and kept. */
static inline void *send(world *w, ts_buffer *b, const void *x, int64_t n,
                         size_t size) {
  if (!b->device)
    *b = (ts_buffer){.space = TS_SPACE_DEVICE,
                     .tag = TS_TAG_MISC,
                     .owned = true,
                     .device = w->device};
  ck_assert_ok(ts_buffer_reserve(b, (size_t)n * size + 1));
  ts_test_put(w->device, b->ptr, x, (size_t)n * size);
  return b->ptr;
}

/* Rows [from, to) of both tables, in hundredths of their number. */
static inline ts_tbe *group(world *w, int from, int to, bool mean) {
  ts_tbe *t = NULL;
  ts_tbe_table tables[TABLES];
  for (int i = 0; i < TABLES; i++) {
    const int64_t first = table_rows[i] * from / 100;
    tables[i] = (ts_tbe_table){.config = &w->config[i],
                               .table_id = 10 + i,
                               .first_row = first,
                               .n_rows = table_rows[i] * to / 100 - first,
                               .n_cols = DIM};
  }
  const ts_tbe_spec spec = {.tables = tables,
                            .n_tables = TABLES,
                            .feature_table = feature_table,
                            .n_features = FEATURES,
                            .mean = mean,
                            .seed = 42};
  ck_assert_int_eq(ts_tbe_create(&t, w->device, &w->kernels, &spec), TS_OK);
  ck_assert_int_eq(ts_tbe_init(t), TS_OK);
  return t;
}

/* A batch: bags of 0 to 8 ids, one of 700 that are all the same. */
typedef struct {
  ts_tbe_input in;
  int64_t starts[FEATURES + 1], at[FEATURES * BATCH];
  int64_t offsets[FEATURES * BATCH + 1];
  int32_t rows[FEATURES * BATCH * 8 + 700];
  float weights[FEATURES * BATCH * 8 + 700];
  ts_buffer there[5]; /* offsets, at, rows, weights, gradients */
} batch;

static inline void drop(batch *b) {
  for (int i = 0; i < TEST_COUNT(b->there); i++) ts_buffer_reset(&b->there[i]);
}

/* Bags [first, end) of every feature of the whole batch SEED, and of those
 * the ids in rows [from, to) hundredths, counted from there. */
static inline void fill(world *w, batch *b, uint64_t seed, bool weighted,
                        int first, int end, int from, int to) {
  int64_t n = 0;
  int bag = 0;
  test_floats(b->weights, TEST_COUNT(b->weights), seed);
  b->starts[0] = 0;
  for (int f = 0; f < FEATURES; f++) {
    for (int s = 0; s < BATCH; s++) {
      const int64_t rows = table_rows[feature_table[f]];
      const bool same = f == 0 && s == 11;
      const uint32_t length = same ? 700 : test_random(&seed) % 9;
      if (s >= first && s < end) {
        b->at[bag] = (s - first) * WIDTH + feature_col[f];
        b->offsets[bag++] = n;
      }
      for (uint32_t i = 0; i < length; i++) {
        const int64_t id = same ? 5 : test_random(&seed) % rows;
        if (s < first || s >= end || id < rows * from / 100 ||
            id >= rows * to / 100)
          continue;
        b->rows[n++] = (int32_t)(id - rows * from / 100);
      }
    }
    b->starts[f + 1] = bag;
  }
  b->offsets[bag] = n;
  b->in = (ts_tbe_input){
      .bag_start = b->starts,
      .offsets = send(w, &b->there[0], b->offsets, bag + 1, 8),
      .at = send(w, &b->there[1], b->at, bag, 8),
      .rows = send(w, &b->there[2], b->rows, n, 4),
      .weights = weighted ? send(w, &b->there[3], b->weights, n, 4) : NULL,
      .n_ids = n};
}

static inline void train(world *w, ts_tbe *t, batch *b, const float *grad,
                         int64_t pass) {
  const float *there = send(w, &b->there[4], grad, BATCH * WIDTH, 4);
  ck_assert_ok(ts_tbe_backward(t, there, &b->in, 1.0, pass, w->lane));
  ck_assert_int_eq(ts_lane_sync(w->lane), TS_OK);
}

/* A copy of state K of table I (-1: the weights); its bytes to *BYTES. */
static inline void *rows_of(const world *w, ts_tbe *t, int i, int k,
                            size_t *bytes) {
  int32_t cols;
  ts_dtype type;
  const void *p = ts_tbe_rows(t, i, k, &cols, &type);
  *bytes = (size_t)(ts_tbe_table_of(t, i)->n_rows * ts_row_bytes(type, cols));
  void *copy = test_alloc((int64_t)*bytes, 1);
  ts_test_get(w->device, copy, p, *bytes);
  return copy;
}

static inline float *weights_of(const world *w, ts_tbe *t, int i) {
  size_t bytes;
  float *p = rows_of(w, t, i, -1, &bytes);
  ck_assert_uint_eq(bytes, (size_t)(table_rows[i] * DIM) * 4);
  return p;
}
