/* interact_body.h - DLRM's dot interaction, for each instruction set.
 *
 * Per sample n vectors of d floats.  Forward: the vectors are laid out
 * transposed, (d, n padded to 16), and one row of products x_i . x_j for all
 * j is a sum of broadcast times vector.  Backward: dx_i = sum_j g_ij x_j with
 * the symmetric matrix g.  Both stay in the first-level cache. */
#ifndef TS_DENSE_INTERACT_BODY_H
#define TS_DENSE_INTERACT_BODY_H

#include "runtime/kernels.h"

#define TS_BODY static inline __attribute__((always_inline))
typedef float ts_v16 __attribute__((vector_size(64)));
typedef float ts_v16u __attribute__((vector_size(64), aligned(4)));

static inline int32_t n_vectors(const ts_interact_args *a) {
  return a->n_features + (a->bottom ? 1 : 0);
}

static inline int64_t padded(int64_t n) {
  return (n + 15) / 16 * 16;
}

/* Floats of scratch per thread: transposed vectors, rows of products. */
static inline int64_t interact_scratch(const ts_interact_args *a) {
  const int64_t n = n_vectors(a);
  return padded(a->dim) * padded(n) + padded(n) * padded(n) + 64;
}

TS_BODY const float *vector_of(const ts_interact_args *a, int32_t i,
                               int64_t b) {
  const int32_t f = a->bottom ? i - 1 : i;
  if (f < 0) return a->bottom + b * a->dim;
  return a->emb[f] + b * a->emb_stride[f];
}

/* Products of rows [i, i + 4) with all vectors from the block of i on. */
TS_BODY void products4(float *z, const float *xt, int64_t np, int32_t dim,
                       int32_t i) {
  for (int64_t j = i / 16 * 16; j < np; j += 16) {
    ts_v16 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    for (int32_t d = 0; d < dim; d++) {
      const float *row = xt + d * np;
      const ts_v16 v = *(const ts_v16u *)(row + j);
      s0 += row[i] * v;
      s1 += row[i + 1] * v;
      s2 += row[i + 2] * v;
      s3 += row[i + 3] * v;
    }
    *(ts_v16u *)(z + i * np + j) = s0;
    *(ts_v16u *)(z + (i + 1) * np + j) = s1;
    *(ts_v16u *)(z + (i + 2) * np + j) = s2;
    *(ts_v16u *)(z + (i + 3) * np + j) = s3;
  }
}

TS_BODY void interact_one(const ts_interact_args *a, int64_t b, float *xt) {
  const int32_t n = n_vectors(a), dim = a->dim;
  const int64_t np = padded(n);
  float *z = xt + padded(dim) * np;
  float *out = a->out + b * a->out_stride, *end = out + a->out_stride;
  for (int32_t i = 0; i < n; i++) {
    const float *x = vector_of(a, i, b);
    for (int32_t d = 0; d < dim; d++) xt[d * np + i] = x[d];
  }
  for (int32_t i = 0; i < n; i += 4) products4(z, xt, np, dim, i);
  if (a->bottom) {
    const float *x = vector_of(a, 0, b);
    for (int32_t d = 0; d < dim; d++) *out++ = x[d];
  }
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = i + 1; j < n; j++) *out++ = z[i * np + j];
  while (out < end) *out++ = 0;
}

/* dx (dim) = sum over j of g[j] x_j, plus ADD unless NULL. */
TS_BODY void combine(const ts_interact_args *a, float *dx, const float *g,
                     const float *add, int64_t b, int32_t n) {
  const int32_t dim = a->dim;
  int32_t d = 0;
  for (; d + 64 <= dim; d += 64) {
    ts_v16 s[4] = {{0}, {0}, {0}, {0}};
    for (int32_t j = 0; j < n; j++) {
      const float *x = vector_of(a, j, b) + d;
      for (int v = 0; v < 4; v++) s[v] += g[j] * *(const ts_v16u *)(x + 16 * v);
    }
    for (int v = 0; v < 4; v++) *(ts_v16u *)(dx + d + 16 * v) = s[v];
  }
  for (; d + 16 <= dim; d += 16) {
    ts_v16 s = {0};
    for (int32_t j = 0; j < n; j++)
      s += g[j] * *(const ts_v16u *)(vector_of(a, j, b) + d);
    *(ts_v16u *)(dx + d) = s;
  }
  for (; d < dim; d++) {
    float s = 0;
    for (int32_t j = 0; j < n; j++) s += g[j] * vector_of(a, j, b)[d];
    dx[d] = s;
  }
  for (d = 0; add && d < dim; d++) dx[d] += add[d];
}

TS_BODY void interact_grad_one(const ts_interact_args *a, int64_t b,
                               float *scratch) {
  const int32_t n = n_vectors(a);
  const int64_t np = padded(n);
  const float *grad = a->grad + b * a->out_stride;
  const float *pair = grad + (a->bottom ? a->dim : 0);
  float *g = scratch;
  for (int32_t i = 0; i < n; i++) {
    g[i * np + i] = 0;
    for (int32_t j = i + 1; j < n; j++) g[i * np + j] = g[j * np + i] = *pair++;
  }
  for (int32_t i = 0; i < n; i++) {
    const int32_t f = a->bottom ? i - 1 : i;
    float *dx = f < 0 ? a->grad_bottom + b * a->dim
                      : a->grad_emb[f] + b * a->emb_stride[f];
    combine(a, dx, g + i * np, f < 0 ? grad : NULL, b, n);
  }
}

#endif
