/* kernels.h - the kernels of a graph's layers: their entries in the table of
 * kernels (kernel_table.h), and their arguments.
 *
 * Matrix products with weights are linear layers' (dense/linear.h).  What is
 * left of the kinds of layers is made of these few: sums of products over one
 * index, elementwise work with broadcasting, activations, norms, sums over
 * the batch.  Arrays are f32 on the device, host memory only where it is said;
 * strides count floats and may be 0, which repeats an element; what is written
 * overlaps nothing that is read, unless it is the same array with the same
 * strides.  Results have the same bits on any number of threads. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "model/kernels_items.h"

/* Strides of four indices, the last one fastest as a rule. */
typedef struct ts_stride4 {
  int64_t b, h, r, c;
} ts_stride4;

/* C[b,h,i,j] = scale * sum over k of A[b,h,i,k] B[b,h,j,k]; where ADD, +=.
 * b < n_b, h < n_h, i < n_i, j < n_j, k < n_k; n_k 0: the sum is 0.
 * With strides all of it is one kernel: products of a sample's vectors, sums
 * over fields (B NULL: ones), and gradients of small shared weights, whose sum
 * is over the batch (n_b 1, k the sample). */
typedef struct ts_contract_args {
  float *c;
  const float *a, *b;    /* b NULL: 1 */
  ts_stride4 cs, as, bs; /* c: b h i j; a: b h i k; b: b h j k */
  int64_t n_b, n_k;
  int32_t n_h, n_i, n_j;
  float scale;
  int32_t add; /* not a bool: padding behind one may look like an address */
} ts_contract_args;

/* y[b,h,i,j] = op of a and x there; where ADD, +=. */
typedef enum {
  TS_MAP_MULTIPLY, /* scale a x; x NULL: scale a, a copy */
  TS_MAP_SUM,      /* scale a + x */
  TS_MAP_SIN,      /* sin(2 pi scale a x): of turns, so that their fraction,
                      which is exact, says it */
  TS_MAP_COS       /* the same cosine */
} ts_map_op;
typedef struct ts_map_args {
  float *y;
  const float *a, *x;
  ts_stride4 ys, as, xs;
  int64_t n_b;
  int32_t n_h, n_i, n_j;
  ts_map_op op;
  float scale;
  bool add;
} ts_map_args;

/* y = act(x) for rows of N; backward dx = dy act'(x), and of prelu dslope[c] =
 * sum over rows of dy min(x, 0) (1 per column). gelu is x Phi(x), with erf. */
typedef enum {
  TS_ACT_RELU,
  TS_ACT_LEAKY, /* x or LEAK x */
  TS_ACT_PRELU, /* x or slope[c] x */
  TS_ACT_GELU,
  TS_ACT_SILU,
  TS_ACT_SIGMOID,
  TS_ACT_TANH
} ts_act_kind;
typedef struct ts_act_args {
  const float *x;
  float *y;                         /* forward */
  const float *dy;                  /* backward */
  float *dx;                        /* may be dy itself */
  const float *slope;               /* (n) of prelu */
  float *dslope;                    /* (n) = */
  int64_t rows, x_stride, y_stride; /* dx as x, dy as y */
  int32_t n;
  ts_act_kind kind;
  float leak;
} ts_act_args;

/* Rows of N:
 *   layer    y = g (x - mean) / sqrt(var + eps) + b, var = mean of squares
 *   rms      y = g x / sqrt(mean of x^2 + eps)
 *   l2       y = x / max(sqrt(sum of x^2), eps)
 *   softmax  y = softmax(scale x)
 * g, b: (n) or NULL: 1, 0; layer's and rms's alone.  Backward: dx =, and
 * dgain, dbias (n) = where not NULL; sums over rows in double, in a fixed
 * order. */
typedef enum {
  TS_NORM_LAYER,
  TS_NORM_RMS,
  TS_NORM_L2,
  TS_NORM_SOFTMAX
} ts_norm_kind;
typedef struct ts_norm_args {
  const float *x;
  float *y;        /* forward */
  const float *dy; /* backward */
  float *dx;       /* may be dy itself */
  const float *gain, *bias;
  float *dgain, *dbias;
  int64_t rows, x_stride, y_stride; /* dx as x, dy as y */
  int32_t n;
  ts_norm_kind kind;
  float eps, scale;
} ts_norm_args;

/* sum[c] = sum over rows of a[r][c], product[c] = of a[r][c] b[r][c] (B NULL:
 * a^2), in double, in a fixed order; either may be NULL. */
