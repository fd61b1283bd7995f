/* comm.h - collectives over the ranks.
 *
 * Each ts_comm is one duplicated communicator with a lane of its own; the
 * operations of one comm run in the order in which they were begun, which
 * must be the same on every rank of its group.  An operation is split:
 *
 *     begin(comm, &token, ..., after)   enqueues; starts once the work that
 *                                       lane AFTER holds now is done
 *                                       (AFTER NULL: at once)
 *     ts_comm_end(&token, lane)         LANE waits for it (ts_lane_wait)
 *     ts_comm_wait(&token)              the host waits for it
 *
 * Buffers belong to the operation from begin to end.  Counts are host
 * memory; they are copied at begin, except ts_comm_exchange's.
 *
 * On the host one service thread per rank makes every MPI call after start:
 * it tests, then sleeps 20 us, and never sits in a blocking wait.  With serial
 * lanes each operation runs to its end inside begin.  What a library of the
 * device moves is launched by begin, where nothing has to be launched before.
 *
 * Buffers may lie in the memory of the world's device.  Where the host may
 * not touch that, they travel through pinned memory (comm_staged.c) or by a
 * library of the device's (comm_wire.c, NCCL in cuda/); the bits are the
 * same.  The lanes of comms are the host's on every device.  Counts, sizes
 * and the blocking forms' arrays are host memory always.
 *
 * With comm.reduce = "ordered" (the default) sums are taken in rank order:
 * all-to-all, sum, all-gather; the same bits whatever the MPI library does.
 * Large ones go from node to node instead (comm_by_node.c): the same additions
 * and bits, and less of it on the network.
 *
 * A failed or overdue (timeout_s) operation makes its lane's error COMM.  What
 * the others send arrives all the same: who goes on, for however short, frees
 * its buffers with ts_comm_free. */
#pragma once

#include "base/dtype.h"
#include "runtime/device.h"

typedef struct ts_world ts_world;
typedef struct ts_comm ts_comm;

typedef enum {
  TS_GROUP_WORLD, /* all ranks */
  TS_GROUP_NODE,  /* the ranks of this node */
  TS_GROUP_CROSS, /* the ranks with this rank's index on all nodes */
  TS_GROUP_COUNT
} ts_group;

/* How buffers that the host may not touch travel. */
typedef enum {
  TS_COMM_AUTO, /* the device's library where there is one and no two ranks
                   share a device, else as MPI */
  TS_COMM_MPI,  /* through pinned memory, by the service thread */
  TS_COMM_NCCL
} ts_comm_backend;
typedef struct ts_wire_ops ts_wire_ops; /* runtime/comm_wire.h */

typedef struct ts_world_options {
  ts_comm_backend backend;
  const ts_wire_ops *wire; /* for tests; NULL: the one of this build */
  bool ordered;            /* sums in rank order */
  bool sums; /* messages through MPI bring checksums along: one that was
                changed on its way is a COMM error that names its sender */
  int ranks_per_node; /* 0: as found; else consecutive ranks act as nodes */
  double timeout_s;   /* deadline of an operation; 0: none */
  double delay_us;    /* a slower network, to measure overlap: latency and */
  double delay_gbytes_per_s; /* bandwidth of each operation; 0: none */
} ts_world_options;

/* MPI_Init_thread, once at the start of main, before anything else of this
 * header; a program that was not started by mpirun or srun is one rank.
 * ts_mpi_stop is MPI_Finalize; ts_mpi_abort ends all ranks with CODE. */
ts_err ts_mpi_start(int *argc, char ***argv);
void ts_mpi_stop(void);
_Noreturn void ts_mpi_abort(int exit_code);
int ts_mpi_rank(void); /* in the world; 0 before ts_mpi_start */
int ts_mpi_size(void);
/* ts_agree before there is a world: with an error on some rank, that of the
 * lowest such rank on all, its message included.  Collective over the world;
 * before ts_mpi_start it returns its argument. */
ts_err ts_mpi_agree(ts_err);
/* ts_comm_bcast of rank 0 before there is a world.  Collective over the
 * world. */
ts_err ts_mpi_bcast(void *buf, int bytes);
const char *ts_mpi_version(void); /* "Open MPI 4.1.4, MPI 3.1" */

