/* dataset_write.c - writing data sets from all ranks. */
#include "io/dataset_write.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dense_columns.h"
#include "base/file.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/dataset_make.h"
#include "io/hdf5.h"
#include "runtime/progress.h"

enum { CHUNK = 8192 };

/* Where a feature goes, or several of one column. */
typedef struct ts_column {
  int32_t feature;          /* whose arrays are written */
  int64_t ragged, weighted; /* 0 or 1, the same on all ranks */
  int64_t n_ids;            /* of this rank */
  int64_t before;           /* of the ranks before */
  ts_dataset_bags all;      /* of all ranks */
} ts_column;

typedef struct ts_writer {
  ts_source *source;
  ts_comm *comm;
  ts_batch_store *store;
  char path[4096], temp[4096];
  int64_t n, from, to; /* samples in all; this rank's */
  int32_t n_columns, n_dense;
  ts_column *columns;
  ts_feature_columns of;
  int64_t at[3]; /* labels, dense, sample_weights */
  int fd;
  bool first;
  int64_t done; /* samples read */
  ts_work work;
} ts_writer;

static ts_err read_chunk(ts_writer *w, int64_t at, int32_t *n) {
  *n = w->to - at < CHUNK ? (int32_t)(w->to - at) : CHUNK;
  ts_work_at(&w->work, (double)w->done);
  w->done += *n;
  return w->source->ops->read(w->source, w->store, at, *n);
}

static const ts_jagged *bags_of(const ts_writer *w, int32_t column) {
  return &ts_batch_store_batch(w->store)
              ->kjt.features[w->columns[column].feature];
}

ts_err ts_dataset_check_same(const ts_config *c, const ts_batch *b, int32_t f,
                             int32_t g) {
  const ts_jagged *x = &b->kjt.features[g], *y = &b->kjt.features[f];
  const char *name;
  bool same = x->n_ids == y->n_ids;
  for (int32_t i = 0; same && i < b->n; i++)
    same = ts_jagged_length(x, i) == ts_jagged_length(y, i);
  if (same && (!x->n_ids || !memcmp(x->ids, y->ids, (size_t)x->n_ids * 8)))
    return TS_OK;
  const ts_table_config *t = ts_feature_table(c, f, &name);
  return ts_fail(TS_ERR_DECK,
                 "feature %s has other ids in table %s than in table %s, and a "
                 "file has one column of it: convert with one of the tables, "
                 "or give both the same rows",
                 name, t->name, ts_feature_table(c, g, NULL)->name);
}

static ts_err check_same(const ts_writer *w, int32_t f) {
  return ts_dataset_check_same(w->source->config,
                               ts_batch_store_batch(w->store), f,
                               w->columns[w->of.column[f]].feature);
}

/* ---- what there is ------------------------------------------------------- */

static int64_t largest(const ts_jagged *j, int64_t max) {
  for (int64_t k = 0; k < j->n_ids; k++)
    if (j->ids[k] > max) max = j->ids[k];
  return max;
}

static ts_err count(ts_writer *w) {
  ts_err err = TS_OK;
  int32_t n;
  for (int64_t at = w->from; at < w->to; at += n) {
    TS_TRY(read_chunk(w, at, &n));
    for (int32_t f = 0; f < w->of.n_features; f++) TS_TRY(check_same(w, f));
    for (int32_t k = 0; k < w->n_columns; k++) {
      const ts_jagged *j = bags_of(w, k);
      w->columns[k].ragged |= !ts_jagged_is_one(j);
      w->columns[k].n_ids += j->n_ids;
      w->columns[k].all.max_id = largest(j, w->columns[k].all.max_id);
    }
  }
done:
  /* The second reading counts them again. */
  w->source->n_short = w->source->n_bad_records = w->source->n_bad_ids = 0;
  return err;
}

static ts_err share_counts(ts_writer *w) {
  const int n_ranks = ts_comm_size(w->comm), me = ts_comm_rank(w->comm);
  int64_t all[n_ranks];
  for (int32_t k = 0; k < w->n_columns; k++) {
    ts_column *c = &w->columns[k];
    TS_DO(ts_comm_max_i64(w->comm, &c->ragged, 1));
    TS_DO(ts_comm_max_i64(w->comm, &c->all.max_id, 1));
    TS_DO(ts_comm_gather_all(w->comm, all, &c->n_ids, sizeof c->n_ids));
    for (int r = 0; r < n_ranks; r++) {
      if (r < me) c->before += all[r];
      c->all.n_ids += all[r];
    }
  }
  return TS_OK;
}

/* ---- rank 0: the file ---------------------------------------------------- */

