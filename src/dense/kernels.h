/* kernels.h - the kernels of models and dense optimizers: their entries in
 * the table of kernels (kernel_table.h), and arguments that no other header
 * has. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

/* Where the pooled embedding of each feature lies: row b of feature f at
 * data[f] + b * stride[f], dim floats. */
typedef struct ts_interact_args {
  /* x_0 = bottom (B, d) when bottom is not NULL, then the F embeddings: n =
   * F + (bottom ? 1 : 0) vectors.  out (B, out_stride): [bottom |
   * x_i . x_j for i < j in row order (0,1), (0,2) .. | zeros up to
   * out_stride]. */
  void *out;                 /* forward: written */
  const void *grad;          /* backward: d out, same layout */
  bool half;                 /* out and grad are of bf16, not f32: for the
                              * kernels *_half, which may multiply in bf16 */
  int64_t out_stride;        /* elements */
  const float *bottom;       /* (B, d) or NULL */
  float *grad_bottom;        /* backward: = (not +=) */
  const float *const *emb;   /* (F) */
  float *const *grad_emb;    /* (F) backward: =; may lie over emb */
  const int64_t *emb_stride; /* (F) floats, for emb and grad_emb */
  int32_t n_features, dim, batch;
  /* Scratch of so many threads (dense/interact.h); 0: allocated.  The host's
   * alone. */
  float *work;
  int work_threads;
} ts_interact_args;

/* The part of a cross layer (dense/cross.h) that goes by element.  Elements are
 * of bf16 where HALF, else of f32; each is worked out in f32 and rounded once.
 * Rows of x0, x, y, dy, dx0 and add lie STRIDE elements apart, those of t and
 * dt T_STRIDE; only WIDTH elements of a row are touched. */
typedef struct ts_cross_args {
  const void *x0; /* (B, stride) */
  const void *x;  /* forward: y = x0 * t + x */
  const void *t;  /* (B, t_stride) */
  void *y;        /* NULL: y32 */
  float *y32;     /* where half: y in f32 instead, unless NULL */
  /* backward: dy += add (unless NULL), then dx0 += dy * t (= where FIRST) and
   * dt = dy * x0.  Without t, the end: dx0 += dy + add, and dy stays.  Where
   * half dy may come in f32: dy = dy32 + add, and without add dy is not
   * touched. */
  const float *dy32;
  const void *add;
  void *dy, *dx0, *dt;
  bool first, half;
  int32_t width, stride, t_stride, batch;
} ts_cross_args;

/* Factorisation machine over N_VECTORS vectors of DIM floats side by side:
 *   out = 1/2 sum over d of ((sum over v of x_vd)^2 - sum over v of x_vd^2)
 * DIM 1: over all scalars of a row at once. */
typedef struct ts_fm_args {
  const float *x;    /* (B, stride) */
  float *dx;         /* backward: += grad * (sum over v of x_vd - x_vd) */
  float *out;        /* (B), out_stride floats apart */
  const float *grad; /* backward: of out, the same layout */
  int32_t n_vectors, dim, stride, out_stride, batch;
} ts_fm_args;

/* Rows side by side.  Row i < batch of WIDE is [row i of FIRST | .. row i of
 * PART k from column at[k] on, width[k] floats ..]; what no part has stays.
 *   join_rows   wide = first, parts; where ADD (of f32), +=
 *   split_rows  first, parts = wide */
typedef struct ts_join_args {
  void *wide;                 /* (batch, stride) f32, or bf16 where HALF */
  float *first;               /* (batch, first_width); NULL: none */
  float *const *part;         /* (n_parts), as what follows, host memory */
  const int64_t *part_stride; /* floats */
  const int32_t *at, *width;
  int32_t stride, first_width, n_parts, batch;
  bool add, half;
} ts_join_args;

/* Rows of bf16 from rows of f32: to[i][k] = from[i][k], to nearest even, for
 * i < rows, k < n; the rest of a row of to stays. */
typedef struct ts_half_args {
  uint16_t *to;
  const float *from;
  int64_t to_stride, from_stride; /* elements */
  int64_t rows, n;
} ts_half_args;

/* What a task is judged by, z its output, y its label; l and its derivative by
 * z are in loss_pair.h, from z as f32 on in double.  Prediction in brackets.
 *   bce          max(z, 0) - z y + log(1 + exp(-|z|))          [sigmoid(z)]
 *   probability  -y log z - (1 - y) log(1 - z), as torch's BCELoss: logarithms
 *                from -100 on, the derivative's z (1 - z) from 1e-12 on   [z]
 *   mse          (z - y)^2                                              [z]
 *   mae          |z - y|, derivative 0 at 0                             [z]
 *   huber        d = |z - y|: d <= delta ? d^2 / 2 : delta (d - delta / 2) [z]
 *   poisson      exp(z) - y z                                      [exp(z)]
 *   given        z, a loss that the model has worked out                [z]
 * With smoothing, bce and probability take y (1 - smoothing) + smoothing / 2
 * in place of y.
 *   classes      -sum_c t_c log p_c, p = softmax(z), y the number of a class:
 *                t_c = (1 - smoothing) [c = y] + smoothing / classes, as
 *                torch's CrossEntropyLoss; derivative by z_c p_c - t_c    [p]
 * The last has `classes` logits a sample, the others one. */
