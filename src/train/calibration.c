/* calibration.c - an evaluation's predictions beside what happened. */
#include "train/calibration.h"

#include <math.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

ts_err ts_calibration_create(ts_calibration *c, const ts_trainer *t,
                             int32_t n_bins) {
  c->t = t;
  c->n_bins = n_bins;
  return ts_mem_many(c->bins, (int64_t)n_bins * t->n_tasks, METRICS);
}

void ts_calibration_destroy(ts_calibration *c) {
  ts_mem_free(c->bins);
}

ts_err ts_calibration_take(void *calibration, int32_t task,
                           const ts_metrics *m) {
  ts_calibration *c = calibration;
  return ts_metrics_calibrate(m, c->bins + (int64_t)task * c->n_bins, c->n_bins,
                              c->t->control);
}

double ts_calibration_error(const ts_calibration *c, int32_t task) {
  double off = 0, weight = 0;
  for (int32_t i = 0; i < c->n_bins; i++) {
    const ts_metric_bin *b = &c->bins[(int64_t)task * c->n_bins + i];
    off += fabs(b->predicted - b->observed);
    weight += b->weight;
  }
  return weight > 0 ? off / weight : 0;
}

static void report(const ts_calibration *c, int32_t task) {
  char n[32];
  ts_info("calibration%s%s: off by %.5f in the mean over %d bins",
          c->t->n_tasks > 1 ? " of " : "",
          c->t->n_tasks > 1 ? c->t->config->model.tasks[task].name : "",
          ts_calibration_error(c, task), c->n_bins);
  ts_info("  predicted  observed     least  greatest  samples");
  for (int32_t i = 0; i < c->n_bins; i++) {
    const ts_metric_bin *b = &c->bins[(int64_t)task * c->n_bins + i];
    if (b->n > 0)
      ts_info("  %9.5f  %8.5f  %8.5f  %8.5f  %s", b->predicted / b->weight,
              b->observed / b->weight, b->least, b->greatest,
              ts_str_count(n, (int64_t)b->n));
  }
}

void ts_calibration_report(const ts_calibration *c) {
  for (int32_t k = 0; k < c->t->n_tasks; k++) report(c, k);
}
