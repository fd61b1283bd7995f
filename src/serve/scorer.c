/* scorer.c - a batch through the graph of a state. */
#include "serve/scorer.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "dense/loss_tasks.h"
#include "io/split.h"

struct ts_scorer {
  ts_serve_state *state;
  ts_device *device;
  ts_lane *lane;
  ts_kernels kernels;
  ts_model *model;
  ts_task_loss *tasks; /* NULL: all bce */
  float *weights;      /* of all parameters */
  int32_t n_max, n_threads, n_features;
  ts_serve_bags *bags; /* (n_features) */
  float **emb;         /* (n_features) rows of samples, or of ids */
  size_t *emb_room;    /* (n_features) bytes */
  float **grad;        /* (n_features) of NULL: nobody asks for gradients */
  int64_t *stride;
  ts_jagged *tokens;
  ts_spread *spread; /* of no candidates */
  int64_t **spread_ids, **spread_offsets;
  size_t *ids_room, *offsets_room;
  float *dense, *labels, *prediction;
};

const ts_serve_state *ts_scorer_state(const ts_scorer *s) {
  return s->state;
}

const ts_config *ts_scorer_config(const ts_scorer *s) {
  return s->state->config;
}

/* ---- create -------------------------------------------------------------- */

/* Parameters get memory once the file is known to have as many numbers. */
static ts_err take_params(ts_scorer *s) {
  const ts_params *p = &s->model->params, *b = &s->model->buffers;
  float *at;
  TS_DO(ts_mem_many(s->weights, ts_params_room(p), DENSE));
  at = s->weights;
  for (int32_t i = 0; i < p->n; i++) {
    ts_param *x = p->item[i];
    x->w = at;
    at += ts_param_room(x->n);
    TS_DO(ts_serve_take(s->state, x->name, x->rows, x->cols, x->w));
    x->version++;
  }
  for (int32_t i = 0; i < b->n; i++)
    TS_DO(ts_serve_take(s->state, b->item[i]->name, b->item[i]->rows,
                        b->item[i]->cols, b->item[i]->w));
  return TS_OK;
}

static ts_err create_model(ts_scorer *s) {
  const ts_model_spec spec = {.config = s->state->config,
                              .n_features = s->n_features,
                              .batch_max = s->n_max,
                              .deferred = true,
                              .kernels = &s->kernels};
  const ts_device_options options = {.serial = true, .n_threads = s->n_threads};
  TS_DO(ts_kernels_fill(&s->kernels, "host", NULL));
  TS_DO(ts_device_create(&s->device, "host", &options));
  TS_DO(ts_lane_create(s->device, &s->lane, "score", TS_LANE_COMPUTE));
  TS_DO(ts_model_create(&s->model, &spec, s->device, s->lane));
  return take_params(s);
}

static ts_err create_arrays(ts_scorer *s) {
  const ts_config *c = s->state->config;
  const int32_t n = s->n_features, logits = s->state->n_outputs;
  TS_DO(ts_mem_many(s->bags, n, INPUT));
  TS_DO(ts_mem_many(s->emb, n, SPARSE));
  TS_DO(ts_mem_many(s->emb_room, n, MISC));
  TS_DO(ts_mem_many(s->grad, n, MISC));
  TS_DO(ts_mem_many(s->stride, n, MISC));
  TS_DO(ts_mem_many(s->tokens, n, MISC));
  TS_DO(ts_mem_many(s->spread, n, MISC));
  TS_DO(ts_mem_many(s->spread_ids, n, MISC));
  TS_DO(ts_mem_many(s->spread_offsets, n, MISC));
  TS_DO(ts_mem_many(s->ids_room, n, MISC));
  TS_DO(ts_mem_many(s->offsets_room, n, MISC));
  TS_DO(ts_mem_many(s->dense, (int64_t)s->n_max * (s->state->dense_width + 1),
                    INPUT));
  TS_DO(ts_mem_many(s->labels, (int64_t)s->n_max * c->model.n_tasks, INPUT));
  return ts_mem_many(s->prediction, (int64_t)s->n_max * logits, ACTIVATIONS);
}

ts_err ts_scorer_create(ts_scorer **out, ts_serve_state *state, int32_t n_max,
                        int32_t n_threads) {
  ts_err err = TS_OK;
  ts_scorer *s = NULL;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_MISC));
  s->state = ts_serve_state_hold(state);
  s->n_max = n_max;
  s->n_threads = n_threads;
  s->n_features = state->n_features;
  TS_TRY(create_model(s));
  TS_TRY(create_arrays(s));
  TS_TRY(ts_task_losses_create(&s->tasks, state->config));
  const int64_t n_labels = (int64_t)n_max * state->config->model.n_tasks;
  for (int64_t i = 0; i < n_labels; i++) s->labels[i] = NAN;
  *out = s;
  s = NULL;
done:
  ts_scorer_destroy(s);
  return err;
}

