/* ranking.h - how well an output over items ranks what was wanted: hit rate,
 * NDCG, MRR and recall at metrics.k of an evaluation.
 *
 * Where the data give negatives (task->given) each target is ranked among its
 * own, and counts by itself: recall is the hit rate.  Else all items are
 * ranked for each sample (train/topk.h), by its last row, other than those in
 * its bags of task->exclude that are not wanted: a sample's targets are a set,
 * and samples with targets count alike.  With r = 0, 1, .. the places of the
 * wanted ones among the first k:
 *   hit rate  1 where there is one
 *   recall    their number over that of the wanted
 *   NDCG      sum of 1 / log2(r + 2) over what it could be at best
 *   MRR       1 / (1 + first r), 0 where there is none; of given negatives
 *             beyond k, too
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "train/trainer.h"

typedef struct ts_ranking ts_ranking;

/* A DECK error where figures are told or judged by that need what it has not.
 */
ts_err ts_ranking_check(const ts_config *);
/* *OUT stays NULL where no task is over items, or no figure that is told or
 * judged by needs it (base/kinds.h).  LIKE: as of ts_topk_create.  Collective.
 */
ts_err ts_ranking_create(ts_ranking **out, ts_trainer *, const ts_source *like);
void ts_ranking_destroy(ts_ranking *);
/* Of the batch that has just been finished.  Collective. */
ts_err ts_ranking_add(ts_ranking *, const ts_batch *);
/* R's groups, over all ranks.  Collective. */
ts_err ts_ranking_compute(ts_ranking *, ts_metrics_result *r, ts_comm *);
