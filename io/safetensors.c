/* safetensors.c - 8 bytes, how many the header has (little endian); that, a
 * JSON object of tensors; their data. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/tensors.h"

enum { LENGTH_BYTES = 8, HEADER_MAX = 100000000 /* as its other readers */ };

/* Bytes of an element, and what it is read as. */
static const struct {
  const char *name;
  int64_t bytes;
  ts_dtype dtype;
} types[] = {{"F32", 4, TS_F32},         {"F16", 2, TS_F16},
             {"BF16", 2, TS_BF16},       {"F64", 8, TS_F64},
             {"I64", 8, TS_DTYPE_COUNT}, {"U64", 8, TS_DTYPE_COUNT},
             {"I32", 4, TS_DTYPE_COUNT}, {"U32", 4, TS_DTYPE_COUNT},
             {"I16", 2, TS_DTYPE_COUNT}, {"U16", 2, TS_DTYPE_COUNT},
             {"I8", 1, TS_DTYPE_COUNT},  {"U8", 1, TS_DTYPE_COUNT},
             {"BOOL", 1, TS_DTYPE_COUNT}};

static ts_err take_shape(const ts_tensors *f, ts_tensor *t, json_t *shape,
                         int64_t *n) {
  const size_t n_dims = json_array_size(shape);
  bool fits = n_dims <= TS_TENSOR_DIMS_MAX;
  *n = 1;
  for (size_t i = 0; fits && i < n_dims; i++) {
    const json_t *dim = json_array_get(shape, i);
    t->dims[i] = json_integer_value(dim);
    fits = json_is_integer(dim) && t->dims[i] >= 0 &&
           !__builtin_mul_overflow(*n, t->dims[i], n);
  }
  t->n_dims = (int)n_dims;
  if (fits) return TS_OK;
  return ts_fail(TS_ERR_CKPT,
                 "%s: the shape of tensor %.200s is none: up to %d whole "
                 "numbers from 0 on, and no more elements than can be counted",
                 f->path, t->name, TS_TENSOR_DIMS_MAX);
}

/* The data are bytes [DATA, size of the file). */
static ts_err take_place(const ts_tensors *f, ts_tensor *t, json_t *offsets,
                         int64_t data) {
  const json_t *from = json_array_get(offsets, 0);
  const json_t *to = json_array_get(offsets, 1);
  const int64_t a = json_integer_value(from), z = json_integer_value(to);
  if (!json_is_integer(from) || !json_is_integer(to) || a < 0 || z < a ||
      z > f->size - data)
    return ts_fail(TS_ERR_CKPT,
                   "%s: tensor %.200s is at bytes %lld to %lld of the data, "
                   "which has %lld: the file is damaged, or its end missing",
                   f->path, t->name, (long long)a, (long long)z,
                   (long long)(f->size - data));
  t->at = data + a;
  t->n_bytes = z - a;
  return TS_OK;
}

static ts_err take_type(const ts_tensors *f, ts_tensor *t, const char *type,
                        int64_t n) {
  int64_t bytes;
  snprintf(t->type, sizeof t->type, "%s", type);
  t->dtype = TS_DTYPE_COUNT;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(types[i].name, type) != 0) continue;
    t->dtype = types[i].dtype;
    if (__builtin_mul_overflow(n, types[i].bytes, &bytes) ||
        bytes != t->n_bytes)
      return ts_fail(TS_ERR_CKPT,
                     "%s: tensor %.200s has %lld elements of type %s, and "
                     "%lld bytes",
                     f->path, t->name, (long long)n, type,
                     (long long)t->n_bytes);
  }
  return TS_OK;
}

static ts_err take_tensor(ts_tensors *f, const char *name, json_t *about,
                          int64_t data) {
  ts_tensor *t = &f->item[f->n];
  const char *type = json_string_value(json_object_get(about, "dtype"));
  json_t *shape = json_object_get(about, "shape");
  json_t *offsets = json_object_get(about, "data_offsets");
  int64_t n;
  if (!type || !json_is_array(shape) || json_array_size(offsets) != 2)
    return ts_fail(TS_ERR_CKPT,
                   "%s: tensor %.200s lacks its dtype, shape or data_offsets",
                   f->path, name);
  TS_DO(ts_mem_strdup(&t->name, name));
  f->n++;
  TS_DO(take_shape(f, t, shape, &n));
  TS_DO(take_place(f, t, offsets, data));
  return take_type(f, t, type, n);
}

