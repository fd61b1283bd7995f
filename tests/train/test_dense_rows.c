/* test_dense_rows.c - tables of optimizer "none", trained by the deck's: as
 * row optimizers where the two are the same, under every sharding, pipeline
 * and number of micro-batches.
 * ranks: 1 3 4  fake: 1
 * seconds: 400 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fake_device.h"
#include "tests/train/pipe_run.h"
#include "runtime/backends.h"

static const char *const shardings[] = {
    "data_parallel",  "table_wise",        "row_wise", "column_wise",
    "table_row_wise", "table_column_wise", "grid"};
enum { KINDS = 7 };
static const char *const names[KINDS] = {"dp",  "tw",   "rw",  "cw",
                                         "trw", "twcw", "grid"};

/* All tables of pr_deck with one optimizer, in f32. */
static char texts[40][80];
static int n_texts;
static void say(pr_sets *s, const char *table, const char *key,
                const char *value) {
  ck_assert_int_lt(n_texts, 40);
  snprintf(texts[n_texts], sizeof *texts, "tables.%s.%s=%s", table, key, value);
  pr_set(s, texts[n_texts++]);
}

static const char rates[] =
    "optimizer.overrides=( { match = \"sparse_arch.*\"; lr = 0.05; eps = 1e-8; "
    "}, { match = \"*.grid.weight\"; lr = 0.02; eps = 1e-8; } )";

/* SHARDING NULL: each its own.  FUSED: the row optimizer of the same name. */
static void tables(pr_sets *s, const char *fused, const char *sharding) {
  n_texts = 0;
  for (int i = 0; i < KINDS; i++) {
    say(s, names[i], "optimizer.kind", fused ? fused : "none");
    if (fused)
      say(s, names[i], "optimizer.lr",
          strcmp(names[i], "grid") ? "0.05" : "0.02");
    if (sharding) say(s, names[i], "sharding", sharding);
  }
  say(s, "cw", "dtype", "f32");
  say(s, "tw2", "dtype", "f32");
  say(s, "dpb", "dtype", "f32");
  if (strcmp(ts_test_backend(), "fake") != 0) return;
  pr_set(s, "run.backend=cuda"); /* the fake in its place */
  pr_set(s, "comm.backend=mpi");
}

static void start(void) {
  if (!strcmp(ts_test_backend(), "fake")) ts_backend_replace(&ts_fake_backend);
}

static void stop(void) {
  ts_backend_replace(NULL);
  pr_close_data();
}

static double far(const pr_result *a, const pr_result *b) {
  double most = 0;
  ck_assert_all(a->n == b->n && a->n > 0);
  for (int i = 0; i < a->n; i++)
    most = fmax(most, fabs(a->loss[i] - b->loss[i]) / a->loss[i]);
  return most;
}

static pr_result a, b;

TS_TESTS_BETWEEN(start, stop)

/* adagrad: rows without a gradient stay, so it is the same densely; the
 * tables' rates come from overrides by name. */
TS_TEST(as_fused) {
  pr_sets s = {0}, f = {0};
  tables(&s, NULL, NULL);
  pr_set(&s, "optimizer.kind=adagrad");
  pr_set(&s, rates);
  pr_train(&a, NULL, &s);
  tables(&f, "adagrad", NULL);
  pr_set(&f, "optimizer.kind=adagrad");
  pr_train(&b, NULL, &f);
  const double d = far(&a, &b);
  ck_assert_msg(d < 1e-6, "losses differ by %g", d);
  pr_sets other = {0};
  tables(&other, NULL, NULL);
  pr_set(&other, "optimizer.kind=adagrad"); /* without overrides */
  pr_train(&b, NULL, &other);
  ck_assert_all(far(&a, &b) > 1e-5);
}

/* Norms and moments of whole tables, however they are cut. */
TS_TESTS(shardings_agree, 0, 3) {
  static const char *const kinds[] = {
      "optimizer.kind=adamw", "optimizer.kind=lamb", "optimizer.kind=lars"};
  pr_sets s = {0};
  tables(&s, NULL, "data_parallel");
  pr_set(&s, kinds[_i]);
  pr_set(&s, _i == 2 ? "optimizer.eta=0.1" : "optimizer.eps=1e-3");
  pr_train(&a, NULL, &s);
  for (int i = 1; i < KINDS; i++) {
    pr_sets o = {0};
    tables(&o, NULL, shardings[i]);
    pr_set(&o, kinds[_i]);
    pr_set(&o, _i == 2 ? "optimizer.eta=0.1" : "optimizer.eps=1e-3");
    pr_train(&b, NULL, &o);
    const double d = far(&a, &b);
    ck_assert_msg(d < 2e-6, "%s: losses differ by %g", shardings[i], d);
  }
}

/* A lookup of the next batch waits for the dense optimizer of these rows. */
TS_TEST(pipelines) {
  static const char *const kinds[] = {
      "pipeline.kind=sparse_dist", "pipeline.kind=fused_sparse_dist",
      "pipeline.kind=fused_sparse_dist", "pipeline.kind=prefetch"};
  pr_sets s = {0};
  tables(&s, NULL, NULL);
  pr_set(&s, "pipeline.kind=base");
  pr_train(&a, NULL, &s);
  for (int i = 0; i < 4; i++) {
    pr_sets p = {0};
    tables(&p, NULL, NULL);
    pr_set(&p, kinds[i]);
    pr_set(&p, i == 1 ? "pipeline.lookup_lane=own"
                      : "pipeline.lookup_lane=data_dist");
    pr_set(&p, i == 1 ? "pipeline.lookup=before_optimizer"
                      : "pipeline.lookup=after_optimizer");
    pr_kernel_hooks.dense_update_us = 500;
    pr_train(&b, NULL, &p);
    pr_kernel_hooks.dense_update_us = 0;
    ck_assert_all(pr_same(&a, &b));
  }
}

TS_TEST(micro_batches) {
  pr_sets s = {0};
  tables(&s, NULL, NULL);
  pr_set(&s, "optimizer.eps=1e-3");
  pr_train(&a, NULL, &s);
  pr_set(&s, "run.accumulate=3");
  pr_train(&b, NULL, &s);
  const double d = far(&a, &b);
  ck_assert_msg(d < 2e-6, "losses differ by %g", d);
}
