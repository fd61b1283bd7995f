/* dataset.c - data sets in HDF5 (doc/formats.md): files that follow each
 * other, and batches of their samples. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/arrays.h"
#include "io/columns.h"
#include "io/dataset_impl.h"
#include "io/dataset_write.h"
#include "io/hdf5.h"
#include "io/keys.h"

static bool probe(const char *path) {
  unsigned char head[8] = {0};
  FILE *f = fopen(path, "rb");
  const size_t n = f ? fread(head, 1, 8, f) : 0;
  if (f) fclose(f);
  return n == 8 && !memcmp(head, "\211HDF\r\n\032\n", 8);
}

/* ---- opening ------------------------------------------------------------- */

/* *LACKS: data.items may be without it; NULL: it has to be there. */
static ts_err open_feature(ts_dataset_file *f, ts_dataset_feature *x,
                           const char *feature, bool weighted, bool *lacks) {
  char name[512];
  snprintf(name, sizeof name, "sparse/%s", feature);
  ts_hdf5_lock();
  const bool there = H5Lexists(f->in.file, "sparse", H5P_DEFAULT) > 0 &&
                     H5Lexists(f->in.file, name, H5P_DEFAULT) > 0;
  ts_hdf5_unlock();
  if (lacks) *lacks |= !there;
  if (lacks && !there) return TS_OK;
  if (!there)
    return ts_fail(TS_ERR_DATA, "%s: has no feature \"%s\"", f->in.path,
                   feature);
  ts_dataset_read_max(f, x, name);
  snprintf(name, sizeof name, "sparse/%s/values", feature);
  TS_DO(ts_array_open(&x->values, &f->in, name, 1, H5T_NATIVE_INT64, 8, true));
  snprintf(name, sizeof name, "sparse/%s/offsets", feature);
  TS_DO(
      ts_array_open(&x->offsets, &f->in, name, 1, H5T_NATIVE_INT64, 8, false));
  TS_DO(ts_dataset_check_rows(f, &x->offsets, name, f->n + 1));
  if (x->offsets.set < 0)
    TS_DO(ts_dataset_check_rows(f, &x->values, "values without offsets", f->n));
  snprintf(name, sizeof name, "sparse/%s/weights", feature);
  TS_DO(ts_array_open(&x->weights, &f->in, name, 1, H5T_NATIVE_FLOAT, 4,
                      weighted));
  return ts_dataset_check_rows(f, &x->weights, name, x->values.rows);
}

/* Those that data.columns names have to be there, but to predict. */
static ts_err open_weights(const ts_dataset *d, ts_dataset_file *f) {
  const char *given = ts_column_weight(d->base.config);
  const char *name = given ? given : "sample_weights";
  TS_DO(ts_array_open(&f->sample_weights, &f->in, name, 1, H5T_NATIVE_FLOAT, 4,
                      given && !ts_split_is_unlabelled(d->base.split)));
  return ts_dataset_check_rows(f, &f->sample_weights, name, f->n);
}

static ts_err open_file(ts_dataset *d, ts_dataset_file *f, const char *path) {
  const ts_config *c = d->base.config;
  f->in.file = -1;
  f->in.fd = -1;
  TS_DO(d->start(d, f, path));
  TS_DO(ts_dataset_open_labels(d, f));
  if (f->in.arrays)
    TS_DO(ts_dataset_npy_dense(d, f));
  else
    TS_DO(ts_array_open(&f->dense, &f->in, "dense", 2, H5T_NATIVE_FLOAT, 4,
                        false));
  TS_DO(ts_dataset_dense_columns(d, f));
  TS_DO(open_weights(d, f));
  TS_DO(ts_dataset_check_rows(f, &f->dense, "dense", f->n));
  TS_DO(ts_mem_many(f->features, d->n_features, INPUT));
  for (int32_t i = 0; i < d->n_features; i++)
    f->features[i].values.set = f->features[i].offsets.set =
        f->features[i].weights.set = -1;
  for (int32_t i = 0; i < d->n_features; i++) {
    const char *name;
    const ts_table_config *t = ts_feature_table(c, i, &name);
    if (d->ids[i].input >= 0) continue;
    if (f->in.arrays) {
      TS_DO(ts_dataset_npy_feature(d, f, i));
      continue;
    }
    TS_DO(open_feature(f, &f->features[i], ts_column_from(c, name), t->weighted,
                       d->base.lacks ? &d->base.lacks[i] : NULL));
  }
  return TS_OK;
}

