/* kernels_cache.c - the cache of a device in plain C: what cuda/sparse/cache.cu
 * has to do, one row after the other.  The host has a cache of its own
 * (tier_cached.c); of these entries it uses cache_rows. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/backends.h"
#include "sparse/cache.h"
#include "sparse/cache_device.h"

/* ---- one line ------------------------------------------------------------ */

static uint64_t *count_of(const ts_cache_device *c, uint32_t row) {
  int32_t t = 0;
  while (t + 1 < c->n_tables && c->row_base[t + 1] <= row) t++;
  return c->counts + (int64_t)t * TS_CACHE_COUNTS;
}

static int64_t first_of_set(const ts_cache_device *c, uint32_t row) {
  const ts_cache sets = {.n_sets = c->n_sets};
  return ts_cache_set_of(&sets, row) * TS_CACHE_WAYS;
}

static int64_t find(const ts_cache_device *c, uint32_t row) {
  const int64_t first = first_of_set(c, row);
  for (int64_t i = first; i < first + TS_CACHE_WAYS; i++)
    if (c->tag[i] == row) return i;
  return -1;
}

/* Uses of a line that still count. */
static uint32_t aged(const ts_cache_device *c, int64_t line, uint32_t now) {
  const uint32_t halvings = (now - c->stamp[line]) / TS_CACHE_AGE;
  return halvings < 32 ? c->count[line] >> halvings : 0;
}

/* True where this is the batch's first use, which locks. */
static bool use(const ts_cache_device *c, int64_t line, uint32_t now) {
  const bool first = c->stamp[line] != now;
  if (c->lfu && first) c->count[line] = aged(c, line, now);
  c->count[line] += c->count[line] < UINT32_MAX;
  if (!first) return false;
  c->stamp[line] = now;
  c->state[line]++;
  c->locks[0]++;
  return true;
}

/* What a line is worth keeping: the least goes; locked ones never. */
static uint64_t worth(const ts_cache_device *c, int64_t line, uint32_t now) {
  const uint32_t recent = UINT32_MAX - (now - c->stamp[line]);
  if (c->tag[line] == TS_CACHE_NONE) return 0;
  if (c->state[line] & ~TS_CACHE_DIRTY) return UINT64_MAX;
  return 1 + ((uint64_t)(c->lfu ? aged(c, line, now) : 0) << 32 | recent);
}

static int64_t victim(const ts_cache_device *c, uint32_t row, uint32_t now) {
  const int64_t first = first_of_set(c, row);
  uint64_t least = UINT64_MAX;
  int64_t best = -1;
  for (int64_t i = first; i < first + TS_CACHE_WAYS; i++) {
    const uint64_t w = worth(c, i, now);
    if (w < least) best = i;
    if (w < least) least = w;
  }
  return best;
}

/* ---- moving -------------------------------------------------------------- */

static void move(const ts_cache_device *c, uint32_t row, int64_t line,
                 bool out) {
  for (int k = 0; k < c->n_parts; k++) {
    const ts_cache_part *p = &c->part[k];
    char *slow = p->rows + row * p->bytes, *fast = p->lines + line * p->bytes;
    memcpy(out ? slow : fast, out ? fast : slow, (size_t)p->bytes);
  }
}

/* ---- hold ---------------------------------------------------------------- */

static bool is_through(const ts_cache_device *c, uint32_t row) {
  return c->through && c->through[row / 32] >> row % 32 & 1;
}

static void set_through(const ts_cache_device *c, uint32_t row, bool on) {
  if (!c->through) return;
  const uint32_t bit = 1u << row % 32;
  if (on)
    c->through[row / 32] |= bit;
  else
    c->through[row / 32] &= ~bit;
}

/* A line for ROW, which has none: its slot, or ROW. */
static uint32_t place(const ts_cache_device *c, uint32_t row, uint32_t now) {
  if (is_through(c, row)) return row;
  count_of(c, row)[TS_CACHE_MISSES]++;
  const int64_t line = victim(c, row, now);
  if (line < 0) {
    count_of(c, row)[TS_CACHE_CONFLICTS]++;
    set_through(c, row, true);
    c->locks[1]++;
    return row;
  }
  const uint32_t old = c->tag[line];
  if (old != TS_CACHE_NONE) {
    const bool dirty = c->state[line] & TS_CACHE_DIRTY;
    count_of(c, old)[TS_CACHE_EVICTED]++;
    count_of(c, old)[TS_CACHE_WRITTEN] += dirty;
    if (dirty) move(c, old, line, true);
  }
  move(c, row, line, false);
  c->tag[line] = row;
  c->stamp[line] = now;
  c->round[line] = 0;
  c->count[line] = 0;
  c->state[line] = 1;
  c->locks[0]++;
  return c->first_line + (uint32_t)line;
}

