/* tokens.c - the contract of the kernels of tokens: where they lie, when they
 * were, pools, places, what turns by these, and dropout by token; against
 * formulas in double.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "base/rng.h"
#include "tests/kernels/layers.h"

KT_CONTRACT("tokens token_times prepend_forward prepend_backward pool_forward "
            "pool_backward places_forward places_backward rotary")

/* Samples of 0 to 9 tokens, now and then of more. */
typedef struct jagged {
  int32_t *lengths;
  int64_t *offsets;
  int32_t *sample, *position;
  int64_t n_samples, n_tokens;
} jagged;

/* What goes by lengths. */
static void place(jagged *j) {
  j->offsets = kt_array(j->n_samples + 1, 8, 0);
  j->offsets[0] = 0;
  for (int64_t s = 0; s < j->n_samples; s++)
    j->offsets[s + 1] = j->offsets[s] + j->lengths[s];
  j->n_tokens = j->offsets[j->n_samples];
  j->sample = kt_array(j->n_tokens, 4, 0);
  j->position = kt_array(j->n_tokens, 4, 0);
  for (int64_t s = 0; s < j->n_samples; s++)
    for (int64_t t = j->offsets[s]; t < j->offsets[s + 1]; t++) {
      j->sample[t] = (int32_t)s;
      j->position[t] = (int32_t)(t - j->offsets[s]);
    }
}

static jagged draw(int i) {
  jagged j = {.n_samples = i % 11 ? 1 + kt_below(i % 3 ? 20 : 700) : 0};
  j.lengths = kt_array(j.n_samples, 4, 0);
  for (int64_t s = 0; s < j.n_samples; s++)
    j.lengths[s] = kt_below(5) ? kt_below(10) : kt_below(8) ? 0 : kt_below(90);
  place(&j);
  return j;
}

/* Each sample has MORE tokens. */
static jagged with_more(const jagged *x, int32_t more) {
  jagged j = {.n_samples = x->n_samples};
  j.lengths = kt_array(j.n_samples, 4, 0);
  for (int64_t s = 0; s < j.n_samples; s++) j.lengths[s] = x->lengths[s] + more;
  place(&j);
  return j;
}

/* ---- where they lie ------------------------------------------------------ */

KT_CALL(run_tokens, tokens, ts_tokens_args)

/* By lengths, by starts, and one of each sample; with some more or none. */
TS_TEST(starts) {
  for (int i = 0; i < 36; i++) {
    lt_begin();
    const jagged j = draw(i);
    const int32_t more = i % 2 ? i % 5 : 0;
    const int64_t n =
        (i % 3 == 2 ? j.n_samples : j.n_tokens) + more * j.n_samples;
    ts_tokens_args a = {.lengths = i % 3 == 0 ? j.lengths : NULL,
                        .bags = i % 3 == 1 ? j.offsets : NULL,
                        .offsets = kt_array(j.n_samples + 1, 8, 0),
                        .sample = kt_array(n, 4, 0),
                        .position = kt_array(n, 4, 0),
                        .n_samples = j.n_samples,
                        .n_tokens = n,
                        .more = more};
    kt_check(run_tokens, &a);
    const int64_t *offsets = kt_ref(a.offsets);
    const int32_t *sample = kt_ref(a.sample), *position = kt_ref(a.position);
    int64_t t = 0;
    for (int64_t s = 0; s < j.n_samples; s++) {
      ck_assert_int_eq(offsets[s], t);
      for (int32_t k = 0; k < more + (i % 3 == 2 ? 1 : j.lengths[s]); k++) {
        ck_assert_int_eq(sample[t], s);
        ck_assert_int_eq(position[t++], k);
      }
    }
    ck_assert_int_eq(offsets[j.n_samples], t);
    ck_assert_int_eq(t, n);
  }
}

/* ---- when they were ------------------------------------------------------ */

KT_CALL(run_times, token_times, ts_token_times_args)

/* Some samples have a time for each token, others one more; in some batches no
 * sample has any. */
