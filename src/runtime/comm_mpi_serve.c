/* comm_mpi_serve.c - the service thread: it alone calls MPI after start.
 *
 * Each comm is a queue of operations; the head of each queue runs, and behind
 * it what a library of the device has been given already.  The thread starts
 * what may start and tests what runs.  While messages are under way it sleeps
 * between two tests, 20 us at first and longer when nothing comes; while
 * nothing is under way, or comm.delay alone holds operations, it sleeps until
 * one may end, is begun, or a lane that one waits for gets on. MPI_Wait would
 * take a computing thread's core, and so would endless short sleeps on a
 * virtual machine (measured: doc/performance). */
#include <math.h>
#include <time.h>

#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"

enum {
  PAUSE_MIN_US = 20,
  PAUSE_MAX_US = 200,
  LOOKS = 16 /* at a library that has just been asked */
};

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
  if (next && next->started) ts_op_show(next);
}

/* One look at OP, which others come before or which is not to end here; an
 * error is kept until it is the first. */
static bool launch(ts_op *op) {
  bool moved = false, finished = false;
  const ts_err err = ts_op_advance(op, &moved, &finished);
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
    err = ts_op_advance(op, &moved, &finished);
  else
    ts_err_put(&c->far->fault);
  if (err == TS_OK && !finished) return launch_behind(op, false) || moved;
  ts_op_finish(op, err);
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
      when = fmin(when, c->head->arrived ? ts_op_held_until(c->head) : 0);
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
  const double us = op->arrived ? (ts_op_held_until(op) - ts_now()) * 1e6 : 0;
  ts_pause((int)fmin(fmax(us, PAUSE_MIN_US), 1e5));
}

/* With serial lanes: to the end, here and now. */
static ts_err run_now(ts_op *op) {
  ts_comm *c = op->comm;
  bool finished = false;
  ts_err err = TS_OK;
  while (err == TS_OK && !finished) {
    bool moved = false;
    err = ts_op_advance(op, &moved, &finished);
    if (err == TS_OK && !moved) pause_for(op);
  }
  ts_op_finish(op, err);
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
  ts_op_watch(op, true);
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
