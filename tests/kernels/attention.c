/* attention.c - the contract of attention: forward and backward against the
 * whole matrix of scores in double, whose gradients differences check.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "base/dtype.h"
#include "base/rng.h"
#include "model/attention.h"
#include "tests/kernels/layers.h"

KT_CONTRACT("attention attention_grad attention_half attention_half_grad")

/* Which kernels a case is for.  Kernels *_half get numbers that are bf16
 * already (HALF_EXACT): only p and dx are rounded then, so the bounds are
 * close.  Or they get any numbers (HALF), with wide bounds. */
typedef enum { PLAIN, HALF_EXACT, HALF } precision;
static struct {
  precision is;
  /* How far results may be off, in the units of lt_want: by rounding of all
   * factors, and by that of p and dx. */
  double all, own;
} rounds = {PLAIN, 1, 0};

static void set_precision(precision is) {
  rounds.is = is;
  rounds.all = is == HALF ? 0x1p-6 / 4e-6 : 1; /* of four factors in a row */
  rounds.own = is == PLAIN ? 0 : 0x1p-8 / 4e-6;
}

/* ---- a head of a sequence, in double ------------------------------------- */

enum { LONG = 300, WIDE = 80, BUCKETS = 2 * LONG, TIMES = 150 };

static struct {
  int n, dim, v_dim, n_buckets, n_times, context;
  bool causal, silu;
  double scale, norm, slope;
  double q[LONG][WIDE], k[LONG][WIDE], v[LONG][WIDE], d_o[LONG][WIDE];
  double bias[BUCKETS], time_bias[TIMES];
  int time[LONG][LONG]; /* a pair's bucket */
  double p[LONG][LONG], dx[LONG][LONG], o[LONG][WIDE], lse[LONG];
  double kept[LONG][LONG]; /* m_ij */
  double size[LONG];       /* of a query's scores, without cancellation */
  double dot[LONG];        /* d_o . o without cancellation */
  double least;            /* what p is taken for at least where it rounds */
} a;

static int bucket(int i, int j) {
  const int far = a.n_buckets - 1, by = i - j;
  if (a.causal) return by < 0 ? 0 : by < far ? by : far;
  return (by < -far ? -far : by > far ? far : by) + far;
}

static bool sees(int i, int j) {
  return !a.causal || j <= i || i < a.context;
}

static double score(int i, int j) {
  double x = 0, of = 0;
  for (int c = 0; c < a.dim; c++) {
    x += a.q[i][c] * a.k[j][c];
    of += fabs(a.q[i][c] * a.k[j][c]);
  }
  const double bias = a.n_buckets ? a.bias[bucket(i, j)] : 0;
  const double time = a.n_times ? a.time_bias[a.time[i][j]] : 0;
  const double slope = a.slope * abs(i - j);
  if (isfinite(bias))
    a.size[i] =
        fmax(a.size[i], a.scale * of + fabs(bias) + fabs(time) + fabs(slope));
  return a.scale * x + bias + time - slope;
}

/* dp_ij, for its size of absolute values. */
static double grad_of_p(int i, int j, bool size) {
  double sum = 0;
  for (int c = 0; c < a.v_dim; c++) {
    const double x = a.d_o[i][c] * a.v[j][c];
    sum += size ? fabs(x) : x;
  }
  return sum;
}

static double slope_of(double x) { /* of x / (1 + exp(-x)) */
  const double f = (1 + tanh(x / 2)) / 2;
  return f + x * f * (1 - f);
}

static void solve_row(int i) {
  double x[LONG], most = -INFINITY, sum = 0, back = 0;
  a.size[i] = 1;
  for (int j = 0; j < a.n; j++) {
    x[j] = sees(i, j) ? score(i, j) : -INFINITY;
    most = fmax(most, x[j]);
  }
  for (int j = 0; j < a.n; j++) {
    if (a.silu)
      a.p[i][j] = sees(i, j) ? x[j] * (1 + tanh(x[j] / 2)) / 2 / a.norm : 0;
    else
      sum += a.p[i][j] = exp(x[j] - most);
  }
  a.lse[i] = most + log(sum);
  a.dot[i] = 0;
  memset(a.o[i], 0, sizeof a.o[i]);
  for (int j = 0; j < a.n; j++) {
    if (!a.silu) a.p[i][j] /= sum;
    const double p = a.kept[i][j] * a.p[i][j];
    for (int c = 0; c < a.v_dim; c++) a.o[i][c] += p * a.v[j][c];
    back += p * grad_of_p(i, j, false);
    a.dot[i] += fabs(p) * grad_of_p(i, j, true);
  }
  for (int j = 0; j < a.n; j++) {
    const double dp = a.kept[i][j] * grad_of_p(i, j, false);
    a.dx[i][j] = !a.silu      ? a.p[i][j] * (dp - back)
                 : sees(i, j) ? dp * slope_of(x[j]) / a.norm
                              : 0;
  }
}

