/* fuzz_dataset.c - data sets in HDF5: a right one, edited. */
#include "io/deck.h"
#include "io/hdf5.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/hdf5_edit.h"

static const char deck[] =
    "run = { steps = 1; };\n"
    "data = { train = \"in.h5\"; format = \"dataset\"; global_batch = 7; };\n"
    "tables = ( { name = \"u\"; rows = 100; dim = 4; features = \"u\"; },\n"
    "  { name = \"v\"; rows = 100; dim = 4; features = \"v\";\n"
    "    weighted = true; } );\n"
    "model = { dense_features = 2; dense_arch = [4]; over_arch = [1]; };\n";

static const char *const links[] = {"labels",           "dense",
                                    "sample_weights",   "sparse/u/values",
                                    "sparse/u/offsets", "sparse/v/values",
                                    "sparse/v/weights", "sparse/v",
                                    "sparse",           "other"};
static const char *const attributes[] = {"format", "version", "num_samples",
                                         "bayes_auc"};

static void put(hid_t file, const char *name, hid_t type, int rows, int cols) {
  int64_t values[16];
  const hsize_t dims[2] = {(hsize_t)rows, (hsize_t)cols};
  for (int i = 0; i < 16; i++) values[i] = i;
  const hid_t space = H5Screate_simple(cols ? 2 : 1, dims, NULL);
  FUZZ_CHECK(ts_hdf5_make_groups(file, name, TS_ERR_DATA) == TS_OK);
  const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT,
                               H5P_DEFAULT, H5P_DEFAULT);
  FUZZ_CHECK(H5Dwrite(set, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                      values) >= 0);
  H5Dclose(set);
  H5Sclose(space);
}

/* Eight samples; feature u has offsets, v weights. */
static void make(const char *path) {
  const int64_t version = 1, n = 8;
  char format[] = "tessera-dataset";
  ts_hdf5_lock();
  const hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  FUZZ_CHECK(file >= 0);
  put(file, "labels", H5T_IEEE_F32LE, 8, 0);
  put(file, "dense", H5T_IEEE_F32LE, 8, 2);
  put(file, "sparse/u/values", H5T_STD_I64LE, 12, 0);
  put(file, "sparse/u/offsets", H5T_STD_I64LE, 9, 0);
  put(file, "sparse/v/values", H5T_STD_I32LE, 8, 0);
  put(file, "sparse/v/weights", H5T_IEEE_F32LE, 8, 0);
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, sizeof format);
  FUZZ_CHECK(ts_hdf5_put_attr(file, "format", text, format, TS_ERR_DATA) ==
             TS_OK);
  FUZZ_CHECK(ts_hdf5_put_attr(file, "version", H5T_NATIVE_INT64, &version,
                              TS_ERR_DATA) == TS_OK);
  FUZZ_CHECK(ts_hdf5_put_attr(file, "num_samples", H5T_NATIVE_INT64, &n,
                              TS_ERR_DATA) == TS_OK);
  H5Tclose(text);
  H5Fclose(file);
  ts_hdf5_unlock();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static ts_config *c;
  const fuzz_names names = {links, attributes, sizeof links / sizeof *links,
                            sizeof attributes / sizeof *attributes};
  if (!c) c = fuzz_deck(deck, NULL, 0);
  make(fuzz_path("in.h5"));
  fuzz_hdf5_edit(fuzz_path("in.h5"), data, size, &names);
  const ts_err err = fuzz_read(c, NULL, NULL);
  FUZZ_CHECK(size || err == TS_OK);
  FUZZ_CHECK(err == TS_OK || err == TS_ERR_DATA);
  ts_err_clear();
  return 0;
}
