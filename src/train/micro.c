/* micro.c - parts of batches. */
#include "train/micro.h"

#include "base/mem.h"

struct ts_micro {
  ts_batch batch;
  ts_jagged *features; /* (n_features) */
  int32_t **lengths;   /* (n_features) of those that come with offsets */
  size_t *bytes;
  int32_t n_features;
};

ts_err ts_micro_create(ts_micro **out, int32_t n_features) {
  ts_err err = TS_OK;
  ts_micro *m = NULL;
  TS_TRY(ts_mem_alloc(&m, sizeof *m, TS_TAG_INPUT));
  m->n_features = n_features;
  TS_TRY(ts_mem_array(&m->features, n_features, sizeof *m->features,
                      TS_TAG_INPUT));
  TS_TRY(
      ts_mem_array(&m->lengths, n_features, sizeof *m->lengths, TS_TAG_INPUT));
  TS_TRY(ts_mem_array(&m->bytes, n_features, sizeof *m->bytes, TS_TAG_INPUT));
  *out = m;
done:
  if (err != TS_OK) ts_micro_destroy(m);
  return err;
}

void ts_micro_destroy(ts_micro *m) {
  if (!m) return;
  for (int32_t f = 0; m->lengths && f < m->n_features; f++)
    ts_mem_free(m->lengths[f]);
  ts_mem_free_all(m->features, m->lengths, m->bytes, m);
}

ts_batch *ts_micro_batch(ts_micro *m) {
  return &m->batch;
}

/* Bags [from, to) of a feature. */
static ts_err cut_feature(ts_micro *m, int32_t f, const ts_jagged *all,
                          int32_t from, int32_t to) {
  ts_jagged *part = &m->features[f];
  int64_t before = all->offsets ? all->offsets[from] : from, n = to - from;
  if (!all->offsets && all->lengths) {
    before = n = 0;
    for (int32_t b = 0; b < from; b++) before += all->lengths[b];
    for (int32_t b = from; b < to; b++) n += all->lengths[b];
  }
  if (all->offsets) n = all->offsets[to] - before;
  *part = (ts_jagged){.lengths = all->lengths ? all->lengths + from : NULL,
                      .ids = all->ids + before,
                      .weights = all->weights ? all->weights + before : NULL,
                      .n_ids = n};
  if (all->lengths || !all->offsets) return TS_OK;
  TS_DO(ts_mem_reserve(&m->lengths[f], &m->bytes[f],
                       (size_t)(to - from + 1) * sizeof **m->lengths,
                       TS_TAG_INPUT));
  for (int32_t b = from; b < to; b++)
    m->lengths[f][b - from] = (int32_t)ts_jagged_length(all, b);
  part->lengths = m->lengths[f];
  return TS_OK;
}

ts_err ts_micro_cut(ts_micro *m, const ts_batch *all, int32_t i, int32_t n) {
  const int32_t from = (int32_t)ts_micro_start(all->n, i, n);
  const int32_t to = (int32_t)ts_micro_start(all->n, i + 1, n);
  ts_batch *b = &m->batch;
  *b = *all;
  b->first += from;
  b->n = to - from;
  b->labels += (int64_t)from * all->n_tasks;
  if (b->dense) b->dense += (int64_t)from * all->n_dense;
  if (b->weights) b->weights += from;
  if (b->left_out_at) b->left_out_at += from;
  if (b->all_items) b->all_items += i;
  if (b->times.bags) b->times.bags += from;
  b->kjt = (ts_kjt){
      .features = m->features, .n_features = m->n_features, .batch = to - from};
  for (int32_t f = 0; f < m->n_features; f++) {
    TS_DO(cut_feature(m, f, &all->kjt.features[f], from, to));
    b->kjt.n_ids += m->features[f].n_ids;
  }
  return TS_OK;
}
