/* kernels_ref.c - the layers' kernels in plain C: the oracle of all others. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "runtime/backends.h"

static ts_err contract(const ts_contract_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < t->n_b; b++)
    for (int32_t h = 0; h < t->n_h; h++)
      for (int32_t i = 0; i < t->n_i; i++)
        for (int32_t j = 0; j < t->n_j; j++) {
          const float *x = t->a + b * t->as.b + h * t->as.h + i * t->as.r;
          const float *y =
              t->b ? t->b + b * t->bs.b + h * t->bs.h + j * t->bs.r : NULL;
          float *to =
              t->c + b * t->cs.b + h * t->cs.h + i * t->cs.r + j * t->cs.c;
          double sum = 0;
          for (int64_t k = 0; k < t->n_k; k++)
            sum += (double)x[k * t->as.c] * (y ? y[k * t->bs.c] : 1);
          *to = (float)((t->add ? *to : 0) + t->scale * sum);
        }
  return TS_OK;
}

static int64_t place(ts_stride4 s, int64_t b, int32_t h, int32_t i, int32_t j) {
  return b * s.b + h * s.h + i * s.r + j * s.c;
}

static float map_op(ts_map_op op, float a, float x) {
  const double turns = (double)a * x, v = 2 * M_PI * (turns - rint(turns));
  if (op == TS_MAP_SIN) return (float)sin(v);
  if (op == TS_MAP_COS) return (float)cos(v);
  return op == TS_MAP_SUM ? a + x : a * x;
}

static ts_err map(const ts_map_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < t->n_b; b++)
    for (int32_t h = 0; h < t->n_h; h++)
      for (int32_t i = 0; i < t->n_i; i++)
        for (int32_t j = 0; j < t->n_j; j++) {
          const float a = t->scale * t->a[place(t->as, b, h, i, j)];
          const float x = t->x ? t->x[place(t->xs, b, h, i, j)] : 1;
          float *y = t->y + place(t->ys, b, h, i, j);
          const float z = map_op(t->op, a, x);
          *y = t->add ? *y + z : z;
        }
  return TS_OK;
}

/* ---- activations --------------------------------------------------------- */

static double act(const ts_act_args *t, double x, int32_t c, double *slope) {
  const double s = 1 / (1 + exp(-x)), phi = erfc(-x * sqrt(0.5)) / 2;
  const double leak =
      t->kind == TS_ACT_PRELU ? (double)t->slope[c] : (double)t->leak;
  switch (t->kind) {
  case TS_ACT_GELU:
    *slope = phi + x * exp(-x * x / 2) / sqrt(2 * M_PI);
    return x * phi;
  case TS_ACT_SILU:
    *slope = s * (1 + x * (1 - s));
    return x * s;
  case TS_ACT_SIGMOID:
    *slope = s * (1 - s);
    return s;
  case TS_ACT_TANH:
    *slope = 1 - tanh(x) * tanh(x);
    return tanh(x);
  case TS_ACT_RELU: /* of -infinity 0, of NaN NaN */
    *slope = x > 0;
    return x < 0 ? 0 : x;
  case TS_ACT_LEAKY:
  case TS_ACT_PRELU:
    break;
  }
  *slope = x > 0 ? 1 : leak;
  return x > 0 ? x : leak * x;
}

static ts_err act_forward(const ts_act_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++)
    for (int32_t c = 0; c < t->n; c++) {
      double slope;
      t->y[r * t->y_stride + c] =
          (float)act(t, t->x[r * t->x_stride + c], c, &slope);
    }
  return TS_OK;
}

static ts_err act_backward(const ts_act_args *t) {
#pragma omp parallel for schedule(static)
  for (int32_t c = 0; c < t->n; c++) {
    double sum = 0;
    for (int64_t r = 0; r < t->rows; r++) {
      const float x = t->x[r * t->x_stride + c],
                  dy = t->dy[r * t->y_stride + c];
      double slope;
      (void)act(t, x, c, &slope);
      sum += x < 0 ? (double)dy * x : 0;
      t->dx[r * t->x_stride + c] = (float)(dy * slope);
    }
    if (t->dslope) t->dslope[c] = (float)sum;
  }
  return TS_OK;
}

/* ---- norms of rows ------------------------------------------------------- */

/* y = f x + shift before gain and bias, of one row; returns whether f is 1 /
 * eps of l2, which no x changes. */
