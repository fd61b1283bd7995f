/* state_shrink.c - a checkpoint has more ids than a table has rows now: those
 * that a look would evict do not come. */
#include "train/state_ids.h"

#include <string.h>

#include "base/mem.h"
#include "shard/ebc.h"

bool ts_ids_can_shrink(const ts_table_config *c) {
  return ts_table_evicts(c) && strcmp(c->evict.kind, "ttl") != 0;
}

/* Bytes of a row of an item, or of a number of a list. */
static size_t row_bytes(const ts_ckpt_item *item) {
  return (size_t)ts_row_bytes(item->dtype, item->cols ? item->cols : 1);
}

ts_err ts_ids_stage(ts_ckpt *ckpt, ts_ids *d, int64_t place) {
  ts_ckpt_item *items = &ckpt->items[d->first];
  const size_t n = (size_t)d->n;
  void **lists[] = {(void **)&d->ids, (void **)&d->seen, (void **)&d->last,
                    (void **)&d->score};
  TS_DO(ts_ckpt_own(ckpt, (size_t)d->n_items * sizeof *d->staged,
                    (void **)&d->staged));
  for (int32_t k = 0; k < d->n_lists; k++) {
    TS_DO(ts_ckpt_own(ckpt, n * row_bytes(&items[k]), lists[k]));
    TS_DO(ts_ckpt_add_piece(&items[k], false, true, place, d->n, *lists[k]));
  }
  for (int32_t k = d->n_lists; k < d->n_items; k++) {
    TS_DO(ts_ckpt_own(ckpt, n * row_bytes(&items[k]), &d->staged[k]));
    TS_DO(ts_ckpt_add_piece(&items[k], false, true, place, d->n, d->staged[k]));
  }
  return TS_OK;
}

/* Those that stay move together, in their order. */
static void keep(void *rows, size_t bytes, const bool *goes, int64_t n) {
  char *to = rows;
  for (int64_t k = 0; k < n; k++) {
    if (goes[k]) continue;
    memmove(to, (char *)rows + (size_t)k * bytes, bytes);
    to += bytes;
  }
}

/* Into the table's rows from 1 on, as many as it has. */
static ts_err put(ts_ckpt *ckpt, const ts_ids *d, int64_t n) {
  const int n_states = ts_tbe_optim(d->tbe)->n_states;
  TS_DO(ts_tbe_give(d->tbe, d->number, 1 + n));
  for (int32_t k = d->n_lists; k < d->n_items; k++) {
    int32_t cols;
    ts_dtype dtype;
    const int state = k == d->n_lists ? -1 : n_states - d->n_items + k;
    char *rows = ts_tbe_rows(d->tbe, d->number, state, &cols, &dtype);
    const size_t bytes = row_bytes(&ckpt->items[d->first + k]);
    TS_DO(ts_staging_put(&ckpt->staging, rows + bytes, d->staged[k],
                         (size_t)n * bytes));
  }
  return TS_OK;
}

/* A file without these numbers: as in take_numbers. */
static void fill(const ts_ckpt *ckpt, const ts_ids *d) {
  if (!ckpt->items[d->first + 1].absent) return;
  for (int64_t k = 0; k < d->n; k++) {
    d->seen[k] = 1;
    d->last[k] = 0;
  }
}

/* The N that do not go. */
static ts_err take(ts_ckpt *ckpt, ts_ids *d, const bool *goes, int64_t n) {
  const int64_t n_all = d->n;
  keep(d->ids, 8, goes, n_all);
  keep(d->seen, 8, goes, n_all);
  keep(d->last, 8, goes, n_all);
  if (d->score) keep(d->score, 4, goes, n_all);
  for (int32_t k = d->n_lists; k < d->n_items; k++)
    keep(d->staged[k], row_bytes(&ckpt->items[d->first + k]), goes, n_all);
  d->n = n;
  /* Else what takes the ids refuses them. */
  return n < ts_tbe_table_of(d->tbe, d->number)->n_rows ? put(ckpt, d, n)
                                                        : TS_OK;
}

ts_err ts_ids_shrink(ts_ckpt *ckpt, ts_ids *d, const ts_table_config *c,
                     ts_comm *comm) {
  ts_err err = TS_OK;
  bool *goes = NULL;
  int64_t n = 0;
  const bool here = d->tbe != NULL;
  const int64_t n_all = here ? d->n : 0;
  TS_TRY(ts_agree(comm, ts_mem_many(goes, n_all + 1, SPARSE)));
  if (here) fill(ckpt, d);
  ts_evict_ids l = {.shard = d->shard,
                    .n_shards = d->n_shards,
                    .n = n_all,
                    .seen = d->seen,
                    .last = d->last,
                    .score = d->score,
                    .goes = goes};
  TS_TRY(ts_evict_list(c, &l, comm));
  for (int64_t k = 0; k < n_all; k++) n += !goes[k];
  if (here) err = take(ckpt, d, goes, n);
  TS_TRY(ts_agree(comm, err));
done:
  ts_mem_free(goes);
  return err;
}
