/* store_file.c - rows in a file on the node's disk.
 *
 * Rows are moved with pread and pwrite, which see the same pages as the
 * mapping: so a row that no line is free for can be read and written where
 * it is, by the kernels, and rows that are moved need no page of this
 * process.  What is asked for is read by the disk in the meantime. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/space.h"
#include "runtime/store.h"

enum { PATH_BYTES = 4096, NEAR_BYTES = 65536 };

/* A file that nobody else has, under no name any more. */
static ts_err open_file(int *fd, const char *dir) {
  static int number;
  char path[PATH_BYTES];
  int own;
#pragma omp atomic capture
  own = number++;
  snprintf(path, sizeof path, "%s/tessera-%ld-%d.tier", dir, (long)getpid(),
           own);
  *fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (*fd < 0)
    return ts_fail(TS_ERR_IO, "run.tier_dir: %s can't be created: %s", path,
                   strerror(errno));
  if (unlink(path) != 0)
    return ts_fail(TS_ERR_IO, "run.tier_dir: %s can't be removed: %s", path,
                   strerror(errno));
  return TS_OK;
}

static ts_err file_map(ts_store *s, void *address, int64_t bytes,
                       const char *dir) {
  ts_err err = TS_OK;
  if (!bytes) return TS_OK;
  TS_TRY(open_file(&s->fd, dir));
  TS_TRY(ts_reserve(s->fd, bytes, dir, TS_ERR_IO));
  if (ftruncate(s->fd, bytes) != 0)
    TS_THROW(TS_ERR_IO, "run.tier_dir: %s: %s", dir, strerror(errno));
  if (mmap(address, (size_t)bytes, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, s->fd, 0) == MAP_FAILED)
    TS_THROW(TS_ERR_IO,
             "run.tier_dir: %s: a file of %lld bytes can't be "
             "mapped: %s",
             dir, (long long)bytes, strerror(errno));
  /* Rows are met in no order: a page's neighbours are not worth reading. */
  (void)madvise(address, (size_t)bytes, MADV_RANDOM);
  (void)posix_fadvise(s->fd, 0, bytes, POSIX_FADV_RANDOM);
  s->slow_bytes = bytes;
  s->cold = 1;
done:
  return err;
}

static void file_unmap(ts_store *s) {
  if (s->fd >= 0) close(s->fd);
}

static void set_cold(ts_store *s, int cold) {
  __atomic_store_n(&s->cold, cold, __ATOMIC_RELAXED);
}

/* Rows that lie near each other are asked for together; none while all that
 * was read of late was in memory. */
static void file_ask(ts_store *s, const uint32_t *rows, int64_t n) {
  if (!s->cold) return;
  set_cold(s, 0);
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

/* The content stays in the file. */
static void file_forget(ts_store *s) {
  (void)madvise(s->base, (size_t)s->slow_bytes, MADV_DONTNEED);
}

static ts_err file_read(ts_store *s, uint32_t row, char *line) {
  int64_t at = row * s->row_bytes, left = s->row_bytes;
  const struct iovec whole = {line, (size_t)left};
  if (preadv2(s->fd, &whole, 1, at, RWF_NOWAIT) == left) return TS_OK;
  set_cold(s, 1);
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
                                    .ask = file_ask,
                                    .forget = file_forget,
                                    .read = file_read,
                                    .write = file_write};
