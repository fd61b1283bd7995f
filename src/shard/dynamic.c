/* dynamic.c - ids of dynamic tables become rows where their shards are: between
 * the arrival of a batch and its unpacking. */
#include "shard/message.h"

/* All ranks' batches are of one kind: that of status's learns. */
static int learns(const ts_ebc_batch *fl) {
  for (int r = 0; r < fl->ebc->n_ranks; r++)
    if (fl->statuses[r].learns) return fl->statuses[r].learns;
  return 0;
}

/* Parts keep their ids, for who places them again: a group's ids get their
 * rows, or lose those that this batch has brought. */
static ts_err each_part(ts_sharding_batch *lf, int32_t g, bool forget) {
  const uint32_t batch = lf->ebc_batch->learnt;
  const ts_sharding_group *group = &lf->sharding->groups[g];
  const ts_unpack_args *a = &lf->unpack[g];
  const int64_t *starts = lf->starts[g].ptr;
  int32_t slot = 0;
  if (!ts_tbe_is_dynamic(group->tbe)) return TS_OK;
  if (batch && forget) ts_tbe_go(group->tbe, batch);
  if (batch && !forget) ts_tbe_come(group->tbe, batch, lf->ebc_batch->again);
  for (int32_t i = 0; i < a->n_parts; i++) {
    ts_unpack_part *p = (ts_unpack_part *)(uintptr_t)&a->parts[i]; /* ours */
    while (slot + 1 < group->n_slots && p->first_bag >= starts[slot + 1])
      slot++;
    if (forget)
      ts_tbe_forget(group->tbe, slot, p->ids, p->n_ids, batch);
    else
      TS_DO(ts_tbe_place(group->tbe, slot, a->rows + p->first_id, p->ids,
                         p->n_ids, batch, lf->ebc_batch->ebc->ahead));
    p->id_bytes = 0;
  }
  return TS_OK;
}

static ts_err each_group(ts_ebc_batch *fl, bool forget) {
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    for (int32_t g = 0; g < fl->ebc->shardings[l].n_groups; g++)
      TS_DO(each_part(&fl->shardings[l], g, forget));
  return TS_OK;
}

ts_err ts_dynamic_place(ts_ebc_batch *fl) {
  fl->learnt = learns(fl) ? ++fl->ebc->n_learnt : 0;
  fl->again = learns(fl) == 2;
  return each_group(fl, false);
}

uint32_t ts_ebc_batch_learnt(const ts_ebc_batch *fl) {
  return fl->learnt;
}

void ts_ebc_hide_from(ts_ebc *ebc, uint32_t first) {
  ebc->ahead = first;
}

uint32_t ts_ebc_n_learnt(const ts_ebc *ebc) {
  return ebc->n_learnt;
}

void ts_ebc_forget(ts_ebc_batch *fl) {
  if (fl->learnt) (void)each_group(fl, true);
}

ts_err ts_ebc_place_again(ts_ebc_batch *fl) {
  return each_group(fl, false);
}
