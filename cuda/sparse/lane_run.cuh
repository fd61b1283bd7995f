/* lane_run.cuh - who launches the kernels of rows
 * (cuda/sparse/row_update_run.cuh,
 * cuda/sparse/cache_run.cuh): the stream of the current lane, and CUB. */
#ifndef TS_CUDA_LANE_RUN_CUH
#define TS_CUDA_LANE_RUN_CUH

#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "cuda/sparse/row_work.cuh"
#include "cuda/runtime/stream_run.cuh"

/* Whether entry J is the first of its run. */
struct ts_run_starts_at {
  const uint32_t *keys;
  __device__ bool operator()(uint32_t j) const {
    return j == 0 || keys[j] != keys[j - 1];
  }
};

typedef struct ts_starts_call {
  void *temp;
  size_t temp_bytes;
  const uint32_t *keys;
  int64_t n;
  uint32_t *start, *n_runs;
} ts_starts_call;

static inline ts_err ts_starts(const ts_starts_call *c, size_t *temp_bytes,
                               cudaStream_t stream) {
  const auto all = thrust::make_counting_iterator((uint32_t)0);
  const auto flags =
      thrust::make_transform_iterator(all, ts_run_starts_at{c->keys});
  return TS_CUDA(cub::DeviceSelect::Flagged(c->temp, *temp_bytes, all, flags,
                                            c->start, c->n_runs, (int32_t)c->n,
                                            stream));
}

static inline ts_err ts_starts_work(const void *arg, cudaStream_t stream) {
  const ts_starts_call *c = (const ts_starts_call *)arg;
  size_t temp_bytes = c->temp_bytes;
  return ts_starts(c, &temp_bytes, stream);
}

struct ts_lane_run : ts_stream_run {
  ts_lane_run() : ts_stream_run(TS_TAG_SPARSE) {
  }

  /* start = first entries of the runs of equal KEYS, *N_RUNS their number,
   * both on the device.  TEMP NULL: only *TEMP_BYTES, its size, is set. */
  ts_err starts(void *temp, size_t *temp_bytes, const uint32_t *keys, int64_t n,
                uint32_t *start, uint32_t *n_runs) {
    const ts_starts_call c = {temp, *temp_bytes, keys, n, start, n_runs};
    if (!temp) return ts_starts(&c, temp_bytes, stream);
    return ts_cuda_call(ts_starts_work, &c, sizeof c, stream);
  }

  static int64_t blocks_most() {
    return (int64_t)ts_cuda_gpu_now()->n_sms * (2048 / TS_ROW_BLOCK);
  }
  /* As many as run at once, for the grids go on with a stride. */
  template <class K> static int64_t blocks(K kernel) {
    int n = 0;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n, kernel, TS_ROW_BLOCK,
                                                      0) != cudaSuccess ||
        n < 1)
      n = 1;
    return (int64_t)ts_cuda_gpu_now()->n_sms * n;
  }
};

#endif