static void close_file(ts_dataset_file *f, int32_t n_features,
                       int32_t n_tasks) {
  ts_hdf5_lock();
  if (f->in.path && f->in.file >= 0) {
    ts_array_close(&f->labels);
    for (int32_t k = 0; f->where && k < n_tasks; k++)
      ts_array_close(&f->where[k]);
    ts_array_close(&f->dense);
    ts_array_close(&f->sample_weights);
    for (int32_t i = 0; f->features && i < n_features; i++) {
      ts_array_close(&f->features[i].values);
      ts_array_close(&f->features[i].offsets);
      ts_array_close(&f->features[i].weights);
    }
    H5Fclose(f->in.file);
  }
  ts_hdf5_unlock();
  ts_array_unmap(&f->in);
  ts_arrays_close(f->in.arrays);
  if (f->in.path && f->in.fd >= 0) close(f->in.fd);
  ts_mem_free_all(f->features, f->where, f->pick, f->wide, f->in.path);
}

void ts_dataset_close(ts_source *s) {
  ts_dataset *d = (ts_dataset *)s;
  if (!d) return;
  for (int32_t i = 0; i < d->n_files; i++)
    close_file(&d->files[i], d->n_features, d->base.config->model.n_tasks);
  ts_source_free_learnt(&d->base);
  ts_mem_free_all(d->files, d->ids, d->wanted, d->where, d);
}

/* All files of a source have the same shapes. */
static ts_err gather(ts_dataset *d) {
  ts_source_info *info = &d->base.info;
  for (int32_t i = 0; i < d->n_files; i++) {
    ts_dataset_file *f = &d->files[i];
    const int32_t n_dense = f->n_dense;
    if (i == 0) {
      info->n_dense = n_dense;
      info->n_tasks = (int32_t)f->labels.cols;
    }
    if (n_dense != info->n_dense || f->labels.cols != info->n_tasks)
      return ts_fail(TS_ERR_DATA,
                     "%s: has %d dense features and %d labels, the file "
                     "before %d and %d",
                     f->in.path, n_dense, (int)f->labels.cols, info->n_dense,
                     info->n_tasks);
    f->first = info->n_samples;
    info->n_samples += f->n;
    info->has_weights |= f->sample_weights.set >= 0;
  }
  return TS_OK;
}

static ts_err open_all(ts_dataset *d, const ts_strings *paths,
                       const char *state) {
  TS_DO(ts_columns_of_numbers(d->base.config, d->base.ops->format));
  TS_DO(ts_source_take_learnt(&d->base, "none", "none", state));
  if (d->base.split == TS_SPLIT_ITEMS)
    TS_DO(ts_mem_many(d->base.lacks, d->n_features + 1, INPUT));
  TS_DO(ts_mem_many(d->files, paths->n, INPUT));
  TS_DO(ts_mem_many(d->ids, d->n_features, INPUT));
  for (int32_t i = 0; i < d->n_features; i++)
    ts_dataset_ids_of(d, i, &d->ids[i]);
  for (int32_t i = 0; i < paths->n; i++) {
    d->n_files = i + 1;
    TS_DO(open_file(d, &d->files[i], paths->item[i]));
  }
  return gather(d);
}

ts_err ts_dataset_open(ts_source **out, const ts_source_ops *ops,
                       ts_err (*start)(ts_dataset *, ts_dataset_file *,
                                       const char *),
                       const ts_config *c, ts_split split, const char *state,
                       const ts_strings *paths, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_dataset *d = NULL;
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_INPUT));
  d->base = (ts_source){.ops = ops, .config = c, .split = split};
  d->start = start;
  d->base.info.bayes_logloss = d->base.info.bayes_auc = NAN;
  d->n_features = d->base.info.n_features = ts_feature_count(c);
  TS_TRY(ts_agree(comm, open_all(d, paths, state)));
  *out = &d->base;
done:
  if (err != TS_OK) ts_dataset_close((ts_source *)d);
  return err;
}

extern const ts_source_ops ts_source_dataset;

static ts_err open_source(ts_source **out, const ts_config *c, ts_split split,
                          const char *state, const ts_strings *paths,
                          ts_comm *comm) {
  return ts_dataset_open(out, &ts_source_dataset, ts_dataset_start, c, split,
                         state, paths, comm);
}

