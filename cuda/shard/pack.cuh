/* pack.cuh - what the kernels of input dist's sending side share.
 *
 * The stream copies the description of the work, so the caller keeps it until
 * it has waited for the lane, unless it lies in pageable memory. */
#pragma once

#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/each.cuh"
#include "cuda/runtime/scan.cuh"

extern "C" {
#include "base/table_config.h"
#include "shard/pack.h"
#include "sparse/index.h"
}

/* N items of each of ROWS rows. */
static inline ts_cuda_shape ts_pack_items(int64_t n, int64_t rows) {
  const int64_t y = rows < 1                ? 1
                    : rows < TS_GRID_YZ_MAX ? rows
                                            : TS_GRID_YZ_MAX;
  const int64_t most = ts_ceil_div(ts_cuda_blocks_most(TS_SCAN_BLOCK), y);
  return {dim3(ts_grid(n, TS_SCAN_BLOCK, most), (unsigned)y), TS_SCAN_BLOCK};
}

/* A block for each of N rows. */
static inline ts_cuda_shape ts_pack_rows(int64_t n) {
  return {ts_grid(n, 1, TS_GRID_X_MAX), TS_SCAN_BLOCK};
}

/* *TO = a copy of the N things at FROM. */
template <class T>
static ts_err ts_pack_bring(ts_cuda_pieces *all, const T **to, const T *from,
                            int64_t n) {
  T *p;
  all->cut(&p, n);
  *to = p;
  return p ? ts_cuda_copy(p, from, (size_t)n * sizeof *p) : TS_OK;
}

/* bring(pieces) is called to count scratch, and again with as much of it, then
 * run(). */
template <class Bring, class Run>
static ts_err ts_pack_with(Bring bring, Run run) {
  ts_err err = TS_OK;
  ts_cuda_pieces counted = {}, all = {};
  TS_TRY(bring(&counted));
  TS_TRY(ts_cuda_take(&all.block, counted.bytes, TS_TAG_INPUT));
  if (!all.block) goto done;
  TS_TRY(bring(&all));
  err = run();
done:
  ts_cuda_give(all.block, counted.bytes, TS_TAG_INPUT);
  return err;
}
