/* codes.c - the contract of code_rows, weigh_positions and sum_positions, bit
 * for bit but for NaN's payloads where numbers are added; and codecs of one
 * row, which are the oracle.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 600 */
#include <float.h>

#include "shard/view_kernels.h"
#include "tests/support/contract.h"

enum { WIDTHS = 18 };
static const int32_t widths[WIDTHS] = {1,  2,  3,  4,  5,  7,   8,   12,  16,
                                       20, 31, 32, 33, 64, 100, 128, 130, 260};

/* ---- codes --------------------------------------------------------------- */

KT_CALL(run_codes, code_rows, ts_code_args)

/* Rows that int8 treats apart: zeros, denormals, the largest. */
static void special_rows(float *x, int32_t n, int32_t step, int32_t n_cols) {
  for (int32_t i = 0; i < n; i++)
    for (int32_t d = 0; d < n_cols; d++) {
      float *e = &x[(int64_t)i * step + d];
      if (i % 16 == 3) *e = d % 2 ? 0.0f : -0.0f;
      if (i % 16 == 5) *e *= 0x1p-140f;
      if (i % 16 == 7) *e = ldexpf(*e, 108);
      if (i % 16 == 9 && d == n_cols / 2) *e = 0x1.fffffep127f;
      if (i % 16 == 11) *e = (float)(d % 255 - 127) * 0.5f; /* ties */
    }
}

/* The caller gives it a wire. */
static void add_code(ts_code_args *a, int32_t n, int32_t n_cols) {
  ts_code_piece *p = &a->piece[a->n_pieces++];
  p->n = n;
  p->n_cols = n_cols;
  p->step = n_cols + (n_cols % 4 ? kt_below(4) : 4 * kt_below(3));
  p->x = kt_floats((int64_t)n * p->step + 1,
                   kt_bits() % 4 ? 0 : 4 * kt_below(4), true);
  special_rows(p->x, n, p->step, n_cols);
}

/* Wires of bytes that encoding wrote, so that scales of int8 are likely. */
static void fill_wire(const ts_code_args *a) {
  float *x = malloc(4096);
  for (int32_t k = 0; k < a->n_pieces; k++) {
    const ts_code_piece *p = &a->piece[k];
    const int64_t row = ts_codec_bytes(a->codec, p->n_cols);
    for (int32_t r = 0; r < a->n_parts; r++)
      for (int32_t i = 0; i < p->n; i++) {
        for (int32_t d = 0; d < p->n_cols; d++)
          x[d] = kt_some(i % 4 ? KT_PLAIN : KT_SPECIAL);
        ts_codec_encode(a->codec, p->wire + r * a->part_bytes + i * row, x,
                        p->n_cols);
      }
  }
  free(x);
}

/* Pieces one after the other on the wire, as sections are, in all parts. */
static void codes(ts_codec codec, bool encode, int32_t n_parts, int off) {
  ts_code_args a = {.codec = codec, .encode = encode, .n_parts = n_parts};
  kt_begin();
  for (int w = 0; w < WIDTHS; w++)
    for (int32_t n = 0; n < 60; n += 1 + n * 3) add_code(&a, n, widths[w]);
  while (a.n_pieces < TS_CODE_PIECES) add_code(&a, 5, 8);
  for (int32_t k = 0; k < a.n_pieces; k++)
    a.part_bytes += a.piece[k].n * ts_codec_bytes(codec, a.piece[k].n_cols);
  char *wire = kt_array(a.part_bytes * n_parts, 1, off);
  const bool any_nan = codec == TS_CODEC_INT8 || n_parts > 1;
  if (any_nan) kt_compare(wire, KT_ANY_NAN);
  for (int32_t k = 0; k < a.n_pieces; k++) {
    a.piece[k].wire = wire;
    wire += a.piece[k].n * ts_codec_bytes(codec, a.piece[k].n_cols);
    if (any_nan) kt_compare(a.piece[k].x, KT_ANY_NAN);
  }
  if (!encode) fill_wire(&a);
  kt_check(run_codes, &a);
}

KT_CONTRACT("code_rows weigh_positions sum_positions")

TS_TEST(codecs) {
  for (int codec = TS_CODEC_BF16; codec <= TS_CODEC_INT8; codec++) {
    const int border = codec == TS_CODEC_INT8 ? 4 : 2;
    for (int off = 0; off <= border; off += border) {
      codes((ts_codec)codec, true, 1, off);
      codes((ts_codec)codec, false, 1, off);
      codes((ts_codec)codec, false, 3, off);
    }
  }
}

/* Every word of 16 bits, NaN's payloads, too. */
TS_TEST(all_words) {
  for (int codec = TS_CODEC_BF16; codec <= TS_CODEC_F16; codec++)
    for (int32_t n_cols = 127; n_cols <= 128; n_cols++) {
      ts_code_args a = {.codec = (ts_codec)codec, .n_parts = 1};
      kt_begin();
      add_code(&a, 65536 / n_cols + 1, n_cols);
      uint16_t *wire = kt_array(70000, 2, 0);
      for (int i = 0; i < 70000; i++) wire[i] = (uint16_t)i;
      a.piece[0].wire = (char *)wire;
      kt_check(run_codes, &a);
    }
}

