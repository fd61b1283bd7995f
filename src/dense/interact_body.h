/* interact_body.h - DLRM's dot interaction, for each instruction set.
 *
 * Per sample n vectors of d floats, first copied side by side and padded with
 * zeros.  Forward: products of rows x cols vectors at a time are summed in
 * registers, and their 4 * rows sums end as one vector.  Backward: with the
 * symmetric matrix g, dx_i = sum_j g_ij x_j, a few rows at a time.  All of it
 * stays in the first-level cache. */
#pragma once

#include <omp.h>
#include <string.h>

#include "base/mem.h"
#include "dense/half.h"
#include "dense/interact.h"
#include "kernel_table.h"

/* TS_WIDTH: floats of a vector, 16, 8 or 4, set by the includer. */
#define TS_BODY static inline __attribute__((always_inline))
typedef float ts_vec __attribute__((vector_size(4 * TS_WIDTH), aligned(4)));

#ifdef __clang__
#define SHUFFLE(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)
#else
typedef int ts_lanes __attribute__((vector_size(4 * TS_WIDTH)));
#define SHUFFLE(x, y, ...) __builtin_shuffle(x, y, (ts_lanes){__VA_ARGS__})
#endif

enum {
  WIDTH = TS_WIDTH,
  ROWS = TS_WIDTH / 4,                /* of products: 4 * ROWS = WIDTH */
  GRAD_ROWS = TS_WIDTH == 16 ? 4 : 2, /* of gradients, by registers */
  GRAD_VECS = 4,
  AHEAD = 2 /* samples */
};

TS_BODY ts_vec load(const float *p) {
  return *(const ts_vec *)p;
}

TS_BODY void store(float *p, ts_vec v) {
  *(ts_vec *)p = v;
}

static inline int32_t n_vectors(const ts_interact_args *a) {
  return a->n_features + (a->bottom ? 1 : 0);
}

/* The row of bf16 as floats: at the end of scratch. */
static inline float *half_row(const ts_interact_args *a, float *x) {
  return x + ts_interact_work(n_vectors(a), a->dim, a->out_stride) -
         ts_interact_padded(a->out_stride);
}

TS_BODY const float *vector_of(const ts_interact_args *a, int32_t i,
                               int64_t b) {
  const int32_t f = a->bottom ? i - 1 : i;
  if (f < 0) return a->bottom + b * a->dim;
  return a->emb[f] + b * a->emb_stride[f];
}

/* ONE for each sample, with scratch of the thread that is zero at first: so
 * padding that nobody writes stays zero. */
static ts_err each_sample(const ts_interact_args *a,
                          void (*one)(const ts_interact_args *, int64_t,
                                      float *)) {
  ts_err err = TS_OK;
  const int n_threads = omp_get_max_threads();
  const int64_t each = ts_interact_work(n_vectors(a), a->dim, a->out_stride);
  float *more = NULL, *scratch = a->work;
  if (n_threads > a->work_threads) {
    TS_TRY(ts_mem_many(more, each * n_threads, ACTIVATIONS));
    scratch = more;
  }
#pragma omp parallel
  {
    float *own = scratch + each * omp_get_thread_num();
    memset(own, 0, (size_t)each * sizeof *own);
#pragma omp for schedule(static)
    for (int64_t b = 0; b < a->batch; b++) one(a, b, own);
  }
done:
  ts_mem_free(more);
  return err;
}

/* Prefetches what gather will read of a later sample: its vectors lie in as
 * many streams as there are tables, more than a CPU's own prefetcher follows.
 */
TS_BODY void ask_for(const ts_interact_args *a, int64_t b, bool write) {
  if (b >= a->batch) return;
  for (int32_t f = 0; f < a->n_features; f++) {
    const float *from = a->emb[f] + b * a->emb_stride[f];
    for (int32_t d = 0; d < a->dim; d += 16) __builtin_prefetch(from + d);
    float *to = write ? a->grad_emb[f] + b * a->emb_stride[f] : NULL;
    if (!write || to == from) continue;
    for (int32_t d = 0; d < a->dim; d += 16) __builtin_prefetch(to + d, 1);
  }
}

/* All vectors of sample b into X, rows of ts_interact_padded(dim); the padding
 * is zero from the start. */
TS_BODY void gather(const ts_interact_args *a, float *x, int64_t b) {
  const int32_t n = n_vectors(a), dim = a->dim;
  const int64_t stride = ts_interact_padded(dim);
  for (int32_t i = 0; i < n; i++) {
    const float *from = vector_of(a, i, b);
    float *to = x + i * stride;
    int32_t d = 0;
    for (; d + WIDTH <= dim; d += WIDTH) store(to + d, load(from + d));
    for (; d < dim; d++) to[d] = from[d];
  }
}

