/* graph_memory.c - places of values and of their gradients in one slab: those
 * whose lives do not touch share it.
 *
 * Layer i of n has position i in the forward pass and 2 n - i in the backward
 * pass; the loss has n. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/graph.h"

enum { ALIGN = 16 }; /* floats */

/* FLOATS that live from position FIRST to LAST, and who points to them. */
typedef struct ts_life {
  int64_t floats, at;
  int32_t first, last;
  float **to;
} ts_life;

typedef struct ts_lives {
  ts_life *item;
  int32_t n, room;
} ts_lives;

static ts_err add(ts_lives *all, float **to, int64_t floats, int32_t first,
                  int32_t last) {
  if (all->n == all->room) {
    const int32_t room = all->room ? 2 * all->room : 64;
    TS_DO(ts_mem_extend(&all->item, all->n, room, sizeof *all->item,
                        TS_TAG_DENSE));
    all->room = room;
  }
  all->item[all->n++] =
      (ts_life){(floats + ALIGN - 1) / ALIGN * ALIGN, -1, first, last, to};
  return TS_OK;
}

/* ---- lives --------------------------------------------------------------- */

/* The last layer that reads each value, and the first that reads it in its
 * backward pass. */
static void find_readers(ts_graph *g) {
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < g->layers[i]->n_out; k++) {
      ts_value *v = &g->layers[i]->out[k];
      v->from = i;
      v->last = v->kept_for = -1;
    }
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < ts_layer_n_in(g->layers[i]); k++) {
      ts_value *v = (ts_value *)g->layers[i]->in[k].value;
      v->last = i;
      if (g->layers[i]->ops->keeps_in && v->kept_for < 0) v->kept_for = i;
    }
}

/* Values that are arrays of their own, and that nobody asks for by name. */
static bool may_share(const ts_graph *g, const ts_value *v) {
  return !v->emb && !v->half && !v->is_input && !v->row && v != g->logits &&
         !(g->spec.keeps && !strcmp(g->spec.keeps, v->name));
}

/* What a layer passes on is read as long as what it gives. */
static void find_passed(ts_graph *g) {
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < g->layers[i]->n_out; k++)
      g->layers[i]->out[k].held = g->layers[i]->out[k].last;
  for (int32_t i = g->n - 1; i >= 0; i--) {
    ts_layer *l = g->layers[i];
    if (!l->ops->may_pass) continue;
    ts_value *v = (ts_value *)l->in[0].value, *y = &l->out[0];
    l->passes = may_share(g, v) && may_share(g, y) && v->stride == y->stride;
    if (l->passes && y->held > v->held) v->held = y->held;
  }
}

/* The first layer that writes a part of V, layer I's: a row lives from there
 * on, and its gradient up to there. */
static int32_t first_of(const ts_graph *g, int32_t i, const ts_value *v) {
  int32_t first = i;
  for (int32_t k = 0; k < ts_layer_n_in(g->layers[i]); k++) {
    const ts_value *part = g->layers[i]->in[k].value;
    if (part->row == v && part->from < first) first = part->from;
  }
  return first;
}

static ts_err lives_of_output(ts_graph *g, ts_lives *all, int32_t i,
                              ts_value *v) {
  const ts_layer *l = g->layers[i];
  if (v->row) return TS_OK;
  const int64_t n = ts_graph_most_rows(g, v) * v->stride;
  const int64_t floats = v->half ? (n + 1) / 2 : n;
  const bool padded = v->stride > ts_shape_width(v->shape);
  const int32_t first = first_of(g, i, v);
  int32_t last = v->held;
  const bool kept = g->spec.keeps && !strcmp(g->spec.keeps, v->name);
  if (v == g->logits) last = 2 * g->n;
  if (g->spec.training && v->kept_for >= 0) last = 2 * g->n - v->kept_for;
  if (g->spec.training && l->ops->keeps_out) last = 2 * g->n - i;
  if (kept) last = 2 * g->n;
  /* What lies behind a row's width has to stay zero. */
  if (!l->ops->owns_out)
    TS_DO(
        add(all, &v->x, floats, padded ? 0 : first, padded ? 2 * g->n : last));
  if (!g->spec.training || v == g->logits) return TS_OK;
  return add(all, &v->dx, floats, 2 * g->n - v->last, 2 * g->n - first);
}

