/* graph.c - the model that the deck's layers make. */
#include "model/graph.h"

#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "model/layer_ops.h"

void ts_model_destroy(ts_model *m) {
  ts_graph *g = (ts_graph *)m;
  if (!g) return;
  ts_graph_reset(g);
  if (g->comm) ts_comm_destroy(g->comm);
  ts_params_reset(&g->base.params);
  ts_params_reset(&g->base.buffers);
  ts_mem_free(g);
}

/* Names and groups that the deck has given: a component of a layer may make
 * parameters, too. */
static ts_err check_params(const ts_layer *l, int32_t first) {
  const ts_params *p = l->params;
  if (first > 0 && first < p->n &&
      !strcmp(p->item[first - 1]->group, p->item[first]->group))
    return ts_layer_fail(l,
                         "its parameter_group begins with %s, where that of "
                         "the layer before it ends",
                         p->item[first]->group);
  for (int32_t i = first;
       l->config->parameters && *l->config->parameters && i < p->n; i++)
    if (ts_params_find(p, p->item[i]->name) != p->item[i])
      return ts_layer_fail(l, "another layer has a parameter %s",
                           p->item[i]->name);
  return TS_OK;
}

static ts_err create_layers(ts_graph *g, ts_lane *lane) {
  for (int32_t i = 0; i < g->n; i++) {
    ts_layer *l = g->layers[i];
    l->params = &g->base.params;
    l->buffers = &g->base.buffers;
    l->device = g->device;
    l->comm = &g->comm;
    const int32_t first = g->base.params.n;
    if (l->ops->create) TS_DO(l->ops->create(l, lane));
    TS_DO(check_params(l, first));
    l->params_from = first;
    l->params_to = g->base.params.n;
  }
  return TS_OK;
}

ts_err ts_model_create(ts_model **out, const ts_model_spec *s,
                       ts_device *device, ts_lane *lane) {
  ts_err err = TS_OK;
  ts_graph *g = NULL;
  TS_TRY(ts_mem_alloc(&g, sizeof *g, TS_TAG_DENSE));
  g->base.params.deferred = s->deferred;
  g->device = device;
  TS_TRY(ts_graph_plan(g, s));
  TS_TRY(ts_graph_place(g));
  TS_TRY(create_layers(g, lane));
  ts_graph_keep_last(g);
  *out = &g->base;
  g = NULL;
done:
  ts_model_destroy((ts_model *)g);
  return err;
}

/* ---- in steps ------------------------------------------------------------ */

static ts_layer_run run_of(const ts_graph *g, int32_t batch,
                           const ts_layer_hooks *hooks, ts_lane *lane) {
  return (ts_layer_run){.batch = batch,
                        .training = g->base.pass.training,
                        .epoch = g->base.pass.epoch,
                        .first = g->base.pass.first,
                        .n_global = g->base.pass.n_global,
                        .pass = &g->base.pass,
                        .views = &g->views,
                        .hooks = hooks,
                        .lane = lane};
}

/* As layer L has it. */
static ts_layer_run run_for(const ts_layer *l, const ts_layer_run *run) {
  return ts_layer_is_by_token(l) ? ts_layer_by_token(l, run) : *run;
}

/* A pass that leaves L out says of its parameters what others say: those that
 * are gathered as one, or ahead, are counted so. */
static ts_err pass_by(const ts_graph *g, const ts_layer *l,
                      const ts_layer_run *r) {
  ts_param *const *p = g->base.params.item;
  for (int32_t i = l->params_from; i < l->params_to; i++) {
    const bool first =
        i == l->params_from || strcmp(p[i - 1]->group, p[i]->group) != 0;
    const bool last =
        i + 1 == l->params_to || strcmp(p[i]->group, p[i + 1]->group) != 0;
    if (first) TS_DO(ts_layer_acquire(r->hooks, p[i], TS_FORWARD, r->lane));
    if (last) TS_DO(ts_layer_release(r->hooks, p[i], TS_FORWARD, r->lane));
  }
  return TS_OK;
}

