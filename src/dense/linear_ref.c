/* linear_ref.c - matrix products in plain C, summed in double: the oracle. */
#include <string.h>

#include "dense/linear_impl.h"

static ts_err forward(ts_linear *l, void *to, const void *from, int32_t batch) {
  float *y = to;
  const float *x = from;
  const ts_linear_spec *s = &l->spec;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < batch; i++)
    for (int32_t o = 0; o < s->n_out; o++) {
      const float *w = l->at.W + (int64_t)o * s->n_in;
      const float *v = x + (int64_t)i * s->in_stride;
      double sum = l->at.b ? l->at.b[o] : 0;
      for (int32_t k = 0; k < s->n_in; k++) sum += (double)w[k] * v[k];
      if (s->relu && sum < 0) sum = 0;
      y[(int64_t)i * s->n_out + o] = (float)sum;
    }
  return TS_OK;
}

static ts_err backward(ts_linear *l, void *to, void *grad, const void *from,
                       const void *y, int32_t batch) {
  float *dx = to;
  const float *dy = ts_linear_masked(l, grad, y, batch), *x = from;
  const ts_linear_spec *s = &l->spec;
#pragma omp parallel for schedule(static)
  for (int32_t o = 0; o < s->n_out; o++)
    for (int32_t k = 0; k < s->n_in; k++) {
      double sum = 0;
      for (int32_t i = 0; i < batch; i++)
        sum += (double)dy[(int64_t)i * s->n_out + o] *
               x[(int64_t)i * s->in_stride + k];
      l->at.dW[(int64_t)o * s->n_in + k] = (float)sum;
    }
  if (!dx) return TS_OK;
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < batch; i++)
    for (int32_t k = 0; k < s->in_stride; k++) {
      double sum = 0;
      for (int32_t o = 0; k < s->n_in && o < s->n_out; o++)
        sum += (double)dy[(int64_t)i * s->n_out + o] *
               l->at.W[(int64_t)o * s->n_in + k];
      dx[(int64_t)i * s->in_stride + k] = (float)sum;
    }
  return TS_OK;
}

const ts_engine ts_engine_ref = {.name = "ref",
                                 .create = ts_linear_mask_create,
                                 .forward = forward,
                                 .backward = backward};
