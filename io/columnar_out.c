/* columnar_out.c - rows to groups of Arrow's columns, and these to a file. */
#include "io/columnar_out.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/parquet.h"

/* A group has as many rows, or fewer with as many bytes in one column. */
enum { GROUP_ROWS = 1 << 17, GROUP_BYTES = 1 << 28 };

/* A column and, of lists, what they have: items, or pairs of two of them. */
enum { OUTER, ITEM, PAIR_ID, PAIR_WEIGHT, N_PARTS };

typedef struct ts_out_column {
  char *name;
  ts_out_kind kind;
  ts_str values, weights, offsets; /* of the group at hand */
  struct ArrowSchema schema[N_PARTS], *schemas[N_PARTS];
  struct ArrowArray array[N_PARTS], *arrays[N_PARTS];
  const void *buffers[N_PARTS][3];
} ts_out_column;

struct ts_columnar_out {
  char path[4096];
  int fd;
  ts_parquet_out *file; /* NULL: before the first group */
  ts_out_column *columns;
  struct ArrowSchema **schemas; /* (n_columns) */
  struct ArrowArray **arrays;   /* (n_columns) */
  const void *no_buffers[1];
  bool arrow;
  int32_t n_columns, n_made;
  int64_t n; /* rows of the group at hand */
};

/* All of it is ours, and goes with the file. */
static void release_schema(struct ArrowSchema *s) {
  for (int64_t i = 0; i < s->n_children; i++)
    if (s->children[i]->release) s->children[i]->release(s->children[i]);
  s->release = NULL;
}

static void release_array(struct ArrowArray *a) {
  for (int64_t i = 0; i < a->n_children; i++)
    if (a->children[i]->release) a->children[i]->release(a->children[i]);
  a->release = NULL;
}

static struct ArrowSchema schema_of(const char *format, const char *name,
                                    int64_t n, struct ArrowSchema **children) {
  return (struct ArrowSchema){.format = format,
                              .name = name,
                              .n_children = n,
                              .children = children,
                              .release = release_schema};
}

static void make_schema(ts_out_column *c) {
  static const char *const formats[] = {"l", "g", "f", "u", "+l", "+l"};
  const bool pairs = c->kind == TS_OUT_WEIGHTED;
  for (int i = 0; i < N_PARTS; i++) {
    c->schemas[i] = &c->schema[i];
    c->arrays[i] = &c->array[i];
  }
  c->schema[OUTER] = schema_of(formats[c->kind], c->name, c->kind >= TS_OUT_IDS,
                               c->schemas + ITEM);
  c->schema[ITEM] =
      schema_of(pairs ? "+s" : "l", "item", 2 * pairs, c->schemas + PAIR_ID);
  c->schema[PAIR_ID] = schema_of("l", "id", 0, NULL);
  c->schema[PAIR_WEIGHT] = schema_of("f", "weight", 0, NULL);
}

static ts_err fail(const ts_columnar_out *out, const char *why) {
  return ts_fail(TS_ERR_IO, "%s: %s", out->path, why);
}

ts_err ts_columnar_out_create(ts_columnar_out **to, const char *path,
                              bool arrow, int32_t n_columns) {
  ts_columnar_out *out = NULL;
  char why[TS_PARQUET_WHY];
  if (!ts_parquet_is_there(why))
    return ts_fail(TS_ERR_USAGE, "%s: %s", path, why);
  TS_DO(ts_mem_alloc(&out, sizeof *out, TS_TAG_MISC));
  *to = out;
  snprintf(out->path, sizeof out->path, "%s", path);
  out->arrow = arrow;
  out->n_columns = n_columns;
  out->fd = -1;
  TS_DO(ts_mem_many(out->columns, n_columns, MISC));
  TS_DO(ts_mem_many(out->schemas, n_columns, MISC));
  TS_DO(ts_mem_many(out->arrays, n_columns, MISC));
  unlink(path); /* of one that was killed, or planted */
  out->fd = ts_file_open(path, O_RDWR | O_CREAT | O_EXCL);
  return out->fd >= 0 ? TS_OK : fail(out, ts_file_why());
}

ts_err ts_columnar_out_column(ts_columnar_out *out, const char *name,
                              ts_out_kind kind) {
  const int32_t zero = 0;
  ts_out_column *c = &out->columns[out->n_made++];
  c->kind = kind;
  TS_DO(ts_mem_strdup(&c->name, name));
  return ts_str_append_bytes(&c->offsets, &zero, sizeof zero);
}

/* ---- groups -------------------------------------------------------------- */

static void make_array(ts_out_column *c, int part, int64_t length,
                       int64_t n_buffers, const void *first, const void *next) {
  c->buffers[part][1] = first ? first : "";
  c->buffers[part][2] = next ? next : "";
  c->array[part] = (struct ArrowArray){.length = length,
                                       .n_buffers = n_buffers,
                                       .buffers = c->buffers[part],
                                       .release = release_array};
}

static void make_arrays(ts_out_column *c, int64_t n) {
  const int64_t n_ids = (int64_t)c->values.n_bytes / 8;
  const bool pairs = c->kind == TS_OUT_WEIGHTED;
  if (c->kind < TS_OUT_TEXT) make_array(c, OUTER, n, 2, c->values.text, NULL);
  if (c->kind == TS_OUT_TEXT)
    make_array(c, OUTER, n, 3, c->offsets.text, c->values.text);
  if (c->kind < TS_OUT_IDS) return;
  make_array(c, OUTER, n, 2, c->offsets.text, NULL);
  c->array[OUTER].n_children = 1;
  c->array[OUTER].children = c->arrays + ITEM;
  make_array(c, ITEM, n_ids, pairs ? 1 : 2, c->values.text, NULL);
  if (!pairs) return;
  c->array[ITEM].n_children = 2;
  c->array[ITEM].children = c->arrays + PAIR_ID;
  make_array(c, PAIR_ID, n_ids, 2, c->values.text, NULL);
  make_array(c, PAIR_WEIGHT, n_ids, 2, c->weights.text, NULL);
}

