/* comm_mpi_sums.c - checksums of messages: behind each piece 64 bits travel in
 * a message of their own, and what has come is compared with it once a phase of
 * the operation is complete, before anything is done with it.
 *
 * Networks check what they carry, but not the way from memory to the adapter
 * and back; a piece that differs ends the operation as other errors do. */
#include "base/hash.h"
#include "base/mem.h"
#include "runtime/comm_impl.h"

enum { WORD = sizeof(uint64_t) }; /* of a checksum */

/* All-to-alls have a piece to and from each rank, sums by nodes
 * (comm_by_node.c) 2 P + 4 messages, P at most half the ranks. */
static int most(const ts_op *op) {
  return 2 * op->comm->size + 4;
}

ts_err ts_op_make_sums(ts_op *op) {
  if (!op->comm->world->options.sums) return TS_OK;
  return ts_mem_many(op->sums, most(op), COMM);
}

/* A free one; the requests point into the array, so it never moves. */
static ts_err take(ts_op *op, ts_piece_sum sum, ts_piece_sum **out,
                   MPI_Request **request) {
  if (op->n_sums == most(op))
    return ts_fail(TS_ERR_INTERNAL, "%s of \"%s\" has too many messages",
                   op->name, op->comm->name);
  *out = &op->sums[op->n_sums++];
  **out = sum;
  return ts_op_add_request(op, request);
}

ts_err ts_op_send_sum(ts_op *op, const void *data, int64_t bytes, int to) {
  ts_piece_sum *s = NULL;
  MPI_Request *request = NULL;
  if (!op->sums) return TS_OK;
  const uint64_t sum = ts_sum64(0, data, (size_t)bytes);
  TS_DO(take(op, (ts_piece_sum){.sum = sum}, &s, &request));
  return TS_MPI(MPI_Isend(&s->sum, WORD, MPI_BYTE, to, TS_SUM_TAG,
                          op->comm->mpi, request));
}

ts_err ts_op_recv_sum(ts_op *op, void *data, int64_t bytes, int from) {
  ts_piece_sum *s = NULL;
  MPI_Request *request = NULL;
  if (!op->sums) return TS_OK;
  const ts_piece_sum sum = {.data = data, .bytes = bytes, .from = from};
  TS_DO(take(op, sum, &s, &request));
  return TS_MPI(MPI_Irecv(&s->sum, WORD, MPI_BYTE, from, TS_SUM_TAG,
                          op->comm->mpi, request));
}

ts_err ts_op_recv_sum_of(ts_op *op, void *data, int request, int from) {
  return ts_op_recv_sum(op, data, -1 - request, from);
}

static int world_rank(const ts_comm *c, int rank) {
  MPI_Group own, all;
  int found = rank;
  if (MPI_Comm_group(c->mpi, &own) != MPI_SUCCESS) return rank;
  if (MPI_Comm_group(MPI_COMM_WORLD, &all) == MPI_SUCCESS) {
    (void)MPI_Group_translate_ranks(own, 1, &rank, all, &found);
    (void)MPI_Group_free(&all);
  }
  (void)MPI_Group_free(&own);
  return found;
}

static ts_err compare(const ts_op *op, ts_piece_sum *s) {
  const ts_world *w = op->comm->world;
  if (s->bytes < 0) {
    int n;
    TS_DO(TS_MPI(MPI_Get_count(&op->statuses[-1 - s->bytes], MPI_BYTE, &n)));
    s->bytes = n;
  }
  if (s->bytes && ts_fault("flip_message")) *(char *)s->data ^= 4;
  if (ts_sum64(0, s->data, (size_t)s->bytes) == s->sum) return TS_OK;
  return ts_fail(TS_ERR_COMM,
                 "rank %d on %s: %s number %llu of \"%s\" (%s): the bytes that "
                 "came from rank %d are not those that it sent (run.check): "
                 "memory or network of one of the two is at fault",
                 w->rank, w->host, op->name, (unsigned long long)op->seq,
                 op->comm->name, op->stage, world_rank(op->comm, s->from));
}

ts_err ts_op_check_sums(ts_op *op) {
  for (int i = 0; i < op->n_sums; i++)
    if (op->sums[i].data) TS_DO(compare(op, &op->sums[i]));
  op->n_sums = 0;
  return TS_OK;
}
