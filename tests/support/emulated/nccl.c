/* nccl.c - NCCL without GPUs: communicators that don't block, between ranks of
 * one machine.  A thread of the communicator joins and launches, a little
 * later, as NCCL does; what is launched runs when its stream gets to it, and
 * waits there for the other ranks or for abort (nccl_group.c).
 *
 * Its rules are looked at: nothing but questions and abort while something is
 * in progress; operations on one stream of a communicator; collectives of the
 * same kind, size and type in the same order on all ranks, messages that both
 * sides mean.  What breaks one is a complaint and an error of the
 * communicator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/emulated/nccl_group.h"

static _Thread_local int depth; /* of groups */
static _Thread_local ts_group *open_group;
static _Thread_local ncclResult_t group_error;
static bool to_fail; /* the next launch */

void ts_emulated_nccl_fail(void) {
  __atomic_store_n(&to_fail, true, __ATOMIC_RELEASE);
}

ncclResult_t ncclGetVersion(int *version) {
  const char *s = getenv("TESSERA_FAKE_NCCL");
  *version = s ? atoi(s) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r) {
  return r == ncclInvalidArgument ? "invalid argument"
         : r == ncclInvalidUsage  ? "invalid usage"
         : r == ncclRemoteError   ? "remote process exited or network error"
                                  : "an error";
}

const char *ncclGetLastError(ncclComm_t c) {
  return c ? c->said : "";
}

/* Under its lock. */
static ncclResult_t fail(ncclComm_t c, ncclResult_t why, const char *said) {
  if (c->state == ncclSuccess || c->state == ncclInProgress) {
    c->state = why;
    (void)snprintf(c->said, sizeof c->said, "%.255s", said);
  }
  return why;
}

ncclResult_t ts_nccl_misuse(ncclComm_t c, ncclResult_t why, const char *said) {
  ts_complain("NCCL: %s", said);
  pthread_mutex_lock(&c->lock);
  (void)fail(c, why, said);
  pthread_mutex_unlock(&c->lock);
  return why;
}

bool ts_nccl_aborted(ncclComm_t c) {
  pthread_mutex_lock(&c->lock);
  const bool aborted = c->aborted;
  pthread_mutex_unlock(&c->lock);
  return aborted;
}

void ts_nccl_drop(ncclComm_t c) {
  pthread_mutex_lock(&c->lock);
  const bool last = !--c->users;
  pthread_mutex_unlock(&c->lock);
  if (!last) return;
  if (c->boxes) ts_boxes_close(c->boxes);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->moved);
  free(c);
}

/* ---- the communicator's thread ------------------------------------------- */

static void join_others(ncclComm_t c) {
  c->boxes = ts_boxes_open(c->name, c->rank, c->size);
  while (c->boxes && !ts_boxes_joined(c->boxes) && !ts_nccl_aborted(c))
    usleep(100);
  pthread_mutex_lock(&c->lock);
  if (!c->boxes) (void)fail(c, ncclSystemError, "no shared memory");
  if (c->state == ncclInProgress) c->state = ncclSuccess;
  pthread_mutex_unlock(&c->lock);
}

/* Under the lock. */
static void launch(ncclComm_t c) {
  ts_group *g = c->begun;
  c->begun = NULL;
  if (__atomic_exchange_n(&to_fail, false, __ATOMIC_ACQ_REL)) {
    (void)fail(c, ncclRemoteError, "a rank is gone");
    c->users--;
    free(g);
    return;
  }
  pthread_mutex_unlock(&c->lock);
  usleep((useconds_t)(c->rank * 37 % 100)); /* ranks are never alike */
  ts_emulated_enqueue(g->stream, ts_nccl_run, &g, sizeof g);
  pthread_mutex_lock(&c->lock);
  if (c->state == ncclInProgress) c->state = ncclSuccess;
}

static void *serve(void *arg) {
  ncclComm_t c = arg;
  join_others(c);
  pthread_mutex_lock(&c->lock);
  for (;;) {
    if (c->begun)
      launch(c);
    else if (c->stop)
      break;
    else
      pthread_cond_wait(&c->moved, &c->lock);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static int n;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  memset(id, 0, sizeof *id);
  (void)snprintf(id->internal, sizeof id->internal,
                 "/tessera-nccl-%ld-%lld-%ld-%d", (long)getpid(),
                 (long long)t.tv_sec, t.tv_nsec,
                 __atomic_add_fetch(&n, 1, __ATOMIC_RELAXED));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id,
                                    int rank, ncclConfig_t *config) {
  if (config->blocking || size < 1 || rank < 0 || rank >= size || size > 64)
    return ncclInvalidArgument;
  ncclComm_t c = calloc(1, sizeof *c);
  if (!c) abort();
  (void)snprintf(c->name, sizeof c->name, "%.60s", id.internal);
  c->rank = rank;
  c->size = size;
  c->users = 1;
  c->state = ncclInProgress;
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->moved, NULL);
  if (pthread_create(&c->thread, NULL, serve, c) != 0) abort();
  *out = c;
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state) {
  pthread_mutex_lock(&c->lock);
  *state = c->state;
  if (c->finalized && c->users > 1 && *state == ncclSuccess)
    *state = ncclInProgress;
  pthread_mutex_unlock(&c->lock);
  return ncclSuccess;
}

