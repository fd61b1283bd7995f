/* cache_emulated.cc - the cache's kernels on the CPU.  What CUB does on a GPU,
 * the sort and the positions of first entries, is the host's here. */
#include <stdlib.h>

#include "cuda_emulate.h"
#include "cuda/cache_run.cuh"
#include "cuda_cache.h"

static int blocks_now = 3;
static ts_kernels host;

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
  ts_err launch(K kernel, unsigned grid, unsigned block, A... args) {
    const char *said =
        ts_emulate_try(dim3(grid), dim3(block), 0, [&] { kernel(args...); });
    return said ? ts_fail(TS_ERR_INTERNAL, "%s", said) : TS_OK;
  }
  static int64_t blocks_most() {
    return blocks_now;
  }
};
} // namespace

static ts_err rows(const ts_cache_rows_args *a) {
  emulated_run run;
  return ts_cache_rows_on(run, a);
}
static ts_err hold(const ts_cache_args *a) {
  emulated_run run;
  return ts_cache_hold_on(run, a);
}
static ts_err release(const ts_cache_args *a) {
  emulated_run run;
  return ts_cache_release_on(run, a);
}
static ts_err refresh(const ts_cache_args *a) {
  emulated_run run;
  return ts_cache_refresh_on(run, a);
}
static ts_err locate(const ts_cache_args *a) {
  emulated_run run;
  return ts_cache_locate_on(run, a);
}
static ts_err flush(const ts_cache_args *a) {
  emulated_run run;
  return ts_cache_all_on(run, a, true);
}
static ts_err reload(const ts_cache_args *a) {
  emulated_run run;
  return ts_cache_all_on(run, a, false);
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

static void *share(void **seen, size_t bytes) {
  *seen = calloc(1, bytes);
  if (!*seen) abort();
  return *seen;
}

static void set_blocks(int most) {
  blocks_now = most;
}

extern "C" cache_target cache_emulated(void) {
  cache_target t = {};
  if (ts_kernels_fill(&host, "host", "ref") != TS_OK) abort();
  t.kernels.cache_rows = rows;
  t.kernels.cache_hold = hold;
  t.kernels.cache_release = release;
  t.kernels.cache_refresh = refresh;
  t.kernels.cache_locate = locate;
  t.kernels.cache_flush = flush;
  t.kernels.cache_reload = reload;
  t.send = send;
  t.fetch = fetch;
  t.put = fetch;
  t.drop = free;
  t.share = share;
  t.unshare = free;
  t.set_blocks = set_blocks;
  return t;
}
