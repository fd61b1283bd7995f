/* checkpoint_writer.c - the thread that writes, and the buffer it writes
 * from. */
#include "io/checkpoint_writer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/mem_free.h"
#include "base/mem_stream.h"
#include "io/checkpoint_impl.h"
#include "runtime/trace.h"
#include "runtime/watchdog.h"

struct ts_ckpt_writer {
  ts_ckpt_writer_options o;
  ts_comm *comm;
  char *room;
  int64_t room_bytes;
  int64_t n_full; /* saves of full ones */
  bool in_mirror; /* the newest point is, as all ranks know */
  int row;        /* of the trace */
  /* the save under way */
  ts_ckpt job;
  bool has_job, has_thread, beside, mirror;
  int64_t mirroring;      /* of rank 0: 1: more is to come; -1: it failed */
  atomic_bool waited_for; /* by the caller's thread */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool read, ended; /* under lock, as what follows once it has ended */
  ts_err err;
  ts_err_record fault;
  ts_ckpt_saved saved;
};

ts_err ts_ckpt_writer_create(ts_ckpt_writer **out,
                             const ts_ckpt_writer_options *o, ts_world *world) {
  ts_ckpt_writer *w = NULL;
  TS_DO(ts_mem_alloc(&w, sizeof *w, TS_TAG_CHECKPOINT));
  w->o = *o;
  w->row = ts_trace_row_take("checkpoint");
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->changed, NULL);
  *out = w;
  TS_DO(ts_comm_create_host(world, &w->comm, TS_GROUP_WORLD, "checkpoint"));
  /* Now: a folder that can't be is told before anything is trained, and one
   * that is there shows what file system it is on. */
  return ts_agree(w->comm,
                  ts_comm_rank(w->comm) == 0 ? ts_ckpt_mkdirs(o->dir) : TS_OK);
}

void ts_ckpt_writer_destroy(ts_ckpt_writer *w) {
  if (!w) return;
  ts_ckpt_saved saved;
  ts_comm *const comm = w->comm;
  if (ts_ckpt_writer_finish(w, &saved) != TS_OK) ts_err_clear();
  ts_trace_row_give(w->row);
  pthread_mutex_destroy(&w->lock);
  pthread_cond_destroy(&w->changed);
  ts_mem_free(w->room);
  if (comm)
    ts_comm_free(comm, w);
  else
    ts_mem_free(w);
  ts_comm_destroy(comm);
}

/* ---- the buffer ---------------------------------------------------------- */

/* Bytes that this rank may take for copies: half of the node's free memory,
 * shared by its ranks, and at most half of what its own limits leave. */
static int64_t allowed(const ts_ckpt_writer *w) {
  const int64_t n = ts_mem_free_bytes(), own = ts_mem_left_bytes();
  int64_t may = INT64_MAX;
  if (w->o.buffer_bytes > 0) return w->o.buffer_bytes;
  if (n >= 0) may = n / 2 / (w->o.node_size > 0 ? w->o.node_size : 1);
  return own >= 0 && own / 2 < may ? own / 2 : may;
}

int64_t ts_ckpt_writer_allows(const ts_ckpt_writer *w) {
  return allowed(w);
}

void ts_ckpt_writer_in_mirror(ts_ckpt_writer *w, bool in_mirror) {
  w->in_mirror = in_mirror;
}

ts_err ts_ckpt_writer_prepare(ts_ckpt_writer *w, const ts_ckpt *c,
                              int64_t *needed, int64_t *room,
                              const char **why) {
  const int64_t all = ts_ckpt_own_room(c, ts_comm_rank(w->comm));
  const int64_t may = allowed(w);
  int64_t sums[2] = {all, all < may ? all : may};
  *why = NULL;
  if (ts_ckpt_use_mpio(w->o.io, w->o.dir))
    *why = "checkpoint.io \"mpio\" is collective";
  if (*why || !w->o.beside) sums[1] = 0;
  if (sums[1] && ts_mem_alloc(&w->room, (size_t)sums[1], TS_TAG_CHECKPOINT)) {
    ts_err_clear(); /* it does without */
    sums[1] = 0;
  }
  w->room_bytes = sums[1];
  /* The first copy would wait for its pages, many times as long as copying
   * takes. */
  if (w->room) ts_mem_touch(w->room, (size_t)w->room_bytes, w->o.n_threads);
  TS_DO(ts_comm_sum_i64(w->comm, sums, 2));
  *needed = sums[0];
  *room = sums[1];
  if (!*why && w->o.beside && !sums[1]) *why = "there is no memory for a copy";
  if (!sums[1]) w->o.beside = false;
  return TS_OK;
}

