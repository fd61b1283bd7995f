/* flat.c - the contract of kernels over flat arrays, bit for bit.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "tests/support/contract.h"

static double *take_double(double x) {
  return kt_copy(&x, 1, 8);
}

/* ---- rows ---------------------------------------------------------------- */

KT_CALL(run_half, half_rows, ts_half_args)

static const int32_t widths[] = {1, 3, 4, 8, 31, 64, 130, 1000};

KT_CONTRACT("half_rows check_finite copies swap shorten widen squares clip")

TS_TEST(half_rows) {
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int i = 0; i < 6; i++) {
      const int32_t gap = i % 3 == 2 ? 4 : i % 3;
      ts_half_args a = {.rows = i == 5 ? 0 : 1 + kt_below(70),
                        .n = widths[w],
                        .from_stride = widths[w] + gap,
                        .to_stride = widths[w] + (i < 3 ? 0 : gap)};
      kt_begin();
      a.from = kt_floats(a.rows * a.from_stride, kt_off(), KT_SPECIAL);
      a.to = kt_array(a.rows * a.to_stride, 2, 2 * kt_below(4) * (i % 2));
      kt_check(run_half, &a);
    }
}

KT_CALL(run_look, check_finite, ts_check_finite_args)

/* One element is bad, in a row or between two; or none is. */
TS_TEST(check_finite) {
  static const uint32_t bads[] = {0x7f800000, 0xff800000, 0x7f800001};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
    for (int i = 0; i < 12; i++) {
      ts_check_finite_args a = {.rows = 1 + kt_below(50),
                                .n = widths[w],
                                .stride = widths[w] + i % 3};
      kt_begin();
      a.x = kt_floats(a.rows * a.stride, kt_off(), KT_PLAIN);
      a.bad = kt_zeros(1, 4);
      *a.bad = i % 4 == 3;
      const int64_t at = i < 4 ? (a.rows - 1) * a.stride + a.n - 1
                               : kt_below((int32_t)(a.rows * a.stride));
      if (i % 4) memcpy((float *)(uintptr_t)a.x + at, &bads[i % 3], 4);
      kt_check(run_look, &a);
    }
}

/* ---- arrays -------------------------------------------------------------- */

KT_CALL(run_copies, copies, ts_copies_args)

TS_TEST(copies) {
  static const int32_t sizes[] = {0, 1, 3, 4, 100, 4095, 4096, 4097, 9001};
  static ts_copies_args a;
  for (int n = 0; n <= TS_COPY_PIECES; n += n < 3 ? 1 : TS_COPY_PIECES - 3) {
    kt_begin();
    a.n_pieces = n;
    for (int i = 0; i < n; i++) {
      const int64_t m = sizes[(i + n) % 9];
      const ts_copy_kind kind = (ts_copy_kind)(i % 3);
      a.piece[i] = (ts_flat_copy){.n = m, .kind = kind};
      a.piece[i].to = kt_array(m, kind == TS_COPY_SHORTEN ? 2 : 4, kt_off());
      a.piece[i].from = kind == TS_COPY_WIDEN /* any bits are a bf16 */
                            ? kt_array(m, 2, kt_off())
                            : kt_floats(m, kt_off(), KT_SPECIAL);
    }
    kt_check(run_copies, &a);
  }
}

typedef struct pair_case {
  float *a, *b;
  int64_t n;
} pair_case;

static ts_err run_swap(const ts_kernels *k, const void *arg) {
  const pair_case *p = arg;
  return k->swap(kt_at(p->a), kt_at(p->b), p->n);
}

static const int64_t lengths[] = {0,    1,    2,    15,   16,   17,    1023,
                                  1024, 1025, 4095, 4096, 4097, 50001, 140000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

TS_TEST(swap) {
  for (int i = 0; i < 2 * LENGTHS; i++) {
    pair_case p = {.n = lengths[i / 2]};
    kt_begin();
    p.a = kt_floats(p.n, 0, KT_SPECIAL);
    p.b = kt_floats(p.n, i % 2 ? 8 : 0, KT_SPECIAL);
    kt_check(run_swap, &p);
  }
}

typedef struct wire_case {
  float *x;
  int64_t n;
  ts_dtype dtype;
  bool widen;
} wire_case;

static ts_err run_wire(const ts_kernels *k, const void *arg) {
  const wire_case *w = arg;
  return (w->widen ? k->widen : k->shorten)(kt_at(w->x), w->n, w->dtype);
}

/* Any bits are an f16 or a bf16. */
TS_TEST(short_and_wide) {
  for (int i = 0; i < 4 * LENGTHS; i++) {
    wire_case w = {.n = lengths[i / 4],
                   .dtype = i % 2 ? TS_F16 : TS_BF16,
                   .widen = i / 2 % 2};
    kt_begin();
    w.x = w.widen ? kt_array(w.n, 4, kt_off())
                  : kt_floats(w.n, kt_off(), KT_SPECIAL);
    kt_check(run_wire, &w);
  }
}

/* ---- sums ---------------------------------------------------------------- */

typedef struct sum_case {
  const float *x;
  int64_t n;
  double *sum;
} sum_case;

static ts_err run_squares(const ts_kernels *k, const void *arg) {
  const sum_case *s = arg;
  return k->squares(kt_at(s->x), s->n, kt_at(s->sum));
}

TS_TEST(squares) {
  for (int i = 0; i < LENGTHS; i++) {
    sum_case s = {.n = i == 1 ? 1200007 : lengths[i]};
    kt_begin();
    s.x = kt_floats(s.n, kt_off(), KT_PLAIN);
    s.sum = take_double(i % 2 ? 0.3 : 0);
    kt_check(run_squares, &s);
  }
}

typedef struct clip_case {
  double *norm, *factor, most;
} clip_case;

static ts_err run_clip(const ts_kernels *k, const void *arg) {
  const clip_case *c = arg;
  return k->clip(kt_at(c->norm), kt_at(c->factor), c->most);
}

TS_TEST(clip) {
  static const double norms[] = {0, 1e-300, 0.25, 3, 1e300, INFINITY};
  for (int i = 0; i < 12; i++) {
    clip_case c = {.most = i % 2 ? 0.7 : 1e4};
    kt_begin();
    c.norm = take_double(norms[i / 2]);
    c.factor = take_double(-1);
    kt_check(run_clip, &c);
  }
}
