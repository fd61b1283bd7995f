/* pack_emulated.cc - the kernels of input dist's sending side on the CPU.
 * What CUB does on a GPU, a stable sort, is the host's kernel here. */
#include <stdlib.h>

#include "cuda_emulate.h"
#include "cuda/pack_run.cuh"
#include "cuda_pack.h"

namespace {
ts_kernels host;

struct emulated_run {
  ts_err take(void **p, size_t bytes) {
    *p = NULL;
    if (!bytes) return TS_OK;
    *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*p) return ts_fail(TS_ERR_NOMEM, "no memory");
    memset(*p, 0xa5, bytes);
    return TS_OK;
  }
  void give(void *p, size_t) {
    free(p);
  }
  ts_err clear(void *p, int byte, size_t bytes) {
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
  template <class K, class... A>
  ts_err launch(K kernel, dim3 grid, unsigned block, A... args) {
    const char *said =
        ts_emulate_try(grid, dim3(block), 0, [&] { kernel(args...); });
    return said ? ts_fail(TS_ERR_INTERNAL, "%s", said) : TS_OK;
  }
  static int64_t blocks() {
    return 3;
  }
};
} // namespace

static ts_err bags_check(const ts_bags_args *a) {
  emulated_run run;
  return ts_bags_check_on(run, a);
}

static ts_err bags_offsets(const ts_bags_args *a) {
  emulated_run run;
  return ts_bags_offsets_on(run, a);
}

static ts_err bags_distinct(const ts_distinct_args *a) {
  emulated_run run;
  return ts_bags_distinct_on(run, a);
}

static ts_err pack_measure(const ts_pack_args *a) {
  emulated_run run;
  return ts_pack_measure_on(run, a);
}

static ts_err pack_write(const ts_pack_args *a) {
  emulated_run run;
  return ts_pack_write_on(run, a);
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

static void start(void) {
  if (ts_kernels_fill(&host, "host", "ref") != TS_OK) abort();
}

extern "C" {
const pack_target pack_emulated = {
    bags_check, bags_offsets, bags_distinct, pack_measure, pack_write,
    send,       fetch,        free,          start,        nullptr};
}
