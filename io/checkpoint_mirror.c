/* checkpoint_mirror.c - a second copy of a finished checkpoint, in another
 * folder: as careful as the first, under a temporary name until it is whole
 * and on the disk. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/space.h"
#include "io/checkpoint_impl.h"

enum { BITE = 8 << 20 };

typedef struct ts_mirroring {
  const char *path;
  char temp[8192], copy[8192];
  int from, to;
  char *bite;
} ts_mirroring;

static ts_err copy_bytes(ts_mirroring *m, const ts_ckpt_hooks *hooks) {
  struct stat st;
  if (fstat(m->from, &st) != 0) return ts_fail_errno(TS_ERR_CKPT, m->path);
  TS_DO(ts_reserve(m->to, st.st_size, m->temp, TS_ERR_CKPT));
  TS_DO(ts_mem_alloc(&m->bite, BITE, TS_TAG_CHECKPOINT));
  for (int64_t at = 0; at < st.st_size; at += BITE) {
    const int64_t n = st.st_size - at < BITE ? st.st_size - at : BITE;
    TS_DO(ts_pread(m->from, m->bite, n, at, m->path, TS_ERR_CKPT));
    TS_DO(ts_pwrite(m->to, m->bite, n, at, m->temp, TS_ERR_CKPT));
    if (hooks->beat) hooks->beat(hooks->arg);
  }
  if (ts_file_sync(m->to) != 0) return ts_fail_errno(TS_ERR_CKPT, m->temp);
  return TS_OK;
}

/* PATH as M's copy in DIR. */
static ts_err copy_file(ts_mirroring *m, const char *dir,
                        const ts_ckpt_hooks *hooks) {
  ts_err err = TS_OK;
  m->from = ts_file_open(m->path, O_RDONLY);
  if (m->from < 0) TS_TRY(ts_fail_errno(TS_ERR_CKPT, m->path));
  unlink(m->temp); /* of a run that was killed; never followed: O_EXCL */
  m->to = ts_file_open(m->temp, O_CREAT | O_EXCL | O_WRONLY);
  if (m->to < 0) TS_TRY(ts_fail_errno(TS_ERR_CKPT, m->temp));
  TS_TRY(copy_bytes(m, hooks));
  TS_TRY(ts_ckpt_give_name(m->temp, m->copy, dir));
done:
  if (m->from >= 0) close(m->from);
  if (m->to >= 0) close(m->to);
  if (err != TS_OK && m->to >= 0) unlink(m->temp);
  ts_mem_free(m->bite);
  return err;
}

static ts_mirroring mirroring(const char *path, const char *dir,
                              const char *name) {
  ts_mirroring m = {.path = path, .from = -1, .to = -1};
  snprintf(m.temp, sizeof m.temp, "%.4000s/.%s.part", dir, name);
  snprintf(m.copy, sizeof m.copy, "%.4000s/%s", dir, name);
  return m;
}

ts_err ts_ckpt_mirror(const char *path, const char *dir, int keep,
                      const ts_ckpt_hooks *hooks) {
  ts_mirroring m = mirroring(path, dir, strrchr(path, '/') + 1);
  TS_DO(ts_mkdirs(dir));
  TS_DO(copy_file(&m, dir, hooks));
  return ts_ckpt_prune(dir, keep, m.copy, true);
}

/* Two names of one file where the file system has such, else a copy. */
ts_err ts_ckpt_also(const char *path, const char *dir, const char *name) {
  ts_mirroring m = mirroring(path, dir, name);
  unlink(m.temp);
  if (link(path, m.temp) == 0) return ts_ckpt_give_name(m.temp, m.copy, dir);
  return copy_file(&m, dir, &(ts_ckpt_hooks){0});
}
