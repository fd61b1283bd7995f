/* recompute.h - steps whose arithmetic is checked: run.check = "rows".
 *
 * Every run.check_every-th step goes forward and backward twice, on the same
 * embeddings.  The first time its gradients are left where nobody takes them,
 * and only 64 bits of each are kept; the second time is the step.  On a rank
 * whose processor and memory are sound both give the same bits.  Gradients of
 * weights that come after the tables' (param->late) are not looked at.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "train/trainer.h"

typedef struct ts_recompute ts_recompute;

/* Nothing where the deck doesn't ask for it; T has all its parts. */
ts_err ts_recompute_create(ts_recompute **, ts_trainer *t);
void ts_recompute_destroy(ts_recompute *); /* once the lanes are idle */

/* The step that begins is one of those, or not. */
void ts_recompute_begin(ts_trainer *);
bool ts_recomputes(const ts_trainer *);

/* The first time: lookup, where it has not been, forward, loss and backward.
 * Collective where layers add over ranks, or ranks share parameters.
 * Enqueues. */
ts_err ts_recompute_first(ts_trainer *, ts_inflight *);
/* The second: hooks of the backward pass; the gradients at GRAD (n_features) of
 * the batch's embeddings, before they are sent; and that all have come.  In
 * other steps the hooks are ts_parallel's, and the other two do nothing.
 * Enqueue. */
ts_layer_hooks ts_recompute_hooks(ts_trainer *);
ts_err ts_recompute_tables(ts_trainer *, ts_inflight *, float *const *grad);
ts_err ts_recompute_compare(ts_trainer *);

/* Once the step has ended: WHAT differed, and on which ranks, alike on all
 * ranks; else it stays as it is.  The host waits.  Collective. */
ts_err ts_recompute_judge(ts_trainer *, ts_str *what);
