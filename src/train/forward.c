/* forward.c - evaluation and prediction with a checkpoint. */
#include "train/forward.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/deck.h"
#include "io/predictions.h"
#include "train/report.h"
#include "train/rows.h"

static ts_err write_batch(void *arg, const ts_batch *b,
                          const float *predictions) {
  return ts_predictions_write(arg, b->first, b->n, predictions, b->labels);
}

static ts_err load(ts_trainer *t, const char *checkpoint, const char *out,
                   ts_run_state *state) {
  ts_err err = TS_OK;
  ts_str taken = {0};
  if (!checkpoint && !t->config->checkpoint.dir)
    TS_THROW(TS_ERR_USAGE, "checkpoint.dir is \"none\": give --checkpoint");
  TS_TRY(ts_trainer_load(t, checkpoint, state, &taken));
  if (!taken.text)
    TS_THROW(TS_ERR_CKPT,
             "%s holds no checkpoint; train first, or give "
             "--checkpoint",
             t->config->checkpoint.dir);
  if (out && ts_file_is_same(out, taken.text))
    TS_THROW(TS_ERR_USAGE, "--out %s is a file to read", out);
  ts_info("weights of step %lld from %s", (long long)t->step, taken.text);
done:
  ts_str_reset(&taken);
  return err;
}

static ts_err pass(ts_trainer *t, const char *out, const char *state) {
  ts_err err = TS_OK;
  ts_source *source = NULL;
  ts_predictions *file = NULL;
  ts_metrics_result m[t->n_tasks];
  bool stopped;
  TS_TRY(ts_source_open(&source, t->config,
                        out ? TS_SPLIT_PREDICT : TS_SPLIT_EVAL, state,
                        t->control));
  if (out)
    TS_TRY(ts_predictions_create(&file, out, source->info.n_samples, t->n_tasks,
                                 t->control));
  const ts_eval_hooks hooks = {.fn = out ? write_batch : NULL, .fn_arg = file};
  err = ts_evaluate(t, source, m, &hooks, &stopped);
  if (file) err = ts_predictions_finish(file, err, t->control);
  TS_TRY(err);
  for (int32_t k = 0; !source->info.unlabelled && k < t->n_tasks; k++)
    ts_report_eval("evaluation",
                   t->n_tasks > 1 ? t->config->model.tasks[k].name : NULL,
                   &m[k]);
  if (out) ts_info("predictions: %s", out);
done:
  ts_source_close(source);
  return err;
}

ts_err ts_run_forward(const char *deck, const char *const *sets, int n_sets,
                      const char *checkpoint, const char *out) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_trainer *t = NULL;
  ts_run_state state = {0};
  TS_TRY(ts_watch_start());
  TS_TRY(ts_deck_read_all(&c, deck, sets, n_sets));
  if (out) TS_TRY(ts_deck_spare(c, "--out", out));
  TS_TRY(ts_trainer_start(&t, c, false));
  TS_TRY(ts_trainer_rows_of(t, checkpoint));
  TS_TRY(ts_trainer_build(t, NULL));
  TS_TRY(load(t, checkpoint, out, &state));
  TS_TRY(pass(t, out, state.source_state));
done:
  ts_settle_own(err);
  ts_mem_free(state.source_state);
  ts_trainer_destroy(t);
  ts_watch_stop();
  ts_deck_destroy(c);
  return err;
}