typedef enum {
  TS_LOSS_BCE,
  TS_LOSS_PROBABILITY,
  TS_LOSS_MSE,
  TS_LOSS_MAE,
  TS_LOSS_HUBER,
  TS_LOSS_POISSON,
  TS_LOSS_CLASSES,
  TS_LOSS_GIVEN
} ts_loss_kind;
typedef struct ts_task_loss {
  ts_loss_kind kind;
  int32_t first;   /* column of its logits, or the first one */
  int32_t classes; /* of that kind, else 0 */
  double weight, smoothing, delta;
  bool learnt; /* weight is c exp(-s), s the task's log_variance */
} ts_task_loss;

/* The losses of all tasks, of pairs (batch, n_tasks) row-major: with the weight
 * w = (float)tasks[k].weight * weights[b] of a pair, *loss_sum = sum w l in
 * double, grad = w l' * scale.  A pair whose label is NaN, or none of the
 * classes, does not count: its gradient is 0.
 * Of a task whose weight is learnt (Kendall, Gal and Cipolla, 2018) w = c
 * exp(-s) weights[b] in double, c 1/2 for mse, mae and huber, else 1; s / 2
 * times the samples' weights is added to *loss_sum, and the derivative by s is
 * log_variance_grad[k] = (sum of weights / 2 - sum w l) * scale; 0 of others.
 */
typedef struct ts_loss_args {
  double *loss_sum;          /* (1) device memory */
  float *grad;               /* (batch, n_logits) or NULL */
  float *prediction;         /* (batch, n_logits) or NULL */
  const float *logits;       /* (batch, n_logits) */
  const float *labels;       /* (batch, n_tasks) */
  const float *weights;      /* (batch) or NULL: 1 */
  const ts_task_loss *tasks; /* (n_tasks) host memory; NULL: bce, weight 1 */
  const float *log_variance; /* (n_tasks) s, or NULL: none is learnt */
  float *log_variance_grad;  /* (n_tasks); NULL: not asked for */
  double scale;              /* 1 / sum of weights over the global batch */
  int64_t batch;
  int32_t n_tasks;
  int32_t n_logits; /* of a sample: n_tasks, or more where there are classes */
} ts_loss_args;

/* *BAD = 1 where some x[i * stride + k], i < rows, k < n, is not finite; else
 * it stays. */
typedef struct ts_check_finite_args {
  const float *x;
  int64_t stride, rows, n;
  int32_t *bad; /* (1) device memory */
} ts_check_finite_args;

/* to[i] = from[i] for i < n, of each piece, between f32 and bf16 where its kind
 * says so; no piece writes what another one reads or writes.  So many that a
 * GPU's launch has them by value. */
enum { TS_COPY_PIECES = 112 };
typedef enum {
  TS_COPY_F32,
  TS_COPY_SHORTEN, /* to bf16, to the nearest even */
  TS_COPY_WIDEN    /* from bf16 */
} ts_copy_kind;
typedef struct ts_flat_copy {
  void *to;
  const void *from;
  int64_t n;
  ts_copy_kind kind;
} ts_flat_copy;
typedef struct ts_copies_args {
  int32_t n_pieces;
  ts_flat_copy piece[TS_COPY_PIECES];
} ts_copies_args;

/* Flat arrays and dense optimizers.  All arrays are device memory; sums have an
 * order that does not depend on threads.
 *   swap (a, b, n)          floats change places
 *   shorten (x, n, dtype)   n floats become bf16 or f16, in the first half of
 *                           their own room; widen: back
 *   squares (x, n, sum)     *sum += x[i]^2, in double
 *   clip (norm, factor, c)  *norm = sqrt(*norm), *factor = min(1, c / (*norm +
 *                           1e-6))
 *   dense_update (a, n)     n pieces, TS_DENSE_PIECES at most
 *   dense_stats (a, stats)  stats[0], stats[1] += (dense/optim.h) */
struct ts_dense_update_args; /* dense/optim.h */
struct ts_tally_args;        /* dense/tally.h */

#define TS_DENSE_KERNELS(X)                                                    \
  X(interact_forward, (const ts_interact_args *))                              \
  X(interact_backward, (const ts_interact_args *))                             \
  X(interact_forward_half, (const ts_interact_args *))                         \
  X(interact_backward_half, (const ts_interact_args *))                        \
  X(cross_forward, (const ts_cross_args *))                                    \
  X(cross_backward, (const ts_cross_args *))                                   \
  X(fm_forward, (const ts_fm_args *))                                          \
  X(fm_backward, (const ts_fm_args *))                                         \
  X(join_rows, (const ts_join_args *))                                         \
  X(split_rows, (const ts_join_args *))                                        \
  X(half_rows, (const ts_half_args *))                                         \
  X(loss, (const ts_loss_args *))                                              \
  X(tally, (const struct ts_tally_args *))                                     \
  X(check_finite, (const ts_check_finite_args *))                              \
  X(copies, (const ts_copies_args *))                                          \
  X(swap, (float *, float *, int64_t))                                         \
  X(shorten, (float *, int64_t, ts_dtype))                                     \
  X(widen, (float *, int64_t, ts_dtype))                                       \
  X(squares, (const float *, int64_t, double *))                               \
  X(clip, (double *, double *, double))                                        \
  X(dense_update, (const struct ts_dense_update_args *, int32_t))              \
  X(dense_stats, (const struct ts_dense_update_args *, double *))
