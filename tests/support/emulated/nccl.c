/* nccl.c - NCCL without GPUs: communicators that don't block, between ranks of
 * one machine.  A thread of the communicator joins and launches, a little
 * later, as NCCL does; what is launched runs when its stream gets to it, and
 * waits there for the other ranks or for abort.
 *
 * Its rules are looked at: nothing but questions and abort while something is
 * in progress; operations on one stream of a communicator; collectives of the
 * same kind, size and type in the same order on all ranks, messages that both
 * sides mean.  What breaks one is a complaint and an error of the
 * communicator. */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/emulated/nccl_box.h"
#include "tests/support/emulated/runtime.h"

typedef enum {
  P2P,
  ALL_GATHER,
  ALL_TO_ALL,
  BROADCAST,
  ALL_REDUCE,
  SCATTER
} kind;
static const char *const names[] = {"a message",  "all-gather",
                                    "all-to-all", "broadcast",
                                    "all-reduce", "reduce-scatter"};

/* One operation, as it was called. */
typedef struct ts_op {
  kind kind;
  const char *from;
  char *to;
  size_t n;
  ncclDataType_t type;
  ncclRedOp_t reduce;
  int peer; /* or root */
  bool send;
} ts_op;

enum { OPS = 2048 };
typedef struct ts_group {
  struct ncclComm *comm;
  cudaStream_t stream;
  int n;
  ts_op op[OPS];
} ts_group;

struct ncclComm {
  char name[64];
  ts_boxes *boxes;
  int rank, size;
  cudaStream_t stream; /* of the first operation */
  pthread_t thread;
  pthread_mutex_t lock; /* of all that follows */
  pthread_cond_t moved;
  ts_group *begun; /* that the thread is to launch */
  bool stop, aborted, finalized, threaded;
  int users; /* the caller, and what is launched */
  int n_collectives;
  ncclResult_t state;
  char said[256];
};

static _Thread_local int depth; /* of groups */
static _Thread_local ts_group *open_group;
static bool to_fail; /* the next launch */

void ts_emulated_nccl_fail(void) {
  __atomic_store_n(&to_fail, true, __ATOMIC_RELEASE);
}

static size_t size_of(ncclDataType_t t) {
  return t == ncclInt8                           ? 1
         : t == ncclFloat16 || t == ncclBfloat16 ? 2
         : t == ncclFloat32                      ? 4
                                                 : 8;
}

const char *ncclGetErrorString(ncclResult_t r) {
  return r == ncclInvalidUsage  ? "invalid usage"
         : r == ncclRemoteError ? "remote process exited or network error"
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

static ncclResult_t misuse(ncclComm_t c, const char *said) {
  ts_complain("NCCL: %s", said);
  pthread_mutex_lock(&c->lock);
  (void)fail(c, ncclInvalidUsage, said);
  pthread_mutex_unlock(&c->lock);
  return ncclInvalidUsage;
}

/* ---- what runs on the stream --------------------------------------------- */

/* Messages of a group, and what is done once they have come. */
typedef struct ts_plan {
  ts_message *item; /* (n) */
  int n, room;
  char *temp[OPS]; /* of operations that reduce: what came, by rank */
} ts_plan;

static void drop(ncclComm_t c) {
  pthread_mutex_lock(&c->lock);
  const bool last = !--c->users;
  pthread_mutex_unlock(&c->lock);
  if (!last) return;
  if (c->boxes) ts_boxes_close(c->boxes);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->moved);
  free(c);
}

static void add(ts_plan *p, const ncclComm_t c, const ts_op *o, int number,
                bool send, int peer, const void *at, size_t bytes) {
  if (p->n == p->room) {
    p->room = 2 * p->room + 64;
    p->item = realloc(p->item, (size_t)p->room * sizeof *p->item);
    if (!p->item) abort();
  }
  ts_message *m = &p->item[p->n++];
  memset(m, 0, sizeof *m);
  m->peer = peer;
  m->send = send;
  m->at = (void *)(uintptr_t)at;
  m->bytes = bytes;
  (void)snprintf(m->what, sizeof m->what, "%s %d of %zu, type %d, op %d, %d",
                 names[o->kind], number, o->n, (int)o->type, (int)o->reduce,
                 o->kind == BROADCAST ? o->peer : 0);
  (void)c;
}