typedef struct ts_column_sums_args {
  const float *a, *b;
  double *sum, *product; /* (n) */
  int64_t rows, a_stride, b_stride;
  int32_t n;
} ts_column_sums_args;

/* y[r][c] = u[c] x[r][c] + v[c] z[r][c] + w[c]; z NULL: without it. */
typedef struct ts_column_apply_args {
  float *y;
  const float *x, *z;
  const float *u, *v, *w; /* (n) */
  int64_t rows, y_stride, x_stride, z_stride;
  int32_t n;
} ts_column_apply_args;

/* Batch norm, per column, from sums over the COUNT samples of all ranks.
 * Forward, training: mean = sum / count, var = product / count - mean^2,
 * running = (1 - momentum) running + momentum (mean; var count / (count - 1));
 * else mean and var are the running ones.  Then u = g / sqrt(var + eps),
 * w = b - u mean, and rstd, mean are kept.
 * Backward from sum of dy and product of dy x: dbias = sum dy of THIS rank,
 * dgain = (sum dy x - mean sum dy) rstd of this rank; of all ranks likewise S
 * and P: dx = u dy + v x + w with u = g rstd, v = -g rstd^2 P / count,
 * w = -g rstd S / count - v mean; S = sum dy, P = (sum dy x - mean S) rstd. */
typedef struct ts_batch_norm_args {
  const double *sum, *product;         /* (n) of all ranks */
  const double *own_sum, *own_product; /* backward: of this rank */
  const float *gain, *bias;            /* (n) or NULL: 1, 0 */
  float *dgain, *dbias;                /* (n) or NULL; backward: = */
  float *running_mean, *running_var;   /* (n); NULL: none are kept */
  float *mean, *rstd;                  /* (n) forward writes, backward reads */
  float *u, *v, *w;                    /* (n) = */
  double count;
  float eps, momentum;
  int32_t n;
  bool training;
} ts_batch_norm_args;

/* y = x / (1 - p) or 0 with probability P: of row r the words of Philox with
 * counter (first + r: low, high; c / 4; 0), r the sample, and key KEY, word c %
 * 4 for column c; dropped where ts_rng_unit(word) < p.  The gradient is the
 * same of dy. */
typedef struct ts_dropout_args {
  float *y; /* may be x itself */
  const float *x;
  int64_t rows, x_stride, y_stride;
  int64_t first; /* of the step's samples of all ranks */
  /* (rows) Of tokens: the row's sample and place in it, which stands for the
   * counter's last word; NULL: a row is a sample, at place 0. */
  const int32_t *sample, *position;
  uint32_t key[2]; /* of seed, layer and step */
  int32_t n;
  float p;
} ts_dropout_args;

/* y[b][j] = largest over i < n_i of x[b][i][j].  Backward: dx[b][i][j] = dy
 * at the first largest, else 0. */
typedef struct ts_max_args {
  const float *x;
  float *y, *dx;
  const float *dy;
  int64_t rows, x_stride, y_stride; /* of a sample; dx as x, dy as y */
  int32_t n_i, n_j;                 /* x's rows i follow each other */
} ts_max_args;

/* Where the tokens of N_SAMPLES samples begin, which have lengths[s] tokens
 * each, or begin at bags[s], or have one each where both are NULL; and MORE:
 *   offsets[s] (n_samples + 1), sample[t] and position[t] of token t, the place
 *   in its sample from 0. */
typedef struct ts_tokens_args {
  const int32_t *lengths;
  const int64_t *bags;
  int64_t *offsets;
  int32_t *sample, *position; /* (n_tokens) */
  int64_t n_samples, n_tokens;
  int32_t more;
} ts_tokens_args;

/* y[t] of a sample's first N_BEFORE tokens are its vectors in BEFORE, one after
 * the other; of the rest they are the rows of x, which has no others.
 * Backward: dx and dbefore = where not NULL. */
typedef struct ts_prepend_args {
  const float *x, *before; /* before: a row for each sample */
  float *y;
  const float *dy;
  float *dx, *dbefore;
  const int32_t *sample, *position; /* (n_tokens) of y */
  int64_t n_tokens, x_stride, before_stride, y_stride;
  int32_t n, n_before;
} ts_prepend_args;

/* Tokens of each sample s, T = [offsets[s], offsets[s + 1]), as one vector:
 *   sum, mean   of T, in their order; zeros of none
 *   max         the largest of each column; of none zeros
 *   last        the last one; of none zeros
 * Backward: dx of all tokens =, for max to the first largest. */
