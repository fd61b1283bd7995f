/* cuda_pack_block.h - what the tests of input dist's sending side share: all
 * of a case lies in one block, of which the target has a copy. */
#ifndef TS_TESTS_CUDA_PACK_BLOCK_H
#define TS_TESTS_CUDA_PACK_BLOCK_H

#include "tests/kernels/cuda_pack.h"
#include "tests/support/sparse_util.h"

/* Whose kernels are tested, and the host's as one of those. */
extern const pack_target *pack_tested;
extern pack_target pack_host;

typedef struct block {
  char *image, *base; /* the test's; where kernels see it */
  size_t used, bytes;
} block;

static inline void block_start(block *b, size_t bytes) {
  *b = (block){.image = test_alloc((int64_t)bytes, 1), .bytes = bytes};
}

/* The start of N elements of SIZE bytes. */
static inline size_t take(block *b, int64_t n, size_t size) {
  const size_t at = b->used;
  b->used += ((size_t)n * size + 15) / 16 * 16;
  ck_assert_uint_le(b->used, b->bytes);
  return at;
}

/* Room for it that nobody has written before. */
static inline size_t take_out(block *b, int64_t n, size_t size) {
  const size_t at = take(b, n, size);
  memset(b->image + at, 0x5a, b->used - at);
  return at;
}

static inline void check_same(const char *a, const char *b, size_t at,
                              size_t bytes, const char *what) {
  for (size_t i = 0; i < bytes; i++)
    ck_assert_msg(a[at + i] == b[at + i], "%s: byte %zu is %d, %d on the host",
                  what, i, b[at + i], a[at + i]);
}

/* cuda_pack_distinct.c */
void pack_add_distinct(TCase *);

#endif
