/* test_cross.c - cross layers against sums in double; their parameters, the
 * order of their hooks, and what a failed start leaves.
 * fake: 1  emulated: 1 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dense/cross.h"
#include "dense/linear_impl.h"
#include "tests/support/harness.h"
#include "tests/support/walk.h"

enum { BATCH_MAX = 70, STRIDE_MAX = 64, LAYERS_MAX = 3 };
enum { ALL = BATCH_MAX * STRIDE_MAX, PARAMS_MAX = 3 * LAYERS_MAX };

typedef struct ts_case {
  int width, stride, rank, n;
  bool y_half;
  ts_precision precision;
} ts_case;

static const ts_case cases[] = {
    {20, 20, 5, 2, false, TS_PRECISION_F32},
    {45, 64, 24, 3, false, TS_PRECISION_F32},
    {33, 40, 3, 1, true, TS_PRECISION_F32},
    {20, 32, 5, 0, true, TS_PRECISION_F32},
    {45, 64, 24, 3, false, TS_PRECISION_TF32},
    {45, 64, 24, 3, false, TS_PRECISION_BF16},
    {45, 64, 40, 2, true, TS_PRECISION_BF16},
    {64, 64, 33, 1, true, TS_PRECISION_BF16},
    {45, 64, TS_NARROW_MAX, 2, true, TS_PRECISION_BF16},
    {TS_NARROW_MAX, 32, 24, 2, true, TS_PRECISION_BF16},
};
enum { N_CASES = sizeof cases / sizeof *cases };

typedef struct ts_probe {
  const ts_case *c;
  ts_device *device;
  ts_lane *lane;
  ts_kernels k;
  ts_params params;
  ts_cross *cross;
  float *w[PARAMS_MAX], *grad[PARAMS_MAX]; /* the host's */
  void *grad_at[PARAMS_MAX];
  char said[1000]; /* the hooks */
  float x[ALL], dy[ALL], y[ALL], dx[ALL];
} ts_probe;

static ts_err create(ts_probe *p) {
  const ts_cross_spec spec = {.width = p->c->width,
                              .stride = p->c->stride,
                              .n_layers = p->c->n,
                              .rank = p->c->rank,
                              .name = "layer",
                              .group = "g",
                              .precision = p->c->precision,
                              .y_half = p->c->y_half,
                              .batch_max = BATCH_MAX};
  return ts_cross_create(&p->cross, &spec, &p->params, &p->k, 11, p->lane);
}

static void start(ts_probe *p, const ts_case *c) {
  *p = (ts_probe){.c = c};
  ck_assert_ok(ts_test_device(&p->device, false, 2));
  ck_assert_ok(ts_test_kernels(&p->k));
  ck_assert_ok(ts_lane_create(p->device, &p->lane, "c", TS_LANE_COMPUTE));
}

static void stop(ts_probe *p) {
  ts_cross_destroy(p->cross);
  ts_params_reset(&p->params);
  ts_lane_destroy(p->lane);
  ts_device_destroy(p->device);
}

static bool bf16(const ts_probe *p) {
  return ts_linear_in_bf16(p->c->precision, 64, NULL, &p->k);
}

/* Other engines than oneDNN refuse bf16. */
static bool missing(const ts_probe *p) {
  return p->c->precision == TS_PRECISION_BF16 && !bf16(p);
}

/* The host's products of few outputs are dot products of f32. */
static bool keeps_half(const ts_probe *p) {
  const ts_case *c = p->c;
  const bool narrow = c->rank <= TS_NARROW_MAX || c->width <= TS_NARROW_MAX;
  return bf16(p) && c->n && !(narrow && !ts_test_on_gpu());
}

static float draw(uint32_t a, uint32_t b) {
  uint32_t x[4];
  ts_rng4(x, 9, TS_RNG_TEST, a, b, 0);
  return 2 * ts_rng_unit(x[0]) - 1;
}

