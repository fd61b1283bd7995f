/* checkpoint_open.c - a checkpoint is opened: its seal and its header, and what
 * it builds on (checkpoint_chain.c). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"
#include "io/checkpoint_seal.h"

/* ---- the header ---------------------------------------------------------- */

/* A file of weights that another program has made says nothing of itself. */
static bool is_plain(hid_t file) {
  return H5Aexists(file, "format") <= 0 && H5Aexists(file, "version") <= 0;
}

/* The parent of a delta, as its attributes have it. */
static ts_err read_parent(ts_ckpt_reader *r) {
  int64_t weights = 0;
  r->kind = TS_CKPT_DELTA;
  if (!ts_hdf5_get_number(r->file, "parent", H5T_NATIVE_INT64,
                          &r->parent.step) ||
      !ts_hdf5_get_number(r->file, "parent_seal", H5T_NATIVE_INT64,
                          &r->parent.seal) ||
      !ts_hdf5_get_number(r->file, "number", H5T_NATIVE_INT64, &r->number) ||
      r->number < 1 || r->parent.step < 0 || r->parent.step >= r->step)
    return ts_fail(TS_ERR_CKPT, "%s: does not say what it builds on", r->path);
  (void)ts_hdf5_get_number(r->file, "weights", H5T_NATIVE_INT64, &weights);
  if (weights) r->kind = TS_CKPT_WEIGHTS;
  return TS_OK;
}

static ts_err check_header(ts_ckpt_reader *r, bool need_complete) {
  char format[64];
  int64_t version = 0, complete = 0;
  const hid_t file = r->file;
  const char *path = r->path;
  if (!need_complete && is_plain(file)) return TS_OK;
  (void)ts_hdf5_get_text(file, "format", format, sizeof format);
  if (strcmp(format, "tessera-checkpoint") != 0)
    return ts_fail(TS_ERR_CKPT,
                   "%s: is not a tessera checkpoint (format \"%s\")", path,
                   format);
  (void)ts_hdf5_get_number(file, "version", H5T_NATIVE_INT64, &version);
  if (version != 1 && version != 2)
    return ts_fail(TS_ERR_CKPT,
                   "%s: version %lld of the checkpoint format; this program "
                   "reads versions 1 and 2",
                   path, (long long)version);
  (void)ts_hdf5_get_number(file, "step", H5T_NATIVE_INT64, &r->step);
  (void)ts_hdf5_get_number(file, "stands_for", H5T_NATIVE_INT64,
                           &r->stands_for);
  (void)ts_hdf5_get_number(file, "complete", H5T_NATIVE_INT64, &complete);
  if (version == 2) TS_DO(read_parent(r));
  if (need_complete && complete != 1)
    return ts_fail(TS_ERR_CKPT, "%s: was not finished", path);
  return TS_OK;
}

/* ---- files --------------------------------------------------------------- */

static ts_err open_file(ts_ckpt_reader *r, const char *path,
                        bool need_complete) {
  ts_err err = TS_OK;
  *r = (ts_ckpt_reader){.path = path, .file = -1, .fd = -1, .seal = -1};
  /* First: by it is known whether all was read of one file.  A pipe is refused
   * below, and not waited for. */
  r->fd = ts_file_open(path, O_RDONLY | O_NONBLOCK);
  const int reason = errno;
  TS_TRY(ts_seal_check(path, &r->seal));
  TS_TRY(ts_hdf5_open(&r->file, path, TS_ERR_CKPT));
  ts_hdf5_lock();
  err = check_header(r, need_complete);
  if (err == TS_OK && r->seal < 0 && H5Aexists(r->file, "sealed") > 0)
    err = ts_fail(TS_ERR_CKPT, "%s: its end is missing or damaged", path);
  ts_hdf5_unlock();
  if (err != TS_OK || r->fd >= 0) goto done;
  errno = reason;
  err = ts_fail_errno(TS_ERR_CKPT, path);
done:
  return err;
}

/* So often it begins again as another file takes the place of this one
 * (best.h5), or a link is compacted under it. */
enum { OPENINGS = 20 };

static bool was_replaced(const ts_ckpt_reader *r, ts_err err) {
  return (err == TS_OK || err == TS_ERR_CKPT) && r->fd >= 0 &&
         access(r->path, F_OK) == 0 && !ts_ckpt_is_still(r);
}

ts_err ts_ckpt_reader_open_one(ts_ckpt_reader *r, const char *path,
                               bool need_complete) {
  ts_err err = open_file(r, path, need_complete);
  for (int i = 1; i < OPENINGS && was_replaced(r, err); i++) {
    ts_err_clear();
    ts_ckpt_reader_close_one(r);
    err = open_file(r, path, need_complete);
  }
  if (!was_replaced(r, err)) return err;
  ts_err_clear();
  return ts_fail(TS_ERR_CKPT, "%s: is written anew all the time", path);
}

static ts_err open_all(ts_ckpt_reader *r, const char *path,
                       bool need_complete) {
  TS_DO(ts_ckpt_reader_open_one(r, path, need_complete));
  TS_DO(ts_mem_alloc(&r->block, TS_BLOCK_BYTES, TS_TAG_CHECKPOINT));
  return ts_ckpt_chain_open(r);
}

ts_err ts_ckpt_reader_open(ts_ckpt_reader *r, const char *path,
                           bool need_complete, int64_t *step) {
  ts_err err = open_all(r, path, need_complete);
  for (int i = 1; err == TS_ERR_CKPT && i < OPENINGS && ts_ckpt_chain_moved(r);
       i++) {
    ts_err_clear();
    ts_ckpt_reader_close(r);
    err = open_all(r, path, need_complete);
  }
  *step = r->step;
  return err;
}

void ts_ckpt_reader_close_one(ts_ckpt_reader *r) {
  if (r->file >= 0) {
    ts_hdf5_lock();
    H5Fclose(r->file);
    ts_hdf5_unlock();
  }
  if (r->fd >= 0) close(r->fd);
}

void ts_ckpt_reader_close(ts_ckpt_reader *r) {
  ts_ckpt_chain_close(r);
  ts_ckpt_reader_close_one(r);
  ts_mem_free(r->block);
}
