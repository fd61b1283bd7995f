/* kernels_cache.c - the host's kernels of the cache: a batch's rows on their
 * way into lines, and out.
 *
 * A hold first looks for all ids in the directory, and locks what is there: so
 * no row that the batch has is given away for another one of it.  Then what is
 * missing is sorted, made unique and given lines, in passes over the ids one
 * after the other: all of them belong to one batch, a row that an earlier pass
 * has filled is found, and the scratch, which is all that grows with the ids,
 * is that of one pass.  A row that finds no line is marked until the end of
 * the batch, so that it is counted once in any number of passes. */
#include "base/mem.h"
#include "runtime/backends.h"
#include "sparse/cache.h"
#include "sparse/sort.h"

enum { SOME = 64, BLOCK = 256, EXPECT = 8 };

/* ---- one line, one row --------------------------------------------------- */

/* Counts of the table of ROW; *T is a guess, and then the answer. */
static uint64_t *count_of(const ts_cache *c, uint32_t row, int32_t *t) {
  const int64_t *base = c->row_base;
  if (row < base[*t] || row >= base[*t + 1]) {
    int32_t low = 0, high = c->n_tables - 1;
    while (low < high) {
      const int32_t mid = (low + high + 1) / 2;
      if (base[mid] <= row)
        low = mid;
      else
        high = mid - 1;
    }
    *t = low;
  }
  return c->counts + (int64_t)*t * TS_CACHE_COUNTS;
}

static bool use(const ts_cache *c, int64_t line, uint32_t now) {
  const bool first = ts_cache_use(&c->line[line], c->lfu, now, 1);
  *c->locks += first;
  return first;
}

/* Locks (BY 1) or unlocks (-1) a line, once in ROUND. */
static void lock(const ts_cache *c, int64_t line, uint32_t round, int by) {
  ts_cache_line *l = &c->line[line];
  if (l->round == round || (by < 0 && !ts_cache_is_locked(*l))) return;
  l->round = round;
  l->state += (uint32_t)by;
  *c->locks += (uint64_t)by;
}

static bool is_through(const ts_cache *c, uint32_t row) {
  return c->through && c->through[row / 32] >> row % 32 & 1;
}

static void set_through(const ts_cache *c, uint32_t row, bool on) {
  const uint32_t bit = 1u << row % 32;
  if (!c->through) return;
  if (on)
    c->through[row / 32] |= bit;
  else
    c->through[row / 32] &= ~bit;
  c->locks[1] += on;
}

/* ---- hold ---------------------------------------------------------------- */

typedef struct ts_holding {
  const ts_cache_args *a;
  const ts_cache *c;
  ts_cache_report *report;
  int32_t table, loser; /* guesses for count_of */
  ts_cache_move in, out;
} ts_holding;

/* Slots of rows that have lines; the others stay rows. */
static void find_all(ts_holding *h) {
  const ts_cache *c = h->c;
  const int64_t n = h->a->n;
  int32_t line[SOME];
  for (int64_t from = 0; from < n; from += SOME) {
    const int64_t m = n - from < SOME ? n - from : SOME;
    uint32_t *slots = h->a->slots + from;
    ts_cache_find_many(c, slots, m, n - from - m, line);
    for (int64_t i = 0; i < m; i++) {
      uint64_t *count = count_of(c, slots[i], &h->table);
      count[TS_CACHE_IDS]++;
      if (line[i] < 0) continue;
      count[TS_CACHE_HITS] += use(c, line[i], h->a->now);
      slots[i] = c->first_line + (uint32_t)line[i];
    }
  }
}

/* The ids [from, to) that still have no line: keys to sort by, and places. */
static int64_t gather(ts_holding *h, uint32_t *keys, uint32_t *order,
                      int64_t from, int64_t to) {
  const ts_cache *c = h->c;
  uint32_t *slots = h->a->slots;
  int64_t n = 0;
  for (int64_t i = from; i < to; i++) {
    if (slots[i] >= c->first_line) continue;
    const int64_t line = from ? ts_cache_find(c, slots[i]) : -1;
    if (line < 0) {
      keys[n] = c->by_number ? slots[i] : ts_cache_hash(slots[i]);
      order[n++] = (uint32_t)i;
    } else { /* by an earlier pass */
      (void)use(c, line, h->a->now);
      slots[i] = c->first_line + (uint32_t)line;
    }
  }
  return n;
}