/* To and from every rank: pieces of BYTES, the same for all where not CUT. */
static void add_all(ts_plan *p, ncclComm_t c, const ts_op *o, int number,
                    bool cut, char *to) {
  const size_t bytes = o->n * size_of(o->type);
  for (int k = 0; k < c->size; k++) {
    add(p, c, o, number, true, k, o->from + (cut ? (size_t)k * bytes : 0),
        bytes);
    add(p, c, o, number, false, k, to + (size_t)k * bytes, bytes);
  }
}

static void plan_op(ts_plan *p, ncclComm_t c, const ts_op *o, int i) {
  const size_t bytes = o->n * size_of(o->type);
  const int number = o->kind == P2P ? 0 : c->n_collectives++;
  switch (o->kind) {
  case P2P:
    add(p, c, o, 0, o->send, o->peer, o->send ? o->from : o->to, bytes);
    break;
  case ALL_GATHER:
    add_all(p, c, o, number, false, o->to);
    break;
  case ALL_TO_ALL:
    add_all(p, c, o, number, true, o->to);
    break;
  case BROADCAST:
    for (int k = 0; k < c->size && o->peer == c->rank; k++)
      add(p, c, o, number, true, k, o->from, bytes);
    add(p, c, o, number, false, o->peer, o->to, bytes);
    break;
  case ALL_REDUCE:
  case SCATTER:
    p->temp[i] = malloc((size_t)c->size * bytes + 1);
    if (!p->temp[i]) abort();
    add_all(p, c, o, number, o->kind == SCATTER, p->temp[i]);
    break;
  }
}

static bool is_aborted(ncclComm_t c) {
  pthread_mutex_lock(&c->lock);
  const bool aborted = c->aborted;
  pthread_mutex_unlock(&c->lock);
  return aborted;
}

/* The first of each pair of ranks and direction that has not ended goes on. */
static bool step(ncclComm_t c, ts_plan *p, bool *moved, bool *ended) {
  uint64_t behind[2] = {0, 0};
  char theirs[96];
  *ended = true;
  for (int i = 0; i < p->n; i++) {
    ts_message *m = &p->item[i];
    const uint64_t bit = UINT64_C(1) << (m->peer & 63);
    if (m->ended || behind[m->send] & bit) continue;
    behind[m->send] |= bit;
    *ended = false;
    if (ts_message_go(c->boxes, m, moved, theirs)) continue;
    char said[400];
    (void)snprintf(said, sizeof said,
                   "rank %d expects \"%s\" (%zu bytes) from rank %d, which "
                   "sends \"%s\"",
                   c->rank, m->what, m->bytes, m->peer, theirs);
    (void)misuse(c, said);
    return false;
  }
  return true;
}

/* A kernel ends when all has come, or by abort. */
static bool exchange(ncclComm_t c, ts_plan *p) {
  bool ended = false, good = true;
  while (!ended) {
    bool moved = false;
    if (is_aborted(c)) return false;
    if (good) good = step(c, p, &moved, &ended);
    if (!moved) usleep(20);
  }
  return true;
}

static double value_of(const char *at, ncclDataType_t t, size_t i) {
  return t == ncclFloat32 ? (double)((const float *)(const void *)at)[i]
                          : ((const double *)(const void *)at)[i];
}

static double pick(ncclRedOp_t op, double a, double b) {
  return op == ncclSum   ? a + b
         : op == ncclMax ? (b > a ? b : a)
         : b < a         ? b
                         : a;
}

/* In the type of the elements, in rank order. */
static void reduce(const ncclComm_t c, const ts_op *o, const char *temp) {
  for (size_t i = 0; i < o->n; i++) {
    if (o->type == ncclInt64) {
      const int64_t *x = (const int64_t *)(const void *)temp;
      int64_t y = x[i];
      for (size_t k = 1; k < (size_t)c->size; k++) {
        const int64_t b = x[k * o->n + i];
        y = o->reduce == ncclSum                ? y + b
            : (o->reduce == ncclMax) == (b > y) ? b
                                                : y;
      }
      ((int64_t *)(void *)o->to)[i] = y;
      continue;
    }
    double y = value_of(temp, o->type, i);
    for (size_t k = 1; k < (size_t)c->size; k++) {
      y = pick(o->reduce, y, value_of(temp, o->type, k * o->n + i));
      if (o->type == ncclFloat32) y = (double)(float)y;
    }
    if (o->type == ncclFloat32)
      ((float *)(void *)o->to)[i] = (float)y;
    else
      ((double *)(void *)o->to)[i] = y;
  }
}

