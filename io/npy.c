/* npy.c - data.format = "npy": data sets of NumPy's arrays (doc/formats.md).
 *
 * Labels, dense numbers and samples' weights are arrays of the names that they
 * have in HDF5.  Files are opened here; then dataset.c reads them as it does
 * HDF5's. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/columns.h"
#include "io/dataset_npy.h"
#include "io/dataset_write.h"
#include "io/keys.h"

/* An array, or an archive whose first member is one. */
static bool probe(const char *path) {
  char head[600] = {0};
  FILE *f = fopen(path, "rb");
  const size_t n = f ? fread(head, 1, sizeof head - 1, f) : 0;
  if (f) fclose(f);
  if (n >= 6 && !memcmp(head, "\223NUMPY", 6)) return true;
  if (n < 30 || memcmp(head, "PK\3\4", 4) != 0) return false;
  const size_t length = (unsigned char)head[26];
  return length > 4 && !head[27] && !strncmp(head + 30 + length - 4, ".npy", 4);
}

/* ---- how many samples ---------------------------------------------------- */

/* Takes the number of samples from array NAME, unless it is known already; it
 * stays -1 where there is no such array. */
static ts_err count_by(const ts_dataset_file *f, const char *name, int64_t *n) {
  const ts_named_array *x;
  if (*n >= 0) return TS_OK;
  TS_DO(ts_arrays_find(f->in.arrays, name, &x));
  if (!x) return TS_OK;
  TS_DO(ts_npy_check_shape(x, 2));
  *n = x->is.dims[0];
  return TS_OK;
}

static ts_err count_by_feature(const ts_dataset *d, const ts_dataset_file *f,
                               int32_t i, int64_t *n) {
  const char *name = ts_column_of_feature(d->base.config, i).from;
  ts_npy_feature x;
  if (*n >= 0 || d->ids[i].input >= 0) return TS_OK;
  TS_DO(ts_npy_find_feature(d, f, i, name, &x));
  if (!x.ids) return TS_OK;
  const ts_named_array *by = x.offsets   ? x.offsets
                             : x.lengths ? x.lengths
                                         : x.ids;
  TS_DO(ts_npy_check_shape(by, by == x.ids ? 2 : 1));
  *n = by->is.dims[0] - (by == x.offsets);
  return TS_OK;
}

/* As labels have rows, else dense numbers, else the first feature. */
static ts_err count(const ts_dataset *d, ts_dataset_file *f) {
  ts_err err = TS_OK;
  const ts_config *c = d->base.config;
  ts_strings names = {0};
  int64_t n = -1;
  TS_TRY(ts_npy_dense_names(d, &names));
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const ts_column_config *given = ts_column_given_label(c, k);
    if (given && *given->from) TS_TRY(count_by(f, given->from, &n));
  }
  TS_TRY(count_by(f, "labels", &n));
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    TS_TRY(count_by(f, ts_column_of_label(c, k).from, &n));
  TS_TRY(count_by(f, "dense", &n));
  for (int32_t k = 0; k < names.n; k++) TS_TRY(count_by(f, names.item[k], &n));
  for (int32_t i = 0; i < d->n_features; i++)
    TS_TRY(count_by_feature(d, f, i, &n));
  if (n < 0)
    TS_THROW(TS_ERR_DATA, "%s: has none of the arrays that the deck names",
             f->in.path);
  f->n = n;
done:
  ts_mem_free(names.item);
  return err;
}

/* ---- opening ------------------------------------------------------------- */

static ts_err start(ts_dataset *d, ts_dataset_file *f, const char *path) {
  const ts_err err = ts_arrays_open(&f->in.arrays, path);
  TS_DO(ts_mem_strdup(&f->in.path,
                      err == TS_OK ? ts_arrays_path(f->in.arrays) : path));
  TS_DO(err);
  return count(d, f);
}

extern const ts_source_ops ts_source_npy;

static ts_err open_source(ts_source **out, const ts_config *c, ts_split split,
                          const char *state, const ts_strings *paths,
                          ts_comm *comm) {
  ts_err err = TS_OK;
  ts_strings sets = {0};
  TS_TRY(ts_agree(comm, ts_arrays_sets(&sets, paths)));
  TS_TRY(ts_dataset_open(out, &ts_source_npy, start, c, split, state, &sets,
                         comm));
  ts_dataset *d = (ts_dataset *)*out;
  for (int32_t i = 0; i < d->n_files; i++)
    d->base.info.bytes += ts_arrays_bytes(d->files[i].in.arrays);
done:
  ts_source_files_free(&sets);
  return err;
}

const ts_source_ops ts_source_npy = {.format = "npy",
                                     .seekable = true,
                                     .plain_ids = true,
                                     .has_where = true,
                                     .has_items = true,
                                     .probe = probe,
                                     .needs = ts_dataset_needs,
                                     .open = open_source,
                                     .close = ts_dataset_close,
                                     .learn = ts_dataset_learn,
                                     .state_save = ts_source_save_learnt,
                                     .read = ts_dataset_read,
                                     .gather = ts_dataset_gather,
                                     .lengths = ts_dataset_lengths,
                                     .keys = ts_keys_of_npy};
