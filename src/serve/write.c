/* write.c - the file that is served, part by part: what differs from the base's
 * where there is one. */
#include "serve/write_impl.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"

enum { BLOCK = 4 << 20 };

/* ---- bytes --------------------------------------------------------------- */

static ts_err put(ts_serve_writer *w, const void *from, int64_t bytes) {
  TS_DO(ts_pwrite(w->fd, from, bytes, w->at, w->part.text, TS_ERR_IO));
  w->at += bytes;
  return TS_OK;
}

/* The next part begins on a border. */
static void align(ts_serve_writer *w) {
  w->at = (w->at + TS_SERVE_ALIGN - 1) / TS_SERVE_ALIGN * TS_SERVE_ALIGN;
}

/* E, whose bytes stand at AT, is a part HEAD NAME. */
static ts_err note(ts_serve_writer *w, const ts_serve_entry *e, int64_t at,
                   const char *head, const char *name) {
  ts_serve_entry *own = &w->index[w->n_written++];
  *own = *e;
  own->at = at;
  own->name = (uint32_t)w->names.n_bytes;
  TS_DO(ts_str_append(&w->names, "%s%s", head, name));
  return ts_str_append_bytes(&w->names, "", 1);
}

static const ts_serve_entry *in_base(const ts_serve_writer *w,
                                     const char *name) {
  return w->base.fd < 0 ? NULL : ts_serve_find(&w->base, "", name);
}

/* The base has the same part. */
static bool is_same(const ts_serve_writer *w, const ts_part *p) {
  const ts_serve_entry *a = in_base(w, p->name), *b = &p->entry;
  return a && a->kind == b->kind && a->rows == b->rows && a->cols == b->cols &&
         !memcmp(ts_serve_at(&w->base, a), p->data, (size_t)b->bytes);
}

static ts_err write_data(ts_serve_writer *w, ts_part *p) {
  ts_serve_entry *e = &p->entry;
  e->bytes = ts_serve_bytes(e->kind, e->rows, e->cols);
  e->crc = ts_crc32c(0, p->data, (size_t)e->bytes);
  w->seal = ts_serve_seal(w->seal, p->name, e);
  if (is_same(w, p)) return TS_OK;
  align(w);
  const int64_t at = w->at;
  TS_DO(put(w, p->data, e->bytes));
  return note(w, e, at, "", p->name);
}

/* ---- weights ------------------------------------------------------------- */

static ts_err add_changed(ts_serve_writer *w, int64_t row) {
  const int64_t more = 2 * w->changed_room + 1024;
  if (w->n_changed == w->changed_room) {
    TS_DO(ts_mem_extend(&w->changed, w->n_changed, more, sizeof *w->changed,
                        TS_TAG_CHECKPOINT));
    w->changed_room = more;
  }
  w->changed[w->n_changed++] = row;
  return TS_OK;
}

/* Of rows [row0, row0 + n) those that differ from OLD's go to the file. */
static ts_err put_changed(ts_serve_writer *w, const ts_part *p, const char *old,
                          int64_t row0, int64_t n, int64_t row_bytes) {
  char *to = w->packed;
  for (int64_t i = 0; i < n; i++) {
    const char *row = w->packed + i * row_bytes;
    const int64_t was = ts_serve_row_in_base(w, p, row0 + i);
    if (was >= 0 && !memcmp(row, old + was * row_bytes, (size_t)row_bytes))
      continue;
    TS_DO(add_changed(w, row0 + i));
    memmove(to, row, (size_t)row_bytes);
    to += row_bytes;
  }
  w->changed_crc =
      ts_crc32c(w->changed_crc, w->packed, (size_t)(to - w->packed));
  return put(w, w->packed, to - w->packed);
}

/* Rows of T become bytes of KIND, COLS a row; behind those of a dynamic table
 * is one of zeros. */
static ts_err pack(ts_serve_writer *w, const ts_part *p, int64_t row0,
                   int64_t n, int64_t cols) {
  const ts_tensors_out *m = w->out->model;
  const int64_t left = p->tensor->rows - row0, have = n < left ? n : left;
  if (have) TS_DO(m->read(m->arg, p->tensor, row0, have, w->x));
  memset(w->x + have * cols, 0, (size_t)((n - have) * cols) * sizeof *w->x);
  if (!ts_all_finite(w->x, TS_F32, n * cols))
    return ts_fail(TS_ERR_CKPT,
                   "%s: its rows %lld to %lld have a weight that is not finite",
                   p->tensor->name, (long long)row0, (long long)(row0 + n - 1));
  ts_rows_pack((ts_rows_kind)p->entry.kind, w->packed, w->x, n, (int32_t)cols);
  return TS_OK;
}

