/* columnar_keys.c - folders of files of columns. */
#include "io/columnar_keys.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"

static ts_err add(ts_strings *list, const char *text, size_t n) {
  char *copy = NULL;
  TS_DO(ts_mem_extend(&list->item, list->n, list->n + 1, sizeof(char *),
                      TS_TAG_INPUT));
  TS_DO(ts_mem_alloc(&copy, n + 1, TS_TAG_INPUT));
  memcpy(copy, text, n);
  list->item[list->n++] = copy;
  return TS_OK;
}

static int hex(char c) {
  static const char digits[] = "0123456789abcdef";
  const char *at = c ? strchr(digits, c | 32) : NULL;
  return at ? (int)(at - digits) : -1;
}

static void unescape(char *text) {
  char *to = text;
  for (const char *p = text; *p; p++) {
    const int high = *p == '%' ? hex(p[1]) : -1;
    const int low = high >= 0 ? hex(p[2]) : -1;
    *to++ = low >= 0 ? (char)(16 * high + low) : *p;
    if (low >= 0) p += 2;
  }
  *to = '\0';
}

/* The rest of PATH behind its last part that is ".". */
static const char *behind_root(const char *path) {
  const char *last = strncmp(path, "./", 2) == 0 ? path + 2 : NULL;
  for (const char *p = path; (p = strstr(p, "/./")); p++) last = p + 3;
  return last ? last : path + strlen(path);
}

ts_err ts_columnar_keys(ts_strings *names, const char *path,
                        ts_strings *values) {
  for (const char *p = behind_root(path), *end; (end = strchr(p, '/'));
       p = end + 1) {
    const char *equals = memchr(p, '=', (size_t)(end - p));
    if (!equals || equals == p) continue;
    TS_DO(add(names, p, (size_t)(equals - p)));
    unescape(names->item[names->n - 1]);
    if (!values) continue;
    TS_DO(add(values, equals + 1, (size_t)(end - equals - 1)));
    unescape(values->item[values->n - 1]);
  }
  return TS_OK;
}

void ts_columnar_keys_free(ts_strings *list) {
  for (int32_t i = 0; i < list->n; i++) ts_mem_free(list->item[i]);
  ts_mem_free(list->item);
  *list = (ts_strings){0};
}

static int is_shown(const struct dirent *d) {
  return *d->d_name != '.' && *d->d_name != '_';
}

static bool is_ours(const char *name) {
  return ts_str_ends(name, ".parquet") || ts_str_ends(name, ".arrow") ||
         ts_str_ends(name, ".feather");
}

ts_err ts_columnar_add(ts_strings *paths, const char *path, size_t root) {
  char marked[8192];
  const char *equals = strchr(path + root, '=');
  if (!equals || !strchr(equals, '/')) return add(paths, path, strlen(path));
  const int n =
      snprintf(marked, sizeof marked, "%.*s./%s", (int)root, path, path + root);
  if (n >= (int)sizeof marked)
    return ts_fail(TS_ERR_DATA, "%s: its path is too long", path);
  return add(paths, marked, (size_t)n);
}

/* A folder, and those that it is in. */
typedef struct ts_folder {
  const struct ts_folder *in;
  const char *path;
  dev_t dev;
  ino_t ino;
} ts_folder;

static ts_err add_below(ts_strings *paths, const char *path, size_t root,
                        const ts_folder *in);

static ts_err add_entry(ts_strings *paths, const ts_folder *in,
                        const char *entry, size_t root) {
  char path[4096];
  struct stat st;
  if (snprintf(path, sizeof path, "%s/%s", in->path, entry) >= (int)sizeof path)
    return ts_fail(TS_ERR_DATA, "%s/%s: its path is too long", in->path, entry);
  if (stat(path, &st) != 0)
    return is_ours(entry) ? ts_fail_errno(TS_ERR_DATA, path) : TS_OK;
  if (S_ISDIR(st.st_mode)) return add_below(paths, path, root, in);
  if (!is_ours(entry)) return TS_OK;
  if (!S_ISREG(st.st_mode))
    return ts_fail(TS_ERR_DATA, "%s: is not a file", path);
  return ts_columnar_add(paths, path, root);
}

static ts_err add_below(ts_strings *paths, const char *path, size_t root,
                        const ts_folder *in) {
  struct dirent **found = NULL;
  struct stat st;
  ts_err err = TS_OK;
  if (stat(path, &st) != 0) return ts_fail_errno(TS_ERR_DATA, path);
  const ts_folder here = {in, path, st.st_dev, st.st_ino};
  for (const ts_folder *f = in; f; f = f->in)
    if (f->dev == here.dev && f->ino == here.ino)
      return ts_fail(TS_ERR_DATA, "%s: is the folder %s, which it is in", path,
                     f->path);
  const int n = scandir(path, &found, is_shown, alphasort);
  if (n < 0) return ts_fail_errno(TS_ERR_DATA, path);
  for (int i = 0; i < n; i++) {
    if (err == TS_OK) err = add_entry(paths, &here, found[i]->d_name, root);
    free(found[i]);
  }
  free(found);
  return err;
}

ts_err ts_columnar_files(ts_strings *paths, const char *path, size_t root) {
  return add_below(paths, path, root, NULL);
}
