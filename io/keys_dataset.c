/* keys_dataset.c - keys of data sets: datasets, or arrays, of one number a
 * sample. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/arrays.h"
#include "io/columns.h"
#include "io/dataset_array.h"
#include "io/hdf5.h"
#include "io/keys.h"

typedef struct ts_keys_file {
  ts_array_file in;
  int64_t first, n;
  ts_array *arrays; /* (columns) */
} ts_keys_file;

typedef struct ts_dataset_keys {
  ts_keys base;
  ts_keys_file *files;
  int32_t n_files;
  const ts_config *config;
  bool npy;
} ts_dataset_keys;

static void close_keys(ts_keys *base) {
  ts_dataset_keys *k = (ts_dataset_keys *)base;
  ts_hdf5_lock();
  for (int32_t i = 0; i < k->n_files; i++) {
    ts_keys_file *f = &k->files[i];
    for (int32_t c = 0; f->arrays && !k->npy && c < base->n; c++)
      ts_array_close(&f->arrays[c]);
    if (f->in.file >= 0) H5Fclose(f->in.file);
    if (f->in.fd >= 0) close(f->in.fd);
    ts_mem_free_all(f->arrays, f->in.path);
  }
  ts_hdf5_unlock();
  for (int32_t i = 0; i < k->n_files; i++)
    ts_arrays_close(k->files[i].in.arrays);
  ts_mem_free_all(k->files, k);
}

/* Which dataset NAME is: one of the root, or a feature's ids where each sample
 * has one; and whether it has integers.  False where there is none. */
static bool find_set(hid_t file, const char *name, char path[600],
                     bool *integers) {
  char group[600], offsets[600];
  snprintf(group, sizeof group, "sparse/%.500s", name);
  snprintf(offsets, sizeof offsets, "%.560s/offsets", group);
  snprintf(path, 600, "%.500s", name);
  if (!*name || strchr(name, '/')) return false;
  ts_hdf5_lock();
  bool found = H5Lexists(file, name, H5P_DEFAULT) > 0;
  if (!found && H5Lexists(file, "sparse", H5P_DEFAULT) > 0 &&
      H5Lexists(file, group, H5P_DEFAULT) > 0) {
    found = H5Lexists(file, offsets, H5P_DEFAULT) <= 0;
    snprintf(path, 600, "%.560s/values", group);
  }
  const hid_t set = found ? H5Dopen2(file, path, H5P_DEFAULT) : -1;
  const hid_t type = set >= 0 ? H5Dget_type(set) : -1;
  *integers = type >= 0 && H5Tget_class(type) == H5T_INTEGER;
  if (type >= 0) H5Tclose(type);
  if (set >= 0) H5Dclose(set);
  ts_hdf5_unlock();
  return found;
}

/* The same of NumPy's arrays, which are called as columns are. */
static ts_err find_array(const ts_keys_file *f, const char *name,
                         char path[600], bool *found, bool *integers) {
  const ts_named_array *x;
  snprintf(path, 600, "%.500s", name);
  TS_DO(ts_arrays_find(f->in.arrays, path, &x));
  *found = x != NULL;
  *integers = x && x->is.kind != 'f';
  return TS_OK;
}

static ts_err open_column(ts_dataset_keys *k, ts_keys_file *f, int32_t c) {
  ts_sheet_column *column = &k->base.columns[c];
  char path[600];
  bool integers = false, found = false;
  const char *name = ts_column_from(k->config, column->name);
  if (f->in.arrays)
    TS_DO(find_array(f, name, path, &found, &integers));
  else
    found = find_set(f->in.file, name, path, &integers);
  if (!found)
    return ts_fail(TS_ERR_DATA,
                   "--keys: %s: has no dataset \"%s\" of one number a sample, "
                   "nor a feature of that name with one id a sample",
                   f->in.path, name);
  if (f == k->files) column->kind = integers ? TS_SHEET_I64 : TS_SHEET_F64;
  ts_hdf5_lock();
  const hid_t type =
      column->kind == TS_SHEET_I64 ? H5T_NATIVE_INT64 : H5T_NATIVE_DOUBLE;
  ts_hdf5_unlock();
  TS_DO(ts_array_open(&f->arrays[c], &f->in, path, 1, type, 8, true));
  if (c == 0) f->n = f->arrays[c].rows;
  if (f->arrays[c].rows == f->n) return TS_OK;
  return ts_fail(TS_ERR_DATA, "--keys: %s: %s has %lld rows, %s %lld",
                 f->in.path, column->name, (long long)f->arrays[c].rows,
                 k->base.columns[0].name, (long long)f->n);
}

