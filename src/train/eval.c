/* eval.c - one pass over a data source without training. */
#include "base/mem.h"
#include "runtime/trace.h"
#include "train/trainer.h"

static ts_err eval_batch(ts_trainer *t, const ts_batch *batch,
                         const ts_verdict *v, ts_metrics **metrics,
                         ts_prediction_fn fn, void *arg) {
  ts_err err = TS_OK;
  float *logits;
  TS_TRY(ts_stage_forward(t, batch, &logits));
  TS_TRY(ts_stage_loss(t, logits, batch, v->weight_sum, false));
  TS_TRY(ts_lane_sync(t->compute));
  TS_TRY(ts_stage_metrics(t, metrics, batch));
  if (fn) TS_TRY(fn(arg, batch, t->predictions));
done:
  return err;
}

static ts_err eval_pass(ts_trainer *t, ts_loader *loader, ts_metrics **metrics,
                        ts_prediction_fn fn, void *arg) {
  ts_err err = TS_OK;
  ts_batch *batch = NULL;
  for (;;) {
    ts_verdict v;
    ts_err read = ts_loader_next(loader, &batch);
    TS_TRY(ts_stage_input(t, batch, read, 0, &v));
    if (v.end) break;
    TS_TRY(eval_batch(t, batch, &v, metrics, fn, arg));
    ts_loader_release(loader, batch);
    batch = NULL;
  }
done:
  if (batch) ts_loader_release(loader, batch);
  return err;
}

ts_err ts_evaluate(ts_trainer *t, ts_source *source, ts_metrics_result *result,
                   ts_prediction_fn fn, void *arg) {
  ts_err err = TS_OK;
  ts_loader *loader = NULL;
  ts_metrics **metrics = NULL;
  const double t0 = ts_now();
  const ts_loader_options options = {.global_batch = t->global_batch,
                                     .max_steps = -1,
                                     .epochs = 1.0,
                                     .rank = t->rank,
                                     .n_ranks = t->n_ranks,
                                     .depth = 2,
                                     .device = t->device,
                                     .serial = t->config->run.serial_lanes};
  TS_TRY(ts_settle(t, ts_loader_create(&loader, source, &options, NULL)));
  TS_TRY(ts_mem_array(&metrics, t->n_tasks, sizeof *metrics, TS_TAG_METRICS));
  for (int32_t k = 0; k < t->n_tasks; k++)
    TS_TRY(ts_metrics_create(&metrics[k], -1, t->n_ranks));
  TS_TRY(eval_pass(t, loader, metrics, fn, arg));
  for (int32_t k = 0; k < t->n_tasks; k++)
    TS_TRY(ts_metrics_compute(metrics[k], &result[k], -1, t->control));
done:
  for (int32_t k = 0; metrics && k < t->n_tasks; k++)
    ts_metrics_destroy(metrics[k]);
  ts_mem_free(metrics);
  ts_loader_destroy(loader);
  ts_timer_add("evaluation", ts_now() - t0);
  return err;
}