typedef enum {
  TS_POOL_TOKENS_SUM,
  TS_POOL_TOKENS_MEAN,
  TS_POOL_TOKENS_MAX,
  TS_POOL_TOKENS_LAST
} ts_pool_kind;
typedef struct ts_pool_args {
  const float *x; /* (n_tokens, x_stride) */
  float *y;       /* forward: (n_samples, y_stride) */
  const float *dy;
  float *dx;
  const int64_t *offsets;
  int64_t n_samples, x_stride, y_stride; /* dx as x, dy as y */
  int32_t n;
  ts_pool_kind kind;
} ts_pool_args;

/* y[t] = scale x[t] + table[p], p the place of token t in its sample from the
 * oldest, or from the newest one (FROM_NEWEST), both from 0; places from
 * N_PLACES on have the last one's.  Backward: dx = scale dy where not NULL,
 * dtable (n_places, n) = the sums of dy, sample after sample. */
typedef struct ts_places_args {
  const float *x, *table;
  float *y;
  const float *dy;
  float *dx, *dtable;
  const int64_t *offsets;
  const int32_t *sample, *position;
  int64_t n_samples, n_tokens, x_stride, y_stride;
  int32_t n, n_places;
  float scale;
  int32_t from_newest; /* or 0 */
} ts_places_args;

/* Rotary positions (Su et al., "RoFormer", equation 34), in place: token t of X
 * has N_HEADS vectors of DIM numbers side by side, and in each the numbers 2 i
 * and 2 i + 1 are turned by an angle, by its negative where BACK, which undoes
 * it and is what gradients take:
 *   x_2i = x_2i cos - x_2i+1 sin, x_2i+1 = x_2i sin + x_2i+1 cos
 * Sine and cosine are the numbers 2 i and 2 i + 1 of row position[t] of WAVES.
 * Products and sums are rounded one by one: all backends leave the same bits.
 * DIM and x_stride are even, X and WAVES aligned to 8 bytes. */
typedef struct ts_rotary_args {
  float *x;           /* (n_tokens, x_stride) */
  const float *waves; /* (places, dim): ts_layer_take_waves */
  const int32_t *position;
  int64_t n_tokens, x_stride;
  int32_t n_heads, dim;
  int32_t back; /* or 0 */
} ts_rotary_args;

/* Sample s has the times ids[k], bags[s] <= k < bags[s + 1], one for each of
 * its tokens, or one more; bags NULL: all are 0.  when[t]: that of token t;
 * asked[t]: the next one, when what follows t is asked for, or t's own where
 * there is none. */
typedef struct ts_token_times_args {
  const int64_t *bags, *ids; /* (n_samples + 1); as bags say */
  const int64_t *offsets;    /* (n_samples + 1) of tokens */
  const int32_t *sample;
  double *when, *asked; /* (n_tokens) */
  int64_t n_tokens;
} ts_token_times_args;

/* Attention of jagged sequences.  Sequence s has the tokens [offsets[s],
 * offsets[s + 1]), i and j are positions in it; for each of its heads h
 *   x_ij = scale q_i . k_j + bias(h, i - j) - slopes[h] |i - j|
 *          + time_bias(h, |asked_i - when_j|)
 *   softmax  p_ij = exp(x_ij) / sum over j of exp(x_ij)
 *   silu     p_ij = x_ij / (1 + exp(-x_ij)) / norm, where norm is 0 the
 *            sequence's length (HSTU: Zhai et al., "Actions Speak Louder than
 *            Words", ICML 2024)
 *   o_i = sum over j of m_ij p_ij v_j
 * m_ij is 1, but with DROP 0 or 1 / (1 - drop) as in ts_dropout_args: the word
 * i % 4 of counter (first + s: 32 bits, 16 bits; h: 16; i / 4; j) and key KEY.
 * CAUSAL: j <= i alone, but for i < CONTEXT, which look at all j.  bias: NULL,
 * or (n_heads, n_buckets) by i - j, which ends at 0 and n_buckets - 1; not
 * causal (n_heads, 2 n_buckets - 1) by i - j + n_buckets - 1, ending at both
 * sides.  slopes: NULL or (n_heads), ALiBi.  time_bias: NULL or (n_heads,
 * n_times) by ts_time_bucket (model/time_bucket.h), when and asked being of
 * tokens (kernel token_times).
 *
 * Backward: dq, dk, dv =, and dbias, dtime_bias, as bias and time_bias, unless
 * NULL, in a fixed order.
 * Scores are made anew, of softmax from lse, the logarithm of the sum of
 * exp(x_ij): memory grows with tokens, never with their squares.
 *
 * Kernels *_half may round both factors of each product to bf16, to nearest
 * even: q, k, v, d_o, m_ij p_ij and the gradient of x_ij.  Sums, softmax, silu
 * and all arrays are f32, biases' gradients are of unrounded numbers.
 *
 * Heads of a token lie side by side, tokens STRIDE floats apart.  A sequence's
 * numbers have the same bits wherever it is in a batch; tokens of no sequence
 * stay as they are. */
