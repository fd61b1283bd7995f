/* bench_step.c - `tessera bench step DECK [iters=N]`: whole training steps
 * over batches that lie ready in memory, so that reading is left out. */
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "commands/bench.h"
#include "commands/bench_copy.h"
#include "commands/bench_dense.h"
#include "commands/bench_limits.h"
#include "io/deck.h"
#include "runtime/clock.h"
#include "runtime/topology.h"
#include "runtime/trace.h"
#include "train/graph.h"
#include "train/pipeline.h"
#include "train/report.h"

enum { N_BATCHES = 8 };

static ts_err read_batches(ts_trainer *t, ts_source *s,
                           ts_batch_store **stores) {
  ts_err err = TS_OK;
  const int64_t g = t->global_batch;
  for (int i = 0; i < N_BATCHES; i++) {
    TS_TRY(ts_batch_store_create(&stores[i], t->config, t->device));
    const int64_t at = (i * g) % (s->info.n_samples - g + 1);
    TS_TRY(s->ops->read(s, stores[i], at + t->rank * (g / t->n_ranks),
                        (int32_t)(g / t->n_ranks)));
  }
done:
  return err;
}

static ts_err one_step(ts_trainer *t, ts_batch *b, double *loss_sum) {
  ts_err err = TS_OK;
  ts_cargo *c = ts_cargo_at(t, 0);
  ts_step_result result = {0};
  ts_event loss;
  c->batch = b;
  c->loaded = true;
  TS_TRY(ts_stage_input_begin(t, c, 0));
  TS_TRY(ts_stage_input_end(t, c));
  TS_TRY(ts_stage_check(t, c));
  TS_TRY(ts_step_graph_begin(t, TS_PART_FORWARD));
  TS_TRY(ts_stage_forward(t, c, true, &loss));
  TS_TRY(ts_stage_backward(t, c, ++t->step, (ts_look_ahead){0}, (ts_event){0}));
  TS_TRY(ts_stage_optimize(t));
  TS_TRY(ts_step_graph_end(t));
  result.skipped = true; /* no metrics */
  TS_TRY(ts_stage_finish(t, c, loss, t->metrics, &result));
  TS_TRY(ts_stage_fetch(t, &result));
  *loss_sum = result.loss_sum;
  ts_cargo_empty(c, NULL);
done:
  return err;
}

/* One step on the batch of its turn; *MS is what it took, *LOSS its sum. */
static ts_err timed_step(ts_trainer *t, ts_batch_store **stores, int i,
                         double *ms, double *loss) {
  ts_err err = TS_OK;
  const double t0 = ts_now();
  ts_batch *b = ts_batch_store_batch(stores[i % N_BATCHES]);
  ts_run_trace_step(i);
  b->step = i;
  TS_TRY(one_step(t, b, loss));
  *ms = 1e3 * (ts_now() - t0);
done:
  return err;
}

/* Products are run again alone where the host has them; a device's own times
 * of phases are taken in more steps, which have no graphs. */
static ts_err print_phases(ts_trainer *t, ts_batch_store **stores, int iters,
                           ts_bench_turn *turns, double seconds) {
  enum { MORE = 10 };
  ts_err err = TS_OK;
  double ms, loss;
  const ts_batch *batch = ts_batch_store_batch(stores[0]);
  if (!ts_device_is_apart(t->device)) {
    TS_TRY(ts_bench_phases_print(t, batch, iters, seconds));
    return ts_bench_turns_print(turns, iters, t);
  }
  ts_clock_phases(true);
  TS_TRY(timed_step(t, stores, 0, &ms, &loss));
  TS_TRY(ts_trainer_rest(t));
  ts_timers_reset();
  const double t0 = ts_now();
  for (int i = 0; i < MORE; i++) TS_TRY(timed_step(t, stores, i, &ms, &loss));
  TS_TRY(ts_trainer_rest(t));
  TS_TRY(ts_bench_phases_print(t, batch, MORE, (ts_now() - t0) / MORE));
done:
  ts_clock_phases(false);
  return err;
}

