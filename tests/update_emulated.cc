/* update_emulated.cc - the kernels of row updates on the CPU.  What CUB does
 * on a GPU, the positions of first entries, is a loop here. */
#include <stdlib.h>

#include "cuda_emulate.h"
#include "cuda/row_update_run.cuh"
#include "cuda_update.h"

static int blocks_now = 3;

namespace {
struct emulated_run {
  ts_err take(void **p, size_t bytes) {
    *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*p) return ts_fail(TS_ERR_NOMEM, "no memory");
    memset(*p, 0xa5, bytes);
    return TS_OK;
  }
  void give(void *p, size_t) {
    free(p);
  }
  ts_err clear(void *p, size_t bytes) {
    memset(p, 0, bytes);
    return TS_OK;
  }
  ts_err copy(void *dst, const void *src, size_t bytes) {
    memcpy(dst, src, bytes);
    return TS_OK;
  }
  ts_err starts(void *temp, size_t *temp_bytes, const uint32_t *keys, int64_t n,
                uint32_t *start, uint32_t *n_runs) {
    *temp_bytes = 1;
    if (!temp) return TS_OK;
    for (int64_t j = 0; j < n; j++)
      if (j == 0 || keys[j] != keys[j - 1]) start[(*n_runs)++] = (uint32_t)j;
    return TS_OK;
  }
  template <class K, class... A>
  ts_err launch(K kernel, unsigned grid, unsigned block, A... args) {
    const char *said =
        ts_emulate_try(dim3(grid), dim3(block), 0, [&] { kernel(args...); });
    return said ? ts_fail(TS_ERR_INTERNAL, "%s", said) : TS_OK;
  }
  static int64_t blocks_most() {
    return blocks_now;
  }
  template <class K> static int64_t blocks(K) {
    return blocks_now;
  }
};
} // namespace

static ts_err row_update(const ts_row_update_args *a) {
  emulated_run run;
  return ts_row_update_on(run, a);
}

static ts_err row_stage(const ts_row_stage_args *a) {
  emulated_run run;
  return ts_row_stage_on(run, a);
}

/* Of the very size, so that sanitizers see what lies beyond. */
static void *send(const void *p, size_t bytes) {
  void *to = malloc(bytes ? bytes : 1);
  if (!to) abort();
  memcpy(to, p, bytes);
  return to;
}

static void fetch(void *to, const void *sent, size_t bytes) {
  memcpy(to, sent, bytes);
}

static void set_blocks(int most) {
  blocks_now = most;
}

extern "C" {
const update_target update_emulated = {row_update, row_stage, nullptr,
                                       send,       fetch,     free,
                                       set_blocks, nullptr,   nullptr};
}
