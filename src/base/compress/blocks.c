/* blocks.c - ids that are numbered by how often they are met, in blocks: block
 * k has ids [starts[k - 1], starts[k]) and rows of dims[k] numbers, which a
 * matrix makes dim wide where they are fewer.
 *
 * A. Ginart et al., "Mixed Dimension Embeddings with Application to
 * Memory-Efficient Recommendation Systems", ISIT 2021. */
#include <stdio.h>

#include "base/compress.h"

static const char *lacks(const ts_table_config *t) {
  const ts_ints *starts = &t->compress.starts, *dims = &t->compress.dims;
  if (starts->n < 1 || dims->n != starts->n + 1)
    return "blocks needs compress.starts, the first id of each block but the "
           "first, and compress.dims, one more: that of each block";
  for (int32_t k = 0; k < dims->n; k++)
    if (dims->item[k] < 1 || dims->item[k] > t->dim)
      return "compress.dims are at least 1 and at most dim";
  for (int32_t k = 0; k < starts->n; k++)
    if (starts->item[k] <= (k ? starts->item[k - 1] : 0))
      return "compress.starts are over 0 and ascend";
  if (t->rows > 0 && starts->item[starts->n - 1] >= t->rows)
    return "compress.starts are less than rows";
  return t->pooling == TS_POOL_SUM
             ? NULL
             : "blocks takes pooling = \"sum\", as an id is of one block "
               "alone";
}

static int32_t n_parts(const ts_table_config *t) {
  return t->compress.dims.n;
}

static void shape(const ts_table_config *t, int32_t k, ts_part_shape *s) {
  snprintf(s->suffix, sizeof s->suffix, "_block%d", k);
  s->dim = (int32_t)t->compress.dims.item[k];
}

static int64_t first_of(const ts_table_config *t, int32_t k) {
  return k ? t->compress.starts.item[k - 1] : 0;
}

static int64_t end_of(const ts_table_config *t, int32_t k) {
  const bool last = k == t->compress.starts.n;
  return last || t->compress.starts.item[k] > t->rows
             ? t->rows
             : t->compress.starts.item[k];
}

/* One at least: data may need fewer rows than the deck foresees. */
static int64_t rows(const ts_table_config *t, int32_t k) {
  const int64_t n = end_of(t, k) - first_of(t, k);
  return n > 0 ? n : 1;
}

static void map(const ts_table_config *t, int32_t k, int64_t *ids, int64_t n) {
  const int64_t first = first_of(t, k), end = end_of(t, k);
  for (int64_t i = 0; i < n; i++)
    ids[i] = ids[i] >= first && ids[i] < end ? ids[i] - first : -1;
}

const ts_compress_ops ts_compress_blocks = {.kind = "blocks",
                                            .lacks = lacks,
                                            .n_parts = n_parts,
                                            .shape = shape,
                                            .rows = rows,
                                            .map = map,
                                            .leaves_out = true};
