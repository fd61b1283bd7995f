/* dynamic.c - ids of dynamic tables become rows where their shards are: between
 * the arrival of a batch and its unpacking. */
#include "shard/message.h"
#include "sparse/mirror.h"

/* All ranks' batches are of one kind: that of status's learns. */
static int learns(const ts_ebc_batch *fl) {
  for (int r = 0; r < fl->ebc->n_ranks; r++)
    if (fl->statuses[r].learns) return fl->statuses[r].learns;
  return 0;
}

/* Which slot of group G has bag BAG, not before *SLOT. */
static void go_to_slot(const ts_sharding_batch *lf, int32_t g, int64_t bag,
                       int32_t *slot) {
  const int64_t *starts = lf->starts[g].ptr;
  while (*slot + 1 < lf->sharding->groups[g].n_slots &&
         bag >= starts[*slot + 1])
    ++*slot;
}

/* The ids of group G that PARTS list get their rows.  Parts keep their ids, for
 * who places them again. */
static ts_err place(ts_sharding_batch *lf, int32_t g, ts_unpack_part *parts) {
  const ts_unpack_args *a = &lf->unpack[g];
  int32_t slot = 0;
  for (int32_t i = 0; i < a->n_parts; i++) {
    ts_unpack_part *p = &parts[i];
    go_to_slot(lf, g, p->first_bag, &slot);
    TS_DO(ts_tbe_place(lf->sharding->groups[g].tbe, slot, a->rows + p->first_id,
                       p->ids, p->n_ids, lf->ebc_batch->learnt,
                       lf->ebc_batch->ebc->ahead));
  }
  return TS_OK;
}

/* The same where ids and rows are a discrete device's. */
static ts_err place_there(ts_sharding_batch *lf, int32_t g,
                          const ts_unpack_part *parts) {
  ts_tbe *tbe = lf->sharding->groups[g].tbe;
  const ts_unpack_args *a = &lf->unpack[g];
  ts_mirror_part *to;
  int32_t slot = 0, n = 0;
  TS_DO(ts_tbe_parts(tbe, a->n_parts, &to));
  for (int32_t i = 0; i < a->n_parts; i++) {
    const ts_unpack_part *p = &parts[i];
    go_to_slot(lf, g, p->first_bag, &slot);
    if (p->n_ids)
      to[n++] = (ts_mirror_part){p->ids, p->first_id, p->n_ids, slot};
  }
  return ts_tbe_place_parts(tbe, to, n, a->rows, lf->ebc_batch->learnt,
                            lf->ebc_batch->ebc->ahead);
}

static ts_err place_group(ts_sharding_batch *lf, int32_t g) {
  const ts_ebc_batch *fl = lf->ebc_batch;
  ts_tbe *tbe = lf->sharding->groups[g].tbe;
  /* Lists of a discrete device are in the host's memory, too. */
  const bool there = ts_device_is_discrete(fl->ebc->device);
  const char *list = there ? fl->list_copy.ptr : fl->list.ptr;
  ts_unpack_part *parts =
      (ts_unpack_part *)fl->list.ptr +
      (lf->unpack[g].parts - (const ts_unpack_part *)(const void *)list);
  if (!ts_tbe_is_dynamic(tbe)) return TS_OK;
  if (fl->learnt) ts_tbe_come(tbe, fl->learnt, fl->again);
  return there ? place_there(lf, g, parts) : place(lf, g, parts);
}

static ts_err place_all(ts_ebc_batch *fl) {
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    for (int32_t g = 0; g < fl->ebc->shardings[l].n_groups; g++)
      TS_DO(place_group(&fl->shardings[l], g));
  return TS_OK;
}

ts_err ts_dynamic_place(ts_ebc_batch *fl) {
  fl->learnt = learns(fl) ? ++fl->ebc->n_learnt : 0;
  fl->again = learns(fl) == 2;
  return place_all(fl);
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

ts_err ts_dynamic_again(void *arg, ts_lane *lane) {
  (void)lane;
  return place_all(*(ts_ebc_batch **)arg);
}
