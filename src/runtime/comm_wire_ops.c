/* comm_wire_ops.c - collectives by a library that moves a device's memory
 * (comm_wire.h): the parts of each operation, and how its pieces travel.
 *
 * Sums are all-to-all, a kernel that adds in rank order, all-gather, as on the
 * host.  Sizes of exchanges travel by MPI. */
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"

/* The parts of an operation; between two of them the library says that what
 * was begun is enqueued. */
enum { FIRST, FIRST_MOVES, SECOND, SECOND_MOVES };

enum { ALIGN = 64 };

static const ts_wire_ops *wire_of(const ts_comm *c) {
  return c->world->wire;
}

/* ---- moves --------------------------------------------------------------- */

/* How pieces may travel: where all ranks know that all are of one size, by
 * the library's own collective. */
typedef enum { BY_PIECE, GATHER, ALL_TO_ALL } how;

static how how_of(how best, bool equal, const ts_wire_ops *wire) {
  if (!equal) return BY_PIECE;
  if (best == GATHER) return wire->all_gather ? best : BY_PIECE;
  return wire->all_to_all ? best : BY_PIECE;
}

static ts_err copy_own(ts_op *op) {
  const ts_wire_pieces *p = &op->comm->far->pieces;
  const int me = op->comm->rank;
  char *to = p->recv + p->recv_at[me];
  const char *from = p->send + p->send_at[me];
  if (p->send_bytes[me] <= 0 || to == from) return TS_OK;
  return ts_lane_copy(op->comm->far->stream, to, from,
                      (size_t)p->send_bytes[me]);
}

/* Counted once, as the first is launched. */
static void count(ts_op *op) {
  const ts_wire_pieces *p = &op->comm->far->pieces;
  for (int r = 0; r < op->comm->size; r++) {
    if (r == op->comm->rank) {
      op->own_bytes += p->send_bytes[r];
      continue;
    }
    op->n_messages += p->send_bytes[r] > 0;
    ts_op_sent(op, p->send_bytes[r], r);
  }
}

/* The next round of the pieces; *DONE with the last. */
static ts_err next_round(ts_op *op, bool *done) {
  ts_comm_far *f = op->comm->far;
  const int w = op->comm->size, most = wire_of(op->comm)->group_max;
  const int n_rounds = f->wire ? ts_wire_rounds(w, most) : 0;
  if (op->round == 0) TS_DO(copy_own(op));
  if (op->round < n_rounds) {
    const int n = ts_wire_plan(f->messages, &f->pieces, op->comm->rank, w,
                               op->round++, most);
    if (n) TS_DO(wire_of(op->comm)->group(f->wire, f->messages, n));
    op->busy = n > 0;
  }
  *done = op->round >= n_rounds;
  if (*done) op->round = 0;
  return TS_OK;
}

static ts_err move(ts_op *op, how by, bool *done) {
  const ts_wire_ops *wire = wire_of(op->comm);
  const ts_comm_far *f = op->comm->far;
  const ts_wire_pieces *p = &f->pieces;
  const int64_t bytes = p->send_bytes[op->comm->rank];
  if (op->round == 0) count(op);
  if (by == BY_PIECE || !f->wire) return next_round(op, done);
  *done = op->busy = true;
  return by == GATHER ? wire->all_gather(f->wire, p->recv, p->send, bytes)
                      : wire->all_to_all(f->wire, p->recv, p->send, bytes);
}

static ts_err scratch(ts_op *op, int64_t bytes) {
  ts_comm_far *f = op->comm->far;
  /* Those before it use what there is. */
  if ((size_t)bytes > f->scratch.bytes && ts_op_is_behind(op))
    TS_DO(ts_lane_sync(f->stream));
  return ts_buffer_reserve(&f->scratch, (size_t)bytes);
}

static ts_err sum(ts_op *op, void *dst, int64_t n, ts_reduction reduction) {
  ts_comm *c = op->comm;
  if (n == 0) return TS_OK;
  return wire_of(c)->sum(c->far->stream, dst, c->far->scratch.ptr, c->size, n,
                         n, op->dtype, reduction, false);
}

/* ---- operations: the pieces of their parts ------------------------------- */

static ts_err all_to_all(ts_op *op, bool *done) {
  if (op->part == FIRST)
    ts_wire_all_to_all(&op->comm->far->pieces, op->recv, op->recv_counts,
                       op->send, op->send_counts, 1, op->comm->size);
  op->part = FIRST_MOVES;
  return move(op, BY_PIECE, done);
}

static ts_err all_gather(ts_op *op, bool *done) {
  const int w = op->comm->size;
  const how by =
      how_of(GATHER, ts_wire_equal(op->recv_counts, w), wire_of(op->comm));
  if (op->part == FIRST)
    ts_wire_all_gather(&op->comm->far->pieces, op->recv, op->send,
                       op->recv_counts, 1, op->comm->rank, w);
  op->part = FIRST_MOVES;
  return move(op, by, done);
}

