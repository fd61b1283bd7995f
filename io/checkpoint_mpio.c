/* checkpoint_mpio.c - saving through parallel HDF5, in equal collective
 * rounds: for file systems on which several nodes must not write one file
 * uncoordinated (NFS).
 *
 * Datasets are chunked by rows with fletcher32, so reads verify them without
 * /check.
 *
 * When a write fails on one rank, the others wait for it inside HDF5, and no
 * rank can close the file.  So the space is asked for before, by rank 0; what
 * fails then all the same ends the program. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "config.h"
#include "io/checkpoint_impl.h"
#include "io/checkpoint_seal.h"
#include "base/space.h"

#ifndef NFS_SUPER_MAGIC
#define NFS_SUPER_MAGIC 0x6969
#endif

bool ts_ckpt_use_mpio(const char *io, const char *dir) {
  struct statfs s;
  if (!strcmp(io, "mpio")) return true;
  if (strcmp(io, "auto") != 0) return false;
#ifdef HAVE_PARALLEL_HDF5
  return statfs(dir, &s) == 0 && s.f_type == NFS_SUPER_MAGIC;
#else
  (void)dir, (void)s;
  return false;
#endif
}

#ifdef HAVE_PARALLEL_HDF5
#include <mpi.h>

enum { ROUND_BYTES = 32 << 20, CHUNK_BYTES = 4 << 20, HEADER_BYTES = 4096 };

typedef struct ts_mpio {
  ts_ckpt *c;
  char path[4096], temp[4096];
  int rank, n_ranks;
  hid_t file;
  MPI_Comm comm;
  char *bite; /* (ROUND_BYTES, at least a row) ts_ckpt_needs_bite, or NULL */
} ts_mpio;

/* One rank's part of an item: rows that may be scattered, or columns. */
typedef struct ts_mpio_part {
  ts_ckpt_columns of;
  const uint32_t *at; /* of a piece, or NULL */
} ts_mpio_part;

static bool worst(const ts_mpio *m, bool good) {
  int mine = good, all = 0;
  return MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, m->comm) ==
             MPI_SUCCESS &&
         all;
}

/* ---- space --------------------------------------------------------------- */

static int64_t chunk_rows(int64_t rows, int64_t row_bytes) {
  const int64_t per = CHUNK_BYTES / row_bytes > 0 ? CHUNK_BYTES / row_bytes : 1;
  return per < rows ? per : rows;
}

/* At least as many bytes as the file will have. */
static int64_t bytes_needed(const ts_mpio *m) {
  int64_t sum = HEADER_BYTES;
  for (int32_t i = 0; i < m->c->n_values; i++)
    sum += HEADER_BYTES +
           m->c->values[i].n * (int64_t)ts_dtype_bytes(m->c->values[i].dtype);
  for (int32_t i = 0; i < m->c->n_items; i++) {
    const ts_ckpt_item *it = &m->c->items[i];
    const int64_t row = ts_item_row_bytes(it), per = chunk_rows(it->rows, row);
    const int64_t n = it->rows ? (it->rows + per - 1) / per : 0;
    sum += HEADER_BYTES + n * (per * row + 128);
  }
  return sum;
}

/* Rank 0. */
static ts_err reserve(const ts_mpio *m, int flags) {
  const int fd = ts_file_open(m->temp, flags | O_RDWR);
  if (fd < 0) return ts_fail_errno(TS_ERR_CKPT, m->temp);
  const ts_err err = ts_reserve(fd, bytes_needed(m), m->temp, TS_ERR_CKPT);
  close(fd);
  return err;
}

/* Closing the file could hang, so nobody tries: rank 0 prints the error and
 * ends the job. */
static void give_up(const ts_mpio *m) {
  if (m->rank != 0)
    for (;;) pause();
  unlink(m->temp);
  ts_log_error(ts_err_message());
  ts_mpi_abort(ts_err_exit_code(TS_ERR_CKPT));
}

/* ---- the file ------------------------------------------------------------ */

