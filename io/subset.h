/* subset.h - some of a source's samples, in their order, as a source: what is
 * trained or validated on.  Loader, orders and epochs see no other.
 *
 * Which they are is a bit for each of all samples, with a count before every
 * 512th: 1.125 bits a sample, in each rank.  All of it is Local. */
#pragma once

#include "io/source.h"

enum { TS_BITS_WORD = 64 };

/* Words of the bits of N samples. */
static inline int64_t ts_bits_words(int64_t n) {
  return (n + TS_BITS_WORD - 1) / TS_BITS_WORD;
}

static inline void ts_bits_set(uint64_t *bits, int64_t i) {
  bits[i / TS_BITS_WORD] |= UINT64_C(1) << i % TS_BITS_WORD;
}

static inline bool ts_bits_has(const uint64_t *bits, int64_t i) {
  return bits[i / TS_BITS_WORD] >> i % TS_BITS_WORD & 1;
}

/* Of the N first. */
int64_t ts_bits_count(const uint64_t *bits, int64_t n);

/* *S becomes the source of its samples in KEPT, at least one, which it takes,
 * as it does the one that it was; on an error both stay the caller's. */
ts_err ts_subset_take(ts_source **s, uint64_t *kept);
