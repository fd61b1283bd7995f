/* lookup_kernels.cuh - pooled lookup, and the gradient by each id's weight.
 *
 * A group of lanes has a run of bags (cuda/sparse/lookup_plan.h).  The run
 * is cut at
 * the borders of features, as rows have another base there; what is left, a
 * piece, is a stream of ids: lane k of the group knows the end and the place of
 * its k-th bag.  Sums go in the order of the bag and products are rounded
 * before they are added, so the bits are those of the host. */
#ifndef TS_CUDA_LOOKUP_KERNELS_CUH
#define TS_CUDA_LOOKUP_KERNELS_CUH

#include "cuda/sparse/lookup_plan.h"
#include "cuda/sparse/rows.cuh"

/* Everything by value: nothing of the caller's is read when the kernel runs
 * but what lies in device memory.  Of more than TS_LOOKUP_FEATURES features
 * bags and bases lie at FAR, in device memory, too. */
struct ts_lookup_params {
  float *out;
  const float *grad; /* of weight_grad only */
  const void *weight;
  const int64_t *at, *offsets;
  const int32_t *rows;
  const float *weights;
  int64_t items;
  int32_t dim, chunks, run, n_features;
  bool mean;
  uint32_t first_line; /* rows from here on lie line_shift bytes further */
  int64_t line_shift;
  const int64_t *far; /* (n_features + 1), (n_features); or NULL: here */
  int64_t bag_start[TS_LOOKUP_FEATURES + 1]; /* from the first bag on */
  int64_t row_base[TS_LOOKUP_FEATURES];
};
static_assert(sizeof(ts_lookup_params) <= 4096, "kernel parameters");

/* The first bag of feature F; the first row of its table. */
static __device__ __forceinline__ int64_t
ts_first_bag(const ts_lookup_params &p, int f) {
  return p.far ? __ldg(p.far + f) : p.bag_start[f];
}
static __device__ __forceinline__ int64_t
ts_first_row(const ts_lookup_params &p, int f) {
  return p.far ? __ldg(p.far + p.n_features + 1 + f) : p.row_base[f];
}

/* ---- pieces of runs ------------------------------------------------------ */

/* The last feature that begins at BAG or before. */
static __device__ __forceinline__ int ts_feature_of(const ts_lookup_params &p,
                                                    int64_t bag) {
  int low = 0, n = p.n_features;
  while (n > 1) {
    const int half = n / 2;
    if (ts_first_bag(p, low + half) <= bag) low += half;
    n -= half;
  }
  return low;
}

/* N bags of one feature from BAG on, ids counted from FROM. */
struct ts_piece {
  int64_t bag, from, row_base;
  int n;
  uint32_t n_ids;
  /* the lane's own bag: where its ids end, where its row lies, 1 / length */
  uint32_t end;
  int64_t at;
  float share;
};

static __device__ __forceinline__ ts_piece
ts_piece_of(const ts_lookup_params &p, int64_t bag, int n, int64_t row_base,
            int lane, int lanes, uint32_t mask) {
  ts_piece s;
  s.bag = bag, s.n = n, s.row_base = row_base;
  s.from = __ldg(p.offsets + bag);
  s.end = 0xffffffff, s.at = 0, s.share = 1;
  if (lane < n) {
    s.end = (uint32_t)(__ldg(p.offsets + bag + lane + 1) - s.from);
    s.at = __ldg(p.at + bag + lane);
  }
  s.n_ids = __shfl_sync(mask, s.end, n - 1, lanes);
  if (p.mean) {
    const uint32_t before = __shfl_up_sync(mask, s.end, 1, lanes);
    const uint32_t length = s.end - (lane > 0 ? before : 0);
    if (length > 0) s.share = __fdiv_rn(1.0f, (float)length);
  }
  return s;
}

/* Calls body(piece, chunk) for all pieces of the group's runs. */
template <int LANES, class Body>
static __device__ __forceinline__ void ts_for_pieces(const ts_lookup_params &p,
                                                     uint32_t mask, Body body) {
  const int lane = (int)threadIdx.x % LANES;
  const int group = (int)threadIdx.x / LANES;
  const int64_t begin = ts_first_bag(p, 0);
  const int64_t last = ts_first_bag(p, p.n_features);
  for (unsigned round = 0;; round++) {
    int64_t run = blockIdx.x + (int64_t)round * gridDim.x;
    int32_t chunk = 0;
    if (run >= p.items) return;
    if (p.chunks > 1) { /* of one run, side by side: they share its ids */
      const int64_t item = run;
      run = item / p.chunks;
      chunk = (int32_t)(item - run * p.chunks);
    }
    run = run * (TS_LOOKUP_THREADS / LANES) + group;
    const int64_t first = begin + run * p.run;
    const int n = (int)(last - first < p.run ? last - first : p.run);
    int f = n > 0 ? ts_feature_of(p, first) : 0;
    for (int done = 0, stop; done < n; done = stop) {
      while (ts_first_bag(p, f + 1) <= first + done) f++;
      const int64_t left = ts_first_bag(p, f + 1) - first;
      stop = left < n ? (int)left : n;
      body(ts_piece_of(p, first + done, stop - done, ts_first_row(p, f), lane,
                       LANES, mask),
           chunk);
    }
  }
}

/* Lanes of this thread's group. */
template <int LANES>
static __device__ __forceinline__ uint32_t ts_group_mask() {
  if (LANES == 32) return 0xffffffff;
  const int first = (int)(threadIdx.x % 32) / LANES * LANES;
  return ((1u << LANES % 32) - 1) << first;
}

/* Row ROW of a table, or a line in its place. */
template <class Raw>
static __device__ __forceinline__ const Raw *
ts_row_of(const ts_lookup_params &p, const Raw *table, uint32_t row,
          uint32_t pitch) {
  const Raw *at = table + (uint64_t)row * pitch;
  return row >= p.first_line ? (const Raw *)((const char *)at + p.line_shift)
                             : at;
}

/* ---- lookup -------------------------------------------------------------- */

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

/* ---- gradient by the weight ---------------------------------------------- */

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

#endif
