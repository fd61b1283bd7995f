/* cuda_products_emulated.cc - cuda/dense/mask.h and half_rows on the CPU, when
 * the stream gets there. */
#include "tests/support/emulated/cuda_emulate_run.h"

extern "C" {
#include "tests/support/emulated/cuda_fake.h"
ts_err cuda_products_half_rows(const ts_half_args *);
int cuda_products_masks;
}
#include "cuda/dense/mask_launch.cuh"

void *ts_cuda_stream_now();

static void mask(void *arg) {
  if (ts_mask_launch((const ts_cuda_mask_args *)arg, nullptr) != TS_OK) abort();
}

ts_err ts_cuda_mask(const ts_cuda_mask_args *a, void *stream) {
  cuda_products_masks++;
  ts_cuda_fake_call(stream, mask, a, sizeof *a);
  return TS_OK;
}

struct widen_arg {
  float *to;
  const uint16_t *from;
  int32_t n;
};

static void widen(void *arg) {
  const widen_arg *a = (const widen_arg *)arg;
  if (ts_widen_bf16_launch(a->to, a->from, a->n, nullptr) != TS_OK) abort();
}

ts_err ts_cuda_widen_bf16(float *to, const uint16_t *from, int32_t n,
                          void *stream) {
  const widen_arg a = {to, from, n};
  ts_cuda_fake_call(stream, widen, &a, sizeof a);
  return TS_OK;
}

static void half_rows(void *arg) {
  const ts_half_args *a = (const ts_half_args *)arg;
  for (int64_t i = 0; i < a->rows; i++)
    for (int64_t k = 0; k < a->n; k++)
      ts_mask_store(&a->to[i * a->to_stride + k],
                    a->from[i * a->from_stride + k]);
}

ts_err cuda_products_half_rows(const ts_half_args *a) {
  ts_cuda_fake_call(ts_cuda_stream_now(), half_rows, a, sizeof *a);
  return TS_OK;
}
