/* layers_rows.c - the contract of the layers' kernels over rows: activations,
 * norms, sums and batch norm of columns; against formulas in double, gradients
 * against differences of these.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "tests/kernels/layers.h"

static const double step = 1e-5; /* of differences */
static const int32_t widths[] = {1, 3, 8, 17, 33, 64, 130};

KT_CONTRACT("act_forward act_backward norm_forward norm_backward column_sums "
            "column_apply batch_norm_forward batch_norm_backward")

/* ---- activations --------------------------------------------------------- */

static double act(ts_act_kind kind, double x, double leak) {
  switch (kind) {
  case TS_ACT_GELU:
    return x / 2 * (1 + erf(x / sqrt(2)));
  case TS_ACT_SILU:
    return x / 2 * (1 + tanh(x / 2));
  case TS_ACT_SIGMOID:
    return (1 + tanh(x / 2)) / 2;
  case TS_ACT_TANH:
    return tanh(x);
  case TS_ACT_RELU:
    return isnan(x) ? x : fmax(x, 0);
  case TS_ACT_LEAKY:
  case TS_ACT_PRELU:
    break;
  }
  return x > 0 ? x : leak * x;
}

static double act_slope(ts_act_kind kind, double x, double leak) {
  if (kind == TS_ACT_RELU) return x > 0;
  if (kind == TS_ACT_LEAKY || kind == TS_ACT_PRELU) return x > 0 ? 1 : leak;
  return (act(kind, x + step, leak) - act(kind, x - step, leak)) / (2 * step);
}

static ts_err run_act(const ts_kernels *k, const void *arg) {
  ts_act_args t = *(const ts_act_args *)arg;
  kt_at_all(&t, sizeof t);
  TS_DO(k->act_forward(&t));
  return k->act_backward(&t);
}

static void expect_act(const ts_act_args *t) {
  const bool plain = t->kind <= TS_ACT_PRELU;
  const double places =
      t->kind == TS_ACT_GELU ? 4 : 10; /* units of y: 8 or 3 */
  for (int32_t c = 0; c < t->n; c++) {
    const double leak = t->kind == TS_ACT_PRELU   ? (double)t->slope[c]
                        : t->kind == TS_ACT_LEAKY ? (double)t->leak
                                                  : 0;
    double sum = 0, of = 0;
    for (int64_t r = 0; r < t->rows; r++) {
      const int64_t at = r * t->x_stride + c, to = r * t->y_stride + c;
      const double x = t->x[at], dy = t->dy[to], y = act(t->kind, x, leak);
      lt_want(t->y, to, y, plain ? 0 : (fabs(y) + 0.01) / places);
      const double dx = dy * act_slope(t->kind, x, leak);
      lt_want(t->dx, at, dx, plain ? 0 : fabs(dx) + 0.1 * fabs(dy));
      sum += dy * fmin(x, 0);
      of += fabs(dy * x);
    }
    lt_want(t->dslope, c, sum, of);
  }
}

static void check_act(ts_act_kind kind, int64_t rows, int32_t n, int how) {
  static const float rare[] = {0, -0.0f, 30, -30, 100, -100, 1e-30f, -80};
  ts_act_args t = {.rows = rows, .n = n, .kind = kind, .leak = 0.01f};
  lt_begin();
  t.x_stride = n + how % 3;
  t.y_stride = how % 4 == 3 ? t.x_stride : n + kt_below(4);
  float *x = lt_numbers(rows * t.x_stride, how % 2 ? 6 : 1);
  for (int64_t i = 0; i < rows * t.x_stride; i++)
    if (kt_below(16) == 0) x[i] = rare[kt_below(8)];
  if (kind == TS_ACT_RELU && rows) x[0] = how % 2 ? -INFINITY : NAN;
  t.x = x;
  t.y = lt_out(rows * t.y_stride, 4);
  t.dx = lt_out(rows * t.x_stride, 4);
  t.dy = how % 4 == 3 ? t.dx : lt_numbers(rows * t.y_stride, 1);
  t.slope = kind == TS_ACT_PRELU ? lt_numbers(n, 1) : NULL;
  t.dslope = kind == TS_ACT_PRELU ? lt_out(n, 4) : NULL;
  expect_act(&t);
  lt_check(run_act, &t);
}

TS_TESTS(activations, 0, TS_ACT_TANH + 1) {
  for (int w = 0; w < TEST_COUNT(widths); w++)
    for (int how = 0; how < 4; how++)
      check_act((ts_act_kind)_i, how == 2 && w % 2 ? 0 : 1 + kt_below(50),
                widths[w], how);
  check_act((ts_act_kind)_i, 1100, 5, 1);
}

/* ---- norms of rows ------------------------------------------------------- */

