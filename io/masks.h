/* masks.h - the feature whose ids an output over items has to find again
 * (ts_task_config.masked; F. Sun et al., "BERT4Rec", CIKM 2019).
 *
 * In training each of its ids gives way to mask_id with the probability
 * mask_share, and where a sample's chances spare all of them the one that came
 * nearest does: what was there becomes the sample's bag of target, in its
 * order, whatever the data have there.  A chance follows from run.seed, the
 * epoch, the sample's place in it and the id's in its bag, so it is the same on
 * any ranks, and after a restart.
 *
 * Elsewhere mask_id comes behind the ids, the oldest of which makes room where
 * there are max_length of them, and target stays: what comes next.
 * Functions are Local. */
#pragma once

#include "base/config.h"
#include "io/batch_store.h"

typedef struct ts_masks {
  int32_t feature, target; /* numbers; feature -1: the output has no masks */
  int64_t id, most;        /* mask_id; max_length, 0: none */
  uint64_t below;          /* words below it mask */
  bool *hidden;            /* (ids) of the feature in a batch */
  size_t hidden_bytes;
} ts_masks;

/* TARGET: the output's candidates. */
ts_masks ts_masks_of(const ts_config *, const ts_task_config *, int32_t target);
void ts_masks_reset(ts_masks *);

/* Which samples they are: of an epoch's, from place FIRST on. */
typedef struct ts_masks_place {
  uint64_t seed;
  int64_t epoch, first;
} ts_masks_place;
/* Into a store that a source has filled, once: of training, or else.  DATA: the
 * data have mask_id. */
ts_err ts_masks_hide(ts_masks *, ts_batch_store *, const ts_masks_place *);
ts_err ts_masks_append(const ts_masks *, ts_batch_store *,
                       const ts_masks_place *);
