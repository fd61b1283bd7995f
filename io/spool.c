/* spool.c - standard input as a file. */
#include "io/spool.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { BITE = 1 << 20 };

/* Full, but at the end. */
static ts_err fill(char *bite, int64_t *n) {
  for (*n = 0; *n < BITE;) {
    const ssize_t more = read(STDIN_FILENO, bite + *n, (size_t)(BITE - *n));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return ts_fail_errno(TS_ERR_DATA, "stdin");
    if (more == 0) return TS_OK;
    *n += more;
  }
  return TS_OK;
}

/* Formats that can't be told by their content are by the name's end. */
static ts_err make_file(int *fd, ts_str *path, const char *bite, int64_t n) {
  const char *dir = getenv("TMPDIR");
  const bool packed = n > 1 && bite[0] == '\037' && bite[1] == '\213';
  TS_DO(ts_str_append(path, "%s/tessera-stdin-XXXXXX.csv%s",
                      dir && *dir ? dir : "/tmp", packed ? ".gz" : ""));
  *fd = mkstemps(path->text, packed ? 7 : 4);
  if (*fd >= 0) return TS_OK;
  const ts_err err = ts_fail_errno(TS_ERR_IO, path->text);
  ts_str_reset(path);
  return err;
}

ts_err ts_spool_stdin(ts_str *path) {
  ts_err err = TS_OK;
  char *bite = NULL;
  int64_t n, at = 0;
  int fd = -1;
  TS_TRY(ts_mem_alloc(&bite, BITE, TS_TAG_INPUT));
  do {
    TS_TRY(fill(bite, &n));
    if (fd < 0) TS_TRY(make_file(&fd, path, bite, n));
    TS_TRY(ts_pwrite(fd, bite, n, at, path->text, TS_ERR_IO));
    at += n;
  } while (n == BITE);
done:
  if (fd >= 0) close(fd);
  ts_mem_free(bite);
  return err;
}
