/* norm_body.h - norms of rows, and what is summed over rows, for each
 * instruction set.  Sums of a row have 16 lanes; those over rows are of blocks
 * of them, in double, then block by block. */
#pragma once

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kernel_table.h"

/* ---- sums over rows ------------------------------------------------------ */

enum { BLOCK_ROWS = 128, BLOCKS_MAX = 1024 };

/* SUM, DOT (n), zero at first, += what rows FROM to END have of them. */
typedef void block_sums(const void *args, int64_t from, int64_t end,
                        double *sum, double *dot);

/* SUM[0], SUM[1] (n): allocated, for ts_mem_free(sum[0]). */
static ts_err sums_over_rows(block_sums *f, const void *args, int64_t rows,
                             int32_t n, double *sum[2]) {
  const int64_t least = (rows + BLOCKS_MAX - 1) / BLOCKS_MAX;
  const int64_t each = least > BLOCK_ROWS ? least : BLOCK_ROWS;
  const int64_t blocks = rows ? (rows + each - 1) / each : 1, room = 2 * n;
  double *parts;
  TS_DO(ts_mem_many(parts, blocks * room, ACTIVATIONS));
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < blocks; b++) {
    double *own = parts + b * room;
    const int64_t end = (b + 1) * each < rows ? (b + 1) * each : rows;
    memset(own, 0, (size_t)room * sizeof *own);
    f(args, b * each, end, own, own + n);
  }
  for (int64_t b = 1; b < blocks; b++)
    for (int64_t c = 0; c < room; c++) parts[c] += parts[b * room + c];
  sum[0] = parts;
  sum[1] = parts + n;
  return TS_OK;
}

/* TO[c] = FROM[c] (n), unless TO is NULL. */
static void put_sums(float *to, const double *from, int32_t n) {
  for (int32_t c = 0; to && c < n; c++) to[c] = (float)from[c];
}

static void column_block(const void *args, int64_t from, int64_t end,
                         double *restrict sum, double *restrict dot) {
  const ts_column_sums_args *t = args;
  for (int64_t r = from; r < end; r++) {
    const float *a = t->a + r * t->a_stride;
    const float *b = t->b ? t->b + r * t->b_stride : a;
    for (int32_t c = 0; c < t->n; c++) {
      sum[c] += (double)a[c];
      dot[c] += (double)a[c] * (double)b[c];
    }
  }
}

static ts_err column_sums(const ts_column_sums_args *t) {
  double *sum[2];
  const size_t bytes = (size_t)t->n * sizeof *t->sum;
  TS_DO(sums_over_rows(column_block, t, t->rows, t->n, sum));
  if (t->sum) memcpy(t->sum, sum[0], bytes);
  if (t->product) memcpy(t->product, sum[1], bytes);
  ts_mem_free(sum[0]);
  return TS_OK;
}

/* ---- activations --------------------------------------------------------- */

static ts_err act_forward(const ts_act_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++) act_row(t, r);
  return TS_OK;
}

static void act_block(const void *args, int64_t from, int64_t end,
                      double *restrict sum, double *restrict unused) {
  const ts_act_args *t = args;
  (void)unused;
  for (int64_t r = from; r < end; r++) {
    const float *x = t->x + r * t->x_stride, *dy = t->dy + r * t->y_stride;
    for (int32_t c = 0; c < t->n; c++) {
      const float below = x[c] < 0 ? x[c] : 0;
      sum[c] += (double)dy[c] * (double)below;
    }
  }
}

/* Slopes' sums first: dx may take dy's place. */
static ts_err act_backward(const ts_act_args *t) {
  if (t->dslope) {
    double *sum[2];
    TS_DO(sums_over_rows(act_block, t, t->rows, t->n, sum));
    put_sums(t->dslope, sum[0], t->n);
    ts_mem_free(sum[0]);
  }
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++) act_grad_row(t, r);
  return TS_OK;
}

/* ---- norms --------------------------------------------------------------- */

/* y = f (x - shift), or of softmax f exp(scale x - shift). */
typedef struct row_numbers {
  float f, shift;
  bool flat; /* l2: the norm is below eps */
} row_numbers;

