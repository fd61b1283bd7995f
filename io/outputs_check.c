/* outputs_check.c - model.outputs: keys of an output that its loss has no use
 * for, and keys elsewhere that go by the first one or by a metric. */
#include <string.h>

#include "base/tasks.h"
#include "io/deck_impl.h"

static const config_setting_t *at(const config_setting_t *root,
                                  const char *path) {
  return config_setting_lookup((config_setting_t *)root, path);
}

/* KEY is given, and of other losses, LOSS. */
static void check_key(ts_deck *d, const config_setting_t *s,
                      const ts_task_config *x, const char *key, bool given,
                      const char *loss) {
  if (given)
    ts_deck_error(d, s, "model.outputs: %s of \"%.80s\" is for loss \"%s\"",
                  key, x->name, loss);
}

/* What goes by the labels of the first task. */
static void check_first(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const ts_task_config *x = &c->model.tasks[0];
  const char *key = NULL;
  if (c->data.negatives < 1) key = "data.negatives";
  if (c->data.positive_weight != 1) key = "data.positive_weight";
  if (key && (!ts_task_is_binary(x) || ts_task_has_where(x)))
    ts_deck_error(d, at(root, key),
                  "%s goes by the first task's labels, which are to be 0 or 1 "
                  "in all samples: \"%.80s\" has %s",
                  key, x->name,
                  ts_task_is_binary(x) ? "where" : "another loss than bce");
}

/* Evaluations of X, whose loss is not bce, have METRIC. */
static bool has_metric(const ts_task_config *x, const char *metric) {
  if (ts_task_is_of_classes(x))
    return !strcmp(metric, "logloss") || !strcmp(metric, "accuracy");
  return !strcmp(metric, "mse") || !strcmp(metric, "mae") ||
         !strcmp(metric, "r2");
}

/* Validations judge by a figure that the task has. */
static void check_metric(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const ts_task_config *x = &c->model.tasks[0];
  const bool judged = c->run.stop.patience > 0 || c->checkpoint.best ||
                      !strcmp(c->optimizer.schedule, "plateau");
  for (int32_t k = 1; k < c->model.n_tasks; k++)
    if (!strcmp(c->model.tasks[k].name, c->run.stop.task))
      x = &c->model.tasks[k];
  if (judged && !ts_task_is_binary(x) && !has_metric(x, c->run.stop.metric))
    ts_deck_error(d, at(root, "run.stop"),
                  "run.stop.metric = \"%s\" is of probabilities: task "
                  "\"%.80s\" of loss %s has %s",
                  c->run.stop.metric, x->name, x->loss,
                  ts_task_is_of_classes(x) ? "logloss and accuracy"
                                           : "mse, mae and r2");
}

void ts_outputs_check(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const config_setting_t *list = at(root, "model.outputs");
  if (!c->model.has_outputs || d->n_errors) return; /* values may be broken */
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const ts_task_config *x = &c->model.tasks[k];
    const bool bce = ts_task_is_binary(x), classes = ts_task_is_of_classes(x);
    check_key(d, list, x, "from", !bce && !strcmp(x->from, "probability"),
              "bce");
    check_key(d, list, x, "smoothing", !bce && !classes && x->smoothing > 0,
              "bce");
    check_key(d, list, x, "delta", strcmp(x->loss, "huber") && x->delta != 1,
              "huber");
    if (classes && !c->model.n_layers)
      ts_deck_error(
          d, list,
          "model.outputs: loss \"softmax_cross_entropy\" of \"%.80s\" "
          "wants an output a class, as layers have it: model.layers, "
          "not model.kind = \"%s\"",
          x->name, c->model.kind);
  }
  if (c->data.csv.labels.n)
    ts_deck_error(d, at(root, "data.csv.labels"),
                  "data.csv.labels is for model.tasks: each of model.outputs "
                  "names its label itself");
  check_first(d, root);
  check_metric(d, root);
}
