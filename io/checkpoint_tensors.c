/* checkpoint_tensors.c - items out of files of tensors. */
#include <string.h>

#include "base/few_bits.h"
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
                          const ts_tensor *t) {
  ts_err err = TS_OK;
  ts_ckpt_reader r = {
      .path = t->of->path, .fd = t->of->fd, .staging = &c->staging};
  const ts_stored s = stored_of(t);
  TS_TRY(ts_mem_alloc(&r.block, TS_BLOCK_BYTES, TS_TAG_CHECKPOINT));
  TS_TRY(ts_ckpt_read_rows(&r, &s, item));
done:
  ts_mem_free(r.block);
  return err;
}

/* ---- all items ----------------------------------------------------------- */

ts_err ts_ckpt_tensor_name(ts_str *name, const char *item) {
  const char *slash = strrchr(item, '/');
  if (!strncmp(item, "dynamic/", 8)) return ts_str_append(name, "%s", item);
  if (!strncmp(item, "model/", 6)) return ts_str_append(name, "%s", item + 6);
  if (!strncmp(item, "ema/", 4)) return ts_str_append(name, "%s.ema", item + 4);
  return ts_str_append(name, "%.*s.%s", (int)(slash - item - 6), item + 6,
                       slash + 1);
}

static bool is_weights(const ts_ckpt_item *item) {
  return !strncmp(item->name, "model/", 6);
}

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

/* A file of weights, or the one of state, or NULL, and whose tensors are. */
typedef struct ts_matched {
  ts_tensors *weights, *state;
  ts_tensor **of; /* (n_items) */
  int32_t n_missing;
} ts_matched;

/* Full names first: what has one is nobody else's. */
static ts_err match(ts_matched *m, const ts_ckpt *c) {
  ts_err err = TS_OK;
  ts_str name = {0};
  for (int alike = 0; alike < 2; alike++)
    for (int32_t i = 0; i < c->n_items; i++) {
      ts_ckpt_item *item = &c->items[i];
      if (m->of[i]) continue;
      ts_str_reset(&name);
      TS_TRY(ts_ckpt_tensor_name(&name, item->name));
      m->of[i] = ts_tensors_find(is_weights(item) ? m->weights : m->state,
                                 name.text, alike);
      if (m->of[i]) m->of[i]->taken = true;
      item->absent = !m->of[i];
      m->n_missing += alike && !m->of[i] && is_weights(item);
    }
  for (int32_t i = 0; i < c->n_items; i++)
    if (m->of[i])
      TS_TRY(check_tensor(&c->items[i],
                          is_weights(&c->items[i]) ? m->weights : m->state,
                          m->of[i]));
done:
  ts_str_reset(&name);
  return err;
}

static ts_err list_left(const ts_tensors *f, ts_listing *left) {
  for (int32_t i = 0; i < f->n; i++)
    if (!f->item[i].taken) TS_DO(ts_listing_add(left, f->item[i].name));
  return TS_OK;
}

/* That of state lies beside the weights, and says of which step it is. */
static ts_err open_state(ts_matched *m, ts_ckpt *c) {
  ts_err err = TS_OK;
  ts_str folder = {0}, path = {0};
  const char *slash = strrchr(m->weights->path, '/');
  TS_TRY(ts_str_append(&folder, "%.*s",
                       slash ? (int)(slash - m->weights->path) : 1,
                       slash ? m->weights->path : "."));
  TS_TRY(ts_tensors_in(&path, folder.text, "state"));
  if (!path.text)
    TS_THROW(TS_ERR_CKPT,
             "checkpoint.init_state: %s has no state.safetensors: export it "
             "with --state",
             folder.text);
  TS_TRY(ts_tensors_open(&m->state, path.text));
  c->step = m->state->step;
  if (c->step < 0 || c->step != m->weights->step)
    TS_THROW(TS_ERR_CKPT,
             "%s: does not say that it is of the same step as %s: export both "
             "anew",
             path.text, m->weights->path);
done:
  ts_str_reset(&folder);
  ts_str_reset(&path);
  return err;
}

static ts_err open_all(ts_matched *m, ts_ckpt *c, const char *path) {
  bool state = false;
  for (int32_t i = 0; i < c->n_items; i++) state |= !is_weights(&c->items[i]);
  TS_DO(ts_tensors_open(&m->weights, path));
  if (state) TS_DO(open_state(m, c));
  return ts_mem_many(m->of, c->n_items, CHECKPOINT);
}

static ts_err load_local(ts_ckpt *c, const char *path, ts_str *missing,
                         ts_listing *left) {
  ts_err err = TS_OK;
  ts_matched m = {0};
  int32_t n_weights = 0;
  TS_TRY(open_all(&m, c, path));
  TS_TRY(match(&m, c));
  TS_TRY(list_left(m.weights, left));
  if (m.state) TS_TRY(list_left(m.state, left));
  for (int32_t i = 0; i < c->n_items; i++)
    n_weights += is_weights(&c->items[i]);
  if (m.n_missing == n_weights) TS_TRY(ts_ckpt_refuse_strange(path, left, c));
  for (int32_t i = 0; i < c->n_items; i++) {
    const ts_ckpt_item *item = &c->items[i];
    if (m.of[i])
      TS_TRY(read_tensor(c, item, m.of[i]));
    else if (!item->optional)
      TS_TRY(ts_str_append(missing, "%s%s", missing->n_bytes ? ", " : "",
                           item->name));
  }
done:
  ts_mem_free(m.of);
  ts_tensors_close(m.weights);
  ts_tensors_close(m.state);
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
  TS_TRY(read_tensor(c, item, t));
done:
  ts_tensors_close(f);
  return err;
}

/* Bytes of row X of P or of columns C that are of this rank, NULL: not its. */
static char *row_at(const ts_ckpt_item *item, int64_t row, int64_t row0,
                    int64_t n_rows, void *ptr, int64_t cols) {
  if (!ptr || row < row0 || row >= row0 + n_rows) return NULL;
  return (char *)ptr + (row - row0) * ts_row_bytes(item->dtype, cols);
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
  ts_rows_from_f32(room, x, item->dtype, 1, (int32_t)item->cols);
  for (int32_t k = 0; k < item->n_read; k++) {
    const ts_ckpt_piece *p = &item->read[k];
    char *to = row_at(item, row, p->row0, p->n_rows, p->ptr, item->cols);
    if (to)
      TS_DO(ts_staging_put(&ckpt->staging, to, room,
                           (size_t)ts_item_row_bytes(item)));
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
