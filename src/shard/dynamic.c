/* dynamic.c - ids of dynamic tables become rows where their shards are: between
 * the arrival of a batch and its unpacking. */
#include "shard/message.h"

/* All ranks' batches are of one kind. */
static bool learns(const ts_ebc_batch *fl) {
  for (int r = 0; r < fl->ebc->n_ranks; r++)
    if (fl->statuses[r].n > 0 && fl->statuses[r].learns) return true;
  return false;
}

/* Parts keep their ids, for who places them again. */
static ts_err place(ts_sharding_batch *lf, int32_t g) {
  const ts_sharding_group *group = &lf->sharding->groups[g];
  const ts_unpack_args *a = &lf->unpack[g];
  const int64_t *starts = lf->starts[g].ptr;
  int32_t slot = 0;
  if (!ts_tbe_is_dynamic(group->tbe)) return TS_OK;
  for (int32_t i = 0; i < a->n_parts; i++) {
    ts_unpack_part *p = (ts_unpack_part *)(uintptr_t)&a->parts[i]; /* ours */
    while (slot + 1 < group->n_slots && p->first_bag >= starts[slot + 1])
      slot++;
    TS_DO(ts_tbe_place(group->tbe, slot, a->rows + p->first_id, p->ids,
                       p->n_ids, lf->ebc_batch->learnt));
    p->id_bytes = 0;
  }
  return TS_OK;
}

static ts_err place_all(ts_ebc_batch *fl) {
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    for (int32_t g = 0; g < fl->ebc->shardings[l].n_groups; g++)
      TS_DO(place(&fl->shardings[l], g));
  return TS_OK;
}

ts_err ts_dynamic_place(ts_ebc_batch *fl) {
  fl->learnt = learns(fl) ? ++fl->ebc->n_learnt : 0;
  return place_all(fl);
}

uint32_t ts_ebc_batch_learnt(const ts_ebc_batch *fl) {
  return fl->learnt;
}

ts_err ts_ebc_place_again(ts_ebc_batch *fl) {
  return place_all(fl);
}
