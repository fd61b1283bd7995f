/* checkpoint_write.c - saving.
 *
 * Rank 0 makes the file under a temporary name with contiguous datasets that
 * have their place on disk; every rank writes its rows there with pwrite and
 * computes checksums of the 1 MiB blocks that are wholly its own.  Blocks at
 * borders between ranks are read back by rank 0.  All statuses are agreed
 * before the file gets its name: a failed write on one rank never leaves a
 * file that looks whole. */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"
#include "io/checkpoint_seal.h"
#include "base/space.h"
#include "runtime/watchdog.h"

/* More than HDF5 takes for what stands around a dataset. */
enum { HEADER_BYTES = 1024 };

/* ---- rank 0: the file ---------------------------------------------------- */

static ts_err make_dataset(const ts_saver *s, const char *name, ts_dtype dtype,
                           int64_t rows, int64_t cols, hid_t *out) {
  ts_err err = TS_OK;
  const hsize_t dims[2] = {(hsize_t)rows, (hsize_t)cols};
  hid_t space = H5Screate_simple(cols ? 2 : 1, dims, NULL);
  hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
  TS_TRY(ts_hdf5_make_groups(s->file, name, TS_ERR_CKPT));
  H5Pset_alloc_time(plist, H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(plist, H5D_FILL_TIME_NEVER);
  *out = TS_HDF5(H5Dcreate2(s->file, name, ts_hdf5_type(dtype), space,
                            H5P_DEFAULT, plist, H5P_DEFAULT));
  if (*out < 0)
    TS_THROW(TS_ERR_CKPT, "%s: dataset %s can't be made: %s", s->temp, name,
             ts_hdf5_why());
done:
  H5Sclose(space);
  H5Pclose(plist);
  return err;
}

static ts_err write_text_attr(hid_t file, const char *name, const char *text) {
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, strlen(text) + 1);
  ts_err err = ts_hdf5_put_attr(file, name, type, text, TS_ERR_CKPT);
  H5Tclose(type);
  return err;
}

static ts_err write_small(const ts_saver *s, const char *name, ts_dtype dtype,
                          int64_t n, const void *data) {
  ts_err err = TS_OK;
  hid_t set = -1;
  TS_TRY(make_dataset(s, name, dtype, n, 0, &set));
  if (n && TS_HDF5(H5Dwrite(set, ts_hdf5_type(dtype), H5S_ALL, H5S_ALL,
                            H5P_DEFAULT, data)) < 0)
    TS_THROW(TS_ERR_CKPT, "%s: %s can't be written: %s", s->temp, name,
             ts_hdf5_why());
done:
  if (set >= 0) H5Dclose(set);
  return err;
}

static ts_err write_header(ts_saver *s) {
  ts_err err = TS_OK;
  const int64_t version = 1;
  TS_TRY(write_text_attr(s->file, "format", "tessera-checkpoint"));
  TS_TRY(ts_hdf5_put_attr(s->file, "version", H5T_NATIVE_INT64, &version,
                          TS_ERR_CKPT));
  TS_TRY(ts_hdf5_put_attr(s->file, "step", H5T_NATIVE_INT64, &s->c->step,
                          TS_ERR_CKPT));
  for (int32_t i = 0; i < s->c->n_values; i++) {
    const ts_ckpt_value *v = &s->c->values[i];
    TS_TRY(write_small(s, v->path, v->dtype, v->n, v->ptr));
  }
done:
  return err;
}

static ts_err create_items(ts_saver *s) {
  ts_err err = TS_OK;
  for (int32_t i = 0; i < s->c->n_items; i++) {
    const ts_ckpt_item *item = &s->c->items[i];
    hid_t set = -1;
    TS_TRY(
        make_dataset(s, item->name, item->dtype, item->rows, item->cols, &set));
    const haddr_t at = H5Dget_offset(set);
    H5Dclose(set);
    if (at == HADDR_UNDEF && item->rows)
      TS_THROW(TS_ERR_CKPT, "%s: %s has no place in the file", s->temp,
               item->name);
    s->at[i] = item->rows ? (int64_t)at : 0;
  }
done:
  return err;
}

/* The datasets have their space; that of the checksums, which follow them,
 * is taken now, too: a full disk is met before anything is written. */
static ts_err reserve(ts_saver *s) {
  struct stat st;
  int64_t after = HEADER_BYTES + ts_seal_bytes(s->c->n_items);
  for (int32_t i = 0; i < s->c->n_items; i++)
    after += HEADER_BYTES + 4 * s->n_blocks[i];
  if (fstat(s->fd, &st) != 0)
    return ts_fail(TS_ERR_CKPT, "%s: %s", s->temp, strerror(errno));
  return ts_reserve(s->fd, (int64_t)st.st_size + after, s->temp, TS_ERR_CKPT);
}

