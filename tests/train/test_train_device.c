/* test_train_device.c - whole trainings where the host may touch none of the
 * device's memory: train/ knows nothing of the difference, and losses, metrics
 * and all weights and states are the host's, bit for bit.  Every pipeline,
 * lanes parallel and serial, models, ways to share dense parameters,
 * micro-batches, losses that are no numbers, checkpoints from either to the
 * other.  With the fake device in the place of backend "cuda", or, where
 * TESSERA_BACKEND=cuda asks for it, on a GPU: there matrix products have sums
 * of their own, so losses are near the host's, and what is the same bit for
 * bit is pipelines, graphs, and runs that go on, among themselves.
 * ranks: 1 2
 * seconds: 600
 * sanitizers: none (kernels are the host's) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_device.h"
#include "tests/support/walk.h"
#include "io/deck.h"
#include "tests/train/pipe_run.h"
#include "runtime/backends.h"
#include "tests/support/emulated/emulated.h"
#include "train/late.h"
#include "train/run.h"
#include "train/signals.h"

/* ---- the backend --------------------------------------------------------- */

static void start(void) {
  if (!strcmp(ts_test_backend(), "emulated"))
    ts_backend_replace(&ts_backend_emulated_cuda);
  else if (!ts_test_on_gpu())
    ts_backend_replace(&ts_fake_backend);
}

static void stop(void) {
  pr_close_data();
  ts_backend_replace(NULL);
}

/* On one rank, too, messages go through the host. */
static void set_device(pr_sets *s) {
  pr_set(s, "run.backend=cuda");
  if (!ts_test_on_gpu()) pr_set(s, "comm.backend=mpi");
}

static void set_host(pr_sets *s) {
  pr_set(s, "run.backend=host");
}

/* ---- a training ---------------------------------------------------------- */

typedef struct outcome {
  pr_result run;
  ts_metrics_result metrics;
  ts_step_result last;
  int n_skipped, n_broken, n_ahead; /* steps; the host was ahead of */
} outcome;

/* Sums or gradients that are no numbers, by call of the loss; -1: none. */
static int nan_at = -1, infinite_at = -1, n_losses;
static ts_err (*real_loss)(const ts_loss_args *);

static ts_err loss(const ts_loss_args *a) {
  const ts_err err = real_loss(a);
  float *grad = ts_fake_alias(a->grad);
  double *sum = ts_fake_alias(a->loss_sum);
  if (!a->grad) return err;
  if (a->batch && n_losses == infinite_at) grad[0] = INFINITY;
  if (n_losses++ == nan_at) *sum = NAN;
  return err;
}

/* Nobody asks for a loss until the end. */
static void quiet_steps(pr_run *r, outcome *out) {
  for (;;) {
    ts_step_result s = {0};
    ck_assert_ok(ts_pipeline_step(r->t, r->loader, 0, &s));
    if (s.end) break;
    out->n_skipped += s.skipped;
    out->n_broken += s.broken;
    out->n_ahead += !ts_event_done(ts_lane_record(r->t->compute));
    r->t->step += !s.skipped;
    out->last = s;
  }
}

static void train(outcome *out, const char *deck, const pr_sets *sets,
                  bool quiet) {
  pr_run r;
  memset(out, 0, sizeof *out);
  pr_start(&r, deck, sets);
  real_loss = r.t->kernels.loss;
  r.t->kernels.loss = loss;
  n_losses = 0;
  if (quiet)
    quiet_steps(&r, out);
  else
    pr_steps(&r, &out->run);
  /* While the last step is still under way. */
  ck_assert_ok(
      ts_metrics_compute(r.t->metrics[0], &out->metrics, r.t->control));
  if (quiet) ck_assert_ok(ts_stage_fetch(r.t, &out->last));
  out->run.state = pr_state(&r);
  pr_stop(&r);
}

static bool near(const outcome *a, const outcome *b) {
  bool good = a->run.n == b->run.n;
  for (int i = 0; i < a->run.n && good; i++)
    good = fabs(a->run.loss[i] - b->run.loss[i]) <= 1e-4 * fabs(a->run.loss[i]);
  return good && fabs(a->metrics.logloss - b->metrics.logloss) < 1e-3;
}

static bool same(const outcome *a, const outcome *b) {
  return pr_same(&a->run, &b->run) && a->run.auc == b->run.auc &&
         !memcmp(&a->metrics, &b->metrics, sizeof a->metrics);
}

