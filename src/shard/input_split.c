/* input_split.c - features whose bags' ids are spread over row shards: which
 * shards those are, and where their ids lie in messages. */
#include <stdlib.h>

#include "base/mem.h"
#include "shard/message.h"

/* The route of FEATURE's ids to shard S, -1: none. */
static int32_t route_of(const ts_ebc *ebc, int32_t feature, const ts_shard *s) {
  for (int32_t i = ebc->route_start[s->rank]; i < ebc->route_start[s->rank + 1];
       i++) {
    const ts_route *r = &ebc->routes[i];
    if (r->feature == feature && r->row0 == s->row0 && r->n_rows == s->n_rows)
      return i;
  }
  return -1;
}

/* Whether an earlier split of the feature writes route I already: two column
 * slices on the same ranks. */
static bool taken(const ts_ebc *ebc, int32_t feature, int32_t i) {
  for (int32_t k = 0; k < ebc->n_splits; k++)
    for (int32_t p = 0;
         ebc->splits[k].feature == feature && p < ebc->splits[k].n_all; p++)
      if (ebc->splits[k].route[p] == i) return true;
  return false;
}

static int by_row(const void *a, const void *b) {
  const ts_shard *x = a, *y = b;
  if (x->row0 != y->row0) return x->row0 < y->row0 ? -1 : 1;
  return (x->n_rows > y->n_rows) - (x->n_rows < y->n_rows);
}

/* The split of FEATURE by the N shards at S, all of one column slice. */
static ts_err add_split(ts_ebc *ebc, int32_t feature, ts_shard *s, int32_t n) {
  ts_err err = TS_OK;
  const int32_t t = ebc->feature_table[feature];
  ts_row_split x = {.feature = feature,
                    .n_all = n,
                    .hashed = ts_table_is_dynamic(&ebc->config->tables[t])};
  qsort(s, (size_t)n, sizeof *s, by_row);
  if (taken(ebc, feature, route_of(ebc, feature, &s[0]))) return TS_OK;
  TS_TRY(ts_mem_many(x.row0, n, MISC));
  TS_TRY(ts_mem_many(x.route, n, MISC));
  x.block = s[0].n_rows;
  for (int32_t k = 0; k < n; k++) {
    if (s[k].n_rows && s[k].row0 != x.n_parts * x.block) x.block = 0;
    x.n_parts += s[k].n_rows > 0; /* shards without rows are the last ones */
    x.row0[k] = x.hashed ? 0 : s[k].row0;
    x.route[k] = route_of(ebc, feature, &s[k]);
  }
  TS_TRY(ts_mem_resize(&ebc->splits, (size_t)ebc->n_splits * sizeof x,
                       (size_t)(ebc->n_splits + 1) * sizeof x, TS_TAG_MISC));
  ebc->n_parts += n;
  ebc->splits[ebc->n_splits++] = x;
  return TS_OK;
done:
  ts_mem_free(x.row0);
  ts_mem_free(x.route);
  return err;
}

static ts_err split_feature(ts_ebc *ebc, int32_t feature) {
  ts_err err = TS_OK;
  const int32_t t = ebc->feature_table[feature];
  const ts_table_plan *p = &ebc->plan->tables[t];
  ts_shard *slice = NULL;
  TS_TRY(ts_mem_many(slice, p->n_shards, MISC));
  for (int32_t k = 0; k < p->n_shards; k++) {
    int32_t n = 0;
    bool first = true;
    for (int32_t i = 0; i < k; i++)
      first &= p->shards[i].col0 != p->shards[k].col0;
    for (int32_t i = k; first && i < p->n_shards; i++)
      if (p->shards[i].col0 == p->shards[k].col0) slice[n++] = p->shards[i];
    if (n) TS_TRY(add_split(ebc, ebc->ids_of[feature], slice, n));
  }
done:
  ts_mem_free(slice);
  return err;
}

ts_err ts_splits_create(ts_ebc *ebc) {
  if (ebc->n_ranks == 1) return TS_OK; /* one shard, to which nothing travels */
  for (int32_t f = 0; f < ebc->n_features; f++) {
    const int32_t t = ebc->feature_table[f];
    if (ebc->config->tables[t].pooling != TS_POOL_NONE &&
        ts_sharding_find(ebc->plan->tables[t].kind)->split_rows)
      TS_DO(split_feature(ebc, f));
  }
  return TS_OK;
}

void ts_splits_destroy(ts_ebc *ebc) {
  for (int32_t k = 0; k < ebc->n_splits; k++) {
    ts_mem_free(ebc->splits[k].row0);
    ts_mem_free(ebc->splits[k].route);
  }
  ts_mem_free(ebc->splits);
}

void ts_split_describe(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  ts_pack_part *part = fl->parts;
  int32_t *start = fl->spread.ptr; /* NULL on the host */
  for (int32_t k = 0; k < ebc->n_splits; k++) {
    const ts_row_split *x = &ebc->splits[k];
    const ts_bags *b = &fl->bags[x->feature];
    fl->splits[k] = (ts_pack_split){.bags = b->ids,
                                    .offsets = b->offsets,
                                    .n_bags = b->n,
                                    .first = (int32_t)(part - fl->parts),
                                    .n_parts = x->n_parts,
                                    .n_all = x->n_all,
                                    .block = x->block,
                                    .hashed = x->hashed,
                                    .row0 = x->row0};
    for (int32_t p = 0; p < x->n_all; p++) {
      *part++ = (ts_pack_part){
          .row0 = x->row0[p], .route = x->route[p], .start = start};
      if (start) start += b->n + 1;
    }
  }
}

/* Words of starts that the batch at hand needs on a discrete device. */
int64_t ts_split_starts(const ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  int64_t n = 0;
  for (int32_t k = 0; k < ebc->n_splits; k++)
    n += (int64_t)ebc->splits[k].n_all *
         (fl->bags[ebc->splits[k].feature].n + 1);
  return n;
}

void ts_split_place(ts_ebc_batch *fl, char *message) {
  const ts_ebc *ebc = fl->ebc;
  for (int32_t k = 0; k < ebc->n_splits; k++) {
    const ts_pack_split *x = &fl->splits[k];
    for (int32_t p = x->first; p < x->first + x->n_all; p++) {
      const int32_t i = fl->parts[p].route;
      fl->parts[p].n_ids = fl->route_count[i] >> TS_FORM_BITS;
      fl->parts[p].to = ts_section_layout(
          &ebc->routes[i], fl->parts[p].n_ids, (int)(fl->route_count[i] & 3),
          x->n_bags, message + fl->section_at[i]);
    }
  }
}
