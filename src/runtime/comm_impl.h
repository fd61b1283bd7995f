/* comm_impl.h - worlds, comms and operations; private to comm*.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/fault.h"
#include "runtime/comm.h"
#include "runtime/comm_plan.h"
#include "runtime/comm_wire.h"
#include "runtime/trace.h"
#include "runtime/watchdog.h"

typedef struct ts_op ts_op;
typedef struct ts_comm_far ts_comm_far;

/* How the buffers of a device with memory of its own travel; the host's need
 * none of this.  Every function may be NULL. */
typedef struct ts_comm_ops {
  const char *name;          /* of ts_world_backend */
  ts_err (*open)(ts_comm *); /* collective; no operation is under way */
  void (*close)(ts_comm *);
  ts_err (*prepare)(ts_op *); /* takes an operation over as it begins */
  /* *BUSY: the operation begun last is not enqueued yet.  Finds errors, too. */
  ts_err (*poll)(ts_comm *, bool *busy);
  void (*fail)(ts_comm *); /* an operation has failed: ends those under way */
} ts_comm_ops;
extern const ts_comm_ops ts_comm_ops_staged; /* comm_staged.c */
extern const ts_comm_ops ts_comm_ops_wired;  /* comm_wire.c */

struct ts_world {
  ts_device *device;
  ts_device *lanes; /* of comms: DEVICE, or the host where it has own memory */
  const ts_comm_ops *ops;
  const ts_wire_ops *wire; /* the library of wired comms */
  bool disorder;           /* it can't be used: ts_wire_place */
  int64_t n_turns, turn;   /* of wired operations: begun (under lock), next */
  ts_world_options options;
  int rank, size, node, node_rank, node_size, n_nodes;
  int per_node; /* all nodes have so many consecutive ranks; 0: they differ */
  char host[256];
  MPI_Comm groups[TS_GROUP_COUNT];
  /* The service thread and what it serves. */
  pthread_t thread;
  bool has_thread;
  pthread_mutex_t serving; /* who moves operations on; before lock */
  pthread_mutex_t lock;
  pthread_cond_t more;
  ts_comm *comms;   /* list, under lock */
  int n_waiting;    /* operations not yet done, under lock */
  bool stop, poked; /* poked: something may start; under lock */
};

struct ts_comm {
  ts_world *world;
  MPI_Comm mpi;
  int rank, size;
  int per_node; /* of the world, where the comm has all its ranks; else 0 */
  const char *name, *stage; /* stage: what the trace calls its operations */
  ts_event follow[TS_FOLLOW_MAX]; /* of the operation begun next */
  int n_follow;
  ts_lane *lane;
  ts_watch_lane *watch; /* what the watchdog shows of it; may be NULL */
  ts_op *head, *tail;   /* operations in order, under the world's lock */
  ts_op *spare;         /* for operations to come, under the world's lock */
  void *scratch;        /* of the operation that runs */
  size_t scratch_bytes;
  ts_comm_far *far; /* for buffers of a device with own memory; or NULL */
  int64_t *codes;   /* (W) of ts_agree, which must not run out of memory */
  ts_err_record *fault;
  atomic_bool broken; /* an operation has failed that had begun */
  ts_comm *next;
  ts_comm_stat stat;
};

/* One step of an operation: posts the requests of phase op->phase (from 0)
 * and sets *LAST when nothing follows once they are complete. */
typedef ts_err (*ts_op_step)(ts_op *, bool *last);

/* A comm's part for buffers that the host may not touch. */
struct ts_comm_far {
  ts_lane *stream;  /* of the device, for operations alone */
  ts_buffer send;   /* pinned: what is sent, of the operation that runs */
  ts_exchange near; /* its recv: what is received, likewise */
  ts_wire *wire;
  ts_buffer scratch;         /* the device's: everyone's parts */
  ts_wire_message *messages; /* of a round */
  ts_err_record fault;       /* of the operation that has an err */
  ts_wire_pieces pieces;     /* its arrays are owned, (W) each */
};

