/* checkpoint_finite.c - weights that are written must be numbers.
 *
 * The loss may still be finite when a weight is not: the row was not looked
 * up since.  So it is looked at while its bytes are summed anyhow, and a file
 * that has one never gets its name: what is kept stays good. */
#include <string.h>

#include "base/mem.h"
#include "io/checkpoint_impl.h"

/* Elements that are judged at once. */
enum { ELEMENTS = 4096 };

static ts_err not_finite(const ts_ckpt *c, const ts_ckpt_item *item,
                         int64_t at) {
  return ts_fail(TS_ERR_NAN,
                 "step %lld: %s has weights that are not numbers, near row "
                 "%lld: no checkpoint is made of them, and those from before "
                 "stay; a smaller rate, optimizer.clip_norm or run.on_nan = "
                 "\"rollback\" may help",
                 (long long)c->step, item->name + 6,
                 (long long)(at / ts_item_row_bytes(item)));
}

/* Rows in few bits: their scales and biases, both of which are NaN where a
 * number is: so one that lies across a border of what is looked at may be left
 * out. */
static ts_err check_scales(const ts_ckpt *c, const ts_ckpt_item *item,
                           const char *data, int64_t at, int64_t n_bytes) {
  const int64_t row = ts_item_row_bytes(item), end = at + n_bytes;
  const int64_t tail = ts_columns_bytes(item->dtype, item->cols);
  for (int64_t r = at / row; r * row < end; r++)
    for (int64_t x = r * row + tail, k = 0; k < 2; k++, x += 4) {
      float y = 0;
      if (x >= at && x + 4 <= end) memcpy(&y, data + (x - at), sizeof y);
      if (!ts_all_finite(&y, TS_F32, 1)) return not_finite(c, item, x);
    }
  return TS_OK;
}

static ts_err check(const ts_ckpt *c, const ts_ckpt_item *item,
                    const void *data, int64_t at, int64_t n_bytes) {
  const int64_t size = (int64_t)ts_dtype_bytes(item->dtype);
  if (ts_dtype_has_scale(item->dtype))
    return check_scales(c, item, data, at, n_bytes);
  for (int64_t i = 0; i < n_bytes / size; i += ELEMENTS) {
    const int64_t left = n_bytes / size - i;
    if (ts_all_finite((const char *)data + i * size, item->dtype,
                      left < ELEMENTS ? left : ELEMENTS))
      continue;
    return not_finite(c, item, at + i * size);
  }
  return TS_OK;
}

/* Checks N_BYTES of P from AT on, block by block, through a buffer: they are
 * scattered, or a device's. */
static ts_err check_apart(ts_ckpt *c, const ts_ckpt_item *item,
                          const ts_ckpt_piece *p, int64_t at, int64_t n_bytes) {
  ts_err err = TS_OK;
  char *block = NULL;
  const int64_t row = ts_item_row_bytes(item);
  TS_TRY(ts_mem_alloc(&block, TS_BLOCK_BYTES, TS_TAG_CHECKPOINT));
  for (int64_t i = 0; i < n_bytes; i += TS_BLOCK_BYTES) {
    const int64_t left = n_bytes - i;
    const int64_t n = left < TS_BLOCK_BYTES ? left : TS_BLOCK_BYTES;
    TS_TRY(ts_ckpt_bring(&c->staging, block, p, row, i, n));
    TS_TRY(check(c, item, block, at + i, n));
  }
done:
  ts_mem_free(block);
  return err;
}

/* N_BYTES of P, from byte AT of the item on. */
static ts_err check_part(ts_ckpt *c, const ts_ckpt_item *item,
                         const ts_ckpt_piece *p, int64_t at, int64_t n_bytes) {
  if (strncmp(item->name, "model/", 6) != 0) return TS_OK;
  return ts_ckpt_is_plain(&c->staging, p)
             ? check(c, item, p->ptr, at, n_bytes)
             : check_apart(c, item, p, at, n_bytes);
}

ts_err ts_ckpt_check_finite(ts_ckpt *c, const ts_ckpt_item *item,
                            const void *data, int64_t at, int64_t n_bytes) {
  const ts_ckpt_piece piece = {.ptr = (void *)data};
  return check_part(c, item, &piece, at, n_bytes);
}

ts_err ts_ckpt_check_piece(ts_ckpt *c, const ts_ckpt_item *item,
                           const ts_ckpt_piece *p) {
  const int64_t row = ts_item_row_bytes(item);
  return check_part(c, item, p, p->row0 * row, p->n_rows * row);
}
