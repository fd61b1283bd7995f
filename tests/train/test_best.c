/* test_best.c - the best validation, patience and plateaus, by hand. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/kinds.h"
#include "tests/support/harness.h"
#include "train/best.h"

static char auc[] = "auc", ne[] = "ne", best[] = "best", last[] = "last",
            plateau[] = "plateau", constant[] = "constant";

static ts_config deck(char *metric, double min_delta) {
  ts_config c = {0};
  c.run.stop.metric = metric;
  c.run.stop.min_delta = min_delta;
  c.run.stop.restore = best;
  c.optimizer.schedule = constant;
  return c;
}

TS_TEST(better_is_more_or_less) {
  const double values[] = {0.6, 0.7, 0.65, 0.7, NAN, 0.71};
  const int more[] = {1, 1, 0, 0, 0, 1}, less[] = {1, 0, 0, 0, 0, 0};
  const ts_config up = deck(auc, 0), down = deck(ne, 0);
  ts_best a = {0}, b = {0};
  for (int i = 0; i < 6; i++) {
    ck_assert_int_eq(ts_best_take(&a, &up, 10 * i + 10, values[i]), more[i]);
    ck_assert_int_eq(ts_best_take(&b, &down, 10 * i + 10, values[i]), less[i]);
    ck_assert_int_eq(a.at, 10 * i + 10);
  }
  ck_assert(a.value == 0.71 && a.step == 60 && a.n_since == 0);
  ck_assert(b.value == 0.6 && b.step == 10 && b.n_since == 5);
}

TS_TEST(a_little_better_is_not) {
  const ts_config c = deck(auc, 0.01);
  ts_best b = {0};
  ck_assert(ts_best_take(&b, &c, 1, 0.5));
  ck_assert(!ts_best_take(&b, &c, 2, 0.5099));
  ck_assert(ts_best_take(&b, &c, 3, 0.5101));
  ck_assert(!ts_best_take(&b, &c, 4, 0.515));
}

/* The first that is a number is the best until then. */
TS_TEST(no_number_first) {
  const ts_config c = deck(ne, 0);
  ts_best b = {0};
  ck_assert(!ts_best_take(&b, &c, 1, INFINITY));
  ck_assert_int_eq(b.step, 0);
  ck_assert(ts_best_take(&b, &c, 2, 3.0));
  ck_assert_int_eq(b.step, 2);
}

TS_TEST(patience) {
  ts_config c = deck(auc, 0);
  ts_best b = {0};
  ck_assert(ts_best_take(&b, &c, 1, 0.5));
  for (int i = 0; i < 3; i++) {
    ck_assert(!ts_best_stops(&b, &c)); /* never, without patience */
    c.run.stop.patience = 3;
    ck_assert(!ts_best_stops(&b, &c));
    ck_assert(!ts_best_take(&b, &c, 2 + i, 0.4));
    c.run.stop.patience = 0;
  }
  c.run.stop.patience = 3;
  ck_assert(ts_best_stops(&b, &c));
  ck_assert(ts_best_is_kept(&c) && ts_best_is_restored(&c));
  c.run.stop.restore = last;
  ck_assert(!ts_best_is_kept(&c) && !ts_best_is_restored(&c));
  c.checkpoint.best = true;
  ck_assert(ts_best_is_kept(&c) && !ts_best_is_restored(&c));
}

TS_TEST(rates_fall_on_a_plateau) {
  ts_config c = deck(auc, 0);
  c.optimizer.schedule_patience = 2;
  c.optimizer.power = 0.5;
  c.optimizer.floor = 0.2;
  const double values[] = {0.5, 0.4, 0.4, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
  const double want[] = {1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2, 0.2};
  ts_best b = {0}, other = {0};
  for (int i = 0; i < 10; i++) {
    c.optimizer.schedule = plateau;
    (void)ts_best_take(&b, &c, i + 1, values[i]);
    ck_assert_double_eq(ts_best_rate(&b), want[i]);
    c.optimizer.schedule = constant;
    (void)ts_best_take(&other, &c, i + 1, values[i]);
    ck_assert_double_eq(ts_best_rate(&other), 1);
  }
}

/* Every figure that tells the best step, and which way. */
TS_TEST(metrics_by_name) {
  static const char *const costs[] = {"logloss", "ne", "ece", "mse", "mae"};
#define NAME(name) #name,
  static const char *const names[] = {TS_RANKED_METRICS(NAME)};
#undef NAME
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char name[32];
    snprintf(name, sizeof name, "%s", names[i]);
    const ts_config c = deck(name, 0);
    ts_metrics_result r = {0};
    ts_best b = {0};
    bool is_cost = false;
    for (size_t k = 0; k < sizeof costs / sizeof *costs; k++)
      is_cost |= !strcmp(name, costs[k]);
    r.value[ts_metric_find(name)] = 7;
    ck_assert_double_eq(ts_best_metric(&c, &r), 7);
    ck_assert(ts_best_take(&b, &c, 1, 0.5));
    ck_assert_int_eq(ts_best_take(&b, &c, 2, 0.4), is_cost);
    ck_assert_int_eq(ts_best_take(&b, &c, 3, 0.6), !is_cost);
  }
}
