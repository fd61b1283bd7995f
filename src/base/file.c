/* file.c - files, and the faults that tests ask for. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault.h"

enum { BITE = 8 << 20 };

/* Repeats CALL after signals; FAULT comes first. */
#define CALL(fault, call)                                                      \
  do {                                                                         \
    if (ts_fault(fault)) return -1;                                            \
    do rc = (call);                                                            \
    while (rc < 0 && errno == EINTR);                                          \
    return rc;                                                                 \
  } while (0)

int ts_file_open(const char *path, int flags) {
  int rc;
  if (flags & O_CREAT) flags |= O_NOFOLLOW;
  CALL("open", open(path, flags | O_CLOEXEC, 0666));
}

static ssize_t pread_some(int fd, void *to, size_t n_bytes, int64_t at) {
  ssize_t rc;
  CALL("read", pread(fd, to, n_bytes, at));
}

static ssize_t pwrite_some(int fd, const void *from, size_t n_bytes,
                           int64_t at) {
  ssize_t rc;
  CALL("write", pwrite(fd, from, n_bytes, at));
}

ts_err ts_pread(int fd, void *to, int64_t n_bytes, int64_t at, const char *path,
                ts_err code) {
  char *p = to;
  while (n_bytes > 0) {
    const ssize_t n =
        pread_some(fd, p, (size_t)(n_bytes < BITE ? n_bytes : BITE), at);
    if (n <= 0)
      return ts_fail(code, "%s: %s at byte %lld", path,
                     n < 0 ? strerror(errno) : "the file ends", (long long)at);
    p += n;
    at += n;
    n_bytes -= n;
  }
  return TS_OK;
}

ts_err ts_pwrite(int fd, const void *from, int64_t n_bytes, int64_t at,
                 const char *path, ts_err code) {
  const char *p = from;
  while (n_bytes > 0) {
    const ssize_t n =
        pwrite_some(fd, p, (size_t)(n_bytes < BITE ? n_bytes : BITE), at);
    if (n <= 0)
      return ts_fail(code, "%s: %s at byte %lld", path,
                     n < 0 ? strerror(errno) : "nothing written",
                     (long long)at);
    p += n;
    at += n;
    n_bytes -= n;
  }
  return TS_OK;
}

int ts_file_sync(int fd) {
  int rc;
  CALL("fsync", fsync(fd));
}

int ts_file_sync_folder(const char *path) {
  const int fd = ts_file_open(path, O_RDONLY | O_DIRECTORY);
  int rc = fd >= 0 ? ts_file_sync(fd) : -1;
  if (fd >= 0 && rc != 0 && errno == EINVAL) rc = 0; /* has no such call */
  if (fd >= 0) close(fd);
  return rc;
}

bool ts_file_is_same(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

bool ts_file_is_folder(const char *path) {
  struct stat x;
  return stat(path, &x) == 0 && S_ISDIR(x.st_mode);
}

int ts_file_rename(const char *from, const char *to) {
  int rc;
  CALL("rename", rename(from, to));
}

FILE *ts_file_stream(const char *path, const char *mode) {
  const int flags = *mode == 'w'   ? O_WRONLY | O_CREAT | O_TRUNC
                    : *mode == 'a' ? O_WRONLY | O_CREAT | O_APPEND
                                   : O_RDWR | O_NOFOLLOW;
  const int fd = ts_file_open(path, mode[1] == 'x' ? flags | O_EXCL : flags);
  FILE *f = fd >= 0 ? fdopen(fd, mode[1] == 'x' ? "w" : mode) : NULL;
  if (!f && fd >= 0) close(fd);
  return f;
}

int ts_file_flush(FILE *f) {
  if (ts_fault("flush")) return -1;
  return fflush(f) != 0 || ferror(f) ? -1 : 0;
}

int ts_file_close(FILE *f) {
  const int lost = ts_file_flush(f), why = errno;
  if (fclose(f) != 0) return -1;
  if (lost) errno = why;
  return lost;
}

const char *ts_file_why(void) {
  return errno == ELOOP ? "is a symbolic link, which is not followed"
                        : strerror(errno);
}