static uint32_t mixed(uint32_t h) {
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

static int by_mixed(const void *a, const void *b) {
  const uint32_t x = mixed(*(const uint32_t *)a);
  const uint32_t y = mixed(*(const uint32_t *)b);
  return (x > y) - (x < y);
}

/* Rows of the ids [from, to) that have no line: in order, each once. */
static int64_t gather(const ts_cache_args *a, uint32_t *rows, int64_t from,
                      int64_t to) {
  const ts_cache_device *c = a->cache;
  int64_t n = 0, kept = 0;
  for (int64_t i = from; i < to; i++)
    if (a->slots[i] < c->first_line && find(c, a->slots[i]) < 0)
      rows[n++] = a->slots[i];
  qsort(rows, (size_t)n, sizeof *rows, by_mixed);
  for (int64_t i = 0; i < n; i++)
    if (i == 0 || rows[i] != rows[i - 1]) rows[kept++] = rows[i];
  return kept;
}

static void use_all(const ts_cache_args *a, int64_t from, int64_t to,
                    bool first) {
  const ts_cache_device *c = a->cache;
  for (int64_t i = from; i < to; i++) {
    const uint32_t row = a->slots[i];
    if (row >= c->first_line) continue;
    const int64_t line = find(c, row);
    if (first) count_of(c, row)[TS_CACHE_IDS]++;
    if (line < 0) continue;
    const bool hit = use(c, line, a->now);
    if (first) count_of(c, row)[TS_CACHE_HITS] += hit;
    a->slots[i] = c->first_line + (uint32_t)line;
  }
}

static ts_err hold(const ts_cache_args *a) {
  const ts_cache_device *c = a->cache;
  uint32_t *rows = NULL;
  const int64_t pass = a->pass < a->n ? a->pass : a->n;
  if (!a->n) return TS_OK;
  const ts_err err = ts_mem_array(&rows, pass, sizeof *rows, TS_TAG_SPARSE);
  if (err != TS_OK) return err;
  use_all(a, 0, a->n, true);
  for (int64_t from = 0; from < a->n; from += pass) {
    const int64_t to = from + pass < a->n ? from + pass : a->n;
    const int64_t n = gather(a, rows, from, to);
    for (int64_t i = 0; i < n; i++) (void)place(c, rows[i], a->now);
    use_all(a, from, to, false);
  }
  for (int64_t i = 0; c->through && i < a->n; i++)
    if (a->slots[i] < c->first_line) set_through(c, a->slots[i], false);
  c->locks[1] = 0;
  if (a->report && a->report->scratch_bytes < 4 * pass)
    a->report->scratch_bytes = 4 * pass;
  ts_mem_free(rows);
  return TS_OK;
}

/* ---- the rest ------------------------------------------------------------ */

static ts_err release(const ts_cache_args *a) {
  const ts_cache_device *c = a->cache;
  for (int64_t i = 0; i < a->n; i++) {
    if (a->slots[i] < c->first_line) continue;
    const int64_t line = a->slots[i] - c->first_line;
    if (c->round[line] == a->round || !(c->state[line] & ~TS_CACHE_DIRTY))
      continue;
    c->round[line] = a->round;
    c->state[line]--;
    c->locks[0]--;
  }
  return TS_OK;
}

static ts_err refresh(const ts_cache_args *a) {
  const ts_cache_device *c = a->cache;
  for (int64_t i = 0; i < a->n; i++) {
    const int64_t line =
        a->slots[i] < c->first_line ? find(c, a->slots[i]) : -1;
    if (line < 0) continue;
    a->slots[i] = c->first_line + (uint32_t)line;
    if (c->round[line] == a->round) continue;
    c->round[line] = a->round;
    c->state[line]++;
    c->locks[0]++;
  }
  return TS_OK;
}

static ts_err locate(const ts_cache_args *a) {
  const ts_cache_device *c = a->cache;
  for (int64_t i = 0; i < a->n; i++) {
    if (i > 0 && a->keys[i] == a->keys[i - 1]) continue;
    const int64_t line = find(c, a->keys[i]);
    a->slots[i] = line < 0 ? a->keys[i] : c->first_line + (uint32_t)line;
    if (line >= 0) c->state[line] |= TS_CACHE_DIRTY;
  }
  return TS_OK;
}

static ts_err flush(const ts_cache_args *a) {
  const ts_cache_device *c = a->cache;
  for (int64_t i = 0; i < c->n_sets * TS_CACHE_WAYS; i++) {
    if (c->tag[i] == TS_CACHE_NONE || !(c->state[i] & TS_CACHE_DIRTY)) continue;
    c->state[i] &= ~TS_CACHE_DIRTY;
    move(c, c->tag[i], i, true);
  }
  return TS_OK;
}

static ts_err reload(const ts_cache_args *a) {
  const ts_cache_device *c = a->cache;
  for (int64_t i = 0; i < c->n_sets * TS_CACHE_WAYS; i++) {
    c->state[i] &= ~TS_CACHE_DIRTY;
    if (!c->state[i]) c->tag[i] = TS_CACHE_NONE;
    if (c->tag[i] != TS_CACHE_NONE) move(c, c->tag[i], i, false);
  }
  return TS_OK;
}

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
