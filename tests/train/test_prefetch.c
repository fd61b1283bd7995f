/* test_prefetch.c - the prefetch pipeline's order and fences, over a tier
 * that does nothing but write down when and on which thread it was asked.
 * ranks: 1 2 3  sanitized: 3
 * seconds: 400 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "tests/train/pipe_run.h"
#include "tests/train/prefetch_stub.h"
#include "train/report_cache.h"

enum { N_STEPS = 6 };

static const char deck[] =
    "run = { name = \"t\"; seed = 5; steps = 6; threads = 1; };\n"
    "data = { format = \"synthetic\"; global_batch = 96;\n"
    "  synthetic = { samples = 960; pooling = [3, 3, 3, 3, 3]; zipf = 0.0; };\n"
    "};\n"
    "sharding = { ranks_per_node = 2; min_column = 8;\n"
    "             topology = \"default\"; };\n"
    "tables = (\n"
    "  { name = \"dp\"; rows = 40; dim = 16; features = [\"dp\"];\n"
    "    sharding = \"data_parallel\"; optimizer = { kind = \"adam\"; }; },\n"
    "  { name = \"tw\"; rows = 300; dim = 16; features = [\"tw\"];\n"
    "    sharding = \"table_wise\"; optimizer = { kind = \"adam\"; }; },\n"
    "  { name = \"rw\"; rows = 90; dim = 16; features = [\"rw\"];\n"
    "    sharding = \"row_wise\"; optimizer = { kind = \"sgd\"; }; },\n"
    "  { name = \"rw2\"; rows = 80; dim = 16; features = [\"rw2\"];\n"
    "    sharding = \"row_wise\"; dtype = \"bf16\";\n"
    "    optimizer = { kind = \"sgd\"; }; },\n"
    "  { name = \"cw\"; rows = 70; dim = 16; features = [\"cw\"];\n"
    "    sharding = \"column_wise\"; optimizer = { kind = \"adam\"; }; } );\n"
    "model = { kind = \"dlrm\"; dense_features = 3; dense_arch = [32, 16];\n"
    "  over_arch = [32, 1]; };\n"
    "optimizer = { kind = \"adam\"; lr = 1e-2; };\n";

/* ---- what must have happened --------------------------------------------- */

typedef struct tally {
  const void *weights;
  int n[WHATS];
  uint64_t locked[N_STEPS];
} tally;

/* Asserts on any rank are kept until all ranks have looked. */
static const char *broken;
static void must(bool ok, const char *rule) {
  if (!ok && !broken) broken = rule;
}

/* DEPTH: batches whose rows are fetched ahead.  With more than one, rows that
 * a waiting batch has found in no line may be given one, so that nothing may
 * be looked for or looked up meanwhile. */
static void follow(tally *t, const event *e, int n_batches, int depth) {
  const int *n = t->n;
  switch (e->what) {
  case RESOLVE:
    must(n[RESOLVE] == n[LOCK], "one resolve at a time");
    must(n[UPDATE] == n[UPDATED], "no resolve while rows are written");
    break;
  case RESOLVED:
    must(n[RESOLVED] + 1 == n[RESOLVE], "a resolve ends once");
    break;
  case LOCK:
    must(n[LOCK] + 1 == n[RESOLVED], "a lock after its resolve");
    if (n[LOCK] < n_batches) t->locked[n[LOCK]] = e->rows;
    break;
  case REFRESH:
    must(depth > 1 && n[RESOLVED] == n[RESOLVE],
         "rows are looked for again while none is fetched");
    break;
  case LOOKUP:
    must(n[LOCK] > n[LOOKUP], "a batch's rows are there before its lookup");
    must(n[UPDATED] == n[LOOKUP], "a lookup after the update before");
    must(depth == 1 || n[RESOLVED] == n[RESOLVE],
         "with several batches ahead no lookup while rows are fetched");
    break;
  case UPDATE:
    must(n[RESOLVED] == n[RESOLVE], "no update while rows are fetched");
    must(n[LOCK] == n[UPDATE] + 1 + depth || n[LOCK] == n_batches,
         "an update after the next batch's rows are there");
    must(n[UNLOCK] == n[UPDATE], "rows stay until they are updated");
    break;
  case UPDATED:
  case LOOK:
  case WHATS:
    break;
  case UNLOCK:
    must(n[UNLOCK] < n[UPDATED], "an unlock after its update");
    must(n[UNLOCK] < n_batches && e->rows == t->locked[n[UNLOCK]],
         "what is unlocked is what was locked");
    break;
  }
  t->n[e->what]++;
}

/* Not of the table that makes the pipeline deep, whose rows are in no tier of
 * ours. */
static bool is_held(const void *weights) {
  for (int i = 0; i < stub_n_events; i++)
    if (stub_events[i].what == RESOLVE && stub_events[i].weights == weights)
      return true;
  return false;
}