static ncclResult_t state_of(ncclComm_t c) {
  pthread_mutex_lock(&c->lock);
  const ncclResult_t state = c->finalized ? ncclInvalidUsage : c->state;
  pthread_mutex_unlock(&c->lock);
  return state;
}

/* Nothing may be called now but questions and abort. */
static ncclResult_t may_call(ncclComm_t c) {
  const ncclResult_t state = state_of(c);
  if (state != ncclInProgress && state != ncclInvalidUsage) return state;
  return ts_nccl_misuse(c, ncclInvalidUsage,
                        state == ncclInProgress
                            ? "a call while something is in progress"
                            : "a call behind finalize or an error");
}

static void end(ncclComm_t c, bool abort_it) {
  pthread_mutex_lock(&c->lock);
  c->aborted |= abort_it;
  c->stop = true;
  pthread_cond_broadcast(&c->moved);
  pthread_mutex_unlock(&c->lock);
  pthread_join(c->thread, NULL);
  ts_nccl_drop(c);
}

ncclResult_t ncclCommFinalize(ncclComm_t c) {
  const ncclResult_t may = may_call(c);
  if (may != ncclSuccess) return may;
  pthread_mutex_lock(&c->lock);
  c->finalized = true;
  pthread_mutex_unlock(&c->lock);
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t c) {
  pthread_mutex_lock(&c->lock);
  const bool early = !c->finalized || c->users > 1;
  pthread_mutex_unlock(&c->lock);
  if (early) ts_complain("NCCL: a communicator is destroyed that is at work");
  end(c, false);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c) {
  end(c, true);
  return ncclSuccess;
}

/* ---- operations ---------------------------------------------------------- */

ncclResult_t ncclGroupStart(void) {
  depth++;
  return ncclSuccess;
}

/* Hands the group's calls to the thread; none of them if one was refused. */
static ncclResult_t hand_over(void) {
  ts_group *g = open_group;
  const ncclResult_t e = group_error;
  open_group = NULL;
  group_error = ncclSuccess;
  if (!g || e != ncclSuccess) {
    free(g);
    return e;
  }
  ncclComm_t c = g->comm;
  pthread_mutex_lock(&c->lock);
  c->begun = g;
  c->users++;
  c->state = ncclInProgress;
  pthread_cond_broadcast(&c->moved);
  pthread_mutex_unlock(&c->lock);
  return ncclInProgress;
}

ncclResult_t ncclGroupEnd(void) {
  if (depth < 1) {
    ts_complain("NCCL: the end of a group that has no start");
    return ncclInvalidUsage;
  }
  return --depth ? ncclSuccess : hand_over();
}

static ncclResult_t note(ncclComm_t c, cudaStream_t s, const ts_op *op) {
  const ncclResult_t may = may_call(c);
  if (may != ncclSuccess) return may;
  if (op->peer < 0 || op->peer >= c->size)
    return ts_nccl_misuse(c, ncclInvalidArgument, "a rank that there isn't");
  if (open_group && open_group->comm != c)
    return ts_nccl_misuse(c, ncclInvalidUsage, "a group of two communicators");
  if (c->stream && c->stream != s)
    return ts_nccl_misuse(c, ncclInvalidUsage, "another stream");
  c->stream = s;
  if (!open_group) open_group = calloc(1, sizeof *open_group);
  if (!open_group) abort();
  if (open_group->n == OPS)
    return ts_nccl_misuse(c, ncclInvalidUsage,
                          "too many operations in a group");
  open_group->comm = c;
  open_group->stream = s;
  open_group->op[open_group->n++] = *op;
  return ncclSuccess;
}

static ncclResult_t call(ncclComm_t c, cudaStream_t s, ts_op op) {
  const ncclResult_t e = note(c, s, &op);
  if (e != ncclSuccess) group_error = e;
  return depth ? e : hand_over();
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t t, int peer,
                      ncclComm_t c, cudaStream_t s) {
  return call(c, s, (ts_op){SEND, from, NULL, n, t, peer, ncclSum});
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t t, int peer,
                      ncclComm_t c, cudaStream_t s) {
  return call(c, s, (ts_op){RECV, NULL, to, n, t, peer, ncclSum});
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n,
                           ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
  return call(c, s, (ts_op){ALL_GATHER, from, to, n, t, 0, ncclSum});
}

ncclResult_t ncclAlltoAll(const void *from, void *to, size_t n,
                          ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
  return call(c, s, (ts_op){ALL_TO_ALL, from, to, n, t, 0, ncclSum});
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n,
                           ncclDataType_t t, int root, ncclComm_t c,
                           cudaStream_t s) {
  return call(c, s, (ts_op){BROADCAST, from, to, n, t, root, ncclSum});
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n,
                           ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t s) {
  return call(c, s, (ts_op){ALL_REDUCE, from, to, n, t, 0, op});
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n,
                               ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                               cudaStream_t s) {
  return call(c, s, (ts_op){REDUCE_SCATTER, from, to, n, t, 0, op});
}
