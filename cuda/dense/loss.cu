/* loss.cu - the losses of tasks (dense/kernels.h) and the sums of
 * metrics (dense/tally.h) on the GPU.
 *
 * The loss is the host's, in double and in its order: blocks of 1024 pairs,
 * summed one by one, then block by block.  Its bits are the host's, except
 * that exp, log and log1p may differ in their last place.
 *
 * Sums of metrics have an order of their own, which depends on nothing but the
 * number of samples: four by a thread, threads by a tree, blocks one by one. */
#include <math.h>

#include "cuda/runtime/cuda_impl.h"
#include "cuda/runtime/scan.cuh"

extern "C" {
#include "dense/loss_pair.h"
#include "dense/tally.h"
}

enum {
  TS_LOSS_THREADS = TS_SCAN_BLOCK,
  TS_LOSS_EACH = TS_SCAN_EACH,
  TS_LOSS_BLOCK = TS_LOSS_THREADS * TS_LOSS_EACH,
  TS_LOSS_TASKS = 64 /* tasks that a launch can have */
};
static_assert(TS_LOSS_BLOCK == 1024, "the host's blocks");

/* ---- losses -------------------------------------------------------------- */

struct ts_loss_params {
  ts_loss_args a;
  bool has_tasks; /* not bce of weight 1 alone */
  ts_task_loss task[TS_LOSS_TASKS];
};

/* One pair; its part of the sum. */
static __device__ __forceinline__ double ts_loss_one(const ts_loss_params &p,
                                                     int64_t i) {
  const ts_loss_args &a = p.a;
  const int k = (int)(i % a.n_tasks);
  const ts_task_loss *task = p.has_tasks ? &p.task[k] : NULL;
  const double y = __ldg(a.labels + i);
  const float own = a.weights ? __ldg(a.weights + i / a.n_tasks) : 1.0f;
  const double w = ts_loss_weight(task, a.log_variance, k, own);
  const bool counts = !isnan(y);
  const int64_t at = ts_loss_place(&a, task, i / a.n_tasks, k);
  if (task && task->classes) return ts_loss_classes(&a, task, at, y, w);
  const ts_loss_pair x = ts_loss_of(task, __ldg(a.logits + at), y);
  if (a.grad) a.grad[at] = counts ? (float)(w * x.slope * a.scale) : 0.0f;
  if (a.prediction) a.prediction[at] = (float)x.prediction;
  return counts ? w * x.loss : 0;
}

static __global__ void __launch_bounds__(TS_LOSS_THREADS)
    ts_loss_kernel(const __grid_constant__ ts_loss_params p, double *sums) {
  __shared__ double part[TS_LOSS_BLOCK];
  const int64_t from = (int64_t)blockIdx.x * TS_LOSS_BLOCK;
  const int64_t left = p.a.batch * p.a.n_tasks - from;
  const int n = left < TS_LOSS_BLOCK ? (int)left : (int)TS_LOSS_BLOCK;
  for (int k = (int)threadIdx.x; k < n; k += TS_LOSS_THREADS)
    part[k] = ts_loss_one(p, from + k);
  __syncthreads();
  if (threadIdx.x) return;
  double sum = 0;
  for (int k = 0; k < n; k++) sum += part[k];
  sums[blockIdx.x] = sum;
}

/* *TO = the N sums, one by one; one block. */
static __global__ void __launch_bounds__(TS_LOSS_THREADS)
    ts_loss_sum_kernel(double *to, const double *sums, int64_t n) {
  __shared__ double part[TS_LOSS_BLOCK];
  double sum = 0;
  for (int64_t from = 0; from < n; from += TS_LOSS_BLOCK) {
    const int m = n - from < TS_LOSS_BLOCK ? (int)(n - from) : TS_LOSS_BLOCK;
    for (int k = (int)threadIdx.x; k < m; k += TS_LOSS_THREADS)
      part[k] = sums[from + k];
    __syncthreads();
    for (int k = 0; threadIdx.x == 0 && k < m; k++) sum += part[k];
    __syncthreads();
  }
  if (threadIdx.x == 0) *to = sum;
}

/* The learnt log variance s of a task adds s / 2 for each weight to the loss;
 * and its gradient.  One block has one task, and its threads add up by a tree:
 * the order depends on the number of samples alone. */
