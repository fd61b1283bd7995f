/* cache_move.c - the host moves rows between slow memory and lines. */
#include <string.h>

#include "runtime/store.h"
#include "sparse/cache.h"
#include "sparse/sort.h"

int ts_cache_row_bits(const ts_cache *c) {
  int bits = 0;
  if (!c->by_number) return 32;
  while (bits < 32 && c->row_base[c->n_tables] >> bits) bits++;
  return bits;
}

/* A disk sees rows in their order: those given away come as they were found. */
static ts_err sort_move(const ts_cache *c, ts_cache_move *m) {
  uint32_t row[TS_CACHE_MOVE], slot[TS_CACHE_MOVE];
  const ts_store *s = c->part[0].store;
  if (!s || s->fd < 0) return TS_OK; /* memory has no order */
  const ts_sort_args sort = {.keys = m->row,
                             .keys_scratch = row,
                             .values = m->slot,
                             .values_scratch = slot,
                             .n = m->n,
                             .n_bits = ts_cache_row_bits(c)};
  return ts_sort_host(&sort);
}

static ts_err move_part(const ts_cache *c, const ts_cache_part *p,
                        const ts_cache_move *m, bool out) {
  if (p->store)
    return (out ? ts_store_write : ts_store_read)(p->store, m->row, m->slot,
                                                  m->n);
  for (int64_t i = 0; i < m->n; i++) {
    char *row = p->rows + m->row[i] * p->bytes;
    char *line = p->lines + (m->slot[i] - c->first_line) * p->bytes;
    memcpy(out ? row : line, out ? line : row, (size_t)p->bytes);
  }
  return TS_OK;
}

static ts_err move(const ts_cache *c, ts_cache_move *m, bool out) {
  for (int k = 0; m->n && k < c->n_parts; k++)
    TS_DO(move_part(c, &c->part[k], m, out));
  m->n = 0;
  return TS_OK;
}

static void each(const ts_cache *c, const ts_cache_move *m,
                 void (*fn)(ts_store *, const uint32_t *, int64_t)) {
  for (int k = 0; k < c->n_parts; k++)
    if (c->part[k].store) fn(c->part[k].store, m->row, m->n);
}

ts_err ts_cache_exchange(const ts_cache *c, ts_cache_move *out,
                         ts_cache_move *in) {
  TS_DO(sort_move(c, out));
  each(c, in, ts_store_look);
  each(c, in, ts_store_ask);
  each(c, out, ts_store_ask); /* a row that is written is part of a page */
  TS_DO(move(c, out, true));
  return move(c, in, false);
}
