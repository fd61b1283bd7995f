/* linear_cblas.c - matrix products by a CBLAS, where oneDNN is missing. */
#include "config.h"
#ifdef HAVE_CBLAS
#include <cblas.h>
#include <string.h>

#include "dense/linear_impl.h"

static ts_err forward(ts_linear *l, void *to, const void *from, int32_t batch) {
  float *y = to;
  const float *x = from;
  const ts_linear_spec *s = &l->spec;
  for (int32_t i = 0; l->at.b && i < batch; i++)
    memcpy(y + (int64_t)i * s->n_out, l->at.b, (size_t)s->n_out * sizeof *y);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, batch, s->n_out, s->n_in,
              1.0f, x, s->in_stride, l->at.W, s->n_in, l->at.b ? 1.0f : 0.0f, y,
              s->n_out);
  const int64_t n = (int64_t)batch * s->n_out;
  for (int64_t i = 0; s->relu && i < n; i++) y[i] = y[i] > 0 ? y[i] : 0;
  return TS_OK;
}

static ts_err backward(ts_linear *l, void *to, void *grad, const void *from,
                       const void *y, int32_t batch) {
  float *dx = to;
  const float *dy = ts_linear_masked(l, grad, y, batch), *x = from;
  const ts_linear_spec *s = &l->spec;
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, s->n_out, s->n_in, batch,
              1.0f, dy, s->n_out, x, s->in_stride, 0.0f, l->at.dW, s->n_in);
  if (!dx) return TS_OK;
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, batch, s->n_in,
              s->n_out, 1.0f, dy, s->n_out, l->at.W, s->n_in, 0.0f, dx,
              s->in_stride);
  for (int32_t i = 0; i < batch; i++)
    for (int32_t k = s->n_in; k < s->in_stride; k++)
      dx[(int64_t)i * s->in_stride + k] = 0;
  return TS_OK;
}

const ts_engine ts_engine_cblas = {.name = "cblas",
                                   .create = ts_linear_mask_create,
                                   .forward = forward,
                                   .backward = backward};
#else
typedef int ts_no_cblas; /* a file must hold something */
#endif
