/* items.c - the loss of an output over items, as a layer that the graph adds:
 * what a sample's rows score with the embeddings of its candidates.
 *
 * It reads a row of `in` for each target and the candidates' embeddings as they
 * come, each row of the table once (ts_emb_views.spread), or where layers make
 * the items' vectors one of these for each target, and gives the mean loss of a
 * sample's targets; the loss behind it takes that as it is.  How
 * many targets a batch has is known when it is there, so what is kept of them
 * grows with it. */
#include <math.h>
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "model/full_softmax.h"
#include "model/graph.h"
#include "model/layer_ops.h"
#include "model/room.h"

typedef struct ts_items {
  int32_t feature, dim, kind;
  float *loss, *figures, *query; /* (batch_max, 1), (.., 5), (.., dim) */
  ts_buffer room;                /* what follows, of the batch at hand */
  int64_t *offsets;              /* (samples + 1) */
  int32_t *first, *row, *sample; /* (rows + 1), (targets) twice */
  float *grad, *each, *rank;     /* (targets, candidates), (targets) twice */
  float *q, *dq;                 /* (rows, dim) normed; NULL: as they come */
  float *items, *ditems;         /* (items, dim) likewise */
  /* For items that layers make.  one: 0, 1, .. (targets + 1).  own: where each
   * sample has one vector, its first target (samples + 1).  places and starts:
   * what kernels write besides (targets or samples + 2). */
  int32_t *one, *own, *places;
  int64_t *starts;
  int64_t n_rows, n_targets;
  int32_t n_each;
  bool made;            /* layers make the items' vectors */
  ts_full_softmax *all; /* of a loss over all items or the batch's, or NULL */
} ts_items;

static const ts_task_config *task_of(const ts_layer *l) {
  return l->options;
}

static ts_err shape(ts_layer *l) {
  /* full_softmax, where candidates are given, is softmax over these. */
  static const char *const kinds[] = {"sampled_bce", "sampled_softmax", "bpr",
                                      "cosine_contrastive", "full_softmax"};
  ts_items *t = l->data;
  const ts_task_config *x = task_of(l);
  const ts_value *q = l->in[0].value, *items = l->in[1].value;
  char text[TS_SHAPE_BYTES];
  t->feature = ts_task_candidates(l->spec->config, x);
  t->made = !items->emb;
  t->dim = ts_shape_width(items->shape);
  while (strcmp(kinds[t->kind], x->loss) != 0) t->kind++;
  if (t->kind > TS_CANDIDATES_CONTRASTIVE) t->kind = TS_CANDIDATES_SOFTMAX;
  if (ts_shape_width(q->shape) != t->dim)
    return ts_fail(
        TS_ERR_DECK,
        "%s: output %s reads \"%s\", which is %s, and items have dim = "
        "%d: they have to be equally wide, as kind linear makes them",
        l->spec->config->deck_path, x->name, q->name,
        ts_layer_shape_text(text, q->shape), t->dim);
  TS_DO(ts_layer_gives(l, NULL, ts_vector_of(1)));
  TS_DO(ts_layer_gives(l, "figures", ts_vector_of(TS_TARGET_FIGURES)));
  TS_DO(ts_layer_gives(l, "query", ts_vector_of(t->dim)));
  for (int k = 0; k < l->n_out; k++)
    l->out[k].stride = ts_shape_width(l->out[k].shape);
  return TS_OK;
}

static void destroy(ts_layer *l) {
  ts_items *t = l->data;
  if (t->room.device) ts_buffer_reset(&t->room);
  if (t->all) ts_full_softmax_reset(t->all);
  ts_mem_free(t->all);
}

/* ---- room ---------------------------------------------------------------- */

/* For what the layer says there is of a batch, and N_ITEMS different ones. */
static ts_err make_room(ts_layer *l, int64_t n_samples, int64_t n_items,
                        ts_lane *lane) {
  ts_items *t = l->data;
  const bool normed = task_of(l)->normalise, trains = l->spec->training;
  const int64_t d = t->dim, more = t->n_targets + 2;
  const int64_t q = normed ? t->n_rows * d : 0, i = normed ? n_items * d : 0;
  const ts_room_part parts[] = {
      {&t->offsets, n_samples + 1, 8},
      {&t->first, t->n_rows + 1, 4},
      {&t->row, t->n_targets, 4},
      {&t->sample, t->n_targets, 4},
      {&t->grad, trains ? t->n_targets * t->n_each : 0, 4},
      {&t->each, t->n_targets, 4},
      {&t->rank, t->n_targets, 4},
      {&t->q, q, 4},
      {&t->items, i, 4},
      {&t->dq, trains ? q : 0, 4},
      {&t->ditems, trains ? i : 0, 4},
      {&t->one, t->made ? more : 0, 4},
      {&t->own, t->made ? n_samples + 1 : 0, 4},
      {&t->places, t->made ? more : 0, 4},
      {&t->starts, t->made ? more + n_samples : 0, 8},
  };
  return ts_room_take(&t->room, parts, sizeof parts / sizeof *parts, lane);
}

