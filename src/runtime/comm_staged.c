/* comm_staged.c - collectives on memory that the host may not touch: through
 * pinned memory, by the steps of the host.
 *
 * An operation has three parts, all served by the service thread: copies of
 * what is sent into pinned memory on a lane of the comm's own, the host's
 * steps on that, and copies of what was received.  The messages are those of
 * the host, so a buffer may lie here on one rank and there on another, and
 * the bits are the host's. */
#include <string.h>

#include "base/mem.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"

enum { DOWN, RUN, UP }; /* parts */

bool ts_comm_is_remote(const ts_comm *c, const void *p) {
  ts_device *d = c->world->device;
  return p && d->ops->is_remote && d->ops->is_remote(d, p);
}

/* ---- what a comm has for it ---------------------------------------------- */

static ts_buffer empty_buffer(ts_device *d, ts_space space) {
  return (ts_buffer){
      .space = space, .tag = TS_TAG_COMM, .owned = true, .device = d};
}

ts_err ts_comm_far_create(ts_comm *c) {
  ts_device *d = c->world->device;
  TS_DO(ts_mem_alloc(&c->far, sizeof *c->far, TS_TAG_COMM));
  c->far->send = c->far->near.recv = empty_buffer(d, TS_SPACE_PINNED);
  c->far->scratch = empty_buffer(d, TS_SPACE_DEVICE);
  TS_DO(ts_lane_create(d, &c->far->stream, c->name, TS_LANE_DATA));
  return TS_OK;
}

void ts_comm_far_destroy(ts_comm *c) {
  ts_comm_far *f = c->far;
  if (!f) return;
  ts_lane_destroy(f->stream);
  ts_buffer_reset(&f->send);
  ts_buffer_reset(&f->near.recv);
  ts_buffer_reset(&f->scratch);
  ts_mem_free(f);
  c->far = NULL;
}

/* ---- down ---------------------------------------------------------------- */

static ts_op_extent extent_of(const ts_op *op) {
  const ts_op_shape s = {.kind = op->kind,
                         .me = op->comm->rank,
                         .w = op->comm->size,
                         .send_counts = op->exchange ? op->exchange->send_bytes
                                                     : op->send_counts,
                         .recv_counts = op->recv_counts,
                         .n = op->n,
                         .dtype = op->dtype,
                         .root = op->root};
  return ts_op_extent_of(&s);
}

static ts_err copy(ts_op *op, void *dst, const void *src, int64_t bytes) {
  ts_lane *stream = op->comm->far->stream;
  if (bytes <= 0) return TS_OK;
  const ts_err err = ts_lane_copy(stream, dst, src, (size_t)bytes);
  op->work = ts_lane_record(stream);
  return err;
}

/* *SEND, if it is remote, becomes its pinned copy. */
static ts_err send_down(ts_op *op, const void **send, int64_t bytes) {
  ts_buffer *near = &op->comm->far->send;
  if (bytes <= 0 || !ts_comm_is_remote(op->comm, *send)) return TS_OK;
  TS_DO(ts_buffer_reserve(near, (size_t)bytes));
  TS_DO(copy(op, near->ptr, *send, bytes));
  *send = near->ptr;
  return TS_OK;
}

static ts_err exchange_down(ts_op *op, int64_t send_bytes) {
  ts_exchange *x = op->exchange, *near = &op->comm->far->near;
  const bool recv_remote = x->recv.space == TS_SPACE_DEVICE;
  if (!recv_remote && !ts_comm_is_remote(op->comm, x->send)) return TS_OK;
  near->send = x->send;
  near->send_bytes = x->send_bytes;
  near->recv_bytes = x->recv_bytes;
  near->recv_at = x->recv_at;
  near->rooms = x->rooms;
  TS_DO(send_down(op, &near->send, send_bytes));
  op->far_recv = x;
  op->exchange = near;
  return TS_OK;
}

/* A SEND that is a piece of RECV (all_gather_v in place) stays one. */
static bool is_inside(const ts_op *op, const ts_op_extent *e) {
  const char *send = op->send, *recv = op->recv;
  if (op->kind != TS_OP_ALL_GATHER && op->kind != TS_OP_GATHER_ALL)
    return false;
  return send && recv && send >= recv && send < recv + e->recv;
}

