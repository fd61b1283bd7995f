/* linear.c - linear layers over the engines: tasks, ReLU's mask, bias. */
#include "dense/linear.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "config.h"
#include "dense/linear_impl.h"

enum { BIAS_BLOCK = 64, NARROW_MAX = 4 };

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

const char *ts_linear_engine(const char *name) {
  const ts_engine *e = find_engine(name);
  return e ? e->name : "none";
}

const char *ts_linear_engine_version(void) {
#ifdef HAVE_ONEDNN
  return ts_engine_onednn_version();
#else
  return engines[0]->name;
#endif
}

static ts_err create_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_linear *l = *(ts_linear **)arg;
  return l->engine->create(l);
}

ts_err ts_linear_create(ts_linear **out, const ts_linear_spec *spec,
                        ts_param *W, ts_param *b, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_linear *l = NULL;
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_DENSE));
  l->spec = *spec;
  l->W = W;
  l->b = b;
  l->engine = find_engine(spec->engine);
  if (!l->engine)
    TS_THROW(TS_ERR_DECK, "dense engine \"%s\" is not in this build",
             spec->engine);
  if (spec->precision == TS_PRECISION_BF16 && strcmp(l->engine->name, "onednn"))
    TS_THROW(TS_ERR_DECK, "run.precision \"bf16\" needs oneDNN, not %s",
             l->engine->name);
  if (spec->n_out <= NARROW_MAX && l->engine != &ts_engine_ref)
    l->engine = &ts_engine_narrow;
  const int64_t parts = (spec->batch_max + BIAS_BLOCK - 1) / BIAS_BLOCK;
  TS_TRY(ts_mem_array(&l->bias_parts, (parts + 1) * spec->n_out,
                      sizeof *l->bias_parts, TS_TAG_ACTIVATIONS));
  /* On the lane: primitives take the thread count of the thread that makes
   * them. */
  TS_TRY(ts_lane_submit(lane, "create layer", create_task, &l, sizeof l));
  TS_TRY(ts_lane_sync(lane));
  W->layer = l;
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
  const ts_repeat_arg arg = {l, pass};
  if (!l->engine->repeat) return TS_OK;
  return ts_lane_submit(lane, "products alone", repeat_task, &arg, sizeof arg);
}

typedef struct ts_linear_arg {
  ts_linear *l;
  float *y, *dx, *dy;
  const float *x;
  int32_t batch;
  ts_linear_at at;
} ts_linear_arg;

static ts_linear_at now_at(const ts_linear *l) {
  return (ts_linear_at){l->W->w, l->b->w, l->W->grad, l->b->grad};
}

static ts_err forward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_linear_arg *a = arg;
  if (!a->batch) return TS_OK;
  a->l->at = a->at;
  return a->l->engine->forward(a->l, a->y, a->x, a->batch);
}

ts_err ts_linear_forward(ts_linear *l, float *y, const float *x, int32_t batch,
                         ts_lane *lane) {
  ts_linear_arg arg = {.l = l, .y = y, .x = x, .batch = batch, .at = now_at(l)};
  return ts_lane_submit(lane, "dense forward", forward_task, &arg, sizeof arg);
}

/* dy *= (y > 0) where relu, and the sums of its columns over blocks of rows
 * (fixed blocks: bits don't depend on threads). */
static void mask_and_sum(ts_linear *l, float *dy, const float *y,
                         int32_t batch) {
  const int32_t n = l->spec.n_out;
  const int32_t n_parts = (batch + BIAS_BLOCK - 1) / BIAS_BLOCK;
  float *db = l->at.db;
#pragma omp parallel for schedule(static)
  for (int32_t p = 0; p < n_parts; p++) {
    float *restrict sum = l->bias_parts + (int64_t)p * n;
    const int32_t end =
        batch < (p + 1) * BIAS_BLOCK ? batch : (p + 1) * BIAS_BLOCK;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int32_t i = p * BIAS_BLOCK; i < end; i++) {
      float *restrict g = dy + (int64_t)i * n;
      const float *restrict v = y + (int64_t)i * n;
      if (!l->spec.relu) {
        for (int32_t k = 0; k < n; k++) sum[k] += g[k];
        continue;
      }
      for (int32_t k = 0; k < n; k++) {
        g[k] = v[k] > 0.0f ? g[k] : 0.0f;
        sum[k] += g[k];
      }
    }
  }
  memset(db, 0, (size_t)n * sizeof *db);
  for (int32_t p = 0; p < n_parts; p++)
    for (int32_t k = 0; k < n; k++) db[k] += l->bias_parts[(int64_t)p * n + k];
}

static ts_err backward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_linear_arg *a = arg;
  ts_linear *l = a->l;
  l->at = a->at;
  if (!a->batch) {
    memset(l->at.dW, 0, (size_t)l->W->n * sizeof *l->at.dW);
    memset(l->at.db, 0, (size_t)l->b->n * sizeof *l->at.db);
    return TS_OK;
  }
  mask_and_sum(l, a->dy, a->y, a->batch);
  return l->engine->backward(l, a->dx, a->dy, a->x, a->batch);
}

ts_err ts_linear_backward(ts_linear *l, float *dx, float *dy, const float *x,
                          const float *y, int32_t batch, ts_lane *lane) {
  ts_linear_arg arg = {l, (float *)y, dx, dy, x, batch, now_at(l)};
  return ts_lane_submit(lane, "dense backward", backward_task, &arg,
                        sizeof arg);
}
