/* comm_wire.c - collectives on a device's memory by a library that moves it
 * (comm_wire.h): what is launched when.
 *
 * The service thread launches, in the order in which operations were begun on
 * all comms: libraries of this kind hang when two ranks launch in different
 * orders.  An operation is launched before what it waits for is done where
 * its stream can wait itself.  What that is: comm_wire_ops.c. */
#include <string.h>

#include "base/mem.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"

/* The last part of an operation; the ones before are comm_wire_ops.c's. */
enum { END = -1 };

enum { PAUSE_US = 200 };

static const ts_wire_ops *wire_of(const ts_comm *c) {
  return c->world->wire;
}

/* ---- a comm's communicator ----------------------------------------------- */

static ts_err wait_open(ts_comm *c) {
  const ts_world *w = c->world;
  const double t0 = ts_now(), most = w->options.timeout_s;
  bool busy = true;
  for (;;) {
    TS_DO(wire_of(c)->poll(c->far->wire, &busy));
    if (!busy) break;
    if (most > 0 && ts_now() - t0 > most)
      return ts_fail(
          TS_ERR_COMM,
          "rank %d on %s: the %s communicator of \"%s\" was not there "
          "within %.0f s (comm.timeout_s)",
          w->rank, w->host, wire_of(c)->name, c->name, most);
    ts_pause(PAUSE_US);
  }
  return TS_OK;
}

static ts_err create_arrays(ts_comm *c) {
  ts_wire_pieces *p = &c->far->pieces;
  TS_DO(ts_mem_many(p->recv_at, c->size, COMM));
  TS_DO(ts_mem_many(p->recv_bytes, c->size, COMM));
  TS_DO(ts_mem_many(p->send_at, c->size, COMM));
  TS_DO(ts_mem_many(p->send_bytes, c->size, COMM));
  return ts_mem_many(c->far->messages, wire_of(c)->group_max, COMM);
}

static ts_err open_wire(ts_comm *c) {
  char id[TS_WIRE_ID] = {0};
  TS_DO(ts_comm_far_create(c));
  TS_DO(ts_lane_ends_create(c->lane, c->world->device));
  TS_DO(create_arrays(c));
  if (c->size == 1) return TS_OK;
  const ts_err err = c->rank == 0 ? wire_of(c)->id(id) : TS_OK;
  TS_DO(ts_comm_share(c, id, sizeof id, err));
  TS_DO(wire_of(c)->open(&c->far->wire, c->far->stream, id, c->rank, c->size));
  return wait_open(c);
}

static void close_wire(ts_comm *c) {
  ts_wire_pieces *p = &c->far->pieces;
  if (c->far->wire) wire_of(c)->close(c->far->wire);
  ts_mem_free_all(p->recv_at, p->recv_bytes, p->send_at, p->send_bytes,
                  c->far->messages);
  ts_lane_ends_destroy(c->lane);
  ts_comm_far_destroy(c);
}

static ts_err poll_wire(ts_comm *c, bool *busy) {
  *busy = false;
  return c->far->wire ? wire_of(c)->poll(c->far->wire, busy) : TS_OK;
}

/* Collectives that are running on the device would never end by themselves;
 * copies of own pieces and sums, enqueued beside them, do. */
static void fail_wire(ts_comm *c) {
  if (c->far->wire) wire_of(c)->abort(c->far->wire);
  c->far->wire = NULL;
  if (ts_lane_sync(c->far->stream) != TS_OK) ts_err_clear();
}

/* ---- an operation -------------------------------------------------------- */

static ts_err wired(ts_op *op, bool *last) {
  ts_comm *c = op->comm;
  bool done = false;
  if (op->part == END) {
    op->work = ts_lane_record(c->far->stream);
    c->world->turn = op->turn;
    *last = true;
    return TS_OK;
  }
  if (op->empty)
    done = true;
  else
    TS_DO(ts_wire_launch(op, &done));
  if (done) op->part = END;
  return TS_OK;
}

/* Nothing moves, and all ranks know that: counts are the same everywhere. */
static bool is_empty(const ts_op *op, const ts_op_extent *e) {
  return e->recv == 0 && e->send == 0 &&
         (op->kind == TS_OP_REDUCE_SCATTER || op->kind == TS_OP_ALL_GATHER);
}

/* *YES: OP's buffers lie in the device's memory.  Where OP has none it does not
 * matter, as nothing is sent; but where nothing moves at all the device has it,
 * so that the host need not wait for what comes before it there. */
static ts_err is_wired(ts_op *op, bool *yes) {
  const ts_comm *c = op->comm;
  const ts_op_shape s = {.kind = op->kind,
                         .me = c->rank,
                         .w = c->size,
                         .send_counts = op->send_counts,
                         .recv_counts = op->recv_counts,
                         .n = op->n,
                         .dtype = op->dtype,
                         .root = op->root};
  *yes = false;
  if (op->kind == TS_OP_RUN) return TS_OK;
  if (op->exchange) {
    *yes = op->exchange->recv.space == TS_SPACE_DEVICE;
    return TS_OK;
  }
  const ts_op_extent e = ts_op_extent_of(&s);
  const bool recv = ts_comm_is_remote(c, op->recv);
  const bool send = ts_comm_is_remote(c, op->send);
  op->empty = is_empty(op, &e);
  *yes = op->empty || (e.recv > 0 && recv) || (e.send > 0 && send);
  if (*yes && c->far->wire && ((e.recv > 0 && !recv) || (e.send > 0 && !send)))
    return ts_fail(TS_ERR_INTERNAL,
                   "%s of \"%s\": of its two buffers one is the host's",
                   op->name, c->name);
  return TS_OK;
}

static ts_err prepare(ts_op *op) {
  bool yes;
  ts_world *w = op->comm->world;
  const ts_err err = is_wired(op, &yes);
  if (err != TS_OK || !yes) return err;
  op->step = wired;
  op->ahead = !op->exchange; /* an exchange's sizes are read as it starts */
  op->to_host =
      !op->exchange && op->recv && !ts_comm_is_remote(op->comm, op->recv);
  op->asks = true;
  pthread_mutex_lock(&w->lock);
  op->turn = ++w->n_turns;
  pthread_mutex_unlock(&w->lock);
  return TS_OK;
}

const ts_comm_ops ts_comm_ops_wired = {.name = "",
                                       .open = open_wire,
                                       .close = close_wire,
                                       .prepare = prepare,
                                       .poll = poll_wire,
                                       .fail = fail_wire};
