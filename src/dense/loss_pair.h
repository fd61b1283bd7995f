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