/* ---- positions ----------------------------------------------------------- */

typedef struct positions_case {
  ts_position_args a;
  bool sums;
} positions_case;

static ts_err run_positions(const ts_kernels *k, const void *arg) {
  positions_case c = *(const positions_case *)arg;
  kt_at_all(&c, sizeof c);
  return c.sums ? k->sum_positions(&c.a) : k->weigh_positions(&c.a);
}

/* N_BAGS bags of up to LONGEST ids; SPLIT: every third id or so is here. */
static void add_slot(positions_case *c, int32_t n, int32_t n_bags,
                     int32_t longest, bool split, bool same) {
  ts_position_args *a = &c->a;
  ts_position_slot *s = &a->slot[a->n_slots++];
  int64_t *offsets = kt_array(n_bags + 1, 8, 0), at = 3; /* ids of others */
  uint16_t *p = kt_array((int64_t)n_bags * longest + 3, 2, 2);
  for (int32_t b = 0; b < n_bags; b++) {
    const int32_t length = b == 1 ? longest : kt_below(longest + 1);
    offsets[b] = at;
    for (int32_t k = 0; k < length; k++)
      if (!split || kt_bits() % 3 == 0)
        p[at++] = (uint16_t)(k < 65535 ? k : 65535);
  }
  offsets[n_bags] = at;
  if (at > a->most_ids) a->most_ids = at;
  *s = (ts_position_slot){.offsets = offsets,
                          .n_bags = n_bags,
                          .positions = p,
                          .value = kt_floats(at + 1, 4, KT_PLAIN),
                          .weight = kt_floats(n, 0, KT_SPECIAL),
                          .sum = kt_array(n, 8, 0),
                          .n = n};
  for (int32_t i = 0; i < n; i++) s->sum[i] = (double)kt_some(KT_PLAIN);
  if (same) s->sum = s[-1].sum;
}

/* First weights, then sums. */
TS_TESTS(by_position, 0, 2) {
  static const int32_t ns[] = {1, 2, 31, 32, 33, 34, 65, 100};
  for (int i = 0; i < 8; i++) {
    positions_case c = {.sums = _i};
    kt_begin();
    add_slot(&c, ns[i], 300, 40, false, KT_PLAIN);
    add_slot(&c, ns[i], 128, 90, true, true);
    add_slot(&c, ns[7 - i], 129, 3, false, false);
    add_slot(&c, 50, 0, 5, false, false);
    add_slot(&c, 50, 5, 0, false, false);
    kt_check(run_positions, &c);
  }
}

/* Thousands of ids at the last place; the last of all places. */
TS_TEST(last_places) {
  positions_case c = {.sums = true};
  add_slot(&c, 7, 3, 5000, false, false);
  kt_check(run_positions, &c);
  c.a = (ts_position_args){0};
  kt_begin();
  add_slot(&c, 65536, 2, 65540, false, false);
  ((uint16_t *)(uintptr_t)c.a.slot[0].positions)[4] = 65535;
  kt_check(run_positions, &c);
}

/* As many slots as there may be, some with the sum of the one before. */
TS_TESTS(many_slots, 0, 2) {
  positions_case c = {.sums = _i};
  while (c.a.n_slots < TS_POSITION_SLOTS)
    add_slot(&c, 9, 10, 12, false, c.a.n_slots % 3 == 2);
  kt_check(run_positions, &c);
}

/* ---- the oracle: rows alone ---------------------------------------------- */

static const char *const names[] = {"f32", "bf16", "f16", "int8"};
enum { N_CODECS = 4 };

static void round_trip(ts_codec c, float *to, const float *x, int32_t n) {
  char wire[1024];
  ck_assert_int_le(ts_codec_bytes(c, n), (int64_t)sizeof wire - 8);
  memset(wire, 0x5a, sizeof wire);
  ts_codec_encode(c, wire, x, n);
  /* Not a byte further. */
  for (int i = 0; i < 8; i++)
    ck_assert_int_eq(wire[ts_codec_bytes(c, n) + i], 0x5a);
  ts_codec_decode(c, to, wire, n);
}

/* X with BITS of significand and exponents from LEAST, to nearest even. */
static double rounded(double x, int bits, int least) {
  int e;
  if (x == 0) return 0;
  frexp(x, &e);
  const int unit = e - bits > least ? e - bits : least;
  return ldexp(nearbyint(ldexp(x, -unit)), unit);
}

