/* weight_grad.cu - the gradient of a pooled lookup by its ids' weights. */
#include "cuda/sparse/lookup.cuh"

/* A row's sum has 16 parts, column modulo 16.  V of them lie in a lane, so
 * 16 / V lanes have an id.  These are added as the host adds them: 8 apart,
 * 4, 2, 1. */
template <int V>
static __device__ __forceinline__ float ts_sum_parts(float *x) {
#pragma unroll
  for (int apart = 8; apart >= 1; apart /= 2) {
#pragma unroll
    for (int v = 0; v < (apart >= V ? V : apart); v++)
      x[v] = __fadd_rn(x[v], apart >= V
                                 ? __shfl_xor_sync(0xffffffff, x[v], apart / V)
                                 : x[(v + apart) % V]);
  }
  return x[0];
}

/* N steps of 16 columns of the dot product, all rows' loads first. */
template <class Row, int V, int N, class Raw>
static __device__ __forceinline__ void
ts_dot_steps(float *part, const Raw *row, const float *grad, int64_t d) {
  Raw raw[N];
#pragma unroll
  for (int u = 0; u < N; u++) raw[u] = ts_row_load(row + (d + 16 * u) / V);
#pragma unroll
  for (int u = 0; u < N; u++) {
    float g[V];
    ts_floats_load<V>(g, grad + d + 16 * u);
#pragma unroll
    for (int v = 0; v < V; v++)
      part[v] =
          __fadd_rn(part[v], __fmul_rn(ts_raw_float<Row>(raw[u], v), g[v]));
  }
}

/* The dot product of a row and a gradient, from column D = FIRST on.  All lanes
 * of the warp are here and make whole steps together. */
template <class Row, int V, class Raw>
static __device__ __forceinline__ float
ts_dot_row(const Raw *row, const float *grad, int32_t dim, int32_t first) {
  int64_t d = first;
  int32_t steps = dim / 16;
  float part[V];
#pragma unroll
  for (int v = 0; v < V; v++) part[v] = 0;
  for (; steps >= 8; steps -= 8, d += 128)
    ts_dot_steps<Row, V, 8>(part, row, grad, d);
  if (steps & 4) ts_dot_steps<Row, V, 4>(part, row, grad, d), d += 64;
  if (steps & 2) ts_dot_steps<Row, V, 2>(part, row, grad, d), d += 32;
  if (steps & 1) ts_dot_steps<Row, V, 1>(part, row, grad, d), d += 16;
  if (d < dim) ts_dot_steps<Row, V, 1>(part, row, grad, d);
  return ts_sum_parts<V>(part);
}

/* Which bag of the piece id I belongs to, for each lane its own. */
static __device__ __forceinline__ int ts_bag_of(const ts_piece &s, uint32_t i) {
  int k = 0;
#pragma unroll
  for (int step = 16; step >= 1; step /= 2)
    if (__shfl_sync(0xffffffff, s.end, k + step - 1) <= i) k += step;
  return k;
}

template <class Row, int V>
static __device__ __forceinline__ void
ts_weight_grad_piece(const ts_lookup_params &p, const ts_piece &s) {
  typedef typename ts_raw<V * sizeof(typename Row::bits)>::type Raw;
  enum { LANES = 16 / V, IDS = 32 / LANES };
  const uint32_t lane = threadIdx.x % 32, full = 0xffffffff;
  const uint32_t pitch = (uint32_t)(p.dim / V);
  const Raw *table =
      ts_kept((const Raw *)p.weight + s.row_base * (int64_t)pitch);
  for (uint32_t i = 0; i < s.n_ids; i += IDS) {
    /* Lanes beyond the last id do it once more and write nothing. */
    const uint32_t own = i + lane / LANES;
    const uint32_t id = own < s.n_ids ? own : s.n_ids - 1;
    const int k = ts_bag_of(s, id);
    const float *grad = p.grad + __shfl_sync(full, (long long)s.at, k);
    const float share = __shfl_sync(full, s.share, k);
    const uint32_t row = (uint32_t)__ldg(p.rows + (s.from + id));
    const float dot = ts_dot_row<Row, V>(ts_row_of(p, table, row, pitch), grad,
                                         p.dim, (int32_t)(lane % LANES) * V);
    if (own < s.n_ids && lane % LANES == 0)
      p.out[s.from + own] = __fmul_rn(share, dot);
  }
}

