/* predictions.c - writing predictions from all ranks. */
#include "io/predictions.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/space.h"
#include "io/hdf5.h"

struct ts_predictions {
  char path[4096], temp[4096];
  int fd;
  int32_t n_tasks;
  int64_t at[2]; /* predictions, labels */
  bool first;
};

static ts_err make_file(ts_predictions *p, int64_t n) {
  ts_err err = TS_OK;
  static const char *const names[2] = {"predictions", "labels"};
  const hsize_t dims[2] = {(hsize_t)n, (hsize_t)p->n_tasks};
  TS_DO(ts_size_allowed(8 * n * p->n_tasks, p->temp, TS_ERR_IO));
  ts_hdf5_lock();
  unlink(p->temp); /* of one that was killed, or planted */
  hid_t file =
      TS_HDF5(H5Fcreate(p->temp, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT));
  hid_t space = H5Screate_simple(p->n_tasks > 1 ? 2 : 1, dims, NULL);
  hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER);
  if (file < 0) TS_THROW(TS_ERR_IO, "%s: %s", p->temp, ts_hdf5_why());
  for (int i = 0; i < 2; i++) {
    hid_t set = TS_HDF5(H5Dcreate2(file, names[i], H5T_IEEE_F32LE, space,
                                   H5P_DEFAULT, plist, H5P_DEFAULT));
    p->at[i] = set >= 0 ? (int64_t)H5Dget_offset(set) : -1;
    if (set >= 0) H5Dclose(set);
    if (p->at[i] < 0) TS_THROW(TS_ERR_IO, "%s: %s", p->temp, ts_hdf5_why());
  }
done:
  H5Pclose(plist);
  H5Sclose(space);
  err = ts_hdf5_close(file, p->temp, err, TS_ERR_IO);
  ts_hdf5_unlock();
  return err;
}

static ts_err open_file(ts_predictions *p) {
  p->fd = ts_file_open(p->temp, O_RDWR);
  if (p->fd >= 0) return TS_OK;
  return ts_fail_errno(TS_ERR_IO, p->temp);
}

ts_err ts_predictions_create(ts_predictions **out, const char *path, int64_t n,
                             int32_t n_tasks, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_predictions *p = NULL;
  TS_TRY(ts_mem_alloc(&p, sizeof *p, TS_TAG_MISC));
  p->fd = -1;
  p->n_tasks = n_tasks;
  p->first = ts_comm_rank(comm) == 0;
  snprintf(p->path, sizeof p->path, "%s", path);
  snprintf(p->temp, sizeof p->temp, "%.4080s.part", path);
  TS_TRY(ts_agree(comm, p->first ? make_file(p, n) : TS_OK));
  TS_TRY(ts_comm_bcast(comm, p->at, sizeof p->at, 0));
  TS_TRY(ts_agree(comm, open_file(p)));
  *out = p;
  p = NULL;
done:
  if (p && p->fd >= 0) close(p->fd);
  if (p && p->first) unlink(p->temp);
  ts_mem_free(p);
  return err;
}

ts_err ts_predictions_write(ts_predictions *p, int64_t first, int64_t n,
                            const float *predictions, const float *labels) {
  const int64_t row = 4 * (int64_t)p->n_tasks;
  TS_DO(ts_pwrite(p->fd, predictions, n * row, p->at[0] + first * row, p->path,
                  TS_ERR_IO));
  return ts_pwrite(p->fd, labels, n * row, p->at[1] + first * row, p->path,
                   TS_ERR_IO);
}

ts_err ts_predictions_finish(ts_predictions *p, ts_err err, ts_comm *comm) {
  if (!p) return err;
  if (err == TS_OK && ts_file_sync(p->fd) != 0)
    err = ts_fail_errno(TS_ERR_IO, p->path);
  close(p->fd);
  err = ts_agree(comm, err);
  if (err == TS_OK && p->first && ts_file_rename(p->temp, p->path) != 0)
    err = ts_fail_errno(TS_ERR_IO, p->path);
  if (p->first && err != TS_OK) unlink(p->temp);
  err = ts_agree(comm, err);
  ts_mem_free(p);
  return err;
}
