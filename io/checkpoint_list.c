/* checkpoint_list.c - which checkpoints a folder holds. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/checkpoint_impl.h"

/* BEGIN, digits, END. */
static bool is_named(const char *name, const char *begin, const char *end) {
  const size_t n = strlen(name), b = strlen(begin), e = strlen(end);
  if (n < b + 1 + e || strncmp(name, begin, b) || strcmp(name + n - e, end))
    return false;
  return strspn(name + b, "0123456789") == n - b - e;
}

static bool is_full(const char *name) {
  return is_named(name, "step-", ".h5");
}

bool ts_ckpt_is_full(const char *path) {
  const char *end = strrchr(path, '/');
  return is_full(end ? end + 1 : path);
}

/* Weights alone are for those who name the file: nobody could train on. */
static bool is_checkpoint(const char *name) {
  return is_full(name) || is_named(name, "delta-", ".h5");
}

static bool is_built(const char *name) {
  return is_named(name, "delta-", ".h5") || is_named(name, "weights-", ".h5");
}

static bool is_part(const char *name) {
  return is_named(name, ".step-", ".h5.part") ||
         is_named(name, ".delta-", ".h5.part") ||
         is_named(name, ".weights-", ".h5.part");
}

static bool is_compacted(const char *name) {
  return is_named(name, ".compact-", ".h5.part");
}

void ts_ckpt_name(char name[64], ts_ckpt_kind kind, int64_t step) {
  static const char *const begin[] = {[TS_CKPT_FULL] = "step",
                                      [TS_CKPT_DELTA] = "delta",
                                      [TS_CKPT_WEIGHTS] = "weights"};
  snprintf(name, 64, "%s-%08lld.h5", begin[kind], (long long)step);
}

/* A folder that is not there has none. */
static ts_err list(const char *dir, bool (*wanted)(const char *), char ***names,
                   int *n) {
  ts_err err = TS_OK;
  struct dirent *e;
  DIR *d = opendir(dir);
  *names = NULL;
  *n = 0;
  if (!d && errno == ENOENT) return TS_OK;
  if (!d) return ts_fail_errno(TS_ERR_CKPT, dir);
  while (errno = 0, (e = readdir(d))) {
    if (!wanted(e->d_name)) continue;
    TS_TRY(ts_mem_extend(names, *n, *n + 1, sizeof **names, TS_TAG_CHECKPOINT));
    TS_TRY(ts_mem_strdup(&(*names)[*n], e->d_name));
    ++*n;
  }
  if (errno != 0) err = ts_fail_errno(TS_ERR_CKPT, dir);
done:
  closedir(d);
  return err;
}

ts_err ts_ckpt_list(const char *dir, char ***names, int *n) {
  return list(dir, is_checkpoint, names, n);
}

static bool is_any(const char *name) {
  return is_full(name) || is_built(name);
}

ts_err ts_ckpt_any(ts_str *path, const char *dir) {
  char **names;
  int n;
  ts_err err = list(dir, is_any, &names, &n);
  if (err == TS_OK && n) err = ts_str_append(path, "%s/%s", dir, names[0]);
  ts_ckpt_list_free(names, n);
  return err;
}

void ts_ckpt_list_free(char **names, int n) {
  for (int i = 0; i < n; i++) ts_mem_free(names[i]);
  ts_mem_free(names);
}

/* Steps may outgrow the eight digits that names have at least. */
int ts_ckpt_compare(const char *a, const char *b) {
  a += strcspn(a, "123456789");
  b += strcspn(b, "123456789");
  const size_t n = strlen(a), m = strlen(b);
  return n != m ? (n > m ? 1 : -1) : strcmp(a, b);
}

static int newest_first(const void *a, const void *b) {
  const char *x = *(char *const *)a, *y = *(char *const *)b;
  const int later = ts_ckpt_compare(y, x);
  return later ? later : is_full(y) - is_full(x);
}

void ts_ckpt_sort(char **names, int n) {
  if (n) qsort(names, (size_t)n, sizeof *names, newest_first);
}

static void forget(const char *dir, const char *name) {
  char path[8192];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  unlink(path);
}

/* Removes full ones but the newest KEEP and the one named WRITTEN; OLDEST: the
 * oldest that stays, "" where none does. */
static ts_err prune_full(const char *dir, int keep, const char *written,
                         char oldest[256]) {
  char **names = NULL;
  int n = 0;
  const ts_err err = list(dir, is_full, &names, &n);
  ts_ckpt_sort(names, n);
  *oldest = 0;
  for (int i = 0; err == TS_OK && i < n; i++) {
    if (i >= keep && strcmp(names[i], written) != 0)
      forget(dir, names[i]);
    else
      snprintf(oldest, 256, "%s", names[i]);
  }
  ts_ckpt_list_free(names, n);
  return err;
}

/* Removes the files that are WANTED and older than the one named OLDEST; ""
 * stands for all of them. */
static ts_err prune(const char *dir, bool (*wanted)(const char *),
                    const char *oldest) {
  char **names = NULL;
  int n = 0;
  const ts_err err = list(dir, wanted, &names, &n);
  for (int i = 0; err == TS_OK && i < n; i++)
    if (!*oldest || ts_ckpt_compare(names[i], oldest) < 0)
      forget(dir, names[i]);
  ts_ckpt_list_free(names, n);
  return err;
}

ts_err ts_ckpt_prune(const char *dir, int keep, const char *written, bool own) {
  char oldest[256] = "";
  ts_err err = TS_OK;
  const char *end = strrchr(written, '/');
  /* A delta throws out nothing: the newest full one may be damaged, and an
   * older one what the delta builds on. */
  if (ts_ckpt_is_full(written))
    err = prune_full(dir, keep, end ? end + 1 : written, oldest);
  if (err == TS_OK && *oldest) err = prune(dir, is_built, oldest);
  if (err == TS_OK && own) err = prune(dir, is_part, "");
  if (err != TS_ERR_CKPT) return err;
  ts_warn("%s: older checkpoints stay", ts_err_message());
  ts_err_clear();
  return TS_OK;
}

void ts_ckpt_forget_compacted(const char *dir, const char *before) {
  if (prune(dir, is_compacted, before) != TS_OK) ts_err_clear();
}
