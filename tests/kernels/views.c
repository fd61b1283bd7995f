/* views.c - the contract of copy_rows, sum_rows, scale_rows, narrow and put,
 * bit for bit but for NaN's payloads where numbers are added.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 600 */
#include "shard/view_kernels.h"
#include "tests/support/contract.h"

enum { WIDTHS = 18 };
static const int32_t widths[WIDTHS] = {1,  2,  3,  4,  5,  7,   8,   12,  16,
                                       20, 31, 32, 33, 64, 100, 128, 130, 260};

/* ---- rows ---------------------------------------------------------------- */

typedef struct rows_case {
  ts_row_args a;
  bool sums;
} rows_case;

static ts_err run_rows(const ts_kernels *k, const void *arg) {
  rows_case c = *(const rows_case *)arg;
  kt_at_all(&c, sizeof c);
  return c.sums ? k->sum_rows(&c.a) : k->copy_rows(&c.a);
}

/* N rows with numbers below N_BAGS, and who has each number. */
static void add_index(ts_row_piece *p, int32_t n_bags) {
  int32_t *x = kt_array(p->n, 4, 0), *start = kt_array(n_bags + 1, 4, 0);
  int32_t *member = kt_array(p->n, 4, 4), at = 0;
  for (int32_t i = 0; i < p->n; i++)
    x[i] = kt_bits() % 4 ? kt_below(n_bags) : 0; /* one that many have */
  for (int32_t j = 0; j < n_bags; j++) {
    start[j] = at;
    for (int32_t i = 0; i < p->n; i++)
      if (x[i] == j) member[at++] = i;
  }
  start[n_bags] = at;
  p->index = x;
  p->member_start = start;
  p->member = member;
}

/* PART of three, or -1: all bags.  Sides with gaps lie among others. */
static void add_rows(rows_case *c, int32_t n, int32_t n_bags, int32_t n_cols,
                     int part, bool indexed) {
  ts_row_piece *p = &c->a.piece[c->a.n_pieces++];
  const int32_t seen = n_cols + (kt_bits() % 2 ? 4 * kt_below(3) : kt_below(9));
  const int32_t step = kt_bits() % 2 ? n_cols : n_cols + 4 + kt_below(2);
  p->n = n;
  p->n_cols = n_cols;
  if (indexed) add_index(p, n_bags);
  p->first = part < 0 ? 0 : part * n_bags / 3;
  p->count = (part < 0 ? n_bags : (part + 1) * n_bags / 3) - p->first;
  float *a = kt_floats((int64_t)n * seen + 1, 4 * kt_below(3), KT_SPECIAL);
  float *b = kt_floats((int64_t)p->count * step + 1, kt_bits() % 2 ? 0 : 4,
                       KT_SPECIAL);
  p->to = c->sums ? b : a;
  p->from = c->sums ? a : b;
  p->to_step = c->sums ? step : seen;
  p->from_step = c->sums ? seen : step;
  if (c->sums) kt_compare(p->to, KT_ANY_NAN);
}

KT_CONTRACT("copy_rows sum_rows scale_rows narrow put")

/* First copies, then sums. */
TS_TESTS(rows, 0, 2) {
  static const int32_t ns[] = {0, 1, 9, 70, 300};
  for (int w = 0; w < WIDTHS; w++) {
    rows_case c = {.sums = _i};
    kt_begin();
    for (int k = 0; k < 5; k++)
      for (int part = -1; part < 3; part++) {
        const int32_t n_bags = ns[k] ? 1 + ns[k] / (1 + kt_below(4)) : 0;
        if (ns[k] || part < 0)
          add_rows(&c, ns[k], n_bags, widths[w], part, ns[k]);
        if (ns[k] && part < 0 && !c.sums)
          add_rows(&c, ns[k], ns[k], widths[w], -1, false);
      }
    kt_check(run_rows, &c);
  }
}

