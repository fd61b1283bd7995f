/* graph_tokens.c - values that have a row for each token of a sample.
 *
 * A feature whose table has pooling "none" gives its ids' embeddings one by
 * one.  Layers by token (TS_BY_ROW) work on them as on a batch of so many
 * samples; which sample a token is of, and where in it, kernels find in the
 * arrays that are made here for each batch. */
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "model/graph.h"

/* ---- how many ------------------------------------------------------------ */

/* Ids of a sample; 0: nothing says it. */
static int64_t longest(const ts_config *c, int32_t f) {
  const ts_ints *pooling = &c->data.synthetic.pooling;
  const char *name;
  int64_t n = 0;
  (void)ts_feature_table(c, f, &name);
  for (int32_t i = 0; i < c->data.n_columns; i++)
    if (!strcmp(c->data.columns[i].name, name))
      n = c->data.columns[i].max_length;
  if (n || strcmp(c->data.format, "synthetic") != 0) return n;
  const int32_t k = ts_feature_column(c, f, pooling->n);
  return pooling->n == 1 ? pooling->item[0] : pooling->item[k];
}

/* 0: nothing says it. */
static int64_t most_tokens(const ts_graph *g, int32_t f) {
  const ts_config *c = g->spec.config;
  const int32_t share = g->spec.batch_share;
  const int64_t n = longest(c, f) * (share ? share : g->spec.batch_max);
  const int64_t most = c->data.max_tokens;
  return n && (n < most || !most) ? n : most;
}

static ts_err new_tokens(ts_graph *g, ts_tokens **out) {
  TS_DO(ts_mem_extend(&g->tokens, g->n_tokens, g->n_tokens + 1,
                      sizeof *g->tokens, TS_TAG_DENSE));
  TS_DO(ts_mem_alloc(out, sizeof **out, TS_TAG_DENSE));
  g->tokens[g->n_tokens++] = *out;
  (*out)->spec = g->spec;
  (*out)->samples_max = g->spec.batch_max;
  return TS_OK;
}

ts_err ts_graph_of_tokens(ts_graph *g, const ts_layer *l, ts_value *v,
                          int32_t f) {
  const int64_t n = most_tokens(g, f);
  ts_tokens *t;
  if (!n)
    return ts_layer_fail(l,
                         "it reads \"%.80s\" id by id, and nothing says how "
                         "many ids a batch has at most: give data.max_tokens, "
                         "or max_length in the feature's data.columns",
                         v->name);
  if (n > INT32_MAX / 2)
    return ts_layer_fail(l,
                         "\"%.80s\" may have %lld ids in a batch: give a "
                         "smaller data.max_tokens",
                         v->name, (long long)n);
  TS_DO(new_tokens(g, &t));
  TS_DO(ts_mem_many(t->feature, 1, DENSE));
  t->feature[t->n_features++] = f;
  t->longest = longest(g->spec.config, f);
  t->spec.batch_max = (int32_t)n;
  v->tokens = t;
  v->shape = ts_tokens_of(v->shape.dim);
  return TS_OK;
}

ts_err ts_graph_more_tokens(ts_graph *g, ts_layer *l, int32_t more) {
  ts_tokens *t, *from = ts_tokens_at(l->tokens);
  const int64_t all = (int64_t)(from->more + more) * g->spec.batch_max +
                      ts_tokens_of_features(from)->spec.batch_max;
  if (all > INT32_MAX / 2)
    return ts_layer_fail(l,
                         "it may give %lld tokens of a batch: give a smaller "
                         "data.max_tokens, or fewer vectors in `before`",
                         (long long)all);
  TS_DO(new_tokens(g, &t));
  t->of = from->of ? from->of : from;
  t->more = from->more + more;
  l->out[0].tokens = t;
  return TS_OK;
}

void ts_graph_size_tokens(ts_graph *g) {
  for (int32_t k = 0; k < g->n_tokens; k++) {
    ts_tokens *t = g->tokens[k];
    const ts_tokens *of = ts_tokens_of_features(t);
    if (!t->of) continue;
    t->longest = of->longest ? of->longest + t->more : 0;
    t->spec.batch_max = of->spec.batch_max + t->more * t->samples_max;
  }
}

void ts_graph_free_tokens(ts_graph *g) {
  for (int32_t k = 0; k < g->n_tokens; k++)
    ts_mem_free_all(g->tokens[k]->feature, g->tokens[k]);
  ts_mem_free(g->tokens);
}

int64_t ts_graph_most_rows(const ts_graph *g, const ts_value *v) {
  return v->tokens ? ts_tokens_at(v->tokens)->spec.batch_max
                   : g->spec.batch_max;
}

/* ---- who reads them ------------------------------------------------------ */

