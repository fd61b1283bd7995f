/* update_numbers.h - what the dense optimizers' loops need in a step, as the
 * host computes it once for every device; how their sums are cut.
 * All of it is Local. */
#pragma once

#include <math.h>

#include "dense/optim.h"

/* Sums of squares have the same bits on every device: of blocks of so many
 * elements, added in order; a block's is that of its parts, each of the
 * elements with its number modulo so many, in order. */
enum { TS_SUM_BLOCK = 4096, TS_SUM_PARTS = 16 };

typedef struct ts_update_numbers {
  float lr, scale, l2, keep, eps, momentum;
  float b1, b2, a1, a2, c1, c2; /* a = 1 - b, c = 1 / (1 - b^k) */
  float decay;                  /* of optimizers with norms */
  float most;                   /* what gradients are cut to; infinite */
  double lr_eta;
} ts_update_numbers;

/* What an average takes of new weights. */
static inline float ts_update_ema_rest(const ts_dense_update_args *a) {
  return (float)(1.0 - a->ema_decay);
}

/* SCALE without grad_factor_at, which is device memory. */
static inline ts_update_numbers
ts_update_numbers_of(const ts_dense_update_args *a) {
  const ts_optim_config *c = a->optim;
  const double lr = c->lr * a->lr_factor;
  const bool own = ts_dense_optim_has_norms(c); /* its decay is its own, too */
  const bool l2 = c->weight_decay_mode == TS_WD_L2 && !own;
  const bool decoupled = c->weight_decay_mode == TS_WD_DECOUPLED && !own;
  ts_update_numbers n;
  n.lr = (float)lr;
  n.scale = (float)a->grad_factor;
  n.l2 = l2 ? (float)c->weight_decay : 0.0f;
  n.keep = decoupled ? (float)(1.0 - lr * c->weight_decay) : 1.0f;
  n.eps = (float)c->eps;
  n.momentum = (float)c->momentum;
  n.b1 = (float)c->beta1;
  n.b2 = (float)c->beta2;
  n.a1 = (float)(1.0 - c->beta1);
  n.a2 = (float)(1.0 - c->beta2);
  n.c1 = n.c2 = 0;
  n.decay =
      own && c->weight_decay_mode != TS_WD_NONE ? (float)c->weight_decay : 0.0f;
  n.most = c->clip_value > 0 ? (float)c->clip_value : INFINITY;
  n.lr_eta = lr * c->eta;
  if (!isnan(c->beta1)) {
    n.c1 = (float)(1.0 / (1.0 - pow(c->beta1, (double)a->step)));
    n.c2 = (float)(1.0 / (1.0 - pow(c->beta2, (double)a->step)));
  }
  return n;
}