void ts_scorer_destroy(ts_scorer *s) {
  if (!s) return;
  ts_model_destroy(s->model);
  if (s->lane) ts_lane_destroy(s->lane);
  if (s->device) ts_device_destroy(s->device);
  for (int32_t f = 0; f < s->n_features; f++) {
    if (s->bags) ts_serve_bags_reset(&s->bags[f]);
    if (s->emb) ts_mem_free(s->emb[f]);
    if (s->spread_ids) ts_mem_free(s->spread_ids[f]);
    if (s->spread_offsets) ts_mem_free(s->spread_offsets[f]);
  }
  ts_mem_free_all(s->tasks, s->weights, s->bags, s->emb, s->emb_room, s->grad,
                  s->stride, s->tokens, s->spread, s->spread_ids,
                  s->spread_offsets, s->ids_room, s->offsets_room, s->dense,
                  s->labels, s->prediction);
  ts_serve_state_release(s->state);
  ts_mem_free(s);
}

/* ---- embeddings ---------------------------------------------------------- */

/* One bag becomes N that are alike. */
static ts_err repeat_ids(ts_scorer *s, int32_t f, int64_t n) {
  const ts_serve_bags *b = &s->bags[f];
  const int64_t each = b->n_ids;
  TS_DO(ts_mem_reserve(&s->spread_ids[f], &s->ids_room[f],
                       (size_t)(n * each + 1) * 8, TS_TAG_INPUT));
  TS_DO(ts_mem_reserve(&s->spread_offsets[f], &s->offsets_room[f],
                       (size_t)(n + 1) * 8, TS_TAG_INPUT));
  for (int64_t i = 0; i <= n; i++) s->spread_offsets[f][i] = i * each;
  for (int64_t i = 0; i < n; i++)
    memcpy(s->spread_ids[f] + i * each, b->rows, (size_t)each * 8);
  s->tokens[f] = (ts_jagged){.offsets = s->spread_offsets[f],
                             .ids = s->spread_ids[f],
                             .n_ids = n * each};
  return TS_OK;
}

static ts_err see_tokens(ts_scorer *s, int32_t f, bool same, int64_t n) {
  const ts_serve_bags *b = &s->bags[f];
  if (same) return repeat_ids(s, f, n);
  s->tokens[f] =
      (ts_jagged){.offsets = b->offsets, .ids = b->rows, .n_ids = b->n_ids};
  return TS_OK;
}

/* Rows of tables with pooling "none" are by id, the others by sample. */
static ts_err look_up(ts_scorer *s, int32_t f, bool same, int64_t n) {
  const ts_serve_feature *x = &s->state->feature[f];
  const ts_serve_bags *b = &s->bags[f];
  const bool by_id = x->table->pooling == TS_POOL_NONE;
  const int64_t dim = x->table->dim, rows = by_id ? s->tokens[f].n_ids : n;
  TS_DO(ts_mem_reserve(&s->emb[f], &s->emb_room[f],
                       (size_t)(rows * dim + 1) * 4, TS_TAG_SPARSE));
  ts_rows_lookup a = {.table = x->rows,
                      .kind = x->kind,
                      .dim = (int32_t)dim,
                      .mean = x->table->pooling == TS_POOL_MEAN,
                      .rows = by_id ? s->tokens[f].ids : b->rows,
                      .weights = by_id ? NULL : b->weights,
                      .offsets = by_id || b->ones ? NULL : b->offsets,
                      .n = rows,
                      .out = s->emb[f],
                      .stride = dim};
  if (same && !by_id) a.n = 1;
  (void)ts_rows_look_up(&a, NULL);
  for (int64_t i = 1; same && !by_id && i < rows; i++)
    memcpy(s->emb[f] + i * dim, s->emb[f], (size_t)dim * 4);
  return TS_OK;
}

/* What IN has for feature F. */
static const tserve_bags *given(const ts_scorer *s, const tserve_batch *in,
                                int32_t f) {
  return &in->features[s->state->feature[f].given];
}

/* ---- a piece ------------------------------------------------------------- */

/* Samples have no targets: what they would be compared with is asked for
 * elsewhere. */
static bool is_target(const ts_config *c, int32_t f) {
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    if (ts_task_is_of_items(&c->model.tasks[k]) &&
        ts_task_candidates(c, &c->model.tasks[k]) == f)
      return true;
  return false;
}

static ts_err take_inputs(ts_scorer *s, const tserve_batch *in, int64_t first,
                          int64_t n, bool items) {
  const ts_serve_state *state = s->state;
  static const tserve_bags none;
  if (state->config->model.dense_features)
    TS_DO(ts_serve_dense_take(s->dense, state, in, first, n));
  for (int32_t f = 0; f < s->n_features; f++) {
    const bool skip = !items && is_target(state->config, f);
    const tserve_bags *own = skip ? &none : given(s, in, f);
    TS_DO(ts_serve_bags_take(&s->bags[f], state, f, own, first, n));
    TS_DO(see_tokens(s, f, own->same, n));
    s->stride[f] = state->feature[f].table->dim;
  }
  return TS_OK;
}

