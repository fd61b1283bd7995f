/* bench_input.c - `tessera bench input DECK [scale=4] [iters=N] [steps=N]
 * [rounds=N]`: a batch as one keyed jagged tensor (kjt) beside columns, from
 * the loader through input dist, and whole training steps with each.
 *
 * Both inputs take turns in one process, batch by batch and block of steps by
 * block of steps, so that what else the machine does hits them alike; a ratio
 * is the median of the pairs' ratios.  Batches lie ready in the loader before
 * the clock starts: how fast a format is read is `bench read`'s to say. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "commands/bench.h"
#include "commands/bench_input.h"
#include "io/deck.h"
#include "runtime/trace.h"
#include "train/report.h"

/* ---- clocks -------------------------------------------------------------- */

typedef struct ts_phase_query {
  const char *phase;
  double seconds;
  int64_t calls;
} ts_phase_query;

static void find_phase(const char *phase, double seconds, int64_t calls,
                       void *arg) {
  ts_phase_query *q = arg;
  if (strcmp(phase, q->phase) != 0) return;
  q->seconds = seconds;
  q->calls = calls;
}

/* Mean ms of PHASE since the timers' reset. */
static double phase_ms(const char *phase) {
  ts_phase_query q = {phase, 0, 0};
  ts_timers_each(find_phase, &q);
  return q.calls ? 1e3 * q.seconds / (double)q.calls : 0;
}

/* ---- loader through input dist ------------------------------------------- */

/* N batches of K times the deck's size, DEPTH ahead. */
static ts_err open_loader(ts_loader **out, ts_input_bench *b, int input, int k,
                          int n, int depth) {
  const ts_loader_options o = {.global_batch = b->global_batch * k,
                               .max_steps = n,
                               .drop_last = true,
                               .shuffle = true,
                               .rank = b->t->rank,
                               .n_ranks = b->t->n_ranks,
                               .depth = depth,
                               .device = b->t->device};
  ts_err err =
      ts_settle(b->t, ts_loader_create(out, b->source[input], &o, NULL));
  if (err == TS_OK) ts_loader_fill(*out);
  return err;
}

/* Times the reader's thread once its blocks have grown. */
static ts_err measure_reader(ts_input_bench *b, int input, int k) {
  ts_err err = TS_OK;
  ts_loader *loader = NULL;
  ts_times *x = &b->times[input];
  const int n_batches = b->iters < 12 ? 12 : b->iters;
  int64_t n[2] = {0};
  TS_TRY(open_loader(&loader, b, input, k, n_batches, 1));
  for (int i = 0; i < n_batches && err == TS_OK; i++) {
    ts_batch *batch = NULL;
    if (i == n_batches / 2) ts_timers_reset();
    err = ts_loader_next(loader, &batch);
    if (err != TS_OK) break;
    n[0] = batch->n_copied;
    n[1] = batch->kjt.n_ids;
    ts_loader_release(loader, batch);
  }
  TS_TRY(ts_agree(b->t->control, err));
  x->concat = phase_ms("concatenate (own thread)");
  TS_TRY(ts_comm_sum_i64(b->t->control, n, 2));
  x->n_copied = n[1] ? (double)n[0] / (double)n[1] : 0;
done:
  ts_loader_destroy(loader);
  return err;
}

/* Takes all batches of INPUT out of LOADER. */
static ts_err take(ts_input_bench *b, int input, ts_loader *loader,
                   ts_batch **batches) {
  ts_err err = TS_OK;
  ts_times *x = &b->times[input];
  x->n_ids = x->n_bytes = x->n_sent = 0;
  for (int i = 0; i < b->iters && err == TS_OK; i++) {
    err = ts_loader_next(loader, &batches[i]);
    if (err != TS_OK) break;
    const ts_kjt *kjt = &batches[i]->kjt;
    x->n_ids += kjt->n_ids;
    x->n_bytes += 8 * kjt->n_ids;
    for (int32_t f = 0; f < kjt->n_features; f++)
      if (kjt->features[f].weights) x->n_bytes += 4 * kjt->features[f].n_ids;
  }
  TS_DO(ts_agree(b->t->control, err));
  TS_DO(ts_comm_sum_i64(b->t->control, &x->n_ids, 1));
  TS_DO(ts_comm_sum_i64(b->t->control, &x->n_bytes, 1));
  return TS_OK;
}

