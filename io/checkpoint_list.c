/* checkpoint_list.c - which checkpoints a folder holds. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void list(const char *dir, bool (*wanted)(const char *), char ***names,
                 int *n) {
  DIR *d = opendir(dir);
  *names = NULL;
  *n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!wanted(e->d_name)) continue;
    if (ts_mem_extend(names, *n, *n + 1, sizeof **names, TS_TAG_CHECKPOINT) !=
            TS_OK ||
        ts_mem_strdup(&(*names)[*n], e->d_name) != TS_OK)
      break;
    ++*n;
  }
  if (d) closedir(d);
}

void ts_ckpt_list(const char *dir, char ***names, int *n) {
  list(dir, is_checkpoint, names, n);
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

static void remove_parts(const char *dir) {
  char **names = NULL, path[8192];
  int n = 0;
  list(dir, is_part, &names, &n);
  for (int i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    unlink(path);
  }
  ts_ckpt_list_free(names, n);
}

void ts_ckpt_prune(const char *dir, int keep, const char *written) {
  char **names = NULL, path[8192];
  int n = 0;
  ts_ckpt_list(dir, &names, &n);
  ts_ckpt_sort(names, n);
  for (int i = keep; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    if (strcmp(path, written) != 0) unlink(path);
  }
  ts_ckpt_list_free(names, n);
  remove_parts(dir);
}