static ts_err put_attrs(const ts_writer *w, hid_t file) {
  const ts_source_info *i = &w->source->info;
  const ts_scales *scales = w->source->scales;
  int64_t transformed = i->transformed; /* as the model takes them */
  for (int32_t k = 0; k < ts_scales_count(scales); k++)
    transformed |= !ts_scales_is_plain(scales, k);
  if (transformed)
    TS_DO(ts_hdf5_put_attr(file, "transformed", H5T_NATIVE_INT64, &transformed,
                           TS_ERR_IO));
  if (isfinite(i->bayes_auc)) {
    TS_DO(ts_hdf5_put_attr(file, "bayes_logloss", H5T_NATIVE_DOUBLE,
                           &i->bayes_logloss, TS_ERR_IO));
    TS_DO(ts_hdf5_put_attr(file, "bayes_auc", H5T_NATIVE_DOUBLE, &i->bayes_auc,
                           TS_ERR_IO));
  }
  return TS_OK;
}

static ts_err make_file(ts_writer *w) {
  ts_err err = TS_OK;
  const ts_source_info *i = &w->source->info;
  hid_t file;
  ts_hdf5_lock();
  TS_TRY(ts_dataset_make(&file, w->temp, w->n));
  TS_TRY(put_attrs(w, file));
  TS_TRY(ts_dataset_make_array(file, "labels", H5T_IEEE_F32LE, w->n, i->n_tasks,
                               &w->at[0]));
  if (w->n_dense)
    TS_TRY(ts_dataset_make_array(file, "dense", H5T_IEEE_F32LE, w->n,
                                 w->n_dense, &w->at[1]));
  if (i->has_weights)
    TS_TRY(ts_dataset_make_array(file, "sample_weights", H5T_IEEE_F32LE, w->n,
                                 1, &w->at[2]));
  for (int32_t k = 0; k < w->n_columns; k++) {
    ts_column *c = &w->columns[k];
    const char *feature;
    (void)ts_feature_table(w->source->config, c->feature, &feature);
    c->all.offsets = c->ragged;
    c->all.weights = c->weighted;
    TS_TRY(ts_dataset_make_feature(file, feature, w->n, &c->all));
  }
done:
  err = ts_hdf5_close(file, w->temp, err, TS_ERR_IO);
  ts_hdf5_unlock();
  return err;
}

/* ---- every rank: its samples --------------------------------------------- */

static ts_err put(const ts_writer *w, const void *from, int64_t bytes,
                  int64_t at) {
  return ts_pwrite(w->fd, from, bytes, at, w->temp, TS_ERR_IO);
}

static ts_err put_column(ts_writer *w, int32_t k, int64_t at, int32_t n,
                         int64_t *done_ids, int64_t *offsets) {
  const ts_column *c = &w->columns[k];
  const ts_jagged *j = bags_of(w, k);
  const int64_t id0 = c->before + *done_ids;
  TS_DO(put(w, j->ids, j->n_ids * 8, c->all.at.values + id0 * 8));
  if (c->weighted && j->weights)
    TS_DO(put(w, j->weights, j->n_ids * 4, c->all.at.weights + id0 * 4));
  if (c->ragged) {
    int64_t end = id0;
    for (int32_t b = 0; b < n; b++) {
      offsets[b] = end;
      end += ts_jagged_length(j, b);
    }
    offsets[n] = end; /* the next chunk, or rank, writes the same number */
    TS_DO(put(w, offsets, ((int64_t)n + 1) * 8, c->all.at.offsets + at * 8));
  }
  *done_ids += j->n_ids;
  return TS_OK;
}

static ts_err put_all(ts_writer *w) {
  ts_err err = TS_OK;
  const ts_source_info *i = &w->source->info;
  int64_t *offsets = NULL, *done_ids = NULL;
  int32_t n;
  w->fd = ts_file_open(w->temp, O_RDWR);
  if (w->fd < 0) return ts_fail_errno(TS_ERR_IO, w->temp);
  TS_TRY(ts_mem_many(offsets, CHUNK + 1, INPUT));
  TS_TRY(ts_mem_many(done_ids, w->n_columns, INPUT));
  for (int64_t at = w->from; at < w->to; at += n) {
    TS_TRY(read_chunk(w, at, &n));
    const ts_batch *b = ts_batch_store_batch(w->store);
    TS_TRY(put(w, b->labels, 4 * (int64_t)n * i->n_tasks,
               w->at[0] + 4 * at * i->n_tasks));
    if (w->n_dense)
      TS_TRY(put(w, b->dense, 4 * (int64_t)n * w->n_dense,
                 w->at[1] + 4 * at * w->n_dense));
    if (i->has_weights)
      TS_TRY(put(w, b->weights, 4 * (int64_t)n, w->at[2] + 4 * at));
    for (int32_t k = 0; k < w->n_columns; k++)
      TS_TRY(put_column(w, k, at, n, &done_ids[k], offsets));
  }
  if (ts_file_sync(w->fd) != 0) err = ts_fail_errno(TS_ERR_IO, w->temp);
done:
  ts_mem_free_all(offsets, done_ids);
  return err;
}

/* The samples are read TIMES. */
static ts_writer writer_of(const char *path, ts_source *source, int times,
                           ts_comm *comm) {
  const int n_ranks = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t n = source->info.n_samples;
  ts_writer w = {.source = source,
                 .comm = comm,
                 .n = n,
                 .from = n * me / n_ranks,
                 .to = n * (me + 1) / n_ranks,
                 .n_dense = ts_dense_width(source->config),
                 .fd = -1,
                 .first = me == 0};
  w.work = ts_work_begin("writing", path, (double)(times * (w.to - w.from)),
                         "samples");
  snprintf(w.path, sizeof w.path, "%.4000s", path);
  snprintf(w.temp, sizeof w.temp, "%.4000s.part", path);
  return w;
}

