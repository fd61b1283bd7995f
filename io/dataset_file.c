/* dataset_file.c - a data set's file in HDF5 is opened, and says what it is. */
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/dataset_impl.h"
#include "io/hdf5.h"
#include "io/order.h"

static ts_err check_header(ts_dataset_file *f, ts_source_info *info) {
  ts_err err = TS_OK;
  char format[64];
  int64_t version = 0, n = -1, transformed = 0;
  ts_hdf5_lock();
  (void)ts_hdf5_get_text(f->in.file, "format", format, sizeof format);
  (void)ts_hdf5_get_number(f->in.file, "version", H5T_NATIVE_INT64, &version);
  (void)ts_hdf5_get_number(f->in.file, "num_samples", H5T_NATIVE_INT64, &n);
  (void)ts_hdf5_get_number(f->in.file, "bayes_logloss", H5T_NATIVE_DOUBLE,
                           &info->bayes_logloss);
  (void)ts_hdf5_get_number(f->in.file, "bayes_auc", H5T_NATIVE_DOUBLE,
                           &info->bayes_auc);
  (void)ts_hdf5_get_number(f->in.file, "transformed", H5T_NATIVE_INT64,
                           &transformed);
  info->transformed |= transformed != 0;
  if (strcmp(format, "tessera-dataset") != 0)
    TS_THROW(TS_ERR_DATA, "%s: is not a tessera data set (format \"%s\")",
             f->in.path, format);
  if (version != 1)
    TS_THROW(TS_ERR_DATA,
             "%s: version %lld of the data set format; this program reads 1",
             f->in.path, (long long)version);
  if (n < 0) TS_THROW(TS_ERR_DATA, "%s: has no num_samples", f->in.path);
  f->n = n;
done:
  ts_hdf5_unlock();
  return err;
}

ts_err ts_dataset_start(ts_dataset *d, ts_dataset_file *f, const char *path) {
  const ts_config *c = d->base.config;
  TS_DO(ts_mem_strdup(&f->in.path, path));
  TS_DO(ts_hdf5_open(&f->in.file, path, TS_ERR_DATA));
  f->in.fd = ts_file_open(path, O_RDONLY);
  if (f->in.fd < 0) return ts_fail_errno(TS_ERR_DATA, path);
  TS_DO(ts_array_size(&f->in));
  d->base.info.bytes += f->in.n_bytes;
  /* Single samples come from memory; the system keeps what was read. */
  if (d->base.split == TS_SPLIT_TRAIN && !ts_order_is_of_files(c))
    TS_DO(ts_array_map(&f->in));
  return check_header(f, &d->base.info);
}
