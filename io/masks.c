/* masks.c - ids that give way to masks. */
#include "io/masks.h"

#include <string.h>

#include "base/features.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"

ts_masks ts_masks_of(const ts_config *c, const ts_task_config *x,
                     int32_t target) {
  ts_masks m = {.feature = -1, .target = target, .id = x->mask_id};
  if (!*x->masked) return m;
  const char *name;
  m.feature = ts_feature_find(c, x->masked);
  (void)ts_feature_table(c, m.feature, &name);
  m.below = (uint64_t)(x->mask_share * 4294967296.0);
  for (int32_t i = 0; i < c->data.n_columns; i++)
    if (!strcmp(c->data.columns[i].name, name))
      m.most = c->data.columns[i].max_length;
  return m;
}

void ts_masks_reset(ts_masks *m) {
  ts_mem_free(m->hidden);
  m->hidden = NULL;
}

static ts_err check(const ts_masks *m, const ts_batch_store *s,
                    const ts_masks_place *at) {
  const ts_jagged *j = &s->batch.kjt.features[m->feature];
  for (int64_t b = 0, k = 0; b < s->batch.n; b++)
    for (int64_t left = ts_jagged_length(j, (int32_t)b); left > 0; left--, k++)
      if (j->ids[k] == m->id)
        return ts_fail(TS_ERR_DATA,
                       "sample %lld: feature %s has id %lld, which is the mask "
                       "of output %s: give another mask_id",
                       (long long)(at->first + b), s->of[m->feature].name,
                       (long long)m->id, s->of[m->target].name);
  return TS_OK;
}

/* ---- training ------------------------------------------------------------ */

/* Which of the N ids of the sample at PLACE are hidden; how many. */
static int64_t choose(const ts_masks *m, bool *hidden, int64_t n,
                      const uint32_t key[2], int64_t place) {
  uint32_t w[4], least = UINT32_MAX;
  int64_t count = 0, nearest = 0;
  for (int64_t k = 0; k < n; k++) {
    const uint32_t at[4] = {(uint32_t)place, (uint32_t)(place >> 32),
                            (uint32_t)(k / 4), 0};
    if (k % 4 == 0) ts_philox(w, at, key);
    hidden[k] = w[k % 4] < m->below;
    count += hidden[k];
    if (w[k % 4] >= least) continue;
    least = w[k % 4];
    nearest = k;
  }
  if (count || !n) return count;
  hidden[nearest] = true;
  return 1;
}

ts_err ts_masks_hide(ts_masks *m, ts_batch_store *s, const ts_masks_place *at) {
  const ts_jagged *in = &s->batch.kjt.features[m->feature];
  const int32_t n = s->batch.n;
  uint32_t key[2];
  int64_t from = 0, to = 0;
  ts_rng_key(key, at->seed ^ ts_mix64((uint64_t)at->epoch + 1), TS_RNG_MASKS);
  TS_DO(check(m, s, at));
  TS_DO(ts_mem_reserve(&m->hidden, &m->hidden_bytes, (size_t)in->n_ids + 1,
                       TS_TAG_INPUT));
  TS_DO(
      ts_batch_store_feature(s, m->target, in->n_ids, TS_BAGS_LENGTHS, false));
  const ts_feature_store *x = &s->feature[m->target];
  int64_t *ids = s->feature[m->feature].ids;
  for (int32_t b = 0; b < n; b++) {
    const int64_t length = ts_jagged_length(in, b);
    x->lengths[b] =
        (int32_t)choose(m, m->hidden + from, length, key, at->first + b);
    for (const int64_t end = from + length; from < end; from++)
      if (m->hidden[from]) {
        x->ids[to++] = ids[from];
        ids[from] = m->id;
      }
  }
  return ts_batch_store_feature(s, m->target, to, TS_BAGS_LENGTHS, false);
}

/* ---- what comes next ----------------------------------------------------- */

ts_err ts_masks_append(const ts_masks *m, ts_batch_store *s,
                       const ts_masks_place *at) {
  const int32_t f = m->feature, n = s->batch.n;
  const ts_jagged *j = &s->batch.kjt.features[f];
  int64_t from = j->n_ids, to = from + n;
  TS_DO(check(m, s, at));
  for (int32_t b = 0; b < n; b++)
    to -= m->most && ts_jagged_length(j, b) >= m->most;
  TS_DO(ts_batch_store_open(s, f, to));
  const ts_feature_store *x = &s->feature[f];
  for (int32_t b = n - 1; b >= 0; b--) {
    const int64_t length = x->lengths ? x->lengths[b] : from - x->offsets[b];
    const int64_t kept = m->most && length >= m->most ? m->most - 1 : length;
    memmove(x->ids + to - 1 - kept, x->ids + from - kept,
            (size_t)kept * sizeof *x->ids);
    x->ids[to - 1] = m->id;
    if (x->lengths) x->lengths[b] = (int32_t)kept + 1;
    if (x->offsets) x->offsets[b + 1] = to;
    from -= length;
    to -= kept + 1;
  }
  return TS_OK;
}
