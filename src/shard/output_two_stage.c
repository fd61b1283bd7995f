/* output_two_stage.c - tables that a node holds, cut by rows over its ranks:
 * the parts are summed within the node, then go to the samples' ranks across
 * nodes.
 *
 * For samples of rank q a node's relay is its rank with q's index (nodes may
 * differ in size: modulo).  Sections are written in the order of relays, so
 * the sum within the node is one reduce-scatter; a relay then sends each of
 * its ranks what it has for it, and block k comes from node k's relay.  The
 * way back is the transpose.  Codecs code what the relays send and get. */
#include "shard/cost.h"
#include "shard/wire.h"

static int n_blocks(const ts_ebc *ebc) {
  return ebc->nodes->n_nodes;
}

static int block_of(const ts_ebc *ebc, const ts_shard *s) {
  return ebc->nodes->node[s->rank];
}

static int written_by(const ts_ebc *ebc, int rank) {
  return ebc->nodes->node[rank];
}

static ts_err create(ts_sharding *sharding) {
  TS_DO(ts_comm_create(sharding->ebc->world, &sharding->node_comm,
                       TS_GROUP_NODE, "node reduce"));
  return ts_comm_create(sharding->ebc->world, &sharding->comm, TS_GROUP_WORLD,
                        sharding->ops->name);
}

/* Index, within NODE, of the rank that relays for rank Q. */
static int relay_index(const ts_nodes *n, int node, int q) {
  return n->index[q] % ts_node_size(n, node);
}

static int relay_rank(const ts_nodes *n, int node, int q) {
  return n->member[n->start[node] + relay_index(n, node, q)];
}

static void order(const ts_sharding *sharding, int *ranks) {
  const ts_nodes *n = sharding->ebc->nodes;
  int at = 0;
  for (int l = 0; l < ts_node_size(n, sharding->own_block); l++)
    for (int q = 0; q < n->n_ranks; q++)
      if (relay_index(n, sharding->own_block, q) == l) ranks[at++] = q;
}

static bool relays_for(const ts_sharding *sharding, int q) {
  return relay_rank(sharding->ebc->nodes, sharding->own_block, q) ==
         sharding->ebc->rank;
}

/* Floats of each local rank's part of what the node sums. */
static int64_t size_parts(const ts_sharding_batch *lf, int64_t *parts) {
  const ts_sharding *sharding = lf->sharding;
  const ts_nodes *n = sharding->ebc->nodes;
  for (int l = 0; l < ts_node_size(n, sharding->own_block); l++) parts[l] = 0;
  for (int q = 0; q < n->n_ranks; q++)
    parts[relay_index(n, sharding->own_block, q)] += lf->sizes[q];
  return parts[n->index[sharding->ebc->rank]];
}

/* Bytes of what this rank relays, to (from) each rank, and of the blocks that
 * come from (go to) each rank. */
static void size_messages(const ts_sharding_batch *lf, ts_codec c,
                          int64_t *relayed, int64_t *blocks) {
  const ts_sharding *sharding = lf->sharding;
  const ts_nodes *n = sharding->ebc->nodes;
  const int me = sharding->ebc->rank;
  for (int q = 0; q < n->n_ranks; q++) {
    relayed[q] = relays_for(sharding, q)
                     ? ts_wire_bytes(lf, c, sharding->own_block, q)
                     : 0;
    blocks[q] = relay_rank(n, n->node[q], me) == q
                    ? ts_wire_bytes(lf, c, n->node[q], me)
                    : 0;
  }
}

/* Plain within the node, coded across. */
static int64_t bytes(const ts_sharding_batch *lf, ts_codec c) {
  const ts_sharding *sharding = lf->sharding;
  int64_t n = 0;
  for (int q = 0; q < sharding->ebc->n_ranks; q++) {
    n += 4 * lf->sizes[q];
    if (relays_for(sharding, q))
      n += ts_wire_bytes(lf, c, sharding->own_block, q);
  }
  return n;
}

