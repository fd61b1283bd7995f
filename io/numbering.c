/* numbering.c - words by first occurrence: open addressing. */
#include "io/numbering.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

const char *ts_numbering_word(const ts_numbering *x, int32_t number) {
  return x->text.text + x->at[number];
}

size_t ts_numbering_bytes(const ts_numbering *x, int32_t number) {
  return (size_t)(x->at[number + 1] - x->at[number] - 1);
}

enum { HALF = 32 };

static int32_t number_at(uint64_t slot) {
  return (int32_t)((slot & UINT32_MAX) - 1);
}

/* Where WORD is, or the free slot where it belongs; *HIGH: the slot's high half
 * for it. */
static uint64_t *slot_of(const ts_numbering *x, const char *word,
                         size_t n_bytes, uint64_t *high) {
  const uint64_t last = (uint64_t)x->n_slots - 1;
  const uint64_t hash = ts_mix64(ts_fnv1a(TS_FNV_START, word, n_bytes));
  uint64_t s = hash & last;
  *high = hash >> HALF << HALF;
  for (; x->slots[s]; s = (s + 1) & last) {
    const int32_t k = number_at(x->slots[s]);
    if (x->slots[s] >> HALF == hash >> HALF &&
        ts_numbering_bytes(x, k) == n_bytes &&
        !memcmp(ts_numbering_word(x, k), word, n_bytes))
      break;
  }
  return &x->slots[s];
}

static ts_err grow(ts_numbering *x) {
  const int64_t capacity = x->capacity ? 2 * x->capacity : 1024;
  TS_DO(ts_mem_extend(&x->at, x->capacity ? x->capacity + 1 : 0, capacity + 1,
                      sizeof *x->at, TS_TAG_WORDS));
  ts_mem_free(x->slots);
  x->slots = NULL;
  x->n_slots = 2 * capacity;
  TS_DO(ts_mem_many(x->slots, x->n_slots, WORDS));
  x->capacity = capacity;
  for (int32_t k = 0; k < x->n; k++) {
    uint64_t high, *slot = slot_of(x, ts_numbering_word(x, k),
                                   ts_numbering_bytes(x, k), &high);
    *slot = high | ((uint32_t)k + 1);
  }
  return TS_OK;
}

ts_err ts_numbering_of(ts_numbering *x, const char *word, size_t n_bytes,
                       int32_t *number) {
  if (x->n == x->capacity) TS_DO(grow(x));
  uint64_t high, *slot = slot_of(x, word, n_bytes, &high);
  if (!*slot) {
    if (x->n == INT32_MAX - 1)
      return ts_fail(TS_ERR_DATA, "more than 2^31 different words are too many "
                                  "to be numbered");
    TS_DO(ts_str_append_bytes(&x->text, word, n_bytes));
    TS_DO(ts_str_append_bytes(&x->text, "", 1));
    x->at[++x->n] = (int64_t)x->text.n_bytes;
    *slot = high | (uint32_t)x->n;
  }
  *number = number_at(*slot);
  return TS_OK;
}

void ts_numbering_settle(ts_numbering *x) {
  ts_mem_free(x->slots);
  x->slots = NULL;
  x->n_slots = 0;
}

void ts_numbering_reset(ts_numbering *x) {
  ts_mem_free_all(x->at, x->slots);
  ts_str_reset(&x->text);
  *x = (ts_numbering){0};
}
