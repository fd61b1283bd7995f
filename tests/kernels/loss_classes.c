/* loss_classes.c - the contract of loss and tally for tasks of classes, beside
 * tasks of one logit: the oracle's figures, and the oracle's against a plain
 * softmax in double, finite differences and values of torch's CrossEntropyLoss.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 120 */
#include "base/mem.h"
#include "dense/tally.h"
#include "dense/update.h"
#include "tests/support/contract.h"

enum { TASKS = 5, LOGITS = 14, SCALE = 777 };
static const ts_task_loss tasks[TASKS] = {
    {.kind = TS_LOSS_CLASSES, .classes = 3, .weight = 0.7},
    {.kind = TS_LOSS_BCE, .first = 3, .weight = 1.1},
    {.kind = TS_LOSS_CLASSES,
     .first = 4,
     .classes = 2,
     .weight = 1,
     .smoothing = 0.1},
    {.kind = TS_LOSS_CLASSES,
     .first = 6,
     .classes = 7,
     .weight = 1.3,
     .smoothing = 0.3,
     .learnt = true},
    {.kind = TS_LOSS_MSE, .first = 13, .weight = 0.2}};
static const float log_variances[TASKS] = {0, 0, 0, 0.5f, 0};

static float unit(void) {
  return (float)(kt_bits() >> 8) * 0x1p-24f;
}

/* The same twice: a second run must give the first one's bits. */
typedef struct loss_case {
  ts_loss_args a, again;
} loss_case;

KT_CALL_TWICE(run_loss, loss, loss_case)

/* Labels are classes; some none of them, which count as little as none. */
static float label(const ts_task_loss *t) {
  if (kt_bits() % 9 == 0) return NAN;
  if (!t->classes) return (float)(kt_bits() % 2);
  if (kt_bits() % 9 == 0) return kt_bits() % 2 ? -1.0f : (float)t->classes;
  return (float)kt_below(t->classes);
}

static void outputs(ts_loss_args *a) {
  a->loss_sum = kt_own(1, 8);
  a->grad = kt_own(a->batch * LOGITS, 4);
  a->prediction = kt_own(a->batch * LOGITS, 4);
  a->log_variance_grad = kt_own(TASKS, 4);
}

static void make(loss_case *c, int64_t batch, bool special) {
  static const float specials[] = {0.0f,   800.0f, -800.0f,
                                   1e-30f, 3e38f,  -3e38f};
  kt_begin();
  float *z = kt_array(batch * LOGITS, 4, 0), *y = kt_array(batch * TASKS, 4, 0);
  float *w = kt_array(batch, 4, 0);
  for (int64_t i = 0; i < batch * LOGITS; i++) {
    z[i] = 12 * unit() - 6;
    if (special && i % LOGITS < 13 && kt_bits() % 8 == 0)
      z[i] = specials[kt_bits() % 6];
  }
  for (int64_t i = 0; i < batch * TASKS; i++) y[i] = label(&tasks[i % TASKS]);
  for (int64_t i = 0; i < batch; i++) w[i] = kt_bits() % 5 ? 3 * unit() : 0.0f;
  c->a = (ts_loss_args){.logits = z,
                        .labels = y,
                        .weights = w,
                        .tasks = tasks,
                        .log_variance = kt_copy(log_variances, TASKS, 4),
                        .scale = 1.0 / SCALE,
                        .batch = batch,
                        .n_tasks = TASKS,
                        .n_logits = LOGITS};
  c->again = c->a;
  outputs(&c->a);
  outputs(&c->again);
}

static void near_to(const float *p, const float *again, int64_t n) {
  const float *want = kt_ref(p), *got = kt_got(p);
  ck_assert_mem_eq(got, kt_got(again), (size_t)n * 4);
  for (int64_t i = 0; i < n; i++)
    ck_assert_double_le(fabs((double)want[i] - (double)got[i]),
                        fabs((double)want[i]) * 0x1p-23);
}

