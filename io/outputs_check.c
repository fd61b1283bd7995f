/* outputs_check.c - model.outputs: keys of an output that its loss has no use
 * for, and keys elsewhere that go by the first one or by a metric. */
#include <string.h>

#include "base/features.h"
#include "base/tasks.h"
#include "io/deck_impl.h"

/* KEY is given, and of other losses, LOSS. */
static void check_key(ts_deck *d, const config_setting_t *s,
                      const ts_task_config *x, const char *key, bool given,
                      const char *loss) {
  if (given)
    ts_deck_error(d, s, "model.outputs: %s of \"%.80s\" is for loss \"%s\"",
                  key, x->name, loss);
}

/* What goes by the labels of the first task. */
static void check_first(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const ts_task_config *x = &c->model.tasks[0];
  const char *key = NULL;
  if (c->data.negatives < 1) key = "data.negatives";
  if (c->data.positive_weight != 1) key = "data.positive_weight";
  if (key && (!ts_task_is_binary(x) || ts_task_has_where(x)))
    ts_deck_error(d, ts_deck_at(root, key),
                  "%s goes by the first task's labels, which are to be 0 or 1 "
                  "in all samples: \"%.80s\" has %s",
                  key, x->name,
                  ts_task_is_binary(x) ? "where" : "another loss than bce");
}

/* Evaluations of X, whose loss is not bce, have METRIC. */
static bool has_metric(const ts_task_config *x, const char *metric) {
  if (ts_task_is_of_items(x))
    return !strcmp(metric, "logloss") || !strcmp(metric, "hit_rate") ||
           !strcmp(metric, "ndcg") || !strcmp(metric, "mrr") ||
           !strcmp(metric, "recall_at_k");
  if (ts_task_is_of_classes(x))
    return !strcmp(metric, "logloss") || !strcmp(metric, "accuracy");
  return !strcmp(metric, "mse") || !strcmp(metric, "mae") ||
         !strcmp(metric, "r2");
}

/* Validations judge by a figure that the task has. */
static void check_metric(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const ts_task_config *x = &c->model.tasks[0];
  const bool judged = c->run.stop.patience > 0 || c->checkpoint.best ||
                      !strcmp(c->optimizer.schedule, "plateau");
  for (int32_t k = 1; k < c->model.n_tasks; k++)
    if (!strcmp(c->model.tasks[k].name, c->run.stop.task))
      x = &c->model.tasks[k];
  if (judged && !ts_task_is_binary(x) && !has_metric(x, c->run.stop.metric))
    ts_deck_error(d, ts_deck_at(root, "run.stop"),
                  "run.stop.metric = \"%s\" is of probabilities: task "
                  "\"%.80s\" of loss %s has %s",
                  c->run.stop.metric, x->name, x->loss,
                  ts_task_is_of_items(x)
                      ? "logloss, hit_rate, ndcg, mrr and recall_at_k"
                  : ts_task_is_of_classes(x) ? "logloss and accuracy"
                                             : "mse, mae and r2");
}

/* ---- outputs over items -------------------------------------------------- */

static bool draws(const ts_task_config *x, const char *how) {
  return !strcmp(x->draw, how);
}

/* Their own keys, of another loss. */
static void check_not_items(ts_deck *d, const config_setting_t *s,
                            const ts_task_config *x) {
  const char *key = *x->items              ? "items"
                    : *x->target           ? "target"
                    : x->exclude.n         ? "exclude"
                    : x->draw_excluded     ? "draw_excluded"
                    : x->given             ? "given"
                    : x->first_item        ? "first_item"
                    : x->normalise         ? "normalise"
                    : x->negatives != 1    ? "negatives"
                    : x->log_q             ? "log_q"
                    : *x->masked           ? "masked"
                    : x->mask_id           ? "mask_id"
                    : x->mask_share != .2  ? "mask_share"
                    : !draws(x, "uniform") ? "draw"
                    : x->temperature != 1  ? "temperature"
                                           : NULL;
  if (key)
    ts_deck_error(d, s,
                  "model.outputs: %s of \"%.80s\" is for losses over items: "
                  "sampled_bce, sampled_softmax, full_softmax, bpr, "
                  "cosine_contrastive",
                  key, x->name);
}

/* Items whose vectors layers make of their features: the batch's have been
 * made, and all others would have to be for a loss that draws or sees them. */
