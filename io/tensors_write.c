/* tensors_write.c - files of tensors, block of rows by block of rows. */
#include "io/tensors_write.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/space.h"
#include "io/tensors.h"

enum { LENGTH_BYTES = 8, BUFFER_BYTES = 8 << 20 };

ts_err ts_tensors_out_add(ts_tensors_out *o, const ts_tensor_out *like) {
  TS_DO(ts_mem_extend(&o->item, o->n, o->n + 1, sizeof *o->item,
                      TS_TAG_CHECKPOINT));
  ts_tensor_out *t = &o->item[o->n++];
  *t = *like;
  t->name = t->source = NULL;
  TS_DO(ts_mem_strdup(&t->name, like->name));
  return ts_mem_strdup(&t->source, like->source);
}

void ts_tensors_out_reset(ts_tensors_out *o) {
  for (int32_t i = 0; i < o->n; i++)
    ts_mem_free_all(o->item[i].name, o->item[i].source);
  ts_mem_free(o->item);
  o->item = NULL;
  o->n = 0;
}

static int64_t row_bytes(const ts_tensor_out *t) {
  return (t->cols ? t->cols : 1) * (int64_t)ts_dtype_bytes(t->dtype);
}

int64_t ts_tensor_out_bytes(const ts_tensor_out *t) {
  return t->rows * row_bytes(t);
}

/* ---- which is where ------------------------------------------------------ */

/* Wide types first: so each lies on a border of its own size. */
static int by_width(const void *a, const void *b) {
  const ts_tensor_out *x = a, *y = b;
  const int wide =
      (int)ts_dtype_bytes(y->dtype) - (int)ts_dtype_bytes(x->dtype);
  return wide ? wide : strcmp(x->name, y->name);
}

static ts_err lay_out(ts_tensors_out *o, int64_t max_bytes, int32_t *files) {
  int64_t at = 0, all = 0;
  int32_t n_files = 1;
  if (o->n) qsort(o->item, (size_t)o->n, sizeof *o->item, by_width);
  for (int32_t i = 0; i < o->n; i++) {
    ts_tensor_out *t = &o->item[i];
    if (__builtin_add_overflow(all, ts_tensor_out_bytes(t), &all))
      return ts_fail(TS_ERR_CKPT, "more bytes of tensors than can be counted");
    if (at && at + ts_tensor_out_bytes(t) > max_bytes) {
      n_files++;
      at = 0;
    }
    t->file = n_files - 1;
    t->at = at;
    at += ts_tensor_out_bytes(t);
  }
  *files = n_files;
  return TS_OK;
}

static ts_err file_name(ts_str *name, const char *stem, int32_t k, int32_t n) {
  ts_str_reset(name);
  if (n == 1) return ts_str_append(name, "%s.safetensors", stem);
  return ts_str_append(name, "%s-%05d-of-%05d.safetensors", stem, k + 1, n);
}

/* ---- JSON ---------------------------------------------------------------- */

static const char *const types[TS_DTYPE_COUNT] = {
    [TS_F32] = "F32", [TS_BF16] = "BF16", [TS_F16] = "F16", [TS_F64] = "F64",
    [TS_I32] = "I32", [TS_I64] = "I64",   [TS_U8] = "U8"};

/* NULL, as Jansson has it, where there is no memory or the name no UTF-8. */
static json_t *about(const ts_tensor_out *t) {
  const char *type = types[t->dtype];
  const json_int_t from = t->at, to = t->at + ts_tensor_out_bytes(t);
  if (t->cols)
    return json_pack("{s:s, s:[I, I], s:[I, I]}", "dtype", type, "shape",
                     (json_int_t)t->rows, (json_int_t)t->cols, "data_offsets",
                     from, to);
  return json_pack("{s:s, s:[I], s:[I, I]}", "dtype", type, "shape",
                   (json_int_t)t->rows, "data_offsets", from, to);
}

/* A member of a name that is there already would be lost. */
static ts_err put(json_t *object, const ts_tensor_out *t, json_t *value) {
  if (object && value && json_object_get(object, t->name)) {
    json_decref(value);
    return ts_fail(TS_ERR_CKPT, "two tensors would be called %.200s", t->name);
  }
  if (json_object_set_new(object, t->name, value) == 0) return TS_OK;
  if (!object || !value)
    return ts_fail(TS_ERR_NOMEM, "no memory for the names of tensors");
  return ts_fail(TS_ERR_CKPT, "the name of tensor %.200s is no UTF-8", t->name);
}

/* TEXT = JSON, which is freed, and blanks up to a multiple of 8 bytes. */
static ts_err print(ts_str *text, json_t *json, size_t flags) {
  ts_err err = TS_OK;
  char *dump = json ? json_dumps(json, flags) : NULL;
  json_decref(json);
  if (!dump) return ts_fail(TS_ERR_NOMEM, "no memory for the names of tensors");
  TS_TRY(ts_str_append(text, "%s", dump));
  while (text->n_bytes % 8) TS_TRY(ts_str_append(text, " "));
done:
  free(dump);
  return err;
}

static ts_err print_header(ts_str *text, const ts_tensors_out *o, int32_t k) {
  ts_err err = TS_OK;
  char step[32];
  snprintf(step, sizeof step, "%lld", (long long)o->step);
  json_t *header =
      json_pack("{s:{s:s, s:s}}", "__metadata__", "format", "pt", "step", step);
  for (int32_t i = 0; i < o->n; i++)
    if (o->item[i].file == k)
      TS_TRY(put(header, &o->item[i], about(&o->item[i])));
  return print(text, header, JSON_COMPACT);
done:
  json_decref(header);
  return err;
}

