/* dataset_columns.c - data.columns of data sets: which of their dense numbers
 * are wanted, and how their ids become rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/dense_columns.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "io/columns.h"
#include "io/dataset_impl.h"
#include "io/hdf5.h"

/* ---- dense numbers ------------------------------------------------------- */

/* The texts of attribute ATTR, of variable length or of one size. */
static ts_err read_texts(ts_strings *names, hid_t attr, hid_t type,
                         const char *path) {
  ts_err err = TS_OK;
  const bool variable = H5Tis_variable_str(type) > 0;
  const size_t size = variable ? sizeof(char *) : H5Tget_size(type);
  char *cells = NULL, *name;
  TS_TRY(ts_mem_array(&cells, names->n, size, TS_TAG_INPUT));
  if (TS_HDF5(H5Aread(attr, type, cells)) < 0)
    TS_THROW(TS_ERR_DATA, "%s: the names of /dense can't be read", path);
  for (int32_t i = 0; i < names->n; i++) {
    const char *text = cells + (size_t)i * size;
    if (variable) memcpy(&text, text, sizeof text);
    const size_t n = variable ? strlen(text ? text : "") : strnlen(text, size);
    TS_TRY(ts_mem_alloc(&name, n + 1, TS_TAG_INPUT));
    if (n) memcpy(name, text, n);
    names->item[i] = name;
  }
done:
  if (variable && cells) {
    const hid_t space = H5Aget_space(attr);
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, cells);
    H5Sclose(space);
  }
  ts_mem_free(cells);
  return err;
}

/* What the attribute "names" of /dense says; no names where it is not there, or
 * does not have one for each column.  Under the lock. */
static ts_err read_names(ts_strings *names, const ts_dataset_file *f) {
  ts_err err = TS_OK;
  hid_t attr = -1, type = -1, space = -1;
  if (H5Aexists(f->dense.set, "names") <= 0) return TS_OK;
  attr = H5Aopen(f->dense.set, "names", H5P_DEFAULT);
  type = attr < 0 ? -1 : H5Aget_type(attr);
  space = attr < 0 ? -1 : H5Aget_space(attr);
  if (type >= 0 && space >= 0 && H5Tget_class(type) == H5T_STRING &&
      H5Sget_simple_extent_npoints(space) == f->dense.cols) {
    TS_TRY(ts_mem_many(names->item, f->dense.cols, INPUT));
    names->n = (int32_t)f->dense.cols;
    TS_TRY(read_texts(names, attr, type, f->in.path));
  }
done:
  if (space >= 0) H5Sclose(space);
  if (type >= 0) H5Tclose(type);
  if (attr >= 0) H5Aclose(attr);
  return err;
}

static ts_err find_name(int32_t *to, const ts_strings *names, const char *from,
                        const char *path) {
  for (*to = 0; *to < names->n; ++*to)
    if (!strcmp(names->item[*to], from)) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "%s: the attribute \"names\" of /dense has no \"%s\"", path,
                 from);
}

/* The place of a bucketised feature's column: by its name, or where the file
 * has none, that of the dense input which is the same column. */
static ts_err find_input(int32_t *to, const ts_config *c,
                         const ts_strings *names, int32_t feature,
                         const char *path) {
  const char *from = ts_column_of_feature(c, feature).from;
  for (*to = 0; !names->n && *to < c->model.dense_features; ++*to)
    if (*to < ts_column_n_dense(c) &&
        !strcmp(ts_column_of_dense(c, *to).from, from))
      return TS_OK;
  return find_name(to, names, from, path);
}

/* NAMES: of the file's columns; none: the deck's are in their order. */
static ts_err pick_columns(const ts_dataset *d, ts_dataset_file *f,
                           const ts_strings *names, int32_t n) {
  const ts_config *c = d->base.config;
  const int32_t n_inputs = ts_scales_count(d->base.scales);
  const int32_t most = f->n_dense > n_inputs ? f->n_dense : n_inputs;
  TS_DO(ts_mem_many(f->pick, most, INPUT));
  for (int32_t i = 0; i < f->n_dense; i++) {
    f->pick[i] = i;
    if (n && names->n)
      TS_DO(find_name(&f->pick[i], names, ts_column_of_dense(c, i).from,
                      f->in.path));
  }
  for (int32_t k = 0; k < d->n_features; k++) {
    const int32_t i = ts_scales_of_feature(d->base.scales, k);
    if (i >= 0) TS_DO(find_input(&f->pick[i], c, names, k, f->in.path));
  }
  return TS_OK;
}

/* data.items has no /dense, so it lacks what is made of dense numbers, too: the
 * features that are buckets of them. */
