/* comm_mpi_rooms.c - exchanges that keep room for what they expect.
 *
 * One message goes from each rank to each other: the piece, if it fits the
 * room that both sides know of, else its size, told apart by the tag.  Who
 * sent a size sends the piece after it; nobody else takes part in that, so a
 * piece that is larger than usual costs the two ranks a second message and
 * the rest nothing.  Smaller ones travel as they are, never padded. */
#include <string.h>

#include "base/mem.h"
#include "runtime/comm_impl.h"

enum { ALIGN = 64 };

static int64_t aligned(int64_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

int64_t ts_room_bytes(int64_t bytes) {
  const int64_t room = aligned(bytes < ALIGN ? ALIGN : bytes);
  return room < TS_ROOM_MAX ? room : TS_ROOM_MAX;
}

ts_err ts_rooms_create(ts_rooms *rooms, int n_ranks) {
  TS_DO(ts_mem_many(rooms->send, n_ranks, COMM));
  TS_DO(ts_mem_many(rooms->recv, n_ranks, COMM));
  for (int r = 0; r < n_ranks; r++)
    rooms->send[r] = rooms->recv[r] = ts_room_bytes(0);
  return TS_OK;
}

void ts_rooms_reset(ts_rooms *rooms) {
  ts_mem_free_all(rooms->send, rooms->recv);
  *rooms = (ts_rooms){0};
}

/* An eighth more than what did not fit; the same on both sides. */
static void learn(int64_t *room, int64_t bytes) {
  if (bytes > *room) *room = ts_room_bytes(bytes + bytes / 8);
}

/* Starts of the pieces with the rooms as they are, own piece included;
 * returns the end. */
static int64_t lay_out(const ts_op *op, int64_t *at) {
  const ts_exchange *x = op->exchange;
  int64_t end = 0;
  for (int r = 0; r < op->comm->size; r++) {
    const bool own = r == op->comm->rank;
    at[r] = end;
    end += aligned(own ? x->send_bytes[r] : x->rooms->recv[r]);
  }
  return end;
}

/* The one message to rank R, where R knows its room. */
static ts_err send_first(ts_op *op, const char *piece, int r) {
  const ts_exchange *x = op->exchange;
  const bool fits = x->send_bytes[r] <= x->rooms->send[r];
  const int n = fits ? (int)x->send_bytes[r] : 8;
  MPI_Request *request;
  TS_DO(ts_op_add_request(op, &request));
  const void *data = fits ? piece : (const char *)&x->send_bytes[r];
  TS_DO(TS_MPI(MPI_Isend(data, n, MPI_BYTE, r,
                         fits ? TS_MESSAGE_TAG : TS_SIZE_TAG, op->comm->mpi,
                         request)));
  op->n_messages++;
  ts_op_sent(op, n, r);
  return ts_op_send_sum(op, data, n, r);
}

/* Calls FN for the piece to each other rank, right neighbour first. */
static ts_err each_piece(ts_op *op,
                         ts_err (*fn)(ts_op *, const char *piece, int r)) {
  const ts_exchange *x = op->exchange;
  const int me = op->comm->rank, w = op->comm->size;
  for (int k = 1; k < w; k++) {
    const int r = (me + k) % w;
    int64_t start = 0;
    for (int i = 0; i < r; i++) start += x->send_bytes[i];
    TS_DO(fn(op, (const char *)x->send + start, r));
  }
  return TS_OK;
}

static ts_err begin(ts_op *op) {
  ts_exchange *x = op->exchange;
  const int me = op->comm->rank, w = op->comm->size;
  int64_t own = 0;
  MPI_Request *request;
  TS_DO(ts_buffer_reserve(&x->recv, (size_t)lay_out(op, x->recv_at)));
  char *to = x->recv.ptr;
  for (int r = 0; r < w; r++) {
    if (r == me) continue;
    TS_DO(ts_op_add_request(op, &request));
    TS_DO(TS_MPI(MPI_Irecv(to + x->recv_at[r], (int)x->rooms->recv[r], MPI_BYTE,
                           r, MPI_ANY_TAG, op->comm->mpi, request)));
  }
  for (int r = 0, k = 0; r < w; r++)
    if (r != me) TS_DO(ts_op_recv_sum_of(op, to + x->recv_at[r], k++, r));
  TS_DO(each_piece(op, send_first));
  for (int r = 0; r < me; r++) own += x->send_bytes[r];
  x->recv_bytes[me] = x->send_bytes[me];
  op->own_bytes += x->send_bytes[me];
  if (x->send_bytes[me])
    memcpy(to + x->recv_at[me], (const char *)x->send + own,
           (size_t)x->send_bytes[me]);
  return TS_OK;
}

/* Sizes of what has come; LATE (W): only the size has. */
static ts_err read_sizes(ts_op *op, bool *late, bool *any) {
  ts_exchange *x = op->exchange;
  const MPI_Status *status = op->statuses;
  for (int r = 0; r < op->comm->size; r++) {
    int n;
    late[r] = false;
    if (r == op->comm->rank) continue;
    TS_DO(TS_MPI(MPI_Get_count(status, MPI_BYTE, &n)));
    x->recv_bytes[r] = n;
    late[r] = status->MPI_TAG == TS_SIZE_TAG;
    if (late[r])
      memcpy(&x->recv_bytes[r], (char *)x->recv.ptr + x->recv_at[r], 8);
    *any |= late[r];
    status++;
  }
  return TS_OK;
}

/* Pieces to their places in a layout that has room for those to come. */
static ts_err make_room(ts_op *op, const bool *late) {
  ts_exchange *x = op->exchange;
  const int w = op->comm->size;
  ts_buffer fresh = x->recv;
  int64_t at[w], end = 0;
  for (int r = 0; r < w; r++) {
    at[r] = end;
    end += aligned(x->recv_bytes[r]);
  }
  fresh.ptr = NULL;
  fresh.bytes = fresh.most = 0;
  TS_DO(ts_buffer_reserve(&fresh, (size_t)end));
  for (int r = 0; r < w; r++)
    if (!late[r] && x->recv_bytes[r])
      memcpy((char *)fresh.ptr + at[r], (char *)x->recv.ptr + x->recv_at[r],
             (size_t)x->recv_bytes[r]);
  memcpy(x->recv_at, at, sizeof at);
  ts_buffer_reset(&x->recv);
  x->recv = fresh;
  return TS_OK;
}

static ts_err send_second(ts_op *op, const char *piece, int r) {
  const ts_exchange *x = op->exchange;
  return x->send_bytes[r] > x->rooms->send[r]
             ? ts_op_send(op, piece, x->send_bytes[r], r)
             : TS_OK;
}

ts_err ts_op_exchange_rooms(ts_op *op, bool *last) {
  ts_exchange *x = op->exchange;
  const int w = op->comm->size;
  bool late[w], any = false;
  if (op->phase == 0) return begin(op);
  *last = true;
  TS_DO(read_sizes(op, late, &any));
  op->n_requests = 0;
  if (any) TS_DO(make_room(op, late));
  for (int r = 0; r < w; r++)
    if (late[r])
      TS_DO(ts_op_recv(op, (char *)x->recv.ptr + x->recv_at[r],
                       x->recv_bytes[r], r));
  TS_DO(each_piece(op, send_second));
  op->n_rounds += op->n_requests > 0;
  for (int r = 0; r < w; r++) {
    if (r == op->comm->rank) continue;
    learn(&x->rooms->send[r], x->send_bytes[r]);
    learn(&x->rooms->recv[r], x->recv_bytes[r]);
  }
  return TS_OK;
}