/* ---- the thread ---------------------------------------------------------- */

static void say_read(void *arg) {
  ts_ckpt_writer *w = arg;
  pthread_mutex_lock(&w->lock);
  w->read = true;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

static void beat(void *arg) {
  ts_ckpt_writer *w = arg;
  ts_watch_beside_beat();
  if (atomic_load(&w->waited_for)) ts_watch_beat();
}

static ts_err write_file(ts_ckpt_writer *w, const ts_ckpt_hooks *hooks) {
  if (ts_fault("save"))
    return ts_fail(TS_ERR_COMM, "a save on one rank (fault asked for)");
  if (!w->beside && ts_ckpt_use_mpio(w->o.io, w->o.dir))
    return ts_ckpt_save_mpio(&w->job, w->o.dir, w->o.keep, w->comm);
  return ts_ckpt_save_hooked(&w->job, w->o.dir, w->o.keep, w->comm, hooks);
}

/* ---- the mirror ---------------------------------------------------------- */

/* So often the others hear from rank 0 while it copies. */
#define TELL_S 1.0

typedef struct ts_telling {
  ts_ckpt_writer *w;
  double told;
  ts_err err; /* of telling */
  ts_err_record fault;
} ts_telling;

static void tell(ts_telling *t, int64_t how) {
  t->told = ts_now();
  t->w->mirroring = how;
  if (t->err != TS_OK) return;
  t->err = ts_comm_bcast(t->w->comm, &t->w->mirroring, 8, 0);
  if (t->err != TS_OK) ts_err_take(&t->fault);
}

static void copied_more(void *arg) {
  ts_telling *t = arg;
  beat(t->w);
  if (ts_now() > t->told + TELL_S) tell(t, 1);
}

static ts_err copy_to_mirror(ts_ckpt_writer *w) {
  char path[4200], name[64];
  ts_telling t = {.w = w, .told = ts_now()};
  const ts_ckpt_hooks hooks = {.beat = copied_more, .arg = &t};
  ts_ckpt_name(name, w->job.kind, w->job.step);
  snprintf(path, sizeof path, "%.4000s/%s", w->o.dir, name);
  const bool good =
      ts_ckpt_mirror(path, w->o.mirror, w->o.keep, &hooks) == TS_OK;
  w->saved.mirrored = good ? 1 : -1;
  ts_err_take(&w->saved.mirror);
  tell(&t, good ? 0 : -1);
  if (t.err != TS_OK) ts_err_put(&t.fault);
  return t.err;
}

/* Rank 0 copies, and no rank is done before: the next save, or the end of the
 * run, would wait for rank 0 and take it for dead. */
static ts_err mirror(ts_ckpt_writer *w) {
  w->in_mirror = false;
  if (!w->mirror) return TS_OK;
  if (ts_comm_rank(w->comm) == 0) TS_DO(copy_to_mirror(w));
  while (ts_comm_rank(w->comm) != 0) {
    TS_DO(ts_comm_bcast(w->comm, &w->mirroring, 8, 0));
    beat(w);
    if (w->mirroring < 1) break;
  }
  w->in_mirror = w->mirroring == 0;
  return TS_OK;
}

/* ---- all of it ----------------------------------------------------------- */

/* Writes the checkpoint, in a thread of its own (OWN) or in the caller's. */
static void write_job(ts_ckpt_writer *w, bool own) {
  const ts_ckpt_hooks hooks = {
      .read = w->beside ? say_read : NULL, .beat = beat, .arg = w};
  ts_err_record fault;
  const double t0 = ts_now();
  ts_err err = write_file(w, &hooks);
  const double t1 = ts_now();
  if (err == TS_OK) err = mirror(w);
  /* Others would wait in the save for a rank that is in a step, which waits
   * for them. */
  if (err != TS_OK && !ts_err_agreed() && ts_comm_size(w->comm) > 1)
    ts_watch_fail(err);
  ts_err_take(&fault);
  if (own) ts_timer_add("checkpoint (own thread)", ts_now() - t0);
  ts_trace_span(&(ts_span){.row = w->row,
                           .kind = TS_SPAN_DATA,
                           .name = "write",
                           .mark = {-1, ""},
                           .t0 = t0,
                           .t1 = ts_now()});
  pthread_mutex_lock(&w->lock);
  w->saved.write_s = t1 - t0;
  w->saved.point.seal = w->job.seal;
  w->err = err;
  w->fault = fault;
  w->read = w->ended = true;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  ts_watch_beside(0);
}

static void *run(void *arg) {
  write_job(arg, true);
  return NULL;
}

/* ---- the caller's thread ------------------------------------------------- */

static void wait_for(ts_ckpt_writer *w, const bool *what) {
  atomic_store(&w->waited_for, true);
  pthread_mutex_lock(&w->lock);
  while (!*what) pthread_cond_wait(&w->changed, &w->lock);
  pthread_mutex_unlock(&w->lock);
  atomic_store(&w->waited_for, false);
}

/* A thread, or where there can be none this one. */
static void start(ts_ckpt_writer *w) {
  ts_watch_beside(w->beside);
  w->has_thread = w->beside && pthread_create(&w->thread, NULL, run, w) == 0;
  if (!w->has_thread) {
    w->saved.beside = false;
    atomic_store(&w->waited_for, true);
    write_job(w, false);
    atomic_store(&w->waited_for, false);
  }
}

ts_err ts_ckpt_writer_save(ts_ckpt_writer *w, ts_ckpt *c, bool wait,
                           bool last) {
  ts_err err = TS_OK;
  if (w->has_job)
    return ts_fail(TS_ERR_INTERNAL, "a checkpoint is under way already");
  w->has_job = true;
  w->job = *c;
  *c = (ts_ckpt){0};
  w->beside = w->o.beside && !wait;
  const bool full = w->job.kind == TS_CKPT_FULL;
  w->n_full += full;
  w->mirror = w->o.mirror && (full ? last || w->n_full % w->o.mirror_every == 0
                                   : w->in_mirror);
  w->read = w->ended = false;
  w->err = TS_OK;
  w->saved = (ts_ckpt_saved){
      .step = w->job.step,
      .kind = w->job.kind,
      .point = {w->job.step, -1, full ? 0 : w->job.parent.number + 1},
      .beside = w->beside,
      .bytes = ts_ckpt_own_bytes(&w->job, ts_comm_rank(w->comm))};
  if (w->beside)
    err = ts_ckpt_copy(&w->job, w->room, w->room_bytes, w->o.n_threads,
                       &w->saved.copied, w->comm);
  if (err != TS_OK) { /* on all ranks */
    ts_ckpt_reset(&w->job);
    w->has_job = false;
    return err;
  }
  start(w);
  if (w->has_thread && w->saved.copied < w->saved.bytes) wait_for(w, &w->read);
  return TS_OK;
}

bool ts_ckpt_writer_idle(ts_ckpt_writer *w) {
  pthread_mutex_lock(&w->lock);
  const bool idle = !w->has_job || w->ended;
  pthread_mutex_unlock(&w->lock);
  return idle;
}

bool ts_ckpt_writer_failed(ts_ckpt_writer *w) {
  pthread_mutex_lock(&w->lock);
  const bool failed = w->has_job && w->ended && w->err != TS_OK;
  pthread_mutex_unlock(&w->lock);
  return failed;
}

ts_err ts_ckpt_writer_finish(ts_ckpt_writer *w, ts_ckpt_saved *saved) {
  saved->step = -1;
  if (!w->has_job) return TS_OK;
  wait_for(w, &w->ended);
  if (w->has_thread) pthread_join(w->thread, NULL);
  w->has_thread = w->has_job = false;
  ts_ckpt_reset(&w->job);
  *saved = w->saved;
  if (w->err != TS_OK) ts_err_put(&w->fault);
  return w->err;
}
