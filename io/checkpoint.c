/* checkpoint.c - the description of a checkpoint. */
#include "io/checkpoint.h"

#include <string.h>

#include "base/mem.h"
#include "io/checkpoint_impl.h"

static ts_err grow(void *p, int32_t n, size_t size) {
  return ts_mem_extend(p, n, n + 1, size, TS_TAG_CHECKPOINT);
}

ts_err ts_ckpt_add_item(ts_ckpt *c, const char *name, ts_dtype dtype,
                        int64_t rows, int64_t cols, ts_ckpt_item **out) {
  TS_DO(grow(&c->items, c->n_items, sizeof *c->items));
  ts_ckpt_item *item = &c->items[c->n_items++];
  *item = (ts_ckpt_item){.dtype = dtype, .rows = rows, .cols = cols};
  TS_DO(ts_mem_strdup(&item->name, name));
  *out = item;
  return TS_OK;
}

ts_err ts_ckpt_add_piece(ts_ckpt_item *item, bool write, bool read,
                         int64_t row0, int64_t n_rows, void *ptr) {
  const ts_ckpt_piece piece = {.row0 = row0, .n_rows = n_rows, .ptr = ptr};
  if (write) {
    TS_DO(grow(&item->write, item->n_write, sizeof *item->write));
    item->write[item->n_write++] = piece;
  }
  if (read) {
    TS_DO(grow(&item->read, item->n_read, sizeof *item->read));
    item->read[item->n_read++] = piece;
  }
  return TS_OK;
}

ts_err ts_ckpt_add_gathered(ts_ckpt_item *item, int64_t row0, int64_t n_rows,
                            void *ptr, const uint32_t *at) {
  TS_DO(ts_ckpt_add_piece(item, true, false, row0, n_rows, ptr));
  item->write[item->n_write - 1].at = at;
  return TS_OK;
}

ts_err ts_ckpt_add_columns(ts_ckpt_item *item, ts_ckpt_columns columns) {
  TS_DO(grow(&item->columns, item->n_columns, sizeof *item->columns));
  item->columns[item->n_columns++] = columns;
  return TS_OK;
}

void ts_ckpt_is_copy(ts_ckpt_item *item, int n_ranks) {
  item->is_copy = true;
  for (int32_t k = 0; k < item->n_write; k++) item->write[k].copied = true;
  item->n_copied_turns = item->n_columns ? ts_ckpt_turns(item, n_ranks) : 0;
}

ts_err ts_ckpt_own(ts_ckpt *c, size_t bytes, void **ptr) {
  TS_DO(grow(&c->own, c->n_own, sizeof *c->own));
  TS_DO(ts_mem_alloc(&c->own[c->n_own], bytes + 1, TS_TAG_CHECKPOINT));
  *ptr = c->own[c->n_own++];
  return TS_OK;
}

ts_err ts_ckpt_add_value(ts_ckpt *c, const char *path, ts_dtype dtype,
                         int64_t n, const void *ptr) {
  const size_t bytes = (size_t)n * ts_dtype_bytes(dtype);
  TS_DO(grow(&c->values, c->n_values, sizeof *c->values));
  ts_ckpt_value *v = &c->values[c->n_values++];
  *v = (ts_ckpt_value){.dtype = dtype, .n = n};
  TS_DO(ts_mem_strdup(&v->path, path));
  TS_DO(ts_mem_alloc(&v->ptr, bytes + 1, TS_TAG_CHECKPOINT));
  if (bytes) memcpy(v->ptr, ptr, bytes);
  return TS_OK;
}

ts_err ts_ckpt_add_text(ts_ckpt *c, const char *path, const char *text) {
  return ts_ckpt_add_value(c, path, TS_U8, (int64_t)strlen(text), text);
}

const ts_ckpt_value *ts_ckpt_value_of(const ts_ckpt *c, const char *path) {
  for (int32_t i = 0; i < c->n_values; i++)
    if (!strcmp(c->values[i].path, path)) return &c->values[i];
  return NULL;
}

ts_err ts_ckpt_on(ts_ckpt *c, ts_device *device) {
  return ts_staging_create(&c->staging, device);
}

void ts_ckpt_reset(ts_ckpt *c) {
  ts_staging_reset(&c->staging);
  for (int32_t i = 0; i < c->n_items; i++) {
    ts_mem_free_all(c->items[i].name, c->items[i].write, c->items[i].read,
                    c->items[i].columns, c->items[i].from);
  }
  for (int32_t i = 0; i < c->n_values; i++) {
    ts_mem_free_all(c->values[i].path, c->values[i].ptr);
  }
  for (int32_t i = 0; i < c->n_own; i++) ts_mem_free(c->own[i]);
  ts_mem_free_all(c->items, c->values, c->own);
  *c = (ts_ckpt){0};
}

int64_t ts_item_bytes(ts_dtype dtype, int64_t rows, int64_t cols) {
  const int64_t c = cols ? cols : 1;
  if (rows < 0 || c < 0 || (rows && c > INT64_MAX / 32 / rows)) return -1;
  return rows * ts_row_bytes(dtype, c);
}

int64_t ts_item_row_bytes(const ts_ckpt_item *item) {
  return ts_row_bytes(item->dtype, item->cols ? item->cols : 1);
}