static void check_tower(ts_deck *d, const config_setting_t *s,
                        const ts_task_config *x) {
  const ts_config *c = d->config;
  const char *what = !draws(x, "batch") ? "draw = \"batch\""
                     : *x->masked       ? "no masked"
                     : x->given         ? "no given"
                                        : NULL;
  if (!ts_task_has_tower(c, x)) return;
  for (int32_t t = 0; t < c->n_tables; t++)
    if (!strcmp(c->tables[t].name, x->items))
      ts_deck_error(d, s,
                    "model.outputs: items of \"%.80s\" is \"%.80s\", which is "
                    "a table and a layer: call the layer otherwise",
                    x->name, x->items);
  if (what)
    ts_deck_error(d, s,
                  "model.outputs: items of \"%.80s\" is layer \"%.80s\", which "
                  "makes vectors of the batch's items alone: it goes with %s",
                  x->name, x->items, what);
}

/* The target's feature and its table. */
static void check_target(ts_deck *d, const config_setting_t *s,
                         const ts_task_config *x) {
  const ts_config *c = d->config;
  const int32_t f = *x->target ? ts_task_candidates(c, x) : -1;
  const bool by_table = *x->items && !ts_task_has_tower(c, x);
  int32_t n = 0;
  if (f < 0) {
    ts_deck_error(d, s,
                  "model.outputs: target of \"%.80s\" is \"%.80s\": a loss "
                  "over items takes a feature of %s%.80s",
                  x->name, x->target, by_table ? "table " : "a table",
                  by_table ? x->items : "");
    return;
  }
  const ts_table_config *t = ts_feature_table(c, f, NULL);
  for (int32_t i = 0; i < ts_feature_count(c); i++) {
    const char *name;
    const bool first = ts_table_is_first(ts_feature_table(c, i, &name));
    n += first && !strcmp(name, x->target);
  }
  if (n > 1)
    ts_deck_error(d, s,
                  "model.outputs: \"%.80s\", the target of \"%.80s\", is in "
                  "%d tables: it can be in one",
                  x->target, x->name, n);
  if (t->pooling != TS_POOL_NONE || t->weighted)
    ts_deck_error(d, s,
                  "model.outputs: table %.80s of \"%.80s\", the target of "
                  "\"%.80s\", has %s: a loss over items takes rows as they are "
                  "(pooling = \"none\"; weighted = false)",
                  t->name, x->target, x->name,
                  t->weighted ? "weighted = true" : "another pooling");
  if (ts_table_is_dynamic(t))
    ts_deck_error(d, s,
                  "model.outputs: table %.80s of \"%.80s\", the target of "
                  "\"%.80s\", has rows = \"dynamic\": items are the rows of "
                  "a table that has all of them from the start",
                  t->name, x->target, x->name);
  if (t->rows > 0 && x->first_item >= t->rows - 1)
    ts_deck_error(d, s,
                  "model.outputs: first_item = %lld of \"%.80s\": table %.80s "
                  "has %lld rows, of which two at least are to be items",
                  (long long)x->first_item, x->name, t->name,
                  (long long)t->rows);
}

/* Excluded ids have to be items, so their table has as many rows. */
static void check_exclude(ts_deck *d, const config_setting_t *s,
                          const ts_task_config *x) {
  const ts_config *c = d->config;
  const int32_t own = *x->target ? ts_task_candidates(c, x) : -1;
  for (int32_t i = 0; i < x->exclude.n; i++) {
    const int32_t f = ts_feature_find(c, x->exclude.item[i]);
    if (f < 0) {
      ts_deck_error(d, s,
                    "model.outputs: exclude of \"%.80s\": no table has a "
                    "feature \"%.80s\"",
                    x->name, x->exclude.item[i]);
      continue;
    }
    const ts_table_config *t = ts_feature_table(c, f, NULL);
    const ts_table_config *items = own < 0 ? t : ts_feature_table(c, own, NULL);
    if (ts_table_whole(t)->rows != ts_table_whole(items)->rows)
      ts_deck_error(d, s,
                    "model.outputs: exclude of \"%.80s\": \"%.80s\" is of "
                    "table %.80s, whose rows are not as many as table %.80s "
                    "has: its ids are no items",
                    x->name, x->exclude.item[i], ts_table_whole(t)->name,
                    ts_table_whole(items)->name);
  }
}

