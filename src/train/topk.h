/* topk.h - the items that score best with a vector, exactly: of all rows of the
 * table that an output over items has, or of all of data.items, where layers
 * make items' vectors.
 *
 * Each rank holds an even part of the items, which it gets by the engine's own
 * lookup, whatever the sharding, the type and the tier of the table (and its
 * running means, where an evaluation looks at those), or by a forward pass
 * through these layers.  Vectors go to all
 * ranks, each ranks its own items, and what it finds goes back and is merged.
 * The score of a vector and an item is a sum in one order; of equal scores the
 * smaller id is first: results are the same on any ranks.
 * Functions are Collective unless they say Local. */
#pragma once

#include "train/trainer.h"

typedef struct ts_topk ts_topk;

/* TASK's items are made by layers, and no data.items says which there are.
 * Local. */
bool ts_topk_lacks_items(const ts_config *, const ts_task_config *task);
/* Opens data.items, which has what the layers that make items read: DATA errors
 * where it hasn't.  LIKE, an open source, has learnt the words. */
ts_err ts_topk_open_items(ts_source **, ts_trainer *, const ts_source *like);
/* The K best of task TASK's items as the weights are now; memory: a part of the
 * items in f32.  K is at most the number of items.  The lanes are idle.  LIKE:
 * as above. */
ts_err ts_topk_create(ts_topk **, ts_trainer *, int32_t task, int64_t k,
                      const ts_source *like);
int64_t ts_topk_n_below(const ts_topk *); /* of data.items, left out; Local */
void ts_topk_destroy(ts_topk *);          /* Local; NULL is fine */
int32_t ts_topk_k(const ts_topk *);       /* Local */
/* ID is wanted: every EACH-th of the N_IDS of a sample's bag is.  Local. */
static inline bool ts_topk_is_wanted(const int64_t *ids, int64_t n_ids,
                                     int32_t each, int64_t id) {
  for (int64_t k = 0; k < n_ids; k += each)
    if (ids[k] == id) return true;
  return false;
}
/* For each of BATCH's samples the best items by its row of QUERY (n, dim),
 * other than those in its bags of task->exclude, but with what the sample
 * wants where WANTED: *IDS (n, k), best first, -1 behind the last there is;
 * *SCORES (n, k), divided by the temperature, unless NULL.  Until the next
 * call. */
ts_err ts_topk_search(ts_topk *, const float *query, const ts_batch *batch,
                      bool wanted, const int64_t **ids, const float **scores);
