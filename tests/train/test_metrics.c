/* test_metrics.c - a metric's figures over ranks, its window and its samples,
 * and that it goes on behind a restart, beside plain loops over all samples.
 * ranks: 1 2 4 */
#include <math.h>

#include "base/auc.h"
#include "base/mem.h"
#include "io/checkpoint.h"
#include "tests/support/folder.h"
#include "dense/tally.h"
#include "train/metrics.h"

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

/* Sample I of all; predictions drift, so that old ones would be seen, and have
 * ties. */
typedef struct sample {
  float p, y, w;
} sample;

static ts_tally_args samples(const float *p, const float *y, const float *w,
                             int64_t n) {
  return (ts_tally_args){
      .prediction = p, .label = y, .weight = w, .n = n, .row = 1, .stride = 1};
}

static sample sample_at(int64_t i) {
  const int64_t x = i * 131;
  return (sample){(float)((x * 37 % 257 + i / 90) % 300 + 1) / 302.0f,
                  (float)(x * 17 % 11 < (i / 1000 % 2 ? 9 : 4)),
                  (float)(1 + i % 3)};
}

/* The part of step S, of EACH samples, that this rank of COMM trains on. */
static void train_step(ts_metrics *m, int64_t s, int64_t each, ts_comm *comm) {
  float p[each], y[each], w[each];
  const int64_t n = each / ts_comm_size(comm);
  for (int64_t i = 0; i < n; i++) {
    const sample x = sample_at(s * each + n * ts_comm_rank(comm) + i);
    p[i] = x.p, y[i] = x.y, w[i] = x.w;
  }
  const ts_tally_args a = samples(p, y, w, n);
  ck_assert_ok(ts_metrics_add(m, &a));
  ts_metrics_step(m);
  if (ts_metrics_is_full(m)) ck_assert_ok(ts_metrics_gather(m, comm));
}

static void train_steps(ts_metrics *m, int64_t from, int64_t to, int64_t each,
                        ts_comm *comm) {
  for (int64_t s = from; s < to; s++) train_step(m, s, each, comm);
}

/* Samples [from, to) in plain order. */
typedef struct plain {
  double logloss, ne, calibration, accuracy;
} plain;

static plain plain_of(int64_t from, int64_t to) {
  double weight = 0, pos = 0, loss = 0, predicted = 0, right = 0;
  for (int64_t i = from; i < to; i++) {
    const sample x = sample_at(i);
    const double p = (double)x.p, w = (double)x.w;
    weight += w;
    pos += w * (double)x.y;
    predicted += w * p;
    loss -= w * (x.y > 0 ? log(p) : log1p(-p));
    right += w * ((p >= 0.5) == (x.y > 0));
  }
  const double b = pos / weight;
  const double entropy = -(b * log(b) + (1 - b) * log1p(-b));
  return (plain){loss / weight, loss / weight / entropy, predicted / pos,
                 right / weight};
}

static void near(double got, double want) {
  ck_assert_double_eq_tol(got, want, 1e-11);
}

static void check_window(const ts_metrics_result *r, int64_t from, int64_t to) {
  const plain x = plain_of(from, to);
  near(r->window_logloss, x.logloss);
  near(r->window_ne, x.ne);
  near(r->window_calibration, x.calibration);
}

static void check_all(const ts_metrics_result *r, int64_t to) {
  const plain x = plain_of(0, to);
  ck_assert_double_eq(r->n_samples, (double)to);
  near(r->logloss, x.logloss);
  near(r->ne, x.ne);
  near(r->calibration, x.calibration);
  near(r->accuracy, x.accuracy);
}

