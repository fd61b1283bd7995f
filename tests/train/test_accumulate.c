/* test_accumulate.c - run.accumulate: micro-batches of a step add up to the
 * whole batch, in every pipeline that has them, for every sharding; a step
 * with a loss that is no number leaves nothing behind.
 * ranks: 1 3 4
 * seconds: 400 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/deck.h"
#include "tests/train/pipe_run.h"

/* 32-bit rows (rounding would draw other numbers for other last bits), and
 * optimizers that do not blow up small differences. */
static void set_plain(pr_sets *s) {
  static const char *const texts[] = {
      "tables.cw.dtype=f32",
      "tables.dpb.dtype=f32",
      "tables.tw2.dtype=f32",
      "tables.dp.optimizer.kind=adagrad",
      "optimizer.kind=adagrad",
      "tables.grid.optimizer.kind=rowwise_adagrad",
      "optimizer.eps=1e-3",
      "run.on_nan=skip",
      "optimizer.schedule.kind=linear",
      "optimizer.schedule.steps=20"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) pr_set(s, texts[i]);
}

/* A loss that is no number: in micro-batch NAN_AT of the run, from 0. */
static ts_err (*real_loss)(const ts_loss_args *);
static int nan_at, infinite_at = -1, n_losses;
static ts_err loss(const ts_loss_args *a) {
  const ts_err err = real_loss(a);
  if (a->grad && a->batch && n_losses == infinite_at) a->grad[0] = INFINITY;
  if (a->grad && n_losses++ == nan_at) *a->loss_sum = NAN;
  return err;
}

static void train(pr_result *out, const pr_sets *s, int nan) {
  pr_run r;
  memset(out, 0, sizeof *out);
  nan_at = nan;
  n_losses = 0;
  pr_start(&r, NULL, s);
  real_loss = r.t->kernels.loss;
  r.t->kernels.loss = loss;
  pr_steps(&r, out);
  out->state = pr_state(&r);
  pr_stop(&r);
}

/* Largest relative difference of losses (NAN where both are). */
static double far(const pr_result *a, const pr_result *b) {
  double most = 0;
  ck_assert_all(a->n == b->n && a->samples == b->samples &&
                a->positions == b->positions);
  for (int i = 0; i < a->n; i++)
    if (!isnan(a->loss[i]) || !isnan(b->loss[i]))
      most = fmax(most, fabs(a->loss[i] - b->loss[i]) / a->loss[i]);
  return most;
}

static pr_result whole, parts;

TS_TESTS_BETWEEN(NULL, pr_close_data)

TS_TESTS(as_one_batch, 0, 3) {
  static const char *const counts[] = {"run.accumulate=2", "run.accumulate=5"};
  static const char *const modes[] = {"optimizer.in_backward=true",
                                      "optimizer.in_backward=false",
                                      "optimizer.clip_norm=0.01"};
  pr_sets s = {0};
  set_plain(&s);
  pr_set(&s, modes[_i]);
  train(&whole, &s, -1);
  ck_assert_int_eq(whole.n, 7);
  for (int i = 0; i < 2; i++) {
    pr_sets m = s;
    pr_set(&m, counts[i]);
    train(&parts, &m, -1);
    const double d = far(&whole, &parts);
    ck_assert_msg(d < 1e-6, "losses differ by %g", d);
    ck_assert_all(whole.state != parts.state); /* other sums */
  }
}

TS_TEST(pipelines) {
  static const char *const kinds[] = {"pipeline.kind=sparse_dist",
                                      "pipeline.kind=fused_sparse_dist",
                                      "pipeline.kind=prefetch"};
  pr_sets s = {0};
  pr_set(&s, "run.accumulate=3");
  pr_set(&s, "pipeline.kind=base");
  train(&whole, &s, -1);
  for (int i = 0; i < 3; i++) {
    pr_sets p = {0};
    pr_set(&p, "run.accumulate=3");
    pr_set(&p, kinds[i]);
    pr_set(&p, i ? "run.lanes=parallel" : "run.lanes=serial");
    pr_set(&p, i ? "data.input=columns" : "data.input=kjt");
    pr_kernel_hooks.dense_update_us = i == 1 ? 200 : 0;
    train(&parts, &p, -1);
    pr_kernel_hooks.dense_update_us = 0;
    ck_assert_all(pr_same(&whole, &parts));
  }
}

/* Step 3 of 7 is left out, as one batch and as its second of two parts. */
TS_TESTS(left_out, 0, 2) {
  static const char *const kinds[] = {"dense.parallel=ddp",
                                      "dense.parallel=fully_sharded"};
  pr_sets s = {0};
  set_plain(&s);
  pr_set(&s, kinds[_i]);
  train(&whole, &s, 2);
  ck_assert_all(isnan(whole.loss[2]) && !isnan(whole.loss[3]));
  pr_set(&s, "run.accumulate=2");
  train(&parts, &s, 5);
  ck_assert_all(isnan(parts.loss[2]));
  const double d = far(&whole, &parts);
  ck_assert_msg(d < 1e-6, "losses differ by %g", d);
}

/* A step that is left out for its second part's loss: that its first part's
 * gradient was infinite is nothing to the steps after it. */
TS_TEST(left_out_gradient) {
  pr_run r;
  pr_sets s = {0};
  set_plain(&s);
  pr_set(&s, "run.accumulate=2");
  pr_start(&r, NULL, &s);
  real_loss = r.t->kernels.loss;
  r.t->kernels.loss = loss;
  n_losses = 0;
  infinite_at = 2;
  nan_at = 3;
  for (int step = 0; step < 4; step++) {
    ts_step_result result;
    ck_assert_ok(ts_pipeline_step(r.t, r.loader, 0, &result));
    ck_assert_all(result.skipped == (step == 1));
    ck_assert_all(!result.broken);
    r.t->step += !result.skipped;
  }
  infinite_at = -1;
  pr_stop(&r);
}

TS_TEST(semi_sync_refuses) {
  pr_sets s = {0};
  ts_config *c;
  ts_trainer *t;
  pr_set(&s, "run.accumulate=2");
  pr_set(&s, "pipeline.kind=semi_sync");
  ck_assert_ok(ts_deck_parse(&c, pr_deck, "/tmp", s.item, s.n));
  ck_assert_ok(ts_trainer_start(&t, c, true));
  ck_assert_all(ts_trainer_build(t, NULL) == TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "semi_sync"));
  ts_err_clear();
  ts_trainer_destroy(t);
  ts_deck_destroy(c);
}