static ts_err buffers_down(ts_op *op, const ts_op_extent *e) {
  ts_buffer *near = &op->comm->far->near.recv;
  const bool inside = is_inside(op, e);
  if (e->recv > 0 && ts_comm_is_remote(op->comm, op->recv)) {
    TS_DO(ts_buffer_reserve(near, (size_t)e->recv));
    op->far_recv = op->recv;
    op->recv = near->ptr;
  }
  if (inside && op->far_recv) {
    char *piece =
        (char *)near->ptr + ((const char *)op->send - (char *)op->far_recv);
    TS_DO(copy(op, piece, op->send, e->send));
    op->send = piece;
  } else {
    TS_DO(send_down(op, &op->send, e->send));
  }
  if (op->far_recv && e->reads)
    TS_DO(copy(op, op->recv, op->far_recv, e->recv));
  return TS_OK;
}

static ts_err down(ts_op *op) {
  const ts_op_extent e = extent_of(op);
  return op->exchange ? exchange_down(op, e.send) : buffers_down(op, &e);
}

/* ---- up ------------------------------------------------------------------ */

static ts_err exchange_up(ts_op *op) {
  const int w = op->comm->size;
  const ts_exchange *near = op->exchange;
  ts_exchange *x = op->far_recv;
  int64_t next = 0, end = 0;
  for (int r = 0; r < w; r++) {
    const int64_t at = near->recv_at ? near->recv_at[r] : end;
    end = at + near->recv_bytes[r];
  }
  TS_DO(ts_buffer_reserve(&x->recv, (size_t)end));
  for (int r = 0; r < w; r++) {
    const int64_t at = near->recv_at ? near->recv_at[r] : next;
    TS_DO(copy(op, (char *)x->recv.ptr + at, (char *)near->recv.ptr + at,
               near->recv_bytes[r]));
    next = at + near->recv_bytes[r];
  }
  return TS_OK;
}

/* All of it, but what was sent in place: that is there. */
static ts_err buffers_up(ts_op *op, const ts_op_extent *e) {
  const int64_t own =
      is_inside(op, e) ? (const char *)op->send - (char *)op->recv : e->recv;
  const int64_t behind = own < e->recv ? own + e->send : e->recv;
  TS_DO(copy(op, op->far_recv, op->recv, own));
  return copy(op, (char *)op->far_recv + behind, (char *)op->recv + behind,
              e->recv - behind);
}

static ts_err up(ts_op *op) {
  if (!op->far_recv) return TS_OK;
  if (op->exchange) return exchange_up(op);
  const ts_op_extent e = extent_of(op);
  return e.writes ? buffers_up(op, &e) : TS_OK;
}

/* ---- an operation -------------------------------------------------------- */

static ts_err run(ts_op *op) {
  bool done = false;
  const ts_err err = op->inner(op, &done);
  if (done) op->part = UP;
  return err;
}

static ts_err staged(ts_op *op, bool *last) {
  switch (op->part) {
  case DOWN:
    op->part = RUN;
    op->phase = -1; /* the host's steps count from 0 */
    return down(op);
  case RUN:
    return run(op);
  default:
    *last = true;
    return up(op);
  }
}

/* Host memory or device memory is decided when the operation starts, not now:
 * the lane that it waits for may allocate an exchange's buffers. */
static ts_err prepare(ts_op *op) {
  if (op->kind == TS_OP_RUN) return TS_OK;
  op->inner = op->step;
  op->step = staged;
  return TS_OK;
}

/* Copies of an operation that is overdue end before its buffers are the
 * caller's again. */
static void settle(ts_comm *c) {
  if (ts_lane_sync(c->far->stream) != TS_OK) ts_err_clear();
}

const ts_comm_ops ts_comm_ops_staged = {.name = "mpi through pinned memory",
                                        .open = ts_comm_far_create,
                                        .close = ts_comm_far_destroy,
                                        .prepare = prepare,
                                        .fail = settle};
