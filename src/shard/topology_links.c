/* topology_links.c - what messages between ranks take: collectives on the
 * device's memory, of two sizes, within nodes and across. */
#include <string.h>

#include "base/mem.h"
#include "runtime/trace.h"
#include "shard/topology.h"

enum {
  PASSES = 20,            /* short, and easily disturbed */
  MESSAGE_BYTES = 1 << 20 /* of a collective, per rank; of GPUs more */
};

typedef struct ts_wire {
  ts_comm *comm;
  int64_t message;      /* bytes of a large one */
  int64_t *counts;      /* (W) */
  ts_buffer send, recv; /* the device's memory */
} ts_wire;

static ts_err use_link(ts_wire *x, ts_link_use use, int64_t bytes) {
  ts_token token;
  const int w = ts_comm_size(x->comm);
  for (int r = 0; r < w; r++)
    x->counts[r] = use == TS_LINK_REDUCE_SCATTER ? bytes / 4 : bytes;
  if (use == TS_LINK_ALL_TO_ALL)
    TS_DO(ts_comm_all_to_all_v(x->comm, &token, x->recv.ptr, x->counts,
                               x->send.ptr, x->counts, NULL));
  else if (use == TS_LINK_REDUCE_SCATTER)
    TS_DO(ts_comm_reduce_scatter_v(x->comm, &token, x->recv.ptr, x->send.ptr,
                                   x->counts, TS_F32, NULL));
  else
    TS_DO(ts_comm_all_gather_v(x->comm, &token, x->recv.ptr, x->send.ptr,
                               x->counts, NULL));
  return ts_comm_wait(&token);
}

static ts_err time_link(ts_wire *x, ts_link_use use, int64_t bytes,
                        double *seconds) {
  double s[PASSES];
  for (int i = -1; i < PASSES; i++) {
    TS_DO(ts_comm_barrier(x->comm));
    const double t0 = ts_now();
    TS_DO(use_link(x, use, bytes));
    if (i >= 0) s[i] = ts_now() - t0;
  }
  *seconds = ts_topology_quick(s, PASSES);
  return TS_OK;
}

void ts_topology_of_link(ts_link *link, double *call_us, int others,
                         int64_t piece, double small, double large) {
  /* Half of a small operation is begun and waited for, however many ranks
   * take part; the rest grows with them. */
  *call_us += 1e6 * small / 2 / TS_LINK_COUNT;
  link->latency_us = ts_topology_at_least(1e6 * small / 2 / others, 0.1);
  link->gbytes_per_s = 1e-9 * (double)(piece * others) /
                       ts_topology_at_least(large - small, 1e-7);
}

static ts_err measure_link(ts_link *link, double *call_us, ts_wire *x,
                           ts_link_use use) {
  const int others = ts_comm_size(x->comm) - 1;
  const int64_t piece = x->message / (others + 1) / 64 * 64;
  double small, large;
  TS_DO(time_link(x, use, 64, &small));
  TS_DO(time_link(x, use, piece, &large));
  TS_DO(ts_topology_middle(&small, x->comm));
  TS_DO(ts_topology_middle(&large, x->comm));
  ts_topology_of_link(link, call_us, others, piece, small, large);
  return TS_OK;
}

static ts_err make_room(ts_wire *x, const ts_topology_bench *b) {
  const size_t bytes = (size_t)x->message;
  TS_DO(ts_mem_many(x->counts, ts_comm_size(x->comm), COMM));
  TS_DO(ts_buffer_create(&x->send, b->device, bytes, TS_SPACE_DEVICE,
                         TS_TAG_COMM));
  return ts_buffer_create(&x->recv, b->device, bytes, TS_SPACE_DEVICE,
                          TS_TAG_COMM);
}

static ts_err measure_reach(ts_topology *t, const ts_topology_bench *b,
                            ts_reach reach, int64_t message, bool *measured) {
  ts_err err = TS_OK;
  ts_wire x = {.message = message};
  TS_TRY(ts_comm_create(b->world, &x.comm,
                        reach == TS_REACH_NODE ? TS_GROUP_NODE : TS_GROUP_CROSS,
                        "probe"));
  const int w = ts_comm_size(x.comm);
  *measured = w > 1;
  TS_TRY(ts_agree(b->control, w > 1 ? make_room(&x, b) : TS_OK));
  if (w == 1) goto done;
  t->call_us = 0;
  for (int use = 0; use < TS_LINK_COUNT; use++)
    TS_TRY(
        measure_link(&t->link[reach][use], &t->call_us, &x, (ts_link_use)use));
done:
  ts_comm_destroy(x.comm);
  ts_mem_free(x.counts);
  ts_buffer_reset(&x.send);
  ts_buffer_reset(&x.recv);
  return err;
}

ts_err ts_topology_links(ts_topology *t, const ts_topology_bench *b) {
  bool node, cross;
  int64_t less = -ts_topology_times(b); /* the least of all ranks' */
  TS_DO(ts_comm_max_i64(b->control, &less, 1));
  const int64_t message = -less * MESSAGE_BYTES;
  TS_DO(measure_reach(t, b, TS_REACH_NODE, message, &node));
  TS_DO(measure_reach(t, b, TS_REACH_CROSS, message, &cross));
  /* The reach that no rank has here is taken to be like the other. */
  int64_t has[2] = {node, cross};
  TS_DO(ts_comm_max_i64(b->control, has, 2));
  if (has[0] && !has[1])
    memcpy(t->link[TS_REACH_CROSS], t->link[TS_REACH_NODE],
           sizeof t->link[TS_REACH_NODE]);
  if (has[1] && !has[0])
    memcpy(t->link[TS_REACH_NODE], t->link[TS_REACH_CROSS],
           sizeof t->link[TS_REACH_NODE]);
  return TS_OK;
}
