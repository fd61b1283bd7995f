/* cuda_kernels.cu - tasks that launch kernels for
 * tests/runtime/test_cuda_streams.c. */
#include <string.h>

#include "cuda/runtime/cuda_impl.h"
#include "tests/runtime/cuda_kernels.h"

static __device__ uint64_t nanoseconds() {
#ifdef __CUDA_ARCH__
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
#else
  return (uint64_t)(1e9 * ts_now());
#endif
}

static __global__ void spin(uint64_t length) {
  const uint64_t start = nanoseconds();
  while (nanoseconds() - start < length) {
  }
}

static __global__ void step(uint32_t *x, int64_t n) {
  const int64_t stride = (int64_t)gridDim.x * blockDim.x;
  for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n;
       i += stride)
    x[i] = 3 * x[i] + 1;
}

static __global__ void add(unsigned char *p, uint64_t n, int32_t v) {
  const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
    p[i] = (unsigned char)(p[i] + v);
}

static __global__ void times(unsigned char *p, uint64_t n, int32_t v) {
  const uint64_t stride = (uint64_t)gridDim.x * blockDim.x;
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride)
    p[i] = (unsigned char)(p[i] * (2 * v + 1));
}

static __global__ void bad_write(int *p) {
  p[threadIdx.x] = 1;
}

ts_err ts_test_spin(void *arg, ts_lane *lane) {
  const ts_spin_args *a = (const ts_spin_args *)arg;
  const cudaStream_t stream = ts_cuda_stream(lane);
  ts_err err = TS_OK;
  TS_TRY(TS_CUDA_LAUNCH(spin, {1, 1, 0, stream}, (uint64_t)(a->seconds * 1e9)));
  TS_TRY(TS_CUDA_LAUNCH(step, {ts_grid(a->n, 256, 64), 256, 0, stream},
                        a->value, a->n));
done:
  return err;
}

ts_err ts_test_bad_write(void *, ts_lane *lane) {
  return TS_CUDA_LAUNCH(bad_write, {1, 32, 0, ts_cuda_stream(lane)},
                        (int *)(uintptr_t)64);
}

ts_err ts_test_bad_launch(void *, ts_lane *lane) {
  return TS_CUDA_LAUNCH(spin, {1, 100000, 0, ts_cuda_stream(lane)}, 1);
}

ts_err ts_test_scratch(void *arg, ts_lane *) {
  const ts_spin_args *a = (const ts_spin_args *)arg;
  const cudaStream_t stream = ts_cuda_stream_now();
  const size_t bytes = (size_t)a->n * sizeof(uint32_t);
  uint32_t *p = NULL;
  ts_err err = TS_OK;
  for (int i = 0; i < 2; i++) {
    TS_TRY(ts_cuda_take(&p, bytes, TS_TAG_SPARSE, stream));
    TS_TRY(ts_cuda_set(p, i, bytes, stream));
    TS_TRY(ts_cuda_move(a->value, p, bytes, stream));
    ts_cuda_give(p, bytes, TS_TAG_SPARSE, stream);
    p = NULL;
  }
done:
  ts_cuda_give(p, bytes, TS_TAG_SPARSE, stream);
  return err;
}

ts_err ts_test_launch(void *arg, ts_lane *) {
  const ts_piece_args *a = (const ts_piece_args *)arg;
  return TS_CUDA_LAUNCH(a->times ? times : add, {a->blocks, 32},
                        (unsigned char *)a->p, a->n, a->v);
}

/* The first half is set, then copied to the second. */
static ts_err two_pieces(const void *arg, cudaStream_t stream) {
  const ts_piece_args *a = (const ts_piece_args *)arg;
  const size_t half = a->n / 2;
  ts_err err = TS_OK;
  TS_TRY(TS_CUDA(cudaMemsetAsync(a->p, a->v, half, stream)));
  TS_TRY(TS_CUDA(cudaMemcpyAsync((char *)a->p + half, a->p, half,
                                 cudaMemcpyDefault, stream)));
done:
  return err;
}

ts_err ts_test_call(void *arg, ts_lane *) {
  const ts_piece_args *from = (const ts_piece_args *)arg;
  ts_piece_args a;
  memset(&a, 0, sizeof a);
  a.p = from->p;
  a.n = from->n;
  a.v = from->v;
  return ts_cuda_call(two_pieces, &a, sizeof a, ts_cuda_stream_now());
}

ts_err ts_test_set(void *arg, ts_lane *) {
  const ts_piece_args *a = (const ts_piece_args *)arg;
  return ts_cuda_set(a->p, a->v, a->n, ts_cuda_stream_now());
}

ts_err ts_test_is_now(void *, ts_lane *lane) {
  if (ts_cuda_lane_now() != lane ||
      ts_cuda_stream_now() != ts_cuda_stream(lane))
    return ts_fail(TS_ERR_INTERNAL, "another lane is the current one");
  return TS_OK;
}