/* Bags of both are equally long from here on. */
static ts_err unite(ts_tokens *a, ts_tokens *b) {
  if (a == b) return TS_OK;
  if (a->of) {
    TS_DO(unite(ts_tokens_at(a->of), ts_tokens_at(b->of)));
    b->same = a;
    return TS_OK;
  }
  TS_DO(ts_mem_extend(&a->feature, a->n_features, a->n_features + b->n_features,
                      sizeof *a->feature, TS_TAG_DENSE));
  memcpy(a->feature + a->n_features, b->feature,
         (size_t)b->n_features * sizeof *b->feature);
  a->n_features += b->n_features;
  if (b->spec.batch_max < a->spec.batch_max)
    a->spec.batch_max = b->spec.batch_max;
  a->timed |= b->timed;
  if (b->longest && (!a->longest || b->longest < a->longest))
    a->longest = b->longest;
  b->same = a;
  return TS_OK;
}

ts_err ts_graph_take_tokens(ts_layer *l, ts_role role, ts_value *const *v,
                            int32_t n) {
  char text[TS_SHAPE_BYTES], other[TS_SHAPE_BYTES];
  const bool wants = l->ops->tokens == TS_ITS_TOKENS;
  if (wants && role != TS_ROLE_IN) {
    for (int32_t k = 0; k < n; k++)
      if (v[k]->tokens)
        return ts_layer_fail(l,
                             "\"%.80s\" is %s, tokens, but of these `in` "
                             "alone may be: kind pool makes a vector of them",
                             v[k]->name,
                             ts_layer_shape_text(text, v[k]->shape));
    return TS_OK;
  }
  for (int32_t k = 0; k < n; k++) {
    if (v[k]->tokens && l->ops->tokens == TS_NO_TOKENS)
      return ts_layer_fail(l,
                           "\"%.80s\" is %s, a row for each of a sample's "
                           "tokens, which it does not take: kind pool makes a "
                           "vector of them",
                           v[k]->name, ts_layer_shape_text(text, v[k]->shape));
    if (!v[k]->tokens && (wants || v[0]->tokens || l->tokens))
      return ts_layer_fail(l,
                           "\"%.80s\" is %s, but it takes %s: tokens are a "
                           "feature whose table has pooling = \"none\", and "
                           "what layers make of it",
                           v[k]->name, ts_layer_shape_text(text, v[k]->shape),
                           wants ? "tokens (T, d)" : "tokens beside tokens");
    if (k && !v[0]->tokens && v[k]->tokens)
      return ts_layer_fail(l,
                           "\"%.80s\" is %s and \"%.80s\" %s: tokens go "
                           "beside tokens, and kind pool makes a vector of a "
                           "sample's",
                           v[0]->name, ts_layer_shape_text(text, v[0]->shape),
                           v[k]->name, ts_layer_shape_text(other, v[k]->shape));
    if (!v[k]->tokens) continue;
    ts_tokens *own = ts_tokens_at(v[k]->tokens);
    if (!l->tokens) l->tokens = own;
    if (own->more != ts_tokens_at(l->tokens)->more)
      return ts_layer_fail(l,
                           "\"%.80s\" has %d vectors before each sample's "
                           "tokens, and what it is to lie beside has %d: kind "
                           "prepend gives both as many",
                           v[k]->name, own->more,
                           ts_tokens_at(l->tokens)->more);
    TS_DO(unite(ts_tokens_at(l->tokens), own));
  }
  if (l->tokens) l->spec = &l->tokens->spec;
  return TS_OK;
}

ts_err ts_graph_time_tokens(const ts_layer *l) {
  ts_tokens *t = ts_tokens_at(l->tokens);
  t->timed = true;
  if (!t->more) return TS_OK;
  return ts_layer_fail(l,
                       "it has the key times, but of each sample's tokens the "
                       "first %d are vectors of kind prepend, which no event "
                       "of \"%.80s\" stands for: leave times out, or read "
                       "tokens without them",
                       t->more, l->config->times);
}

/* ---- a batch ------------------------------------------------------------- */

ts_err ts_graph_place_tokens(ts_graph *g) {
  for (int32_t k = 0; k < g->n_tokens; k++) {
    ts_tokens *t = g->tokens[k];
    const int64_t n = t->spec.batch_max;
    if (t->same) continue;
    TS_DO(ts_arrays_take(&g->arrays, g->device, &t->offsets,
                         (int64_t)g->spec.batch_max + 1, sizeof *t->offsets,
                         TS_TAG_ACTIVATIONS));
    TS_DO(ts_arrays_take(&g->arrays, g->device, &t->sample, n,
                         sizeof *t->sample, TS_TAG_ACTIVATIONS));
    TS_DO(ts_arrays_take(&g->arrays, g->device, &t->position, n,
                         sizeof *t->position, TS_TAG_ACTIVATIONS));
    TS_DO(ts_arrays_take(&g->arrays, g->device, &t->kept_room,
                         (int64_t)g->spec.batch_max + 1, sizeof *t->kept_room,
                         TS_TAG_ACTIVATIONS));
    if (!t->timed) continue;
    TS_DO(ts_arrays_take(&g->arrays, g->device, &t->when, n, sizeof *t->when,
                         TS_TAG_ACTIVATIONS));
    TS_DO(ts_arrays_take(&g->arrays, g->device, &t->asked, n, sizeof *t->asked,
                         TS_TAG_ACTIVATIONS));
  }
  return TS_OK;
}

