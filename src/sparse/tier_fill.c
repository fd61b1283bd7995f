/* tier_fill.c - a batch's rows on their way into lines.
 *
 * First all ids are looked for in the directory, and what is there is locked:
 * so no row that the batch has is given away for another one of it.  Then
 * what is missing is sorted, made unique and filled, in passes over the ids
 * one after the other: all of them belong to one batch, a row that an earlier
 * pass has filled is found, and the scratch, which is all that grows with the
 * ids, is that of one pass.  A row that finds no line is marked until the end
 * of the batch, so that it is counted once in any number of passes. */
#include "base/mem.h"
#include "runtime/trace.h"
#include "sparse/tier_cached.h"

enum { EXPECT = 8, SOME = 64 };

/* ---- counts -------------------------------------------------------------- */

/* Table of ROW; *T is a guess, and then the answer. */
static ts_tier_count *count_of(ts_cached *c, uint32_t row, int32_t *t) {
  const int64_t *base = c->spec.row_base;
  if (row >= base[*t] && row < base[*t + 1]) return &c->count[*t];
  int32_t low = 0, high = c->spec.n_tables - 1;
  while (low < high) {
    const int32_t mid = (low + high + 1) / 2;
    if (base[mid] <= row)
      low = mid;
    else
      high = mid - 1;
  }
  *t = low;
  return &c->count[low];
}

static bool is_through(const ts_cached *c, uint32_t row) {
  return c->through[row >> 3] >> (row & 7) & 1;
}

static void set_through(ts_cached *c, uint32_t row, bool on) {
  const uint8_t bit = (uint8_t)(1u << (row & 7));
  if (on)
    c->through[row >> 3] |= bit;
  else
    c->through[row >> 3] &= (uint8_t)~bit;
}

/* ---- moving -------------------------------------------------------------- */

static ts_err move(ts_cached *c, ts_move *m,
                   ts_err (*fn)(ts_store *, const uint32_t *, const uint32_t *,
                                int64_t)) {
  ts_err err = TS_OK;
  if (!m->n) return TS_OK;
  TS_TRY(fn(&c->weights, m->row, m->slot, m->n));
  for (int k = 0; k < c->spec.n_states; k++)
    if (c->state[k].base) TS_TRY(fn(&c->state[k], m->row, m->slot, m->n));
  m->n = 0;
done:
  return err;
}

static void each(ts_cached *c, const ts_move *m,
                 void (*fn)(ts_store *, const uint32_t *, int64_t)) {
  fn(&c->weights, m->row, m->n);
  for (int k = 0; k < c->spec.n_states; k++)
    if (c->state[k].base) fn(&c->state[k], m->row, m->n);
}

ts_err ts_tier_read(ts_cached *c, ts_move *m) {
  each(c, m, ts_store_look);
  each(c, m, ts_store_ask);
  return move(c, m, ts_store_read);
}

/* In the order of rows: those given away come as they were found. */
static ts_err sort_move(ts_cached *c, ts_move *m) {
  uint32_t row[TS_MOVE_MAX], slot[TS_MOVE_MAX];
  if (c->weights.fd < 0) return TS_OK; /* memory has no order */
  const ts_sort_args sort = {.keys = m->row,
                             .keys_scratch = row,
                             .values = m->slot,
                             .values_scratch = slot,
                             .n = m->n,
                             .n_bits = c->key_bits};
  return c->spec.kernels->sort(&sort);
}

ts_err ts_tier_write(ts_cached *c, ts_move *m) {
  ts_err err = TS_OK;
  TS_TRY(sort_move(c, m));
  each(c, m, ts_store_ask); /* a row is part of a page */
  TS_TRY(move(c, m, ts_store_write));
done:
  return err;
}

/* What is given away goes first: its lines are those to be filled.  A disk
 * looks for both together. */
static ts_err move_all(ts_cached *c) {
  ts_err err = TS_OK;
  TS_TRY(sort_move(c, &c->out));
  each(c, &c->in, ts_store_look);
  each(c, &c->in, ts_store_ask);
  each(c, &c->out, ts_store_ask);
  TS_TRY(move(c, &c->out, ts_store_write));
  TS_TRY(move(c, &c->in, ts_store_read));
done:
  return err;
}

/* ---- the ids ------------------------------------------------------------- */

/* A few ids, whose lines are here. */
static void find_some(ts_cached *c, uint32_t *slots, const int32_t *line,
                      int64_t n, int32_t *t) {
  for (int64_t i = 0; i < n; i++) {
    ts_tier_count *count = count_of(c, slots[i], t);
    count->n_ids++;
    if (line[i] < 0) continue;
    if (ts_cache_use(&c->cache, line[i])) count->n_hits++;
    slots[i] = (uint32_t)(c->first_line + line[i]);
  }
}

/* Slots of rows that have lines; the others stay rows. */
static void find_all(ts_cached *c, uint32_t *slots, int64_t n) {
  int32_t t = 0, line[SOME];
  for (int64_t i = 0; i < n; i += SOME) {
    const int64_t m = n - i < SOME ? n - i : SOME;
    ts_cache_find_many(&c->cache, slots + i, m, n - i - m, line);
    find_some(c, slots + i, line, m, &t);
  }
}