static hid_t make_dataset(ts_mpio *m, const char *name, ts_dtype dtype,
                          int64_t rows, int64_t cols) {
  const int64_t row = ts_row_bytes(dtype, cols ? cols : 1);
  const hsize_t wide = (hsize_t)ts_stored_columns(dtype, cols);
  const hsize_t dims[2] = {(hsize_t)rows, wide};
  const hsize_t chunk[2] = {(hsize_t)chunk_rows(rows, row), wide};
  hid_t space = H5Screate_simple(cols ? 2 : 1, dims, NULL);
  hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  if (rows) {
    H5Pset_chunk(plist, cols ? 2 : 1, chunk);
    H5Pset_fletcher32(plist);
  }
  H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY);
  hid_t set = -1;
  if (ts_hdf5_make_groups(m->file, name, TS_ERR_CKPT) == TS_OK)
    set = H5Dcreate2(m->file, name, ts_hdf5_type(dtype), space, H5P_DEFAULT,
                     plist, H5P_DEFAULT);
  H5Sclose(space);
  H5Pclose(plist);
  if (set >= 0 && ts_stored_put_kind(set, dtype, cols) != TS_OK) {
    H5Dclose(set);
    set = -1;
  }
  return set;
}

/* One collective write of PART's rows [first, first + n), n may be 0. */
static bool write_rows(ts_mpio *m, hid_t set, const ts_ckpt_item *it,
                       const ts_mpio_part *part, int64_t first, int64_t n) {
  const ts_ckpt_columns *c = &part->of;
  const ts_ckpt_piece rows = {.ptr = c->ptr, .at = part->at};
  const int64_t row = ts_row_bytes(it->dtype, c->n_cols + !it->cols);
  const hsize_t start[2] = {(hsize_t)(c->row0 + first), (hsize_t)c->col0};
  const hsize_t count[2] = {(hsize_t)(n ? n : 1),
                            (hsize_t)ts_stored_columns(it->dtype, c->n_cols)};
  hid_t space = H5Dget_space(set);
  hid_t memory = H5Screate_simple(it->cols ? 2 : 1, count, NULL);
  hid_t plist = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_dxpl_mpio(plist, H5FD_MPIO_COLLECTIVE);
  if (n) {
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  } else {
    H5Sselect_none(space);
    H5Sselect_none(memory);
  }
  const char none = 0;
  const char *data = n ? (const char *)c->ptr + first * row : &none;
  bool good = true;
  if (n && !ts_ckpt_is_plain(&m->c->staging, &rows)) {
    good = ts_ckpt_bring(&m->c->staging, m->bite, &rows, row, first * row,
                         n * row) == TS_OK;
    data = m->bite;
  }
  good &=
      H5Dwrite(set, ts_hdf5_type(it->dtype), memory, space, plist, data) >= 0;
  H5Pclose(plist);
  H5Sclose(memory);
  H5Sclose(space);
  return good;
}

/* The parts of an item that this rank writes: rows, or its columns of them. */
static ts_err own_parts(const ts_mpio *m, const ts_ckpt_item *it,
                        ts_mpio_part **parts, int32_t *n) {
  *n = 0;
  TS_DO(ts_mem_array(parts, it->n_write + it->n_columns + 1, sizeof **parts,
                     TS_TAG_CHECKPOINT));
  for (int32_t k = 0; k < it->n_write; k++) {
    const ts_ckpt_piece *p = &it->write[k];
    (*parts)[(*n)++] = (ts_mpio_part){
        {m->rank, p->row0, p->n_rows, 0, (int32_t)it->cols, p->ptr}, p->at};
  }
  for (int32_t k = 0; k < it->n_columns; k++)
    if (it->columns[k].rank == m->rank)
      (*parts)[(*n)++] = (ts_mpio_part){.of = it->columns[k]};
  return TS_OK;
}

/* All ranks make as many rounds as the one with the most. */
static bool write_parts(ts_mpio *m, hid_t set, const ts_ckpt_item *it,
                        const ts_mpio_part *parts, int32_t n_parts) {
  const int64_t row = ts_item_row_bytes(it);
  const int64_t per = ROUND_BYTES / row > 0 ? ROUND_BYTES / row : 1;
  const ts_mpio_part none = {.of.n_cols = (int32_t)it->cols};
  int64_t rounds = 0, most = 0, done = 0;
  int32_t k = 0;
  bool good = true;
  for (int32_t i = 0; i < n_parts; i++)
    rounds += (parts[i].of.n_rows + per - 1) / per;
  if (MPI_Allreduce(&rounds, &most, 1, MPI_INT64_T, MPI_MAX, m->comm) !=
      MPI_SUCCESS)
    good = false;
  for (int64_t r = 0; it->rows && r < most; r++) {
    while (k < n_parts && done >= parts[k].of.n_rows) k++, done = 0;
    const int64_t left = k < n_parts ? parts[k].of.n_rows - done : 0;
    const int64_t n = left < per ? left : per;
    good &= write_rows(m, set, it, k < n_parts ? &parts[k] : &none, done, n);
    done += n;
  }
  return good;
}

