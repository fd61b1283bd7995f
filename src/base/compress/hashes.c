/* hashes.c - k = compress.hashes rows, one of compress.rows in each part, by as
 * many hash functions of the id; their sum.  Two ids share all of their rows
 * with probability compress.rows^-k.
 *
 * J. Serra, A. Karatzoglou, "Getting Deep Recommenders Fit: Bloom Embeddings
 * for Sparse Binary Input/Output Networks", RecSys 2017; the sum without
 * weights of D. Svenstrup et al., "Hash Embeddings for Efficient Word
 * Representations", NIPS 2017.  A part for each hash, where these have one
 * pool: so the rows of an id are never the same one twice. */
#include <stdio.h>

#include "base/compress.h"
#include "base/hash.h"

static const char *lacks(const ts_table_config *t) {
  if (t->compress.hashes < 1)
    return "hashes needs compress.hashes, how many rows an id has";
  return t->compress.rows < 1
             ? "hashes needs compress.rows, the rows of each hash"
             : NULL;
}

static int32_t n_parts(const ts_table_config *t) {
  return t->compress.hashes;
}

static void shape(const ts_table_config *t, int32_t k, ts_part_shape *s) {
  snprintf(s->suffix, sizeof s->suffix, "_hash%d", k);
  s->dim = t->dim;
}

static int64_t rows(const ts_table_config *t, int32_t k) {
  (void)k;
  return t->compress.rows;
}

/* Hash K is the last of a walk that adds the golden ratio K + 1 times. */
static void map(const ts_table_config *t, int32_t k, int64_t *ids, int64_t n) {
  const uint64_t start = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(k + 1);
  const uint64_t rows = (uint64_t)t->compress.rows;
  for (int64_t i = 0; i < n; i++)
    ids[i] = (int64_t)(ts_mix64((uint64_t)ids[i] + start) % rows);
}

const ts_compress_ops ts_compress_hashes = {.kind = "hashes",
                                            .lacks = lacks,
                                            .n_parts = n_parts,
                                            .shape = shape,
                                            .rows = rows,
                                            .map = map};
