/* comm_plan.h - what an operation reads, writes and sends to whom: arithmetic
 * alone, no message and no memory is touched.  All of it is Local. */
#pragma once

#include "runtime/comm.h"

/* X(name, text for messages, step on host memory) */
#define TS_OP_LIST(X)                                                          \
  X(ALL_TO_ALL, "all_to_all_v", ts_op_all_to_all)                              \
  X(EXCHANGE, "exchange", ts_op_exchange)                                      \
  X(EXCHANGE_ROOMS, "exchange", ts_op_exchange_rooms)                          \
  X(ALL_REDUCE, "all_reduce", ts_op_all_reduce)                                \
  X(REDUCE_SCATTER, "reduce_scatter_v", ts_op_reduce_scatter)                  \
  X(ALL_GATHER, "all_gather_v", ts_op_all_gather)                              \
  X(GATHER_ALL, "all_gather", ts_op_all_gather)                                \
  X(BROADCAST, "broadcast", ts_op_broadcast)                                   \
  X(RUN, "MPI-IO", ts_op_run)

typedef enum {
#define TS_OP_ENUM(name, text, step) TS_OP_##name,
  TS_OP_LIST(TS_OP_ENUM)
#undef TS_OP_ENUM
      TS_OP_COUNT
} ts_op_kind;

/* Arguments of a collective on rank ME of W, as in comm.h; an exchange's are
 * those of its send_bytes, its recv side is not known before. */
typedef struct ts_op_shape {
  ts_op_kind kind;
  int me, w;
  const int64_t *send_counts, *recv_counts; /* (W) */
  int64_t n;
  ts_dtype dtype;
  int root;
} ts_op_shape;

/* Bytes from the start of each buffer that matter on this rank. */
typedef struct ts_op_extent {
  int64_t send, recv;
  bool reads, writes; /* recv is read before, written */
} ts_op_extent;
ts_op_extent ts_op_extent_of(const ts_op_shape *);

/* Bytes [first, first + bytes) of an all-reduce of N elements of SIZE bytes
 * that rank R of W sums. */
int64_t ts_slice_first(int64_t n, int w, int r);

/* ---- messages in rounds -------------------------------------------------- */

/* Pieces from and to each rank: bytes [at, at + bytes) of each buffer. */
typedef struct ts_wire_pieces {
  char *recv;
  const char *send;
  int64_t *recv_at, *recv_bytes, *send_at, *send_bytes; /* (W) */
} ts_wire_pieces;

typedef struct ts_wire_message {
  void *at;
  int64_t bytes; /* > 0 */
  int rank;      /* of the comm: to or from */
  bool send;
} ts_wire_message;

/* Rounds of at most MOST messages (>= 2) on each of W ranks: in the distance
 * D = 1 .. W - 1 a rank sends to ME + D and receives from ME - D, so both
 * sides of a message are in the same round. */
int ts_wire_rounds(int w, int most);
/* The messages of ROUND (to itself none, pieces of no bytes none); their
 * number. */
int ts_wire_plan(ts_wire_message *out /* (most) */, const ts_wire_pieces *,
                 int me, int w, int round, int most);

/* Fills P's arrays, pieces one behind the other, counts of SIZE bytes. */
void ts_wire_all_to_all(ts_wire_pieces *p, void *recv, const int64_t *recv_n,
                        const void *send, const int64_t *send_n, int64_t size,
                        int w);
/* N[me] elements of SEND to everyone. */
void ts_wire_all_gather(ts_wire_pieces *p, void *recv, const void *send,
                        const int64_t *n, int64_t size, int me, int w);
/* All of N (W) the same, more than none. */
bool ts_wire_equal(const int64_t *n, int w);

/* ---- the choice ---------------------------------------------------------- */

/* Each rank's description of its device. */
typedef struct ts_wire_place {
  char host[64], device[TS_DEVICE_ID];
  int32_t disorder; /* its library's collectives are not in_order */
} ts_wire_place;

/* Whether a wire of NAME (NULL: none is built in) is to be taken, for WANTED
 * ("auto" and so on, comm.backend) on a device with own memory or without
 * (REMOTE).  Wrong combinations are DECK errors.  The same on all ranks for
 * the same PLACES. */
ts_err ts_wire_choose(bool *wired, ts_comm_backend wanted, const char *name,
                      bool remote, const ts_wire_place *places /* (W) */,
                      int w);
