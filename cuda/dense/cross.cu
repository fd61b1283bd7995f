/* cross.cu - what cross layers do by element, with the bits of the host's plain
 * C (src/dense/cross_body.h; NaN is NaN, whichever): no operation is fused. */
#include "cuda/dense/cross.cuh"

/* T: of t, dt and add. */
template <class T, bool WIDE>
__global__ void __launch_bounds__(TS_CROSS_THREADS)
    ts_cross_kernel(const __grid_constant__ ts_cross_args a) {
  ts_cross_each(a.batch, a.width, [&](int64_t i, int32_t c, int n) {
    const int64_t at = i * a.stride + c;
    const float4 x0 = ts_cross_get<WIDE>(a.x0 + at, n);
    const float4 x = ts_cross_get<WIDE>(a.x + at, n);
    const float4 t = ts_cross_get<WIDE>((const T *)a.t + i * a.t_stride + c, n);
    const float4 y = ts_cross_sum(ts_cross_product(x0, t), x);
    if (a.y) ts_cross_put<WIDE>(a.y + at, n, y);
    if (a.y16) ts_cross_put<WIDE>(a.y16 + at, n, y);
  });
}

template <class T, bool WIDE>
__global__ void __launch_bounds__(TS_CROSS_THREADS)
    ts_cross_grad_kernel(const __grid_constant__ ts_cross_args a) {
  ts_cross_each(a.batch, a.width, [&](int64_t i, int32_t c, int n) {
    const int64_t at = i * a.stride + c, t_at = i * a.t_stride + c;
    float4 dy = a.dy16 ? ts_cross_get<WIDE>(a.dy16 + at, n)
                       : ts_cross_get<WIDE>(a.dy + at, n);
    float4 by = dy; /* dy * t, or dy where there is no t */
    if (a.add) {
      dy = ts_cross_sum(dy, ts_cross_get<WIDE>((const T *)a.add + at, n));
      if (a.t) ts_cross_put<WIDE>(a.dy + at, n, dy);
      by = dy;
    }
    if (a.t) {
      by = ts_cross_product(dy, ts_cross_get<WIDE>((const T *)a.t + t_at, n));
      ts_cross_put<WIDE>(
          (T *)a.dt + t_at, n,
          ts_cross_product(dy, ts_cross_get<WIDE>(a.x0 + at, n)));
    }
    /* In f32 with t the host stores the first term.  The other cases add it to
     * 0, which makes 0 of -0. */
    const bool sets = a.first && a.t && sizeof(T) == 4;
    const float4 zero = make_float4(0, 0, 0, 0);
    if (!sets)
      by = ts_cross_sum(a.first ? zero : ts_cross_get<WIDE>(a.dx0 + at, n), by);
    ts_cross_put<WIDE>(a.dx0 + at, n, by);
  });
}

static bool is_wide(const ts_cross_args *a) {
  const uintptr_t side = a->half ? 8 : 16;
  return a->width % 4 == 0 && a->stride % 4 == 0 && a->t_stride % 4 == 0 &&
         ts_cross_fits(a->x0, 16) && ts_cross_fits(a->x, 16) &&
         ts_cross_fits(a->y, 16) && ts_cross_fits(a->y16, 8) &&
         ts_cross_fits(a->dy, 16) && ts_cross_fits(a->dy16, 8) &&
         ts_cross_fits(a->dx0, 16) && ts_cross_fits(a->t, side) &&
         ts_cross_fits(a->dt, side) && ts_cross_fits(a->add, side);
}

template <class T, bool WIDE>
static ts_err start(const ts_cross_args *a, bool back) {
  const ts_cuda_shape shape = ts_cross_shape(a->batch, a->width);
  if (back) return TS_CUDA_LAUNCH((ts_cross_grad_kernel<T, WIDE>), shape, *a);
  return TS_CUDA_LAUNCH((ts_cross_kernel<T, WIDE>), shape, *a);
}

static ts_err launch(const ts_cross_args *a, bool back) {
  const bool wide = is_wide(a);
  if (a->batch == 0 || a->width == 0) return TS_OK;
  if (a->half)
    return wide ? start<uint16_t, true>(a, back)
                : start<uint16_t, false>(a, back);
  return wide ? start<float, true>(a, back) : start<float, false>(a, back);
}

ts_err ts_cuda_cross_forward(const ts_cross_args *a) {
  return launch(a, false);
}

ts_err ts_cuda_cross_backward(const ts_cross_args *a) {
  return launch(a, true);
}
