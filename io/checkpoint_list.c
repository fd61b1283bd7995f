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

static bool is_checkpoint(const char *name) {
  return is_named(name, "step-", ".h5");
}

static bool is_part(const char *name) {
  return is_named(name, ".step-", ".h5.part");
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
  return ts_ckpt_compare(*(char *const *)b, *(char *const *)a);
}

void ts_ckpt_sort(char **names, int n) {
  if (n) qsort(names, (size_t)n, sizeof *names, newest_first);
}

/* Removes the files that are WANTED, but the newest KEEP and WRITTEN. */
static ts_err remove_all(const char *dir, bool (*wanted)(const char *),
                         int keep, const char *written) {
  char **names = NULL, path[8192];
  int n = 0;
  const ts_err err = list(dir, wanted, &names, &n);
  ts_ckpt_sort(names, n);
  for (int i = keep; err == TS_OK && i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    if (strcmp(path, written) != 0) unlink(path);
  }
  ts_ckpt_list_free(names, n);
  return err;
}

ts_err ts_ckpt_prune(const char *dir, int keep, const char *written) {
  ts_err err = remove_all(dir, is_checkpoint, keep, written);
  if (err == TS_OK) err = remove_all(dir, is_part, 0, written);
  if (err != TS_ERR_CKPT) return err;
  ts_warn("%s: older checkpoints stay", ts_err_message());
  ts_err_clear();
  return TS_OK;
}
