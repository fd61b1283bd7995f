/* test_linear.c - linear layers of every engine against sums in double.
 * fake: 1 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dense/linear.h"
#include "harness.h"

static float draw(uint32_t a, uint32_t b) {
  uint32_t x[4];
  ts_rng4(x, 9, TS_RNG_TEST, a, b, 0);
  return 2 * ts_rng_unit(x[0]) - 1;
}

/* A GPU has one engine, whatever its name. */
static bool on_gpu(void) {
  return !strcmp(ts_test_backend(), "cuda");
}

static const char *const engines[] = {"ref", "onednn", "cblas"};

enum { BATCH_MAX = 70, WIDTH_MAX = 448 };

typedef struct ts_case {
  int in, stride, out;
  bool relu, dx;
} ts_case;

/* Widths with and without padding, of no vector's multiple, few outputs. */
static const ts_case cases[] = {
    {45, 64, 19, true, true},   {13, 13, 32, true, false},
    {415, 416, 64, true, true}, {64, 64, 64, false, true},
    {100, 100, 1, false, true}, {33, 64, 3, true, true},
    {1, 1, 4, true, true},      {7, 32, 5, false, true},
};

typedef struct ts_probe {
  ts_case c;
  bool half, arrays_half; /* products; and x, y and their gradients */
  uint16_t *x16, *y16, *dy16, *dx16; /* the layer's own then */
  ts_device *device;
  ts_lane *lane;
  ts_kernels k;
  ts_params ps;
  ts_param *W, *b;
  ts_linear *l;
  float *x, *y, *dy, *dx, *masked, *gW, *gb;
} ts_probe;

/* As the matrix products of the layer see it. */
static double seen(const ts_probe *p, float x) {
  uint32_t u;
  if (!p->half) return x;
  memcpy(&u, &x, 4);
  u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
  memcpy(&x, &u, 4);
  return x;
}

static double tolerance(const ts_probe *p, int terms) {
  return (p->half ? 2e-5 : 4e-6) * (1 + sqrt(terms)) + 1e-6;
}

/* Of an element that is stored in bf16. */
static double rounding(const ts_probe *p, double x) {
  return p->arrays_half ? fabs(x) / 256 : 0;
}

/* On a GPU it is of bf16 where y is. */
static double rounding_of_bias(const ts_probe *p, int o) {
  return on_gpu() ? rounding(p, (double)p->b->w[o]) : 0;
}

static int y_stride(const ts_probe *p) {
  return p->arrays_half ? (p->c.out + 31) / 32 * 32 : p->c.out;
}

static void make_half_arrays(ts_probe *p) {
  uint16_t **arrays[] = {&p->x16, &p->y16, &p->dy16, &p->dx16};
  for (int i = 0; p->arrays_half && i < 4; i++)
    ck_assert_ok(
        ts_mem_array(arrays[i], BATCH_MAX * WIDTH_MAX, 2, TS_TAG_MISC));
}

typedef enum { FLOATS, PRODUCTS, ARRAYS } ts_halves;

static void start_device(ts_probe *p, int n_threads) {
  ck_assert_ok(ts_test_device(&p->device, false, n_threads));
  ck_assert_ok(ts_test_kernels(&p->k));
  ck_assert_ok(ts_lane_create(p->device, &p->lane, "c", TS_LANE_COMPUTE));
}

/* Their memory is the test's. */
static void add_params(ts_probe *p) {
  p->ps.deferred = true;
  ck_assert_ok(
      ts_params_add(&p->ps, p->device, &p->W, "W", "W", p->c.out, p->c.in));
  ck_assert_ok(ts_params_add(&p->ps, p->device, &p->b, "b", "b", p->c.out, 0));
  ck_assert_ok(ts_mem_array(&p->W->w, p->W->n, 4, TS_TAG_MISC));
  ck_assert_ok(ts_mem_array(&p->b->w, p->b->n, 4, TS_TAG_MISC));
}

static void drop_params(ts_probe *p) {
  ts_mem_free(p->W->w);
  ts_mem_free(p->b->w);
  p->W->w = p->b->w = NULL;
  ts_params_reset(&p->ps);
}

static void stop_device(ts_probe *p) {
  ts_lane_destroy(p->lane);
  ts_device_destroy(p->device);
}

