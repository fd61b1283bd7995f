/* optim.c - the table of dense optimizers and the check of their options. */
#include "dense/optim.h"

#include <math.h>
#include <string.h>

#include "base/kinds.h"

enum {
  HAS_EPS = 1,
  HAS_BETA1 = 2,
  HAS_BETA2 = 4,
  HAS_BETAS = HAS_BETA1 | HAS_BETA2,
  HAS_MOMENTUM = 8,
  HAS_ETA = 16,
  HAS_NORMS = 32,    /* of whole parameters; weight decay is part of them */
  DECOUPLED = 64,    /* always */
  MAY_MOMENTUM = 128 /* 0 by default, and then without its state, the last */
};

static const ts_dense_optim table[] = {
    {"sgd", TS_RULE_SGD, HAS_MOMENTUM | MAY_MOMENTUM, 0, 1, {"momentum"}},
    {"momentum", TS_RULE_SGD, HAS_MOMENTUM, 0, 1, {"momentum"}},
    {"nesterov", TS_RULE_NESTEROV, HAS_MOMENTUM, 0, 1, {"momentum"}},
    {"adagrad", TS_RULE_ADAGRAD, HAS_EPS, 0, 1, {"sum"}},
    {"rmsprop",
     TS_RULE_RMSPROP,
     HAS_EPS | HAS_BETA2 | HAS_MOMENTUM | MAY_MOMENTUM,
     0.99,
     2,
     {"square_avg", "momentum"}},
    {"adam",
     TS_RULE_ADAM,
     HAS_EPS | HAS_BETAS,
     0.999,
     2,
     {"exp_avg", "exp_avg_sq"}},
    {"adamw",
     TS_RULE_ADAM,
     HAS_EPS | HAS_BETAS | DECOUPLED,
     0.999,
     2,
     {"exp_avg", "exp_avg_sq"}},
    {"lion", TS_RULE_LION, HAS_BETAS | DECOUPLED, 0.99, 1, {"exp_avg"}},
    {"lamb",
     TS_RULE_LAMB,
     HAS_EPS | HAS_BETAS | HAS_NORMS,
     0.999,
     2,
     {"exp_avg", "exp_avg_sq"}},
    {"lars",
     TS_RULE_LARS,
     HAS_MOMENTUM | HAS_ETA | HAS_NORMS,
     0,
     1,
     {"momentum"}},
};

const ts_dense_optim *ts_dense_optim_find(const char *kind) {
  for (size_t i = 0; kind && i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i].kind, kind)) return &table[i];
  return NULL;
}

bool ts_dense_optim_has_norms(const ts_optim_config *c) {
  return ts_dense_optim_find(c->kind)->options & HAS_NORMS;
}

static ts_err refuse(const char *where, const char *kind, const char *what) {
  return ts_fail(TS_ERR_DECK, "%s: dense optimizer %s has no %s", where, kind,
                 what);
}

static bool given(double x) {
  return !isnan(x) && x != 0;
}

static void fill_defaults(ts_optim_config *c, const ts_dense_optim *o) {
  const int options = o->options;
  if (isnan(c->lr)) c->lr = 1e-3;
  if (isnan(c->momentum))
    c->momentum = options & HAS_MOMENTUM && !(options & MAY_MOMENTUM) ? 0.9 : 0;
  if (isnan(c->weight_decay)) c->weight_decay = 0;
  if (options & HAS_EPS && isnan(c->eps))
    c->eps = strcmp(c->kind, "adagrad") ? 1e-8 : 1e-10;
  if (options & HAS_BETA1 && isnan(c->beta1)) c->beta1 = 0.9;
  if (options & HAS_BETA2 && isnan(c->beta2)) c->beta2 = o->beta2;
  if (options & HAS_ETA && isnan(c->eta)) c->eta = 0.001;
  if (options & DECOUPLED && c->weight_decay_mode == TS_WD_L2)
    c->weight_decay_mode = TS_WD_DECOUPLED;
}

ts_err ts_dense_optim_check(ts_optim_config *c, const char *where) {
  const ts_dense_optim *o = ts_dense_optim_find(c->kind);
  if (!o)
    return ts_fail(TS_ERR_DECK, "%s: no dense optimizer \"%s\"; there are: %s",
                   where, c->kind ? c->kind : "", TS_LISTED(TS_DENSE_OPTIMS));
  if (given(c->momentum) && !(o->options & HAS_MOMENTUM))
    return refuse(where, c->kind, "momentum");
  if (given(c->eta) && !(o->options & HAS_ETA))
    return refuse(where, c->kind, "eta");
  if (given(c->eps) && !(o->options & HAS_EPS))
    return refuse(where, c->kind, "eps");
  if (given(c->beta1) && !(o->options & HAS_BETA1))
    return refuse(where, c->kind, "beta1");
  if (given(c->beta2) && !(o->options & HAS_BETA2))
    return refuse(where, c->kind, "beta2");
  fill_defaults(c, o);
  return TS_OK;
}

int ts_dense_optim_n_states(const ts_optim_config *c) {
  const ts_dense_optim *o = ts_dense_optim_find(c->kind);
  return o->n_states - (o->options & MAY_MOMENTUM && !given(c->momentum));
}

const char *ts_dense_optim_state_name(const ts_optim_config *c, int k) {
  return ts_dense_optim_find(c->kind)->state_name[k];
}