/* Collective.  The service thread starts here (none on one rank or with
 * serial lanes). */
ts_err ts_world_create(ts_world **, ts_device *, const ts_world_options *);
void ts_world_destroy(ts_world *); /* collective; after its comms */
int ts_world_rank(const ts_world *);
int ts_world_size(const ts_world *);
int ts_world_node_size(const ts_world *); /* ranks of this node */
int ts_world_node(const ts_world *);      /* index of this node */
int ts_world_nodes(const ts_world *);
/* "mpi", "mpi through pinned memory" (and why, where NCCL is there), "nccl". */
const char *ts_world_backend(const ts_world *);

/* A communicator of its own over GROUP; NAME (static) is its lane's name in
 * the trace.  Collective over the world. */
ts_err ts_comm_create(ts_world *, ts_comm **, ts_group, const char *name);
/* The same for buffers that the host may touch, and no others. */
ts_err ts_comm_create_host(ts_world *, ts_comm **, ts_group, const char *name);
/* The same over the block of N consecutive ranks that this rank is in; N
 * divides the ranks.  Collective over the world. */
ts_err ts_comm_create_block(ts_world *, ts_comm **, int n, const char *name);
/* The trace calls the operations begun from here on STAGE (the comm's NAME by
 * default); the string must live until they are done.  Local. */
void ts_comm_set_stage(ts_comm *, const char *stage);
/* The operation begun next waits for EVENT, too: for what is not the end of a
 * lane.  TS_FOLLOW_MAX at most. */
enum { TS_FOLLOW_MAX = 4 };
void ts_comm_follow(ts_comm *, ts_event);
void ts_comm_destroy(ts_comm *); /* collective */
/* Room for BYTES that operations keep aside while they run (sums: everyone's
 * parts); grows by itself.  None is under way. */
ts_err ts_comm_reserve(ts_comm *, int64_t bytes);
int ts_comm_rank(const ts_comm *);
int ts_comm_size(const ts_comm *);
ts_lane *ts_comm_lane(const ts_comm *);
/* Frees P, which operations of the comm were given.  Where one of them has
 * failed, messages of others may arrive there as long as the program runs:
 * then it stays. */
void ts_comm_free(const ts_comm *, void *p);

/* An operation under way. */
typedef struct ts_token {
  ts_event done;
} ts_token;

/* W = ranks of the comm.  Piece r of SEND (send_bytes[r] bytes, pieces
 * follow each other) goes to rank r; piece r of RECV comes from rank r.
 * Sizes in bytes may exceed 2^31 in sum and by piece. */
ts_err ts_comm_all_to_all_v(ts_comm *, ts_token *, void *recv,
                            const int64_t *recv_bytes /* (W) */,
                            const void *send,
                            const int64_t *send_bytes /* (W) */,
                            ts_lane *after);

/* Room that the exchanges of one stream keep for a piece from and to each
 * rank: send[r] here is recv[me] on rank r, at every operation.  A piece that
 * fits its room travels at once; of a larger one the size goes first and the
 * piece after it, and both sides make the room so much larger.  So sizes that
 * repeat, or nearly so, need no message.  Touched by operations alone. */
typedef struct ts_rooms {
  int64_t *send, *recv; /* (W) bytes, multiples of 64 */
} ts_rooms;
ts_err ts_rooms_create(ts_rooms *, int n_ranks); /* the least rooms */
void ts_rooms_reset(ts_rooms *);
int64_t ts_room_bytes(int64_t bytes); /* the room of a piece of BYTES */

/* An all-to-all whose receive sizes are not known: they travel first, unless
 * pieces fit their ROOMS; RECV grows as needed.  SEND's pieces and send_bytes
 * are read when the operation starts (so the lane AFTER may still be filling
 * them); what is received is valid after it.  The struct must stay until the
 * end. */