/* HALVES: what is of bf16. */
static void start(ts_probe *p, const char *engine, ts_case c, ts_halves halves,
                  int n_threads) {
  const bool half = halves != FLOATS;
  *p = (ts_probe){.c = c, .half = half, .arrays_half = halves == ARRAYS};
  make_half_arrays(p);
  float **arrays[] = {&p->x, &p->y, &p->dy, &p->dx, &p->masked};
  start_device(p, n_threads);
  add_params(p);
  for (int i = 0; i < 5; i++)
    ck_assert_ok(
        ts_mem_array(arrays[i], BATCH_MAX * WIDTH_MAX, 4, TS_TAG_MISC));
  ck_assert_ok(ts_mem_array(&p->gW, p->W->n, 4, TS_TAG_MISC));
  ck_assert_ok(ts_mem_array(&p->gb, p->b->n, 4, TS_TAG_MISC));
  p->W->grad = p->gW;
  p->b->grad = p->gb;
  for (int i = 0; i < p->W->n; i++) p->W->w[i] = draw(1, (uint32_t)i);
  for (int i = 0; i < p->b->n; i++) p->b->w[i] = draw(2, (uint32_t)i);
  const ts_linear_spec spec = {.n_in = c.in,
                               .n_out = c.out,
                               .in_stride = c.stride,
                               .relu = c.relu,
                               .precision =
                                   half ? TS_PRECISION_BF16 : TS_PRECISION_F32,
                               .x_half = p->arrays_half,
                               .y_half = p->arrays_half,
                               .out_stride = y_stride(p),
                               .batch_max = BATCH_MAX,
                               .need_dx = c.dx,
                               .engine = engine,
                               .kernels = &p->k};
  ck_assert_ok(ts_linear_create(&p->l, &spec, p->W, p->b, p->lane));
}

static void stop(ts_probe *p) {
  float *arrays[] = {p->x, p->y, p->dy, p->dx, p->masked, p->gW, p->gb};
  ts_linear_destroy(p->l);
  uint16_t *halves[] = {p->x16, p->y16, p->dy16, p->dx16};
  for (int i = 0; i < 7; i++) ts_mem_free(arrays[i]);
  for (int i = 0; i < 4; i++) ts_mem_free(halves[i]);
  drop_params(p);
  stop_device(p);
}

static void check_forward(const ts_probe *p, int batch) {
  const ts_case c = p->c;
  for (int i = 0; i < batch; i++)
    for (int o = 0; o < c.out; o++) {
      double sum = p->b->w[o];
      for (int k = 0; k < c.in; k++)
        sum += seen(p, p->W->w[o * c.in + k]) * seen(p, p->x[i * c.stride + k]);
      if (c.relu && sum < 0) sum = 0;
      ck_assert_double_eq_tol((double)p->y[i * c.out + o], sum,
                              tolerance(p, c.in) + rounding(p, sum) +
                                  rounding_of_bias(p, o));
    }
}

static void check_backward(const ts_probe *p, int batch) {
  const ts_case c = p->c;
  for (int o = 0; o < c.out; o++)
    for (int k = 0; k <= c.in; k++) {
      double sum = 0;
      for (int i = 0; i < batch; i++)
        sum += k < c.in ? seen(p, p->masked[i * c.out + o]) *
                              seen(p, p->x[i * c.stride + k])
                        : (double)p->masked[i * c.out + o];
      ck_assert_double_eq_tol(
          (double)(k < c.in ? p->gW[o * c.in + k] : p->gb[o]), sum,
          tolerance(p, batch));
    }
  for (int i = 0; c.dx && i < batch; i++)
    for (int k = 0; k < c.stride; k++) {
      double sum = 0;
      for (int o = 0; k < c.in && o < c.out; o++)
        sum +=
            seen(p, p->masked[i * c.out + o]) * seen(p, p->W->w[o * c.in + k]);
      ck_assert_double_eq_tol((double)p->dx[i * c.stride + k], sum,
                              tolerance(p, c.out) + rounding(p, sum));
    }
}

/* Forward and backward, with all arrays where the device has them. */
static void run(ts_probe *p, void *x, void *y, void *dy, void *dx, int size,
                int batch) {
  const size_t n = (size_t)(BATCH_MAX * WIDTH_MAX * size);
  const size_t w = (size_t)p->W->n * 4, b = (size_t)p->b->n * 4;
  void *own[8] = {x, y, dy, dx, p->W->w, p->b->w, p->W->grad, p->b->grad};
  const size_t bytes[8] = {n, n, n, n, w, b, w, b};
  void *at[8];
  for (int i = 0; i < 8; i++)
    at[i] = ts_test_lend(p->device, own[i], bytes[i], true);
  p->W->w = at[4];
  p->b->w = at[5];
  p->W->grad = at[6];
  p->b->grad = at[7];
  ck_assert_ok(ts_linear_forward(p->l, at[1], at[0], batch, p->lane));
  ck_assert_ok(ts_linear_backward(p->l, p->c.dx ? at[3] : NULL, at[2], at[0],
                                  at[1], batch, p->lane));
  ck_assert_ok(ts_lane_sync(p->lane));
  for (int i = 0; i < 8; i++)
    ts_test_reclaim(p->device, own[i], at[i], bytes[i], true);
  p->W->w = own[4];
  p->b->w = own[5];
  p->W->grad = own[6];
  p->b->grad = own[7];
}