static ts_err write_item(ts_mpio *m, const ts_ckpt_item *it) {
  ts_mpio_part *parts = NULL;
  int32_t n_parts = 0;
  hid_t set = make_dataset(m, it->name, it->dtype, it->rows, it->cols);
  bool good = set >= 0 && own_parts(m, it, &parts, &n_parts) == TS_OK;
  if (!worst(m, good)) {
    if (set >= 0) H5Dclose(set);
    ts_mem_free(parts);
    return ts_fail(TS_ERR_CKPT, "%s: %s can't be made", m->temp, it->name);
  }
  good = write_parts(m, set, it, parts, n_parts);
  ts_mem_free(parts);
  if (H5Dclose(set) < 0) good = false;
  return worst(m, good) ? TS_OK
                        : ts_fail(TS_ERR_CKPT, "%s: %s can't be written",
                                  m->temp, it->name);
}

/* Small values: every rank makes them, rank 0's content counts. */
static ts_err write_value(ts_mpio *m, const ts_ckpt_value *v) {
  const ts_ckpt_item it = {.dtype = v->dtype, .rows = v->n};
  const ts_mpio_part all = {.of = {.n_rows = v->n, .ptr = v->ptr}};
  hid_t set = -1, plist = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t dims[1] = {(hsize_t)v->n};
  hid_t space = H5Screate_simple(1, dims, NULL);
  H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY);
  if (ts_hdf5_make_groups(m->file, v->path, TS_ERR_CKPT) == TS_OK)
    set = H5Dcreate2(m->file, v->path, ts_hdf5_type(v->dtype), space,
                     H5P_DEFAULT, plist, H5P_DEFAULT);
  bool good = set >= 0;
  if (worst(m, good) && v->n)
    good = write_rows(m, set, &it, &all, 0, m->rank == 0 ? v->n : 0);
  if (set >= 0) H5Dclose(set);
  H5Sclose(space);
  H5Pclose(plist);
  return worst(m, good) ? TS_OK
                        : ts_fail(TS_ERR_CKPT, "%s: %s can't be written",
                                  m->temp, v->path);
}

static bool write_attrs(ts_mpio *m) {
  const int64_t one = 1;
  bool good = ts_ckpt_put_head(m->c, m->file) == TS_OK;
  good &= ts_hdf5_put_attr(m->file, "sealed", H5T_NATIVE_INT64, &one,
                           TS_ERR_CKPT) == TS_OK;
  good &= ts_hdf5_put_attr(m->file, "complete", H5T_NATIVE_INT64, &one,
                           TS_ERR_CKPT) == TS_OK;
  return good;
}

static ts_err write_file(ts_mpio *m) {
  /* Values differ between ranks in number only if the program is wrong; take
   * rank 0's lengths as everyone's. */
  for (int32_t i = 0; i < m->c->n_values; i++)
    TS_DO(write_value(m, &m->c->values[i]));
  for (int32_t i = 0; i < m->c->n_items; i++)
    TS_DO(write_item(m, &m->c->items[i]));
  if (!worst(m, write_attrs(m)))
    return ts_fail(TS_ERR_CKPT, "%s: attributes can't be written", m->temp);
  return TS_OK;
}

