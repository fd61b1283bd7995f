/* eval.c - one pass over a data source without training: input dist runs one
 * batch ahead of the forward pass. */
#include <string.h>

#include "base/mem.h"
#include "base/tasks.h"
#include "io/batch_store.h"
#include "runtime/trace.h"
#include "train/metrics_groups.h"
#include "train/ranking.h"
#include "train/trainer.h"

typedef struct ts_eval_pass {
  ts_trainer *t;
  ts_loader *loader;
  ts_metrics **metrics; /* (n_tasks) */
  ts_groups **groups;   /* (n_tasks) where there are some, else NULL */
  int32_t group_feature;
  ts_ranking *ranking; /* of items; NULL: none */
  const ts_eval_hooks *hooks;
  bool stopped;
  ts_err fn_err; /* FN's first: the pass goes on, since the others do */
  ts_err_record fn_fault;
  ts_inflight inflight[2];
} ts_eval_pass;

static ts_err begin(ts_eval_pass *p, ts_inflight *c) {
  const ts_eval_hooks *h = p->hooks;
  ts_inflight_empty(c, p->loader);
  ts_stage_load(p->t, c, p->loader);
  return ts_stage_input_begin(p->t, c, h->asks && h->asks(h->asks_arg));
}

static ts_err add_groups(ts_eval_pass *p, const ts_batch *b) {
  const float *predictions = ts_stage_predictions(p->t);
  for (int32_t k = 0; p->groups && k < p->t->n_tasks; k++) {
    const ts_tally_args a =
        ts_stage_samples(p->t, k, predictions, b->labels, b->weights, b->n);
    TS_DO(ts_groups_add(p->groups[k], b, p->group_feature, &a));
  }
  return TS_OK;
}

/* Batch A, while B's ids travel. */
static ts_err eval_batch(ts_eval_pass *p, ts_inflight *a, ts_inflight *b) {
  ts_event loss;
  ts_step_result result = {0};
  ts_watch_beat();
  TS_DO(begin(p, b));
  TS_DO(ts_stage_forward(p->t, a, false, &loss));
  TS_DO(ts_stage_input_end(p->t, b));
  TS_DO(ts_stage_finish(p->t, a, loss, p->metrics, &result));
  TS_DO(add_groups(p, a->batch));
  TS_DO(ts_ranking_add(p->ranking, a->batch));
  const ts_eval_hooks *h = p->hooks;
  if (h->fn && p->fn_err == TS_OK) {
    p->fn_err = h->fn(h->fn_arg, a->batch, ts_stage_predictions(p->t));
    ts_err_take(&p->fn_fault);
  }
  return TS_OK;
}

static ts_err eval_pass(ts_eval_pass *p) {
  ts_err err = TS_OK;
  ts_inflight *a = &p->inflight[0], *b = &p->inflight[1], *next;
  TS_TRY(begin(p, a));
  TS_TRY(ts_stage_input_end(p->t, a));
  for (;;) {
    TS_TRY(ts_stage_check(p->t, a));
    if (a->verdict.end) break;
    p->stopped = a->verdict.stop > 0;
    if (p->stopped) { /* its ids have come, for nothing */
      ts_stage_discard(p->t, a, p->loader);
      break;
    }
    TS_TRY(eval_batch(p, a, b));
    ts_inflight_empty(a, p->loader);
    next = a, a = b, b = next;
  }
done:
  ts_inflight_empty(a, p->loader);
  ts_inflight_empty(b, p->loader);
  return err;
}

static ts_err create_groups(ts_eval_pass *p) {
  const ts_config *c = p->t->config;
  if (!*c->metrics.group) return TS_OK;
  p->group_feature = ts_feature_find(c, c->metrics.group); /* it is there */
  TS_DO(ts_mem_many(p->groups, p->t->n_tasks, METRICS));
  for (int32_t k = 0; k < p->t->n_tasks; k++)
    TS_DO(ts_groups_create(&p->groups[k]));
  return TS_OK;
}

/* Figures are sums over samples, whatever batches these come in; but hooks want
 * the files' order, and candidates of items go by the batch and the place. */
static bool is_any_order(const ts_eval_pass *p) {
  return !p->hooks->fn && !ts_task_is_of_items(p->t->config->model.tasks);
}