static ts_err broadcast(ts_op *op, bool *done) {
  ts_comm *c = op->comm;
  *done = true;
  op->own_bytes = op->n;
  if (!c->far->wire || op->n == 0) return TS_OK;
  op->busy = true;
  if (c->rank == op->root) {
    op->n_messages += c->size - 1;
    op->sent_bytes += op->n * (c->size - 1);
  }
  return wire_of(c)->broadcast(c->far->wire, op->recv, op->n, op->root);
}

/* The library's own sum, where it is wanted and there is one. */
static ts_err library_sum(ts_op *op, bool *taken) {
  ts_comm *c = op->comm;
  const ts_wire_ops *wire = wire_of(c);
  const int64_t n = op->n, size = (int64_t)ts_dtype_bytes(op->dtype);
  *taken = false;
  if (c->world->options.ordered || !c->far->wire) return TS_OK;
  if (op->kind == TS_OP_ALL_REDUCE && wire->all_reduce)
    TS_DO(wire->all_reduce(c->far->wire, op->recv, n, op->dtype, op->reduction,
                           taken));
  if (op->kind == TS_OP_REDUCE_SCATTER && wire->reduce_scatter &&
      ts_wire_equal(op->send_counts, c->size))
    TS_DO(wire->reduce_scatter(c->far->wire, op->recv, op->send,
                               op->send_counts[0], op->dtype, taken));
  op->busy = *taken;
  if (!*taken) return TS_OK;
  op->n_messages += c->size - 1;
  op->sent_bytes +=
      size *
      (op->kind == TS_OP_ALL_REDUCE ? n : op->send_counts[0] * (c->size - 1));
  return TS_OK;
}

/* Everyone's parts of this rank's share into the scratch. */
static ts_err collect(ts_op *op, const int64_t *n) {
  const int w = op->comm->size;
  const int64_t own = n[op->comm->rank];
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  const void *from = op->kind == TS_OP_ALL_REDUCE ? op->recv : op->send;
  for (int r = 0; r < w; r++) op->recv_counts[r] = own;
  TS_DO(scratch(op, own * w * size));
  ts_wire_all_to_all(&op->comm->far->pieces, op->comm->far->scratch.ptr,
                     op->recv_counts, from, n, size, w);
  return TS_OK;
}

static ts_err reduce_scatter(ts_op *op, bool *done) {
  bool moved = false;
  const int64_t *n = op->send_counts;
  const how by =
      how_of(ALL_TO_ALL, ts_wire_equal(n, op->comm->size), wire_of(op->comm));
  if (op->part == FIRST) {
    TS_DO(library_sum(op, done));
    if (*done) return TS_OK;
    TS_DO(collect(op, n));
    op->part = FIRST_MOVES;
  }
  if (op->part == FIRST_MOVES) {
    TS_DO(move(op, by, &moved));
    if (moved) op->part = SECOND;
    return TS_OK;
  }
  *done = true;
  return sum(op, op->recv, n[op->comm->rank], TS_SUM);
}

/* Few elements: everyone's arrays to everyone. */
static ts_err small_all_reduce(ts_op *op, bool *done) {
  bool moved = false;
  ts_comm *c = op->comm;
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  if (op->part == FIRST) {
    for (int r = 0; r < c->size; r++) op->recv_counts[r] = op->n;
    TS_DO(scratch(op, op->n * c->size * size));
    ts_wire_all_gather(&c->far->pieces, c->far->scratch.ptr, op->recv,
                       op->recv_counts, size, c->rank, c->size);
    op->part = FIRST_MOVES;
  }
  if (op->part == FIRST_MOVES) {
    TS_DO(move(op, how_of(GATHER, op->n > 0, wire_of(c)), &moved));
    if (moved) op->part = SECOND;
    return TS_OK;
  }
  *done = true;
  return sum(op, op->recv, op->n, op->reduction);
}

/* Each rank's share of the elements, into send_counts. */
static void share(ts_op *op) {
  const int w = op->comm->size;
  for (int r = 0; r < w; r++)
    op->send_counts[r] =
        ts_slice_first(op->n, w, r + 1) - ts_slice_first(op->n, w, r);
}

static ts_err large_all_reduce(ts_op *op, bool *done) {
  bool moved = false;
  ts_comm *c = op->comm;
  const int w = c->size, me = c->rank;
  const bool equal = op->n % w == 0;
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  char *mine = (char *)op->recv + ts_slice_first(op->n, w, me) * size;
  if (op->part == FIRST) {
    share(op);
    TS_DO(collect(op, op->send_counts));
    op->part = FIRST_MOVES;
  }
  if (op->part == FIRST_MOVES) {
    TS_DO(move(op, how_of(ALL_TO_ALL, equal, wire_of(c)), &moved));
    if (moved) op->part = SECOND;
    return TS_OK;
  }
  if (op->part == SECOND) {
    TS_DO(sum(op, mine, op->send_counts[me], op->reduction));
    ts_wire_all_gather(&c->far->pieces, op->recv, mine, op->send_counts, size,
                       me, w);
    op->part = SECOND_MOVES;
  }
  return move(op, how_of(GATHER, equal, wire_of(c)), done);
}

