/* permute.c - a keyed permutation: a Feistel network of Philox, and cycle
 * walking. */
#include "base/permute.h"

#include "base/rng.h"

enum { ROUNDS = 8 };

ts_permute ts_permute_of(uint64_t n, uint64_t seed, uint32_t epoch,
                         uint32_t stream) {
  const int bits = n > 1 ? 64 - __builtin_clzll(n - 1) : 0;
  ts_permute p = {.n = n,
                  .left = (bits + 1) / 2,
                  .right = bits / 2,
                  .epoch = epoch,
                  .stream = stream};
  ts_rng_key(p.key, seed, TS_RNG_SHUFFLE);
  return p;
}

/* F: N_BITS that depend on all of PART. */
static uint32_t mix(const ts_permute *p, int round, uint32_t part, int n_bits) {
  const uint32_t counter[4] = {part, (uint32_t)round, p->epoch, p->stream};
  uint32_t x[4];
  ts_philox(x, counter, p->key);
  return x[0] & (uint32_t)((UINT64_C(1) << n_bits) - 1);
}

static uint64_t network(const ts_permute *p, uint64_t x) {
  uint32_t right = (uint32_t)(x & ((UINT64_C(1) << p->right) - 1));
  uint32_t left = (uint32_t)(x >> p->right);
  for (int round = 0; round < ROUNDS; round += 2) {
    left ^= mix(p, round, right, p->left);
    right ^= mix(p, round + 1, left, p->right);
  }
  return (uint64_t)left << p->right | right;
}

uint64_t ts_permute_at(const ts_permute *p, uint64_t x) {
  if (p->n <= 1) return 0;
  do x = network(p, x);
  while (x >= p->n);
  return x;
}
