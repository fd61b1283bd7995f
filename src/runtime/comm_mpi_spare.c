/* comm_mpi_spare.c - operations of a comm, with arrays for a message from and
 * to each rank: made once, and used again. */
#include "base/mem.h"
#include "runtime/comm_impl.h"
#include "runtime/trace.h"

static void op_free(ts_op *op) {
  ts_mem_free_all(op->send_counts, op->requests, op->statuses, op->sums, op);
}

/* With arrays for a message from and to each rank. */
static ts_err op_alloc(ts_op **out, ts_comm *c) {
  ts_op *op;
  TS_DO(ts_mem_alloc(&op, sizeof *op, TS_TAG_COMM));
  op->comm = c;
  op->capacity = (c->world->options.sums ? 4 : 2) * c->size;
  *out = op;
  TS_DO(ts_mem_many(op->send_counts, 2 * (int64_t)c->size, COMM));
  TS_DO(ts_mem_many(op->requests, op->capacity, COMM));
  TS_DO(ts_mem_many(op->statuses, op->capacity, COMM));
  return ts_op_make_sums(op);
}

void ts_op_give(ts_op *op) {
  ts_comm *c = op->comm;
  pthread_mutex_lock(&c->world->lock);
  op->next = c->spare;
  c->spare = op;
  pthread_mutex_unlock(&c->world->lock);
}

ts_err ts_op_spare(ts_comm *c, int n) {
  for (int i = 0; i < n; i++) {
    ts_op *op = NULL;
    const ts_err err = op_alloc(&op, c);
    if (op) ts_op_give(op);
    if (err != TS_OK) return err;
  }
  return TS_OK;
}

void ts_op_free_all(ts_comm *c) {
  for (ts_op *op = c->spare, *next; op; op = next) {
    next = op->next;
    op_free(op);
  }
  c->spare = NULL;
}

/* A spare operation, cleared but for what it owns. */
static ts_op *op_take(ts_comm *c) {
  pthread_mutex_lock(&c->world->lock);
  ts_op *op = c->spare;
  if (op) c->spare = op->next;
  pthread_mutex_unlock(&c->world->lock);
  if (!op) return NULL;
  const ts_op old = *op;
  *op = (ts_op){.comm = c,
                .send_counts = old.send_counts,
                .requests = old.requests,
                .statuses = old.statuses,
                .sums = old.sums,
                .capacity = old.capacity};
  return op;
}

static const struct {
  const char *name;
  ts_op_step step;
} kinds[] = {
#define KIND(name, text, step) {text, step},
    TS_OP_LIST(KIND)
#undef KIND
};

ts_err ts_op_create(ts_op **out, ts_comm *c, ts_op_kind kind, ts_lane *after) {
  ts_op *op = op_take(c);
  if (!op) {
    TS_DO(ts_op_spare(c, 1));
    op = op_take(c);
  }
  op->recv_counts = op->send_counts + c->size;
  op->kind = kind;
  op->name = kinds[kind].name;
  op->stage = c->stage;
  op->step = kinds[kind].step;
  op->n_rounds = 1;
  if (after) op->after[op->n_after++] = ts_lane_record(after);
  for (int i = 0; i < c->n_follow; i++) op->after[op->n_after++] = c->follow[i];
  c->n_follow = 0;
  op->mark = ts_trace_mark_now();
  *out = op;
  return TS_OK;
}
