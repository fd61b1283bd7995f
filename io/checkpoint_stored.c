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
