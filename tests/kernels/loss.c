/* loss.c - the contract of bce and tally: sums within 1e-12 of the oracle's,
 * gradients and predictions within one place of f32, the window bit for bit;
 * a second run gives the same bits.  The oracle against plain formulas.
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

static const double task_weights[8] = {1.0, 0.3, 2.5, 0.0, 0.7, 1.1, 1.3, 0.1};

/* The same twice: a second run must give the first one's bits. */
typedef struct bce_case {
  ts_bce_args a, again;
  int64_t n;
  bool nan;
} bce_case;

static ts_err run_bce(const ts_kernels *k, const void *arg) {
  const bce_case *c = arg;
  ts_err err = TS_OK;
  for (int i = 0; i < 2 && err == TS_OK; i++) {
    ts_bce_args a = i ? c->again : c->a;
    kt_at_all(&a, sizeof a);
    err = k->bce(&a);
  }
  return err;
}

/* Written afresh: not among the bytes that are compared. */
static void *own(int64_t n, size_t size) {
  void *p = kt_array(n, size, 0);
  kt_compare(p, KT_OWN);
  return p;
}

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

static void make(bce_case *c, int64_t batch, int32_t n_tasks, int how,
                 bool special) {
  const int64_t n = batch * n_tasks;
  kt_begin();
  float *logits = kt_array(n, 4, 0), *labels = kt_array(n, 4, 0);
  float *weights = kt_array(batch, 4, 0);
  fill(logits, labels, weights, batch, n_tasks, special);
  c->n = n;
  c->nan = false;
  c->a = (ts_bce_args){.loss_sum = own(1, 8),
                       .grad = how != 5 ? own(n, 4) : NULL,
                       .prediction = how != 3 ? own(n, 4) : NULL,
                       .logits = logits,
                       .labels = labels,
                       .weights = how & 2 ? weights : NULL,
                       .task_weights = how & 4 ? task_weights : NULL,
                       .scale = 1.0 / 777,
                       .batch = batch,
                       .n_tasks = n_tasks};
  c->again = c->a;
  c->again.loss_sum = own(1, 8);
  if (c->a.grad) c->again.grad = own(n, 4);
  if (c->a.prediction) c->again.prediction = own(n, 4);
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

static void look_bce(const void *arg) {
  const bce_case *c = arg;
  const double got = *(double *)kt_got(c->a.loss_sum);
  const double want = *(double *)kt_ref(c->a.loss_sum);
  ck_assert_mem_eq(&got, kt_got(c->again.loss_sum), 8);
  ck_assert(c->nan ? isnan(got) && isnan(want)
                   : fabs(got - want) <= 1e-12 * want);
  near_to(c->a.grad, c->again.grad, c->n);
  near_to(c->a.prediction, c->again.prediction, c->n);
}

static void check(const bce_case *c) {
  kt_look(look_bce);
  kt_check(run_bce, c);
}

KT_CONTRACT("bce tally")

TS_TESTS(bce, 0, 2) {
  static const int64_t sizes[] = {0, 1, 5, 1023, 1024, 1025, 3000};
  for (int s = 0; s < TEST_COUNT(sizes); s++)
    for (int k = 0; k < 8; k++) {
      bce_case c;
      make(&c, sizes[s], k % 2 ? 3 : 1, k, _i);
      check(&c);
    }
}

/* More blocks than one round of the last sum has. */
TS_TEST(bce_many) {
  bce_case c;
  make(&c, MOST, 1, 3, false);
  check(&c);
}

TS_TEST(bce_nan) {
  bce_case c;
  make(&c, 2000, 1, 0, false);
  c.nan = true;
  ((float *)(uintptr_t)c.a.logits)[1500] = NAN;
  check(&c);
}

/* The host takes any number of tasks, others so many as go by value. */
TS_TEST(bce_tasks) {
  static double many[65];
  bce_case c = {.a = {.batch = 1, .n_tasks = 65, .task_weights = many}};
  if (!strcmp(ts_test_backend(), "host") || !strcmp(ts_test_backend(), "fake"))
    return;
  kt_refused(run_bce, &c, TS_ERR_DECK, "65 tasks");
}

/* Samples of 1 task and of 3, which do not end with the kernel's blocks. */
TS_TESTS(bce_against_formula, 0, 2) {
  const int n_tasks = _i ? 3 : 1;
  bce_case c;
  double want = 0;
  make(&c, 3000 / n_tasks, n_tasks, _i ? 6 : 2, false);
  float *z = (float *)(uintptr_t)c.a.logits;
  for (int i = 0; i < 3000; i++) z[i] = 80 * unit() - 40;
  check(&c);
  const float *grad = kt_ref(c.a.grad), *p = kt_ref(c.a.prediction);
  for (int i = 0; i < 3000; i++) {
    const float of_task = (float)(_i ? task_weights[i % n_tasks] : 1);
    const double w = (double)(of_task * c.a.weights[i / n_tasks]);
    const double y = (double)c.a.labels[i], x = (double)z[i];
    const double q = 1 / (1 + exp(-x));
    want += w * (fmax(x, 0) - x * y + log1p(exp(-fabs(x))));
    ck_assert_float_eq_tol(grad[i], (float)(w * (q - y) / 777), 4e-9f);
    ck_assert_float_eq_tol(p[i], (float)q, 2e-7f);
  }
  ck_assert_double_eq_tol(*(double *)kt_ref(c.a.loss_sum), want, 1e-9 * want);
}

/* More blocks than have a place on the stack: n ln 2 where all logits are 0. */
TS_TEST(loss_of_a_large_batch) {
  enum { LARGE = 1024 * 513 + 7 };
  double sum = 0;
  float *zeros = NULL;
  ck_assert_ok(ts_mem_array(&zeros, LARGE, 4, TS_TAG_MISC));
  const ts_bce_args a = {.loss_sum = &sum,
                         .logits = zeros,
                         .labels = zeros,
                         .batch = LARGE,
                         .n_tasks = 1};
  const int64_t held = ts_mem_total(TS_SPACE_HOST).now_bytes;
  ck_assert_ok(ts_bce_host(&a));
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
    y[i] = (float)(kt_bits() % 2);
  }
  for (int64_t i = 0; i < n; i++) w[i] = kt_bits() % 5 ? unit() * 3 : 0.0f;
  c->a[c->n++] = (ts_tally_args){.limit = limit,
                                 .prediction = p,
                                 .label = y,
                                 .weight = weighted ? w : NULL,
                                 .n = n,
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
