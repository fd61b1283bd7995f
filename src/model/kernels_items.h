/* kernels_items.h - the kernels of outputs over items: their arguments, as in
 * kernels.h, which has their entries. */
#pragma once

#include <stdint.h>

#include "base/slices.h"

/* Finds which row of queries each target goes by.  Sample s has the rows
 * [rows[s], rows[s + 1]), or row s alone where ROWS is NULL.  Its bag, given as
 * in ts_tokens_args, holds N_EACH candidates for each of its m_s targets, and
 * behind them what SLICES says.
 * Targets go by the sample's last rows: target j by row rows[s + 1] - m_s + j.
 * Where ROWS is NULL all of them go by row s.
 * Where IDS is not NULL, that of each row, targets go by the rows whose id is
 * MASK, one each, in their order; if a sample has more targets, the last such
 * row has all that are left, or where it has none its first one.
 *   offsets[s] (n_samples + 1) the first target of sample s
 *   first[r]   (n_rows + 1) the first target of row r, ascending
 *   row[t], sample[t] of target t
 * A sample with more targets than rows does not come here: it is refused when
 * its batch has been read (ts_model_check_tokens). */
typedef struct ts_targets_args {
  const int32_t *lengths;
  const int64_t *bags;
  const int64_t *rows;
  int64_t *offsets;
  int32_t *first, *row, *sample; /* (n_rows + 1), (n_targets) twice */
  const int64_t *ids;            /* (n_rows) */
  int64_t mask;
  int64_t n_samples, n_rows, n_targets;
  int32_t n_each;
  ts_slices slices;
} ts_targets_args;

/* A loss over candidates.  Those of target t are the rows index[t n_each + k]
 * of ITEMS, k < n_each, the first of which is wanted, the others, N = n_each -
 * 1, negatives.  With s_k = scale q[row[t]] . items[..] - shift[ids[t n_each +
 * k]], where SHIFT is not NULL, and sp(x) = log(1 + exp(x)) the loss l_t is
 *   bce          sp(-s_0) + 1/N sum over k > 0 of sp(s_k)
 *   softmax      log of the sum over all k of exp(s_k) - s_0
 *   bpr          1/N sum over k > 0 of sp(s_k - s_0)
 *   contrastive  1 - s_0 + weight/N sum over k > 0 of max(0, s_k - margin)
 *                (CCL: Mao et al., "SimpleX", CIKM 2021)
 * A negative that is the wanted row itself counts as if it were not there, but
 * in N.  N 0: no sum.
 *
 * candidates_forward  loss, and rank: the number of k > 0 with s_k > s_0, half
 *                     of those with s_k = s_0 on top, all of them where s_0 is
 *                     no number; and where GRAD is not
 *                     NULL grad[t n_each + k] = scale times the derivative of
 *                     l_t by s_k
 * candidates_rows     with by_t = by[sample[t] by_stride] / targets of that
 *                     sample: dq of row r = sum over its targets t, over k, of
 *                     by_t grad items[..]; 0 of rows that have none
 * candidates_items    ditems of row u = sum over the members m of u, ascending,
 *                     of by_t grad[m] q[row[t]], t = m / n_each
 * Members of u are member[member_start[u]] to member[member_start[u + 1]]: the
 * places m in index where it is u.  Sums in an order that is fixed. */
typedef enum {
  TS_CANDIDATES_BCE,
  TS_CANDIDATES_SOFTMAX,
  TS_CANDIDATES_BPR,
  TS_CANDIDATES_CONTRASTIVE
} ts_candidates_kind;
typedef struct ts_candidates_args {
  const float *q;                      /* (n_rows, q_stride) */
  const float *items;                  /* (n_items, item_stride) */
  const float *shift;                  /* by id, or NULL */
  const int64_t *ids;                  /* (n_targets, n_each) of shift */
  const int32_t *index;                /* (n_targets, n_each) */
  const int32_t *row, *sample, *first; /* as in ts_targets_args */
  const int64_t *offsets;
  const int32_t *member_start, *member; /* (n_items + 1), (n_targets n_each) */
  float *grad;                          /* (n_targets, n_each) */
  float *loss, *rank;                   /* (n_targets) forward */
  const float *by;                      /* (n_samples), by_stride apart */
  float *dq, *ditems;                   /* strides as q and items */
  int64_t n_targets, n_rows, n_items, q_stride, item_stride, by_stride;
  int32_t n_each, dim;
  float scale, margin, weight;
  int kind; /* ts_candidates_kind */
} ts_candidates_args;

