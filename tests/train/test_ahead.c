/* test_ahead.c - on a discrete device the host enqueues a step's forward pass
 * while the step before is no further than its loss: compute is held there
 * until then, and if the host waits for anything behind it, both stand.  The
 * fake device in the place of "cuda", with the waits that a GPU has: who packs
 * ids waits for their numbers, and on one rank who waits for a comm waits on
 * the host (on two the lanes do).
 * ranks: 1 2  sanitized: 1
 * seconds: 600 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_device.h"
#include "tests/train/pipe_run.h"
#include "runtime/backends.h"
#include "runtime/device_impl.h"
#include "runtime/trace.h"
#include "train/planning.h"

/* ---- the device ---------------------------------------------------------- */

enum { HELD_S = 30 }; /* then it stands */

static atomic_int n_sent; /* losses that the host has enqueued */
static int n_computed, n_all, n_stood;

static ts_err (*real_submit)(ts_lane *, const char *, ts_task, const void *,
                             size_t);
static ts_err (*real_loss)(const ts_loss_args *);

static bool host_waits(const char *span) {
  return !strcmp(span, "input pack") ||
         (ts_mpi_size() == 1 && !strcmp(span, "wait"));
}

static ts_err submit(ts_lane *lane, const char *span, ts_task task,
                     const void *arg, size_t bytes) {
  if (!strcmp(span, "loss")) atomic_fetch_add(&n_sent, 1);
  const ts_err err = real_submit(lane, span, task, arg, bytes);
  return err == TS_OK && host_waits(span) ? ts_lane_sync(lane) : err;
}

static ts_err create(ts_device **d, const ts_device_options *o) {
  static ts_device_ops ops;
  const ts_err err = ts_fake_backend.device_create(d, o);
  if (err != TS_OK) return err;
  ops = *(*d)->ops;
  real_submit = ops.submit;
  ops.submit = submit;
  (*d)->ops = &ops;
  return TS_OK;
}

static const ts_backend backend = {"cuda", create, ts_fake_kernels, NULL};

/* Holds compute until the host has come to the next loss. */
static ts_err loss(const ts_loss_args *a) {
  const ts_err err = real_loss(a);
  const int next = ++n_computed + 1;
  if (next > n_all || n_stood) return err;
  const double t0 = ts_now();
  while (atomic_load(&n_sent) < next && ts_now() - t0 < HELD_S) pr_sleep_us(50);
  n_stood += atomic_load(&n_sent) < next;
  return err;
}

/* ---- a training ---------------------------------------------------------- */

enum { STEPS = 7 };

typedef struct outcome {
  uint64_t state;
  double loss; /* of the last step */
  int n_inflight, n_ebc_batches;
} outcome;

static void train(outcome *out, const pr_sets *sets, int parts, bool held) {
  pr_run r;
  ts_step_result s, last = {0};
  atomic_store(&n_sent, 0);
  n_computed = n_stood = 0;
  n_all = parts * STEPS;
  pr_start(&r, NULL, sets);
  real_loss = r.t->kernels.loss;
  if (held) r.t->kernels.loss = loss;
  pr_kernel_hooks.row_update_us = held ? 1000 : 0;
  for (;;) {
    ck_assert_ok(ts_pipeline_step(r.t, r.loader, 0, &s));
    if (s.end) break;
    r.t->step++;
    last = s;
  }
  ck_assert_int_eq(r.t->step, STEPS);
  ck_assert_ok(ts_stage_fetch(r.t, &last));
  *out = (outcome){.loss = last.loss_sum,
                   .n_inflight = r.t->n_inflight,
                   .n_ebc_batches = r.t->planning->request.n_ebc_batches};
  if (r.t->pipeline->fence) ck_assert_ok(r.t->pipeline->fence(r.t));
  out->state = pr_state(&r);
  pr_stop(&r);
}

typedef struct way {
  const char *kind, *sets[5];
  int n_inflight[2]; /* on the host, on the device */
  int parts;         /* run.accumulate */
} way;

#define FUSED "pipeline.kind=fused_sparse_dist"
#define AFTER "pipeline.lookup=after_optimizer"
#define SEMI "pipeline.kind=semi_sync"
#define FROM_2 "pipeline.start_batch=2"
#define CACHED                                                                 \
  "table_defaults.kernel=cached", "table_defaults.cache.load_factor=0.3",      \
      "tables.dp.kernel=fused", "tables.dpb.kernel=fused"
static const way ways[] = {
    {"pipeline.kind=sparse_dist", {NULL}, {2, 2}, 1},
    {FUSED, {NULL}, {2, 3}, 1},
    {FUSED, {"pipeline.lookup_lane=own"}, {2, 3}, 1},
    {FUSED, {"pipeline.lookup_lane=compute"}, {2, 3}, 1},
    {FUSED, {AFTER}, {2, 3}, 1},
    {FUSED, {AFTER, "pipeline.lookup_lane=own"}, {2, 3}, 1},
    {FUSED, {AFTER, "pipeline.lookup_lane=compute"}, {2, 3}, 1},
    {FUSED, {"run.accumulate=2", "optimizer.in_backward=true"}, {2, 3}, 2},
    {FUSED, {"run.accumulate=2", "pipeline.lookup_lane=own"}, {2, 3}, 2},
    {SEMI, {FROM_2}, {3, 4}, 1},
    {SEMI,
     {FROM_2, "optimizer.in_backward=false", "pipeline.stash_gradients=true"},
     {3, 4},
     1},
    {FUSED, {CACHED, "pipeline.lookup_lane=own"}, {2, 3}, 1},
    {"pipeline.kind=prefetch", {CACHED}, {3, 3}, 1},
    {"pipeline.kind=prefetch",
     {CACHED, "table_defaults.cache.depth=2"},
     {4, 4},
     1}};
enum { N_WAYS = sizeof ways / sizeof *ways };

TS_TESTS_BETWEEN(NULL, pr_close_data)

/* All but semi_sync come to what base comes to. */
TS_TESTS(host_is_ahead, 0, N_WAYS) {
  outcome want, got;
  const way *w = &ways[_i];
  pr_sets s = {0};
  pr_set(&s, "run.backend=host");
  pr_set(&s, w->kind);
  pr_set(&s, "run.tier_dir=/tmp");
  for (int k = 0; k < 5 && w->sets[k]; k++) pr_set(&s, w->sets[k]);
  train(&want, &s, w->parts, false);
  ck_assert_int_eq(want.n_inflight, w->n_inflight[0]);
  ck_assert_int_eq(want.n_ebc_batches, want.n_inflight);
  if (strcmp(w->kind, SEMI) != 0) {
    pr_sets base = s;
    base.item[1] = "pipeline.kind=base";
    train(&want, &base, w->parts, false);
  }
  ts_backend_replace(&backend);
  s.item[0] = "run.backend=cuda";
  pr_set(&s, "comm.backend=mpi");
  train(&got, &s, w->parts, true);
  ts_backend_replace(NULL);
  ck_assert_all(n_computed == n_all && n_stood == 0);
  ck_assert_int_eq(got.n_inflight, w->n_inflight[1]);
  ck_assert_int_eq(got.n_ebc_batches, got.n_inflight);
  ck_assert_all(want.state == got.state && want.loss == got.loss);
  ck_assert_int_eq(ts_fake_n_blocks(), 0);
}
