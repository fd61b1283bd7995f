/* dataset_gather.c - samples of a data set from anywhere in it.
 *
 * They are read in the order in which they lie in the file: neighbours at
 * once, and pages and packed chunks are met one after the other. */
#include <stdlib.h>

#include "base/mem.h"
#include "io/dataset_impl.h"

/* A sample of the batch: where it goes to, its file and row there, and its
 * values' range in the feature at hand. */
typedef struct ts_wanted {
  int64_t sample, row, from, end;
  ts_dataset_file *file;
  int32_t place;
} ts_wanted;

static int by_sample(const void *a, const void *b) {
  const int64_t x = ((const ts_wanted *)a)->sample;
  const int64_t y = ((const ts_wanted *)b)->sample;
  return (x > y) - (x < y);
}

static ts_err sort_samples(ts_dataset *d, const int64_t *samples, int32_t n) {
  if (n > d->n_wanted)
    TS_DO(ts_mem_extend(&d->wanted, d->n_wanted, n, sizeof *d->wanted,
                        TS_TAG_INPUT));
  if (n > d->n_wanted) d->n_wanted = n;
  for (int32_t i = 0; i < n; i++) {
    ts_dataset_file *f = ts_dataset_file_of(d, samples[i]);
    d->wanted[i] = (ts_wanted){.sample = samples[i],
                               .row = samples[i] - f->first,
                               .file = f,
                               .place = i};
  }
  if (n) qsort(d->wanted, (size_t)n, sizeof *d->wanted, by_sample);
  return TS_OK;
}

static ts_err gather_numbers(ts_dataset *d, ts_batch_store *s, int32_t n) {
  const int32_t n_tasks = d->base.info.n_tasks, n_dense = d->base.info.n_dense;
  for (int32_t i = 0; i < n; i++) {
    const ts_wanted *w = &d->wanted[i];
    ts_dataset_file *f = w->file;
    const int64_t to = w->place;
    TS_DO(
        ts_array_read(&f->in, &f->labels, s->labels + to * n_tasks, w->row, 1));
    if (f->sample_weights.set >= 0)
      TS_DO(ts_array_read(&f->in, &f->sample_weights, s->weights + to, w->row,
                          1));
    if (!n_dense) continue;
    TS_DO(ts_array_read(&f->in, &f->dense, s->dense + to * n_dense, w->row, 1));
    TS_DO(
        ts_dataset_check_dense(f, s->dense + to * n_dense, w->row, 1, n_dense));
  }
  return TS_OK;
}

/* Where W's values of feature I are. */
static ts_err find_values(ts_wanted *w, int32_t i) {
  const ts_dataset_feature *x = &w->file->features[i];
  int64_t bag[2] = {w->row, w->row + 1};
  if (x->offsets.set >= 0)
    TS_DO(ts_array_read(&w->file->in, &x->offsets, bag, w->row, 2));
  if (bag[0] < 0 || bag[1] > x->values.rows)
    return ts_fail(TS_ERR_DATA, "%s: offsets of sample %lld leave the values",
                   w->file->in.path, (long long)w->row);
  if (bag[1] < bag[0] || bag[1] - bag[0] > INT32_MAX)
    return ts_fail(TS_ERR_DATA, "%s: sample %lld: offsets go backwards",
                   w->file->in.path, (long long)w->row);
  w->from = bag[0];
  w->end = bag[1];
  return TS_OK;
}

/* Room for feature I's values; its offsets in the order of the places. */
static ts_err place_bags(ts_dataset *d, ts_batch_store *s, int32_t i,
                         int32_t n) {
  const bool weighted = s->of[i].table->weighted;
  if (!ts_dataset_is_ragged(d, i))
    return ts_batch_store_feature(s, i, n, TS_BAGS_ONE, weighted);
  TS_DO(ts_batch_store_feature(s, i, 0, TS_BAGS_OFFSETS, weighted));
  int64_t *to = s->feature[i].offsets;
  to[0] = 0;
  for (int32_t k = 0; k < n; k++)
    to[d->wanted[k].place + 1] = d->wanted[k].end - d->wanted[k].from;
  for (int32_t k = 0; k < n; k++) to[k + 1] += to[k];
  return ts_batch_store_feature(s, i, to[n], TS_BAGS_OFFSETS, weighted);
}

static ts_err gather_feature(ts_dataset *d, ts_batch_store *s, int32_t i,
                             const int64_t *samples, int32_t n) {
  for (int32_t k = 0; k < n; k++) TS_DO(find_values(&d->wanted[k], i));
  TS_DO(place_bags(d, s, i, n));
  const ts_feature_store *to = &s->feature[i];
  for (int32_t k = 0; k < n; k++) {
    const ts_wanted *w = &d->wanted[k];
    const ts_dataset_feature *x = &w->file->features[i];
    const int64_t at = to->offsets ? to->offsets[w->place] : w->place;
    const int64_t m = w->end - w->from;
    TS_DO(ts_array_read(&w->file->in, &x->values, to->ids + at, w->from, m));
    if (to->weighted)
      TS_DO(ts_array_read(&w->file->in, &x->weights, to->weights + at, w->from,
                          m));
  }
  const int64_t bad = ts_batch_store_bad_sample(s, i);
  if (bad < 0) return TS_OK;
  const ts_dataset_file *f = ts_dataset_file_of(d, samples[bad]);
  return ts_batch_store_check_ids(&d->base, s, i, f->in.path,
                                  samples[bad] - f->first - bad);
}

ts_err ts_dataset_gather(ts_source *src, ts_batch_store *s,
                         const int64_t *samples, int32_t n) {
  ts_dataset *d = (ts_dataset *)src;
  TS_DO(sort_samples(d, samples, n));
  TS_DO(ts_batch_store_begin(s, n, src->info.n_tasks, src->info.n_dense,
                             src->info.has_weights));
  TS_DO(gather_numbers(d, s, n));
  for (int32_t i = 0; i < d->n_features; i++)
    TS_DO(gather_feature(d, s, i, samples, n));
  return ts_batch_store_end(s);
}
