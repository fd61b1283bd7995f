/* state_delta.c - what has changed since the last save, full or delta: a bit
 * for each row that was updated (sparse/tbe_touched.c).  An id that came since
 * is among them, as the step that brought it has updated its row; one that only
 * batches ahead have brought is not, and is not in the save either. */
#include <string.h>

#include "base/mem.h"
#include "train/state_ids.h"
#include "train/state_tables.h"

/* ---- from when on -------------------------------------------------------- */

static ts_err track(void *arg, int32_t table, const ts_shard *s, ts_tbe *tbe,
                    int32_t number) {
  (void)table, (void)s;
  return number ? TS_OK : ts_tbe_track(tbe, arg);
}

static ts_err forget(void *arg, int32_t table, const ts_shard *s, ts_tbe *tbe,
                     int32_t number) {
  (void)table, (void)s;
  return number ? TS_OK : ts_tbe_forget_touched(tbe, arg);
}

ts_err ts_state_track(ts_trainer *t) {
  ts_err err = TS_OK;
  ts_staging staging = {0};
  if (!t->config->checkpoint.delta_every) return TS_OK;
  TS_TRY(ts_staging_create(&staging, t->device));
  TS_TRY(ts_ebc_each_shard(t->ebc, track, &staging));
done:
  ts_staging_reset(&staging);
  return err;
}

ts_err ts_state_forget_touched(ts_trainer *t, ts_ckpt *ckpt) {
  return ts_ebc_each_shard(t->ebc, forget, &ckpt->staging);
}

/* ---- ids ----------------------------------------------------------------- */

ts_err ts_ids_changed(ts_ckpt *ckpt, ts_ids *d, uint32_t **rows, int64_t *n) {
  ts_err err = TS_OK;
  uint32_t *touched = NULL;
  bool *is_touched = NULL;
  int64_t n_touched, m = 0;
  const int64_t n_rows = ts_tbe_table_of(d->tbe, d->number)->n_rows;
  TS_TRY(ts_tbe_touched(d->tbe, &ckpt->staging, d->number, 0, n_rows, &touched,
                        &n_touched));
  TS_TRY(ts_mem_many(is_touched, n_rows, CHECKPOINT));
  for (int64_t i = 0; i < n_touched; i++) is_touched[touched[i]] = true;
  for (int64_t k = 0; k < d->n; k++) m += is_touched[d->rows[k]];
  *n = m;
  TS_TRY(ts_mem_many(*rows, m, CHECKPOINT));
  TS_TRY(ts_ckpt_own(ckpt, (size_t)m * 8, (void **)&d->changed));
  m = 0;
  for (int64_t k = 0; k < d->n; k++) {
    if (!is_touched[d->rows[k]]) continue;
    d->changed[m] = d->ids[k];
    (*rows)[m++] = d->rows[k];
  }
done:
  ts_mem_free_all(touched, is_touched);
  return err;
}

int64_t ts_ids_bytes(const ts_ids *d) {
  const int64_t each = 8 * (d->seen ? 3 : 1) + (d->score ? 4 : 0);
  return each * d->n + ts_sights_bytes(d);
}
