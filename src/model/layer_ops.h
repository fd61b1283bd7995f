/* layer_ops.h - short forms that kinds of layers enqueue kernels with.
 *
 * Each takes a copy of its arguments; with batch 0 nothing of a sample is
 * touched, sums are 0.  All of it Enqueues. */
#pragma once

#include "dense/linear.h"
#include "model/layer.h"

/* One kernel each of model/kernels.h and dense/kernels.h. */
ts_err ts_run_contract(const ts_layer *, const ts_layer_run *,
                       const ts_contract_args *);
ts_err ts_run_map(const ts_layer *, const ts_layer_run *, const ts_map_args *);
ts_err ts_run_act(const ts_layer *, const ts_layer_run *, const ts_act_args *,
                  ts_pass);
ts_err ts_run_norm(const ts_layer *, const ts_layer_run *, const ts_norm_args *,
                   ts_pass);
ts_err ts_run_column_sums(const ts_layer *, const ts_layer_run *,
                          const ts_column_sums_args *);
ts_err ts_run_column_apply(const ts_layer *, const ts_layer_run *,
                           const ts_column_apply_args *);
ts_err ts_run_batch_norm(const ts_layer *, const ts_layer_run *,
                         const ts_batch_norm_args *, ts_pass);
ts_err ts_run_dropout(const ts_layer *, const ts_layer_run *,
                      const ts_dropout_args *);
ts_err ts_run_max(const ts_layer *, const ts_layer_run *, const ts_max_args *,
                  ts_pass);
ts_err ts_run_prepend(const ts_layer *, const ts_layer_run *,
                      const ts_prepend_args *, ts_pass);
ts_err ts_run_pool(const ts_layer *, const ts_layer_run *, const ts_pool_args *,
                   ts_pass);
/* By kernels *_half where products are of bf16 (ts_linear_precision). */
ts_err ts_run_attention_pass(const ts_layer *, const ts_layer_run *,
                             const ts_attention_args *, ts_pass);
/* A gets the biases by time of a timed layer, (heads, buckets), and its tokens'
 * times. */
void ts_layer_times(const ts_layer *, const ts_param *biases,
                    ts_attention_args *a);
ts_err ts_run_tokens(const ts_layer *, const ts_layer_run *,
                     const ts_tokens_args *);
/* The rows of BYTES of the tokens that T keeps, of those of all its tokens,
 * move to the beginning of ROWS.  Host. */
ts_err ts_run_cut(const ts_tokens *t, const ts_layer_run *, void *rows,
                  size_t bytes);
/* The same; they go to TO, which is not among them. */
ts_err ts_run_kept(const ts_tokens *t, const ts_layer_run *, void *to,
                   const void *from, size_t bytes);
ts_err ts_run_targets(const ts_layer *, const ts_layer_run *,
                      const ts_targets_args *);
ts_err ts_run_candidates_forward(const ts_layer *, const ts_layer_run *,
                                 const ts_candidates_args *);
ts_err ts_run_candidates_rows(const ts_layer *, const ts_layer_run *,
                              const ts_candidates_args *);
ts_err ts_run_candidates_items(const ts_layer *, const ts_layer_run *,
                               const ts_candidates_args *);
ts_err ts_run_full_softmax_take(const ts_layer *, const ts_layer_run *,
                                const ts_full_softmax_args *);
ts_err ts_run_full_softmax_part(const ts_layer *, const ts_layer_run *,
                                const ts_full_softmax_args *);
ts_err ts_run_full_softmax_loss(const ts_layer *, const ts_layer_run *,
                                const ts_full_softmax_args *);
ts_err ts_run_full_softmax_factor(const ts_layer *, const ts_layer_run *,
                                  const ts_full_softmax_args *);
ts_err ts_run_full_softmax_slopes(const ts_layer *, const ts_layer_run *,
                                  const ts_full_softmax_args *);
ts_err ts_run_full_softmax_give(const ts_layer *, const ts_layer_run *,
                                const ts_full_softmax_args *);
ts_err ts_run_target_figures(const ts_layer *, const ts_layer_run *,
                             const ts_target_figures_args *);
ts_err ts_run_places(const ts_layer *, const ts_layer_run *,
                     const ts_places_args *, ts_pass);
ts_err ts_run_rotary(const ts_layer *, const ts_layer_run *,
                     const ts_rotary_args *);
ts_err ts_run_fm(const ts_layer *, const ts_layer_run *, const ts_fm_args *,
                 ts_pass);
ts_err ts_run_zero(const ts_layer *, const ts_layer_run *, void *p,
                   size_t bytes);

/* grad (n) = the columns' sums of dy (rows, stride): of a bias. */
ts_err ts_run_bias_grad(const ts_layer *, const ts_layer_run *, float *grad,
                        const float *dy, int64_t rows, int64_t stride,
                        int32_t n);
/* Rows of N floats: to (=, or += where ADD) from. */
ts_err ts_run_copy(const ts_layer *, const ts_layer_run *, float *to,
                   int64_t to_stride, const float *from, int64_t from_stride,
                   int32_t n, bool add);

/* Y = SCALE a x (X NULL: scale a), or SCALE a + x, of rows of N; added where
 * ADD.  STRIDE 0: the same row for all samples. */
