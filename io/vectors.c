/* vectors.c - text files of words and their vectors. */
#include "io/vectors.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static const char blanks[] = " \t";

struct ts_vectors {
  char *path;
  FILE *file;
  int32_t dim;
  int64_t said;  /* words that the first line promises, -1: it is none */
  int64_t n;     /* words so far */
  int64_t line;  /* number of the line below, from 1 */
  char *text;    /* of getline */
  char *numbers; /* where they begin there */
  size_t room;   /* of getline */
  bool kept;     /* the line is read already */
};

static ts_err fail_line(const ts_vectors *v, const char *what) {
  return ts_fail(TS_ERR_CKPT, "%s:%lld: %s", v->path, (long long)v->line, what);
}

/* *ANY: there is one; without its end, nor blanks before it. */
static ts_err read_line(ts_vectors *v, bool *any) {
  errno = 0;
  const ssize_t n = getline(&v->text, &v->room, v->file);
  *any = n >= 0;
  v->line++;
  if (n < 0 && !feof(v->file)) return ts_fail_errno(TS_ERR_CKPT, v->path);
  if (n < 0) return TS_OK;
  size_t end = (size_t)n;
  if (strlen(v->text) != end)
    return fail_line(v, "has a byte 0: this is no text");
  while (end && strchr(" \t\r\n", v->text[end - 1])) end--;
  v->text[end] = '\0';
  return TS_OK;
}

static int64_t count_fields(const char *p) {
  int64_t n = 0;
  for (p += strspn(p, blanks); *p; n++) {
    p += strcspn(p, blanks);
    p += strspn(p, blanks);
  }
  return n;
}

/* "n dim", both whole numbers. */
static bool is_header(const char *text, long long *n, long long *dim) {
  char *middle, *end;
  *n = strtoll(text, &middle, 10);
  if (middle == text || !strchr(blanks, *middle)) return false;
  *dim = strtoll(middle, &end, 10);
  return end != middle && !*end && *n >= 0 && *dim > 0;
}

static ts_err read_first(ts_vectors *v) {
  long long n = 0, dim = 0;
  TS_DO(read_line(v, &v->kept));
  if (!v->kept) return fail_line(v, "the file is empty");
  const int64_t has = count_fields(v->text) - 1;
  if (has == 1 && is_header(v->text, &n, &dim)) {
    v->said = n;
    v->kept = false;
  } else {
    dim = has;
  }
  if (dim == v->dim) return TS_OK;
  return ts_fail(TS_ERR_CKPT,
                 "%s:1: vectors of %lld numbers, for a table of dim %d",
                 v->path, dim, v->dim);
}

/* Every rank reads all of it, so it has to be a file. */
static ts_err open_file(ts_vectors *v) {
  struct stat s;
  if (stat(v->path, &s) == 0 && !S_ISREG(s.st_mode))
    return ts_fail(TS_ERR_CKPT, "%s: is not a file", v->path);
  const int fd = ts_file_open(v->path, O_RDONLY);
  v->file = fd >= 0 ? fdopen(fd, "r") : NULL;
  if (v->file) return TS_OK;
  if (fd >= 0) close(fd);
  return ts_fail_errno(TS_ERR_CKPT, v->path);
}

ts_err ts_vectors_open(ts_vectors **out, const char *path, int32_t dim) {
  ts_err err = TS_OK;
  ts_vectors *v = NULL;
  *out = NULL;
  TS_TRY(ts_mem_alloc(&v, sizeof *v, TS_TAG_CHECKPOINT));
  v->dim = dim;
  v->said = -1;
  TS_TRY(ts_mem_strdup(&v->path, path));
  TS_TRY(open_file(v));
  TS_TRY(read_first(v));
  *out = v;
  v = NULL;
done:
  ts_vectors_close(v);
  return err;
}

void ts_vectors_close(ts_vectors *v) {
  if (!v) return;
  if (v->file) fclose(v->file);
  free(v->text);
  ts_mem_free_all(v->path, v);
}

/* Puts an end behind the word. */
static ts_err split_line(ts_vectors *v) {
  char *const word = v->text + strspn(v->text, blanks);
  char *p = word + strlen(word);
  for (int32_t i = 0; i < v->dim && p > word; i++) {
    while (p > word && strchr(blanks, p[-1])) p--;
    while (p > word && !strchr(blanks, p[-1])) p--;
  }
  v->numbers = p;
  while (p > word && strchr(blanks, p[-1])) p--;
  if (p == word) return fail_line(v, "has too few numbers behind its word");
  *p = '\0';
  return TS_OK;
}

ts_err ts_vectors_next(ts_vectors *v, const char **word) {
  bool any = v->kept;
  *word = NULL;
  if (!v->kept) TS_DO(read_line(v, &any));
  v->kept = false;
  if (!any && v->said >= 0 && v->said != v->n)
    return ts_fail(TS_ERR_CKPT,
                   "%s: has %lld words, and its first line says %lld: its end "
                   "is missing",
                   v->path, (long long)v->n, (long long)v->said);
  if (!any) return TS_OK;
  TS_DO(split_line(v));
  v->n++;
  *word = v->text + strspn(v->text, blanks);
  return TS_OK;
}

ts_err ts_vectors_numbers(const ts_vectors *v, float *x) {
  char *p = v->numbers, *end;
  for (int32_t i = 0; i < v->dim; i++, p = end) {
    x[i] = strtof(p, &end);
    if (end == p || (*end && !strchr(blanks, *end)) || !isfinite(x[i]))
      return fail_line(v, "what follows the word are no finite numbers");
  }
  return TS_OK;
}
