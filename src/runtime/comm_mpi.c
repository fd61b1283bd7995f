/* comm_mpi.c - one operation, from its start to its end; comm_mpi_serve.c moves
 * it on. */
#include "base/fault.h"
#include "base/mem.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"
#include "runtime/overlap.h"
#include "runtime/trace.h"

ts_err ts_mpi_check(int rc, const char *call) {
  char text[MPI_MAX_ERROR_STRING];
  int n = 0;
  if (rc == MPI_SUCCESS) return TS_OK;
  if (MPI_Error_string(rc, text, &n) != MPI_SUCCESS) n = 0;
  return ts_fail(TS_ERR_COMM, "%.40s: %.*s", call, n, text);
}

/* The time before which a slower network would not be done.  One rank alone
 * sends nothing: what it keeps counts as sent, so that it has a network, too,
 * under which overlap can be seen. */
double ts_op_held_until(const ts_op *op) {
  const ts_world_options *o = &op->comm->world->options;
  const int64_t bytes = op->comm->size > 1 ? op->sent_bytes : op->own_bytes;
  double delay = o->delay_us * 1e-6 * op->n_rounds;
  if (o->delay_gbytes_per_s > 0)
    delay += (double)bytes / (o->delay_gbytes_per_s * 1e9);
  return op->t0 + delay;
}

static ts_err check_deadline(const ts_op *op) {
  const ts_world *w = op->comm->world;
  if (w->options.timeout_s <= 0 || ts_now() - op->t0 < w->options.timeout_s)
    return TS_OK;
  return ts_fail(TS_ERR_COMM,
                 "rank %d on %s: %s number %llu of \"%s\" was not done within "
                 "%.0f s (comm.timeout_s)",
                 w->rank, w->host, op->name, (unsigned long long)op->seq,
                 op->comm->name, w->options.timeout_s);
}

void ts_op_watch(ts_op *op, bool on) {
  for (int i = 0; i < op->n_after; i++)
    if (on)
      op->asks |= !ts_event_watch(op->after[i]);
    else if (op->watched)
      ts_event_unwatch(op->after[i]);
  op->watched = on;
}

/* *THERE = the event of the device that stands for EVENT, for which the stream
 * of an operation that is launched ahead waits itself; false: it can't. */
static bool waits_itself(const ts_op *op, ts_event event, ts_event *there) {
  if (!op->ahead || !event.lane) return false;
  const ts_device *device = op->comm->far->stream->device;
  *there = event;
  return event.lane->device == device || (ts_lane_ends_on(event.lane, device) &&
                                          ts_lane_ends_find(event, there, 0));
}

/* *MAY: the events that OP waits for are done.  An error of a lane that it
 * waits for becomes its own. */
static ts_err may_start(ts_op *op, bool *may) {
  ts_event there;
  if (op->turn && op->turn - 1 != op->comm->world->turn) return TS_OK;
  for (int i = 0; i < op->n_after; i++)
    if (!waits_itself(op, op->after[i], &there) && !ts_event_done(op->after[i]))
      return TS_OK;
  ts_op_watch(op, false);
  *may = true;
  for (int i = 0; i < op->n_after; i++)
    if (op->after[i].lane) TS_DO(ts_lane_error(op->after[i].lane));
  TS_DO(ts_lane_error(op->comm->lane));
  for (int i = 0; i < op->n_after; i++)
    if (waits_itself(op, op->after[i], &there))
      TS_DO(ts_lane_wait(op->comm->far->stream, there));
  return TS_OK;
}

/* The requests of OP's phase are done, and so is what it has on the device. */
static ts_err phase_done(ts_op *op, int *complete) {
  const ts_comm_ops *ops = op->comm->world->ops;
  bool busy = false;
  *complete = 0;
  if ((op->busy || op->work.lane) && ops->poll) {
    TS_DO(ops->poll(op->comm, &busy));
    op->busy &= busy;
  }
  if (op->busy || !ts_event_done(op->work)) return TS_OK;
  if (op->work.lane) TS_DO(ts_lane_error(op->work.lane));
  op->work = (ts_event){0};
  *complete = !op->n_requests; /* MPI is the service thread's alone */
  if (*complete) return TS_OK;
  return TS_MPI(
      MPI_Testall(op->n_requests, op->requests, complete, op->statuses));
}