/* One batch there; I < 0: to warm up. */
static ts_err dist(ts_input_bench *b, int input, const ts_batch *batch, int i) {
  ts_times *x = &b->times[input];
  ts_inflight *c = ts_inflight_at(b->t, 0);
  const int64_t before = ts_ebc_stat_of(b->t->ebc).n_copied;
  ts_timers_reset();
  const double t0 = ts_now();
  c->batch = (ts_batch *)batch;
  c->loaded = true;
  TS_DO(ts_stage_input_begin(b->t, c, 0));
  TS_DO(ts_stage_input_end(b->t, c));
  TS_DO(ts_stage_check(b->t, c));
  TS_DO(ts_lane_sync(b->t->data));
  ts_inflight_empty(c, NULL);
  const double ms = 1e3 * (ts_now() - t0);
  if (i < 0) return TS_OK;
  x->n_sent += ts_ebc_stat_of(b->t->ebc).n_copied - before;
  x->dist[i] = ms;
  x->pack[i] = phase_ms("input pack");
  x->exchange[i] = fmax(0, phase_ms("wait for input dist") - x->pack[i]);
  x->unpack[i] = phase_ms("input unpack");
  return TS_OK;
}

static ts_err measure_dist(ts_input_bench *b, int k) {
  ts_err err = TS_OK;
  ts_loader *loader[TS_INPUTS] = {0};
  ts_batch **batches[TS_INPUTS] = {0};
  const int n = b->iters;
  for (int input = 0; input < TS_INPUTS; input++) {
    TS_TRY(ts_mem_array(&batches[input], n, sizeof **batches, TS_TAG_MISC));
    TS_TRY(measure_reader(b, input, k));
    TS_TRY(open_loader(&loader[input], b, input, k, n, n));
    TS_TRY(take(b, input, loader[input], batches[input]));
  }
  for (int i = -n / 4; i < n; i++)
    for (int turn = 0; turn < TS_INPUTS; turn++) {
      const int input = (turn + i) & 1; /* either one comes first in turns */
      TS_TRY(dist(b, input, batches[input][i < 0 ? -i : i], i));
    }
done:
  for (int input = 0; input < TS_INPUTS; input++) {
    ts_loader_destroy(loader[input]);
    ts_mem_free(batches[input]);
  }
  return err;
}

/* ---- whole steps --------------------------------------------------------- */

static ts_err step(ts_input_bench *b, ts_loader *loader, double *ms) {
  ts_step_result result = {0};
  const double t0 = ts_now();
  TS_DO(ts_pipeline_step(b->t, loader, 0, &result));
  TS_DO(ts_stage_fetch(b->t, &result));
  *ms = 1e3 * (ts_now() - t0);
  b->t->step++;
  return TS_OK;
}

/* A block of steps; ROUND < 0: to warm up.  Pipelines look ahead: there are
 * two batches more than steps. */
static ts_err block(ts_input_bench *b, int input, int k, int round) {
  ts_err err = TS_OK;
  ts_times *x = &b->times[input];
  ts_loader *loader = NULL;
  double spare;
  TS_TRY(open_loader(&loader, b, input, k, b->steps + 2, b->steps + 2));
  TS_TRY(ts_bench_copies_begin(&x->copies));
  for (int i = 0; i < b->steps; i++) {
    TS_TRY(
        step(b, loader, round < 0 ? &spare : &x->step[round * b->steps + i]));
    TS_TRY(ts_bench_copies_step(&x->copies));
  }
  if (round >= 0) TS_TRY(ts_bench_copies_end(&x->copies));
  ts_pipeline_drain(b->t, loader);
done:
  ts_loader_destroy(loader);
  return err;
}

static ts_err measure_steps(ts_input_bench *b, int k) {
  for (int round = -1; round < b->rounds; round++)
    for (int turn = 0; turn < TS_INPUTS; turn++)
      TS_DO(block(b, (turn + round) & 1, k, round));
  return TS_OK;
}

