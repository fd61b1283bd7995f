/* checkpoint_finite.c - weights that are written must be numbers.
 *
 * The loss may still be finite when a weight is not: the row was not looked
 * up since.  So it is looked at while its bytes are summed anyhow, and a file
 * that has one never gets its name: what is kept stays good. */
#include <string.h>

#include "io/checkpoint_impl.h"

/* Elements that are judged at once. */
enum { ELEMENTS = 4096 };

ts_err ts_ckpt_check_finite(const ts_ckpt *c, const ts_ckpt_item *item,
                            const void *data, int64_t at, int64_t n_bytes) {
  const int64_t size = (int64_t)ts_dtype_bytes(item->dtype);
  if (strncmp(item->name, "model/", 6) != 0) return TS_OK;
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