static void check_order(bool parallel, int n_batches, int depth) {
  static tally tallies[TIERS];
  int n_tiers = 0;
  memset(tallies, 0, sizeof tallies);
  broken = NULL;
  must(stub_n_events < EVENTS, "room for all stub_events");
  pthread_t ahead = stub_events[0].thread;
  must(stub_events[0].what == RESOLVE, "nothing before the first resolve");
  for (int i = 0; i < stub_n_events; i++) {
    const event *e = &stub_events[i];
    int k = 0;
    if (!is_held(e->weights)) continue;
    while (k < n_tiers && tallies[k].weights != e->weights) k++;
    if (k == n_tiers) tallies[n_tiers++].weights = e->weights;
    follow(&tallies[k], e, n_batches, depth);
    const bool here = e->what <= LOCK;
    if (parallel)
      must(here == (pthread_equal(e->thread, ahead) != 0),
           "only rows are fetched beside compute");
  }
  for (int k = 0; k < n_tiers; k++) {
    must(tallies[k].n[LOOKUP] == n_batches, "a lookup for each batch");
    must(tallies[k].n[LOCK] == n_batches, "a lock for each batch");
    must(tallies[k].n[UNLOCK] == n_batches, "as many unlocks as locks");
  }
  must(n_tiers >= 2, "several groups");
  if (broken) fprintf(stderr, "broken: %s\n", broken);
  ck_assert_all(!broken);
}

/* ---- tests --------------------------------------------------------------- */

static void train(pr_result *out, const pr_sets *s) {
  stub_on();
  pr_train(out, deck, s);
  stub_off();
}

TS_TESTS_BETWEEN(NULL, pr_close_data)

TS_TESTS(order, 0, 8) {
  static pr_result base, got;
  static const int slow[][3] = {
      {0, 0, 0}, {3000, 0, 0}, {0, 10000, 0}, {0, 0, 3000}};
  pr_sets b = {0}, s = {0};
  pr_train(&base, deck, &b);
  pr_set(&s, "pipeline.kind=prefetch");
  pr_set(&s, _i / 4 ? "run.lanes=serial" : "run.lanes=parallel");
  stub_resolve_us = slow[_i % 4][0];
  stub_unlock_us = slow[_i % 4][1];
  pr_kernel_hooks.row_update_us = slow[_i % 4][2];
  train(&got, &s);
  ck_assert_int_eq(got.n, N_STEPS);
  check_order(_i / 4 == 0, N_STEPS, 1);
  ck_assert_all(pr_same(&base, &got));
}

/* Three batches ahead, from the first step on; and with less batches than
 * that. */
TS_TESTS(deep, 0, 2) {
  static pr_result base, got;
  static const char *const steps[] = {"run.steps=6", "run.steps=2"};
  pr_sets b = {0}, s = {0};
  pr_set(&b, steps[_i]);
  pr_train(&base, deck, &b);
  pr_set(&s, steps[_i]);
  pr_set(&s, "pipeline.kind=prefetch");
  pr_set(&s, "run.lanes=parallel");
  pr_set(&s, "tables.tw.kernel=host");
  pr_set(&s, "tables.tw.cache.depth=3");
  stub_resolve_us = 3000;
  train(&got, &s);
  check_order(true, _i ? 2 : N_STEPS, 3);
  ck_assert_all(pr_same(&base, &got));
}

/* ---- between steps ------------------------------------------------------- */

/* While a lookup of the next batch is under way on its own lane, nobody else
 * touches a tier. */
static void check_apart(void) {
  broken = NULL;
  must(stub_n_events < EVENTS, "room for all stub_events");
  for (int i = 0; i < stub_n_events; i++) {
    if (stub_events[i].what != RESOLVE) continue;
    for (int k = i + 1; k < stub_n_events && stub_events[k].what != RESOLVED;
         k++)
      must(stub_events[k].what != RESOLVE && stub_events[k].what != LOOK,
           "nobody looks and nothing is fetched while rows are fetched");
  }
  if (broken) fprintf(stderr, "broken: %s\n", broken);
  ck_assert_all(!broken);
}

static int count_of(what w) {
  int n = 0;
  for (int i = 0; i < stub_n_events; i++) n += stub_events[i].what == w;
  return n;
}

/* A checkpoint, the figures of the caches, an evaluation: each right behind a
 * step whose lookup of the next batch is slow. */
static void look_from_outside(pr_run *r, int who, ts_slow_report *report) {
  ts_ckpt c = {0};
  ts_run_state state = {0};
  ts_metrics_result m;
  stub_looking = true;
  if (who == 0) {
    ck_assert_ok(ts_trainer_describe(r->t, &state, r->source, &c));
    ts_ckpt_reset(&c);
  } else if (who == 1) {
    ck_assert_ok(ts_slow_report_pause(report, r->t));
  } else {
    const ts_eval_hooks none = {0};
    bool stopped;
    ck_assert_ok(ts_evaluate(r->t, r->eval, &m, &none, &stopped));
  }
  stub_looking = false;
}

TS_TESTS(between_steps, 0, 6) {
  static const char *const lanes[] = {"pipeline.lookup_lane=own",
                                      "pipeline.lookup_lane=data_dist"};
  pr_run r;
  pr_sets s = {0};
  ts_slow_report report = {0};
  pr_set(&s, "pipeline.kind=fused_sparse_dist");
  pr_set(&s, "pipeline.lookup=before_optimizer");
  pr_set(&s, lanes[_i / 3]);
  pr_set(&s, "tables.tw.kernel=host");
  stub_on();
  stub_resolve_us = 2000;
  memset(&pr_kernel_hooks, 0, sizeof pr_kernel_hooks);
  pr_start(&r, deck, &s);
  ck_assert_ok(ts_slow_report_create(&report, r.t));
  for (int step = 0; step < 3; step++) {
    ts_step_result result;
    ck_assert_ok(ts_pipeline_step(r.t, r.loader, 0, &result));
    r.t->step++;
    look_from_outside(&r, _i % 3, &report);
  }
  ts_slow_report_reset(&report);
  pr_stop(&r);
  stub_off();
  const int who = _i % 3;
  ck_assert_all(who == 2 || count_of(LOOK) > 0);
  check_apart();
}
