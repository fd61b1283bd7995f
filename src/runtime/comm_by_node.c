/* comm_by_node.c - large sums over nodes of the same number of consecutive
 * ranks, P each: rank order without everyone's numbers on the network.
 *
 * Rank order is the order of nodes, and within a node that of its ranks.  So
 * rank j of a node collects what its node has of slice j of P, and a sum that
 * comes from rank j of the node before goes on with the node's ranks and then
 * to rank j of the node behind: the same additions in the same order.  The
 * last node's sums come back the same way, and each node gathers its slices.
 * To another node a rank sends its slice twice at most, 2 n / P elements,
 * where an exchange among all W ranks sends 2 n (W - P) / W.
 *
 * Slices travel in chunks, so that all nodes work at once.  In step s a node
 * that has B nodes behind it receives chunk s of the sums and passes chunk
 * s - 1 on; it receives chunk s - 2 B of the results and passes the one before
 * on.  Both sides of a message come to it in the same time, for a node's steps
 * begin one later than those of the node before. */
#include <string.h>

#include "runtime/comm_impl.h"

/* A chunk's least size, the most chunks of a slice, and the bytes that the
 * network would carry in the time that a step takes beside its bytes: 3 to 5 us
 * at 100 to 200 Gbit/s. */
enum { CHUNK = 128 << 10, CHUNKS = 16, STEP = 64 << 10 };

typedef struct ts_line {
  int per, index;   /* ranks of a node; this one's place in its own */
  int before, next; /* ranks with the same place on nodes beside; or -1 */
  int behind;       /* nodes */
  int64_t first, n; /* the slice, in elements */
  int n_chunks;
} ts_line;

static int n_chunks(int64_t bytes) {
  const int64_t n = bytes / CHUNK;
  return n < 1 ? 1 : n > CHUNKS ? CHUNKS : (int)n;
}

bool ts_sum_goes_by_node(int64_t n, ts_dtype t, int w, int per) {
  /* Sums of 16-bit floats are rounded once, so they can't travel. */
  if (per < 2 || w <= per || t == TS_BF16 || t == TS_F16) return false;
  const int64_t bytes = n * (int64_t)ts_dtype_bytes(t), slice = bytes / per;
  const int64_t chunks = n_chunks(slice), steps = chunks + 2 * (w / per - 1);
  return steps * (slice / chunks + STEP) < 2 * bytes / w * (w - per);
}

static ts_line line_of(const ts_op *op) {
  const ts_comm *c = op->comm;
  const int per = c->per_node, me = c->rank;
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  ts_line l = {.per = per, .index = me % per};
  l.before = me >= per ? me - per : -1;
  l.next = me + per < c->size ? me + per : -1;
  l.behind = c->size / per - 1 - me / per;
  l.first = ts_slice_first(op->n, per, l.index);
  l.n = ts_slice_first(op->n, per, l.index + 1) - l.first;
  l.n_chunks = n_chunks(l.n * size);
  return l;
}

/* Elements [*at, *at + its value) of the slice are chunk K; 0: there is none.
 */
static int64_t chunk(const ts_line *l, int64_t *at, int k) {
  *at = 0;
  if (k < 0 || k >= l->n_chunks) return 0;
  *at = ts_slice_first(l->n, l->n_chunks, k);
  return ts_slice_first(l->n, l->n_chunks, k + 1) - *at;
}

static int64_t slice_of(const ts_op *op, const ts_line *l, int k, int64_t *at) {
  *at = ts_slice_first(op->n, l->per, k);
  return ts_slice_first(op->n, l->per, k + 1) - *at;
}

static int add_message(ts_wire_message *to, void *at, int64_t bytes, int rank,
                       bool send) {
  if (rank < 0 || bytes == 0) return 0;
  *to = (ts_wire_message){at, bytes, rank, send};
  return 1;
}

/* Slices within the node: everyone's part of this rank's into ROWS, or, where
 * ROWS is NULL, this rank's sums to everyone. */
static int within(ts_wire_message *out, const ts_op *op, const ts_line *l,
                  char *rows) {
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  const int first = op->comm->rank - l->index;
  char *x = op->recv;
  int n = 0;
  for (int d = 1; d < l->per; d++) {
    const int to = (l->index + d) % l->per;
    const int from = (l->index + l->per - d) % l->per;
    int64_t there, here, own = l->n * size;
    const int64_t n_there = slice_of(op, l, to, &there) * size;
    const int64_t n_here = slice_of(op, l, from, &here) * size;
    if (rows) {
      n += add_message(out + n, rows + from * own, own, first + from, false);
      n += add_message(out + n, x + there * size, n_there, first + to, true);
    } else {
      n += add_message(out + n, x + here * size, n_here, first + from, false);
      n += add_message(out + n, x + l->first * size, own, first + to, true);
    }
  }
  return n;
}

static int pass(ts_wire_message *out, const ts_op *op, const ts_line *l, int k,
                int rank, bool send) {
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  int64_t at;
  const int64_t bytes = chunk(l, &at, k) * size;
  char *p = (char *)op->recv + (l->first + at) * size;
  return add_message(out, p, bytes, rank, send);
}

ts_node_step ts_sum_by_node(const ts_op *op, int phase, char *rows,
                            ts_wire_message *out) {
  const ts_line l = line_of(op);
  const int64_t size = (int64_t)ts_dtype_bytes(op->dtype);
  const int s = phase - 1, back = s - 2 * l.behind;
  ts_node_step x = {.stride = l.n, .onto = l.before >= 0};
  int64_t at;
  if (phase == 0) {
    x.own = (char *)op->recv + l.first * size;
    x.row = rows + l.index * l.n * size;
    x.n_messages = within(out, op, &l, rows);
    return x;
  }
  if (back > l.n_chunks) {
    x.last = true;
    x.n_messages = within(out, op, &l, NULL);
    return x;
  }
  x.n = chunk(&l, &at, s - 1);
  x.own = (char *)op->recv + (l.first + at) * size;
  x.row = rows + at * size;
  int n = pass(out, op, &l, s, l.before, false);
  n += pass(out + n, op, &l, s - 1, l.next, true);
  if (l.behind) n += pass(out + n, op, &l, back, l.next, false);
  x.n_messages = n + pass(out + n, op, &l, back - 1, l.before, true);
  return x;
}

int64_t ts_sum_by_node_room(const ts_op *op) {
  const ts_line l = line_of(op);
  return l.per * l.n * (int64_t)ts_dtype_bytes(op->dtype);
}

ts_err ts_op_sum_by_node(ts_op *op, bool *last) {
  const int per = op->comm->per_node;
  ts_wire_message m[2 * per + 4];
  TS_DO(ts_comm_scratch(op->comm, ts_sum_by_node_room(op)));
  const ts_node_step x = ts_sum_by_node(op, op->phase, op->comm->scratch, m);
  const int64_t bytes = x.stride * (int64_t)ts_dtype_bytes(op->dtype);
  if (op->phase == 0) {
    op->own_bytes += bytes;
    memcpy(x.row, x.own, (size_t)bytes);
  }
  TS_DO(ts_reduce_ranks(x.own, x.row, per, x.stride, x.n, op->dtype,
                        op->reduction, x.onto));
  for (int i = 0; i < x.n_messages; i++)
    TS_DO(m[i].send ? ts_op_send(op, m[i].at, m[i].bytes, m[i].rank)
                    : ts_op_recv(op, m[i].at, m[i].bytes, m[i].rank));
  *last = x.last;
  return TS_OK;
}
