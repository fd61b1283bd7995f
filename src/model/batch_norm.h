/* batch_norm.h - batch norm over the samples of all ranks, a part of layers.
 *
 * y = (x - mean) / sqrt(var + eps) gain + bias, column by column.  In training
 * mean and var are those of the (micro-)batch on all ranks, summed in double in
 * rank order: one small message forward, one backward.  Else they are running
 * ones, buffers that every rank has alike.
 *
 * Functions are Local unless they say Collective or Enqueues.  Who calls them
 * acquires and releases the parameters, and says that gradients are ready. */
#pragma once

#include "model/layer_ops.h"
#include "runtime/comm.h"

typedef struct ts_batch_norm {
  ts_param *p[2];       /* weight, bias; NULL where they are not wanted */
  ts_param *running[2]; /* mean, var: buffers (n) */
  ts_comm *comm;        /* NULL: one rank */
  double *own, *all;    /* (2 n): sums and products of this rank, of all */
  float *mean, *rstd, *u, *v, *w; /* (n) */
  int32_t n;
  double eps, momentum;
} ts_batch_norm;

typedef struct ts_batch_norm_spec {
  int32_t i;          /* names are NAME.i.PREFIXweight, and so on */
  const char *prefix; /* "", "norm." */
  int32_t n;          /* columns */
  bool affine;        /* weight and bias are there */
  double eps, momentum;
} ts_batch_norm_spec;

/* Momentum and eps as PyTorch's BatchNorm1d. */
#define TS_BATCH_NORM_EPS "1e-5"
#define TS_BATCH_NORM_MOMENTUM "0.1"

/* Collective over spec->world, where that has several ranks.  DECK error where
 * rows are tokens: n_global, which means are over, counts samples. */
ts_err ts_batch_norm_create(ts_batch_norm *, ts_layer *,
                            const ts_batch_norm_spec *);
void ts_batch_norm_reset(ts_batch_norm *); /* Collective, likewise */

/* Rows of r->batch samples.  Enqueue, in the same order on all ranks. */
ts_err ts_batch_norm_forward(ts_batch_norm *, const ts_layer *,
                             const ts_layer_run *, float *y, int64_t y_stride,
                             const float *x, int64_t x_stride);
/* DX may be DY, where strides are equal; x as in forward. */
ts_err ts_batch_norm_backward(ts_batch_norm *, const ts_layer *,
                              const ts_layer_run *, float *dx,
                              int64_t dx_stride, const float *dy,
                              int64_t dy_stride, const float *x,
                              int64_t x_stride);