static ts_err open_file(ts_dataset_keys *k, ts_keys_file *f, const char *path) {
  f->in.file = -1;
  f->in.fd = -1;
  k->n_files++;
  TS_DO(ts_mem_strdup(&f->in.path, path));
  TS_DO(ts_mem_many(f->arrays, k->base.n, INPUT));
  for (int32_t c = 0; c < k->base.n; c++) f->arrays[c].set = -1;
  if (k->npy) {
    TS_DO(ts_arrays_open(&f->in.arrays, path));
    for (int32_t c = 0; c < k->base.n; c++) TS_DO(open_column(k, f, c));
    return TS_OK;
  }
  TS_DO(ts_hdf5_open(&f->in.file, path, TS_ERR_DATA));
  f->in.fd = ts_file_open(path, O_RDONLY);
  if (f->in.fd < 0) return ts_fail_errno(TS_ERR_DATA, path);
  for (int32_t c = 0; c < k->base.n; c++) TS_DO(open_column(k, f, c));
  return TS_OK;
}

static ts_err read_keys(ts_keys *base, int64_t first, int64_t n) {
  const ts_dataset_keys *k = (const ts_dataset_keys *)base;
  for (int32_t i = 0; i < k->n_files; i++) {
    const ts_keys_file *f = &k->files[i];
    const int64_t from = first > f->first ? first : f->first;
    const int64_t stop =
        first + n < f->first + f->n ? first + n : f->first + f->n;
    for (int32_t c = 0; from < stop && c < base->n; c++)
      TS_DO(ts_array_read(&f->in, &f->arrays[c],
                          (char *)base->data[c] + 8 * (from - first),
                          from - f->first, stop - from));
  }
  return TS_OK;
}

static ts_err open_all(ts_dataset_keys **out, bool npy, const ts_config *c,
                       const ts_strings *paths, const ts_strings *names) {
  ts_dataset_keys *k = NULL;
  int64_t first = 0;
  TS_DO(ts_mem_alloc(&k, sizeof *k, TS_TAG_INPUT));
  *out = k;
  k->config = c;
  k->npy = npy;
  k->base.read = read_keys;
  k->base.close = close_keys;
  TS_DO(ts_keys_columns(&k->base, names));
  TS_DO(ts_mem_many(k->files, paths->n, INPUT));
  for (int32_t i = 0; i < paths->n; i++) {
    TS_DO(open_file(k, &k->files[i], paths->item[i]));
    k->files[i].first = first;
    first += k->files[i].n;
  }
  k->base.n_samples = first;
  return TS_OK;
}

ts_err ts_keys_of_dataset(ts_keys **out, const ts_config *c,
                          const ts_strings *paths, const ts_strings *names,
                          ts_comm *comm) {
  ts_dataset_keys *k = NULL;
  const ts_err err = ts_agree(comm, open_all(&k, false, c, paths, names));
  if (err == TS_OK)
    *out = &k->base;
  else if (k)
    ts_keys_close(&k->base);
  return err;
}

ts_err ts_keys_of_npy(ts_keys **out, const ts_config *c,
                      const ts_strings *paths, const ts_strings *names,
                      ts_comm *comm) {
  ts_dataset_keys *k = NULL;
  ts_strings sets = {0};
  ts_err err = ts_arrays_sets(&sets, paths);
  if (err == TS_OK) err = open_all(&k, true, c, &sets, names);
  err = ts_agree(comm, err);
  if (err == TS_OK)
    *out = &k->base;
  else if (k)
    ts_keys_close(&k->base);
  ts_source_files_free(&sets);
  return err;
}
