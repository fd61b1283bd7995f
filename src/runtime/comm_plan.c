/* comm_plan.c - extents of operations, messages in rounds, and the choice of
 * what carries them: arithmetic on arguments, the same on every rank that has
 * to come to the same answer. */
#include "runtime/comm_plan.h"

#include <string.h>

static int64_t sum(const int64_t *n, int w) {
  int64_t total = 0;
  for (int r = 0; r < w; r++) total += n[r];
  return total;
}

ts_op_extent ts_op_extent_of(const ts_op_shape *s) {
  const int64_t size = (int64_t)ts_dtype_bytes(s->dtype);
  switch (s->kind) {
  case TS_OP_ALL_TO_ALL:
    return (ts_op_extent){.send = sum(s->send_counts, s->w),
                          .recv = sum(s->recv_counts, s->w),
                          .writes = true};
  case TS_OP_EXCHANGE:
  case TS_OP_EXCHANGE_ROOMS:
    return (ts_op_extent){.send = sum(s->send_counts, s->w), .writes = true};
  case TS_OP_ALL_REDUCE:
    return (ts_op_extent){.recv = s->n * size, .reads = true, .writes = true};
  case TS_OP_REDUCE_SCATTER:
    return (ts_op_extent){.send = sum(s->send_counts, s->w) * size,
                          .recv = s->send_counts[s->me] * size,
                          .writes = true};
  case TS_OP_ALL_GATHER:
  case TS_OP_GATHER_ALL:
    return (ts_op_extent){.send = s->recv_counts[s->me],
                          .recv = sum(s->recv_counts, s->w),
                          .writes = true};
  case TS_OP_BROADCAST:
    return (ts_op_extent){
        .recv = s->n, .reads = s->me == s->root, .writes = s->me != s->root};
  default:
    return (ts_op_extent){0};
  }
}

int64_t ts_slice_first(int64_t n, int w, int r) {
  return n * r / w;
}

/* ---- messages in rounds -------------------------------------------------- */

/* Distances that a round has: each is a message out and one in. */
static int distances(int most) {
  return most / 2;
}

int ts_wire_rounds(int w, int most) {
  const int d = distances(most);
  return (w - 1 + d - 1) / d;
}

int ts_wire_plan(ts_wire_message *out, const ts_wire_pieces *p, int me, int w,
                 int round, int most) {
  const int from = 1 + round * distances(most);
  int n = 0;
  for (int d = from; d < w && d < from + distances(most); d++) {
    const int to = (me + d) % w, by = (me - d + w) % w;
    if (p->send_bytes[to] > 0)
      out[n++] = (ts_wire_message){.at = (char *)p->send + p->send_at[to],
                                   .bytes = p->send_bytes[to],
                                   .rank = to,
                                   .send = true};
    if (p->recv_bytes[by] > 0)
      out[n++] = (ts_wire_message){.at = p->recv + p->recv_at[by],
                                   .bytes = p->recv_bytes[by],
                                   .rank = by};
  }
  return n;
}

void ts_wire_all_to_all(ts_wire_pieces *p, void *recv, const int64_t *recv_n,
                        const void *send, const int64_t *send_n, int64_t size,
                        int w) {
  int64_t into = 0, from = 0;
  p->recv = recv;
  p->send = send;
  for (int r = 0; r < w; r++) {
    p->recv_at[r] = into;
    p->send_at[r] = from;
    into += p->recv_bytes[r] = recv_n[r] * size;
    from += p->send_bytes[r] = send_n[r] * size;
  }
}

void ts_wire_all_gather(ts_wire_pieces *p, void *recv, const void *send,
                        const int64_t *n, int64_t size, int me, int w) {
  int64_t into = 0;
  p->recv = recv;
  p->send = send;
  for (int r = 0; r < w; r++) {
    p->recv_at[r] = into;
    p->send_at[r] = 0;
    into += p->recv_bytes[r] = n[r] * size;
    p->send_bytes[r] = n[me] * size;
  }
}

bool ts_wire_equal(const int64_t *n, int w) {
  for (int r = 1; r < w; r++)
    if (n[r] != n[0]) return false;
  return n[0] > 0;
}

/* ---- the choice ---------------------------------------------------------- */

/* Two ranks that share a device; false: none do. */
static bool find_sharers(const ts_wire_place *p, int w, int *a, int *b) {
  for (*b = 1; *b < w; ++*b)
    for (*a = 0; *a < *b; ++*a)
      if (!memcmp(&p[*a], &p[*b], sizeof *p)) return true;
  return false;
}

/* A rank whose library can't be used; W: none. */
static int find_disorder(const ts_wire_place *p, int w) {
  int r = w == 1; /* alone, nothing waits */
  while (r < w && !p[r].disorder) r++;
  return r;
}

ts_err ts_wire_choose(bool *wired, ts_comm_backend wanted, const char *name,
                      bool remote, const ts_wire_place *places, int w) {
  int a, b;
  const bool nccl = wanted == TS_COMM_NCCL;
  *wired = false;
  if (nccl && !remote)
    return ts_fail(TS_ERR_DECK, "comm.backend = \"nccl\" moves the memory of "
                                "GPUs alone: it needs run.backend = \"cuda\"");
  if (nccl && !name)
    return ts_fail(TS_ERR_DECK, "comm.backend: \"nccl\" is not in this build "
                                "(configure found no NCCL)");
  if (!remote || !name || wanted == TS_COMM_MPI) return TS_OK;
  const int old = find_disorder(places, w);
  if (old < w && nccl)
    return ts_fail(TS_ERR_DECK,
                   "comm.backend = \"nccl\": rank %d on %.60s has an NCCL "
                   "before 2.26, whose collectives may wait for each other: "
                   "use comm.backend = \"mpi\" there",
                   old, places[old].host);
  if (old < w) return TS_OK;
  *wired = !find_sharers(places, w, &a, &b);
  if (!*wired && nccl)
    return ts_fail(TS_ERR_DECK,
                   "comm.backend = \"nccl\" needs a GPU for each rank, and "
                   "ranks %d and %d share one on %.60s: use comm.backend = "
                   "\"mpi\" there",
                   a, b, places[a].host);
  return TS_OK;
}