/* ---- reading ------------------------------------------------------------- */

/* Where values of samples are, [from, end). */
typedef struct ts_range {
  int64_t from, end;
} ts_range;

/* Reads the offsets of samples [first, first + n) to TO (n + 1), where they
 * go on from N_IDS, and finds the values' range. */
static ts_err read_offsets(const ts_dataset_file *f,
                           const ts_dataset_feature *x, int64_t *to,
                           int64_t first, int32_t n, int64_t n_ids,
                           ts_range *range) {
  *range = (ts_range){first, first + n};
  if (x->offsets.set < 0) {
    for (int32_t b = 0; b <= n; b++) to[b] = n_ids + b;
    return TS_OK;
  }
  TS_DO(ts_array_read(&f->in, &x->offsets, to, first, (int64_t)n + 1));
  *range = (ts_range){to[0], to[n]};
  if (to[0] < 0)
    return ts_fail(TS_ERR_DATA, "%s: offsets of sample %lld leave the values",
                   f->in.path, (long long)first);
  const int64_t shift = n_ids - to[0];
  for (int32_t b = 0; b < n; b++) {
    if (to[b + 1] > x->values.rows)
      return ts_fail(TS_ERR_DATA, "%s: offsets of sample %lld leave the values",
                     f->in.path, (long long)(first + b));
    if (to[b + 1] < to[b] || to[b + 1] - to[b] > INT32_MAX)
      return ts_fail(TS_ERR_DATA, "%s: sample %lld: offsets go backwards",
                     f->in.path, (long long)(first + b));
    to[b] += shift;
  }
  to[n] += shift;
  return TS_OK;
}

/* Appends samples [first, first + n) of file F to feature I of the store,
 * which has AT samples and *N_IDS ids of it. */
static ts_err read_feature(ts_dataset_file *f, ts_batch_store *s, int32_t i,
                           int64_t first, int32_t n, int32_t at,
                           int64_t *n_ids) {
  const ts_dataset_feature *x = &f->features[i];
  const ts_bag_form bags = s->feature[i].bags;
  const bool weighted = s->feature[i].weighted;
  ts_range r = {first, first + n};
  if (bags == TS_BAGS_OFFSETS)
    TS_DO(read_offsets(f, x, s->feature[i].offsets + at, first, n, *n_ids, &r));
  const int64_t more = r.end - r.from;
  TS_DO(ts_batch_store_feature(s, i, *n_ids + more, bags, weighted));
  TS_DO(ts_array_read(&f->in, &x->values, s->feature[i].ids + *n_ids, r.from,
                      more));
  if (weighted)
    TS_DO(ts_array_read(&f->in, &x->weights, s->feature[i].weights + *n_ids,
                        r.from, more));
  *n_ids += more;
  return TS_OK;
}

ts_dataset_file *ts_dataset_file_of(ts_dataset *d, int64_t sample) {
  int32_t i = 0;
  while (i + 1 < d->n_files && sample >= d->files[i].first + d->files[i].n) i++;
  return &d->files[i];
}

/* Samples of the batch in file F from SAMPLE on. */
static int32_t span_in(const ts_dataset_file *f, int64_t sample, int64_t end) {
  const int64_t stop = f->first + f->n < end ? f->first + f->n : end;
  return (int32_t)(stop - sample);
}

static ts_err read_numbers(ts_dataset *d, ts_batch_store *s, int64_t first,
                           int32_t n) {
  const ts_source_info *info = &d->base.info;
  for (int64_t at = first; at < first + n;) {
    ts_dataset_file *f = ts_dataset_file_of(d, at);
    const int32_t here = span_in(f, at, first + n);
    const int64_t row = at - f->first, to = at - first;
    if (f->labels.set >= 0) {
      float *labels = s->labels + to * info->n_tasks;
      TS_DO(ts_array_read(&f->in, &f->labels, labels, row, here));
      TS_DO(ts_dataset_check_labels(d, f, labels, row, here));
    }
    for (int64_t i = 0; f->labels.set < 0 && i < here * info->n_tasks; i++)
      s->labels[to * info->n_tasks + i] = NAN;
    float *dense = s->dense + to * info->n_dense, *rows = dense;
    if (f->dense.set < 0) {
      ts_dataset_no_dense(d, s, to, here);
    } else if (info->n_dense || d->base.scales) {
      TS_DO(ts_dataset_dense_room(f, here, &rows));
      TS_DO(ts_array_read(&f->in, &f->dense, rows, row, here));
      for (int32_t i = 0; f->pick && i < here; i++)
        TS_DO(ts_dataset_pick(d, f, s, i, row + i, to + i));
      if (!f->pick)
        TS_DO(ts_dataset_check_dense(f, dense, row, here, info->n_dense));
    }
    if (f->sample_weights.set >= 0) {
      TS_DO(ts_array_read(&f->in, &f->sample_weights, s->weights + to, row,
                          here));
      TS_DO(ts_dataset_check_weights(f, s->weights + to, row, here));
    }
    at += here;
  }
  return TS_OK;
}

