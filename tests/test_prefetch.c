/* test_prefetch.c - the prefetch pipeline's order and fences, over a tier
 * that does nothing but write down when and on which thread it was asked.
 * ranks: 1 2 3
 * seconds: 400 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "pipe_run.h"
#include "sparse/tier.h"

enum { N_STEPS = 6, EVENTS = 20000, TIERS = 32 };

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

/* ---- what happened ------------------------------------------------------- */

typedef enum { RESOLVE, RESOLVED, LOCK, UNLOCK, LOOKUP, UPDATE, UPDATED } what;

typedef struct event {
  what what;
  const void *weights; /* of the tier */
  uint64_t rows;       /* hash, of the tier's own */
  pthread_t thread;
} event;

static event events[EVENTS];
static int n_events;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int resolve_us, unlock_us;

static void put(what w, const void *weights, uint64_t rows) {
  pthread_mutex_lock(&mutex);
  if (n_events < EVENTS)
    events[n_events++] = (event){w, weights, rows, pthread_self()};
  pthread_mutex_unlock(&mutex);
}

static void on_lookup(const ts_lookup_args *a, bool begin) {
  if (begin) put(LOOKUP, a->weight, 0);
}
static void on_update(const ts_row_update_args *a, bool begin) {
  if (!a->sum_out) put(begin ? UPDATE : UPDATED, a->weight, 0);
}

/* ---- the tier: resident rows, said to be cached -------------------------- */

typedef struct stub {
  ts_tier base;
  ts_tier *inner;
} stub;

static ts_tier *inner(ts_tier *t) {
  return ((stub *)t)->inner;
}
static void *weights(ts_tier *t) {
  return inner(t)->ops->weights(inner(t));
}
static float *state(ts_tier *t, int k) {
  return inner(t)->ops->state(inner(t), k);
}

static uint64_t hash(const uint32_t *rows, int64_t n) {
  return ts_fnv1a(TS_FNV_START, rows, (size_t)n * sizeof *rows);
}

static ts_err hold(ts_tier *t, uint32_t *slots, int64_t n, ts_lane *lane) {
  (void)lane;
  put(RESOLVE, weights(t), hash(slots, n));
  pr_sleep_us(resolve_us);
  put(RESOLVED, weights(t), hash(slots, n));
  put(LOCK, weights(t), hash(slots, n));
  return TS_OK;
}

static ts_err release(ts_tier *t, const uint32_t *slots, int64_t n,
                      ts_lane *lane) {
  (void)lane;
  pr_sleep_us(unlock_us);
  put(UNLOCK, weights(t), hash(slots, n));
  return TS_OK;
}

static void locate(ts_tier *t, uint32_t *slots, const uint32_t *keys,
                   int64_t n) {
  (void)t;
  memcpy(slots, keys, (size_t)n * sizeof *slots);
}

static ts_err nothing(ts_tier *t) {
  (void)t;
  return TS_OK;
}
static void *rows(ts_tier *t, int k) {
  return inner(t)->ops->rows(inner(t), k);
}

static void destroy(ts_tier *t) {
  if (!t) return;
  inner(t)->ops->destroy(inner(t));
  ts_mem_free(t);
}

static ts_err create(ts_tier **, ts_device *, const ts_tier_spec *);

static const ts_tier_ops ops = {.kind = "stub",
                                .cached = true,
                                .create = create,
                                .destroy = destroy,
                                .hold = hold,
                                .release = release,
                                .locate = locate,
                                .rows = rows,
                                .flush = nothing,
                                .reload = nothing,
                                .weights = weights,
                                .state = state};

static ts_err create(ts_tier **out, ts_device *device,
                     const ts_tier_spec *spec) {
  ts_err err = TS_OK;
  stub *s = NULL;
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_MISC));
  s->base.ops = &ops;
  TS_TRY(ts_tier_find("resident")->create(&s->inner, device, spec));
  *out = &s->base;
  s = NULL;
done:
  ts_mem_free(s);
  return err;
}

/* ---- what must have happened --------------------------------------------- */

