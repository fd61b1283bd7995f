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

/* ---- rows in few bits ----------------------------------------------------
 *
 * As on the host (sparse/lookup_body.h): a row adds (w scale) q, fused, to a
 * bag's columns and w bias to one number, but for the first, whose w bias they
 * begin with. */

template <class Row, int LANES> struct ts_few_sum {
  enum { V = Row::V };
  const ts_lookup_params &p;
  const ts_piece &s;
  uint32_t mask;
  int32_t col;
  int k;
  uint32_t end;
  bool empty;
  float sum[V], biases;

  __device__ __forceinline__ ts_few_sum(const ts_lookup_params &params,
                                        const ts_piece &piece, uint32_t group,
                                        int32_t column)
      : p(params), s(piece), mask(group), col(column), k(0) {
    end = __shfl_sync(mask, s.end, 0, LANES);
    begin();
  }
  __device__ __forceinline__ void begin() {
    empty = true;
    biases = 0;
#pragma unroll
    for (int v = 0; v < V; v++) sum[v] = 0;
  }
  __device__ __forceinline__ void add(uint32_t word, ts_few_tail tail,
                                      float w) {
    const float bias = __fmul_rn(w, tail.bias), by = __fmul_rn(w, tail.scale);
    if (!empty) biases = __fadd_rn(biases, bias);
#pragma unroll
    for (int v = 0; v < V; v++)
      sum[v] =
          fmaf(ts_few_number<Row::dtype>(word, v), by, empty ? bias : sum[v]);
    empty = false;
  }
  /* Writes the bag and goes to the next. */
  __device__ __forceinline__ void finish() {
    const int64_t at = __shfl_sync(mask, (long long)s.at, k, LANES);
    const float m = __shfl_sync(mask, s.share, k, LANES);
#pragma unroll
    for (int v = 0; v < V; v++)
      sum[v] = __fmul_rn(__fadd_rn(sum[v], biases), m);
    if (col + V <= p.dim)
      ts_floats_store<V>(p.out + at + col, sum);
    else
#pragma unroll
      for (int v = 0; v < V; v++)
        if (col + v < p.dim) p.out[at + col + v] = sum[v];
    begin();
    if (++k < s.n) end = __shfl_sync(mask, s.end, k, LANES);
  }
};

/* As ts_lookup_ids. */
template <class Row, int LANES, bool WEIGHTED>
static __device__ __forceinline__ void
ts_lookup_few(const ts_lookup_params &p, const ts_piece &s, int32_t chunk,
              uint32_t mask) {
  const int lane = (int)threadIdx.x % LANES;
  const uint32_t n = s.n_ids, pitch = ts_few_pitch(Row::dtype, p.dim);
  const uint32_t columns = Row::V == 4 ? p.dim : (p.dim + 1) / 2;
  ts_few_sum<Row, LANES> bag(p, s, mask, (chunk * LANES + lane) * Row::V);
  const uint32_t word = (bag.col < p.dim ? bag.col : 0) / Row::V;
  ts_spread<int32_t, LANES> id;
  ts_spread<float, LANES> weight;
  for (uint32_t i = 0; i < n; i += TS_LOOKUP_AHEAD) {
    uint32_t raw[TS_LOOKUP_AHEAD];
    ts_few_tail tail[TS_LOOKUP_AHEAD];
    id.load(p.rows, s.from, i, n, lane);
    if (WEIGHTED) weight.load(p.weights, s.from, i, n, lane);
#pragma unroll
    for (int u = 0; u < TS_LOOKUP_AHEAD; u++) {
      const uint32_t *row =
          ts_few_row_of(p, s.row_base, (uint32_t)id.get(mask, u), pitch);
      raw[u] = __ldg(row + word);
      tail[u] = ts_few_tail_of(row, columns);
    }
#pragma unroll
    for (int u = 0; u < TS_LOOKUP_AHEAD; u++) {
      const float w = WEIGHTED ? weight.get(mask, u) : 1;
      if (i + u >= n) break;
      while (i + u == bag.end) bag.finish();
      bag.add(raw[u], tail[u], w);
    }
  }
  while (bag.k < s.n) bag.finish();
}

template <class Row, int LANES, bool WEIGHTED>
__global__ void __launch_bounds__(TS_LOOKUP_THREADS,
                                  TS_LOOKUP_RESIDENT / TS_LOOKUP_THREADS)
    ts_lookup_few_kernel(const __grid_constant__ ts_lookup_params p) {
  const uint32_t mask = ts_group_mask<LANES>();
  ts_for_pieces<LANES>(p, mask, [&](const ts_piece &s, int32_t chunk) {
    ts_lookup_few<Row, LANES, WEIGHTED>(p, s, chunk, mask);
  });
}

/* ---- rows of floats ------------------------------------------------------ */

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
  template <class Row, int LANES>
  ts_err launch_few(const ts_lookup_params &p) const {
    const ts_cuda_shape shape = {plan.blocks, TS_LOOKUP_THREADS};
    if (p.weights)
      return TS_CUDA_LAUNCH((ts_lookup_few_kernel<Row, LANES, true>), shape, p);
    return TS_CUDA_LAUNCH((ts_lookup_few_kernel<Row, LANES, false>), shape, p);
  }
  template <class Row> ts_err few(const ts_lookup_params &p) const {
    if (plan.lanes == 8) return launch_few<Row, 8>(p);
    if (plan.lanes == 16) return launch_few<Row, 16>(p);
    return launch_few<Row, 32>(p);
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
