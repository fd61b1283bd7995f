/* param_optim.c - overrides of the deck's optimizer. */
#include "dense/param_optim.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

struct ts_param_optims {
  const ts_optim_config **optim; /* (n) by param->index */
  ts_optim_config *overrides;    /* (n_overrides), checked copies */
  ts_optim_config base;
};

static void inherit(double *x, double base) {
  if (isnan(*x)) *x = base;
}

/* An override takes from the deck's optimizer what it does not give, as far
 * as it is of the same kind. */
static ts_err make_overrides(ts_param_optims *d, const ts_config *c) {
  ts_err err = TS_OK;
  TS_TRY(ts_mem_array(&d->overrides, c->optimizer.n_overrides,
                      sizeof *d->overrides, TS_TAG_DENSE));
  d->base = c->optimizer.base;
  TS_TRY(ts_dense_optim_check(&d->base, "optimizer"));
  for (int32_t i = 0; i < c->optimizer.n_overrides; i++) {
    ts_optim_config *o = &d->overrides[i];
    *o = c->optimizer.overrides[i].optimizer;
    if (!o->kind) o->kind = c->optimizer.base.kind;
    inherit(&o->lr, d->base.lr);
    if (!strcmp(o->kind, d->base.kind)) {
      inherit(&o->eps, d->base.eps);
      inherit(&o->beta1, d->base.beta1);
      inherit(&o->beta2, d->base.beta2);
      inherit(&o->momentum, d->base.momentum);
    }
    inherit(&o->weight_decay, d->base.weight_decay);
    TS_TRY(ts_dense_optim_check(o, c->optimizer.overrides[i].match));
  }
done:
  return err;
}

static ts_err choose(ts_param_optims *d, const ts_params *params,
                     const ts_config *c) {
  for (int32_t p = 0; p < params->n; p++)
    d->optim[params->item[p]->index] = &d->base;
  for (int32_t i = 0; i < c->optimizer.n_overrides; i++) {
    const char *match = c->optimizer.overrides[i].match;
    int n = 0;
    for (int32_t p = 0; p < params->n; p++)
      if (fnmatch(match, params->item[p]->name, 0) == 0) {
        d->optim[params->item[p]->index] = &d->overrides[i];
        n++;
      }
    if (!n)
      return ts_fail(TS_ERR_DECK,
                     "optimizer.overrides: \"%s\" matches no parameter; the "
                     "first is \"%s\"",
                     match, params->n ? params->item[0]->name : "");
  }
  return TS_OK;
}

ts_err ts_param_optims_create(ts_param_optims **out, const ts_params *params,
                              const ts_config *c) {
  ts_err err = TS_OK;
  ts_param_optims *d = NULL;
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  TS_TRY(ts_mem_array(&d->optim, params->n, sizeof *d->optim, TS_TAG_DENSE));
  TS_TRY(make_overrides(d, c));
  TS_TRY(choose(d, params, c));
  *out = d;
  d = NULL;
done:
  ts_param_optims_destroy(d);
  return err;
}

void ts_param_optims_destroy(ts_param_optims *d) {
  if (!d) return;
  ts_mem_free((void *)d->optim);
  ts_mem_free(d->overrides);
  ts_mem_free(d);
}

const ts_optim_config *ts_param_optims_of(const ts_param_optims *d,
                                          const ts_param *p) {
  return d->optim[p->index];
}