static bool row_norm(const ts_norm_args *t, const float *x, double *f,
                     double *shift) {
  double sum = 0, square = 0, most = -INFINITY;
  for (int32_t c = 0; c < t->n; c++) {
    sum += x[c];
    most = fmax(most, t->scale * x[c]);
  }
  const double mean = t->kind == TS_NORM_LAYER ? sum / t->n : 0;
  for (int32_t c = 0; c < t->n; c++) square += (x[c] - mean) * (x[c] - mean);
  *f = t->kind == TS_NORM_L2 ? 1 / fmax(sqrt(square), t->eps)
                             : 1 / sqrt(square / t->n + t->eps);
  *shift = -mean * *f;
  if (t->kind == TS_NORM_L2) return sqrt(square) <= t->eps;
  if (t->kind != TS_NORM_SOFTMAX) return false;
  sum = 0;
  for (int32_t c = 0; c < t->n; c++) sum += exp(t->scale * x[c] - most);
  *f = 1 / sum;
  *shift = most;
  return false;
}

static ts_err norm_forward(const ts_norm_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++) {
    const float *x = t->x + r * t->x_stride;
    float *y = t->y + r * t->y_stride;
    double f, shift;
    (void)row_norm(t, x, &f, &shift);
    for (int32_t c = 0; c < t->n; c++)
      y[c] = t->kind == TS_NORM_SOFTMAX
                 ? (float)(exp(t->scale * x[c] - shift) * f)
                 : (float)((f * x[c] + shift) * (t->gain ? t->gain[c] : 1) +
                           (t->bias ? t->bias[c] : 0));
  }
  return TS_OK;
}

/* One row; sums of gain and bias. */
static void norm_row(const ts_norm_args *t, int64_t r, double *dg, double *db) {
  const float *x = t->x + r * t->x_stride, *dy = t->dy + r * t->y_stride;
  float *dx = t->dx + r * t->x_stride;
  double f, shift, dot = 0, sum = 0;
  const bool flat = row_norm(t, x, &f, &shift);
  const bool soft = t->kind == TS_NORM_SOFTMAX;
  for (int32_t c = 0; c < t->n; c++) {
    const double y = soft ? exp(t->scale * x[c] - shift) * f : f * x[c] + shift;
    const double g = dy[c] * (double)(t->gain ? t->gain[c] : 1);
    dot += g * y;
    sum += g;
    dg[c] += dy[c] * y;
    db[c] += dy[c];
  }
  if (t->kind == TS_NORM_LAYER || t->kind == TS_NORM_RMS) dot /= t->n;
  if (t->kind != TS_NORM_LAYER) sum = 0;
  for (int32_t c = 0; c < t->n; c++) {
    const double y = soft ? exp(t->scale * x[c] - shift) * f : f * x[c] + shift;
    const double g = dy[c] * (double)(t->gain ? t->gain[c] : 1);
    dx[c] = soft ? (float)(t->scale * y * (g - dot))
                 : (float)(f * (g - sum / t->n - (flat ? 0 : y * dot)));
  }
}

static ts_err norm_backward(const ts_norm_args *t) {
  double *dg;
  TS_DO(ts_mem_many(dg, 2 * (int64_t)t->n, ACTIVATIONS));
  double *db = dg + t->n;
  memset(dg, 0, 2 * (size_t)t->n * sizeof *dg);
  for (int64_t r = 0; r < t->rows; r++) norm_row(t, r, dg, db);
  for (int32_t c = 0; c < t->n; c++) {
    if (t->dgain) t->dgain[c] = (float)dg[c];
    if (t->dbias) t->dbias[c] = (float)db[c];
  }
  ts_mem_free(dg);
  return TS_OK;
}

/* ---- columns ------------------------------------------------------------- */

static ts_err column_sums(const ts_column_sums_args *t) {
#pragma omp parallel for schedule(static)
  for (int32_t c = 0; c < t->n; c++) {
    double sum = 0, product = 0;
    for (int64_t r = 0; r < t->rows; r++) {
      const double a = t->a[r * t->a_stride + c];
      sum += a;
      product += a * (t->b ? t->b[r * t->b_stride + c] : a);
    }
    if (t->sum) t->sum[c] = sum;
    if (t->product) t->product[c] = product;
  }
  return TS_OK;
}

static ts_err column_apply(const ts_column_apply_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++)
    for (int32_t c = 0; c < t->n; c++)
      t->y[r * t->y_stride + c] =
          t->u[c] * t->x[r * t->x_stride + c] +
          (t->z ? t->v[c] * t->z[r * t->z_stride + c] : 0) + t->w[c];
  return TS_OK;
}

