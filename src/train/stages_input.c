/* stages_input.c - how a batch comes to a step: it is read, its ids are sent,
 * and what all ranks say of it is judged. */
#include "runtime/trace.h"
#include "train/trainer.h"
#include "train/upload.h"

/* The next micro-batch, of the next batch where the last one is used up. */
static ts_err load_micro(ts_trainer *t, ts_inflight *c, ts_loader *loader) {
  const int32_t n = t->config->run.accumulate;
  if (!t->cut) {
    t->n_cut = 0;
    TS_DO(ts_loader_next(loader, &t->cut));
    if (!t->cut) return TS_OK;
  }
  c->again = t->n_cut > 0;
  TS_DO(ts_micro_cut(c->micro, t->cut, t->n_cut++, n));
  c->batch = ts_micro_batch(c->micro);
  c->more = t->n_cut < n;
  if (!c->more) t->cut = NULL;
  return TS_OK;
}

void ts_stage_load(ts_trainer *t, ts_inflight *c, ts_loader *loader) {
  if (c->loaded) return;
  const ts_section before = ts_watch_enter(TS_SECTION_INPUT);
  c->read =
      c->micro ? load_micro(t, c, loader) : ts_loader_next(loader, &c->batch);
  ts_watch_enter(before);
  if (c->read != TS_OK) ts_err_take(&c->fault);
  c->after = ts_loader_state_of(loader);
  c->loaded = true;
}

/* The batch to where kernels see it.  An error is that of the batch, of which
 * all ranks hear. */
static void bring(ts_trainer *t, ts_inflight *c) {
  const ts_batch *b = c->batch;
  if (!b || c->read != TS_OK) return;
  ts_inflight_trace(c, "input");
  if (t->tokens)
    c->read = ts_model_check_tokens(t->model, &b->kjt, b->training,
                                    ts_batch_slices(b), b->times);
  if (c->read == TS_OK)
    c->read = ts_upload_begin(t->uploads, b, c->again, &c->upload);
  if (c->read != TS_OK) ts_err_take(&c->fault);
  c->copied = ts_upload_copied(c->upload);
  c->inputs = (ts_inputs){.dense = ts_upload_address(c->upload, b->dense),
                          .labels = ts_upload_address(c->upload, b->labels),
                          .weights = ts_upload_address(c->upload, b->weights)};
}

/* Compute is done with the batch in flight's last batch before anything of it
 * is written: by the host, too, where tasks run later than now, and where
 * tables are in slow memory, whose rows it counts. */
static ts_err wait_for_last(ts_trainer *t, const ts_inflight *c) {
  bool host = !ts_device_runs_at_once(t->device);
  for (int32_t i = 0; !host && i < t->config->n_tables; i++)
    host = ts_table_is_slow(&t->config->tables[i]);
  return host ? ts_event_sync(c->done) : ts_lane_wait(t->data, c->done);
}

ts_err ts_stage_input_begin(ts_trainer *t, ts_inflight *c, int stop) {
  static const ts_kjt none = {0};
  bring(t, c);
  const ts_batch *batch = c->batch;
  const ts_status own = {
      .err = c->read,
      .stop = stop,
      .n = batch ? batch->n : 0,
      .done = !batch && c->read == TS_OK,
      .weight_sum = batch ? batch->weight_sum : 0,
      .learns = !batch || !batch->training ? 0
                : c->again                 ? 2
                                           : 1,
      .n_targets = batch && batch->all_items ? batch->all_items->n_targets : 0};
  c->begun = true;
  TS_DO(wait_for_last(t, c));
  ts_inflight_trace(c, "input");
  ts_ebc_batch_uploaded(
      c->ebc_batch, batch ? batch->arena : NULL,
      c->upload ? batch->arena_bytes : 0,
      ts_upload_address(c->upload, batch ? batch->arena : NULL));
  TS_DO(ts_lane_wait(t->data, c->copied));
  return ts_ebc_input_begin(c->ebc_batch, batch ? &batch->kjt : &none, &own,
                            t->data);
}

/* Any rank's error is everyone's: its message is shared. */
static ts_err judge(ts_trainer *t, const ts_status *all, ts_err own,
                    ts_verdict *v) {
  ts_err worst = TS_OK;
  int n_done = 0;
  *v = (ts_verdict){0};
  for (int r = 0; r < t->n_ranks; r++) {
    if (worst == TS_OK) worst = (ts_err)all[r].err;
    n_done += all[r].done != 0;
    if (all[r].stop > v->stop) v->stop = all[r].stop;
    v->n_global += all[r].n;
    v->weight_sum += all[r].weight_sum;
  }
  v->end = n_done > 0;
  return worst == TS_OK ? TS_OK : ts_agree(t->control, own);
}

ts_err ts_stage_input_end(ts_trainer *t, ts_inflight *c) {
  const ts_status *all;
  const double t0 = ts_now();
  ts_inflight_trace(c, "input");
  TS_DO(ts_ebc_statuses(c->ebc_batch, &all));
  ts_timer_add("wait for input dist", ts_now() - t0);
  if (c->read != TS_OK) ts_err_put(&c->fault);
  c->read = judge(t, all, (ts_err)all[t->rank].err, &c->verdict);
  c->judged = true;
  if (c->read != TS_OK) ts_err_take(&c->fault);
  if (c->read == TS_OK && !c->verdict.end)
    TS_DO(ts_ebc_input_end(c->ebc_batch, t->data));
  return TS_OK;
}

ts_err ts_stage_check(ts_trainer *t, ts_inflight *c) {
  (void)t;
  if (c->read != TS_OK) ts_err_put(&c->fault);
  return c->read;
}