/* For the largest batch that the deck knows of: a target a row, or a fifth more
 * than are hidden in the mean, and one a sample. */
static ts_err expect(ts_layer *l, ts_lane *lane) {
  ts_items *t = l->data;
  const ts_tokens *tokens = ts_tokens_at(l->in[0].value->tokens);
  const ts_tokens *made = ts_tokens_at(l->in[1].value->tokens);
  const int64_t rows =
      ts_feature_table(l->spec->config, t->feature, NULL)->rows;
  t->n_rows = tokens ? tokens->spec.batch_max : l->spec->batch_max;
  t->n_targets = t->n_rows;
  if (made && made->spec.batch_max > t->n_targets)
    t->n_targets = made->spec.batch_max;
  if (*task_of(l)->masked) {
    const double most =
        1.2 * task_of(l)->mask_share * (double)t->n_rows + l->spec->batch_max;
    if (most < (double)t->n_rows) t->n_targets = (int64_t)most;
  }
  t->n_each = ts_task_each(task_of(l), true);
  int64_t n = t->n_targets * t->n_each;
  if (t->all) {
    const bool batch = ts_task_is_in_batch(task_of(l), true);
    const int64_t part = batch ? 0 : ts_full_softmax_part(l, rows);
    n += part;
    TS_DO(ts_full_softmax_expect(t->all, l, t->dim, t->n_targets,
                                 batch ? t->n_targets : part, lane));
  }
  return make_room(l, l->spec->batch_max, n < rows || t->made ? n : rows, lane);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  ts_items *t = l->data;
  for (int k = 0; k < l->n_out; k++)
    TS_DO(ts_layer_take(l, &l->out[k].x,
                        (int64_t)l->spec->batch_max * l->out[k].stride, 4));
  t->room = ts_room_of(l->device);
  if (ts_task_meets(task_of(l), true)) {
    const bool batch = ts_task_is_in_batch(task_of(l), true);
    TS_DO(ts_mem_alloc(&t->all, sizeof *t->all, TS_TAG_ACTIVATIONS));
    TS_DO(ts_full_softmax_create(t->all, l, batch));
  }
  return expect(l, lane);
}

/* ---- passes -------------------------------------------------------------- */

/* Where the rows of the samples begin; NULL: one each. */
static const int64_t *rows_of(const ts_layer *l) {
  const ts_tokens *tokens = ts_tokens_at(l->in[0].value->tokens);
  return tokens ? tokens->offsets : NULL;
}

/* Y (rows, dim) = rows of X, normed; or DX, as X, from their gradient DY. */
static ts_err norm(const ts_layer *l, const ts_layer_run *r, ts_rows x,
                   float *y, const float *dy, float *dx, int64_t rows) {
  const ts_items *t = l->data;
  const ts_norm_args a = {.x = x.p,
                          .y = y,
                          .dy = dy,
                          .dx = dx,
                          .rows = rows,
                          .x_stride = x.stride,
                          .y_stride = t->dim,
                          .n = t->dim,
                          .kind = TS_NORM_L2,
                          .eps = 1e-12f,
                          .scale = 1};
  return rows ? ts_run_norm(l, r, &a, dy ? TS_BACKWARD : TS_FORWARD) : TS_OK;
}

/* As they come. */
static ts_rows raw_query(const ts_layer *l) {
  return (ts_rows){l->in[0].value->x, l->in[0].value->stride};
}
static ts_rows raw_items(const ts_layer *l, const ts_layer_run *r) {
  const ts_value *made = l->in[1].value;
  if (!made->emb) return (ts_rows){made->x, made->stride};
  const int32_t f = ((const ts_items *)l->data)->feature;
  return (ts_rows){(float *)r->views->data[f], r->views->stride[f]};
}

