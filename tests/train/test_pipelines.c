/* test_pipelines.c - pipelines that only change the order give the bits of
 * base: every sharding, both inputs, lanes parallel and serial, with and
 * without in_backward and clipping, a slow network, slow updates, evaluation
 * in between.
 * ranks: 1 3 4  sanitized: 3
 * seconds: 300 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/train/pipe_run.h"

typedef struct variant {
  const char *kind, *lookup, *lane;
} variant;

static const variant variants[] = {
    {"base", NULL, NULL},
    {"sparse_dist", NULL, NULL},
    {"prefetch", NULL, NULL},
    {"fused_sparse_dist", "before_optimizer", "data_dist"},
    {"fused_sparse_dist", "before_optimizer", "own"},
    {"fused_sparse_dist", "before_optimizer", "compute"},
    {"fused_sparse_dist", "after_optimizer", "data_dist"},
    {"fused_sparse_dist", "after_optimizer", "own"},
    {"fused_sparse_dist", "after_optimizer", "compute"},
    {"semi_sync", NULL, NULL}, /* before its start: as base */
};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

static char texts[8][64];

static void set_variant(pr_sets *s, const variant *v) {
  snprintf(texts[0], sizeof texts[0], "pipeline.kind=%s", v->kind);
  pr_set(s, texts[0]);
  texts[1][0] = texts[2][0] = 0;
  if (!v->lookup) return;
  snprintf(texts[1], sizeof texts[1], "pipeline.lookup=%s", v->lookup);
  snprintf(texts[2], sizeof texts[2], "pipeline.lookup_lane=%s", v->lane);
  pr_set(s, texts[1]);
  pr_set(s, texts[2]);
}

/* The dense optimizer's ways, which change the order or (clip) the bits; who
 * shards has the bits of who does not. */
enum { N_MODES = 4 };
static void set_dense(pr_sets *s, int mode) {
  pr_set(s, mode == 0 || mode > 2 ? "optimizer.in_backward=true"
                                  : "optimizer.in_backward=false");
  if (mode == 2) pr_set(s, "optimizer.clip_norm=0.01");
  if (mode > 2) pr_set(s, "dense.parallel=fully_sharded");
}

static void hooks_off(void) {
  memset(&pr_kernel_hooks, 0, sizeof pr_kernel_hooks);
}

/* Every variant with everything that must not matter: all of lanes x input x
 * dense mode, while evaluation, delay and slow kernels take turns. */
static void run_variant(pr_result *out, int v, int i, int mode) {
  pr_sets s = {0};
  set_variant(&s, &variants[v]);
  set_dense(&s, mode);
  pr_set(&s, i % 2 ? "run.lanes=serial" : "run.lanes=parallel");
  pr_set(&s, i / 2 % 2 ? "data.input=columns" : "data.input=kjt");
  const int turn = (i + v + mode) % 4;
  if (turn == 1) pr_set(&s, "run.eval_every=2");
  if (turn == 2) pr_set(&s, "comm.delay.latency_us=300");
  hooks_off();
  if (turn == 2 || turn == 0) pr_kernel_hooks.row_update_us = 400;
  if (turn == 3) pr_kernel_hooks.dense_update_us = 200;
  pr_train(out, NULL, &s);
  hooks_off();
}

TS_TESTS_BETWEEN(NULL, pr_close_data)

/* Two of the four lanes x input for each variant and mode; one where memory is
 * watched, which no other run of the same code can show more of. */
TS_TESTS(as_base, 0, N_VARIANTS) {
  const int n_turns = getenv("TESSERA_SANITIZED") ? 1 : 2;
  static pr_result base[N_MODES], other;
  for (int mode = 0; mode < N_MODES; mode++) {
    if (!base[mode].n) {
      pr_sets s = {0};
      set_dense(&s, mode);
      pr_train(&base[mode], NULL, &s);
      if (mode > 2) ck_assert_all(pr_same(&base[0], &base[mode]));
    }
    ck_assert_int_eq(base[mode].n, 7);
    ck_assert_int_eq(base[mode].samples, 96 * 6 + 2);
    for (int k = 0; k < n_turns; k++) {
      const int i = k ? 3 - (mode + _i) % 4 : (mode + _i) % 4;
      run_variant(&other, _i, i, mode);
      if (!ts_test_all(pr_same(&base[mode], &other)))
        ck_abort_msg("%s %s %s, case %d, dense mode %d: other bits than base",
                     variants[_i].kind, texts[1], texts[2], i, mode);
    }
  }
}

/* The bits depend on what they should depend on. */
TS_TEST(bits_differ) {
  static pr_result a, b;
  pr_sets s = {0}, clip = {0}, seed = {0};
  pr_train(&a, NULL, &s);
  set_dense(&clip, 2);
  pr_train(&b, NULL, &clip);
  ck_assert_all(!pr_same_losses(&a, &b, 0, 7) && a.state != b.state);
  pr_set(&seed, "run.seed=6");
  pr_train(&b, NULL, &seed);
  ck_assert_all(!pr_same_losses(&a, &b, 0, 1) && a.state != b.state);
}

/* Steps end with run.steps, in the middle of what is under way; an epoch's
 * short batch may be left out. */
TS_TESTS(short_runs, 1, N_VARIANTS) {
  static pr_result bases[3], other;
  static const char *const ends[][2] = {{"run.steps=1", "data.drop_last=false"},
                                        {"run.steps=2", "data.drop_last=false"},
                                        {"run.steps=5", "data.drop_last=true"}};
  for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
    pr_sets b = {0}, s = {0};
    pr_set(&b, ends[k][0]);
    pr_set(&b, ends[k][1]);
    if (!bases[k].n) pr_train(&bases[k], NULL, &b);
    set_variant(&s, &variants[_i]);
    pr_set(&s, ends[k][0]);
    pr_set(&s, ends[k][1]);
    pr_train(&other, NULL, &s);
    ck_assert_all(pr_same(&bases[k], &other));
  }
}

/* Layers whose gradients go from node to node, two ranks each. */
static const char large_deck[] =
    "run = { name = \"t\"; seed = 5; steps = 3; threads = 1; };\n"
    "data = { format = \"synthetic\"; global_batch = 48;\n"
    "  synthetic = { samples = 150; eval_samples = 50; }; };\n"
    "sharding = { topology = \"default\"; };\n"
    "tables = ( { name = \"a\"; rows = 40; dim = 16; features = [\"a\"];\n"
    "             sharding = \"table_wise\"; } );\n"
    "model = { kind = \"dlrm\"; dense_features = 3; dense_arch = [32, 16];\n"
    "  over_arch = [800, 800, 1]; };\n";

TS_TEST(sums_by_node_change_no_bit) {
  static pr_result of[2];
  static const char *const sizes[] = {"sharding.ranks_per_node=1",
                                      "sharding.ranks_per_node=2"};
  ck_assert(ts_sum_goes_by_node(800 * 800, TS_F32, 4, 2));
  for (int i = 0; i < 2; i++) {
    pr_sets s = {0};
    pr_set(&s, sizes[i]);
    pr_train(&of[i], large_deck, &s);
  }
  ck_assert_all(pr_same(&of[0], &of[1]));
}