static void lacks_dense(const ts_dataset *d) {
  d->base.lacks[d->n_features] = true;
  for (int32_t i = 0; i < d->n_features; i++)
    d->base.lacks[i] |= d->ids[i].input >= 0;
}

ts_err ts_dataset_dense_columns(const ts_dataset *d, ts_dataset_file *f) {
  ts_err err = TS_OK;
  ts_strings names = {0};
  const ts_config *c = d->base.config;
  const ts_scales *scales = d->base.scales;
  const int32_t n = ts_column_n_dense(c);
  f->n_dense = f->dense.set < 0 ? 0 : (int32_t)f->dense.cols;
  if (f->dense.set < 0 && d->base.lacks) {
    lacks_dense(d);
    f->n_dense = c->model.dense_features;
    return TS_OK;
  }
  if (f->dense.set < 0 && ts_scales_count(scales) > c->model.dense_features)
    return ts_fail(TS_ERR_DATA,
                   "%s: has no /dense, of which bucketised features are made",
                   f->in.path);
  if ((!n && !scales) || f->dense.set < 0 || !c->data.n_columns) return TS_OK;
  ts_hdf5_lock();
  err =
      f->in.arrays ? ts_dataset_npy_names(d, f, &names) : read_names(&names, f);
  ts_hdf5_unlock();
  if (err != TS_OK) goto done;
  if (scales && d->base.info.transformed)
    TS_THROW(TS_ERR_DATA,
             "%s: its numbers went through transforms when it was written "
             "(attribute \"transformed\"): leave transform and encoding = "
             "\"bucketise\" out of data.columns",
             f->in.path);
  if (n && !names.n && n != f->n_dense)
    TS_THROW(TS_ERR_DATA,
             "%s: /dense has %d columns without names (its attribute "
             "\"names\"), data.columns lists %d",
             f->in.path, f->n_dense, n);
  if (!names.n && !scales) goto done; /* in their order */
  if (n || (scales && !c->model.dense_features)) f->n_dense = n;
  TS_TRY(pick_columns(d, f, &names, n));
done:
  for (int32_t i = 0; names.item && i < names.n; i++)
    ts_mem_free(names.item[i]);
  ts_mem_free(names.item);
  return err;
}

ts_err ts_dataset_dense_room(ts_dataset_file *f, int32_t n, float **to) {
  if (!f->pick) return TS_OK;
  const size_t bytes = (size_t)n * (size_t)f->dense.cols * sizeof *f->wide;
  TS_DO(ts_mem_reserve(&f->wide, &f->wide_bytes, bytes, TS_TAG_INPUT));
  *to = f->wide;
  return TS_OK;
}

/* A row of the file's through the scales. */
static ts_err scale_row(const ts_dataset *d, const ts_dataset_file *f,
                        ts_batch_store *s, const float *x, int64_t row,
                        int64_t place) {
  ts_scales *scales = d->base.scales;
  float *dense = s->dense + place * s->batch.n_dense;
  for (int32_t i = 0; i < ts_scales_count(scales); i++) {
    const double number = x[f->pick[i]];
    if (!isfinite(number))
      return ts_fail(TS_ERR_DATA,
                     "%s: sample %lld: column \"%s\" is %g, and transforms "
                     "take finite numbers",
                     f->in.path, (long long)row, ts_scales_name(scales, i),
                     number);
    if (d->base.learning)
      TS_DO(ts_scales_learn(scales, i, f->first + row, number));
    else if (i < f->n_dense)
      ts_scales_put(scales, i, number, dense);
  }
  for (int32_t k = 0; k < d->n_features; k++)
    if (d->ids[k].input >= 0 && !ts_batch_store_is_same(s, k))
      s->feature[k].ids[place] = ts_scales_bucket(scales, d->ids[k].input,
                                                  x[f->pick[d->ids[k].input]]);
  return TS_OK;
}

ts_err ts_dataset_pick(const ts_dataset *d, const ts_dataset_file *f,
                       ts_batch_store *s, int64_t from, int64_t row,
                       int64_t place) {
  const float *x = f->wide + from * f->dense.cols;
  if (d->base.scales) return scale_row(d, f, s, x, row, place);
  float *dense = s->dense + place * f->n_dense;
  for (int32_t i = 0; i < f->n_dense; i++) dense[i] = x[f->pick[i]];
  return ts_dataset_check_dense(f, dense, row, 1, f->n_dense);
}

void ts_dataset_no_dense(const ts_dataset *d, ts_batch_store *s, int64_t place,
                         int32_t n) {
  const int32_t width = s->batch.n_dense;
  if (width) memset(s->dense + place * width, 0, (size_t)n * width * 4);
  for (int32_t k = 0; k < d->n_features; k++)
    if (d->ids[k].input >= 0 && !ts_batch_store_is_same(s, k))
      memset(s->feature[k].ids + place, 0, (size_t)n * 8);
}