typedef struct ts_rows {
  float *p;
  int64_t stride;
} ts_rows;
ts_err ts_run_rows(const ts_layer *, const ts_layer_run *, ts_map_op, ts_rows y,
                   float scale, ts_rows a, ts_rows x, int32_t n, bool add);

/* Input K without what may stand behind a row's width, so that fields are
 * (B F, d): the value's own arrays, or copies. */
typedef struct ts_packed {
  float *x, *dx; /* copies (batch_max, width); NULL: none */
} ts_packed;
ts_err ts_packed_take(ts_packed *, ts_layer *, int32_t k);
/* *X (batch, width) = */
ts_err ts_packed_x(const ts_packed *, const ts_layer *, const ts_layer_run *,
                   int32_t k, const float **x);
/* Where its gradient is to be written so; then to where it belongs. */
float *ts_packed_dx(const ts_packed *, const ts_layer *, int32_t k);
ts_err ts_packed_give(const ts_packed *, const ts_layer *, const ts_layer_run *,
                      int32_t k);

/* KEY of dropout I of this layer, in this pass, as ts_dropout_args has it. */
void ts_layer_drop_key(const ts_layer *, const ts_layer_run *, int32_t i,
                       uint32_t key[2]);
/* Rows of N with the mask of dropout I of this layer, in this pass; as they
 * are where that is off.  TO may be FROM. */
ts_err ts_run_drop(const ts_layer *, const ts_layer_run *, int32_t i,
                   ts_rows to, ts_rows from, int32_t n, double p);
/* Kernels contract and map (a x) with their arguments in a row; sizes of b, h,
 * i, j, k. */
typedef struct ts_sizes {
  int64_t b;
  int32_t h, i, j;
  int64_t k;
} ts_sizes;
ts_err ts_run_products(const ts_layer *, const ts_layer_run *, float *c,
                       ts_stride4 cs, const float *a, ts_stride4 as,
                       const float *b, ts_stride4 bs, ts_sizes, float scale,
                       bool add);
ts_err ts_run_times(const ts_layer *, const ts_layer_run *, float *y,
                    ts_stride4 ys, const float *a, ts_stride4 as,
                    const float *x, ts_stride4 xs, ts_sizes, float scale,
                    bool add);

/* Activation, and softmax, of rows of N floats; y's (and dy's) without gaps,
 * softmax's x, too, whose ds is in DP's place. */
ts_err ts_run_act_rows(const ts_layer *, const ts_layer_run *, ts_act_kind,
                       int64_t rows, int32_t n, const float *x,
                       int64_t x_stride, float *y, const float *dy, float *dx,
                       ts_pass);
ts_err ts_run_softmax(const ts_layer *, const ts_layer_run *, int64_t rows,
                      int32_t n, const float *s, float *p, float *dp, ts_pass);

/* The parameters of one group, whose first is P: acquired and released; the
 * gradients of N of them, in the order of creation, are ready. */
ts_err ts_layer_begin(const ts_layer_run *, const ts_param *p, ts_pass);
ts_err ts_layer_end(const ts_layer_run *, const ts_param *p, ts_pass);
ts_err ts_layer_gave(const ts_layer_run *, ts_param *const *p, int32_t n);

/* y = x W^T + b of ROWS_EACH rows a sample (1; or each field), without an
 * activation: a linear layer with its parameters. */
typedef struct ts_rows_linear {
  ts_linear *linear;
  ts_param *p[2]; /* weight, bias (NULL: none) */
  int32_t rows_each;
} ts_rows_linear;
typedef struct ts_rows_linear_spec {
  int32_t i;                      /* of its name: NAME.i */
  bool last;                      /* `last_parameters` */
  int32_t n_in, in_stride, n_out; /* y has stride n_out */
  int32_t rows_each;
  bool bias, relu, need_dx;
} ts_rows_linear_spec;
ts_err ts_rows_linear_create(ts_rows_linear *, ts_layer *,
                             const ts_rows_linear_spec *, ts_lane *);
/* The same with what kinds mostly want: not last; dx, but for NO_DX. */
enum { TS_ROWS_BIAS = 1, TS_ROWS_RELU = 2, TS_ROWS_NO_DX = 4 };
ts_err ts_rows_linear_make(ts_rows_linear *, ts_layer *, int32_t i,
                           int32_t n_in, int32_t in_stride, int32_t n_out,
                           int32_t rows_each, unsigned flags, ts_lane *);
void ts_rows_linear_reset(ts_rows_linear *);
/* A layer of columns of wider rows, and of rows of W and B (NULL: none), from
 * what SPEC says of these (dense/linear.h, part), in bf16; *OUT stays NULL
 * where products are not of bf16: they are contract's then. */
ts_err ts_layer_part(ts_linear **out, const ts_layer *,
                     const ts_linear_spec *spec, ts_param *W, ts_param *b,
                     ts_lane *);
/* As ts_linear_forward and backward, parameters acquired and released, their
 * gradients ready. */
ts_err ts_rows_linear_forward(ts_rows_linear *, const ts_layer_run *, float *y,
                              const float *x);
ts_err ts_rows_linear_backward(ts_rows_linear *, const ts_layer_run *,
                               float *dx, float *dy, const float *x,
                               const float *y);
