/* loss.c - the contract of loss and tally: sums within 1e-12 of the oracle's,
 * gradients and predictions within one place of f32, the window bit for bit;
 * a second run gives the same bits.  The oracle against plain formulas and
 * finite differences.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "base/mem.h"
#include "dense/tally.h"
#include "dense/update.h"
#include "tests/support/contract.h"

enum { MOST = 12000 };

static float unit(void) {
  return (float)(kt_bits() >> 8) * 0x1p-24f;
}

/* ---- loss ---------------------------------------------------------------- */

static const ts_task_loss plain[3] = {
    {.weight = 1.0}, {.first = 1, .weight = 0.3}, {.first = 2, .weight = 2.5}};
static const ts_task_loss kinds[10] = {
    {.kind = TS_LOSS_MSE, .weight = 0.7},
    {.kind = TS_LOSS_BCE, .first = 1, .weight = 1.1, .smoothing = 0.1},
    {.kind = TS_LOSS_PROBABILITY, .first = 2, .weight = 1.3},
    {.kind = TS_LOSS_MAE, .first = 3, .weight = 1},
    {.kind = TS_LOSS_HUBER, .first = 4, .weight = 0.1, .delta = 0.75},
    {.kind = TS_LOSS_POISSON, .first = 5, .weight = 2.5},
    {.kind = TS_LOSS_PROBABILITY, .first = 6, .weight = 1, .smoothing = 0.3},
    {.kind = TS_LOSS_BCE, .first = 7, .weight = 0},
    {.kind = TS_LOSS_HUBER, .first = 8, .weight = 1, .delta = 2},
    {.kind = TS_LOSS_GIVEN, .first = 9, .weight = 0.6}};

/* The same twice: a second run must give the first one's bits. */
typedef struct loss_case {
  ts_loss_args a, again;
  int64_t n;
  bool nan;
} loss_case;

/* s of each. */
enum { KINDS = sizeof kinds / sizeof *kinds };
static const float log_variances[KINDS] = {0.5f, -1, 0.25f, 2,    -0.5f,
                                           1,    0,  3,     -2.0f};

KT_CALL_TWICE(run_loss, loss, loss_case)

static void fill(float *logits, float *labels, float *weights, int64_t n,
                 int n_tasks, bool special) {
  static const float specials[] = {0.0f,   -0.0f, 800.0f, -800.0f, 1e-30f,
                                   -40.0f, 40.0f, 3e38f,  -3e38f,  0x1p-140f};
  for (int64_t i = 0; i < n * n_tasks; i++) {
    logits[i] = 12 * unit() - 6;
    if (special && kt_bits() % 8 == 0) logits[i] = specials[kt_bits() % 10];
    labels[i] = kt_bits() % 3 ? 0.0f : kt_bits() % 4 ? 1.0f : unit();
  }
  for (int64_t i = 0; i < n; i++)
    weights[i] = kt_bits() % 5 ? unit() * 3 : 0.0f;
}

static void make(loss_case *c, int64_t batch, int32_t n_tasks, int how,
                 bool special) {
  const int64_t n = batch * n_tasks;
  kt_begin();
  float *logits = kt_array(n, 4, 0), *labels = kt_array(n, 4, 0);
  float *weights = kt_array(batch, 4, 0);
  fill(logits, labels, weights, batch, n_tasks, special);
  c->n = n;
  c->nan = false;
  c->a = (ts_loss_args){.loss_sum = kt_own(1, 8),
                        .grad = how != 5 ? kt_own(n, 4) : NULL,
                        .prediction = how != 3 ? kt_own(n, 4) : NULL,
                        .logits = logits,
                        .labels = labels,
                        .weights = how & 2 ? weights : NULL,
                        .tasks = how & 4 ? plain : NULL,
                        .scale = 1.0 / 777,
                        .batch = batch,
                        .n_tasks = n_tasks,
                        .n_logits = n_tasks};
  c->again = c->a;
  c->again.loss_sum = kt_own(1, 8);
  if (c->a.grad) c->again.grad = kt_own(n, 4);
  if (c->a.prediction) c->again.prediction = kt_own(n, 4);
}

/* Places of f32 between two numbers. */
static double far(float a, float b) {
  if (isnan(a) && isnan(b)) return 0;
  return a == b ? 0 : fabs((double)a - b) / (fabs((double)a) * 0x1p-23);
}

static void near_to(const float *p, const float *again, int64_t n) {
  const float *want, *got;
  if (!p) return;
  want = kt_ref(p), got = kt_got(p);
  ck_assert_mem_eq(got, kt_got(again), (size_t)n * 4);
  for (int64_t i = 0; i < n; i++) ck_assert_double_le(far(want[i], got[i]), 1);
}