/* The same through arrays of bf16; what is beside a row's elements stays. */
static void run_half(ts_probe *p, int batch) {
  const int n_in = p->c.in, n_out = p->c.out, ys = y_stride(p);
  const int xs = p->c.stride;
  for (int i = 0; i < batch * xs; i++) p->x16[i] = ts_f32_to_bf16(p->x[i]);
  for (int i = 0; i < batch * xs; i++)
    p->dx16[i] = i % xs < n_in ? 0x7fc0 : 0x1234;
  for (int i = 0; i < batch * ys; i++) {
    const int k = i % ys, at = i / ys * n_out + k;
    p->y16[i] = k < n_out ? 0x7fc0 : 0x1234;
    p->dy16[i] = k < n_out ? ts_f32_to_bf16(p->dy[at]) : 0;
    if (k < n_out) p->masked[at] = ts_bf16_to_f32(p->dy16[i]);
  }
  run(p, p->x16, p->y16, p->dy16, p->dx16, 2, batch);
  for (int i = 0; i < batch * ys; i++)
    if (i % ys < n_out)
      p->y[i / ys * n_out + i % ys] = ts_bf16_to_f32(p->y16[i]);
    else
      ck_assert_uint_eq(p->y16[i], 0x1234);
  for (int i = 0; i < batch * xs; i++) {
    if (i % xs >= n_in) ck_assert_uint_eq(p->dx16[i], 0x1234);
    p->dx[i] = i % xs < n_in ? ts_bf16_to_f32(p->dx16[i]) : 0;
  }
}

/* Forward and backward of one batch; old gradients must not shine through. */
static void pass(ts_probe *p, int batch) {
  const ts_case c = p->c;
  for (int i = 0; i < batch; i++)
    for (int k = 0; k < c.stride; k++)
      p->x[i * c.stride + k] =
          k < c.in ? draw(3, (uint32_t)(batch * 10007 + i * c.in + k)) : 0;
  for (int i = 0; i < batch * c.out; i++) p->dy[i] = draw(4, (uint32_t)i);
  for (int i = 0; i < p->W->n; i++) p->gW[i] = NAN;
  for (int i = 0; i < p->b->n; i++) p->gb[i] = NAN;
  for (int i = 0; i < batch * c.stride; i++) p->dx[i] = NAN;
  memcpy(p->masked, p->dy, (size_t)(batch * c.out) * sizeof(float));
  if (p->arrays_half)
    run_half(p, batch);
  else
    run(p, p->x, p->y, p->dy, p->dx, 4, batch);
  for (int i = 0; c.relu && i < batch * c.out; i++)
    if (!(p->y[i] > 0)) p->masked[i] = 0;
  check_forward(p, batch);
  check_backward(p, batch);
}

static bool missing(const char *engine) {
  if (on_gpu()) return strcmp(engine, "onednn") != 0;
  return strcmp(ts_linear_engine(engine), engine) != 0;
}

static bool no_bf16(void) {
  ts_kernels k;
  ck_assert_ok(ts_test_kernels(&k));
  return !ts_linear_in_bf16(TS_PRECISION_BF16, 64, "onednn", &k);
}

START_TEST(layers_against_double) {
  ts_probe p;
  const char *engine = engines[_i / 2];
  if (missing(engine)) return;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    start(&p, engine, cases[k], FLOATS, 1 + _i % 2);
    pass(&p, BATCH_MAX);
    pass(&p, 1);
    pass(&p, 0); /* gradients become 0 */
    pass(&p, 37);
    stop(&p);
  }
}
END_TEST

/* More batch sizes than an engine keeps primitives for, back and forth. */
START_TEST(many_batch_sizes) {
  ts_probe p;
  if (missing(engines[_i])) return;
  start(&p, engines[_i], cases[0], FLOATS, 1);
  for (int round = 0; round < 2; round++)
    for (int batch = 2; batch < 24; batch += 2) pass(&p, batch);
  stop(&p);
}
END_TEST

START_TEST(bf16_against_double) {
  ts_probe p;
  if (missing("onednn")) return;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    if (cases[k].out <= 4) continue; /* dot products: in f32 */
    start(&p, "onednn", cases[k], PRODUCTS, 1);
    pass(&p, BATCH_MAX);
    /* New weights under a new version are seen. */
    for (int i = 0; i < p.W->n; i++) p.W->w[i] = draw(7, (uint32_t)i);
    p.W->version++;
    pass(&p, 9);
    stop(&p);
  }
}
END_TEST

