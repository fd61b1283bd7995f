/* targets.h - the candidates of an output over items (base/tasks.h): what its
 * target's bags become between the source and the batch.
 *
 * A bag has the m ids that are wanted.  It becomes m times 1 + N of them: each
 * wanted id, and N that are not behind it.  In training, and in evaluations
 * whose data give none (task->given), they are drawn: uniformly from the
 * table's rows [first_item, rows), or in training by a law (target_law.h),
 * other than the wanted one, and than those in
 * the sample's bags of task->exclude, wanted ones included, as long as a
 * hundred tries find another.  A number follows from run.seed, the epoch, the
 * sample's place in it, the target's place in its bag and how manieth it is,
 * so it is the same on any number of ranks, and after a restart.
 *
 * With a loss over all items (ts_task_is_of_all) nothing is drawn: behind the
 * wanted ids of a sample come the items that it brings along (base/slices.h),
 * of its micro-batch where run.accumulate makes several, and ts_batch.all_items
 * says what the layer wants to know of these.  With negatives from the batch
 * (ts_task_is_in_batch) nothing comes behind them.
 *
 * With masks (io/masks.h) the target's bags are made first.
 *
 * The batch says what each sample's bags of task->exclude have
 * (ts_batch.left_out).  Of a feature that is there for that alone
 * (ts_task_only_excludes) the bags are emptied then: no rows of it are needed.
 *
 * The sample's weight is multiplied by m: a loss that is a mean over a
 * sample's targets is one over all of the batch's then; samples without any
 * count for nothing.  Its label is 0.
 * Functions are Local. */
#pragma once

#include "base/config.h"
#include "io/source.h"

typedef struct ts_targets ts_targets;

/* *OUT stays NULL where CONFIG has no output over items. */
ts_err ts_targets_create(ts_targets **out, const ts_config *);
void ts_targets_destroy(ts_targets *);
/* Draws of training go by LAW, which must stay, unless it is NULL. */
void ts_targets_use(ts_targets *, const struct ts_target_law *law);
/* Which samples a store is filled with next. */
typedef struct ts_targets_place {
  bool training;
  int64_t epoch, first; /* of the epoch's samples, from that place on */
  const int64_t *start; /* (n_ranks + 1) of each rank's samples in the batch;
                           they stay until the store is filled */
  int rank, n_ranks;
} ts_targets_place;
void ts_targets_at(ts_targets *, const ts_targets_place *);
/* Puts the candidates into a store that a source has filled; nothing where
 * ts_targets_at was not called.  DATA errors name the sample by its place. */
ts_err ts_targets_expand(ts_targets *, ts_batch_store *);
