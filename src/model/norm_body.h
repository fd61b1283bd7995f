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

/* The largest of scale x, in 16 lanes. */
static float most_of(const float *x, float scale, int32_t n) {
  float most[LANES], all = -INFINITY;
  int32_t c = 0;
  for (int k = 0; k < LANES; k++) most[k] = -INFINITY;
  for (; c + LANES <= n; c += LANES)
#pragma omp simd
    for (int k = 0; k < LANES; k++)
      most[k] = scale * x[c + k] > most[k] ? scale * x[c + k] : most[k];
  for (int k = 0; k < LANES; k++) all = fmaxf(all, most[k]);
  for (; c < n; c++) all = fmaxf(all, scale * x[c]);
  return all;
}

static row_numbers numbers_of(const ts_norm_args *t, const float *x) {
  const int32_t n = t->n;
  const float scale = t->scale;
  float sum, mean = 0;
  if (t->kind == TS_NORM_SOFTMAX) {
    const float most = most_of(x, scale, n);
    TS_LANES_SUM(sum, c, n, exp_below(scale * x[c] - most));
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

enum { NORM_ROWS = 4 }; /* at once */

#ifdef __AVX512F__
/* The sums of four rows' lanes by halves, each in a quarter: lanes_sum of all
 * of them in a third of the steps, and they wait for each other once. */
static inline __m512 four_sums(const __m512 x[NORM_ROWS]) {
  const __m512 a = _mm512_shuffle_f32x4(x[0], x[1], 0x44) +
                   _mm512_shuffle_f32x4(x[0], x[1], 0xEE);
  const __m512 b = _mm512_shuffle_f32x4(x[2], x[3], 0x44) +
                   _mm512_shuffle_f32x4(x[2], x[3], 0xEE);
  const __m512 c =
      _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xDD);
  const __m512 d = c + _mm512_permute_ps(c, 0x4E);
  return d + _mm512_permute_ps(d, 0xB1);
}

/* Number K of four in all lanes. */
static inline __m512 one_of_four(__m512 x, int k) {
  const __m512i at = _mm512_set1_epi32(4 * k);
  return _mm512_permutexvar_ps(at, x);
}

/* Lanes of N columns from C on. */
static inline __mmask16 lanes_from(int32_t c, int32_t n) {
  return n - c < LANES ? (__mmask16)((1u << (n - c)) - 1) : (__mmask16)0xFFFF;
}

/* P: the numbers of four rows, bit for bit those of numbers_of; no softmax. */
static void numbers_of_four(const ts_norm_args *t, const float *x,
                            row_numbers p[NORM_ROWS]) {
  const int32_t n = t->n;
  __m512 part[NORM_ROWS] = {0}, mean = _mm512_setzero_ps(), by[NORM_ROWS];
  float sum[LANES], shift[LANES];
  if (t->kind == TS_NORM_LAYER) {
    for (int32_t c = 0; c < n; c += LANES)
      for (int k = 0; k < NORM_ROWS; k++)
        part[k] +=
            _mm512_maskz_loadu_ps(lanes_from(c, n), x + k * t->x_stride + c);
    mean = four_sums(part) / _mm512_set1_ps((float)n);
  }
  for (int k = 0; k < NORM_ROWS; k++) {
    by[k] = one_of_four(mean, k);
    part[k] = _mm512_setzero_ps();
  }
  for (int32_t c = 0; c < n; c += LANES) {
    const __mmask16 m = lanes_from(c, n);
    for (int k = 0; k < NORM_ROWS; k++) {
      const __m512 v = _mm512_maskz_sub_ps(
          m, _mm512_maskz_loadu_ps(m, x + k * t->x_stride + c), by[k]);
      part[k] = _mm512_fmadd_ps(v, v, part[k]);
    }
  }
  __m512 all = four_sums(part);
  if (t->kind != TS_NORM_L2)
    all = all / _mm512_set1_ps((float)n) + _mm512_set1_ps(t->eps);
  const __m512 root = _mm512_sqrt_ps(all);
  const __m512 f = t->kind == TS_NORM_L2
                       ? _mm512_max_ps(root, _mm512_set1_ps(t->eps))
                       : root;
  _mm512_storeu_ps(sum, _mm512_set1_ps(1) / f);
  _mm512_storeu_ps(shift, mean);
  for (int k = 0; k < NORM_ROWS; k++)
    p[k] = (row_numbers){sum[4 * k], shift[4 * k], false};
}
#endif

/* P: the numbers of the N rows from X on. */
static void numbers_of_some(const ts_norm_args *t, const float *x, int64_t n,
                            row_numbers p[NORM_ROWS]) {
#ifdef __AVX512F__
  if (n == NORM_ROWS && t->kind != TS_NORM_SOFTMAX) {
    numbers_of_four(t, x, p);
    return;
  }
#endif
  for (int64_t k = 0; k < n; k++) p[k] = numbers_of(t, x + k * t->x_stride);
}

/* y of one row; SOFT, GAINED: it is softmax, gains aren't NULL. */
TS_BODY void norm_row_of(const ts_norm_args *t, int64_t r, row_numbers p,
                         bool soft, bool gained) {
  const float *x = t->x + r * t->x_stride, *gain = t->gain, *bias = t->bias;
  float *y = t->y + r * t->y_stride;
  const float scale = t->scale;
  TS_EACH(c, t->n) {
    const float v =
        soft ? p.f * exp_below(scale * x[c] - p.shift) : p.f * (x[c] - p.shift);
    y[c] = gained ? gain[c] * v : v;
  }
  if (!soft && bias) TS_EACH(c, t->n) y[c] += bias[c];
}

/* dx of a row, and what it adds to the sums of gain and bias. */
TS_BODY void norm_grad_row_of(const ts_norm_args *t, int64_t r,
                              double *restrict dgain, double *restrict dbias,
                              bool soft, bool gained) {
  const float *x = t->x + r * t->x_stride, *dy = t->dy + r * t->y_stride;
  const float *gain = t->gain, scale = t->scale;
  const row_numbers p = numbers_of(t, x);
  float *dx = t->dx + r * t->x_stride, dot = 0, sum = 0;
#define Y(c)                                                                   \
  (soft ? p.f * exp_below(scale * x[c] - p.shift) : p.f * (x[c] - p.shift))
#define G(c) (gained ? gain[c] * dy[c] : dy[c])
  if (!p.flat) TS_LANES_SUM(dot, c, t->n, G(c) * Y(c));
  if (t->kind == TS_NORM_LAYER) TS_LANES_SUM(sum, c, t->n, G(c));
  if (t->dgain) TS_EACH(c, t->n) dgain[c] += (double)dy[c] * (double)Y(c);
  if (t->dbias) TS_EACH(c, t->n) dbias[c] += (double)dy[c];
  if (t->kind == TS_NORM_LAYER || t->kind == TS_NORM_RMS) dot /= (float)t->n;
  sum /= (float)t->n;
  TS_EACH(c, t->n)
  dx[c] = soft ? scale * Y(c) * (G(c) - dot) : p.f * (G(c) - sum - Y(c) * dot);
#undef Y
#undef G
}

/* CALL with what is known of the kind. */
#define TS_NORM_KINDS(t, call, ...)                                            \
  do {                                                                         \
    if ((t)->kind == TS_NORM_SOFTMAX)                                          \
      call(__VA_ARGS__, true, false);                                          \
    else if ((t)->gain)                                                        \
      call(__VA_ARGS__, false, true);                                          \
    else                                                                       \
      call(__VA_ARGS__, false, false);                                         \
  } while (0)

static ts_err norm_forward(const ts_norm_args *t) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < t->rows; r += NORM_ROWS) {
    const int64_t n = t->rows - r < NORM_ROWS ? t->rows - r : NORM_ROWS;
    row_numbers p[NORM_ROWS];
    numbers_of_some(t, t->x + r * t->x_stride, n, p);
    for (int64_t k = 0; k < n; k++)
      TS_NORM_KINDS(t, norm_row_of, t, r + k, p[k]);
  }
  return TS_OK;
}

static void norm_block(const void *args, int64_t from, int64_t end,
                       double *gain, double *bias) {
  const ts_norm_args *t = args;
  for (int64_t r = from; r < end; r++)
    TS_NORM_KINDS(t, norm_grad_row_of, t, r, gain, bias);
}

static ts_err norm_backward(const ts_norm_args *t) {
  double *sum[2];
  TS_DO(sums_over_rows(norm_block, t, t->rows, t->n, sum));
  put_sums(t->dgain, sum[0], t->n);
  put_sums(t->dbias, sum[1], t->n);
  ts_mem_free(sum[0]);
  return TS_OK;
}