/* The last reader's gradient is the value's; others add to it, or have a place
 * apart, as long as their own backward pass and the sum take. */
static ts_err lives_of_inputs(ts_graph *g, ts_lives *all, int32_t i) {
  ts_layer *l = g->layers[i];
  for (int32_t k = 0; k < ts_layer_n_in(l); k++) {
    ts_input *in = &l->in[k];
    const ts_value *v = in->value;
    bool again = false; /* the layer reads it twice */
    for (int32_t j = k + 1; j < ts_layer_n_in(l); j++)
      again |= l->in[j].value == v;
    if (!g->spec.training || v->is_input || v->emb) continue;
    if (v->last == i && !again) continue;
    if ((in->add = l->ops->adds_dx && v->last != i && !again)) continue;
    TS_DO(add(all, &in->dx, ts_graph_most_rows(g, v) * v->stride, 2 * g->n - i,
              2 * g->n - i));
  }
  return TS_OK;
}

/* ---- places -------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  const ts_life *x = a, *y = b;
  if (x->floats != y->floats) return x->floats < y->floats ? 1 : -1;
  if (x->first != y->first) return x->first - y->first;
  return (x->to > y->to) - (x->to < y->to);
}

/* The lowest place at which LIFE touches none of the N in ORDER (by place) that
 * live at the same time; it is put among them. */
static void put(ts_life **order, int32_t n, ts_life *life) {
  int64_t at = 0;
  int32_t k = 0;
  for (int32_t i = 0; i < n; i++) {
    const ts_life *other = order[i];
    if (other->last < life->first || other->first > life->last) continue;
    if (other->at >= at + life->floats) break;
    if (other->at + other->floats > at) at = other->at + other->floats;
  }
  life->at = at;
  for (k = n; k > 0 && order[k - 1]->at > at; k--) order[k] = order[k - 1];
  order[k] = life;
}

static ts_err place(ts_graph *g, ts_lives *all) {
  ts_life **order = NULL;
  g->slab_floats = 0;
  TS_DO(ts_mem_many(order, all->n, DENSE));
  if (all->n) qsort(all->item, (size_t)all->n, sizeof *all->item, by_size);
  for (int32_t k = 0; k < all->n; k++) {
    ts_life *life = &all->item[k];
    put(order, k, life);
    if (life->at + life->floats > g->slab_floats)
      g->slab_floats = life->at + life->floats;
  }
  ts_mem_free(order);
  return TS_OK;
}

/* Pointers of all, once there is the slab. */
static void point(ts_graph *g, const ts_lives *all) {
  for (int32_t k = 0; k < all->n; k++)
    *all->item[k].to = g->slab + all->item[k].at;
  for (int32_t i = 0; i < g->n; i++) {
    ts_value *v = &g->layers[i]->out[0];
    if (!v->row) continue;
    v->x = v->row->x + v->at;
    if (v->row->dx) v->dx = v->row->dx + v->at;
  }
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < ts_layer_n_in(g->layers[i]); k++)
      if (!g->layers[i]->in[k].dx)
        g->layers[i]->in[k].dx = g->layers[i]->in[k].value->dx;
}

static ts_err lay_out(ts_graph *g, ts_lives *all) {
  find_readers(g);
  find_passed(g);
  for (int32_t i = 0; i < g->n; i++) {
    for (int32_t k = 0; k < g->layers[i]->n_out; k++)
      TS_DO(lives_of_output(g, all, i, &g->layers[i]->out[k]));
    TS_DO(lives_of_inputs(g, all, i));
  }
  return place(g, all);
}

ts_err ts_graph_size(ts_graph *g, int64_t *floats) {
  ts_lives all = {0};
  const ts_err err = lay_out(g, &all);
  ts_mem_free(all.item);
  *floats = g->slab_floats;
  return err;
}

ts_err ts_graph_place(ts_graph *g) {
  ts_err err = TS_OK;
  ts_lives all = {0};
  TS_TRY(lay_out(g, &all));
  if (!g->device) goto done; /* only to count */
  TS_TRY(ts_arrays_take(&g->arrays, g->device, &g->slab, g->slab_floats, 4,
                        TS_TAG_ACTIVATIONS));
  point(g, &all);
  TS_TRY(ts_graph_place_tokens(g));
done:
  ts_mem_free(all.item);
  return err;
}