static void solve(void) {
  for (int i = 0; i < a.n; i++) solve_row(i);
}

/* Rounding may change a.dx[i][j] in proportion to this.  With softmax dx is
 * made of o, too, which has p's rounding. */
static double size_of_dx(int i, int j) {
  double back = a.kept[i][j] * grad_of_p(i, j, true);
  if (!sees(i, j)) return 0;
  if (a.silu) return 2 * a.size[i] * back / a.norm * rounds.all;
  for (int c = 0; c < a.v_dim; c++) back += fabs(a.d_o[i][c] * a.o[i][c]);
  return a.p[i][j] * (a.size[i] * back * rounds.all + a.dot[i] * rounds.own);
}

static double gradient(char which, int i, int c, double *size) {
  double sum = *size = 0;
  for (int j = 0; j < a.n; j++) {
    const int query = which == 'q' ? i : j, key = which == 'q' ? j : i;
    const double p =
        which == 'v' ? a.kept[j][i] * a.p[j][i] : a.scale * a.dx[query][key];
    const double of = which == 'v'
                          ? (fabs(p) + a.least) * a.size[j] * rounds.all
                          : a.scale * size_of_dx(query, key);
    const double x = which == 'v'   ? a.d_o[j][c]
                     : which == 'q' ? a.k[j][c]
                                    : a.q[j][c];
    sum += p * x;
    *size += (of + fabs(p) * rounds.own) * fabs(x);
  }
  return sum;
}

/* ---- the oracle's oracle ------------------------------------------------- */

static double loss(void) {
  double sum = 0;
  solve();
  for (int i = 0; i < a.n; i++)
    for (int c = 0; c < a.v_dim; c++) sum += a.o[i][c] * a.d_o[i][c];
  return sum;
}

/* The gradient of *X is D. */
static void check_difference(double *x, double d, const char *what) {
  const double was = *x, step = 1e-5;
  *x = was + step;
  const double up = loss();
  *x = was - step;
  const double down = loss();
  *x = was;
  ck_assert_msg(fabs((up - down) / (2 * step) - d) < 1e-8,
                "%s: by differences %g, not %g", what, (up - down) / (2 * step),
                d);
}

/* The gradient of the bias of bucket B: of those by time, or by distance. */
static double gradient_of_bias(bool time, int b) {
  double sum = 0;
  solve();
  for (int i = 0; i < a.n; i++)
    for (int j = 0; j < a.n; j++)
      if (sees(i, j) && (time ? a.time[i][j] : bucket(i, j)) == b)
        sum += a.dx[i][j];
  return sum;
}

TS_TESTS(differences, 0, 8) {
  memset(&a, 0, sizeof a);
  a.n = 7, a.dim = 5, a.v_dim = 3, a.n_buckets = 4, a.n_times = 3;
  a.causal = _i % 2, a.silu = _i / 2 % 2, a.context = _i / 4 * 3;
  a.scale = 0.7, a.norm = 5, a.slope = 0.1;
  for (int i = 0; i < a.n; i++)
    for (int c = 0; c < a.dim; c++) {
      a.q[i][c] = lt_number(1), a.k[i][c] = lt_number(1);
      a.v[i][c] = lt_number(1), a.d_o[i][c] = lt_number(1);
    }
  for (int b = 0; b < 2 * a.n_buckets - 1; b++) a.bias[b] = lt_number(1);
  for (int b = 0; b < a.n_times; b++) a.time_bias[b] = lt_number(1);
  for (int i = 0; i < a.n; i++)
    for (int j = 0; j < a.n; j++) {
      a.kept[i][j] = kt_below(3) ? 1.5 : 0;
      a.time[i][j] = kt_below(a.n_times);
    }
  for (int i = 0; i < a.n; i++)
    for (int c = 0; c < a.dim; c++) {
      double size;
      solve();
      const double dq = gradient('q', i, c, &size);
      const double dk = gradient('k', i, c, &size);
      const double dv = gradient('v', i, c, &size);
      check_difference(&a.q[i][c], dq, "q");
      check_difference(&a.k[i][c], dk, "k");
      if (c < a.v_dim) check_difference(&a.v[i][c], dv, "v");
    }
  for (int b = 0; b < (a.causal ? 1 : 2) * a.n_buckets - !a.causal; b++)
    check_difference(&a.bias[b], gradient_of_bias(false, b), "bias");
  for (int b = 0; b < a.n_times; b++)
    check_difference(&a.time_bias[b], gradient_of_bias(true, b), "time_bias");
}

