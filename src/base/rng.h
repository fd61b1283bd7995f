/* rng.h - counter-based random numbers: Philox4x32-10.
 *
 * J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC'11.
 * A number depends on (seed, stream, counter) only: never on the number of
 * ranks, threads, the plan or the order of calls.  All of it is Local. */
#pragma once

#include <stdint.h>

/* The use of a stream of numbers: the top bits of its key. */
typedef enum {
  TS_RNG_TABLE_INIT = 1, /* (table, row, column / 4) */
  TS_RNG_DENSE_INIT,     /* (parameter, element / 4) */
  TS_RNG_ROUNDING,       /* (step, table, row, column / 4) */
  TS_RNG_SYNTHETIC,      /* (sample, feature, position) */
  TS_RNG_SHUFFLE,
  TS_RNG_TEST,
  TS_RNG_TUNE,       /* (trial, key of the space) */
  TS_RNG_BOOTSTRAP,  /* (sample / 4, replicate) */
  TS_RNG_DROPOUT,    /* (sample, column / 4), of a seed for layer and step */
  TS_RNG_NEGATIVES,  /* (user, draw / 2, target from the newest on) */
  TS_RNG_CANDIDATES, /* (sample, target, word / 4), of a seed for the epoch */
  TS_RNG_MASKS       /* (sample, place in its bag / 4), likewise */
} ts_rng_use;

/* out = Philox4x32-10(counter, key). */
void ts_philox(uint32_t out[4], const uint32_t counter[4],
               const uint32_t key[2]);

/* KEY of a stream: hash of seed and use. */
void ts_rng_key(uint32_t key[2], uint64_t seed, ts_rng_use use);

/* Four random words for (seed, use, a, b, c): ts_rng_key,
 * counter = a (64 bits), b, c. */
void ts_rng4(uint32_t out[4], uint64_t seed, ts_rng_use use, uint64_t a,
             uint32_t b, uint32_t c);

/* [0, 1) with 24 bits. */
static inline float ts_rng_unit(uint32_t x) {
  return (float)(x >> 8) * (1.0f / 16777216.0f);
}
/* (0, 1) with 53 bits from two words. */
double ts_rng_unit64(uint32_t hi, uint32_t lo);
/* One standard normal from two words: the first of normal2's. */
double ts_rng_normal(uint32_t x, uint32_t y);
/* Two standard normals from two words (Box-Muller). */
void ts_rng_normal2(double out[2], uint32_t x, uint32_t y);
