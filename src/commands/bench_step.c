/* bench_step.c - `tessera bench step DECK [iters=N] [pipeline=KIND]`: training
 * steps over batches that lie ready in memory, so that reading is left out.
 *
 * Without a pipeline each step is one alone, from its input to its loss, which
 * the host waits for: what each phase costs when nothing hides it.  With one
 * steps are those of a training: input and the host's work are hidden as far as
 * that pipeline does, and nothing is waited for before the last step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "commands/bench.h"
#include "commands/bench_table.h"
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

enum { N_BATCHES = 8, AHEAD = 4, MORE = 10 };

typedef struct ts_step_bench {
  ts_trainer *t;
  ts_batch_store *stores[N_BATCHES];
  ts_loader *loader;     /* of a pipeline's steps; NULL: each is alone */
  ts_step_result result; /* of the newest */
  int iters, warm;
  char ids[TS_BENCH_IDS]; /* how they are distributed */
  double *ms;             /* (iters) */
  ts_bench_turn *turns;   /* (iters + warm) */
  ts_bench_copies copies;
} ts_step_bench;

static ts_err step_alone(ts_trainer *t, ts_batch *b, ts_step_result *result) {
  ts_inflight *c = ts_inflight_at(t, 0);
  ts_event loss;
  *result = (ts_step_result){.skipped = true}; /* no metrics */
  c->batch = b;
  c->loaded = true;
  TS_DO(ts_stage_input_begin(t, c, 0));
  TS_DO(ts_stage_input_end(t, c));
  TS_DO(ts_stage_check(t, c));
  TS_DO(ts_step_graph_begin(t, TS_PART_FORWARD));
  TS_DO(ts_stage_forward(t, c, true, &loss));
  TS_DO(ts_stage_backward(t, c, ++t->step, (ts_look_ahead){0}, (ts_event){0}));
  TS_DO(ts_stage_optimize(t));
  TS_DO(ts_step_graph_end(t));
  TS_DO(ts_stage_finish(t, c, loss, t->metrics, result));
  TS_DO(ts_stage_fetch(t, result));
  ts_inflight_empty(c, NULL);
  return TS_OK;
}

/* Step number I; *MS is what it took. */
static ts_err timed_step(ts_step_bench *b, int i, double *ms) {
  ts_trainer *t = b->t;
  const double t0 = ts_now();
  ts_run_trace_step(i);
  if (b->loader) {
    TS_DO(ts_pipeline_step(t, b->loader, 0, &b->result));
    t->step++;
    TS_DO(ts_bench_copies_step(&b->copies));
  } else {
    ts_batch *batch = ts_batch_store_batch(b->stores[i % N_BATCHES]);
    batch->step = i;
    TS_DO(step_alone(t, batch, &b->result));
  }
  *ms = 1e3 * (ts_now() - t0);
  return TS_OK;
}

/* ---- results ------------------------------------------------------------- */

/* Products are run again alone where the host has them, and steps are, too; a
 * device's own times of phases are taken in more steps, which have no
 * graphs. */
static ts_err print_phases(ts_step_bench *b, double seconds) {
  ts_err err = TS_OK;
  double ms;
  ts_trainer *t = b->t;
  const ts_batch *batch = ts_batch_store_batch(b->stores[0]);
  if (!ts_device_is_discrete(t->device)) {
    TS_TRY(ts_bench_phases_print(t, batch, b->iters, seconds));
    return b->loader ? TS_OK
                     : ts_bench_turns_print(b->turns + b->warm, b->iters, t);
  }
  ts_clock_phases(true);
  TS_TRY(timed_step(b, 0, &ms));
  TS_TRY(ts_trainer_rest(t));
  ts_timers_reset();
  const double t0 = ts_now();
  for (int i = 0; i < MORE; i++) TS_TRY(timed_step(b, i, &ms));
  TS_TRY(ts_trainer_rest(t));
  TS_TRY(ts_bench_phases_print(t, batch, MORE, (ts_now() - t0) / MORE));
done:
  ts_clock_phases(false);
  return err;
}

static const ts_bench_table figure = {
    "step", "{ranks|bench step: %.0f ranks}{threads|, %.0f threads each}"
            "{global_batch|, batch %.0f: }{pipeline|pipeline %s: }"
            "{step_ms|%.2f ms a step, }{median_ms|median %.2f ms}"
            "{fastest_ms|, fastest %.2f ms}{samples_per_s|, %C samples/s}"
            "{loss|; loss %.5f}{ids|; %s}"};

/* SECONDS: of a step.  Steps alone go by their median; those of a pipeline,
 * which end in the next, by all of them together. */
static void print_figure(ts_step_bench *b, double seconds) {
  const ts_trainer *t = b->t;
  const double median = ts_bench_median(b->ms, b->iters);
  const double ms = b->loader ? 1e3 * seconds : median;
  const double g = (double)t->global_batch;
  ts_bench_print(&figure, (double)t->n_ranks, (double)t->n_threads, g,
                 b->loader ? t->config->pipeline.kind : NULL,
                 b->loader ? ms : NAN, median, b->ms[0], g / ms * 1e3,
                 b->result.loss_sum / (double)(t->global_batch / t->n_ranks),
                 b->ids);
}

/* ---- measuring ----------------------------------------------------------- */

