/* test_ddp_gaps.c - gradients that lie side by side: on borders, with gaps
 * that nothing is put into and no sum sees.
 * ranks: 1 2 3  fake: 1 2  emulated: 1 */
#include "runtime/arrays.h"
#include "tests/dense/ddp_rig.h"

/* In backward order the last one is the first. */
static const int32_t sizes[] = {3000, 17, 40, 100, 5, 999, 64, 33, 2048, 1};
enum { N_PARAMS = sizeof sizes / sizeof *sizes, MOST = 3000, ALL = 8000 };

static void bucket_deck(double bucket_mb, int micro, double clip_norm) {
  deck("sgd", 0.125);
  c.optimizer.clip_norm = clip_norm;
  c.dense.bucket_mb = bucket_mb;
  c.run.accumulate = micro;
}

/* Parameters of SIZES from FIRST on. */
static void start_from(int first) {
  for (int p = first; p < N_PARAMS; p++)
    ck_assert_ok(ts_param_init_constant(add_layer(p, sizes[p], 0), 1));
  start();
}

static void setup(void) {
  rig_start(false);
}

typedef struct ts_fill {
  float *grad;
  int32_t n, p, rank;
} ts_fill;

static float value(int p, int i) {
  return (float)sin(p * 7 + i * 0.01);
}

/* The whole gradient is rank 0's, a micro-batch's the same. */
static ts_err fill(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_fill *a = arg;
  float grad[MOST];
  for (int i = 0; i < a->n; i++) grad[i] = a->rank ? 0 : value(a->p, i);
  return k.put(a->grad, grad, (size_t)a->n * sizeof *grad);
}

/* Begins on a border, or ends on one where it is short. */
static void check_border(const ts_param *q) {
  const float *border = q->n < 16 ? q->grad + q->n : q->grad;
  ck_assert_msg((uintptr_t)border % 64 == 0, "%s, of %d", q->name, (int)q->n);
}

static void step(int micro, double *norm) {
  for (int part = 0; part < micro; part++) {
    ck_assert_ok(ts_parallel_begin(d, 1, part + 1 == micro));
    for (int p = ps.n - 1; p >= 0; p--) {
      ts_param *q = ps.item[p];
      ck_assert_ok(ts_layer_acquire(&h, q, TS_BACKWARD, f.lane));
      check_border(q);
      const ts_fill a = {q->grad, (int32_t)q->n, p, f.rank};
      ck_assert_ok(ts_lane_submit(f.lane, "fill", fill, &a, sizeof a));
      ck_assert_ok(ts_layer_ready(&h, q, f.lane));
      ck_assert_ok(ts_layer_release(&h, q, TS_BACKWARD, f.lane));
    }
    ck_assert_ok(ts_parallel_end(d, norm, f.lane));
  }
  ck_assert_ok(ts_lane_sync(f.lane));
}

static void check_weights(double rate) {
  float w[MOST];
  for (int p = 0; p < ps.n; p++) {
    const ts_param *q = ps.item[p];
    ts_test_get(f.device, w, q->w, (size_t)q->n * sizeof *w);
    for (int i = 0; i < (int)q->n; i++)
      ck_assert_float_eq_tol(w[i], (float)(1 - rate * value(p, i)), 1e-6f);
  }
}

/* Each a bucket, few, and one for all; in slots, kept, and first in slots. */
static const double caps[] = {1e-6, 0.005, 25};

TS_EACH_TEST_BETWEEN(setup, rig_stop)

TS_TESTS(on_borders, 0, sizeof caps / sizeof *caps) {
  for (int in_backward = 0; in_backward < 2; in_backward++)
    for (int micro = 1; micro < 3; micro++) {
      bucket_deck(caps[_i], micro, 0);
      c.optimizer.in_backward = in_backward;
      start_from(0);
      step(micro, NULL);
      check_weights(0.125 * micro);
      stop();
    }
}

/* A slot's gaps hold other layers' gradients. */
TS_TESTS(norms_see_no_gaps, 0, sizeof caps / sizeof *caps) {
  for (int micro = 1; micro < 4; micro++) {
    double norm = 0, sum = 0;
    bucket_deck(caps[_i], micro, 1e6);
    start_from(0);
    step(micro, &norm);
    for (int p = 0; p < ps.n; p++)
      for (int i = 0; i < sizes[p]; i++) sum += pow(micro * value(p, i), 2);
    ck_assert_all(fabs(norm - sqrt(sum)) < 1e-6 * norm);
    check_weights(0.125 * micro);
    stop();
  }
}

typedef struct ts_sum {
  float *x;
  const float *from;
  int n;
  double *sum;
} ts_sum;

static ts_err sum_squares(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_sum *a = arg;
  TS_DO(k.put(a->x, a->from, (size_t)a->n * sizeof *a->x));
  return k.squares(a->x, a->n, a->sum);
}

/* The model's only odd size is that of its last bias. */
TS_TESTS(norms_have_the_bits_of_no_gaps, 0, sizeof caps / sizeof *caps) {
  static float all[ALL];
  double norm = 0, want = 0;
  ts_sum a = {.from = all};
  ts_arrays arrays = {0};
  bucket_deck(caps[_i], 1, 1e6);
  start_from(N_PARAMS - 2);
  step(1, &norm);
  for (int p = ps.n - 1; p >= 0; p--)
    for (int i = 0; i < (int)ps.item[p]->n; i++) all[a.n++] = value(p, i);
  ck_assert_ok(
      ts_arrays_take(&arrays, f.device, &a.x, a.n, sizeof *a.x, TS_TAG_MISC));
  ck_assert_ok(
      ts_arrays_take(&arrays, f.device, &a.sum, 1, sizeof *a.sum, TS_TAG_MISC));
  ck_assert_ok(ts_lane_run(f.lane, "squares", sum_squares, a));
  ck_assert_ok(ts_lane_sync(f.lane));
  ts_test_get(f.device, &want, a.sum, sizeof want);
  ck_assert_all(norm == sqrt(want));
  ts_arrays_reset(&arrays);
  stop();
}
