/* unpack_launch.cuh - how many blocks unpack and bag_means have.
 * cuda/shard/unpack.cu launches; tests define TS_CUDA_LAUNCH and run the
 * same on the
 * CPU.  All arguments but the list go by value. */
#ifndef TS_CUDA_UNPACK_LAUNCH_CUH
#define TS_CUDA_UNPACK_LAUNCH_CUH

#include "cuda/shard/unpack_kernels.cuh"

static ts_err ts_unpack_launch(const ts_unpack_args *a, int64_t most,
                               cudaStream_t stream) {
  ts_err err = TS_OK;
  const int64_t tiles = ts_ceil_div(a->n_ids, TS_UNPACK_IDS);
  const int64_t items = a->n_parts + tiles;
  TS_TRY(TS_CUDA_LAUNCH(ts_unpack_kernel, dim3(ts_grid(items, 1, most)),
                        dim3(TS_UNPACK_THREADS), 0, stream, *a, items));
  if (a->number && a->n_ids)
    TS_TRY(TS_CUDA_LAUNCH(ts_number_kernel, dim3(ts_grid(tiles, 1, most)),
                          dim3(TS_UNPACK_THREADS), 0, stream, a->offsets,
                          a->positions, a->n_bags, a->n_ids));
done:
  return err;
}

static ts_err ts_bag_means_launch(const ts_bag_means_args *a, int64_t most,
                                  cudaStream_t stream) {
  int64_t n = 0;
  for (int32_t i = 0; i < a->n_views; i++)
    if (a->view[i].n > n) n = a->view[i].n;
  if (!n) return TS_OK;
  return TS_CUDA_LAUNCH(
      ts_bag_means_kernel,
      dim3(ts_grid(n, TS_UNPACK_THREADS, most), (unsigned)a->n_views),
      dim3(TS_UNPACK_THREADS), 0, stream, *a);
}

#endif
