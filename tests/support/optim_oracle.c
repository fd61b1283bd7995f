/* optim_oracle.c - a step of an optimizer in double. */
#include <string.h>

#include "tests/support/optim_config.h"

static double norm(const double *x, int64_t n) {
  double sum = 0;
  for (int64_t d = 0; d < n; d++) sum += x[d] * x[d];
  return sqrt(sum);
}

static void step_sgd(const test_step *s) {
  const double momentum = isnan(s->config->momentum) ? 0 : s->config->momentum;
  for (int64_t d = 0; d < s->n; d++) {
    double x = s->g[d];
    if (momentum > 0) x = s->s[0][d] = momentum * s->s[0][d] + x;
    s->w[d] -= s->lr * x;
  }
}

static void step_nesterov(const test_step *s) {
  for (int64_t d = 0; d < s->n; d++) {
    double *m = &s->s[0][d];
    *m = s->config->momentum * *m + s->g[d];
    s->w[d] -= s->lr * (s->g[d] + s->config->momentum * *m);
  }
}

static void step_rmsprop(const test_step *s) {
  const ts_optim_config *c = s->config;
  for (int64_t d = 0; d < s->n; d++) {
    double *v = &s->s[0][d], *m = &s->s[1][d];
    *v = c->beta2 * *v + (1 - c->beta2) * s->g[d] * s->g[d];
    const double x = s->g[d] / (sqrt(*v) + c->eps);
    if (c->momentum > 0) *m = c->momentum * *m + x;
    s->w[d] -= s->lr * (c->momentum > 0 ? *m : x);
  }
}

static void step_lion(const test_step *s) {
  const ts_optim_config *c = s->config;
  for (int64_t d = 0; d < s->n; d++) {
    double *m = &s->s[0][d];
    const double x = c->beta1 * *m + (1 - c->beta1) * s->g[d];
    s->w[d] -= s->lr * ((x > 0) - (x < 0));
    *m = c->beta2 * *m + (1 - c->beta2) * s->g[d];
  }
}

static void step_adagrad(const test_step *s, bool per_row) {
  const double all = norm(s->g, s->n);
  if (per_row) s->s[0][0] += all * all / (double)s->n;
  for (int64_t d = 0; d < s->n; d++) {
    if (!per_row) s->s[0][d] += s->g[d] * s->g[d];
    s->w[d] -=
        s->lr * s->g[d] / (sqrt(s->s[0][per_row ? 0 : d]) + s->config->eps);
  }
}

/* Both moments move; the second of the row's mean where PER_ROW.  G becomes
 * Adam's direction. */
static void moments(const test_step *s, bool per_row) {
  const ts_optim_config *c = s->config;
  const double all = norm(s->g, s->n), mean = all * all / (double)s->n;
  for (int64_t d = 0; d < s->n; d++) {
    double *m = &s->s[0][d], *v = &s->s[1][per_row ? 0 : d];
    const double square = per_row ? mean : s->g[d] * s->g[d];
    *m = c->beta1 * *m + (1 - c->beta1) * s->g[d];
    if (!per_row || d == 0) *v = c->beta2 * *v + (1 - c->beta2) * square;
    s->g[d] = *m / (1 - pow(c->beta1, s->pass)) /
              (sqrt(*v / (1 - pow(c->beta2, s->pass))) + c->eps);
  }
}

static void step_lamb(const test_step *s, double decay, bool per_row) {
  moments(s, per_row);
  for (int64_t d = 0; d < s->n; d++) s->g[d] += decay * s->w[d];
  const double a = norm(s->w, s->n), b = norm(s->g, s->n);
  for (int64_t d = 0; d < s->n; d++)
    s->w[d] -= s->lr * (a > 0 && b > 0 ? a / b : 1) * s->g[d];
}

static void step_lars(const test_step *s, double decay) {
  const double a = norm(s->w, s->n), b = norm(s->g, s->n);
  const double below = b + decay * a;
  const double rate =
      a > 0 && b > 0 ? s->lr * s->config->eta * a / below : s->lr;
  for (int64_t d = 0; d < s->n; d++) {
    s->s[0][d] =
        s->config->momentum * s->s[0][d] + rate * (s->g[d] + decay * s->w[d]);
    s->w[d] -= s->s[0][d];
  }
}

void test_optim_step(const test_step *s) {
  const ts_optim_config *c = s->config;
  const double decay = c->weight_decay_mode == TS_WD_NONE ? 0 : c->weight_decay;
  const bool per_row = strstr(c->kind, "rowwise") != NULL;
  for (int64_t d = 0; c->clip_value > 0 && d < s->n; d++)
    s->g[d] = fmax(-c->clip_value, fmin(c->clip_value, s->g[d]));
  if (strstr(c->kind, "lamb")) {
    step_lamb(s, decay, per_row);
    return;
  }
  if (strstr(c->kind, "lars")) {
    step_lars(s, decay);
    return;
  }
  for (int64_t d = 0; d < s->n; d++) {
    if (c->weight_decay_mode == TS_WD_L2) s->g[d] += decay * s->w[d];
    if (c->weight_decay_mode == TS_WD_DECOUPLED) s->w[d] *= 1 - s->lr * decay;
  }
  if (!strcmp(c->kind, "nesterov")) {
    step_nesterov(s);
  } else if (!strcmp(c->kind, "rmsprop")) {
    step_rmsprop(s);
  } else if (!strcmp(c->kind, "lion")) {
    step_lion(s);
  } else if (strstr(c->kind, "adagrad")) {
    step_adagrad(s, per_row);
  } else if (strstr(c->kind, "adam")) {
    moments(s, per_row);
    for (int64_t d = 0; d < s->n; d++) s->w[d] -= s->lr * s->g[d];
  } else {
    step_sgd(s);
  }
}
