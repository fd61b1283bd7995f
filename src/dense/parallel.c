/* parallel.c - the table of strategies (to add one: one file, one line) and
 * what they have in common. */
#include "dense/parallel_impl.h"

#include <string.h>

#include "base/kinds.h"
#include "base/log.h"

#define DECLARE(name) extern const ts_parallel_ops ts_parallel_##name;
TS_PARALLELS(DECLARE)

#define ENTRY(name) &ts_parallel_##name,
static const ts_parallel_ops *const strategies[] = {TS_PARALLELS(ENTRY)};

static const ts_parallel_ops *find(const char *kind) {
  for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++)
    if (!strcmp(strategies[i]->kind, kind)) return strategies[i];
  return NULL;
}

bool ts_parallel_defers(const ts_config *c) {
  const ts_parallel_ops *ops = find(c->dense.parallel);
  return ops && ops->defers;
}

ts_err ts_parallel_create(ts_parallel **out, const ts_parallel_spec *spec) {
  const char *kind = spec->config->dense.parallel;
  const ts_parallel_ops *ops = find(kind);
  if (!ops) return ts_fail(TS_ERR_DECK, "dense.parallel: no \"%s\"", kind);
  TS_DO(ops->create(out, spec));
  ts_parallel_slow(*out, 1);
  return TS_OK;
}

void ts_parallel_destroy(ts_parallel *p) {
  if (p) p->ops->destroy(p);
}

ts_layer_hooks ts_parallel_hooks(ts_parallel *p) {
  if (!p) return (ts_layer_hooks){0};
  ts_layer_hooks hooks = p->ops->hooks;
  hooks.arg = p;
  return hooks;
}

void ts_parallel_slow(ts_parallel *p, double rate) {
  p->rate = rate;
}

double ts_parallel_rate(const ts_parallel *p, int64_t step) {
  return ts_schedule_factor(p->spec.config, step) * p->rate;
}

ts_err ts_parallel_begin(ts_parallel *p, int64_t step, bool sync) {
  return p->ops->begin(p, step, sync);
}

ts_err ts_parallel_end(ts_parallel *p, double *grad_norm, ts_lane *lane) {
  return p->ops->end(p, grad_norm, lane);
}

void ts_parallel_drop(ts_parallel *p) {
  p->ops->drop(p);
}

ts_err ts_parallel_stash(ts_parallel *p, bool on) {
  if (p->ops->stash) return p->ops->stash(p, on);
  if (!on) return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "pipeline.stash_gradients: not with dense.parallel = \"%s\"",
                 p->ops->kind);
}

ts_err ts_parallel_unstash(ts_parallel *p, int64_t step, ts_lane *lane) {
  return p->ops->unstash ? p->ops->unstash(p, step, lane) : TS_OK;
}

bool ts_parallel_stash_finite(const ts_parallel *p) {
  return !p->ops->stash_finite || p->ops->stash_finite(p);
}

ts_parallel_stat ts_parallel_stat_of(const ts_parallel *p) {
  return p->ops->stat(p);
}

const ts_optim_config *ts_parallel_optim(const ts_parallel *p,
                                         const ts_param *param) {
  return ts_param_optims_of(p->optims, param);
}

ts_param_piece ts_parallel_piece(const ts_parallel *p, const ts_param *param) {
  return p->ops->piece(p, param);
}

void ts_parallel_touch(ts_parallel *p) {
  for (int32_t i = 0; i < p->spec.params->n; i++)
    p->spec.params->item[i]->version++;
}

/* ---- averages ------------------------------------------------------------ */

/* P's average on this rank becomes its weights, or changes places with them. */
static ts_err with_average(ts_parallel *d, const ts_param *p, bool swaps,
                           ts_lane *lane) {
  const ts_param_piece x = ts_parallel_piece(d, p);
  const int64_t n = x.n_rows * (p->cols ? p->cols : 1);
  if (!p->ema || !n) return TS_OK;
  if (swaps) return ts_parallel_swap(d->spec.kernels, x.w, p->ema, n, lane);
  return ts_parallel_fold(d->spec.kernels, p->ema, x.w, n, true, lane);
}

ts_err ts_parallel_start_averages(ts_parallel *d, const ts_param *p,
                                  ts_lane *lane) {
  for (int32_t i = 0; i < d->spec.params->n; i++)
    if (!p || d->spec.params->item[i] == p)
      TS_DO(with_average(d, d->spec.params->item[i], false, lane));
  return TS_OK;
}

