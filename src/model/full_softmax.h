/* full_softmax.h - the loss over all items of a table, or over those that the
 * batch's targets want, a part of the layer of outputs over items
 * (layers/items.c).
 *
 *   l_t = log of the sum over all items v of exp(scale q_t . v) - scale q_t .
 *         the wanted one
 *
 * Each rank has the items that its samples bring along (base/slices.h), and so
 * a part of the columns of the scores.  The queries of all ranks come to each;
 * of a block of scores at a time each rank knows the largest and the sum, and
 * tells whose query it is: no rank ever has all scores, of one query or of one
 * item.  In the backward pass blocks are computed again; gradients of queries
 * are added over ranks, in rank order, those of items are the rank's own.
 *
 * Over the items of the batch the columns are the rank's own targets, and a
 * query leaves out those that want the same item as it does.
 *
 * With T targets of d floats on all ranks together, a rank receives T d + 2 T
 * floats in each pass, and sends as many; of the batch T ids besides.  Memory:
 * the rank's columns twice and their gradients, 2 T d floats and 4 T, and the
 * block.
 *
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "model/layer_ops.h"
#include "runtime/comm.h"

typedef struct ts_full_softmax {
  ts_comm *comm;             /* NULL: one rank */
  ts_buffer room;            /* what follows, of the batch at hand */
  ts_full_softmax_args a;    /* with what the kernels want of it */
  float *queries, *dqueries; /* (all targets, dim) */
  float *part, *factor;      /* (all targets, 2) */
  float *parts;              /* (ranks, targets, 2) */
  float *turned;             /* (dim, columns) */
  float *dtargets, *dcolumns;
  int64_t *n_targets, *bytes, *mine; /* (ranks) host */
  int64_t *ids;                      /* (all targets) wanted, or NULL */
  int64_t n_all, first;              /* targets of all ranks; of lower ones */
  int64_t block;                     /* rows of a block */
  int n_ranks, rank;
  bool in_batch;
} ts_full_softmax;

/* IN_BATCH: over the items of the batch, in training and evaluations.
 * Collective over spec->world, where that has several ranks. */
ts_err ts_full_softmax_create(ts_full_softmax *, ts_layer *, bool in_batch);
void ts_full_softmax_reset(ts_full_softmax *); /* after lanes */
/* Room for batches of N_TARGETS local targets, and for N_COLUMNS of DIM floats:
 * as many ranks as there are, or are planned for. */
ts_err ts_full_softmax_expect(ts_full_softmax *, const ts_layer *, int32_t dim,
                              int64_t n_targets, int64_t n_columns, ts_lane *);
/* A rank's part of N items: its columns where the loss is over all of them. */
int64_t ts_full_softmax_part(const ts_layer *, int64_t n_items);

/* C has the batch as the kernels of candidates want it, whose loss alone is
 * written (places are not known), and for in_batch ids and shift.  Enqueue, in
 * the same order on all ranks, those without samples, too. */
ts_err ts_full_softmax_forward(ts_full_softmax *, const ts_layer *,
                               const ts_layer_run *,
                               const ts_candidates_args *c);
/* by, DQ (NULL: not wanted) and DITEMS as the kernels' (full_softmax_give).  Q
 * and ITEMS are as they were. */
ts_err ts_full_softmax_backward(ts_full_softmax *, const ts_layer *,
                                const ts_layer_run *, const float *by,
                                int64_t by_stride, float *dq, float *ditems);