static int64_t set_of(const ts_cache *c, uint32_t key) {
  return ts_cache_set(c->by_number ? ts_cache_hash(key) : key, c->n_sets);
}

/* A line for the row of KEY, to be filled; its slot, or the row's own where
 * there is none. */
static ts_err place(ts_holding *h, uint32_t key, uint32_t *slot) {
  const ts_cache *c = h->c;
  const uint32_t row = c->by_number ? key : ts_cache_row(key);
  *slot = row;
  if (is_through(c, row)) return TS_OK;
  uint64_t *count = count_of(c, row, &h->table);
  count[TS_CACHE_MISSES]++;
  const int64_t line = ts_cache_victim(c, set_of(c, key), h->a->now);
  if (line < 0) {
    count[TS_CACHE_CONFLICTS]++;
    set_through(c, row, true);
    return TS_OK;
  }
  *slot = c->first_line + (uint32_t)line;
  const uint32_t old = c->tag[line];
  if (old != TS_CACHE_NONE) {
    const bool dirty = c->line[line].state & TS_CACHE_DIRTY;
    count = count_of(c, old, &h->loser);
    count[TS_CACHE_EVICTED]++;
    count[TS_CACHE_WRITTEN] += dirty;
    if (dirty) ts_cache_move_add(&h->out, old, *slot);
  }
  ts_cache_move_add(&h->in, row, *slot);
  c->tag[line] = row;
  c->line[line] = ts_cache_given(h->a->now, 1);
  c->locks[0]++;
  if (h->in.n == TS_CACHE_MOVE) TS_DO(ts_cache_exchange(c, &h->out, &h->in));
  return TS_OK;
}

/* The ids of SORT, in order: those of a row one after the other. */
static ts_err place_all(ts_holding *h, const ts_sort_args *sort) {
  const ts_cache *c = h->c;
  const uint32_t *keys = sort->keys;
  uint32_t slot = 0;
  for (int64_t j = 0; j < sort->n; j++) {
    if (j + EXPECT < sort->n)
      ts_cache_expect_victim(c, set_of(c, keys[j + EXPECT]));
    if (j == 0 || keys[j] != keys[j - 1])
      TS_DO(place(h, keys[j], &slot));
    else if (slot >= c->first_line)
      (void)use(c, slot - c->first_line, h->a->now);
    h->a->slots[sort->values[j]] = slot;
  }
  return ts_cache_exchange(c, &h->out, &h->in);
}

static ts_err fill_pass(ts_holding *h, int64_t from, int64_t to) {
  ts_cache_report *r = h->report;
  int64_t missing = 0;
  for (int64_t i = from; i < to; i++)
    missing += h->a->slots[i] < h->c->first_line;
  if (!missing) return TS_OK;
  TS_DO(ts_mem_reserve(&r->scratch, &r->room, (size_t)missing * 16,
                       TS_TAG_SPARSE));
  r->scratch_bytes = (int64_t)r->room;
  uint32_t *const keys = r->scratch, *const order = keys + 2 * missing;
  const ts_sort_args sort = {.keys = keys,
                             .keys_scratch = keys + missing,
                             .values = order,
                             .values_scratch = order + missing,
                             .n = gather(h, keys, order, from, to),
                             .n_bits = ts_cache_row_bits(h->c)};
  TS_DO(ts_sort_host(&sort));
  return place_all(h, &sort);
}

static ts_err hold(const ts_cache_args *a) {
  ts_err err = TS_OK;
  const ts_cache *c = a->cache;
  ts_cache_report own = {0};
  ts_holding h;
  h.a = a;
  h.c = c;
  h.report = a->report ? a->report : &own;
  h.table = h.loser = 0;
  h.in.n = h.out.n = 0;
  find_all(&h);
  for (int64_t from = 0; from < a->n; from += a->pass)
    TS_TRY(fill_pass(&h, from, from + a->pass < a->n ? from + a->pass : a->n));
  for (int64_t i = 0; c->locks[1] && i < a->n; i++)
    if (a->slots[i] < c->first_line) set_through(c, a->slots[i], false);
  c->locks[1] = 0;
done:
  ts_mem_free(own.scratch);
  return err;
}

/* ---- release, refresh, locate -------------------------------------------- */