template <class Row, int V>
__global__ void __launch_bounds__(TS_LOOKUP_THREADS,
                                  TS_LOOKUP_RESIDENT / TS_LOOKUP_THREADS)
    ts_weight_grad_kernel(const __grid_constant__ ts_lookup_params p) {
  ts_for_pieces<32>(p, 0xffffffff, [&](const ts_piece &s, int32_t) {
    ts_weight_grad_piece<Row, V>(p, s);
  });
}

/* ---- rows in few bits ---------------------------------------------------- */

/* As ts_dot_row; columns behind the row add nothing. */
template <class Row>
static __device__ __forceinline__ float
ts_dot_few(const uint32_t *row, const float *grad, int32_t dim, int32_t first) {
  enum { V = Row::V };
  const ts_few_tail tail = ts_few_tail_of(row, V == 4 ? dim : (dim + 1) / 2);
  float part[V];
#pragma unroll
  for (int v = 0; v < V; v++) part[v] = 0;
  for (int32_t d = first; d < dim; d += 16) {
    const uint32_t word = __ldg(row + d / V);
#pragma unroll
    for (int v = 0; v < V; v++) {
      if (d + v >= dim) break;
      const float x =
          fmaf(ts_few_number<Row::dtype>(word, v), tail.scale, tail.bias);
      part[v] = __fadd_rn(part[v], __fmul_rn(x, __ldg(grad + d + v)));
    }
  }
  return ts_sum_parts<V>(part);
}

template <class Row>
static __device__ __forceinline__ void
ts_weight_grad_few(const ts_lookup_params &p, const ts_piece &s) {
  enum { LANES = 16 / Row::V, IDS = 32 / LANES };
  const uint32_t lane = threadIdx.x % 32, full = 0xffffffff;
  const uint32_t pitch = ts_few_pitch(Row::dtype, p.dim);
  for (uint32_t i = 0; i < s.n_ids; i += IDS) {
    const uint32_t own = i + lane / LANES;
    const uint32_t id = own < s.n_ids ? own : s.n_ids - 1;
    const int k = ts_bag_of(s, id);
    const float *grad = p.grad + __shfl_sync(full, (long long)s.at, k);
    const float share = __shfl_sync(full, s.share, k);
    const uint32_t row = (uint32_t)__ldg(p.rows + (s.from + id));
    const float dot =
        ts_dot_few<Row>(ts_few_row_of(p, s.row_base, row, pitch), grad, p.dim,
                        (int32_t)(lane % LANES) * Row::V);
    if (own < s.n_ids && lane % LANES == 0)
      p.out[s.from + own] = __fmul_rn(share, dot);
  }
}

template <class Row>
__global__ void __launch_bounds__(TS_LOOKUP_THREADS,
                                  TS_LOOKUP_RESIDENT / TS_LOOKUP_THREADS)
    ts_weight_grad_few_kernel(const __grid_constant__ ts_lookup_params p) {
  ts_for_pieces<32>(p, 0xffffffff, [&](const ts_piece &s, int32_t) {
    ts_weight_grad_few<Row>(p, s);
  });
}

struct weight_grad_start {
  ts_lookup_plan plan;
  decltype(ts_weight_grad_plan_of) *plan_of = ts_weight_grad_plan_of;

  template <class Row, int V> ts_err run(const ts_lookup_params &p) const {
    return TS_CUDA_LAUNCH((ts_weight_grad_kernel<Row, V>),
                          {plan.blocks, TS_LOOKUP_THREADS}, p);
  }
  template <class Row> ts_err few(const ts_lookup_params &p) const {
    return TS_CUDA_LAUNCH((ts_weight_grad_few_kernel<Row>),
                          {plan.blocks, TS_LOOKUP_THREADS}, p);
  }
};

ts_err ts_cuda_weight_grad(const ts_weight_grad_args *a) {
  return ts_lookup_launch(weight_grad_start(), a->bags, a->out, a->grad);
}
