/* hostile_files.c - right files, and what is changed in them. */
#include "tests/support/hostile_files.h"

#include <string.h>

/* ---- right files --------------------------------------------------------- */

void hostile_put(hid_t file, const char *name, hid_t type, int rank,
                 hsize_t rows, hsize_t cols) {
  const int64_t values[4 * N] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  const hsize_t dims[2] = {rows, cols};
  ck_assert_ok(ts_hdf5_make_groups(file, name, TS_ERR_DATA));
  const hid_t space = H5Screate_simple(rank, dims, NULL);
  const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT,
                               H5P_DEFAULT, H5P_DEFAULT);
  ck_assert_int_ge(
      H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values),
      0);
  H5Dclose(set);
  H5Sclose(space);
}

static void put_head(hid_t file, const char *format, const char *count,
                     int64_t n) {
  const int64_t one = 1;
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, strlen(format) + 1);
  ck_assert_ok(ts_hdf5_put_attr(file, "format", text, format, TS_ERR_DATA));
  ck_assert_ok(
      ts_hdf5_put_attr(file, "version", H5T_NATIVE_INT64, &one, TS_ERR_DATA));
  ck_assert_ok(
      ts_hdf5_put_attr(file, "complete", H5T_NATIVE_INT64, &one, TS_ERR_DATA));
  ck_assert_ok(
      ts_hdf5_put_attr(file, count, H5T_NATIVE_INT64, &n, TS_ERR_DATA));
  H5Tclose(text);
}

const char *hostile_set;

hid_t hostile_make(const char *path, bool checkpoint) {
  ts_hdf5_lock();
  ts_hdf5_unlock();
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ck_assert_int_ge(file, 0);
  if (checkpoint) {
    hostile_set = "model/w";
    put_head(file, "tessera-checkpoint", "step", 3);
    hostile_put(file, hostile_set, H5T_IEEE_F32LE, 1, N, 0);
    hostile_put(file, "meta/plan", H5T_STD_U8LE, 1, 4, 0);
    return file;
  }
  hostile_set = "labels";
  put_head(file, "tessera-dataset", "num_samples", N);
  hostile_put(file, "labels", H5T_IEEE_F32LE, 1, N, 0);
  hostile_put(file, "dense", H5T_IEEE_F32LE, 2, N, 2);
  hostile_put(file, "sparse/u/values", H5T_STD_I64LE, 1, N, 0);
  return file;
}

/* ---- edits --------------------------------------------------------------- */

void hostile_replace(hid_t file, hid_t type, int rank, const hsize_t *dims,
                     hid_t storage) {
  const hid_t space = H5Screate_simple(rank, dims, NULL);
  ck_assert_int_ge(H5Ldelete(file, hostile_set, H5P_DEFAULT), 0);
  const hid_t set = H5Dcreate2(file, hostile_set, type, space, H5P_DEFAULT,
                               storage, H5P_DEFAULT);
  ck_assert_int_ge(set, 0);
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(storage);
}

static void external_link(hid_t file) {
  H5Ldelete(file, hostile_set, H5P_DEFAULT);
  ck_assert_int_ge(H5Lcreate_external("/etc/passwd", "/x", file, hostile_set,
                                      H5P_DEFAULT, H5P_DEFAULT),
                   0);
}

/* A link of the file's own that leads to one that leads out. */
static void soft_link_out(hid_t file) {
  H5Ldelete(file, hostile_set, H5P_DEFAULT);
  H5Lcreate_soft("/way/out", file, hostile_set, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t g =
      H5Gcreate2(file, "way", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("other.h5", "/x", g, "out", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(g);
}

static void group_in_itself(hid_t file) {
  const hid_t g =
      H5Gcreate2(file, "round", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(g, ".", g, "round", H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(g);
}

static void external_storage(hid_t file) {
  const hsize_t dims[] = {N};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_external(p, "/etc/passwd", 0, 4 * N);
  hostile_replace(file, H5T_IEEE_F32LE, 1, dims, p);
}

static void virtual_storage(hid_t file) {
  const hsize_t dims[] = {N};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  const hid_t space = H5Screate_simple(1, dims, NULL);
  H5Pset_virtual(p, space, "other.h5", "/x", space);
  hostile_replace(file, H5T_IEEE_F32LE, 1, dims, p);
  H5Sclose(space);
}

static void plugin_filter(hid_t file) {
  const hsize_t dims[] = {N};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(p, 1, dims);
  H5Pset_filter(p, 32000, H5Z_FLAG_OPTIONAL, 0, NULL);
  hostile_replace(file, H5T_IEEE_F32LE, 1, dims, p);
}

static void nothing_behind(hid_t file) {
  const hsize_t dims[] = {(hsize_t)1 << 40};
  hostile_replace(file, H5T_IEEE_F32LE, 1, dims, H5Pcreate(H5P_DATASET_CREATE));
}

static void overflows(hid_t file) {
  const hsize_t dims[] = {(hsize_t)1 << 33, (hsize_t)1 << 32};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk[] = {1, 1};
  H5Pset_chunk(p, 2, chunk);
  hostile_replace(file, H5T_IEEE_F32LE, 2, dims, p);
}

static void chunks_too_large(hid_t file) {
  const hsize_t dims[] = {(hsize_t)1 << 29};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(p, 1, dims);
  hostile_replace(file, H5T_IEEE_F32LE, 1, dims, p);
}

/* Zeros by the terabyte in a few chunks. */
static void packed(hid_t file) {
  const hsize_t dims[] = {(hsize_t)1 << 38}, chunk[] = {1 << 20};
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(p, 1, chunk);
  H5Pset_deflate(p, 9);
  hostile_replace(file, H5T_IEEE_F32LE, 1, dims, p);
}

static void no_numbers(hid_t file) {
  const hsize_t dims[] = {N};
  const hid_t type = H5Tvlen_create(H5T_IEEE_F32LE);
  const hid_t p = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_layout(p, H5D_COMPACT);
  hostile_replace(file, type, 1, dims, p);
  H5Tclose(type);
}

/* An attribute of a thousand numbers where one is read: the header's room on
 * the stack is for one. */
static void long_attribute(hid_t file) {
  const hsize_t dims[] = {1000};
  int64_t ones[1000];
  for (int i = 0; i < 1000; i++) ones[i] = 1;
  H5Adelete(file, "version");
  const hid_t space = H5Screate_simple(1, dims, NULL);
  const hid_t a = H5Acreate2(file, "version", H5T_STD_I64LE, space, H5P_DEFAULT,
                             H5P_DEFAULT);
  ck_assert_int_ge(H5Awrite(a, H5T_NATIVE_INT64, ones), 0);
  H5Aclose(a);
  H5Sclose(space);
}

const hostile_edit hostile_edits[] = {
    {external_link, "is an external link"},
    {soft_link_out, "out is an external link"},
    {group_in_itself, "round is deeper in groups"},
    {external_storage, "has its data in other files"},
    {virtual_storage, "is made of other datasets (virtual)"},
    {plugin_filter, "is packed by filter 32000"},
    {nothing_behind, "is larger than what the file holds of it"},
    {overflows, "has an impossible size"},
    {chunks_too_large, "has chunks over 1 GiB"},
    {packed, "is larger than what the file holds of it"},
    {no_numbers, ""},
    {long_attribute, "version 0"},
};
const int hostile_n_edits = sizeof hostile_edits / sizeof *hostile_edits;