static void fill(ts_probe *p, int batch, uint32_t step) {
  const ts_case *c = p->c;
  for (int i = 0; i < p->params.n; i++) {
    ts_param *q = p->params.item[i];
    const float scale = 1.5f / sqrtf((float)(q->cols ? q->cols : 2));
    ck_assert_ok(ts_mem_array(&p->w[i], q->n, 4, TS_TAG_MISC));
    ck_assert_ok(ts_mem_array(&p->grad[i], q->n, 4, TS_TAG_MISC));
    for (int64_t j = 0; j < q->n; j++) {
      p->w[i][j] = scale * draw(step * 20 + (uint32_t)i, (uint32_t)j);
      p->grad[i][j] = NAN;
    }
    ts_test_put(p->device, q->w, p->w[i], (size_t)q->n * 4);
    p->grad_at[i] = ts_test_lend(p->device, p->grad[i], (size_t)q->n * 4, true);
    q->grad = p->grad_at[i];
    q->version++;
  }
  for (int j = 0; j < batch * c->stride; j++) {
    const bool in = j % c->stride < c->width;
    p->x[j] = in ? draw(step * 20 + 10, (uint32_t)j) : 0;
    p->dy[j] = in ? draw(step * 20 + 11, (uint32_t)j) : 0;
    p->dx[j] = in ? NAN : 0;
  }
}

static void give_back(ts_probe *p) {
  for (int i = 0; i < p->params.n; i++) {
    ts_test_reclaim(p->device, p->grad[i], p->grad_at[i],
                    (size_t)p->params.item[i]->n * 4, true);
    p->params.item[i]->grad = NULL;
  }
}

/* ---- the oracle ---------------------------------------------------------- */

typedef struct ts_want {
  double x[LAYERS_MAX + 1][ALL], u[LAYERS_MAX][ALL], t[LAYERS_MAX][ALL];
  double grad[PARAMS_MAX][STRIDE_MAX * STRIDE_MAX], dx[ALL];
} ts_want;

static void want_forward(const ts_probe *p, ts_want *o, int l, int batch) {
  const int n = p->c->width, r = p->c->rank, s = p->c->stride;
  const float *V = p->w[3 * l], *W = p->w[3 * l + 1], *b = p->w[3 * l + 2];
  for (int i = 0; i < batch; i++) {
    double *u = o->u[l] + i * STRIDE_MAX, *t = o->t[l] + i * s;
    for (int k = 0; k < r; k++) {
      u[k] = 0;
      for (int j = 0; j < n; j++)
        u[k] += (double)V[k * n + j] * o->x[l][i * s + j];
    }
    for (int j = 0; j < n; j++) {
      t[j] = (double)b[j];
      for (int k = 0; k < r; k++) t[j] += (double)W[j * r + k] * u[k];
      o->x[l + 1][i * s + j] = o->x[0][i * s + j] * t[j] + o->x[l][i * s + j];
    }
  }
}

/* One sample of layer L: dy (n) becomes the gradient of x_l. */
static void want_sample(const ts_probe *p, ts_want *o, int l, int i,
                        double *dy) {
  const int n = p->c->width, r = p->c->rank, s = p->c->stride;
  const float *V = p->w[3 * l], *W = p->w[3 * l + 1];
  double *dV = o->grad[3 * l], *dW = o->grad[3 * l + 1];
  double dt[STRIDE_MAX], du[STRIDE_MAX] = {0};
  for (int j = 0; j < n; j++) {
    dt[j] = dy[j] * o->x[0][i * s + j];
    o->dx[i * s + j] += dy[j] * o->t[l][i * s + j];
    o->grad[3 * l + 2][j] += dt[j];
    for (int k = 0; k < r; k++) {
      dW[j * r + k] += dt[j] * o->u[l][i * STRIDE_MAX + k];
      du[k] += dt[j] * (double)W[j * r + k];
    }
  }
  for (int k = 0; k < r; k++)
    for (int j = 0; j < n; j++) {
      dV[k * n + j] += du[k] * o->x[l][i * s + j];
      dy[j] += du[k] * (double)V[k * n + j];
    }
}

static void oracle(const ts_probe *p, ts_want *o, int batch) {
  const ts_case *c = p->c;
  memset(o, 0, sizeof *o);
  for (int j = 0; j < batch * c->stride; j++) o->x[0][j] = (double)p->x[j];
  for (int l = 0; l < c->n; l++) want_forward(p, o, l, batch);
  for (int i = 0; i < batch; i++) {
    double dy[STRIDE_MAX];
    for (int j = 0; j < c->width; j++) dy[j] = (double)p->dy[i * c->stride + j];
    for (int l = c->n - 1; l >= 0; l--) want_sample(p, o, l, i, dy);
    for (int j = 0; j < c->width; j++) o->dx[i * c->stride + j] += dy[j];
  }
}