static row_numbers numbers_of(const ts_norm_args *t, const float *x) {
  const int32_t n = t->n;
  float sum, mean = 0;
  if (t->kind == TS_NORM_SOFTMAX) {
    float most = -INFINITY;
    for (int32_t c = 0; c < n; c++)
      most = t->scale * x[c] > most ? t->scale * x[c] : most;
    TS_LANES_SUM(sum, c, n, exp_below(t->scale * x[c] - most));
    return (row_numbers){1 / sum, most, false};
  }
  if (t->kind == TS_NORM_LAYER) {
    TS_LANES_SUM(sum, c, n, x[c]);
    mean = sum / (float)n;
  }
  TS_LANES_SUM(sum, c, n, (x[c] - mean) * (x[c] - mean));
  if (t->kind != TS_NORM_L2)
    return (row_numbers){1 / sqrtf(sum / (float)n + t->eps), mean, false};
  const float norm = sqrtf(sum);
  return (row_numbers){1 / fmaxf(norm, t->eps), 0, norm <= t->eps};
}

/* y before gain and bias, of N <= LANES columns. */
TS_BODY void plain_norm(const ts_norm_args *t, const row_numbers *p,
                        const float *x, int32_t n, float y[LANES]) {
  if (t->kind == TS_NORM_SOFTMAX)
    TS_EACH(k, n) y[k] = p->f * exp_below(t->scale * x[k] - p->shift);
  else
    TS_EACH(k, n) y[k] = p->f * (x[k] - p->shift);
}

static void norm_row(const ts_norm_args *t, const float *x, float *y) {
  const row_numbers p = numbers_of(t, x);
  for (int32_t c = 0; c < t->n; c += LANES) {
    const int32_t n = t->n - c < LANES ? t->n - c : LANES;
    float z[LANES];
    plain_norm(t, &p, x + c, n, z);
    if (t->gain) TS_EACH(k, n) z[k] *= t->gain[c + k];
    if (t->bias) TS_EACH(k, n) z[k] += t->bias[c + k];
    memcpy(y + c, z, (size_t)n * sizeof *z);
  }
}

static ts_err norm_forward(const ts_norm_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r++)
    norm_row(t, t->x + r * t->x_stride, t->y + r * t->y_stride);
  return TS_OK;
}

/* dx of a row, and what it adds to the sums of gain and bias. */
static void norm_grad_row(const ts_norm_args *t, int64_t r,
                          double *restrict gain, double *restrict bias) {
  const float *x = t->x + r * t->x_stride, *dy = t->dy + r * t->y_stride;
  float *dx = t->dx + r * t->x_stride;
  const row_numbers p = numbers_of(t, x);
  const bool sums = t->dgain || t->dbias, soft = t->kind == TS_NORM_SOFTMAX;
  float y[LANES], g[LANES], dots[LANES] = {0}, all[LANES] = {0};
  for (int32_t c = 0; c < t->n; c += LANES) {
    const int32_t n = t->n - c < LANES ? t->n - c : LANES;
    plain_norm(t, &p, x + c, n, y);
    for (int k = 0; k < n; k++) {
      g[k] = dy[c + k] * (t->gain ? t->gain[c + k] : 1);
      dots[k] += g[k] * y[k];
      all[k] += g[k];
    }
    for (int k = 0; sums && k < n; k++) {
      gain[c + k] += (double)dy[c + k] * (double)y[k];
      bias[c + k] += (double)dy[c + k];
    }
  }
  const float each = soft || t->kind == TS_NORM_L2 ? 1 : 1 / (float)t->n;
  const float dot = p.flat ? 0 : each * lanes_sum(dots);
  const float sum = t->kind == TS_NORM_LAYER ? each * lanes_sum(all) : 0;
  const float f = soft ? t->scale : p.f;
  for (int32_t c = 0; c < t->n; c += LANES) {
    const int32_t n = t->n - c < LANES ? t->n - c : LANES;
    plain_norm(t, &p, x + c, n, y);
    TS_EACH(k, n) {
      const float h = dy[c + k] * (t->gain ? t->gain[c + k] : 1);
      g[k] = soft ? f * y[k] * (h - dot) : f * (h - sum - y[k] * dot);
    }
    memcpy(dx + c, g, (size_t)n * sizeof *g);
  }
}

static void norm_block(const void *args, int64_t from, int64_t end,
                       double *gain, double *bias) {
  for (int64_t r = from; r < end; r++) norm_grad_row(args, r, gain, bias);
}

static ts_err norm_backward(const ts_norm_args *t) {
  double *sum[2];
  TS_DO(sums_over_rows(norm_block, t, t->rows, t->n, sum));
  put_sums(t->dgain, sum[0], t->n);
  put_sums(t->dbias, sum[1], t->n);
  ts_mem_free(sum[0]);
  return TS_OK;
}
