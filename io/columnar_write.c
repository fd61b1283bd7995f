/* columnar_write.c - data sources to Parquet. */
#include "io/columnar_write.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dense_columns.h"
#include "base/features.h"
#include "base/file.h"
#include "base/mem.h"
#include "io/columnar_out.h"
#include "io/columns.h"
#include "io/dataset_write.h"
#include "io/out_folder.h"
#include "runtime/progress.h"

enum { CHUNK = 8192 };

typedef struct ts_columnar_writer {
  ts_source *source;
  ts_comm *comm;
  const char *path;
  char temp[4096]; /* the file that this rank writes */
  bool first, is_folder, arrow;
  ts_str folder; /* rank 0: the folder, until it has its name */
  int lock;
  int64_t from, to; /* this rank's samples */
  ts_batch_store *store;
  ts_feature_columns of;
  ts_columnar_out *out;       /* NULL: this rank writes nothing */
  int64_t *ragged, *weighted; /* (n_features) the first of a column: for all */
  int32_t n_dense;
  int64_t done; /* samples read */
  ts_work work;
} ts_columnar_writer;

static ts_err read_chunk(ts_columnar_writer *w, int64_t at, int64_t end,
                         int32_t *n) {
  *n = end - at < CHUNK ? (int32_t)(end - at) : CHUNK;
  ts_work_at(&w->work, (double)w->done);
  w->done += *n;
  return w->source->ops->read(w->source, w->store, at, *n);
}

/* Which features of this rank's samples have lists. */
static ts_err look(ts_columnar_writer *w) {
  int32_t n;
  for (int32_t f = 0; f < w->of.n_features; f++)
    w->weighted[w->of.first[f]] |=
        ts_feature_table(w->source->config, f, NULL)->weighted;
  for (int64_t at = w->from; at < w->to; at += n) {
    TS_DO(read_chunk(w, at, w->to, &n));
    const ts_batch *b = ts_batch_store_batch(w->store);
    for (int32_t f = 0; f < w->of.n_features; f++) {
      const int32_t first = w->of.first[f];
      TS_DO(ts_dataset_check_same(w->source->config, b, f, first));
      w->ragged[first] |= !ts_jagged_is_one(&b->kjt.features[f]);
    }
  }
  w->source->n_short = w->source->n_bad_records = w->source->n_bad_ids = 0;
  return TS_OK;
}

static ts_out_kind kind_of(const ts_columnar_writer *w, int32_t f) {
  if (w->weighted[f]) return TS_OUT_WEIGHTED;
  return w->ragged[f] ? TS_OUT_IDS : TS_OUT_I64;
}

/* A column of numbers, whose name a feature may have, too. */
static ts_err add_numbers(ts_columnar_writer *w, const char *name,
                          const char *more) {
  char own[512];
  const bool taken = ts_feature_find(w->source->config, name) >= 0;
  snprintf(own, sizeof own, "%.480s%s", name, taken ? more : "");
  return ts_columnar_out_column(w->out, own, TS_OUT_F32);
}

static ts_err make_columns(ts_columnar_writer *w) {
  const ts_config *c = w->source->config;
  const ts_source_info *info = &w->source->info;
  char number[32];
  for (int32_t k = 0; k < info->n_tasks; k++)
    TS_DO(add_numbers(w, ts_column_of_label(c, k).name, "_label"));
  for (int32_t i = 0; i < w->n_dense; i++) {
    snprintf(number, sizeof number, "dense_%d", i);
    const bool named = ts_column_n_dense(c) == w->n_dense;
    TS_DO(add_numbers(w, named ? ts_column_of_dense(c, i).name : number,
                      "_number"));
  }
  if (info->has_weights)
    TS_DO(ts_columnar_out_column(w->out, "sample_weight", TS_OUT_F32));
  for (int32_t f = 0; f < w->of.n_features; f++) {
    const char *name;
    (void)ts_feature_table(c, f, &name);
    if (w->of.first[f] == f)
      TS_DO(ts_columnar_out_column(w->out, name, kind_of(w, f)));
  }
  return TS_OK;
}

static ts_err put_row(ts_columnar_writer *w, const ts_batch *b, int32_t i,
                      int64_t *at) {
  int32_t k = 0;
  for (int32_t t = 0; t < b->n_tasks; t++)
    TS_DO(ts_columnar_out_cell(w->out, k++, b->labels + i * b->n_tasks + t, 4));
  for (int32_t d = 0; d < w->n_dense; d++)
    TS_DO(ts_columnar_out_cell(w->out, k++,
                               b->dense + (int64_t)i * w->n_dense + d, 4));
  if (w->source->info.has_weights)
    TS_DO(ts_columnar_out_cell(w->out, k++, b->weights + i, 4));
  for (int32_t f = 0; f < w->of.n_features; f++) {
    const ts_jagged *j = &b->kjt.features[f];
    if (w->of.first[f] != f) continue;
    const int64_t n = ts_jagged_length(j, i);
    if (kind_of(w, f) == TS_OUT_I64)
      TS_DO(ts_columnar_out_cell(w->out, k++, j->ids + at[f], 8));
    else
      TS_DO(ts_columnar_out_list(w->out, k++, j->ids + at[f],
                                 j->weights ? j->weights + at[f] : NULL, n));
    at[f] += n;
  }
  return ts_columnar_out_row(w->out);
}

