/* sort.cu - the kernel sort of GPUs: CUB's radix sort on the bits that keys
 * have.  It is stable, so segments need no sort of their own.  Pairs move
 * between the two pairs of arrays; where the last pass ends in the scratch
 * they are copied back, at the price of half a pass. */
#include <cub/device/device_radix_sort.cuh>

#include <string.h>

#include "cuda/runtime/cuda_impl.h"
#include "cuda/sparse/update.h"

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
static ts_err temp_bytes(size_t *bytes, const ts_sort_args *a,
                         cudaStream_t stream) {
  static thread_local struct {
    int64_t n;
    int n_bits;
    size_t bytes;
  } last;
  cub::DoubleBuffer<uint32_t> keys(a->keys, a->keys_scratch);
  cub::DoubleBuffer<uint32_t> values(a->values, a->values_scratch);
  ts_err err = TS_OK;
  if (last.n != a->n || last.n_bits != a->n_bits) {
    last.n = 0;
    TS_TRY(sort_pairs(NULL, &last.bytes, &keys, &values, a, stream));
    last.n = a->n;
    last.n_bits = a->n_bits;
  }
  *bytes = last.bytes;
done:
  return err;
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
  ts_err err = TS_OK;
  TS_TRY(sort_pairs(c->temp, &bytes, &keys, &values, a, stream));
  TS_TRY(bring(a->keys, keys.Current(), a->n, stream));
  TS_TRY(bring(a->values, values.Current(), a->n, stream));
done:
  return err;
}

ts_err ts_cuda_sort(const ts_sort_args *a) {
  const cudaStream_t stream = ts_cuda_stream_now();
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
  TS_TRY(temp_bytes(&c.bytes, a, stream));
  TS_TRY(ts_cuda_take(&c.temp, c.bytes, TS_TAG_SPARSE, stream));
  TS_TRY(ts_cuda_call(sort_call, &c, sizeof c, stream));
done:
  if (c.temp) ts_cuda_give(c.temp, c.bytes, TS_TAG_SPARSE, stream);
  return err;
}
