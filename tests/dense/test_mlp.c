/* test_mlp.c - stacks of linear layers against sums in double.
 * fake: 1  emulated: 1 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dense/mlp.h"
#include "tests/support/harness.h"

static float draw(uint32_t a, uint32_t b) {
  uint32_t x[4];
  ts_rng4(x, 9, TS_RNG_TEST, a, b, 0);
  return 2 * ts_rng_unit(x[0]) - 1;
}

enum { BATCH_MAX = 70, WIDTH_MAX = 160, LAYERS_MAX = 3, ALL = 70 * 160 };

typedef struct ts_case {
  int n_in, stride;
  int64_t sizes[LAYERS_MAX];
  int n;
  bool last_linear, x_half, need_dx;
  ts_precision precision;
} ts_case;

static const ts_case cases[] = {
    {13, 13, {32, 17, 8}, 3, false, false, false, TS_PRECISION_F32},
    {45, 64, {24, 9, 1}, 3, true, false, true, TS_PRECISION_F32},
    {7, 7, {5}, 1, false, false, true, TS_PRECISION_F32},
    {33, 40, {130, 16}, 2, true, false, true, TS_PRECISION_TF32},
    {13, 13, {40, 24, 16}, 3, true, false, false, TS_PRECISION_BF16},
    {13, 13, {40, 24}, 2, false, false, true, TS_PRECISION_BF16},
    {45, 64, {40, 133, 1}, 3, true, true, true, TS_PRECISION_BF16},
    {64, 64, {48, 2, 9}, 3, true, true, true, TS_PRECISION_BF16},
};
enum { N_CASES = sizeof cases / sizeof *cases };

typedef struct ts_probe {
  const ts_case *c;
  ts_device *device;
  ts_lane *lane;
  ts_kernels k;
  ts_params params; /* (2 n) weight, bias, weight, .. */
  ts_mlp *mlp;
  float *w[2 * LAYERS_MAX], *grad[2 * LAYERS_MAX];      /* the host's */
  void *w_at[2 * LAYERS_MAX], *grad_at[2 * LAYERS_MAX]; /* lent */
  int shift; /* floats that gradients lie off a border */
  float x[ALL], dlast[ALL], y[ALL], dx[ALL];
  uint16_t x16[ALL], dx16[ALL];
} ts_probe;

/* The expected results of the layers. */
typedef struct ts_want {
  double act[LAYERS_MAX + 1][ALL], g[LAYERS_MAX + 1][ALL];
  double grad[2 * LAYERS_MAX][WIDTH_MAX * WIDTH_MAX];
} ts_want;

static int width(const ts_case *c, int i) {
  return i ? (int)c->sizes[i - 1] : c->n_in;
}

static int32_t batch_max = BATCH_MAX;

static ts_err add_param(void *arg, ts_param **q, int32_t i, bool last,
                        const char *tail, int32_t rows, int32_t cols,
                        double bound) {
  ts_probe *p = arg;
  char name[32];
  (void)bound;
  ck_assert_int_eq(last, i == p->c->n - 1);
  snprintf(name, sizeof name, "mlp.%d.%s", i, tail);
  return ts_params_add(&p->params, p->device, q, name, "mlp", rows, cols);
}

static void start(ts_probe *p, const ts_case *c) {
  *p = (ts_probe){.c = c};
  ck_assert_ok(ts_test_device(&p->device, false, 2));
  ck_assert_ok(ts_test_kernels(&p->k));
  ck_assert_ok(ts_lane_create(p->device, &p->lane, "c", TS_LANE_COMPUTE));
  const ts_mlp_spec spec = {.n_in = c->n_in,
                            .in_stride = c->stride,
                            .sizes = c->sizes,
                            .n_layers = c->n,
                            .last_linear = c->last_linear,
                            .param = add_param,
                            .arg = p,
                            .precision = c->precision,
                            .x_half = c->x_half,
                            .batch_max = batch_max,
                            .need_dx = c->need_dx,
                            .kernels = &p->k};
  p->params.deferred = true; /* their memory is the test's */
  ck_assert_ok(ts_mlp_create(&p->mlp, &spec, p->lane));
  for (int i = 0; i < p->params.n; i++) {
    const int64_t n = p->params.item[i]->n;
    ck_assert_ok(ts_mem_array(&p->w[i], n, 4, TS_TAG_MISC));
    ck_assert_ok(ts_mem_array(&p->grad[i], n + 1, 4, TS_TAG_MISC));
  }
}

