/* bench_tbe_bytes.c - what a batch has to move through memory, each thing
 * once however often it is used: ids and offsets, distinct rows and their
 * state, outputs or gradients, and what sorting passes over.  The rest is the
 * caches' matter. */
#include "commands/bench_tbe.h"

enum { DIGIT = 8 }; /* bits that a pass of the sort goes by */

int ts_tbe_bits(int64_t n) {
  int bits = 0;
  while (bits < 32 && n >> bits) bits++;
  return bits;
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
         2 * distinct * (c->row_bytes + ts_bench_state_bytes(c->config));
}