static void look_loss(const void *arg) {
  const loss_case *c = arg;
  const double got = *(double *)kt_got(c->a.loss_sum);
  const double want = *(double *)kt_ref(c->a.loss_sum);
  ck_assert_mem_eq(&got, kt_got(c->again.loss_sum), 8);
  ck_assert(c->nan ? isnan(got) && isnan(want)
                   : fabs(got - want) <= 1e-12 * fabs(want));
  near_to(c->a.grad, c->again.grad, c->n);
  near_to(c->a.log_variance_grad, c->again.log_variance_grad, KINDS);
  near_to(c->a.prediction, c->again.prediction, c->n);
}

static void check(const loss_case *c) {
  kt_look(look_loss);
  kt_check(run_loss, c);
}

KT_CONTRACT("loss tally")

TS_TESTS(bce, 0, 2) {
  static const int64_t sizes[] = {0, 1, 5, 1023, 1024, 1025, 3000};
  for (int s = 0; s < TEST_COUNT(sizes); s++)
    for (int k = 0; k < 8; k++) {
      loss_case c;
      make(&c, sizes[s], k % 2 ? 3 : 1, k, _i);
      check(&c);
    }
}

/* More blocks than one round of the last sum has. */
TS_TEST(bce_many) {
  loss_case c;
  make(&c, MOST, 1, 3, false);
  check(&c);
}

TS_TEST(bce_nan) {
  loss_case c;
  make(&c, 2000, 1, 0, false);
  c.nan = true;
  ((float *)(uintptr_t)c.a.logits)[1500] = NAN;
  check(&c);
}

/* The host takes any number of tasks, others so many as go by value. */
TS_TEST(bce_tasks) {
  static ts_task_loss many[65];
  loss_case c = {
      .a = {.batch = 1, .n_tasks = 65, .n_logits = 65, .tasks = many}};
  if (!strcmp(ts_test_backend(), "host") || !strcmp(ts_test_backend(), "fake"))
    return;
  kt_refused(run_loss, &c, TS_ERR_DECK, "65 tasks");
}

/* Samples of 1 task and of 3, which do not end with the kernel's blocks. */
TS_TESTS(bce_against_formula, 0, 2) {
  const int n_tasks = _i ? 3 : 1;
  loss_case c;
  double want = 0;
  make(&c, 3000 / n_tasks, n_tasks, _i ? 6 : 2, false);
  float *z = (float *)(uintptr_t)c.a.logits;
  for (int i = 0; i < 3000; i++) z[i] = 80 * unit() - 40;
  check(&c);
  const float *grad = kt_ref(c.a.grad), *p = kt_ref(c.a.prediction);
  for (int i = 0; i < 3000; i++) {
    const float of_task = (float)(_i ? plain[i % n_tasks].weight : 1);
    const double w = (double)(of_task * c.a.weights[i / n_tasks]);
    const double y = (double)c.a.labels[i], x = (double)z[i];
    const double q = 1 / (1 + exp(-x));
    want += w * (fmax(x, 0) - x * y + log1p(exp(-fabs(x))));
    ck_assert_float_eq_tol(grad[i], (float)(w * (q - y) / 777), 4e-9f);
    ck_assert_float_eq_tol(p[i], (float)q, 2e-7f);
  }
  ck_assert_double_eq_tol(*(double *)kt_ref(c.a.loss_sum), want, 1e-9 * want);
}

/* ---- all kinds ----------------------------------------------------------- */

/* Outputs that each kind takes; some labels don't count. */
static void make_kinds(loss_case *c, int64_t batch, bool weighted) {
  make(c, batch, KINDS, weighted ? 2 : 0, false);
  float *z = (float *)(uintptr_t)c->a.logits;
  float *y = (float *)(uintptr_t)c->a.labels;
  c->a.tasks = c->again.tasks = kinds;
  for (int64_t i = 0; i < c->n; i++) {
    const ts_loss_kind kind = kinds[i % KINDS].kind;
    if (kind == TS_LOSS_PROBABILITY)
      z[i] = kt_bits() % 20 ? unit() : (float)(kt_bits() % 2);
    if (kind == TS_LOSS_POISSON) y[i] = (float)(kt_bits() % 9);
    if (kind >= TS_LOSS_MSE && kind <= TS_LOSS_HUBER) y[i] = 6 * unit() - 3;
    if (kt_bits() % 30 == 0) z[i] = y[i];
    if (kt_bits() % 6 == 0) y[i] = NAN;
  }
}

