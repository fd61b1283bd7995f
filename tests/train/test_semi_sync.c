/* test_semi_sync.c - semi_sync against its meaning, written down in the plain
 * order: lookup(i + 1), then update(i), one stage after the other on serial
 * lanes; stashed gradients kept by a dense kernel of the test's own.
 * ranks: 1 2 3  sanitized: 3
 * seconds: 300 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/train/pipe_run.h"

enum { START = 3, N = 9 };

static const char *const stash_sets[] = {"optimizer.in_backward=false",
                                         "pipeline.stash_gradients=true"};

static void set_semi(pr_sets *s, bool stash) {
  pr_set(s, "pipeline.kind=semi_sync");
  pr_set(s, "run.steps=9");
  for (int k = 0; stash && k < 2; k++) pr_set(s, stash_sets[k]);
}

/* ---- the delayed dense optimizer ----------------------------------------- */

enum { PARAMS = 16, ELEMENTS = 8192 };

typedef struct kept_update {
  ts_dense_update_args args;
  float grad[ELEMENTS];
} kept_update;

static struct {
  kept_update kept[PARAMS];
  bool on;
} delay;

static kept_update *kept_of(const float *w) {
  int i = 0;
  while (i < PARAMS && delay.kept[i].args.w && delay.kept[i].args.w != w) i++;
  ck_assert_int_lt(i, PARAMS);
  return &delay.kept[i];
}

/* With the gradient of the step before; the first one is only kept. */
static ts_err update_later(const ts_dense_update_args *a,
                           ts_err (*kernel)(const ts_dense_update_args *)) {
  static float grad[ELEMENTS];
  if (!delay.on) return kernel(a);
  kept_update *k = kept_of(a->w);
  ck_assert_int_le(a->n, ELEMENTS);
  if (k->args.w) {
    ts_dense_update_args old = *a;
    memcpy(grad, k->grad, (size_t)a->n * 4);
    old.grad = grad;
    TS_DO(kernel(&old));
  }
  k->args = *a;
  memcpy(k->grad, a->grad, (size_t)a->n * 4);
  return TS_OK;
}

/* The update that was kept, as part of step STEP. */
static void update_now(ts_trainer *t, int64_t step) {
  ts_kernels plain;
  ck_assert_ok(ts_kernels_fill(&plain, "host", NULL));
  for (int i = 0; i < PARAMS && delay.kept[i].args.w; i++) {
    kept_update *k = &delay.kept[i];
    k->args.grad = k->grad;
    k->args.step = step;
    ck_assert_ok(plain.dense_update(&k->args, 1));
    for (int32_t p = 0; p < t->model->params.n; p++)
      if (t->model->params.item[p]->w == k->args.w)
        t->model->params.item[p]->version++;
  }
  memset(delay.kept, 0, sizeof delay.kept);
}

/* ---- the reference ------------------------------------------------------- */

static void fetch(pr_run *r, ts_inflight *c) {
  ts_stage_load(r->t, c, r->loader);
  ck_assert_ok(ts_stage_input_begin(r->t, c, 0));
  ck_assert_ok(ts_stage_input_end(r->t, c));
  ck_assert_ok(ts_stage_check(r->t, c));
}

static void plain_step(pr_run *r, pr_result *out, bool stash) {
  ts_trainer *t = r->t;
  ts_inflight *c = ts_inflight_at(t, 0), *next = ts_inflight_at(t, 1);
  ts_step_result s = {0};
  ts_event loss;
  const bool stale = t->step >= r->config->pipeline.start_batch;
  if (!c->loaded) fetch(r, c);
  ck_assert_ok(ts_stage_forward(t, c, true, &loss));
  fetch(r, next);
  if (stale && !next->verdict.end)
    ck_assert_ok(ts_stage_lookup(t, next, t->compute));
  ck_assert_ok(
      ts_stage_backward(t, c, t->step + 1, (ts_look_ahead){0}, (ts_event){0}));
  delay.on = stash && stale;
  ck_assert_ok(ts_stage_optimize(t));
  ck_assert_ok(ts_stage_finish(t, c, loss, t->metrics, &s));
  ts_stage_advance(t, r->loader);
  t->step++;
  pr_note(r, out, &s);
  const int64_t every = r->config->checkpoint.every;
  if (every && t->step % every == 0) {
    next->looked_up = false; /* looked up anew, with the weights now */
    if (stash) update_now(t, t->step);
  }
}

