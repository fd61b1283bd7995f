/* dataset_npy.c - arrays of NumPy's as those of a data set; labels and dense
 * numbers. */
#include "io/dataset_npy.h"

#include <string.h>

#include "base/mem.h"
#include "io/columns.h"

/* More dense features or tasks than any model takes. */
enum { COLUMNS_MAX = 1 << 24 };

/* ---- arrays -------------------------------------------------------------- */

static ts_err refuse(const ts_named_array *x, const char *wanted) {
  char shape[256];
  return ts_fail(TS_ERR_DATA, "%s: %s is %s of type %s, and not %s", x->path,
                 x->name, ts_npy_shape(shape, x->is.n_dims, x->is.dims),
                 x->is.type, wanted);
}

ts_err ts_npy_view(ts_array *a, ts_arrays *in, const ts_named_array *x,
                   ts_view_to as, int64_t column, int64_t cols,
                   int64_t row_bytes) {
  ts_array_view v = {.data = x->data + column * x->is.size,
                     .row_bytes = row_bytes,
                     .cols = cols};
  a->set = 0;
  a->at = -1;
  a->cols = cols;
  a->size = as == TS_VIEW_TO_F32 ? 4 : 8;
  a->as = as;
  if (!ts_view_type_of(&v.type, x->is.kind, x->is.size))
    return refuse(x, "of numbers: astype gives one that is");
  if (as == TS_VIEW_TO_I64 && v.type >= TS_VIEW_F16)
    return refuse(x, "of integers: astype(np.int64) gives one that is");
  const bool plain = (as == TS_VIEW_TO_F32 && v.type == TS_VIEW_F32) ||
                     (as == TS_VIEW_TO_I64 && v.type == TS_VIEW_I64) ||
                     (as == TS_VIEW_TO_F64 && v.type == TS_VIEW_F64);
  if (plain && row_bytes == cols * x->is.size) {
    a->base = v.data;
    return TS_OK;
  }
  TS_DO(ts_arrays_room(in, &a->views, 1, sizeof v));
  a->views[0] = v;
  a->n_views = 1;
  return TS_OK;
}

ts_err ts_npy_check_shape(const ts_named_array *x, int rank_max) {
  const int64_t cols = x->is.n_dims > 1 ? x->is.dims[1] : 1;
  if (x->is.n_dims < 1 || x->is.n_dims > 2 || (rank_max == 1 && cols != 1))
    return refuse(x, rank_max == 1 ? "(N)" : "(N) or (N, K)");
  if (x->is.dims[0] > INT64_MAX / 64 || cols > COLUMNS_MAX ||
      (cols < 1 && x->is.dims[0]))
    return refuse(x, "of so many elements");
  return TS_OK;
}

ts_err ts_npy_open(ts_array *a, ts_arrays *in, const ts_named_array *x,
                   ts_view_to as, int rank_max) {
  TS_DO(ts_npy_check_shape(x, rank_max));
  const int64_t cols = x->is.n_dims > 1 ? x->is.dims[1] : 1;
  a->rows = x->is.dims[0];
  return ts_npy_view(a, in, x, as, 0, cols, cols * x->is.size);
}

ts_err ts_array_open_npy(ts_array *a, const ts_array_file *f, const char *name,
                         int rank_max, bool required) {
  const ts_named_array *x;
  const ts_view_to as = a->size == 4                  ? TS_VIEW_TO_F32
                        : a->type == H5T_NATIVE_INT64 ? TS_VIEW_TO_I64
                                                      : TS_VIEW_TO_F64;
  TS_DO(ts_arrays_find(f->arrays, name, &x));
  if (x) return ts_npy_open(a, f->arrays, x, as, rank_max);
  return required ? ts_fail(TS_ERR_DATA, "%s: has no array %s", f->path, name)
                  : TS_OK;
}

ts_err ts_array_read_npy(const ts_array_file *f, const ts_array *a, void *to,
                         int64_t first, int64_t n) {
  char *at = to;
  for (int32_t k = 0; k < a->n_views; k++) {
    ts_view_read(&a->views[k], a->as, at, a->cols, first, n);
    at += a->views[k].cols * (int64_t)a->size;
  }
  if (a->views[0].type != TS_VIEW_U64 || a->as != TS_VIEW_TO_I64) return TS_OK;
  for (int64_t i = 0; i < n * a->cols; i++)
    if (((int64_t *)to)[i] < 0)
      return ts_fail(TS_ERR_DATA, "%s: row %lld: %llu is no id below 2^63",
                     f->path, (long long)(first + i / a->cols),
                     (unsigned long long)((int64_t *)to)[i]);
  return TS_OK;
}

/* The columns NAMES, an array each, as rows; set -1 where one of them is absent
 * and may be. */
