/* rows.c - the contract of what is by element or by row: cross layers,
 * factorisation machines, rows side by side; bit for bit, but for the host's
 * vector versions, which round otherwise.  The oracle of the first two against
 * formulas in double.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 600 */
#include "tests/support/contract.h"

static float *take_floats(int64_t n, int off) {
  float *x = kt_floats(n, off, KT_UNIT);
  kt_compare(x, KT_NEAR);
  return x;
}

/* The same of bf16. */
static uint16_t *take_halves(int64_t n, int off) {
  uint16_t *x = kt_array(n, 2, off);
  for (int64_t i = 0; i < n; i++) x[i] = ts_f32_to_bf16(kt_some(KT_UNIT));
  kt_compare(x, KT_NEAR);
  return x;
}

/* ---- cross layers -------------------------------------------------------- */

typedef struct cross_case {
  ts_cross_args a;
  bool last; /* no t in the backward pass */
} cross_case;

static ts_err run_cross(const ts_kernels *k, const void *arg) {
  const cross_case *c = arg;
  ts_cross_args a = c->a;
  kt_at_all(&a, sizeof a);
  TS_DO(k->cross_forward(&a));
  if (c->last) a.t = NULL;
  return k->cross_backward(&a);
}

/* Element I of X, whose type is that of all but y32 and dy32. */
static double element(const ts_cross_args *a, const void *x, int64_t i) {
  return test_get(x, a->half ? TS_BF16 : TS_F32, i);
}

/* GOT, rounded to bf16 where HALF, and the oracle otherwise, is WANT. */
static void true_to(double got, double want, bool half) {
  ck_assert_double_eq_tol(got, want, (half ? fabs(want) / 255 : 0) + 1e-6);
}

/* Element D of row I, and what lies behind the rows, which stays. */
static void true_cross(const cross_case *c, int64_t i, int d) {
  const ts_cross_args *a = &c->a;
  const int64_t j = i * a->stride + d, tj = i * a->t_stride + d;
  const void *y = a->y ? kt_ref(a->y) : kt_ref(a->y32), *dx0 = kt_ref(a->dx0);
  if (d >= a->width) {
    if (a->y)
      ck_assert_double_eq(element(a, y, j), element(a, a->y, j));
    else
      ck_assert_mem_eq((const float *)y + j, &a->y32[j], 4);
    ck_assert_double_eq(element(a, dx0, j), element(a, a->dx0, j));
    return;
  }
  const double t = element(a, a->t, tj), x0 = element(a, a->x0, j);
  const double want = x0 * t + element(a, a->x, j);
  const double g = (a->dy32 ? (double)a->dy32[j] : element(a, a->dy, j)) +
                   (a->add ? element(a, a->add, j) : 0);
  true_to(a->y ? element(a, y, j) : (double)((const float *)y)[j], want,
          a->half && a->y);
  true_to(element(a, dx0, j),
          (a->first ? 0 : element(a, a->dx0, j)) + g * (c->last ? 1 : t),
          a->half);
  if (!c->last) true_to(element(a, kt_ref(a->dt), tj), g * x0, a->half);
  if (!c->last && a->add) true_to(element(a, kt_ref(a->dy), j), g, a->half);
}

static void *take_some(int64_t n, int off, bool half) {
  return half ? (void *)take_halves(n, off) : take_floats(n, off);
}

/* HOW: half, add, first, last, odd, ends (y, dy of f32). */
static void cross(int width, int batch, int how) {
  const bool half = how & 1, add = how & 2, odd = how & 16, ends = how & 32;
  const int stride = odd ? width + 1 : (width + 31) / 32 * 32;
  const int t_stride = odd ? width : (width + 7) / 8 * 8, off = odd ? 4 : 0;
  const int64_t n = (int64_t)batch * stride, m = (int64_t)batch * t_stride;
  kt_begin();
  cross_case c = {.last = how & 8};
  ts_cross_args *a = &c.a;
  *a = (ts_cross_args){.half = half,
                       .first = how & 4,
                       .width = width,
                       .stride = stride,
                       .t_stride = t_stride,
                       .batch = batch};
  a->x0 = take_some(n, off, half);
  a->x = take_some(n, off, half);
  if (ends)
    a->y32 = take_floats(n, off);
  else
    a->y = take_some(n, off, half);
  a->dy = take_some(n, off, half);
  if (ends) a->dy32 = take_floats(n, off);
  a->dx0 = take_some(n, off, half);
  a->t = take_some(m, off, half);
  a->dt = take_some(m, off, half);
  if (add) a->add = take_some(n, off, half);
  kt_check(run_cross, &c);
  if (c.last || !add)
    ck_assert_mem_eq(kt_ref(a->dy), a->dy, n * (half ? 2 : 4));
  for (int64_t i = 0; i < batch; i++)
    for (int d = 0; d < stride; d++) true_cross(&c, i, d);
}

KT_CONTRACT("cross_forward cross_backward fm_forward fm_backward join_rows "
            "split_rows")

TS_TESTS(crosses, 0, 8) {
  static const int widths[] = {1, 3, 4, 32, 37, 64, 132, 3456};
  for (int how = 0; how < 64; how++)
    if (how < 32 || how & 1)
      cross(widths[_i], widths[_i] > 1000 ? 3 : how % 3 ? 19 : 300, how);
  cross(32, 0, 0);
}

/* ---- factorisation machines ---------------------------------------------- */

