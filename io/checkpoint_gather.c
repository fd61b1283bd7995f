/* checkpoint_gather.c - bytes of a piece that is written, one behind the other
 * in the host's memory: where its rows lie scattered, or the host may not
 * touch them. */
#include <string.h>

#include "io/checkpoint_impl.h"

void ts_ckpt_gather(char *to, const ts_ckpt_piece *p, int64_t row, int64_t from,
                    int64_t n) {
  int64_t i = from / row, skip = from % row;
  for (int64_t left = n; left > 0; i++) {
    const int64_t here = row - skip < left ? row - skip : left;
    memcpy(to, (const char *)p->ptr + p->at[i] * row + skip, (size_t)here);
    to += here;
    left -= here;
    skip = 0;
  }
}

/* A device's memory: a transfer for each row. */
static ts_err gather_apart(ts_staging *s, char *to, const ts_ckpt_piece *p,
                           int64_t row, int64_t from, int64_t n) {
  int64_t i = from / row, skip = from % row;
  for (int64_t left = n; left > 0; i++) {
    const int64_t here = row - skip < left ? row - skip : left;
    TS_DO(ts_staging_get(s, to, (const char *)p->ptr + p->at[i] * row + skip,
                         (size_t)here));
    to += here;
    left -= here;
    skip = 0;
  }
  return TS_OK;
}

ts_err ts_ckpt_bring(ts_staging *s, char *to, const ts_ckpt_piece *p,
                     int64_t row, int64_t from, int64_t n) {
  if (!p->at)
    return ts_staging_get(s, to, (const char *)p->ptr + from, (size_t)n);
  if (ts_staging_is_remote(s, p->ptr))
    return gather_apart(s, to, p, row, from, n);
  ts_ckpt_gather(to, p, row, from, n);
  return TS_OK;
}

bool ts_ckpt_is_plain(const ts_staging *s, const ts_ckpt_piece *p) {
  return !p->at && !ts_staging_is_remote(s, p->ptr);
}

bool ts_ckpt_needs_bite(const ts_ckpt *c) {
  bool needs = c->staging.lane != NULL;
  for (int32_t i = 0; i < c->n_items; i++)
    for (int32_t k = 0; k < c->items[i].n_write; k++)
      needs |= c->items[i].write[k].at != NULL;
  return needs;
}