static void run_group(void *arg) {
  ts_group *g;
  memcpy(&g, arg, sizeof g);
  ts_plan *p = calloc(1, sizeof *p);
  if (!p) abort();
  for (int i = 0; i < g->n; i++) plan_op(p, g->comm, &g->op[i], i);
  const bool good = exchange(g->comm, p);
  for (int i = 0; i < g->n; i++) {
    if (good && p->temp[i]) reduce(g->comm, &g->op[i], p->temp[i]);
    free(p->temp[i]);
  }
  free(p->item);
  free(p);
  drop(g->comm);
  free(g);
}

/* ---- the communicator's thread ------------------------------------------- */

static void join_others(ncclComm_t c) {
  c->boxes = ts_boxes_open(c->name, c->rank, c->size);
  while (c->boxes && !ts_boxes_joined(c->boxes) && !is_aborted(c)) usleep(100);
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
  ts_emulated_enqueue(g->stream, run_group, &g, sizeof g);
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
  return misuse(c, state == ncclInProgress
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
  drop(c);
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

/* What was called since the start of the group, to the thread. */
static ncclResult_t hand_over(void) {
  ts_group *g = open_group;
  open_group = NULL;
  if (!g) return ncclSuccess;
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

static ncclResult_t refuse(ncclComm_t c, const char *said) {
  free(open_group);
  open_group = NULL;
  return misuse(c, said);
}

static ncclResult_t call(ncclComm_t c, cudaStream_t s, ts_op op) {
  const ncclResult_t may = may_call(c);
  if (may != ncclSuccess) return may;
  if (op.peer < 0 || op.peer >= c->size)
    return refuse(c, "a rank that there isn't");
  if (open_group && open_group->comm != c)
    return refuse(c, "a group of two communicators");
  if (c->stream && c->stream != s) return refuse(c, "another stream");
  c->stream = s;
  if (!open_group) open_group = calloc(1, sizeof *open_group);
  if (!open_group) abort();
  if (open_group->n == OPS) return refuse(c, "too many operations in a group");
  open_group->comm = c;
  open_group->stream = s;
  open_group->op[open_group->n++] = op;
  return depth ? ncclSuccess : hand_over();
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t t, int peer,
                      ncclComm_t c, cudaStream_t s) {
  return call(c, s,
              (ts_op){.kind = P2P,
                      .from = from,
                      .n = n,
                      .type = t,
                      .peer = peer,
                      .send = true});
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t t, int peer,
                      ncclComm_t c, cudaStream_t s) {
  return call(c, s,
              (ts_op){.kind = P2P, .to = to, .n = n, .type = t, .peer = peer});
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n,
                           ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
  return call(
      c, s,
      (ts_op){.kind = ALL_GATHER, .from = from, .to = to, .n = n, .type = t});
}

ncclResult_t ncclAlltoAll(const void *from, void *to, size_t n,
                          ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
  return call(
      c, s,
      (ts_op){.kind = ALL_TO_ALL, .from = from, .to = to, .n = n, .type = t});
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n,
                           ncclDataType_t t, int root, ncclComm_t c,
                           cudaStream_t s) {
  return call(c, s,
              (ts_op){.kind = BROADCAST,
                      .from = from,
                      .to = to,
                      .n = n,
                      .type = t,
                      .peer = root});
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n,
                           ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t s) {
  return call(c, s,
              (ts_op){.kind = ALL_REDUCE,
                      .from = from,
                      .to = to,
                      .n = n,
                      .type = t,
                      .reduce = op});
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n,
                               ncclDataType_t t, ncclRedOp_t op, ncclComm_t c,
                               cudaStream_t s) {
  return call(c, s,
              (ts_op){.kind = SCATTER,
                      .from = from,
                      .to = to,
                      .n = n,
                      .type = t,
                      .reduce = op});
}
