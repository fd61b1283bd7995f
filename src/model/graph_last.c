/* graph_last.c - rows of tokens that nobody reads without training.
 *
 * An evaluation reads the last tokens of each sample: one for each target, and
 * one to rank items by.  Behind the last layer in which tokens look at each
 * other the rest is work for nothing.  So that layer asks for the last tokens
 * alone and gives their rows, values that later layers read are cut down to
 * the same rows, and layers by row go on with these.  Attention gives each of
 * them the bits that it has among all. */
#include <string.h>

#include "base/tasks.h"
#include "model/graph.h"
#include "model/layer_ops.h"

extern const ts_layer_ops ts_layer_items;

/* ---- where --------------------------------------------------------------- */

/* The one layer over items; NULL: none, several, or one that does not read the
 * last rows of tokens. */
static const ts_layer *only_items(const ts_graph *g) {
  const ts_layer *only = NULL;
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    if (l->ops != &ts_layer_items) continue;
    const ts_task_config *x = l->options;
    if (only || *x->masked || !l->in[0].value->tokens) return NULL;
    only = l;
  }
  return only;
}

static bool is_of(const ts_value *v, const ts_tokens *t) {
  return v->tokens && ts_tokens_at(v->tokens) == t;
}

/* Layer L, behind the AT-th, can do with some of T's rows of what it reads. */
static bool may_cut(const ts_layer *l, const ts_tokens *t, int32_t at) {
  for (int32_t k = 0; k < ts_layer_n_in(l); k++) {
    const ts_value *v = l->in[k].value;
    if (!is_of(v, t)) continue;
    if (!ts_layer_is_by_token(l) && l->ops != &ts_layer_items) return false;
    if (v->emb || v->half || (v->row && v->from < at)) return false;
  }
  return true;
}

void ts_graph_keep_last(ts_graph *g) {
  const ts_layer *items = only_items(g);
  int32_t at = g->n - 1;
  if (!items || ts_device_is_discrete(g->device)) return;
  const ts_tokens *t = ts_tokens_at(items->in[0].value->tokens);
  while (at >= 0 && (g->layers[at]->ops->tokens != TS_ITS_TOKENS ||
                     ts_tokens_at(g->layers[at]->tokens) != t))
    at--;
  if (at < 0 || !g->layers[at]->ops->gives_kept) return;
  for (int32_t i = at + 1; i < g->n; i++)
    if (!may_cut(g->layers[i], t, at)) return;
  g->last_look = g->layers[at];
}

/* ---- how many ------------------------------------------------------------ */

typedef struct ts_kept {
  ts_jagged tokens, targets;
  ts_slices slices;
  int64_t *start;
  int32_t n_samples, each, more;
} ts_kept;

/* How many rows of sample S are kept: one for each target, one at least, and no
 * more than it has. */
static int64_t kept_of(const ts_kept *k, int32_t s) {
  const int64_t n = ts_jagged_length(&k->tokens, s) + k->more;
  const int64_t m =
      (ts_jagged_length(&k->targets, s) - ts_slices_length(k->slices, s)) /
      k->each;
  return m < 1 && n ? 1 : m < n ? m : n;
}

static ts_err start_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_kept *k = arg;
  k->start[0] = 0;
  for (int32_t s = 0; s < k->n_samples; s++)
    k->start[s + 1] = k->start[s] + kept_of(k, s);
  return TS_OK;
}

ts_err ts_graph_keep_begin(const ts_graph *g, const ts_layer *l,
                           const ts_layer_run *r) {
  if (l != g->last_look || r->training || g->base.items_only) return TS_OK;
  ts_tokens *t = ts_tokens_at(l->tokens);
  const ts_task_config *x = only_items(g)->options;
  const int32_t f = ts_tokens_of_features(t)->feature[0];
  const ts_kept k = {.tokens = g->views.tokens[f],
                     .targets =
                         g->views.tokens[ts_task_candidates(g->spec.config, x)],
                     .slices = r->pass->slices,
                     .start = t->kept_room,
                     .n_samples = r->batch,
                     .each = ts_task_each(x, false),
                     .more = t->more};
  int64_t n = 0;
  for (int32_t s = 0; s < r->batch; s++) n += kept_of(&k, s);
  TS_DO(ts_lane_run(r->lane, "last rows", start_task, k));
  t->kept = t->kept_room;
  t->n_kept = n;
  return TS_OK;
}

/* ---- their rows ---------------------------------------------------------- */

typedef struct ts_cut {
  char *to;
  const char *from;
  const int64_t *offsets, *kept;
  int64_t n_samples;
  size_t bytes;
} ts_cut;

/* Where TO is FROM no row goes to where one that is yet to go lies. */
static ts_err cut_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_cut *c = arg;
  for (int64_t s = 0; s < c->n_samples; s++) {
    const int64_t n = c->kept[s + 1] - c->kept[s];
    memmove(c->to + (size_t)c->kept[s] * c->bytes,
            c->from + (size_t)(c->offsets[s + 1] - n) * c->bytes,
            (size_t)n * c->bytes);
  }
  return TS_OK;
}

ts_err ts_run_kept(const ts_tokens *t, const ts_layer_run *r, void *to,
                   const void *from, size_t bytes) {
  const ts_cut c = {to, from, t->offsets, t->kept, t->n_samples, bytes};
  return ts_lane_run(r->lane, "last rows", cut_task, c);
}

ts_err ts_run_cut(const ts_tokens *t, const ts_layer_run *r, void *rows,
                  size_t bytes) {
  return ts_run_kept(t, r, rows, rows, bytes);
}

/* Before output K of layer I some other is cut that has V's memory, as dropout
 * passes it on. */
static bool is_cut(const ts_graph *g, const ts_tokens *t, int32_t at, int32_t i,
                   int32_t k, const ts_value *v) {
  for (int32_t a = 0; a <= i; a++)
    for (int32_t b = 0; b < (a < i ? g->layers[a]->n_out : k); b++) {
      const ts_value *u = &g->layers[a]->out[b];
      if (is_of(u, t) && u->last > at && u->x == v->x) return true;
    }
  return false;
}

ts_err ts_graph_keep_end(const ts_graph *g, const ts_layer *l,
                         const ts_layer_run *r) {
  if (l != g->last_look || !ts_tokens_at(l->tokens)->kept) return TS_OK;
  ts_tokens *t = ts_tokens_at(l->tokens);
  const int32_t at = l->out[0].from;
  for (int32_t i = 0; i < at; i++)
    for (int32_t k = 0; k < g->layers[i]->n_out; k++) {
      const ts_value *v = &g->layers[i]->out[k];
      if (is_of(v, t) && v->last > at && !is_cut(g, t, at, i, k, v))
        TS_DO(ts_run_cut(t, r, v->x, (size_t)v->stride * sizeof *v->x));
    }
  TS_DO(ts_run_cut(t, r, t->sample, sizeof *t->sample));
  TS_DO(ts_run_cut(t, r, t->position, sizeof *t->position));
  TS_DO(ts_lane_copy(r->lane, t->offsets, t->kept,
                     ((size_t)t->n_samples + 1) * sizeof *t->offsets));
  t->n = t->n_kept;
  t->kept = NULL;
  return TS_OK;
}
