/* test_fs_timing.c - what fully_sharded hides under what, with layers and
 * collectives that sleep; and that the same checks fail where nothing can
 * overlap (all lanes are one).
 *
 * Sleeps need no processor, so times hold on few cores; a busy machine makes
 * them longer, never shorter: the best of some runs counts.  Times are told in
 * units of some ms, the more the less a busy machine matters.
 * ranks: 1 2 4
 * seconds: 400 sanitizers: none */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs_toy.h"
#include "runtime/trace.h"

enum { TRIES = 8, SPANS_MAX = 2048, N = 1 << 14, ANY = 1 << 20 };
static float a[N], b[N];

/* Work of a layer and a collective in units of UNIT ms, as in all times
 * below. */
static const double C = 25, M = 10, UNIT = 3;

static toy_spec sleeping(int n_layers) {
  return (toy_spec){.n_layers = n_layers,
                    .rows = 4,
                    .cols = 4,
                    .comm_ms = M * UNIT,
                    .forward_ms = C * UNIT,
                    .backward_ms = 2 * C * UNIT,
                    .config = toy_config("fully_sharded")};
}

/* The slowest rank's. */
static double over_ranks(double x) {
  static ts_device *device;
  static ts_world *world;
  static ts_comm *comm;
  const ts_device_options d = {.serial = true, .n_threads = 1};
  const ts_world_options w = {.ordered = true};
  ck_assert_ok(ts_device_create(&device, "host", &d));
  ck_assert_ok(ts_world_create(&world, device, &w));
  ck_assert_ok(ts_comm_create(world, &comm, TS_GROUP_WORLD, "times"));
  ck_assert_ok(ts_comm_max_f64(comm, &x, 1));
  ts_comm_destroy(comm);
  ts_world_destroy(world);
  ts_device_destroy(device);
  return x;
}

static void say(const char *what, double x, const char *other, double y) {
  if (ts_mpi_rank() == 0)
    printf("%s: %.1f units; %s: %.1f\n", what, x, other, y);
}

/* Units of FN after PREPARE (may be NULL), the best of some. */
static double best_ms(toy *t, void (*prepare)(toy *), void (*fn)(toy *),
                      double enough) {
  double best = INFINITY;
  for (int i = 0; i < TRIES && best > enough; i++) {
    if (prepare) prepare(t);
    toy_sync(t);
    (void)over_ranks(0); /* together */
    const double t0 = ts_now();
    fn(t);
    toy_sync(t);
    best = fmin(best, over_ranks(1e3 * (ts_now() - t0)) / UNIT);
  }
  return best;
}

static void backward(toy *t) {
  toy_backward(t, 1, true, -1, NULL);
}

/* ---- forward and backward ------------------------------------------------ */

/* One gathering, then work alone: 10 + 3 x 25; one after the other 105. */
static double forward_ms(bool serial) {
  toy_spec s = sleeping(3);
  static toy t;
  s.serial = serial;
  toy_start(&t, &s);
  const double ms = best_ms(&t, NULL, toy_forward, serial ? ANY : 95);
  toy_stop(&t);
  return ms;
}

/* One gathering, work, one reduction: 10 + 3 x 50 + 10; one after the other
 * 210. */
static double backward_ms(bool serial) {
  toy_spec s = sleeping(3);
  static toy t;
  s.serial = serial;
  toy_start(&t, &s);
  const double ms = best_ms(&t, toy_forward, backward, serial ? ANY : 190);
  toy_stop(&t);
  return ms;
}

START_TEST(forward_hides_gathering) {
  const double ms = forward_ms(false);
  say("forward", ms, "serial", 3 * (C + M));
  ck_assert_msg(ms >= 85 && ms <= 95, "forward: %.1f ms", ms);
}
END_TEST

START_TEST(backward_hides_gathering_and_reduction) {
  const double ms = backward_ms(false);
  say("backward", ms, "serial", 3 * (2 * C + 2 * M));
  ck_assert_msg(ms >= 170 && ms <= 190, "backward: %.1f ms", ms);
}
END_TEST