TS_TEST(times) {
  for (int i = 0; i < 24; i++) {
    lt_begin();
    const jagged j = draw(i);
    int64_t *bags = kt_array(j.n_samples + 1, 8, 0);
    int64_t *ids = kt_array(j.n_tokens + j.n_samples, 8, 0);
    bags[0] = 0;
    for (int64_t s = 0; s < j.n_samples; s++)
      bags[s + 1] = bags[s] + j.lengths[s] + kt_below(2);
    for (int64_t k = 0; k < j.n_tokens + j.n_samples; k++)
      ids[k] = (int64_t)kt_below(1 << 30) << 20;
    ts_token_times_args a = {.bags = i % 5 ? bags : NULL,
                             .ids = i % 5 ? ids : NULL,
                             .offsets = j.offsets,
                             .sample = j.sample,
                             .when = kt_array(j.n_tokens, 8, 0),
                             .asked = kt_array(j.n_tokens, 8, 0),
                             .n_tokens = j.n_tokens};
    kt_check(run_times, &a);
    for (int64_t t = 0; t < j.n_tokens; t++) {
      const int64_t s = j.sample[t], k = bags[s] + j.position[t];
      const int64_t next = k + 1 < bags[s + 1] ? k + 1 : k;
      const double *when = kt_ref(a.when), *asked = kt_ref(a.asked);
      ck_assert(when[t] == (i % 5 ? (double)ids[k] : 0));
      ck_assert(asked[t] == (i % 5 ? (double)ids[next] : 0));
    }
  }
}

/* ---- vectors before them ------------------------------------------------- */

static ts_err run_prepend(const ts_kernels *k, const void *arg) {
  ts_prepend_args a = *(const ts_prepend_args *)arg;
  kt_at_all(&a, sizeof a);
  TS_DO(k->prepend_forward(&a));
  return k->prepend_backward(&a);
}

static void expect_prepended(const ts_prepend_args *a, int32_t c) {
  int64_t next = 0; /* row of x */
  for (int64_t t = 0; t < a->n_tokens; t++) {
    const int32_t k = a->position[t];
    const bool of_x = k >= a->n_before;
    const int64_t y = t * a->y_stride + c;
    const int64_t at = of_x ? next++ * a->x_stride + c
                            : a->sample[t] * a->before_stride + k * a->n + c;
    lt_want(a->y, y, (double)(of_x ? a->x : a->before)[at], 0);
    float *to = of_x ? a->dx : a->dbefore;
    if (to) lt_want(to, at, (double)a->dy[y], 0);
  }
}

TS_TEST(prepends) {
  for (int i = 0; i < 48; i++) {
    lt_begin();
    const jagged x = draw(i);
    const int32_t before = 1 + i % 4;
    const jagged j = with_more(&x, before);
    ts_prepend_args a = {.sample = j.sample,
                         .position = j.position,
                         .n_tokens = j.n_tokens,
                         .n = 1 + kt_below(i % 2 ? 70 : 6),
                         .n_before = before};
    a.x_stride = a.n + kt_below(3);
    a.y_stride = a.n + kt_below(3);
    a.before_stride = before * a.n + kt_below(3);
    a.x = lt_numbers(x.n_tokens * a.x_stride, 1);
    a.before = lt_numbers(x.n_samples * a.before_stride, 1);
    a.dy = lt_numbers(j.n_tokens * a.y_stride, 1);
    a.y = lt_out(j.n_tokens * a.y_stride, 4);
    a.dx = i % 5 ? lt_out(x.n_tokens * a.x_stride, 4) : NULL;
    a.dbefore = i % 7 ? lt_out(x.n_samples * a.before_stride, 4) : NULL;
    for (int32_t c = 0; c < a.n; c++) expect_prepended(&a, c);
    lt_check(run_prepend, &a);
  }
}

/* ---- pool ---------------------------------------------------------------- */

static ts_err run_pool(const ts_kernels *k, const void *arg) {
  ts_pool_args a = *(const ts_pool_args *)arg;
  kt_at_all(&a, sizeof a);
  TS_DO(k->pool_forward(&a));
  return k->pool_backward(&a);
}

/* Column C of sample S. */
static void expect_pool(const ts_pool_args *a, int64_t s, int32_t c) {
  const int64_t from = a->offsets[s], end = a->offsets[s + 1], n = end - from;
  const double share =
      a->kind == TS_POOL_TOKENS_MEAN && n ? 1.0 / (double)n : 1;
  int64_t best = a->kind == TS_POOL_TOKENS_LAST ? end - 1 : from;
  double sum = 0, of = 0;
  for (int64_t t = from; t < end; t++) {
    const double x = a->x[t * a->x_stride + c];
    if (a->kind == TS_POOL_TOKENS_MAX && x > a->x[best * a->x_stride + c])
      best = t;
    sum += x * share;
    of += fabs(x) * share;
  }
  const bool one = a->kind > TS_POOL_TOKENS_MEAN;
  const double dy = a->dy[s * a->y_stride + c];
  lt_want(a->y, s * a->y_stride + c,
          one && n ? (double)a->x[best * a->x_stride + c] : sum, one ? 0 : of);
  for (int64_t t = from; t < end; t++)
    lt_want(a->dx, t * a->x_stride + c, one && t != best ? 0 : dy * share,
            share < 1 ? fabs(dy) : 0);
}

