/* best.c - the best validation, patience, plateaus. */
#include "train/best.h"

#include <math.h>
#include <string.h>

static int find(const ts_config *c) {
  return ts_metric_find(c->run.stop.metric);
}

double ts_best_metric(const ts_config *c, const ts_metrics_result *r) {
  return r->value[find(c)];
}

static bool is_better(const ts_best *b, const ts_config *c, double value) {
  const double sign = ts_metric_is_cost(find(c)) ? -1 : 1;
  if (!isfinite(value)) return false;
  return b->step == 0 || sign * (value - b->value) > c->run.stop.min_delta;
}

/* The rates fall where there was nothing better for a while, and get a while
 * to show what that brings. */
static void slow(ts_best *b, const ts_config *c) {
  if (strcmp(c->optimizer.schedule, "plateau") != 0) return;
  if (b->n_flat < c->optimizer.schedule_patience) return;
  b->rate = fmax(ts_best_rate(b) * c->optimizer.power, c->optimizer.floor);
  b->n_flat = 0;
}

bool ts_best_take(ts_best *b, const ts_config *c, int64_t step, double value) {
  const bool better = is_better(b, c, value);
  b->at = step;
  if (better) {
    b->value = value;
    b->step = step;
    b->n_since = b->n_flat = 0;
    return true;
  }
  b->n_since++;
  b->n_flat++;
  slow(b, c);
  return false;
}

bool ts_best_stops(const ts_best *b, const ts_config *c) {
  return c->run.stop.patience > 0 && b->n_since >= c->run.stop.patience;
}

bool ts_best_is_restored(const ts_config *c) {
  return c->run.stop.patience > 0 && !strcmp(c->run.stop.restore, "best");
}

bool ts_best_is_kept(const ts_config *c) {
  return c->checkpoint.best || ts_best_is_restored(c);
}

double ts_best_rate(const ts_best *b) {
  return b->rate > 0 ? b->rate : 1;
}
