/* cross.cu - what cross layers do by element, with the bits of the host's plain
 * C (src/dense/cross_body.h; NaN is NaN, whichever): no operation is fused. */
#include "cuda/dense/cross.cuh"

/* T: of all but y32 and dy32. */
template <class T, bool WIDE>
__global__ void __launch_bounds__(TS_CROSS_THREADS, TS_CROSS_BLOCKS)
    ts_cross_kernel(const __grid_constant__ ts_cross_args a) {
  constexpr int V = 16 / sizeof(T);
  ts_cross_each<V>(a.batch, a.width, [&](int64_t i, int32_t c, int n) {
    const int64_t at = i * a.stride + c, t_at = i * a.t_stride + c;
    const auto x0 = ts_cols_get<V, WIDE>((const T *)a.x0 + at, n);
    const auto x = ts_cols_get<V, WIDE>((const T *)a.x + at, n);
    const auto t = ts_cols_get<V, WIDE>((const T *)a.t + t_at, n);
    const auto y = ts_cols_sum(ts_cols_product(x0, t), x);
    if (sizeof(T) == 4 || a.y)
      ts_cols_put<V, WIDE>((T *)a.y + at, n, y);
    else
      ts_cols_put<V, WIDE>(a.y32 + at, n, y);
  });
}

template <class T, bool WIDE>
__global__ void __launch_bounds__(TS_CROSS_THREADS, TS_CROSS_BLOCKS)
    ts_cross_grad_kernel(const __grid_constant__ ts_cross_args a) {
  constexpr int V = 16 / sizeof(T);
  ts_cross_each<V>(a.batch, a.width, [&](int64_t i, int32_t c, int n) {
    const int64_t at = i * a.stride + c, t_at = i * a.t_stride + c;
    const auto get = [&](const void *p) {
      return ts_cols_get<V, WIDE>((const T *)p + at, n);
    };
    ts_cols<V> by; /* dy, then dy * t where there is t */
    if (sizeof(T) == 2 && a.dy32)
      by = ts_cols_get<V, WIDE>(a.dy32 + at, n);
    else
      by = get(a.dy);
    if (a.add) {
      by = ts_cols_sum(by, get(a.add));
      if (a.t) ts_cols_put<V, WIDE>((T *)a.dy + at, n, by);
    }
    if (a.t) {
      ts_cols_put<V, WIDE>((T *)a.dt + t_at, n, ts_cols_product(by, get(a.x0)));
      by = ts_cols_product(by, ts_cols_get<V, WIDE>((const T *)a.t + t_at, n));
    }
    /* In f32 with t the host stores the first term.  The other cases add it to
     * 0, which makes 0 of -0. */
    if (!a.first)
      by = ts_cols_sum(get(a.dx0), by);
    else if (!a.t || sizeof(T) == 2)
      by = ts_cols_sum(ts_cols<V>{}, by);
    ts_cols_put<V, WIDE>((T *)a.dx0 + at, n, by);
  });
}

static bool is_wide(const ts_cross_args *a, int v) {
  return a->width % v == 0 && a->stride % v == 0 && a->t_stride % v == 0 &&
         ts_cross_fits(a->x0) && ts_cross_fits(a->x) && ts_cross_fits(a->t) &&
         ts_cross_fits(a->y) && ts_cross_fits(a->y32) && ts_cross_fits(a->dy) &&
         ts_cross_fits(a->dy32) && ts_cross_fits(a->dx0) &&
         ts_cross_fits(a->dt) && ts_cross_fits(a->add);
}

template <class T, bool WIDE>
static ts_err start(const ts_cross_args *a, bool back) {
  const ts_cuda_shape shape =
      ts_cross_shape<16 / sizeof(T)>(a->batch, a->width);
  if (back) return TS_CUDA_LAUNCH((ts_cross_grad_kernel<T, WIDE>), shape, *a);
  return TS_CUDA_LAUNCH((ts_cross_kernel<T, WIDE>), shape, *a);
}

template <class T> static ts_err launch(const ts_cross_args *a, bool back) {
  if (a->batch == 0 || a->width == 0) return TS_OK;
  return is_wide(a, 16 / sizeof(T)) ? start<T, true>(a, back)
                                    : start<T, false>(a, back);
}

ts_err ts_cuda_cross_forward(const ts_cross_args *a) {
  return a->half ? launch<uint16_t>(a, false) : launch<float>(a, false);
}

ts_err ts_cuda_cross_backward(const ts_cross_args *a) {
  return a->half ? launch<uint16_t>(a, true) : launch<float>(a, true);
}