TS_TEST(pools) {
  for (int i = 0; i < 64; i++) {
    lt_begin();
    const jagged j = draw(i);
    ts_pool_args a = {.offsets = j.offsets,
                      .n_samples = j.n_samples,
                      .n = 1 + kt_below(i % 2 ? 70 : 6),
                      .kind = (ts_pool_kind)(i / 2 % 4)};
    a.x_stride = a.n + kt_below(3);
    a.y_stride = a.n + kt_below(3);
    a.x = lt_numbers(j.n_tokens * a.x_stride, 2);
    a.dy = lt_numbers(j.n_samples * a.y_stride, 1);
    a.y = lt_out(j.n_samples * a.y_stride, 4);
    a.dx = lt_out(j.n_tokens * a.x_stride, 4);
    for (int64_t s = 0; s < j.n_samples; s++)
      for (int32_t c = 0; c < a.n; c++) expect_pool(&a, s, c);
    lt_check(run_pool, &a);
  }
}

/* ---- places -------------------------------------------------------------- */

static ts_err run_places(const ts_kernels *k, const void *arg) {
  ts_places_args a = *(const ts_places_args *)arg;
  kt_at_all(&a, sizeof a);
  TS_DO(k->places_forward(&a));
  return k->places_backward(&a);
}

static void expect_places(const ts_places_args *a, int32_t c) {
  double sum[40] = {0}, of[40] = {0};
  for (int64_t t = 0; t < a->n_tokens; t++) {
    const int64_t after = a->offsets[a->sample[t] + 1] - 1 - t;
    int64_t p = a->from_newest ? after : a->position[t];
    if (p >= a->n_places) p = a->n_places - 1;
    const double x = a->x[t * a->x_stride + c], w = a->table[p * a->n + c];
    const double dy = a->dy[t * a->y_stride + c];
    lt_want(a->y, t * a->y_stride + c, (double)a->scale * x + w,
            fabs((double)a->scale * x) + fabs(w));
    if (a->dx)
      lt_want(a->dx, t * a->x_stride + c, (double)a->scale * dy, fabs(dy));
    sum[p] += dy;
    of[p] += fabs(dy);
  }
  for (int32_t p = 0; p < a->n_places; p++)
    lt_want(a->dtable, (int64_t)p * a->n + c, sum[p], of[p]);
}

TS_TEST(places) {
  for (int i = 0; i < 48; i++) {
    lt_begin();
    const jagged j = draw(i);
    ts_places_args a = {.offsets = j.offsets,
                        .sample = j.sample,
                        .position = j.position,
                        .n_samples = j.n_samples,
                        .n_tokens = j.n_tokens,
                        .n = 1 + kt_below(i % 2 ? 70 : 6),
                        .n_places = 1 + kt_below(40),
                        .scale = i % 3 ? 1 : 0.7f,
                        .from_newest = i / 2 % 2};
    a.x_stride = a.n + kt_below(3);
    a.y_stride = a.n + kt_below(3);
    a.x = lt_numbers(j.n_tokens * a.x_stride, 1);
    a.table = lt_numbers((int64_t)a.n_places * a.n, 1);
    a.dy = lt_numbers(j.n_tokens * a.y_stride, 1);
    a.y = lt_out(j.n_tokens * a.y_stride, 4);
    a.dx = i % 5 ? lt_out(j.n_tokens * a.x_stride, 4) : NULL;
    a.dtable = lt_out((int64_t)a.n_places * a.n, 4);
    for (int32_t c = 0; c < a.n; c++) expect_places(&a, c);
    lt_check(run_places, &a);
  }
}

/* ---- rotary -------------------------------------------------------------- */

typedef struct turns {
  ts_rotary_args once, undone; /* the second and back again */
} turns;

