/* ranking.c - figures of an output over items. */
#include "train/ranking.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/tasks.h"
#include "model/graph.h"
#include "train/layer_values.h"
#include "train/topk.h"

/* Sums over targets, or samples. */
typedef struct ts_ranked {
  double n, hits, ndcg, reciprocal, recall;
} ts_ranked;

struct ts_ranking {
  ts_trainer *t;
  const ts_task_config *task;
  int32_t feature; /* of candidates */
  ts_ranked sums;
  ts_layer_values values; /* figures, or the rows that items are ranked by */
  ts_topk *topk;          /* NULL: among given ones */
};

static bool is_asked(const ts_config *c) {
  bool asked = ts_metric_is_of_ranks(ts_metric_find(c->run.stop.metric));
  for (int32_t i = 0; i < c->metrics.report.n; i++)
    asked |= ts_metric_is_of_ranks(ts_metric_find(c->metrics.report.item[i]));
  return asked;
}

ts_err ts_ranking_check(const ts_config *c) {
  const ts_task_config *x = c->model.tasks;
  if (!ts_task_is_of_items(x) || !ts_topk_lacks_items(c, x) || !is_asked(c))
    return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "metrics.report or run.stop.metric is of items' ranks, and "
                 "the items of output %s are what layer \"%s\" makes: give "
                 "data.items, the features of the items that are ranked",
                 x->name, x->items);
}

ts_err ts_ranking_create(ts_ranking **out, ts_trainer *t,
                         const ts_source *like) {
  ts_err err = TS_OK;
  ts_ranking *r = NULL;
  const ts_config *c = t->config;
  const ts_task_config *x = c->model.tasks;
  if (!ts_task_is_of_items(x) || !is_asked(c)) return TS_OK;
  TS_TRY(ts_mem_alloc(&r, sizeof *r, TS_TAG_METRICS));
  r->t = t;
  r->task = x;
  r->feature = ts_task_candidates(c, x);
  const int which = x->given ? TS_TASK_FIGURES : TS_TASK_QUERY;
  TS_TRY(ts_layer_values_of(&r->values, t,
                            ts_graph_task_value(t->model, 0, which)));
  if (!x->given) TS_TRY(ts_topk_create(&r->topk, t, 0, c->metrics.k, like));
  *out = r;
  r = NULL;
done:
  ts_ranking_destroy(r);
  return err;
}

void ts_ranking_destroy(ts_ranking *r) {
  if (!r) return;
  ts_layer_values_close(&r->values);
  ts_topk_destroy(r->topk);
  ts_mem_free(r);
}

/* Kernel target_figures: loss, number, hits, NDCG, reciprocal ranks. */
static void add_given(ts_ranking *r, const float *figures, int32_t n) {
  for (const float *f = figures; n > 0; n--, f += TS_TARGET_FIGURES) {
    r->sums.n += (double)f[1];
    r->sums.hits += (double)f[2];
    r->sums.recall += (double)f[2];
    r->sums.ndcg += (double)f[3];
    r->sums.reciprocal += (double)f[4];
  }
}

/* Different wanted ids among the N of a bag. */
static int64_t n_different(const int64_t *ids, int64_t n, int32_t each) {
  int64_t different = 0;
  for (int64_t k = 0; k < n; k += each)
    different += !ts_topk_is_wanted(ids, k, each, ids[k]);
  return different;
}

static void add_found(ts_ranking *r, const int64_t *found, int32_t k,
                      const int64_t *ids, int64_t n, int32_t each) {
  double gain = 0, best = 0;
  int64_t hits = 0, first = -1;
  const int64_t wanted = n_different(ids, n, each);
  if (!wanted) return;
  for (int32_t i = 0; i < k; i++) {
    if (i < wanted) best += 1 / log2(i + 2.0);
    if (!ts_topk_is_wanted(ids, n, each, found[i])) continue;
    gain += 1 / log2(i + 2.0);
    if (!hits++) first = i;
  }
  r->sums.n += 1;
  r->sums.hits += hits > 0;
  r->sums.recall += (double)hits / (double)wanted;
  r->sums.ndcg += gain / best;
  if (hits) r->sums.reciprocal += 1 / (1.0 + (double)first);
}

static ts_err add_all(ts_ranking *r, const ts_batch *b, const float *query) {
  const ts_jagged *j = &b->kjt.features[r->feature];
  const int32_t each = ts_task_each(r->task, false);
  const int64_t *found, *ids = j->ids;
  TS_DO(ts_topk_search(r->topk, query, b, true, &found, NULL));
  for (int32_t i = 0; i < b->n; i++) {
    const int64_t n = ts_batch_given_ids(b, r->feature, i);
    const int32_t k = ts_topk_k(r->topk);
    add_found(r, found + (int64_t)i * k, k, ids, n, each);
    ids += ts_jagged_length(j, i);
  }
  return TS_OK;
}

ts_err ts_ranking_add(ts_ranking *r, const ts_batch *b) {
  const float *values;
  if (!r) return TS_OK;
  TS_DO(ts_layer_values_take(&r->values, b->n, &values));
  if (r->topk) return add_all(r, b, values);
  add_given(r, values, b->n);
  return TS_OK;
}

ts_err ts_ranking_compute(ts_ranking *r, ts_metrics_result *m, ts_comm *comm) {
  if (!r) return TS_OK;
  ts_ranked s = r->sums;
  TS_DO(ts_comm_sum_f64(comm, (double *)&s, sizeof s / sizeof(double)));
  const double n = s.n > 0 ? s.n : 1;
  m->groups = (ts_group_figures){.gauc = 0.5,
                                 .ndcg = s.ndcg / n,
                                 .hit_rate = s.hits / n,
                                 .mrr = s.reciprocal / n,
                                 .recall = s.recall / n};
  return TS_OK;
}