/* ---- files --------------------------------------------------------------- */

static ts_err write_tensor(int fd, const char *path, const ts_tensors_out *o,
                           const ts_tensor_out *t, int64_t data, void *room) {
  const int64_t row = row_bytes(t);
  const int64_t some = row < BUFFER_BYTES ? BUFFER_BYTES / row : 1;
  for (int64_t r = 0; r < t->rows; r += some) {
    const int64_t n = t->rows - r < some ? t->rows - r : some;
    TS_DO(o->read(o->arg, t, r, n, room));
    TS_DO(
        ts_pwrite(fd, room, n * row, data + t->at + r * row, path, TS_ERR_IO));
  }
  return TS_OK;
}

static ts_err write_text(int fd, const char *path, const ts_str *text) {
  unsigned char length[LENGTH_BYTES];
  for (int i = 0; i < LENGTH_BYTES; i++)
    length[i] = (unsigned char)((uint64_t)text->n_bytes >> 8 * i);
  TS_DO(ts_pwrite(fd, length, LENGTH_BYTES, 0, path, TS_ERR_IO));
  return ts_pwrite(fd, text->text, (int64_t)text->n_bytes, LENGTH_BYTES, path,
                   TS_ERR_IO);
}

static ts_err create(int *fd, const char *path) {
  *fd = ts_file_open(path, O_CREAT | O_EXCL | O_WRONLY);
  return *fd < 0 ? ts_fail_errno(TS_ERR_IO, path) : TS_OK;
}

static ts_err write_file(const char *path, const ts_tensors_out *o, int32_t k,
                         void *room) {
  ts_err err = TS_OK;
  int fd = -1;
  int64_t bytes = 0;
  ts_str header = {0};
  TS_TRY(print_header(&header, o, k));
  const int64_t data = LENGTH_BYTES + (int64_t)header.n_bytes;
  for (int32_t i = 0; i < o->n; i++)
    if (o->item[i].file == k) bytes += ts_tensor_out_bytes(&o->item[i]);
  TS_TRY(create(&fd, path));
  TS_TRY(ts_reserve(fd, data + bytes, path, TS_ERR_IO));
  TS_TRY(write_text(fd, path, &header));
  for (int32_t i = 0; i < o->n; i++)
    if (o->item[i].file == k)
      TS_TRY(write_tensor(fd, path, o, &o->item[i], data, room));
  if (ts_file_sync(fd) != 0) TS_TRY(ts_fail_errno(TS_ERR_IO, path));
done:
  if (fd >= 0) close(fd);
  ts_str_reset(&header);
  return err;
}

static ts_err write_index(const char *path, const char *stem,
                          const ts_tensors_out *o, int32_t n_files) {
  ts_err err = TS_OK;
  int fd = -1;
  json_int_t total = 0;
  ts_str text = {0}, name = {0};
  json_t *map = json_object();
  for (int32_t i = 0; i < o->n; i++) {
    TS_TRY(file_name(&name, stem, o->item[i].file, n_files));
    TS_TRY(put(map, &o->item[i], json_string(name.text)));
    total += ts_tensor_out_bytes(&o->item[i]);
  }
  err = print(&text,
              json_pack("{s:{s:I}, s:O}", "metadata", "total_size", total,
                        "weight_map", map),
              JSON_INDENT(2));
  TS_TRY(err);
  TS_TRY(create(&fd, path));
  TS_TRY(ts_pwrite(fd, text.text, (int64_t)text.n_bytes, 0, path, TS_ERR_IO));
  if (ts_file_sync(fd) != 0) TS_TRY(ts_fail_errno(TS_ERR_IO, path));
done:
  if (fd >= 0) close(fd);
  json_decref(map);
  ts_str_reset(&text);
  ts_str_reset(&name);
  return err;
}

/* A row may be longer than the buffer. */
static int64_t room_bytes(const ts_tensors_out *o) {
  int64_t most = BUFFER_BYTES;
  for (int32_t i = 0; i < o->n; i++)
    if (row_bytes(&o->item[i]) > most) most = row_bytes(&o->item[i]);
  return most;
}

ts_err ts_tensors_write(const char *folder, const char *stem, ts_tensors_out *o,
                        int64_t max_bytes, int32_t *n_files) {
  ts_err err = TS_OK;
  void *room = NULL;
  ts_str name = {0}, path = {0};
  TS_DO(lay_out(o, max_bytes, n_files));
  TS_TRY(ts_mem_alloc(&room, (size_t)room_bytes(o), TS_TAG_CHECKPOINT));
  for (int32_t k = 0; k < *n_files; k++) {
    TS_TRY(file_name(&name, stem, k, *n_files));
    ts_str_reset(&path);
    TS_TRY(ts_str_append(&path, "%s/%s", folder, name.text));
    TS_TRY(write_file(path.text, o, k, room));
  }
  if (*n_files > 1) {
    ts_str_reset(&path);
    TS_TRY(ts_str_append(&path, "%s/%s%s", folder, stem, TS_TENSORS_INDEX));
    TS_TRY(write_index(path.text, stem, o, *n_files));
  }
done:
  ts_mem_free(room);
  ts_str_reset(&name);
  ts_str_reset(&path);
  return err;
}
