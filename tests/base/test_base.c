/* test_base.c - random numbers, 16-bit floats, checksums, memory, strings. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auc.h"
#include "base/few_bits.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/mem_stream.h"
#include "base/rng.h"
#include "base/str.h"
#include "tests/support/harness.h"

TS_TEST(philox_known_answers) {
  /* From the authors' Random123 distribution. */
  const uint32_t zero[4] = {0}, key0[2] = {0};
  const uint32_t want0[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const uint32_t ones[4] = {~0u, ~0u, ~0u, ~0u}, key1[2] = {~0u, ~0u};
  const uint32_t want1[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  uint32_t x[4];
  ts_philox(x, zero, key0);
  ck_assert_mem_eq(x, want0, sizeof x);
  ts_philox(x, ones, key1);
  ck_assert_mem_eq(x, want1, sizeof x);
}

TS_TEST(half_floats_round_trip) {
  for (uint32_t h = 0; h < 65536; h++) {
    const bool nan16 = (h & 0x7c00) == 0x7c00 && (h & 0x3ff);
    const bool nanb = (h & 0x7f80) == 0x7f80 && (h & 0x7f);
    if (!nan16) ck_assert_uint_eq(ts_f32_to_f16(ts_f16_to_f32((uint16_t)h)), h);
    if (!nanb)
      ck_assert_uint_eq(ts_f32_to_bf16(ts_bf16_to_f32((uint16_t)h)), h);
  }
  ck_assert_float_eq(ts_f16_to_f32(0x0001), 0x1p-24f);
  ck_assert_float_eq(ts_f16_to_f32(0xfc00), -INFINITY);
  ck_assert_uint_eq(ts_f32_to_f16(NAN) & 0x7fff, 0x7e00);
  ck_assert_uint_eq(ts_f32_to_bf16(NAN) & 0x7fff, 0x7fc0);
  ck_assert_uint_eq(ts_f32_to_f16(-0x1p-60f), 0x8000);
  ck_assert_uint_eq(ts_f32_to_f16_sr(-0x1p-60f, ~0u), 0x8000);
  ck_assert_uint_eq(ts_f32_to_f16_sr(65519, ~0u), 0x7bff);
  ck_assert_uint_eq(ts_f32_to_bf16_sr(FLT_MAX, ~0u), 0x7f7f);
  ck_assert_uint_eq(ts_f32_to_bf16_sr(-INFINITY, ~0u), 0xff80);
}

TS_TEST(stochastic_rounding_has_no_bias) {
  const float values[] = {1.2345f, -3.4e-5f, 2.0e-7f, 60000.7f};
  for (size_t v = 0; v < 4; v++) {
    double sum = 0, sumb = 0;
    const int n = 200000;
    for (int i = 0; i < n; i++) {
      uint32_t r[4];
      ts_rng4(r, 5, TS_RNG_TEST, (uint64_t)i, (uint32_t)v, 0);
      sum += ts_f16_to_f32(ts_f32_to_f16_sr(values[v], r[0]));
      sumb += ts_bf16_to_f32(ts_f32_to_bf16_sr(values[v], r[1]));
    }
    const double unit16 = fmax(fabs(values[v]) * 0x1p-10, 0x1p-24);
    const double unitb = fabs(values[v]) * 0x1p-7;
    ck_assert_double_lt(fabs(sum / n - values[v]), 0.01 * unit16);
    ck_assert_double_lt(fabs(sumb / n - values[v]), 0.01 * unitb);
  }
}

/* Between each value and the next, infinity after the last: ties to even, and
 * half of the words of stochastic rounding up, which is never infinite. */
TS_TESTS(half_floats_are_the_nearest, 0, 2) {
  uint16_t (*const near)(float) = _i ? ts_f32_to_bf16 : ts_f32_to_f16;
  uint16_t (*const any)(float, uint32_t) =
      _i ? ts_f32_to_bf16_sr : ts_f32_to_f16_sr;
  const uint32_t infinite = _i ? 0x7f80 : 0x7c00;
  for (uint32_t h = 0; h < infinite; h++) {
    uint32_t bits = h << 16 | 0x8000, up = h + 1;
    float mid = 65520;
    if (!_i && up < infinite)
      mid = (ts_f16_to_f32((uint16_t)h) + ts_f16_to_f32((uint16_t)up)) / 2;
    if (_i) memcpy(&mid, &bits, 4);
    ck_assert_uint_eq(near(mid), h + (h & 1));
    ck_assert_uint_eq(near(nextafterf(mid, 0)), h);
    ck_assert_uint_eq(near(-nextafterf(mid, INFINITY)), 0x8000 | up);
    memcpy(&bits, &mid, 4);
    const uint32_t lost = 126 - (bits >> 23); /* bits, of a small f16 */
    const uint32_t half = _i ? 0x8000 : 1u << (h < 0x400 ? lost - 1 : 12);
    ck_assert_uint_eq(any(mid, half - 1), h);
    ck_assert_uint_eq(any(-mid, half), 0x8000 | (up < infinite ? up : h));
  }
}

TS_TEST(types) {
  static const char *const want[] = {"f32 4",  "bf16 2", "f16 2",
                                     "int8 0", "int4 0", "f64 8",
                                     "i32 4",  "i64 8",  "u8 1"};
  const float x[3] = {1.5f, -2, 0.25f};
  float y[3];
  char got[16], stored[16];
  for (int t = 0; t < TS_DTYPE_COUNT; t++) {
    snprintf(got, sizeof got, "%s %zu", ts_dtype_name((ts_dtype)t),
             ts_dtype_bytes((ts_dtype)t));
    ck_assert_str_eq(got, want[t]);
  }
  for (ts_dtype t = TS_F32; t <= TS_INT4; t++)
    for (int bad = 0; bad < 4; bad++) {
      memcpy(y, x, sizeof y);
      if (bad < 3) y[bad] = bad % 2 ? NAN : INFINITY;
      ts_rows_from_f32(stored, y, t, 1, 3);
      ck_assert(ts_rows_all_finite(stored, t, 1, 3) == (bad == 3));
      if (ts_dtype_has_scale(t)) continue;
      ck_assert(ts_all_finite(stored, t, bad < 3 ? bad : 0));
      ts_to_f32(y, stored, t, bad);
      ck_assert_mem_eq(y, x, (size_t)bad * 4);
    }
}

/* Scale and bias of X (n). */
static ts_few_bits few_bits_of(const float *x, int n, float most) {
  int32_t least = INT32_MAX, last = INT32_MIN;
  for (int i = 0; i < n; i++) {
    const int32_t y = ts_few_bits_order(x[i]);
    least = y < least ? y : least;
    last = y > last ? y : last;
  }
  return ts_few_bits_of(least, last, most);
}

/* On average numbers stay as they are; the ends of a row always do. */
TS_TEST(rounding_to_few_bits) {
  enum { N = 5, WORDS = 4096 };
  static const float x[N] = {-1, 0.37f, 2.5f, -0.2f, 1.23456f};
  static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
  for (ts_dtype t = TS_INT8; t <= TS_INT4; t++) {
    const float most = ts_few_bits_most(t);
    const ts_few_bits f = few_bits_of(x, N, most);
    ck_assert_float_eq(f.bias, -1);
    ck_assert_float_eq_tol(f.scale, 3.5f / most, 1e-8f);
    for (int i = 0; i < N; i++) {
      double sum = 0;
      for (uint32_t k = 0; k < WORDS; k++) {
        const int q = ts_few_bits_round(x[i], f, most, k << 20 | 0x80000);
        ck_assert(fabs((double)f.bias + q * (double)f.scale - (double)x[i]) <
                  1.0001 * (double)f.scale);
        sum += (double)f.bias + q * (double)f.scale;
      }
      ck_assert_double_eq_tol(sum / WORDS, (double)x[i],
                              3e-4 * (double)f.scale);
    }
    const float same[2] = {7, 7}, far[2] = {-FLT_MAX, FLT_MAX};
    const ts_few_bits one = few_bits_of(same, 2, most);
    ck_assert(one.scale == 0 && one.bias == 7);
    ck_assert_int_eq(ts_few_bits_round(7, one, most, 0), 0);
    const ts_few_bits wide = few_bits_of(far, 2, most);
    ck_assert(isfinite(fmaf(wide.scale, most, wide.bias)));
    ck_assert_float_eq(ts_few_bits_round(0, wide, most, 1u << 31),
                       (float)(int)(most / 2));
    for (int i = 0; i < 4; i++) {
      const ts_few_bits none =
          few_bits_of((const float[]){1, bad[i], -1}, 3, most);
      ck_assert(isnan(none.scale) && isnan(none.bias));
    }
  }
}

TS_TEST(numbers_that_are_drawn) {
  double n[2];
  ck_assert_double_eq(ts_rng_unit64(1, 0x1800), 2097155.5 * 0x1p-53);
  ts_rng_normal2(n, 0x7fffffff, 0x20000000); /* 1/2 and 1/8 */
  ck_assert_double_eq_tol(n[0], sqrt(log(2)), 1e-8);
  ck_assert_double_eq_tol(n[1], sqrt(log(2)), 1e-8);
  ck_assert_double_eq(ts_rng_normal(0x7fffffff, 0x20000000), n[0]);
}

/* Any one bit tells, wherever it is, and so does what came before; bytes on
 * other borders are the same. */
TS_TEST(sums_of_64_bits) {
  unsigned char x[201] = {0};
  for (size_t n = 0; n <= 200; n += n < 70 ? 1 : 13) {
    for (size_t i = 0; i < n; i++) x[i] = (unsigned char)(i * i);
    const uint64_t sum = ts_sum64(5, x, n);
    ck_assert(sum != ts_sum64(6, x, n));
    for (size_t bit = 0; bit < 8 * n; bit++) {
      x[bit / 8] ^= (unsigned char)(1 << bit % 8);
      ck_assert(sum != ts_sum64(5, x, n));
      x[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    memmove(x + 1, x, n);
    ck_assert_uint_eq(sum, ts_sum64(5, x + 1, n));
  }
}

TS_TEST(crc_known_answer) {
  ck_assert_uint_eq(ts_crc32c(0, "123456789", 9), 0xe3069283);
  ck_assert_uint_eq(ts_crc32c(ts_crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
}

TS_TEST(memory_is_counted) {
  const int64_t before = ts_mem_stat_of(TS_TAG_SPARSE, TS_SPACE_HOST).now_bytes;
  char *p, *big;
  ck_assert_ok(ts_mem_alloc(&p, 100, TS_TAG_SPARSE));
  ck_assert_ok(ts_mem_alloc(&big, 9 << 20, TS_TAG_SPARSE));
  ck_assert_uint_eq((uintptr_t)p % 64, 0);
  ck_assert_uint_eq((uintptr_t)big % (2 << 20), 0);
  ck_assert_int_eq(big[9 << 19], 0);
  ck_assert_int_eq(ts_mem_stat_of(TS_TAG_SPARSE, TS_SPACE_HOST).now_bytes,
                   before + 100 + (9 << 20));
  ts_mem_free_all(p, big);
  ck_assert_int_eq(ts_mem_stat_of(TS_TAG_SPARSE, TS_SPACE_HOST).now_bytes,
                   before);
  ck_assert_int_eq(ts_mem_array(&p, INT64_MAX / 2, 64, TS_TAG_SPARSE),
                   TS_ERR_NOMEM);
  ts_err_clear();
}

/* Content stays where a block is resized, not where it is reserved; the system
 * gets back what it gave. */
TS_TEST(blocks_grow) {
  const int64_t mapped = ts_mem_mapped().now_bytes;
  char *p = NULL;
  size_t room = 0;
  ck_assert_ok(ts_mem_extend(&p, 0, 3, 2, TS_TAG_MISC));
  memcpy(p, "abcdef", 6);
  ck_assert_ok(ts_mem_resize(&p, 6, 5 << 20, TS_TAG_MISC));
  ck_assert_mem_eq(p, "abcdef\0", 7);
  ck_assert_int_ge(ts_mem_mapped().now_bytes - mapped, 5 << 20);
  ck_assert_ok(ts_mem_resize(&p, 5 << 20, 2, TS_TAG_MISC));
  ck_assert_mem_eq(p, "ab", 2);
  ts_mem_free(p);
  p = NULL;
  for (size_t bytes = 100; bytes < 152; bytes += 50) {
    ck_assert_ok(ts_mem_reserve(&p, &room, bytes, TS_TAG_MISC));
    ck_assert_uint_eq(room, 150);
  }
  ts_mem_free(p);
  ck_assert_int_eq(ts_mem_mapped().now_bytes, mapped);
  ts_mem_forget_peaks();
  ck_assert_int_eq(ts_mem_mapped().peak_bytes, mapped);
}

#ifdef TS_FAULTS
#ifdef __SANITIZE_ADDRESS__
enum { GUARDED = 3 }; /* mapped blocks have no red zone */
#else
enum { GUARDED = 4 };
#endif
TS_TESTS(writes_behind_the_end_are_found, 0, GUARDED) {
  static const size_t sizes[] = {1, 64, 1000, 9 << 20};
  int status;
  const pid_t child = fork();
  if (child == 0) {
    char *p;
    (void)close(2);
    if (ts_mem_alloc(&p, sizes[_i], TS_TAG_SPARSE) != TS_OK) _exit(0);
    p[sizes[_i]] = 1; /* the address sanitizer ends here, ts_mem_free below */
    ts_mem_free(p);
    _exit(0);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_ne(status, 0);
}
#endif

TS_TEST(distances) {
  char a[66] = {0}, b[66] = {0};
  ck_assert_int_eq(ts_str_distance("learning", "learnig"), 1);
  ck_assert_int_eq(ts_str_distance("xabcd", "xbadc"), 2);
  ck_assert_int_eq(ts_str_distance("kitten", "sitting"), 3);
  ck_assert_int_eq(ts_str_distance("", "abc"), 3);
  ck_assert_int_eq(ts_str_distance(memset(a, 'a', 64), memset(b, 'a', 64)), 0);
  ck_assert_int_eq(ts_str_distance(memset(a, 'a', 65), b), 65); /* too long */
  ck_assert_int_eq(ts_str_distance("a", a), 65);
}

TS_TEST(ends) {
  ck_assert(ts_str_ends("a.gz", ".gz") && ts_str_ends(".gz", ".gz"));
  ck_assert(!ts_str_ends("gz", ".gz") && !ts_str_ends("a.gzz", ".gz"));
}

TS_TEST(numbers_for_people) {
  static const struct {
    double x;
    const char *count, *bytes, *seconds;
  } of[] = {{-1000, "-1,000", "-1000 B", "00:00:00"},
            {-999, "-999", "-999 B", "00:00:00"},
            {0, "0", "0 B", "00:00:00"},
            {1023, "1,023", "1023 B", "00:17:03"},
            {1024, "1,024", "1.0 KiB", "00:17:04"},
            {1234567, "1,234,567", "1.2 MiB", "342:56:07"},
            {1e9, "1,000,000,000", "953.7 MiB", "00:00:00"},
            {0x5p50, "5,629,499,534,213,120", "5120.0 TiB", "00:00:00"}};
  char buf[32];
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    ck_assert_str_eq(ts_str_count(buf, (int64_t)of[i].x), of[i].count);
    ck_assert_str_eq(ts_str_bytes(buf, (int64_t)of[i].x), of[i].bytes);
    ck_assert_str_eq(ts_str_seconds(buf, of[i].x), of[i].seconds);
  }
  ck_assert_str_eq(ts_str_seconds(buf, 59.5), "00:01:00");
}

/* Pairs, counted one by one. */
static double slow_auc(const float *p, const float *y, int n) {
  double area = 0, pairs = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      if (y[i] < 0.5f || y[k] > 0.5f) continue;
      area += p[i] > p[k] ? 1.0 : p[i] == p[k] ? 0.5 : 0.0;
      pairs++;
    }
  return area / pairs;
}

TS_TEST(auc_against_pairs) {
  float p[500], y[500];
  double auc;
  for (int i = 0; i < 500; i++) {
    uint32_t r[4];
    ts_rng4(r, 3, TS_RNG_TEST, (uint64_t)i, 1, 0);
    p[i] = (float)(r[0] % 40) / 40.0f;         /* many ties */
    if (i % 2) p[i] += (float)r[2] * 0x1p-32f; /* and all bits */
    y[i] = r[1] % 3 == 0;
  }
  ck_assert_ok(ts_auc(&auc, p, y, 500));
  ck_assert_double_eq_tol(auc, slow_auc(p, y, 500), 1e-12);
  ck_assert_ok(ts_auc(&auc, p, p, 1)); /* one class is missing */
  ck_assert_double_eq(auc, 0.5);
}

/* Any size, and any place of both; not a byte around it. */
TS_TEST(streams_are_copies) {
  enum { MOST = 700 };
  unsigned char from[MOST + 64], to[MOST + 192], want[MOST + 192];
  for (int i = 0; i < MOST + 64; i++) from[i] = (unsigned char)(i * 37 + 1);
  for (size_t n = 0; n <= MOST; n += n < 140 ? 1 : 61)
    for (size_t a = 0; a < 64; a += 7)
      for (size_t b = 0; b < 64; b += 9) {
        memset(to, 0xee, sizeof to);
        memset(want, 0xee, sizeof want);
        memcpy(want + 64 + b, from + a, n);
        ts_mem_stream(to + 64 + b, from + a, n);
        ck_assert_mem_eq(to, want, sizeof to);
      }
  ts_mem_touch(from, sizeof from, 2);
  ck_assert_int_eq(from[3], 3 * 37 + 1);
}

TS_TEST(json_of_any_text) {
  char got[64] = "";
  FILE *f = fmemopen(got, sizeof got, "w");
  ck_assert_ok(ts_json_put(f, ts_json_text("\x7f\xc3\xa4"), 5));
  ck_assert_ok(ts_json_put(f, ts_json_text("\x7f\x80\xff"), 5));
  ck_assert_ok(ts_json_put(f, ts_json_number(0x1p53 - 1), 5));
  (void)fclose(f);
  ck_assert_str_eq(got, "\"\x7f\xc3\xa4\"\"\x7f??\"9007199254740991");
}

/* Bytes that are no text become question marks; the others stay. */
TS_TEST(json_takes_any_bytes) {
  static const char *const text[][2] = {{"plain ~\x7f", "plain ~\x7f"},
                                        {"\xc3\xa9", "\xc3\xa9"},
                                        {"a\xff\x80\x7f z", "a??\x7f z"},
                                        {"", ""}};
  for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
    json_t *j = ts_json_text(text[i][0]);
    ck_assert_str_eq(json_string_value(j), text[i][1]);
    json_decref(j);
  }
}
