/* store_file.c - rows in a file on the node's disk.
 *
 * Rows whose pages are in memory are moved by copies from and to the mapping.
 * Where they are not, each copy would wait for its own page: then the pages
 * are asked for, all that a batch wants, rows ascending, so that the disk
 * reads them side by side, and rows are moved with pread and pwrite, which
 * see the same pages, say what is wrong with a disk, and need no page of this
 * process.  Which of the two it is shows by pages looked up, and by faults
 * that went to the disk.
 *
 * A write to a mapped page for which the disk has no room ends the process:
 * so all blocks are the file's own before it is mapped. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/space.h"
#include "runtime/store.h"

enum { PATH_BYTES = 4096, NEAR_BYTES = 65536, ZEROS = 1 << 16, LOOKS = 32 };

/* A file that nobody else has, under no name any more.  Processes of several
 * nodes or containers may share a folder and have one number, and a file may
 * have been left by one that was killed between the two calls. */
static ts_err open_file(int *fd, const char *dir) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/tessera-XXXXXX.tier", dir);
  *fd =
      ts_fault("open") ? -1 : mkostemps(path, (int)strlen(".tier"), O_CLOEXEC);
  if (*fd < 0)
    return ts_fail(TS_ERR_IO, "run.tier_dir: %s can't be created: %s", path,
                   strerror(errno));
  if (unlink(path) != 0)
    return ts_fail(TS_ERR_IO, "run.tier_dir: %s can't be removed: %s", path,
                   strerror(errno));
  return TS_OK;
}

/* Zeros where the file system has set no blocks aside. */
static ts_err fill_up(int fd, int64_t bytes, const char *dir) {
  static const char zeros[ZEROS];
  struct stat st;
  if (fstat(fd, &st) == 0 && (int64_t)st.st_blocks * 512 >= bytes) return TS_OK;
  for (int64_t at = 0; at < bytes;) {
    const int64_t left = bytes - at;
    const ssize_t n =
        pwrite(fd, zeros, left < ZEROS ? (size_t)left : ZEROS, at);
    if (n < 0 && errno != EINTR)
      return ts_fail(TS_ERR_IO, "run.tier_dir: %s: no room for %lld bytes: %s",
                     dir, (long long)bytes, strerror(errno));
    if (n > 0) at += n;
  }
  return TS_OK;
}

static ts_err file_map(ts_store *s, void *address, int64_t bytes,
                       const char *dir) {
  if (!bytes) return TS_OK;
  TS_DO(open_file(&s->fd, dir));
  TS_DO(ts_reserve(s->fd, bytes, dir, TS_ERR_IO));
  if (ftruncate(s->fd, bytes) != 0)
    return ts_fail(TS_ERR_IO, "run.tier_dir: %s: %s", dir, strerror(errno));
  TS_DO(fill_up(s->fd, bytes, dir));
  if (mmap(address, (size_t)bytes, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, s->fd, 0) == MAP_FAILED)
    return ts_fail(TS_ERR_IO,
                   "run.tier_dir: %s: a file of %lld bytes can't be "
                   "mapped: %s",
                   dir, (long long)bytes, strerror(errno));
  /* Rows are met in no order: a page's neighbours are not worth reading. */
  (void)madvise(address, (size_t)bytes, MADV_RANDOM);
  (void)posix_fadvise(s->fd, 0, bytes, POSIX_FADV_RANDOM);
  s->slow_bytes = bytes;
  s->cold = 1;
  return TS_OK;
}

static void file_unmap(ts_store *s) {
  if (s->fd >= 0) close(s->fd);
}

/* Whether a page is missing of some of the N rows, taken evenly. */
static bool lacks_some(const ts_store *s, const uint32_t *rows, int64_t n) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t step = n > LOOKS ? n / LOOKS : 1;
  for (int64_t i = 0; i < n; i += step) {
    const int64_t at = rows[i] * s->row_bytes / page * page;
    unsigned char there = 0;
    if (mincore(s->base + at, 1, &there) != 0 || !(there & 1)) return true;
  }
  return false;
}

/* Rows that lie near each other are asked for together. */
static void file_ask(ts_store *s, const uint32_t *rows, int64_t n) {
  for (int64_t i = 0, j; i < n; i = j) {
    const int64_t from = rows[i] * s->row_bytes;
    int64_t to = from + s->row_bytes;
    for (j = i + 1; j < n; j++) {
      const int64_t next = rows[j] * s->row_bytes;
      if (next > to + 4096 || next - from > NEAR_BYTES) break;
      to = next + s->row_bytes;
    }
    (void)posix_fadvise(s->fd, from, to - from, POSIX_FADV_WILLNEED);
  }
}

static void file_look(ts_store *s, const uint32_t *rows, int64_t n) {
  if (s->cold) s->cold = lacks_some(s, rows, n);
}

/* The content stays in the file. */
static void file_forget(ts_store *s) {
  (void)madvise(s->base, (size_t)s->slow_bytes, MADV_DONTNEED);
}

static ts_err file_read(ts_store *s, uint32_t row, char *line) {
  int64_t at = row * s->row_bytes, left = s->row_bytes;
  while (left > 0) {
    const ssize_t n = pread(s->fd, line, (size_t)left, at);
    if (n == 0 || (n < 0 && errno != EINTR))
      return ts_fail(TS_ERR_IO, "run.tier_dir: row %u can't be read: %s", row,
                     n ? strerror(errno) : "the file has ended");
    if (n > 0) line += n, at += n, left -= n;
  }
  return TS_OK;
}

static ts_err file_write(ts_store *s, uint32_t row, const char *line) {
  int64_t at = row * s->row_bytes, left = s->row_bytes;
  while (left > 0) {
    const ssize_t n = pwrite(s->fd, line, (size_t)left, at);
    if (n < 0 && errno != EINTR)
      return ts_fail(TS_ERR_IO, "run.tier_dir: row %u can't be written: %s",
                     row, strerror(errno));
    if (n > 0) line += n, at += n, left -= n;
  }
  return TS_OK;
}

extern const ts_store_ops ts_store_file;
const ts_store_ops ts_store_file = {.map = file_map,
                                    .unmap = file_unmap,
                                    .look = file_look,
                                    .ask = file_ask,
                                    .forget = file_forget,
                                    .read = file_read,
                                    .write = file_write};