static ts_task_loss learnt[KINDS];

/* The same, most of the weights learnt. */
static void make_learnt(loss_case *c, int64_t batch, bool weighted) {
  make_kinds(c, batch, weighted);
  for (int k = 0; k < KINDS; k++) {
    learnt[k] = kinds[k];
    learnt[k].learnt = k != 3 && k != KINDS - 1;
  }
  float *s = kt_copy(log_variances, KINDS, 4);
  c->a.tasks = c->again.tasks = learnt;
  c->a.log_variance = c->again.log_variance = s;
  c->a.log_variance_grad = kt_own(KINDS, 4);
  c->again.log_variance_grad = kt_own(KINDS, 4);
}

/* Each kind from its formula alone, in another form than the kernel's. */
static double formula(const ts_task_loss *t, double z, double y) {
  const double d = fabs(z - y), s = t->smoothing;
  if (t->kind <= TS_LOSS_PROBABILITY) y = (1 - s) * y + s / 2;
  switch (t->kind) {
  case TS_LOSS_BCE:
    return y * log1p(exp(-z)) + (1 - y) * log1p(exp(z));
  case TS_LOSS_PROBABILITY:
    return y * fmin(-log(z), 100) + (1 - y) * fmin(-log1p(-z), 100);
  case TS_LOSS_MSE:
    return d * d;
  case TS_LOSS_MAE:
    return d;
  case TS_LOSS_HUBER:
    return d <= t->delta ? d * d / 2 : t->delta * d - t->delta * t->delta / 2;
  case TS_LOSS_POISSON:
    return exp(z) - y * z;
  case TS_LOSS_GIVEN:
    return z;
  case TS_LOSS_CLASSES: /* of several logits: formula_of_classes */
    break;
  }
  return NAN;
}

static double told(const ts_task_loss *t, double z) {
  return t->kind == TS_LOSS_BCE       ? 1 / (1 + exp(-z))
         : t->kind == TS_LOSS_POISSON ? exp(z)
                                      : z;
}

/* Where the derivative is that of the formula: not at a corner, not where
 * logarithms have an end. */
static bool is_smooth(const ts_task_loss *t, double z, double y) {
  const double d = fabs(z - y);
  if (t->kind == TS_LOSS_PROBABILITY) return z > 1e-3 && z < 1 - 1e-3;
  if (t->kind == TS_LOSS_MAE) return d > 1e-4;
  return t->kind != TS_LOSS_HUBER || fabs(d - t->delta) > 1e-4;
}

TS_TESTS(loss_kinds, 0, 2) {
  const int64_t batch = 500;
  loss_case c;
  double want = 0;
  int n_smooth = 0, n_void = 0;
  make_kinds(&c, batch, _i);
  check(&c);
  const float *grad = kt_ref(c.a.grad), *p = kt_ref(c.a.prediction);
  for (int64_t i = 0; i < c.n; i++) {
    const ts_task_loss *t = &kinds[i % KINDS];
    const double z = (double)c.a.logits[i], y = (double)c.a.labels[i];
    const double w =
        (double)((float)t->weight * (_i ? c.a.weights[i / KINDS] : 1.0f));
    const double h = 1e-6;
    ck_assert_double_eq_tol((double)p[i], told(t, z),
                            2e-7 * (1 + fabs(told(t, z))));
    if (isnan(y)) {
      ck_assert_float_eq(grad[i], 0);
      n_void++;
      continue;
    }
    want += w * formula(t, z, y);
    if (!is_smooth(t, z, y)) continue;
    const double slope = (formula(t, z + h, y) - formula(t, z - h, y)) / 2 / h;
    ck_assert_double_eq_tol((double)grad[i] * 777, w * slope,
                            1e-5 * w * (1 + fabs(slope)) + 1e-15);
    n_smooth++;
  }
  ck_assert_int_gt(n_smooth, (int)c.n / 2);
  ck_assert_int_gt(n_void, (int)c.n / 10);
  ck_assert_double_eq_tol(*(double *)kt_ref(c.a.loss_sum), want, 1e-9 * want);
}

/* The sum at log variances S. */
static double sum_at(const loss_case *c, const double *s) {
  double sum = 0;
  for (int64_t i = 0; i < c->n; i++) {
    const int k = (int)(i % KINDS);
    const ts_task_loss *t = &learnt[k];
    const double y = (double)c->a.labels[i], z = (double)c->a.logits[i];
    const double w = c->a.weights ? (double)c->a.weights[i / KINDS] : 1;
    const bool number = t->kind >= TS_LOSS_MSE && t->kind <= TS_LOSS_HUBER;
    const double of_task =
        t->learnt ? exp(-s[k]) / (number ? 2 : 1) : t->weight;
    if (t->learnt) sum += w * s[k] / 2;
    if (!isnan(y)) sum += w * of_task * formula(t, z, y);
  }
  return sum;
}