static ts_err save(void *mpi_comm, void *arg) {
  ts_mpio *m = arg;
  ts_err err = TS_OK;
  m->comm = *(MPI_Comm *)mpi_comm;
  ts_hdf5_lock();
  hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(fapl, m->comm, MPI_INFO_NULL);
  H5Pset_all_coll_metadata_ops(fapl, 1);
  H5Pset_coll_metadata_write(fapl, 1);
  m->file = H5Fcreate(m->temp, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
  H5Pclose(fapl);
  if (!worst(m, m->file >= 0))
    TS_THROW(TS_ERR_CKPT, "%s: can't be made through MPI-IO", m->temp);
  /* Making it anew has given the space back. */
  if (!worst(m, m->rank != 0 || reserve(m, 0) == TS_OK) ||
      write_file(m) != TS_OK)
    give_up(m);
  if (!worst(m, H5Fclose(m->file) >= 0)) {
    (void)ts_fail(TS_ERR_CKPT, "%s: can't be closed", m->temp);
    give_up(m);
  }
done:
  ts_hdf5_unlock();
  return err;
}

/* Takes buffers for one round. */
static ts_err take_bite(ts_mpio *m) {
  int64_t most = ROUND_BYTES;
  if (!ts_ckpt_needs_bite(m->c)) return TS_OK;
  for (int32_t i = 0; i < m->c->n_items; i++)
    if (ts_item_row_bytes(&m->c->items[i]) > most)
      most = ts_item_row_bytes(&m->c->items[i]);
  return ts_mem_alloc(&m->bite, (size_t)most, TS_TAG_CHECKPOINT);
}

/* Before anything is written: nothing can be taken back then. */
static ts_err check_finite(const ts_mpio *m) {
  for (int32_t i = 0; i < m->c->n_items; i++) {
    const ts_ckpt_item *it = &m->c->items[i];
    const int64_t row = ts_item_row_bytes(it);
    for (int32_t k = 0; k < it->n_write; k++)
      TS_DO(ts_ckpt_check_piece(m->c, it, &it->write[k]));
    for (int32_t k = 0; k < it->n_columns; k++) {
      const ts_ckpt_columns *c = &it->columns[k];
      if (c->rank == m->rank)
        TS_DO(ts_ckpt_check_finite(m->c, it, c->ptr, c->row0 * row,
                                   c->n_rows * ts_columns_row_bytes(it, c)));
    }
  }
  return TS_OK;
}

static ts_err prepare(const ts_mpio *m, const char *dir) {
  TS_DO(ts_ckpt_mkdirs(dir));
  unlink(m->temp); /* of a run that was killed */
  return reserve(m, O_CREAT | O_EXCL);
}

/* Texts differ in nothing but what rank 0 says: lengths are made equal. */
static ts_err equal_values(ts_mpio *m, ts_comm *comm) {
  for (int32_t i = 0; i < m->c->n_values; i++) {
    ts_ckpt_value *v = &m->c->values[i];
    int64_t n = v->n;
    TS_DO(ts_comm_bcast(comm, &n, sizeof n, 0));
    if (n == v->n) continue;
    ts_mem_free(v->ptr);
    v->ptr = NULL;
    TS_DO(ts_mem_array(&v->ptr, n + 1, ts_dtype_bytes(v->dtype),
                       TS_TAG_CHECKPOINT));
    v->n = n;
  }
  return TS_OK;
}

static ts_err give_name(const ts_mpio *m, const char *dir) {
  TS_DO(ts_seal_chunked(m->c, m->temp));
  return ts_ckpt_give_name(m->temp, m->path, dir);
}

ts_err ts_ckpt_save_mpio(ts_ckpt *c, const char *dir, int keep, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_mpio m = {.c = c,
               .rank = ts_comm_rank(comm),
               .n_ranks = ts_comm_size(comm),
               .file = -1};
  char name[64];
  ts_ckpt_name(name, c->kind, c->step);
  snprintf(m.path, sizeof m.path, "%.4000s/%s", dir, name);
  snprintf(m.temp, sizeof m.temp, "%.4000s/.%s.part", dir, name);
  TS_TRY(ts_agree(comm, take_bite(&m)));
  TS_TRY(ts_agree(comm, check_finite(&m)));
  TS_TRY(equal_values(&m, comm));
  TS_TRY(ts_agree(comm, m.rank == 0 ? prepare(&m, dir) : TS_OK));
  TS_TRY(ts_agree(comm, ts_comm_run_mpi(comm, save, &m)));
  TS_TRY(ts_agree(comm, m.rank == 0 ? give_name(&m, dir) : TS_OK));
  TS_TRY(ts_agree(comm, m.rank == 0 ? ts_ckpt_prune(dir, keep, m.path, true)
                                    : TS_OK));
done:
  if (err != TS_OK && m.rank == 0) unlink(m.temp);
  ts_mem_free(m.bite);
  return err;
}
#else
ts_err ts_ckpt_save_mpio(ts_ckpt *c, const char *dir, int keep, ts_comm *comm) {
  (void)c, (void)dir, (void)keep, (void)comm;
  return ts_fail(TS_ERR_DECK, "checkpoint.io \"mpio\" needs parallel HDF5, "
                              "which this build lacks");
}
#endif