static int by_place(const void *a, const void *b) {
  const ts_tensor *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
}

static ts_err check_overlaps(ts_tensors *f) {
  const ts_tensor *last = NULL; /* with some bytes */
  if (f->n) qsort(f->item, (size_t)f->n, sizeof *f->item, by_place);
  for (int32_t i = 0; i < f->n; i++) {
    const ts_tensor *t = &f->item[i];
    if (!t->n_bytes) continue;
    if (last && t->at < last->at + last->n_bytes)
      return ts_fail(TS_ERR_CKPT,
                     "%s: tensors %.200s and %.200s are at the same bytes",
                     f->path, last->name, t->name);
    last = t;
  }
  return TS_OK;
}

static ts_err take_all(ts_tensors *f, json_t *header, int64_t data) {
  const char *name;
  json_t *about;
  TS_DO(ts_mem_many(f->item, (int64_t)json_object_size(header), CHECKPOINT));
  json_object_foreach(header, name, about) {
    if (strcmp(name, "__metadata__") != 0)
      TS_DO(take_tensor(f, name, about, data));
  }
  return check_overlaps(f);
}

ts_err ts_tensors_read_json(const ts_tensors *f, json_t **json, int64_t at,
                            int64_t n) {
  ts_err err = TS_OK;
  char *text = NULL;
  json_error_t why;
  if (n > HEADER_MAX)
    return ts_fail(TS_ERR_CKPT, "%s: is no index: it has %lld bytes", f->path,
                   (long long)n);
  TS_TRY(ts_mem_alloc(&text, (size_t)n, TS_TAG_CHECKPOINT));
  TS_TRY(ts_pread(f->fd, text, n, at, f->path, TS_ERR_CKPT));
  *json = json_loadb(n ? text : "", (size_t)n, JSON_REJECT_DUPLICATES, &why);
  if (!*json)
    TS_THROW(TS_ERR_CKPT, "%s: the header is no JSON: %s", f->path, why.text);
done:
  ts_mem_free(text);
  return err;
}

/* The step that export writes.  Other programs' files have none, or a text of
 * their own, which is not taken for one. */
static void take_step(ts_tensors *f, json_t *header) {
  const char *step = json_string_value(
      json_object_get(json_object_get(header, "__metadata__"), "step"));
  const size_t n = step ? strspn(step, "0123456789") : 0;
  if (n && n < 16 && !step[n]) f->step = strtoll(step, NULL, 10);
}

ts_err ts_safetensors_read(ts_tensors *f) {
  ts_err err = TS_OK;
  unsigned char length[LENGTH_BYTES];
  uint64_t n = 0;
  json_t *header = NULL;
  if (f->size < LENGTH_BYTES)
    TS_THROW(TS_ERR_CKPT, "%s: is no safetensors file: it has %lld bytes",
             f->path, (long long)f->size);
  TS_TRY(ts_pread(f->fd, length, LENGTH_BYTES, 0, f->path, TS_ERR_CKPT));
  for (int i = LENGTH_BYTES; i-- > 0;) n = n << 8 | length[i];
  if (n > HEADER_MAX || (int64_t)n > f->size - LENGTH_BYTES)
    TS_THROW(TS_ERR_CKPT,
             "%s: is no safetensors file, or its end is missing: its header "
             "would have %llu bytes, the file has %lld",
             f->path, (unsigned long long)n, (long long)f->size);
  TS_TRY(ts_tensors_read_json(f, &header, LENGTH_BYTES, (int64_t)n));
  if (!json_is_object(header))
    TS_THROW(TS_ERR_CKPT, "%s: the header is no JSON object of tensors",
             f->path);
  take_step(f, header);
  TS_TRY(take_all(f, header, LENGTH_BYTES + (int64_t)n));
done:
  json_decref(header);
  return err;
}
