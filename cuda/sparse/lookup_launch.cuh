/* lookup_launch.cuh - from the kernels' arguments to launches: which instance,
 * how many blocks.  cuda/sparse/lookup.cu launches; tests define
 * TS_CUDA_LAUNCH and
 * run the same on the CPU.
 *
 * Bags and bases of features are copied into the kernel's parameters, so the
 * arguments may go as soon as this returns.  There is room for 240 features;
 * those of more are put into device memory before (cuda/runtime/put.cuh), so
 * that a
 * group has one launch of the lookup, however many features it has. */
#ifndef TS_CUDA_LOOKUP_LAUNCH_CUH
#define TS_CUDA_LOOKUP_LAUNCH_CUH

#include "cuda/sparse/lookup_kernels.cuh"
#include "cuda/runtime/put.cuh"

/* ---- instances ----------------------------------------------------------- */

template <class Row, int V, int LANES>
static ts_err ts_lookup_start(const ts_lookup_params &p, unsigned blocks,
                              cudaStream_t stream) {
  const dim3 grid(blocks), block(TS_LOOKUP_THREADS);
  if (p.weights)
    return TS_CUDA_LAUNCH((ts_lookup_kernel<Row, V, LANES, true>), grid, block,
                          0, stream, p);
  return TS_CUDA_LAUNCH((ts_lookup_kernel<Row, V, LANES, false>), grid, block,
                        0, stream, p);
}

/* As ts_lookup_lanes has them. */
template <class Row, int V>
static ts_err ts_lookup_by_lanes(const ts_lookup_params &p,
                                 const ts_lookup_plan *plan,
                                 cudaStream_t stream) {
  const bool wide = V * sizeof(typename Row::bits) == 16;
  if constexpr (wide || V == 1)
    if (plan->lanes == 4)
      return ts_lookup_start<Row, V, 4>(p, plan->blocks, stream);
  if constexpr (wide || V == 4)
    if (plan->lanes == 8)
      return ts_lookup_start<Row, V, 8>(p, plan->blocks, stream);
  if constexpr (wide)
    if (plan->lanes == 16)
      return ts_lookup_start<Row, V, 16>(p, plan->blocks, stream);
  return ts_lookup_start<Row, V, 32>(p, plan->blocks, stream);
}

template <class Row, int V>
static ts_err ts_weight_grad_start(const ts_lookup_params &p,
                                   const ts_lookup_plan *plan,
                                   cudaStream_t stream) {
  return TS_CUDA_LAUNCH((ts_weight_grad_kernel<Row, V>), dim3(plan->blocks),
                        dim3(TS_LOOKUP_THREADS), 0, stream, p);
}

template <class Row, int V>
static ts_err ts_lookup_by_kind(const ts_lookup_params &p,
                                const ts_lookup_plan *plan,
                                cudaStream_t stream) {
  return p.grad ? ts_weight_grad_start<Row, V>(p, plan, stream)
                : ts_lookup_by_lanes<Row, V>(p, plan, stream);
}

template <class Row>
static ts_err ts_lookup_by_vector(const ts_lookup_params &p,
                                  const ts_lookup_plan *plan,
                                  cudaStream_t stream) {
  if constexpr (sizeof(typename Row::bits) == 2)
    if (plan->vector == 8) return ts_lookup_by_kind<Row, 8>(p, plan, stream);
  if (plan->vector == 4) return ts_lookup_by_kind<Row, 4>(p, plan, stream);
  return ts_lookup_by_kind<Row, 1>(p, plan, stream);
}

/* ---- arguments ----------------------------------------------------------- */

static void ts_lookup_fill(ts_lookup_params *p, const ts_lookup_args *a,
                           const int64_t *far, const ts_lookup_plan *plan) {
  const size_t n = (size_t)a->n_features;
  p->out = a->out;
  p->grad = NULL;
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
    p->line_shift =
        (int64_t)(uintptr_t)a->lines - (int64_t)(uintptr_t)a->weight -
        (int64_t)a->first_line * a->dim * (int64_t)ts_dtype_bytes(a->dtype);
  }
  p->far = far;
  if (far) return;
  memcpy(p->bag_start, a->bag_start, sizeof(int64_t) * (n + 1));
  memcpy(p->row_base, a->row_base, sizeof(int64_t) * n);
}

/* FAR: where bags and bases have been put, or NULL. */
static ts_err ts_lookup_once(const ts_lookup_args *a,
                             const ts_weight_grad_args *g, const int64_t *far,
                             const ts_lookup_machine *m, cudaStream_t stream) {
  const int64_t n_bags = a->bag_start[a->n_features] - a->bag_start[0];
  /* Vectors are those that rows and lines both lie on. */
  const void *both = (const void *)((uintptr_t)a->weight | (uintptr_t)a->lines);
  const ts_lookup_plan plan =
      g ? ts_weight_grad_plan_of(a->dtype, a->dim, both, n_bags, m)
        : ts_lookup_plan_of(a->dtype, a->dim, both, n_bags, m);
  ts_lookup_params p = {};
  ts_lookup_fill(&p, a, far, &plan);
  if (g) p.grad = g->grad, p.out = g->out;
  switch (a->dtype) {
  case TS_F32:
    return ts_lookup_by_vector<ts_row_f32>(p, &plan, stream);
  case TS_BF16:
    return ts_lookup_by_vector<ts_row_bf16>(p, &plan, stream);
  case TS_F16:
    return ts_lookup_by_vector<ts_row_f16>(p, &plan, stream);
  default:
    return ts_fail(TS_ERR_INTERNAL, "lookup in rows of %s",
                   ts_dtype_name(a->dtype));
  }
}

/* The lookup A, or, where G is there, its gradient by the weights.  RUN gives
 * device memory in the order of STREAM (cuda/runtime/stream_run.cuh, or the
 * tests'). */
template <class RUN>
static ts_err ts_lookup_launch(RUN &run, const ts_lookup_args *a,
                               const ts_weight_grad_args *g,
                               const ts_lookup_machine *m,
                               cudaStream_t stream) {
  ts_err err = TS_OK;
  const size_t n = (size_t)a->n_features, word = sizeof(int64_t);
  void *far = NULL;
  if (n == 0 || a->bag_start[n] == a->bag_start[0]) return TS_OK;
  if (n > TS_LOOKUP_FEATURES) {
    TS_TRY(run.take(&far, (2 * n + 1) * word));
    TS_TRY(ts_put_launch(far, a->bag_start, (n + 1) * word, stream));
    TS_TRY(
        ts_put_launch((int64_t *)far + n + 1, a->row_base, n * word, stream));
  }
  TS_TRY(ts_lookup_once(a, g, (const int64_t *)far, m, stream));
done:
  if (far) run.give(far, (2 * n + 1) * word);
  return err;
}

#endif
