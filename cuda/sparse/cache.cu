/* cache.cu - the cache of GPUs: its entries in the table of kernels, on the
 * current lane.  Scratch comes from the lane's pool. */
#include "cuda/sparse/cache.h"
#include "cuda/sparse/cache_run.cuh"
#include "cuda/sparse/lane_run.cuh"

ts_err ts_cuda_cache_rows(const ts_cache_rows_args *a) {
  ts_lane_run run;
  return ts_cache_rows_on(run, a);
}

ts_err ts_cuda_cache_hold(const ts_cache_args *a) {
  ts_lane_run run;
  return ts_cache_hold_on(run, a);
}

ts_err ts_cuda_cache_release(const ts_cache_args *a) {
  ts_lane_run run;
  return ts_cache_release_on(run, a);
}

ts_err ts_cuda_cache_refresh(const ts_cache_args *a) {
  ts_lane_run run;
  return ts_cache_refresh_on(run, a);
}

ts_err ts_cuda_cache_locate(const ts_cache_args *a) {
  ts_lane_run run;
  return ts_cache_locate_on(run, a);
}

ts_err ts_cuda_cache_flush(const ts_cache_args *a) {
  ts_lane_run run;
  return ts_cache_all_on(run, a, true);
}

ts_err ts_cuda_cache_reload(const ts_cache_args *a) {
  ts_lane_run run;
  return ts_cache_all_on(run, a, false);
}

void ts_cuda_kernels_cache(ts_kernels *k) {
  k->cache_rows = ts_cuda_cache_rows;
  k->cache_hold = ts_cuda_cache_hold;
  k->cache_release = ts_cuda_cache_release;
  k->cache_refresh = ts_cuda_cache_refresh;
  k->cache_locate = ts_cuda_cache_locate;
  k->cache_flush = ts_cuda_cache_flush;
  k->cache_reload = ts_cuda_cache_reload;
}
