/* test_tbe.c - groups of tables: forward and backward against dense sums in
 * double, the same bits on any number of threads, lanes and shards of the
 * rows.  Inputs, outputs and rows are device memory.
 * ranks: 1  fake: 1  emulated: 1
 * seconds: 400 */
#include "tests/sparse/tbe_group.h"

/* ---- forward and backward against double --------------------------------- */

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

TS_TEST(against_double) {
  for (int mode = 0; mode < 4; mode++) check_dense(mode & 1, mode & 2);
}

/* ---- same bits ----------------------------------------------------------- */

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
  int64_t held = 0;
  for (int s = 0; s < n_shards; s++) {
    held += ts_tbe_bytes(t[s]);
    ts_tbe_destroy(t[s]);
  }
  ck_assert_int_eq(held, bytes);
  drop(&b);
  free(grad);
  stop(&w);
  return bytes;
}

TS_TEST(same_bits) {
  static const char *const kinds[] = {"rowwise_adagrad", "adam", "lamb"};
  static const ts_dtype types[] = {TS_F32, TS_BF16, TS_F16, TS_INT8, TS_INT4};
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

/* ---- borders ------------------------------------------------------------- */

TS_TEST(nothing_to_do) {
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

TS_TEST(initial_weights) {
  const double a = 1 / sqrt(40);
  check_init("uniform", 0, -a, a, a / sqrt(3));
  check_init("uniform", 2, -2, 2, 2 / sqrt(3));
  check_init("normal", 0.1, -0.6, 0.6, 0.1);
  check_init("constant", 0.25, 0.25, 0.25, 0.25);
  check_init("constant", 0, 0, 0, 0);
}