/* All of P to the file; with OLD, what the base has, of a table the rows that
 * differ, of a parameter nothing. */
static ts_err stream(ts_serve_writer *w, ts_part *p, const char *old) {
  ts_serve_entry *e = &p->entry;
  const int64_t cols = e->cols ? e->cols : 1;
  const int64_t row_bytes =
      e->cols ? ts_rows_bytes((ts_rows_kind)e->kind, (int32_t)cols) : 4;
  int64_t each = BLOCK / (4 * cols);
  if (each < 1) each = 1;
  for (int64_t row = 0; row < e->rows; row += each) {
    const int64_t n = e->rows - row < each ? e->rows - row : each;
    TS_DO(pack(w, p, row, n, cols));
    e->crc = ts_crc32c(e->crc, w->packed, (size_t)(n * row_bytes));
    if (!old)
      TS_DO(put(w, w->packed, n * row_bytes));
    else if (p->is_table)
      TS_DO(put_changed(w, p, old, row, n, row_bytes));
    else
      w->differs |= memcmp(w->packed, old + row * row_bytes,
                           (size_t)(n * row_bytes)) != 0;
  }
  return TS_OK;
}

/* The entries of a table's rows that differ, which stand at AT, and of the list
 * of them. */
static ts_err note_changed(ts_serve_writer *w, const ts_part *p, int64_t at) {
  const char *name = p->tensor->name;
  const int64_t n = w->n_changed, list_bytes = n * (int64_t)sizeof *w->changed;
  ts_serve_entry rows = p->entry;
  rows.rows = n;
  rows.bytes = ts_serve_bytes(rows.kind, n, rows.cols);
  rows.crc = w->changed_crc;
  const ts_serve_entry which = {
      .bytes = list_bytes,
      .rows = n,
      .kind = TS_PART_I64,
      .crc = ts_crc32c(0, w->changed, (size_t)list_bytes)};
  TS_DO(note(w, &rows, at, "model/", name));
  align(w);
  TS_DO(note(w, &which, w->at, "rows/", name));
  return put(w, w->changed, list_bytes);
}

static ts_err write_tensor(ts_serve_writer *w, ts_part *p) {
  ts_serve_entry *e = &p->entry;
  const ts_serve_entry *b = in_base(w, p->name);
  e->bytes = ts_serve_bytes(e->kind, e->rows, e->cols);
  if (e->bytes < 0)
    return ts_fail(TS_ERR_CKPT, "%s: rows of %lld numbers can't be served",
                   p->tensor->name, (long long)e->cols);
  if (w->base.fd >= 0 && !ts_serve_base_goes(w, p, b))
    return ts_fail(TS_ERR_USAGE,
                   "--base %s: %s has another shape or type there, or is not "
                   "there: export a whole file",
                   w->out->base, p->tensor->name);
  w->n_changed = 0;
  w->changed_crc = 0;
  w->differs = false;
  align(w);
  const int64_t at = w->at;
  TS_DO(stream(w, p, b ? ts_serve_at(&w->base, b) : NULL));
  w->seal = ts_serve_seal(w->seal, p->name, e);
  if (p->is_table) {
    w->out->n_rows += p->tensor->rows;
    w->out->n_changed += b ? w->n_changed : p->tensor->rows;
  }
  if (b && !w->n_changed && !w->differs) return TS_OK;
  if (b && p->is_table) return note_changed(w, p, at);
  if (b) { /* a parameter is there whole, or not */
    e->crc = 0;
    TS_DO(stream(w, p, NULL));
  }
  return note(w, e, at, "", p->name);
}

/* ---- the whole ----------------------------------------------------------- */

static ts_err make_room(ts_serve_writer *w) {
  int64_t most = 1;
  const ts_tensors_out *m = w->out->model;
  for (int32_t i = 0; i < m->n; i++) {
    const int64_t cols = m->item[i].cols;
    if (cols > most) most = cols;
  }
  if (most < BLOCK / 4) most = BLOCK / 4;
  TS_DO(ts_mem_many(w->x, most, CHECKPOINT));
  /* A row of one number is 12 bytes of int8. */
  return ts_mem_many(w->packed, 12 * most, CHECKPOINT);
}

static int by_entry_name(const void *a, const void *b, void *names) {
  return strcmp((char *)names + ((const ts_serve_entry *)a)->name,
                (char *)names + ((const ts_serve_entry *)b)->name);
}

