/* sheet.c - files of rows: HDF5, and what both forms have in common. */
#include "io/sheet.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/space.h"
#include "io/hdf5.h"
#include "io/sheet_impl.h"

ts_sheet_format ts_sheet_format_of(const char *path) {
  if (!strcmp(path, "-") || ts_str_ends(path, ".csv") ||
      ts_str_ends(path, ".csv.gz"))
    return TS_SHEET_CSV;
  if (ts_str_ends(path, ".parquet") || ts_str_ends(path, ".arrow") ||
      ts_str_ends(path, ".feather"))
    return TS_SHEET_PARQUET;
  return ts_str_ends(path, ".h5") || ts_str_ends(path, ".hdf5") ? TS_SHEET_HDF5
                                                                : TS_SHEET_NONE;
}

size_t ts_cell_bytes(const ts_sheet_column *c) {
  const size_t bytes[] = {[TS_SHEET_TEXT] = (size_t)c->width,
                          [TS_SHEET_I64] = 8,
                          [TS_SHEET_F64] = 8,
                          [TS_SHEET_F32] = 4};
  return bytes[c->kind];
}

/* ---- HDF5 ---------------------------------------------------------------- */

static hid_t type_of(const ts_sheet_column *c) {
  const ts_dtype known[] = {[TS_SHEET_I64] = TS_I64,
                            [TS_SHEET_F64] = TS_F64,
                            [TS_SHEET_F32] = TS_F32};
  if (c->kind != TS_SHEET_TEXT) return H5Tcopy(ts_hdf5_type(known[c->kind]));
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, (size_t)c->width);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

static int64_t rows_of(const ts_sheet *f, const ts_sheet_column *c) {
  return c->n ? c->n : f->n;
}

/* Place of column K's dataset in the file, -1 where HDF5 can't make it. */
static int64_t make_set(const ts_sheet *f, hid_t file, hid_t plist, int32_t k) {
  const ts_sheet_column *c = &f->columns[k];
  const hsize_t dims[2] = {(hsize_t)rows_of(f, c), (hsize_t)c->n_cells};
  char name[1024];
  int64_t at = -1;
  snprintf(name, sizeof name, "%.500s%s%.500s", c->group ? c->group : "",
           c->group ? "/" : "", c->name);
  if (ts_hdf5_make_groups(file, name, TS_ERR_IO) != TS_OK) return -1;
  const hid_t space = H5Screate_simple(c->n_cells > 1 ? 2 : 1, dims, NULL);
  const hid_t type = type_of(c);
  const hid_t set = TS_HDF5(
      H5Dcreate2(file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT));
  if (set >= 0) {
    at = (int64_t)H5Dget_offset(set);
    H5Dclose(set);
  }
  H5Tclose(type);
  H5Sclose(space);
  return at;
}

