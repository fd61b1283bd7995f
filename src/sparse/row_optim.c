/* row_optim.c - the table of row optimizers, those of base/kinds.h, and the
 * check of their options. */
#include "sparse/row_optim.h"

#include <math.h>
#include <string.h>

#include "base/kinds.h"

#define DECLARE(name) extern const ts_row_optim ts_row_optim_##name;
TS_ROW_OPTIMS(DECLARE)

#define ENTRY(name) &ts_row_optim_##name,
static const ts_row_optim *const table[] = {TS_ROW_OPTIMS(ENTRY)};

/* Rows that the dense optimizer trains (shard/dense_rows.c): for estimates of
 * memory, with as many states as one may have. */
const ts_row_optim ts_row_optim_none = {
    .kind = "none",
    .n_states = 2,
    .state = {{"exp_avg", false}, {"exp_avg_sq", false}}};

const ts_row_optim *ts_row_optim_find(const char *kind) {
  for (size_t i = 0; kind && i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i]->kind, kind)) return table[i];
  return NULL;
}

ts_row_optim ts_row_optim_of(const ts_table_config *c) {
  const ts_row_optim *o = ts_row_optim_find(c->optimizer.kind);
  ts_row_optim own = o ? *o : (ts_row_optim){0};
  if (!o || !c->ema) return own;
  own.averages = true;
  own.state[own.n_states++] = (ts_row_state_desc){"ema", false};
  own.state[own.n_states++] = (ts_row_state_desc){"ema_pass", true};
  return own;
}

int64_t ts_row_state_bytes(const ts_table_config *c, int32_t columns,
                           bool all) {
  const ts_row_optim o = ts_row_optim_of(c);
  int64_t bytes = 0;
  for (int k = 0; k < o.n_states; k++)
    if (!o.state[k].per_row)
      bytes += 4 * (int64_t)columns;
    else if (all)
      bytes += 4;
  return bytes;
}

/* A value that the deck gives for an option that KIND does not have. */
static ts_err refuse(const char *where, const ts_row_optim *o,
                     const char *option) {
  return ts_fail(TS_ERR_DECK, "table %s: optimizer %s has no %s", where,
                 o->kind, option);
}

static void set_default(double *x, double value) {
  if (isnan(*x)) *x = value;
}

static ts_err check_decay(const ts_optim_config *c, const ts_row_optim *o,
                          const char *where) {
  if (!isnan(c->weight_decay) && c->weight_decay != 0 &&
      c->weight_decay_mode == TS_WD_NONE)
    return ts_fail(TS_ERR_DECK,
                   "table %s: weight_decay = %g has no effect with "
                   "weight_decay_mode = \"none\"; set it to %s",
                   where, c->weight_decay,
                   o->options & TS_OPT_WD_DECOUPLED
                       ? o->options & TS_OPT_WD_L2 ? "\"l2\" or \"decoupled\""
                                                   : "\"decoupled\""
                       : "\"l2\"");
  if (c->weight_decay_mode == TS_WD_L2 && !(o->options & TS_OPT_WD_L2))
    return refuse(where, o, "weight_decay_mode \"l2\"");
  if (c->weight_decay_mode == TS_WD_DECOUPLED &&
      !(o->options & TS_OPT_WD_DECOUPLED))
    return refuse(where, o, "weight_decay_mode \"decoupled\"");
  return TS_OK;
}

ts_err ts_row_optim_check(ts_optim_config *c, const char *where) {
  const ts_row_optim *o = ts_row_optim_find(c->kind);
  if (!o)
    return ts_fail(TS_ERR_DECK, "table %s: no optimizer \"%s\"; there are: %s",
                   where, c->kind ? c->kind : "", TS_LISTED(TS_ROW_OPTIMS));
  const struct {
    const char *name;
    double value;
    int option;
  } given[] = {{"eps", c->eps, TS_OPT_EPS},
               {"beta1", c->beta1, TS_OPT_BETAS},
               {"beta2", c->beta2, TS_OPT_BETAS},
               {"momentum", c->momentum, TS_OPT_MOMENTUM},
               {"eta", c->eta, TS_OPT_ETA}};
  for (size_t i = 0; i < sizeof given / sizeof *given; i++)
    if (!isnan(given[i].value) && !(o->options & given[i].option))
      return refuse(where, o, given[i].name);
  ts_err err = check_decay(c, o, where);
  if (err != TS_OK) return err;
  set_default(&c->lr, 0.01);
  if (o->options & TS_OPT_EPS) set_default(&c->eps, 1e-8);
  if (o->options & TS_OPT_BETAS) {
    set_default(&c->beta1, 0.9);
    set_default(&c->beta2, 0.999);
  }
  if (o->options & TS_OPT_MOMENTUM) set_default(&c->momentum, 0.9);
  if (o->options & TS_OPT_ETA) set_default(&c->eta, 0.001);
  set_default(&c->weight_decay, 0.0);
  return TS_OK;
}

static float number(double x) {
  return isnan(x) ? 0.0f : (float)x;
}

ts_row_hyper ts_row_hyper_at(const ts_optim_config *c, double lr_factor,
                             int64_t k) {
  ts_row_hyper h = {.lr = (float)(c->lr * lr_factor),
                    .eps = number(c->eps),
                    .beta1 = number(c->beta1),
                    .beta2 = number(c->beta2),
                    .momentum = number(c->momentum),
                    .eta = number(c->eta),
                    .weight_decay = number(c->weight_decay),
                    .weight_decay_mode = c->weight_decay_mode,
                    .correction1 = 1.0f,
                    .correction2 = 1.0f};
  /* In double, once a step: 1 - b^k loses everything in float. */
  if (!isnan(c->beta1))
    h.correction1 = (float)(1.0 / (1.0 - pow(c->beta1, (double)k)));
  if (!isnan(c->beta2))
    h.correction2 = (float)(1.0 / (1.0 - pow(c->beta2, (double)k)));
  return h;
}
