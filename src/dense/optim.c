/* optim.c - the table of dense optimizers and the check of their options. */
#include "dense/optim.h"

#include <math.h>
#include <string.h>

#include "base/kinds.h"

enum {
  HAS_EPS = 1,
  HAS_BETAS = 2,
  HAS_MOMENTUM = 4,
  HAS_ETA = 8,
  HAS_NORMS = 16, /* of whole parameters; weight decay is part of them */
  DECOUPLED = 32  /* always */
};

static const ts_dense_optim table[] = {
    {"sgd", TS_RULE_SGD, HAS_MOMENTUM, 1, {"momentum"}},
    {"momentum", TS_RULE_SGD, HAS_MOMENTUM, 1, {"momentum"}},
    {"adagrad", TS_RULE_ADAGRAD, HAS_EPS, 1, {"sum"}},
    {"adam", TS_RULE_ADAM, HAS_EPS | HAS_BETAS, 2, {"exp_avg", "exp_avg_sq"}},
    {"adamw",
     TS_RULE_ADAM,
     HAS_EPS | HAS_BETAS | DECOUPLED,
     2,
     {"exp_avg", "exp_avg_sq"}},
    {"lamb",
     TS_RULE_LAMB,
     HAS_EPS | HAS_BETAS | HAS_NORMS,
     2,
     {"exp_avg", "exp_avg_sq"}},
    {"lars", TS_RULE_LARS, HAS_MOMENTUM | HAS_ETA | HAS_NORMS, 1, {"momentum"}},
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

static void fill_defaults(ts_optim_config *c, int options) {
  if (isnan(c->lr)) c->lr = 1e-3;
  if (isnan(c->momentum))
    c->momentum = options & HAS_MOMENTUM && strcmp(c->kind, "sgd") ? 0.9 : 0;
  if (isnan(c->weight_decay)) c->weight_decay = 0;
  if (options & HAS_EPS && isnan(c->eps))
    c->eps = strcmp(c->kind, "adagrad") ? 1e-8 : 1e-10;
  if (options & HAS_BETAS) {
    if (isnan(c->beta1)) c->beta1 = 0.9;
    if (isnan(c->beta2)) c->beta2 = 0.999;
  }
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
  if (!(o->options & HAS_BETAS) && (given(c->beta1) || given(c->beta2)))
    return refuse(where, c->kind, "beta1 and beta2");
  fill_defaults(c, o->options);
  return TS_OK;
}

int ts_dense_optim_n_states(const ts_optim_config *c) {
  const ts_dense_optim *o = ts_dense_optim_find(c->kind);
  if (!strcmp(c->kind, "sgd") && !given(c->momentum)) return 0;
  return o->n_states;
}

const char *ts_dense_optim_state_name(const ts_optim_config *c, int k) {
  return ts_dense_optim_find(c->kind)->state_name[k];
}