static ts_err run_rotary(const ts_kernels *k, const void *arg) {
  turns x = *(const turns *)arg;
  kt_at_all(&x, sizeof x);
  TS_DO(k->rotary(&x.once));
  TS_DO(k->rotary(&x.undone));
  x.undone.back = !x.undone.back;
  return k->rotary(&x.undone);
}

/* Pair C of a token's heads. */
static void expect_turned(const turns *w, int64_t t, int32_t c) {
  const ts_rotary_args *a = &w->once;
  const int64_t at = t * a->x_stride + 2 * c;
  const float *wave =
      a->waves + (int64_t)a->position[t] * a->dim + 2 * c % a->dim;
  const double x = a->x[at], y = a->x[at + 1], of = fabs(x) + fabs(y);
  const double s = a->back ? -wave[0] : wave[0];
  lt_want(a->x, at, x * wave[1] - y * s, of);
  lt_want(a->x, at + 1, x * s + y * wave[1], of);
  for (int k = 0; k < 2; k++)
    lt_want(w->undone.x, at + k, (double)w->undone.x[at + k],
            fabs(w->undone.x[at]) + fabs(w->undone.x[at + 1]));
}

/* N numbers to be turned, aligned as pairs are; all backends leave the host's
 * bits. */
static float *pairs(int64_t n) {
  float *x = kt_array(n, 4, 8 * kt_below(8));
  for (int64_t i = 0; i < n; i++) x[i] = lt_number(1);
  lt_over(x, n, 4);
  kt_compare(x, KT_BITS);
  return x;
}

TS_TEST(rotary) {
  enum { PLACES = 90 };
  for (int i = 0; i < 48; i++) {
    lt_begin();
    const jagged j = draw(i);
    ts_rotary_args a = {.position = j.position,
                        .n_tokens = j.n_tokens,
                        .n_heads = 1 + kt_below(4),
                        .dim = 2 + 2 * kt_below(i % 2 ? 35 : 3),
                        .back = i / 2 % 2};
    float *waves = kt_array(PLACES * a.dim, 4, 8 * kt_below(8));
    for (int32_t k = 0; k < PLACES * a.dim; k += 2) {
      const double turn = 4 * (double)lt_number(1);
      waves[k] = (float)sin(turn), waves[k + 1] = (float)cos(turn);
    }
    a.waves = waves;
    a.x_stride = a.n_heads * a.dim + 2 * kt_below(3);
    turns w = {a, a};
    w.once.x = pairs(j.n_tokens * a.x_stride);
    w.undone.x = pairs(j.n_tokens * a.x_stride);
    for (int64_t t = 0; t < j.n_tokens; t++)
      for (int32_t c = 0; c < a.n_heads * a.dim / 2; c++)
        expect_turned(&w, t, c);
    lt_check(run_rotary, &w);
  }
}

/* ---- dropout ------------------------------------------------------------- */

KT_CALL(run_dropout, dropout, ts_dropout_args)

/* A token's mask is by its sample and its place, whatever row it has. */
TS_TEST(dropout_by_token) {
  for (int i = 0; i < 24; i++) {
    lt_begin();
    const jagged j = draw(i);
    ts_dropout_args t = {.rows = j.n_tokens,
                         .n = 1 + kt_below(i % 2 ? 70 : 6),
                         .first = i % 4 ? kt_below(100000) : INT64_C(1) << 33,
                         .sample = j.sample,
                         .position = j.position,
                         .key = {kt_bits(), kt_bits()},
                         .p = 0.4f};
    t.x_stride = t.y_stride = t.n + kt_below(3);
    t.y = lt_out(t.rows * t.y_stride, 4);
    t.x = lt_numbers(t.rows * t.x_stride, 1);
    for (int64_t r = 0; r < t.rows; r++)
      for (int32_t c = 0; c < t.n; c++) {
        const uint64_t row = (uint64_t)(t.first + j.sample[r]);
        const uint32_t at[4] = {(uint32_t)row, (uint32_t)(row >> 32),
                                (uint32_t)c / 4, (uint32_t)j.position[r]};
        uint32_t word[4];
        ts_philox(word, at, t.key);
        const bool drop = ts_rng_unit(word[c % 4]) < t.p;
        const float keep = 1 / (1 - t.p), x = t.x[r * t.x_stride + c];
        lt_want(t.y, r * t.y_stride + c, drop ? 0 : (double)(keep * x), 0);
      }
    lt_check(run_dropout, &t);
  }
}
