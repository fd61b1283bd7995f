/* hdf5_edit.c - bytes as edits of an HDF5 file.  What HDF5 refuses to make is
 * left out. */
#include "tests/fuzz/hdf5_edit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/checkpoint_seal.h"
#include "io/hdf5.h"
#include "tests/fuzz/fuzz.h"

typedef struct reader {
  const uint8_t *p, *end;
  const fuzz_names *names;
  hid_t file, lcpl;
} reader;

enum { SMALL = 1 << 16 };

static unsigned take(reader *r, unsigned n) {
  return r->p < r->end ? *r->p++ % n : 0;
}

static hsize_t take_size(reader *r) {
  static const hsize_t sizes[] = {0,
                                  1,
                                  2,
                                  3,
                                  4,
                                  8,
                                  9,
                                  10,
                                  12,
                                  13,
                                  16,
                                  17,
                                  24,
                                  100,
                                  300,
                                  4096,
                                  (hsize_t)1 << 20,
                                  (hsize_t)1 << 31,
                                  ((hsize_t)1 << 32) + 2,
                                  (hsize_t)1 << 40,
                                  (hsize_t)1 << 61,
                                  (hsize_t)1 << 63,
                                  ~(hsize_t)0 - 1};
  return sizes[take(r, sizeof sizes / sizeof *sizes)];
}

static hid_t take_type(reader *r) {
  hid_t t;
  switch (take(r, 12)) {
  case 0:
    return H5Tcopy(H5T_STD_I64LE);
  case 1:
    return H5Tcopy(H5T_IEEE_F32LE);
  case 2:
    return H5Tcopy(H5T_IEEE_F64LE);
  case 3:
    return H5Tcopy(H5T_STD_U8LE);
  case 4:
    return H5Tcopy(H5T_STD_I32LE);
  case 5:
    return H5Tcopy(H5T_STD_I64BE);
  case 6:
    t = H5Tcopy(H5T_C_S1);
    H5Tset_size(t, 1 + take(r, 100));
    return t;
  case 7:
    t = H5Tcopy(H5T_C_S1);
    H5Tset_size(t, H5T_VARIABLE);
    return t;
  case 8:
    return H5Tvlen_create(H5T_STD_I64LE);
  case 9:
    t = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(t, "a", 0, H5T_STD_I64LE);
    return t;
  case 10:
    return H5Tcreate(H5T_OPAQUE, 1 + take(r, 64));
  default:
    return H5Tcopy(ts_hdf5_type(take(r, 2) ? TS_BF16 : TS_F16));
  }
}

/* Up to three dimensions, or none; their product in *N where it is small. */
static hid_t take_space(reader *r, hsize_t *dims, int *rank, hsize_t *n) {
  *rank = (int)take(r, 5);
  *n = 1;
  if (*rank == 4) return *rank = 0, *n = 0, H5Screate(H5S_NULL);
  for (int i = 0; i < *rank; i++) {
    dims[i] = take_size(r);
    *n = dims[i] > SMALL || *n > SMALL ? SMALL + 1 : *n * dims[i];
  }
  return *rank ? H5Screate_simple(*rank, dims, NULL) : H5Screate(H5S_SCALAR);
}

static hid_t take_storage(reader *r, const hsize_t *dims, int rank,
                          hid_t space) {
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  hsize_t chunk[3];
  switch (take(r, 8)) {
  case 0:
    H5Pset_layout(p, H5D_COMPACT);
    break;
  case 1:
    H5Pset_external(p, "/etc/passwd", 0, H5F_UNLIMITED);
    break;
  case 2:
    if (rank) H5Pset_virtual(p, space, "other.h5", "x", space);
    break;
  case 3:
  case 4:
    for (int i = 0; i < rank; i++)
      chunk[i] = take(r, 2) && dims[i] ? dims[i] : 1 + take(r, 16);
    if (rank) H5Pset_chunk(p, rank, chunk);
    if (take(r, 2)) H5Pset_deflate(p, 6);
    if (take(r, 2)) H5Pset_shuffle(p);
    if (take(r, 4) == 3) H5Pset_scaleoffset(p, H5Z_SO_INT, 0);
    if (take(r, 4) == 3) H5Pset_filter(p, 32000, H5Z_FLAG_OPTIONAL, 0, NULL);
    break;
  default:
    break;
  }
  return p;
}