/* The softmax over all items of a table: with s_v = scale q[row[t]] . item v
 * the loss of target t is log of the sum over all v of exp(s_v) - s_0, s_0 that
 * of the wanted one.  Each rank has the products of all ranks' queries with the
 * columns that its samples' SLICES are, a block of rows of queries at a time;
 * no rank has all of them.  The bag of sample s is its m_s wanted ids (m_s =
 * offsets[s + 1] - offsets[s]) and its slice, bag after bag; index[p] is the
 * row of ITEMS of id number p.
 *
 * Where TARGET_IDS is not NULL the sum is over the wanted items of the batch,
 * those of all ranks: the local targets are the columns (n_columns =
 * n_targets, no slices), and s_v has shift[v] taken from it, SHIFT NULL: 0.  A
 * column with the same id as the row's own wanted one counts for nothing,
 * but for that of the target itself: column k of row i where k = i + own.
 *
 * full_softmax_take    of the local targets: targets[t] = q[row[t]], wanted[t]
 *                      = s_0, wanted_row[t] the row of ITEMS that is wanted;
 *                      columns[k] = the row of ITEMS of slice item k; and for
 *                      each id what[p] = t of a wanted one, -1 - k of a slice.
 *                      With TARGET_IDS: these, from IDS, and column_shift[t];
 *                      columns[t] = the row of ITEMS that is wanted
 * full_softmax_part    of the block S (n_block, n_columns): part[i] = the most
 *                      of row i, and the sum of exp(s - most); of no columns
 *                      -infinity and 0.  With TARGET_IDS S has the products,
 *                      and may have what counts behind it
 * full_softmax_loss    from parts (n_parts, n_targets, 2), all ranks', one
 *                      after the other: factor[t] = {0, log of the sum}, and
 *                      loss[t]; sums in their order
 * full_softmax_factor  factor[t][0] = by_t scale, by_t = by[sample[t]
 *                      by_stride] / m of its sample
 * full_softmax_slopes  S becomes factor[i][0] exp(s - factor[i][1]) of the
 *                      block's rows
 * full_softmax_give    dq of row r = sum over its targets t, ascending, of
 *                      dtargets[t] - factor[t][0] items[wanted_row[t]], 0 of
 *                      rows that have none; ditems of row u = sum over its
 *                      members p (as in ts_candidates_args), ascending, of
 *                      dcolumns[k], or of - factor[t][0] targets[t], and with
 *                      TARGET_IDS of dcolumns[t].  DQ NULL: not wanted.  DITEMS
 *                      may be ITEMS. */
#define TS_NO_SCORE -1e30f /* less than any: e to it is 0, or nearly */
typedef struct ts_full_softmax_args {
  const float *q;     /* (n_rows, q_stride) */
  const float *items; /* (n_items, item_stride) */
  const int32_t *index, *row, *sample, *first;
  const int64_t *offsets;
  const int32_t *member_start, *member; /* (n_items + 1), (ids) */
  ts_slices slices;
  const int64_t *ids;     /* (ids), of TARGET_IDS */
  const float *shift;     /* by id */
  int64_t *target_ids;    /* (n_targets) */
  float *column_shift;    /* (n_columns) */
  const int64_t *row_ids; /* (n_block) TARGET_IDS of the block's rows */
  int64_t own;
  float *targets, *columns; /* (n_targets, dim), (n_columns, dim) */
  float *wanted;            /* (n_targets) */
  int32_t *wanted_row, *what;
  float *s;           /* (n_block, n_columns) */
  float *part;        /* (n_block, 2) */
  const float *parts; /* (n_parts, n_targets, 2) */
  float *factor;      /* (n_targets, 2); of slopes (n_block, 2) */
  float *loss;        /* (n_targets) */
  const float *by;
  const float *dtargets, *dcolumns; /* as targets and columns */
  float *dq, *ditems;               /* strides as q and items */
  int64_t n_samples, n_rows, n_items, n_targets, n_columns, n_block;
  int64_t q_stride, item_stride, by_stride;
  int32_t dim, n_parts;
  float scale;
} ts_full_softmax_args;

/* y[s] of sample s, the first of Y_STRIDE floats and N - 1 behind it, sums 2 to
 * 4 being 0 where RANK is NULL:
 *   0  mean of loss over its targets, 0 of none
 *   1  their number m; then sums over them of, r the rank from 0 on,
 *   2  r < k
 *   3  r < k ? 1 / log2(r + 2) : 0
 *   4  1 / (r + 1) */
enum { TS_TARGET_FIGURES = 5 };
typedef struct ts_target_figures_args {
  const float *loss, *rank;
  const int64_t *offsets;
  float *y;
  int64_t n_samples, y_stride, k;
} ts_target_figures_args;