/* As they are scored. */
static ts_rows query_rows(const ts_layer *l) {
  const ts_items *t = l->data;
  return task_of(l)->normalise ? (ts_rows){t->q, t->dim} : raw_query(l);
}
static ts_rows item_rows(const ts_layer *l, const ts_layer_run *r) {
  const ts_items *t = l->data;
  return task_of(l)->normalise ? (ts_rows){t->items, t->dim} : raw_items(l, r);
}

/* Which item each target wants.  Where layers make items it is the target's own
 * row of tokens, or the vector of its sample. */
static ts_spread spread_of(const ts_layer *l, const ts_layer_run *r) {
  const ts_items *t = l->data;
  if (!t->made) return r->views->spread[t->feature];
  if (l->in[1].value->tokens)
    return (ts_spread){.index = t->one,
                       .member_start = t->one,
                       .member = t->one,
                       .n_rows = t->n_targets};
  return (ts_spread){.index = t->sample,
                     .member_start = t->own,
                     .member = t->one,
                     .n_rows = r->batch};
}

static ts_candidates_args candidates(const ts_layer *l, const ts_layer_run *r) {
  const ts_items *t = l->data;
  const ts_task_config *x = task_of(l);
  const ts_spread s = spread_of(l, r);
  const ts_rows q = query_rows(l), items = item_rows(l, r);
  return (ts_candidates_args){.q = q.p,
                              .items = items.p,
                              .shift = x->log_q && r->training ? r->pass->log_q
                                                               : NULL,
                              .ids = r->views->tokens[t->feature].ids,
                              .index = s.index,
                              .row = t->row,
                              .sample = t->sample,
                              .first = t->first,
                              .offsets = t->offsets,
                              .member_start = s.member_start,
                              .member = s.member,
                              .grad = l->spec->training ? t->grad : NULL,
                              .loss = t->each,
                              .rank = t->rank,
                              .n_targets = t->n_targets,
                              .n_rows = t->n_rows,
                              .n_items = s.n_rows,
                              .q_stride = q.stride,
                              .item_stride = items.stride,
                              .n_each = t->n_each,
                              .dim = t->dim,
                              .scale = (float)(1 / x->temperature),
                              .margin = (float)x->margin,
                              .weight = (float)x->negative_weight,
                              .kind = t->kind};
}

/* Whether this batch's loss is over all items, or those of the batch. */
static bool meets(const ts_layer *l, const ts_layer_run *r) {
  return ts_task_meets(task_of(l), r->training);
}

/* Ids of the rows, where targets go by those that are masks. */
static const int64_t *masked_ids(const ts_layer *l, const ts_layer_run *r) {
  const ts_task_config *x = task_of(l);
  if (!*x->masked) return NULL;
  return r->views->tokens[ts_feature_find(l->spec->config, x->masked)].ids;
}

/* Which targets go with which item, where layers make the items; A found the
 * targets. */
static ts_err find_made(const ts_layer *l, const ts_layer_run *r,
                        ts_targets_args a) {
  const ts_items *t = l->data;
  const ts_tokens_args up = {.offsets = t->starts,
                             .sample = t->one,
                             .position = t->places,
                             .n_samples = t->n_targets + 1,
                             .n_tokens = t->n_targets + 1};
  TS_DO(ts_run_tokens(l, r, &up));
  if (l->in[1].value->tokens) return TS_OK;
  a.rows = a.ids = NULL; /* a row is a sample */
  a.n_rows = a.n_samples;
  a.offsets = t->starts;
  a.first = t->own;
  a.row = t->places;
  return ts_run_targets(l, r, &a);
}

static ts_err find_targets(ts_layer *l, const ts_layer_run *r) {
  ts_items *t = l->data;
  const ts_jagged *bags = &r->views->tokens[t->feature];
  const ts_tokens *tokens = ts_tokens_at(l->in[0].value->tokens);
  const int64_t brought = ts_slices_before(r->pass->slices, r->batch);
  t->n_each = ts_task_each(task_of(l), r->training);
  t->n_targets = r->batch ? (bags->n_ids - brought) / t->n_each : 0;
  t->n_rows = tokens ? tokens->n : r->batch;
  TS_DO(make_room(l, r->batch, spread_of(l, r).n_rows, r->lane));
  const ts_targets_args a = {.lengths = bags->lengths,
                             .bags = bags->lengths ? NULL : bags->offsets,
                             .rows = rows_of(l),
                             .offsets = t->offsets,
                             .first = t->first,
                             .row = t->row,
                             .sample = t->sample,
                             .n_samples = r->batch,
                             .n_rows = t->n_rows,
                             .n_targets = t->n_targets,
                             .n_each = t->n_each,
                             .ids = masked_ids(l, r),
                             .mask = task_of(l)->mask_id,
                             .slices = r->pass->slices};
  TS_DO(ts_run_targets(l, r, &a));
  return t->made ? find_made(l, r, a) : TS_OK;
}