static ts_err forward(ts_graph *g, int32_t from, int32_t to,
                      const ts_layer_run *run) {
  for (int32_t i = from; i < to; i++) {
    ts_layer *l = g->layers[i];
    if (g->base.items_only && !l->of_items) {
      TS_DO(pass_by(g, l, run));
      continue;
    }
    const ts_layer_run own = run_for(l, run);
    TS_DO(ts_graph_keep_begin(g, l, run));
    TS_DO(l->ops->forward(l, &own));
    TS_DO(ts_graph_keep_end(g, l, run));
  }
  return TS_OK;
}

/* Gradients of values that others read, too, are added to theirs. */
static ts_err add_up(const ts_layer *l, const ts_layer_run *run) {
  for (int32_t k = 0; k < ts_layer_n_in(l); k++) {
    const ts_value *v = l->in[k].value;
    ts_layer_run own = *run;
    if (!l->in[k].dx || l->in[k].dx == v->dx) continue;
    if (v->tokens) own.batch = (int32_t)ts_tokens_at(v->tokens)->n;
    TS_DO(ts_run_copy(l, &own, v->dx, v->stride, l->in[k].dx, v->stride,
                      ts_shape_width(v->shape), true));
  }
  return TS_OK;
}

static ts_err backward(ts_graph *g, int32_t from, int32_t to,
                       const ts_layer_run *run) {
  for (int32_t i = to - 1; i >= from; i--) {
    ts_layer *l = g->layers[i];
    const ts_layer_run own = run_for(l, run);
    TS_DO(l->ops->backward(l, &own));
    TS_DO(add_up(l, run));
  }
  return TS_OK;
}

ts_err ts_model_dense_forward(ts_model *m, const float *dense, int32_t batch,
                              const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_graph *g = (ts_graph *)m;
  const ts_layer_run run = run_of(g, batch, hooks, lane);
  g->dense.x = (float *)dense;
  return forward(g, 0, g->n_below, &run);
}

ts_err ts_model_over_forward(ts_model *m, float **logits,
                             const ts_emb_views *emb, int32_t batch,
                             const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_graph *g = (ts_graph *)m;
  const ts_layer_run run = run_of(g, batch, hooks, lane);
  g->views = *emb;
  TS_DO(ts_graph_find_tokens(g, batch, lane));
  TS_DO(forward(g, g->n_below, g->n, &run));
  *logits = g->logits->x;
  return TS_OK;
}

ts_err ts_model_over_backward(ts_model *m, float *dlogits,
                              const ts_emb_views *emb, int32_t batch,
                              const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_graph *g = (ts_graph *)m;
  const ts_layer_run run = run_of(g, batch, hooks, lane);
  g->views = *emb;
  g->logits->dx = dlogits;
  return backward(g, g->n_below, g->n, &run);
}

ts_err ts_model_dense_backward(ts_model *m, int32_t batch,
                               const ts_layer_hooks *hooks, ts_lane *lane) {
  ts_graph *g = (ts_graph *)m;
  const ts_layer_run run = run_of(g, batch, hooks, lane);
  return backward(g, 0, g->n_below, &run);
}

ts_err ts_model_counted(ts_model_count *c, const ts_model_spec *s) {
  ts_err err = TS_OK;
  ts_graph g = {0};
  *c = (ts_model_count){0};
  TS_TRY(ts_graph_plan(&g, s));
  for (int32_t i = 0; i < g.n; i++) {
    const ts_layer *l = g.layers[i];
    if (l->ops->products) c->products += l->ops->products(l);
    if (l->ops->count) l->ops->count(c, l);
    for (int32_t k = 0; k < l->n_out; k++)
      if (!l->out[k].row) c->activations += 2.0 * l->out[k].stride;
  }
done:
  ts_graph_reset(&g);
  return err;
}