/* By pairs. */
static double plain_auc(int64_t from, int64_t to) {
  double area = 0, pairs = 0;
  for (int64_t a = from; a < to; a++) {
    const sample x = sample_at(a);
    for (int64_t b = from; x.y > 0 && b < to; b++) {
      const sample z = sample_at(b);
      if (z.y > 0) continue;
      const double w = (double)x.w * (double)z.w;
      pairs += w;
      area += x.p > z.p ? w : x.p == z.p ? w / 2 : 0;
    }
  }
  return area / pairs;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* ---- figures ------------------------------------------------------------- */

/* Steps of 24 samples: a window is of the steps that it takes, whole. */
TS_TESTS(windows_are_the_newest_steps, 0, 5) {
  static const int64_t windows[] = {1, 24, 100, 480, 100000};
  const int64_t window = windows[_i], steps = (window + 23) / 24;
  ts_metrics *m;
  ts_metrics_result r;
  ck_assert_ok(ts_metrics_create(&m, window, f.size));
  for (int64_t s = 0; s < 120; s++) {
    train_step(m, s, 24, f.comm);
    if (s % 29 != 5 && s != 119) continue;
    ck_assert_ok(ts_metrics_compute(m, &r, f.comm));
    check_all(&r, (s + 1) * 24);
    check_window(&r, (s + 1 - least(steps, s + 1)) * 24, (s + 1) * 24);
    if (window % 24 == 0 || s * 24 < window)
      near(r.auc,
           plain_auc((s + 1) * 24 - least(window, (s + 1) * 24), (s + 1) * 24));
  }
  ts_metrics_destroy(m);
}

/* More steps than a window has parts: parts of two steps, since one has not
 * yet the 10 samples that a part needs, and what it takes is bounded. */
TS_TEST(windows_of_many_steps) {
  enum { STEPS = 9000, EACH = 8, SAMPLES = 40000 };
  ts_metrics *m;
  ts_metrics_result r;
  ck_assert_ok(ts_metrics_create(&m, SAMPLES, f.size));
  train_steps(m, 0, STEPS, EACH, f.comm);
  ck_assert_ok(ts_metrics_compute(m, &r, f.comm));
  check_all(&r, STEPS * EACH);
  check_window(&r, STEPS * EACH - SAMPLES, STEPS * EACH);
  const int64_t bytes = ts_mem_stat_of(TS_TAG_METRICS, TS_SPACE_HOST).now_bytes;
  ck_assert_int_le(bytes - 12 * (SAMPLES / f.size + 1), 300000);
  ts_metrics_destroy(m);
}

/* No window, and all that there is. */
TS_TESTS(no_window_and_everything, 0, 2) {
  ts_metrics *m;
  ts_metrics_result r;
  ck_assert_ok(ts_metrics_create(&m, -_i, f.size));
  train_steps(m, 0, 1500, 8, f.comm);
  ck_assert_ok(ts_metrics_compute(m, &r, f.comm));
  check_all(&r, 12000);
  if (_i) check_window(&r, 0, 12000);
  if (_i)
    near(r.auc, plain_auc(0, 12000));
  else
    ck_assert_double_eq(r.auc, 0.5);
  ts_metrics_destroy(m);
}

/* A window of more samples than AUC looks back. */
TS_TEST(auc_of_the_newest) {
  enum { EACH = 1024, STEPS = 300 };
  ts_metrics *m;
  ts_metrics_result r;
  float *p, *y;
  double want;
  ck_assert_ok(ts_metrics_create(&m, 400000, f.size));
  ck_assert_ok(ts_mem_many(p, STEPS * EACH, MISC));
  ck_assert_ok(ts_mem_many(y, STEPS * EACH, MISC));
  for (int64_t i = 0; i < STEPS * EACH; i++) {
    p[i] = sample_at(i).p;
    y[i] = sample_at(i).y;
  }
  const int64_t n = EACH / f.size;
  for (int64_t s = 0; s < STEPS; s++) {
    const int64_t at = s * EACH + n * f.rank;
    const ts_tally_args a = samples(p + at, y + at, NULL, n);
    ck_assert_ok(ts_metrics_add(m, &a));
    ts_metrics_step(m);
  }
  ck_assert_ok(ts_metrics_compute(m, &r, f.comm));
  const int64_t old = STEPS * EACH - TS_AUC_SAMPLES;
  ck_assert_ok(ts_auc(&want, p + old, y + old, TS_AUC_SAMPLES));
  near(r.auc, want);
  ts_mem_free_all(p, y);
  ts_metrics_destroy(m);
}

/* All kinds of figures, as scikit-learn defines them, beside loops over all
 * samples.  0: a threshold between predictions; 1: one that is a prediction's;
 * 2: labels that are numbers; 3: none is told; 4: none is real; 5: none. */
enum { SEEN = 600 };
static sample seen[SEEN];
static int n_seen;
static double threshold;

static void see(int kind) {
  static const double thresholds[] = {0.5, 0.25, 0.6, 1, 0.5, 0.5};
  threshold = thresholds[kind];
  n_seen = kind == 5 ? 0 : SEEN;
  for (int i = 0; i < SEEN; i++) {
    seen[i] = sample_at(i);
    seen[i].p = roundf(seen[i].p * 64) / 66; /* ties */
    if (i % 50 == 7) seen[i].p = threshold < 1 ? (float)threshold : 0.9f;
    if (kind == 2) seen[i].y = (float)(i * 7 % 13) / 12;
    if (kind == 4) seen[i].y = 0;
  }
}

typedef struct confusion {
  double tp, fp, fn, tn;
} confusion;

static confusion confusion_at(double t) {
  confusion c = {0};
  for (int i = 0; i < n_seen; i++) {
    const bool told = (double)seen[i].p >= t, real = seen[i].y >= 0.5f;
    *(told ? (real ? &c.tp : &c.fp) : (real ? &c.fn : &c.tn)) +=
        (double)seen[i].w;
  }
  return c;
}

/* Sum over thresholds, the greatest first, of (recall - the one before) times
 * precision. */
static double average_precision(void) {
  double area = 0, recall = 0, last = 2;
  for (;;) {
    double t = -1;
    for (int i = 0; i < n_seen; i++)
      if ((double)seen[i].p < last && (double)seen[i].p > t)
        t = (double)seen[i].p;
    const confusion c = confusion_at(t);
    if (t < 0 || !(c.tp + c.fn > 0)) return area;
    const double r = c.tp / (c.tp + c.fn);
    area += (r - recall) * c.tp / (c.tp + c.fp);
    recall = r;
    last = t;
  }
}

/* Labels' mean; sums of squared and absolute errors and of the labels' own
 * spread; of all ten bins the distance of predictions and labels. */
typedef struct errors {
  double weight, mean, square, absolute, spread, bins;
} errors;

static errors errors_of(void) {
  errors e = {0};
  double off[10] = {0};
  for (int i = 0; i < n_seen; i++) {
    const double p = (double)seen[i].p, y = (double)seen[i].y;
    const double w = (double)seen[i].w;
    const int bin = p >= 1 ? 9 : (int)(p * 10);
    e.weight += w;
    e.mean += w * y;
    e.square += w * (p - y) * (p - y);
    e.absolute += w * fabs(p - y);
    off[bin] += w * (p - y);
  }
  e.mean /= e.weight > 0 ? e.weight : 1;
  for (int i = 0; i < n_seen; i++)
    e.spread += (double)seen[i].w * ((double)seen[i].y - e.mean) *
                ((double)seen[i].y - e.mean);
  for (int k = 0; k < 10; k++) e.bins += fabs(off[k]);
  return e;
}

static double share(double part, double all) {
  return all > 0 ? part / all : 0;
}

static void check_value(const ts_metrics_result *r, const char *name,
                        double want) {
  const int kind = ts_metric_find(name);
  ck_assert_int_ge(kind, 0);
  ck_assert_msg(fabs(r->value[kind] - want) < 1e-11, "%s is %.15g, not %.15g",
                name, r->value[kind], want);
}

TS_TESTS(all_kinds_of_figures, 0, 6) {
  ts_metrics *m;
  ts_metrics_result r;
  see(_i);
  float p[SEEN], y[SEEN], w[SEEN];
  const int from = n_seen * f.rank / f.size,
            to = n_seen * (f.rank + 1) / f.size;
  for (int i = from; i < to; i++)
    p[i] = seen[i].p, y[i] = seen[i].y, w[i] = seen[i].w;
  ck_assert_ok(ts_metrics_create(&m, -1, f.size));
  const ts_tally_args a = samples(p + from, y + from, w + from, to - from);
  ck_assert_ok(ts_metrics_add(m, &a));
  ck_assert_ok(ts_metrics_compute(m, &r, f.comm));
  ck_assert_ok(ts_metrics_judge(m, &r, threshold, f.comm));
  const confusion c = confusion_at(threshold);
  const errors e = errors_of();
  check_value(&r, "accuracy", share(c.tp + c.tn, e.weight));
  check_value(&r, "precision", share(c.tp, c.tp + c.fp));
  check_value(&r, "recall", share(c.tp, c.tp + c.fn));
  check_value(&r, "f1", share(2 * c.tp, 2 * c.tp + c.fp + c.fn));
  check_value(&r, "mse", share(e.square, e.weight));
  check_value(&r, "mae", share(e.absolute, e.weight));
  check_value(&r, "r2", e.spread > 0 ? 1 - e.square / e.spread : 0);
  check_value(&r, "ece", share(e.bins, e.weight));
  if (_i != 2) check_value(&r, "pr_auc", average_precision());
  check_value(&r, "auc", r.auc);
  check_value(&r, "logloss", r.logloss);
  check_value(&r, "ne", r.ne);
  check_value(&r, "calibration", r.calibration);
  ts_metrics_destroy(m);
}

/* ---- restarts ------------------------------------------------------------ */

/* A file of each group of COMM's ranks. */
static void save(ts_metrics *m, const char *folder, ts_comm *comm) {
  ts_ckpt c = {.step = 5};
  ck_assert_ok(ts_metrics_save(m, &c, "metrics/label", comm));
  ck_assert_ok(ts_ckpt_save(&c, folder, 1, "pwrite", comm));
  ts_ckpt_reset(&c);
}

static void load(ts_metrics *m, const char *folder, ts_comm *comm) {
  ts_ckpt c = {0};
  ts_str path = {0};
  ck_assert_ok(ts_ckpt_newest(&path, folder, NULL, comm));
  ck_assert_ok(ts_ckpt_peek(&c, path.text));
  ck_assert_ok(ts_metrics_load(m, &c, path.text, "metrics/label", comm));
  ts_ckpt_reset(&c);
  ts_str_reset(&path);
}

enum { HALF = 70, ALL = 160, EACH = 24 };

/* Half of the steps on blocks of A ranks, the rest on blocks of B. */
static void goes_on(int a, int b, int64_t window) {
  ts_comm *one, *two;
  ts_metrics *m, *again, *straight;
  ts_metrics_result r, want;
  char folder[96];
  ck_assert_ok(ts_comm_create_block(f.world, &one, a, "one"));
  ck_assert_ok(ts_comm_create_block(f.world, &two, b, "two"));
  ck_assert_ok(ts_metrics_create(&m, window, a));
  ck_assert_ok(ts_metrics_create(&again, window, b));
  ck_assert_ok(ts_metrics_create(&straight, window, b));
  train_steps(m, 0, HALF, EACH, one);
  snprintf(folder, sizeof folder, "%s/%d-%d-%lld-%d", dir, a, b,
           (long long)window, f.rank / a);
  save(m, folder, one);
  ck_assert_ok(ts_comm_barrier(f.comm));
  snprintf(folder, sizeof folder, "%s/%d-%d-%lld-0", dir, a, b,
           (long long)window);
  train_steps(again, 900, 910, EACH, two); /* forgotten */
  load(again, folder, two);
  train_steps(again, HALF, ALL, EACH, two);
  ck_assert_ok(ts_metrics_compute(again, &r, two));
  train_steps(straight, 0, 30, EACH, two);
  ck_assert_ok(ts_metrics_compute(straight, &want, two));
  train_steps(straight, 30, ALL, EACH, two);
  ck_assert_ok(ts_metrics_compute(straight, &want, two));
  if (a == b) ck_assert(!memcmp(&r, &want, sizeof r));
  check_all(&r, ALL * EACH);
  check_window(&r, ALL * EACH - least(window, ALL * EACH), ALL * EACH);
  near(r.auc, plain_auc(ALL * EACH - least(window, ALL * EACH), ALL * EACH));
  ts_metrics_destroy(m);
  ts_metrics_destroy(again);
  ts_metrics_destroy(straight);
  ts_comm_destroy(one);
  ts_comm_destroy(two);
}

/* Windows that end before the restart, behind it, and never. */
TS_TEST(restarts_on_any_ranks) {
  for (int a = 1; a <= f.size; a *= 2)
    for (int b = 1; b <= f.size; b *= 2) {
      goes_on(a, b, 10L * EACH);
      goes_on(a, b, 130L * EACH);
      goes_on(a, b, 1000L * EACH);
    }
}

/* A file with samples alone, as they were kept once: ranks' shares. */
TS_TEST(windows_of_samples_still_load) {
  enum { OLD = 9600 };
  ts_ckpt c = {.step = 5};
  ts_ckpt_item *item;
  ts_metrics *m;
  ts_metrics_result r;
  static sample rows[OLD];
  const int64_t total = OLD, n = OLD / f.size;
  const double sums[6] = {OLD, OLD * 2.0, 1, 1, 1, 1};
  for (int64_t i = 0; i < n; i++) rows[i] = sample_at(n * f.rank + i);
  ck_assert_ok(ts_ckpt_add_value(&c, "metrics/label/sums", TS_F64, 6, sums));
  ck_assert_ok(
      ts_ckpt_add_value(&c, "metrics/label/window_samples", TS_I64, 1, &total));
  ck_assert_ok(
      ts_ckpt_add_item(&c, "metrics/label/window", TS_F32, OLD, 3, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, true, false, n * f.rank, n, rows));
  ck_assert_ok(ts_ckpt_save(&c, dir, 1, "pwrite", f.comm));
  ts_ckpt_reset(&c);
  ck_assert_ok(ts_metrics_create(&m, OLD + 2400, f.size));
  load(m, dir, f.comm);
  ck_assert_ok(ts_metrics_compute(m, &r, f.comm));
  ck_assert_double_eq(r.n_samples, OLD);
  check_window(&r, 0, OLD);
  near(r.auc, plain_auc(0, OLD));
  train_steps(m, 400, 500, EACH, f.comm);
  ck_assert_ok(ts_metrics_compute(m, &r, f.comm));
  check_window(&r, 0, OLD + 2400);
  ts_metrics_destroy(m);
}

/* What a stranger's file says of steps and of ranks' shares: counts that are no
 * numbers, more parts than there is room for, shares that don't fit to the
 * rows.  Nothing is read or written that is not there. */
TS_TESTS(edited_files, 0, 3) {
  enum { OLD = 96, PARTS = 5000 };
  static const int64_t shares[][3] = {{-1, 96, 1}, {96, 1, -1}, {95, 0, 0}};
  static double parts[6 * PARTS + 5];
  static sample rows[OLD];
  ts_ckpt c = {.step = 5};
  ts_ckpt_item *item;
  ts_metrics *m;
  ts_metrics_result r;
  const int64_t total = OLD;
  for (int i = 0; i < 6 * PARTS; i++) parts[i] = _i ? NAN : 100;
  for (int64_t i = 0; i < OLD; i++) rows[i] = sample_at(i);
  ck_assert_ok(ts_ckpt_add_value(&c, "metrics/label/steps", TS_F64,
                                 6 * PARTS + 5, parts));
  ck_assert_ok(
      ts_ckpt_add_value(&c, "metrics/label/window_samples", TS_I64, 1, &total));
  ck_assert_ok(ts_ckpt_add_value(&c, "metrics/label/window_ranks", TS_I64, 3,
                                 shares[_i]));
  ck_assert_ok(
      ts_ckpt_add_item(&c, "metrics/label/window", TS_F32, OLD, 3, &item));
  ck_assert_ok(ts_ckpt_add_piece(item, true, false, 0, f.rank ? 0 : OLD, rows));
  ck_assert_ok(ts_ckpt_save(&c, dir, 1, "pwrite", f.comm));
  ts_ckpt_reset(&c);
  ck_assert_ok(ts_metrics_create(&m, 300000, f.size));
  load(m, dir, f.comm);
  ck_assert_ok(ts_metrics_compute(m, &r, f.comm));
  near(r.auc, plain_auc(0, OLD));
  ck_assert(_i || r.window_calibration == 1);
  ck_assert_ok(ts_metrics_save(m, &c, "metrics/label", f.comm));
  ck_assert_int_lt(ts_ckpt_value_of(&c, "metrics/label/steps")->n,
                   (long)6 * PARTS);
  ts_ckpt_reset(&c);
  ts_metrics_destroy(m);
}