ts_err ts_parallel_swap_averages(ts_parallel *d, ts_lane *lane) {
  if (!d->spec.training || !(d->spec.config->optimizer.ema > 0)) return TS_OK;
  for (int32_t i = 0; i < d->spec.params->n; i++)
    TS_DO(with_average(d, d->spec.params->item[i], true, lane));
  TS_DO(ts_lane_sync(lane));
  ts_parallel_touch(d);
  return TS_OK;
}

/* ---- what strategies have in common -------------------------------------- */

bool ts_parallel_in_backward(const ts_config *c) {
  if (!c->optimizer.in_backward) return false;
  if (!(c->optimizer.clip_norm > 0)) return true;
  ts_note("optimizer.clip_norm needs all gradients before any update: "
          "optimizer.in_backward is off");
  return false;
}

ts_dense_update_args ts_parallel_update_args(const ts_parallel *base,
                                             const ts_param *p, int64_t step,
                                             double lr_factor,
                                             const double *norm) {
  ts_dense_update_args u = {.optim = ts_param_optims_of(base->optims, p),
                            .lr_factor = lr_factor,
                            .grad_factor = 1.0,
                            .step = step};
  if (norm) u.grad_factor_at = norm + 1;
  memcpy(u.state, p->state, sizeof u.state);
  u.ema = p->ema;
  u.ema_decay = base->spec.config->optimizer.ema;
  return u;
}

ts_err ts_parallel_wire(ts_dtype *wire, const ts_config *c) {
  const char *name = c->dense.comm_dtype;
  *wire = TS_F32;
  if (!name || !strcmp(name, "f32")) return TS_OK;
  if (!strcmp(name, "bf16"))
    *wire = TS_BF16;
  else if (!strcmp(name, "f16"))
    *wire = TS_F16;
  else
    return ts_fail(TS_ERR_DECK, "dense.comm_dtype: no \"%s\"", name);
  return TS_OK;
}

typedef struct ts_wire_arg {
  const ts_kernels *kernels;
  float *x;
  int64_t n;
  ts_dtype wire;
} ts_wire_arg;

static ts_err shorten_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_wire_arg *a = arg;
  return a->kernels->shorten(a->x, a->n, a->wire);
}

static ts_err widen_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_wire_arg *a = arg;
  return a->kernels->widen(a->x, a->n, a->wire);
}

ts_err ts_parallel_shorten(const ts_kernels *k, float *x, int64_t n,
                           ts_dtype wire, ts_lane *lane) {
  const ts_wire_arg arg = {k, x, n, wire};
  if (wire == TS_F32) return TS_OK;
  return ts_lane_run(lane, "shorten gradients", shorten_task, arg);
}

ts_err ts_parallel_widen(const ts_kernels *k, float *x, int64_t n,
                         ts_dtype wire, ts_lane *lane) {
  const ts_wire_arg arg = {k, x, n, wire};
  if (wire == TS_F32) return TS_OK;
  return ts_lane_run(lane, "widen gradients", widen_task, arg);
}

typedef struct ts_pair {
  const ts_kernels *kernels;
  float *a, *b;
  int64_t n;
} ts_pair;

static ts_err copy_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_pair *p = arg;
  return p->kernels->copy(p->a, p->b, (size_t)p->n * sizeof *p->a);
}

static ts_err add_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_pair *p = arg;
  return p->kernels->add(p->a, p->b, p->n);
}

static ts_err swap_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_pair *p = arg;
  return p->kernels->swap(p->a, p->b, p->n);
}

ts_err ts_parallel_fold(const ts_kernels *k, float *to, const float *from,
                        int64_t n, bool first, ts_lane *lane) {
  const ts_pair pair = {k, to, (float *)(uintptr_t)from, n};
  return ts_lane_run(lane, "accumulate", first ? copy_task : add_task, pair);
}

ts_err ts_parallel_swap(const ts_kernels *k, float *a, float *b, int64_t n,
                        ts_lane *lane) {
  const ts_pair pair = {k, a, b, n};
  return ts_lane_run(lane, "stash", swap_task, pair);
}

bool ts_parallel_finite(const ts_kernels *k, int32_t *bad,
                        const ts_check_finite_args *check_finite, int32_t n) {
  ts_err err = TS_OK;
  int32_t found = 1;
  TS_TRY(k->zero(bad, sizeof *bad));
  for (int32_t i = 0; i < n; i++) TS_TRY(k->check_finite(&check_finite[i]));
  TS_TRY(k->fetch(&found, bad, sizeof found));
done:
  return err == TS_OK && !found;
}
