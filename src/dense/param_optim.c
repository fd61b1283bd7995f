/* param_optim.c - which optimizer a parameter has. */
#include "dense/param_optim.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

struct ts_param_optims {
  ts_optim_config *optim; /* (n) by param->index */
};

bool ts_param_is_table(const ts_table_config *t) {
  return !strcmp(t->optimizer.kind, "none");
}

ts_err ts_param_table_name(ts_str *name, const ts_table_config *table) {
  return ts_str_append(name,
                       "sparse_arch.%sembedding_bag_collection."
                       "embedding_bags.%s.weight",
                       table->weighted_apart ? "weighted_" : "", table->name);
}

static void inherit(double *x, double base) {
  if (isnan(*x)) *x = base;
}

/* What FROM does not give is taken from BASE, as far as it is of the same
 * kind. */
static ts_err override(ts_optim_config *o, const ts_optim_config *base,
                       const ts_optim_config *from, const char *where) {
  *o = *from;
  if (!o->kind) o->kind = base->kind;
  inherit(&o->lr, base->lr);
  if (!strcmp(o->kind, base->kind)) {
    inherit(&o->eps, base->eps);
    inherit(&o->beta1, base->beta1);
    inherit(&o->beta2, base->beta2);
    inherit(&o->momentum, base->momentum);
    inherit(&o->eta, base->eta);
  }
  inherit(&o->weight_decay, base->weight_decay);
  o->clip_value = base->clip_value;
  return ts_dense_optim_check(o, where);
}

static ts_err deck_optim(ts_optim_config *out, const ts_config *c) {
  *out = c->optimizer.base;
  return ts_dense_optim_check(out, "optimizer");
}

/* Before overrides. */
static ts_err own_optim(ts_optim_config *out, const ts_config *c,
                        const ts_param *p) {
  ts_optim_config base;
  TS_DO(deck_optim(&base, c));
  *out = base;
  if (p->optimizer) TS_DO(override(out, &base, p->optimizer, p->name));
  if (!(p->l2 > 0)) return TS_OK;
  if (out->weight_decay_mode == TS_WD_NONE) {
    out->weight_decay = 0;
    out->weight_decay_mode = TS_WD_L2;
  }
  out->weight_decay += p->l2;
  return ts_dense_optim_check(out, p->name);
}

/* OUT becomes that of the last override that matches NAME, if one does. */
static ts_err override_named(ts_optim_config *out, const ts_config *c,
                             const char *name) {
  const ts_optim_config base = *out;
  for (int32_t i = c->optimizer.n_overrides - 1; i >= 0; i--) {
    const ts_optim_override *o = &c->optimizer.overrides[i];
    if (fnmatch(o->match, name, 0) == 0)
      return override(out, &base, &o->optimizer, o->match);
  }
  return TS_OK;
}

ts_err ts_param_optim(ts_optim_config *out, const ts_config *c,
                      const ts_param *p) {
  TS_DO(own_optim(out, c, p));
  return override_named(out, c, p->name);
}

int ts_param_n_states(const ts_optim_config *c, const ts_param *p) {
  return p->frozen ? 0 : ts_dense_optim_n_states(c);
}

ts_err ts_param_optim_named(ts_optim_config *out, const ts_config *c,
                            const char *name) {
  TS_DO(deck_optim(out, c));
  return override_named(out, c, name);
}

/* True where PATTERN names a table that the deck's optimizer trains. */
static ts_err matches_table(bool *found, const ts_config *c,
                            const char *pattern) {
  ts_err err = TS_OK;
  ts_str name = {0};
  for (int32_t i = 0; !*found && i < c->n_tables; i++) {
    if (!ts_param_is_table(&c->tables[i])) continue;
    ts_str_reset(&name);
    TS_TRY(ts_param_table_name(&name, &c->tables[i]));
    *found = fnmatch(pattern, name.text, 0) == 0;
  }
done:
  ts_str_reset(&name);
  return err;
}

/* Every override is one of something, and of options that its kind has. */
static ts_err check_override(const ts_config *c, const ts_params *params,
                             const ts_optim_override *o) {
  bool found = false;
  ts_optim_config base, ignored;
  for (int32_t p = 0; p < params->n; p++) {
    if (fnmatch(o->match, params->item[p]->name, 0) != 0) continue;
    found = true;
    TS_DO(own_optim(&base, c, params->item[p]));
    TS_DO(override(&ignored, &base, &o->optimizer, o->match));
  }
  if (!found) {
    TS_DO(deck_optim(&base, c));
    TS_DO(override(&ignored, &base, &o->optimizer, o->match));
  }
  TS_DO(matches_table(&found, c, o->match));
  if (!found)
    return ts_fail(TS_ERR_DECK,
                   "optimizer.overrides: \"%s\" matches no parameter; the "
                   "first is \"%s\"",
                   o->match, params->n ? params->item[0]->name : "");
  return TS_OK;
}

ts_err ts_param_optims_create(ts_param_optims **out, const ts_params *params,
                              const ts_config *c) {
  ts_err err = TS_OK;
  ts_param_optims *d = NULL;
  if (c->optimizer.clip_norm > 0 && c->optimizer.base.clip_value > 0)
    TS_THROW(TS_ERR_DECK,
             "optimizer.clip_norm and optimizer.clip_value are two ways of "
             "clipping: take one of them");
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  TS_TRY(ts_mem_many(d->optim, params->n, DENSE));
  for (int32_t i = 0; i < c->optimizer.n_overrides; i++)
    TS_TRY(check_override(c, params, &c->optimizer.overrides[i]));
  for (int32_t p = 0; p < params->n; p++)
    TS_TRY(
        ts_param_optim(&d->optim[params->item[p]->index], c, params->item[p]));
  *out = d;
  d = NULL;
done:
  ts_param_optims_destroy(d);
  return err;
}

void ts_param_optims_destroy(ts_param_optims *d) {
  if (!d) return;
  ts_mem_free(d->optim);
  ts_mem_free(d);
}

const ts_optim_config *ts_param_optims_of(const ts_param_optims *d,
                                          const ts_param *p) {
  return &d->optim[p->index];
}
