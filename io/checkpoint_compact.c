/* checkpoint_compact.c - a delta and all that it builds on, as the full
 * checkpoint of its step.
 *
 * Rows go from file to file, some at a time, so tables may be larger than all
 * memory.  The new file has a name of its own until it is whole, and the
 * delta's seal, so that a delta of training that goes on builds on either of
 * them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"

typedef struct ts_compacting {
  ts_ckpt c;
  ts_ckpt_reader reader;
  ts_stored stored; /* of the item whose rows are written */
  ts_overlays over;
  char *rows; /* (TS_BITE_BYTES, at least a row) */
  int64_t rows_bytes;
  ts_comm *comm;
  int64_t broken; /* what is read is not whole, here; then on any rank */
  ts_err err;     /* of what looks at the datasets */
} ts_compacting;

/* ---- what there is ------------------------------------------------------- */

/* Values and what is the delta's alone; all else are items. */
static bool is_item(const ts_compacting *k, const char *name) {
  return strncmp(name, "delta/", 6) != 0 && strncmp(name, "check/", 6) != 0 &&
         !ts_ckpt_value_of(&k->c, name);
}

static ts_err add_item(ts_compacting *k, const char *name) {
  ts_ckpt_item *item;
  ts_stored s;
  ts_err err = ts_ckpt_open_set(&s, &k->reader, name);
  if (err == TS_OK)
    err = ts_ckpt_add_item(&k->c, name, s.dtype, s.rows, s.cols, &item);
  if (err == TS_OK && ts_item_row_bytes(item) > k->rows_bytes)
    k->rows_bytes = ts_item_row_bytes(item);
  ts_stored_reset(&s);
  return err;
}

static herr_t look_at(hid_t file, const char *name, const H5O_info_t *info,
                      void *arg) {
  ts_compacting *k = arg;
  (void)file;
  if (info->type != H5O_TYPE_DATASET || !is_item(k, name)) return 0;
  k->err = add_item(k, name);
  return k->err == TS_OK ? 0 : -1;
}

static ts_err describe(ts_compacting *k, const char *path) {
  int64_t step;
  TS_DO(ts_ckpt_peek(&k->c, path));
  TS_DO(ts_ckpt_reader_open(&k->reader, path, true, &step));
  if (k->reader.kind != TS_CKPT_DELTA)
    return ts_fail(TS_ERR_CKPT,
                   k->reader.kind == TS_CKPT_FULL
                       ? "%s: is a full checkpoint already"
                       : "%s: holds no optimizers' state, and is no delta that "
                         "training could go on from",
                   path);
  k->c.kind = TS_CKPT_FULL;
  k->c.step = step;
  k->c.stands_for = k->reader.seal;
  k->rows_bytes = TS_BITE_BYTES;
  ts_hdf5_lock();
  const herr_t rc =
      H5Ovisit(k->reader.file, H5_INDEX_NAME, H5_ITER_NATIVE, look_at, k);
  ts_hdf5_unlock();
  if (k->err != TS_OK) return k->err;
  if (rc < 0) return ts_fail(TS_ERR_CKPT, "%s: is damaged", path);
  return ts_mem_alloc(&k->rows, (size_t)k->rows_bytes, TS_TAG_CHECKPOINT);
}

/* ---- rows ---------------------------------------------------------------- */

static ts_err write_rows(ts_compacting *k, ts_saver *s, int32_t i, int64_t row0,
                         int64_t n_rows) {
  const ts_ckpt_item *item = &k->c.items[i];
  const ts_ckpt_columns part = {.row0 = row0, .n_rows = n_rows, .ptr = k->rows};
  const ts_ckpt_piece piece = {.row0 = row0, .n_rows = n_rows, .ptr = k->rows};
  k->broken = 1;
  TS_DO(ts_ckpt_read_over(&k->reader, &k->over, &k->stored, item, &part, true));
  k->broken = 0;
  return ts_ckpt_write_rows(s, i, &piece);
}

/* This rank's part of item I. */
static ts_err fill(void *arg, ts_saver *s, int32_t i) {
  ts_err err = TS_OK;
  ts_compacting *k = arg;
  const ts_ckpt_item *item = &k->c.items[i];
  const int64_t w = ts_comm_size(k->comm), r = ts_comm_rank(k->comm);
  const int64_t end = item->rows * (r + 1) / w;
  const int64_t fit = k->rows_bytes / ts_item_row_bytes(item);
  TS_TRY(ts_ckpt_open_set(&k->stored, &k->reader, item->name));
  TS_TRY(ts_overlays_open(&k->over, &k->reader, &k->stored, item));
  for (int64_t at = item->rows * r / w; at < end; at += fit)
    TS_TRY(write_rows(k, s, i, at, end - at < fit ? end - at : fit));
done:
  ts_overlays_close(&k->over);
  ts_stored_reset(&k->stored);
  return err;
}

/* ---- one at a time ------------------------------------------------------- */