/* y of one row, before gain and bias; returns what x is multiplied by. */
static double norm(const ts_norm_args *t, const double *x, double *y) {
  double sum = 0, square = 0, most = -INFINITY;
  for (int c = 0; c < t->n; c++) {
    sum += x[c];
    most = fmax(most, t->scale * x[c]);
  }
  const double mean = t->kind == TS_NORM_LAYER ? sum / t->n : 0;
  for (int c = 0; c < t->n; c++) square += (x[c] - mean) * (x[c] - mean);
  double f = t->kind == TS_NORM_L2 ? 1 / fmax(sqrt(square), t->eps)
                                   : 1 / sqrt(square / t->n + t->eps);
  if (t->kind == TS_NORM_SOFTMAX) {
    f = sum = 0;
    for (int c = 0; c < t->n; c++) sum += exp(t->scale * x[c] - most);
    for (int c = 0; c < t->n; c++)
      f = fmax(f, y[c] = exp(t->scale * x[c] - most) / sum);
    return f * t->scale;
  }
  for (int c = 0; c < t->n; c++) y[c] = (x[c] - mean) * f;
  return f;
}

enum { WIDE = 130 };

static double gain_of(const ts_norm_args *t, int c) {
  return t->gain ? (double)t->gain[c] : 1;
}

/* Row R: y, and the gradient by differences of the sum of dy y. */
static void expect_norm_row(const ts_norm_args *t, int64_t r, double *dgain) {
  double x[WIDE] = {0}, y[WIDE], g[WIDE], most = 0;
  for (int c = 0; c < t->n; c++) {
    x[c] = t->x[r * t->x_stride + c];
    g[c] = t->dy[r * t->y_stride + c] * gain_of(t, c);
    most = fmax(most, fabs(g[c]));
  }
  const double f = norm(t, x, y);
  for (int c = 0; c < t->n; c++) {
    const double z = y[c] * gain_of(t, c), b = t->bias ? (double)t->bias[c] : 0;
    lt_want(t->y, r * t->y_stride + c, z + b, fabs(z) + fabs(b) + 0.1);
    dgain[c] += t->dy[r * t->y_stride + c] * y[c];
  }
  for (int c = 0; c < t->n; c++) {
    const double was = x[c];
    double loss[2] = {0};
    for (int side = 0; side < 2; side++) {
      x[c] = was + (side ? step : -step) / fmax(f, 1);
      (void)norm(t, x, y);
      for (int k = 0; k < t->n; k++) loss[side] += g[k] * y[k];
    }
    x[c] = was;
    lt_want(t->dx, r * t->x_stride + c,
            (loss[1] - loss[0]) / (2 * step) * fmax(f, 1),
            4 * f * most + 0.01 * fmax(f, 1));
  }
}

static ts_err run_norm(const ts_kernels *k, const void *arg) {
  ts_norm_args t = *(const ts_norm_args *)arg;
  kt_at_all(&t, sizeof t);
  TS_DO(k->norm_forward(&t));
  return k->norm_backward(&t);
}

static void check_norm(ts_norm_kind kind, int64_t rows, int32_t n, int how) {
  const bool gains = kind <= TS_NORM_RMS && how % 2;
  double dgain[WIDE] = {0};
  ts_norm_args t = {.rows = rows, .n = n, .kind = kind, .scale = 1};
  lt_begin();
  t.eps = kind == TS_NORM_L2 && how == 2 ? 20 : 1e-2f;
  t.scale = how == 2 ? 2.5f : 1;
  t.x_stride = n + how % 3;
  t.y_stride = how == 3 ? t.x_stride : n + kt_below(4);
  t.x = lt_numbers(rows * t.x_stride, how == 1 ? 4 : 1);
  t.gain = gains ? lt_numbers(n, 2) : NULL;
  t.bias = gains && how == 1 ? lt_numbers(n, 1) : NULL;
  t.y = lt_out(rows * t.y_stride, 4);
  t.dx = lt_out(rows * t.x_stride, 4);
  t.dy = how == 3 ? t.dx : lt_numbers(rows * t.y_stride, 1);
  t.dgain = gains ? lt_out(n, 4) : NULL;
  t.dbias = t.bias ? lt_out(n, 4) : NULL;
  for (int64_t r = 0; r < rows; r++) expect_norm_row(&t, r, dgain);
  for (int c = 0; c < n; c++) {
    double sum = 0;
    for (int64_t r = 0; r < rows; r++) sum += t.dy[r * t.y_stride + c];
    lt_want(t.dgain, c, dgain[c], 1 + (double)rows);
    lt_want(t.dbias, c, sum, 1 + (double)rows);
  }
  lt_check(run_norm, &t);
}

