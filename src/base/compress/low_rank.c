/* low_rank.c - rows of compress.rank numbers, which a matrix (dim, rank) makes
 * dim wide: the table is the product of two matrices.
 *
 * Z. Lan et al., "ALBERT: A Lite BERT for Self-supervised Learning of Language
 * Representations", ICLR 2020, section 3.1 (factorized embedding). */
#include "base/compress.h"

static const char *lacks(const ts_table_config *t) {
  return t->compress.rank < 1 || t->compress.rank >= t->dim
             ? "low_rank needs compress.rank, at least 1 and less than dim"
             : NULL;
}

static int32_t n_parts(const ts_table_config *t) {
  (void)t;
  return 1;
}

static void shape(const ts_table_config *t, int32_t k, ts_part_shape *s) {
  (void)k;
  strcpy(s->suffix, "_low_rank");
  s->dim = t->compress.rank;
}

static int64_t rows(const ts_table_config *t, int32_t k) {
  (void)k;
  return t->rows;
}

static void map(const ts_table_config *t, int32_t k, int64_t *ids, int64_t n) {
  (void)t, (void)k, (void)ids, (void)n;
}

const ts_compress_ops ts_compress_low_rank = {.kind = "low_rank",
                                              .lacks = lacks,
                                              .n_parts = n_parts,
                                              .shape = shape,
                                              .rows = rows,
                                              .map = map};