/* ---- trainings as on the host -------------------------------------------- */

typedef struct way {
  const char *sets[6];
  bool cached;
} way;

static const way ways[] = {
    {{"pipeline.kind=base"}, false},
    {{"pipeline.kind=sparse_dist", "run.eval_every=3"}, false},
    {{"pipeline.kind=sparse_dist", "run.lanes=serial",
      "optimizer.in_backward=true"},
     false},
    {{"pipeline.kind=fused_sparse_dist", "pipeline.lookup_lane=own"}, false},
    {{"pipeline.kind=fused_sparse_dist", "run.lanes=serial"}, false},
    {{"pipeline.kind=fused_sparse_dist", "run.accumulate=2",
      "pipeline.lookup_lane=compute", "run.eval_every=2"},
     false},
    {{"pipeline.kind=fused_sparse_dist", "pipeline.lookup=after_optimizer",
      "run.on_nan=skip", "run.eval_every=3"},
     false},
    {{"pipeline.kind=semi_sync"}, false},
    {{"pipeline.kind=semi_sync", "pipeline.start_batch=2", "run.eval_every=3"},
     false},
    {{"pipeline.kind=semi_sync", "run.lanes=serial",
      "optimizer.in_backward=false", "pipeline.stash_gradients=true"},
     false},
    {{"pipeline.kind=prefetch"}, true},
    {{"pipeline.kind=prefetch", "run.lanes=serial", "run.eval_every=2"}, true},
    {{"pipeline.kind=sparse_dist", "dense.parallel=fully_sharded"}, false},
    {{"dense.parallel=fully_sharded", "optimizer.clip_norm=0.01",
      "run.lanes=serial"},
     false},
    {{"optimizer.clip_norm=0.01", "optimizer.kind=lamb"}, false},
    {{"run.accumulate=2", "pipeline.kind=sparse_dist"}, false},
    {{"run.accumulate=2", "run.lanes=serial", "run.eval_every=2"}, false},
    {{"model.kind=dcnv2", "model.dcn.layers=2", "model.dcn.rank=8"}, false},
    {{"model.kind=dcnv2", "model.dcn.rank=8", "pipeline.kind=sparse_dist",
      "run.lanes=serial"},
     false},
    {{"data.input=columns", "pipeline.kind=sparse_dist"}, false},
    {{"run.on_nan=skip", "pipeline.kind=sparse_dist"}, false},
    {{"metrics.window=100", "run.seed=7"}, false}};
enum { N_WAYS = sizeof ways / sizeof *ways };

static pr_sets sets_of(const way *w, bool device) {
  pr_sets s = {0};
  for (int k = 0; k < 6 && w->sets[k]; k++) pr_set(&s, w->sets[k]);
  if (w->cached) {
    pr_set(&s, "table_defaults.kernel=cached");
    pr_set(&s, "table_defaults.cache.load_factor=0.3");
    pr_set(&s, "tables.dp.kernel=fused");
    pr_set(&s, "tables.dpb.kernel=fused");
    pr_set(&s, "run.tier_dir=/tmp");
  }
  if (device)
    set_device(&s);
  else
    set_host(&s);
  return s;
}

TS_TESTS_BETWEEN(start, stop)

/* Batches come late, so that who does not wait for them has older ones. */
TS_TESTS(as_host, 0, N_WAYS) {
  static outcome want, got;
  if (ts_mpi_size() == 1 && _i % 4) return; /* two ranks run them all */
  const pr_sets host = sets_of(&ways[_i], false);
  const pr_sets device = sets_of(&ways[_i], true);
  train(&want, NULL, &host, false);
  ts_fake_late = (ts_fake_late_copies){"batch to device", 2000};
  train(&got, NULL, &device, false);
  ts_fake_late.span = NULL;
  ck_assert_int_eq(want.run.n, 7);
  ck_assert_all(want.metrics.n_samples > 0);
  if (ts_test_on_gpu()) {
    if (!ts_test_all(near(&want, &got)))
      ck_abort_msg("%s: not the host's losses", ways[_i].sets[0]);
    return;
  }
  if (!ts_test_all(pr_same_losses(&want.run, &got.run, 0, 7)))
    ck_abort_msg("%s: other losses than the host's", ways[_i].sets[0]);
  ck_assert_all(same(&want, &got));
  ck_assert_int_eq(ts_fake_n_blocks(), 0);
}