/* ---- what is expected of a batch ----------------------------------------- */

static void read_rows(double to[LONG][WIDE], const float *from, int64_t stride,
                      int n) {
  for (int i = 0; i < a.n; i++)
    for (int c = 0; c < n; c++) to[i][c] = from[i * stride + c];
}

/* Which pairs of sequence S are kept in head H. */
static void read_kept(const ts_attention_args *t, int64_t s, int h) {
  const uint64_t sample = (uint64_t)(t->first + s);
  for (int i = 0; i < a.n; i++)
    for (int j = 0; j < a.n; j++) {
      const uint32_t at[4] = {(uint32_t)sample,
                              (uint32_t)(sample >> 32) | (uint32_t)h << 16,
                              (uint32_t)i / 4, (uint32_t)j};
      uint32_t word[4];
      ts_philox(word, at, t->key);
      const bool none = t->drop > 0 && ts_rng_unit(word[i % 4]) < t->drop;
      a.kept[i][j] = none ? 0 : 1 / (1 - (double)t->drop);
    }
}

/* The time that passed, in buckets that are 0.301 wide by its logarithm. */
static void read_times(const ts_attention_args *t, int64_t at, int h) {
  a.n_times = t->time_bias ? t->n_times : 0;
  for (int b = 0; b < a.n_times; b++)
    a.time_bias[b] = t->time_bias[h * a.n_times + b];
  for (int i = 0; a.n_times && i < a.n; i++)
    for (int j = 0; j < a.n; j++) {
      const double by = fabs(t->asked[at + i] - t->when[at + j]);
      const int b = (int)floor(log(fmax(by, 1)) / 0.301);
      a.time[i][j] = b < a.n_times ? b : a.n_times - 1;
    }
}

static void read_head(const ts_attention_args *t, int64_t s, int h) {
  const int64_t at = t->offsets[s];
  memset(a.bias, 0, sizeof a.bias);
  a.n = (int)(t->offsets[s + 1] - at);
  a.dim = t->dim, a.v_dim = t->v_dim, a.causal = t->causal;
  a.context = t->context;
  a.silu = t->kind == TS_ATTENTION_SILU;
  a.scale = t->scale, a.norm = t->norm != 0 ? (double)t->norm : a.n;
  a.least = rounds.is == HALF && a.silu ? 1 / a.norm : 0.01 / a.n;
  a.slope = t->slopes ? (double)t->slopes[h] : 0;
  a.n_buckets = t->bias ? t->n_buckets : 0;
  const int n = a.causal ? a.n_buckets : 2 * a.n_buckets - 1;
  for (int b = 0; b < n; b++) a.bias[b] = t->bias[h * n + b];
  read_kept(t, s, h);
  read_times(t, at, h);
  read_rows(a.q, t->q + at * t->q_stride + h * a.dim, t->q_stride, a.dim);
  read_rows(a.k, t->k + at * t->k_stride + h * a.dim, t->k_stride, a.dim);
  read_rows(a.v, t->v + at * t->v_stride + h * a.v_dim, t->v_stride, a.v_dim);
  read_rows(a.d_o, t->d_o + at * t->o_stride + h * a.v_dim, t->o_stride,
            a.v_dim);
}