typedef struct ts_exchange {
  const void *send;
  const int64_t *send_bytes; /* (W) */
  ts_buffer recv;            /* reserved by the operation; owned by caller */
  int64_t *recv_bytes;       /* (W), out */
  int64_t *recv_at; /* (W), out: start of each piece, a multiple of 64 with
                       rooms; NULL (no rooms): they follow each other */
  ts_rooms *rooms;  /* NULL: sizes always travel first */
} ts_exchange;
ts_err ts_comm_exchange(ts_comm *, ts_token *, ts_exchange *, ts_lane *after);

typedef enum { TS_SUM, TS_MAX, TS_MIN } ts_reduction;

/* BUF = reduction over ranks of BUF, n elements of f32, f64, i64 (and bf16,
 * f16 for TS_SUM, summed in f32 and rounded once), in place. */
ts_err ts_comm_all_reduce(ts_comm *, ts_token *, void *buf, int64_t n, ts_dtype,
                          ts_reduction, ts_lane *after);

/* Rank r gets the sum over ranks of piece r: SEND has W pieces of counts[r]
 * elements (f32, bf16, f16), RECV counts[me].  In rank order. */
ts_err ts_comm_reduce_scatter_v(ts_comm *, ts_token *, void *recv,
                                const void *send,
                                const int64_t *counts /* (W) */, ts_dtype,
                                ts_lane *after);

/* RECV = pieces of all ranks one after the other, bytes[r] from rank r;
 * SEND = bytes[me].  SEND may be RECV's own piece (in place). */
ts_err ts_comm_all_gather_v(ts_comm *, ts_token *, void *recv, const void *send,
                            const int64_t *bytes /* (W) */, ts_lane *after);

ts_err ts_comm_broadcast(ts_comm *, ts_token *, void *buf, int64_t bytes,
                         int root, ts_lane *after);

ts_err ts_comm_end(ts_token *, ts_lane *);
ts_err ts_comm_wait(ts_token *);

/* Blocking forms for set-up and step boundaries; collective. */
ts_err ts_comm_sum_f64(ts_comm *, double *x, int64_t n);
ts_err ts_comm_sum_i64(ts_comm *, int64_t *x, int64_t n);
ts_err ts_comm_max_i64(ts_comm *, int64_t *x, int64_t n);
ts_err ts_comm_max_f64(ts_comm *, double *x, int64_t n);
ts_err ts_comm_bcast(ts_comm *, void *buf, int64_t bytes, int root);
/* recv (W pieces of BYTES each) = everyone's SEND. */
ts_err ts_comm_gather_all(ts_comm *, void *recv, const void *send,
                          int64_t bytes);
ts_err ts_comm_barrier(ts_comm *);

/* All ranks call it with their own ERR.  Returns OK if all are OK, else the
 * error of the lowest rank that has one, with that rank's message in every
 * rank's record (" (rank R)" added where W > 1).  Collective. */
ts_err ts_agree(ts_comm *, ts_err err);

/* Runs FN(mpi_comm, arg) where MPI may be called (the service thread), once
 * the comm's earlier operations are done, and waits: for parallel HDF5.
 * MPI_COMM is an MPI_Comm *, a plain duplicate of the group; on one rank
 * without MPI it is a duplicate of MPI_COMM_SELF. */
ts_err ts_comm_run_mpi(ts_comm *, ts_err (*fn)(void *mpi_comm, void *arg),
                       void *arg);

/* Whether an ordered sum of N elements over W ranks goes from node to node:
 * nodes have PER consecutive ranks each (0: they differ).  A rank then sends
 * N / PER elements to the node behind and N / PER to the one before, at most,
 * and 2 N (PER - 1) / PER within its own.  Local. */
bool ts_sum_goes_by_node(int64_t n, ts_dtype, int w, int per);

/* Bytes that this rank has sent to others so far, and operations that are done
 * or, on a device, enqueued.  A round is one wait of an operation for the
 * network: an all-to-all has one, an exchange whose sizes go first has two.
 * Local. */
typedef struct ts_comm_stat {
  int64_t n_ops, n_rounds, n_messages, sent_bytes;
  /* Of sent_bytes, to other nodes: of comms of all ranks, where nodes have as
   * many consecutive ones each. */
  int64_t cross_bytes;
  double busy_s; /* time from start to end of operations, summed */
} ts_comm_stat;
ts_comm_stat ts_comm_stat_of(const ts_comm *);