static void look_loss(const void *arg) {
  const loss_case *c = arg;
  const double got = *(double *)kt_got(c->a.loss_sum);
  const double want = *(double *)kt_ref(c->a.loss_sum);
  ck_assert_mem_eq(&got, kt_got(c->again.loss_sum), 8);
  ck_assert_double_le(fabs(got - want), 1e-12 * fabs(want));
  near_to(c->a.grad, c->again.grad, c->a.batch * LOGITS);
  near_to(c->a.prediction, c->again.prediction, c->a.batch * LOGITS);
  near_to(c->a.log_variance_grad, c->again.log_variance_grad, TASKS);
}

KT_CONTRACT("loss tally")

TS_TESTS(classes, 0, 2) {
  static const int64_t sizes[] = {0, 1, 5, 204, 205, 1000};
  for (int s = 0; s < TEST_COUNT(sizes); s++) {
    loss_case c;
    make(&c, sizes[s], _i);
    kt_look(look_loss);
    kt_check(run_loss, &c);
  }
}

/* ---- against a plain softmax --------------------------------------------- */

static double probability(const double *z, int n, int c) {
  double sum = 0;
  for (int k = 0; k < n; k++) sum += exp(z[k] - z[c]);
  return 1 / sum;
}

static double formula(const ts_task_loss *t, const double *z, int y) {
  double loss = 0;
  if (t->kind == TS_LOSS_MSE) return (z[0] - y) * (z[0] - y);
  if (t->kind == TS_LOSS_BCE) return log1p(exp(y ? -z[0] : z[0]));
  for (int c = 0; c < t->classes; c++) {
    const double share =
        (1 - t->smoothing) * (c == y) + t->smoothing / t->classes;
    loss -= share * log(probability(z, t->classes, c));
  }
  return loss;
}

static bool counts(const ts_task_loss *t, float y) {
  return !isnan(y) && (!t->classes || (y >= 0 && y < (float)t->classes));
}

TS_TEST(classes_against_formula) {
  loss_case c;
  double want = 0, learnt = 0;
  int n_void = 0;
  make(&c, 400, false);
  kt_look(look_loss);
  kt_check(run_loss, &c);
  const float *grad = kt_ref(c.a.grad), *p = kt_ref(c.a.prediction);
  for (int64_t i = 0; i < c.a.batch * TASKS; i++) {
    const ts_task_loss *t = &tasks[i % TASKS];
    const int n = t->classes ? t->classes : 1;
    const int64_t at = i / TASKS * LOGITS + t->first;
    const double own = (double)c.a.weights[i / TASKS], h = 1e-6;
    const double w = own * (t->learnt ? exp(-0.5) : t->weight);
    const float y = c.a.labels[i];
    double z[7];
    for (int k = 0; k < n; k++) z[k] = (double)c.a.logits[at + k];
    if (t->learnt) want += own * 0.25, learnt += own * 0.5;
    for (int k = 0; t->classes && k < n; k++)
      ck_assert_double_eq_tol((double)p[at + k], probability(z, n, k), 1e-7);
    if (!counts(t, y)) {
      for (int k = 0; k < n; k++) ck_assert_float_eq(grad[at + k], 0);
      n_void++;
      continue;
    }
    const double loss = formula(t, z, (int)y);
    want += w * loss;
    if (t->learnt) learnt -= w * loss;
    for (int k = 0; k < n; k++) {
      const double before = z[k];
      z[k] = before + h;
      const double above = formula(t, z, (int)y);
      z[k] = before - h;
      const double slope = (above - formula(t, z, (int)y)) / 2 / h;
      z[k] = before;
      ck_assert_double_eq_tol((double)grad[at + k] * SCALE, w * slope,
                              1e-6 * w * (1 + fabs(slope)) + 1e-12);
    }
  }
  ck_assert_int_gt(n_void, 100);
  ck_assert_double_eq_tol(*(double *)kt_ref(c.a.loss_sum), want, 1e-7 * want);
  ck_assert_double_eq_tol((double)((float *)kt_ref(c.a.log_variance_grad))[3] *
                              SCALE,
                          learnt, 1e-6 * fabs(want));
}

/* CrossEntropyLoss()([[1, 2, 3]], [2]), and with label_smoothing = 0.1; and of
 * logits whose exp overflows. */
