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

ts_err ts_columnar_keys(ts_strings *names, const char *path,
                        ts_strings *values) {
  for (const char *p = path, *end; (end = strchr(p, '/')); p = end + 1) {
    const char *equals = memchr(p, '=', (size_t)(end - p));
    if (!equals || equals == p) continue;
    TS_DO(add(names, p, (size_t)(equals - p)));
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

ts_err ts_columnar_files(ts_strings *paths, const char *path) {
  struct dirent **found = NULL;
  struct stat st;
  char name[4096];
  ts_err err = TS_OK;
  const int n = scandir(path, &found, is_shown, alphasort);
  if (n < 0) return ts_fail_errno(TS_ERR_DATA, path);
  for (int i = 0; i < n; i++) {
    const int length =
        snprintf(name, sizeof name, "%s/%s", path, found[i]->d_name);
    const bool good = length < (int)sizeof name && stat(name, &st) == 0;
    if (err == TS_OK && good && S_ISDIR(st.st_mode))
      err = ts_columnar_files(paths, name);
    else if (err == TS_OK && good && S_ISREG(st.st_mode) && is_ours(name))
      err = add(paths, name, (size_t)length);
    free(found[i]);
  }
  free(found);
  return err;
}
