/* index.c - where the rows of ids are.
 *
 * A bucket is one line of the cache: 12 fingerprints of 8 bits, compared at
 * once, and 12 rows.  The id of a row is in an array by row, where the rows
 * that are free again are a list as well.  A find so waits twice, for the
 * bucket and for the id, and both are asked for a block of ids ahead.
 *
 * An id is in its home bucket, or where that was full in the next that was
 * not.  A bucket counts the ids that went past it: a find ends where none did,
 * and where an id is erased one that went past is moved back, and so on:
 * buckets are as if the erased ones had never been.
 *
 * Buckets and ids grow together, to twice as many, at a load of .85, and never
 * beyond what all rows need: 14.3 bytes each.  At .9 they would be 13.9, but
 * ids that are in no bucket take twice as long to miss.  A bucket is the same
 * part of all buckets as the low half of the keys in it is of 2^32: when they
 * grow, ids are moved in the order in which they lie. */
#include "sparse/index_impl.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/mem.h"

enum { BLOCK = 256, START = 16, MOVE_AHEAD = 4 };
enum { FULL = 17, FULL_OF = 20 }; /* the load at which it grows */

/* ---- buckets ------------------------------------------------------------- */

static inline int64_t home_of(const ts_index *x, uint64_t key) {
  return ts_index_home(key, x->n_buckets);
}

static inline int64_t after(const ts_index *x, int64_t b) {
  return b + 1 < x->n_buckets ? b + 1 : 0;
}

/* The slots of B that hold PRINT, as bits. */
static inline unsigned slots_with(const bucket *b, uint8_t print) {
#ifdef __SSE2__
  const __m128i all = _mm_load_si128((const __m128i *)(const void *)b);
  const __m128i equal = _mm_cmpeq_epi8(all, _mm_set1_epi8((char)print));
  return (unsigned)_mm_movemask_epi8(equal) & ((1u << SLOTS) - 1);
#else
  unsigned bits = 0;
  for (int s = 0; s < SLOTS; s++) bits |= (unsigned)(b->print[s] == print) << s;
  return bits;
#endif
}

/* Where an id is: its slot, or -1, of the last bucket that was looked at.  A
 * bucket is full if an id went past it, so that one is the last. */
typedef struct place {
  int64_t bucket, steps;
  int slot;
} place;

static place place_of(const ts_index *x, uint64_t key, int64_t id) {
  place at = {home_of(x, key), 0, -1};
  const uint8_t print = ts_index_print(key);
  for (;; at.bucket = after(x, at.bucket), at.steps++) {
    const bucket *b = &x->buckets[at.bucket];
    for (unsigned m = slots_with(b, print); m; m &= m - 1) {
      at.slot = __builtin_ctz(m);
      if (x->id[b->row[at.slot]] == id) return at;
    }
    at.slot = -1;
    if (b->past == 0) return at;
  }
}

/* Bucket B changes, by an insertion.  Where there is no memory for its number
 * all of them may have. */
static void note_change(ts_index *x, const bucket *b) {
  if (!x->watched || x->n_changed < 0) return;
  if (x->n_changed == x->changed_room) {
    const int64_t more = 2 * x->changed_room + BLOCK;
    if (ts_mem_extend(&x->changed, x->changed_room, more, sizeof *x->changed,
                      TS_TAG_SPARSE) != TS_OK) {
      ts_err_clear();
      x->n_changed = -1;
      return;
    }
    x->changed_room = more;
  }
  x->changed[x->n_changed++] = (uint32_t)(b - x->buckets);
}

/* ROW to the first bucket from home that has a slot: one has, as no load is
 * above .85. */
static void put(ts_index *x, uint64_t key, uint32_t row) {
  bucket *b = &x->buckets[home_of(x, key)];
  unsigned m;
  while (!(m = slots_with(b, 0))) {
    b->past++;
    note_change(x, b);
    b = &x->buckets[after(x, b - x->buckets)];
  }
  note_change(x, b);
  const int s = __builtin_ctz(m);
  b->print[s] = ts_index_print(key);
  b->row[s] = row;
}

/* A slot of bucket B whose id went STEPS steps or more, or -1. */
static int slot_from(const ts_index *x, int64_t b, int64_t steps) {
  const bucket *at = &x->buckets[b];
  for (int s = 0; s < SLOTS; s++) {
    if (!at->print[s]) continue;
    int64_t went = b - home_of(x, ts_index_key(x->id[at->row[s]]));
    if (went < 0) went += x->n_buckets;
    if (went >= steps) return s;
  }
  return -1;
}

/* The slot is empty: to it comes an id that went past, and so on from its. */
static void fill(ts_index *x, int64_t b, int slot) {
  while (x->buckets[b].past > 0) {
    int64_t from = b, steps = 0;
    int s;
    do {
      x->buckets[from].past--;
      from = after(x, from);
    } while ((s = slot_from(x, from, ++steps)) < 0);
    x->buckets[b].print[slot] = x->buckets[from].print[s];
    x->buckets[b].row[slot] = x->buckets[from].row[s];
    b = from;
    slot = s;
  }
  x->buckets[b].print[slot] = 0;
}

