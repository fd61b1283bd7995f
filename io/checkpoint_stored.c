/* checkpoint_stored.c - one dataset of a checkpoint: shape, place in the file,
 * checksums of its blocks. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/file.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"

bool ts_stored_dtype(hid_t type, ts_dtype *out) {
  static const ts_dtype known[] = {TS_F32, TS_BF16, TS_F16, TS_F64,
                                   TS_I32, TS_I64,  TS_U8};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (H5Tequal(type, ts_hdf5_type(known[i])) > 0) {
      *out = known[i];
      return true;
    }
  return false;
}

int64_t ts_stored_columns(ts_dtype dtype, int64_t cols) {
  return ts_dtype_has_scale(dtype) ? ts_row_bytes(dtype, cols) : cols;
}

ts_err ts_stored_put_kind(hid_t set, ts_dtype dtype, int64_t cols) {
  const char *name = ts_dtype_name(dtype);
  if (!ts_dtype_has_scale(dtype)) return TS_OK;
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, strlen(name) + 1);
  ts_err err = ts_hdf5_put_attr(set, "dtype", type, name, TS_ERR_CKPT);
  if (err == TS_OK)
    err = ts_hdf5_put_attr(set, "dim", H5T_NATIVE_INT64, &cols, TS_ERR_CKPT);
  H5Tclose(type);
  return err;
}

/* Bytes that are rows in few bits become such; false where their attributes do
 * not fit them. */
static bool take_kind(ts_stored *s, hid_t set) {
  enum { DIM_MAX = 1 << 20 };
  char name[16];
  int64_t dim;
  if (s->dtype != TS_U8 || !s->cols || H5Aexists(set, "dtype") <= 0)
    return true;
  if (!ts_hdf5_get_text(set, "dtype", name, sizeof name) ||
      !ts_hdf5_get_number(set, "dim", H5T_NATIVE_INT64, &dim))
    return false;
  for (ts_dtype t = TS_INT8; t <= TS_INT4; t++) {
    if (strcmp(name, ts_dtype_name(t)) != 0) continue;
    if (dim < 1 || dim > DIM_MAX || ts_row_bytes(t, dim) != s->cols)
      return false;
    s->dtype = t;
    s->cols = dim;
    return true;
  }
  return false;
}

static ts_err read_sums(ts_stored *s, hid_t file, const char *path,
                        const char *name) {
  ts_err err = TS_OK;
  char check[1024];
  const int64_t n = ts_blocks(ts_item_bytes(s->dtype, s->rows, s->cols));
  snprintf(check, sizeof check, "check/%.900s", name);
  if (H5Lexists(file, "check", H5P_DEFAULT) <= 0) return TS_OK;
  hid_t set = -1, space = -1;
  if (!ts_stored_exists(file, check))
    TS_THROW(TS_ERR_CKPT, "%s: dataset %s has no checksums", path, name);
  TS_TRY(ts_hdf5_open_set(&set, file, path, check, TS_ERR_CKPT));
  space = H5Dget_space(set);
  if (H5Sget_simple_extent_npoints(space) != n)
    TS_THROW(TS_ERR_CKPT, "%s: dataset %s has no checksums", path, name);
  TS_TRY(ts_mem_many(s->crc, n, CHECKPOINT));
  if (n &&
      H5Dread(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, s->crc) < 0)
    TS_THROW(TS_ERR_CKPT, "%s: the checksums of %s can't be read", path, name);
done:
  if (space >= 0) H5Sclose(space);
  if (set >= 0) H5Dclose(set);
  return err;
}

bool ts_stored_exists(hid_t file, const char *name) {
  char part[1024];
  for (const char *p = strchr(name, '/');; p = strchr(p + 1, '/')) {
    snprintf(part, sizeof part, "%.*s",
             (int)(p ? p - name : (long)strlen(name)), name);
    if (H5Lexists(file, part, H5P_DEFAULT) <= 0) return false;
    if (!p) return true;
  }
}

ts_err ts_stored_open(ts_stored *s, hid_t file, const char *path,
                      const char *name) {
  ts_err err = TS_OK;
  hid_t set = -1, space = -1, type = -1, plist = -1;
  hsize_t dims[2] = {0, 0};
  *s = (ts_stored){.at = -1};
  ts_hdf5_lock();
  if (!ts_stored_exists(file, name))
    TS_THROW(TS_ERR_CKPT, "%s: has no dataset %s", path, name);
  TS_TRY(ts_hdf5_open_set(&set, file, path, name, TS_ERR_CKPT));
  space = H5Dget_space(set);
  type = H5Dget_type(set);
  plist = H5Dget_create_plist(set);
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 1 || rank > 2 || !ts_stored_dtype(type, &s->dtype))
    TS_THROW(TS_ERR_CKPT, "%s: dataset %s is of no kind that is known here",
             path, name);
  (void)H5Sget_simple_extent_dims(space, dims, NULL);
  s->rows = (int64_t)dims[0];
  s->cols = rank == 2 ? (int64_t)dims[1] : 0;
  if (!take_kind(s, set))
    TS_THROW(TS_ERR_CKPT,
             "%s: dataset %s has attributes \"dtype\" and \"dim\" that are not "
             "those of its rows of %lld bytes",
             path, name, (long long)s->cols);
  if (ts_item_bytes(s->dtype, s->rows, s->cols) < 0)
    TS_THROW(TS_ERR_CKPT, "%s: dataset %s has an impossible size", path, name);
  const haddr_t at =
      H5Pget_layout(plist) == H5D_CONTIGUOUS ? H5Dget_offset(set) : HADDR_UNDEF;
  s->at = at == HADDR_UNDEF ? -1 : (int64_t)at;
  TS_TRY(read_sums(s, file, path, name));
done:
  if (plist >= 0) H5Pclose(plist);
  if (type >= 0) H5Tclose(type);
  if (space >= 0) H5Sclose(space);
  if (set >= 0) H5Dclose(set);
  ts_hdf5_unlock();
  return err;
}

void ts_stored_reset(ts_stored *s) {
  ts_mem_free(s->crc);
  *s = (ts_stored){.at = -1};
}

ts_err ts_stored_block(const ts_stored *s, int fd, const char *path,
                       const char *name, int64_t number, void *block) {
  const int64_t total = ts_item_bytes(s->dtype, s->rows, s->cols);
  const int64_t from = number * TS_BLOCK_BYTES;
  const int64_t n =
      total - from < TS_BLOCK_BYTES ? total - from : TS_BLOCK_BYTES;
  TS_DO(ts_pread(fd, block, n, s->at + from, path, TS_ERR_CKPT));
  if (s->crc && ts_crc32c(0, block, (size_t)n) != s->crc[number])
    return ts_fail(TS_ERR_CKPT,
                   "%s: dataset %s is damaged in its bytes %lld to %lld", path,
                   name, (long long)from, (long long)(from + n));
  return TS_OK;
}