TS_TESTS(norms, 0, TS_NORM_SOFTMAX + 1) {
  for (int w = 0; w < TEST_COUNT(widths); w++)
    for (int how = 0; how < 4; how++)
      check_norm((ts_norm_kind)_i,
                 how == 1 && w % 3 == 2 ? 0 : 1 + kt_below(20), widths[w], how);
  check_norm((ts_norm_kind)_i, 700, 6, 1);
}

/* ---- columns ------------------------------------------------------------- */

KT_CALL(run_sums, column_sums, ts_column_sums_args)
KT_CALL(run_apply, column_apply, ts_column_apply_args)

TS_TEST(column_sums) {
  for (int i = 0; i < 28; i++) {
    ts_column_sums_args t = {.rows = i % 9 ? 1 + kt_below(100) : 0,
                             .n = widths[i % TEST_COUNT(widths)]};
    if (i % 7 == 1) t.rows = 2500;
    lt_begin();
    t.a_stride = t.n + kt_below(3);
    t.b_stride = t.n + kt_below(3);
    t.a = lt_numbers(t.rows * t.a_stride, 1);
    t.b = i % 2 ? lt_numbers(t.rows * t.b_stride, 1) : NULL;
    t.sum = i % 5 != 4 ? lt_out(t.n, 8) : NULL;
    t.product = i % 5 != 3 ? lt_out(t.n, 8) : NULL;
    for (int c = 0; c < t.n; c++) {
      double sum = 0, product = 0;
      for (int64_t r = t.rows - 1; r >= 0; r--) {
        const double a = t.a[r * t.a_stride + c];
        sum += a;
        product += a * (t.b ? (double)t.b[r * t.b_stride + c] : a);
      }
      lt_want(t.sum, c, sum, 1e-6 * (double)t.rows);
      lt_want(t.product, c, product, 1e-6 * (double)t.rows);
    }
    lt_check(run_sums, &t);
  }
}

TS_TEST(column_apply) {
  for (int i = 0; i < 28; i++) {
    ts_column_apply_args t = {.rows = i % 9 ? 1 + kt_below(60) : 0,
                              .n = widths[i % TEST_COUNT(widths)]};
    lt_begin();
    t.y_stride = t.x_stride = t.n + kt_below(3);
    t.z_stride = t.n + kt_below(3);
    t.y = lt_out(t.rows * t.y_stride, 4);
    t.x = i % 3 ? lt_numbers(t.rows * t.x_stride, 1) : t.y;
    t.z = i % 2 ? lt_numbers(t.rows * t.z_stride, 1) : NULL;
    t.u = lt_numbers(t.n, 3);
    t.v = t.z ? lt_numbers(t.n, 1) : NULL;
    t.w = lt_numbers(t.n, 1);
    for (int64_t r = 0; r < t.rows; r++)
      for (int c = 0; c < t.n; c++) {
        const double x = (double)t.u[c] * t.x[r * t.x_stride + c];
        const double z = t.z ? (double)t.v[c] * t.z[r * t.z_stride + c] : 0;
        lt_want(t.y, r * t.y_stride + c, x + z + t.w[c],
                fabs(x) + fabs(z) + fabs((double)t.w[c]));
      }
    lt_check(run_apply, &t);
  }
}

/* ---- batch norm ---------------------------------------------------------- */

/* Columns of X: y = (x - mean) / sqrt(var + eps) before gain and bias. */
enum { ROWS = 23, OWN = 9, COLUMNS = 40 };
static double bn_x[COLUMNS][ROWS], bn_dy[COLUMNS][ROWS];

static void moments(const double *x, double *mean, double *var) {
  *mean = *var = 0;
  for (int r = 0; r < ROWS; r++) *mean += x[r] / ROWS;
  for (int r = 0; r < ROWS; r++) *var += (x[r] - *mean) * (x[r] - *mean) / ROWS;
}

/* Sum of dy y over rows below N. */
static double bn_loss(int c, double eps, int n) {
  double mean, var, sum = 0;
  moments(bn_x[c], &mean, &var);
  for (int r = 0; r < n; r++)
    sum += bn_dy[c][r] * (bn_x[c][r] - mean) / sqrt(var + eps);
  return sum;
}

/* Column C's sums over rows below N of x and x^2, or of dy and dy x. */
static void sums_of(int c, int n, bool grad, double *sum, double *product) {
  sum[c] = product[c] = 0;
  for (int r = 0; r < n; r++) {
    sum[c] += grad ? bn_dy[c][r] : bn_x[c][r];
    product[c] += (grad ? bn_dy[c][r] : bn_x[c][r]) * bn_x[c][r];
  }
}

typedef struct bn_case {
  ts_batch_norm_args forward, backward;
  ts_column_apply_args apply;
} bn_case;

static ts_err run_bn(const ts_kernels *k, const void *arg) {
  bn_case t = *(const bn_case *)arg;
  kt_at_all(&t, sizeof t);
  TS_DO(k->batch_norm_forward(&t.forward));
  if (!t.forward.training) return TS_OK;
  TS_DO(k->batch_norm_backward(&t.backward));
  return k->column_apply(&t.apply);
}

