/* linear_narrow.c - layers with a few outputs, such as the last one.
 *
 * Memory-bound: a general matrix product reaches a twentieth of its speed
 * here (measured), plain dot products the memory's. */
#include <string.h>

#include "dense/linear_impl.h"

static ts_err create(ts_linear *l) {
  (void)l;
  return TS_OK;
}

static void destroy(ts_linear *l) {
  (void)l;
}

/* In 16 partial sums, so that it can be vectorised with fixed bits. */
static float dot(const float *restrict a, const float *restrict b, int32_t n) {
  float part[16] = {0};
  int32_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; k++) part[k] += a[i + k] * b[i + k];
  for (int k = 0; i < n; i++, k++) part[k] += a[i] * b[i];
  for (int w = 8; w; w /= 2)
    for (int k = 0; k < w; k++) part[k] += part[k + w];
  return part[0];
}

static ts_err forward(ts_linear *l, float *y, const float *x, int32_t batch) {
  const ts_linear_spec *s = &l->spec;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < batch; i++)
    for (int32_t o = 0; o < s->n_out; o++) {
      float v = l->at.b[o] + dot(x + (int64_t)i * s->in_stride,
                                 l->at.W + (int64_t)o * s->n_in, s->n_in);
      y[(int64_t)i * s->n_out + o] = s->relu && v < 0 ? 0 : v;
    }
  return TS_OK;
}

static void grad_weights(ts_linear *l, const float *dy, const float *x,
                         int32_t batch) {
  const ts_linear_spec *s = &l->spec;
  memset(l->at.dW, 0, (size_t)l->W->n * sizeof *l->at.dW);
  for (int32_t i = 0; i < batch; i++)
    for (int32_t o = 0; o < s->n_out; o++) {
      const float g = dy[(int64_t)i * s->n_out + o];
      const float *restrict v = x + (int64_t)i * s->in_stride;
      float *restrict to = l->at.dW + (int64_t)o * s->n_in;
      for (int32_t k = 0; k < s->n_in; k++) to[k] += g * v[k];
    }
}

static ts_err backward(ts_linear *l, float *dx, const float *dy, const float *x,
                       int32_t batch) {
  const ts_linear_spec *s = &l->spec;
  grad_weights(l, dy, x, batch);
  if (!dx) return TS_OK;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < batch; i++) {
    float *restrict to = dx + (int64_t)i * s->in_stride;
    memset(to, 0, (size_t)s->in_stride * sizeof *to);
    for (int32_t o = 0; o < s->n_out; o++) {
      const float g = dy[(int64_t)i * s->n_out + o];
      const float *restrict w = l->at.W + (int64_t)o * s->n_in;
      for (int32_t k = 0; k < s->n_in; k++) to[k] += g * w[k];
    }
  }
  return TS_OK;
}

const ts_engine ts_engine_narrow = {.name = "narrow",
                                    .create = create,
                                    .destroy = destroy,
                                    .forward = forward,
                                    .backward = backward};
