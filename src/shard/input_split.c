/* input_split.c - features whose bags' ids are spread over row shards.
 *
 * One pass over the ids counts what goes to each shard, a second one writes
 * each id straight into its place in the message to its shard's rank: the
 * work does not grow with the number of shards. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "shard/message.h"

/* Of one shard, in a pass. */
typedef struct ts_part {
  int64_t n, in_bag, longest; /* ids so far, in bag LAST, in any bag */
  int32_t last;
  ts_layout to;
} ts_part;

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
  ts_row_split x = {.feature = feature, .n_all = n};
  qsort(s, (size_t)n, sizeof *s, by_row);
  if (taken(ebc, feature, route_of(ebc, feature, &s[0]))) return TS_OK;
  TS_TRY(ts_mem_array(&x.row0, n, sizeof *x.row0, TS_TAG_MISC));
  TS_TRY(ts_mem_array(&x.route, n, sizeof *x.route, TS_TAG_MISC));
  x.block = s[0].n_rows;
  for (int32_t k = 0; k < n; k++) {
    if (s[k].n_rows && s[k].row0 != x.n_parts * x.block) x.block = 0;
    x.n_parts += s[k].n_rows > 0; /* shards without rows are the last ones */
    x.row0[k] = s[k].row0;
    x.route[k] = route_of(ebc, feature, &s[k]);
  }
  TS_TRY(ts_mem_resize(&ebc->splits, (size_t)ebc->n_splits * sizeof x,
                       (size_t)(ebc->n_splits + 1) * sizeof x, TS_TAG_MISC));
  if (n > ebc->parts_max) ebc->parts_max = n;
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
  TS_TRY(ts_mem_array(&slice, p->n_shards, sizeof *slice, TS_TAG_MISC));
  for (int32_t k = 0; k < p->n_shards; k++) {
    int32_t n = 0;
    bool first = true;
    for (int32_t i = 0; i < k; i++)
      first &= p->shards[i].col0 != p->shards[k].col0;
    for (int32_t i = k; first && i < p->n_shards; i++)
      if (p->shards[i].col0 == p->shards[k].col0) slice[n++] = p->shards[i];
    if (n) TS_TRY(add_split(ebc, feature, slice, n));
  }
done:
  ts_mem_free(slice);
  return err;
}

ts_err ts_splits_create(ts_ebc *ebc) {
  ts_err err = TS_OK;
  for (int32_t f = 0; f < ebc->n_features; f++) {
    const int32_t t = ebc->feature_table[f];
    if (ebc->config->tables[t].pooling != TS_POOL_NONE &&
        ts_sharding_find(ebc->plan->tables[t].kind)->split_rows)
      TS_TRY(split_feature(ebc, f));
  }
done:
  return err;
}

void ts_splits_destroy(ts_ebc *ebc) {
  for (int32_t k = 0; k < ebc->n_splits; k++) {
    ts_mem_free(ebc->splits[k].row0);
    ts_mem_free(ebc->splits[k].route);
  }
  ts_mem_free(ebc->splits);
}

ts_err ts_split_scratch(ts_flight *fl) {
  return ts_mem_array(&fl->parts, fl->ebc->parts_max, sizeof *fl->parts,
                      TS_TAG_COMM);
}

static inline int32_t part_of(const ts_row_split *x, int64_t id) {
  int32_t low = 0, high = x->n_parts - 1;
  if (x->block) return (int32_t)(id / x->block);
  while (low < high) {
    const int32_t mid = (low + high + 1) / 2;
    if (x->row0[mid] <= id)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

void ts_split_measure(ts_flight *fl, const ts_row_split *x) {
  const ts_bags *bags = &fl->bags[x->feature];
  ts_part *parts = fl->parts;
  int64_t k = 0;
  for (int32_t p = 0; p < x->n_all; p++) parts[p] = (ts_part){.last = -1};
  for (int32_t b = 0; b < bags->n; b++) {
    const int64_t end = k + ts_jagged_length(&bags->ids, b);
    for (; k < end; k++) {
      ts_part *p = &parts[part_of(x, bags->ids.ids[k])];
      p->in_bag = p->last == b ? p->in_bag + 1 : 1;
      p->last = b;
      p->n++;
      if (p->in_bag > p->longest) p->longest = p->in_bag;
    }
  }
  for (int32_t p = 0; p < x->n_all; p++)
    fl->route_count[x->route[p]] =
        parts[p].n << TS_FORM_BITS |
        (parts[p].longest < 256 ? TS_FORM_BYTES : TS_FORM_INTS);
}

/* Lengths start as zeros and are counted up. */
static void open_parts(ts_flight *fl, const ts_row_split *x, int32_t n_bags) {
  for (int32_t p = 0; p < x->n_all; p++) {
    const int32_t i = x->route[p];
    const int form = (int)(fl->route_count[i] & 3);
    fl->parts[p] =
        (ts_part){.to = ts_section_layout(&fl->ebc->routes[i],
                                          fl->route_count[i] >> TS_FORM_BITS,
                                          form, n_bags, fl->section_at[i])};
    if (n_bags)
      memset(fl->parts[p].to.lengths, 0, (size_t)ts_form_bytes(form, n_bags));
  }
}

void ts_split_write(ts_flight *fl, const ts_row_split *x) {
  const ts_bags *bags = &fl->bags[x->feature];
  const ts_jagged *j = &bags->ids;
  int64_t k = 0;
  open_parts(fl, x, bags->n);
  for (int32_t b = 0; b < bags->n; b++) {
    const int64_t first = k, end = k + ts_jagged_length(j, b);
    for (; k < end; k++) {
      const int32_t number = part_of(x, j->ids[k]);
      ts_part *p = &fl->parts[number];
      const ts_layout *to = &p->to;
      ts_put_row(to->rows, p->n, to->id_bytes, j->ids[k] - x->row0[number]);
      if (to->weights) to->weights[p->n] = j->weights[k];
      if (to->positions) to->positions[p->n] = ts_position(k - first);
      if (to->form == TS_FORM_BYTES)
        ((uint8_t *)to->lengths)[b]++;
      else
        ((int32_t *)(void *)to->lengths)[b]++;
      p->n++;
    }
  }
}