/* The exact pipelines, with graphs (on one rank) and without: the same. */
TS_TESTS(exact, 0, ts_test_on_gpu() ? 6 : 0) {
  static outcome want, got;
  static const char *const pipelines[] = {"pipeline.kind=base",
                                          "pipeline.kind=sparse_dist",
                                          "pipeline.kind=fused_sparse_dist"};
  pr_sets s = {0}, other = {0};
  set_device(&s);
  set_device(&other);
  pr_set(&s, pipelines[0]);
  pr_set(&s, "run.graph=off");
  pr_set(&other, pipelines[_i / 2]);
  pr_set(&other, _i % 2 ? "run.graph=auto" : "run.graph=off");
  train(&want, NULL, &s, false);
  train(&got, NULL, &other, false);
  ck_assert_int_eq(want.run.n, 7);
  ck_assert_all(same(&want, &got));
}

/* ---- nobody waits -------------------------------------------------------- */

static const char *const kinds[] = {
    "pipeline.kind=base", "pipeline.kind=sparse_dist",
    "pipeline.kind=fused_sparse_dist", "pipeline.kind=semi_sync"};

/* Steps end before their work does, and come to the same. */
TS_TESTS(ahead, 0, ts_test_on_gpu() ? 0 : 4) {
  static outcome want, got;
  pr_sets s = {0};
  if (ts_mpi_size() > 1 && _i != 1) return;
  pr_set(&s, kinds[_i]);
  train(&want, NULL, &s, false);
  set_device(&s);
  pr_kernel_hooks.dense_update_us = 2000;
  train(&got, NULL, &s, true);
  pr_kernel_hooks.dense_update_us = 0;
  ck_assert_all(got.n_ahead >= 6);
  ck_assert_all(want.run.state == got.run.state);
  ck_assert_all(!memcmp(&want.metrics, &got.metrics, sizeof want.metrics));
  double loss = got.last.loss_sum;
  ck_assert_all(!got.last.nan && !got.last.late);
  pr_run r;
  pr_start(&r, NULL, &s);
  ck_assert_ok(ts_comm_sum_f64(r.t->control, &loss, 1));
  pr_stop(&r);
  ck_assert_all(loss == want.run.loss[6]);
}

/* One loss in the middle is no number; those after it are. */
TS_TESTS(nan_between, 0, ts_test_on_gpu() ? 0 : 4) {
  static outcome got;
  pr_sets s = {0};
  set_device(&s);
  pr_set(&s, kinds[_i]);
  nan_at = 2;
  train(&got, NULL, &s, true);
  nan_at = -1;
  ck_assert_all(got.last.nan && isfinite(got.last.loss_sum));
  ck_assert_all(got.metrics.n_samples > 96 && got.metrics.n_samples < 96 * 6);
}

/* A step is left out, one has an infinite gradient. */
TS_TESTS(left_out, 0, ts_test_on_gpu() ? 0 : 4) {
  static outcome want, got;
  static const char *const parts[] = {"run.accumulate=1", "run.accumulate=2"};
  pr_sets s = {0};
  pr_set(&s, "run.on_nan=skip");
  pr_set(&s, kinds[1 + _i / 2]);
  pr_set(&s, parts[_i % 2]);
  nan_at = 2 + _i % 2;
  infinite_at = 4;
  train(&want, NULL, &s, true);
  set_device(&s);
  train(&got, NULL, &s, true);
  nan_at = infinite_at = -1;
  ck_assert_all(want.n_skipped > 0 && want.n_broken > 0);
  ck_assert_all(got.n_skipped == want.n_skipped &&
                got.n_broken == want.n_broken);
  ck_assert_all(!got.last.nan == !want.last.nan);
}

#ifdef TS_FAULTS
static ts_err make_parts(void *arg) {
  ts_trainer *t = arg;
  ts_late *late = NULL;
  ts_uploads *uploads = NULL;
  ts_err err = ts_late_create(&late, t);
  if (err == TS_OK) err = ts_uploads_create(&uploads, t->device);
  ts_late_destroy(late);
  ts_uploads_destroy(uploads);
  return err;
}

TS_TEST(nothing_stays_of_parts) {
  pr_run r;
  pr_sets s = {0};
  if (ts_mpi_size() > 1 || ts_test_on_gpu()) return;
  set_device(&s);
  pr_start(&r, NULL, &s);
  walk(make_parts, r.t, "alloc", 1 << TS_ERR_NOMEM);
  pr_stop(&r);
}
#endif

/* ---- whole runs ---------------------------------------------------------- */

