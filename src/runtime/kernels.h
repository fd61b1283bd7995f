/* kernels.h - the table of kernels.
 *
 * One struct of typed function pointers.  The host fills every entry with a
 * plain C reference, then overrides it with the vector versions that the CPU
 * has; cuda/ fills a table of its own.  A missing entry is an error at start.
 * The reference is the oracle in tests.
 *
 * Kernels run inside lane tasks.  On the host they use the OpenMP threads of
 * the calling lane; results never depend on how work was cut by thread.
 * Which files provide them: src/backends.c.
 * Functions are Local unless they say Collective or Enqueues. */
#ifndef TS_RUNTIME_KERNELS_H
#define TS_RUNTIME_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"

/* ---- memory ------------------------------------------------------------ */

/* zero (dst, bytes): device memory.  copy (dst, src, bytes): device or pinned
 * memory on either side.  fetch (dst, src, bytes): the same into the host's
 * memory, and waits: for the sizes that a host has to know.  put (dst, src,
 * bytes): a few KB of the host's memory, of any kind, which may change as soon
 * as it returns, to device memory. */

/* ---- sparse ------------------------------------------------------------ */

/* Pooled lookup of one TBE group with F features; feature f has the bags
 * [bag_start[f], bag_start[f + 1]), and bag j the ids
 * [offsets[j], offsets[j + 1]):
 *   out[at[j] + d] = m * sum over i in bag j of
 *                        w_i * W[row_base[f] + rows[i]][d]
 * with w_i = weights ? weights[i] : 1 and m = mean ? 1 / bag length : 1.
 * Empty bags give zeros.  Sums in f32, in the order of the bag. */
typedef struct ts_lookup_args {
  float *out;
  const int64_t *at;        /* (bags) floats */
  const void *weight;       /* (rows of the group, dim) dtype, row-major */
  ts_dtype dtype;           /* f32, bf16, f16 */
  int32_t dim;              /* any > 0; multiples of 16 are fast */
  const int64_t *row_base;  /* (F) first row of its table, host memory */
  const int64_t *bag_start; /* (F + 1) from 0, host memory */
  const int64_t *offsets;   /* (bags + 1) */
  const int32_t *rows;      /* (N) local row within the table's shard */
  const float *weights;     /* (N) or NULL */
  bool mean;
  int32_t n_features; /* F */
  /* Of devices whose memory is apart, or NULL: rows from FIRST_LINE on are not
   * in weight but here, in (n, dim).  On the host all rows are in weight. */
  const void *lines;
  uint32_t first_line;
} ts_lookup_args;

/* Gradient by each id's weight, for the pooled lookup BAGS (its out and
 * weights are not read; at says where a bag's gradient starts in grad):
 *   out[i] = m * sum over d of grad[at[j] + d] * W[row_base[f] + rows[i]][d]
 * for id i of bag j, m as above.  A row's sum has 16 fixed parts (d modulo
 * 16), so every version gives the same bits. */
typedef struct ts_weight_grad_args {
  const ts_lookup_args *bags;
  float *out; /* (N) */
  const float *grad;
} ts_weight_grad_args;

/* Stable radix sort of keys with a 32-bit payload, on the low N_BITS bits
 * of the key; scratch arrays of the same length.  The result is in keys and
 * values.  Where the caller knows that the keys lie in segments, all keys of
 * one below all keys of the next, it may say so: then every segment is sorted
 * alone, on SEGMENT_BITS of key - segment_base.  The result is the same. */
typedef struct ts_sort_args {
  uint32_t *keys, *keys_scratch;     /* (n) */
  uint32_t *values, *values_scratch; /* (n) */
  int64_t n;
  int n_bits;
  int32_t n_segments;          /* 0: not known */
  const int64_t *segment;      /* (n_segments + 1) from 0 to n */
  const int64_t *segment_base; /* (n_segments) */
  int segment_bits;
  void *work; /* ts_sort_work_bytes of scratch; NULL: allocated */
} ts_sort_args;

struct ts_bags_args; /* shard/pack.h */
struct ts_distinct_args;
struct ts_pack_args;
struct ts_row_update_args; /* sparse/row_optim.h */
struct ts_row_stage_args;
struct ts_cache_args; /* sparse/cache.h */
struct ts_cache_rows_args;
struct ts_entries_args; /* sparse/entries.h */
struct ts_append_args;
struct ts_find_args;
struct ts_add_rows_args;

