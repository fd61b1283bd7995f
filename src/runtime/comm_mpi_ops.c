/* comm_mpi_ops.c - collectives as steps of nonblocking messages.
 *
 * Every operation of a comm runs alone on it and messages between two ranks
 * keep their order, so one tag does.  Pieces over 1 GiB travel in parts. */
#include <string.h>

#include "base/mem.h"
#include "runtime/comm_impl.h"

static const int64_t part_bytes = INT64_C(1) << 30;

ts_err ts_op_add_request(ts_op *op, MPI_Request **out) {
  if (op->n_requests == op->capacity) {
    const int more = op->capacity ? 2 * op->capacity : 8;
    TS_DO(ts_mem_resize(&op->requests,
                        (size_t)op->n_requests * sizeof *op->requests,
                        (size_t)more * sizeof *op->requests, TS_TAG_COMM));
    TS_DO(ts_mem_resize(&op->statuses, 0, (size_t)more * sizeof *op->statuses,
                        TS_TAG_COMM));
    op->capacity = more;
  }
  *out = &op->requests[op->n_requests++];
  **out = MPI_REQUEST_NULL;
  return TS_OK;
}

void ts_op_sent(ts_op *op, int64_t bytes, int to) {
  const int per = op->comm->per_node;
  op->sent_bytes += bytes;
  if (per && to / per != op->comm->rank / per) op->cross_bytes += bytes;
}

ts_err ts_op_send(ts_op *op, const void *data, int64_t bytes, int to) {
  const char *p = data;
  MPI_Request *request;
  for (int64_t at = 0; at < bytes; at += part_bytes) {
    const int64_t n = bytes - at < part_bytes ? bytes - at : part_bytes;
    TS_DO(ts_op_add_request(op, &request));
    TS_DO(TS_MPI(MPI_Isend(p + at, (int)n, MPI_BYTE, to, TS_MESSAGE_TAG,
                           op->comm->mpi, request)));
    op->n_messages++;
  }
  ts_op_sent(op, bytes, to);
  return bytes > 0 ? ts_op_send_sum(op, data, bytes, to) : TS_OK;
}

ts_err ts_op_recv(ts_op *op, void *data, int64_t bytes, int from) {
  char *p = data;
  MPI_Request *request;
  for (int64_t at = 0; at < bytes; at += part_bytes) {
    const int64_t n = bytes - at < part_bytes ? bytes - at : part_bytes;
    TS_DO(ts_op_add_request(op, &request));
    TS_DO(TS_MPI(MPI_Irecv(p + at, (int)n, MPI_BYTE, from, TS_MESSAGE_TAG,
                           op->comm->mpi, request)));
  }
  return bytes > 0 ? ts_op_recv_sum(op, data, bytes, from) : TS_OK;
}

/* Pieces of SIZE-byte elements: to every rank its piece of SEND, from every
 * rank its piece of RECV; the own piece is copied. */
static ts_err post_all_to_all(ts_op *op, void *recv, const int64_t *recv_n,
                              const void *send, const int64_t *send_n,
                              int64_t size) {
  const int me = op->comm->rank, w = op->comm->size;
  char *to = recv;
  for (int r = 0; r < w; r++) {
    if (r != me) TS_DO(ts_op_recv(op, to, recv_n[r] * size, r));
    to += recv_n[r] * size;
  }
  /* Each rank starts with its right neighbour, so that not all send to
   * rank 0 first. */
  for (int k = 1; k < w; k++) {
    const int r = (me + k) % w;
    int64_t start = 0;
    for (int i = 0; i < r; i++) start += send_n[i];
    TS_DO(
        ts_op_send(op, (const char *)send + start * size, send_n[r] * size, r));
  }
  int64_t from = 0, into = 0;
  for (int i = 0; i < me; i++) from += send_n[i], into += recv_n[i];
  op->own_bytes += send_n[me] * size;
  if (send_n[me] > 0)
    memcpy((char *)recv + into * size, (const char *)send + from * size,
           (size_t)(send_n[me] * size));
  return TS_OK;
}

/* Everyone's piece to everyone; own piece from SEND (which may be in RECV). */
static ts_err post_all_gather(ts_op *op, void *recv, const void *send,
                              const int64_t *n, int64_t size) {
  const int me = op->comm->rank, w = op->comm->size;
  int64_t start = 0, own = 0;
  for (int r = 0; r < w; r++) {
    if (r == me)
      own = start;
    else
      TS_DO(ts_op_recv(op, (char *)recv + start * size, n[r] * size, r));
    start += n[r];
  }
  char *mine = (char *)recv + own * size;
  op->own_bytes += n[me] * size;
  if (mine != send && n[me] > 0) memmove(mine, send, (size_t)(n[me] * size));
  for (int k = 1; k < w; k++)
    TS_DO(ts_op_send(op, mine, n[me] * size, (me + k) % w));
  return TS_OK;
}

static ts_err take_scratch(ts_op *op, int64_t n, int64_t size) {
  return ts_comm_scratch(op->comm, n * size);
}

ts_err ts_op_all_to_all(ts_op *op, bool *last) {
  *last = true;
  return post_all_to_all(op, op->recv, op->recv_counts, op->send,
                         op->send_counts, 1);
}

