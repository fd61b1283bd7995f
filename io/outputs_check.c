/* outputs_check.c - model.outputs: keys of an output that its loss has no use
 * for, and keys elsewhere that go by the first one or by a metric. */
#include <string.h>

#include "base/tasks.h"
#include "io/deck_impl.h"

static const config_setting_t *at(const config_setting_t *root,
                                  const char *path) {
  return config_setting_lookup((config_setting_t *)root, path);
}

/* KEY is given, and of another LOSS. */
static void check_key(ts_deck *d, const config_setting_t *s,
                      const ts_task_config *x, const char *key, bool given,
                      const char *loss) {
  if (given && strcmp(x->loss, loss) != 0)
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

static bool is_of_numbers(const char *metric) {
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
  if (judged && !ts_task_is_binary(x) && !is_of_numbers(c->run.stop.metric))
    ts_deck_error(d, at(root, "run.stop"),
                  "run.stop.metric = \"%s\" is of probabilities: task "
                  "\"%.80s\" of loss %s has mse, mae and r2",
                  c->run.stop.metric, x->name, x->loss);
}

void ts_outputs_check(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const config_setting_t *list = at(root, "model.outputs");
  if (!c->model.has_outputs || d->n_errors) return; /* values may be broken */
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const ts_task_config *x = &c->model.tasks[k];
    check_key(d, list, x, "from", !strcmp(x->from, "probability"), "bce");
    check_key(d, list, x, "smoothing", x->smoothing > 0, "bce");
    check_key(d, list, x, "delta", x->delta != 1, "huber");
  }
  if (c->data.csv.labels.n)
    ts_deck_error(d, at(root, "data.csv.labels"),
                  "data.csv.labels is for model.tasks: each of model.outputs "
                  "names its label itself");
  check_first(d, root);
  check_metric(d, root);
}