static void expect_row(const ts_attention_args *t, int64_t at, int h, int i) {
  double size;
  for (int c = 0; c < a.v_dim; c++) {
    size = 0;
    for (int j = 0; j < a.n; j++)
      size += fabs(a.kept[i][j] * a.p[i][j] * a.v[j][c]) + a.least;
    lt_want(t->o, at * t->o_stride + h * a.v_dim + c, a.o[i][c],
            size * (a.size[i] * rounds.all + rounds.own));
    const double dv = gradient('v', i, c, &size);
    lt_want(t->dv, at * t->v_stride + h * a.v_dim + c, dv, size);
  }
  if (!a.silu)
    lt_want(t->lse, at * t->n_heads + h, a.lse[i], a.size[i] * rounds.all);
  for (int c = 0; c < a.dim; c++) {
    const double dq = gradient('q', i, c, &size);
    lt_want(t->dq, at * t->q_stride + h * a.dim + c, dq, size + 1e-3);
    const double dk = gradient('k', i, c, &size);
    lt_want(t->dk, at * t->k_stride + h * a.dim + c, dk, size + 1e-3);
  }
}

static void expect(const ts_attention_args *t) {
  static double dbias[BUCKETS], size[BUCKETS], dtime[TIMES], time_size[TIMES];
  for (int h = 0; h < t->n_heads; h++) {
    memset(dbias, 0, sizeof dbias);
    memset(size, 0, sizeof size);
    memset(dtime, 0, sizeof dtime);
    memset(time_size, 0, sizeof time_size);
    for (int64_t s = 0; s < t->n_sequences; s++) {
      read_head(t, s, h);
      solve();
      for (int i = 0; i < a.n; i++) expect_row(t, t->offsets[s] + i, h, i);
      for (int i = 0; a.n_buckets && i < a.n; i++)
        for (int j = 0; j < a.n; j++) {
          if (!sees(i, j)) continue;
          dbias[bucket(i, j)] += a.dx[i][j];
          size[bucket(i, j)] += size_of_dx(i, j);
        }
      for (int i = 0; a.n_times && i < a.n; i++)
        for (int j = 0; j < a.n; j++) {
          if (!sees(i, j)) continue;
          dtime[a.time[i][j]] += a.dx[i][j];
          time_size[a.time[i][j]] += size_of_dx(i, j);
        }
    }
    for (int b = 0; t->dtime_bias && b < t->n_times; b++)
      lt_want(t->dtime_bias, h * t->n_times + b, dtime[b], time_size[b] + 1e-3);
    const int n = t->causal ? t->n_buckets : 2 * t->n_buckets - 1;
    for (int b = 0; t->dbias && b < n; b++)
      lt_want(t->dbias, h * n + b, dbias[b], size[b] + 1e-3);
  }
}

/* ---- batches ------------------------------------------------------------- */

static const int lengths[] = {0,  1,  2,  15, 16, 17,  31,  32,  33,  47,
                              48, 49, 63, 64, 65, 96,  97,  127, 129, 0,
                              1,  50, 80, 20, 10, 200, 239, 241, 300};
static const int dims[] = {1, 7, 16, 50, 64, 80},
                 v_dims[] = {1, 5, 16, 33, 64, 80};

static ts_err run_forward(const ts_kernels *k, const ts_attention_args *t) {
  return rounds.is == PLAIN ? k->attention(t) : k->attention_half(t);
}

static ts_err run_both(const ts_kernels *k, const void *arg) {
  ts_attention_args t = *(const ts_attention_args *)arg;
  kt_at_all(&t, sizeof t);
  TS_DO(run_forward(k, &t));
  return rounds.is == PLAIN ? k->attention_grad(&t)
                            : k->attention_half_grad(&t);
}

/* Sequences of lengths that are among the first N_LENGTHS; tokens of nobody
 * behind them. */
static void draw_tokens(ts_attention_args *t, int n_lengths) {
  int64_t *offsets = kt_array(t->n_sequences + 1, 8, 0);
  offsets[0] = kt_below(3);
  for (int64_t s = 0; s < t->n_sequences; s++) {
    const int n = lengths[kt_below(n_lengths)];
    offsets[s + 1] = offsets[s] + n;
    if (n > t->max_length) t->max_length = n;
  }
  t->offsets = offsets;
  t->n_tokens = offsets[t->n_sequences] + kt_below(3);
}

/* Whole seconds, mostly later and later, from nothing to years apart; and
 * once as far as times go. */
