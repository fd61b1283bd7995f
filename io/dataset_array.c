/* dataset_array.c - arrays of a data set's file, and rows of them.
 *
 * Contiguous, uncompressed datasets of the file's own byte order are read by
 * pread at their place in the file, without HDF5 and its lock; others through
 * HDF5. */
#include "io/dataset_array.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/file.h"
#include "io/hdf5.h"

/* More dense features or tasks than any model takes. */
enum { COLUMNS_MAX = 1 << 24 };

/* Where A's rows lie, for pread; -1: through HDF5. */
static int64_t place_of(const ts_array *a, hid_t own) {
  const hid_t plist = H5Dget_create_plist(a->set);
  haddr_t at = HADDR_UNDEF;
  if (H5Pget_layout(plist) == H5D_CONTIGUOUS && H5Tequal(own, a->type) > 0)
    at = H5Dget_offset(a->set);
  if (plist >= 0) H5Pclose(plist);
  return at == HADDR_UNDEF ? -1 : (int64_t)at;
}

/* In memory an element has SIZE bytes, in the file it may have fewer. */
static bool takes_shape(ts_array *a, hid_t space, int rank_max) {
  hsize_t dims[2] = {0, 1};
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 1 || rank > rank_max ||
      H5Sget_simple_extent_dims(space, dims, NULL) < 0)
    return false;
  if (dims[0] > INT64_MAX / 64 || dims[1] > COLUMNS_MAX) return false;
  a->rows = (int64_t)dims[0];
  a->cols = (int64_t)dims[1];
  return true;
}

ts_err ts_array_open(ts_array *a, const ts_array_file *f, const char *name,
                     int rank_max, hid_t type, size_t size, bool required) {
  ts_err err = TS_OK;
  hid_t space = -1, own = -1;
  *a = (ts_array){.set = -1, .at = -1, .type = type, .size = size, .cols = 1};
  if (f->arrays) return ts_array_open_npy(a, f, name, rank_max, required);
  ts_hdf5_lock();
  if (H5Lexists(f->file, name, H5P_DEFAULT) <= 0) {
    if (required) TS_THROW(TS_ERR_DATA, "%s: has no %s", f->path, name);
    goto done;
  }
  TS_TRY(ts_hdf5_open_set(&a->set, f->file, f->path, name, TS_ERR_DATA));
  space = H5Dget_space(a->set);
  own = H5Dget_type(a->set);
  if (!takes_shape(a, space, rank_max) ||
      (H5Tget_class(own) != H5T_FLOAT && H5Tget_class(own) != H5T_INTEGER))
    TS_THROW(TS_ERR_DATA, "%s: %s is not an array of %s numbers", f->path, name,
             rank_max == 1 ? "(N)" : "(N) or (N, D)");
  a->at = place_of(a, own);
  const int64_t n_bytes = a->rows * a->cols * (int64_t)a->size;
  if (f->map && a->at >= 0 && n_bytes <= f->n_bytes - a->at)
    a->base = f->map + a->at;
done:
  if (space >= 0) H5Sclose(space);
  if (own >= 0) H5Tclose(own);
  ts_hdf5_unlock();
  return err;
}

ts_err ts_array_size(ts_array_file *f) {
  struct stat st;
  if (fstat(f->fd, &st) != 0) return ts_fail_errno(TS_ERR_DATA, f->path);
  f->n_bytes = st.st_size;
  return TS_OK;
}

ts_err ts_array_map(ts_array_file *f) {
  void *map = mmap(NULL, (size_t)f->n_bytes, PROT_READ, MAP_SHARED, f->fd, 0);
  if (map == MAP_FAILED) return ts_fail_errno(TS_ERR_DATA, f->path);
  f->map = map;
  return TS_OK;
}

void ts_array_unmap(ts_array_file *f) {
  if (f->map) munmap((void *)f->map, (size_t)f->n_bytes);
  f->map = NULL;
}

void ts_array_close(ts_array *a) {
  if (a->set >= 0) H5Dclose(a->set);
  a->set = -1;
}

ts_err ts_array_read(const ts_array_file *f, const ts_array *a, void *to,
                     int64_t first, int64_t n) {
  ts_err err = TS_OK;
  if (n == 0) return TS_OK;
  if (first < 0 || n < 0 || first > a->rows - n)
    return ts_fail(TS_ERR_DATA, "%s: rows %lld to %lld of %lld are asked for",
                   f->path, (long long)first, (long long)(first + n),
                   (long long)a->rows);
  const int64_t row_bytes = a->cols * (int64_t)a->size;
  if (a->base) {
    memcpy(to, a->base + first * row_bytes, (size_t)(n * row_bytes));
    return TS_OK;
  }
  if (a->views) return ts_array_read_npy(f, a, to, first, n);
  if (a->at >= 0)
    return ts_pread(f->fd, to, n * row_bytes, a->at + first * row_bytes,
                    f->path, TS_ERR_DATA);
  ts_hdf5_lock();
  const hsize_t start[2] = {(hsize_t)first, 0};
  const hsize_t count[2] = {(hsize_t)n, (hsize_t)a->cols};
  hid_t space = H5Dget_space(a->set);
  const int rank = H5Sget_simple_extent_ndims(space);
  hid_t memory = H5Screate_simple(rank, count, NULL);
  if (H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) <
          0 ||
      H5Dread(a->set, a->type, memory, space, H5P_DEFAULT, to) < 0)
    err = ts_fail(TS_ERR_DATA, "%s: rows %lld to %lld can't be read", f->path,
                  (long long)first, (long long)(first + n));
  H5Sclose(space);
  H5Sclose(memory);
  ts_hdf5_unlock();
  return err;
}