typedef enum { TS_ATTENTION_SOFTMAX, TS_ATTENTION_SILU } ts_attention_kind;
typedef struct ts_attention_args {
  const float *q, *k, *v; /* (tokens, n_heads, dim), dim, v_dim */
  int64_t q_stride, k_stride, v_stride, o_stride;
  float *o;               /* (tokens, n_heads, v_dim): forward writes */
  float *lse;             /* (tokens, n_heads) of softmax: forward writes */
  const float *out, *d_o; /* backward: o as it was, read for softmax alone; its
                            gradient; o_stride */
  float *dq, *dk, *dv;    /* backward; strides as q, k, v */
  const float *bias;
  float *dbias;
  const float *time_bias;
  float *dtime_bias;
  const double *when, *asked; /* (tokens) */
  int32_t n_buckets, n_times;
  const float *slopes;
  const int64_t *offsets; /* (n_sequences + 1), memory of the device */
  const int64_t *kept;    /* forward, as offsets: o and lse of the last kept[s +
                             1] - kept[s] tokens of sequence s are wanted, those
                             of others may stay as they are; NULL: all */
  bool kept_alone; /* with kept: q and o have these tokens' rows alone, one
                      sequence's behind the other's */
  int64_t n_sequences, n_tokens;
  int64_t max_length; /* no sequence is longer */
  int32_t n_heads, dim, v_dim;
  float scale, norm;
  int kind; /* ts_attention_kind */
  bool causal;
  int32_t context; /* of causal ones */
  float drop;
  uint32_t key[2];
  int64_t first; /* sample of sequence 0, of the step's on all ranks */
  void *work;    /* backward: ts_attention_work_bytes (model/attention.h) */
} ts_attention_args;

#define TS_MODEL_KERNELS(X)                                                    \
  X(contract, (const ts_contract_args *))                                      \
  X(map, (const ts_map_args *))                                                \
  X(act_forward, (const ts_act_args *))                                        \
  X(act_backward, (const ts_act_args *))                                       \
  X(norm_forward, (const ts_norm_args *))                                      \
  X(norm_backward, (const ts_norm_args *))                                     \
  X(column_sums, (const ts_column_sums_args *))                                \
  X(column_apply, (const ts_column_apply_args *))                              \
  X(batch_norm_forward, (const ts_batch_norm_args *))                          \
  X(batch_norm_backward, (const ts_batch_norm_args *))                         \
  X(dropout, (const ts_dropout_args *))                                        \
  X(max_forward, (const ts_max_args *))                                        \
  X(max_backward, (const ts_max_args *))                                       \
  X(tokens, (const ts_tokens_args *))                                          \
  X(token_times, (const ts_token_times_args *))                                \
  X(prepend_forward, (const ts_prepend_args *))                                \
  X(prepend_backward, (const ts_prepend_args *))                               \
  X(pool_forward, (const ts_pool_args *))                                      \
  X(pool_backward, (const ts_pool_args *))                                     \
  X(places_forward, (const ts_places_args *))                                  \
  X(places_backward, (const ts_places_args *))                                 \
  X(rotary, (const ts_rotary_args *))                                          \
  X(attention, (const ts_attention_args *))                                    \
  X(attention_grad, (const ts_attention_args *))                               \
  X(attention_half, (const ts_attention_args *))                               \
  X(attention_half_grad, (const ts_attention_args *))                          \
  X(targets, (const ts_targets_args *))                                        \
  X(candidates_forward, (const ts_candidates_args *))                          \
  X(candidates_rows, (const ts_candidates_args *))                             \
  X(candidates_items, (const ts_candidates_args *))                            \
  X(full_softmax_take, (const ts_full_softmax_args *))                         \
  X(full_softmax_part, (const ts_full_softmax_args *))                         \
  X(full_softmax_loss, (const ts_full_softmax_args *))                         \
  X(full_softmax_factor, (const ts_full_softmax_args *))                       \
  X(full_softmax_slopes, (const ts_full_softmax_args *))                       \
  X(full_softmax_give, (const ts_full_softmax_args *))                         \
  X(target_figures, (const ts_target_figures_args *))
