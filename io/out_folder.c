/* out_folder.c - a folder that is written: it has its name once it is whole. */
#include "io/out_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static bool is_empty(const char *path) {
  int n = 0;
  DIR *d = opendir(path);
  for (const struct dirent *e; d && n <= 2 && (e = readdir(d));) n++;
  if (d) closedir(d);
  return d && n <= 2; /* . and .. */
}

/* OUT without slashes at its end, and ".part". */
static ts_err part_of(ts_str *part, const char *out) {
  size_t n = strlen(out);
  while (n > 1 && out[n - 1] == '/') n--;
  return ts_str_append(part, "%.*s.part", (int)n, out);
}

/* All that is in the open folder D. */
static bool all_ours(DIR *d, ts_is_ours is_ours) {
  bool all = true;
  for (const struct dirent *e; all && (e = readdir(d));)
    all = !strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
          is_ours(e->d_name);
  rewinddir(d);
  return all;
}

/* Removes PART, which no link leads to, if nothing else is in it than what is
 * written here. */
static void drop(const char *part, ts_is_ours is_ours) {
  const int fd = ts_file_open(part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
  if (!d) {
    if (fd >= 0) close(fd);
    return;
  }
  const bool whole = all_ours(d, is_ours);
  for (const struct dirent *e; whole && (e = readdir(d));)
    if (is_ours(e->d_name)) unlinkat(fd, e->d_name, 0);
  closedir(d);
  if (whole) rmdir(part);
}

/* Nobody else writes there until the file is closed; where locks can't be had
 * nothing is known of it. */
static ts_err lock(int *fd, const char *part) {
  *fd = ts_file_open(part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (*fd < 0 || flock(*fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return TS_OK;
  close(*fd);
  *fd = -1;
  return ts_fail(TS_ERR_IO, "%s: another program is writing it", part);
}

static void unlock(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

/* OUT is not there, or an empty folder. */
static ts_err check_out(const char *out, const char *bare) {
  struct stat s;
  if (lstat(bare, &s) == 0)
    return S_ISDIR(s.st_mode) && is_empty(bare)
               ? TS_OK
               : ts_fail(TS_ERR_USAGE,
                         "--out %s is there, and no empty folder: name a new "
                         "one",
                         out);
  return errno == ENOENT ? TS_OK : ts_fail_errno(TS_ERR_IO, out);
}

ts_err ts_out_folder(ts_str *part, int *fd, const char *out,
                     ts_is_ours is_ours) {
  ts_err err = TS_OK;
  TS_TRY(part_of(part, out));
  const size_t bare = part->n_bytes - strlen(".part");
  part->text[bare] = '\0';
  err = check_out(out, part->text);
  part->text[bare] = '.';
  TS_TRY(err);
  TS_TRY(lock(fd, part->text)); /* a killed one's, which nobody has */
  drop(part->text, is_ours);
  unlock(fd);
  if (mkdir(part->text, 0777) != 0)
    TS_TRY(ts_fail_errno(TS_ERR_IO, part->text));
  TS_TRY(lock(fd, part->text));
done:
  if (err != TS_OK) ts_str_reset(part); /* it is not ours */
  return err;
}

/* The folder that OUT is in. */
static ts_err parent_of(ts_str *parent, const char *part) {
  const char *slash = strrchr(part, '/');
  if (!slash) return ts_str_append(parent, ".");
  return ts_str_append(parent, "%.*s", slash == part ? 1 : (int)(slash - part),
                       part);
}

static ts_err give_name(const char *part, const char *out, ts_is_ours is_ours) {
  ts_err err = TS_OK;
  ts_str parent = {0};
  TS_TRY(parent_of(&parent, part));
  if (ts_file_sync_folder(part) != 0) TS_TRY(ts_fail_errno(TS_ERR_IO, part));
  if (ts_file_rename(part, out) != 0) TS_TRY(ts_fail_errno(TS_ERR_IO, out));
  if (ts_file_sync_folder(parent.text) == 0) goto done;
  err = ts_fail_errno(TS_ERR_IO, parent.text);
  drop(out, is_ours);
done:
  ts_str_reset(&parent);
  return err;
}

ts_err ts_out_folder_settle(ts_str *part, int *fd, const char *out,
                            ts_is_ours is_ours, ts_err err) {
  if (!part->text) return err;
  if (err == TS_OK) err = give_name(part->text, out, is_ours);
  if (err != TS_OK) drop(part->text, is_ours);
  unlock(fd);
  ts_str_reset(part);
  return err;
}
