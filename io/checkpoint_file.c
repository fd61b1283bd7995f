/* checkpoint_file.c - rank 0's part of a save: the file with its structure,
 * before anything is in it, and its end.
 *
 * Datasets are contiguous and have their place on disk as soon as they are
 * made, so that all ranks can write them without HDF5. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/space.h"
#include "io/checkpoint_impl.h"
#include "io/checkpoint_seal.h"

/* More than HDF5 takes for what stands around a dataset. */
enum { HEADER_BYTES = 1024 };

/* ---- its structure ------------------------------------------------------- */

static ts_err make_dataset(const ts_saver *s, const char *name, ts_dtype dtype,
                           int64_t rows, int64_t cols, hid_t *out) {
  ts_err err = TS_OK;
  const hsize_t dims[2] = {(hsize_t)rows,
                           (hsize_t)ts_stored_columns(dtype, cols)};
  hid_t space = H5Screate_simple(cols ? 2 : 1, dims, NULL);
  hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  TS_TRY(ts_hdf5_make_groups(s->file, name, TS_ERR_CKPT));
  H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER);
  *out = TS_HDF5(H5Dcreate2(s->file, name, ts_hdf5_type(dtype), space,
                            H5P_DEFAULT, plist, H5P_DEFAULT));
  if (*out < 0)
    TS_THROW(TS_ERR_CKPT, "%s: dataset %s can't be made: %s", s->temp, name,
             ts_hdf5_why());
  err = ts_stored_put_kind(*out, dtype, cols);
  if (err != TS_OK) {
    H5Dclose(*out);
    *out = -1;
  }
done:
  H5Sclose(space);
  H5Pclose(plist);
  return err;
}

static ts_err write_text_attr(hid_t file, const char *name, const char *text) {
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, strlen(text) + 1);
  ts_err err = ts_hdf5_put_attr(file, name, type, text, TS_ERR_CKPT);
  H5Tclose(type);
  return err;
}

static ts_err write_small(const ts_saver *s, const char *name, ts_dtype dtype,
                          int64_t n, const void *data) {
  ts_err err = TS_OK;
  hid_t set = -1;
  TS_TRY(make_dataset(s, name, dtype, n, 0, &set));
  if (n && TS_HDF5(H5Dwrite(set, ts_hdf5_type(dtype), H5S_ALL, H5S_ALL,
                            H5P_DEFAULT, data)) < 0)
    TS_THROW(TS_ERR_CKPT, "%s: %s can't be written: %s", s->temp, name,
             ts_hdf5_why());
done:
  if (set >= 0) H5Dclose(set);
  return err;
}

ts_err ts_ckpt_put_head(const ts_ckpt *c, hid_t file) {
  const bool full = c->kind == TS_CKPT_FULL;
  const int64_t without = c->kind == TS_CKPT_WEIGHTS;
  const struct {
    const char *name;
    int64_t value;
    bool there;
  } numbers[] = {{"version", full ? 1 : 2, true},
                 {"step", c->step, true},
                 {"stands_for", c->stands_for, c->stands_for != 0},
                 {"parent", c->parent.step, !full},
                 {"parent_seal", c->parent.seal, !full},
                 {"number", c->parent.number + 1, !full},
                 {"weights", without, !full}};
  TS_DO(write_text_attr(file, "format", "tessera-checkpoint"));
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (numbers[i].there)
      TS_DO(ts_hdf5_put_attr(file, numbers[i].name, H5T_NATIVE_INT64,
                             &numbers[i].value, TS_ERR_CKPT));
  return TS_OK;
}

static ts_err write_header(ts_saver *s) {
  TS_DO(ts_ckpt_put_head(s->c, s->file));
  for (int32_t i = 0; i < s->c->n_values; i++) {
    const ts_ckpt_value *v = &s->c->values[i];
    TS_DO(write_small(s, v->path, v->dtype, v->n, v->ptr));
  }
  return TS_OK;
}

static ts_err create_items(ts_saver *s) {
  for (int32_t i = 0; i < s->c->n_items; i++) {
    const ts_ckpt_item *item = &s->c->items[i];
    hid_t set = -1;
    TS_DO(
        make_dataset(s, item->name, item->dtype, item->rows, item->cols, &set));
    const haddr_t at = H5Dget_offset(set);
    H5Dclose(set);
    if (at == HADDR_UNDEF && item->rows)
      return ts_fail(TS_ERR_CKPT, "%s: %s has no place in the file", s->temp,
                     item->name);
    s->at[i] = item->rows ? (int64_t)at : 0;
  }
  return TS_OK;
}

/* The datasets have their space; that of the checksums, which follow them,
 * is taken now, too: a full disk is met before anything is written. */
static ts_err reserve(ts_saver *s) {
  struct stat st;
  int64_t after = HEADER_BYTES + ts_seal_bytes(s->c->n_items);
  for (int32_t i = 0; i < s->c->n_items; i++)
    after += HEADER_BYTES + 4 * s->n_blocks[i];
  if (fstat(s->fd, &st) != 0) return ts_fail_errno(TS_ERR_CKPT, s->temp);
  return ts_reserve(s->fd, (int64_t)st.st_size + after, s->temp, TS_ERR_CKPT);
}

