/* cache_emulated.cc - the cache's kernels on the CPU. */
#include "tests/support/emulated/cuda_emulate_run.h"
#include "cuda/sparse/cache_run.cuh"
#include "tests/kernels/cuda_cache.h"

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

static void *share(void **seen, size_t bytes) {
  *seen = calloc(1, bytes);
  if (!*seen) abort();
  return *seen;
}

extern "C" cache_target cache_emulated(void) {
  cache_target t = {};
  emulated_run::start();
  t.kernels.cache_rows = rows;
  t.kernels.cache_hold = hold;
  t.kernels.cache_release = release;
  t.kernels.cache_refresh = refresh;
  t.kernels.cache_locate = locate;
  t.kernels.cache_flush = flush;
  t.kernels.cache_reload = reload;
  t.send = emulated_send;
  t.fetch = emulated_fetch;
  t.put = emulated_fetch;
  t.drop = free;
  t.share = share;
  t.unshare = free;
  t.set_blocks = emulated_run::set_blocks;
  return t;
}