bool ts_op_is_behind(const ts_op *op) {
  return op->comm->world->has_thread && op->comm->head != op;
}

/* OP has started, and is the first of its comm that is not done. */
void ts_op_show(ts_op *op) {
  op->t0 = ts_now();
  ts_watch_lane_start(op->comm->watch, op->name, op->seq);
  ts_overlap_comm_begin(op->comm->name);
}

static void count(const ts_op *op) {
  ts_comm_stat *s = &op->comm->stat;
  s->n_ops++;
  s->n_rounds += op->n_rounds;
  s->n_messages += op->n_messages;
  s->sent_bytes += op->sent_bytes;
  s->cross_bytes += op->cross_bytes;
}

/* Says where OP ends once that is on the device alone; comm.delay holds it
 * longer. */
static void tell_end(ts_op *op) {
  const ts_world_options *o = &op->comm->world->options;
  op->enqueued = op->last && !op->busy && !op->n_requests && op->work.lane &&
                 !op->to_host && o->delay_us <= 0 && o->delay_gbytes_per_s <= 0;
  if (!op->enqueued) return;
  count(op);
  ts_lane_ends_put(op->comm->lane, op->seq, op->work);
}

/* Moves OP on as far as it goes without waiting. */
ts_err ts_op_advance(ts_op *op, bool *moved, bool *finished) {
  if (!op->started) {
    bool may = false;
    TS_DO(may_start(op, &may));
    if (!may) return TS_OK;
    op->started = *moved = true;
    if (!ts_op_is_behind(op)) ts_op_show(op);
    if (ts_fault("comm"))
      return ts_fail(TS_ERR_COMM, "%s of \"%s\": (fault asked for)", op->name,
                     op->comm->name);
    TS_DO(op->step(op, &op->last));
  }
  while (!op->arrived) {
    int complete = 1;
    if (!op->enqueued) tell_end(op);
    TS_DO(phase_done(op, &complete));
    if (!complete) return ts_op_is_behind(op) ? TS_OK : check_deadline(op);
    *moved = true;
    TS_DO(ts_op_check_sums(op));
    op->arrived = op->last;
    if (op->last) break;
    op->n_requests = 0;
    op->phase++;
    TS_DO(op->step(op, &op->last));
  }
  if (ts_now() < ts_op_held_until(op)) return TS_OK;
  *moved = *finished = true;
  return TS_OK;
}

/* The error is published only once nothing touches the buffers any more, since
 * a waiting thread may then give them back. */
static void end_far(ts_comm *c, ts_err err) {
  ts_err_record fault;
  ts_err_take(&fault);
  if (c->world->ops->fail) c->world->ops->fail(c);
  ts_err_clear();
  ts_err_put(&fault);
  ts_device_fail(c->world->device, err);
}

void ts_op_finish(ts_op *op, ts_err err) {
  ts_comm *c = op->comm;
  const double now = ts_now();
  ts_yield();
  if (err != TS_OK) {
    if (c->far) end_far(c, err);
    if (op->started) atomic_store(&c->broken, true);
    ts_lane_fail(c->lane, err);
    ts_err_clear();
  }
  if (op->turn && c->world->turn < op->turn) c->world->turn = op->turn;
  if (op->started) {
    ts_overlap_comm_end(c->name);
    ts_trace_span(&(ts_span){.row = c->lane->row,
                             .kind = TS_SPAN_COMM,
                             .name = op->stage,
                             .op = op->name,
                             .mark = op->mark,
                             .bytes = op->sent_bytes,
                             .t0 = op->t0,
                             .t1 = now});
    c->stat.busy_s += now - op->t0;
  }
  if (!op->enqueued) count(op);
  ts_watch_lane_done(c->watch, op->seq);
  ts_lane_complete_seq(c->lane, op->seq);
  ts_lane_ends_put(c->lane, op->seq, (ts_event){0});
}
