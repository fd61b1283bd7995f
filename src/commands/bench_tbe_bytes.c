/* bench_tbe_bytes.c - what a batch has to move through memory, each thing
 * once however often it is used: ids and offsets, distinct rows and their
 * state, outputs or gradients, and what sorting passes over.  The rest is the
 * caches' matter. */
#include <string.h>

#include "base/mem.h"
#include "commands/bench_tbe.h"

enum { DIGIT = 8 }; /* bits that a pass of the sort goes by */

int ts_tbe_bits(int64_t n) {
  int bits = 0;
  while (bits < 32 && n >> bits) bits++;
  return bits;
}

/* By a bit for each row. */
ts_err ts_tbe_case_distinct(const ts_tbe_case *c, int64_t *n) {
  ts_err err = TS_OK;
  const int64_t n_words = c->tables * c->rows / 64 + 1;
  const int64_t per_table = (int64_t)c->batch * c->pool;
  uint64_t *seen = NULL;
  *n = 0;
  TS_TRY(ts_mem_array(&seen, n_words, sizeof *seen, TS_TAG_INPUT));
  for (int k = 0; k < TS_TBE_INPUTS; k++) {
    memset(seen, 0, (size_t)n_words * sizeof *seen);
    for (int64_t i = 0; i < c->n; i++) {
      const int64_t row = i / per_table * c->rows + c->ids[k][i];
      const uint64_t bit = UINT64_C(1) << row % 64;
      *n += !(seen[row / 64] & bit);
      seen[row / 64] |= bit;
    }
  }
  *n /= TS_TBE_INPUTS;
done:
  ts_mem_free(seen);
  return err;
}

/* Ids, weights, offsets, where bags lie, and their rows of output or
 * gradient. */
static int64_t batch_bytes(const ts_tbe_case *c) {
  const int64_t bags = (int64_t)c->tables * c->batch;
  return c->n * (c->weights ? 8 : 4) + bags * 16 + bags * c->dim * 4;
}

int64_t ts_tbe_forward_bytes(const ts_tbe_case *c, int64_t distinct) {
  return batch_bytes(c) + distinct * c->row_bytes;
}

/* Keys and values, 8 bytes of an id, are written, read and written by each
 * pass, and read; rows and state are read and written. */
int64_t ts_tbe_backward_bytes(const ts_tbe_case *c, int64_t distinct) {
  const int passes = (ts_tbe_bits(c->tables * c->rows) + DIGIT - 1) / DIGIT;
  return batch_bytes(c) + c->n * 8 * (2 + 2 * passes) +
         2 * distinct *
             (c->row_bytes +
              ts_row_state_bytes(c->config, c->config->dim, true));
}
