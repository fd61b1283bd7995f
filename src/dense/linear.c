/* linear.c - linear layers over the engines: which one, tasks, and for those of
 * the host ReLU's mask and the bias. */
#include "dense/linear.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "config.h"
#include "dense/linear_impl.h"
#include "dense/linear_mask.h"

enum { PAD = 32 };

static const ts_engine *const engines[] = {
#ifdef HAVE_ONEDNN
    &ts_engine_onednn,
#endif
#ifdef HAVE_CBLAS
    &ts_engine_cblas,
#endif
    &ts_engine_ref,
};

static const ts_engine *find_engine(const char *name) {
  if (!name || !strcmp(name, "auto")) return engines[0];
  for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
    if (!strcmp(engines[i]->name, name)) return engines[i];
  return NULL;
}

/* For a device's kernels, and for the host's, which name none. */
static const ts_engine *engine_of(const ts_kernels *k, const char *name) {
  return k && k->engine ? k->engine : find_engine(name);
}

const ts_engine *ts_engine_host(const char *name, int32_t n_out) {
  const ts_engine *e = find_engine(name);
  return e && e != &ts_engine_ref && n_out <= TS_NARROW_MAX ? &ts_engine_narrow
                                                            : e;
}

const char *ts_linear_engine(const char *name) {
  const ts_engine *e = find_engine(name);
  return e ? e->name : "none";
}

const char *ts_linear_engine_version(const ts_kernels *k) {
  const ts_engine *e = engine_of(k, NULL);
  return e->version ? e->version() : e->name;
}

ts_err ts_linear_unfused(const ts_kernels *k, ts_str *text) {
  return k->engine && k->engine->unfused ? k->engine->unfused(text) : TS_OK;
}

bool ts_linear_chooses(const ts_kernels *k) {
  return k->engine && k->engine->save;
}

ts_err ts_linear_choices(const ts_kernels *k, ts_str *text) {
  return ts_linear_chooses(k) ? k->engine->save(text) : TS_OK;
}

ts_err ts_linear_choose(const ts_kernels *k, const char *text) {
  return ts_linear_chooses(k) ? k->engine->restore(text) : TS_OK;
}

static ts_err create_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_linear *l = *(ts_linear **)arg;
  return l->engine->create(l);
}

bool ts_linear_in_bf16(ts_precision p, int32_t n_out, const char *engine,
                       const ts_kernels *k) {
  const ts_engine *e = engine_of(k, engine);
  return ts_linear_precision(p, k) == TS_PRECISION_BF16 && e && e->has_bf16 &&
         e->has_bf16(n_out);
}

ts_precision ts_linear_precision(ts_precision p, const ts_kernels *k) {
  static bool said_bf16, said_tf32;
  const ts_engine *e = engine_of(k, NULL);
  if (p == TS_PRECISION_BF16 && !(e->has_bf16 && e->has_bf16(INT32_MAX))) {
    if (!said_bf16)
      ts_note("run.precision \"bf16\": this CPU has no instructions for it "
              "(AVX-512 BF16 or AMX): products are of f32");
    said_bf16 = true;
    return TS_PRECISION_F32;
  }
  if (p == TS_PRECISION_TF32 && !e->has_tf32) {
    if (!said_tf32)
      ts_note("run.precision \"tf32\": a GPU's, not the host's: products are "
              "of f32");
    said_tf32 = true;
    return TS_PRECISION_F32;
  }
  return p;
}

static ts_err check(const ts_linear *l) {
  const ts_linear_spec *s = &l->spec;
  const ts_precision had = ts_linear_precision(s->precision, s->kernels);
  if (s->precision == TS_PRECISION_BF16 &&
      !engine_of(s->kernels, s->engine)->has_bf16)
    return ts_fail(TS_ERR_DECK, "run.precision \"bf16\" needs oneDNN, not %s",
                   ts_linear_engine(s->engine));
  if ((s->y_half && !l->half) || (s->x_half && had != TS_PRECISION_BF16) ||
      (s->x_half && s->in_stride % PAD) || (s->y_half && s->out_stride % PAD) ||
      (s->part && (!l->half || s->x_half || s->y_half)))
    return ts_fail(TS_ERR_INTERNAL, "bf16 arrays do not suit layer %s",
                   l->W->name);
  return TS_OK;
}

static int32_t padded(int32_t n) {
  return (n + PAD - 1) / PAD * PAD;
}

ts_err ts_linear_create(ts_linear **out, const ts_linear_spec *spec,
                        ts_param *W, ts_param *b, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_linear *l = NULL;
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_DENSE));
  l->spec = *spec;
  if (!spec->y_half && !spec->part) l->spec.out_stride = spec->n_out;
  l->W = W;
  l->b = b;
  l->k_pad = padded(spec->n_in);
  l->n_pad = padded(spec->n_out);
  l->half = ts_linear_in_bf16(spec->precision, spec->n_out, spec->engine,
                              spec->kernels);
  l->engine = spec->kernels && spec->kernels->engine
                  ? spec->kernels->engine
                  : ts_engine_host(spec->engine, spec->n_out);
  if (!l->engine)
    TS_THROW(TS_ERR_DECK, "dense engine \"%s\" is not in this build",
             spec->engine);
  TS_TRY(check(l));
  /* On the lane: primitives take the thread count of the thread that makes
   * them. */
  TS_TRY(ts_lane_run(lane, "create layer", create_task, l));
  TS_TRY(ts_lane_sync(lane));
  if (spec->part) l->before = W->layer;
  W->layer = l;
  W->half = l->half;
  *out = l;
  l = NULL;
