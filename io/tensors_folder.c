/* tensors_folder.c - the folder that tensors are written to: it has its name
 * once it is whole. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "io/tensors.h"
#include "io/tensors_write.h"

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

static bool is_ours(const char *name) {
  return (!strncmp(name, "model", 5) || !strncmp(name, "state", 5)) &&
         ts_path_is_safetensors(name);
}

/* Removes what is written here of PART, and PART, which no link leads to. */
static void drop(const char *part) {
  const int fd = ts_file_open(part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
  for (const struct dirent *e; d && (e = readdir(d));)
    if (is_ours(e->d_name)) unlinkat(fd, e->d_name, 0);
  if (d)
    closedir(d);
  else if (fd >= 0)
    close(fd);
  rmdir(part);
}

ts_err ts_tensors_folder(ts_str *part, const char *out) {
  struct stat s;
  if (lstat(out, &s) == 0 && !(S_ISDIR(s.st_mode) && is_empty(out)))
    return ts_fail(TS_ERR_USAGE,
                   "--out %s is there, and no empty folder: name a new one",
                   out);
  TS_DO(part_of(part, out));
  drop(part->text);
  if (mkdir(part->text, 0777) == 0) return TS_OK;
  const ts_err err = ts_fail_errno(TS_ERR_IO, part->text);
  ts_str_reset(part); /* it is not ours */
  return err;
}

/* The folder that OUT is in. */
static ts_err parent_of(ts_str *parent, const char *part) {
  const char *slash = strrchr(part, '/');
  if (!slash) return ts_str_append(parent, ".");
  return ts_str_append(parent, "%.*s", slash == part ? 1 : (int)(slash - part),
                       part);
}

static ts_err give_name(const char *part, const char *out) {
  ts_err err = TS_OK;
  ts_str parent = {0};
  TS_TRY(parent_of(&parent, part));
  if (ts_file_sync_folder(part) != 0) TS_TRY(ts_fail_errno(TS_ERR_IO, part));
  if (ts_file_rename(part, out) != 0) TS_TRY(ts_fail_errno(TS_ERR_IO, out));
  if (ts_file_sync_folder(parent.text) == 0) goto done;
  err = ts_fail_errno(TS_ERR_IO, parent.text);
  drop(out);
done:
  ts_str_reset(&parent);
  return err;
}

ts_err ts_tensors_settle(ts_str *part, const char *out, ts_err err) {
  if (!part->text) return err;
  if (err == TS_OK) err = give_name(part->text, out);
  if (err != TS_OK) drop(part->text);
  ts_str_reset(part);
  return err;
}
