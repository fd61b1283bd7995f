/* comm_reduce.c - sums over ranks, in rank order, so that their bits never
 * depend on an MPI library's algorithm. */
#include <string.h>

#include "base/mem.h"
#include "runtime/comm_impl.h"

#define REDUCE(type)                                                           \
  static void reduce_##type(type *restrict dst, const type *src, int w,        \
                            int64_t stride, int64_t n, ts_reduction op,        \
                            bool onto) {                                       \
    if (!onto) memcpy(dst, src, (size_t)n * sizeof *dst);                      \
    for (int r = !onto; r < w; r++) {                                          \
      const type *x = src + r * stride;                                        \
      if (op == TS_SUM)                                                        \
        for (int64_t i = 0; i < n; i++) dst[i] += x[i];                        \
      else if (op == TS_MAX)                                                   \
        for (int64_t i = 0; i < n; i++)                                        \
          dst[i] = x[i] > dst[i] ? x[i] : dst[i];                              \
      else                                                                     \
        for (int64_t i = 0; i < n; i++)                                        \
          dst[i] = x[i] < dst[i] ? x[i] : dst[i];                              \
    }                                                                          \
  }
REDUCE(float)
REDUCE(double)
REDUCE(int64_t)

/* 16-bit floats are summed in f32 and rounded once. */
static void reduce_half(uint16_t *dst, const uint16_t *src, int w,
                        int64_t stride, int64_t n, ts_dtype t) {
  for (int64_t i = 0; i < n; i++) {
    float sum = 0, x;
    for (int r = 0; r < w; r++) {
      ts_to_f32(&x, src + r * stride + i, t, 1);
      sum += x;
    }
    ts_from_f32(dst + i, &sum, t, 1);
  }
}

ts_err ts_reduce_ranks(void *dst, const void *src, int w, int64_t stride,
                       int64_t n, ts_dtype t, ts_reduction op, bool onto) {
  if (n == 0) return TS_OK;
  switch (t) {
  case TS_F32:
    reduce_float(dst, src, w, stride, n, op, onto);
    return TS_OK;
  case TS_F64:
    reduce_double(dst, src, w, stride, n, op, onto);
    return TS_OK;
  case TS_I64:
    reduce_int64_t(dst, src, w, stride, n, op, onto);
    return TS_OK;
  case TS_BF16:
  case TS_F16:
    if (op != TS_SUM || onto) break;
    reduce_half(dst, src, w, stride, n, t);
    return TS_OK;
  default:
    break;
  }
  return ts_fail(TS_ERR_INTERNAL, "no such reduction of %s", ts_dtype_name(t));
}