/* ---- set-up -------------------------------------------------------------- */

static ts_err create_times(ts_input_bench *b) {
  for (int input = 0; input < TS_INPUTS; input++) {
    ts_times *x = &b->times[input];
    double **each[] = {&x->dist, &x->pack, &x->exchange, &x->unpack};
    for (int i = 0; i < 4; i++)
      TS_DO(ts_mem_array(each[i], b->iters, sizeof(double), TS_TAG_MISC));
    TS_DO(ts_mem_array(&x->step, (int64_t)b->rounds * b->steps, sizeof(double),
                       TS_TAG_MISC));
    TS_DO(ts_bench_copies_start(&x->copies, b->t, b->steps));
  }
  return TS_OK;
}

/* The deck, once for each input, with room for the largest batch. */
static ts_err read_decks(ts_input_bench *b, const ts_args *a) {
  const char *sets[a->n_sets + 1];
  for (int i = 0; i < a->n_sets; i++) sets[i] = a->sets[i];
  for (int input = 0; input < TS_INPUTS; input++) {
    ts_config **c = &b->config[input];
    sets[a->n_sets] =
        input == TS_INPUT_KJT ? "data.input=kjt" : "data.input=columns";
    TS_DO(ts_deck_read_all(c, a->more[0], sets, a->n_sets + 1));
    (*c)->run.accumulate = 1;
    (*c)->data.global_batch *= b->scale;
    (*c)->data.batch_per_rank *= b->scale;
  }
  return TS_OK;
}

static ts_err start(ts_input_bench *b) {
  const ts_config *c = b->config[0];
  TS_DO(ts_trainer_start(&b->t, c, true));
  TS_DO(ts_trainer_build(b->t, NULL));
  TS_DO(ts_settle(b->t, ts_ebc_init(b->t->ebc)));
  for (int input = 0; input < TS_INPUTS; input++)
    TS_DO(ts_source_open(&b->source[input], b->config[input], TS_SPLIT_TRAIN,
                         NULL, b->t->control));
  TS_DO(ts_settle(b->t, create_times(b)));
  b->global_batch = b->t->global_batch / b->scale;
  return TS_OK;
}

static void reset(ts_input_bench *b) {
  for (int input = 0; input < TS_INPUTS; input++) {
    ts_times *x = &b->times[input];
    double *each[] = {x->dist, x->pack, x->exchange, x->unpack, x->step};
    for (int i = 0; i < 5; i++) ts_mem_free(each[i]);
    ts_bench_copies_reset(&x->copies);
    ts_source_close(b->source[input]);
  }
  ts_trainer_destroy(b->t);
  for (int input = 0; input < TS_INPUTS; input++)
    ts_deck_destroy(b->config[input]);
}

ts_err ts_bench_input(const ts_args *a) {
  ts_err err = TS_OK;
  ts_input_bench b = {.scale = 4, .iters = 60, .steps = 4, .rounds = 20};
  const ts_bench_key keys[] = {
      TS_BENCH_WHOLE("scale", &b.scale, 1, 1024,
                     "largest multiple of the deck's batch"),
      TS_BENCH_WHOLE("iters", &b.iters, 4, 1e5, "input dists in a round"),
      TS_BENCH_WHOLE("steps", &b.steps, 1, 1e5, "training steps in a round"),
      TS_BENCH_WHOLE("rounds", &b.rounds, 1, 1e5, "turns of each")};
  TS_TRY(ts_bench_keys(a, 1, keys, 4));
  TS_TRY(read_decks(&b, a));
  TS_TRY(start(&b));
  TS_TRY(ts_report_header(b.t));
  ts_input_print_head(&b);
  for (int k = 1; k <= b.scale; k += b.scale > 1 ? b.scale - 1 : 1) {
    TS_TRY(measure_dist(&b, k));
    TS_TRY(measure_steps(&b, k));
    TS_TRY(ts_input_print(&b, k));
  }
done:
  reset(&b);
  return err;
}