static ts_err make_hdf5(ts_sheet *f) {
  ts_err err = TS_OK;
  int64_t bytes = 0;
  for (int32_t k = 0; k < f->n_columns; k++)
    bytes += rows_of(f, &f->columns[k]) * f->columns[k].n_cells *
             (int64_t)ts_cell_bytes(&f->columns[k]);
  TS_DO(ts_size_allowed(bytes, f->temp, TS_ERR_IO));
  ts_hdf5_lock();
  unlink(f->temp); /* of one that was killed, or planted */
  hid_t file =
      TS_HDF5(H5Fcreate(f->temp, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
  hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER);
  if (file < 0) TS_THROW(TS_ERR_IO, "%s: %s", f->temp, ts_hdf5_why());
  for (int32_t k = 0; k < f->n_columns; k++) {
    f->at[k] = make_set(f, file, plist, k);
    if (f->at[k] < 0) TS_THROW(TS_ERR_IO, "%s: %s", f->temp, ts_hdf5_why());
  }
done:
  H5Pclose(plist);
  err = ts_hdf5_close(file, f->temp, err, TS_ERR_IO);
  ts_hdf5_unlock();
  return err;
}

static ts_err write_hdf5(ts_sheet *f, int64_t first, int64_t n,
                         const void *const *data) {
  for (int32_t k = 0; k < f->n_columns; k++) {
    const ts_sheet_column *c = &f->columns[k];
    const int64_t row = (int64_t)ts_cell_bytes(c) * c->n_cells;
    if (!data[k]) continue;
    TS_DO(ts_pwrite(f->fd, data[k], n * row, f->at[k] + first * row, f->path,
                    TS_ERR_IO));
  }
  return TS_OK;
}

/* ---- both ---------------------------------------------------------------- */

static ts_err make_file(ts_sheet *f) {
  if (!f->first) return TS_OK;
  if (f->format == TS_SHEET_PARQUET) return ts_sheet_parquet_create(f);
  return f->format == TS_SHEET_CSV ? ts_sheet_csv_create(f) : make_hdf5(f);
}

/* All ranks write to HDF5. */
static ts_err open_file(ts_sheet *f) {
  if (f->format != TS_SHEET_HDF5) return TS_OK;
  f->fd = ts_file_open(f->temp, O_RDWR);
  return f->fd >= 0 ? TS_OK : ts_fail_errno(TS_ERR_IO, f->temp);
}

static ts_err create(ts_sheet *f) {
  TS_DO(ts_agree(f->comm, ts_mem_many(f->at, f->n_columns, MISC)));
  TS_DO(ts_agree(f->comm, make_file(f)));
  TS_DO(
      ts_comm_bcast(f->comm, f->at, f->n_columns * (int64_t)sizeof *f->at, 0));
  return ts_agree(f->comm, open_file(f));
}

ts_err ts_sheet_create(ts_sheet **out, const char *path, int64_t n,
                       const ts_sheet_column *columns, int32_t n_columns,
                       ts_comm *comm) {
  ts_sheet *f = NULL;
  TS_DO(ts_agree(comm, ts_mem_alloc(&f, sizeof *f, TS_TAG_MISC)));
  f->format = ts_sheet_format_of(path);
  f->columns = columns;
  f->n_columns = n_columns;
  f->n = n;
  f->comm = comm;
  f->first = ts_comm_rank(comm) == 0;
  f->piped = !strcmp(path, "-");
  f->fd = -1;
  snprintf(f->path, sizeof f->path, "%s", f->piped ? "stdout" : path);
  snprintf(f->temp, sizeof f->temp, "%.4080s.part", path);
  const ts_err err = create(f);
  if (err != TS_OK) return ts_sheet_finish(f, err);
  *out = f;
  return TS_OK;
}

ts_err ts_sheet_write(ts_sheet *f, int64_t first, int64_t n,
                      const void *const *data) {
  if (f->format == TS_SHEET_CSV) return ts_sheet_csv_write(f, n, data);
  if (f->format == TS_SHEET_PARQUET) return ts_sheet_parquet_write(f, n, data);
  return ts_agree(f->comm, write_hdf5(f, first, n, data));
}

static ts_err close_file(ts_sheet *f, ts_err err) {
  if (f->first && f->format == TS_SHEET_CSV) {
    const ts_err closed = ts_sheet_csv_close(f);
    err = err == TS_OK ? closed : err;
  }
  err = ts_columnar_out_finish(f->out, err);
  if (f->fd >= 0 && err == TS_OK && ts_file_sync(f->fd) != 0)
    err = ts_fail_errno(TS_ERR_IO, f->path);
  if (f->fd >= 0) close(f->fd);
  return err;
}

ts_err ts_sheet_finish(ts_sheet *f, ts_err err) {
  if (!f) return err;
  ts_comm *comm = f->comm;
  err = ts_agree(comm, close_file(f, err));
  if (err == TS_OK && f->first && !f->piped &&
      ts_file_rename(f->temp, f->path) != 0)
    err = ts_fail_errno(TS_ERR_IO, f->path);
  if (f->first && !f->piped && err != TS_OK) unlink(f->temp);
  err = ts_agree(comm, err);
  ts_str_reset(&f->text);
  ts_sheet_parquet_free(f);
  ts_mem_free_all(f->at, f->all, f);
  return err;
}
