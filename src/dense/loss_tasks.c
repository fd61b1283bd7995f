/* loss_tasks.c - tasks of the deck as the kernel loss has them. */
#include "dense/loss_tasks.h"

#include "base/mem.h"
#include "base/tasks.h"

static ts_task_loss loss_of(const ts_task_config *x) {
  static const char *const names[] = {[TS_LOSS_MSE] = "mse",
                                      [TS_LOSS_MAE] = "mae",
                                      [TS_LOSS_HUBER] = "huber",
                                      [TS_LOSS_POISSON] = "poisson",
                                      [TS_LOSS_CLASSES] =
                                          "softmax_cross_entropy"};
  ts_task_loss l = {.classes = x->classes,
                    .weight = x->weight,
                    .learnt = x->uncertainty,
                    .smoothing = x->smoothing,
                    .delta = x->delta};
  for (int k = TS_LOSS_MSE; x->loss && k <= TS_LOSS_CLASSES; k++)
    if (!strcmp(x->loss, names[k])) l.kind = (ts_loss_kind)k;
  if (ts_task_is_of_items(x)) l.kind = TS_LOSS_GIVEN;
  if (l.kind == TS_LOSS_BCE && x->from && !strcmp(x->from, "probability"))
    l.kind = TS_LOSS_PROBABILITY;
  return l;
}

ts_err ts_task_losses_create(ts_task_loss **out, const ts_config *c) {
  const ts_task_config *tasks = c->model.tasks;
  const int32_t n = c->model.n_tasks;
  *out = NULL;
  if (n == 1 && !tasks->loss && tasks->weight == 1.0) return TS_OK;
  TS_DO(ts_mem_array(out, n, sizeof **out, TS_TAG_MISC));
  for (int32_t k = 0; k < n; k++) {
    (*out)[k] = loss_of(&tasks[k]);
    (*out)[k].first = ts_tasks_width(c, k);
  }
  return TS_OK;
}