static void make_bn(bn_case *t, bool training, bool plain) {
  const int n = COLUMNS;
  float *x = lt_numbers(ROWS * n, 1), *dy = lt_numbers(ROWS * n, 1);
  double *s[6];
  for (int i = 0; i < 6; i++) s[i] = kt_zeros(n, 8);
  for (int c = 0; c < n; c++) {
    for (int r = 0; r < ROWS; r++) {
      x[r * n + c] += (float)(c % 4); /* a mean */
      bn_x[c][r] = x[r * n + c];
      bn_dy[c][r] = dy[r * n + c];
    }
    sums_of(c, ROWS, false, s[0], s[1]);
    sums_of(c, ROWS, true, s[2], s[3]);
    sums_of(c, OWN, true, s[4], s[5]);
  }
  ts_batch_norm_args *f = &t->forward, *b = &t->backward;
  *f = (ts_batch_norm_args){.sum = s[0],
                            .product = s[1],
                            .count = ROWS,
                            .n = n,
                            .eps = 0.01f,
                            .momentum = 0.1f,
                            .training = training};
  f->gain = plain ? NULL : lt_numbers(n, 2);
  f->bias = plain ? NULL : lt_numbers(n, 1);
  f->running_mean = plain ? NULL : lt_out(n, 4);
  f->running_var = plain ? NULL : lt_out(n, 4);
  for (int c = 0; !plain && c < n; c++)
    f->running_var[c] = fabsf(f->running_var[c]);
  f->mean = lt_out(n, 4), f->rstd = lt_out(n, 4);
  f->u = lt_out(n, 4), f->v = kt_own(n, 4), f->w = lt_out(n, 4);
  *b = *f;
  b->sum = s[2], b->product = s[3], b->own_sum = s[4], b->own_product = s[5];
  b->dgain = plain ? NULL : lt_out(n, 4);
  b->dbias = plain ? NULL : lt_out(n, 4);
  b->u = kt_own(n, 4), b->v = kt_own(n, 4), b->w = kt_own(n, 4);
  t->apply = (ts_column_apply_args){.x = dy,
                                    .z = x,
                                    .u = b->u,
                                    .v = b->v,
                                    .w = b->w,
                                    .rows = ROWS,
                                    .n = n,
                                    .x_stride = n,
                                    .y_stride = n,
                                    .z_stride = n};
  t->apply.y = lt_out(ROWS * n, 4);
}

static void expect_bn(const bn_case *t, int c) {
  const ts_batch_norm_args *f = &t->forward, *b = &t->backward;
  const double g = f->gain ? (double)f->gain[c] : 1, eps = f->eps;
  const double was_mean = f->running_mean ? (double)f->running_mean[c] : 0;
  const double was_var = f->running_var ? (double)f->running_var[c] : 1;
  const double m = f->training ? (double)f->momentum : 0;
  double mean = was_mean, var = was_var;
  if (f->training) moments(bn_x[c], &mean, &var);
  const double rstd = 1 / sqrt(var + eps),
               bias = f->bias ? (double)f->bias[c] : 0;
  lt_want(f->mean, c, mean, 1);
  lt_want(f->rstd, c, rstd, rstd);
  lt_want(f->u, c, g * rstd, rstd);
  lt_want(f->w, c, bias - g * rstd * mean, rstd * 5);
  lt_want(f->running_mean, c, (1 - m) * was_mean + m * mean, 1);
  lt_want(f->running_var, c, (1 - m) * was_var + m * var * ROWS / (ROWS - 1),
          1);
  double sum = 0;
  for (int r = 0; r < OWN; r++) sum += bn_dy[c][r];
  if (!f->training) {
    lt_want(f->running_var, c, was_var, 0);
    return;
  }
  lt_want(b->dbias, c, sum, OWN);
  lt_want(b->dgain, c, bn_loss(c, eps, OWN), OWN * rstd * 3);
  for (int r = 0; r < ROWS; r++) {
    const double was = bn_x[c][r];
    bn_x[c][r] = was + step;
    const double up = bn_loss(c, eps, ROWS);
    bn_x[c][r] = was - step;
    const double down = bn_loss(c, eps, ROWS);
    bn_x[c][r] = was;
    lt_want(t->apply.y, r * COLUMNS + c, g * (up - down) / (2 * step),
            10 * rstd * fmax(1, fabs(g)));
  }
}

TS_TESTS(batch_norm, 0, 4) {
  bn_case t;
  lt_begin();
  make_bn(&t, _i % 2, _i / 2);
  for (int c = 0; c < COLUMNS; c++) expect_bn(&t, c);
  lt_check(run_bn, &t);
}