ts_err ts_ckpt_mkdirs(const char *dir) {
  char why[1024];
  if (ts_mkdirs(dir) == TS_OK) return TS_OK;
  snprintf(why, sizeof why, "%s", ts_err_message());
  ts_err_clear();
  return ts_fail(TS_ERR_CKPT, "%s", why);
}

static ts_err create_file(ts_saver *s) {
  ts_err err = ts_ckpt_mkdirs(s->dir);
  if (err != TS_OK) return err;
  unlink(s->temp); /* of a run that was killed; never followed: O_EXCL */
  s->fd = ts_file_open(s->temp, O_CREAT | O_EXCL | O_RDWR);
  if (s->fd < 0)
    return ts_fail(TS_ERR_CKPT, "%s: %s", s->temp, strerror(errno));
  ts_hdf5_lock();
  hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(fapl, H5F_LIBVER_V18, H5F_LIBVER_V18);
  H5Pset_alignment(fapl, 65536, 4096);
  s->file = TS_HDF5(H5Fcreate(s->temp, H5F_ACC_TRUNC, H5P_DEFAULT, fapl));
  H5Pclose(fapl);
  if (s->file < 0) TS_THROW(TS_ERR_CKPT, "%s: %s", s->temp, ts_hdf5_why());
  TS_TRY(write_header(s));
  TS_TRY(create_items(s));
done:
  err = ts_hdf5_close(s->file, s->temp, err, TS_ERR_CKPT);
  s->file = -1;
  ts_hdf5_unlock();
  return err == TS_OK ? reserve(s) : err;
}

/* ---- every rank: its rows ------------------------------------------------ */

/* Checksums of the blocks that lie wholly in bytes [from, from + n). */
static void sum_blocks(ts_saver *s, int32_t i, const char *data, int64_t from,
                       int64_t n, int64_t total) {
  int64_t block = ts_blocks(from);
  for (;; block++) {
    const int64_t start = block * TS_BLOCK_BYTES;
    const int64_t end =
        total - start < TS_BLOCK_BYTES ? total : start + TS_BLOCK_BYTES;
    if (start >= total || end > from + n) return;
    s->crc[i][block] =
        ts_crc32c(0, data + (start - from), (size_t)(end - start));
    s->own[i][block] = 1;
  }
}

ts_err ts_ckpt_write_rows(ts_saver *s, int32_t i, const ts_ckpt_piece *p) {
  ts_err err = TS_OK;
  const ts_ckpt_item *item = &s->c->items[i];
  const int64_t row = ts_item_row_bytes(item);
  const int64_t total = ts_item_bytes(item->dtype, item->rows, item->cols);
  const int64_t from = p->row0 * row, n = p->n_rows * row;
  if (ts_fault("freeze"))
    for (;;) pause();
  /* In bites, summed while they are in the cache. */
  for (int64_t at = 0; at < n;) {
    int64_t end = (from + at) / TS_BLOCK_BYTES * TS_BLOCK_BYTES +
                  8 * (int64_t)TS_BLOCK_BYTES - from;
    if (end > n) end = n;
    const char *data = (const char *)p->ptr + at;
    sum_blocks(s, i, data, from + at, end - at, total);
    TS_TRY(ts_ckpt_check_finite(s->c, item, data, from + at, end - at));
    TS_TRY(ts_pwrite(s->fd, data, end - at, s->at[i] + from + at, s->temp,
                     TS_ERR_CKPT));
    if (s->hooks.beat) s->hooks.beat(s->hooks.arg);
    at = end;
  }
done:
  return err;
}

static ts_err write_pieces(ts_saver *s, bool copied) {
  ts_err err = TS_OK;
  if (s->fd < 0) {
    s->fd = ts_file_open(s->temp, O_RDWR);
    if (s->fd < 0)
      return ts_fail(TS_ERR_CKPT,
                     "%s: %s (is the folder shared by all "
                     "nodes?)",
                     s->temp, strerror(errno));
  }
  for (int32_t i = 0; i < s->c->n_items; i++)
    for (int32_t k = 0; k < s->c->items[i].n_write; k++)
      if (s->c->items[i].write[k].copied == copied)
        TS_TRY(ts_ckpt_write_rows(s, i, &s->c->items[i].write[k]));
done:
  return err;
}

static ts_err sync_file(const ts_saver *s) {
  if (ts_file_sync(s->fd) != 0)
    return ts_fail(TS_ERR_CKPT, "%s: %s", s->temp, strerror(errno));
  return TS_OK;
}