static ts_err pass_create(ts_eval_pass *p, ts_source *source) {
  ts_trainer *t = p->t;
  const ts_loader_options options = {.global_batch = t->micro_batch,
                                     .max_steps = -1,
                                     .epochs = 1.0,
                                     .spread = is_any_order(p),
                                     .rank = t->rank,
                                     .n_ranks = t->n_ranks,
                                     .depth = 3,
                                     .device = t->device,
                                     .pooling = t->pooling,
                                     .costs = &t->costs,
                                     .n_threads = ts_trainer_readers(t),
                                     .serial = t->config->run.serial_lanes};
  TS_DO(ts_ranking_create(&p->ranking, t, source));
  TS_DO(ts_loader_create(&p->loader, source, &options, NULL));
  for (int k = 0; k < 2; k++)
    TS_DO(ts_ebc_batch_create(&p->inflight[k].ebc_batch, t->ebc, t->batch_max,
                              false));
  TS_DO(ts_mem_array(&p->metrics, t->n_tasks, sizeof *p->metrics,
                     TS_TAG_METRICS));
  for (int32_t k = 0; k < t->n_tasks; k++)
    TS_DO(ts_metrics_create(&p->metrics[k], -1, t->n_ranks));
  return create_groups(p);
}

static ts_err judge(ts_eval_pass *p, int32_t task, ts_metrics_result *r) {
  ts_trainer *t = p->t;
  TS_DO(ts_metrics_compute(p->metrics[task], r, t->control));
  if (p->groups)
    TS_DO(ts_groups_compute(p->groups[task], t->config->metrics.k, r,
                            t->control));
  TS_DO(ts_ranking_compute(p->ranking, r, t->control));
  if (p->hooks->all)
    TS_DO(p->hooks->all(p->hooks->all_arg, task, p->metrics[task]));
  TS_DO(ts_metrics_judge(p->metrics[task], r,
                         ts_task_threshold(t->config, task), t->control));
  /* Of outputs over items predictions are losses, over 0, and labels 0. */
  if (ts_task_is_of_items(&t->config->model.tasks[task]))
    r->value[ts_metric_find("logloss")] = r->value[ts_metric_find("mae")];
  return TS_OK;
}

ts_err ts_evaluate(ts_trainer *t, ts_source *source, ts_metrics_result *result,
                   const ts_eval_hooks *hooks, bool *stopped) {
  ts_err err = TS_OK;
  const double t0 = ts_now();
  ts_eval_pass p = {.t = t, .hooks = hooks};
  const ts_section before = ts_watch_enter(TS_SECTION_EVAL);
  bool averages = false;
  ts_trace_evaluating(true);
  TS_TRY(ts_settle(t, ts_trainer_rest(t)));
  TS_TRY(ts_settle(t, ts_parallel_swap_averages(t->dense, t->compute)));
  if (t->training) ts_ebc_look_at_averages(t->ebc, t->step);
  ts_ebc_hide_from(t->ebc, ts_trainer_first_learnt(t));
  averages = true;
  TS_TRY(ts_settle(t, pass_create(&p, source)));
  err = eval_pass(&p);
  if (!ts_err_agreed()) ts_settle_own(err);
  TS_TRY(err);
  *stopped = p.stopped;
  for (int32_t k = 0; !p.stopped && k < t->n_tasks; k++)
    TS_TRY(judge(&p, k, &result[k]));
  if (p.fn_err != TS_OK) {
    ts_err_put(&p.fn_fault);
    err = p.fn_err;
  }
done:
  if (averages) {
    ts_ebc_look_at_averages(t->ebc, 0);
    const ts_err back = ts_parallel_swap_averages(t->dense, t->compute);
    if (err == TS_OK) err = ts_settle(t, back);
  }
  for (int32_t k = 0; p.metrics && k < t->n_tasks; k++)
    ts_metrics_destroy(p.metrics[k]);
  for (int32_t k = 0; p.groups && k < t->n_tasks; k++)
    ts_groups_destroy(p.groups[k]);
  ts_mem_free_all(p.metrics, p.groups);
  for (int k = 0; k < 2; k++) ts_ebc_batch_destroy(p.inflight[k].ebc_batch);
  ts_ranking_destroy(p.ranking);
  ts_loader_destroy(p.loader);
  ts_trace_evaluating(false);
  ts_timer_add("evaluation", ts_now() - t0);
  ts_watch_enter(before);
  return err;
}
