/* test_report.c - errors, the log, and room on a disk. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/space.h"
#include "tests/support/harness.h"

/* The first error stays, whatever follows, until it is taken. */
TS_TEST(the_first_error_stays) {
  static const int codes[] = {0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 75, 1};
  ts_err_record first;
  for (int i = 0; i <= TS_ERR_COUNT; i++) {
    ck_assert_int_eq(ts_err_exit_code((ts_err)i), codes[i]);
    ck_assert_int_eq(ts_err_is_own((ts_err)i),
                     (i >= 1 && i <= 3) || i == TS_ERR_COMM);
  }
  ck_assert_str_eq(ts_err_name(TS_ERR_STOPPED),
                   "stopped early, can be resumed");
  ck_assert_str_eq(ts_err_name(TS_ERR_COUNT), "unknown error");
  ck_assert_int_eq(ts_err_fail("a.c", 7, TS_ERR_IO, "x %d", 1), TS_ERR_IO);
  ck_assert_int_eq(ts_err_fail("b.c", 8, TS_ERR_DATA, "y"), TS_ERR_DATA);
  ts_err_take(&first);
  ck_assert(first.code == TS_ERR_IO && first.line == 7 && !first.agreed);
  ck_assert_str_eq(first.file, "a.c");
  ck_assert_str_eq(first.text, "x 1");
  ck_assert_str_eq(ts_err_message(), "");
  first.agreed = 1;
  ts_err_put(&first);
  ck_assert(ts_err_agreed() && !ts_err_is_own(TS_ERR_IO));
  first.text[0] = 'z';
  ts_err_put(&first);
  ck_assert_str_eq(ts_err_message(), "x 1");
  ts_err_clear();
  ck_assert(!ts_err_agreed());
}

/* Whether WANT is the whole file PATH. */
static bool holds(const char *path, const char *want) {
  char got[512];
  FILE *from = fopen(path, "r");
  if (!from) return false;
  got[fread(got, 1, sizeof got - 1, from)] = '\0';
  fclose(from);
  return !strcmp(got, want);
}

static const char said[] = "a 1\nNOTE: b c\nWARNING: d\ne\n";

/* In a process of its own, which no assertion may leave. */
static bool log_lines(void) {
  if (!freopen("out", "w", stdout) || !freopen("err", "w", stderr) ||
      ts_log_open("log") != TS_OK)
    return false;
  ts_info("a %d", 1);
  ts_note("b %s", "c");
  ts_warn("d");
  ts_progress("e");
  if (!holds("out", said) || !holds("log", said)) return false; /* at once */
  ts_log_quiet(1);
  ts_note("f");
  ts_log_quiet(0);
  ts_log_rank(1); /* the others' only errors are printed */
  ts_note("g");
  ts_log_error("h");
  if (ts_log_open("other") != TS_OK || access("other", F_OK) == 0) return false;
  ts_log_rank(0);
  ts_log_close();
  ts_log_close();
  ts_warn("i");
  return ts_log_open("no/log") == TS_ERR_IO;
}

TS_TEST(the_log_is_printed_and_kept) {
  char dir[] = "/tmp/tessera-log-XXXXXX", old[1024];
  int status = -1;
  ck_assert(mkdtemp(dir) && getcwd(old, sizeof old) && chdir(dir) == 0);
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) _exit(!log_lines());
  const bool ended = waitpid(child, &status, 0) == child;
  const bool out = holds("out", "a 1\nNOTE: b c\nWARNING: d\ne\nWARNING: i\n");
  const bool err = holds("err", "tessera: error: h\n");
  const bool log =
      holds("log", "a 1\nNOTE: b c\nWARNING: d\ne\nNOTE: f\nerror: h\n");
  unlink("out"), unlink("err"), unlink("log");
  ck_assert(chdir(old) == 0 && rmdir(dir) == 0);
  ck_assert(ended && status == 0);
  ck_assert(out && err && log);
}

static int refusal; /* of the system, 0: it reserves */
static bool is_known;

int fallocate(int fd, int mode, off_t from, off_t n) {
  ck_assert(mode == FALLOC_FL_KEEP_SIZE && from == 0 && n > 0 && fd >= 0);
  errno = refusal;
  return refusal ? -1 : 0;
}

int fstatfs(int fd, struct statfs *fs) {
  *fs = (struct statfs){.f_bavail = 10, .f_bfree = 20, .f_bsize = 4096};
  return is_known && fd >= 0 ? 0 : -1;
}

/* A file has its own blocks and ten free ones of 4096 bytes. */
TS_TEST(room_is_what_is_free_where_none_can_be_reserved) {
  static const int asked[] = {EOPNOTSUPP, ENOSYS, EINVAL, EINTR};
  char name[] = "/tmp/tessera-room-XXXXXX";
  const int fd = mkstemp(name);
  struct stat st;
  ck_assert(fd >= 0 && unlink(name) == 0 && write(fd, "text", 4) == 4);
  ck_assert(fsync(fd) == 0 && fstat(fd, &st) == 0);
  const int64_t room = 40960 + 512 * (int64_t)st.st_blocks;
  for (int i = 0; i < 4; i++) {
    refusal = asked[i];
    is_known = false;
    ck_assert_ok(ts_reserve(fd, room + 1, "r", TS_ERR_IO));
    is_known = true;
    ck_assert_ok(ts_reserve(fd, room, "r", TS_ERR_IO));
    ck_assert_int_eq(ts_reserve(fd, room + 1, "r", TS_ERR_CKPT), TS_ERR_CKPT);
    char want[96];
    snprintf(want, sizeof want, "r: %lld bytes can't be reserved: %s",
             (long long)room + 1, strerror(ENOSPC));
    ck_assert_str_eq(ts_err_message(), want);
    ts_err_clear();
  }
  refusal = EIO; /* is one, however much is free */
  ck_assert_int_eq(ts_reserve(fd, 1, "r", TS_ERR_IO), TS_ERR_IO);
  ts_err_clear();
  ck_assert_ok(ts_reserve(fd, 0, "r", TS_ERR_IO));
  refusal = 0;
  ck_assert_ok(ts_reserve(fd, 1, "r", TS_ERR_IO));
  close(fd);
}

TS_TEST(files_may_be_as_long_as_the_limit) {
  struct rlimit old, low;
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
  low = (struct rlimit){1 << 20, old.rlim_max};
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &low), 0);
  const ts_err same = ts_size_allowed(1 << 20, "x", TS_ERR_IO);
  const ts_err more = ts_reserve(-1, (1 << 20) + 1, "x", TS_ERR_CKPT);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
  ck_assert_int_eq(same, TS_OK);
  ck_assert_int_eq(more, TS_ERR_CKPT);
  ck_assert_str_eq(ts_err_message(), "x: File too large: 1048577 bytes, "
                                     "1048576 are allowed (ulimit -f)");
  ts_err_clear();
}