typedef struct tally {
  const void *weights;
  int n[UPDATED + 1];
  uint64_t locked[N_STEPS];
} tally;

/* Asserts on any rank are kept until all ranks have looked. */
static const char *broken;
static void must(bool ok, const char *rule) {
  if (!ok && !broken) broken = rule;
}

static void follow(tally *t, const event *e, int n_batches) {
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
  case LOOKUP:
    must(n[LOCK] > n[LOOKUP], "a batch's rows are there before its lookup");
    must(n[UPDATED] == n[LOOKUP], "a lookup after the update before");
    break;
  case UPDATE:
    must(n[RESOLVED] == n[RESOLVE], "no update while rows are fetched");
    must(n[LOCK] == n[UPDATE] + 2 || n[LOCK] == n_batches,
         "an update after the next batch's rows are there");
    must(n[UNLOCK] == n[UPDATE], "rows stay until they are updated");
    break;
  case UPDATED:
    break;
  case UNLOCK:
    must(n[UNLOCK] < n[UPDATED], "an unlock after its update");
    must(n[UNLOCK] < n_batches && e->rows == t->locked[n[UNLOCK]],
         "what is unlocked is what was locked");
    break;
  }
  t->n[e->what]++;
}

static void check_order(bool parallel) {
  static tally tallies[TIERS];
  int n_tiers = 0;
  memset(tallies, 0, sizeof tallies);
  broken = NULL;
  must(n_events < EVENTS, "room for all events");
  pthread_t ahead = events[0].thread;
  must(events[0].what == RESOLVE, "nothing before the first resolve");
  for (int i = 0; i < n_events; i++) {
    const event *e = &events[i];
    int k = 0;
    while (k < n_tiers && tallies[k].weights != e->weights) k++;
    if (k == n_tiers) tallies[n_tiers++].weights = e->weights;
    follow(&tallies[k], e, N_STEPS);
    const bool here = e->what <= LOCK;
    if (parallel)
      must(here == (pthread_equal(e->thread, ahead) != 0),
           "only rows are fetched beside compute");
  }
  for (int k = 0; k < n_tiers; k++) {
    must(tallies[k].n[LOOKUP] == N_STEPS, "a lookup for each batch");
    must(tallies[k].n[LOCK] == N_STEPS, "a lock for each batch");
    must(tallies[k].n[UNLOCK] == N_STEPS, "as many unlocks as locks");
  }
  must(n_tiers >= 2, "several groups");
  if (broken) fprintf(stderr, "broken: %s\n", broken);
  ck_assert_all(!broken);
}

/* ---- tests --------------------------------------------------------------- */

static void train(pr_result *out, const pr_sets *s) {
  n_events = 0;
  ts_tier_set_default(&ops);
  pr_kernel_hooks.lookup = on_lookup;
  pr_kernel_hooks.row_update = on_update;
  pr_train(out, deck, s);
  memset(&pr_kernel_hooks, 0, sizeof pr_kernel_hooks);
  ts_tier_set_default(NULL);
  resolve_us = unlock_us = 0;
}

START_TEST(order) {
  static pr_result base, got;
  static const int slow[][3] = {
      {0, 0, 0}, {3000, 0, 0}, {0, 10000, 0}, {0, 0, 3000}};
  pr_sets b = {0}, s = {0};
  pr_train(&base, deck, &b);
  pr_set(&s, "pipeline.kind=prefetch");
  pr_set(&s, _i / 4 ? "run.lanes=serial" : "run.lanes=parallel");
  resolve_us = slow[_i % 4][0];
  unlock_us = slow[_i % 4][1];
  pr_kernel_hooks.row_update_us = slow[_i % 4][2];
  train(&got, &s);
  ck_assert_int_eq(got.n, N_STEPS);
  check_order(_i / 4 == 0);
  ck_assert_all(pr_same(&base, &got));
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("prefetch");
  TCase *tc = tcase_create("order");
  tcase_add_unchecked_fixture(tc, NULL, pr_close_data);
  tcase_add_loop_test(tc, order, 0, 8);
  suite_add_tcase(s, tc);
  return s;
}

TS_TEST_MAIN(suite)
