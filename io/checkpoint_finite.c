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

static ts_err check(const ts_ckpt *c, const ts_ckpt_item *item,
                    const void *data, int64_t at, int64_t n_bytes) {
  const int64_t size = (int64_t)ts_dtype_bytes(item->dtype);
  for (int64_t i = 0; i < n_bytes / size; i += ELEMENTS) {
    const int64_t left = n_bytes / size - i;
    if (ts_all_finite((const char *)data + i * size, item->dtype,
                      left < ELEMENTS ? left : ELEMENTS))
      continue;
    return ts_fail(TS_ERR_NAN,
                   "step %lld: %s has weights that are not numbers, near row "
                   "%lld: no checkpoint is made of them, and those from before "
                   "stay; a smaller rate, optimizer.clip_norm or run.on_nan = "
                   "\"rollback\" may help",
                   (long long)c->step, item->name + 6,
                   (long long)((at + i * size) / ts_item_row_bytes(item)));
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