static void plain(pr_result *out, pr_sets s, bool stash) {
  pr_run r;
  memset(out, 0, sizeof *out);
  memset(&delay, 0, sizeof delay);
  pr_set(&s, "run.lanes=serial");
  pr_start(&r, NULL, &s);
  pr_kernel_hooks.dense_update = update_later;
  for (int i = 0; i < N; i++) plain_step(&r, out, stash);
  pr_kernel_hooks.dense_update = NULL;
  out->state = pr_state(&r);
  pr_stop(&r);
}

/* ---- tests --------------------------------------------------------------- */

TS_TESTS_BETWEEN(NULL, pr_close_data)

/* start_batch 0 and in the middle, saved steps, stash: bit for bit. */
TS_TESTS(as_reference, 0, 8) {
  static pr_result want, got;
  static const char *const starts[] = {"pipeline.start_batch=0",
                                       "pipeline.start_batch=3"};
  const bool stash = _i % 2, saved = _i / 4;
  pr_sets s = {0};
  set_semi(&s, stash);
  pr_set(&s, starts[_i / 2 % 2]);
  if (saved) pr_set(&s, "checkpoint.every=4");
  plain(&want, s, stash);
  ck_assert_int_eq(want.n, N);
  for (int k = 0; k < 3; k++) {
    pr_sets v = s;
    pr_set(&v, k == 2 ? "run.lanes=serial" : "run.lanes=parallel");
    if (k == 1) pr_set(&v, "comm.delay.latency_us=300");
    if (k == 1) pr_set(&v, "data.input=columns");
    pr_kernel_hooks.row_update_us = k == 0 ? 300 : 0;
    pr_train(&got, NULL, &v);
    pr_kernel_hooks.row_update_us = 0;
    ck_assert_all(pr_same(&want, &got));
  }
}

/* Until START + 1 steps base's losses (the batch after START is the first
 * that was looked up early), then others. */
TS_TEST(start_in_the_middle) {
  static pr_result base, semi;
  pr_sets b = {0}, s = {0};
  pr_set(&b, "run.steps=9");
  pr_train(&base, NULL, &b);
  set_semi(&s, false);
  pr_set(&s, "pipeline.start_batch=3");
  pr_train(&semi, NULL, &s);
  ck_assert_int_eq(semi.n, N);
  ck_assert_all(pr_same_losses(&base, &semi, 0, START + 1));
  ck_assert_all(base.loss[START + 1] != semi.loss[START + 1]);
  ck_assert_all(base.state != semi.state);
}

/* The dense weights stay as they are in the first step that only stashes. */
TS_TEST(first_stash) {
  pr_run r;
  pr_sets s = {0};
  set_semi(&s, true);
  pr_set(&s, "pipeline.start_batch=3");
  pr_start(&r, NULL, &s);
  for (int step = 0; step < 6; step++) {
    const ts_param *p = r.t->model->params.item[0];
    const float before = p->w[0];
    ts_step_result result = {0};
    ck_assert_ok(ts_pipeline_step(r.t, r.loader, 0, &result));
    r.t->step++;
    ck_assert_all((p->w[0] == before) == (step == START));
  }
  pr_stop(&r);
}

/* ---- how good it gets ---------------------------------------------------- */

static const char truth[] =
    "run = { name = \"t\"; seed = 3; steps = 350; threads = 1;\n"
    "  eval_every = 350; };\n"
    "data = { format = \"synthetic\"; global_batch = 256;\n"
    "  synthetic = { samples = 100000; eval_samples = 20000;\n"
    "    noise = 0.5; }; };\n"
    "tables = ( { name = \"a\"; rows = 200; dim = 8;\n"
    "    features = [\"f\", \"g\"];\n"
    "    optimizer = { kind = \"rowwise_adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"b\"; rows = 300; dim = 8; features = [\"h\"];\n"
    "    optimizer = { kind = \"rowwise_adagrad\"; lr = 0.05; }; } );\n"
    "model = { kind = \"dlrm\"; dense_features = 4; dense_arch = [16, 8];\n"
    "  over_arch = [16, 1]; };\n"
    "optimizer = { kind = \"adam\"; lr = 5e-3; };\n";

TS_TEST(auc) {
  static pr_result base, semi;
  pr_sets b = {0}, s = {0};
  pr_train(&base, truth, &b);
  ck_assert_all(base.auc > 0.6 && base.auc < 1);
  pr_set(&s, "pipeline.kind=semi_sync");
  pr_set(&s, "pipeline.start_batch=0");
  pr_set(&s, "optimizer.in_backward=false");
  pr_train(&semi, truth, &s);
  if (ts_mpi_rank() == 0)
    printf("AUC: base %.5f, semi_sync %.5f\n", base.auc, semi.auc);
  ck_assert_all(fabs(base.auc - semi.auc) < 0.002);
  ck_assert_all(!pr_same_losses(&base, &semi, 1, 5));
}
