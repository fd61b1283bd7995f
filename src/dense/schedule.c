/* schedule.c - learning-rate schedules: a factor for step k, from 1.
 *
 *   k <= warmup    k / warmup
 *   then, with t = k - warmup, n = steps - warmup, x = min(1, t / n):
 *   constant       1
 *   linear         1 - x
 *   polynomial     (1 - x)^power
 *   cosine         (1 + cos(pi x)) / 2
 *   inverse_sqrt   sqrt(w / (w + t)), w = max(1, warmup)
 *   step           power^floor(t / steps): the rate falls by the factor
 *                  `power` every `steps` steps
 *   one_cycle      (1 + cos(pi x)) / 2, and its warm-up is a cosine as well,
 *                  from 1/25: 1/25 + 24/25 (1 - cos(pi k / warmup)) / 2
 *                  (Smith and Topin, 2017, with the cosines of PyTorch's
 *                  OneCycleLR)
 *   plateau        1 here: the rate falls by validations (train/best.h)
 * and never under `floor`. */
#include <math.h>
#include <string.h>

#include "dense/optim.h"

#define PI 3.14159265358979323846

static double decay(const char *kind, double t, double n, double steps,
                    double warmup, double power) {
  const double x = n > 0 ? fmin(1.0, t / n) : 1.0;
  if (!strcmp(kind, "linear")) return 1.0 - x;
  if (!strcmp(kind, "polynomial")) return pow(1.0 - x, power);
  if (!strcmp(kind, "cosine") || !strcmp(kind, "one_cycle"))
    return 0.5 * (1.0 + cos(PI * x));
  if (!strcmp(kind, "inverse_sqrt")) {
    const double w = fmax(1.0, warmup);
    return sqrt(w / (w + t));
  }
  if (!strcmp(kind, "step"))
    return pow(power, steps > 0 ? floor(t / steps) : 0);
  return 1.0;
}

static double rise(const char *kind, double x) {
  const double least = 1.0 / 25;
  if (strcmp(kind, "one_cycle") != 0) return x;
  return least + (1 - least) * 0.5 * (1.0 - cos(PI * x));
}

ts_err ts_schedule_check(const ts_config *c) {
  const char *kind = c->optimizer.schedule;
  const int64_t steps = c->optimizer.schedule_steps;
  if (!strcmp(kind, "constant") || !strcmp(kind, "inverse_sqrt")) return TS_OK;
  if (!strcmp(kind, "plateau"))
    return c->optimizer.power < 1
               ? TS_OK
               : ts_fail(TS_ERR_DECK,
                         "optimizer.schedule.power = %g: plateau needs the "
                         "factor by which the rate falls, under 1",
                         c->optimizer.power);
  if (!strcmp(kind, "step"))
    return steps > 0 ? TS_OK
                     : ts_fail(TS_ERR_DECK,
                               "optimizer.schedule.steps: step needs the steps "
                               "between falls");
  if (steps > c->optimizer.warmup) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "optimizer.schedule.steps = %lld: %s needs the step at which "
                 "it ends, after the warm-up",
                 (long long)steps, kind);
}

double ts_schedule_factor(const ts_config *c, int64_t k) {
  const double warmup = (double)c->optimizer.warmup;
  const double steps = (double)c->optimizer.schedule_steps;
  if ((double)k <= warmup)
    return rise(c->optimizer.schedule, (double)k / warmup);
  return fmax(c->optimizer.floor,
              decay(c->optimizer.schedule, (double)k - warmup, steps - warmup,
                    steps, warmup, c->optimizer.power));
}