/* The blocks that arrive lie by node, the messages by rank: with ranks not in
 * the order of nodes they differ, so blocks always go through the wire. */
typedef struct ts_two_arg {
  ts_sharding_batch *lf;
  ts_codec codec;
  bool relayed, encode;
} ts_two_arg;

static ts_err code_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_two_arg *a = p;
  ts_sharding_batch *lf = a->lf;
  const ts_sharding *sharding = lf->sharding;
  const ts_nodes *n = sharding->ebc->nodes;
  const int me = sharding->ebc->rank;
  char *at = a->encode ? lf->wire_send.ptr : lf->wire_recv.ptr;
  float *relay = lf->relay.ptr, *x;
  ts_coder coder;
  ts_coder_start(&coder, lf, a->codec, a->encode);
  for (int q = 0; q < n->n_ranks; q++) {
    const int block = a->relayed ? sharding->own_block : n->node[q];
    const int rank = a->relayed ? q : me;
    if (a->relayed ? !relays_for(sharding, q) : relay_rank(n, block, me) != q)
      continue;
    if (a->relayed) {
      x = relay;
      relay += lf->sizes[q];
    } else {
      x = (float *)lf->emb.ptr + lf->block_at[block];
    }
    TS_DO(ts_coder_section(&coder, block, rank, x, &at));
  }
  return ts_coder_end(&coder);
}

static ts_err code(ts_sharding_batch *lf, ts_codec codec, bool relayed,
                   bool encode, ts_lane *lane) {
  ts_two_arg arg = {lf, codec, relayed, encode};
  return ts_lane_run(lane, encode ? "encode" : "decode", code_task, arg);
}

static ts_err reserve(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  int64_t parts[ts_node_size(sharding->ebc->nodes, sharding->own_block)];
  TS_DO(ts_buffer_reserve(&lf->relay, (size_t)size_parts(lf, parts) * 4));
  size_messages(lf, sharding->ebc->forward, lf->send, lf->recv);
  TS_DO(ts_sharding_reserve_wire(lf));
  size_messages(lf, sharding->ebc->backward, lf->recv, lf->send);
  return ts_sharding_reserve_wire(lf);
}

static ts_err scratch(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  const int n = ts_node_size(sharding->ebc->nodes, sharding->own_block);
  int64_t parts[n];
  return ts_comm_reserve(sharding->node_comm, size_parts(lf, parts) * 4 * n);
}

static ts_err forward_begin(ts_sharding_batch *lf, ts_lane *lane) {
  ts_sharding *sharding = lf->sharding;
  const ts_codec c = sharding->ebc->forward;
  int64_t parts[ts_node_size(sharding->ebc->nodes, sharding->own_block)];
  ts_token summed;
  size_parts(lf, parts);
  size_messages(lf, c, lf->send, lf->recv);
  TS_DO(ts_comm_reduce_scatter_v(sharding->node_comm, &summed, lf->relay.ptr,
                                 lf->out.ptr, parts, TS_F32, lane));
  if (c == TS_CODEC_F32) { /* a relay's part is in the order of its ranks */
    TS_DO(ts_comm_all_to_all_v(sharding->comm, &lf->token, lf->wire_recv.ptr,
                               lf->recv, lf->relay.ptr, lf->send,
                               ts_comm_lane(sharding->node_comm)));
    return TS_OK;
  }
  TS_DO(ts_comm_end(&summed, lane));
  TS_DO(code(lf, c, true, true, lane));
  return ts_comm_all_to_all_v(sharding->comm, &lf->token, lf->wire_recv.ptr,
                              lf->recv, lf->wire_send.ptr, lf->send, lane);
}

static ts_err forward_end(ts_sharding_batch *lf, ts_lane *lane) {
  TS_DO(ts_comm_end(&lf->token, lane));
  return code(lf, lf->sharding->ebc->forward, false, false, lane);
}

