/* loss.c - the losses of tasks, in double per sample; summed in blocks of 1024
 * samples, whatever the number of threads. */
#include "dense/loss_pair.h"

#include "base/mem.h"
#include "dense/update.h"

enum { BLOCK = 1024, FEW = 512 }; /* FEW blocks' sums need no allocation */

static float own_weight(const ts_loss_args *a, int64_t b) {
  return a->weights ? a->weights[b] : 1.0f;
}

static double loss_block(const ts_loss_args *a, int64_t from, int64_t to) {
  double sum = 0;
  int64_t b = from / a->n_tasks;
  int32_t k = (int32_t)(from % a->n_tasks);
  for (int64_t i = from; i < to; i++) {
    const ts_task_loss *task = a->tasks ? &a->tasks[k] : NULL;
    const double y = a->labels[i];
    const bool counts = !isnan(y);
    const double w = ts_loss_weight(task, a->log_variance, k, own_weight(a, b));
    const int64_t at = ts_loss_place(a, task, b, k);
    if (task && task->classes) {
      sum += ts_loss_classes(a, task, at, y, w);
    } else {
      const ts_loss_pair x = ts_loss_of(task, a->logits[at], y);
      if (counts) sum += w * x.loss;
      if (a->grad)
        a->grad[at] = counts ? (float)(w * x.slope * a->scale) : 0.0f;
      if (a->prediction) a->prediction[at] = (float)x.prediction;
    }
    if (++k == a->n_tasks) k = 0, b++;
  }
  return sum;
}

/* The learnt log variance s of task K adds s / 2 for each weight to the loss:
 * that sum, and the gradient. */
static double learn(const ts_loss_args *a, int32_t k) {
  const ts_task_loss *task = &a->tasks[k];
  double sum = 0, weight = 0;
  for (int64_t b = 0; task->learnt && b < a->batch; b++) {
    const float own = own_weight(a, b);
    const double y = a->labels[b * a->n_tasks + k];
    weight += own;
    sum += ts_loss_weight(task, a->log_variance, k, own) *
           ts_loss_alone(a, task, ts_loss_place(a, task, b, k), y);
  }
  if (a->log_variance_grad)
    a->log_variance_grad[k] = (float)((0.5 * weight - sum) * a->scale);
  return task->learnt ? 0.5 * weight * a->log_variance[k] : 0;
}

ts_err ts_loss_host(const ts_loss_args *a) {
  ts_err err = TS_OK;
  double few[FEW], *sums = few, *more = NULL;
  const int64_t n = a->batch * a->n_tasks;
  const int64_t n_blocks = (n + BLOCK - 1) / BLOCK;
  if (n_blocks > FEW) {
    TS_TRY(ts_mem_many(more, n_blocks, ACTIVATIONS));
    sums = more;
  }
#pragma omp parallel for schedule(static)
  for (int64_t k = 0; k < n_blocks; k++)
    sums[k] =
        loss_block(a, k * BLOCK, (k + 1) * BLOCK < n ? (k + 1) * BLOCK : n);
  double total = 0;
  for (int64_t k = 0; k < n_blocks; k++) total += sums[k];
  for (int32_t k = 0; a->log_variance && k < a->n_tasks; k++)
    total += learn(a, k);
  *a->loss_sum = total;
done:
  ts_mem_free(more);
  return err;
}
