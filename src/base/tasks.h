/* tasks.h - what is asked of a task: an element of model.outputs, or of
 * model.tasks, where only name and weight are set.
 * All of it is Local. */
#pragma once

#include <math.h>
#include <string.h>

#include "base/config.h"

/* The column of its labels. */
static inline const char *ts_task_label(const ts_task_config *x) {
  return x->label && *x->label ? x->label : x->name;
}

/* Its predictions are probabilities, its labels 0, 1 or between. */
static inline bool ts_task_is_binary(const ts_task_config *x) {
  return !x->loss || !strcmp(x->loss, "bce");
}

/* Its labels are numbers of classes, each of which has a probability. */
static inline bool ts_task_is_of_classes(const ts_task_config *x) {
  return x->loss && !strcmp(x->loss, "softmax_cross_entropy");
}

/* Its model gives a vector, which is to be near the embedding of the item that
 * is wanted and far from those of others: rows of a table (doc/models.md). */
static inline bool ts_task_is_of_items(const ts_task_config *x) {
  static const char *const losses[] = {"sampled_bce", "sampled_softmax", "bpr",
                                       "cosine_contrastive", "full_softmax"};
  for (int k = 0; x->loss && k < 5; k++)
    if (!strcmp(x->loss, losses[k])) return true;
  return false;
}

/* Its loss is over all items: samples bring them along (base/slices.h).
 * Evaluations whose data give candidates go by these. */
static inline bool ts_task_is_of_all(const ts_task_config *x, bool training) {
  return x->loss && !strcmp(x->loss, "full_softmax") && (training || !x->given);
}

/* Its negatives are the items that are wanted elsewhere in the batch. */
static inline bool ts_task_is_in_batch(const ts_task_config *x, bool training) {
  return x->draw && !strcmp(x->draw, "batch") && (training || !x->given);
}

/* Queries of all ranks meet the columns of each (model/full_softmax.h). */
static inline bool ts_task_meets(const ts_task_config *x, bool training) {
  return ts_task_is_of_all(x, training) || ts_task_is_in_batch(x, training);
}

/* `items` is a layer, which makes an item's vector of its features (an item
 * tower), and not a table, whose rows they are. */
bool ts_task_has_tower(const ts_config *, const ts_task_config *);
/* The number of its candidates' feature: of target, in the table `items`. */
int32_t ts_task_candidates(const ts_config *, const ts_task_config *);
/* A layer or an output reads feature F by its name. */
bool ts_task_reads(const ts_config *, int32_t f);
/* Feature F is there for the exclude of an output over items alone: its tables
 * have pooling "none", and no layer reads it.  Looks through all features. */
bool ts_task_only_excludes(const ts_config *, int32_t f);
/* Candidates of each of its targets, the wanted one first. */
static inline int32_t ts_task_each(const ts_task_config *x, bool training) {
  if (ts_task_meets(x, training)) return 1;
  return 1 + (!training && x->given ? x->given : x->negatives);
}

/* Columns of the logits, and of predictions, that the first N tasks have: where
 * the next one's begin.  Once the graph is made. */
static inline int32_t ts_tasks_width(const ts_config *c, int32_t n) {
  int32_t width = 0;
  for (int32_t k = 0; k < n; k++)
    width += c->model.tasks[k].classes ? c->model.tasks[k].classes : 1;
  return width;
}

/* For ts_metrics_judge. */
static inline double ts_task_threshold(const ts_config *c, int32_t k) {
  return ts_task_is_of_classes(&c->model.tasks[k]) ? NAN : c->metrics.threshold;
}

/* Some samples don't count. */
static inline bool ts_task_has_where(const ts_task_config *x) {
  return x->where && *x->where;
}