static ts_err batch_norm_forward(const ts_batch_norm_args *t) {
  for (int32_t c = 0; c < t->n; c++) {
    double mean = t->running_mean ? t->running_mean[c] : 0;
    double var = t->running_var ? t->running_var[c] : 1;
    const double m = t->momentum, n = t->count;
    if (t->training && n > 0) {
      mean = t->sum[c] / n;
      var = fmax(0, t->product[c] / n - mean * mean);
    }
    if (t->training && n > 0 && t->running_mean && isfinite(t->sum[c]) &&
        isfinite(t->product[c])) { /* a batch that is not a number counts for
                                      nothing */
      const double wide = n > 1 ? var * n / (n - 1) : var;
      t->running_mean[c] = (float)((1 - m) * t->running_mean[c] + m * mean);
      t->running_var[c] = (float)((1 - m) * t->running_var[c] + m * wide);
    }
    const double rstd = 1 / sqrt(var + t->eps);
    const double u = rstd * (double)(t->gain ? t->gain[c] : 1);
    t->mean[c] = (float)mean;
    t->rstd[c] = (float)rstd;
    t->u[c] = (float)u;
    t->w[c] = (float)((double)(t->bias ? t->bias[c] : 0) - u * mean);
  }
  return TS_OK;
}

static ts_err batch_norm_backward(const ts_batch_norm_args *t) {
  for (int32_t c = 0; c < t->n; c++) {
    const double n = t->count, mean = t->mean[c], rstd = t->rstd[c];
    const double u = rstd * (double)(t->gain ? t->gain[c] : 1);
    const double p = (t->product[c] - mean * t->sum[c]) * rstd;
    const double v = n > 0 ? -u * rstd * p / n : 0;
    if (t->dbias) t->dbias[c] = (float)t->own_sum[c];
    if (t->dgain)
      t->dgain[c] = (float)((t->own_product[c] - mean * t->own_sum[c]) * rstd);
    t->u[c] = (float)u;
    t->v[c] = (float)v;
    t->w[c] = (float)((n > 0 ? -u * t->sum[c] / n : 0) - v * mean);
  }
  return TS_OK;
}

/* ---- the rest ------------------------------------------------------------ */

static ts_err dropout(const ts_dropout_args *t) {
  const float keep = 1 / (1 - t->p);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++)
    for (int32_t c = 0; c < t->n; c++) {
      const uint64_t row =
          (uint64_t)(t->first + (t->sample ? t->sample[r] : r));
      const uint32_t at[4] = {(uint32_t)row, (uint32_t)(row >> 32),
                              (uint32_t)c / 4,
                              t->sample ? (uint32_t)t->position[r] : 0};
      uint32_t word[4];
      ts_philox(word, at, t->key);
      t->y[r * t->y_stride + c] = ts_rng_unit(word[c % 4]) < t->p
                                      ? 0
                                      : keep * t->x[r * t->x_stride + c];
    }
  return TS_OK;
}

static int32_t largest(const ts_max_args *t, int64_t r, int32_t j) {
  const float *x = t->x + r * t->x_stride + j;
  int32_t best = 0;
  for (int32_t i = 1; i < t->n_i; i++)
    if (x[(int64_t)i * t->n_j] > x[(int64_t)best * t->n_j]) best = i;
  return best;
}

static ts_err max_forward(const ts_max_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++)
    for (int32_t j = 0; j < t->n_j; j++)
      t->y[r * t->y_stride + j] =
          t->x[r * t->x_stride + (int64_t)largest(t, r, j) * t->n_j + j];
  return TS_OK;
}

static ts_err max_backward(const ts_max_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++)
    for (int32_t j = 0; j < t->n_j; j++) {
      const int32_t best = largest(t, r, j);
      for (int32_t i = 0; i < t->n_i; i++)
        t->dx[r * t->x_stride + (int64_t)i * t->n_j + j] =
            i == best ? t->dy[r * t->y_stride + j] : 0;
    }
  return TS_OK;
}

void ts_model_kernels_ref(ts_kernels *k) {
  k->contract = contract;
  k->map = map;
  k->act_forward = act_forward;
  k->act_backward = act_backward;
  k->norm_forward = norm_forward;
  k->norm_backward = norm_backward;
  k->column_sums = column_sums;
  k->column_apply = column_apply;
  k->batch_norm_forward = batch_norm_forward;
  k->batch_norm_backward = batch_norm_backward;
  k->dropout = dropout;
  k->max_forward = max_forward;
  k->max_backward = max_backward;
}