/* ---- one pass ------------------------------------------------------------ */

static ts_err say(ts_probe *p, const char *what, const ts_param *q) {
  const size_t n = strlen(p->said);
  snprintf(p->said + n, sizeof p->said - n, "%s %s, ", what, q->name);
  return TS_OK;
}

static ts_err acquire(void *arg, const ts_param *q, ts_pass pass,
                      ts_lane *lane) {
  (void)lane;
  return say(arg, pass == TS_FORWARD ? "take" : "take back", q);
}

static ts_err release(void *arg, const ts_param *q, ts_pass pass,
                      ts_lane *lane) {
  (void)lane;
  return say(arg, pass == TS_FORWARD ? "leave" : "leave back", q);
}

static ts_err ready(void *arg, ts_param *q, ts_lane *lane) {
  (void)lane;
  return say(arg, "ready", q);
}

static void convert(void *to, const void *from, int n, bool to_half) {
  for (int j = 0; j < n; j++)
    if (to_half)
      ((uint16_t *)to)[j] = ts_f32_to_bf16(((const float *)from)[j]);
    else
      ((float *)to)[j] = ts_bf16_to_f32(((const uint16_t *)from)[j]);
}

/* N elements of X in the type that the layers read; OUT has room for it. */
static void *lend(ts_probe *p, float *x, uint16_t *out, int n, bool half) {
  if (half) convert(out, x, n, true);
  return ts_test_lend(p->device, half ? (void *)out : x,
                      (size_t)n * (half ? 2 : 4), true);
}

static void reclaim(ts_probe *p, float *x, uint16_t *out, void *at, int n,
                    bool half) {
  ts_test_reclaim(p->device, half ? (void *)out : x, at,
                  (size_t)n * (half ? 2 : 4), true);
  if (half) convert(x, out, n, false);
}

static void step(ts_probe *p, int batch) {
  static uint16_t x16[ALL], dx16[ALL], dy16[ALL], y16[ALL];
  const int n = batch * p->c->stride;
  const bool half = keeps_half(p), y_half = ts_cross_is_half(p->cross);
  const ts_layer_hooks hooks = {acquire, release, ready, p};
  void *x = lend(p, p->x, x16, n, half), *dx = lend(p, p->dx, dx16, n, half);
  void *dy = lend(p, p->dy, dy16, n, y_half);
  const void *y = NULL;
  ck_assert_ok(ts_cross_forward(p->cross, &y, x, batch, &hooks, p->lane));
  ck_assert_ok(ts_lane_sync(p->lane));
  ck_assert(p->c->n || y == x);
  ts_test_get(p->device, y_half ? (void *)y16 : p->y, y,
              (size_t)n * (y_half ? 2 : 4));
  if (y_half) convert(p->y, y16, n, false);
  ck_assert_ok(ts_cross_backward(p->cross, dx, dy, batch, &hooks, p->lane));
  ck_assert_ok(ts_lane_sync(p->lane));
  reclaim(p, p->x, x16, x, n, half);
  reclaim(p, p->dx, dx16, dx, n, half);
  reclaim(p, p->dy, dy16, dy, n, y_half);
}

/* By norm: one wrong element shows, the rounding of a few does not. */
static void compare(const ts_probe *p, const double *want, const float *got,
                    int64_t n, const char *what) {
  const double most = p->c->precision == TS_PRECISION_F32 ? 2e-6 : 2e-2;
  double off = 0, all = 0;
  for (int64_t j = 0; j < n; j++) {
    off += (want[j] - (double)got[j]) * (want[j] - (double)got[j]);
    all += want[j] * want[j];
  }
  ck_assert_msg(sqrt(off) <= most * sqrt(all) + 1e-12, "%s: %g off %g", what,
                sqrt(off), sqrt(all));
}

static void pass(ts_probe *p, int batch, uint32_t number) {
  static ts_want o;
  const int64_t n = (int64_t)batch * p->c->stride;
  fill(p, batch, number);
  oracle(p, &o, batch);
  p->said[0] = 0;
  step(p, batch);
  give_back(p);
  compare(p, o.x[p->c->n], p->y, n, "y");
  compare(p, o.dx, p->dx, n, "dx");
  for (int i = 0; i < p->params.n; i++) {
    compare(p, o.grad[i], p->grad[i], p->params.item[i]->n,
            p->params.item[i]->name);
    ts_mem_free(p->w[i]);
    ts_mem_free(p->grad[i]);
  }
}