/* Of those that some layer reads. */
static ts_err look_up_all(ts_scorer *s, const tserve_batch *in, int64_t n) {
  const ts_graph *g = (const ts_graph *)s->model;
  for (int32_t f = 0; f < s->n_features; f++)
    if (g->n_reads[f]) TS_DO(look_up(s, f, given(s, in, f)->same, n));
  return TS_OK;
}

/* Too many ids for the layers' room: DATA, as in training. */
static ts_err check(const ts_scorer *s, int32_t n, ts_event_times times) {
  const ts_kjt kjt = {
      .features = s->tokens, .n_features = s->n_features, .batch = n};
  return ts_model_check_tokens(s->model, &kjt, false, (ts_slices){0}, times);
}

static ts_err predict(ts_scorer *s, const float *logits, int32_t n,
                      float *out) {
  const ts_config *c = s->state->config;
  const int32_t width = s->state->n_outputs;
  double sum;
  const ts_loss_args a = {.loss_sum = &sum,
                          .prediction = s->prediction,
                          .logits = logits,
                          .labels = s->labels,
                          .tasks = s->tasks,
                          .scale = 1,
                          .batch = n,
                          .n_tasks = c->model.n_tasks,
                          .n_logits = width};
  TS_DO(s->kernels.loss(&a));
  memcpy(out, s->prediction, (size_t)n * (size_t)width * 4);
  for (int64_t i = 0; s->state->negatives < 1 && i < n; i++)
    out[i * width] =
        (float)ts_negatives_correct(out[i * width], s->state->negatives);
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    for (int32_t i = 0; i < n && ts_task_is_of_items(&c->model.tasks[k]); i++)
      out[(int64_t)i * width + ts_tasks_width(c, k)] = NAN;
  return TS_OK;
}

static ts_err run(ts_scorer *s, int32_t n, ts_score_what what, int32_t task,
                  ts_event_times times, float *out) {
  float *logits;
  const ts_emb_views views = {.data = (const float *const *)s->emb,
                              .grad = s->grad,
                              .stride = s->stride,
                              .n_features = s->n_features,
                              .tokens = s->tokens,
                              .spread = s->spread};
  s->model->pass =
      (ts_model_pass){.n_global = n, .times = times, .no_targets = true};
  s->model->items_only = what == TS_SCORE_ITEM_VECTORS;
  TS_DO(ts_model_dense_forward(s->model, s->dense, n, NULL, s->lane));
  TS_DO(ts_model_over_forward(s->model, &logits, &views, n, NULL, s->lane));
  if (what == TS_SCORES) return predict(s, logits, n, out);
  const ts_value *v = ts_graph_task_value(
      s->model, task, what == TS_SCORE_VECTORS ? TS_TASK_QUERY : TS_TASK_ITEMS);
  const int32_t dim = ts_shape_width(v->shape);
  for (int64_t i = 0; i < n; i++)
    memcpy(out + i * dim, v->x + i * v->stride, (size_t)dim * 4);
  return TS_OK;
}

/* Numbers that a sample has in what is given out. */
static int32_t width_of(const ts_scorer *s, ts_score_what what, int32_t task) {
  if (what == TS_SCORES) return s->state->n_outputs;
  return ts_shape_width(ts_graph_task_value(s->model, task,
                                            what == TS_SCORE_VECTORS
                                                ? TS_TASK_QUERY
                                                : TS_TASK_ITEMS)
                            ->shape);
}

static ts_err run_piece(ts_scorer *s, const tserve_batch *in, int64_t first,
                        int32_t n, ts_score_what what, int32_t task,
                        float *out) {
  const int32_t f = ts_feature_of_times(s->state->config);
  ts_event_times times = {0};
  TS_DO(take_inputs(s, in, first, n, what == TS_SCORE_ITEM_VECTORS));
  if (f >= 0) {
    times = (ts_event_times){s->tokens[f].offsets, s->tokens[f].ids};
    s->tokens[f].n_ids = 0;
  }
  const ts_err err = check(s, n, times);
  if (err == TS_ERR_DATA && n > 1) { /* there may be room for fewer */
    ts_err_clear();
    const int32_t half = n / 2, width = width_of(s, what, task);
    TS_DO(run_piece(s, in, first, half, what, task, out));
    return run_piece(s, in, first + half, n - half, what, task,
                     out + (int64_t)half * width);
  }
  TS_DO(err);
  TS_DO(look_up_all(s, in, n));
  return run(s, n, what, task, times, out);
}

ts_err ts_scorer_run(ts_scorer *s, const tserve_batch *in, ts_score_what what,
                     int32_t task, float *out) {
  ts_err err = TS_OK;
  const int32_t width = width_of(s, what, task);
  const int was = omp_get_max_threads();
  omp_set_num_threads(s->n_threads);
  for (int32_t at = 0; at < in->n && err == TS_OK; at += s->n_max) {
    const int32_t n = in->n - at < s->n_max ? in->n - at : s->n_max;
    err = run_piece(s, in, at, n, what, task, out + (int64_t)at * width);
  }
  omp_set_num_threads(was);
  return err;
}