static __global__ void __launch_bounds__(TS_LOSS_THREADS)
    ts_loss_learn_kernel(const __grid_constant__ ts_loss_params p,
                         double *added) {
  __shared__ double sums[TS_LOSS_THREADS], weights[TS_LOSS_THREADS];
  const ts_loss_args &a = p.a;
  const int k = (int)blockIdx.x, me = (int)threadIdx.x;
  const ts_task_loss *task = &p.task[k];
  double sum = 0, weight = 0;
  for (int64_t b = me; task->learnt && b < a.batch; b += TS_LOSS_THREADS) {
    const float own = a.weights ? __ldg(a.weights + b) : 1.0f;
    const double y = __ldg(a.labels + b * a.n_tasks + k);
    weight += own;
    sum += ts_loss_weight(task, a.log_variance, k, own) *
           ts_loss_alone(&a, task, ts_loss_place(&a, task, b, k), y);
  }
  sums[me] = sum;
  weights[me] = weight;
  for (int by = TS_LOSS_THREADS / 2; by > 0; by /= 2) {
    __syncthreads();
    if (me >= by) continue;
    sums[me] += sums[me + by];
    weights[me] += weights[me + by];
  }
  if (me) return;
  if (a.log_variance_grad)
    a.log_variance_grad[k] = (float)((0.5 * weights[0] - sums[0]) * a.scale);
  added[k] = task->learnt ? 0.5 * weights[0] * a.log_variance[k] : 0;
}

static_assert(sizeof(ts_loss_params) + 8 <= 4096, "too many tasks");

ts_err ts_cuda_loss(const ts_loss_args *a) {
  ts_err err = TS_OK;
  double *sums = NULL;
  ts_loss_params p = {};
  const int64_t n = a->batch * a->n_tasks;
  const int64_t n_blocks = ts_ceil_div(n, TS_LOSS_BLOCK);
  const int64_t n_learnt = a->log_variance ? a->n_tasks : 0;
  const size_t bytes = (size_t)(n_blocks + n_learnt) * sizeof(double);
  p.a = *a;
  p.a.tasks = NULL; /* the host's */
  p.has_tasks = a->tasks != NULL;
  if (p.has_tasks && a->n_tasks > TS_LOSS_TASKS)
    return ts_fail(TS_ERR_DECK,
                   "model.tasks: the loss of %d tasks with weights; a GPU "
                   "takes %d",
                   a->n_tasks, (int)TS_LOSS_TASKS);
  for (int32_t k = 0; p.has_tasks && k < a->n_tasks; k++)
    p.task[k] = a->tasks[k];
  TS_TRY(ts_cuda_take(&sums, bytes, TS_TAG_ACTIVATIONS));
  if (n)
    TS_TRY(TS_CUDA_LAUNCH(ts_loss_kernel, {(unsigned)n_blocks, TS_LOSS_THREADS},
                          p, sums));
  if (n_learnt)
    TS_TRY(TS_CUDA_LAUNCH(ts_loss_learn_kernel,
                          {(unsigned)n_learnt, TS_LOSS_THREADS}, p,
                          sums + n_blocks));
  TS_TRY(TS_CUDA_LAUNCH(ts_loss_sum_kernel, {1, TS_LOSS_THREADS}, a->loss_sum,
                        sums, n_blocks + n_learnt));
done:
  ts_cuda_give(sums, bytes, TS_TAG_ACTIVATIONS);
  return err;
}

/* ---- metrics ------------------------------------------------------------- */

enum { TS_TALLY_SUMS = sizeof(ts_metric_sums) / sizeof(double) };

/* A block's samples: their sums, how many count, and how many do before it. */
struct ts_tally_part {
  double sum[TS_TALLY_SUMS];
  int64_t n, before;
};

/* A batch: how many samples count, and the ring's place for the first. */
struct ts_tally_head {
  int64_t n, first;
};

static __device__ __forceinline__ float ts_tally_weight(const ts_tally_args &a,
                                                        int64_t i) {
  if (i >= a.n || !ts_tally_counts(&a, __ldg(a.label + i * a.stride)))
    return 0.0f;
  return a.weight ? __ldg(a.weight + i) : 1.0f;
}

static __device__ __forceinline__ ts_metric_sample
ts_tally_sample(const ts_tally_args &a, int64_t i) {
  return ts_tally_of(&a, i, ts_tally_weight(a, i));
}

static __device__ __forceinline__ void
ts_tally_add(double *s, ts_metric_sample x, bool classes) {
  const double p = x.p, y = x.y, w = x.w, low = 1e-12;
  const double q = p < low ? low : p > 1 - low ? 1 - low : p;
  s[0] += 1;
  s[1] += w;
  s[2] += w * y;
  s[3] += w * p;
  s[4] -= w * (classes ? log(q) : y * log(q) + (1 - y) * log1p(-q));
  s[5] += w * (classes ? y : (p >= 0.5) == (y >= 0.5));
}