static ts_err run_fm(const ts_kernels *k, const void *arg) {
  ts_fm_args a = *(const ts_fm_args *)arg;
  kt_at_all(&a, sizeof a);
  TS_DO(k->fm_forward(&a));
  return k->fm_backward(&a);
}

static void true_machine(const ts_fm_args *a, int64_t i) {
  const float *x = a->x + i * a->stride, *was = a->dx + i * a->stride;
  const float *dx = (float *)kt_ref(a->dx) + i * a->stride;
  const double grad = (double)a->grad[i * a->out_stride];
  const int end = a->n_vectors * a->dim;
  double fm = 0, all = 0;
  for (int d = 0; d < a->dim; d++) {
    double sum = 0, square = 0, size = 0;
    for (int k = d; k < end; k += a->dim) {
      sum += (double)x[k];
      square += (double)x[k] * (double)x[k];
      size += fabs((double)x[k]);
    }
    fm += (sum * sum - square) / 2;
    all += size * size;
    for (int k = d; k < end; k += a->dim)
      ck_assert_double_eq_tol(dx[k],
                              (double)was[k] + grad * (sum - (double)x[k]),
                              1e-6 * (2 + size));
  }
  const size_t gap = (size_t)(a->stride - end) * 4;
  if (gap) ck_assert_mem_eq(dx + end, was + end, gap);
  ck_assert_double_eq_tol(((float *)kt_ref(a->out))[i * a->out_stride], fm,
                          1e-6 * (1 + all));
}

static void machine(int n, int dim, int batch) {
  const int stride = n * dim + kt_below(5), out_stride = 1 + kt_below(3);
  kt_begin();
  const ts_fm_args a = {.x = take_floats((int64_t)batch * stride, 4),
                        .dx = take_floats((int64_t)batch * stride, 0),
                        .out = take_floats((int64_t)batch * out_stride, 0),
                        .grad = take_floats((int64_t)batch * out_stride, 8),
                        .n_vectors = n,
                        .dim = dim,
                        .stride = stride,
                        .out_stride = out_stride,
                        .batch = batch};
  kt_check(run_fm, &a);
  for (int64_t i = 0; i < batch; i++) true_machine(&a, i);
}

TS_TEST(machines) {
  static const int dims[] = {1, 2, 3, 7, 16, 19, 32, 64, 128};
  static const int n[] = {1, 2, 3, 4, 7, 15, 16, 27, 40, 61, 64};
  for (int d = 0; d < TEST_COUNT(dims); d++)
    for (int v = 0; v < TEST_COUNT(n); v++)
      machine(n[v], dims[d], 3 + 20 * (v % 2));
  machine(3456, 1, 5);
  machine(3, 4, 500);
  machine(3, 4, 0);
}

/* ---- rows side by side --------------------------------------------------- */

enum { PARTS = 165 };

typedef struct join_case {
  ts_join_args a;
  float *part[PARTS];
  int32_t at[PARTS], width[PARTS];
  int64_t step[PARTS];
  bool split;
} join_case;

static ts_err run_join(const ts_kernels *k, const void *arg) {
  join_case c = *(const join_case *)arg;
  kt_at_all(&c, sizeof c);
  c.a.part = c.part;
  return c.split ? k->split_rows(&c.a) : k->join_rows(&c.a);
}

/* Nothing is rounded but where rows are added, and that once. */
static float *exact(float *p) {
  kt_compare(p, KT_BITS);
  return p;
}

/* HOW: split, add, odd, with a first part, wide of bf16. */
static void join(int n, int batch, int how) {
  static join_case c;
  const int odd = how & 4;
  kt_begin();
  c = (join_case){.split = how & 1};
  c.a = (ts_join_args){.part_stride = c.step,
                       .at = c.at,
                       .width = c.width,
                       .first_width = how & 8 ? 8 + odd / 4 : 0,
                       .n_parts = n,
                       .batch = batch,
                       .add = (how & 3) == 2,
                       .half = (how & 16) && (how & 3) < 2};
  c.a.stride = c.a.first_width;
  for (int i = 0; i < n; i++) {
    c.at[i] = c.a.stride;
    c.width[i] = odd ? 1 + i % 5 : 4 * (1 + i % 9);
    c.step[i] = c.width[i] + (odd ? i % 2 : 0);
    c.a.stride += c.width[i];
    c.part[i] = exact(take_floats(batch * c.step[i], odd));
  }
  c.a.stride += 3 * (odd / 4);
  const int64_t all = (int64_t)batch * c.a.stride;
  c.a.wide =
      c.a.half ? (void *)take_halves(all, odd) : exact(take_floats(all, odd));
  if (c.a.first_width)
    c.a.first = exact(take_floats((int64_t)batch * c.a.first_width, odd));
  kt_check(run_join, &c);
  if (!c.a.half) return;
  for (int64_t i = 0; i < batch; i++)
    for (int k = 0; k < n; k++)
      for (int d = 0; d < c.width[k]; d++)
        true_to(
            test_get(kt_ref(c.a.wide), TS_BF16, i * c.a.stride + c.at[k] + d),
            test_get(kt_ref(c.part[k]), TS_F32, i * c.step[k] + d), true);
}

TS_TESTS(joins, 0, 32) {
  static const int n[] = {0, 1, 2, 26, 60, 150, 165};
  for (int i = 0; i < TEST_COUNT(n); i++) join(n[i], 1 + kt_below(40), _i);
  join(3, 0, _i);
}