TS_TESTS(layers_against_double, 0, N_CASES) {
  static ts_probe p;
  const int batches[] = {BATCH_MAX, 1, 37, BATCH_MAX};
  start(&p, &cases[_i]);
  if (!missing(&p)) {
    ck_assert_ok(create(&p));
    ck_assert_int_eq(ts_cross_is_half(p.cross), keeps_half(&p) && p.c->y_half);
    for (uint32_t i = 0; i < 4; i++) pass(&p, batches[i], i);
  }
  stop(&p);
}

/* Whether such layers are of bf16 is said before they are made, too. */
TS_TESTS(bf16_where_both_products_are, 0, N_CASES) {
  static ts_probe p;
  start(&p, &cases[_i]);
  const ts_cross_spec s = {.width = p.c->width,
                           .rank = p.c->rank,
                           .n_layers = p.c->n,
                           .precision = p.c->precision};
  ck_assert_int_eq(ts_cross_in_bf16(&s, &p.k), keeps_half(&p));
  stop(&p);
}

TS_TEST(hooks_come_in_order) {
  static ts_probe p;
  start(&p, &cases[0]);
  ck_assert_ok(create(&p));
  pass(&p, 5, 0);
  ck_assert_str_eq(p.said, "take layer.V_kernels.0, leave layer.V_kernels.0, "
                           "take layer.V_kernels.1, leave layer.V_kernels.1, "
                           "take back layer.V_kernels.1, ready layer.bias.1, "
                           "ready layer.W_kernels.1, ready layer.V_kernels.1, "
                           "leave back layer.V_kernels.1, "
                           "take back layer.V_kernels.0, ready layer.bias.0, "
                           "ready layer.W_kernels.0, ready layer.V_kernels.0, "
                           "leave back layer.V_kernels.0, ");
  stop(&p);
}

/* Normal with variance 2 / (width + rank): of 30,000 draws the deviation is
 * within 1.5 %, four of its own. */
TS_TEST(initial_values) {
  static ts_probe p;
  const ts_case c = {250, 250, 120, 1, false, TS_PRECISION_F32};
  start(&p, &c);
  ck_assert_ok(create(&p));
  for (int i = 0; i < 2; i++) {
    static float w[250 * 120];
    const ts_param *q = p.params.item[i];
    double sum = 0, squares = 0;
    ck_assert_int_eq(q->rows, i ? 250 : 120);
    ck_assert_int_eq(q->cols, i ? 120 : 250);
    ck_assert_str_eq(q->group, "g.0");
    ts_test_get(p.device, w, q->w, sizeof w);
    for (int j = 0; j < 250 * 120; j++) {
      sum += (double)w[j];
      squares += (double)w[j] * (double)w[j];
    }
    const double deviation = sqrt(2.0 / 370);
    ck_assert_double_le(fabs(sum / 30000), 5 * deviation / sqrt(30000));
    ck_assert_double_le(fabs(sqrt(squares / 30000) / deviation - 1), 0.015);
  }
  ck_assert_int_eq(p.params.n, 3);
  ck_assert_int_eq(p.params.item[2]->n, 250);
  stop(&p);
}

#ifdef TS_FAULTS
/* A lane that failed stays so: each start has its own. */
static ts_err make(void *arg) {
  ts_err err = TS_OK;
  ts_probe *p = arg;
  p->lane = NULL;
  TS_TRY(ts_lane_create(p->device, &p->lane, "c", TS_LANE_COMPUTE));
  TS_TRY(create(p));
  TS_TRY(ts_lane_sync(p->lane));
done:
  ts_cross_destroy(p->cross);
  p->cross = NULL;
  ts_params_reset(&p->params);
  ts_lane_destroy(p->lane);
  p->lane = NULL;
  return err;
}

TS_TESTS(nothing_stays_of_a_failed_start, 0, N_CASES) {
  static ts_probe p;
  start(&p, &cases[_i]);
  if (!missing(&p)) {
    ts_lane_destroy(p.lane);
    walk(make, &p, "alloc", 1 << TS_ERR_NOMEM);
  }
  stop(&p);
}
#endif
