/* test_tbe.c - groups of tables: forward and backward against dense sums in
 * double, the same bits on any number of threads, lanes and shards of the
 * rows, replicas that agree.  Inputs, outputs and rows are device memory.
 * ranks: 1  fake: 1
 * seconds: 400 */
#include "sparse/tbe.h"
#include "sparse_util.h"

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

static void start(world *w, const char *kind, ts_dtype t, int threads,
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
    w->config[i].optimizer = (ts_optim_config){.kind = (char *)(uintptr_t)kind,
                                               .lr = i ? 0.25 : 0.5,
                                               .eps = NAN,
                                               .beta1 = NAN,
                                               .beta2 = NAN,
                                               .momentum = NAN,
                                               .eta = NAN,
                                               .weight_decay = NAN};
    ck_assert_int_eq(ts_row_optim_check(&w->config[i].optimizer, "t"), TS_OK);
  }
}

static void stop(world *w) {
  ts_lane_destroy(w->lane);
  ts_device_destroy(w->device);
}

/* N elements in memory of the device, which is grown and kept. */
static void *send(world *w, ts_buffer *b, const void *x, int64_t n,
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
static ts_tbe *group(world *w, int from, int to, bool mean) {
  ts_tbe *t = NULL;
  ts_tbe_table tables[TABLES];
  for (int i = 0; i < TABLES; i++) {
    const int64_t first = table_rows[i] * from / 100;
    tables[i] = (ts_tbe_table){
        &w->config[i], 10 + i, first, table_rows[i] * to / 100 - first, 0, DIM};
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

static void drop(batch *b) {
  for (int i = 0; i < TEST_COUNT(b->there); i++) ts_buffer_reset(&b->there[i]);
}

/* Bags [first, end) of every feature of the whole batch SEED, and of those
 * the ids in rows [from, to) hundredths, counted from there. */
static void fill(world *w, batch *b, uint64_t seed, bool weighted, int first,
                 int end, int from, int to) {
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

static void train(world *w, ts_tbe *t, batch *b, const float *grad,
                  int64_t pass) {
  const float *there = send(w, &b->there[4], grad, BATCH * WIDTH, 4);
  ck_assert_ok(ts_tbe_backward(t, there, &b->in, 1.0, pass, w->lane));
  ck_assert_int_eq(ts_lane_sync(w->lane), TS_OK);
}

/* A copy of state K of table I (-1: the weights); its bytes to *BYTES. */
static void *rows_of(const world *w, ts_tbe *t, int i, int k, size_t *bytes) {
  int32_t cols;
  ts_dtype type;
  const void *p = ts_tbe_rows(t, i, k, &cols, &type);
  *bytes =
      (size_t)(ts_tbe_table_of(t, i)->n_rows * cols) * ts_dtype_bytes(type);
  void *copy = test_alloc((int64_t)*bytes, 1);
  ts_test_get(w->device, copy, p, *bytes);
  return copy;
}

static float *weights_of(const world *w, ts_tbe *t, int i) {
  size_t bytes;
  float *p = rows_of(w, t, i, -1, &bytes);
  ck_assert_uint_eq(bytes, (size_t)(table_rows[i] * DIM) * 4);
  return p;
}

/* ---- forward and backward against double ------------------------------------
 */

static void check_forward(const world *w, ts_tbe *t, const batch *b,
                          const float *out, bool mean) {
  float *rows[TABLES];
  for (int i = 0; i < TABLES; i++) rows[i] = weights_of(w, t, i);
  for (int f = 0; f < FEATURES; f++)
    for (int s = 0; s < BATCH; s++)
      for (int d = 0; d < DIM; d++) {
        const int64_t from = b->offsets[f * BATCH + s];
        const int64_t to = b->offsets[f * BATCH + s + 1];
        double sum = 0;
        for (int64_t i = from; i < to; i++)
          sum += (b->in.weights ? b->weights[i] : 1.0) *
                 rows[feature_table[f]][b->rows[i] * DIM + d];
        if (mean && to > from) sum /= (double)(to - from);
        ck_assert_double_eq_tol(out[s * WIDTH + f * DIM + d], sum,
                                2e-5 * (10 + fabs(sum)));
      }
  for (int i = 0; i < TABLES; i++) free(rows[i]);
}

/* OUT is sent, written by the forward pass and fetched. */
static void forward(world *w, ts_tbe *t, const batch *b, float *out) {
  ts_buffer there = {0};
  float *p = send(w, &there, out, BATCH * WIDTH, 4);
  ck_assert_ok(ts_tbe_forward(t, p, &b->in, w->lane));
  ck_assert_ok(ts_lane_sync(w->lane));
  ts_test_get(w->device, out, p, BATCH * WIDTH * 4);
  ts_buffer_reset(&there);
}

static void check_weights(const world *w, ts_tbe *t, double *const *expect) {
  for (int i = 0; i < TABLES; i++) {
    float *rows = weights_of(w, t, i);
    for (int k = 0; k < table_rows[i] * DIM; k++)
      ck_assert_double_eq_tol(rows[k], expect[i][k],
                              2e-5 * (10 + fabs(expect[i][k])));
    free(rows);
  }
}

/* SGD on dense gradients. */
static void oracle(double *w[TABLES], const batch *b, const float *grad,
                   bool mean) {
  double g[TABLES][40 * DIM] = {{0}};
  for (int f = 0; f < FEATURES; f++)
    for (int s = 0; s < BATCH; s++) {
      const int64_t from = b->offsets[f * BATCH + s];
      const int64_t to = b->offsets[f * BATCH + s + 1];
      for (int64_t i = from; i < to; i++)
        for (int d = 0; d < DIM; d++)
          g[feature_table[f]][b->rows[i] * DIM + d] +=
              (b->in.weights ? b->weights[i] : 1.0) *
              grad[s * WIDTH + f * DIM + d] / (mean ? (double)(to - from) : 1);
    }
  for (int t = 0; t < TABLES; t++)
    for (int i = 0; i < table_rows[t] * DIM; i++)
      w[t][i] -= (t ? 0.25 : 0.5) * g[t][i];
}

static void check_dense(bool weighted, bool mean) {
  world w;
  batch b = {.in = {0}};
  start(&w, "sgd", TS_F32, 2, false);
  ts_tbe *t = group(&w, 0, 100, mean);
  float *grad = test_alloc(BATCH * WIDTH, 4),
        *out = test_alloc(BATCH * WIDTH, 4);
  double *expect[TABLES];
  for (int i = 0; i < TABLES; i++) {
    expect[i] = test_alloc(table_rows[i] * DIM, 8);
    float *rows = weights_of(&w, t, i);
    for (int k = 0; k < table_rows[i] * DIM; k++) expect[i][k] = rows[k];
    free(rows);
  }
  for (int pass = 1; pass <= 5; pass++) {
    fill(&w, &b, (uint64_t)pass, weighted, 0, BATCH, 0, 100);
    test_floats(grad, BATCH * WIDTH, 100 + (uint64_t)pass);
    for (int i = 0; i < BATCH * WIDTH; i++) grad[i] *= 0.1f;
    forward(&w, t, &b, out);
    check_forward(&w, t, &b, out, mean);
    train(&w, t, &b, grad, pass);
    oracle(expect, &b, grad, mean);
    check_weights(&w, t, expect);
  }
  drop(&b);
  for (int i = 0; i < TABLES; i++) free(expect[i]);
  free(grad);
  free(out);
  ts_tbe_destroy(t);
  stop(&w);
}

START_TEST(against_double) {
  for (int mode = 0; mode < 4; mode++) check_dense(mode & 1, mode & 2);
}
END_TEST

/* ---- same bits --------------------------------------------------------------
 */

/* Four passes in shards of rows [cut[i], cut[i + 1]); tables and states of
 * all shards one after the other into OUT.  Returns bytes. */
static size_t passes(char *out, const char *kind, ts_dtype type, int threads,
                     bool serial, const int *cut, int n_shards) {
  world w;
  batch b = {.in = {0}};
  ts_tbe *t[4];
  size_t bytes = 0;
  float *grad = test_alloc(BATCH * WIDTH, 4);
  start(&w, kind, type, threads, serial);
  for (int s = 0; s < n_shards; s++)
    t[s] = group(&w, cut[s], cut[s + 1], false);
  for (int pass = 1; pass <= 4; pass++) {
    test_floats(grad, BATCH * WIDTH, 50 + (uint64_t)pass);
    for (int s = 0; s < n_shards; s++) {
      fill(&w, &b, (uint64_t)pass, false, 0, BATCH, cut[s], cut[s + 1]);
      train(&w, t[s], &b, grad, pass);
    }
  }
  for (int i = 0; i < TABLES; i++)
    for (int k = -1; k < ts_tbe_optim(t[0])->n_states; k++)
      for (int s = 0; s < n_shards; s++) {
        size_t size;
        void *p = rows_of(&w, t[s], i, k, &size);
        memcpy(out + bytes, p, size);
        free(p);
        bytes += size;
      }
  for (int s = 0; s < n_shards; s++) ts_tbe_destroy(t[s]);
  drop(&b);
  free(grad);
  stop(&w);
  return bytes;
}

START_TEST(same_bits) {
  static const char *const kinds[] = {"rowwise_adagrad", "adam", "lamb"};
  static const ts_dtype types[] = {TS_F32, TS_BF16, TS_F16};
  static const int whole[] = {0, 100}, halves[] = {0, 35, 100},
                   thirds[] = {0, 20, 20, 100};
  static char a[65536], b[65536];
  for (int k = 0; k < TEST_COUNT(kinds); k++)
    for (int i = 0; i < TEST_COUNT(types); i++) {
      const size_t n = passes(a, kinds[k], types[i], 1, true, whole, 1);
      ck_assert_uint_le(n, sizeof a);
      for (int threads = 1; threads <= 3; threads++) {
        ck_assert_uint_eq(
            passes(b, kinds[k], types[i], threads, false, whole, 1), n);
        ck_assert_mem_eq(a, b, n);
      }
      passes(b, kinds[k], types[i], 2, true, halves, 2);
      ck_assert_mem_eq(a, b, n);
      passes(b, kinds[k], types[i], 2, true, thirds, 3); /* one is empty */
      ck_assert_mem_eq(a, b, n);
    }
}
END_TEST

/* ---- replicas
 * ---------------------------------------------------------------- */

enum { RANKS = 3 };

/* Each rank's part of the batch PASS, reduced; then all messages, in pinned
 * memory, applied on all. */
static void exchange(world *w, ts_tbe **t, const float *grad, int64_t pass) {
  const int cut[RANKS + 1] = {0, 20, 20, BATCH}; /* rank 1 has no bags */
  batch b = {.in = {0}};
  const void *msg[RANKS];
  int64_t bytes[RANKS];
  ts_buffer arrived[RANKS];
  for (int r = 0; r < RANKS; r++) {
    fill(w, &b, (uint64_t)pass, false, cut[r], cut[r + 1], 0, 100);
    const float *there = send(w, &b.there[4], grad + cut[r] * WIDTH,
                              (cut[r + 1] - cut[r]) * WIDTH, 4);
    ck_assert_ok(
        ts_tbe_reduce(t[r], &msg[r], &bytes[r], there, &b.in, w->lane));
    ck_assert_ok(ts_lane_sync(w->lane));
    ck_assert_ok(ts_buffer_create(&arrived[r], w->device, (size_t)bytes[r] + 1,
                                  TS_SPACE_PINNED, TS_TAG_MISC));
    ts_test_get(w->device, arrived[r].ptr, msg[r], (size_t)bytes[r]);
    msg[r] = arrived[r].ptr;
  }
  ck_assert_int_eq(bytes[1], 0);
  for (int r = 0; r < RANKS; r++)
    ck_assert_ok(ts_tbe_apply(t[r], msg, bytes, RANKS, 1.0, pass, w->lane));
  ck_assert_ok(ts_lane_sync(w->lane));
  for (int r = 0; r < RANKS; r++) ts_buffer_reset(&arrived[r]);
  drop(&b);
}

START_TEST(replicas_agree) {
  world w;
  batch whole = {.in = {0}};
  ts_tbe *t[RANKS];
  float *grad = test_alloc(BATCH * WIDTH, 4);
  start(&w, "rowwise_adagrad", TS_F32, 2, false);
  for (int r = 0; r < RANKS; r++) t[r] = group(&w, 0, 100, false);
  ts_tbe *one = group(&w, 0, 100, false);
  for (int pass = 1; pass <= 4; pass++) {
    test_floats(grad, BATCH * WIDTH, (uint64_t)pass);
    fill(&w, &whole, (uint64_t)pass, false, 0, BATCH, 0, 100);
    train(&w, one, &whole, grad, pass);
    exchange(&w, t, grad, pass);
  }
  drop(&whole);
  for (int i = 0; i < TABLES; i++) {
    float *expected = weights_of(&w, one, i), *first = weights_of(&w, t[0], i);
    for (int r = 0; r < RANKS; r++) {
      float *rows = weights_of(&w, t[r], i);
      ck_assert_mem_eq(first, rows, (size_t)(table_rows[i] * DIM) * 4);
      for (int k = 0; k < table_rows[i] * DIM; k++)
        ck_assert_double_eq_tol(rows[k], expected[k], 2e-5);
      free(rows);
    }
    free(expected);
    free(first);
  }
  for (int r = 0; r < RANKS; r++) ts_tbe_destroy(t[r]);
  ts_tbe_destroy(one);
  free(grad);
  stop(&w);
}
END_TEST

/* Micro-batches: three parts of the batch, two of them kept, are as good as
 * the whole. */
START_TEST(kept) {
  static const int cut[] = {0, 20, 50, BATCH};
  world w;
  batch b = {.in = {0}};
  float *grad = test_alloc(BATCH * WIDTH, 4);
  start(&w, "rowwise_adagrad", TS_F32, 2, false);
  ts_tbe *t = group(&w, 0, 100, true), *one = group(&w, 0, 100, true);
  for (int pass = 1; pass <= 3; pass++) {
    test_floats(grad, BATCH * WIDTH, (uint64_t)pass);
    fill(&w, &b, (uint64_t)pass, false, 0, BATCH, 0, 100);
    train(&w, one, &b, grad, pass);
    for (int k = 0; k < 3; k++) {
      fill(&w, &b, (uint64_t)pass, false, cut[k], cut[k + 1], 0, 100);
      const float *part = send(&w, &b.there[4], grad + cut[k] * WIDTH,
                               (cut[k + 1] - cut[k]) * WIDTH, 4);
      if (k < 2)
        ck_assert_ok(ts_tbe_keep(t, part, &b.in, w.lane));
      else
        ck_assert_ok(ts_tbe_backward(t, part, &b.in, 1.0, pass, w.lane));
      ck_assert_ok(ts_lane_sync(w.lane));
    }
  }
  for (int i = 0; i < TABLES; i++) {
    float *rows = weights_of(&w, t, i), *expected = weights_of(&w, one, i);
    for (int k = 0; k < table_rows[i] * DIM; k++)
      ck_assert_double_eq_tol(rows[k], expected[k], 2e-5);
    free(rows);
    free(expected);
  }
  drop(&b);
  ts_tbe_destroy(t);
  ts_tbe_destroy(one);
  free(grad);
  stop(&w);
}
END_TEST

/* In stages: the row-wise state by statistics of one shard is that of the
 * fused backward. */
START_TEST(staged) {
  world w;
  batch b = {.in = {0}};
  float *grad = test_alloc(BATCH * WIDTH, 4);
  start(&w, "rowwise_adagrad", TS_F32, 2, false);
  ts_tbe *t = group(&w, 0, 100, false), *one = group(&w, 0, 100, false);
  for (int pass = 1; pass <= 3; pass++) {
    test_floats(grad, BATCH * WIDTH, (uint64_t)pass);
    fill(&w, &b, (uint64_t)pass, false, 0, BATCH, 0, 100);
    train(&w, one, &b, grad, pass);
    const float *there = b.there[4].ptr;
    ck_assert_ok(ts_tbe_gather(t, there, &b.in, w.lane));
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
  drop(&b);
  ts_tbe_destroy(t);
  ts_tbe_destroy(one);
  free(grad);
  stop(&w);
}
END_TEST

/* ---- borders
 * ----------------------------------------------------------------- */

START_TEST(nothing_to_do) {
  world w;
  batch b = {.in = {0}};
  float out[WIDTH * BATCH] = {0}, grad[WIDTH * BATCH] = {0};
  start(&w, "adagrad", TS_F32, 2, false);
  ts_tbe *t = group(&w, 0, 100, true);
  for (int empty = 0; empty < 2; empty++) {
    fill(&w, &b, 1, false, 0, empty ? 0 : BATCH, 0, empty ? 100 : 0);
    ck_assert_int_eq(b.in.n_ids, 0);
    for (int i = 0; i < WIDTH * BATCH; i++) out[i] = 3;
    forward(&w, t, &b, out);
    train(&w, t, &b, grad, 1);
    for (int i = 0; i < WIDTH * BATCH; i++)
      ck_assert_float_eq(out[i], empty ? 3 : 0);
  }
  drop(&b);
  ts_tbe_destroy(t);
  stop(&w);
}
END_TEST

/* Initial weights: kind, scale, spread. */
static void check_init(const char *kind, double scale, double lowest,
                       double highest, double deviation) {
  world w;
  start(&w, "sgd", TS_F32, 2, true);
  for (int i = 0; i < TABLES; i++) {
    w.config[i].init_kind = (char *)(uintptr_t)kind;
    w.config[i].init_scale = scale;
  }
  ts_tbe *t = group(&w, 0, 100, false);
  float *x = weights_of(&w, t, 0);
  const int n = (int)table_rows[0] * DIM;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; i++) {
    ck_assert_double_ge(x[i], lowest);
    ck_assert_double_le(x[i], highest);
    sum += x[i] / n;
    squares += (double)x[i] * x[i] / n;
  }
  if (strcmp(kind, "constant") != 0)
    ck_assert_double_lt(fabs(sum), deviation / 5);
  ck_assert_double_eq_tol(sqrt(squares), deviation, deviation / 10 + 1e-9);
  free(x);
  ts_tbe_destroy(t);
  stop(&w);
}

START_TEST(initial_weights) {
  const double a = 1 / sqrt(40);
  check_init("uniform", 0, -a, a, a / sqrt(3));
  check_init("uniform", 2, -2, 2, 2 / sqrt(3));
  check_init("normal", 0.1, -0.6, 0.6, 0.1);
  check_init("constant", 0.25, 0.25, 0.25, 0.25);
  check_init("constant", 0, 0, 0, 0);
}
END_TEST

static Suite *suite(void) {
  const TTest *const tests[] = {against_double, same_bits, replicas_agree,
                                kept,           staged,    nothing_to_do,
                                initial_weights};
  return test_suite("tbe", tests, TEST_COUNT(tests));
}
TS_TEST_MAIN(suite)
