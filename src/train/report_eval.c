/* report_eval.c - what an evaluation says: the figures of metrics.report. */
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "base/tasks.h"
#include "train/report.h"

const ts_look ts_is_evaluation = {"evaluation", "eval"};
const ts_look ts_is_validation = {"validation", "valid"};

enum { MOST_OF_OTHERS = 3 };

/* Of outputs over items; others are asked for, as they take a search. */
static bool is_of_items(int kind) {
  const char *word = ts_metric_word(kind);
  return !strcmp(word, "logloss");
}

/* What is told of task K, to KIND: what metrics.report lists; of a task of
 * numbers or classes those of them that it has, or all that it has. */
static int told_of(const ts_trainer *t, int32_t k, int *kind) {
  const ts_strings *report = &t->config->metrics.report;
  const ts_task_config *task = &t->config->model.tasks[k];
  const bool binary = ts_task_is_binary(task),
             items = ts_task_is_of_items(task);
  bool (*suits)(int) = items                         ? is_of_items
                       : ts_task_is_of_classes(task) ? ts_metric_is_of_classes
                                                     : ts_metric_is_of_numbers;
  int n = 0;
  for (int32_t i = 0; i < report->n; i++) {
    const int one = ts_metric_find(report->item[i]);
    if (binary || suits(one) || (items && ts_metric_is_of_ranks(one)))
      kind[n++] = one;
  }
  if (binary || n) return n;
  for (int i = 0; i < TS_METRIC_KINDS; i++)
    if (suits(i)) kind[n++] = i;
  return n;
}

static ts_err say(const ts_look *look, const char *task, const int *kind,
                  int n_kinds, const ts_metrics_result *r) {
  ts_err err = TS_OK;
  ts_str line = {0};
  char n[32];
  TS_TRY(ts_str_append(&line, "%s%s%s: %s samples", look->name,
                       task ? " of " : "", task ? task : "",
                       ts_str_count(n, (int64_t)r->n_samples)));
  for (int i = 0; i < n_kinds; i++) {
    int digits;
    const char *text = ts_metric_text(kind[i], &digits);
    TS_TRY(ts_str_append(&line, "  %s %.*f", text, digits, r->value[kind[i]]));
  }
  ts_progress("%s", line.text);
done:
  ts_str_reset(&line);
  return err;
}

/* What calibration is made of: a row a bin that has samples, in the log and in
 * the file. */
static ts_err say_bins(const char *task, int64_t step,
                       const ts_metrics_result *r, ts_metrics_log *log) {
  static const char *const names[] = {"from", "to", "weight", "predicted",
                                      "observed"};
  ts_info("%s: predicted  observed  share of weight", task ? task : "bins");
  for (int k = 0; k < TS_METRIC_BINS; k++) {
    const double *b = r->bins[k], width = 1.0 / TS_METRIC_BINS;
    if (!(b[0] > 0)) continue;
    const double v[] = {k * width, (k + 1) * width, b[0], b[1] / b[0],
                        b[2] / b[0]};
    ts_info("  %.1f to %.1f: %.5f  %.5f  %.4f", v[0], v[1], v[3], v[4],
            b[0] / r->weight);
    TS_DO(ts_metrics_log_line(log, &(ts_metrics_line){.step = step,
                                                      .event = "bin",
                                                      .task = task,
                                                      .n = 5,
                                                      .names = names,
                                                      .values = v}));
  }
  return TS_OK;
}

ts_err ts_report_eval(const ts_trainer *t, const ts_look *look, int32_t k,
                      const ts_metrics_result *r, ts_metrics_log *log) {
  const int32_t most = t->config->metrics.report.n + MOST_OF_OTHERS;
  int kind[most];
  const char *names[most + 1];
  double values[most + 1];
  const char *task = t->n_tasks > 1 ? t->config->model.tasks[k].name : NULL;
  const int n = told_of(t, k, kind);
  bool bins = false;
  for (int i = 0; i < n; i++) {
    names[i] = ts_metric_word(kind[i]);
    values[i] = r->value[kind[i]];
    bins |= kind[i] == ts_metric_find("ece");
  }
  names[n] = "samples";
  values[n] = r->n_samples;
  TS_DO(say(look, task, kind, n, r));
  TS_DO(ts_metrics_log_line(log, &(ts_metrics_line){.step = t->step,
                                                    .event = look->event,
                                                    .task = task,
                                                    .n = n + 1,
                                                    .names = names,
                                                    .values = values}));
  return bins ? say_bins(task, t->step, r, log) : TS_OK;
}