/* What is still missing in a pass: rows to keys, places to order. */
static int64_t gather(ts_cached *c, uint32_t *slots, int64_t from, int64_t to) {
  uint32_t *keys = c->keys[0].ptr, *order = c->order[0].ptr;
  int64_t n = 0;
  for (int64_t i = from; i < to; i++) {
    if (slots[i] >= c->first_line) continue;
    const int64_t line = from ? ts_cache_find(&c->cache, slots[i]) : -1;
    if (line < 0) {
      keys[n] = slots[i];
      order[n++] = (uint32_t)i;
    } else { /* by an earlier pass */
      (void)ts_cache_use(&c->cache, line);
      slots[i] = (uint32_t)(c->first_line + line);
    }
  }
  return n;
}

/* A line for ROW, to be filled; its slot, or the row's own where there is
 * none. */
static ts_err place(ts_cached *c, uint32_t row, uint32_t *slot, int32_t *t) {
  ts_err err = TS_OK;
  uint32_t old;
  bool dirty;
  *slot = row;
  if (is_through(c, row)) return TS_OK;
  ts_tier_count *count = count_of(c, row, t);
  count->n_misses++;
  const int64_t line = ts_cache_take(&c->cache, row, &old, &dirty);
  if (line < 0) {
    set_through(c, row, true);
    c->n_through++;
    count->n_conflicts++;
    return TS_OK;
  }
  *slot = (uint32_t)(c->first_line + line);
  count->bytes_in += c->line_bytes;
  int32_t from = 0;
  ts_tier_count *loser = old == TS_CACHE_NONE ? NULL : count_of(c, old, &from);
  if (loser) loser->n_evicted++;
  if (dirty) {
    loser->n_written++;
    loser->bytes_out += c->line_bytes;
    c->out.row[c->out.n] = old;
    c->out.slot[c->out.n++] = *slot;
  }
  c->in.row[c->in.n] = row;
  c->in.slot[c->in.n++] = *slot;
  if (c->in.n == TS_MOVE_MAX) TS_TRY(move_all(c));
done:
  return err;
}

static ts_err fill_pass(ts_cached *c, uint32_t *slots, int64_t from,
                        int64_t to) {
  ts_err err = TS_OK;
  int64_t missing = 0;
  int32_t t = 0;
  uint32_t slot = 0;
  for (int64_t i = from; i < to; i++) missing += slots[i] < c->first_line;
  if (!missing) return TS_OK;
  for (int k = 0; k < 2; k++) {
    TS_TRY(ts_buffer_reserve(&c->keys[k], (size_t)missing * 4));
    TS_TRY(ts_buffer_reserve(&c->order[k], (size_t)missing * 4));
  }
  const int64_t n = gather(c, slots, from, to);
  const ts_sort_args sort = {.keys = c->keys[0].ptr,
                             .keys_scratch = c->keys[1].ptr,
                             .values = c->order[0].ptr,
                             .values_scratch = c->order[1].ptr,
                             .n = n,
                             .n_bits = c->key_bits};
  TS_TRY(c->spec.kernels->sort(&sort));
  for (int64_t j = 0; j < n; j++) {
    if (j + EXPECT < n) ts_cache_expect_take(&c->cache, sort.keys[j + EXPECT]);
    if (j == 0 || sort.keys[j] != sort.keys[j - 1])
      TS_TRY(place(c, sort.keys[j], &slot, &t));
    else if (slot >= c->first_line)
      (void)ts_cache_use(&c->cache, slot - c->first_line);
    slots[sort.values[j]] = slot;
  }
  TS_TRY(move_all(c));
done:
  return err;
}

static int64_t pass_size(const ts_tier_spec *s, int64_t n) {
  if (n <= s->passes) return n;
  const int64_t even = (n + s->passes - 1) / s->passes;
  return even > s->min_pass ? even : s->min_pass;
}

static void add_unique(ts_cached *c) {
  for (int32_t t = 0; t < c->spec.n_tables; t++)
    c->count[t].n_unique = c->count[t].n_hits + c->count[t].n_misses;
}

ts_err ts_tier_hold(ts_tier *tier, uint32_t *slots, int64_t n, ts_lane *lane) {
  (void)lane;
  ts_err err = TS_OK;
  ts_cached *c = (ts_cached *)tier;
  const double t0 = ts_now();
  const int64_t size = pass_size(&c->spec, n);
  c->n_through = 0;
  c->n_held++;
  ts_cache_begin(&c->cache);
  find_all(c, slots, n);
  for (int64_t from = 0; from < n; from += size)
    TS_TRY(fill_pass(c, slots, from, from + size < n ? from + size : n));
  for (int64_t i = 0; c->n_through && i < n; i++)
    if (slots[i] < c->first_line) set_through(c, slots[i], false);
  add_unique(c);
done:
  c->hold_s += ts_now() - t0;
  return err;
}
