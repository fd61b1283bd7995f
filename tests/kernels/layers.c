/* layers.c - the contract of the layers' kernels that go by element or over
 * fields: contract, map, max, dropout; against formulas in double.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "base/rng.h"
#include "tests/kernels/layers.h"

/* ---- contract ------------------------------------------------------------ */

KT_CALL(run_contract, contract, ts_contract_args)
KT_CONTRACT("contract map max_forward max_backward dropout")

/* Floats that an array of so many elements with these strides takes. */
static int64_t room(ts_stride4 s, int64_t b, int64_t h, int64_t r, int64_t c) {
  if (b * h * r * c == 0) return 0;
  return (b - 1) * s.b + (h - 1) * s.h + (r - 1) * s.r + (c - 1) * s.c + 1;
}

static int64_t place(ts_stride4 s, int64_t b, int64_t h, int64_t r, int64_t c) {
  return b * s.b + h * s.h + r * s.r + c * s.c;
}

/* Strides of an array: its last two indices in their order or the other way,
 * with gaps; ZEROS: some of the outer ones, or of r, are 0. */
static ts_stride4 strides(int64_t h, int64_t r, int64_t c, bool turned,
                          bool zeros) {
  ts_stride4 s = {.r = turned ? 1 : c + kt_below(3),
                  .c = turned ? r + kt_below(3) : 1};
  s.h = (turned ? c * s.c : r * s.r) + kt_below(3);
  s.b = h * s.h + kt_below(3);
  if (zeros && kt_below(3) == 0) s.b = 0;
  if (zeros && kt_below(3) == 0) s.h = 0;
  if (zeros && kt_below(6) == 0) s.r = 0;
  return s;
}

static void expect_contract(const ts_contract_args *t) {
  for (int64_t b = 0; b < t->n_b; b++)
    for (int32_t h = 0; h < t->n_h; h++)
      for (int32_t i = 0; i < t->n_i; i++)
        for (int32_t j = 0; j < t->n_j; j++) {
          const int64_t at = place(t->cs, b, h, i, j);
          const double old = t->add ? (double)t->c[at] : 0;
          double sum = 0, of = fabs(old);
          for (int64_t k = 0; k < t->n_k; k++) {
            const double y = t->b ? (double)t->b[place(t->bs, b, h, j, k)] : 1;
            const double x = t->a[place(t->as, b, h, i, k)] * y * t->scale;
            sum += x;
            of += fabs(x);
          }
          lt_want(t->c, at, old + sum, of);
        }
}

static void check_contract(ts_contract_args t, bool turned_a, bool turned_b,
                           bool ones) {
  lt_begin();
  t.add = kt_below(2);
  t.scale = kt_below(2) ? 1 : 0.37f;
  t.as = strides(t.n_h, t.n_i, t.n_k, turned_a, true);
  t.bs = strides(t.n_h, t.n_j, t.n_k, turned_b, true);
  t.cs = strides(t.n_h, t.n_i, t.n_j, kt_below(4) == 0, false);
  t.c = lt_out(room(t.cs, t.n_b, t.n_h, t.n_i, t.n_j), 4);
  t.a = lt_numbers(room(t.as, t.n_b, t.n_h, t.n_i, t.n_k), 1);
  t.b = ones ? NULL : lt_numbers(room(t.bs, t.n_b, t.n_h, t.n_j, t.n_k), 1);
  expect_contract(&t);
  lt_check(run_contract, &t);
}

/* Products of a sample's vectors, in all layouts. */
TS_TEST(contract) {
  for (int i = 0; i < 60; i++) {
    const ts_contract_args t = {.n_b = i % 13 ? 1 + kt_below(20) : 0,
                                .n_h = 1 + kt_below(3),
                                .n_i = 1 + kt_below(i % 3 ? 8 : 35),
                                .n_j = 1 + kt_below(i % 2 ? 6 : 35),
                                .n_k = i % 11 ? 1 + kt_below(70) : 0};
    check_contract(t, kt_below(2), kt_below(2), i % 5 == 4);
  }
}

/* One product of a sample, and many of them. */
TS_TEST(contract_vectors) {
  for (int i = 0; i < 16; i++) {
    const ts_contract_args t = {.n_b = 1 + kt_below(300),
                                .n_h = 1,
                                .n_i = 1,
                                .n_j = 1 + i % 3,
                                .n_k = 1 + kt_below(200)};
    check_contract(t, i % 4 == 3, false, i % 2);
  }
}

