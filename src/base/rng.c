/* rng.c - Philox4x32-10 (Salmon et al., SC'11). */
#include "base/rng.h"

#include <math.h>

#include "base/hash.h"

static const uint32_t multiplier[2] = {0xD2511F53u, 0xCD9E8D57u};
static const uint32_t weyl[2] = {0x9E3779B9u, 0xBB67AE85u};

void ts_philox(uint32_t out[4], const uint32_t counter[4],
               const uint32_t key[2]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)multiplier[0] * c0;
    uint64_t p1 = (uint64_t)multiplier[1] * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += weyl[0];
    k1 += weyl[1];
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

void ts_rng_key(uint32_t key[2], uint64_t seed, ts_rng_use use) {
  const uint64_t k = ts_mix64(seed ^ ts_mix64((uint64_t)use));
  key[0] = (uint32_t)k;
  key[1] = (uint32_t)(k >> 32);
}

void ts_rng4(uint32_t out[4], uint64_t seed, ts_rng_use use, uint64_t a,
             uint32_t b, uint32_t c) {
  uint32_t key[2];
  uint32_t counter[4] = {(uint32_t)a, (uint32_t)(a >> 32), b, c};
  ts_rng_key(key, seed, use);
  ts_philox(out, counter, key);
}

double ts_rng_unit64(uint32_t hi, uint32_t lo) {
  uint64_t x = ((uint64_t)hi << 32 | lo) >> 11;
  return ((double)x + 0.5) * 0x1p-53;
}

void ts_rng_normal2(double out[2], uint32_t x, uint32_t y) {
  double u = ((double)x + 0.5) * 0x1p-32, v = ((double)y + 0.5) * 0x1p-32;
  double r = sqrt(-2.0 * log(u)), angle = 6.283185307179586 * v;
  out[0] = r * cos(angle);
  out[1] = r * sin(angle);
}

double ts_rng_normal(uint32_t x, uint32_t y) {
  const double u = ((double)x + 0.5) * 0x1p-32, v = ((double)y + 0.5) * 0x1p-32;
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}
