/* compress.c - the kinds of compress, and what concerns all of them. */
#include "base/compress.h"

extern const ts_compress_ops ts_compress_quotient_remainder, ts_compress_hashes,
    ts_compress_low_rank, ts_compress_blocks;

static const ts_compress_ops *const kinds[] = {
    &ts_compress_quotient_remainder, &ts_compress_hashes, &ts_compress_low_rank,
    &ts_compress_blocks};

const ts_compress_ops *ts_compress_of(const ts_table_config *t) {
  const char *kind = ts_table_whole(t)->compress.kind;
  for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kinds[i]->kind, kind)) return kinds[i];
  return NULL;
}

void ts_part_map(const ts_table_config *t, int64_t *ids, int64_t n) {
  if (t->whole) ts_compress_of(t)->map(t->whole, t->part, ids, n);
}

void ts_table_ids_are(ts_table_config *t, int64_t ids) {
  t->rows = ids;
  if (!t->whole) return;
  t->whole->rows = ids;
  if (ids > 0) t->rows = ts_compress_of(t)->rows(t->whole, t->part);
}

bool ts_part_wants_ones(const ts_table_config *t) {
  if (!t->whole || t->pooling == TS_POOL_NONE) return false;
  const ts_compress_ops *ops = ts_compress_of(t);
  return ops->combine && ops->combine(t->whole) == TS_COMBINE_MULTIPLY;
}