/* Gradients of weights: the sum is over the batch. */
TS_TEST(contract_batch) {
  static const int64_t batches[] = {1, 511, 512, 513, 2500};
  for (int i = 0; i < 20; i++) {
    const ts_contract_args t = {.n_b = 1,
                                .n_h = 1 + kt_below(2),
                                .n_i = 1 + kt_below(i % 4 ? 5 : 40),
                                .n_j = 1 + kt_below(i % 3 ? 4 : 40),
                                .n_k = batches[i % 5]};
    check_contract(t, i % 6 != 5, i % 7 != 6, i % 8 == 7);
  }
}

/* Large ones, whose rows threads share, sums in chunks or not. */
TS_TEST(contract_large) {
  for (int i = 0; i < 8; i++) {
    const ts_contract_args t = {.n_b = 1,
                                .n_h = 1,
                                .n_i = 60 + kt_below(i % 3 ? 70 : 900),
                                .n_j = 30 + kt_below(40),
                                .n_k = i % 4 == 3 ? 1100 : 1 + kt_below(60)};
    check_contract(t, i % 3 == 2, i % 4 != 2, false);
  }
}

/* ---- map ----------------------------------------------------------------- */

KT_CALL(run_map, map, ts_map_args)

static void expect_map(const ts_map_args *t) {
  for (int64_t b = 0; b < t->n_b; b++)
    for (int32_t h = 0; h < t->n_h; h++)
      for (int32_t i = 0; i < t->n_i; i++)
        for (int32_t j = 0; j < t->n_j; j++) {
          const int64_t at = place(t->ys, b, h, i, j);
          const double a = t->scale * (double)t->a[place(t->as, b, h, i, j)];
          const double x = t->x ? (double)t->x[place(t->xs, b, h, i, j)] : 1;
          const double old = t->add ? (double)t->y[at] : 0;
          const bool wave = t->op >= TS_MAP_SIN;
          const double turn = 2 * acos(-1) * fmod(a * x, 1);
          const double z = t->op == TS_MAP_SUM   ? a + x
                           : t->op == TS_MAP_SIN ? sin(turn)
                           : t->op == TS_MAP_COS ? cos(turn)
                                                 : a * x;
          lt_want(t->y, at, old + z,
                  wave ? fabs(old) + 0.1 + fabs(a * x)
                       : fabs(old) + fabs(a) + fabs(z));
        }
}

/* For sin and cos also quarters of a turn, very many turns, and no number. */
static float *map_numbers(const ts_map_args *t, int64_t n) {
  static const float rare[] = {0, -0.0f, 0.25f, 0.5f, -0.75f, 1e6f, 1e30f};
  float *x = lt_numbers(n, 2);
  for (int64_t i = 0; t->op >= TS_MAP_SIN && i < n; i++)
    if (kt_below(8) == 0) x[i] = rare[kt_below(7)];
  if (t->op == TS_MAP_COS && n) x[0] = kt_below(2) ? INFINITY : NAN;
  return x;
}

/* Products and sums, then waves. */
TS_TEST(map) {
  for (int i = 0; i < 160; i++) {
    ts_map_args t = {.n_b = i % 13 ? 1 + kt_below(30) : 0,
                     .n_h = 1 + kt_below(3),
                     .n_i = 1 + kt_below(5),
                     .n_j = 1 + kt_below(i % 3 ? 40 : 5),
                     .op = (ts_map_op)(i / 80 * TS_MAP_SIN + i % 2),
                     .scale = i % 3 ? 1 : -0.6f,
                     .add = i / 2 % 2};
    lt_begin();
    t.ys = strides(t.n_h, t.n_i, t.n_j, i % 9 == 8, false);
    t.as = strides(t.n_h, t.n_i, t.n_j, i % 7 == 6, true);
    t.xs = strides(t.n_h, t.n_i, t.n_j, i % 5 == 4, true);
    if (kt_below(i < 80 ? 4 : 2) == 0) t.xs.c = 0;
    if (i % 6 == 5) { /* nothing between rows */
      t.ys = (ts_stride4){t.n_h * t.n_i * t.n_j, t.n_i * t.n_j, t.n_j, 1};
      t.as = t.ys;
    }
    t.y = lt_out(room(t.ys, t.n_b, t.n_h, t.n_i, t.n_j), 4);
    t.a = i % 4 == 3 && !t.add && i % 6 == 5
              ? t.y
              : map_numbers(&t, room(t.as, t.n_b, t.n_h, t.n_i, t.n_j));
    if (i % 10 < 8 || t.op == TS_MAP_SUM)
      t.x = lt_numbers(room(t.xs, t.n_b, t.n_h, t.n_i, t.n_j), 2);
    expect_map(&t);
    lt_check(run_map, &t);
  }
}

