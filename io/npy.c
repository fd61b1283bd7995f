/* npy.c - NumPy's file of one array: a magic, the header's length, the header
 * (a literal of Python), the data. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/tensors.h"

enum { MAGIC_BYTES = 6, START_MAX = 12, HEADER_MAX = 65536 };

static ts_err refuse(const ts_tensors *f, const char *why) {
  return ts_fail(TS_ERR_CKPT, "%s: is no .npy file that can be read: %s",
                 f->path, why);
}

/* What follows the key KEY of the literal, NULL where it is not there. */
static const char *value_of(const char *header, const char *key) {
  const char *p = strstr(header, key);
  if (!p) return NULL;
  p += strlen(key);
  p += strspn(p, " ");
  return *p == ':' ? p + 1 + strspn(p + 1, " ") : NULL;
}

static ts_err take_shape(const ts_tensors *f, ts_tensor *t, const char *p) {
  char *end;
  if (!p || *p++ != '(') return refuse(f, "the header has no shape");
  while (p += strspn(p, " ,"), *p != ')') {
    errno = 0;
    const long long n = strtoll(p, &end, 10);
    if (end == p || errno || n < 0 || t->n_dims == TS_TENSOR_DIMS_MAX)
      return refuse(f, "the header's shape is none");
    t->dims[t->n_dims++] = n;
    p = end;
  }
  return TS_OK;
}

static ts_err take_header(ts_tensors *f, const char *header, int64_t data) {
  static const char *const types[] = {"f4", "f8", "f2"};
  static const ts_dtype dtypes[] = {TS_F32, TS_F64, TS_F16};
  ts_tensor *t = &f->item[0];
  char shape[256];
  const char *type = value_of(header, "'descr'");
  const char *order = value_of(header, "'fortran_order'");
  TS_DO(take_shape(f, t, value_of(header, "'shape'")));
  t->dtype = TS_DTYPE_COUNT;
  for (int i = 0; type && i < 3; i++)
    if (!strncmp(type, "'<", 2) && !strncmp(type + 2, types[i], 2) &&
        type[4] == '\'')
      t->dtype = dtypes[i];
  if (t->dtype == TS_DTYPE_COUNT)
    return refuse(f, "its type is none of <f4, <f8 and <f2");
  if (!order || strncmp(order, "False", 5) != 0)
    return refuse(f, "its columns follow each other (fortran_order), not rows");
  int64_t n_bytes = (int64_t)ts_dtype_bytes(t->dtype);
  bool fits = true;
  for (int i = 0; i < t->n_dims; i++)
    fits &= !__builtin_mul_overflow(n_bytes, t->dims[i], &n_bytes);
  if (!fits || n_bytes != f->size - data)
    return ts_fail(TS_ERR_CKPT,
                   "%s: %s elements of %d bytes don't fill the file's %lld "
                   "bytes of data: it is damaged, or its end missing",
                   f->path, ts_tensor_shape(shape, t),
                   (int)ts_dtype_bytes(t->dtype), (long long)(f->size - data));
  t->at = data;
  t->n_bytes = n_bytes;
  return TS_OK;
}

ts_err ts_npy_read(ts_tensors *f) {
  ts_err err = TS_OK;
  unsigned char start[START_MAX] = {0};
  char *header = NULL;
  const int64_t some = f->size < START_MAX ? f->size : START_MAX;
  TS_TRY(ts_pread(f->fd, start, some, 0, f->path, TS_ERR_CKPT));
  if (memcmp(start, "\223NUMPY", MAGIC_BYTES) != 0 || start[6] < 1 ||
      start[6] > 3)
    TS_TRY(refuse(f, "it doesn't begin as one"));
  const int64_t at = start[6] == 1 ? 10 : 12;
  int64_t n = start[8] | start[9] << 8;
  if (start[6] > 1) n |= (int64_t)start[10] << 16 | (int64_t)start[11] << 24;
  if (n > HEADER_MAX || n > f->size - at)
    TS_TRY(refuse(f, "its header is too long, or its end missing"));
  TS_TRY(ts_mem_alloc(&header, (size_t)n + 1, TS_TAG_CHECKPOINT));
  TS_TRY(ts_pread(f->fd, header, n, at, f->path, TS_ERR_CKPT));
  TS_TRY(ts_mem_many(f->item, 1, CHECKPOINT));
  TS_TRY(ts_mem_strdup(&f->item[0].name, ""));
  f->n = 1;
  TS_TRY(take_header(f, header, at + n));
done:
  ts_mem_free(header);
  return err;
}
