/* linear_narrow.c - layers with a few outputs, such as the last one.
 *
 * Memory-bound: a general matrix product reaches a twentieth of its speed
 * here (measured), plain dot products the memory's.  x and dx may be of bf16;
 * weights and products are f32. */
#include <string.h>

#include "base/clones.h"
#include "dense/half.h"
#include "dense/linear_impl.h"

enum { COLUMNS = 64 };

/* In 16 partial sums, so that it can be vectorised with fixed bits. */
#define SUM_16(X)                                                              \
  float part[16] = {0};                                                        \
  int32_t i = 0;                                                               \
  for (; i + 16 <= n; i += 16)                                                 \
    for (int k = 0; k < 16; k++) part[k] += X(a[i + k]) * b[i + k];            \
  for (int k = 0; i < n; i++, k++) part[k] += X(a[i]) * b[i];                  \
  for (int w = 8; w; w /= 2)                                                   \
    for (int k = 0; k < w; k++) part[k] += part[k + w];                        \
  return part[0];
#define SAME(x) (x)

TS_CLONES static float dot(const float *restrict a, const float *restrict b,
                           int32_t n){SUM_16(SAME)}

TS_CLONES static float dot_half(const uint16_t *restrict a,
                                const float *restrict b, int32_t n) {
  SUM_16(ts_half_float)
}

static ts_err forward(ts_linear *l, void *to, const void *from, int32_t batch) {
  const ts_linear_spec *s = &l->spec;
  float *y = to;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < batch; i++)
    for (int32_t o = 0; o < s->n_out; o++) {
      const float *w = l->at.W + (int64_t)o * s->n_in;
      const int64_t at = (int64_t)i * s->in_stride;
      const float v =
          (l->at.b ? l->at.b[o] : 0) +
          (s->x_half ? dot_half((const uint16_t *)from + at, w, s->n_in)
                     : dot((const float *)from + at, w, s->n_in));
      y[(int64_t)i * s->n_out + o] = s->relu && v < 0 ? 0 : v;
    }
  return TS_OK;
}

/* ---- backward ------------------------------------------------------------ */

/* to += g * v; X16: v is of bf16. */
TS_CLONES static void add_scaled(float *restrict to, float g, const void *v,
                                 bool x_half, int32_t n) {
  const float *restrict x = v;
  const uint16_t *restrict h = v;
  if (x_half)
    for (int32_t k = 0; k < n; k++) to[k] += g * ts_half_float(h[k]);
  else
    for (int32_t k = 0; k < n; k++) to[k] += g * x[k];
}

/* Threads share columns: a sum runs over the batch in order. */
static void grad_weights(ts_linear *l, const float *dy, const char *x,
                         int32_t batch) {
  const ts_linear_spec *s = &l->spec;
  const int32_t size = s->x_half ? 2 : 4;
  memset(l->at.dW, 0, (size_t)l->W->n * sizeof *l->at.dW);
#pragma omp parallel for schedule(static)
  for (int32_t k = 0; k < s->n_in; k += COLUMNS) {
    const int32_t n = s->n_in - k < COLUMNS ? s->n_in - k : COLUMNS;
    for (int32_t i = 0; i < batch; i++)
      for (int32_t o = 0; o < s->n_out; o++)
        add_scaled(l->at.dW + (int64_t)o * s->n_in + k,
                   dy[(int64_t)i * s->n_out + o],
                   x + ((int64_t)i * s->in_stride + k) * size, s->x_half, n);
  }
}

/* dx of one sample: the sum over outputs of g[o] * w[o]. */
TS_CLONES static void grad_x(float *restrict to, const float *g,
                             const float *restrict w, int32_t n_in,
                             int32_t n_out) {
  for (int32_t k = 0; k < n_in; k++) to[k] = g[0] * w[k];
  for (int32_t o = 1; o < n_out; o++)
    for (int32_t k = 0; k < n_in; k++) to[k] += g[o] * w[(int64_t)o * n_in + k];
}

TS_CLONES static void grad_x_half(uint16_t *restrict to, const float *g,
                                  const float *restrict w, int32_t n_in,
                                  int32_t n_out) {
  /* With a loop inside, this one takes an element at a time. */
  for (int32_t k = 0; n_out == 1 && k < n_in; k++)
    to[k] = ts_half_of(g[0] * w[k]);
  for (int32_t k = 0; n_out > 1 && k < n_in; k++) {
    float sum = g[0] * w[k];
    for (int32_t o = 1; o < n_out; o++) sum += g[o] * w[(int64_t)o * n_in + k];
    to[k] = ts_half_of(sum);
  }
}

static ts_err backward(ts_linear *l, void *dx, void *grad, const void *x,
                       const void *y, int32_t batch) {
  const ts_linear_spec *s = &l->spec;
  const float *dy = ts_linear_masked(l, grad, y, batch);
  grad_weights(l, dy, x, batch);
  if (!dx) return TS_OK;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < batch; i++) {
    const float *g = dy + (int64_t)i * s->n_out;
    const int64_t at = (int64_t)i * s->in_stride;
    float *to = (float *)dx + at;
    if (s->x_half) {
      grad_x_half((uint16_t *)dx + at, g, l->at.W, s->n_in, s->n_out);
      continue;
    }
    grad_x(to, g, l->at.W, s->n_in, s->n_out);
    memset(to + s->n_in, 0, (size_t)(s->in_stride - s->n_in) * sizeof *to);
  }
  return TS_OK;
}

const ts_engine ts_engine_narrow = {.name = "narrow",
                                    .create = ts_linear_mask_create,
                                    .forward = forward,
                                    .backward = backward};
