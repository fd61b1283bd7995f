/* nccl_group.c - a group of operations on its stream: messages from and to the
 * other ranks, and what is added up once they have come.  A send ends when it
 * was taken, as NCCL doesn't promise more. */
#include "tests/support/emulated/nccl_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {"a message",     "a message", "all-gather",
                                    "all-to-all",    "broadcast", "all-reduce",
                                    "reduce-scatter"};

typedef struct ts_plan {
  ts_message *item; /* (n) */
  int n, room;
  char *temp[OPS]; /* of operations that reduce: what came, by rank */
} ts_plan;

static size_t bytes_of(const ts_op *o) {
  return o->n * (o->type == ncclInt8                                 ? 1
                 : o->type == ncclFloat16 || o->type == ncclBfloat16 ? 2
                 : o->type == ncclFloat32                            ? 4
                                                                     : 8);
}

/* Both sides say what they mean; a collective is the NUMBERth. */
static void add(ts_plan *p, const ts_op *o, int number, bool send, int peer,
                const void *at, size_t bytes) {
  if (p->n == p->room) {
    p->room = 2 * p->room + 64;
    p->item = realloc(p->item, (size_t)p->room * sizeof *p->item);
    if (!p->item) abort();
  }
  ts_message *m = &p->item[p->n++];
  *m = (ts_message){
      .peer = peer, .send = send, .at = (void *)(uintptr_t)at, .bytes = bytes};
  (void)snprintf(m->what, sizeof m->what, "%s %d of %zu, type %d, op %d, %d",
                 names[o->kind], number, o->n, (int)o->type, (int)o->reduce,
                 o->kind == BROADCAST ? o->peer : 0);
}

/* To and from every rank: pieces of BYTES, the same for all where not CUT. */
static void add_all(ts_plan *p, const ncclComm_t c, const ts_op *o, int number,
                    bool cut, char *to) {
  const size_t bytes = bytes_of(o);
  for (int k = 0; k < c->size; k++) {
    const size_t at = (size_t)k * bytes;
    add(p, o, number, true, k, (const char *)o->from + (cut ? at : 0), bytes);
    add(p, o, number, false, k, to + at, bytes);
  }
}

/* Those who receive say so by an empty message, so that two ranks that each
 * take themselves for the root are found. */
static void add_broadcast(ts_plan *p, const ncclComm_t c, const ts_op *o,
                          int number) {
  const size_t bytes = bytes_of(o);
  for (int k = 0; k < c->size && o->peer == c->rank; k++) {
    add(p, o, number, true, k, o->from, bytes);
    if (k != c->rank) add(p, o, number, false, k, NULL, 0);
  }
  if (o->peer != c->rank) add(p, o, number, true, o->peer, NULL, 0);
  add(p, o, number, false, o->peer, o->to, bytes);
}

static void plan_op(ts_plan *p, ncclComm_t c, const ts_op *o, int i) {
  const size_t bytes = bytes_of(o);
  const int number = o->kind <= RECV ? 0 : c->n_collectives++;
  switch (o->kind) {
  case SEND:
  case RECV:
    add(p, o, 0, o->kind == SEND, o->peer, o->kind == SEND ? o->from : o->to,
        bytes);
    break;
  case ALL_GATHER:
  case ALL_TO_ALL:
    add_all(p, c, o, number, o->kind == ALL_TO_ALL, o->to);
    break;
  case BROADCAST:
    add_broadcast(p, c, o, number);
    break;
  case ALL_REDUCE:
  case REDUCE_SCATTER:
    p->temp[i] = malloc((size_t)c->size * bytes + 1);
    if (!p->temp[i]) abort();
    add_all(p, c, o, number, o->kind == REDUCE_SCATTER, p->temp[i]);
    break;
  }
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
    (void)ts_nccl_misuse(c, ncclInvalidUsage, said);
    return false;
  }
  return true;
}

/* A kernel ends when all has come, or by abort. */
static bool exchange(ncclComm_t c, ts_plan *p) {
  bool ended = false, good = true;
  while (!ended) {
    bool moved = false;
    if (ts_nccl_aborted(c)) return false;
    if (good) good = step(c, p, &moved, &ended);
    if (!moved) usleep(20);
  }
  return true;
}

#define REDUCE(type)                                                           \
  static void reduce_##type(const ts_op *o, const void *temp,                  \
                            size_t n_ranks) {                                  \
    const type *x = temp;                                                      \
    for (size_t i = 0; i < o->n; i++) {                                        \
      type y = x[i];                                                           \
      for (size_t k = 1; k < n_ranks; k++) {                                   \
        const type b = x[k * o->n + i];                                        \
        if (o->reduce == ncclSum)                                              \
          y += b;                                                              \
        else if (o->reduce == ncclMax ? b > y : b < y)                         \
          y = b;                                                               \
      }                                                                        \
      ((type *)o->to)[i] = y;                                                  \
    }                                                                          \
  }
REDUCE(int64_t)
REDUCE(float)
REDUCE(double)

/* In the type of the elements, in rank order. */
static void reduce(const ncclComm_t c, const ts_op *o, const char *temp) {
  switch (o->type) {
  case ncclInt64:
    reduce_int64_t(o, temp, (size_t)c->size);
    break;
  case ncclFloat32:
    reduce_float(o, temp, (size_t)c->size);
    break;
  case ncclFloat64:
    reduce_double(o, temp, (size_t)c->size);
    break;
  default:
    abort(); /* cuda/ has its own for these */
  }
}

void ts_nccl_run(void *arg) {
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
  ts_nccl_drop(g->comm);
  free(g);
}