static void stop(ts_probe *p) {
  ts_mlp_destroy(p->mlp);
  for (int i = 0; i < p->params.n; i++) {
    p->params.item[i]->w = NULL;
    ts_mem_free(p->w[i]);
    ts_mem_free(p->grad[i]);
  }
  ts_params_reset(&p->params);
  ts_lane_destroy(p->lane);
  ts_device_destroy(p->device);
}

/* A library may round a product to y's type before it adds the bias.  A sum
 * near zero could then change its sign, and ReLU its mask.  So for TF32 and
 * bf16 all numbers are coarse: no sum is zero, and those that are small are
 * exact.  The first layer's products are multiples of 1/8; the second layer
 * reads these with their bias, its products are multiples of 1/64.  Sums of
 * gradients are nearly exact, too. */
static float weight(const ts_case *c, int param, float x) {
  const float places = param < 2 ? 16 : param < 4 ? 128 : 1024;
  if (c->precision == TS_PRECISION_F32) return x;
  if (param % 2 == 0) return rintf(4 * x) / 4;
  return (2 * rintf(places / 4 * x) + 1) / places;
}

static void fill(ts_probe *p, int batch, uint32_t step) {
  const ts_case *c = p->c;
  const bool coarse = c->precision != TS_PRECISION_F32;
  for (int i = 0; i < p->params.n; i++) {
    ts_param *q = p->params.item[i];
    const float scale = 1 / sqrtf((float)(q->cols ? q->cols : 4));
    for (int64_t j = 0; j < q->n; j++) {
      p->w[i][j] =
          weight(c, i, 2 * scale * draw(step * 20 + (uint32_t)i, (uint32_t)j));
      p->grad[i][j] = NAN;
    }
    p->grad[i][q->n] = NAN;
    q->version++;
  }
  for (int j = 0; j < batch * c->stride; j++) {
    float x = j % c->stride < c->n_in ? draw(step * 20 + 10, (uint32_t)j) : 0;
    if (coarse) x = rintf(2 * x) / 2;
    p->x16[j] = ts_f32_to_bf16(x);
    p->x[j] = c->x_half ? ts_bf16_to_f32(p->x16[j]) : x;
    p->dx[j] = NAN;
    p->dx16[j] = j % c->stride < c->n_in ? 0x7fc0 : 0x1234;
  }
  for (int j = 0; j < batch * width(c, c->n); j++) {
    const float g = draw(step * 20 + 11, (uint32_t)j);
    p->dlast[j] = coarse ? rintf(16 * g) / 16 : g;
  }
}

/* ---- the oracle ---------------------------------------------------------- */

static bool relu(const ts_case *c, int i) {
  return !(i == c->n && c->last_linear);
}

/* The products of layer i are of bf16; the array of its activations is. */
static bool half(const ts_probe *p, int i) {
  return i && ts_linear_in_bf16(p->c->precision, width(p->c, i), NULL, &p->k);
}

static bool kept_half(const ts_probe *p, int i) {
  return i ? i < p->c->n && half(p, i) : p->c->x_half;
}

static double rounded(bool to_half, double x) {
  return to_half ? (double)ts_bf16_to_f32(ts_f32_to_bf16((float)x)) : x;
}