/* Ids come as the data have them: an encoding may give any of them. */
static bool comes_as_it_is(const ts_config *c, const char *column) {
  if (!strcmp(c->data.format, "dataset") || !strcmp(c->data.format, "npy"))
    return true;
  for (int32_t i = 0; i < c->data.n_columns; i++)
    if (!strcmp(c->data.columns[i].name, column))
      return !strcmp(c->data.columns[i].encoding, "none");
  return false;
}

/* Why the ids of feature F can't be hidden, as what it needs; NULL: they can.
 */
static const char *lacks(const ts_config *c, const ts_task_config *x,
                         int32_t f) {
  const int32_t target = *x->target ? ts_task_candidates(c, x) : -1;
  const char *name;
  int32_t n = 0;
  if (f < 0 || target < 0) return "to be of a table, and target, too";
  const ts_table_config *t = ts_feature_table(c, f, &name);
  const ts_table_config *own = ts_feature_table(c, target, NULL);
  for (int32_t i = 0; i < ts_feature_count(c); i++) {
    const char *other;
    const bool first = ts_table_is_first(ts_feature_table(c, i, &other));
    n += first && !strcmp(name, other);
  }
  if (n > 1) return "to be in one table";
  if (!strcmp(name, x->target)) return "to be another feature than target";
  if (t != own && (t->rows != own->rows || t->rows <= 0))
    return "target's table, or one of as many rows, which a deck says";
  if (t->weighted) return "a table with weighted = false";
  if (t->rows > 0 && x->mask_id >= t->rows) return "a row for mask_id";
  if (!comes_as_it_is(c, name))
    return "ids as data have them: format = \"dataset\", or encoding = "
           "\"none\"";
  return NULL;
}

/* Ids that are hidden, and what stands for them. */
static void check_masked(ts_deck *d, const config_setting_t *s,
                         const ts_task_config *x) {
  const ts_config *c = d->config;
  if (!*x->masked) {
    if (x->mask_id || x->mask_share != .2)
      ts_deck_error(
          d, s,
          "model.outputs: mask_id and mask_share of \"%.80s\" go with "
          "masked, the feature whose ids are hidden",
          x->name);
    return;
  }
  const char *what = lacks(c, x, ts_feature_find(c, x->masked));
  if (what)
    ts_deck_error(d, s,
                  "model.outputs: masked of \"%.80s\" is \"%.80s\": it needs "
                  "%s",
                  x->name, x->masked, what);
  if (x->mask_id >= x->first_item)
    ts_deck_error(d, s,
                  "model.outputs: mask_id = %lld of \"%.80s\" is an item: give "
                  "first_item = %lld, and data without ids below it",
                  (long long)x->mask_id, x->name, (long long)x->mask_id + 1);
}

/* Keys that say how negatives are drawn. */
static void check_draw(ts_deck *d, const config_setting_t *s,
                       const ts_task_config *x) {
  const ts_config *c = d->config;
  const bool full = !strcmp(x->loss, "full_softmax");
  const char *sampled = "sampled_softmax";
  check_key(d, s, x, "negatives", full && x->negatives != 1, sampled);
  check_key(d, s, x, "draw", full && !draws(x, "uniform"), sampled);
  check_key(d, s, x, "draw = \"batch\"",
            draws(x, "batch") && strcmp(x->loss, sampled), sampled);
  if (draws(x, "batch") && c->run.accumulate > 1)
    ts_deck_error(d, s,
                  "model.outputs: draw = \"batch\" of \"%.80s\" and "
                  "run.accumulate = %d: which targets meet in a part of a "
                  "batch would depend on the ranks",
                  x->name, c->run.accumulate);
  if (draws(x, "batch") && x->negatives != 1)
    ts_deck_error(d, s,
                  "model.outputs: negatives of \"%.80s\": draw = \"batch\" "
                  "takes the targets of the batch, as many as there are",
                  x->name);
  check_key(d, s, x, "log_q", x->log_q && strcmp(x->loss, sampled), sampled);
  if (x->log_q && draws(x, "uniform"))
    ts_deck_error(d, s,
                  "model.outputs: log_q of \"%.80s\" is for draw = "
                  "\"frequency\" or \"batch\": where all items are drawn "
                  "alike it changes nothing",
                  x->name);
  if (x->draw_excluded && (full || draws(x, "batch") || !x->exclude.n))
    ts_deck_error(d, s,
                  "model.outputs: draw_excluded of \"%.80s\" is for exclude "
                  "and negatives that are drawn: %s",
                  x->name,
                  x->exclude.n ? "here none are" : "here nothing is excluded");
}

