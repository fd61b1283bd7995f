/* dataset_gather.c - samples of a data set from anywhere in it.
 *
 * They are read in the order in which they lie in the file: neighbours at
 * once, and pages and packed chunks are met one after the other. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/columns.h"
#include "io/dataset_impl.h"

/* A sample of the batch: where it goes to, its file and row there, and where
 * its values of the feature at hand are. */
typedef struct ts_wanted {
  int64_t row, from;
  int32_t n, file, place;
} ts_wanted;

static int by_place_in_files(const void *a, const void *b) {
  const ts_wanted *x = a, *y = b;
  if (x->file != y->file) return x->file < y->file ? -1 : 1;
  return (x->row > y->row) - (x->row < y->row);
}

static ts_err sort_samples(ts_dataset *d, const int64_t *samples, int32_t n) {
  if (n > d->n_wanted) {
    TS_DO(ts_mem_extend(&d->wanted, d->n_wanted, n, sizeof *d->wanted,
                        TS_TAG_INPUT));
    d->n_wanted = n;
  }
  for (int32_t i = 0; i < n; i++) {
    const ts_dataset_file *f = ts_dataset_file_of(d, samples[i]);
    d->wanted[i] = (ts_wanted){.row = samples[i] - f->first,
                               .file = (int32_t)(f - d->files),
                               .place = i};
  }
  if (n) qsort(d->wanted, (size_t)n, sizeof *d->wanted, by_place_in_files);
  return TS_OK;
}

/* The N wanted rows of array A of file F to their places in TO.  Ids, one to a
 * sample, are what most of the time goes into. */
static ts_err gather_rows(const ts_dataset_file *f, const ts_array *a, void *to,
                          const ts_wanted *w, int32_t n) {
  const int64_t bytes = a->cols * (int64_t)a->size;
  const ts_array_view *v = a->views;
  char *x = to;
  if (v && v->type == TS_VIEW_I32 && a->as == TS_VIEW_TO_I64 && a->cols == 1 &&
      w[n - 1].row < a->rows) {
    for (int32_t k = 0; k < n; k++)
      ((int64_t *)to)[w[k].place] = ts_view_i32(v, w[k].row);
  } else if (!a->base || w[n - 1].row >= a->rows) {
    for (int32_t k = 0; k < n; k++)
      TS_DO(ts_array_read(&f->in, a, x + w[k].place * bytes, w[k].row, 1));
  } else if (bytes == 8) {
    for (int32_t k = 0; k < n; k++)
      memcpy(x + (int64_t)w[k].place * 8, a->base + w[k].row * 8, 8);
  } else {
    for (int32_t k = 0; k < n; k++)
      memcpy(x + w[k].place * bytes, a->base + w[k].row * bytes, (size_t)bytes);
  }
  return TS_OK;
}

/* How many of the N wanted samples from W on are in the first one's file. */
static int32_t run_of(const ts_wanted *w, int32_t n) {
  int32_t k = 1;
  while (k < n && w[k].file == w->file) k++;
  return k;
}

static ts_err gather_numbers(ts_dataset *d, ts_batch_store *s,
                             const ts_wanted *w, int32_t n) {
  ts_dataset_file *f = &d->files[w->file];
  const int32_t n_dense = d->base.info.n_dense;
  float *dense = s->dense;
  const int32_t n_tasks = d->base.info.n_tasks;
  TS_DO(gather_rows(f, &f->labels, s->labels, w, n));
  for (int32_t k = 0; k < n; k++)
    TS_DO(ts_dataset_check_labels(
        d, f, s->labels + (int64_t)w[k].place * n_tasks, w[k].row, 1));
  if (f->sample_weights.set >= 0) {
    TS_DO(gather_rows(f, &f->sample_weights, s->weights, w, n));
    for (int32_t k = 0; k < n; k++)
      TS_DO(ts_dataset_check_weights(f, s->weights + w[k].place, w[k].row, 1));
  }
  if (!n_dense && !d->base.scales) return TS_OK;
  TS_DO(ts_dataset_dense_room(f, s->batch.n, &dense));
  TS_DO(gather_rows(f, &f->dense, dense, w, n));
  for (int32_t k = 0; k < n; k++) {
    const int64_t place = w[k].place;
    TS_DO(f->pick ? ts_dataset_pick(d, f, s, place, w[k].row, place)
                  : ts_dataset_check_dense(f, s->dense + place * n_dense,
                                           w[k].row, 1, n_dense));
  }
  return TS_OK;
}