static ts_err release(const ts_cache_args *a) {
  const ts_cache *c = a->cache;
  for (int64_t i = 0; i < a->n; i++) {
    const int64_t next = i + EXPECT;
    if (next < a->n && a->slots[next] >= c->first_line)
      __builtin_prefetch(c->line + a->slots[next] - c->first_line, 1, 3);
    if (a->slots[i] >= c->first_line)
      lock(c, a->slots[i] - c->first_line, a->round, -1);
  }
  return TS_OK;
}

/* The batch locks the lines that it finds, too: it will release them. */
static ts_err refresh(const ts_cache_args *a) {
  const ts_cache *c = a->cache;
  for (int64_t i = 0; i < a->n; i++) {
    if (a->slots[i] >= c->first_line) continue;
    const int64_t line = ts_cache_find(c, a->slots[i]);
    if (line < 0) continue;
    lock(c, line, a->round, 1);
    a->slots[i] = c->first_line + (uint32_t)line;
  }
  return TS_OK;
}

/* Keys [from, to), BLOCK at most: distinct rows are looked for in a run, which
 * asks for the tags of the next ones and for the lines that are marked. */
static void locate_block(const ts_cache_args *a, int64_t from, int64_t to) {
  const ts_cache *c = a->cache;
  uint32_t rows[BLOCK], at[BLOCK];
  int32_t line[BLOCK];
  int64_t n = 0;
  rows[0] = a->keys[from];
  for (int64_t i = from; i < to; i++) {
    rows[n] = a->keys[i];
    at[n] = (uint32_t)(i - from);
    n += i == 0 || a->keys[i] != a->keys[i - 1];
  }
  ts_cache_find_many(c, rows, n, 0, line);
  for (int64_t k = 0; k < n; k++) {
    const bool has_line = line[k] >= 0;
    a->slots[from + at[k]] =
        has_line ? c->first_line + (uint32_t)line[k] : rows[k];
    if (has_line) c->line[line[k]].state |= TS_CACHE_DIRTY;
  }
}

static ts_err locate(const ts_cache_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->n; i += BLOCK)
    locate_block(a, i, i + BLOCK < a->n ? i + BLOCK : a->n);
  return TS_OK;
}

/* ---- all lines ----------------------------------------------------------- */

/* Rows that are written back stay in their lines, clean, so that they are not
 * written again. */
static ts_err flush(const ts_cache_args *a) {
  const ts_cache *c = a->cache;
  ts_cache_move out, none;
  out.n = none.n = 0;
  for (int64_t i = 0; i < c->n_sets * TS_CACHE_WAYS; i++) {
    ts_cache_line *l = &c->line[i];
    if (c->tag[i] == TS_CACHE_NONE || !(l->state & TS_CACHE_DIRTY)) continue;
    l->state &= ~TS_CACHE_DIRTY;
    ts_cache_move_add(&out, c->tag[i], c->first_line + (uint32_t)i);
    if (out.n == TS_CACHE_MOVE) TS_DO(ts_cache_exchange(c, &out, &none));
  }
  return ts_cache_exchange(c, &out, &none);
}

static ts_err reload(const ts_cache_args *a) {
  const ts_cache *c = a->cache;
  ts_cache_move in, none;
  in.n = none.n = 0;
  for (int64_t i = 0; i < c->n_sets * TS_CACHE_WAYS; i++) {
    c->line[i].state &= ~TS_CACHE_DIRTY;
    if (!c->line[i].state) c->tag[i] = TS_CACHE_NONE;
    if (c->tag[i] == TS_CACHE_NONE) continue;
    ts_cache_move_add(&in, c->tag[i], c->first_line + (uint32_t)i);
    if (in.n == TS_CACHE_MOVE) TS_DO(ts_cache_exchange(c, &none, &in));
  }
  return ts_cache_exchange(c, &none, &in);
}

/* ---- rows ---------------------------------------------------------------- */

static ts_err rows_of(const ts_cache_rows_args *a) {
  for (int32_t f = 0; f < a->n_features; f++) {
    const int64_t from = a->offsets[a->bag_start[f]];
    const int64_t to = a->offsets[a->bag_start[f + 1]];
    for (int64_t i = from; i < to; i++)
      a->out[i] = (uint32_t)(a->row_base[f] + a->rows[i]);
  }
  return TS_OK;
}

void ts_cache_kernels_host(ts_kernels *k) {
  k->cache_rows = rows_of;
  k->cache_hold = hold;
  k->cache_release = release;
  k->cache_refresh = refresh;
  k->cache_locate = locate;
  k->cache_flush = flush;
  k->cache_reload = reload;
}
