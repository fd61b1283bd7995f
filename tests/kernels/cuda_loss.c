/* cuda_loss.c - cases of bce and tally, by the host's kernels and by a
 * target's: sums to 1e-12, gradients and predictions to one place of f32, the
 * window bit for bit; and each run twice, bit for bit. */
#include "tests/kernels/cuda_loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/cuda_numbers.h"
#include "tests/support/harness.h"

enum { MOST = 12000 };
static const loss_target *target;
static ts_kernels host, tested;

static float unit(void) {
  return (float)(bits() >> 8) * 0x1p-24f;
}

/* ---- arrays in both places ----------------------------------------------- */

enum { ARRAYS = 8 };
static struct {
  void *sent, *here;
  size_t bytes;
} arrays[ARRAYS];
static int n_arrays;

static void *lend(void *here, size_t bytes) {
  if (!here) return NULL;
  ck_assert_int_lt(n_arrays, ARRAYS);
  arrays[n_arrays].here = here;
  arrays[n_arrays].bytes = bytes;
  return arrays[n_arrays++].sent = target->send(here, bytes);
}

/* All of them come back. */
static void back(void) {
  while (n_arrays > 0) {
    n_arrays--;
    target->fetch(arrays[n_arrays].here, arrays[n_arrays].sent,
                  arrays[n_arrays].bytes);
    target->drop(arrays[n_arrays].sent);
  }
}

static ts_err bce_task(void *a) {
  return tested.bce(a);
}
static ts_err tally_task(void *a) {
  return tested.tally(a);
}

/* ---- loss ---------------------------------------------------------------- */

typedef struct bce_case {
  int64_t batch;
  int32_t n_tasks;
  bool weights, task_weights, grad, prediction;
} bce_case;

typedef struct bce_out {
  double loss;
  float grad[MOST], prediction[MOST];
} bce_out;

static float logits[MOST], labels[MOST], weights[MOST];
static double task_weights[8] = {1.0, 0.3, 2.5, 0.0, 0.7, 1.1, 1.3, 0.1};

static ts_bce_args bce_args(const bce_case *c, bce_out *out) {
  return (ts_bce_args){.loss_sum = &out->loss,
                       .grad = c->grad ? out->grad : NULL,
                       .prediction = c->prediction ? out->prediction : NULL,
                       .logits = logits,
                       .labels = labels,
                       .weights = c->weights ? weights : NULL,
                       .task_weights = c->task_weights ? task_weights : NULL,
                       .scale = 1.0 / 777,
                       .batch = c->batch,
                       .n_tasks = c->n_tasks};
}

static void bce_there(const bce_case *c, bce_out *out) {
  const size_t n = (size_t)(c->batch * c->n_tasks) * sizeof(float);
  ts_bce_args a = bce_args(c, out);
  memset(out, 0x55, sizeof *out);
  a.loss_sum = lend(a.loss_sum, sizeof(double));
  a.grad = lend(a.grad, n);
  a.prediction = lend(a.prediction, n);
  a.logits = lend(logits, n);
  a.labels = lend(labels, n);
  a.weights = lend((void *)(uintptr_t)a.weights, (size_t)c->batch * 4);
  ck_assert_ok(target->run(bce_task, &a));
  back();
}

static double far(float a, float b) {
  if (isnan(a) && isnan(b)) return 0;
  return a == b ? 0 : fabs((double)a - b) / (fabs((double)a) * 0x1p-23);
}

static void fill(bool special) {
  static const float specials[] = {0.0f,   -0.0f, 800.0f, -800.0f, 1e-30f,
                                   -40.0f, 40.0f, 3e38f,  -3e38f,  0x1p-140f};
  for (int i = 0; i < MOST; i++) {
    logits[i] = 12 * unit() - 6;
    if (special && bits() % 8 == 0) logits[i] = specials[bits() % 10];
    labels[i] = bits() % 3 ? 0.0f : bits() % 4 ? 1.0f : unit();
    weights[i] = bits() % 5 ? unit() * 3 : 0.0f;
  }
}

static void compare(const bce_case *c, bool nan) {
  static bce_out expected, got, again;
  const int64_t n = c->batch * c->n_tasks;
  memset(&expected, 0x55, sizeof expected);
  const ts_bce_args a = bce_args(c, &expected);
  ck_assert_ok(host.bce(&a));
  bce_there(c, &got);
  bce_there(c, &again);
  ck_assert_mem_eq(&got, &again, sizeof got);
  if (target->exact) ck_assert_mem_eq(&got, &expected, sizeof got);
  ck_assert(nan ? isnan(got.loss)
                : fabs(got.loss - expected.loss) <= 1e-12 * expected.loss);
  for (int64_t i = 0; i < n; i++) {
    if (c->grad) ck_assert_double_le(far(expected.grad[i], got.grad[i]), 1);
    if (c->prediction)
      ck_assert_double_le(far(expected.prediction[i], got.prediction[i]), 1);
  }
}

START_TEST(bce) {
  static const int64_t sizes[] = {0, 1, 5, 1023, 1024, 1025, 3000};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int k = 0; k < 8; k++) {
      const bce_case c = {.batch = sizes[s],
                          .n_tasks = k % 2 ? 3 : 1,
                          .weights = k & 2,
                          .task_weights = k & 4,
                          .grad = k != 5,
                          .prediction = k != 3};
      fill(_i);
      compare(&c, false);
    }
}
END_TEST

/* More blocks than one round of the last sum has. */
START_TEST(bce_many) {
  const bce_case c = {.batch = MOST, .n_tasks = 1, .grad = true};
  fill(false);
  compare(&c, false);
}
END_TEST