ts_err ts_dataset_begin(ts_dataset *d, ts_batch_store *s, int32_t n) {
  const ts_source_info *info = &d->base.info;
  TS_DO(ts_batch_store_begin(
      s, n, info->n_tasks, ts_dense_width(d->base.config), info->has_weights));
  for (int32_t i = 0; i < d->n_features; i++)
    if (d->ids[i].input >= 0 && !ts_batch_store_is_same(s, i))
      TS_DO(ts_batch_store_feature(s, i, n, TS_BAGS_ONE, false));
  return TS_OK;
}

/* ---- checks ------------------------------------------------------------- */

ts_err ts_dataset_check_rows(const ts_dataset_file *f, const ts_array *a,
                             const char *name, int64_t rows) {
  if (a->set < 0 || a->rows == rows) return TS_OK;
  return ts_fail(TS_ERR_DATA, "%s: %s has %lld rows, %lld are expected",
                 f->in.path, name, (long long)a->rows, (long long)rows);
}

/* A layer can turn what is not a number into zero and still poison its
 * weights, so the loss does not show it. */
ts_err ts_dataset_check_dense(const ts_dataset_file *f, const float *x,
                              int64_t row, int32_t n, int32_t cols) {
  for (int64_t i = 0; i < (int64_t)n * cols; i++)
    if (isnan(x[i]))
      return ts_fail(TS_ERR_DATA,
                     "%s: sample %lld: dense feature %d is not a number",
                     f->in.path, (long long)(row + i / cols), (int)(i % cols));
  return TS_OK;
}

ts_err ts_dataset_check_weights(const ts_dataset_file *f, const float *x,
                                int64_t row, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (!(x[i] >= 0 && x[i] < INFINITY))
      return ts_fail(TS_ERR_DATA,
                     "%s: sample %lld: its weight is no number from 0 on: %g",
                     f->in.path, (long long)(row + i), (double)x[i]);
  return TS_OK;
}

/* ---- labels -------------------------------------------------------------- */

/* The dataset of the labels. */
static ts_err labels_of(const ts_config *c, const char **name) {
  const ts_column_config *given = ts_column_given_label(c, 0);
  *name = "labels";
  if (!given || !*given->from) return TS_OK;
  *name = given->from;
  if (c->model.n_tasks == 1) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "data.columns: label \"%s\" has from, and data sets have the "
                 "labels of several tasks in one: /labels, in the tasks' order",
                 given->name);
}

/* To predict they may be absent, and nothing is known of the labels then. */
static ts_err open_where(ts_dataset *d, ts_dataset_file *f, int32_t k) {
  const char *name = ts_column_where(d->base.config, k);
  f->where[k].set = -1;
  if (!name) return TS_OK;
  TS_DO(ts_array_open(&f->where[k], &f->in, name, 1, H5T_NATIVE_FLOAT, 4,
                      !ts_split_is_unlabelled(d->base.split)));
  d->base.info.unlabelled |= f->where[k].set < 0;
  return ts_dataset_check_rows(f, &f->where[k], name, f->n);
}

ts_err ts_dataset_open_labels(ts_dataset *d, ts_dataset_file *f) {
  const ts_config *c = d->base.config;
  const char *name = "labels";
  if (f->in.arrays) {
    TS_DO(ts_dataset_npy_labels(d, f));
  } else {
    TS_DO(labels_of(c, &name));
    TS_DO(ts_array_open(&f->labels, &f->in, name, 2, H5T_NATIVE_FLOAT, 4,
                        d->base.split != TS_SPLIT_ITEMS));
  }
  TS_DO(ts_dataset_check_rows(f, &f->labels, name, f->n));
  TS_DO(ts_mem_many(f->where, c->model.n_tasks, INPUT));
  for (int32_t k = 0; k < c->model.n_tasks; k++) f->where[k].set = -1;
  for (int32_t k = 0; k < c->model.n_tasks; k++) TS_DO(open_where(d, f, k));
  return TS_OK;
}

/* What is wrong with label Y, which KIND says, NULL: the deck does not list it;
 * NULL: nothing. */
static const char *wrong_with(float y, const char *kind) {
  if (!kind || !strcmp(kind, "real")) return isfinite(y) ? NULL : "no number";
  if (!strcmp(kind, "soft"))
    return y >= 0 && y <= 1 ? NULL : "no number from 0 to 1";
  const bool class = !strcmp(kind, "class");
  if (class || !strcmp(kind, "count"))
    return isfinite(y) && y >= 0 && y == floorf(y) ? NULL
           : class                                 ? "no class"
                                                   : "no count";
  return y == 0 || y == 1 ? NULL : "neither 0 nor 1";
}