static void draw_times(ts_attention_args *t) {
  double *when = kt_zeros(t->n_tokens + 1, 8),
         *asked = kt_zeros(t->n_tokens, 8);
  double now = 1e9;
  for (int64_t k = 0; k <= t->n_tokens; k++) {
    now += floor(exp(kt_below(170) / 10.) - 1) * (kt_below(8) ? 1 : -1);
    when[k] = kt_below(99) ? now : -0x1p63;
  }
  for (int64_t k = 0; k < t->n_tokens; k++)
    asked[k] = kt_below(99) ? when[k + 1] : 0x1p63;
  t->n_times = kt_below(4) ? TS_TIME_BUCKETS : 1 + kt_below(40);
  t->when = when, t->asked = asked;
  t->time_bias = lt_numbers((int64_t)t->n_heads * t->n_times, 2);
  if (kt_below(4)) t->dtime_bias = lt_out((int64_t)t->n_heads * t->n_times, 4);
}

static float *factors(int64_t n) {
  float *x = lt_numbers(n, 1);
  for (int64_t i = 0; rounds.is == HALF_EXACT && i < n; i++)
    x[i] = ts_bf16_to_f32(ts_f32_to_bf16(x[i]));
  return x;
}

static void draw_arrays(ts_attention_args *t, bool bias, bool slopes) {
  const int n = t->n_heads * t->dim, n_v = t->n_heads * t->v_dim;
  t->q_stride = n + kt_below(3), t->k_stride = n + kt_below(3);
  t->v_stride = n_v + kt_below(3), t->o_stride = n_v + kt_below(3);
  t->q = factors(t->n_tokens * t->q_stride);
  t->k = factors(t->n_tokens * t->k_stride);
  t->v = factors(t->n_tokens * t->v_stride);
  t->d_o = factors(t->n_tokens * t->o_stride);
  t->o = lt_out(t->n_tokens * t->o_stride, 4);
  t->out = t->o;
  t->lse =
      t->kind == TS_ATTENTION_SILU ? NULL : lt_out(t->n_tokens * t->n_heads, 4);
  t->dq = lt_out(t->n_tokens * t->q_stride, 4);
  t->dk = lt_out(t->n_tokens * t->k_stride, 4);
  t->dv = lt_out(t->n_tokens * t->v_stride, 4);
  const int64_t buckets =
      t->n_heads * (t->causal ? t->n_buckets : 2 * t->n_buckets - 1);
  t->bias = bias ? lt_numbers(buckets, 2) : NULL;
  t->dbias = bias && kt_below(4) ? lt_out(buckets, 4) : NULL;
  t->slopes = slopes ? lt_numbers(t->n_heads, 0.1f) : NULL;
  t->work = kt_own(ts_attention_work_bytes(t) / 4, 4);
}

static ts_attention_args draw(int i, int n_lengths, int n_sequences,
                              int heads) {
  static const int32_t contexts[] = {8, 60, 0, 48, 1, 5, 250};
  ts_attention_args t = {
      .n_sequences = i % 17 ? 1 + kt_below(n_sequences) : 0,
      .n_heads = 1 + kt_below(heads),
      .dim = dims[kt_below(TEST_COUNT(dims))],
      .v_dim = v_dims[kt_below(TEST_COUNT(v_dims))],
      .n_buckets = i % 3 ? 1 + kt_below(LONG / 2) : 1 + kt_below(20),
      .kind = i % 2 ? TS_ATTENTION_SILU : TS_ATTENTION_SOFTMAX,
      .causal = i / 2 % 2,
      .context = i / 4 % 2 ? contexts[i % 7] : 0,
      .norm = i % 5 ? 0 : 30,
      .drop = i % 3 ? 0 : 0.3f,
      .key = {77, (uint32_t)i},
      .first = i % 3 ? kt_below(900) : (int64_t)1 << 33};
  t.scale = i % 7 ? 1 / sqrtf((float)t.dim) : 3;
  draw_tokens(&t, n_lengths);
  if (i % 16 % 6 >= 3) draw_times(&t);
  draw_arrays(&t, i % 8 >= 4, i % 5 == 1);
  return t;
}

TS_TESTS(short_ones, PLAIN, HALF + 1) {
  set_precision(_i);
  for (int i = 0; i < 40; i += _i == HALF ? 3 : 1) {
    lt_begin();
    const ts_attention_args t = draw(i, 14, 6, 4);
    expect(&t);
    lt_check(run_both, &t);
  }
}

