/* test_fully_sharded_traces.c - traces of fully_sharded, with layers and
 * collectives that sleep: gatherings lie under work, reductions have no more
 * inputs than said, work behind the optimizer is not waited for. ranks: 1 2 4
 * seconds: 400 sanitizers: none isa: none */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/dense/fully_sharded_sleep.h"
#include "runtime/trace.h"

enum { TRIES = 8, SPANS_MAX = 2048, N = 1 << 14 };
static float a[N], b[N];

/* ---- traces -------------------------------------------------------------- */

typedef struct seen {
  char name[64], op[32];
  double t0, t1; /* ms */
} seen;

static seen spans[SPANS_MAX];
static int n_spans;

static void trace_begin(char *path, size_t n) {
  snprintf(path, n, "/tmp/fs_timing.%d.%d", ts_mpi_rank(), (int)getpid());
  ck_assert_ok(ts_trace_open(path, ts_mpi_rank(), ts_now(), 0, 1 << 20));
  ts_trace_batch_set(0, "");
  ts_trace_train(0);
}

static void take_span(const char *line) {
  seen *s = &spans[n_spans];
  const char *dur = strstr(line, "\"dur\":"), *ts = strstr(line, "\"ts\":");
  const char *name = strstr(line, "\"name\":\""),
             *op = strstr(line, "\"op\":\"");
  if (!strstr(line, "\"ph\":\"X\"") || n_spans == SPANS_MAX) return;
  if (strstr(line, "\"cat\":\"wait\"")) return;
  *s = (seen){.t0 = 1e-3 * atof(ts + 5)};
  s->t1 = s->t0 + 1e-3 * atof(dur + 6);
  snprintf(s->name, sizeof s->name, "%.*s", (int)strcspn(name + 8, "\""),
           name + 8);
  if (op)
    snprintf(s->op, sizeof s->op, "%.*s", (int)strcspn(op + 6, "\""), op + 6);
  n_spans++;
}

static void trace_end(const char *path) {
  char line[4096];
  ck_assert_ok(ts_trace_close());
  FILE *f = fopen(path, "r");
  ck_assert_ptr_nonnull(f);
  n_spans = 0;
  while (fgets(line, sizeof line, f)) take_span(line);
  fclose(f);
  unlink(path);
}

/* The Kth (from 0) span of NAME, of collective OP where not NULL. */
static const seen *find(const char *name, const char *op, int k) {
  for (int i = 0; i < n_spans; i++)
    if (!strcmp(spans[i].name, name) && !strcmp(spans[i].op, op ? op : "") &&
        k-- == 0)
      return &spans[i];
  ck_abort_msg("no span %s %s", name, op ? op : "");
}

static double overlap(const seen *x, const seen *y) {
  return fmax(0, fmin(x->t1, y->t1) - fmax(x->t0, y->t0));
}

/* Part of layer I's gathering that its neighbours' work hides, at least, over
 * the layers that have something before them. */
static double least_hidden(bool serial) {
  char path[64];
  toy_spec s = sleeping(7);
  static toy t;
  double least = 1;
  s.serial = serial;
  toy_start(&t, &s);
  trace_begin(path, sizeof path);
  toy_step(&t, 1);
  toy_sync(&t);
  trace_end(path);
  for (int i = 2; i <= 7; i++) {
    char layer[32], before[32], after[32];
    snprintf(layer, sizeof layer, "layer.%d", i);
    snprintf(before, sizeof before, "forward %d", i - 1);
    const seen *x = find(layer, "all_gather_v", 0);
    /* Two flats: what is gathered while the first layer waits needs no work
     * to hide under. */
    const double before_any = find("forward 1", NULL, 0)->t0 - x->t0;
    double part = overlap(x, find(before, NULL, 0));
    if (i > 2) {
      snprintf(after, sizeof after, "forward %d", i - 2);
      part += overlap(x, find(after, NULL, 0));
    }
    if (before_any > 0) part += fmin(before_any, x->t1 - x->t0);
    least = fmin(least, part / (x->t1 - x->t0));
    if (i == 7) continue; /* backward's first */
    snprintf(layer, sizeof layer, "layer.%d", i);
    snprintf(before, sizeof before, "backward %d", i + 1);
    x = find(layer, "all_gather_v", 1);
    least = fmin(least, overlap(x, find(before, NULL, 0)) / (x->t1 - x->t0));
  }
  toy_stop(&t);
  return least;
}

TS_TEST(gathering_is_under_work) {
  double best = 0;
  for (int i = 0; i < TRIES && best < 0.8; i++)
    best = fmax(best, -over_ranks(-least_hidden(false)));
  ck_assert_msg(best >= 0.8, "hidden: %.2f", best);
  ck_assert_msg(least_hidden(true) < 0.2, "on one lane, too");
}