/* Rows of bf16 in and out, of no vector's multiple, in odd batches. */
START_TEST(bf16_arrays_against_double) {
  ts_probe p;
  if (missing("onednn") || no_bf16()) return;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    if (cases[k].out <= 4 || cases[k].stride % 32) continue;
    start(&p, "onednn", cases[k], ARRAYS, 1 + _i);
    pass(&p, BATCH_MAX);
    pass(&p, 1);
    pass(&p, 0);
    pass(&p, 37);
    stop(&p);
  }
}
END_TEST

/* A layer of a few outputs that reads bf16: x and dx, y stays f32. */
START_TEST(narrow_layers_read_bf16) {
  enum { B = 67, K = 100, S = 128, N = 3 };
  ts_probe p = {.c = {K, S, N, false, true}, .half = on_gpu()};
  static float y[BATCH_MAX * WIDTH_MAX * 2], g[BATCH_MAX * WIDTH_MAX * 2];
  static float gw[N * K], gb[N];
  static uint16_t x[BATCH_MAX * WIDTH_MAX * 2], dx[BATCH_MAX * WIDTH_MAX * 2];
  if (missing("onednn") || no_bf16()) return;
  start_device(&p, 2);
  add_params(&p);
  p.W->grad = gw;
  p.b->grad = gb;
  for (int i = 0; i < N * K; i++) p.W->w[i] = draw(1, (uint32_t)i);
  for (int i = 0; i < B * S; i++)
    x[i] = i % S < K ? ts_f32_to_bf16(draw(2, (uint32_t)i)) : 0;
  for (int i = 0; i < B * N; i++) g[i] = draw(3, (uint32_t)i);
  const ts_linear_spec spec = {.n_in = K,
                               .n_out = N,
                               .in_stride = S,
                               .precision = TS_PRECISION_BF16,
                               .x_half = true,
                               .batch_max = B,
                               .need_dx = true,
                               .kernels = &p.k};
  ck_assert_ok(ts_linear_create(&p.l, &spec, p.W, p.b, p.lane));
  run(&p, x, y, g, dx, 4, B);
  const float *w = p.W->w;
  for (int i = 0; i < B; i++)
    for (int o = 0; o < N; o++) {
      double sum = 0;
      for (int k = 0; k < K; k++)
        sum += (double)ts_bf16_to_f32(x[i * S + k]) * seen(&p, w[o * K + k]);
      ck_assert_double_eq_tol((double)y[i * N + o], sum, 2e-5);
    }
  for (int o = 0; o < N; o++)
    for (int k = 0; k < K; k++) {
      double sum = 0;
      for (int i = 0; i < B; i++)
        sum += (double)ts_bf16_to_f32(x[i * S + k]) * seen(&p, g[i * N + o]);
      ck_assert_double_eq_tol((double)gw[o * K + k], sum, 2e-5);
    }
  for (int i = 0; i < B; i++)
    for (int k = 0; k < K; k++) {
      double sum = 0;
      for (int o = 0; o < N; o++)
        sum += seen(&p, g[i * N + o]) * seen(&p, w[o * K + k]);
      ck_assert_double_eq_tol((double)ts_bf16_to_f32(dx[i * S + k]), sum,
                              fabs(sum) / 256 + 1e-6);
    }
  ts_linear_destroy(p.l);
  drop_params(&p);
  stop_device(&p);
}
END_TEST

START_TEST(bf16_needs_onednn) {
  ts_fixture f;
  ts_params ps = {0};
  ts_param *W, *b;
  ts_linear *l = NULL;
  ts_fixture_start(&f, true, 1);
  ck_assert_ok(ts_params_add(&ps, f.device, &W, "W", "W", 8, 8));
  ck_assert_ok(ts_params_add(&ps, f.device, &b, "b", "b", 8, 0));
  const ts_linear_spec spec = {.n_in = 8,
                               .n_out = 8,
                               .in_stride = 8,
                               .precision = TS_PRECISION_BF16,
                               .batch_max = 4,
                               .engine = "ref"};
  ck_assert_int_eq(ts_linear_create(&l, &spec, W, b, f.lane), TS_ERR_DECK);
  ts_err_clear();
  ts_params_reset(&ps);
  ts_fixture_stop(&f);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("linear");
  TCase *t = tcase_create("linear");
  tcase_add_loop_test(t, layers_against_double, 0, 6);
  tcase_add_loop_test(t, many_batch_sizes, 0, 3);
  tcase_add_test(t, bf16_against_double);
  tcase_add_loop_test(t, bf16_arrays_against_double, 0, 2);
  tcase_add_test(t, narrow_layers_read_bf16);
  tcase_add_test(t, bf16_needs_onednn);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