static ts_err assemble(ts_array *a, const ts_array_file *f,
                       const ts_strings *names, bool required) {
  ts_array_view *views;
  *a = (ts_array){.set = -1, .at = -1, .cols = names->n, .size = 4};
  TS_DO(ts_arrays_room(f->arrays, &views, names->n, sizeof *views));
  for (int32_t k = 0; k < names->n; k++) {
    ts_array one = {.size = 4};
    const ts_named_array *x;
    TS_DO(ts_arrays_find(f->arrays, names->item[k], &x));
    if (!x && !required) return TS_OK;
    if (!x)
      return ts_fail(TS_ERR_DATA, "%s: has no array %s", f->path,
                     names->item[k]);
    TS_DO(ts_npy_open(&one, f->arrays, x, TS_VIEW_TO_F32, 1));
    if (k && one.rows != a->rows)
      return ts_fail(TS_ERR_DATA, "%s: %s has %lld rows, %s %lld", f->path,
                     names->item[k], (long long)one.rows, names->item[0],
                     (long long)a->rows);
    a->rows = one.rows;
    views[k] = (ts_array_view){x->data, TS_VIEW_F32, 4, 1};
    if (one.views) views[k] = one.views[0];
  }
  a->set = 0;
  a->views = views;
  a->n_views = names->n;
  return TS_OK;
}

/* ---- labels and dense numbers -------------------------------------------- */

ts_err ts_dataset_npy_labels(ts_dataset *d, ts_dataset_file *f) {
  ts_err err = TS_OK;
  const ts_config *c = d->base.config;
  const bool required = !ts_split_is_unlabelled(d->base.split);
  const ts_column_config *given = ts_column_given_label(c, 0);
  const ts_named_array *x = NULL;
  ts_strings names = {0};
  f->labels = (ts_array){.set = -1, .size = 4, .type = H5T_NATIVE_FLOAT};
  if (!given || !*given->from)
    TS_DO(ts_arrays_find(f->in.arrays, "labels", &x));
  if (x) return ts_npy_open(&f->labels, f->in.arrays, x, TS_VIEW_TO_F32, 2);
  if (required && !given && c->model.n_tasks == 1)
    return ts_fail(TS_ERR_DATA, "%s: has no array labels", f->in.path);
  TS_TRY(ts_mem_many(names.item, c->model.n_tasks, INPUT));
  for (; names.n < c->model.n_tasks; names.n++)
    names.item[names.n] = ts_column_of_label(c, names.n).from;
  TS_TRY(assemble(&f->labels, &f->in, &names, required));
  d->base.info.unlabelled |= f->labels.set < 0;
done:
  ts_mem_free(names.item); /* the texts are the deck's */
  return err;
}

ts_err ts_npy_dense_names(const ts_dataset *d, ts_strings *names) {
  const ts_config *c = d->base.config;
  const int32_t n = ts_column_n_dense(c);
  TS_DO(ts_mem_many(names->item, n + d->n_features, INPUT));
  for (int32_t i = 0; i < n + d->n_features; i++) {
    if (i >= n && d->ids[i - n].input < 0) continue;
    char *from = i < n ? ts_column_of_dense(c, i).from
                       : ts_column_of_feature(c, i - n).from;
    int32_t k = 0;
    while (k < names->n && strcmp(names->item[k], from) != 0) k++;
    names->item[k] = from;
    names->n += k == names->n;
  }
  return TS_OK;
}

ts_err ts_dataset_npy_dense(ts_dataset *d, ts_dataset_file *f) {
  ts_err err = TS_OK;
  const int32_t n = ts_column_n_dense(d->base.config);
  const ts_named_array *x;
  ts_strings names = {0};
  f->dense = (ts_array){.set = -1, .size = 4, .type = H5T_NATIVE_FLOAT};
  TS_TRY(ts_arrays_find(f->in.arrays, "dense", &x));
  if (x) TS_TRY(ts_npy_open(&f->dense, f->in.arrays, x, TS_VIEW_TO_F32, 2));
  if (x && n && f->dense.cols != n)
    TS_THROW(TS_ERR_DATA, "%s: dense has %lld columns, data.columns lists %d",
             f->in.path, (long long)f->dense.cols, n);
  if (x) goto done;
  TS_TRY(ts_npy_dense_names(d, &names));
  if (names.n) TS_TRY(assemble(&f->dense, &f->in, &names, !d->base.lacks));
done:
  ts_mem_free(names.item);
  return err;
}

ts_err ts_dataset_npy_names(const ts_dataset *d, const ts_dataset_file *f,
                            ts_strings *names) {
  const ts_named_array *x;
  TS_DO(ts_arrays_find(f->in.arrays, "dense", &x));
  if (x) return TS_OK; /* by their order */
  TS_DO(ts_npy_dense_names(d, names));
  const int32_t n = names->n;
  for (names->n = 0; names->n < n; names->n++)
    TS_DO(ts_mem_strdup(&names->item[names->n], names->item[names->n]));
  return TS_OK;
}
