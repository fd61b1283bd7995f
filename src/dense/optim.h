/* optim.h - dense optimizers and learning-rate schedules.
 *
 *   sgd      g += wd w; m = momentum m + g (where momentum > 0); w -= lr m
 *   momentum the same, momentum 0.9 by default
 *   nesterov g += wd w; m = momentum m + g; w -= lr (g + momentum m)
 *   adagrad  g += wd w; s += g^2; w -= lr g / (sqrt(s) + eps)
 *   rmsprop  g += wd w; v = b2 v + (1 - b2) g^2; w -= lr g / (sqrt(v) + eps);
 *            where momentum > 0: m = momentum m + g / (sqrt(v) + eps);
 *            w -= lr m
 *   adam     g += wd w (l2) or w *= 1 - lr wd (decoupled);
 *            m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
 *            w -= lr (m / (1 - b1^k)) / (sqrt(v / (1 - b2^k)) + eps)
 *   adamw    the same, always decoupled
 *   lion     w *= 1 - lr wd; w -= lr sign(b1 m + (1 - b1) g), of 0 none;
 *            m = b2 m + (1 - b2) g
 *   lamb     m, v as adam; r = mhat / (sqrt(vhat) + eps) + wd w;
 *            w -= lr |w| / |r| r
 *   lars     m = momentum m + a (g + wd w), a = lr eta |w| / (|g| + wd |w|);
 *            w -= m
 * as PyTorch's and FBGEMM's; norms are those of the whole parameter, and a
 * ratio with a zero in it is 1 (lamb; a = lr for lars).  eps defaults 1e-10
 * for adagrad, else 1e-8; b2 0.99 for rmsprop (its alpha) and lion, else
 * 0.999.  All take g clamped to [-clip_value, clip_value] where it is not 0.
 * One table in optim.c.  All of it is Local. */
#pragma once

#include "dense/param.h"

/* The loop over a piece that an update is. */
typedef enum {
  TS_RULE_SGD,
  TS_RULE_NESTEROV,
  TS_RULE_ADAGRAD,
  TS_RULE_RMSPROP,
  TS_RULE_ADAM,
  TS_RULE_LION,
  TS_RULE_LAMB, /* those from here on have norms */
  TS_RULE_LARS
} ts_update_rule;

typedef struct ts_dense_optim {
  const char *kind;
  ts_update_rule rule;
  int options;  /* TS_OPT_* of sparse/row_optim.h have no meaning here */
  double beta2; /* by default */
  int n_states; /* with momentum 0, sgd and rmsprop have one less */
  const char *state_name[TS_PARAM_STATES_MAX];
} ts_dense_optim;

const ts_dense_optim *ts_dense_optim_find(const char *kind);
/* lamb, lars: an update needs sums over the whole parameter. */
bool ts_dense_optim_has_norms(const ts_optim_config *);
/* Fills defaults; refuses options that the kind does not have. */
ts_err ts_dense_optim_check(ts_optim_config *, const char *where);
int ts_dense_optim_n_states(const ts_optim_config *);
const char *ts_dense_optim_state_name(const ts_optim_config *, int k);

/* Kernel dense_update: flat pieces of n elements, none of which lies in
 * another.
 *
 * Optimizers with norms: where the piece is not the whole parameter, kernel
 * dense_stats comes first (once a step: it moves lamb's moments) and adds
 * this piece's part to two sums of squares; dense_update then takes the sums
 * over all pieces.  Arrays and sums are device memory, OPTIM the host's. */
enum { TS_DENSE_PIECES = 28 }; /* of a call: a GPU's launch has them by value */

typedef struct ts_dense_update_args {
  const ts_optim_config *optim;
  float *w, *state[TS_PARAM_STATES_MAX];
  const float *grad;
  int64_t n;
  double lr_factor;             /* schedule */
  double grad_factor;           /* clipping: grad is multiplied by it first */
  const double *grad_factor_at; /* (1) takes its place, unless NULL */
  int64_t step;                 /* k, from 1 */
  /* (2) sums over the whole parameter; NULL: the piece is all of it. */
  const double *stats;
  /* (n) the running mean of w, which takes the new ones in: ema += (1 -
   * ema_decay) (w - ema); NULL: none. */
  float *ema;
  double ema_decay;
} ts_dense_update_args;

/* Factor of the schedule for step K (from 1): linear warm-up over `warmup`
 * steps (k / warmup), then constant, linear, cosine, inverse_sqrt,
 * polynomial (power) or step decay, or one_cycle, never under floor; plateau
 * is constant here.  Formulas in the .c
 * and doc/deck.  Scales the tables' rates too. */
double ts_schedule_factor(const ts_config *, int64_t k);
/* Refuses a decay whose length is not given. */
ts_err ts_schedule_check(const ts_config *);