/* One at a time: tasks are parts of it where threads are many.  Of HALF a few:
 * its bounds see little that HALF_EXACT's don't. */
TS_TESTS(long_ones, 0, 28) {
  const int i = _i % 12;
  lt_begin();
  set_precision(_i / 12);
  const ts_attention_args t = draw(i + 4, TEST_COUNT(lengths), 1 + i % 2, 2);
  expect(&t);
  lt_check(run_both, &t);
}

/* Biases of minus infinity: a window, whose first keys have no part of it. */
TS_TESTS(windows, 0, 4) {
  ts_attention_args t = {0};
  set_precision(_i / 2);
  while (t.max_length < 100 || t.n_buckets < 3) {
    lt_begin();
    t = draw(12 - 6 * (_i % 2), 21, 3, 2);
  }
  const int n = t.causal ? t.n_buckets : 2 * t.n_buckets - 1;
  float *bias = (float *)t.bias;
  for (int h = 0; h < t.n_heads; h++) {
    if (!t.causal) bias[h * n] = -INFINITY;
    bias[h * n + n - 1] = -INFINITY;
  }
  expect(&t);
  lt_check(run_both, &t);
}

/* ---- the last queries alone ---------------------------------------------- */

typedef struct last {
  ts_attention_args all, kept, alone; /* alone: kept_alone */
} last;

static ts_err run_last(const ts_kernels *k, const void *arg) {
  const last *p = arg;
  ts_attention_args all = p->all, kept = p->kept, alone = p->alone;
  kt_at_all(&all, sizeof all);
  kt_at_all(&kept, sizeof kept);
  kt_at_all(&alone, sizeof alone);
  TS_DO(run_forward(k, &all));
  TS_DO(run_forward(k, &kept));
  return kt_apart() ? TS_OK : run_forward(k, &alone); /* hosts alone have it */
}

static void same_last(const float *x, const float *y, int64_t from, int64_t n,
                      int64_t stride, const char *what) {
  ck_assert_msg(!memcmp((const float *)kt_got(x) + from * stride,
                        (const float *)kt_got(y) + from * stride,
                        (size_t)(n * stride) * sizeof(float)),
                "%s: %s of the last queries depends on the others", kt_who(),
                what);
}

static void look_last(const void *arg) {
  const last *p = arg;
  const ts_attention_args *t = &p->all;
  for (int64_t s = 0; s < t->n_sequences; s++) {
    const int64_t n = p->kept.kept[s + 1] - p->kept.kept[s];
    const int64_t from = t->offsets[s + 1] - n;
    same_last(t->o, p->kept.o, from, n, t->o_stride, "o");
    if (t->lse) same_last(t->lse, p->kept.lse, from, n, t->n_heads, "lse");
    for (int64_t i = 0; !kt_apart() && i < n; i++)
      ck_assert_msg(
          !memcmp((const float *)kt_got(t->o) + (from + i) * t->o_stride,
                  (const float *)kt_got(p->alone.o) +
                      (p->kept.kept[s] + i) * t->o_stride,
                  (size_t)(t->n_heads * t->v_dim) * sizeof(float)),
          "%s: o of the last queries depends on where they lie", kt_who());
  }
}

