/* arrays.c - a list of buffers. */
#include "runtime/arrays.h"

ts_err ts_arrays_take(ts_arrays *a, ts_device *d, void *p, int64_t n,
                      size_t size, ts_tag tag) {
  ts_buffer buffer = {0};
  const int64_t last = a->n;
  *(void **)p = NULL;
  if (n <= 0 || size == 0) return TS_OK;
  if ((uint64_t)n > SIZE_MAX / 2 / size)
    return ts_fail(TS_ERR_NOMEM, "an array of %lld elements of %zu bytes",
                   (long long)n, size);
  TS_DO(ts_mem_resize(&a->items, (size_t)last * sizeof *a->items,
                      (size_t)(last + 1) * sizeof *a->items, TS_TAG_MISC));
  TS_DO(ts_buffer_create(&buffer, d, (size_t)n * size, TS_SPACE_DEVICE, tag));
  a->items[a->n++] = buffer;
  *(void **)p = buffer.ptr;
  return TS_OK;
}

void ts_arrays_reset(ts_arrays *a) {
  for (int32_t i = 0; i < a->n; i++) ts_buffer_reset(&a->items[i]);
  ts_mem_free(a->items);
  *a = (ts_arrays){0};
}