static ts_err write_index(ts_serve_writer *w) {
  ts_serve_head h = {.magic = TS_SERVE_MAGIC,
                     .version = TS_SERVE_VERSION,
                     .n_parts = (uint32_t)w->n_written,
                     .step = w->out->model->step,
                     .seal = w->seal ? w->seal : 1,
                     .base = w->base.fd >= 0 ? w->base.head.seal : 0};
  const size_t bytes = (size_t)w->n_written * sizeof *w->index;
  if (!w->names.n_bytes) TS_DO(ts_str_append_bytes(&w->names, "", 1));
  /* rows/ were written beside model/. */
  qsort_r(w->index, (size_t)w->n_written, sizeof *w->index, by_entry_name,
          w->names.text);
  align(w);
  h.index = w->at;
  h.names = (uint32_t)w->names.n_bytes;
  h.index_crc =
      ts_crc32c(ts_crc32c(0, w->index, bytes), w->names.text, w->names.n_bytes);
  TS_DO(put(w, w->index, (int64_t)bytes));
  TS_DO(put(w, w->names.text, (int64_t)w->names.n_bytes));
  h.bytes = w->out->bytes = w->at;
  return ts_pwrite(w->fd, &h, sizeof h, 0, w->part.text, TS_ERR_IO);
}

/* A base that is no good is a mistake of the command's, not of the checkpoint.
 */
static ts_err open_base(ts_serve_writer *w) {
  const char *base = w->out->base;
  ts_err_record fault;
  if (!base) return TS_OK;
  if (ts_file_is_same(base, w->path) || ts_file_is_same(base, w->part.text))
    return ts_fail(TS_ERR_USAGE,
                   "--base %s: is the file that would be written: a delta is "
                   "a file of its own",
                   base);
  if (ts_serve_open(&w->base, base) != TS_OK) {
    ts_err_take(&fault);
    return ts_fail(TS_ERR_USAGE, "--base %s", fault.text);
  }
  if (!w->base.head.base) return TS_OK;
  return ts_fail(TS_ERR_USAGE,
                 "--base %s: is a delta itself; name the whole file that it is "
                 "over",
                 base);
}

static ts_err sync_folder_of(const char *path) {
  char *copy;
  TS_DO(ts_mem_strdup(&copy, path));
  const int rc = ts_file_sync_folder(dirname(copy));
  ts_mem_free(copy);
  return rc ? ts_fail_errno(TS_ERR_IO, path) : TS_OK;
}

static ts_err write_all(ts_serve_writer *w) {
  w->seal = TS_FNV_START;
  w->at = TS_SERVE_HEAD;
  TS_DO(ts_serve_list(w));
  TS_DO(ts_str_append(&w->part, "%s.part", w->path));
  TS_DO(open_base(w));
  TS_DO(make_room(w));
  w->fd = ts_file_open(w->part.text, O_RDWR | O_CREAT | O_TRUNC);
  if (w->fd < 0) return ts_fail_errno(TS_ERR_IO, w->part.text);
  for (int32_t i = 0; i < w->n; i++)
    TS_DO(w->item[i].tensor ? write_tensor(w, &w->item[i])
                            : write_data(w, &w->item[i]));
  TS_DO(write_index(w));
  if (ts_file_sync(w->fd)) return ts_fail_errno(TS_ERR_IO, w->part.text);
  if (ts_file_rename(w->part.text, w->path))
    return ts_fail_errno(TS_ERR_IO, w->path);
  return sync_folder_of(w->path);
}

ts_err ts_serve_write(ts_serve_out *out, const char *path) {
  ts_serve_writer w = {.out = out, .path = path, .fd = -1, .base = {.fd = -1}};
  out->n_rows = out->n_changed = 0;
  const ts_err err = write_all(&w);
  if (w.fd >= 0) (void)close(w.fd);
  if (err != TS_OK && w.fd >= 0) (void)unlink(w.part.text);
  for (int32_t i = 0; i < w.n; i++) ts_mem_free(w.item[i].name);
  for (int32_t i = 0; w.keys && i < out->config->n_tables; i++)
    ts_mem_free(w.keys[i].key);
  ts_serve_close(&w.base);
  ts_str_reset(&w.part);
  ts_str_reset(&w.deck);
  ts_str_reset(&w.names);
  ts_mem_free_all(w.item, w.keys, w.index, w.x, w.packed, w.changed);
  return err;
}