/* Checks the labels of task K: its number of classes is known once there is a
 * model.  Labels whose sample does not count for the task are not checked. */
static ts_err check_labels(const ts_dataset *d, const ts_dataset_file *f,
                           int32_t k, float *y, int64_t row, int32_t n) {
  const ts_config *c = d->base.config;
  const ts_column_config *x = ts_column_given_label(c, k);
  const bool masked = f->where[k].set >= 0;
  const char *const kind = x ? x->label
                           : ts_task_is_of_classes(&c->model.tasks[k]) ? "class"
                                                                       : NULL;
  const int32_t classes = c->model.tasks[k].classes;
  if (ts_task_is_of_items(&c->model.tasks[k])) return TS_OK; /* it has none */
  const char *why;
  char none[80];
  snprintf(none, sizeof none, "none of its %d classes, which are 0 to %d",
           classes, classes - 1);
  for (int32_t i = 0; i < n; i++) {
    float *label = &y[(int64_t)i * d->base.info.n_tasks + k];
    if (masked && d->where[i] != 0 && d->where[i] != 1)
      return ts_fail(TS_ERR_DATA,
                     "%s: sample %lld: \"%s\" is %g, neither 0 nor 1",
                     f->in.path, (long long)(row + i), ts_column_where(c, k),
                     (double)d->where[i]);
    if (masked && d->where[i] == 0) {
      *label = NAN;
      continue;
    }
    if (!x && ts_split_is_unlabelled(d->base.split)) continue;
    why = wrong_with(*label, kind);
    if (!why && classes && *label >= (float)classes) why = none;
    if (why)
      return ts_fail(TS_ERR_DATA, "%s: sample %lld: label \"%s\" is %g, %s",
                     f->in.path, (long long)(row + i),
                     x ? x->name : c->model.tasks[k].name, (double)*label, why);
  }
  return TS_OK;
}

ts_err ts_dataset_check_labels(ts_dataset *d, const ts_dataset_file *f,
                               float *y, int64_t row, int32_t n) {
  const size_t bytes = (size_t)n * sizeof *d->where;
  for (int32_t k = 0; k < d->base.info.n_tasks; k++) {
    if (f->where[k].set >= 0) {
      TS_DO(ts_mem_reserve(&d->where, &d->where_bytes, bytes, TS_TAG_INPUT));
      TS_DO(ts_array_read(&f->in, &f->where[k], d->where, row, n));
    }
    TS_DO(check_labels(d, f, k, y, row, n));
  }
  return TS_OK;
}

/* ---- ids ----------------------------------------------------------------- */

void ts_dataset_ids_of(const ts_dataset *d, int32_t i, ts_dataset_ids *ids) {
  const ts_config *c = d->base.config;
  const ts_column_config x = ts_column_of_feature(c, i);
  const char *encoding = ts_column_encoding(c, i, "none");
  ids->hash = !strcmp(encoding, "hash");
  ids->modulo = !strcmp(encoding, "modulo");
  ids->words = !strcmp(encoding, "vocabulary");
  ids->start = x.seed ? ts_mix64((uint64_t)x.seed) : 0;
  ids->max_length = x.max_length;
  ids->newest = !strcmp(x.truncate, "oldest");
  ids->input = ts_scales_of_feature(d->base.scales, i);
}

static int64_t row_of(const ts_dataset_ids *x, int64_t id, int64_t rows) {
  const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
  if (x->hash)
    return (int64_t)(ts_mix64(((uint64_t)id + step) ^ x->start) %
                     (uint64_t)rows);
  if (rows == TS_ROWS_DYNAMIC) return id;
  return id % rows + (id % rows < 0 ? rows : 0);
}

ts_err ts_dataset_encode(const ts_dataset *d, ts_batch_store *s, int32_t i) {
  const ts_dataset_ids *x = &d->ids[i];
  const int64_t rows = s->of[i].rows;
  if (x->max_length) TS_DO(ts_batch_store_cut(s, i, x->max_length, x->newest));
  int64_t *ids = s->feature[i].ids;
  const int64_t n = s->batch.kjt.features[i].n_ids;
  for (int64_t k = 0; (x->hash || x->modulo) && k < n; k++)
    ids[k] = row_of(x, ids[k], rows);
  for (int64_t k = 0; x->words && k < n; k++)
    ids[k] =
        ts_vocabularies_row_of_number(d->base.vocabularies, i, ids[k], false);
  return TS_OK;
}