/* Begins the file, once all columns are there. */
static ts_err begin_file(ts_columnar_out *out) {
  char why[TS_PARQUET_WHY];
  for (int32_t k = 0; k < out->n_columns; k++) {
    make_schema(&out->columns[k]);
    out->schemas[k] = out->columns[k].schema;
    out->arrays[k] = out->columns[k].array;
  }
  struct ArrowSchema all = schema_of("+s", "", out->n_columns, out->schemas);
  const int own = dup(out->fd); /* which the library closes */
  if (own < 0) return ts_fail_errno(TS_ERR_IO, out->path);
  return ts_parquet_create(&out->file, own, out->arrow, &all, why)
             ? TS_OK
             : fail(out, why);
}

static ts_err end_group(ts_columnar_out *out) {
  char why[TS_PARQUET_WHY];
  if (!out->file) TS_DO(begin_file(out));
  if (!out->n) return TS_OK;
  for (int32_t k = 0; k < out->n_columns; k++)
    make_arrays(&out->columns[k], out->n);
  struct ArrowArray all = {.length = out->n,
                           .n_buffers = 1,
                           .buffers = out->no_buffers,
                           .n_children = out->n_columns,
                           .children = out->arrays,
                           .release = release_array};
  if (!ts_parquet_write(out->file, &all, why)) return fail(out, why);
  out->n = 0;
  for (int32_t k = 0; k < out->n_columns; k++) {
    ts_out_column *c = &out->columns[k];
    c->values.n_bytes = c->weights.n_bytes = 0;
    c->offsets.n_bytes = sizeof(int32_t);
  }
  return TS_OK;
}

/* ---- rows ---------------------------------------------------------------- */

static ts_err end_list(ts_out_column *c, size_t size) {
  const int32_t end = (int32_t)(c->values.n_bytes / size);
  return ts_str_append_bytes(&c->offsets, &end, sizeof end);
}

/* Readers take Parquet's texts for UTF-8, and fail otherwise: no sequence is
 * longer than its code needs, none is a surrogate's. */
static bool is_utf8(const unsigned char *p, size_t n) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  for (size_t i = 0; i < n;) {
    const unsigned char c = p[i++];
    const int more = c < 0x80   ? 0
                     : c < 0xc0 ? 4
                     : c < 0xe0 ? 1
                     : c < 0xf0 ? 2
                                : 3;
    uint32_t code = more ? c & (0x3fu >> more) : c;
    if (more > 3 || c > 0xf4) return false;
    for (int k = 0; k < more; k++, i++) {
      if (i == n || p[i] >> 6 != 2) return false;
      code = code << 6 | (p[i] & 0x3f);
    }
    if (code < least[more] || code > 0x10ffff || code >> 11 == 0x1b)
      return false;
  }
  return true;
}

ts_err ts_columnar_out_cell(ts_columnar_out *out, int32_t k, const void *cell,
                            size_t n_bytes) {
  static const size_t bytes[] = {8, 8, 4};
  ts_out_column *c = &out->columns[k];
  const bool text = c->kind == TS_OUT_TEXT;
  if (text && !is_utf8(cell, n_bytes))
    return ts_fail(TS_ERR_DATA,
                   "%s: column \"%s\": a cell is no UTF-8, which Arrow's "
                   "texts are; .csv and .h5 take it",
                   out->path, c->name);
  TS_DO(ts_str_append_bytes(&c->values, cell, text ? n_bytes : bytes[c->kind]));
  return text ? end_list(c, 1) : TS_OK;
}

ts_err ts_columnar_out_list(ts_columnar_out *out, int32_t k, const int64_t *ids,
                            const float *weights, int64_t n) {
  ts_out_column *c = &out->columns[k];
  const float one = 1;
  if (n) TS_DO(ts_str_append_bytes(&c->values, ids, (size_t)n * 8));
  for (int64_t i = 0; c->kind == TS_OUT_WEIGHTED && i < n; i++)
    TS_DO(ts_str_append_bytes(&c->weights, weights ? weights + i : &one, 4));
  return end_list(c, 8);
}

ts_err ts_columnar_out_row(ts_columnar_out *out) {
  bool full = ++out->n >= GROUP_ROWS;
  for (int32_t k = 0; k < out->n_columns; k++)
    full |= out->columns[k].values.n_bytes >= GROUP_BYTES;
  return full ? end_group(out) : TS_OK;
}

ts_err ts_columnar_out_finish(ts_columnar_out *out, ts_err err) {
  char why[TS_PARQUET_WHY];
  if (!out) return err;
  if (err == TS_OK) err = end_group(out);
  if (!ts_parquet_finish(out->file, why) && err == TS_OK) err = fail(out, why);
  if (err == TS_OK && ts_file_sync(out->fd) != 0)
    err = ts_fail_errno(TS_ERR_IO, out->path);
  if (out->fd >= 0) close(out->fd);
  for (int32_t k = 0; out->columns && k < out->n_made; k++) {
    ts_out_column *c = &out->columns[k];
    ts_str_reset(&c->values);
    ts_str_reset(&c->weights);
    ts_str_reset(&c->offsets);
    ts_mem_free(c->name);
  }
  ts_mem_free_all(out->columns, out->schemas, out->arrays, out);
  return err;
}
