/* kernels_memory.c - zeros and copies inside lane tasks, as entries of the
 * table of kernels: so that code that runs on every device touches no memory
 * of a device by itself. */
#include <string.h>

#include "runtime/backends.h"

static ts_err zero(void *dst, size_t bytes) {
  if (bytes) memset(dst, 0, bytes);
  return TS_OK;
}

static ts_err copy(void *dst, const void *src, size_t bytes) {
  if (bytes) memcpy(dst, src, bytes);
  return TS_OK;
}

void ts_memory_kernels_host(ts_kernels *k) {
  k->zero = zero;
  k->copy = k->fetch = k->put = copy;
}