/* Steps to warm up and those that count: seconds of one of these. */
static ts_err run_steps(ts_step_bench *b, double *seconds) {
  const bool alone = !b->loader && !ts_device_is_discrete(b->t->device);
  double ignored, t0 = 0, sum = 0;
  for (int i = 0; i < b->iters + b->warm; i++) {
    if (i == b->warm) {
      TS_DO(ts_trainer_rest(b->t));
      TS_DO(ts_comm_barrier(b->t->control));
      ts_timers_reset();
      TS_DO(ts_bench_copies_begin(&b->copies));
      t0 = ts_now();
    }
    if (alone) ts_bench_turn_begin(&b->turns[i]);
    TS_DO(timed_step(b, i, i < b->warm ? &ignored : &b->ms[i - b->warm]));
    if (alone) TS_DO(ts_bench_turn_end(&b->turns[i], b->t));
  }
  TS_DO(ts_stage_fetch(b->t, &b->result));
  *seconds = (ts_now() - t0) / b->iters;
  for (int i = 0; i < b->iters; i++) sum += b->ms[i] / 1e3;
  if (!b->loader) *seconds = sum / b->iters; /* products run alone in between */
  return TS_OK;
}

static ts_err measure(ts_step_bench *b) {
  ts_trainer *t = b->t;
  double seconds;
  TS_DO(ts_mem_array(&b->ms, b->iters, sizeof *b->ms, TS_TAG_MISC));
  TS_DO(ts_mem_array(&b->turns, b->iters + b->warm, sizeof *b->turns,
                     TS_TAG_MISC));
  TS_DO(ts_bench_copies_start(&b->copies, t, b->iters));
  TS_DO(run_steps(b, &seconds));
  TS_DO(ts_bench_copies_end(&b->copies));
  TS_DO(ts_report_end(t, seconds * b->iters, b->iters * t->global_batch, 0));
  print_figure(b, seconds);
  TS_DO(ts_bench_copies_print(&b->copies, b->loader != NULL));
  TS_DO(print_phases(b, seconds));
  if (b->loader) ts_pipeline_drain(t, b->loader);
  return TS_OK;
}

/* The deck, with the pipeline KIND: "0" none, "1" the deck's own.  semi_sync
 * begins at once. */
static ts_err read_deck(ts_config **out, const ts_args *a, const char *kind) {
  const char *sets[a->n_sets + 2];
  char text[64];
  int n = a->n_sets;
  const bool named = strcmp(kind, "0") != 0 && strcmp(kind, "1") != 0;
  if (named && !ts_pipeline_find(kind))
    return ts_fail(TS_ERR_USAGE, "bench: there is no pipeline \"%s\"", kind);
  for (int i = 0; i < n; i++) sets[i] = a->sets[i];
  snprintf(text, sizeof text, "pipeline.kind=%s", kind);
  if (named) sets[n++] = text;
  if (strcmp(kind, "0") != 0) sets[n++] = "pipeline.start_batch=0";
  TS_DO(ts_deck_read_all(out, a->more[0], sets, n));
  (*out)->run.accumulate = 1; /* whole batches */
  return TS_OK;
}

static ts_err prepare(ts_step_bench *b, const ts_config *c, bool pipeline) {
  ts_err err = TS_OK;
  ts_source *s = NULL;
  TS_TRY(ts_trainer_start(&b->t, c, true));
  TS_TRY(ts_report_header(b->t));
  b->t->n_stores = N_BATCHES;
  TS_TRY(ts_trainer_build(b->t, NULL));
  ts_report_plan(b->t);
  TS_TRY(ts_settle(b->t, ts_ebc_init(b->t->ebc)));
  TS_TRY(ts_source_open(&s, c, TS_SPLIT_TRAIN, NULL, b->t->control));
  TS_TRY(ts_settle(b->t, ts_bench_batches(b->stores, N_BATCHES, b->t, s,
                                          b->t->device, b->ids)));
  TS_TRY(ts_report_in_flight(b->t));
  if (pipeline)
    TS_TRY(ts_loader_create_replay(&b->loader, b->stores, N_BATCHES,
                                   b->warm + b->iters + 1 + MORE + AHEAD));
done:
  ts_source_close(s);
  return err;
}

static void reset(ts_step_bench *b) {
  ts_bench_copies_reset(&b->copies);
  ts_mem_free_all(b->turns, b->ms);
  ts_loader_destroy(b->loader);
  for (int i = 0; i < N_BATCHES; i++) ts_batch_store_destroy(b->stores[i]);
  ts_trainer_destroy(b->t);
}

ts_err ts_bench_step(const ts_args *a) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_step_bench b = {.iters = 40};
  const char *pipeline = "0";
  ts_trace_request trace = {0};
  ts_trace_file file = {0};
  const ts_bench_key keys[] = {
      TS_BENCH_WHOLE("iters", &b.iters, 4, 1e9, "steps"),
      TS_BENCH_WORD(
          "pipeline", &pipeline,
          "0: one step alone after the other; 1: as the deck's; or a kind")};
  TS_TRY(ts_bench_keys(a, 1, keys, sizeof keys / sizeof *keys));
  TS_TRY(ts_args_trace(a, &trace));
  b.warm = b.iters / 4;
  TS_TRY(read_deck(&c, a, pipeline));
  TS_TRY(prepare(&b, c, strcmp(pipeline, "0") != 0));
  TS_TRY(ts_run_trace_open(&file, c, &trace, b.warm, b.t->control));
  TS_TRY(measure(&b));
  TS_TRY(ts_run_trace_close(&file, b.t->control));
done:
  ts_trace_file_reset(&file);
  reset(&b);
  ts_deck_destroy(c);
  return err;
}
