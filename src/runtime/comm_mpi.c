/* comm_mpi.c - the service thread: it alone calls MPI after start.
 *
 * Each comm is a queue of operations; the head of each queue runs.  The
 * thread starts what may start and tests what runs.  While messages are under
 * way it sleeps between two tests, 20 us at first and longer when nothing
 * comes; while nothing is under way, or comm.delay alone holds operations, it
 * sleeps until one may end, is begun, or a lane that one waits for gets on.
 * MPI_Wait would take a computing thread's core, and so would endless short
 * sleeps on a virtual machine (measured: doc/performance). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fault.h"
#include "base/mem.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"
#include "runtime/overlap.h"
#include "runtime/trace.h"

enum {
  PAUSE_MIN_US = 20,
  PAUSE_MAX_US = 200,
  LOOKS = 16 /* at a library that has just been asked */
};

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
static double held_until(const ts_op *op) {
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

static void watch(ts_op *op, bool on) {
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
  watch(op, false);
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
static void show(ts_op *op) {
  op->t0 = ts_now();
  ts_watch_lane_start(op->comm->watch, op->name, op->seq);
  ts_overlap_comm_begin(op->comm->name);
}

/* Says where OP ends once that is on the device alone; comm.delay holds it
 * longer. */
static void tell_end(ts_op *op) {
  const ts_world_options *o = &op->comm->world->options;
  op->enqueued = op->last && !op->busy && !op->n_requests && op->work.lane &&
                 !op->to_host && o->delay_us <= 0 && o->delay_gbytes_per_s <= 0;
  if (op->enqueued) ts_lane_ends_put(op->comm->lane, op->seq, op->work);
}

/* Moves OP on as far as it goes without waiting. */
static ts_err advance(ts_op *op, bool *moved, bool *finished) {
  if (!op->started) {
    bool may = false;
    TS_DO(may_start(op, &may));
    if (!may) return TS_OK;
    op->started = *moved = true;
    if (!ts_op_is_behind(op)) show(op);
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
    op->arrived = op->last;
    if (op->last) break;
    op->n_requests = 0;
    op->phase++;
    TS_DO(op->step(op, &op->last));
  }
  if (ts_now() < held_until(op)) return TS_OK;
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

static void finish(ts_op *op, ts_err err) {
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
  c->stat.n_ops++;
  c->stat.n_rounds += op->n_rounds;
  c->stat.n_messages += op->n_messages;
  c->stat.sent_bytes += op->sent_bytes;
  ts_watch_lane_done(c->watch, op->seq);
  ts_lane_complete_seq(c->lane, op->seq);
  ts_lane_ends_put(c->lane, op->seq, (ts_event){0});
}

static ts_op *first(ts_comm *c) {
  pthread_mutex_lock(&c->world->lock);
  ts_op *op = c->head;
  pthread_mutex_unlock(&c->world->lock);
  return op;
}

static ts_op *next_of(ts_op *op) {
  pthread_mutex_lock(&op->comm->world->lock);
  ts_op *next = op->next;
  pthread_mutex_unlock(&op->comm->world->lock);
  return next;
}

static void pop(ts_comm *c) {
  ts_op *op = c->head;
  pthread_mutex_lock(&c->world->lock);
  ts_op *next = c->head = op->next;
  if (!next) c->tail = NULL;
  c->world->n_waiting--;
  pthread_mutex_unlock(&c->world->lock);
  ts_op_give(op);
  if (next && next->started) show(next);
}

/* One look at OP, which others come before or which is not to end here; an
 * error is kept until it is the first. */
static bool launch(ts_op *op) {
  bool moved = false, finished = false;
  const ts_err err = advance(op, &moved, &finished);
  if (err == TS_OK) return moved;
  op->err = err;
  ts_err_take(&op->comm->far->fault);
  ts_err_clear();
  return true;
}

/* Launches what follows OP while all before it is on the device alone, whose
 * stream keeps the order; HERE: only what needs no MPI. */
static bool launch_behind(ts_op *op, bool here) {
  bool moved = false;
  while (op->enqueued && !op->err && (op = next_of(op)) && op->turn &&
         (op->ahead || !here))
    if (!op->enqueued && !op->err) moved |= launch(op);
  return moved;
}

/* One look at C's operations. */
static bool serve_comm(ts_comm *c) {
  bool moved = false, finished = false;
  ts_yield();
  ts_op *op = first(c);
  if (!op) return false;
  ts_err err = op->err;
  if (err == TS_OK)
    err = advance(op, &moved, &finished);
  else
    ts_err_put(&c->far->fault);
  if (err == TS_OK && !finished) return launch_behind(op, false) || moved;
  finish(op, err);
  pop(c);
  return true;
}

/* By the thread that begins OP, unless the service thread is at work: its end
 * is known at once where its turn has come. */
static void launch_here(ts_op *op) {
  ts_world *w = op->comm->world;
  if (!op->ahead || ts_graph_now() || pthread_mutex_trylock(&w->serving) != 0)
    return;
  ts_op *before = first(op->comm);
  for (int i = 0; i < LOOKS && before && !op->enqueued && !op->err; i++)
    if (before == op)
      (void)launch(op);
    else
      (void)launch_behind(before, true);
  pthread_mutex_unlock(&w->serving);
}

void ts_world_poke(void *world) {
  ts_world *w = world;
  pthread_mutex_lock(&w->lock);
  w->poked = true;
  pthread_cond_signal(&w->more);
  pthread_mutex_unlock(&w->lock);
}

/* When to look again: 0, at once, while messages are under way, or a lane that
 * tells nobody is waited for; else when the first operation that comm.delay
 * holds may end; INFINITY: nothing runs. */
static double look_again(ts_world *w) {
  double when = INFINITY;
  pthread_mutex_lock(&w->lock);
  for (ts_comm *c = w->comms; c; c = c->next)
    if (c->head && (c->head->started || c->head->asks))
      when = fmin(when, c->head->arrived ? held_until(c->head) : 0);
  pthread_mutex_unlock(&w->lock);
  return when;
}

/* Sleeps until WHEN, or until there may be something to start; true at the
 * end. */
static bool wait_for_work(ts_world *w, double when) {
  struct timespec t = {0, 0};
  if (isfinite(when)) {
    t.tv_sec = (time_t)when;
    t.tv_nsec = (long)((when - (double)t.tv_sec) * 1e9);
  }
  pthread_mutex_lock(&w->lock);
  while (ts_now() < when && !w->poked && !(w->stop && w->n_waiting == 0)) {
    if (isfinite(when))
      (void)pthread_cond_timedwait(&w->more, &w->lock, &t);
    else
      (void)pthread_cond_wait(&w->more, &w->lock);
  }
  w->poked = false;
  const bool end = w->stop && w->n_waiting == 0;
  pthread_mutex_unlock(&w->lock);
  return end;
}

static void *serve(void *arg) {
  ts_world *w = arg;
  int pause_us = PAUSE_MIN_US;
  double when = INFINITY;
  ts_pause_precisely();
  /* A device that can't be used says so again with the first operation. */
  if (w->device->ops->enter && w->device->ops->enter(w->device) != TS_OK)
    ts_err_clear();
  while (!wait_for_work(w, when)) {
    bool moved = false;
    pthread_mutex_lock(&w->serving);
    for (ts_comm *c = w->comms; c; c = c->next) moved |= serve_comm(c);
    when = moved ? 0 : look_again(w);
    pthread_mutex_unlock(&w->serving);
    if (moved) {
      pause_us = PAUSE_MIN_US;
    } else if (when == 0) {
      ts_pause(pause_us);
      if (pause_us < PAUSE_MAX_US) pause_us += pause_us / 4;
    }
  }
  return NULL;
}

ts_err ts_world_serve(ts_world *w) {
  if (pthread_create(&w->thread, NULL, serve, w) != 0)
    return ts_fail(TS_ERR_NOMEM, "no service thread can be started");
  w->has_thread = true;
  return TS_OK;
}

void ts_world_unserve(ts_world *w) {
  if (!w->has_thread) return;
  pthread_mutex_lock(&w->lock);
  w->stop = true;
  pthread_cond_signal(&w->more);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  w->has_thread = false;
}

/* Until OP, which did not move, may do so. */
static void pause_for(const ts_op *op) {
  const double us = op->arrived ? (held_until(op) - ts_now()) * 1e6 : 0;
  ts_pause((int)fmin(fmax(us, PAUSE_MIN_US), 1e5));
}

/* With serial lanes: to the end, here and now. */
static ts_err run_now(ts_op *op) {
  ts_comm *c = op->comm;
  bool finished = false;
  ts_err err = TS_OK;
  while (err == TS_OK && !finished) {
    bool moved = false;
    err = advance(op, &moved, &finished);
    if (err == TS_OK && !moved) pause_for(op);
  }
  finish(op, err);
  ts_op_give(op);
  return ts_lane_error(c->lane);
}

ts_err ts_op_begin(ts_op *op, ts_token *token) {
  ts_comm *c = op->comm;
  ts_world *w = c->world;
  ts_err err = c->far ? w->ops->prepare(op) : TS_OK;
  if (err != TS_OK) {
    ts_op_give(op);
    return err;
  }
  op->seq = ts_lane_begin_seq(c->lane);
  token->done = (ts_event){c->lane, op->seq};
  ts_watch_lane_begin(c->watch, op->name, op->seq);
  if (!w->has_thread) return run_now(op);
  watch(op, true);
  ts_yield();
  pthread_mutex_lock(&w->lock);
  if (c->tail)
    c->tail->next = op;
  else
    c->head = op;
  c->tail = op;
  w->n_waiting++;
  w->poked = true;
  pthread_cond_signal(&w->more);
  pthread_mutex_unlock(&w->lock);
  launch_here(op);
  return TS_OK;
}