/* Where W's values of feature I of its file F are. */
static ts_err find_values(const ts_dataset_file *f, ts_wanted *w, int32_t i) {
  const ts_dataset_feature *x = &f->features[i];
  int64_t bag[2] = {w->row, w->row + 1};
  if (x->offsets.set >= 0)
    TS_DO(ts_array_read(&f->in, &x->offsets, bag, w->row, 2));
  if (bag[0] < 0 || bag[1] > x->values.rows)
    return ts_fail(TS_ERR_DATA, "%s: offsets of sample %lld leave the values",
                   f->in.path, (long long)w->row);
  if (bag[1] < bag[0] || bag[1] - bag[0] > INT32_MAX)
    return ts_fail(TS_ERR_DATA, "%s: sample %lld: offsets go backwards",
                   f->in.path, (long long)w->row);
  w->from = bag[0];
  w->n = (int32_t)(bag[1] - bag[0]);
  return TS_OK;
}

/* Counts no more ids of a sample than max_length, which cuts the rest. */
ts_err ts_dataset_lengths(ts_source *src, int32_t *n_ids,
                          const int32_t *features, int32_t n_features,
                          const int64_t *samples, int32_t n) {
  ts_dataset *d = (ts_dataset *)src;
  TS_DO(sort_samples(d, samples, n));
  for (int32_t k = 0; k < n_features; k++) {
    const int32_t i = features[k];
    const int64_t most = d->ids[i].max_length;
    const bool made = d->ids[i].input >= 0, lacks = src->lacks && src->lacks[i];
    for (int32_t j = 0; j < n; j++) {
      ts_wanted *w = &d->wanted[j];
      w->n = made; /* one bucket of a number */
      if (!made && !lacks) TS_DO(find_values(&d->files[w->file], w, i));
      n_ids[(int64_t)k * n + w->place] =
          most && w->n > most ? (int32_t)most : w->n;
    }
  }
  return TS_OK;
}

/* Feature I where some bags have not one id. */
static ts_err gather_bags(ts_dataset *d, ts_batch_store *s, int32_t i,
                          int32_t n) {
  const bool weighted = s->of[i].table->weighted;
  TS_DO(ts_batch_store_feature(s, i, 0, TS_BAGS_OFFSETS, weighted));
  int64_t *end = s->feature[i].offsets;
  end[0] = 0;
  for (int32_t k = 0; k < n; k++) {
    ts_wanted *w = &d->wanted[k];
    TS_DO(find_values(&d->files[w->file], w, i));
    end[w->place + 1] = w->n;
  }
  for (int32_t k = 0; k < n; k++) end[k + 1] += end[k];
  TS_DO(ts_batch_store_feature(s, i, end[n], TS_BAGS_OFFSETS, weighted));
  const ts_feature_store *to = &s->feature[i];
  for (int32_t k = 0; k < n; k++) {
    const ts_wanted *w = &d->wanted[k];
    const ts_dataset_file *f = &d->files[w->file];
    const ts_dataset_feature *x = &f->features[i];
    const int64_t at = to->offsets[w->place];
    TS_DO(ts_array_read(&f->in, &x->values, to->ids + at, w->from, w->n));
    if (weighted)
      TS_DO(
          ts_array_read(&f->in, &x->weights, to->weights + at, w->from, w->n));
  }
  return TS_OK;
}

/* Feature I where each bag has one id. */
static ts_err gather_ids(ts_dataset *d, ts_batch_store *s, int32_t i,
                         int32_t n) {
  const bool weighted = s->of[i].table->weighted;
  TS_DO(ts_batch_store_feature(s, i, n, TS_BAGS_ONE, weighted));
  for (int32_t k = 0, m; k < n; k += m) {
    const ts_wanted *w = &d->wanted[k];
    const ts_dataset_file *f = &d->files[w->file];
    const ts_dataset_feature *x = &f->features[i];
    m = run_of(w, n - k);
    TS_DO(gather_rows(f, &x->values, s->feature[i].ids, w, m));
    if (weighted)
      TS_DO(gather_rows(f, &x->weights, s->feature[i].weights, w, m));
  }
  return TS_OK;
}

static ts_err gather_feature(ts_dataset *d, ts_batch_store *s, int32_t i,
                             int32_t n) {
  if (ts_batch_store_is_same(s, i) || d->ids[i].input >= 0) return TS_OK;
  if (ts_dataset_copies(s, i)) return ts_batch_store_copy(s, i);
  return ts_dataset_is_ragged(d, i) ? gather_bags(d, s, i, n)
                                    : gather_ids(d, s, i, n);
}

static ts_err settle(ts_dataset *d, ts_batch_store *s, int32_t i,
                     const int64_t *samples) {
  if (ts_batch_store_is_same(s, i) || d->ids[i].input >= 0) return TS_OK;
  TS_DO(ts_dataset_encode(d, s, i));
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
  TS_DO(ts_dataset_begin(d, s, n));
  for (int32_t k = 0, m; k < n; k += m) {
    m = run_of(&d->wanted[k], n - k);
    TS_DO(gather_numbers(d, s, &d->wanted[k], m));
  }
  for (int32_t i = 0; i < d->n_features; i++) TS_DO(gather_feature(d, s, i, n));
  for (int32_t i = 0; i < d->n_features; i++) TS_DO(settle(d, s, i, samples));
  return ts_batch_store_end(s);
}
