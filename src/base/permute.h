/* permute.h - a permutation of 0 .. n - 1 that is computed and not kept.
 *
 * A number below n has b bits, b the least with 2^b >= n: ceil(b / 2) of them
 * are its left part, the rest its right part.  A Feistel network of 8 rounds,
 *
 *   round 0, 2, 4, 6:  left  ^= F(round, right)
 *   round 1, 3, 5, 7:  right ^= F(round, left)
 *
 * with F the low bits of Philox4x32-10 at (part, round, epoch, stream) under
 * the key of (seed, TS_RNG_SHUFFLE).  Each round undoes itself, so the network
 * is a bijection of 0 .. 2^b - 1; it is applied again until the number is below
 * n (cycle walking), less than twice on average.
 *
 * M. Luby, C. Rackoff, "How to construct pseudorandom permutations from
 * pseudorandom functions", SIAM J. Comput. 17 (1988); J. Black, P. Rogaway,
 * "Ciphers with arbitrary finite domains", CT-RSA 2002.  All of it is Local. */
#pragma once

#include <stdint.h>

typedef struct ts_permute {
  uint64_t n;
  int left, right; /* bits of the parts, 32 at most */
  uint32_t key[2], epoch, stream;
} ts_permute;

/* The permutation of 0 .. N - 1, N >= 1, that (SEED, EPOCH, STREAM) name. */
ts_permute ts_permute_of(uint64_t n, uint64_t seed, uint32_t epoch,
                         uint32_t stream);
/* Where X < n goes. */
uint64_t ts_permute_at(const ts_permute *, uint64_t x);