static ts_err backward_begin(ts_sharding_batch *lf, ts_lane *lane) {
  ts_sharding *sharding = lf->sharding;
  const ts_codec c = sharding->ebc->backward;
  size_messages(lf, c, lf->recv, lf->send);
  TS_DO(code(lf, c, false, true, lane));
  return ts_comm_all_to_all_v(sharding->back_comm, &lf->token,
                              c == TS_CODEC_F32 ? lf->relay.ptr
                                                : lf->wire_recv.ptr,
                              lf->recv, lf->wire_send.ptr, lf->send, lane);
}

static ts_err backward_end(ts_sharding_batch *lf, ts_lane *lane) {
  ts_sharding *sharding = lf->sharding;
  const ts_nodes *n = sharding->ebc->nodes;
  const ts_codec c = sharding->ebc->backward;
  int64_t parts[ts_node_size(n, sharding->own_block)];
  ts_token gathered;
  size_parts(lf, parts);
  for (int l = 0; l < ts_node_size(n, sharding->own_block); l++) parts[l] *= 4;
  TS_DO(ts_comm_end(&lf->token, lane));
  if (c != TS_CODEC_F32) TS_DO(code(lf, c, true, false, lane));
  TS_DO(ts_comm_all_gather_v(sharding->node_comm, &gathered, lf->out.ptr,
                             lf->relay.ptr, parts, lane));
  return ts_comm_end(&gathered, lane);
}

/* The node reduces among its ranks, in f32; then it crosses, coded. */
static void cost(ts_load *l, const ts_cost *c, double floats) {
  const double inside = 4 * floats * (c->per_node - 1) / c->per_node;
  const double across = floats / c->per_node * (c->n_nodes - 1) / c->n_nodes;
  const double there = across * c->forward_bytes;
  const double back = across * c->backward_bytes;
  /* Relays lay out anew what they receive. */
  const double lay_out = 4 * floats / c->per_node /
                         c->request->topology->stream_gbytes_per_s / TS_COST_GB;
  l->time.output = ts_cost_link_ms(c, TS_LINK_REDUCE_SCATTER, inside, 0) +
                   ts_cost_link_ms(c, TS_LINK_ALL_TO_ALL, 0, there) + lay_out;
  l->time.gradient = ts_cost_link_ms(c, TS_LINK_ALL_GATHER, inside, 0) +
                     ts_cost_link_ms(c, TS_LINK_ALL_TO_ALL, 0, back) + lay_out;
  l->sent.output = inside + there;
  l->sent.gradient = inside + back;
  l->sent.cross = there + back;
}

static void cost_once(ts_load *l, const ts_cost *c) {
  l->time.output = 2 * ts_cost_latency_ms(c, TS_LINK_ALL_TO_ALL);
  l->time.gradient = 2 * ts_cost_latency_ms(c, TS_LINK_ALL_TO_ALL);
}

/* The node's parts, while they are summed; a relay's part of them, and the
 * wire both ways, which is as large. */
static void storage(ts_plan_memory *m, const ts_cost *c, double floats) {
  m->buffers += 4 * floats;
  m->buffers += c->request->n_ebc_batches * TS_STORAGE_GROWTH * 3 * 4 * floats /
                c->per_node;
}

const ts_output_dist ts_output_two_stage = {.name = "two-stage",
                                            .n_blocks = n_blocks,
                                            .block_of = block_of,
                                            .written_by = written_by,
                                            .create = create,
                                            .reserve = reserve,
                                            .scratch = scratch,
                                            .bytes = bytes,
                                            .order = order,
                                            .cost = cost,
                                            .cost_once = cost_once,
                                            .storage = storage,
                                            .forward_begin = forward_begin,
                                            .forward_end = forward_end,
                                            .backward_begin = backward_begin,
                                            .backward_end = backward_end};
