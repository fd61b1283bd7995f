/* loss_pair.h - the loss of one sample for one task, its derivative and its
 * prediction: the same on the host and on GPUs.  Formulas: dense/kernels.h.
 * All of it is Local. */
#pragma once

#include <math.h>

#include "dense/kernels.h"

#ifdef __CUDACC__
#define TS_LOSS_INLINE static inline __host__ __device__
#else
#define TS_LOSS_INLINE static inline
#endif

typedef struct ts_loss_pair {
  double loss, slope, prediction;
} ts_loss_pair;

TS_LOSS_INLINE ts_loss_pair ts_loss_of_logit(double z, double y) {
  ts_loss_pair x;
  const double e = exp(-fabs(z));
  x.prediction = z >= 0 ? 1.0 / (1.0 + e) : e / (1.0 + e);
  x.slope = x.prediction - y;
  x.loss = (z > 0 ? z : 0) - z * y + log1p(e);
  return x;
}

/* No number stays none, as out of a P that is no probability. */
TS_LOSS_INLINE double ts_loss_log(double l) {
  return l < -100.0 ? -100.0 : l;
}

TS_LOSS_INLINE ts_loss_pair ts_loss_of_probability(double p, double y) {
  ts_loss_pair x;
  const double spread = p * (1 - p);
  x.prediction = p;
  x.slope = (p - y) / (spread < 1e-12 ? 1e-12 : spread);
  x.loss = -y * ts_loss_log(log(p)) - (1 - y) * ts_loss_log(log1p(-p));
  return x;
}

TS_LOSS_INLINE ts_loss_pair ts_loss_of_number(const ts_task_loss *task,
                                              double z, double y) {
  ts_loss_pair x;
  const double off = z - y, far = fabs(off), delta = task->delta;
  const double sign = off > 0 ? 1 : off < 0 ? -1 : off;
  x.prediction = z;
  switch (task->kind) {
  case TS_LOSS_MAE:
    x.slope = sign;
    x.loss = far;
    break;
  case TS_LOSS_HUBER:
    x.slope = far <= delta ? off : delta * sign;
    x.loss = far <= delta ? 0.5 * off * off : delta * (far - 0.5 * delta);
    break;
  case TS_LOSS_POISSON:
    x.prediction = exp(z);
    x.slope = x.prediction - y;
    x.loss = x.prediction - y * z;
    break;
  case TS_LOSS_GIVEN:
    x.slope = 1;
    x.loss = z;
    break;
  default: /* mse */
    x.slope = 2 * off;
    x.loss = off * off;
  }
  return x;
}

/* Of a sample with weight OWN for TASK, the K-th, whose log variance is s[k].
 */
TS_LOSS_INLINE double ts_loss_weight(const ts_task_loss *task, const float *s,
                                     int32_t k, float own) {
  if (!task) return own;
  if (!task->learnt) return (float)task->weight * own;
  const bool number = task->kind >= TS_LOSS_MSE && task->kind <= TS_LOSS_HUBER;
  return (number ? 0.5 : 1) * exp(-(double)s[k]) * own;
}

/* The class that probabilities P of N tell: the first of the greatest. */
TS_LOSS_INLINE int32_t ts_loss_told(const float *p, int32_t n) {
  int32_t best = 0;
  for (int32_t c = 1; c < n; c++)
    if (p[c] > p[best]) best = c;
  return best;
}

/* A label of N classes that is one of them; no number isn't. */
TS_LOSS_INLINE bool ts_loss_is_class(double y, int32_t n) {
  return y >= 0 && y < n;
}

/* A row of classes: softmax is exp(z - top) / sum. */
typedef struct ts_loss_row {
  double top, sum, loss;
} ts_loss_row;

/* The row's greatest logit is taken off, so that no exp overflows.  Y is a
 * class. */
TS_LOSS_INLINE ts_loss_row ts_loss_of_row(const ts_task_loss *task,
                                          const float *z, double y) {
  const int32_t n = task->classes;
  ts_loss_row x = {z[0], 0, 0};
  double all = 0;
  for (int32_t c = 1; c < n; c++)
    if (z[c] > x.top) x.top = z[c];
  for (int32_t c = 0; c < n; c++) {
    x.sum += exp(z[c] - x.top);
    all += z[c] - x.top;
  }
  x.loss = log(x.sum) - (1 - task->smoothing) * (z[(int32_t)y] - x.top);
  if (task->smoothing > 0) x.loss -= task->smoothing / n * all;
  return x;
}

/* TASK NULL: bce. */
TS_LOSS_INLINE ts_loss_pair ts_loss_of(const ts_task_loss *task, double z,
                                       double y) {
  if (!task) return ts_loss_of_logit(z, y);
  if (task->kind > TS_LOSS_PROBABILITY) return ts_loss_of_number(task, z, y);
  if (task->smoothing > 0)
    y = y * (1 - task->smoothing) + 0.5 * task->smoothing;
  return task->kind == TS_LOSS_BCE ? ts_loss_of_logit(z, y)
                                   : ts_loss_of_probability(z, y);
}

/* Place of the first logit of sample B for TASK, the K-th. */
TS_LOSS_INLINE int64_t ts_loss_place(const ts_loss_args *a,
                                     const ts_task_loss *task, int64_t b,
                                     int32_t k) {
  return b * a->n_logits + (task ? task->first : k);
}

/* The loss alone of a pair with label Y, whose logits are at AT; 0 where it
 * does not count. */
TS_LOSS_INLINE double ts_loss_alone(const ts_loss_args *a,
                                    const ts_task_loss *task, int64_t at,
                                    double y) {
  if (task && task->classes)
    return ts_loss_is_class(y, task->classes)
               ? ts_loss_of_row(task, a->logits + at, y).loss
               : 0;
  return isnan(y) ? 0 : ts_loss_of(task, a->logits[at], y).loss;
}

/* Gradients and predictions of a pair of classes with weight W and label Y,
 * whose logits are at AT; its part of the sum. */
TS_LOSS_INLINE double ts_loss_classes(const ts_loss_args *a,
                                      const ts_task_loss *task, int64_t at,
                                      double y, double w) {
  const int32_t n = task->classes;
  const bool counts = ts_loss_is_class(y, n);
  const int32_t own = counts ? (int32_t)y : 0;
  const ts_loss_row x = ts_loss_of_row(task, a->logits + at, own);
  const double smooth = task->smoothing, each = smooth / n;
  for (int32_t c = 0; c < n; c++) {
    const double p = exp(a->logits[at + c] - x.top) / x.sum;
    const double slope = p - (c == own ? 1 - smooth + each : each);
    if (a->grad) a->grad[at + c] = counts ? (float)(w * slope * a->scale) : 0;
    if (a->prediction) a->prediction[at + c] = (float)p;
  }
  return counts ? w * x.loss : 0;
}