/* add (to, from, n): to[i] += from[i]; from may be pinned memory. */

/* ---- views, wires, positions ------------------------------------------- */

struct ts_row_args;   /* runtime/row_pieces.h */
struct ts_scale_args; /* shard/view_kernels.h, like the next ones */
struct ts_code_args;
struct ts_position_args;

/* narrow (dst, src, n): f64 to f32. */
struct ts_unpack_args; /* shard/unpack.h */
struct ts_bag_means_args;

/* ---- dense ------------------------------------------------------------- */

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

/* What a cross layer (dense/cross.h) does by element.  Rows of x0, x, y, y16,
 * dy, dx0 and add lie STRIDE elements apart, those of t and dt T_STRIDE; only
 * WIDTH elements of a row are touched. */
typedef struct ts_cross_args {
  const float *x0; /* (B, stride) */
  const float *x;  /* forward: y = x0 * t + x */
  const void *t;   /* (B, t_stride) */
  float *y;        /* NULL: y16 alone */
  uint16_t *y16;   /* y in bf16, unless NULL; where half */
  bool half;       /* t, dt and add are of bf16, else f32 */
  /* backward: dy += add (unless NULL), then dx0 += dy * t (= where FIRST) and
   * dt = dy * x0.  Without t, the end: dx0 += dy + add, and dy stays.  Where
   * half dy may come as bf16: dy = dy16 + add, and without add dy is not
   * touched. */
  const uint16_t *dy16;
  const void *add;
  float *dy, *dx0;
  void *dt;
  bool first;
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
 *   join_rows   wide = first, parts; where ADD, +=
 *   split_rows  first, parts = wide */
typedef struct ts_join_args {
  float *wide;                /* (batch, stride) */
  float *first;               /* (batch, first_width); NULL: none */
  float *const *part;         /* (n_parts), as what follows, host memory */
  const int64_t *part_stride; /* floats */
  const int32_t *at, *width;
  int32_t stride, first_width, n_parts, batch;
  bool add;
} ts_join_args;

/* Rows of bf16 from rows of f32: to[i][k] = from[i][k], to nearest even, for
 * i < rows, k < n; the rest of a row of to stays. */
typedef struct ts_half_args {
  uint16_t *to;
  const float *from;
  int64_t to_stride, from_stride; /* elements */
  int64_t rows, n;
} ts_half_args;

/* Binary cross entropy with logits, (batch, n_tasks) row-major: with the
 * weight w = (float)task_weights[k] * weights[b] of a pair,
 * l = max(z, 0) - z y + log(1 + exp(-|z|)); *loss_sum = sum w l in double,
 * grad = w (sigmoid(z) - y) * scale; prediction = sigmoid(z). */
typedef struct ts_bce_args {
  double *loss_sum;           /* (1) device memory */
  float *grad;                /* (batch, n_tasks) or NULL */
  float *prediction;          /* (batch, n_tasks) or NULL */
  const float *logits;        /* (batch, n_tasks) */
  const float *labels;        /* (batch, n_tasks) */
  const float *weights;       /* (batch) or NULL: 1 */
  const double *task_weights; /* (n_tasks) host memory, or NULL: 1 */
  double scale;               /* 1 / sum of weights over the global batch */
  int64_t batch;
  int32_t n_tasks;
} ts_bce_args;

/* *BAD = 1 where some x[i * stride + k], i < rows, k < n, is not finite; else
 * it stays. */
typedef struct ts_look_args {
  const float *x;
  int64_t stride, rows, n;
  int32_t *bad; /* (1) device memory */
} ts_look_args;

/* to[i] = from[i] for i < n, of each piece; no piece writes what another one
 * reads or writes.  So many that a GPU's launch has them by value. */
enum { TS_COPY_PIECES = 120 };
typedef struct ts_flat_copy {
  float *to;
  const float *from;
  int64_t n;
} ts_flat_copy;
typedef struct ts_copies_args {
  int32_t n_pieces;
  ts_flat_copy piece[TS_COPY_PIECES];
} ts_copies_args;

/* What the kernels of the dense optimizers' neighbourhood do, all in device
 * memory, sums in an order that does not depend on threads:
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

#define TS_SPARSE_KERNEL_LIST(X)                                               \
  X(zero, (void *, size_t))                                                    \
  X(copy, (void *, const void *, size_t))                                      \
  X(fetch, (void *, const void *, size_t))                                     \
  X(put, (void *, const void *, size_t))                                       \
  X(bags_check, (const struct ts_bags_args *))                                 \
  X(bags_offsets, (const struct ts_bags_args *))                               \
  X(bags_distinct, (const struct ts_distinct_args *))                          \
  X(pack_measure, (const struct ts_pack_args *))                               \
  X(pack_write, (const struct ts_pack_args *))                                 \
  X(copy_rows, (const struct ts_row_args *))                                   \
  X(sum_rows, (const struct ts_row_args *))                                    \
  X(scale_rows, (const struct ts_scale_args *))                                \
  X(code_rows, (const struct ts_code_args *))                                  \
  X(weigh_positions, (const struct ts_position_args *))                        \
  X(sum_positions, (const struct ts_position_args *))                          \
  X(narrow, (float *, const double *, int64_t))                                \
  X(lookup, (const ts_lookup_args *))                                          \
  X(weight_grad, (const ts_weight_grad_args *))                                \
  X(sort, (const ts_sort_args *))                                              \
  X(row_update, (const struct ts_row_update_args *))                           \
  X(row_stage, (const struct ts_row_stage_args *))                             \
  X(cache_rows, (const struct ts_cache_rows_args *))                           \
  X(cache_hold, (const struct ts_cache_args *))                                \
  X(cache_release, (const struct ts_cache_args *))                             \
  X(cache_refresh, (const struct ts_cache_args *))                             \
  X(cache_locate, (const struct ts_cache_args *))                              \
  X(cache_flush, (const struct ts_cache_args *))                               \
  X(cache_reload, (const struct ts_cache_args *))                              \
  X(entries, (const struct ts_entries_args *))                                 \
  X(append, (const struct ts_append_args *))                                   \
  X(find, (const struct ts_find_args *))                                       \
  X(add, (float *, const float *, int64_t))                                    \
  X(add_rows, (const struct ts_add_rows_args *))                               \
  X(unpack, (const struct ts_unpack_args *))                                   \
  X(bag_means, (const struct ts_bag_means_args *))

#define TS_DENSE_KERNEL_LIST(X)                                                \
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
  X(bce, (const ts_bce_args *))                                                \
  X(tally, (const struct ts_tally_args *))                                     \
  X(look, (const ts_look_args *))                                              \
  X(copies, (const ts_copies_args *))                                          \
  X(swap, (float *, float *, int64_t))                                         \
  X(shorten, (float *, int64_t, ts_dtype))                                     \
  X(widen, (float *, int64_t, ts_dtype))                                       \
  X(squares, (const float *, int64_t, double *))                               \
  X(clip, (double *, double *, double))                                        \
  X(dense_update, (const struct ts_dense_update_args *, int32_t))              \
  X(dense_stats, (const struct ts_dense_update_args *, double *))

#define TS_KERNEL_LIST(X)                                                      \
  TS_SPARSE_KERNEL_LIST(X)                                                     \
  TS_DENSE_KERNEL_LIST(X)

typedef struct ts_kernels {
#define TS_KERNEL_FIELD(name, params) ts_err(*name) params;
  TS_KERNEL_LIST(TS_KERNEL_FIELD)
#undef TS_KERNEL_FIELD
  const char *isa; /* "ref", "avx2", "avx512", "avx512_bf16", "cuda" */
  /* Of matrix products (dense/linear_impl.h), of a device whose memory is
   * apart; NULL: one of the host's, by name. */
  const struct ts_engine *engine;
} ts_kernels;

/* Fills K for the device named BACKEND and checks that no entry is missing.
 * isa NULL: the best that the CPU has; "ref", "avx2", "avx512", "avx512_bf16"
 * for tests and benchmarks (DECK error where the CPU lacks it). */
ts_err ts_kernels_fill(ts_kernels *k, const char *backend, const char *isa);
/* The same for who needs memory and tables alone (bench tbe): entries of
 * TS_DENSE_KERNEL_LIST may be NULL. */
ts_err ts_kernels_fill_sparse(ts_kernels *k, const char *backend,
                              const char *isa);

#endif