/* The least size that the file will have. */
static int64_t data_bytes(const ts_saver *s) {
  int64_t sum = 0;
  for (int32_t i = 0; i < s->c->n_items; i++) {
    const ts_ckpt_item *item = &s->c->items[i];
    sum += item->rows * ts_item_row_bytes(item);
    sum += HEADER_BYTES + 4 * s->n_blocks[i];
  }
  for (int32_t i = 0; i < s->c->n_values; i++)
    sum += HEADER_BYTES +
           s->c->values[i].n * (int64_t)ts_dtype_bytes(s->c->values[i].dtype);
  return sum;
}

ts_err ts_ckpt_mkdirs(const char *dir) {
  char why[1024];
  const ts_err err = ts_mkdirs(dir);
  if (err == TS_OK || err == TS_ERR_NOMEM) return err;
  snprintf(why, sizeof why, "%s", ts_err_message());
  ts_err_clear();
  return ts_fail(TS_ERR_CKPT, "%s", why);
}

ts_err ts_ckpt_file_create(ts_saver *s) {
  ts_err err = TS_OK;
  TS_DO(ts_ckpt_mkdirs(s->dir));
  TS_DO(ts_size_allowed(data_bytes(s), s->temp, TS_ERR_CKPT));
  unlink(s->temp); /* of a run that was killed; never followed: O_EXCL */
  s->fd = ts_file_open(s->temp, O_CREAT | O_EXCL | O_RDWR);
  if (s->fd < 0) return ts_fail_errno(TS_ERR_CKPT, s->temp);
  ts_hdf5_lock();
  hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(fapl, H5F_LIBVER_V18, H5F_LIBVER_V18);
  H5Pset_alignment(fapl, 65536, 4096);
  s->file = TS_HDF5(H5Fcreate(s->temp, H5F_ACC_TRUNC, H5P_DEFAULT, fapl));
  H5Pclose(fapl);
  if (s->file < 0) TS_THROW(TS_ERR_CKPT, "%s: %s", s->temp, ts_hdf5_why());
  TS_TRY(write_header(s));
  TS_TRY(create_items(s));
done:
  err = ts_hdf5_close(s->file, s->temp, err, TS_ERR_CKPT);
  s->file = -1;
  ts_hdf5_unlock();
  return err == TS_OK ? reserve(s) : err;
}

/* ---- the end ------------------------------------------------------------- */

/* Items have checksums under /check. */
static ts_err put_seal(ts_saver *s) {
  ts_err err = TS_OK;
  const int32_t n = s->c->n_items;
  ts_seal_hole *holes = NULL;
  TS_TRY(ts_mem_many(holes, n, CHECKPOINT));
  for (int32_t i = 0; i < n; i++) {
    const ts_ckpt_item *it = &s->c->items[i];
    holes[i] =
        (ts_seal_hole){s->at[i], ts_item_bytes(it->dtype, it->rows, it->cols)};
  }
  TS_TRY(ts_seal_write(s->fd, s->temp, holes, n, &s->c->seal));
done:
  ts_mem_free(holes);
  return err;
}

ts_err ts_ckpt_file_seal(ts_saver *s) {
  ts_err err = TS_OK;
  const int64_t one = 1;
  char name[1024];
  ts_hdf5_lock();
  s->file = TS_HDF5(H5Fopen(s->temp, H5F_ACC_RDWR, H5P_DEFAULT));
  if (s->file < 0) TS_THROW(TS_ERR_CKPT, "%s: %s", s->temp, ts_hdf5_why());
  for (int32_t i = 0; i < s->c->n_items; i++) {
    snprintf(name, sizeof name, "check/%.900s", s->c->items[i].name);
    TS_TRY(write_small(s, name, TS_I32, s->n_blocks[i], s->crc[i]));
  }
  TS_TRY(
      ts_hdf5_put_attr(s->file, "sealed", H5T_NATIVE_INT64, &one, TS_ERR_CKPT));
  TS_TRY(ts_hdf5_put_attr(s->file, "complete", H5T_NATIVE_INT64, &one,
                          TS_ERR_CKPT));
done:
  err = ts_hdf5_close(s->file, s->temp, err, TS_ERR_CKPT);
  s->file = -1;
  ts_hdf5_unlock();
  if (err == TS_OK) err = put_seal(s);
  if (err == TS_OK && ts_file_sync(s->fd) != 0)
    err = ts_fail_errno(TS_ERR_CKPT, s->temp);
  return err;
}

ts_err ts_ckpt_give_name(const char *temp, const char *path, const char *in) {
  if (ts_file_rename(temp, path) != 0) return ts_fail_errno(TS_ERR_CKPT, path);
  if (ts_file_sync_folder(in) != 0) return ts_fail_errno(TS_ERR_CKPT, in);
  return TS_OK;
}