/* Step by step from node to node: its number is op->round. */
static ts_err sum_by_node(ts_op *op, bool *done) {
  ts_comm_far *f = op->comm->far;
  const int per = op->comm->per_node;
  const ts_wire_ops *wire = wire_of(op->comm);
  TS_DO(scratch(op, ts_sum_by_node_room(op)));
  const ts_node_step x =
      ts_sum_by_node(op, op->round, f->scratch.ptr, f->messages);
  const int64_t bytes = x.stride * (int64_t)ts_dtype_bytes(op->dtype);
  if (op->round++ == 0) {
    op->own_bytes += bytes;
    TS_DO(ts_lane_copy(f->stream, x.row, x.own, (size_t)bytes));
  }
  if (x.n)
    TS_DO(wire->sum(f->stream, x.own, x.row, per, x.stride, x.n, op->dtype,
                    op->reduction, x.onto));
  for (int i = 0; i < x.n_messages; i++) {
    op->n_messages += f->messages[i].send;
    if (f->messages[i].send)
      ts_op_sent(op, f->messages[i].bytes, f->messages[i].rank);
  }
  op->busy = x.n_messages > 0;
  if (op->busy) TS_DO(wire->group(f->wire, f->messages, x.n_messages));
  *done = x.last;
  if (x.last) op->round = 0;
  return TS_OK;
}

static ts_err all_reduce(ts_op *op, bool *done) {
  if (!op->comm->far->wire) { /* one rank */
    *done = true;
    return TS_OK;
  }
  if (op->part == FIRST) {
    const ts_err err = library_sum(op, done);
    if (err != TS_OK || *done) return err;
  }
  if (op->n <= TS_REDUCE_SMALL) return small_all_reduce(op, done);
  const int per = op->comm->per_node;
  return 2 * per + 4 <= wire_of(op->comm)->group_max &&
                 ts_sum_goes_by_node(op->n, op->dtype, op->comm->size, per)
             ? sum_by_node(op, done)
             : large_all_reduce(op, done);
}

/* *SEND = the bytes to send in device memory, which the library needs: a copy
 * where they are the host's. */
static ts_err send_of(ts_op *op, const void **send, int64_t bytes) {
  const ts_comm_far *f = op->comm->far;
  *send = op->exchange->send;
  if (bytes == 0 || ts_comm_is_remote(op->comm, *send)) return TS_OK;
  TS_DO(scratch(op, bytes));
  TS_DO(ts_lane_copy(f->stream, f->scratch.ptr, *send, (size_t)bytes));
  *send = f->scratch.ptr;
  return TS_OK;
}

static ts_err lay_out(ts_op *op) {
  ts_exchange *x = op->exchange;
  ts_wire_pieces *p = &op->comm->far->pieces;
  const int w = op->comm->size;
  const int64_t align = x->rooms ? ALIGN : 1;
  int64_t end = 0, bytes = 0;
  const void *send;
  for (int r = 0; r < w; r++) bytes += x->send_bytes[r];
  TS_DO(send_of(op, &send, bytes));
  ts_wire_all_to_all(p, NULL, x->recv_bytes, send, x->send_bytes, 1, w);
  for (int r = 0; r < w; r++) {
    p->recv_at[r] = end;
    if (x->recv_at) x->recv_at[r] = end;
    end += (x->recv_bytes[r] + align - 1) / align * align;
  }
  TS_DO(ts_buffer_reserve(&x->recv, (size_t)end));
  p->recv = x->recv.ptr;
  return TS_OK;
}

static ts_err exchange(ts_op *op, bool *done) {
  bool last = false;
  if (op->part == FIRST) {
    op->part = SECOND;
    return ts_op_exchange(op, &last); /* its first phase: sizes */
  }
  if (op->part == SECOND) {
    op->n_rounds++;
    TS_DO(lay_out(op));
    op->part = SECOND_MOVES;
  }
  return move(op, BY_PIECE, done);
}

/* ---- an operation -------------------------------------------------------- */

ts_err ts_wire_launch(ts_op *op, bool *done) {
  switch (op->kind) {
  case TS_OP_ALL_TO_ALL:
    return all_to_all(op, done);
  case TS_OP_EXCHANGE:
  case TS_OP_EXCHANGE_ROOMS:
    return exchange(op, done);
  case TS_OP_ALL_REDUCE:
    return all_reduce(op, done);
  case TS_OP_REDUCE_SCATTER:
    return reduce_scatter(op, done);
  case TS_OP_BROADCAST:
    return broadcast(op, done);
  default:
    return all_gather(op, done);
  }
}
