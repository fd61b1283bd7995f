/* checkpoint_chain.c - checkpoints that hold the rows that have changed since
 * another one, their parent: a full one, or one of their own kind.
 *
 * A parent is known by its step and by its seal, a checksum of all that it
 * holds, and lies in the same folder.  So a file whose parent is not there, is
 * damaged, or was written anew by a run that went another way is an error, and
 * who looks for the newest goes back to the one before. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/checkpoint_impl.h"
#include "io/checkpoint_seal.h"

/* ---- parents ------------------------------------------------------------- */

/* Whether R, which is open, is the parent that OF names. */
static bool is_parent(const ts_ckpt_reader *r, const ts_ckpt_reader *of) {
  return r->step == of->parent.step &&
         (r->seal == of->parent.seal ||
          (r->stands_for && r->stands_for == of->parent.seal)) &&
         (!r->number || r->number + 1 == of->number);
}

/* Opens R's parent where PATH is; *FOUND: it is. */
static ts_err try_parent(ts_ckpt_reader *r, const char *path, bool *found) {
  ts_err err = TS_OK;
  ts_ckpt_reader *p = NULL;
  char *own = NULL;
  TS_TRY(ts_mem_strdup(&own, path));
  TS_TRY(ts_mem_alloc(&p, sizeof *p, TS_TAG_CHECKPOINT));
  err = ts_ckpt_reader_open_one(p, own, true);
  *found = err == TS_OK && is_parent(p, r);
  if (*found) {
    p->block = r->block;
    r->under = p;
    return TS_OK;
  }
  ts_ckpt_reader_close_one(p);
done:
  ts_mem_free(p);
  ts_mem_free(own);
  return err;
}

static ts_err no_parent(const ts_ckpt_reader *r, const char *other) {
  if (*other)
    return ts_fail(TS_ERR_CKPT,
                   "%s: holds rows that have changed since another step %lld "
                   "than that of %s, which was written anew",
                   r->path, (long long)r->parent.step, other);
  return ts_fail(TS_ERR_CKPT,
                 "%s: holds rows that have changed since step %lld, whose "
                 "checkpoint is not beside it",
                 r->path, (long long)r->parent.step);
}

/* One that can't be read is no parent, but the error is its own. */
static ts_err open_parent(ts_ckpt_reader *r) {
  static const ts_ckpt_kind kinds[] = {TS_CKPT_FULL, TS_CKPT_DELTA,
                                       TS_CKPT_WEIGHTS};
  const char *end = strrchr(r->path, '/');
  const int n_dir = end ? (int)(end - r->path + 1) : 0;
  char path[4400], name[64], other[4400] = "";
  ts_err_record fault;
  ts_err err = TS_OK;
  for (int i = 0; i < 3; i++) {
    bool found = false;
    ts_ckpt_name(name, kinds[i], r->parent.step);
    snprintf(path, sizeof path, "%.*s%s", n_dir, r->path, name);
    if (access(path, F_OK) != 0) continue;
    const ts_err tried = try_parent(r, path, &found);
    if (found) {
      if (err != TS_OK) ts_err_clear();
      return TS_OK;
    }
    if (tried == TS_OK) snprintf(other, sizeof other, "%s", path);
    if (tried == TS_ERR_NOMEM) return tried;
    if (tried == TS_OK) continue;
    err = tried;
    ts_err_take(&fault);
  }
  if (err == TS_OK) return no_parent(r, other);
  ts_err_put(&fault);
  return err;
}

bool ts_ckpt_is_still(const ts_ckpt_reader *r) {
  struct stat open, named;
  return fstat(r->fd, &open) == 0 && stat(r->path, &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

bool ts_ckpt_chain_moved(const ts_ckpt_reader *r) {
  for (; r; r = r->under)
    if (r->fd >= 0 && !ts_ckpt_is_still(r)) return true;
  return false;
}

/* Two descriptors a file: as many as the system lets this process have. */
static void allow_files(void) {
  struct rlimit most;
  if (getrlimit(RLIMIT_NOFILE, &most) != 0) return;
  most.rlim_cur = most.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &most);
}

/* Steps fall on the way, so there is an end. */
ts_err ts_ckpt_chain_open(ts_ckpt_reader *r) {
  if (r->kind != TS_CKPT_FULL) allow_files();
  for (; r->kind != TS_CKPT_FULL; r = r->under) TS_DO(open_parent(r));
  return TS_OK;
}

void ts_ckpt_chain_close(ts_ckpt_reader *r) {
  while (r->under) {
    ts_ckpt_reader *p = r->under;
    r->under = p->under;
    ts_ckpt_reader_close_one(p);
    ts_mem_free((char *)p->path);
    ts_mem_free(p);
  }
}

ts_err ts_ckpt_point_of(ts_ckpt_point *p, const char *path) {
  ts_ckpt_reader r;
  const ts_err err = ts_ckpt_reader_open_one(&r, path, true);
  *p = (ts_ckpt_point){r.step, r.seal, r.number};
  ts_ckpt_reader_close_one(&r);
  return err;
}

/* ---- datasets ------------------------------------------------------------ */

bool ts_ckpt_rows_name(char rows[1024], const char *item) {
  const char *last = strrchr(item, '/');
  const bool state = !strncmp(item, "optim/", 6);
  const int skip = 6; /* "model/", "optim/" */
  if (!state && strncmp(item, "model/", 6) != 0) return false;
  const int n = state ? (int)(last - item) - skip : (int)strlen(item) - skip;
  if (n <= 0) return false;
  snprintf(rows, 1024, "delta/rows/%.*s", n, item + skip);
  return true;
}

static bool has_some(const ts_ckpt_reader *r, const char *name) {
  char rows[1024];
  if (!r->under || !ts_ckpt_rows_name(rows, name)) return false;
  ts_hdf5_lock();
  const bool some = ts_stored_exists(r->file, rows);
  ts_hdf5_unlock();
  return some;
}

const ts_ckpt_reader *ts_ckpt_holder(const ts_ckpt_reader *r,
                                     const char *name) {
  while (has_some(r, name)) r = r->under;
  return r;
}

ts_err ts_ckpt_open_set(ts_stored *s, const ts_ckpt_reader *r,
                        const char *name) {
  char ids[1024];
  const ts_ckpt_reader *holder = ts_ckpt_holder(r, name);
  TS_DO(ts_stored_open(s, holder->file, holder->path, name));
  /* A dynamic table has other rows in each file. */
  if (holder == r || !ts_ckpt_ids_name(ids, r, name)) return TS_OK;
  return ts_ckpt_n_ids(&s->rows, r, ids);
}