static void fill(reader *r, hid_t set, hid_t type, hsize_t n, size_t size) {
  if (n * size > SMALL || !size || H5Tdetect_class(type, H5T_VLEN) > 0 ||
      H5Tis_variable_str(type) > 0)
    return;
  char *bytes = malloc(n * size + 1);
  for (size_t i = 0; i < n * size; i++)
    bytes[i] = (char)(r->p < r->end && i < 64 ? *r->p++ : i % 8 ? 0 : i / 8);
  (void)H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes);
  free(bytes);
}

/* This filter of HDF5 1.10's reads past its buffers when it writes, which
 * damages the fuzzer's own heap. */
static bool packs(hid_t storage) {
  size_t n = 0;
  return H5Pget_filter_by_id2(storage, H5Z_FILTER_SCALEOFFSET, NULL, &n, NULL,
                              0, NULL, NULL) >= 0;
}

static void make_set(reader *r, const char *name) {
  hsize_t dims[3] = {0}, n;
  int rank;
  const hid_t type = take_type(r), space = take_space(r, dims, &rank, &n);
  const hid_t storage = take_storage(r, dims, rank, space);
  const bool outside = H5Pget_layout(storage) == H5D_VIRTUAL ||
                       H5Pget_external_count(storage) > 0 || packs(storage);
  const hid_t set =
      H5Dcreate2(r->file, name, type, space, r->lcpl, storage, H5P_DEFAULT);
  if (set >= 0 && !outside && take(r, 4))
    fill(r, set, type, n, H5Tget_size(type));
  if (set >= 0) H5Dclose(set);
  H5Pclose(storage);
  H5Sclose(space);
  H5Tclose(type);
}

static void make_attribute(reader *r, const char *name) {
  hsize_t dims[3] = {0}, n;
  int rank;
  char bytes[4096] = "tessera-dataset";
  const hid_t type = take_type(r), space = take_space(r, dims, &rank, &n);
  H5Adelete(r->file, name);
  const hid_t a =
      n <= 16 ? H5Acreate2(r->file, name, type, space, H5P_DEFAULT, H5P_DEFAULT)
              : -1;
  for (size_t i = 0; i < 16 && r->p < r->end; i++) bytes[i] = (char)*r->p++;
  if (a >= 0 && H5Tdetect_class(type, H5T_VLEN) <= 0 &&
      H5Tis_variable_str(type) <= 0 && n * H5Tget_size(type) <= sizeof bytes)
    (void)H5Awrite(a, type, bytes);
  if (a >= 0) H5Aclose(a);
  H5Sclose(space);
  H5Tclose(type);
}

static void edit(reader *r) {
  const unsigned what = take(r, 10);
  const fuzz_names *names = r->names;
  if (what < 3) {
    make_attribute(r,
                   names->attributes[take(r, (unsigned)names->n_attributes)]);
    return;
  }
  const char *name = names->links[take(r, (unsigned)names->n_links)];
  const char *other = names->links[take(r, (unsigned)names->n_links)];
  H5Ldelete(r->file, name, H5P_DEFAULT);
  if (what < 6) {
    make_set(r, name);
  } else if (what == 6) {
    const hid_t g =
        H5Gcreate2(r->file, name, r->lcpl, H5P_DEFAULT, H5P_DEFAULT);
    if (g >= 0) H5Gclose(g);
  } else if (what == 7) {
    H5Lcreate_soft(other, r->file, name, r->lcpl, H5P_DEFAULT);
  } else if (what == 8) {
    const char *to = take(r, 2) ? other : "/";
    H5Lcreate_hard(r->file, to, r->file, name, r->lcpl, H5P_DEFAULT);
  } else if (take(r, 2)) {
    H5Lcreate_external("other.h5", "/x", r->file, name, r->lcpl, H5P_DEFAULT);
  }
}

void fuzz_hdf5_edit(const char *path, const uint8_t *data, size_t size,
                    const fuzz_names *names) {
  reader r = {.p = data, .end = data + size, .names = names};
  ts_hdf5_lock();
  r.file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  FUZZ_CHECK(r.file >= 0);
  r.lcpl = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(r.lcpl, 1);
  while (r.p < r.end) edit(&r);
  H5Pclose(r.lcpl);
  H5Fclose(r.file);
  ts_hdf5_unlock();
}

void fuzz_seal(const char *path) {
  const int fd = open(path, O_RDWR);
  FUZZ_CHECK(fd >= 0);
  FUZZ_CHECK(ts_seal_write(fd, path, NULL, 0, &(int64_t){0}) == TS_OK);
  close(fd);
}
