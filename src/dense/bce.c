/* bce.c - binary cross entropy with logits, in double per sample; summed in
 * blocks of 1024 samples, whatever the number of threads. */
#include <math.h>

#include "base/mem.h"
#include "dense/update.h"

enum { BLOCK = 1024, FEW = 512 }; /* FEW blocks' sums need no allocation */

/* The weight of sample B for task K. */
static double weight_of(const ts_bce_args *a, int64_t b, int32_t k) {
  const double own = a->weights ? a->weights[b] : 1.0;
  if (!a->task_weights) return own;
  return (float)a->task_weights[k] * (float)own;
}

static double bce_block(const ts_bce_args *a, int64_t from, int64_t to) {
  double sum = 0;
  int64_t b = from / a->n_tasks;
  int32_t k = (int32_t)(from % a->n_tasks);
  for (int64_t i = from; i < to; i++) {
    const double z = a->logits[i], y = a->labels[i];
    const double w = weight_of(a, b, k);
    const double e = exp(-fabs(z));
    const double p = z >= 0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
    sum += w * ((z > 0 ? z : 0) - z * y + log1p(e));
    if (a->grad) a->grad[i] = (float)(w * (p - y) * a->scale);
    if (a->prediction) a->prediction[i] = (float)p;
    if (++k == a->n_tasks) k = 0, b++;
  }
  return sum;
}

ts_err ts_bce_host(const ts_bce_args *a) {
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
        bce_block(a, k * BLOCK, (k + 1) * BLOCK < n ? (k + 1) * BLOCK : n);
  double total = 0;
  for (int64_t k = 0; k < n_blocks; k++) total += sums[k];
  *a->loss_sum = total;
done:
  ts_mem_free(more);
  return err;
}