/* Per four lanes: sums of the lanes of a, b, c, d. */
TS_BODY ts_vec sum4(ts_vec a, ts_vec b, ts_vec c, ts_vec d) {
#if TS_WIDTH == 16
#define PAIR(x, y, p, q)                                                       \
  SHUFFLE(x, y, p, 16 + p, q, 16 + q, 4 + p, 20 + p, 4 + q, 20 + q, 8 + p,     \
          24 + p, 8 + q, 24 + q, 12 + p, 28 + p, 12 + q, 28 + q)
#define HALF(x, y, p)                                                          \
  SHUFFLE(x, y, p, p + 1, 16 + p, 17 + p, 4 + p, 5 + p, 20 + p, 21 + p, 8 + p, \
          9 + p, 24 + p, 25 + p, 12 + p, 13 + p, 28 + p, 29 + p)
#elif TS_WIDTH == 8
#define PAIR(x, y, p, q)                                                       \
  SHUFFLE(x, y, p, 8 + p, q, 8 + q, 4 + p, 12 + p, 4 + q, 12 + q)
#define HALF(x, y, p)                                                          \
  SHUFFLE(x, y, p, p + 1, 8 + p, 9 + p, 4 + p, 5 + p, 12 + p, 13 + p)
#else
#define PAIR(x, y, p, q) SHUFFLE(x, y, p, 4 + p, q, 4 + q)
#define HALF(x, y, p) SHUFFLE(x, y, p, p + 1, 4 + p, 5 + p)
#endif
  const ts_vec ab = PAIR(a, b, 0, 1) + PAIR(a, b, 2, 3);
  const ts_vec cd = PAIR(c, d, 0, 1) + PAIR(c, d, 2, 3);
  return HALF(ab, cd, 0) + HALF(ab, cd, 2);
#undef PAIR
#undef HALF
}

/* One vector made of ROWS results of sum4: four sums of each row. */
TS_BODY ts_vec sum_rows(const ts_vec q[]) {
#if TS_WIDTH == 16
#define FOURS(x, y, p, r)                                                      \
  SHUFFLE(x, y, p, p + 1, p + 2, p + 3, r, r + 1, r + 2, r + 3, 16 + p,        \
          17 + p, 18 + p, 19 + p, 16 + r, 17 + r, 18 + r, 19 + r)
  const ts_vec s = FOURS(q[0], q[1], 0, 4) + FOURS(q[0], q[1], 8, 12);
  const ts_vec t = FOURS(q[2], q[3], 0, 4) + FOURS(q[2], q[3], 8, 12);
  return FOURS(s, t, 0, 8) + FOURS(s, t, 4, 12);
#undef FOURS
#elif TS_WIDTH == 8
  return SHUFFLE(q[0], q[1], 0, 1, 2, 3, 8, 9, 10, 11) +
         SHUFFLE(q[0], q[1], 4, 5, 6, 7, 12, 13, 14, 15);
#else
  return q[0];
#endif
}

/* z[i + r][j + c] = x_(i + r) . x_(j + c) for r < ROWS, c < 4. */
TS_BODY void products(float *z, int64_t np, const float *x, int64_t stride,
                      int32_t i, int32_t j) {
  ts_vec s[ROWS][4] = {{{0}}}, q[ROWS];
  for (int64_t d = 0; d < stride; d += WIDTH) {
    ts_vec v[4];
    for (int c = 0; c < 4; c++) v[c] = load(x + (j + c) * stride + d);
    for (int r = 0; r < ROWS; r++) {
      const ts_vec u = load(x + (i + r) * stride + d);
      for (int c = 0; c < 4; c++) s[r][c] += u * v[c];
    }
  }
  for (int r = 0; r < ROWS; r++)
    q[r] = sum4(s[r][0], s[r][1], s[r][2], s[r][3]);
  const ts_vec sums = sum_rows(q);
  for (int r = 0; r < ROWS; r++)
    memcpy(z + (i + r) * np + j, (const float *)&sums + 4 * r, 16);
}

/* N floats; may write up to a vector more, below END. */
TS_BODY void copy_over(float *to, const float *from, int32_t n,
                       const float *end) {
  int32_t k = 0;
  for (; k < n && to + k + WIDTH <= end; k += WIDTH)
    store(to + k, load(from + k));
  for (; k < n; k++) to[k] = from[k];
}

