/* cache.c - the directory of lines. */
#include "sparse/cache.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

/* Compilers without wider registers cut these in halves. */
typedef uint32_t ts_tags __attribute__((vector_size(32)));
enum { LANES = 8, EXPECT = 8 };

#if defined __x86_64__ && !defined __SANITIZE_ADDRESS__ &&                     \
    !defined __SANITIZE_THREAD__
#define WIDE                                                                   \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif

int64_t ts_cache_lines_for(int64_t n_rows, double load_factor) {
  const double lines = ceil((double)n_rows * load_factor / TS_CACHE_WAYS);
  return TS_CACHE_WAYS * (lines < 1 ? 1 : (int64_t)lines);
}

ts_err ts_cache_create(ts_cache *c, int64_t n_rows, double load_factor,
                       bool lfu) {
  ts_err err = TS_OK;
  const int64_t n = ts_cache_lines_for(n_rows, load_factor);
  *c = (ts_cache){.n_sets = n / TS_CACHE_WAYS, .lfu = lfu};
  TS_TRY(ts_mem_array(&c->tag, n, sizeof *c->tag, TS_TAG_TABLES));
  TS_TRY(ts_mem_array(&c->line, n, sizeof *c->line, TS_TAG_TABLES));
  memset(c->tag, 0xff, (size_t)n * sizeof *c->tag);
done:
  if (err != TS_OK) ts_cache_reset(c);
  return err;
}

void ts_cache_reset(ts_cache *c) {
  ts_mem_free(c->tag);
  ts_mem_free(c->line);
  *c = (ts_cache){0};
}

int64_t ts_cache_n_lines(const ts_cache *c) {
  return c->n_sets * TS_CACHE_WAYS;
}

/* Neighbours among rows, and rows at even steps, are spread alike. */
int64_t ts_cache_set_of(const ts_cache *c, uint32_t row) {
  uint32_t h = row;
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  h ^= h >> 16;
  return (int64_t)((uint64_t)h * (uint64_t)c->n_sets >> 32);
}

void ts_cache_expect(const ts_cache *c, uint32_t row) {
  const uint32_t *tag = c->tag + ts_cache_set_of(c, row) * TS_CACHE_WAYS;
  __builtin_prefetch(tag, 0, 3);
  __builtin_prefetch(tag + 16, 0, 3);
}

void ts_cache_expect_take(const ts_cache *c, uint32_t row) {
  const int64_t first = ts_cache_set_of(c, row) * TS_CACHE_WAYS;
  for (int i = 0; i < TS_CACHE_WAYS; i += 4)
    __builtin_prefetch(c->line + first + i, 1, 3);
}

static inline __attribute__((always_inline)) int64_t find(const ts_cache *c,
                                                          uint32_t row) {
  const int64_t first = ts_cache_set_of(c, row) * TS_CACHE_WAYS;
  const ts_tags *tag = (const ts_tags *)(const void *)(c->tag + first);
  ts_tags number = {1, 2, 3, 4, 5, 6, 7, 8}, found = {0};
  for (int k = 0; k < TS_CACHE_WAYS / LANES; k++) {
    found |= (ts_tags)(tag[k] == row) & number;
    number += LANES;
  }
  uint32_t way = 0; /* one lane at most has it */
  for (int k = 0; k < LANES; k++) way |= found[k];
  return way ? first + way - 1 : -1;
}

int64_t ts_cache_find(const ts_cache *c, uint32_t row) {
  return find(c, row);
}

WIDE void ts_cache_find_many(const ts_cache *c, const uint32_t *rows, int64_t n,
                             int64_t ahead, int32_t *line) {
  for (int64_t i = 0; i < n; i++) {
    if (i + EXPECT < n + ahead) ts_cache_expect(c, rows[i + EXPECT]);
    line[i] = (int32_t)find(c, rows[i]);
    if (line[i] >= 0) __builtin_prefetch(c->line + line[i], 1, 3);
  }
}

void ts_cache_begin(ts_cache *c) {
  c->now++;
}

/* Uses of a line that still count. */
static uint32_t aged(const ts_cache *c, const ts_cache_line *l) {
  const uint32_t halvings = (c->now - l->stamp) / TS_CACHE_AGE;
  return halvings < 32 ? l->count >> halvings : 0;
}

bool ts_cache_use(ts_cache *c, int64_t line) {
  ts_cache_line *l = &c->line[line];
  const bool first = l->stamp != c->now;
  if (c->lfu && first) l->count = aged(c, l);
  l->count += l->count < UINT32_MAX;
  if (!first) return false;
  l->stamp = c->now;
  l->locks++;
  c->n_locks++;
  return true;
}

/* The first line of a set that no row has, -1: all have one. */
static int64_t first_free(const uint32_t *tag) {
  uint32_t any = 0;
  for (int i = 0; i < TS_CACHE_WAYS; i++) any |= tag[i] == TS_CACHE_NONE;
  if (!any) return -1;
  for (int64_t i = 0;; i++)
    if (tag[i] == TS_CACHE_NONE) return i;
}

/* The line of a set that was not used for longest, -1: all are locked.  A
 * line that is not was not used by the batch at hand: its age is over 0. */
static int64_t oldest(const ts_cache_line *line, uint32_t now) {
  uint32_t most = 0;
  int64_t best = -1;
  for (int64_t i = 0; i < TS_CACHE_WAYS; i++) {
    const uint32_t age = line[i].locks ? 0 : now - line[i].stamp;
    best = age > most ? i : best;
    most = age > most ? age : most;
  }
  return best;
}

/* The line that was used least, and of such the oldest; -1. */
static int64_t least_used(const ts_cache *c, const ts_cache_line *line) {
  uint64_t least = UINT64_MAX;
  int64_t best = -1;
  for (int64_t i = 0; i < TS_CACHE_WAYS; i++) {
    const uint32_t recent = UINT32_MAX - (c->now - line[i].stamp);
    const uint64_t worth = (uint64_t)aged(c, &line[i]) << 32 | recent;
    if (line[i].locks || worth >= least) continue;
    least = worth;
    best = i;
  }
  return best;
}

int64_t ts_cache_take(ts_cache *c, uint32_t row, uint32_t *old, bool *dirty) {
  const int64_t first = ts_cache_set_of(c, row) * TS_CACHE_WAYS;
  int64_t way = first_free(c->tag + first);
  if (way < 0)
    way = c->lfu ? least_used(c, c->line + first)
                 : oldest(c->line + first, c->now);
  if (way < 0) return -1;
  const int64_t best = first + way;
  *old = c->tag[best];
  *dirty = *old != TS_CACHE_NONE && c->line[best].dirty;
  c->tag[best] = row;
  c->line[best] = (ts_cache_line){.stamp = c->now, .count = 1, .locks = 1};
  c->n_locks++;
  return best;
}

void ts_cache_round_begin(ts_cache *c) {
  c->rounds++;
}

bool ts_cache_unlock(ts_cache *c, int64_t line) {
  ts_cache_line *l = &c->line[line];
  if (l->round == c->rounds || !l->locks) return false;
  l->round = c->rounds;
  l->locks--;
  c->n_locks--;
  return true;
}

void ts_cache_lock(ts_cache *c, int64_t line) {
  ts_cache_line *l = &c->line[line];
  if (l->round == c->rounds) return;
  l->round = c->rounds;
  l->locks++;
  c->n_locks++;
}
