/* test_cuda_train.c - whole trainings of backend "emulated": all of cuda/ over
 * a CUDA runtime without a GPU.
 *
 * Losses are the host's but for the order of products' sums.  Where order
 * should not matter (pipelines, lanes, graphs) weights are the same bit for
 * bit. A GPU would take each launch; copies and kernels are given memory that
 * is there; nothing cuts a step's graph; all that was taken is given back.
 * seconds: 600
 * sanitizers: none (kernels are fibers on threads) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated/cublas.h"
#include "tests/support/emulated/emulated.h"
#include "io/deck.h"
#include "tests/train/pipe_run.h"
#include "train/graph.h"
#include "train/run.h"
#include "train/signals.h"

enum { STEPS = 7, PLAIN = 2 }; /* steps before the first graph */

/* ---- what a training leaves behind --------------------------------------- */

static ts_emulated_counts before;

static void mark(void) {
  ts_emulated_forgive();
  before = ts_emulated_now();
}

/* At least LEAST launches, all of them right; nothing is left. */
static void check_finite(const char *what, int64_t least) {
  const ts_emulated_counts now = ts_emulated_now();
  ck_assert_msg(!now.complaints, "%s: %lld times: %s", what,
                (long long)now.complaints, now.complaint);
  ck_assert_int_ge(now.launches - before.launches, least);
  ck_assert_msg(now.blocks == before.blocks, "%s: %lld blocks of memory left",
                what, (long long)(now.blocks - before.blocks));
  ck_assert_msg(now.streams == before.streams, "%s: streams left", what);
  ck_assert_msg(now.events == before.events, "%s: %d events left", what,
                now.events - before.events);
  ck_assert_int_eq(ts_cublas.descriptors, 0);
  ck_assert_int_eq(ts_mem_total(TS_SPACE_DEVICE).now_bytes, 0);
  ck_assert_int_eq(ts_mem_total(TS_SPACE_PINNED).now_bytes, 0);
}

/* ---- trainings ----------------------------------------------------------- */

typedef struct way {
  const char *sets[6];
  int graphs;  /* a step */
  int cut;     /* of those */
  double near; /* of the host's losses; 0: weights are those of plain(), too */
  bool cached; /* tables in slow memory */
} way;

#define DCN "model.kind=dcnv2", "model.dcn.layers=2", "model.dcn.rank=8"
#define FM "model.kind=deepfm", "model.over_arch=[1]", "model.dense_arch=[]"
#define BF16 "run.precision=bf16"
static const double f32 = 1e-6, bf16 = 1e-2;
/* clang-format off */
static const way ways[] = {
    {{"pipeline.kind=base"}, 1, 0, 0, false},
    {{"pipeline.kind=base", "run.lanes=serial"}, 0, 0, 0, false},
    {{"pipeline.kind=base", "run.on_nan=skip"}, 2, 0, 0, false},
    {{"pipeline.kind=base", BF16, "optimizer.kind=sgd"}, 1, 0, bf16, false},
    {{"pipeline.kind=base", "optimizer.in_backward=false"}, 1, 0, 0, false},
    {{"pipeline.kind=base", DCN}, 1, 0, f32, false},
    {{"pipeline.kind=base", "data.drop_last=true"}, 1, 0, f32, false},
    /* The host looks for rows of other columns. */
    {{"pipeline.kind=base", "tables.twcw.optimizer.kind=lamb"},
     1, 1, f32, false},
    {{"pipeline.kind=sparse_dist"}, 2, 0, 0, false},
    {{"pipeline.kind=sparse_dist", BF16, "optimizer.kind=adagrad", DCN},
     2, 0, bf16, false},
    {{"pipeline.kind=sparse_dist", "run.precision=tf32", "run.eval_every=3",
      "optimizer.kind=lamb"}, 2, 0, bf16, false},
    {{"pipeline.kind=sparse_dist", "data.input=columns",
      "optimizer.clip_norm=0.01", "run.seed=7"}, 2, 0, f32, false},
    {{"pipeline.kind=sparse_dist", "optimizer.kind=lars", FM},
     2, 0, f32, false},
    /* The host asks how many rows are kept until the last micro-batch. */
    {{"pipeline.kind=sparse_dist", "run.accumulate=2"}, 4, 2, f32, false},
    {{"pipeline.kind=fused_sparse_dist", "pipeline.lookup_lane=own"},
     0, 0, 0, false},
    {{"pipeline.kind=fused_sparse_dist", BF16}, 0, 0, bf16, false},
    {{"pipeline.kind=semi_sync"}, 0, 0, f32, false},
    {{"pipeline.kind=semi_sync", DCN, "optimizer.in_backward=false",
      "pipeline.stash_gradients=true"}, 0, 0, f32, false},
    {{"pipeline.kind=prefetch"}, 0, 0, 0, true},
    {{"pipeline.kind=prefetch", "run.lanes=serial", "run.eval_every=2"},
     0, 0, 0, true}};
/* clang-format on */
enum { N_WAYS = sizeof ways / sizeof *ways };

