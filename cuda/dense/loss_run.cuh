/* loss_run.cuh - bce and tally as launches; RUN is who launches: a stream
 * (cuda/runtime/stream_run.cuh), or a test on the CPU. */
#ifndef TS_CUDA_LOSS_RUN_CUH
#define TS_CUDA_LOSS_RUN_CUH

#include "cuda/dense/loss_kernels.cuh"

static_assert(sizeof(ts_bce_params) + 8 <= 4096, "too many weights");

template <class Run> static ts_err ts_bce_run(const ts_bce_args *a, Run run) {
  ts_err err = TS_OK;
  void *sums = NULL;
  ts_bce_params p = {};
  const int64_t n = a->batch * a->n_tasks;
  const int64_t n_blocks = ts_ceil_div(n, TS_LOSS_BLOCK);
  const size_t bytes = (size_t)n_blocks * sizeof(double);
  p.a = *a;
  p.has_weights = a->task_weights != NULL;
  if (p.has_weights && a->n_tasks > TS_LOSS_TASKS)
    return ts_fail(TS_ERR_DECK,
                   "model.tasks: the loss of %d tasks with weights; a GPU "
                   "takes %d",
                   a->n_tasks, (int)TS_LOSS_TASKS);
  for (int32_t k = 0; p.has_weights && k < a->n_tasks; k++)
    p.task_weight[k] = (float)a->task_weights[k];
  TS_TRY(run.take(&sums, bytes));
  if (n)
    TS_TRY(run.launch(ts_bce_kernel, dim3((unsigned)n_blocks), TS_LOSS_THREADS,
                      p, (double *)sums));
  TS_TRY(run.launch(ts_bce_sum_kernel, dim3(1), TS_LOSS_THREADS, a->loss_sum,
                    (const double *)sums, n_blocks));
done:
  run.give(sums, bytes);
  return err;
}

template <class Run>
static ts_err ts_tally_run(const ts_tally_args *a, Run run) {
  ts_err err = TS_OK;
  void *work = NULL;
  const int64_t n = ts_ceil_div(a->n, TS_LOSS_BLOCK);
  const size_t bytes =
      sizeof(ts_tally_head) + (size_t)n * sizeof(ts_tally_part);
  const dim3 grid((unsigned)n);
  TS_TRY(run.take(&work, bytes));
  {
    ts_tally_head *head = (ts_tally_head *)work;
    ts_tally_part *parts = (ts_tally_part *)(head + 1);
    if (n)
      TS_TRY(run.launch(ts_tally_kernel, grid, TS_LOSS_THREADS, *a, parts));
    TS_TRY(run.launch(ts_tally_sum_kernel, dim3(1), TS_LOSS_THREADS, *a, parts,
                      n, head));
    if (n && a->limit)
      TS_TRY(run.launch(ts_tally_ring_kernel, grid, TS_LOSS_THREADS, *a,
                        (const ts_tally_part *)parts,
                        (const ts_tally_head *)head));
  }
done:
  run.give(work, bytes);
  return err;
}

#endif