done:
  ts_linear_destroy(l);
  return err;
}

void ts_linear_destroy(ts_linear *l) {
  if (!l) return;
  if (l->W->layer == l) l->W->layer = NULL;
  if (l->data) l->engine->destroy(l);
  ts_mem_free(l->bias_parts);
  ts_mem_free(l->g16);
  ts_mem_free(l);
}

typedef struct ts_repeat_arg {
  ts_linear *l;
  ts_pass pass;
} ts_repeat_arg;

static ts_err repeat_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_repeat_arg *a = arg;
  return a->l->engine->repeat(a->l, a->pass);
}

ts_err ts_linear_repeat(ts_linear *l, ts_pass pass, ts_lane *lane) {
  for (; l; l = l->before) {
    const ts_repeat_arg arg = {l, pass};
    if (l->engine->repeat)
      TS_DO(ts_lane_run(lane, "products alone", repeat_task, arg));
  }
  return TS_OK;
}

typedef struct ts_linear_arg {
  ts_linear *l;
  void *y, *dx, *dy; /* f32 or bf16 */
  const void *x;
  int32_t batch, n; /* n: forward_some's */
  ts_linear_at at;
} ts_linear_arg;

static ts_linear_at now_at(const ts_linear *l) {
  const int64_t row = l->spec.first_row, at = row * l->spec.n_in;
  return (ts_linear_at){l->W->w + at, l->b ? l->b->w + row : NULL,
                        l->W->grad ? l->W->grad + at : NULL,
                        l->b && l->b->grad ? l->b->grad + row : NULL};
}

static ts_err forward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_linear_arg *a = arg;
  if (!a->batch) return TS_OK;
  a->l->at = a->at;
  return a->l->engine->forward(a->l, a->y, a->x, a->batch);
}

ts_err ts_linear_forward(ts_linear *l, void *y, const void *x, int32_t batch,
                         ts_lane *lane) {
  ts_linear_arg arg = {.l = l, .y = y, .x = x, .batch = batch, .at = now_at(l)};
  return ts_lane_run(lane, "dense forward", forward_task, arg);
}

bool ts_linear_has_some(const ts_linear *l) {
  return l->engine->has_some && l->engine->has_some(l);
}

static ts_err some_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_linear_arg *a = arg;
  if (!a->batch) return TS_OK;
  a->l->at = a->at;
  return a->l->engine->forward_some(a->l, a->y, a->x, a->batch, a->n);
}

ts_err ts_linear_forward_some(ts_linear *l, float *y, const float *x,
                              int32_t batch, int32_t first, int32_t n,
                              ts_lane *lane) {
  ts_linear_arg arg = {
      .l = l, .y = y, .x = x, .batch = batch, .n = n, .at = now_at(l)};
  arg.at.W += (int64_t)first * l->spec.n_in;
  if (arg.at.b) arg.at.b += first;
  return ts_lane_run(lane, "dense forward", some_task, arg);
}

static ts_err zero(const ts_linear *l, void *p, int64_t n) {
  const size_t bytes = (size_t)n * sizeof(float);
  if (l->spec.kernels) return l->spec.kernels->zero(p, bytes);
  memset(p, 0, bytes);
  return TS_OK;
}

static ts_err backward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_linear_arg *a = arg;
  ts_linear *l = a->l;
  l->at = a->at;
  if (a->batch)
    return l->engine->backward(l, a->dx, a->dy, a->x, a->y, a->batch);
  TS_DO(zero(l, l->at.dW, (int64_t)l->spec.n_out * l->spec.n_in));
  if (l->b) TS_DO(zero(l, l->at.db, l->spec.n_out));
  return TS_OK;
}

ts_err ts_linear_backward(ts_linear *l, void *dx, void *dy, const void *x,
                          const void *y, int32_t batch, ts_lane *lane) {
  ts_linear_arg arg = {.l = l,
                       .y = (void *)y,
                       .dx = dx,
                       .dy = dy,
                       .x = x,
                       .batch = batch,
                       .at = now_at(l)};
  return ts_lane_run(lane, "dense backward", backward_task, arg);
}

/* ---- engines of the host ------------------------------------------------- */

ts_err ts_linear_mask_create(ts_linear *l) {
  const ts_linear_spec *s = &l->spec;
  TS_DO(ts_mem_many(l->bias_parts, ts_mask_parts(s->batch_max) * s->n_out,
                    ACTIVATIONS));
  if (l->half && !s->y_half)
    TS_DO(ts_mem_many(l->g16, (int64_t)s->batch_max * l->n_pad, ACTIVATIONS));
  return TS_OK;
}

const void *ts_linear_masked(ts_linear *l, void *dy, const void *y,
                             int32_t batch) {
  const ts_linear_spec *s = &l->spec;
  const ts_rows_view g = {dy, s->out_stride, s->y_half};
  const ts_rows_view g16 = {l->g16, l->n_pad, true};
  const ts_mask_args a = {
      .g = g,
      .y = {s->relu ? (void *)y : NULL, s->out_stride, s->y_half},
      .out = l->g16 ? g16 : g,
      .db = l->at.db,
      .parts = l->bias_parts,
      .batch = batch,
      .n = s->n_out};
  if (!l->b && !s->relu && !l->g16) return dy;
  ts_mask_and_sum(&a);
  return a.out.at;
}