/* Out of its bucket: false, it was in none. */
static bool take_out(ts_index *x, int64_t id, uint32_t *row) {
  const uint64_t key = ts_index_key(id);
  const place at = place_of(x, key, id);
  if (at.slot < 0) return false;
  for (int64_t b = home_of(x, key); b != at.bucket; b = after(x, b))
    x->buckets[b].past--;
  *row = x->buckets[at.bucket].row[at.slot];
  x->n_changed = -1;
  fill(x, at.bucket, at.slot);
  x->n--;
  return true;
}

/* ---- growth -------------------------------------------------------------- */

int64_t ts_index_buckets(int64_t n_rows) {
  const int64_t n = (n_rows * FULL_OF + SLOTS * FULL - 1) / (SLOTS * FULL);
  return n > 1 ? n : 1;
}

/* All rows of OLD, which X had N_OLD of. */
static void move_all(ts_index *x, const bucket *old, int64_t n_old) {
  for (int64_t b = 0; b < n_old; b++) {
    if (b + MOVE_AHEAD < n_old)
      for (int s = 0; s < SLOTS; s++)
        __builtin_prefetch(&x->id[old[b + MOVE_AHEAD].row[s]]);
    for (int s = 0; s < SLOTS; s++)
      if (old[b].print[s])
        put(x, ts_index_key(x->id[old[b].row[s]]), old[b].row[s]);
  }
}

/* MEMORY, after which it is as it was. */
static ts_err resize(ts_index *x, int64_t n_buckets) {
  const int64_t all = n_buckets * (SLOTS * FULL) / FULL_OF;
  const int64_t room = all < x->n_rows ? all : x->n_rows;
  bucket *fresh = NULL, *old = x->buckets;
  ts_err err;
  TS_TRY(ts_mem_many(fresh, n_buckets, SPARSE));
  TS_TRY(ts_mem_extend(&x->id, x->room, room, sizeof *x->id, TS_TAG_SPARSE));
  const int64_t n_old = x->n_buckets;
  x->n_changed = -1;
  x->buckets = fresh;
  x->n_buckets = n_buckets;
  x->room = room;
  move_all(x, old, n_old);
  fresh = old;
done:
  ts_mem_free(fresh);
  return err;
}

static ts_err grow(ts_index *x) {
  const int64_t most = ts_index_buckets(x->n_rows);
  return resize(x, 2 * x->n_buckets < most ? 2 * x->n_buckets : most);
}

/* ---- its life ------------------------------------------------------------ */

ts_err ts_index_create(ts_index **out, int64_t first_row, int64_t n_rows) {
  ts_index *x = NULL;
  ts_err err;
  *out = NULL;
  if (first_row < 0 || n_rows < 0 || n_rows > TS_INDEX_NONE ||
      first_row > TS_INDEX_NONE - n_rows)
    return ts_fail(TS_ERR_INTERNAL, "no index of %lld rows from %lld",
                   (long long)n_rows, (long long)first_row);
  TS_DO(ts_mem_many(x, 1, SPARSE));
  *x = (ts_index){
      .first_row = first_row, .n_rows = n_rows, .free = TS_INDEX_NONE};
  const int64_t most = ts_index_buckets(n_rows);
  TS_TRY(resize(x, most < START ? most : START));
  *out = x;
  return TS_OK;
done:
  ts_index_destroy(x);
  return err;
}

void ts_index_destroy(ts_index *x) {
  if (x) ts_mem_free_all(x->buckets, x->id, x->changed, x);
}

void ts_index_watch(ts_index *x) {
  x->watched = true;
  x->n_changed = -1;
}

void ts_index_changes(ts_index *x, const uint32_t **buckets, int64_t *n) {
  *buckets = x->changed;
  *n = x->n_changed;
  x->n_changed = 0;
}

int64_t ts_index_n(const ts_index *x) {
  return x->n;
}

int64_t ts_index_bytes(const ts_index *x) {
  return (int64_t)sizeof *x + x->n_buckets * (int64_t)sizeof *x->buckets +
         x->room * (int64_t)sizeof *x->id;
}

/* ---- a block of ids ------------------------------------------------------ */

/* GUESS: a row with the fingerprint in the first buckets, if there is one. */
typedef struct block {
  uint64_t key[BLOCK];
  uint32_t guess[BLOCK];
} block;

static inline int64_t block_n(int64_t at, int64_t n) {
  return n - at < BLOCK ? n - at : BLOCK;
}

/* Keys; asks for the buckets. */
static void ask_buckets(const ts_index *x, block *k, const int64_t *ids,
                        int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    k->key[i] = ts_index_key(ids[i]);
    __builtin_prefetch(&x->buckets[home_of(x, k->key[i])]);
  }
}