/* ---- checksums ----------------------------------------------------------- */

/* Brings all checksums to all ranks: sums of (checksum + 2^40 marker). */
static ts_err share_sums(ts_saver *s, int32_t i, int64_t *shared) {
  const int64_t n = s->n_blocks[i];
  for (int64_t b = 0; b < n; b++)
    shared[b] = s->own[i][b] ? INT64_C(1) << 40 | s->crc[i][b] : 0;
  return ts_comm_sum_i64(s->comm, shared, n);
}

/* Rank 0 reads back what no rank had whole. */
static ts_err sum_borders(ts_saver *s, int32_t i, const int64_t *shared,
                          char *block) {
  ts_err err = TS_OK;
  const ts_ckpt_item *item = &s->c->items[i];
  const int64_t total = ts_item_bytes(item->dtype, item->rows, item->cols);
  for (int64_t b = 0; b < s->n_blocks[i]; b++) {
    if (shared[b] >> 40) {
      s->crc[i][b] = (uint32_t)shared[b];
      continue;
    }
    const int64_t at = b * TS_BLOCK_BYTES;
    const int64_t n = total - at < TS_BLOCK_BYTES ? total - at : TS_BLOCK_BYTES;
    TS_TRY(ts_pread(s->fd, block, n, s->at[i] + at, s->temp, TS_ERR_CKPT));
    s->crc[i][b] = ts_crc32c(0, block, (size_t)n);
  }
done:
  return err;
}

static ts_err collect_sums(ts_saver *s) {
  ts_err err = TS_OK, local = TS_OK;
  int64_t *shared = NULL;
  char *block = NULL;
  int64_t most = 0;
  for (int32_t i = 0; i < s->c->n_items; i++)
    if (s->n_blocks[i] > most) most = s->n_blocks[i];
  TS_TRY(ts_mem_array(&shared, most, sizeof *shared, TS_TAG_CHECKPOINT));
  TS_TRY(ts_mem_alloc(&block, TS_BLOCK_BYTES, TS_TAG_CHECKPOINT));
  for (int32_t i = 0; i < s->c->n_items; i++) {
    TS_TRY(share_sums(s, i, shared));
    if (s->first && local == TS_OK) local = sum_borders(s, i, shared, block);
  }
done:
  ts_mem_free(shared);
  ts_mem_free(block);
  return err != TS_OK ? err : local;
}

/* ---- the end ------------------------------------------------------------- */

/* Items have checksums under /check. */
static ts_err put_seal(ts_saver *s) {
  ts_err err = TS_OK;
  const int32_t n = s->c->n_items;
  ts_seal_hole *holes = NULL;
  TS_TRY(ts_mem_array(&holes, n, sizeof *holes, TS_TAG_CHECKPOINT));
  for (int32_t i = 0; i < n; i++) {
    const ts_ckpt_item *it = &s->c->items[i];
    holes[i] =
        (ts_seal_hole){s->at[i], ts_item_bytes(it->dtype, it->rows, it->cols)};
  }
  TS_TRY(ts_seal_write(s->fd, s->temp, holes, n));
done:
  ts_mem_free(holes);
  return err;
}

/* Checksums, complete = 1, the seal; then the name. */
static ts_err seal(ts_saver *s) {
  ts_err err = TS_OK;
  const int64_t one = 1;
  char name[1024];
  ts_hdf5_lock();
  s->file = TS_HDF5(H5Fopen(s->temp, H5F_ACC_RDWR, H5P_DEFAULT));
  if (s->file < 0) TS_THROW(TS_ERR_CKPT, "%s: %s", s->temp, ts_hdf5_why());
  for (int32_t i = 0; i < s->c->n_items; i++) {
    snprintf(name, sizeof name, "check/%.900s", s->c->items[i].name);
    TS_TRY(write_small(s, name, TS_I32, s->n_blocks[i], s->crc[i]));
  }
  TS_TRY(
      ts_hdf5_put_attr(s->file, "sealed", H5T_NATIVE_INT64, &one, TS_ERR_CKPT));
  TS_TRY(ts_hdf5_put_attr(s->file, "complete", H5T_NATIVE_INT64, &one,
                          TS_ERR_CKPT));
done:
  err = ts_hdf5_close(s->file, s->temp, err, TS_ERR_CKPT);
  s->file = -1;
  ts_hdf5_unlock();
  if (err == TS_OK) err = put_seal(s);
  if (err == TS_OK && ts_file_sync(s->fd) != 0)
    err = ts_fail(TS_ERR_CKPT, "%s: %s", s->temp, strerror(errno));
  return err;
}