static __global__ void __launch_bounds__(TS_LOSS_THREADS)
    ts_tally_kernel(const __grid_constant__ ts_tally_args a,
                    ts_tally_part *parts) {
  __shared__ double warps[TS_LOSS_THREADS / 32][TS_TALLY_SUMS];
  const int64_t first =
      ((int64_t)blockIdx.x * TS_LOSS_THREADS + threadIdx.x) * TS_LOSS_EACH;
  double s[TS_TALLY_SUMS] = {0};
  for (int e = 0; e < TS_LOSS_EACH; e++)
    if (ts_tally_weight(a, first + e) != 0)
      ts_tally_add(s, ts_tally_sample(a, first + e), a.classes > 0);
  for (int k = 0; k < TS_TALLY_SUMS; k++)
    for (int by = 16; by > 0; by /= 2)
      s[k] += __shfl_xor_sync(0xffffffff, s[k], by);
  if (threadIdx.x % 32 == 0)
    for (int k = 0; k < TS_TALLY_SUMS; k++) warps[threadIdx.x / 32][k] = s[k];
  __syncthreads();
  if (threadIdx.x >= TS_TALLY_SUMS) return;
  double sum = 0;
  for (int w = 0; w < TS_LOSS_THREADS / 32; w++) sum += warps[w][threadIdx.x];
  parts[blockIdx.x].sum[threadIdx.x] = sum;
  if (threadIdx.x == 0) parts[blockIdx.x].n = (int64_t)sum;
}

/* The parts into the sums, and where samples go; one block. */
static __global__ void __launch_bounds__(TS_LOSS_THREADS)
    ts_tally_sum_kernel(const __grid_constant__ ts_tally_args a,
                        ts_tally_part *parts, int64_t n_parts,
                        ts_tally_head *head) {
  const int k = (int)threadIdx.x;
  if (a.loss && !isfinite(*a.loss)) {
    if (k == 0) {
      *a.nan = 1;
      *head = {0, 0};
    }
    return;
  }
  double *sums = (double *)a.sums;
  if (k < TS_TALLY_SUMS) {
    double sum = 0;
    for (int64_t b = 0; b < n_parts; b++) sum += parts[b].sum[k];
    sums[k] += sum;
  } else if (k == 32) {
    int64_t n = 0;
    for (int64_t b = 0; b < n_parts; b++) {
      parts[b].before = n;
      n += parts[b].n;
    }
    const ts_metric_place old = *a.place;
    const int64_t at = old.n < a.limit ? old.n : old.next;
    *head = {n, at};
    if (a.limit == 0) return;
    a.place->n = old.n + n < a.limit ? old.n + n : a.limit;
    a.place->next = old.n + n < a.limit ? 0 : (at + n) % a.limit;
  }
}

/* The newest LIMIT samples that count, each to its place. */
static __global__ void __launch_bounds__(TS_LOSS_THREADS)
    ts_tally_ring_kernel(const __grid_constant__ ts_tally_args a,
                         const ts_tally_part *parts,
                         const ts_tally_head *head) {
  const int64_t first =
      ((int64_t)blockIdx.x * TS_LOSS_THREADS + threadIdx.x) * TS_LOSS_EACH;
  int count = 0, all;
  if (!head->n) return; /* the loss was not finite, or no sample counts */
  for (int e = 0; e < TS_LOSS_EACH; e++)
    count += ts_tally_weight(a, first + e) != 0;
  int64_t i = ts_scan_block<int>(count, &all);
  i += parts[blockIdx.x].before;
  for (int e = 0; e < TS_LOSS_EACH; e++) {
    if (ts_tally_weight(a, first + e) == 0) continue;
    if (i < head->n && i >= head->n - a.limit)
      a.ring[(head->first + i) % a.limit] = ts_tally_sample(a, first + e);
    i++;
  }
}

ts_err ts_cuda_tally(const ts_tally_args *a) {
  ts_err err = TS_OK;
  ts_tally_head *head;
  ts_tally_part *parts;
  void *work = NULL;
  const int64_t n = ts_ceil_div(a->n, TS_LOSS_BLOCK);
  const size_t bytes = sizeof *head + (size_t)n * sizeof *parts;
  const ts_cuda_shape shape = {(unsigned)n, TS_LOSS_THREADS};
  TS_TRY(ts_cuda_take(&work, bytes, TS_TAG_METRICS));
  head = (ts_tally_head *)work;
  parts = (ts_tally_part *)(head + 1);
  if (n) TS_TRY(TS_CUDA_LAUNCH(ts_tally_kernel, shape, *a, parts));
  TS_TRY(TS_CUDA_LAUNCH(ts_tally_sum_kernel, {1, TS_LOSS_THREADS}, *a, parts, n,
                        head));
  if (n && a->limit)
    TS_TRY(TS_CUDA_LAUNCH(ts_tally_ring_kernel, shape, *a, parts, head));
done:
  ts_cuda_give(work, bytes, TS_TAG_METRICS);
  return err;
}
