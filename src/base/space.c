/* space.c - room on a disk. */
#include "base/space.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "base/fault.h"

/* Whether the file system has what the file lacks; says yes where nobody
 * knows. */
static int is_free(int fd, int64_t n_bytes) {
  struct statfs fs;
  struct stat st;
  if (fstatfs(fd, &fs) != 0 || fstat(fd, &st) != 0) return 1;
  const double lacks = (double)n_bytes - 512.0 * (double)st.st_blocks;
  return (double)fs.f_bavail * (double)fs.f_bsize >= lacks;
}

ts_err ts_size_allowed(int64_t n_bytes, const char *path, ts_err code) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      (rlim_t)n_bytes <= limit.rlim_cur)
    return TS_OK;
  return ts_fail(code, "%s: %s: %lld bytes, %lld are allowed (ulimit -f)", path,
                 strerror(EFBIG), (long long)n_bytes,
                 (long long)limit.rlim_cur);
}

ts_err ts_reserve(int fd, int64_t n_bytes, const char *path, ts_err code) {
  int why = 0;
  TS_DO(ts_size_allowed(n_bytes, path, code));
  if (n_bytes > 0 && (ts_fault("reserve") ||
                      fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, n_bytes) != 0))
    why = errno;
  if (why == EOPNOTSUPP || why == ENOSYS || why == EINVAL || why == EINTR)
    why = is_free(fd, n_bytes) ? 0 : ENOSPC;
  if (!why) return TS_OK;
  return ts_fail(code, "%s: %lld bytes can't be reserved: %s", path,
                 (long long)n_bytes, strerror(why));
}