START_TEST(bce_nan) {
  const bce_case c = {
      .batch = 2000, .n_tasks = 1, .grad = true, .prediction = true};
  fill(false);
  logits[1500] = NAN;
  compare(&c, true);
}
END_TEST

START_TEST(bce_tasks) {
  static double many[65];
  ts_bce_args a = {.batch = 1, .n_tasks = 65, .task_weights = many};
  ck_assert_int_eq(target->run(bce_task, &a), TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "65 tasks"));
  ts_err_clear();
}
END_TEST

/* ---- metrics ------------------------------------------------------------- */

enum { RING = 5000 };
typedef struct tally_out {
  ts_metric_sums sums;
  ts_metric_place place;
  ts_metric_sample ring[RING];
  int32_t nan;
} tally_out;

static void tally_there(ts_tally_args a, tally_out *out, const double *loss) {
  const size_t n = (size_t)(a.n ? (a.n - 1) * a.stride + 1 : 0) * 4;
  a.sums = lend(&out->sums, sizeof out->sums);
  a.place = lend(&out->place, sizeof out->place);
  a.ring = a.limit ? lend(out->ring, (size_t)a.limit * sizeof *a.ring) : NULL;
  a.prediction = lend((void *)(uintptr_t)a.prediction, n);
  a.label = lend((void *)(uintptr_t)a.label, n);
  a.weight = lend((void *)(uintptr_t)a.weight, (size_t)a.n * 4);
  a.loss = lend((void *)(uintptr_t)loss, sizeof *loss);
  a.nan = lend(&out->nan, sizeof out->nan);
  ck_assert_ok(target->run(tally_task, &a));
  back();
}

static void tally_here(ts_tally_args a, tally_out *out, const double *loss) {
  a.sums = &out->sums;
  a.place = &out->place;
  a.ring = out->ring;
  a.loss = loss;
  a.nan = &out->nan;
  ck_assert_ok(host.tally(&a));
}

static void same_sums(const ts_metric_sums *a, const ts_metric_sums *b) {
  const double *x = (const double *)a, *y = (const double *)b;
  for (int k = 0; k < 6; k++)
    ck_assert_double_le(fabs(x[k] - y[k]), 1e-12 * fabs(x[k]));
}

static void same_tally(const tally_out *a, const tally_out *b) {
  same_sums(&a->sums, &b->sums);
  ck_assert_mem_eq(&a->place, &b->place, sizeof a->place);
  ck_assert_mem_eq(a->ring, b->ring, sizeof a->ring);
  ck_assert_int_eq(a->nan, b->nan);
}

static void fill_predictions(void) {
  fill(false);
  for (int i = 0; i < MOST; i++) {
    logits[i] = bits() % 50 ? unit() : (float)(bits() % 2);
    labels[i] = (float)(bits() % 2);
  }
}

/* Batches of all sizes one after the other, into windows of all sizes. */
START_TEST(tally) {
  static const int64_t limits[] = {0, 1, 7, 1000, 1024, RING};
  static const int64_t sizes[] = {1, 700, 0, 3, 1024, 300, 4000, 6000, 1025, 2};
  static tally_out expected, got, again;
  memset(&expected, 0, sizeof expected);
  memset(&got, 0, sizeof got);
  memset(&again, 0, sizeof again);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    fill_predictions();
    const double loss = 3;
    const int32_t stride = s % 3 == 1 ? 2 : 1;
    const ts_tally_args a = {.limit = limits[_i],
                             .prediction = logits + stride / 2,
                             .label = labels + stride / 2,
                             .weight = s % 4 == 2 ? NULL : weights,
                             .n = sizes[s],
                             .stride = stride};
    tally_here(a, &expected, s % 2 ? &loss : NULL);
    tally_there(a, &got, s % 2 ? &loss : NULL);
    tally_there(a, &again, s % 2 ? &loss : NULL);
    same_tally(&expected, &got);
    ck_assert_mem_eq(&got, &again, sizeof got);
  }
  ck_assert_double_gt(expected.sums.correct, 0);
}
END_TEST

/* A step whose loss is no number leaves a word, and nothing else. */
START_TEST(tally_nan) {
  static tally_out expected, got;
  const double losses[] = {1, NAN, 2, INFINITY};
  for (int s = 0; s < 4; s++) {
    fill_predictions();
    if (s % 2) logits[3] = NAN;
    const ts_tally_args a = {.limit = 1000,
                             .prediction = logits,
                             .label = labels,
                             .n = 600,
                             .stride = 1};
    tally_here(a, &expected, &losses[s]);
    tally_there(a, &got, &losses[s]);
    same_tally(&expected, &got);
    ck_assert_int_eq(got.nan, s > 0);
  }
  ck_assert_double_eq(got.sums.n, 1200);
}
END_TEST

static void start(void) {
  ck_assert_ok(ts_kernels_fill(&host, "host", NULL));
  if (target->start) target->start();
  target->kernels(&tested);
}

static void stop(void) {
  if (target->stop) target->stop();
}

Suite *cuda_loss_suite(const char *name, const loss_target *t) {
  Suite *s = suite_create(name);
  TCase *c = tcase_create("loss");
  target = t;
  tcase_add_unchecked_fixture(c, start, stop);
  tcase_add_loop_test(c, bce, 0, 2);
  tcase_add_test(c, bce_many);
  tcase_add_test(c, bce_nan);
  tcase_add_test(c, bce_tasks);
  tcase_add_loop_test(c, tally, 0, 6);
  tcase_add_test(c, tally_nan);
  suite_add_tcase(s, c);
  return s;
}