static void check_items(ts_deck *d, const config_setting_t *s,
                        const ts_task_config *x) {
  const ts_config *c = d->config;
  const bool cosine = !strcmp(x->loss, "cosine_contrastive");
  check_draw(d, s, x);
  check_tower(d, s, x);
  check_target(d, s, x);
  check_exclude(d, s, x);
  check_masked(d, s, x);
  check_key(d, s, x, "label", *x->label != '\0', "bce and others with labels");
  if (cosine && !x->normalise)
    ts_deck_error(d, s,
                  "model.outputs: loss cosine_contrastive of \"%.80s\" is of "
                  "cosines: give normalise = true",
                  x->name);
  if (c->model.n_tasks > 1)
    ts_deck_error(d, s,
                  "model.outputs: \"%.80s\" is over items: samples count by "
                  "their targets then, so it is the only output",
                  x->name);
  if (!c->model.n_layers)
    ts_deck_error(d, s,
                  "model.outputs: loss \"%s\" of \"%.80s\" reads a layer or an "
                  "embedding: model.layers, not model.kind = \"%s\"",
                  x->loss, x->name, c->model.kind);
  if (c->data.negatives < 1 || c->data.positive_weight != 1)
    ts_deck_error(d, s,
                  "data.negatives and data.positive_weight go by labels, which "
                  "\"%.80s\", an output over items, has none of",
                  x->name);
  if (ts_task_has_where(x) || x->uncertainty)
    ts_deck_error(d, s,
                  "model.outputs: %s is not for \"%.80s\", which is over "
                  "items",
                  x->uncertainty ? "weight = \"uncertainty\"" : "where",
                  x->name);
}

/* The items are for a tower of them. */
static void check_data_items(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const ts_task_config *x = &c->model.tasks[0];
  if (!c->data.items.n) return;
  if (c->model.has_outputs && ts_task_is_of_items(x) && ts_task_has_tower(c, x))
    return;
  ts_deck_error(d, ts_deck_at(root, "data.items"),
                "data.items is of items whose vectors a layer makes of their "
                "features, and items = \"%.80s\" of \"%.80s\" is no layer: "
                "an output over items names it there",
                x->items ? x->items : "", x->name);
}

void ts_outputs_check(ts_deck *d, const config_setting_t *root) {
  const ts_config *c = d->config;
  const config_setting_t *list = ts_deck_at(root, "model.outputs");
  if (d->n_errors) return; /* values may be broken */
  check_data_items(d, root);
  if (!c->model.has_outputs || d->n_errors) return;
  for (int32_t k = 0; k < c->model.n_tasks; k++) {
    const ts_task_config *x = &c->model.tasks[k];
    const bool bce = ts_task_is_binary(x), classes = ts_task_is_of_classes(x);
    check_key(d, list, x, "from", !bce && !strcmp(x->from, "probability"),
              "bce");
    check_key(d, list, x, "smoothing", !bce && !classes && x->smoothing > 0,
              "bce");
    check_key(d, list, x, "delta", strcmp(x->loss, "huber") && x->delta != 1,
              "huber");
    const bool cosine = !strcmp(x->loss, "cosine_contrastive");
    check_key(d, list, x, "margin", !cosine && x->margin != 0.9,
              "cosine_contrastive");
    check_key(d, list, x, "negative_weight", !cosine && x->negative_weight != 1,
              "cosine_contrastive");
    if (ts_task_is_of_items(x))
      check_items(d, list, x);
    else
      check_not_items(d, list, x);
    if (classes && !c->model.n_layers)
      ts_deck_error(
          d, list,
          "model.outputs: loss \"softmax_cross_entropy\" of \"%.80s\" "
          "wants an output a class, as layers have it: model.layers, "
          "not model.kind = \"%s\"",
          x->name, c->model.kind);
  }
  if (c->data.csv.labels.n)
    ts_deck_error(d, ts_deck_at(root, "data.csv.labels"),
                  "data.csv.labels is for model.tasks: each of model.outputs "
                  "names its label itself");
  if (!ts_task_is_of_items(&c->model.tasks[0])) check_first(d, root);
  check_metric(d, root);
}