/* A guess for key I of K in bucket B, whose id is asked for; false: look in
 * the next one. */
static inline bool guess_in(const ts_index *x, block *k, int64_t i, int64_t b) {
  const bucket *at = &x->buckets[b];
  const unsigned m = slots_with(at, ts_index_print(k->key[i]));
  k->guess[i] = m ? at->row[__builtin_ctz(m)] : TS_INDEX_NONE;
  if (m) __builtin_prefetch(&x->id[k->guess[i]]);
  return m || at->past == 0;
}

/* Guesses.  Every tenth id of a full index is beyond its home: those have
 * another try, when their next buckets have come. */
static void ask_ids(const ts_index *x, block *k, int64_t n) {
  int64_t late[BLOCK], n_late = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t home = home_of(x, k->key[i]);
    if (guess_in(x, k, i, home)) continue;
    __builtin_prefetch(&x->buckets[after(x, home)]);
    late[n_late++] = i;
  }
  for (int64_t l = 0; l < n_late; l++) {
    const int64_t next = after(x, home_of(x, k->key[late[l]]));
    if (!guess_in(x, k, late[l], next))
      __builtin_prefetch(&x->buckets[after(x, next)]);
  }
}

/* The row of the I-th of a block, without first_row. */
static inline uint32_t row_in(const ts_index *x, const block *k, int64_t i,
                              int64_t id) {
  const uint32_t guess = k->guess[i];
  if (guess != TS_INDEX_NONE && x->id[guess] == id) return guess;
  const place at = place_of(x, k->key[i], id);
  return at.slot < 0 ? TS_INDEX_NONE : x->buckets[at.bucket].row[at.slot];
}

/* The buckets of the next block come while the ids of this one are read. */
void ts_index_find(const ts_index *x, uint32_t *row, const int64_t *ids,
                   int64_t n) {
  block blocks[2];
  ask_buckets(x, &blocks[0], ids, block_n(0, n));
  for (int64_t at = 0; at < n; at += BLOCK) {
    block *k = &blocks[at / BLOCK % 2], *next = &blocks[1 - at / BLOCK % 2];
    const int64_t end = at + BLOCK, here = block_n(at, n);
    if (end < n) ask_buckets(x, next, ids + end, block_n(end, n));
    ask_ids(x, k, here);
    for (int64_t i = 0; i < here; i++)
      row[at + i] = in_shard(x, row_in(x, k, i, ids[at + i]));
  }
}

/* *ROW = a row for ID, which has none; TS_INDEX_NONE where none is free. */
static ts_err give_row(ts_index *x, uint64_t key, int64_t id, uint32_t *row) {
  *row = TS_INDEX_NONE;
  if (x->n == x->n_rows) return TS_OK;
  if (x->n == x->room) TS_DO(grow(x));
  *row = x->free;
  if (*row == TS_INDEX_NONE)
    *row = (uint32_t)x->n_used++;
  else
    x->free = (uint32_t)x->id[*row];
  x->id[*row] = id;
  put(x, key, *row);
  x->n++;
  return TS_OK;
}

bool ts_index_erase(ts_index *x, int64_t id) {
  uint32_t row;
  if (!take_out(x, id, &row)) return false;
  x->id[row] = x->free;
  x->free = row;
  return true;
}

/* A guess stays one whatever is inserted meanwhile: nothing leaves its row.
 * Where memory fails, rows are freed, the last one first: they are given in
 * the order in which they would have been, used before or not. */
ts_err ts_index_insert(ts_index *x, uint32_t *row, const int64_t *ids,
                       int64_t n, int64_t *fresh, int64_t *n_fresh) {
  int64_t n_new = 0;
  ts_err err = TS_OK;
  block k;
  for (int64_t i = 0; i < n; i++) {
    const int64_t in_block = i % BLOCK;
    if (in_block == 0) {
      ask_buckets(x, &k, ids + i, block_n(i, n));
      ask_ids(x, &k, block_n(i, n));
    }
    uint32_t r = row_in(x, &k, in_block, ids[i]);
    if (r == TS_INDEX_NONE) {
      TS_TRY(give_row(x, k.key[in_block], ids[i], &r));
      if (r != TS_INDEX_NONE) fresh[n_new++] = i;
    }
    row[i] = in_shard(x, r);
  }
done:
  while (err != TS_OK && n_new > 0) ts_index_erase(x, ids[fresh[--n_new]]);
  *n_fresh = n_new;
  return err;
}

void ts_index_probes(const ts_index *x, const int64_t *ids, int64_t n,
                     int64_t *sum, int64_t *most) {
  *sum = *most = 0;
  for (int64_t i = 0; i < n; i++) {
    const int64_t steps = place_of(x, ts_index_key(ids[i]), ids[i]).steps;
    *sum += steps;
    if (steps > *most) *most = steps;
  }
}