/* The checksum of a piece, on its way behind it (comm_mpi_sums.c). */
typedef struct ts_piece_sum {
  void *data;    /* of one that comes; NULL: it is sent */
  int64_t bytes; /* -1 - K: those of the message of request K */
  int from;      /* rank of the comm */
  uint64_t sum;  /* as it was sent */
} ts_piece_sum;

struct ts_op {
  ts_comm *comm;
  ts_op_kind kind;
  const char *name; /* of the collective, for messages */
  const char *stage;
  ts_op_step step;
  ts_event after[TS_FOLLOW_MAX + 1]; /* it starts when these are done */
  int n_after;
  ts_trace_mark mark;
  uint64_t seq;
  int phase;
  ts_event work; /* a phase is complete with this, too */
  bool busy;     /* and when ops->poll says so */
  bool empty;    /* of the device, and nothing is to be moved */
  bool asks;     /* not all of what it waits for can wake the thread */
  bool watched, started, last, arrived; /* arrived: all messages have */
  double t0;
  MPI_Request *requests;
  MPI_Status *statuses; /* of the requests, once they are complete */
  int n_requests, capacity;
  ts_piece_sum *sums; /* of the phase's pieces; NULL: none travel */
  int n_sums;
  int n_rounds, n_messages;
  int64_t sent_bytes, own_bytes; /* to others; to itself */
  int64_t cross_bytes;           /* of those sent, to other nodes */
  ts_op *next;
  /* arguments */
  void *recv;
  const void *send;
  int64_t *send_counts, *recv_counts; /* (W) owned copies */
  int64_t n;
  ts_dtype dtype;
  ts_reduction reduction;
  int root;
  ts_exchange *exchange;
  ts_err (*fn)(void *mpi_comm, void *arg);
  void *arg;
  /* of a device with own memory */
  ts_op_step inner; /* staged: what runs on host memory */
  int part;         /* which part of it is next */
  void *far_recv;   /* staged: where the result goes; NULL: it is there */
  int64_t turn;     /* wired: number + 1 in the order of launches; else 0 */
  bool ahead;       /* it is launched before what it waits for is done */
  bool to_host;     /* a task that follows may read the result at once */
  bool enqueued;    /* all that is left is on the device, up to WORK */
  ts_err err;       /* it failed while others before it were under way */
  int round;        /* of messages */
};

/* comm_mpi_ops.c: the steps. */
ts_err ts_op_all_to_all(ts_op *, bool *last);
ts_err ts_op_exchange(ts_op *, bool *last);
ts_err ts_op_exchange_rooms(ts_op *, bool *last); /* comm_mpi_rooms.c */
ts_err ts_op_all_reduce(ts_op *, bool *last);
ts_err ts_op_reduce_scatter(ts_op *, bool *last);
ts_err ts_op_all_gather(ts_op *, bool *last);
ts_err ts_op_broadcast(ts_op *, bool *last);
ts_err ts_op_run(ts_op *, bool *last);

/* comm_mpi_ops.c: messages of an operation.  BYTES may exceed 1 GiB: then
 * they travel in parts.  A piece of at most TS_ROOM_MAX bytes is one message,
 * even of none. */
/* All-reduces of so many elements gather everyone's whole array. */
enum { TS_REDUCE_SMALL = 8192 };
enum { TS_MESSAGE_TAG = 1, TS_SIZE_TAG, TS_SUM_TAG, TS_ROOM_MAX = 1 << 30 };
void ts_op_sent(ts_op *, int64_t bytes, int to); /* counts them */
ts_err ts_op_add_request(ts_op *, MPI_Request **);
ts_err ts_op_send(ts_op *, const void *, int64_t bytes, int to);
ts_err ts_op_recv(ts_op *, void *, int64_t bytes, int from);

/* comm_mpi_sums.c: checksums of pieces; without options.sums these do nothing.
 * make reserves room, once.  send and recv come right behind the piece's own
 * message; recv_sum_of is for a piece as long as what request number REQUEST of
 * the phase brings.  check, once the phase is complete: a COMM error names the
 * sender of a piece that differs. */
ts_err ts_op_make_sums(ts_op *);
ts_err ts_op_send_sum(ts_op *, const void *, int64_t bytes, int to);
ts_err ts_op_recv_sum(ts_op *, void *, int64_t bytes, int from);
ts_err ts_op_recv_sum_of(ts_op *, void *, int request, int from);
ts_err ts_op_check_sums(ts_op *);