static char dir[64], set_dir[128], set_init[128];

static const char *kind; /* of pipeline */

static void run(const char *backend_set, const char *steps, const char *sub) {
  pr_sets s = {0};
  ts_config *c;
  const ts_run_options o = {0};
  const bool mpi =
      !ts_test_on_gpu() || ts_mpi_size() > 1; /* they may share a GPU */
  snprintf(set_dir, sizeof set_dir, "run.output=%s/%s", dir, sub);
  pr_set(&s, set_dir);
  pr_set(&s, backend_set);
  if (mpi) pr_set(&s, "comm.backend=mpi");
  pr_set(&s, steps);
  pr_set(&s, "checkpoint.every=2");
  pr_set(&s, "run.eval_every=3");
  pr_set(&s, "run.log_every=2");
  pr_set(&s, "dense.parallel=fully_sharded");
  pr_set(&s, kind);
  ck_assert_ok(ts_deck_parse(&c, pr_deck, dir, s.item, s.n));
  ck_assert_ok(ts_run_train(c, &o));
  ts_deck_destroy(c);
}

/* All that the newest checkpoint of SUB holds, seen on the host. */
static void check_finite(outcome *out, const char *sub) {
  pr_sets s = {0};
  pr_run r;
  ts_run_state state = {0};
  ts_str taken = {0};
  memset(out, 0, sizeof *out);
  snprintf(set_init, sizeof set_init, "run.output=%s/%s", dir, sub);
  pr_set(&s, set_init);
  set_host(&s);
  pr_start(&r, NULL, &s);
  ck_assert_ok(ts_trainer_load(r.t, NULL, &state, &taken));
  ck_assert_ptr_nonnull(taken.text);
  ck_assert_ok(
      ts_metrics_compute(r.t->metrics[0], &out->metrics, r.t->control));
  out->run.n = (int)r.t->step;
  out->run.state = pr_state(&r);
  ts_str_reset(&taken);
  ts_mem_free(state.source_state);
  pr_stop(&r);
}

/* From the host to the device and back: the same as without. */
TS_TESTS(checkpoints, 1, 3) {
  static outcome want, there, back;
  static const char *const host = "run.backend=host", *const cuda =
                                                          "run.backend=cuda";
  char command[96];
  ts_fixture f;
  kind = kinds[_i];
  ts_fake_restored = 0;
  snprintf(dir, sizeof dir, "/tmp/tessera-train-device-XXXXXX");
  if (ts_mpi_rank() == 0) ck_assert_ptr_nonnull(mkdtemp(dir));
  ts_fixture_start(&f, true, 1);
  ck_assert_ok(ts_comm_bcast(f.comm, dir, sizeof dir, 0));
  ts_fixture_stop(&f);
  run(host, "run.steps=7", "host");
  run(cuda, "run.steps=3", "there");
  run(host, "run.steps=7", "there");
  run(host, "run.steps=3", "back");
  run(cuda, "run.steps=7", "back");
  /* The choice of products comes back to the device alone. */
  if (!ts_test_on_gpu()) ck_assert_int_eq(ts_fake_restored, 0);
  run(cuda, "run.steps=2", "again");
  run(cuda, "run.steps=7", "again");
  if (!ts_test_on_gpu()) ck_assert_int_eq(ts_fake_restored, 1);
  run(cuda, "run.steps=7", "cuda");
  check_finite(&want, "cuda");
  check_finite(&there, "again");
  ck_assert_all(want.run.state == there.run.state);
  check_finite(&want, "host");
  check_finite(&there, "there");
  check_finite(&back, "back");
  ck_assert_int_eq(want.run.n, 7);
  ck_assert_int_eq(there.run.n, 7);
  ck_assert_int_eq(back.run.n, 7);
  if (ts_test_on_gpu()) goto done;
  ck_assert_all(want.run.state == there.run.state);
  ck_assert_all(want.run.state == back.run.state);
  ck_assert_all(!memcmp(&there.metrics, &want.metrics, sizeof want.metrics));
  ck_assert_all(!memcmp(&back.metrics, &want.metrics, sizeof want.metrics));
done:
  snprintf(command, sizeof command, "rm -rf %s", dir);
  if (ts_mpi_rank() == 0 && system(command) != 0) ck_abort_msg("%s", command);
}

int main(int argc, char **argv) {
  if (ts_signals_block() != TS_OK) return EXIT_FAILURE;
  return ts_test_main(argc, argv);
}
