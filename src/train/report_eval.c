/* report_eval.c - what an evaluation says: the figures of metrics.report. */
#include "base/log.h"
#include "base/str.h"
#include "train/report.h"

const ts_look ts_is_evaluation = {"evaluation", "eval"};
const ts_look ts_is_validation = {"validation", "valid"};

static ts_err say(const ts_look *look, const char *task,
                  const ts_strings *report, const ts_metrics_result *r) {
  ts_err err = TS_OK;
  ts_str line = {0};
  char n[32];
  TS_TRY(ts_str_append(&line, "%s%s%s: %s samples", look->name,
                       task ? " of " : "", task ? task : "",
                       ts_str_count(n, (int64_t)r->n_samples)));
  for (int32_t i = 0; i < report->n; i++) {
    const int kind = ts_metric_find(report->item[i]);
    int digits;
    const char *text = ts_metric_text(kind, &digits);
    TS_TRY(ts_str_append(&line, "  %s %.*f", text, digits, r->value[kind]));
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
  const ts_strings *report = &t->config->metrics.report;
  const char *names[report->n + 1];
  double values[report->n + 1];
  const char *task = t->n_tasks > 1 ? t->config->model.tasks[k].name : NULL;
  bool bins = false;
  for (int32_t i = 0; i < report->n; i++) {
    names[i] = report->item[i];
    values[i] = r->value[ts_metric_find(names[i])];
    bins |= ts_metric_find(names[i]) == ts_metric_find("ece");
  }
  names[report->n] = "samples";
  values[report->n] = r->n_samples;
  TS_DO(say(look, task, report, r));
  TS_DO(ts_metrics_log_line(log, &(ts_metrics_line){.step = t->step,
                                                    .event = look->event,
                                                    .task = task,
                                                    .n = report->n + 1,
                                                    .names = names,
                                                    .values = values}));
  return bins ? say_bins(task, t->step, r, log) : TS_OK;
}
