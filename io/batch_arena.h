/* batch_arena.h - the memory of one batch: a single block, given out piece
 * after piece, so that a device can take the whole batch with one copy;
 * private to io/.
 *
 * How many ids a batch has is known only while it is read, so the block
 * grows, keeping its content.  A piece is therefore a place in the block; its
 * address holds until a piece grows next.  All of it is Local. */
#pragma once

#include "runtime/device.h"

typedef struct ts_batch_piece {
  size_t at, bytes; /* from the block's start; room */
} ts_batch_piece;

typedef struct ts_batch_arena {
  ts_device *device; /* NULL: memory of base/mem.h */
  ts_space space;
  char *base;   /* never NULL once a piece was asked for */
  size_t bytes; /* of the block */
  size_t used_bytes;
  bool counted;      /* as memory in flight (base/mem.h) */
  size_t most_bytes; /* of used_bytes, so far */
} ts_batch_arena;

/* Gives *PIECE ({0}: a new one) room for BYTES, 64-byte aligned.  Its content
 * is kept; the last piece grows where it is.  May move the block. */
ts_err ts_batch_arena_grow(ts_batch_arena *, ts_batch_piece *piece,
                           size_t bytes);
/* The block is as large as a batch is expected to be: from here on it counts
 * as memory in flight, and what it grows by as an exception. */
void ts_batch_arena_count(ts_batch_arena *);
/* Takes all pieces back; the block stays. */
void ts_batch_arena_rewind(ts_batch_arena *);
void ts_batch_arena_reset(ts_batch_arena *);

static inline void *ts_batch_arena_at(const ts_batch_arena *a,
                                      ts_batch_piece p) {
  return a->base + p.at;
}