/* Mostly one of each sequence, and once all. */
TS_TESTS(last_ones, 0, 12) {
  last p;
  lt_begin();
  set_precision(_i / 6 * HALF);
  p.all = draw(_i % 6 + 4, TEST_COUNT(lengths), 1 + _i % 3, 2);
  p.kept = p.all;
  int64_t *kept = kt_array(p.all.n_sequences + 1, 8, 0);
  kept[0] = 0;
  for (int64_t s = 0; s < p.all.n_sequences; s++) {
    const int64_t n = p.all.offsets[s + 1] - p.all.offsets[s];
    const int64_t some = kt_below(3) ? kt_below(4) > 0
                         : n         ? kt_below((int32_t)n) + 1
                                     : 0;
    kept[s + 1] = kept[s] + (some < n && _i % 6 != 5 ? some : n);
  }
  p.kept.kept = kept;
  /* Both begin with the same numbers: what neither writes is equal then. */
  p.kept.o = kt_copy(p.all.o, p.all.n_tokens * p.all.o_stride, 4);
  p.kept.lse = kt_copy(p.all.lse, p.all.n_tokens * p.all.n_heads, 4);
  kt_compare(p.kept.o, KT_OWN);
  if (p.kept.lse) kt_compare(p.kept.lse, KT_OWN);
  /* The others' queries are not there at all. */
  p.alone = p.kept;
  p.alone.kept_alone = true;
  float *q = kt_array(kept[p.all.n_sequences] * p.all.q_stride + 1, 4, 0);
  for (int64_t s = 0; s < p.all.n_sequences; s++) {
    const int64_t n = kept[s + 1] - kept[s];
    memcpy(
        q + kept[s] * p.all.q_stride,
        p.all.q + (p.all.offsets[s + 1] - n) * p.all.q_stride,
        (size_t)(n ? (n - 1) * p.all.q_stride + p.all.n_heads * p.all.dim : 0) *
            sizeof *q);
  }
  p.alone.q = q;
  p.alone.o = kt_copy(p.all.o, p.all.n_tokens * p.all.o_stride, 4);
  p.alone.lse = kt_copy(p.all.lse, p.all.n_tokens * p.all.n_heads, 4);
  kt_compare(p.alone.o, KT_OWN);
  if (p.alone.lse) kt_compare(p.alone.lse, KT_OWN);
  kt_look(look_last);
  kt_check(run_last, &p);
}

/* ---- a sequence alone ---------------------------------------------------- */

typedef struct pair {
  ts_attention_args batch, alone;
  int64_t begin, n;
} pair;

static ts_err run_pair(const ts_kernels *k, const void *arg) {
  const pair *p = arg;
  TS_DO(run_both(k, &p->batch));
  return run_both(k, &p->alone);
}

static void look_pair(const void *arg) {
  const pair *p = arg;
  const ts_attention_args *t = &p->batch;
#define SAME(array, stride)                                                    \
  ck_assert_msg(!memcmp((const float *)kt_got(t->array) + p->begin * (stride), \
                        kt_got(p->alone.array),                                \
                        (size_t)(p->n * (stride)) * sizeof(float)),            \
                "%s: " #array " of a sequence depends on its batch", kt_who())
  SAME(o, t->o_stride);
  SAME(dq, t->q_stride);
  SAME(dk, t->k_stride);
  SAME(dv, t->v_stride);
  if (t->lse) SAME(lse, t->n_heads);
}

TS_TESTS(alone, 0, 8) {
  pair p;
  lt_begin();
  set_precision(_i / 4 * HALF);
  p.batch = draw(_i % 4 * 3 + 4, 21, 5, 3);
  const ts_attention_args *t = &p.batch;
  const int64_t s = kt_below((int32_t)t->n_sequences);
  int64_t *offsets = kt_zeros(2, 8);
  p.begin = t->offsets[s];
  offsets[1] = p.n = t->offsets[s + 1] - p.begin;
  p.alone = *t;
  p.alone.offsets = offsets, p.alone.n_sequences = 1, p.alone.n_tokens = p.n;
  p.alone.first += s;
  p.alone.q = kt_copy(t->q + p.begin * t->q_stride, p.n * t->q_stride, 4);
  p.alone.k = kt_copy(t->k + p.begin * t->k_stride, p.n * t->k_stride, 4);
  p.alone.v = kt_copy(t->v + p.begin * t->v_stride, p.n * t->v_stride, 4);
  p.alone.d_o = kt_copy(t->d_o + p.begin * t->o_stride, p.n * t->o_stride, 4);
#define OWN(array, stride)                                                     \
  p.alone.array = kt_copy(t->array ? t->array + p.begin * (stride) : NULL,     \
                          p.n * (stride), 4);                                  \
  if (t->array) kt_compare(p.alone.array, KT_OWN)
  OWN(o, t->o_stride);
  OWN(dq, t->q_stride);
  OWN(dk, t->k_stride);
  OWN(dv, t->v_stride);
  OWN(lse, t->n_heads);
  p.alone.out = p.alone.o;
  p.alone.dbias = p.alone.dtime_bias = NULL;
  if (t->time_bias) {
    p.alone.when = kt_copy(t->when + p.begin, p.n, 8);
    p.alone.asked = kt_copy(t->asked + p.begin, p.n, 8);
  }
  kt_look(look_pair);
  kt_check(run_pair, &p);
}