TS_TEST(classes_of_torch) {
  static const double want[3] = {0.40760596444438, 0.50760596444438, 2000};
  static const float z[3][3] = {{1, 2, 3}, {1, 2, 3}, {1000, 0, -1000}};
  const float y = 2;
  for (int i = 0; i < 3; i++) {
    const ts_task_loss task = {.kind = TS_LOSS_CLASSES,
                               .classes = 3,
                               .weight = 1,
                               .smoothing = i == 1 ? 0.1 : 0};
    double sum;
    float grad[3];
    const ts_loss_args a = {.loss_sum = &sum,
                            .grad = grad,
                            .logits = z[i],
                            .labels = &y,
                            .tasks = &task,
                            .scale = 1,
                            .batch = 1,
                            .n_tasks = 1,
                            .n_logits = 3};
    ck_assert_ok(ts_loss_host(&a));
    ck_assert_double_eq_tol(sum, want[i], 1e-12);
    ck_assert_double_eq_tol((double)(grad[0] + grad[1] + grad[2]), 0, 1e-7);
  }
}

/* ---- metrics ------------------------------------------------------------- */

enum { CLASSES = 4, N = 1500 };

KT_CALL(run_tally, tally, ts_tally_args)

static void look_tally(const void *arg) {
  const ts_tally_args *a = arg;
  const double *want = kt_ref(a->sums), *got = kt_got(a->sums);
  for (int k = 0; k < 6; k++)
    ck_assert_double_le(fabs(want[k] - got[k]), 1e-12 * fabs(want[k]));
}

/* Sums and ring take the probability of the label's class; the ring's label is
 * 1 where that class was the likeliest, else 0. */
TS_TEST(tally_classes) {
  const int row = CLASSES + 2;
  double weight = 0, loss = 0, right = 0;
  int64_t at = 0;
  kt_begin();
  float *p = kt_array((int64_t)N * row, 4, 0), *y = kt_array(2 * N, 4, 0);
  float *w = kt_array(N, 4, 0);
  for (int i = 0; i < N * row; i++) p[i] = unit();
  for (int i = 0; i < N; i++) {
    y[2 * i] = label(&(ts_task_loss){.classes = CLASSES});
    w[i] = kt_bits() % 5 ? 3 * unit() : 0.0f;
    if (kt_bits() % 4 == 0) p[row * i + 1] = p[row * i + 2] = 1; /* a tie */
  }
  const ts_tally_args a = {.sums = kt_zeros(1, sizeof(ts_metric_sums)),
                           .place = kt_zeros(1, sizeof(ts_metric_place)),
                           .ring = kt_zeros(N, sizeof(ts_metric_sample)),
                           .limit = N,
                           .prediction = p + 1,
                           .label = y,
                           .weight = w,
                           .n = N,
                           .row = row,
                           .stride = 2,
                           .classes = CLASSES};
  kt_compare(a.sums, KT_OWN);
  kt_look(look_tally);
  kt_check(run_tally, &a);
  const ts_metric_sample *ring = kt_ref(a.ring);
  for (int i = 0; i < N; i++) {
    const float *q = p + (int64_t)row * i + 1;
    const double own = (double)w[i];
    bool told = true;
    if (own == 0 || !(y[2 * i] >= 0 && y[2 * i] < CLASSES)) continue;
    const int k = (int)y[2 * i];
    for (int j = 0; j < CLASSES; j++)
      told &= j < k ? q[j] < q[k] : q[j] <= q[k];
    weight += own;
    loss -= own * log((double)fminf(fmaxf(q[k], 1e-12f), 1));
    right += own * told;
    ck_assert_float_eq(ring[at].p, q[k]);
    ck_assert_float_eq(ring[at].y, told);
    ck_assert_float_eq(ring[at++].w, w[i]);
  }
  const ts_metric_sums *s = kt_ref(a.sums);
  ck_assert_double_eq_tol(s->weight, weight, 1e-9 * weight);
  ck_assert_double_eq_tol(s->loss, loss, 1e-9 * loss);
  ck_assert_double_eq_tol(s->correct, right, 1e-9 * right);
  ck_assert_double_gt(right, 0);
}
