/* lookup.cuh - what the pooled lookup (lookup.cu) and the gradient by each
 * id's weight (weight_grad.cu) share: parameters, pieces of bags, the choice of
 * an instance.
 *
 * A group of lanes has a run of bags (cuda/sparse/lookup_plan.h).  The run is
 * cut at the borders of features, as rows have another base there; what is
 * left, a piece, is a stream of ids: lane k of the group knows the end and the
 * place of its k-th bag.  Sums go in the order of the bag and products are
 * rounded before they are added, so the bits are those of the host.
 *
 * Bags and bases of features are copied into the kernel's parameters, so the
 * arguments may go as soon as an entry returns.  There is room for 240
 * features; those of more are put into device memory before, so that a group
 * has one launch of the lookup, however many features it has. */
#pragma once

#include <string.h>

#include "cuda/sparse/features.cuh"
#include "cuda/sparse/lookup_plan.h"
#include "cuda/sparse/rows.cuh"

/* Everything by value: nothing of the caller's is read when the kernel runs
 * but device memory.  Bags and bases of more than TS_LOOKUP_FEATURES features
 * lie at FAR, in device memory, too. */
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

/* The feature that has BAG. */
static __device__ __forceinline__ int ts_feature_of(const ts_lookup_params &p,
                                                    int64_t bag) {
  return ts_last_at(p.n_features, bag,
                    [&](int f) { return ts_first_bag(p, f); });
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

/* Row ROW of rows in few bits from P.weight on, whose pitch is in words. */
static __device__ __forceinline__ const uint32_t *
ts_few_row_of(const ts_lookup_params &p, int64_t base, uint32_t row,
              uint32_t pitch) {
  return ts_row_of(p, (const uint32_t *)p.weight + base * (int64_t)pitch, row,
                   pitch);
}

/* ---- launches ------------------------------------------------------------ */

inline void ts_lookup_fill(ts_lookup_params *p, const ts_lookup_args *a,
                           const int64_t *far, const ts_lookup_plan *plan) {
  const size_t n = (size_t)a->n_features;
  p->weight = a->weight;
  p->at = a->at;
  p->offsets = a->offsets;
  p->rows = a->rows;
  p->weights = a->weights;
  p->items = plan->items;
  p->dim = a->dim;
  p->chunks = plan->chunks;
  p->run = plan->run;
  p->n_features = a->n_features;
  p->mean = a->mean;
  p->first_line = UINT32_MAX;
  p->line_shift = 0;
  if (a->lines) { /* no part of the same array: addresses alone are counted */
    p->first_line = a->first_line;
    p->line_shift = (int64_t)(uintptr_t)a->lines -
                    (int64_t)(uintptr_t)a->weight -
                    (int64_t)a->first_line * ts_row_bytes(a->dtype, a->dim);
  }
  p->far = far;
  if (far) return;
  memcpy(p->bag_start, a->bag_start, sizeof(int64_t) * (n + 1));
  memcpy(p->row_base, a->row_base, sizeof(int64_t) * n);
}

/* start.run<Row, V>(p) for rows of DTYPE, VECTOR elements at once. */
template <class Row, class Start>
static ts_err ts_lookup_by_vector(const Start &start, const ts_lookup_params &p,
                                  int vector) {
  if constexpr (sizeof(typename Row::bits) == 2)
    if (vector == 8) return start.template run<Row, 8>(p);
  if (vector == 4) return start.template run<Row, 4>(p);
  return start.template run<Row, 1>(p);
}

template <class Start>
static ts_err ts_lookup_by_type(const Start &start, const ts_lookup_params &p,
                                ts_dtype dtype, int vector) {
  switch (dtype) {
  case TS_F32:
    return ts_lookup_by_vector<ts_row_f32>(start, p, vector);
  case TS_BF16:
    return ts_lookup_by_vector<ts_row_bf16>(start, p, vector);
  case TS_F16:
    return ts_lookup_by_vector<ts_row_f16>(start, p, vector);
  case TS_INT8:
    return start.template few<ts_row_int8>(p);
  case TS_INT4:
    return start.template few<ts_row_int4>(p);
  default:
    return ts_fail(TS_ERR_INTERNAL, "lookup in rows of %s",
                   ts_dtype_name(dtype));
  }
}

/* One launch for the bags of A.  START has the plan, the function that makes
 * it, and run. */
template <class Start>
static ts_err ts_lookup_launch(Start start, const ts_lookup_args *a, float *out,
                               const float *grad) {
  /* Vectors are those that rows and lines both lie on. */
  const void *both = (const void *)((uintptr_t)a->weight | (uintptr_t)a->lines);
  const ts_cuda_gpu *gpu = ts_cuda_gpu_now();
  const ts_lookup_machine m = {gpu->n_sms, gpu->grid_max};
  return ts_with_features(a, TS_LOOKUP_FEATURES, [&](const int64_t *far) {
    ts_lookup_params p = {};
    start.plan =
        start.plan_of(a->dtype, a->dim, both,
                      a->bag_start[a->n_features] - a->bag_start[0], &m);
    ts_lookup_fill(&p, a, far, &start.plan);
    p.out = out;
    p.grad = grad;
    return ts_lookup_by_type(start, p, a->dtype, start.plan.vector);
  });
}
