/* update_body.h - dense optimizers over a flat piece; formulas: optim.h. */
#ifndef TS_DENSE_UPDATE_BODY_H
#define TS_DENSE_UPDATE_BODY_H

#include <math.h>
#include <string.h>

#include "dense/optim.h"

/* Per step: what the optimizers' loops need, as floats. */
typedef struct ts_update_numbers {
  float lr, scale, l2, keep, eps, momentum;
  float b1, b2, a1, a2, c1, c2; /* a = 1 - b, c = 1 / (1 - b^k) */
} ts_update_numbers;

static inline ts_update_numbers update_numbers(const ts_dense_update_args *a) {
  const ts_optim_config *c = a->optim;
  const double lr = c->lr * a->lr_factor;
  const bool l2 = c->weight_decay_mode == TS_WD_L2;
  const bool decoupled = c->weight_decay_mode == TS_WD_DECOUPLED;
  ts_update_numbers n = {.lr = (float)lr,
                         .scale = (float)a->grad_factor,
                         .l2 = l2 ? (float)c->weight_decay : 0.0f,
                         .keep = decoupled ? (float)(1.0 - lr * c->weight_decay)
                                           : 1.0f,
                         .eps = (float)c->eps,
                         .momentum = (float)c->momentum,
                         .b1 = (float)c->beta1,
                         .b2 = (float)c->beta2,
                         .a1 = (float)(1.0 - c->beta1),
                         .a2 = (float)(1.0 - c->beta2)};
  if (!isnan(c->beta1) && !strcmp(c->kind, "adam")) {
    n.c1 = (float)(1.0 / (1.0 - pow(c->beta1, (double)a->step)));
    n.c2 = (float)(1.0 / (1.0 - pow(c->beta2, (double)a->step)));
  }
  return n;
}

static void update_sgd(const ts_dense_update_args *a, ts_update_numbers u,
                       int64_t from, int64_t to) {
  float *restrict w = a->w, *restrict m = a->state[0];
  const float *restrict grad = a->grad;
  if (!m) {
    for (int64_t i = from; i < to; i++)
      w[i] = u.keep * w[i] - u.lr * (u.scale * grad[i] + u.l2 * w[i]);
    return;
  }
  for (int64_t i = from; i < to; i++) {
    m[i] = u.momentum * m[i] + (u.scale * grad[i] + u.l2 * w[i]);
    w[i] = u.keep * w[i] - u.lr * m[i];
  }
}

static void update_adagrad(const ts_dense_update_args *a, ts_update_numbers u,
                           int64_t from, int64_t to) {
  float *restrict w = a->w, *restrict s = a->state[0];
  const float *restrict grad = a->grad;
  for (int64_t i = from; i < to; i++) {
    const float g = u.scale * grad[i] + u.l2 * w[i];
    s[i] += g * g;
    w[i] = u.keep * w[i] - u.lr * g / (sqrtf(s[i]) + u.eps);
  }
}

static void update_adam(const ts_dense_update_args *a, ts_update_numbers u,
                        int64_t from, int64_t to) {
  float *restrict w = a->w, *restrict m = a->state[0],
                  *restrict v = a->state[1];
  const float *restrict grad = a->grad;
  for (int64_t i = from; i < to; i++) {
    const float g = u.scale * grad[i] + u.l2 * w[i];
    m[i] = u.b1 * m[i] + u.a1 * g;
    v[i] = u.b2 * v[i] + u.a2 * (g * g);
    w[i] = u.keep * w[i] - u.lr * (m[i] * u.c1) / (sqrtf(v[i] * u.c2) + u.eps);
  }
}

static void update_part(const ts_dense_update_args *a, int p, int n) {
  const ts_update_numbers u = update_numbers(a);
  const int64_t from = a->n * p / n, to = a->n * (p + 1) / n;
  if (!strcmp(a->optim->kind, "sgd")) update_sgd(a, u, from, to);
  if (!strcmp(a->optim->kind, "adagrad")) update_adagrad(a, u, from, to);
  if (!strcmp(a->optim->kind, "adam")) update_adam(a, u, from, to);
}

#endif
