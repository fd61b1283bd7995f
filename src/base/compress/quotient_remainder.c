/* quotient_remainder.c - with c = compress.collisions, a row for id / c and one
 * for id mod c, of which no two ids have both: ceil(rows / c) + c rows in all.
 *
 * H. Shi et al., "Compositional Embeddings Using Complementary Partitions for
 * Memory-Efficient Recommendation Systems", KDD 2020; as in DLRM's
 * qr_embedding_bag it is the quotients that are many. */
#include "base/compress.h"

static ts_combine combine(const ts_table_config *t) {
  const char *how = t->compress.combine;
  return !strcmp(how, "add")      ? TS_COMBINE_ADD
         : !strcmp(how, "concat") ? TS_COMBINE_CONCAT
                                  : TS_COMBINE_MULTIPLY;
}

static const char *lacks(const ts_table_config *t) {
  if (t->compress.collisions < 2)
    return "quotient_remainder needs compress.collisions of 2 or more, how "
           "many ids share a row";
  if (t->rows > 0 && t->compress.collisions >= t->rows)
    return "compress.collisions is less than rows";
  if (combine(t) == TS_COMBINE_MULTIPLY && t->weighted &&
      t->pooling != TS_POOL_NONE)
    return "compress.combine \"multiply\" would multiply weights, too: "
           "weighted = true takes \"add\" or \"concat\"";
  if (combine(t) == TS_COMBINE_CONCAT && t->dim % 2)
    return "compress.combine \"concat\" halves dim, which is odd";
  return NULL;
}

static int32_t n_parts(const ts_table_config *t) {
  (void)t;
  return 2;
}

/* Factors of one part begin as 1, so that products begin as rows of init. */
static void shape(const ts_table_config *t, int32_t k, ts_part_shape *s) {
  const ts_combine how = combine(t);
  strcpy(s->suffix, k ? "_remainder" : "_quotient");
  s->dim = how == TS_COMBINE_CONCAT ? t->dim / 2 : t->dim;
  s->begins_as_1 = how == TS_COMBINE_MULTIPLY && k;
}

static int64_t rows(const ts_table_config *t, int32_t k) {
  const int64_t c = t->compress.collisions;
  return k ? c : (t->rows - 1) / c + 1;
}

static void map(const ts_table_config *t, int32_t k, int64_t *ids, int64_t n) {
  const int64_t c = t->compress.collisions;
  for (int64_t i = 0; i < n; i++) ids[i] = k ? ids[i] % c : ids[i] / c;
}

const ts_compress_ops ts_compress_quotient_remainder = {
    .kind = "quotient_remainder",
    .lacks = lacks,
    .n_parts = n_parts,
    .combine = combine,
    .shape = shape,
    .rows = rows,
    .map = map};