typedef struct ts_find_arg {
  const ts_kernels *kernels;
  ts_tokens_args tokens;
  ts_token_times_args times; /* of timed ones */
  bool timed;
} ts_find_arg;

static ts_err find_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_find_arg *x = arg;
  TS_DO(x->kernels->tokens(&x->tokens));
  return x->timed ? x->kernels->token_times(&x->times) : TS_OK;
}

ts_err ts_graph_find_tokens(ts_graph *g, int32_t batch, ts_lane *lane) {
  for (int32_t k = 0; k < g->n_tokens; k++) {
    ts_tokens *t = g->tokens[k];
    if (t->same || (g->base.items_only && !t->of_items)) continue;
    const ts_jagged *j = &g->views.tokens[ts_tokens_of_features(t)->feature[0]];
    t->n = batch ? j->n_ids + (int64_t)t->more * batch : 0;
    t->n_samples = batch;
    const ts_find_arg arg = {.kernels = g->spec.kernels,
                             .tokens = {.lengths = j->lengths,
                                        .bags = j->lengths ? NULL : j->offsets,
                                        .offsets = t->offsets,
                                        .sample = t->sample,
                                        .position = t->position,
                                        .n_samples = batch,
                                        .n_tokens = t->n,
                                        .more = t->more},
                             .times = {.bags = g->base.pass.times.bags,
                                       .ids = g->base.pass.times.ids,
                                       .offsets = t->offsets,
                                       .sample = t->sample,
                                       .when = t->when,
                                       .asked = t->asked,
                                       .n_tokens = t->n},
                             .timed = t->timed};
    TS_DO(ts_lane_run(lane, "tokens", find_task, arg));
  }
  return TS_OK;
}

/* Bags of feature F are as long as those of the first of T. */
static ts_err check_lengths(const ts_config *c, const ts_tokens *t, int32_t f,
                            const ts_kjt *kjt) {
  const ts_jagged *a = &kjt->features[t->feature[0]], *b = &kjt->features[f];
  const char *first, *name;
  (void)ts_feature_table(c, t->feature[0], &first);
  (void)ts_feature_table(c, f, &name);
  for (int32_t s = 0; s < kjt->batch; s++) {
    const int64_t n = ts_jagged_length(a, s), m = ts_jagged_length(b, s);
    if (n != m)
      return ts_fail(
          TS_ERR_DATA,
          "a sample has %lld ids of feature %s and %lld of %s, which "
          "a layer takes side by side, token by token: they have to "
          "be as many",
          (long long)n, first, (long long)m, name);
  }
  return TS_OK;
}

/* T's samples have a time for each token, or one more. */
static ts_err check_times(const ts_config *c, const ts_tokens *t,
                          const ts_kjt *kjt, ts_event_times times) {
  const ts_jagged *j = &kjt->features[t->feature[0]];
  for (int32_t s = 0; t->timed && s < kjt->batch; s++) {
    const int64_t n = ts_jagged_length(j, s);
    const int64_t m = times.bags ? times.bags[s + 1] - times.bags[s] : 0;
    const char *name, *of;
    if (m == n || m == n + 1) continue;
    (void)ts_feature_table(c, t->feature[0], &of);
    (void)ts_feature_table(c, ts_feature_of_times(c), &name);
    return ts_fail(TS_ERR_DATA,
                   "a sample has %lld ids of feature %s and %lld of %s, which "
                   "a layer takes for their times: it wants as many, or one "
                   "more, which is when it is asked what comes next",
                   (long long)n, of, (long long)m, name);
  }
  return TS_OK;
}

ts_err ts_model_check_tokens(const ts_model *m, const ts_kjt *kjt,
                             bool training, ts_slices slices,
                             ts_event_times times) {
  const ts_graph *g = (const ts_graph *)m;
  const ts_config *c = g->spec.config;
  for (int32_t k = 0; k < g->n_tokens; k++) {
    const ts_tokens *t = g->tokens[k];
    const char *name;
    if (t->same || t->of || (m->items_only && !t->of_items)) continue;
    const int64_t n = kjt->features[t->feature[0]].n_ids;
    (void)ts_feature_table(c, t->feature[0], &name);
    if (n > t->spec.batch_max)
      return ts_fail(
          TS_ERR_DATA,
          "a rank's batch has %lld ids of feature %s, and there is "
          "room for %d: give a larger data.max_tokens, or max_length "
          "in its data.columns",
          (long long)n, name, t->spec.batch_max);
    for (int32_t s = 0; t->longest && s < kjt->batch; s++)
      if (ts_jagged_length(&kjt->features[t->feature[0]], s) > t->longest)
        return ts_fail(TS_ERR_DATA,
                       "a sample has more than %lld ids of feature %s, which "
                       "is what its data.columns says there are at most",
                       (long long)t->longest, name);
    for (int32_t i = 1; i < t->n_features; i++)
      TS_DO(check_lengths(c, t, t->feature[i], kjt));
    TS_DO(check_times(c, t, kjt, times));
  }
  return ts_graph_check_targets(g, kjt, training, slices);
}
