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

/* Where WORD is, or the free slot where it belongs. */
static int32_t *slot_of(const ts_numbering *x, const char *word,
                        size_t n_bytes) {
  const uint64_t last = (uint64_t)x->n_slots - 1;
  uint64_t s = ts_mix64(ts_fnv1a(TS_FNV_START, word, n_bytes)) & last;
  for (; x->slots[s]; s = (s + 1) & last) {
    const int32_t k = x->slots[s] - 1;
    if (ts_numbering_bytes(x, k) == n_bytes &&
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
  for (int32_t k = 0; k < x->n; k++)
    *slot_of(x, ts_numbering_word(x, k), ts_numbering_bytes(x, k)) = k + 1;
  return TS_OK;
}

ts_err ts_numbering_of(ts_numbering *x, const char *word, size_t n_bytes,
                       int32_t *number) {
  if (x->n == x->capacity) TS_DO(grow(x));
  int32_t *slot = slot_of(x, word, n_bytes);
  if (!*slot) {
    if (x->n == INT32_MAX - 1)
      return ts_fail(TS_ERR_DATA, "more than 2^31 different words are too many "
                                  "to be numbered");
    TS_DO(ts_str_append_bytes(&x->text, word, n_bytes));
    TS_DO(ts_str_append_bytes(&x->text, "", 1));
    x->at[++x->n] = (int64_t)x->text.n_bytes;
    *slot = x->n;
  }
  *number = *slot - 1;
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