bool ts_dataset_is_ragged(const ts_dataset *d, int32_t i) {
  for (int32_t k = 0; k < d->n_files; k++)
    if (d->files[k].features[i].offsets.set >= 0) return true;
  return false;
}

bool ts_dataset_copies(const ts_batch_store *s, int32_t i) {
  const ts_feature_of *x = &s->of[i];
  return x->first != i &&
         (!x->table->weighted || s->of[x->first].table->weighted);
}

static ts_err read_sparse(ts_dataset *d, ts_batch_store *s, int32_t i,
                          int64_t first, int32_t n) {
  int64_t n_ids = 0;
  const bool weighted = s->of[i].table->weighted;
  if (ts_batch_store_is_same(s, i) || d->ids[i].input >= 0) return TS_OK;
  if (d->base.lacks && d->base.lacks[i]) return ts_batch_store_clear(s, i);
  if (ts_dataset_copies(s, i)) return ts_batch_store_copy(s, i);
  TS_DO(ts_batch_store_feature(
      s, i, 0, ts_dataset_is_ragged(d, i) ? TS_BAGS_OFFSETS : TS_BAGS_ONE,
      weighted));
  for (int64_t at = first; at < first + n;) {
    ts_dataset_file *f = ts_dataset_file_of(d, at);
    const int32_t here = span_in(f, at, first + n);
    TS_DO(read_feature(f, s, i, at - f->first, here, (int32_t)(at - first),
                       &n_ids));
    at += here;
  }
  return TS_OK;
}

/* What was read becomes rows. */
static ts_err settle(ts_dataset *d, ts_batch_store *s, int32_t i,
                     int64_t first) {
  if (d->base.learning || ts_batch_store_is_same(s, i) || d->ids[i].input >= 0)
    return TS_OK;
  TS_DO(ts_dataset_encode(d, s, i));
  const int64_t bad = ts_batch_store_bad_sample(s, i);
  if (bad >= 0) {
    const ts_dataset_file *f = ts_dataset_file_of(d, first + bad);
    TS_DO(
        ts_batch_store_check_ids(&d->base, s, i, f->in.path, first - f->first));
  }
  return TS_OK;
}

ts_err ts_dataset_read(ts_source *src, ts_batch_store *s, int64_t first,
                       int32_t n) {
  ts_dataset *d = (ts_dataset *)src;
  TS_DO(ts_dataset_begin(d, s, n));
  TS_DO(read_numbers(d, s, first, n));
  for (int32_t i = 0; i < d->n_features; i++)
    if (!src->learning || ts_vocabularies_have(src->vocabularies, i))
      TS_DO(read_sparse(d, s, i, first, n));
  for (int32_t i = 0; i < d->n_features; i++) TS_DO(settle(d, s, i, first));
  return ts_batch_store_end(s);
}

ts_err ts_dataset_learn(ts_source *s, const uint64_t *kept, ts_comm *comm) {
  return ts_source_learn_numbers(s, kept, false, comm);
}

const ts_source_ops ts_source_dataset = {.format = "dataset",
                                         .seekable = true,
                                         .plain_ids = true,
                                         .needs = ts_dataset_needs,
                                         .probe = probe,
                                         .has_where = true,
                                         .has_items = true,
                                         .open = open_source,
                                         .close = ts_dataset_close,
                                         .learn = ts_dataset_learn,
                                         .state_save = ts_source_save_learnt,
                                         .read = ts_dataset_read,
                                         .gather = ts_dataset_gather,
                                         .lengths = ts_dataset_lengths,
                                         .write = ts_dataset_write,
                                         .keys = ts_keys_of_dataset};
