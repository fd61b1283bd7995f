/* dataset_make.c - the frame of a data set file. */
#include "io/dataset_make.h"

#include <stdio.h>
#include <unistd.h>

ts_err ts_dataset_make(hid_t *file, const char *temp, int64_t n) {
  ts_err err = TS_OK;
  const int64_t version = 1;
  unlink(temp);
  *file = TS_HDF5(H5Fcreate(temp, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
  if (*file < 0) return ts_fail(TS_ERR_IO, "%s: %s", temp, ts_hdf5_why());
  hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, sizeof "tessera-dataset");
  TS_TRY(ts_hdf5_put_attr(*file, "format", text, "tessera-dataset", TS_ERR_IO));
  TS_TRY(ts_hdf5_put_attr(*file, "version", H5T_NATIVE_INT64, &version,
                          TS_ERR_IO));
  TS_TRY(
      ts_hdf5_put_attr(*file, "num_samples", H5T_NATIVE_INT64, &n, TS_ERR_IO));
  hid_t group =
      H5Gcreate2(*file, "sparse", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (group >= 0) H5Gclose(group);
done:
  H5Tclose(text);
  return err;
}

ts_err ts_dataset_make_array(hid_t file, const char *name, hid_t type,
                             int64_t rows, int64_t cols, int64_t *at) {
  const hsize_t dims[2] = {(hsize_t)rows, (hsize_t)cols};
  hid_t space = H5Screate_simple(cols > 1 ? 2 : 1, dims, NULL);
  hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER);
  hid_t set = TS_HDF5(
      H5Dcreate2(file, name, type, space, H5P_DEFAULT, plist, H5P_DEFAULT));
  const haddr_t offset = set >= 0 ? H5Dget_offset(set) : HADDR_UNDEF;
  if (set >= 0) H5Dclose(set);
  H5Pclose(plist);
  H5Sclose(space);
  *at = offset == HADDR_UNDEF ? 0 : (int64_t)offset;
  if (set < 0 || (offset == HADDR_UNDEF && rows))
    return ts_fail(TS_ERR_IO, "dataset %s can't be made", name);
  return TS_OK;
}

ts_err ts_dataset_make_feature(hid_t file, const char *feature, int64_t n,
                               ts_dataset_bags *b) {
  ts_err err = TS_OK;
  char name[512];
  snprintf(name, sizeof name, "sparse/%.400s", feature);
  hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (group < 0)
    return ts_fail(TS_ERR_IO, "group %s can't be made: %s", name,
                   ts_hdf5_why());
  TS_TRY(ts_dataset_make_array(group, "values", H5T_STD_I64LE, b->n_ids, 1,
                               &b->at.values));
  /* A reader takes from it how many rows the ids need. */
  TS_TRY(ts_hdf5_put_attr(group, "max_id", H5T_NATIVE_INT64, &b->max_id,
                          TS_ERR_IO));
  if (b->offsets)
    TS_TRY(ts_dataset_make_array(group, "offsets", H5T_STD_I64LE, n + 1, 1,
                                 &b->at.offsets));
  if (b->weights)
    TS_TRY(ts_dataset_make_array(group, "weights", H5T_IEEE_F32LE, b->n_ids, 1,
                                 &b->at.weights));
done:
  H5Gclose(group);
  return err;
}
