/* state_means.c - the passes to which tables' running means count, where a
 * run's own step is another than the one that its rows are of. */
#include "base/mem.h"
#include "runtime/staging.h"
#include "train/state_dense.h"

typedef struct ts_means {
  ts_staging staging;
  float *pass; /* (TS_STAGING_PIECE / 4) */
  int64_t by;
} ts_means;

/* Rows' last passes at AT (n): of those that had one. */
static ts_err move_some(ts_means *m, float *at, int64_t n) {
  TS_DO(ts_staging_get(&m->staging, m->pass, at, (size_t)n * 4));
  for (int64_t i = 0; i < n; i++)
    if (m->by == TS_MEANS_BEGIN)
      m->pass[i] = 0;
    else if (m->pass[i] > 0)
      m->pass[i] += (float)m->by;
  return ts_staging_put(&m->staging, at, m->pass, (size_t)n * 4);
}

static ts_err move_shard(void *arg, int32_t table, const ts_shard *s,
                         ts_tbe *tbe, int32_t k) {
  const ts_row_optim *o = ts_tbe_optim(tbe);
  int32_t cols;
  ts_dtype dtype;
  (void)table, (void)s;
  if (!o->averages) return TS_OK;
  float *at = ts_tbe_rows(tbe, k, o->n_states - 1, &cols, &dtype);
  const int64_t n_rows = ts_tbe_given(tbe, k);
  for (int64_t i = 0; i < n_rows; i += TS_STAGING_PIECE / 4) {
    const int64_t left = n_rows - i;
    TS_DO(move_some(arg, at + i,
                    left < TS_STAGING_PIECE / 4 ? left : TS_STAGING_PIECE / 4));
  }
  return TS_OK;
}

ts_err ts_state_move_means(ts_trainer *t, int64_t by) {
  ts_err err = TS_OK;
  ts_means m = {.by = by};
  bool any = false;
  for (int32_t i = 0; i < t->config->n_tables; i++)
    any |= t->config->tables[i].ema;
  if (!any || by == 0) return TS_OK;
  TS_TRY(ts_staging_create(&m.staging, t->device));
  TS_TRY(ts_mem_many(m.pass, TS_STAGING_PIECE / 4, CHECKPOINT));
  TS_TRY(ts_ebc_each_shard(t->ebc, move_shard, &m));
done:
  ts_mem_free(m.pass);
  ts_staging_reset(&m.staging);
  return err;
}
