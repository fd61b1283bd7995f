/* metrics_groups.h - figures of how samples are ordered within groups, such as
 * a user's, whose samples may lie on several ranks.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/batch.h"
#include "runtime/comm.h"
#include "train/metrics.h"

typedef struct ts_groups ts_groups; /* of one task */

ts_err ts_groups_create(ts_groups **);
void ts_groups_destroy(ts_groups *); /* NULL is fine */
/* A batch's samples; the group is the first id of FEATURE, and samples without
 * one, or of weight 0, are left out.  SAMPLES: the batch's (dense/tally.h). */
ts_err ts_groups_add(ts_groups *, const ts_batch *, int32_t feature,
                     const struct ts_tally_args *samples);
/* R's groups, with K as in metrics.k.  Samples travel: each group is of one
 * rank.  Collective. */
ts_err ts_groups_compute(ts_groups *, int64_t k, ts_metrics_result *r,
                         ts_comm *);