/* Reductions are slow here. No more inputs than said: a layer's gradients are
 * copied once one that many before has gone. */
static void inputs(int n_inputs, int n_layers, bool *within, bool *used) {
  char path[64];
  toy_spec s = sleeping(n_layers);
  static toy t;
  s.comm_ms = 20;
  s.backward_ms = 2;
  s.config.dense.reduce_inputs = n_inputs;
  s.config.dense.reshard = 1; /* nothing to gather */
  toy_start(&t, &s);
  toy_forward(&t);
  toy_sync(&t);
  trace_begin(path, sizeof path);
  toy_backward(&t, 1, true, -1, NULL);
  toy_sync(&t);
  toy_forward(&t);
  toy_backward(&t, 2, true, -1, NULL);
  toy_sync(&t);
  trace_end(path);
  const seen *copy[64], *reduced[64];
  int n = 0, m = 0;
  for (int i = 0; i < n_spans; i++) {
    if (!strcmp(spans[i].name, "copy-in")) copy[n++] = &spans[i];
    if (!strcmp(spans[i].op, "reduce_scatter_v")) reduced[m++] = &spans[i];
  }
  ck_assert_int_eq(n, 2 * n_layers);
  ck_assert_int_eq(m, n);
  for (int i = n_inputs; i < n; i++)
    *within &= copy[i]->t0 >= reduced[i - n_inputs]->t1 - 0.01;
  for (int i = 1; i < n; i++) *used |= copy[i]->t0 < reduced[i - 1]->t1;
  ck_assert_int_le(t.peak.inputs, n_inputs);
  toy_stop(&t);
}

TS_TEST(inputs_of_reductions) {
  bool within = true, used = false;
  inputs(1, 6, &within, &used);
  ck_assert_all(within && !used);
  inputs(2, 6, &within, &used);
  ck_assert_all(within && used);
  used = false;
  inputs(1, 1, &within, &used);
  inputs(2, 1, &within, &used);
  ck_assert_all(within);
}

/* ---- work behind the optimizer ------------------------------------------- */

static ts_err unrelated_task(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  toy_sleep(25 * UNIT);
  return TS_OK;
}

static void unrelated(toy *t) {
  ck_assert_ok(ts_lane_submit(t->lane, "unrelated", unrelated_task, NULL, 0));
}

/* Units of five steps, each followed by work that has nothing to do with it;
 * *EARLY: all first gatherings began under that. */
static double five_steps(bool event, bool in_backward, float *w, int *n_early) {
  char path[64];
  toy_spec s = sleeping(2);
  static toy t;
  s.forward_ms = s.backward_ms = 12 * UNIT;
  s.optimizer_ms = 2 * UNIT;
  s.config.dense.post_optimizer_event = event;
  s.config.optimizer.in_backward = in_backward;
  toy_start(&t, &s);
  trace_begin(path, sizeof path);
  (void)over_ranks(0);
  const double t0 = ts_now();
  for (int step = 1; step <= 5; step++) {
    toy_step(&t, step);
    /* Set by the step, taken by the next gathering, once. */
    ck_assert_ptr_nonnull(t.fs->optimized.lane);
    unrelated(&t);
    toy_forward(&t);
    ck_assert_ptr_null(t.fs->optimized.lane);
  }
  toy_sync(&t);
  const double units = over_ranks(1e3 * (ts_now() - t0)) / UNIT;
  trace_end(path);
  /* Gatherings of layer 1: forward, backward, forward, of five steps. */
  *n_early = 0;
  for (int k = 0; k < 5; k++)
    *n_early += find("layer.1", "all_gather_v", 3 * k + 2)->t0 <
                find("unrelated", NULL, k)->t1 - 1;
  toy_weights(&t, w);
  toy_stop(&t);
  return units;
}

TS_TEST(unrelated_work_is_not_waited_for) {
  for (int in_backward = 0; in_backward < 2; in_backward++) {
    int n_on, n_off, tries = 0;
    double on, off;
    do {
      on = five_steps(true, in_backward, a, &n_on);
      off = five_steps(false, in_backward, b, &n_off);
    } while (++tries < TRIES && off - on < 30);
    say("five steps with the event", on, "without", off);
    ck_assert_all(n_on == 5 && n_off == 0);
    ck_assert_msg(off - on >= 30, "with %.1f ms, without %.1f ms", on, off);
    ck_assert_all(!memcmp(a, b, 2 * 20 * sizeof *a));
  }
}