static void want_forward(const ts_probe *p, ts_want *o, int i, int batch) {
  const int n = width(p->c, i), k = width(p->c, i - 1);
  const bool h = half(p, i);
  /* A GPU adds a bias of y's type. */
  const bool bias_half = kept_half(p, i) && ts_test_on_gpu();
  for (int b = 0; b < batch; b++)
    for (int j = 0; j < n; j++) {
      double sum = rounded(bias_half, (double)p->w[2 * i - 1][j]);
      for (int d = 0; d < k; d++)
        sum += rounded(h, (double)p->w[2 * i - 2][j * k + d]) *
               rounded(h, o->act[i - 1][b * k + d]);
      o->act[i][b * n + j] =
          relu(p->c, i) && sum < 0 ? 0 : rounded(kept_half(p, i), sum);
    }
}

static void want_backward(const ts_probe *p, ts_want *o, int i, int batch) {
  const int n = width(p->c, i), k = width(p->c, i - 1);
  const bool h = half(p, i), below = kept_half(p, i - 1);
  double *g = o->g[i], *dW = o->grad[2 * i - 2], *db = o->grad[2 * i - 1];
  double *dx = o->g[i - 1];
  for (int j = 0; relu(p->c, i) && j < batch * n; j++)
    if (!(o->act[i][j] > 0)) g[j] = 0;
  memset(dW, 0, sizeof o->grad[0]);
  memset(db, 0, sizeof o->grad[0]);
  memset(dx, 0, sizeof o->g[0]);
  for (int b = 0; b < batch; b++)
    for (int j = 0; j < n; j++) {
      const double v = rounded(h, g[b * n + j]);
      db[j] += g[b * n + j];
      for (int d = 0; d < k; d++) {
        dW[j * k + d] += v * rounded(h, o->act[i - 1][b * k + d]);
        dx[b * k + d] += v * rounded(h, (double)p->w[2 * i - 2][j * k + d]);
      }
    }
  for (int j = 0; j < batch * k; j++) dx[j] = rounded(below, dx[j]);
}

static void oracle(const ts_probe *p, ts_want *o, int batch) {
  const ts_case *c = p->c;
  for (int b = 0; b < batch; b++)
    for (int d = 0; d < c->n_in; d++)
      o->act[0][b * c->n_in + d] = (double)p->x[b * c->stride + d];
  for (int i = 1; i <= c->n; i++) want_forward(p, o, i, batch);
  for (int j = 0; j < batch * width(c, c->n); j++)
    o->g[c->n][j] = (double)p->dlast[j];
  for (int i = c->n; i > 0; i--) want_backward(p, o, i, batch);
}

/* ---- steps --------------------------------------------------------------- */

/* Gradients have room only while their layer is at work. */
static ts_err make_room(void *arg, const ts_param *q, ts_pass pass,
                        ts_lane *lane) {
  ts_probe *p = arg;
  (void)lane;
  for (int i = 0; pass == TS_BACKWARD && i < p->params.n; i++)
    if (!strcmp(p->params.item[i]->group, q->group))
      p->params.item[i]->grad = (float *)p->grad_at[i] + p->shift;
  return TS_OK;
}

static ts_err end_room(void *arg, ts_param *q, ts_lane *lane) {
  (void)arg, (void)lane;
  q->grad = NULL;
  return TS_OK;
}

static void lend_params(ts_probe *p, bool there) {
  for (int i = 0; i < p->params.n; i++) {
    const size_t n = (size_t)p->params.item[i]->n * 4;
    if (there) {
      p->w_at[i] = ts_test_lend(p->device, p->w[i], n, true);
      p->grad_at[i] = ts_test_lend(p->device, p->grad[i], n + 4, true);
      p->params.item[i]->w = p->w_at[i];
      continue;
    }
    ts_test_reclaim(p->device, p->w[i], p->w_at[i], n, false);
    ts_test_reclaim(p->device, p->grad[i], p->grad_at[i], n + 4, true);
  }
}

