/* mask.h - what cuBLASLt does not do for a layer's gradient: ReLU's mask where
 * the gradient comes from elsewhere, sums of columns, conversion.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "cuda/runtime/cuda_impl.h"

enum { TS_MASK_ROWS = 256 }; /* of a block */

/* out = g * (y > 0); db = sums of its columns before they are rounded.  Rows
 * of f32, or of bf16 where half; y has g's kind. */
typedef struct ts_cuda_mask_args {
  const void *g, *y; /* (batch, n); y NULL: no ReLU */
  void *out;         /* (batch, n), may be g; NULL: sums alone */
  float *db;         /* (n), NULL: no sums */
  float *parts;      /* (ts_cuda_mask_parts(batch), n) scratch */
  int64_t g_stride, y_stride, out_stride; /* elements */
  bool g_half, out_half;                  /* g_half: out is, too */
  int32_t batch, n;
} ts_cuda_mask_args;

static inline int64_t ts_cuda_mask_parts(int32_t batch) {
  return ((int64_t)batch + TS_MASK_ROWS - 1) / TS_MASK_ROWS;
}

ts_err ts_cuda_mask(const ts_cuda_mask_args *, cudaStream_t);
/* to[i] = from[i] of bf16. */
ts_err ts_cuda_widen_bf16(float *to, const uint16_t *from, int32_t n,
                          cudaStream_t);
