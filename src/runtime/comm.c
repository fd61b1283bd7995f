/* comm.c - the public face of comms: operations are described here and run
 * by comm_mpi_serve.c; one rank's need no message and run on its own lane. */
#include "runtime/comm.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/comm_impl.h"

int ts_comm_rank(const ts_comm *c) {
  return c->rank;
}
int ts_comm_size(const ts_comm *c) {
  return c->size;
}
ts_lane *ts_comm_lane(const ts_comm *c) {
  return c->lane;
}
void ts_comm_set_stage(ts_comm *c, const char *stage) {
  c->stage = stage;
}
void ts_comm_follow(ts_comm *c, ts_event event) {
  if (event.lane && c->n_follow < TS_FOLLOW_MAX)
    c->follow[c->n_follow++] = event;
}
void ts_comm_free(const ts_comm *c, void *p) {
  if (c->broken)
    ts_mem_abandon(p);
  else
    ts_mem_free(p);
}
ts_err ts_comm_scratch(ts_comm *c, int64_t bytes) {
  if ((size_t)bytes <= c->scratch_bytes) return TS_OK;
  ts_comm_free(c, c->scratch);
  c->scratch = NULL;
  c->scratch_bytes = 0;
  TS_DO(ts_mem_alloc(&c->scratch, (size_t)bytes, TS_TAG_COMM));
  c->scratch_bytes = (size_t)bytes;
  return TS_OK;
}
ts_err ts_comm_reserve(ts_comm *c, int64_t bytes) {
  return c->far && c->far->wire
             ? ts_buffer_reserve(&c->far->scratch, (size_t)bytes)
             : ts_comm_scratch(c, bytes);
}
ts_comm_stat ts_comm_stat_of(const ts_comm *c) {
  return c->stat;
}

ts_err ts_comm_end(ts_token *token, ts_lane *lane) {
  ts_event done = token->done;
  token->done = (ts_event){0};
  return ts_lane_wait(lane, done);
}

ts_err ts_comm_wait(ts_token *token) {
  ts_event done = token->done;
  token->done = (ts_event){0};
  return ts_event_sync(done);
}

static void copy_counts(int64_t *dst, const int64_t *src, int n) {
  memcpy(dst, src, (size_t)n * sizeof *dst);
}

ts_err ts_comm_all_to_all_v(ts_comm *c, ts_token *token, void *recv,
                            const int64_t *recv_bytes, const void *send,
                            const int64_t *send_bytes, ts_lane *after) {
  ts_op *op;
  TS_DO(ts_op_create(&op, c, TS_OP_ALL_TO_ALL, after));
  op->recv = recv;
  op->send = send;
  copy_counts(op->recv_counts, recv_bytes, c->size);
  copy_counts(op->send_counts, send_bytes, c->size);
  return ts_op_begin(op, token);
}

ts_err ts_comm_exchange(ts_comm *c, ts_token *token, ts_exchange *x,
                        ts_lane *after) {
  ts_op *op;
  TS_DO(ts_op_create(&op, c, x->rooms ? TS_OP_EXCHANGE_ROOMS : TS_OP_EXCHANGE,
                     after));
  op->exchange = x;
  return ts_op_begin(op, token);
}

ts_err ts_comm_all_reduce(ts_comm *c, ts_token *token, void *buf, int64_t n,
                          ts_dtype dtype, ts_reduction reduction,
                          ts_lane *after) {
  ts_op *op;
  TS_DO(ts_op_create(&op, c, TS_OP_ALL_REDUCE, after));
  op->recv = buf;
  op->n = n;
  op->dtype = dtype;
  op->reduction = reduction;
  return ts_op_begin(op, token);
}

ts_err ts_comm_reduce_scatter_v(ts_comm *c, ts_token *token, void *recv,
                                const void *send, const int64_t *counts,
                                ts_dtype dtype, ts_lane *after) {
  ts_op *op;
  TS_DO(ts_op_create(&op, c, TS_OP_REDUCE_SCATTER, after));
  op->recv = recv;
  op->send = send;
  op->dtype = dtype;
  copy_counts(op->send_counts, counts, c->size);
  return ts_op_begin(op, token);
}

