/* unpack.h - the kernels of input dist's receiving side: what lies in messages,
 * or in a batch whose ids stay on their rank, becomes the arrays of a TBE
 * group (ts_tbe_input).
 *
 * A group's bags are a list of parts, each a run of bags of one feature and
 * source that lie together.  On a device whose memory the host may not touch
 * the list is brought up first, and its parts are of few bags each, so that
 * they make blocks of equal work. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How a part gives the lengths of its bags: 1 each, uint8, int32; or int64
 * offsets, of which base is the zero.  The first ones travel in two bits, of
 * which the value left over is that of int32, too. */
enum { TS_FORM_ONE, TS_FORM_BYTES, TS_FORM_INTS, TS_FORM_OFFSETS = 4 };

/* Most bags of a part on devices of memory of their own. */
enum { TS_UNPACK_BAGS = 1024 };

/* Ids may come with a part without its bags, and bags without their ids:
 * those of a section cut into parts all come with the first one. */
typedef struct ts_unpack_part {
  const void *lengths;       /* (n_bags) as form says; offsets whose sum is
                                looked at: (n_bags + 1) */
  const void *ids;           /* (n_ids) unsigned, of id_bytes 1, 2, 4 or 8: rows
                                of the table's shard; 0: rows are where they
                                belong (dynamic.c) */
  const float *weights;      /* (n_ids) or NULL */
  const uint16_t *positions; /* (n_ids) places in whole bags, or NULL */
  int64_t n_bags, first_bag; /* number of the first one in the group */
  int64_t n_ids, first_id;
  int64_t base;     /* ids of the group before the first bag of the section */
  int64_t at, step; /* where the first bag's row lies, and floats from there to
                       the next one's */
  int64_t n_listed; /* what the lengths of the section must add up to; -1: not
                       looked at, as in all of its parts but the last */
  int32_t form, id_bytes;
  int32_t n_before; /* parts of its section that come before it */
  int32_t n_rows;   /* ids of 8 bytes beyond these become 0; 0: none are */
} ts_unpack_part;

/* Writes the group's arrays, see ts_tbe_input.  Where lengths don't add up the
 * host has a COMM error, a device notes it in *BAD, and no offset is beyond the
 * ids.  NUMBER: positions are those in the bags. */
typedef struct ts_unpack_args {
  const ts_unpack_part *parts; /* (n_parts) in the order of bags and of ids */
  int32_t n_parts;
  bool number;
  bool lengths; /* some part has uint8 or int32 */
  int64_t n_bags, n_ids;
  int64_t *offsets;    /* (n_bags + 1) */
  int64_t *at;         /* (n_bags) */
  int32_t *rows;       /* (n_ids) */
  float *weights;      /* (n_ids), of parts that have them */
  uint16_t *positions; /* (n_ids), likewise, or where they are numbered */
  uint64_t *bad; /* of a device: 0, or the sum of a section's lengths above 32
                    bits of what it must be; NULL: no part has n_listed */
} ts_unpack_args;

/* 1 / bag length of N rows of a view, 0 of empty bags: row b is of bag
 * bag[b], or b where bag is NULL. */
typedef struct ts_bag_mean {
  float *out;             /* (n) */
  const int32_t *lengths; /* (bags), or NULL: as offsets say */
  const int64_t *offsets; /* (bags + 1), or NULL; both NULL: one id each */
  const int32_t *bag;
  int64_t n;
} ts_bag_mean;

/* In host memory, like the list; what it points to is not. */
enum { TS_BAG_MEANS = 64 };
typedef struct ts_bag_means_args {
  ts_bag_mean view[TS_BAG_MEANS];
  int32_t n_views;
} ts_bag_means_args;