TS_BODY void interact_one(const ts_interact_args *a, int64_t b, float *x) {
  const int32_t n = n_vectors(a), dim = a->dim;
  const int64_t np = ts_interact_padded(n), stride = ts_interact_padded(dim);
  float *z = x + np * stride;
  float *row = a->half ? half_row(a, x) : (float *)a->out + b * a->out_stride;
  float *out = row, *end = out + a->out_stride;
  ask_for(a, b + AHEAD, false);
  gather(a, x, b);
  for (int32_t i = 0; i < n; i += ROWS)
    for (int32_t j = i / 4 * 4; j < n; j += 4) products(z, np, x, stride, i, j);
  if (a->bottom) {
    copy_over(out, x, dim, end);
    out += dim;
  }
  for (int32_t i = 0; i + 1 < n; i++) {
    copy_over(out, z + i * np + i + 1, n - i - 1, end);
    out += n - i - 1;
  }
  while (out < end) *out++ = 0;
  if (!a->half) return;
  uint16_t *to = (uint16_t *)a->out + b * a->out_stride;
  for (int64_t k = 0; k < a->out_stride; k++) to[k] = ts_half_of(row[k]);
}

/* GRAD_ROWS rows of dx from row I, VECS vectors of each: TO and X have rows of
 * stride, G of np.  G is symmetric, and only the part above the diagonal and
 * the block of the rows themselves are stored: earlier terms are read from
 * columns. Rows after the n-th are padding, and so are their results. */
TS_BODY void combine(float *to, const float *g, int64_t np, const float *x,
                     int64_t stride, int32_t i, int32_t n, int vecs) {
  ts_vec s[GRAD_ROWS][GRAD_VECS] = {{{0}}};
  const float *at = g + i;
  int64_t row = 1, next = np;
  for (int32_t j = 0; j < n; j++, at += next) {
    ts_vec v[GRAD_VECS];
    if (j == i) {
      at = g + i * np + i;
      row = np;
      next = 1;
    }
    for (int k = 0; k < vecs; k++) v[k] = load(x + j * stride + k * WIDTH);
    for (int r = 0; r < GRAD_ROWS; r++)
      for (int k = 0; k < vecs; k++) s[r][k] += at[r * row] * v[k];
  }
  for (int r = 0; r < GRAD_ROWS; r++)
    for (int k = 0; k < vecs; k++) store(to + r * stride + k * WIDTH, s[r][k]);
}

/* The matrix of the pairs' gradients, as combine takes it. */
TS_BODY void spread(float *g, int64_t np, const float *pair, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    const int32_t block = i / GRAD_ROWS * GRAD_ROWS, more = n - i - 1;
    float *to = g + i * np + i;
    *to++ = 0;
    int32_t k = 0;
    for (; k + WIDTH <= more; k += WIDTH) store(to + k, load(pair + k));
    for (; k < more; k++) to[k] = pair[k];
    pair += more;
    for (int32_t j = block; j < i; j++) g[i * np + j] = g[j * np + i];
  }
}

TS_BODY void put(const ts_interact_args *a, int64_t b, int32_t i,
                 const float *from, const float *add) {
  const int32_t f = a->bottom ? i - 1 : i, dim = a->dim;
  float *to =
      f < 0 ? a->grad_bottom + b * dim : a->grad_emb[f] + b * a->emb_stride[f];
  int32_t d = 0;
  for (; d + WIDTH <= dim; d += WIDTH)
    store(to + d, f < 0 ? load(from + d) + load(add + d) : load(from + d));
  for (; d < dim; d++) to[d] = f < 0 ? from[d] + add[d] : from[d];
}

TS_BODY const float *out_grad(const ts_interact_args *a, float *x, int64_t b) {
  if (!a->half) return (const float *)a->grad + b * a->out_stride;
  const uint16_t *from = (const uint16_t *)a->grad + b * a->out_stride;
  float *row = half_row(a, x);
  for (int64_t k = 0; k < a->out_stride; k++) row[k] = ts_half_float(from[k]);
  return row;
}

TS_BODY void interact_grad_one(const ts_interact_args *a, int64_t b, float *x) {
  const int32_t n = n_vectors(a);
  const int64_t np = ts_interact_padded(n), stride = ts_interact_padded(a->dim);
  float *g = x + np * stride, *dx = g + np * np;
  const float *row = out_grad(a, x, b);
  ask_for(a, b + AHEAD, true);
  gather(a, x, b);
  spread(g, np, row + (a->bottom ? a->dim : 0), n);
  for (int32_t i = 0; i < n; i += GRAD_ROWS) {
    int64_t d = 0;
    for (; d + GRAD_VECS * WIDTH <= stride; d += GRAD_VECS * WIDTH)
      combine(dx + d, g, np, x + d, stride, i, n, GRAD_VECS);
    for (; d < stride; d += WIDTH)
      combine(dx + d, g, np, x + d, stride, i, n, 1);
    for (int32_t r = i; r < n && r < i + GRAD_ROWS; r++)
      put(a, b, r, dx + (r - i) * stride, row);
  }
}