START_TEST(one_lane_hides_nothing) {
  const double forward = forward_ms(true), back = backward_ms(true);
  say("one lane: forward", forward, "backward", back);
  ck_assert_msg(forward > 95 && back > 190, "forward %.1f ms, backward %.1f ms",
                forward, back);
}
END_TEST

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

START_TEST(gathering_is_under_work) {
  double best = 0;
  for (int i = 0; i < TRIES && best < 0.8; i++)
    best = fmax(best, -over_ranks(-least_hidden(false)));
  ck_assert_msg(best >= 0.8, "hidden: %.2f", best);
  ck_assert_msg(least_hidden(true) < 0.2, "on one lane, too");
}
END_TEST

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

START_TEST(inputs_of_reductions) {
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
END_TEST

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

START_TEST(unrelated_work_is_not_waited_for) {
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
END_TEST

/* ---- lists --------------------------------------------------------------- */

/* One large layer and small ones behind it: their gatherings fit under its
 * work, but not each under the one before it. */
static double uneven_ms(bool lists, bool serial) {
  static const double ms[] = {240, 3, 3, 3, 3, 3, 3, 3}; /* 80 and 1 */
  toy_spec s = sleeping(8);
  static toy t;
  s.ms_of = ms;
  s.serial = serial;
  if (lists)
    toy_list(&s.config, TS_FORWARD, 1, (const int[]){2, 3, 4, 5, 6, 7, 8, 0});
  toy_start(&t, &s);
  const double best =
      best_ms(&t, NULL, toy_forward, lists && !serial ? 115 : ANY);
  toy_stop(&t);
  return best;
}

/* In backward small ones between two large ones, under which their reductions
 * fit. */
static double uneven_backward_ms(bool lists) {
  static const double ms[] = {240, 3, 3, 3, 3, 3, 3, 240};
  toy_spec s = sleeping(8);
  static toy t;
  s.ms_of = ms;
  s.config.dense.reduce_inputs = 8;
  if (lists)
    toy_list(&s.config, TS_BACKWARD, 8, (const int[]){7, 6, 5, 4, 3, 2, 1, 0});
  toy_start(&t, &s);
  const double best = best_ms(&t, toy_forward, backward, lists ? 205 : ANY);
  toy_stop(&t);
  return best;
}

START_TEST(lists_beat_the_default) {
  /* 10 + 80 + 7 x 1 against 10 + 80 and five gatherings. */
  const double lists = uneven_ms(true, false), plain = uneven_ms(false, false);
  say("forward with lists", lists, "without", plain);
  ck_assert_msg(lists <= 115 && plain >= 135,
                "forward: lists %.1f, without %.1f", lists, plain);
  const double back = uneven_backward_ms(true);
  const double plain_back = uneven_backward_ms(false);
  /* 10 + 80 + 6 x 1 + 80 + 10 against six gatherings more. */
  say("backward with lists", back, "without", plain_back);
  ck_assert_msg(back <= 205 && plain_back >= 225,
                "backward: lists %.1f, without %.1f", back, plain_back);
}
END_TEST

/* Where nothing overlaps lists gain nothing. */
START_TEST(lists_on_one_lane) {
  const double lists = uneven_ms(true, true), plain = uneven_ms(false, true);
  say("one lane: forward with lists", lists, "without", plain);
  ck_assert_msg(lists >= 160 && plain >= 160, "lists %.1f, without %.1f", lists,
                plain);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("fs_timing");
  TCase *t = tcase_create("fs_timing");
  tcase_add_test(t, forward_hides_gathering);
  tcase_add_test(t, backward_hides_gathering_and_reduction);
  tcase_add_test(t, one_lane_hides_nothing);
  tcase_add_test(t, gathering_is_under_work);
  tcase_add_test(t, inputs_of_reductions);
  tcase_add_test(t, unrelated_work_is_not_waited_for);
  tcase_add_test(t, lists_beat_the_default);
  tcase_add_test(t, lists_on_one_lane);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
