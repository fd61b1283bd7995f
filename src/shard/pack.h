/* pack.h - the sending side of input dist as kernels: their arguments.
 *
 * Arrays of ids, lengths, weights and all that is written are memory of the
 * device; what describes them (features, distincts, sections, splits, parts)
 * is pinned and may change once the lane has been waited for.  On the host all
 * of it is plain memory.  Results after a bad id are unspecified: kernels that
 * get the number of one do nothing.  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "shard/unpack.h"
#include "sparse/kjt.h"

/* A section's entry in the message's table, its word, is
 * n_ids << TS_FORM_BITS | form, which says how it gives the lengths. */
enum { TS_FORM_BITS = 2 };

/* An id's place in its bag, as it is kept and travels: processors have no
 * more weights than that. */
static inline uint16_t ts_position(int64_t place) {
  return place < UINT16_MAX ? (uint16_t)place : UINT16_MAX;
}

/* How a section lies in a message. */
typedef struct ts_layout {
  char *lengths, *rows, *end;
  float *weights;
  uint16_t *positions;
  int form, id_bytes;
} ts_layout;

static inline void ts_put_row(char *rows, int64_t n, int id_bytes,
                              int64_t row) {
  if (id_bytes == 1) ((uint8_t *)rows)[n] = (uint8_t)row;
  if (id_bytes == 2) ((uint16_t *)(void *)rows)[n] = (uint16_t)row;
  if (id_bytes == 4) ((int32_t *)(void *)rows)[n] = (int32_t)row;
  if (id_bytes == 8) memcpy(rows + 8 * n, &row, 8); /* at multiples of 4 */
}

/* ---- a batch ------------------------------------------------------------- */

/* Kernels bags_check and bags_offsets. */
typedef struct ts_pack_feature {
  ts_jagged bags;
  int64_t rows;     /* ids are in [0, rows); or TS_ROWS_DYNAMIC */
  int64_t *offsets; /* (n_bags + 1) written by bags_offsets: where each bag's
                       ids start, from 0; NULL: not asked for */
  int32_t *lengths; /* (n_bags) NULL, or of bags that came with offsets, which
                       are those above: written by bags_offsets instead */
  int32_t n_bags;
} ts_pack_feature;

enum { TS_NO_BAD_ID = -1 };

typedef struct ts_bags_args {
  const ts_pack_feature *features;
  int32_t n_features;
  int64_t *bad; /* written by bags_check: the number of the first id that is
                   none of its table's rows, over all features; or none */
} ts_bags_args;

/* ---- distinct bags ------------------------------------------------------- */

/* Kernel bags_distinct, one feature: of FROM's N_OUT bags (of sequences:
 * ids, as bags of one) those that differ in ids or weights, by their first
 * occurrence.  With parts, ids of sequences are then put in the order of the
 * row shards, stably, and lie in START. */
typedef struct ts_distinct {
  ts_jagged from;
  const int64_t *from_offsets; /* (n_out + 1), as of bags_offsets; not of
                                  sequences, nor on the host */
  int32_t n_out;
  bool sequence;
  int64_t *ids, *start; /* start (n + 1) of each bag in ids */
  float *weights;       /* with FROM's */
  int32_t *lengths;     /* (n_out + 1) */
  int32_t *inverse;     /* (n_out) number of each of FROM's */
  uint32_t *slot;       /* (mask + 1) scratch, 2^k, at least 2 n_out; on the
                           host twice what can differ will do */
  uint64_t mask;
  int32_t *member_start, *member; /* see ts_bags; NULL: not asked for */
  const int64_t *row0;            /* (n_parts) of sequences cut by rows */
  bool hashed;                    /* by their keys: as in ts_pack_split */
  int32_t n_parts;
  int64_t *found; /* n, ids of them, then (n_parts + 1) the bags of each part */
} ts_distinct;

typedef struct ts_distinct_args {
  const ts_distinct *features; /* (n_features) pinned */
  int32_t n_features;
} ts_distinct_args;

/* ---- sections ------------------------------------------------------------ */

/* A section of whole bags.  One of no rows and weights alone copies words. */
typedef struct ts_pack_section {
  ts_jagged bags;
  int32_t n_bags;
  int32_t route; /* whose word is measured */
  int64_t row0;
  ts_layout to;
} ts_pack_section;

/* Ids that go to one of the shards which a feature's bags are spread over. */
typedef struct ts_pack_part {
  int64_t row0, n_ids; /* n_ids: once they are measured */
  ts_layout to;
  int32_t *start; /* (n_bags + 1) kept from measure to write; NULL on the
                     host, which has those below for a pass */
  int64_t n, in_bag, longest; /* ids so far, in bag LAST, in any bag */
  int32_t last;
  int32_t route;
} ts_pack_part;

/* A feature whose bags are spread over row shards. */
typedef struct ts_pack_split {
  ts_jagged bags;
  const int64_t *offsets; /* (n_bags + 1); NULL on the host */
  int32_t n_bags;
  int32_t first;   /* of its parts among all */
  int32_t n_parts; /* with rows; they come first */
  int32_t n_all;
  bool hashed;   /* ids of a dynamic table go by their keys (ts_index_shard) */
  int64_t block; /* rows of each part but the last, 0: they differ */
  const int64_t *row0; /* (n_all) host memory, as its parts have it */
} ts_pack_split;

/* Kernels pack_measure, which writes words, and pack_write, which writes what
 * their layouts say: on the host with the padding, on discrete devices into
 * zeros. */
typedef struct ts_pack_args {
  const ts_pack_section *sections;
  const ts_pack_split *splits;
  ts_pack_part *parts; /* of all splits */
  int32_t n_sections, n_splits, n_parts;
  const int64_t *bad; /* of bags_check */
  int64_t *words;     /* (routes) */
} ts_pack_args;