/* Rows that follow each other go in long runs, whose last is a short one. */
TS_TEST(map_runs) {
  for (int i = 0; i < 8; i++) {
    const int64_t n_b = 1000 + kt_below(900);
    const int32_t n_j = 2 + kt_below(9);
    const ts_stride4 rows = {.b = n_j, .h = n_j, .r = n_j, .c = 1};
    ts_map_args t = {.ys = rows,
                     .as = rows,
                     .n_b = n_b,
                     .n_h = 1,
                     .n_i = 1,
                     .n_j = n_j,
                     .op = (ts_map_op)(i % 2),
                     .scale = i % 3 ? 1 : -0.6f,
                     .add = i / 2 % 2};
    lt_begin();
    t.a = lt_numbers(n_b * n_j, 2);
    if (i % 4) t.x = lt_numbers(n_b * n_j, 2), t.xs = rows;
    t.op = t.x ? t.op : TS_MAP_MULTIPLY;
    t.y = lt_out(n_b * n_j, 4);
    expect_map(&t);
    lt_check(run_map, &t);
  }
}

/* ---- the largest --------------------------------------------------------- */

static ts_err run_max(const ts_kernels *k, const void *arg) {
  ts_max_args t = *(const ts_max_args *)arg;
  kt_at_all(&t, sizeof t);
  TS_DO(k->max_forward(&t));
  return k->max_backward(&t);
}

/* With ties, whose first has the gradient. */
TS_TEST(max) {
  for (int n = 0; n < 30; n++) {
    ts_max_args t = {.rows = n % 7 ? 1 + kt_below(40) : 0,
                     .n_i = 1 + kt_below(9),
                     .n_j = 1 + kt_below(n % 3 ? 9 : 40)};
    lt_begin();
    t.x_stride = (int64_t)t.n_i * t.n_j + kt_below(3);
    t.y_stride = t.n_j + kt_below(3);
    float *x = lt_numbers(t.rows * t.x_stride, 1);
    for (int64_t i = 0; n % 2 && i < t.rows * t.x_stride; i++)
      x[i] = (float)kt_below(3);
    t.x = x;
    t.dy = lt_numbers(t.rows * t.y_stride, 1);
    t.y = lt_out(t.rows * t.y_stride, 4);
    t.dx = lt_out(t.rows * t.x_stride, 4);
    for (int64_t r = 0; r < t.rows; r++)
      for (int j = 0; j < t.n_j; j++) {
        float most = -INFINITY;
        int n_before = 0;
        for (int i = 0; i < t.n_i; i++)
          most = fmaxf(most, x[r * t.x_stride + i * t.n_j + j]);
        lt_want(t.y, r * t.y_stride + j, (double)most, 0);
        for (int i = 0; i < t.n_i; i++) {
          const int64_t at = r * t.x_stride + i * t.n_j + j;
          const bool is = x[at] == most && n_before++ == 0;
          lt_want(t.dx, at, is ? (double)t.dy[r * t.y_stride + j] : 0, 0);
        }
      }
    lt_check(run_max, &t);
  }
}

/* ---- dropout ------------------------------------------------------------- */

KT_CALL(run_dropout, dropout, ts_dropout_args)

TS_TEST(dropout) {
  static const float ps[] = {0, 0.1f, 0.5f, 0.9f};
  int64_t n_dropped = 0, n = 0;
  for (int i = 0; i < 40; i++) {
    ts_dropout_args t = {.rows = i % 9 ? 1 + kt_below(50) : 0,
                         .n = 1 + kt_below(i % 2 ? 70 : 6),
                         .first = i % 4 ? kt_below(100000) : INT64_C(1) << 33,
                         .key = {kt_bits(), kt_bits()},
                         .p = ps[i / 4 % 4]};
    lt_begin();
    t.x_stride = t.y_stride = t.n + kt_below(3);
    t.y = lt_out(t.rows * t.y_stride, 4);
    t.x = i % 3 ? lt_numbers(t.rows * t.x_stride, 1) : t.y;
    for (int64_t r = 0; r < t.rows; r++)
      for (int32_t c = 0; c < t.n; c++) {
        const uint64_t row = (uint64_t)(t.first + r);
        const uint32_t at[4] = {(uint32_t)row, (uint32_t)(row >> 32),
                                (uint32_t)c / 4, 0};
        uint32_t word[4];
        ts_philox(word, at, t.key);
        const bool drop = ts_rng_unit(word[c % 4]) < t.p;
        const float keep = 1 / (1 - t.p), x = t.x[r * t.x_stride + c];
        lt_want(t.y, r * t.y_stride + c, drop ? 0 : (double)(keep * x), 0);
        if (t.p == 0.5f) n_dropped += drop, n++;
      }
    lt_check(run_dropout, &t);
  }
  ck_assert_double_le(fabs((double)n_dropped / (double)n - 0.5), 0.05);
}