/* comm_by_node.c: an ordered sum whose parts cross to other nodes once each
 * way. */
ts_err ts_op_sum_by_node(ts_op *, bool *last);
/* Its phase from 0 on: first N elements of the node's rows (STRIDE apart, the
 * first at ROW) are added to OWN, in phase 0 the STRIDE at OWN are copied to
 * ROW; then the messages of OUT (2 P + 4) travel together.  ROWS: room for
 * all the node's parts. */
typedef struct ts_node_step {
  char *own, *row;
  int64_t n, stride;
  bool onto, last;
  int n_messages;
} ts_node_step;
ts_node_step ts_sum_by_node(const ts_op *, int phase, char *rows,
                            ts_wire_message *out);
int64_t ts_sum_by_node_room(const ts_op *); /* bytes */

/* comm_mpi_serve.c: queues OP (owned from here on) and sets TOKEN. */
ts_err ts_op_begin(ts_op *, ts_token *);
/* comm_mpi.c: one operation.  advance: as far as it goes without waiting;
 * *MOVED: a step further; *FINISHED: finish is next.  finish: ends it with ERR,
 * which who waits for it gets.  is_behind: others of its comm, begun before it,
 * are not done yet.  show: it has started, and is not behind any more.  watch:
 * what it waits for wakes the service thread.  held_until: when a slower
 * network would be done. */
bool ts_op_is_behind(const ts_op *);
ts_err ts_op_advance(ts_op *, bool *moved, bool *finished);
void ts_op_show(ts_op *);
void ts_op_finish(ts_op *, ts_err);
void ts_op_watch(ts_op *, bool on);
double ts_op_held_until(const ts_op *);
/* comm_mpi_spare.c: operations are used again: N spare ones, one that is done,
 * and the end of them all. */
ts_err ts_op_spare(ts_comm *, int n);
void ts_op_give(ts_op *);
ts_err ts_op_create(ts_op **, ts_comm *, ts_op_kind, ts_lane *after);
void ts_op_free_all(ts_comm *);
ts_err ts_world_serve(ts_world *); /* starts the service thread */
void ts_world_unserve(ts_world *);
void ts_world_poke(void *world); /* the service thread looks again */

/* Error of an MPI call in words, as a COMM fault; OK for MPI_SUCCESS. */
ts_err ts_mpi_check(int rc, const char *call);
#define TS_MPI(call)                                                           \
  ts_mpi_check(ts_fault("mpi") ? MPI_ERR_OTHER : (call), #call)

/* comm.c: c->scratch of BYTES at least. */
ts_err ts_comm_scratch(ts_comm *, int64_t bytes);

/* comm_choose.c: sets ops and wire of W.  Collective. */
ts_err ts_world_choose(ts_world *w);
/* comm_mpi_world.c.  Collective, where no operation is under way.  All places;
 * rank 0's BYTES to all ranks of the comm, after an error of it the error. */
ts_err ts_world_gather_places(ts_world *, ts_wire_place *all,
                              const ts_wire_place *own);
ts_err ts_comm_share(ts_comm *, void *buf, int bytes, ts_err of_rank_0);

/* comm_staged.c: a lane for buffers that the host may not touch, and
 * their end; whether P is such a one. */
ts_err ts_comm_far_create(ts_comm *);
void ts_comm_far_destroy(ts_comm *);
bool ts_comm_is_remote(const ts_comm *, const void *p);

/* comm_wire_ops.c: launches the next part of OP, op->part from 0 on; *DONE with
 * the last.  The library has enqueued what was begun before. */
ts_err ts_wire_launch(ts_op *, bool *done);

/* comm_reduce.c: dst (n) = reduction over the W arrays at SRC, STRIDE
 * elements apart, in rank order; ONTO: DST is the first of them (not of 16-bit
 * floats).  DST may not be inside SRC. */
ts_err ts_reduce_ranks(void *dst, const void *src, int w, int64_t stride,
                       int64_t n, ts_dtype, ts_reduction, bool onto);
