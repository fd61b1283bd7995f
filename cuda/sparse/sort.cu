/* sort.cu - the kernel sort, and the starts of runs of sorted keys, by CUB.
 *
 * The sort is CUB's radix sort on the bits that keys have.  It is stable, so
 * segments need no sort of their own.  Pairs move between the two pairs of
 * arrays; where the last pass ends in the scratch they are copied back, at the
 * price of half a pass.  work, segment and segment_base are not read. */
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include <string.h>

#include "cuda/runtime/cuda_impl.h"

/* TEMP NULL: only *BYTES, its size, is set. */
static ts_err sort_pairs(void *temp, size_t *bytes,
                         cub::DoubleBuffer<uint32_t> *keys,
                         cub::DoubleBuffer<uint32_t> *values,
                         const ts_sort_args *a, cudaStream_t stream) {
  return TS_CUDA(cub::DeviceRadixSort::SortPairs(
      temp, *bytes, *keys, *values, (uint32_t)a->n, 0, a->n_bits, stream));
}

static ts_err bring(uint32_t *to, const uint32_t *from, int64_t n,
                    cudaStream_t stream) {
  if (from == to) return TS_OK;
  return TS_CUDA(cudaMemcpyAsync(to, from, (size_t)n * sizeof *to,
                                 cudaMemcpyDeviceToDevice, stream));
}

/* Bytes of scratch for N pairs on N_BITS bits; asked for once by each thread
 * while batches are alike. */
static ts_err temp_bytes(size_t *bytes, const ts_sort_args *a) {
  static thread_local struct {
    int64_t n;
    int n_bits;
    size_t bytes;
  } last;
  cub::DoubleBuffer<uint32_t> keys(a->keys, a->keys_scratch);
  cub::DoubleBuffer<uint32_t> values(a->values, a->values_scratch);
  if (last.n != a->n || last.n_bits != a->n_bits) {
    last.n = 0;
    TS_DO(sort_pairs(NULL, &last.bytes, &keys, &values, a, NULL));
    last.n = a->n;
    last.n_bits = a->n_bits;
  }
  *bytes = last.bytes;
  return TS_OK;
}

typedef struct ts_sort_call {
  ts_sort_args args; /* keys, values, their scratch, n, n_bits */
  void *temp;
  size_t bytes;
} ts_sort_call;

static ts_err sort_call(const void *arg, cudaStream_t stream) {
  const ts_sort_call *c = (const ts_sort_call *)arg;
  const ts_sort_args *a = &c->args;
  cub::DoubleBuffer<uint32_t> keys(a->keys, a->keys_scratch);
  cub::DoubleBuffer<uint32_t> values(a->values, a->values_scratch);
  size_t bytes = c->bytes;
  TS_DO(sort_pairs(c->temp, &bytes, &keys, &values, a, stream));
  TS_DO(bring(a->keys, keys.Current(), a->n, stream));
  return bring(a->values, values.Current(), a->n, stream);
}

/* ---- runs of sorted keys ------------------------------------------------- */

/* Whether entry J is the first of its run. */
struct ts_run_starts_at {
  const uint32_t *keys;
  __device__ bool operator()(uint32_t j) const {
    return j == 0 || keys[j] != keys[j - 1];
  }
};

typedef struct starts_args {
  void *temp;
  size_t temp_bytes;
  const uint32_t *keys;
  int64_t n;
  uint32_t *start, *n_runs;
} starts_args;

static ts_err starts(const starts_args *a, size_t *temp_bytes,
                     cudaStream_t stream) {
  const auto all = thrust::make_counting_iterator((uint32_t)0);
  const auto flags =
      thrust::make_transform_iterator(all, ts_run_starts_at{a->keys});
  return TS_CUDA(cub::DeviceSelect::Flagged(a->temp, *temp_bytes, all, flags,
                                            a->start, a->n_runs, (int32_t)a->n,
                                            stream));
}

static ts_err starts_call(const void *arg, cudaStream_t stream) {
  const starts_args *a = (const starts_args *)arg;
  size_t temp_bytes = a->temp_bytes;
  return starts(a, &temp_bytes, stream);
}

ts_err ts_cuda_starts(void *temp, size_t *temp_bytes, const uint32_t *keys,
                      int64_t n, uint32_t *start, uint32_t *n_runs) {
  const starts_args a = {temp, *temp_bytes, keys, n, start, n_runs};
  if (!temp) return starts(&a, temp_bytes, ts_cuda_stream_now());
  return ts_cuda_call(starts_call, &a, sizeof a);
}

static ts_err find_runs(const ts_sort_args *a) {
  ts_err err = TS_OK;
  void *temp = NULL;
  size_t bytes = 0;
  TS_TRY(ts_cuda_starts(NULL, &bytes, a->keys, a->n, NULL, NULL));
  TS_TRY(ts_cuda_take(&temp, bytes, TS_TAG_SPARSE));
  TS_TRY(ts_cuda_starts(temp, &bytes, a->keys, a->n, a->runs + 1, a->runs));
done:
  ts_cuda_give(temp, bytes, TS_TAG_SPARSE);
  return err;
}

static ts_err sort(const ts_sort_args *a) {
  ts_err err = TS_OK;
  ts_sort_call c;
  if (a->n < 2 || a->n_bits == 0) return TS_OK;
  if (a->n > (int64_t)UINT32_MAX)
    return ts_fail(TS_ERR_INTERNAL, "a sort of %lld pairs", (long long)a->n);
  memset(&c, 0, sizeof c);
  c.args.keys = a->keys;
  c.args.keys_scratch = a->keys_scratch;
  c.args.values = a->values;
  c.args.values_scratch = a->values_scratch;
  c.args.n = a->n;
  c.args.n_bits = a->n_bits;
  TS_TRY(temp_bytes(&c.bytes, a));
  TS_TRY(ts_cuda_take(&c.temp, c.bytes, TS_TAG_SPARSE));
  TS_TRY(ts_cuda_call(sort_call, &c, sizeof c));
done:
  ts_cuda_give(c.temp, c.bytes, TS_TAG_SPARSE);
  return err;
}

ts_err ts_cuda_sort(const ts_sort_args *a) {
  TS_DO(sort(a));
  return a->runs && a->n ? find_runs(a) : TS_OK;
}
