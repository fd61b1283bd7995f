/* pack.cu - the sending side of input dist on the GPU
 * (cuda/shard/pack_kernels.cuh, cuda/shard/distinct_kernels.cuh). */
#include "cuda/shard/pack.h"
#include "cuda/shard/pack_run.cuh"
#include "cuda/runtime/stream_run.cuh"

namespace {
struct pack_run : ts_stream_run {
  pack_run() : ts_stream_run(TS_TAG_INPUT) {
  }
  static int64_t blocks_most() {
    return (int64_t)ts_cuda_gpu_now()->n_sms * (2048 / TS_SCAN_BLOCK);
  }
};
} // namespace

ts_err ts_cuda_bags_check(const ts_bags_args *a) {
  pack_run run;
  return ts_bags_check_on(run, a);
}

ts_err ts_cuda_bags_offsets(const ts_bags_args *a) {
  pack_run run;
  return ts_bags_offsets_on(run, a);
}

ts_err ts_cuda_bags_distinct(const ts_distinct_args *a) {
  pack_run run;
  return ts_bags_distinct_on(run, a);
}

ts_err ts_cuda_pack_measure(const ts_pack_args *a) {
  pack_run run;
  return ts_pack_measure_on(run, a);
}

ts_err ts_cuda_pack_write(const ts_pack_args *a) {
  pack_run run;
  return ts_pack_write_on(run, a);
}

void ts_cuda_kernels_pack(ts_kernels *k) {
  k->bags_check = ts_cuda_bags_check;
  k->bags_offsets = ts_cuda_bags_offsets;
  k->bags_distinct = ts_cuda_bags_distinct;
  k->pack_measure = ts_cuda_pack_measure;
  k->pack_write = ts_cuda_pack_write;
}
