/* dataset_npy_ids.c - features' ids in NumPy's arrays: one of the feature's
 * name, (N) or (N, K); NAME_values with NAME_offsets or NAME_lengths; or a
 * column of MLPerf's arrays of all features. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/columns.h"
#include "io/dataset_npy.h"

/* The column, from 0, that NAME says: 7, cat_7 or C8; -1: none. */
static int32_t numbered(const char *name) {
  const int from = *name == 'C';
  const char *p = name + (from ? 1 : !strncmp(name, "cat_", 4) ? 4 : 0);
  const size_t n = strspn(p, "0123456789");
  return n && n < 6 && !p[n] ? atoi(p) - from : -1;
}

/* *OWN: feature NAME has arrays of its own, so it is no column of sparse. */
static ts_err has_own(const ts_dataset_file *f, const char *name, bool *own) {
  char full[600];
  const ts_named_array *x;
  TS_DO(ts_arrays_find(f->in.arrays, name, &x));
  snprintf(full, sizeof full, "%.500s_values", name);
  if (!x) TS_DO(ts_arrays_find(f->in.arrays, full, &x));
  *own = x != NULL;
  return TS_OK;
}

/* The column of feature I among all features': by their names, else in the
 * order of the deck, without those that have arrays of their own. */
static ts_err column_of(const ts_dataset *d, const ts_dataset_file *f,
                        int32_t i, int32_t *column) {
  ts_err err = TS_OK;
  const ts_config *c = d->base.config;
  ts_feature_columns m;
  bool named = true;
  TS_DO(ts_feature_columns_create(&m, c));
  *column = 0;
  for (int32_t k = 0; k < d->n_features; k++) {
    const char *name = ts_column_of_feature(c, k).from;
    bool own;
    if (d->ids[k].input >= 0 || m.first[k] != k) continue;
    TS_TRY(has_own(f, name, &own));
    if (own) continue;
    named &= numbered(name) >= 0;
    *column += k < m.first[i];
  }
  if (named) *column = numbered(ts_column_of_feature(c, i).from);
  if (!named && ts_columns_have_ids(c)) *column = -1;
done:
  ts_feature_columns_reset(&m);
  return err;
}

static ts_err find_column(const ts_dataset *d, const ts_dataset_file *f,
                          int32_t i, ts_npy_feature *x) {
  int32_t k;
  TS_DO(column_of(d, f, i, &k));
  if (k < 0) return TS_OK;
  TS_DO(ts_arrays_find_multi_hot(f->in.arrays, k, &x->ids));
  if (x->ids) return ts_npy_check_shape(x->ids, 2);
  TS_DO(ts_arrays_find(f->in.arrays, "sparse", &x->ids));
  if (!x->ids) return TS_OK;
  x->column = k;
  TS_DO(ts_npy_check_shape(x->ids, 2));
  if (x->ids->is.n_dims == 2 && k < x->ids->is.dims[1]) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "%s: %s has no column %d, which the deck asks for",
                 x->ids->path, x->ids->name, k);
}

ts_err ts_npy_find_feature(const ts_dataset *d, const ts_dataset_file *f,
                           int32_t i, const char *name, ts_npy_feature *x) {
  char full[600];
  *x = (ts_npy_feature){.column = -1};
  TS_DO(ts_arrays_find(f->in.arrays, name, &x->ids));
  if (x->ids) return ts_npy_check_shape(x->ids, 2);
  snprintf(full, sizeof full, "%.500s_values", name);
  TS_DO(ts_arrays_find(f->in.arrays, full, &x->ids));
  if (!x->ids) return find_column(d, f, i, x);
  snprintf(full, sizeof full, "%.500s_offsets", name);
  TS_DO(ts_arrays_find(f->in.arrays, full, &x->offsets));
  snprintf(full, sizeof full, "%.500s_lengths", name);
  if (!x->offsets) TS_DO(ts_arrays_find(f->in.arrays, full, &x->lengths));
  if (x->offsets || x->lengths) return ts_npy_check_shape(x->ids, 1);
  return ts_fail(TS_ERR_DATA,
                 "%s: %s has neither %.500s_offsets nor %.500s_lengths, which "
                 "say where samples end",
                 x->ids->path, x->ids->name, name, name);
}

/* Offsets of N samples, from their lengths. */
static ts_err sum_lengths(ts_dataset_file *f, ts_dataset_feature *to,
                          const ts_named_array *x) {
  ts_array lengths = {.size = 8, .type = H5T_NATIVE_INT64};
  int64_t *ends;
  TS_DO(ts_npy_open(&lengths, f->in.arrays, x, TS_VIEW_TO_I64, 1));
  TS_DO(ts_dataset_check_rows(f, &lengths, x->name, f->n));
  TS_DO(ts_arrays_room(f->in.arrays, &ends, f->n + 1, sizeof *ends));
  TS_DO(ts_array_read(&f->in, &lengths, ends + 1, 0, f->n));
  for (int64_t i = 0; i < f->n; i++) {
    if (ends[i + 1] < 0 || ends[i + 1] > to->values.rows - ends[i])
      return ts_fail(TS_ERR_DATA,
                     "%s: %s of sample %lld is %lld: less than 0, or more than "
                     "there are values left",
                     x->path, x->name, (long long)i, (long long)ends[i + 1]);
    ends[i + 1] += ends[i];
  }
  if (ends[f->n] != to->values.rows)
    return ts_fail(TS_ERR_DATA, "%s: %s add up to %lld, and there are %lld ids",
                   x->path, x->name, (long long)ends[f->n],
                   (long long)to->values.rows);
  to->offsets = (ts_array){.set = 0,
                           .at = -1,
                           .base = (const char *)ends,
                           .rows = f->n + 1,
                           .cols = 1,
                           .size = 8};
  return TS_OK;
}