ts_err ts_op_all_gather(ts_op *op, bool *last) {
  *last = true;
  return post_all_gather(op, op->recv, op->send, op->recv_counts, 1);
}

ts_err ts_op_exchange(ts_op *op, bool *last) {
  ts_exchange *x = op->exchange;
  const int w = op->comm->size;
  int64_t total = 0;
  if (op->phase == 0) { /* sizes */
    for (int r = 0; r < w; r++) op->send_counts[r] = 1;
    TS_DO(post_all_to_all(op, x->recv_bytes, op->send_counts, x->send_bytes,
                          op->send_counts, 8));
    return TS_OK;
  }
  *last = true;
  op->n_rounds++;
  for (int r = 0; r < w; r++) {
    if (x->recv_at) x->recv_at[r] = total;
    total += x->recv_bytes[r];
  }
  TS_DO(ts_buffer_reserve(&x->recv, (size_t)total));
  return post_all_to_all(op, x->recv.ptr, x->recv_bytes, x->send, x->send_bytes,
                         1);
}

/* The slice of an all-reduce that rank R sums. */
static int64_t slice(const ts_op *op, int r) {
  const int w = op->comm->size;
  return op->n * (r + 1) / w - op->n * r / w;
}

static ts_err small_all_reduce(ts_op *op, bool *last) {
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  const int w = op->comm->size;
  if (op->phase == 0) {
    TS_DO(take_scratch(op, op->n * w, size));
    for (int r = 0; r < w; r++) op->recv_counts[r] = op->n;
    TS_DO(post_all_gather(op, op->comm->scratch, op->recv, op->recv_counts,
                          size));
    return TS_OK;
  }
  *last = true;
  return ts_reduce_ranks(op->recv, op->comm->scratch, w, op->n, op->n,
                         op->dtype, op->reduction, false);
}

static ts_err ordered_all_reduce(ts_op *op, bool *last) {
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  const int w = op->comm->size, me = op->comm->rank;
  const int64_t own = slice(op, me);
  for (int r = 0; r < w; r++) {
    op->send_counts[r] = slice(op, r);
    op->recv_counts[r] = own;
  }
  if (op->phase == 0) {
    TS_DO(take_scratch(op, own * w, size));
    TS_DO(post_all_to_all(op, op->comm->scratch, op->recv_counts, op->recv,
                          op->send_counts, size));
    return TS_OK;
  }
  *last = true;
  char *mine = (char *)op->recv + op->n * me / w * size;
  TS_DO(ts_reduce_ranks(mine, op->comm->scratch, w, own, own, op->dtype,
                        op->reduction, false));
  return post_all_gather(op, op->recv, mine, op->send_counts, size);
}

static MPI_Datatype mpi_type(ts_dtype t) {
  return t == TS_F32   ? MPI_FLOAT
         : t == TS_F64 ? MPI_DOUBLE
         : t == TS_I64 ? MPI_INT64_T
                       : MPI_DATATYPE_NULL;
}

static ts_err library_all_reduce(ts_op *op, bool *last) {
  MPI_Request *request;
  const MPI_Op mpi_op = op->reduction == TS_SUM   ? MPI_SUM
                        : op->reduction == TS_MAX ? MPI_MAX
                                                  : MPI_MIN;
  *last = true;
  TS_DO(ts_op_add_request(op, &request));
  return TS_MPI(MPI_Iallreduce(MPI_IN_PLACE, op->recv, (int)op->n,
                               mpi_type(op->dtype), mpi_op, op->comm->mpi,
                               request));
}

ts_err ts_op_all_reduce(ts_op *op, bool *last) {
  const bool library = !op->comm->world->options.ordered && op->n < INT32_MAX &&
                       mpi_type(op->dtype) != MPI_DATATYPE_NULL;
  if (library) return library_all_reduce(op, last);
  if (op->n <= TS_REDUCE_SMALL) return small_all_reduce(op, last);
  return ts_sum_goes_by_node(op->n, op->dtype, op->comm->size,
                             op->comm->per_node)
             ? ts_op_sum_by_node(op, last)
             : ordered_all_reduce(op, last);
}

ts_err ts_op_reduce_scatter(ts_op *op, bool *last) {
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  const int w = op->comm->size, me = op->comm->rank;
  const int64_t own = op->send_counts[me];
  for (int r = 0; r < w; r++) op->recv_counts[r] = own;
  if (op->phase == 0) {
    TS_DO(take_scratch(op, own * w, size));
    TS_DO(post_all_to_all(op, op->comm->scratch, op->recv_counts, op->send,
                          op->send_counts, size));
    return TS_OK;
  }
  *last = true;
  return ts_reduce_ranks(op->recv, op->comm->scratch, w, own, own, op->dtype,
                         TS_SUM, false);
}

ts_err ts_op_broadcast(ts_op *op, bool *last) {
  *last = true;
  op->own_bytes = op->n;
  if (op->comm->rank != op->root)
    return ts_op_recv(op, op->recv, op->n, op->root);
  for (int r = 0; r < op->comm->size; r++)
    if (r != op->root) TS_DO(ts_op_send(op, op->recv, op->n, r));
  return TS_OK;
}

ts_err ts_op_run(ts_op *op, bool *last) {
  *last = true;
  return op->fn(&op->comm->mpi, op->arg);
}