/* As many pieces as there may be, of all widths. */
TS_TESTS(as_many_as_there_may_be, 0, 2) {
  rows_case c = {.sums = _i};
  while (c.a.n_pieces < TS_ROW_PIECES)
    add_rows(&c, 20 + kt_below(40), 12, widths[kt_below(WIDTHS)], -1, true);
  kt_check(run_rows, &c);
}

/* More rows than a small GPU has threads. */
TS_TESTS(long_rows, 0, 2) {
  rows_case c = {.sums = _i};
  add_rows(&c, 3000, 700, 260, -1, true);
  add_rows(&c, 3000, 2900, 33, 1, true);
  kt_check(run_rows, &c);
}

KT_CALL(run_scales, scale_rows, ts_scale_args)

TS_TEST(scales) {
  static ts_scale_args a;
  a.n_pieces = 0;
  for (int i = 0; i < TS_SCALE_PIECES; i++) {
    ts_scale_piece *p = &a.piece[a.n_pieces++];
    p->n = !i ? 2500 : i % 10 ? kt_below(70) : 0;
    p->n_cols = widths[i % WIDTHS];
    p->step = p->n_cols + 4 * kt_below(2) + (i % 5 == 0);
    p->x = kt_floats(p->n * p->step + 1, 4 * (i % 3 == 0), KT_SPECIAL);
    p->by = kt_floats(p->n + 1, 4 * kt_below(4), KT_SPECIAL);
    kt_compare(p->x, KT_ANY_NAN);
  }
  kt_check(run_scales, &a);
}

/* ---- the rest ------------------------------------------------------------ */

typedef struct narrow_case {
  float *dst;
  const double *src;
  int64_t n;
} narrow_case;

static ts_err run_narrow(const ts_kernels *k, const void *arg) {
  const narrow_case *c = arg;
  return k->narrow(kt_at(c->dst), kt_at(c->src), c->n);
}

TS_TEST(narrows) {
  static const int64_t sizes[] = {3000, 0, 1, 40000};
  for (int i = 0; i < TEST_COUNT(sizes); i++) {
    kt_begin();
    double *src = kt_array(sizes[i], 8, 0); /* any bits at all */
    const narrow_case c = {kt_array(sizes[i], 4, 4), src, sizes[i]};
    kt_compare(c.dst, KT_ANY_NAN);
    for (int64_t k = 0; k < sizes[i]; k += 2)
      src[k] = (double)kt_some(KT_SPECIAL) * 0x1.0000011p0;
    kt_check(run_narrow, &c);
  }
}

typedef struct put_case {
  char *dst;
  size_t bytes;
} put_case;

/* The copy that put made stays, whatever its source becomes; and bytes that
 * could be an address behind all arrays are bytes as others. */
static ts_err run_put(const ts_kernels *k, const void *arg) {
  const put_case *c = arg;
  char own[9001];
  char *dst = kt_at(c->dst);
  const char *behind = dst + ((size_t)1 << 31);
  memset(own, 0, sizeof own);
  for (size_t i = 4; i + 8 <= c->bytes; i += 8) memcpy(own + i, &behind, 8);
  ts_err err = k->put(dst + 5, own, c->bytes);
  for (size_t i = 0; i < c->bytes; i++) own[i] = (char)(i * 7 + c->bytes);
  if (err == TS_OK) err = k->put(dst + 5, own, c->bytes);
  memset(own, 0, c->bytes);
  return err;
}

TS_TEST(small_puts) {
  static const size_t sizes[] = {0, 1, 3, 3999, 4000, 4001, 9001};
  for (int i = 0; i < TEST_COUNT(sizes); i++) {
    kt_begin();
    const put_case c = {kt_array(9100, 1, 0), sizes[i]};
    kt_check(run_put, &c);
    const char *got = kt_ref(c.dst);
    for (size_t k = 0; k < sizes[i]; k++)
      ck_assert_int_eq(got[5 + k], (char)(k * 7 + sizes[i]));
  }
}