static ts_err measure(ts_trainer *t, ts_batch_store **stores, int iters) {
  ts_err err = TS_OK;
  double *ms = NULL, ignored, loss = 0;
  ts_bench_turn *turns = NULL;
  char rate[32];
  const int warm = iters / 4;
  const bool alone = !ts_device_is_apart(t->device);
  ts_bench_copies copies = {0};
  TS_TRY(ts_mem_array(&ms, iters, sizeof *ms, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&turns, iters + warm, sizeof *turns, TS_TAG_MISC));
  TS_TRY(ts_bench_copies_start(&copies, t, iters));
  for (int i = 0; i < iters + warm; i++) {
    if (i == warm) ts_timers_reset();
    if (i == warm) TS_TRY(ts_bench_copies_begin(&copies));
    if (alone) ts_bench_turn_begin(&turns[i]);
    TS_TRY(
        timed_step(t, stores, i, i < warm ? &ignored : &ms[i - warm], &loss));
    if (alone) TS_TRY(ts_bench_turn_end(&turns[i], t));
  }
  TS_TRY(ts_bench_copies_end(&copies));
  double seconds = 0;
  for (int i = 0; i < iters; i++) seconds += ms[i] / 1e3;
  TS_TRY(ts_report_end(t, seconds, iters * t->global_batch, 0));
  const double median = ts_bench_median(ms, iters);
  ts_info("bench step: %d ranks, %d threads each, batch %lld: median %.2f ms, "
          "fastest %.2f ms, %s samples/s; loss %.5f",
          t->n_ranks, t->n_threads, (long long)t->global_batch, median, ms[0],
          ts_str_count(rate, (int64_t)((double)t->global_batch / median * 1e3)),
          loss / (double)(t->global_batch / t->n_ranks));
  TS_TRY(ts_bench_copies_print(&copies, false));
  TS_TRY(print_phases(t, stores, iters, turns + warm, seconds / iters));
done:
  ts_bench_copies_reset(&copies);
  ts_mem_free(turns);
  ts_mem_free(ms);
  return err;
}

ts_err ts_bench_step(const ts_args *a) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_trainer *t = NULL;
  ts_source *s = NULL;
  ts_batch_store *stores[N_BATCHES] = {0};
  double iters = 40;
  ts_trace_request trace = {0};
  ts_trace_file file = {0};
  const ts_bench_key keys[] = {
      {.name = "iters", .number = &iters, .least = 4, .most = 1e9}};
  if (!a->n_more)
    TS_THROW(TS_ERR_USAGE, "usage: tessera bench step DECK [iters=N]");
  TS_TRY(ts_bench_keys(a, 1, keys, 1));
  TS_TRY(ts_args_trace(a, &trace));
  TS_TRY(ts_deck_read_all(&c, a->more[0], a->sets, a->n_sets));
  c->run.accumulate = 1; /* whole batches */
  TS_TRY(ts_trainer_start(&t, c, true));
  TS_TRY(ts_report_header(t));
  t->n_stores = N_BATCHES;
  TS_TRY(ts_trainer_build(t, NULL));
  ts_report_plan(t);
  TS_TRY(ts_settle(t, ts_ebc_init(t->ebc)));
  TS_TRY(ts_source_open(&s, c, TS_SPLIT_TRAIN, NULL, t->control));
  TS_TRY(ts_settle(t, read_batches(t, s, stores)));
  TS_TRY(ts_report_in_flight(t));
  TS_TRY(ts_run_trace_open(&file, c, &trace, (int64_t)iters / 4, t->control));
  TS_TRY(measure(t, stores, (int)iters));
  TS_TRY(ts_run_trace_close(&file, t->control));
done:
  ts_trace_file_reset(&file);
  for (int i = 0; i < N_BATCHES; i++) ts_batch_store_destroy(stores[i]);
  ts_source_close(s);
  ts_trainer_destroy(t);
  ts_deck_destroy(c);
  return err;
}
