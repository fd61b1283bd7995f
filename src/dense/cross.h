/* cross.h - DCNv2's cross layers, of low rank or full.
 *
 *   x_(l+1) = x_0 * (W_l (V_l x_l) + b_l) + x_l,   * by element
 *
 * V_l (rank, width), W_l (width, rank), b_l (width); full: W_l (width, width)
 * alone.  Products are ts_linear's, what is by element the kernels'.  A layer
 * is one group, GROUP.l.  Functions are Local unless they say Collective or
 * Enqueues. */
#pragma once

#include "dense/hooks.h"
#include "dense/linear.h"
#include "kernel_table.h"

typedef struct ts_cross ts_cross;

typedef struct ts_cross_spec {
  int32_t width;  /* of x */
  int32_t stride; /* elements between rows of x and dx, >= width; the rest of
                     a row is zeros */
  int32_t n_layers, rank; /* 0: full */
  /* NAME.V_kernels.l, NAME.W_kernels.l, NAME.bias.l; full: NAME.kernels.l,
   * NAME.bias.l */
  const char *name, *group;
  ts_precision precision;
  bool floats; /* x, y and all that is kept are f32, whatever the products are
                  of */
  /* Whoever takes Y has it as bf16, and gives DY so, where the products of
   * these layers are of bf16, too (ts_cross_is_half). */
  bool y_half;
  int32_t batch_max;
  const char *engine;
} ts_cross_spec;

/* Whether all that such layers keep, X and DX are of bf16, else f32: their
 * products are. */
bool ts_cross_in_bf16(const ts_cross_spec *, const ts_kernels *);
/* Adds its parameters to PARAMS; V and W are normal with variance
 * 2 / (rows + columns), b is 0. */
ts_err ts_cross_create(ts_cross **, const ts_cross_spec *, ts_params *,
                       const ts_kernels *, uint64_t seed, ts_lane *);
void ts_cross_destroy(ts_cross *);
/* Y and DY are of bf16, else f32. */
bool ts_cross_is_half(const ts_cross *);
/* *Y (batch, stride), owned by the layers (X without layers), valid until the
 * next forward.  X must stay until backward.  Enqueues. */
ts_err ts_cross_forward(ts_cross *, const void **y, const void *x,
                        int32_t batch, const ts_layer_hooks *, ts_lane *);
/* dx (batch, stride) (=) from dy (batch, stride), which is overwritten.
 * Enqueues. */
ts_err ts_cross_backward(ts_cross *, void *dx, void *dy, int32_t batch,
                         const ts_layer_hooks *, ts_lane *);