TS_TEST(sixteen_bits_round_to_nearest) {
  float x[61], y[61];
  for (int i = 0; i < 2000; i++) {
    for (int d = 0; d < 61; d++) x[d] = kt_number(-140, 120);
    x[0] = 1 + 0x1p-8f; /* ties: to even, down and up */
    x[1] = 1 + 0x3p-8f;
    round_trip(TS_CODEC_BF16, y, x, 61);
    for (int d = 0; d < 61; d++)
      ck_assert(y[d] == (float)rounded(x[d], 8, -133));
    for (int d = 0; d < 61; d++) x[d] = kt_number(-27, 15);
    x[0] = 1 + 0x1p-11f;
    x[1] = 1 + 0x3p-11f;
    round_trip(TS_CODEC_F16, y, x, 61);
    for (int d = 0; d < 61; d++)
      ck_assert(y[d] == (float)rounded(x[d], 11, -24));
    round_trip(TS_CODEC_F32, y, x, 61);
    ck_assert(!memcmp(x, y, sizeof x));
  }
}

/* Rows of int8 err by half a step of the largest element. */
static void check_int8(const float *x, int32_t n) {
  float y[64];
  double top = 0;
  for (int32_t d = 0; d < n; d++) top = fmax(top, fabs((double)x[d]));
  round_trip(TS_CODEC_INT8, y, x, n);
  for (int32_t d = 0; d < n; d++)
    ck_assert_msg(fabs((double)y[d] - x[d]) <= top / 254 * 1.0001,
                  "%g for %g, largest %g", (double)y[d], (double)x[d], top);
}

TS_TEST(int8_errs_by_half_a_step) {
  float x[64];
  for (int i = 0; i < 4000; i++) {
    const int32_t n = 1 + i % 61;
    const int at = i % 240 - 118;
    for (int32_t d = 0; d < n; d++) x[d] = kt_number(at, at + 3);
    if (i % 5 == 0) x[n / 2] = 0;
    if (i % 7 == 0) x[0] = ldexpf(-1.5f, at + 6);
    check_int8(x, n);
  }
  for (int32_t d = 0; d < 64; d++) x[d] = d % 2 ? FLT_MAX : -FLT_MAX / 3;
  check_int8(x, 64);
}

TS_TEST(int8_of_none_and_of_too_small) {
  const float zero[5] = {0, -0.0f, 0, 0, 0};
  const float tiny[5] = {0x1p-149f, -0x1p-126f, 0, 0x1p-120f, -0x1p-130f};
  const float least[2] = {127 * 0x1p-126f, -0x1p-126f};
  float y[5];
  round_trip(TS_CODEC_INT8, y, zero, 5);
  for (int d = 0; d < 5; d++) ck_assert(y[d] == 0);
  round_trip(TS_CODEC_INT8, y, tiny, 5);
  for (int d = 0; d < 5; d++) ck_assert(y[d] == 0);
  round_trip(TS_CODEC_INT8, y, least, 2);
  ck_assert(y[0] == least[0] && y[1] == least[1]);
}

TS_TEST(what_is_no_number) {
  const float x[4] = {1, NAN, INFINITY, -INFINITY};
  const float inf[3] = {1, -INFINITY, 2};
  float y[4];
  for (int c = TS_CODEC_F32; c < TS_CODEC_INT8; c++) {
    round_trip((ts_codec)c, y, x, 4);
    ck_assert(y[0] == 1 && isnan(y[1]));
    ck_assert(y[2] == INFINITY && y[3] == -INFINITY);
  }
  round_trip(TS_CODEC_INT8, y, x, 2);
  ck_assert(isnan(y[0]) && isnan(y[1]));
  round_trip(TS_CODEC_INT8, y, inf, 3);
  ck_assert(isnan(y[0]) && isnan(y[1]) && isnan(y[2]));
}

TS_TESTS(sums_of_what_arrived, 0, N_CODECS) {
  float x[130], y[130], z[130];
  char wire[1024];
  const ts_codec c = (ts_codec)_i;
  for (int32_t n = 1; n <= 130; n++) {
    for (int32_t d = 0; d < n; d++) x[d] = kt_number(-3, 3);
    for (int32_t d = 0; d < n; d++) y[d] = kt_number(-3, 3);
    round_trip(c, z, x, n);
    for (int32_t d = 0; d < n; d++) z[d] += y[d];
    ts_codec_encode(c, wire, x, n);
    ts_codec_add(c, y, wire, n);
    for (int32_t d = 0; d < n; d++) ck_assert_float_eq_tol(y[d], z[d], 1e-6f);
  }
}

TS_TEST(names_and_bytes) {
  static const int64_t want[N_CODECS][2] = {
      {20, 32}, {10, 16}, {10, 16}, {12, 12}};
  ts_codec c;
  for (int i = 0; i < N_CODECS; i++) {
    ck_assert_ok(ts_codec_find(&c, names[i], "key"));
    ck_assert_int_eq(c, i);
    ck_assert_int_eq(ts_codec_bytes(c, 5), want[i][0]);
    ck_assert_int_eq(ts_codec_bytes(c, 8), want[i][1]);
  }
  ck_assert_int_eq(ts_codec_find(&c, "fp8", "the.key"), TS_ERR_DECK);
  ck_assert(strstr(ts_err_message(), "the.key: no codec \"fp8\"") != NULL);
  ts_err_clear();
}
