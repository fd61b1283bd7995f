/* linear.h - y = act(x W^T + b), with its gradients.
 *
 * Dense matrix products are not ours: the backends are linear_onednn.c,
 * linear_cblas.c and linear_ref.c (plain C, the oracle), in one table;
 * "auto" takes the first that is built in.  Layers with a few outputs are dot
 * products of our own (linear_narrow.c), in f32 whatever the precision.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/str.h"
#include "dense/hooks.h"
#include "dense/param.h"
#include "kernel_table.h"

typedef struct ts_linear ts_linear;

typedef struct ts_linear_spec {
  int32_t n_in, n_out;
  int32_t in_stride; /* floats between rows of x and dx, >= n_in; where it is
                        larger the rest of a row of x is zeros */
  bool relu;
  ts_precision precision; /* of products: sums and weights stay f32 */
  /* x and dx, y and dy are arrays of bf16.  Their strides are multiples of
   * 32, the rest of a row is zeros in x and dy and stays as it is in dx and
   * y.  Only where ts_linear_in_bf16 says so. */
  bool x_half, y_half;
  /* Else, only where ts_linear_in_bf16 says so: x, dx, y and dy are columns of
   * wider rows, whose others are not touched, and W and b are rows of theirs,
   * n_out from first_row on. */
  bool part;
  int32_t first_row;
  int32_t out_stride; /* elements between rows of y and dy where y_half or part,
                         else n_out */
  int32_t batch_max;
  bool varies; /* batches are of tokens, whose number is another in each */
  bool need_dx;
  const char *engine; /* NULL or "auto" | "onednn" | "cblas" | "ref" */
  /* The kernels of the lane's device; NULL: the host's.  Where they name an
   * engine (kernels.h), products go by that one. */
  const ts_kernels *kernels;
  /* The layer whose output is x, and whose dy is dx: an engine may mask it for
   * that layer.  NULL: x comes from elsewhere, or others read dx, too. */
  ts_linear *below;
} ts_linear_spec;

/* W (n_out, n_in) and b (n_out) are the caller's parameters; b NULL: the layer
 * has no bias.  Creates its
 * primitives on LANE (whose thread count they take).  Local. */
ts_err ts_linear_create(ts_linear **, const ts_linear_spec *, ts_param *W,
                        ts_param *b, ts_lane *);
void ts_linear_destroy(ts_linear *);

/* Whether the products of a layer with N_OUT outputs are of bf16, with this
 * engine (NULL: auto) or that of KERNELS (NULL: the host's): else y is f32.
 * Its input may be of bf16 wherever ts_linear_precision gives bf16. */
bool ts_linear_in_bf16(ts_precision, int32_t n_out, const char *engine,
                       const ts_kernels *);
/* The precision that the products of KERNELS (NULL: the host's) can give for
 * run.precision: f32, with one note in the log, for bf16 on CPUs without
 * instructions for it, and for tf32 where there is none.  Local. */
ts_precision ts_linear_precision(ts_precision, const ts_kernels *);

/* y (batch, n_out), f32 or bf16 as in the spec.  Enqueues. */
ts_err ts_linear_forward(ts_linear *, void *y, const void *x, int32_t batch,
                         ts_lane *);
/* y (batch, n) of N outputs from FIRST on, without their gradients; only where
 * ts_linear_has_some says so.  Enqueues; has_some is Local. */
ts_err ts_linear_forward_some(ts_linear *, float *y, const float *x,
                              int32_t batch, int32_t first, int32_t n,
                              ts_lane *);
bool ts_linear_has_some(const ts_linear *);
/* Reads dy (batch, n_out), and overwrites it.  Sets W->grad, b->grad if there
 * is one, and dx (batch, in_stride) unless it is NULL; x and y as in forward.
 * batch 0: gradients become 0.  Enqueues. */
ts_err ts_linear_backward(ts_linear *, void *dx, void *dy, const void *x,
                          const void *y, int32_t batch, ts_lane *);

/* The matrix products of the layer's last forward or backward once more and
 * nothing else, on the arrays that they had then, for benchmarks: what the
 * library alone needs.  Weights' gradients go into an array of its own.
 * Booked as "products alone"; those of steps are booked as
 * TS_LINEAR_PRODUCTS.  Enqueues. */
ts_err ts_linear_repeat(ts_linear *, ts_pass, ts_lane *);
#define TS_LINEAR_PRODUCTS "  of it products"

const char *ts_linear_engine(const char *engine); /* the one that is meant */
/* The version of KERNELS' engine (NULL: the host's): "oneDNN 2.6.3".  Local. */
const char *ts_linear_engine_version(const ts_kernels *);

/* Appends what the library lacks, in words, where that makes products of this
 * process's layers slower; nothing where it lacks nothing.  Local. */
ts_err ts_linear_unfused(const ts_kernels *, ts_str *text);

/* The algorithms of a device's products as one text for all layers of this
 * process: choices appends it, choose takes that of an earlier run.  Engines
 * for which chooses is false append nothing and ignore the text.  Local. */
bool ts_linear_chooses(const ts_kernels *);
ts_err ts_linear_choices(const ts_kernels *, ts_str *text);
ts_err ts_linear_choose(const ts_kernels *, const char *text);