static void step(ts_probe *p, int batch) {
  const ts_case *c = p->c;
  const ts_layer_hooks hooks = {make_room, NULL, end_room, p};
  void *x = c->x_half ? (void *)p->x16 : p->x;
  void *dx = c->x_half ? (void *)p->dx16 : p->dx;
  const size_t n = (size_t)(batch * c->stride) * (c->x_half ? 2 : 4);
  const size_t m = (size_t)(batch * width(c, c->n)) * 4;
  void *x_at = ts_test_lend(p->device, x, n, true);
  void *dx_at = ts_test_lend(p->device, dx, n, true);
  void *dy_at = ts_test_lend(p->device, p->dlast, m, true);
  float *y;
  lend_params(p, true);
  ck_assert_ok(ts_mlp_forward(p->mlp, &y, x_at, batch, &hooks, p->lane));
  ck_assert_ok(ts_lane_sync(p->lane));
  ts_test_get(p->device, p->y, y, m);
  ck_assert_ok(ts_mlp_backward(p->mlp, c->need_dx ? dx_at : NULL, dy_at, batch,
                               &hooks, p->lane));
  ck_assert_ok(ts_lane_sync(p->lane));
  lend_params(p, false);
  ts_test_reclaim(p->device, x, x_at, n, false);
  ts_test_reclaim(p->device, dx, dx_at, n, true);
  ts_test_reclaim(p->device, p->dlast, dy_at, m, false);
}

/* By norm: one element that is wrong shows, another rounding of a few does
 * not. */
static void compare(const ts_case *c, const double *want, const float *got,
                    int64_t n, const char *what) {
  const double most = c->precision == TS_PRECISION_F32 ? 2e-6 : 5e-3;
  double off = 0, all = 0;
  int64_t worst = 0;
  for (int64_t j = 0; j < n; j++) {
    off += (want[j] - (double)got[j]) * (want[j] - (double)got[j]);
    all += want[j] * want[j];
    if (fabs(want[j] - (double)got[j]) > fabs(want[worst] - (double)got[worst]))
      worst = j;
  }
  ck_assert_msg(sqrt(off) <= most * sqrt(all) + 1e-12,
                "%s of %d: %g off %g, most at %lld of %lld: %g for %g", what,
                c->n_in, sqrt(off), sqrt(all), (long long)worst, (long long)n,
                n ? (double)got[worst] : 0, n ? want[worst] : 0);
}

static void compare_dx(const ts_probe *p, const ts_want *o, int batch) {
  static float dx[ALL];
  const ts_case *c = p->c;
  for (int b = 0; b < batch; b++)
    for (int d = 0; d < c->stride; d++) {
      const int at = b * c->stride + d;
      if (d < c->n_in)
        dx[b * c->n_in + d] =
            c->x_half ? ts_bf16_to_f32(p->dx16[at]) : p->dx[at];
      else if (c->x_half)
        ck_assert_uint_eq(p->dx16[at], 0x1234);
      else
        ck_assert_float_eq(p->dx[at], 0);
    }
  compare(c, o->g[0], dx, (int64_t)batch * c->n_in, "dx");
}

/* Forward and backward against the oracle; gradients may lie anywhere. */
static void pass(ts_probe *p, int batch, uint32_t number) {
  static ts_want o;
  const ts_case *c = p->c;
  fill(p, batch, number);
  p->shift = (int)number % 2;
  oracle(p, &o, batch);
  step(p, batch);
  compare(c, o.act[c->n], p->y, (int64_t)batch * width(c, c->n), "y");
  for (int i = 0; i < p->params.n; i++)
    compare(c, o.grad[i], p->grad[i] + p->shift, p->params.item[i]->n,
            p->params.item[i]->name);
  if (c->need_dx) compare_dx(p, &o, batch);
}

static void all_batches(const ts_case *c) {
  static ts_probe p;
  const int batches[] = {BATCH_MAX, 1, 37, 0, BATCH_MAX, BATCH_MAX};
  start(&p, c);
  for (uint32_t i = 0; i < 6; i++) pass(&p, batches[i], i);
  stop(&p);
}

static bool missing(const ts_case *c) {
  ts_kernels k;
  ck_assert_ok(ts_test_kernels(&k));
  return c->precision == TS_PRECISION_BF16 &&
         !ts_linear_in_bf16(c->precision, 64, NULL, &k);
}

TS_TESTS(stacks_against_double, 0, N_CASES) {
  if (!missing(&cases[_i])) all_batches(&cases[_i]);
}
