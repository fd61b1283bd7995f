/* checkpoint_tensors.c - weights of items out of files of tensors. */
#include "base/mem.h"
#include "io/checkpoint_impl.h"
#include "io/tensors.h"

/* The tensor as a dataset; one of more dimensions than two fits no item. */
static ts_stored stored_of(const ts_tensor *t) {
  return (ts_stored){.at = t->at,
                     .dtype = t->dtype,
                     .rows = t->dims[0],
                     .cols = t->n_dims == 2 ? t->dims[1] : 0};
}

static ts_err read_tensor(ts_ckpt *c, const ts_ckpt_item *item,
                          const ts_tensors *f, const ts_tensor *t) {
  ts_err err = TS_OK;
  ts_ckpt_reader r = {.path = f->path, .fd = f->fd, .staging = &c->staging};
  const ts_stored s = stored_of(t);
  TS_TRY(ts_mem_alloc(&r.block, TS_BLOCK_BYTES, TS_TAG_CHECKPOINT));
  TS_TRY(ts_ckpt_read_rows(&r, &s, item));
done:
  ts_mem_free(r.block);
  return err;
}

/* ---- all items ----------------------------------------------------------- */

static ts_err check_tensor(const ts_ckpt_item *item, const ts_tensors *f,
                           const ts_tensor *t) {
  char here[64], there[256];
  const ts_stored s = stored_of(t);
  if (t->n_dims != (item->cols ? 2 : 1) || s.rows != item->rows ||
      s.cols != item->cols) {
    ts_shape_text(here, item->rows, item->cols);
    return ts_fail(TS_ERR_CKPT,
                   "%s: tensor %.200s is %s in the file, and %s of the deck's "
                   "model %s",
                   f->path, t->name, ts_tensor_shape(there, t), item->name,
                   here);
  }
  return ts_tensor_check(f, t);
}

/* Full names first: what has one is nobody else's.  *N: items without. */
static ts_err match(ts_tensor **of, const ts_ckpt *c, const ts_tensors *f,
                    int32_t *n) {
  *n = 0;
  for (int alike = 0; alike < 2; alike++)
    for (int32_t i = 0; i < c->n_items; i++) {
      if (of[i]) continue;
      of[i] = ts_tensors_find(f, c->items[i].name + strlen("model/"), alike);
      if (of[i]) of[i]->taken = true;
      *n += alike && !of[i];
    }
  for (int32_t i = 0; i < c->n_items; i++)
    if (of[i]) TS_DO(check_tensor(&c->items[i], f, of[i]));
  return TS_OK;
}

static ts_err list_left(const ts_tensors *f, ts_listing *left) {
  for (int32_t i = 0; i < f->n; i++)
    if (!f->item[i].taken) TS_DO(ts_listing_add(left, f->item[i].name));
  return TS_OK;
}

static ts_err load_local(ts_ckpt *c, const char *path, ts_str *missing,
                         ts_listing *left) {
  ts_err err = TS_OK;
  ts_tensors *f = NULL;
  ts_tensor **of = NULL;
  int32_t n_missing;
  TS_TRY(ts_tensors_open(&f, path));
  TS_TRY(ts_mem_many(of, c->n_items, CHECKPOINT));
  TS_TRY(match(of, c, f, &n_missing));
  TS_TRY(list_left(f, left));
  if (n_missing == c->n_items) TS_TRY(ts_ckpt_refuse_strange(path, left, c));
  for (int32_t i = 0; i < c->n_items; i++) {
    const ts_ckpt_item *item = &c->items[i];
    if (of[i])
      TS_TRY(read_tensor(c, item, f, of[i]));
    else
      TS_TRY(ts_str_append(missing, "%s%s", missing->n_bytes ? ", " : "",
                           item->name));
  }
done:
  ts_mem_free(of);
  ts_tensors_close(f);
  return err;
}

ts_err ts_ckpt_load_tensors(ts_ckpt *c, const char *path, ts_str *missing,
                            ts_listing *left, ts_comm *comm) {
  return ts_agree(comm, load_local(c, path, missing, left));
}

/* ---- one item ------------------------------------------------------------ */

ts_err ts_ckpt_load_array(ts_ckpt *c, const ts_ckpt_item *item,
                          const char *path, int64_t *rows) {
  ts_err err = TS_OK;
  ts_tensors *f = NULL;
  const ts_tensor *t = NULL;
  char here[64], there[256];
  TS_TRY(ts_tensors_open(&f, path));
  TS_TRY(ts_tensors_rows(f, &t));
  ts_shape_text(here, item->rows, item->cols);
  if (t->dims[1] != item->cols || t->dims[0] > item->rows)
    TS_THROW(TS_ERR_CKPT,
             "%s: its rows are %s, and %s of the deck's model is %s: dim has "
             "to be the same, and rows must not be fewer (\"auto\" takes as "
             "many)",
             path, ts_tensor_shape(there, t), item->name, here);
  *rows = t->dims[0];
  TS_TRY(read_tensor(c, item, f, t));
done:
  ts_tensors_close(f);
  return err;
}

/* Bytes of row X of P or of columns C that are of this rank, NULL: not its. */
static char *row_at(const ts_ckpt_item *item, int64_t row, int64_t row0,
                    int64_t n_rows, void *ptr, int64_t cols) {
  if (!ptr || row < row0 || row >= row0 + n_rows) return NULL;
  return (char *)ptr +
         (row - row0) * cols * (int64_t)ts_dtype_bytes(item->dtype);
}

bool ts_ckpt_has_row(const ts_ckpt_item *item, int64_t row) {
  for (int32_t k = 0; k < item->n_read; k++) {
    const ts_ckpt_piece *p = &item->read[k];
    if (row_at(item, row, p->row0, p->n_rows, p->ptr, item->cols)) return true;
  }
  for (int32_t k = 0; k < item->n_columns; k++) {
    const ts_ckpt_columns *c = &item->columns[k];
    if (row_at(item, row, c->row0, c->n_rows, c->ptr, c->n_cols)) return true;
  }
  return false;
}

ts_err ts_ckpt_put_row(ts_ckpt *ckpt, const ts_ckpt_item *item, int64_t row,
                       const float *x, void *room) {
  const size_t size = ts_dtype_bytes(item->dtype);
  ts_from_f32(room, x, item->dtype, item->cols);
  for (int32_t k = 0; k < item->n_read; k++) {
    const ts_ckpt_piece *p = &item->read[k];
    char *to = row_at(item, row, p->row0, p->n_rows, p->ptr, item->cols);
    if (to)
      TS_DO(
          ts_staging_put(&ckpt->staging, to, room, (size_t)item->cols * size));
  }
  for (int32_t k = 0; k < item->n_columns; k++) {
    const ts_ckpt_columns *c = &item->columns[k];
    char *to = row_at(item, row, c->row0, c->n_rows, c->ptr, c->n_cols);
    if (to)
      TS_DO(ts_staging_put(&ckpt->staging, to,
                           (char *)room + (size_t)c->col0 * size,
                           (size_t)c->n_cols * size));
  }
  return TS_OK;
}