/* Loss and derivatives by what is learnt. */
TS_TESTS(loss_learnt, 0, 4) {
  static const int64_t sizes[] = {0, 1, 700, 3000};
  loss_case c;
  double s[KINDS];
  make_learnt(&c, sizes[_i], _i % 2);
  check(&c);
  for (int k = 0; k < KINDS; k++) s[k] = (double)log_variances[k];
  const float *grad = kt_ref(c.a.log_variance_grad);
  const double want = sum_at(&c, s);
  ck_assert_double_eq_tol(*(double *)kt_ref(c.a.loss_sum), want,
                          1e-7 * fabs(want) + 1e-12);
  for (int k = 0; k < KINDS; k++) {
    const double h = 1e-5, at = s[k];
    s[k] = at + h;
    const double above = sum_at(&c, s);
    s[k] = at - h;
    const double slope = (above - sum_at(&c, s)) / 2 / h;
    s[k] = at;
    ck_assert_double_eq_tol((double)grad[k] * 777, slope,
                            1e-6 * (fabs(slope) + fabs(want)) + 1e-9);
  }
}

/* At corners and ends the derivative is torch's. */
TS_TEST(loss_corners) {
  static const ts_task_loss task[4] = {
      {.kind = TS_LOSS_MAE, .weight = 1},
      {.kind = TS_LOSS_HUBER, .first = 1, .weight = 1, .delta = 0.5},
      {.kind = TS_LOSS_PROBABILITY, .first = 2, .weight = 1},
      {.kind = TS_LOSS_PROBABILITY, .first = 3, .weight = 1}};
  const float z[4] = {3, 1.5f, 0, 1}, y[4] = {3, 1, 1, 0};
  float grad[4];
  double sum;
  const ts_loss_args a = {.loss_sum = &sum,
                          .grad = grad,
                          .logits = z,
                          .labels = y,
                          .tasks = task,
                          .scale = 1,
                          .batch = 1,
                          .n_tasks = 4,
                          .n_logits = 4};
  ck_assert_ok(ts_loss_host(&a));
  ck_assert_double_eq_tol(sum, 0.125 + 200, 1e-12);
  ck_assert_float_eq(grad[0], 0);
  ck_assert_float_eq(grad[1], 0.5f);
  ck_assert_float_eq(grad[2], -1e12f);
  ck_assert_float_eq(grad[3], 1e12f);
}

/* Weights of 1 say nothing: the bits are those of no tasks at all. */
TS_TEST(loss_plain_bits) {
  static const ts_task_loss ones[3] = {
      {.weight = 1}, {.first = 1, .weight = 1}, {.first = 2, .weight = 1}};
  loss_case c, d;
  make(&c, 700, 3, 2, true);
  d = c;
  d.a.tasks = ones;
  ck_assert_ok(ts_loss_host(&c.a));
  d.a.loss_sum = d.again.loss_sum;
  d.a.grad = d.again.grad;
  d.a.prediction = d.again.prediction;
  ck_assert_ok(ts_loss_host(&d.a));
  ck_assert_mem_eq(c.a.loss_sum, d.a.loss_sum, 8);
  ck_assert_mem_eq(c.a.grad, d.a.grad, (size_t)c.n * 4);
  ck_assert_mem_eq(c.a.prediction, d.a.prediction, (size_t)c.n * 4);
}

/* More blocks than have a place on the stack: n ln 2 where all logits are 0. */
TS_TEST(loss_of_a_large_batch) {
  enum { LARGE = 1024 * 513 + 7 };
  double sum = 0;
  float *zeros = NULL;
  ck_assert_ok(ts_mem_array(&zeros, LARGE, 4, TS_TAG_MISC));
  const ts_loss_args a = {.loss_sum = &sum,
                          .logits = zeros,
                          .labels = zeros,
                          .batch = LARGE,
                          .n_tasks = 1,
                          .n_logits = 1};
  const int64_t held = ts_mem_total(TS_SPACE_HOST).now_bytes;
  ck_assert_ok(ts_loss_host(&a));
  ck_assert_double_le(fabs(sum - LARGE * log(2)), 1e-12 * LARGE);
  ck_assert_int_eq(ts_mem_total(TS_SPACE_HOST).now_bytes, held);
  ts_mem_free(zeros);
}