/* The last row of each sample, for who ranks items. */
static ts_err give_query(const ts_layer *l, const ts_layer_run *r) {
  const ts_items *t = l->data;
  const ts_rows q = query_rows(l);
  const ts_pool_args a = {.x = q.p,
                          .y = l->out[2].x,
                          .offsets = rows_of(l),
                          .n_samples = r->batch,
                          .x_stride = q.stride,
                          .y_stride = t->dim,
                          .n = t->dim,
                          .kind = TS_POOL_TOKENS_LAST};
  if (a.offsets) return ts_run_pool(l, r, &a, TS_FORWARD);
  return ts_run_copy(l, r, l->out[2].x, t->dim, q.p, q.stride, t->dim, false);
}

static ts_err give_figures(const ts_layer *l, const ts_layer_run *r) {
  const ts_items *t = l->data;
  const ts_value *loss = &l->out[0], *figures = &l->out[1];
  const ts_target_figures_args a = {.loss = t->each,
                                    .rank = meets(l, r) ? NULL : t->rank,
                                    .offsets = t->offsets,
                                    .y = figures->x,
                                    .n_samples = r->batch,
                                    .y_stride = figures->stride,
                                    .k = l->spec->config->metrics.k};
  TS_DO(ts_run_target_figures(l, r, &a));
  return ts_run_copy(l, r, loss->x, loss->stride, figures->x, figures->stride,
                     1, false);
}

/* Without targets there is the query alone. */
static ts_err forward_query(ts_layer *l, const ts_layer_run *r) {
  ts_items *t = l->data;
  const ts_tokens *tokens = ts_tokens_at(l->in[0].value->tokens);
  t->n_targets = 0;
  t->n_rows = tokens ? tokens->n : r->batch;
  TS_DO(make_room(l, r->batch, 0, r->lane));
  if (task_of(l)->normalise)
    TS_DO(norm(l, r, raw_query(l), t->q, NULL, NULL, t->n_rows));
  return give_query(l, r);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_items *t = l->data;
  if (r->pass->no_targets) return forward_query(l, r);
  TS_DO(find_targets(l, r));
  const ts_candidates_args a = candidates(l, r);
  if (task_of(l)->normalise) {
    TS_DO(norm(l, r, raw_query(l), t->q, NULL, NULL, t->n_rows));
    TS_DO(norm(l, r, raw_items(l, r), t->items, NULL, NULL, a.n_items));
  }
  TS_DO(meets(l, r) ? ts_full_softmax_forward(t->all, l, r, &a)
                    : ts_run_candidates_forward(l, r, &a));
  TS_DO(give_figures(l, r));
  return r->training ? TS_OK : give_query(l, r);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_items *t = l->data;
  const bool normed = task_of(l)->normalise, all = meets(l, r);
  float *dx = l->in[0].dx;
  float *grad = t->made ? l->in[1].dx : r->views->grad[t->feature];
  ts_candidates_args a = candidates(l, r);
  const ts_rows q = raw_query(l), items = raw_items(l, r);
  a.by = l->out[0].dx;
  a.by_stride = l->out[0].stride;
  a.dq = normed ? t->dq : dx;
  a.ditems = normed ? t->ditems : grad;
  /* Gradients may lie over the items, which both read. */
  if (all)
    TS_DO(ts_full_softmax_backward(t->all, l, r, a.by, a.by_stride,
                                   dx ? a.dq : NULL, a.ditems));
  else if (dx)
    TS_DO(ts_run_candidates_rows(l, r, &a));
  if (dx && normed) TS_DO(norm(l, r, q, NULL, t->dq, dx, t->n_rows));
  if (!all) TS_DO(ts_run_candidates_items(l, r, &a));
  return normed ? norm(l, r, items, NULL, t->ditems, grad, a.n_items) : TS_OK;
}

const ts_layer_ops ts_layer_items = {.kind = "items",
                                     .tokens = TS_ITS_TOKENS,
                                     .data_bytes = sizeof(ts_items),
                                     .least = 1,
                                     .most = 1,
                                     .reads_embeddings = true,
                                     .keeps_in = true,
                                     .owns_out = true,
                                     .shape = shape,
                                     .create = create,
                                     .destroy = destroy,
                                     .forward = forward,
                                     .backward = backward};
