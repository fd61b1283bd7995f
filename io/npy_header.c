/* npy_header.c - the header of .npy. */
#include "io/npy_header.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 6 };

/* The text behind key KEY of the literal; NULL where the key is not there. */
static const char *value_of(const char *header, const char *key) {
  const char *p = strstr(header, key);
  if (!p) return NULL;
  p += strlen(key);
  p += strspn(p, " ");
  return *p == ':' ? p + 1 + strspn(p + 1, " ") : NULL;
}

static const char *take_shape(ts_npy *a, const char *p) {
  char *end;
  if (!p || *p++ != '(') return "the header has no shape";
  while (p += strspn(p, " ,"), *p != ')') {
    errno = 0;
    const long long n = strtoll(p, &end, 10);
    if (end == p || errno || n < 0 || a->n_dims == TS_NPY_DIMS_MAX)
      return "the header's shape is none";
    a->dims[a->n_dims++] = n;
    p = end;
  }
  return NULL;
}

/* "'<f4'"; a structure, which begins otherwise, has no type. */
static void take_type(ts_npy *a, const char *p) {
  const char *end = p && *p == '\'' ? strchr(p + 1, '\'') : NULL;
  const size_t n = end ? (size_t)(end - p - 1) : 0;
  if (n < 2 || n >= sizeof a->type) return;
  memcpy(a->type, p + 1, n);
  a->kind = a->type[1];
  a->size = atoi(a->type + 2);
  if (!strchr("iufb", a->kind) || a->size < 1 || a->size > 16) a->size = 0;
  a->big_endian = a->type[0] == '>' && a->size > 1;
}

static const char *take_header(ts_npy *a, const char *header) {
  const char *order = value_of(header, "'fortran_order'");
  const char *why = take_shape(a, value_of(header, "'shape'"));
  if (why) return why;
  take_type(a, value_of(header, "'descr'"));
  if (!order) return "the header does not say fortran_order";
  a->fortran = strncmp(order, "False", 5) != 0;
  a->n_bytes = a->size;
  for (int i = 0; i < a->n_dims; i++)
    if (__builtin_mul_overflow(a->n_bytes, a->dims[i], &a->n_bytes))
      return "its shape has more elements than there can be";
  return NULL;
}

const char *ts_npy_parse(ts_npy *a, const char *start, int64_t n,
                         int64_t n_file) {
  const unsigned char *s = (const unsigned char *)start;
  char header[TS_NPY_HEADER_MAX];
  *a = (ts_npy){0};
  if (n < 10 || memcmp(s, "\223NUMPY", MAGIC_BYTES) != 0 || s[6] < 1 ||
      s[6] > 3)
    return "it doesn't begin as one";
  const int64_t at = s[6] == 1 ? 10 : 12;
  int64_t more = s[8] | s[9] << 8;
  if (s[6] > 1 && n >= at) more |= (int64_t)s[10] << 16 | (int64_t)s[11] << 24;
  if (n < at || more > TS_NPY_HEADER_MAX - 12 || more > n_file - at ||
      more > n - at)
    return "its header is too long, or its end missing";
  memcpy(header, start + at, (size_t)more);
  header[more] = '\0';
  a->at = at + more;
  return take_header(a, header);
}

const char *ts_npy_shape(char buf[256], int n_dims, const int64_t *dims) {
  int at = snprintf(buf, 256, "(");
  for (int i = 0; i < n_dims; i++)
    at += snprintf(buf + at, (size_t)(256 - at), "%s%lld", i ? ", " : "",
                   (long long)dims[i]);
  snprintf(buf + at, (size_t)(256 - at), ")");
  return buf;
}
