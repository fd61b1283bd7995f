/* comm_wire.h - a library that moves a device's memory between ranks by itself
 * (NCCL): what comms ask of it.
 *
 * Nothing here waits: what is begun is enqueued on the lane STREAM, at once or
 * a little later; poll says when, and only then more may be begun.  All calls
 * come from one thread at a time, in the same order on every rank. */
#pragma once

#include "runtime/comm.h"
#include "runtime/comm_plan.h"

typedef struct ts_wire ts_wire; /* one communicator */

enum { TS_WIRE_ID = 128 }; /* bytes that bring ranks together */

struct ts_wire_ops {
  const char *name;
  int group_max; /* messages in one group, at most */
  /* Collectives of several communicators start in the order of the calls; where
   * they don't, two of them may wait for each other.  NULL: they do. */
  bool (*in_order)(void);
  /* A new id, on one rank of a group. */
  ts_err (*id)(void *id /* (TS_WIRE_ID) */);
  /* Begins to join the group of ID. */
  ts_err (*open)(ts_wire **, ts_lane *stream, const void *id, int rank,
                 int size);
  void (*close)(ts_wire *); /* in peace; collective */
  void (*abort)(ts_wire *); /* at once, whatever is under way; frees */
  /* Also errors that the library has found since by itself. */
  ts_err (*poll)(ts_wire *, bool *busy);
  /* N messages that go at the same time. */
  ts_err (*group)(ts_wire *, const ts_wire_message *, int n);
  /* Everyone's piece of BYTES to everyone; in place where SEND is RECV's own
   * piece.  NULL: by groups. */
  ts_err (*all_gather)(ts_wire *, void *recv, const void *send, int64_t bytes);
  /* A piece of BYTES from everyone to everyone, own one included.  NULL. */
  ts_err (*all_to_all)(ts_wire *, void *recv, const void *send, int64_t bytes);
  ts_err (*broadcast)(ts_wire *, void *buf, int64_t bytes, int root);
  /* The library's own sums, for comm.reduce = "mpi"; *DONE false: it has none
   * for this type, nothing was begun. */
  ts_err (*all_reduce)(ts_wire *, void *buf, int64_t n, ts_dtype, ts_reduction,
                       bool *done);
  ts_err (*reduce_scatter)(ts_wire *, void *recv, const void *send, int64_t n,
                           ts_dtype, bool *done);
  /* Enqueues on STREAM dst (n) = reduction over the W arrays at SRC, STRIDE
   * elements apart, in rank order; the bits of the host's.  ONTO: DST is
   * the first of them. */
  ts_err (*sum)(ts_lane *stream, void *dst, const void *src, int w,
                int64_t stride, int64_t n, ts_dtype, ts_reduction, bool onto);
};