static ts_err give_name(const ts_writer *w) {
  return ts_file_rename(w->temp, w->path) == 0
             ? TS_OK
             : ts_fail_errno(TS_ERR_IO, w->path);
}

/* ERR, after which the file is no use. */
static ts_err writer_end(ts_writer *w, ts_err err) {
  if (w->fd >= 0) close(w->fd);
  if (err != TS_OK && w->first) unlink(w->temp);
  ts_batch_store_destroy(w->store);
  ts_feature_columns_reset(&w->of);
  ts_mem_free(w->columns);
  return err;
}

static ts_err writer_start(ts_writer *w) {
  const ts_config *c = w->source->config;
  TS_DO(ts_batch_store_create(&w->store, c, NULL));
  TS_DO(ts_feature_columns_create(&w->of, c));
  TS_DO(ts_mem_many(w->columns, w->of.n, INPUT));
  w->n_columns = w->of.n;
  for (int32_t f = 0; f < w->of.n_features; f++) {
    ts_column *x = &w->columns[w->of.column[f]];
    const bool weighted = ts_feature_table(c, f, NULL)->weighted;
    x->all.max_id = -1;
    if (w->of.first[f] == f || (weighted && !x->weighted)) x->feature = f;
    x->weighted |= weighted;
  }
  return TS_OK;
}

ts_err ts_dataset_write(const char *path, ts_source *source, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_writer w = writer_of(path, source, 2, comm);
  TS_TRY(ts_agree(comm, writer_start(&w)));
  TS_TRY(ts_agree(comm, count(&w)));
  TS_TRY(share_counts(&w));
  TS_TRY(ts_agree(comm, w.first ? make_file(&w) : TS_OK));
  TS_TRY(ts_comm_bcast(comm, w.at, sizeof w.at, 0));
  for (int32_t k = 0; k < w.n_columns; k++)
    TS_TRY(ts_comm_bcast(comm, &w.columns[k].all.at, sizeof w.columns[k].all.at,
                         0));
  TS_TRY(ts_agree(comm, put_all(&w)));
  TS_TRY(ts_agree(comm, w.first ? give_name(&w) : TS_OK));
done:
  return writer_end(&w, err);
}

/* ---- Criteo TSV ---------------------------------------------------------- */

static void print_lines(const ts_writer *w, FILE *f) {
  const ts_batch *b = ts_batch_store_batch(w->store);
  for (int32_t i = 0; i < b->n; i++) {
    fprintf(f, "%d", b->labels[i * b->n_tasks] > 0.5f);
    for (int32_t d = 0; d < 13; d++) {
      /* Back from log(x + 1), as far as integers go. */
      const double x = b->n_dense > d ? b->dense[i * b->n_dense + d] : 0;
      fprintf(f, "\t%.0f", floor(expm1(fabs(x)) * 10));
    }
    for (int32_t k = 0; k < 26; k++) {
      if (k < w->n_columns)
        fprintf(f, "\t%08llx", (long long)bags_of(w, k)->ids[i]);
      else
        fputc('\t', f);
    }
    fputc('\n', f);
  }
}

static ts_err print_part(ts_writer *w) {
  ts_err err = TS_OK;
  int32_t n;
  if (w->first) unlink(w->temp); /* of one that was killed; or planted */
  FILE *f = ts_file_stream(w->temp, w->first ? "wx" : "a");
  if (!f) return ts_fail_errno(TS_ERR_IO, w->temp);
  for (int64_t at = w->from; at < w->to; at += n) {
    TS_TRY(read_chunk(w, at, &n));
    for (int32_t k = 0; k < w->n_columns; k++)
      if (!ts_jagged_is_one(bags_of(w, k)) || w->n_columns > 26)
        TS_THROW(TS_ERR_DECK, "criteo_tsv has at most 26 features of one id "
                              "each");
    for (int32_t k = 0; k < w->of.n_features; k++) TS_TRY(check_same(w, k));
    print_lines(w, f);
  }
done:
  if (ts_file_close(f) != 0 && err == TS_OK)
    err = ts_fail_errno(TS_ERR_IO, w->temp);
  return err;
}

ts_err ts_criteo_write(const char *path, ts_source *source, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_writer w = writer_of(path, source, 1, comm);
  if (source->info.n_tasks > 1)
    return ts_fail(TS_ERR_DECK, "criteo_tsv has one label, the data %d",
                   source->info.n_tasks);
  TS_TRY(ts_agree(comm, writer_start(&w)));
  for (int r = 0; r < ts_comm_size(comm); r++)
    TS_TRY(ts_agree(comm, r == ts_comm_rank(comm) ? print_part(&w) : TS_OK));
  TS_TRY(ts_agree(comm, w.first ? give_name(&w) : TS_OK));
done:
  return writer_end(&w, err);
}
