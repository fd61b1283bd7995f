/* flat.c - the host's kernels over flat arrays: what gradients go through
 * between the backward pass and the optimizers (kernel_table.h). */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "dense/half.h"
#include "dense/tally.h"
#include "dense/update.h"
#include "dense/update_numbers.h"

enum { BLOCK = 1024 };

static int64_t block_end(int64_t from, int64_t n) {
  return n - from < BLOCK ? n : from + BLOCK;
}

static ts_err half_rows(const ts_half_args *a) {
  ts_half_rows(a->to, a->to_stride, a->from, a->from_stride, a->rows, a->n);
  return TS_OK;
}

static ts_err check_finite(const ts_check_finite_args *a) {
  int bad = 0;
#pragma omp parallel for reduction(| : bad)
  for (int64_t i = 0; i < a->rows; i++)
    bad |= !ts_all_finite(a->x + i * a->stride, TS_F32, a->n);
  if (bad) *a->bad = 1;
  return TS_OK;
}

/* Small ones are not worth a second thread. */
static ts_err copies(const ts_copies_args *a) {
  int64_t n = 0;
  for (int32_t k = 0; k < a->n_pieces; k++) n += a->piece[k].n;
#pragma omp parallel for schedule(dynamic) if (n > 65536)
  for (int32_t k = 0; k < a->n_pieces; k++) {
    const ts_flat_copy *p = &a->piece[k];
    if (p->n <= 0) continue;
    if (p->kind == TS_COPY_SHORTEN)
      ts_from_f32(p->to, p->from, TS_BF16, p->n);
    else if (p->kind == TS_COPY_WIDEN)
      ts_to_f32(p->to, p->from, TS_BF16, p->n);
    else
      memcpy(p->to, p->from, (size_t)p->n * sizeof(float));
  }
  return TS_OK;
}

static ts_err swap(float *a, float *b, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float x = a[i];
    a[i] = b[i];
    b[i] = x;
  }
  return TS_OK;
}

/* In place: the short values lie in the first half of the long ones, so one
 * goes upwards and the other downwards, by blocks through the side. */
static ts_err shorten(float *x, int64_t n, ts_dtype dtype) {
  float block[BLOCK];
  for (int64_t i = 0; i < n; i += BLOCK) {
    const int64_t m = block_end(i, n) - i;
    memcpy(block, x + i, (size_t)m * sizeof *block);
    ts_from_f32((uint16_t *)(void *)x + i, block, dtype, m);
  }
  return TS_OK;
}

static ts_err widen(float *x, int64_t n, ts_dtype dtype) {
  uint16_t block[BLOCK];
  for (int64_t i = (n - 1) / BLOCK * BLOCK; n && i >= 0; i -= BLOCK) {
    const int64_t m = block_end(i, n) - i;
    memcpy(block, (uint16_t *)(void *)x + i, (size_t)m * sizeof *block);
    ts_to_f32(x + i, block, dtype, m);
  }
  return TS_OK;
}

/* The sum of squares of N elements, TS_SUM_BLOCK at most. */
static TS_CLONES double squares_block(const float *x, int64_t n) {
  double part[TS_SUM_PARTS] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + TS_SUM_PARTS <= n; i += TS_SUM_PARTS)
    for (int k = 0; k < TS_SUM_PARTS; k++)
      part[k] += (double)x[i + k] * x[i + k];
  for (int k = 0; i + k < n; k++) part[k] += (double)x[i + k] * x[i + k];
  for (int k = 0; k < TS_SUM_PARTS; k++) sum += part[k];
  return sum;
}

static ts_err squares(const float *x, int64_t n, double *sum) {
  enum { BLOCKS = 512 };
  double part[BLOCKS], all = 0;
  for (int64_t i = 0; i < n; i += (int64_t)BLOCKS * TS_SUM_BLOCK) {
    const int64_t left = (n - i + TS_SUM_BLOCK - 1) / TS_SUM_BLOCK;
    const int64_t m = left < BLOCKS ? left : BLOCKS;
#pragma omp parallel for schedule(static) if (m > 16)
    for (int64_t b = 0; b < m; b++) {
      const int64_t from = i + b * TS_SUM_BLOCK, rest = n - from;
      part[b] =
          squares_block(x + from, rest < TS_SUM_BLOCK ? rest : TS_SUM_BLOCK);
    }
    for (int64_t b = 0; b < m; b++) all += part[b];
  }
  *sum += all;
  return TS_OK;
}

static ts_err clip(double *norm, double *factor, double most) {
  *norm = sqrt(*norm);
  *factor = fmin(1.0, most / (*norm + 1e-6));
  return TS_OK;
}

void ts_flat_kernels_host(ts_kernels *k) {
  k->half_rows = half_rows;
  k->check_finite = check_finite;
  k->copies = copies;
  k->swap = swap;
  k->shorten = shorten;
  k->widen = widen;
  k->squares = squares;
  k->clip = clip;
  k->tally = ts_tally_host;
}
