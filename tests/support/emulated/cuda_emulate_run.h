/* cuda_emulate_run.h - who launches, in tests of kernels on the CPU: in place
 * of the current lane's stream (cuda/runtime/stream_run.cuh,
 * cuda/sparse/lane_run.cuh).  What CUB does on a GPU, a stable sort and the
 * positions of first entries, is the host's here. */
#ifndef TS_TESTS_CUDA_EMULATE_RUN_H
#define TS_TESTS_CUDA_EMULATE_RUN_H

#include <stdlib.h>

extern "C" {
#include "base/err.h"
#include "runtime/kernels.h"
}
#include "tests/support/emulated/cuda_emulate.h"

/* A failure of the emulation has a message. */
static inline ts_err emulated_err(const char *said) {
  return said ? ts_fail(TS_ERR_INTERNAL, "%s", said) : TS_OK;
}

struct emulated_run {
  inline static int blocks_now = 3;
  inline static ts_kernels host; /* what sort is taken from; by start */
  inline static int fill = 0xa5; /* bytes of fresh scratch */

  static void start() {
    if (ts_kernels_fill(&host, "host", "ref") != TS_OK) abort();
  }
  static void set_blocks(int most) {
    blocks_now = most;
  }
  ts_err take(void **p, size_t bytes) {
    *p = NULL;
    if (!bytes) return TS_OK;
    *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*p) return ts_fail(TS_ERR_NOMEM, "no memory");
    memset(*p, fill, bytes);
    return TS_OK;
  }
  void give(void *p, size_t) {
    free(p);
  }
  ts_err clear(void *p, size_t bytes, int byte = 0) {
    memset(p, byte, bytes);
    return TS_OK;
  }
  ts_err copy(void *dst, const void *src, size_t bytes) {
    memcpy(dst, src, bytes);
    return TS_OK;
  }
  ts_err sort(const ts_sort_args *a) {
    return host.sort(a);
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
  ts_err launch(K kernel, dim3 grid, unsigned block, A... args) {
    return emulated_err(
        ts_emulate_try(grid, dim3(block), 0, [&] { kernel(args...); }));
  }
  static int64_t blocks_most() {
    return blocks_now;
  }
  template <class K> static int64_t blocks(K) {
    return blocks_now;
  }
};

/* A copy of the very size, so that sanitizers see what lies beyond; free. */
static inline void *emulated_send(const void *p, size_t bytes) {
  void *to = malloc(bytes ? bytes : 1);
  if (!to) abort();
  memcpy(to, p, bytes);
  return to;
}

/* The same on a border of 256 bytes, as a GPU's memory has. */
static inline void *emulated_send_aligned(const void *p, size_t bytes) {
  void *to = aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!to) abort();
  memcpy(to, p, bytes);
  return to;
}

/* In place of a lane's submission. */
static inline ts_err emulated_task(ts_err (*task)(void *), void *arg) {
  return task(arg);
}

static inline void emulated_fetch(void *to, const void *sent, size_t bytes) {
  memcpy(to, sent, bytes);
}

/* For kernels that are launched by TS_CUDA_LAUNCH in headers (*_launch.cuh),
 * which are included after this one.  Counted: puts (cuda/runtime/put.cuh),
 * others. */
typedef void *cudaStream_t;
inline int emulated_n_puts, emulated_n_launches;
static inline void emulated_count(const char *kernel) {
  if (strstr(kernel, "ts_put_kernel"))
    emulated_n_puts++;
  else
    emulated_n_launches++;
}
#define TS_CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)         \
  ((void)(stream), emulated_count(#kernel),                                    \
   emulated_err(ts_emulate_try((grid), (block), (shared_bytes),                \
                               [&] { kernel(__VA_ARGS__); })))

#endif
