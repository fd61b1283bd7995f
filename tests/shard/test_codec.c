/* test_codec.c - codecs of output dist: rows alone. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/support/harness.h"
#include "shard/codec.h"

static const char *const names[] = {"f32", "bf16", "f16", "int8"};
enum { N_CODECS = 4 };

/* ---- rows alone ---------------------------------------------------------- */

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

/* A float of any size in [2^LOW, 2^HIGH). */
static float some(uint32_t *seed, int low, int high) {
  *seed = *seed * 1664525u + 1013904223u;
  const float m = 1 + (float)(*seed >> 9) * 0x1p-23f;
  *seed = *seed * 1664525u + 1013904223u;
  const float x = ldexpf(m, low + (int)((*seed >> 8) % (uint32_t)(high - low)));
  return *seed >> 31 ? -x : x;
}

TS_TEST(sixteen_bits_round_to_nearest) {
  uint32_t seed = 5;
  float x[61], y[61];
  for (int i = 0; i < 2000; i++) {
    for (int d = 0; d < 61; d++) x[d] = some(&seed, -140, 120);
    x[0] = 1 + 0x1p-8f; /* ties: to even, down and up */
    x[1] = 1 + 0x3p-8f;
    round_trip(TS_CODEC_BF16, y, x, 61);
    for (int d = 0; d < 61; d++)
      ck_assert(y[d] == (float)rounded(x[d], 8, -133));
    for (int d = 0; d < 61; d++) x[d] = some(&seed, -27, 15);
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
  uint32_t seed = 9;
  float x[64];
  for (int i = 0; i < 4000; i++) {
    const int32_t n = 1 + i % 61;
    const int at = i % 240 - 118;
    for (int32_t d = 0; d < n; d++) x[d] = some(&seed, at, at + 3);
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
  uint32_t seed = 3;
  float x[130], y[130], z[130];
  char wire[1024];
  const ts_codec c = (ts_codec)_i;
  for (int32_t n = 1; n <= 130; n++) {
    for (int32_t d = 0; d < n; d++) x[d] = some(&seed, -3, 3);
    for (int32_t d = 0; d < n; d++) y[d] = some(&seed, -3, 3);
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