/* ---- metrics ------------------------------------------------------------- */

enum { RING = 5000, BATCHES = 10 };

/* Batches one after the other; all of it twice. */
typedef struct tally_case {
  ts_tally_args a[BATCHES], place[2];
  int n;
} tally_case;

static ts_err run_tally(const ts_kernels *k, const void *arg) {
  const tally_case *c = arg;
  ts_err err = TS_OK;
  for (int i = 0; i < 2 * c->n && err == TS_OK; i++) {
    const ts_tally_args *own = &c->place[i / c->n];
    ts_tally_args a = c->a[i % c->n];
    a.sums = own->sums;
    a.place = own->place;
    a.ring = a.limit ? own->ring : NULL;
    a.nan = own->nan;
    kt_at_all(&a, sizeof a);
    err = k->tally(&a);
  }
  return err;
}

static void begin_tally(tally_case *c) {
  memset(c, 0, sizeof *c);
  kt_begin();
  for (int i = 0; i < 2; i++) {
    c->place[i] =
        (ts_tally_args){.sums = kt_zeros(1, sizeof(ts_metric_sums)),
                        .place = kt_zeros(1, sizeof(ts_metric_place)),
                        .ring = kt_zeros(RING, sizeof(ts_metric_sample)),
                        .nan = kt_zeros(1, 4)};
    kt_compare(c->place[i].sums, KT_OWN);
  }
}

static void add_tally(tally_case *c, int64_t limit, int64_t n, int32_t stride,
                      bool weighted, const double *loss) {
  const int64_t m = n ? (n - 1) * stride + 1 : 0;
  float *p = kt_array(m, 4, 0), *y = kt_array(m, 4, 0);
  float *w = kt_array(n, 4, 0);
  for (int64_t i = 0; i < m; i++) {
    p[i] = kt_bits() % 50 ? unit() : (float)(kt_bits() % 2);
    y[i] = !weighted || kt_bits() % 9 ? (float)(kt_bits() % 2) : NAN;
  }
  for (int64_t i = 0; i < n; i++) w[i] = kt_bits() % 5 ? unit() * 3 : 0.0f;
  c->a[c->n++] = (ts_tally_args){.limit = limit,
                                 .prediction = p,
                                 .label = y,
                                 .weight = weighted ? w : NULL,
                                 .n = n,
                                 .row = stride,
                                 .stride = stride,
                                 .loss = kt_copy(loss, 1, 8)};
}

static void look_tally(const void *arg) {
  const tally_case *c = arg;
  const double *want = kt_ref(c->place[0].sums),
               *got = kt_got(c->place[0].sums);
  for (int k = 0; k < 6; k++)
    ck_assert_double_le(fabs(want[k] - got[k]), 1e-12 * fabs(want[k]));
  ck_assert_mem_eq(got, kt_got(c->place[1].sums), sizeof(ts_metric_sums));
  ck_assert_mem_eq(kt_got(c->place[0].ring), kt_got(c->place[1].ring),
                   RING * sizeof(ts_metric_sample));
}

/* Batches of all sizes one after the other, into windows of all sizes. */
TS_TESTS(tally, 0, 6) {
  static const int64_t limits[] = {0, 1, 7, 1000, 1024, RING};
  static const int64_t sizes[BATCHES] = {1,   700,  0,    3,    1024,
                                         300, 4000, 6000, 1025, 2};
  static tally_case c;
  const double loss = 3;
  begin_tally(&c);
  for (int s = 0; s < BATCHES; s++)
    add_tally(&c, limits[_i], sizes[s], s % 3 == 1 ? 2 : 1, s % 4 != 2,
              s % 2 ? &loss : NULL);
  kt_look(look_tally);
  kt_check(run_tally, &c);
  const ts_metric_sums *sums = kt_ref(c.place[0].sums);
  ck_assert_double_gt(sums->correct, 0);
}

/* A step whose loss is no number leaves a word, and nothing else. */
TS_TEST(tally_nan) {
  static const double losses[] = {1, NAN, 2, INFINITY};
  static tally_case c;
  begin_tally(&c);
  for (int s = 0; s < 4; s++) {
    add_tally(&c, 1000, 600, 1, false, &losses[s]);
    if (s % 2) ((float *)(uintptr_t)c.a[s].prediction)[3] = NAN;
    kt_look(look_tally);
    kt_check(run_tally, &c);
    ck_assert_int_eq(*(int32_t *)kt_ref(c.place[0].nan), s > 0);
  }
  ck_assert_double_eq(((ts_metric_sums *)kt_ref(c.place[0].sums))->n, 1200);
}
