/* checkpoint_over.c - rows of a table out of several files: those of the full
 * checkpoint, and over them the rows that each file above it has, in order. */
#include <string.h>

#include "base/mem.h"
#include "io/checkpoint_impl.h"

/* ---- which rows they are ------------------------------------------------- */

int64_t ts_rows_below(const int64_t *rows, int64_t n, int64_t row) {
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    if (rows[mid] < row)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static int64_t below(const ts_overlay *o, int64_t row) {
  return ts_rows_below(o->rows, o->n, row);
}

/* Rows that are IDS' are checked as such. */
static ts_err check(const ts_overlay *o, const ts_stored *s, const char *name,
                    bool ids) {
  bool good = o->stored.rows == o->n && o->stored.cols == s->cols &&
              o->stored.dtype == s->dtype;
  for (int64_t k = 0; good && !ids && k < o->n; k++)
    good = o->rows[k] >= (k ? o->rows[k - 1] + 1 : 0) && o->rows[k] < s->rows;
  if (good) return TS_OK;
  return ts_fail(TS_ERR_CKPT, "%s: rows of %s are not those of a table of %lld",
                 o->r->path, name, (long long)s->rows);
}

/* A block, or all of it; at least a row, of any type. */
ts_err ts_overlay_room(ts_overlay *o) {
  const int64_t row = 8 * (o->stored.cols > 1 ? o->stored.cols : 2);
  const int64_t all = o->n < TS_BLOCK_BYTES / row ? o->n * row : TS_BLOCK_BYTES;
  return ts_mem_alloc(&o->bite, (size_t)(all > row ? all : row),
                      TS_TAG_CHECKPOINT);
}

static ts_err open_one(ts_overlay *o, const ts_ckpt_reader *r,
                       const ts_stored *s, const char *name, bool ids) {
  ts_err err = TS_OK;
  char rows[1024] = "";
  ts_stored index = {.at = -1};
  *o = (ts_overlay){.r = r, .stored = {.at = -1}};
  (void)ts_ckpt_rows_name(rows, name);
  TS_TRY(ts_stored_open(&index, r->file, r->path, rows));
  TS_TRY(ts_stored_open(&o->stored, r->file, r->path, name));
  o->n = index.rows;
  if (index.dtype != TS_I64 || index.cols)
    TS_THROW(TS_ERR_CKPT, "%s: %s is not a list of rows", r->path, rows);
  TS_TRY(ts_mem_many(o->rows, o->n, CHECKPOINT));
  const ts_ckpt_item item = {.name = rows, .dtype = TS_I64, .rows = o->n};
  const ts_ckpt_columns all = {.n_rows = o->n, .ptr = o->rows};
  TS_TRY(ts_ckpt_read_part(r, &index, &item, &all, true));
  TS_TRY(check(o, s, name, ids));
  TS_TRY(ts_overlay_room(o));
done:
  ts_stored_reset(&index);
  return err;
}

ts_err ts_overlays_open(ts_overlays *x, const ts_ckpt_reader *r,
                        const ts_stored *s, const ts_ckpt_item *item) {
  int32_t n = 0;
  char name[1024];
  *x = (ts_overlays){.holder = ts_ckpt_holder(r, item->name)};
  for (const ts_ckpt_reader *at = r; at != x->holder; at = at->under) n++;
  if (!n) return TS_OK;
  TS_DO(ts_mem_many(x->of, n, CHECKPOINT));
  x->n = n;
  const bool ids = ts_ckpt_ids_name(name, r, item->name);
  for (const ts_ckpt_reader *at = r; at != x->holder; at = at->under)
    TS_DO(open_one(&x->of[--n], at, s, item->name, ids));
  return ids ? ts_ids_over_open(x, r, s, item->name, name) : TS_OK;
}

void ts_overlays_close(ts_overlays *x) {
  for (int32_t i = 0; i < x->n; i++) {
    ts_stored_reset(&x->of[i].stored);
    ts_mem_free_all(x->of[i].rows, x->of[i].bite);
  }
  ts_mem_free(x->of);
  ts_ids_over_close(x);
  *x = (ts_overlays){0};
}

/* ---- rows over rows ------------------------------------------------------ */

static int64_t row_bytes_of(const ts_ckpt_item *item, const ts_ckpt_columns *c,
                            bool whole) {
  return whole ? ts_item_row_bytes(item) : ts_columns_row_bytes(item, c);
}

ts_err ts_overlay_row(ts_overlay *o, const ts_ckpt_item *item,
                      const ts_ckpt_columns *c, bool whole, int64_t k,
                      const char **row) {
  const int64_t bytes = row_bytes_of(item, c, whole);
  const int64_t fit = TS_BLOCK_BYTES / bytes, some = fit > 0 ? fit : 1;
  if (k < o->row0 || k >= o->row0 + o->n_rows || o->col0 != c->col0 ||
      o->n_cols != c->n_cols) {
    ts_ckpt_columns part = *c;
    o->row0 = part.row0 = k;
    o->n_rows = part.n_rows = o->n - k < some ? o->n - k : some;
    o->col0 = c->col0;
    o->n_cols = c->n_cols;
    part.ptr = o->bite;
    TS_DO(ts_ckpt_read_part(o->r, &o->stored, item, &part, whole));
  }
  *row = o->bite + (k - o->row0) * bytes;
  return TS_OK;
}

static ts_err lay(ts_overlay *o, const ts_ckpt_item *item,
                  const ts_ckpt_columns *c, bool whole) {
  const int64_t bytes = row_bytes_of(item, c, whole);
  const int64_t end = below(o, c->row0 + c->n_rows);
  for (int64_t k = below(o, c->row0); k < end; k++) {
    const char *row;
    TS_DO(ts_overlay_row(o, item, c, whole, k, &row));
    memcpy((char *)c->ptr + (o->rows[k] - c->row0) * bytes, row, (size_t)bytes);
  }
  return TS_OK;
}

/* Rows of the item that are others in the file. */
static ts_err lay_from(const ts_overlay *o, const ts_ckpt_item *item,
                       const ts_ckpt_columns *c, bool whole) {
  ts_err err = TS_OK;
  ts_ckpt_item here = *item;
  ts_ckpt_columns part = *c;
  here.from = NULL;
  part.row0 = 0;
  TS_TRY(ts_mem_many(here.from, c->n_rows, CHECKPOINT));
  for (int64_t i = 0; i < c->n_rows; i++) {
    const int64_t row = item->from[c->row0 + i];
    const int64_t k = row < 0 ? o->n : below(o, row);
    here.from[i] = k < o->n && o->rows[k] == row ? k : -1;
  }
  TS_TRY(ts_ckpt_read_from(o->r, &o->stored, &here, &part, whole));
done:
  ts_mem_free(here.from);
  return err;
}

static ts_err read_plain(const ts_ckpt_reader *r, const ts_stored *s,
                         const ts_ckpt_item *item, const ts_ckpt_columns *c,
                         bool whole) {
  return item->from ? ts_ckpt_read_from(r, s, item, c, whole)
                    : ts_ckpt_read_part(r, s, item, c, whole);
}

static ts_err read_here(ts_overlays *x, const ts_stored *s,
                        const ts_ckpt_item *item, const ts_ckpt_columns *c,
                        bool whole) {
  if (x->ids) return ts_ids_over_read(x, item, c, whole);
  TS_DO(read_plain(x->holder, s, item, c, whole));
  for (int32_t i = 0; i < x->n; i++)
    TS_DO(item->from ? lay_from(&x->of[i], item, c, whole)
                     : lay(&x->of[i], item, c, whole));
  return TS_OK;
}

/* Memory that the host may not touch gets rows once they are the newest, some
 * at a time: rows that stay as they are where `from` is negative go the same
 * way. */
static ts_err read_remote(const ts_ckpt_reader *r, ts_overlays *x,
                          const ts_stored *s, const ts_ckpt_item *item,
                          const ts_ckpt_columns *c, bool whole) {
  ts_err err = TS_OK;
  const int64_t row = row_bytes_of(item, c, whole);
  const int64_t fit = TS_BITE_BYTES / row, some = fit > 0 ? fit : 1;
  ts_ckpt_columns part = *c;
  part.ptr = NULL;
  TS_TRY(ts_mem_alloc(&part.ptr, (size_t)(some * row), TS_TAG_CHECKPOINT));
  for (int64_t at = 0; at < c->n_rows; at += some) {
    char *there = (char *)c->ptr + at * row;
    part.row0 = c->row0 + at;
    part.n_rows = c->n_rows - at < some ? c->n_rows - at : some;
    const size_t bytes = (size_t)(part.n_rows * row);
    if (item->from) TS_TRY(ts_staging_get(r->staging, part.ptr, there, bytes));
    TS_TRY(read_here(x, s, item, &part, whole));
    TS_TRY(ts_staging_put(r->staging, there, part.ptr, bytes));
  }
done:
  ts_mem_free(part.ptr);
  return err;
}

ts_err ts_ckpt_read_over(const ts_ckpt_reader *r, ts_overlays *x,
                         const ts_stored *s, const ts_ckpt_item *item,
                         const ts_ckpt_columns *c, bool whole) {
  if (!x->n) return read_plain(r, s, item, c, whole);
  if (ts_staging_is_remote(r->staging, c->ptr))
    return read_remote(r, x, s, item, c, whole);
  return read_here(x, s, item, c, whole);
}
