/* lookup.cu - the pooled lookup. */
#include "cuda/sparse/lookup.cuh"

/* The sum of a bag that a group is at: V columns from COL on in each lane. */
template <int V, int LANES> struct ts_bag_sum {
  const ts_lookup_params &p;
  const ts_piece &s;
  uint32_t mask;
  int32_t col;
  int k;        /* bag of the piece */
  uint32_t end; /* of its ids */
  float sum[V];

  __device__ __forceinline__ ts_bag_sum(const ts_lookup_params &params,
                                        const ts_piece &piece, uint32_t group,
                                        int32_t column)
      : p(params), s(piece), mask(group), col(column), k(0) {
    end = __shfl_sync(mask, s.end, 0, LANES);
#pragma unroll
    for (int v = 0; v < V; v++) sum[v] = 0;
  }
  /* Writes the bag and goes to the next. */
  __device__ __forceinline__ void finish() {
    const int64_t at = __shfl_sync(mask, (long long)s.at, k, LANES);
    if (p.mean) {
      const float m = __shfl_sync(mask, s.share, k, LANES);
#pragma unroll
      for (int v = 0; v < V; v++) sum[v] = __fmul_rn(sum[v], m);
    }
    if (col < p.dim) ts_floats_store<V>(p.out + at + col, sum);
#pragma unroll
    for (int v = 0; v < V; v++) sum[v] = 0;
    if (++k < s.n) end = __shfl_sync(mask, s.end, k, LANES);
  }
};

/* Rows that a lane asks for before it sums. */
enum { TS_LOOKUP_AHEAD = 8 };

/* Ids, or weights, of the next TS_LOOKUP_AHEAD places, spread over lanes.
 * Beyond the last place they are the last one's. */
template <class T, int LANES> struct ts_spread {
  enum { EACH = LANES < TS_LOOKUP_AHEAD ? TS_LOOKUP_AHEAD / LANES : 1 };
  T x[EACH];
  __device__ __forceinline__ void load(const T *p, int64_t from, uint32_t i,
                                       uint32_t n, int lane) {
#pragma unroll
    for (int e = 0; e < EACH; e++) {
      const uint32_t at = i + (uint32_t)(lane + LANES * e);
      x[e] = __ldg(p + (from + (at < n ? at : n - 1)));
    }
  }
  __device__ __forceinline__ T get(uint32_t mask, int u) const {
    return __shfl_sync(mask, x[u / LANES % EACH], u % LANES, LANES);
  }
};

/* The piece's ids as one stream, N > 0 of them.  Loads are never conditional:
 * the compiler would wait for each, to merge it with what was there.  So the
 * last ones ask for the last row again, which is on its way. */
template <class Row, int V, int LANES, bool WEIGHTED>
static __device__ __forceinline__ void
ts_lookup_ids(const ts_lookup_params &p, const ts_piece &s,
              ts_bag_sum<V, LANES> &bag, uint32_t mask) {
  typedef typename ts_raw<V * sizeof(typename Row::bits)>::type Raw;
  const int lane = (int)threadIdx.x % LANES;
  const uint32_t n = s.n_ids, pitch = (uint32_t)(p.dim / V);
  /* Lanes beyond the row read what the first reads, and write nothing. */
  const Raw *table =
      ts_kept((const Raw *)p.weight + s.row_base * (int64_t)pitch +
              (bag.col < p.dim ? bag.col : 0) / V);
  ts_spread<int32_t, LANES> id, next_id;
  ts_spread<float, LANES> weight, next_weight;
  next_id.load(p.rows, s.from, 0, n, lane);
  if (WEIGHTED) next_weight.load(p.weights, s.from, 0, n, lane);
  for (uint32_t i = 0; i < n; i += TS_LOOKUP_AHEAD) {
    Raw raw[TS_LOOKUP_AHEAD];
    id = next_id;
    next_id.load(p.rows, s.from, i + TS_LOOKUP_AHEAD, n, lane);
#pragma unroll
    for (int u = 0; u < TS_LOOKUP_AHEAD; u++)
      raw[u] =
          ts_row_load(ts_row_of(p, table, (uint32_t)id.get(mask, u), pitch));
    if (WEIGHTED) {
      weight = next_weight;
      next_weight.load(p.weights, s.from, i + TS_LOOKUP_AHEAD, n, lane);
    }
#pragma unroll
    for (int u = 0; u < TS_LOOKUP_AHEAD; u++) {
      const float w = WEIGHTED ? weight.get(mask, u) : 1;
      if (i + u >= n) break;
      while (i + u == bag.end) bag.finish();
#pragma unroll
      for (int v = 0; v < V; v++) {
        const float x = ts_raw_float<Row>(raw[u], v);
        bag.sum[v] = __fadd_rn(bag.sum[v], WEIGHTED ? __fmul_rn(w, x) : x);
      }
    }
  }
}

template <class Row, int V, int LANES, bool WEIGHTED>
static __device__ __forceinline__ void
ts_lookup_piece(const ts_lookup_params &p, const ts_piece &s, int32_t chunk,
                uint32_t mask) {
  const int lane = (int)threadIdx.x % LANES;
  ts_bag_sum<V, LANES> bag(p, s, mask, (chunk * LANES + lane) * V);
  if (s.n_ids > 0) ts_lookup_ids<Row, V, LANES, WEIGHTED>(p, s, bag, mask);
  while (bag.k < s.n) bag.finish();
}

template <class Row, int V, int LANES, bool WEIGHTED>
__global__ void __launch_bounds__(TS_LOOKUP_THREADS,
                                  TS_LOOKUP_RESIDENT / TS_LOOKUP_THREADS)
    ts_lookup_kernel(const __grid_constant__ ts_lookup_params p) {
  const uint32_t mask = ts_group_mask<LANES>();
  ts_for_pieces<LANES>(p, mask, [&](const ts_piece &s, int32_t chunk) {
    ts_lookup_piece<Row, V, LANES, WEIGHTED>(p, s, chunk, mask);
  });
}

/* ---- launches ------------------------------------------------------------ */

struct lookup_start {
  ts_lookup_plan plan;
  decltype(ts_lookup_plan_of) *plan_of = ts_lookup_plan_of;

  template <class Row, int V, int LANES>
  ts_err launch(const ts_lookup_params &p) const {
    const ts_cuda_shape shape = {plan.blocks, TS_LOOKUP_THREADS};
    if (p.weights)
      return TS_CUDA_LAUNCH((ts_lookup_kernel<Row, V, LANES, true>), shape, p);
    return TS_CUDA_LAUNCH((ts_lookup_kernel<Row, V, LANES, false>), shape, p);
  }
  /* As ts_lookup_lanes has them. */
  template <class Row, int V> ts_err run(const ts_lookup_params &p) const {
    const bool wide = V * sizeof(typename Row::bits) == 16;
    if constexpr (wide || V == 1)
      if (plan.lanes == 4) return launch<Row, V, 4>(p);
    if constexpr (wide || V == 4)
      if (plan.lanes == 8) return launch<Row, V, 8>(p);
    if constexpr (wide)
      if (plan.lanes == 16) return launch<Row, V, 16>(p);
    return launch<Row, V, 32>(p);
  }
};

ts_err ts_cuda_lookup(const ts_lookup_args *a) {
  return ts_lookup_launch(lookup_start(), a, a->out, NULL);
}
