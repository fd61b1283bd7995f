/* tune_rungs.c - which trial runs next, and how good a trial is.
 *
 * With --halving a trial's run is cut into rungs, each TS_RUNG_SHARE times as
 * long as the one before.  Whoever is among the best third of those that have
 * ended a rung goes on to the next, without waiting for the others: ASHA (Li et
 * al., "A system for massively parallel hyperparameter tuning", MLSys'20). */
#include <math.h>
#include <string.h>

#include "commands/tune.h"
#include "io/metrics_log.h"
#include "train/metrics.h"

/* What a run takes in all, in steps or epochs. */
static double whole_of(const ts_config *c) {
  return c->run.steps > 0 ? (double)c->run.steps : c->run.epochs;
}

int32_t ts_tune_count_rungs(const ts_tune *t) {
  const ts_config *c = t->config;
  double first = whole_of(c);
  int32_t n = 1;
  for (int32_t k = t->n_trials; t->args->halving && n < TS_RUNGS_MAX; n++) {
    k /= TS_RUNG_SHARE;
    first /= TS_RUNG_SHARE;
    if (!k || (c->run.steps > 0 && first < (double)c->run.valid_every)) break;
  }
  return n;
}

void ts_tune_lay_rungs(ts_tune *t, int32_t n) {
  const ts_config *c = t->config;
  const double unit = (double)c->run.valid_every;
  t->n_rungs = n;
  for (int32_t k = 0; k < n; k++) {
    double b = whole_of(c) / pow(TS_RUNG_SHARE, n - 1 - k);
    /* Ends with a look. */
    if (c->run.steps > 0 && k < n - 1) b = floor(b / unit) * unit;
    t->budget[k] = b;
  }
}

bool ts_tune_is_better(const ts_tune *t, double a, double b) {
  if (isnan(a) || isnan(b)) return !isnan(a);
  return ts_metric_is_cost(ts_metric_find(t->metric)) ? a < b : a > b;
}

double ts_trial_metric(const ts_trial *x) {
  return x->n_rungs ? x->metric[x->n_rungs - 1] : NAN;
}

int32_t ts_tune_best(const ts_tune *t) {
  int32_t best = -1;
  for (int32_t i = 0; i < t->n_trials; i++) {
    const double m = ts_trial_metric(&t->trial[i]);
    if (!isnan(m) &&
        (best < 0 || ts_tune_is_better(t, m, ts_trial_metric(&t->trial[best]))))
      best = i;
  }
  return best;
}

/* Trial I has ended RUNGS of them, and is of the best third there. */
static bool is_promoted(const ts_tune *t, int32_t i, int32_t rungs) {
  const ts_trial *x = &t->trial[i];
  int32_t n = 0, better = 0;
  if (x->state != TS_TRIAL_ENDED || x->n_rungs != rungs) return false;
  for (int32_t k = 0; k < t->n_trials; k++) {
    const ts_trial *o = &t->trial[k];
    if (o->n_rungs < rungs) continue;
    n++;
    better +=
        ts_tune_is_better(t, o->metric[rungs - 1], x->metric[rungs - 1]) ||
        (k < i && o->metric[rungs - 1] == x->metric[rungs - 1]);
  }
  return better < n / TS_RUNG_SHARE;
}

int32_t ts_tune_next(const ts_tune *t, const bool *skip) {
  /* Those that were cut short have decided what they are at. */
  for (int32_t i = 0; i < t->n_trials; i++)
    if (!skip[i] && t->trial[i].state == TS_TRIAL_RUNNING) return i;
  for (int32_t rungs = t->n_rungs - 1; rungs > 0; rungs--)
    for (int32_t i = 0; i < t->n_trials; i++)
      if (!skip[i] && is_promoted(t, i, rungs)) return i;
  for (int32_t i = 0; i < t->n_trials; i++)
    if (!skip[i] && t->trial[i].state == TS_TRIAL_WAITING) return i;
  return -1;
}

/* Of the budget of rung K, what comes behind the rung before. */
static double cost(const ts_tune *t, int32_t k) {
  return t->budget[k] - (k ? t->budget[k - 1] : 0);
}

double ts_tune_left(const ts_tune *t) {
  double left = 0;
  int32_t expected = t->n_trials;
  for (int32_t k = 0; k < t->n_rungs; k++, expected /= TS_RUNG_SHARE) {
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_trials; i++)
      n += t->trial[i].n_rungs > k ||
           (!k && t->trial[i].state == TS_TRIAL_FAILED);
    if (n < expected) left += (expected - n) * cost(t, k);
  }
  return left;
}

/* ---- metrics.jsonl ------------------------------------------------------- */

/* The task whose validations count, NULL where there is one alone. */
static const char *task_of(const ts_config *c) {
  if (c->model.n_tasks < 2) return NULL;
  return *c->run.stop.task ? c->run.stop.task : c->model.tasks[0].name;
}

static void take_line(const ts_tune *t, ts_trial *x, const json_t *line,
                      double *best) {
  const char *task = task_of(t->config);
  const char *of = json_string_value(json_object_get(line, "task"));
  const json_t *step = json_object_get(line, "step");
  const json_t *value = json_object_get(line, t->metric);
  if (json_is_integer(step) && json_integer_value(step) > x->step)
    x->step = json_integer_value(step);
  if (!json_is_true(json_object_get(line, "valid")) || !json_is_number(value) ||
      (task && (!of || strcmp(task, of) != 0)))
    return;
  const double y = json_number_value(value);
  if (ts_tune_is_better(t, y, *best)) *best = y;
}

ts_err ts_tune_take(ts_tune *t, int32_t trial, bool *found) {
  ts_trial *x = &t->trial[trial];
  double best = NAN;
  ts_str path = {0};
  json_t *line;
  bool end = false;
  TS_DO(ts_tune_path(&path, t, trial, "metrics.jsonl"));
  ts_metrics_reader r = {.path = path.text};
  while (ts_metrics_reader_next(&r, &line, &end) == TS_OK && !end) {
    if (line) take_line(t, x, line, &best);
    json_decref(line);
  }
  ts_err_clear(); /* a trial that wrote nothing has no figures */
  ts_metrics_reader_reset(&r);
  ts_str_reset(&path);
  *found = !isnan(best);
  if (*found && x->n_rungs < TS_RUNGS_MAX) x->metric[x->n_rungs++] = best;
  return TS_OK;
}
