/* checkpoint_from.c - rows that are others in the file: item->from. */
#include "base/mem.h"
#include "io/checkpoint_impl.h"

/* Rows of the file, as many as are read at a time: rows that follow each other
 * here do so there, too, with some between them. */
typedef struct ts_window {
  int64_t row0, n_rows;
  char *rows;
} ts_window;

static ts_err move_window(ts_window *w, const ts_ckpt_reader *r,
                          const ts_stored *s, const ts_ckpt_item *item,
                          const ts_ckpt_columns *c, bool whole) {
  const int64_t fit = TS_BITE_BYTES / ts_item_row_bytes(item);
  const int64_t some = fit > 0 ? fit : 1, left = s->rows - w->row0;
  ts_ckpt_columns part = *c;
  if (left < 1)
    return ts_fail(TS_ERR_CKPT, "%s: %s has %lld rows, and words for more",
                   r->path, item->name, (long long)s->rows);
  if (!w->rows)
    TS_DO(ts_mem_alloc(&w->rows, (size_t)(some * ts_item_row_bytes(item)),
                       TS_TAG_CHECKPOINT));
  w->n_rows = left < some ? left : some;
  part.row0 = w->row0;
  part.n_rows = w->n_rows;
  part.ptr = w->rows;
  return ts_ckpt_read_part(r, s, item, &part, whole);
}

ts_err ts_ckpt_read_from(const ts_ckpt_reader *r, const ts_stored *s,
                         const ts_ckpt_item *item, const ts_ckpt_columns *c,
                         bool whole) {
  ts_err err = TS_OK;
  ts_window w = {0};
  const int64_t *from = item->from + c->row0;
  const int64_t row =
      whole ? ts_item_row_bytes(item) : ts_columns_row_bytes(item, c);
  for (int64_t at = 0, n; at < c->n_rows; at += n) {
    n = 1;
    if (from[at] < 0) continue;
    if (from[at] < w.row0 || from[at] >= w.row0 + w.n_rows) {
      w.row0 = from[at];
      TS_TRY(move_window(&w, r, s, item, c, whole));
    }
    const int64_t end = w.row0 + w.n_rows;
    while (at + n < c->n_rows && from[at + n] == from[at] + n &&
           from[at + n] < end)
      n++;
    TS_TRY(ts_staging_put(r->staging, (char *)c->ptr + at * row,
                          w.rows + (from[at] - w.row0) * row,
                          (size_t)(n * row)));
  }
done:
  ts_mem_free(w.rows);
  return err;
}