ts_err ts_comm_all_gather_v(ts_comm *c, ts_token *token, void *recv,
                            const void *send, const int64_t *bytes,
                            ts_lane *after) {
  ts_op *op;
  TS_DO(ts_op_create(&op, c, TS_OP_ALL_GATHER, after));
  op->recv = recv;
  op->send = send;
  copy_counts(op->recv_counts, bytes, c->size);
  return ts_op_begin(op, token);
}

ts_err ts_comm_broadcast(ts_comm *c, ts_token *token, void *buf, int64_t bytes,
                         int root, ts_lane *after) {
  ts_op *op;
  TS_DO(ts_op_create(&op, c, TS_OP_BROADCAST, after));
  op->recv = buf;
  op->n = bytes;
  op->root = root;
  return ts_op_begin(op, token);
}

ts_err ts_comm_run_mpi(ts_comm *c, ts_err (*fn)(void *, void *), void *arg) {
  ts_op *op;
  ts_token token;
  TS_DO(ts_op_create(&op, c, TS_OP_RUN, NULL));
  op->fn = fn;
  op->arg = arg;
  TS_DO(ts_op_begin(op, &token));
  return ts_comm_wait(&token);
}

/* ---- blocking forms ------------------------------------------------------ */

static ts_err reduce_now(ts_comm *c, void *x, int64_t n, ts_dtype t,
                         ts_reduction reduction) {
  ts_token token;
  TS_DO(ts_comm_all_reduce(c, &token, x, n, t, reduction, NULL));
  return ts_comm_wait(&token);
}

ts_err ts_comm_sum_f64(ts_comm *c, double *x, int64_t n) {
  return reduce_now(c, x, n, TS_F64, TS_SUM);
}
ts_err ts_comm_sum_i64(ts_comm *c, int64_t *x, int64_t n) {
  return reduce_now(c, x, n, TS_I64, TS_SUM);
}
ts_err ts_comm_max_i64(ts_comm *c, int64_t *x, int64_t n) {
  return reduce_now(c, x, n, TS_I64, TS_MAX);
}
ts_err ts_comm_max_f64(ts_comm *c, double *x, int64_t n) {
  return reduce_now(c, x, n, TS_F64, TS_MAX);
}

ts_err ts_comm_bcast(ts_comm *c, void *buf, int64_t bytes, int root) {
  ts_token token;
  TS_DO(ts_comm_broadcast(c, &token, buf, bytes, root, NULL));
  return ts_comm_wait(&token);
}

ts_err ts_comm_gather_all(ts_comm *c, void *recv, const void *send,
                          int64_t bytes) {
  ts_token token;
  ts_op *op;
  TS_DO(ts_op_create(&op, c, TS_OP_GATHER_ALL, NULL));
  op->recv = recv;
  op->send = send;
  for (int r = 0; r < c->size; r++) op->recv_counts[r] = bytes;
  TS_DO(ts_op_begin(op, &token));
  return ts_comm_wait(&token);
}

ts_err ts_comm_barrier(ts_comm *c) {
  int64_t one = 1;
  return ts_comm_sum_i64(c, &one, 1);
}

ts_err ts_agree(ts_comm *c, ts_err own) {
  int64_t *codes = c->codes;
  ts_err_record *fault = c->fault;
  int root = 0;
  ts_err_take(fault);
  if (own == TS_OK) memset(fault, 0, sizeof *fault);
  if (own != TS_OK && fault->code == TS_OK) {
    fault->code = own;
    strncpy(fault->text, ts_err_name(own), sizeof fault->text - 1);
  }
  codes[c->rank] = own;
  TS_DO(ts_comm_gather_all(c, codes, &codes[c->rank], sizeof *codes));
  while (root < c->size && codes[root] == TS_OK) root++;
  if (root == c->size) return TS_OK;
  TS_DO(ts_comm_bcast(c, fault, sizeof *fault, root));
  size_t used = strlen(fault->text);
  const bool known = fault->agreed; /* it says already whose it is */
  if (c->size > 1 && !known && used + 16 < sizeof fault->text)
    snprintf(fault->text + used, sizeof fault->text - used, " (rank %d)", root);
  fault->file = __FILE__; /* a pointer means nothing on another rank */
  fault->agreed = true;
  ts_err_put(fault);
  return fault->code;
}