/* COLS ids in each sample. */
static ts_err steps(ts_dataset_file *f, ts_array *offsets, int64_t cols) {
  *offsets = (ts_array){.set = 0,
                        .at = -1,
                        .rows = f->n + 1,
                        .cols = 1,
                        .size = 8,
                        .n_views = 1,
                        .as = TS_VIEW_TO_I64};
  TS_DO(
      ts_arrays_room(f->in.arrays, &offsets->views, 1, sizeof(ts_array_view)));
  offsets->views[0] =
      (ts_array_view){.type = TS_VIEW_STEPS, .row_bytes = cols, .cols = 1};
  return TS_OK;
}

static ts_err open_bags(ts_dataset_file *f, ts_dataset_feature *to,
                        const ts_npy_feature *x) {
  if (x->lengths) return sum_lengths(f, to, x->lengths);
  int64_t first = 0, last = 0;
  TS_DO(ts_npy_open(&to->offsets, f->in.arrays, x->offsets, TS_VIEW_TO_I64, 1));
  TS_DO(ts_dataset_check_rows(f, &to->offsets, x->offsets->name, f->n + 1));
  TS_DO(ts_array_read(&f->in, &to->offsets, &first, 0, 1));
  TS_DO(ts_array_read(&f->in, &to->offsets, &last, f->n, 1));
  if (!first && last == to->values.rows) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "%s: %s go from %lld to %lld, and there are %lld ids",
                 x->ids->path, x->offsets->name, (long long)first,
                 (long long)last, (long long)to->values.rows);
}

static ts_err open_weights(ts_dataset_file *f, ts_dataset_feature *to,
                           const char *name, const ts_npy *ids) {
  char full[600];
  const ts_named_array *x;
  snprintf(full, sizeof full, "%.500s_weights", name);
  TS_DO(ts_arrays_find(f->in.arrays, full, &x));
  if (!x)
    return ts_fail(TS_ERR_DATA,
                   "%s: has no array %s, and the table is weighted", f->in.path,
                   full);
  TS_DO(ts_npy_check_shape(x, 2));
  if (ids->n_dims == 2 && x->is.n_dims == 2 && ids->dims[1] != x->is.dims[1])
    return ts_fail(
        TS_ERR_DATA, "%s: %s has %lld numbers in a row, and %s %lld ids",
        x->path, full, (long long)x->is.dims[1], name, (long long)ids->dims[1]);
  to->weights.rows = x->is.n_bytes / x->is.size;
  TS_DO(ts_npy_view(&to->weights, f->in.arrays, x, TS_VIEW_TO_F32, 0, 1,
                    x->is.size));
  return ts_dataset_check_rows(f, &to->weights, full, to->values.rows);
}

ts_err ts_dataset_npy_feature(ts_dataset *d, ts_dataset_file *f, int32_t i) {
  const ts_config *c = d->base.config;
  ts_dataset_feature *to = &f->features[i];
  ts_npy_feature x;
  const bool weighted = ts_feature_table(c, i, NULL)->weighted;
  const char *name = ts_column_of_feature(c, i).from;
  TS_DO(ts_npy_find_feature(d, f, i, name, &x));
  if (d->base.lacks) d->base.lacks[i] |= !x.ids;
  if (!x.ids && d->base.lacks) return TS_OK;
  if (!x.ids)
    return ts_fail(TS_ERR_DATA,
                   "%s: has no array %s, nor %s_values, nor a column of sparse "
                   "for it",
                   f->in.path, name, name);
  const ts_npy *is = &x.ids->is;
  const int64_t cols = is->n_dims > 1 ? is->dims[1] : 1;
  const bool bags = x.offsets || x.lengths;
  to->values.set = 0;
  to->values.rows = is->dims[0];
  if (!bags) TS_DO(ts_dataset_check_rows(f, &to->values, x.ids->name, f->n));
  if (x.column < 0) to->values.rows *= cols;
  TS_DO(ts_npy_view(&to->values, f->in.arrays, x.ids, TS_VIEW_TO_I64,
                    x.column < 0 ? 0 : x.column, 1,
                    x.column < 0 ? is->size : cols * is->size));
  if (bags)
    TS_DO(open_bags(f, to, &x));
  else if (x.column < 0 && cols != 1)
    TS_DO(steps(f, &to->offsets, cols));
  return weighted ? open_weights(f, to, name, is) : TS_OK;
}