ts_err ts_ckpt_give_name(const char *temp, const char *path, const char *in) {
  if (ts_file_rename(temp, path) != 0)
    return ts_fail(TS_ERR_CKPT, "%s: %s", path, strerror(errno));
  if (ts_file_sync_folder(in) != 0)
    return ts_fail(TS_ERR_CKPT, "%s: %s", in, strerror(errno));
  return TS_OK;
}

/* All that is COPIED, or is not. */
static ts_err write_all(ts_saver *s, bool copied) {
  ts_err err = TS_OK;
  TS_TRY(ts_agree(s->comm, write_pieces(s, copied)));
  TS_TRY(ts_ckpt_write_columns(s, copied));
done:
  return err;
}

static ts_err save_all(ts_saver *s) {
  ts_err err = TS_OK;
  TS_TRY(ts_agree(s->comm, s->first ? create_file(s) : TS_OK));
  TS_TRY(ts_comm_bcast(s->comm, s->at, 8 * (int64_t)s->c->n_items, 0));
  TS_TRY(write_all(s, false));
  if (s->hooks.read) {
    s->hooks.read(s->hooks.arg);
    TS_TRY(write_all(s, true));
  }
  TS_TRY(ts_agree(s->comm, sync_file(s)));
  TS_TRY(ts_agree(s->comm, collect_sums(s)));
  TS_TRY(ts_agree(s->comm, s->first ? seal(s) : TS_OK));
  if (s->first) err = ts_ckpt_give_name(s->temp, s->path, s->dir);
  TS_TRY(ts_agree(s->comm, err));
done:
  return err;
}

static ts_err saver_start(ts_saver *s) {
  ts_err err = TS_OK;
  const int32_t n = s->c->n_items;
  TS_TRY(ts_mem_array(&s->at, n, sizeof *s->at, TS_TAG_CHECKPOINT));
  TS_TRY(ts_mem_array(&s->crc, n, sizeof *s->crc, TS_TAG_CHECKPOINT));
  TS_TRY(ts_mem_array(&s->own, n, sizeof *s->own, TS_TAG_CHECKPOINT));
  TS_TRY(ts_mem_array(&s->n_blocks, n, sizeof *s->n_blocks, TS_TAG_CHECKPOINT));
  for (int32_t i = 0; i < n; i++) {
    const ts_ckpt_item *it = &s->c->items[i];
    s->n_blocks[i] = ts_blocks(ts_item_bytes(it->dtype, it->rows, it->cols));
    TS_TRY(ts_mem_array(&s->crc[i], s->n_blocks[i], sizeof(uint32_t),
                        TS_TAG_CHECKPOINT));
    TS_TRY(ts_mem_array(&s->own[i], s->n_blocks[i], 1, TS_TAG_CHECKPOINT));
  }
done:
  return err;
}

static void beat(void *arg) {
  (void)arg;
  ts_watch_beat();
}

ts_err ts_ckpt_save(ts_ckpt *c, const char *dir, int keep, const char *io,
                    ts_comm *comm) {
  const ts_ckpt_hooks hooks = {.beat = beat};
  if (ts_ckpt_use_mpio(io, dir)) return ts_ckpt_save_mpio(c, dir, keep, comm);
  return ts_ckpt_save_hooked(c, dir, keep, comm, &hooks);
}

ts_err ts_ckpt_save_hooked(ts_ckpt *c, const char *dir, int keep, ts_comm *comm,
                           const ts_ckpt_hooks *hooks) {
  ts_err err = TS_OK;
  ts_saver s = {.c = c,
                .comm = comm,
                .first = ts_comm_rank(comm) == 0,
                .file = -1,
                .fd = -1,
                .hooks = *hooks};
  snprintf(s.dir, sizeof s.dir, "%s", dir);
  snprintf(s.path, sizeof s.path, "%.4000s/step-%08lld.h5", dir,
           (long long)c->step);
  snprintf(s.temp, sizeof s.temp, "%.4000s/.step-%08lld.h5.part", dir,
           (long long)c->step);
  TS_TRY(ts_agree(comm, saver_start(&s)));
  TS_TRY(save_all(&s));
  if (s.first) ts_ckpt_prune(dir, keep, s.path);
done:
  if (s.fd >= 0) close(s.fd);
  if (err != TS_OK && s.first) unlink(s.temp);
  for (int32_t i = 0; s.crc && i < c->n_items; i++) ts_mem_free(s.crc[i]);
  for (int32_t i = 0; s.own && i < c->n_items; i++) ts_mem_free(s.own[i]);
  ts_mem_free(s.crc);
  ts_mem_free(s.own);
  ts_mem_free(s.at);
  ts_mem_free(s.n_blocks);
  return err;
}