/* Rank 0's: two that take the same name would rename each other's half-written
 * file.  HDF5 locks the files that it opens, so the lock is a file of its own,
 * which stays.  Where the file system has no locks there is none. */
static ts_err lock(int *fd, const char *dir) {
  char path[4200];
  snprintf(path, sizeof path, "%s/.compact.lock", dir);
  *fd = ts_file_open(path, O_CREAT | O_RDWR);
  if (*fd < 0) return ts_fail_errno(TS_ERR_CKPT, path);
  if (flock(*fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return TS_OK;
  return ts_fail(TS_ERR_CKPT, "%s: something is being compacted there already",
                 dir);
}

/* ---- all of it ----------------------------------------------------------- */

/* Deltas that the new file has taken in.  What they build on stays as long as
 * checkpoint.keep lets it. */
static int64_t forget(const ts_ckpt_reader *r) {
  int64_t n = 0;
  for (; r->under; r = r->under, n++)
    if (ts_ckpt_is_still(r)) unlink(r->path);
  return n;
}

/* A full checkpoint of that step that training has written meanwhile is the one
 * that its deltas build on: it stays, and so do the old deltas. */
static ts_err publish(void *arg, ts_saver *s) {
  const ts_compacting *k = arg;
  if (!ts_ckpt_is_still(&k->reader))
    return ts_fail(TS_ERR_CKPT, "%s: was written anew, or has gone, meanwhile",
                   k->reader.path);
  if (link(s->temp, s->path) != 0) {
    if (errno == EEXIST || access(s->path, F_OK) == 0)
      return ts_fail(TS_ERR_CKPT, "%s: is there already", s->path);
    return ts_ckpt_give_name(s->temp, s->path, s->dir); /* there are no links */
  }
  unlink(s->temp);
  if (ts_file_sync_folder(s->dir) != 0)
    return ts_fail_errno(TS_ERR_CKPT, s->dir);
  return TS_OK;
}

static ts_err take_place(ts_compacting *k, const char *dir, int keep,
                         int64_t *n) {
  char written[64];
  ts_ckpt_name(written, TS_CKPT_FULL, k->c.step);
  *n = forget(&k->reader);
  return ts_ckpt_prune(dir, keep, written, false);
}

static ts_err compact(ts_compacting *k, const char *path, const char *dir,
                      int keep, int64_t *n) {
  const bool first = ts_comm_rank(k->comm) == 0;
  const ts_filling filling = {fill, publish, k};
  char temp[64], part[80], full[64], there[4200];
  k->broken = 1;
  TS_DO(ts_agree(k->comm, describe(k, path)));
  k->broken = 0;
  ts_ckpt_name(full, TS_CKPT_FULL, k->c.step);
  snprintf(there, sizeof there, "%s/%s", dir, full);
  TS_DO(ts_agree(k->comm,
                 first && access(there, F_OK) == 0
                     ? ts_fail(TS_ERR_CKPT, "%s: is there already", there)
                     : TS_OK));
  snprintf(temp, sizeof temp, "compact-%08lld.h5", (long long)k->c.step);
  snprintf(part, sizeof part, ".%s.part", temp);
  if (first) ts_ckpt_forget_compacted(dir, part);
  TS_DO(ts_ckpt_save_filled(&k->c, dir, temp, &filling, k->comm));
  TS_DO(ts_agree(k->comm, first ? take_place(k, dir, keep, n) : TS_OK));
  return ts_comm_bcast(k->comm, n, sizeof *n, 0);
}

/* On an error of all ranks: where one of them found it, others know nothing. */
static ts_err tell_broken(ts_compacting *k, ts_err err, bool *broken) {
  ts_err_record fault;
  *broken = false;
  if (err != TS_ERR_CKPT) return err;
  ts_err_take(&fault);
  TS_DO(ts_comm_sum_i64(k->comm, &k->broken, 1));
  *broken = k->broken > 0;
  ts_err_put(&fault);
  return err;
}

ts_err ts_ckpt_compact(const char *path, int keep, int64_t *n, bool *broken,
                       ts_comm *comm) {
  ts_err err = TS_OK;
  ts_compacting k = {
      .reader = {.file = -1, .fd = -1}, .stored = {.at = -1}, .comm = comm};
  const char *end = strrchr(path, '/');
  char dir[4096];
  int fd = -1;
  *n = 0;
  snprintf(dir, sizeof dir, "%.*s", end ? (int)(end - path) : 1,
           end ? path : ".");
  TS_TRY(ts_agree(comm, ts_comm_rank(comm) == 0 ? lock(&fd, dir) : TS_OK));
  TS_TRY(compact(&k, path, dir, keep, n));
done:
  err = tell_broken(&k, err, broken);
  if (fd >= 0) close(fd);
  ts_ckpt_reader_close(&k.reader);
  ts_mem_free(k.rows);
  ts_ckpt_reset(&k.c);
  return err;
}
