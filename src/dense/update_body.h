/* update_body.h - dense optimizers over a flat piece; formulas: optim.h. */
#pragma once

#include <math.h>

#include "dense/update_numbers.h"

static inline ts_update_numbers update_numbers(const ts_dense_update_args *a) {
  ts_update_numbers n = ts_update_numbers_of(a);
  if (a->grad_factor_at) n.scale = (float)*a->grad_factor_at;
  return n;
}

/* PIECE becomes elements [FROM, FROM + N) of it, N at most TS_SUM_BLOCK, whose
 * gradients are cut, in CUT.  Not part of the loops: where a loop's end
 * branches and its vectors don't, the two fuse differently. */
static void cut_piece(ts_dense_update_args *piece, ts_update_numbers *u,
                      int64_t from, int64_t n, float *restrict cut) {
  const float scale = u->scale, most = u->most;
  const float *grad = piece->grad + from;
  for (int64_t i = 0; i < n; i++) {
    const float g = scale * grad[i];
    cut[i] = g > most ? most : g < -most ? -most : g; /* NaN stays */
  }
  piece->w += from;
  for (int k = 0; k < TS_PARAM_STATES_MAX; k++)
    if (piece->state[k]) piece->state[k] += from;
  piece->grad = cut;
  u->scale = 1;
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

static void update_nesterov(const ts_dense_update_args *a, ts_update_numbers u,
                            int64_t from, int64_t to) {
  float *restrict w = a->w, *restrict m = a->state[0];
  const float *restrict grad = a->grad;
  for (int64_t i = from; i < to; i++) {
    const float g = u.scale * grad[i] + u.l2 * w[i];
    m[i] = u.momentum * m[i] + g;
    w[i] = u.keep * w[i] - u.lr * (g + u.momentum * m[i]);
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

/* rmsprop's direction; V moves. */
static inline float rmsprop_element(float *v, float g, ts_update_numbers u) {
  *v = u.b2 * *v + u.a2 * (g * g);
  return g / (sqrtf(*v) + u.eps);
}

static void update_rmsprop(const ts_dense_update_args *a, ts_update_numbers u,
                           int64_t from, int64_t to) {
  float *restrict w = a->w, *restrict v = a->state[0],
                  *restrict m = a->state[1];
  const float *restrict grad = a->grad;
  if (!m) {
    for (int64_t i = from; i < to; i++) {
      const float g = u.scale * grad[i] + u.l2 * w[i];
      w[i] = u.keep * w[i] - u.lr * rmsprop_element(&v[i], g, u);
    }
    return;
  }
  for (int64_t i = from; i < to; i++) {
    const float g = u.scale * grad[i] + u.l2 * w[i];
    m[i] = u.momentum * m[i] + rmsprop_element(&v[i], g, u);
    w[i] = u.keep * w[i] - u.lr * m[i];
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

/* Products are compared, not added: the sign is the same whether a version
 * fuses or not.  What is not finite becomes NaN. */
static void update_lion(const ts_dense_update_args *a, ts_update_numbers u,
                        int64_t from, int64_t to) {
  float *restrict w = a->w, *restrict m = a->state[0];
  const float *restrict grad = a->grad;
  for (int64_t i = from; i < to; i++) {
    const float g = u.scale * grad[i];
    const float x = u.b1 * m[i], y = -u.a1 * g;
    m[i] = u.b2 * m[i] + u.a2 * g;
    const float sign = (float)((x > y) - (x < y)) + 0.0f * m[i];
    w[i] = u.keep * w[i] - u.lr * sign;
  }
}

/* ---- optimizers with norms of the whole parameter ------------------------ */

enum { STATS_BLOCK = TS_SUM_BLOCK, STATS_PARTS = TS_SUM_PARTS };

/* lamb's direction, element i. */
#define DIRECTION(m, v, w)                                                     \
  ((m)*u.c1 / (sqrtf((v)*u.c2) + u.eps) + u.decay * (w))

/* Moments of element i, from its gradient. */
static inline float lamb_element(float *m, float *v, float g, float w,
                                 ts_update_numbers u) {
  *m = u.b1 * *m + u.a1 * g;
  *v = u.b2 * *v + u.a2 * (g * g);
  return DIRECTION(*m, *v, w);
}

/* stats += squares of w and of lamb's direction (whose moments move) or
 * lars's gradient; at most STATS_BLOCK elements. */
static void stats_block(const ts_dense_update_args *whole, ts_update_numbers u,
                        bool lamb, int64_t from, int64_t to, double *stats) {
  float cut[STATS_BLOCK];
  ts_dense_update_args piece = *whole, *const a = &piece;
  if (a->optim->clip_value > 0) {
    cut_piece(a, &u, from, to - from, cut);
    to -= from;
    from = 0;
  }
  double ww[STATS_PARTS] = {0}, xx[STATS_PARTS] = {0};
  for (int64_t i = from; i < to; i++) {
    const float g = u.scale * a->grad[i], w = a->w[i];
    const float x =
        lamb ? lamb_element(&a->state[0][i], &a->state[1][i], g, w, u) : g;
    ww[i % STATS_PARTS] += (double)w * w;
    xx[i % STATS_PARTS] += (double)x * x;
  }
  for (int k = 0; k < STATS_PARTS; k++) {
    stats[0] += ww[k];
    stats[1] += xx[k];
  }
}

static void update_lamb(const ts_dense_update_args *a, ts_update_numbers u,
                        int64_t from, int64_t to) {
  float *restrict w = a->w;
  const float *restrict m = a->state[0], *restrict v = a->state[1];
  const double ww = a->stats[0], rr = a->stats[1];
  const float rate = u.lr * (float)(ww > 0 && rr > 0 ? sqrt(ww / rr) : 1.0);
  for (int64_t i = from; i < to; i++)
    w[i] -= rate * DIRECTION(m[i], v[i], w[i]);
}

static void update_lars(const ts_dense_update_args *a, ts_update_numbers u,
                        int64_t from, int64_t to) {
  float *restrict w = a->w, *restrict m = a->state[0];
  const float *restrict grad = a->grad;
  const double ww = sqrt(a->stats[0]), gg = sqrt(a->stats[1]);
  const double below = gg + u.decay * ww;
  const float rate =
      ww > 0 && below > 0 ? (float)(u.lr_eta * ww / below) : u.lr;
  for (int64_t i = from; i < to; i++) {
    m[i] = u.momentum * m[i] + rate * (u.scale * grad[i] + u.decay * w[i]);
    w[i] -= m[i];
  }
}

/* Elements [FROM, TO), whose new weights the cache still has. */
static void average(const ts_dense_update_args *a, int64_t from, int64_t to) {
  const float rest = ts_update_ema_rest(a);
  const float *restrict w = a->w;
  float *restrict e = a->ema;
  for (int64_t i = from; i < to; i++) e[i] += rest * (w[i] - e[i]);
}

static void update_part(const ts_dense_update_args *a, int p, int n) {
  static void (*const update[])(const ts_dense_update_args *, ts_update_numbers,
                                int64_t, int64_t) = {
      [TS_RULE_SGD] = update_sgd,         [TS_RULE_NESTEROV] = update_nesterov,
      [TS_RULE_ADAGRAD] = update_adagrad, [TS_RULE_RMSPROP] = update_rmsprop,
      [TS_RULE_ADAM] = update_adam,       [TS_RULE_LION] = update_lion,
      [TS_RULE_LAMB] = update_lamb,       [TS_RULE_LARS] = update_lars};
  const ts_update_numbers u = update_numbers(a);
  const ts_update_rule rule = ts_dense_optim_find(a->optim->kind)->rule;
  int64_t from = a->n * p / n;
  const int64_t to = a->n * (p + 1) / n;
  const bool clips = a->optim->clip_value > 0;
  if (!clips && !a->ema) {
    update[rule](a, u, from, to);
    return;
  }
  for (; from < to; from += STATS_BLOCK) {
    const int64_t m = to - from < STATS_BLOCK ? to - from : STATS_BLOCK;
    float cut[STATS_BLOCK];
    ts_dense_update_args piece = *a;
    ts_update_numbers own = u;
    if (clips) cut_piece(&piece, &own, from, m, cut);
    update[rule](&piece, own, clips ? 0 : from, clips ? m : from + m);
    if (a->ema) average(a, from, from + m);
  }
}