static pr_sets sets_of(const way *w, const char *backend) {
  pr_sets s = {0};
  pr_set(&s, backend);
  pr_set(&s, "tables.cw.optimizer.kind=sgd"); /* needs no other columns */
  pr_set(&s, "tables.twcw.optimizer.kind=adam");
  pr_set(&s, "run.graph=auto");
  for (int k = 0; k < 6 && w->sets[k]; k++) pr_set(&s, w->sets[k]);
  if (!w->cached) return s;
  pr_set(&s, "table_defaults.kernel=cached");
  pr_set(&s, "table_defaults.cache.load_factor=0.3");
  pr_set(&s, "tables.dp.kernel=fused");
  pr_set(&s, "tables.dpb.kernel=fused");
  pr_set(&s, "run.tier_dir=/tmp");
  return s;
}

static pr_result plain; /* without graphs */

static void compare(const way *w, const pr_result *got) {
  static pr_result host;
  const pr_sets s = sets_of(w, "run.backend=host");
  pr_train(&host, NULL, &s);
  ck_assert_int_eq(got->n, host.n);
  ck_assert(got->samples == host.samples && got->positions == host.positions);
  for (int i = 0; i < host.n; i++)
    ck_assert_msg(fabs(got->loss[i] / host.loss[i] - 1) <=
                      (w->near ? w->near : f32),
                  "%s, step %d: %.17g, the host's is %.17g", w->sets[0], i,
                  got->loss[i], host.loss[i]);
  if (!w->near) ck_assert(pr_same(got, &plain));
}

static void start(void) {
  const way w = {{"run.graph=off", "run.lanes=serial"}, 0, 0, 0, false};
  const pr_sets s = sets_of(&w, "run.backend=emulated");
  pr_train(&plain, NULL, &s); /* the process keeps a stream and a pool */
}

static void stop(void) {
  pr_close_data();
}

TS_TESTS_BETWEEN(start, stop)

TS_TESTS(trains, 0, N_WAYS) {
  static pr_result out;
  const way *w = &ways[_i];
  const pr_sets s = sets_of(w, "run.backend=emulated");
  const int ran = ts_emulated_now().graphs;
  pr_run r;
  mark();
  memset(&out, 0, sizeof out);
  pr_start(&r, NULL, &s);
  const int by_default = ts_emulated_now().by_default;
  pr_steps(&r, &out);
  ck_assert_int_eq(ts_emulated_now().by_default, by_default);
  ck_assert_int_le(ts_emulated_now().pageable - before.pageable,
                   (w->cut ? 30 : 8) * STEPS);
  const ts_graph_counts n = ts_step_graph_counts(r.t);
  out.state = pr_state(&r);
  pr_stop(&r);
  const int each = out.n - PLAIN;
  ck_assert_int_eq(n.n_begun, w->graphs * each);
  ck_assert_int_eq(n.n_cut, w->cut * each);
  ck_assert_int_eq(ts_emulated_now().graphs - ran, n.n_begun);
  check_finite(w->sets[0], 20 * STEPS);
  compare(w, &out);
}

/* ---- a run as the command has it ----------------------------------------- */

static char dir[64], set_dir[128];

static void run(const char *sub, const char *steps) {
  const way w = {{"checkpoint.every=2", "run.eval_every=3", "run.log_every=2",
                  "pipeline.kind=sparse_dist"},
                 0,
                 0,
                 0,
                 false};
  const ts_run_options o = {0};
  pr_sets s = sets_of(&w, "run.backend=emulated");
  ts_config *c;
  snprintf(set_dir, sizeof set_dir, "run.output=%s/%s", dir, sub);
  pr_set(&s, set_dir);
  pr_set(&s, steps);
  ck_assert_ok(ts_deck_parse(&c, pr_deck, dir, s.item, s.n));
  ck_assert_ok(ts_run_train(c, &o));
  ts_deck_destroy(c);
}

/* The hash of the newest checkpoint's state, brought to the device. */
static uint64_t state_of(const char *sub) {
  const way w = {{"pipeline.kind=base"}, 0, 0, 0, false};
  pr_sets s = sets_of(&w, "run.backend=emulated");
  pr_run r;
  ts_run_state state = {0};
  ts_str taken = {0};
  snprintf(set_dir, sizeof set_dir, "run.output=%s/%s", dir, sub);
  pr_set(&s, set_dir);
  pr_start(&r, NULL, &s);
  ck_assert_ok(ts_trainer_load(r.t, NULL, &state, &taken));
  ck_assert_ptr_nonnull(taken.text);
  ck_assert_int_eq(r.t->step, STEPS);
  const uint64_t hash = pr_state(&r);
  ts_str_reset(&taken);
  ts_mem_free(state.source_state);
  pr_stop(&r);
  return hash;
}

/* Stopped after three steps and resumed: the same, and the same as plain(). */
TS_TEST(resumes) {
  char command[96];
  snprintf(dir, sizeof dir, "/tmp/tessera-cuda-train-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(dir));
  mark();
  run("parts", "run.steps=3");
  run("parts", "run.steps=7");
  run("whole", "run.steps=7");
  check_finite("a run", 60 * STEPS);
  ck_assert(state_of("parts") == plain.state);
  ck_assert(state_of("whole") == plain.state);
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (system(command) != 0) ck_abort_msg("%s", command);
}

int main(int argc, char **argv) {
  if (ts_signals_block() != TS_OK) return EXIT_FAILURE;
  return ts_test_main(argc, argv);
}