static ts_err put_rows(ts_columnar_writer *w) {
  int64_t at[w->of.n_features + 1];
  const int64_t end = w->is_folder ? w->to : w->source->info.n_samples;
  int32_t n;
  for (int64_t first = w->from; first < end; first += n) {
    TS_DO(read_chunk(w, first, end, &n));
    memset(at, 0, sizeof at);
    for (int32_t i = 0; i < n; i++)
      TS_DO(put_row(w, ts_batch_store_batch(w->store), i, at));
  }
  return TS_OK;
}

/* ---- the file, or files -------------------------------------------------- */

bool ts_columnar_is_part(const char *name) {
  int number, end = 0;
  if (sscanf(name, "part-%d%n", &number, &end) != 1) return false;
  return !strcmp(name + end, ".parquet") || !strcmp(name + end, ".arrow");
}

static ts_err make_folder(ts_columnar_writer *w) {
  return ts_out_folder(&w->folder, &w->lock, w->path, ts_columnar_is_part);
}

/* ERR, of all ranks, or that of giving the name. */
static ts_err give_name(ts_columnar_writer *w, ts_err err) {
  if (w->is_folder)
    return ts_out_folder_settle(&w->folder, &w->lock, w->path,
                                ts_columnar_is_part, err);
  if (err == TS_OK && ts_file_rename(w->temp, w->path) != 0)
    err = ts_fail_errno(TS_ERR_IO, w->path);
  if (err != TS_OK) unlink(w->temp);
  return err;
}

static ts_err start(ts_columnar_writer *w) {
  const ts_config *c = w->source->config;
  const ts_source_info *info = &w->source->info;
  TS_DO(ts_batch_store_create(&w->store, c, NULL));
  TS_DO(ts_feature_columns_create(&w->of, c));
  TS_DO(ts_mem_many(w->ragged, w->of.n_features, INPUT));
  TS_DO(ts_mem_many(w->weighted, w->of.n_features, INPUT));
  w->n_dense = ts_dense_width(c);
  if (!w->first && !w->is_folder) return TS_OK;
  return ts_columnar_out_create(&w->out, w->temp, w->arrow,
                                info->n_tasks + w->n_dense + info->has_weights +
                                    w->of.n);
}

static ts_err write_own(ts_columnar_writer *w) {
  if (!w->out) return TS_OK;
  ts_err err = make_columns(w);
  if (err == TS_OK) err = put_rows(w);
  err = ts_columnar_out_finish(w->out, err);
  w->out = NULL;
  return err;
}

static ts_err write_all(ts_columnar_writer *w) {
  if (w->is_folder) TS_DO(ts_agree(w->comm, w->first ? make_folder(w) : TS_OK));
  TS_DO(ts_agree(w->comm, start(w)));
  TS_DO(ts_agree(w->comm, look(w)));
  TS_DO(ts_comm_max_i64(w->comm, w->ragged, w->of.n_features));
  return ts_agree(w->comm, write_own(w));
}

static ts_columnar_writer writer_of(const char *path, ts_source *source,
                                    bool arrow, ts_comm *comm) {
  const int n_ranks = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t n = source->info.n_samples;
  size_t bare = strlen(path);
  ts_columnar_writer w = {.source = source,
                          .comm = comm,
                          .path = path,
                          .first = me == 0,
                          .is_folder = ts_str_ends(path, "/"),
                          .arrow = arrow,
                          .lock = -1,
                          .from = n * me / n_ranks,
                          .to = n * (me + 1) / n_ranks};
  while (w.is_folder && bare > 1 && path[bare - 1] == '/') bare--;
  if (w.is_folder)
    snprintf(w.temp, sizeof w.temp, "%.*s.part/part-%05d.%s",
             (int)(bare < 4000 ? bare : 4000), path, me,
             arrow ? "arrow" : "parquet");
  else
    snprintf(w.temp, sizeof w.temp, "%.4000s.part", path);
  w.work = ts_work_begin(
      "writing", path,
      (double)(w.to - w.from + (w.is_folder ? w.to - w.from : n)), "samples");
  return w;
}

static ts_err write_any(const char *path, ts_source *source, bool arrow,
                        ts_comm *comm) {
  ts_columnar_writer w = writer_of(path, source, arrow, comm);
  ts_err err = write_all(&w);
  const bool good = err == TS_OK;
  (void)ts_columnar_out_finish(w.out, err);
  if (w.first) err = give_name(&w, err);
  ts_batch_store_destroy(w.store);
  ts_feature_columns_reset(&w.of);
  ts_mem_free_all(w.ragged, w.weighted);
  return good ? ts_agree(comm, err) : err;
}

ts_err ts_columnar_write(const char *path, ts_source *source, ts_comm *comm) {
  return write_any(path, source, false, comm);
}

ts_err ts_columnar_write_arrow(const char *path, ts_source *source,
                               ts_comm *comm) {
  return write_any(path, source, true, comm);
}
