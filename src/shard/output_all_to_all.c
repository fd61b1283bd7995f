/* output_all_to_all.c - each rank pools whole bags (of all or some columns)
 * for everyone: sections go to the samples' ranks, block p comes from rank p.
 * Codecs code what travels and leave a rank's own part as it is coded, too,
 * so that results do not depend on who holds a table. */
#include "shard/cost.h"
#include "shard/wire.h"

static int n_blocks(const ts_ebc *ebc) {
  return ebc->n_ranks;
}

static int block_of(const ts_ebc *ebc, const ts_shard *s) {
  (void)ebc;
  return s->rank;
}

static int written_by(const ts_ebc *ebc, int rank) {
  (void)ebc;
  return rank;
}

static ts_err create(ts_sharding *sharding) {
  return ts_comm_create(sharding->ebc->world, &sharding->comm, TS_GROUP_WORLD,
                        sharding->ops->name);
}

/* Bytes of sections (to each rank) and blocks (from each rank). */
static void size_messages(ts_sharding_batch *lf, ts_codec c, int64_t *sections,
                          int64_t *blocks) {
  const ts_sharding *sharding = lf->sharding;
  const int me = sharding->ebc->rank;
  for (int r = 0; r < sharding->ebc->n_ranks; r++) {
    sections[r] = ts_wire_bytes(lf, c, sharding->own_block, r);
    blocks[r] = ts_wire_bytes(lf, c, r, me);
  }
}

/* The arrays to be coded: the sections that this rank writes (or whose
 * gradients come to it), or the blocks that it receives (whose gradients it
 * sends). */
typedef struct ts_code_arg {
  ts_sharding_batch *lf;
  ts_codec codec;
  float *x;
  char *wire;
  bool sections, encode;
} ts_code_arg;

static ts_err code_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_code_arg *a = p;
  const ts_sharding *sharding = a->lf->sharding;
  const int me = sharding->ebc->rank;
  char *at = a->wire;
  ts_coder coder;
  ts_coder_start(&coder, a->lf, a->codec, a->encode);
  for (int r = 0; r < sharding->ebc->n_ranks; r++) {
    const int block = a->sections ? sharding->own_block : r;
    const int rank = a->sections ? r : me;
    float *x = a->x + (a->sections ? a->lf->section[r] : a->lf->block_at[r]);
    TS_DO(ts_coder_section(&coder, block, rank, x, &at));
  }
  return ts_coder_end(&coder);
}

static ts_err code(ts_sharding_batch *lf, ts_codec codec, float *x, char *wire,
                   bool sections, bool encode, ts_lane *lane) {
  ts_code_arg arg = {lf, codec, x, wire, sections, encode};
  return ts_lane_run(lane, encode ? "encode" : "decode", code_task, arg);
}

static ts_err reserve(ts_sharding_batch *lf) {
  const ts_codec codec[] = {lf->sharding->ebc->forward,
                            lf->sharding->ebc->backward};
  for (int i = 0; i < 2; i++) {
    if (codec[i] == TS_CODEC_F32) continue;
    size_messages(lf, codec[i], lf->send, lf->recv);
    TS_DO(ts_sharding_reserve_wire(lf));
  }
  return TS_OK;
}

static ts_err forward_begin(ts_sharding_batch *lf, ts_lane *lane) {
  const ts_codec c = lf->sharding->ebc->forward;
  size_messages(lf, c, lf->send, lf->recv);
  if (c == TS_CODEC_F32)
    return ts_comm_all_to_all_v(lf->sharding->comm, &lf->token, lf->emb.ptr,
                                lf->recv, lf->out.ptr, lf->send, lane);
  TS_DO(code(lf, c, lf->out.ptr, lf->wire_send.ptr, true, true, lane));
  return ts_comm_all_to_all_v(lf->sharding->comm, &lf->token, lf->wire_recv.ptr,
                              lf->recv, lf->wire_send.ptr, lf->send, lane);
}

static ts_err forward_end(ts_sharding_batch *lf, ts_lane *lane) {
  const ts_codec c = lf->sharding->ebc->forward;
  TS_DO(ts_comm_end(&lf->token, lane));
  if (c != TS_CODEC_F32)
    TS_DO(code(lf, c, lf->emb.ptr, lf->wire_recv.ptr, false, false, lane));
  return TS_OK;
}

static ts_err backward_begin(ts_sharding_batch *lf, ts_lane *lane) {
  const ts_codec c = lf->sharding->ebc->backward;
  size_messages(lf, c, lf->recv, lf->send);
  if (c == TS_CODEC_F32)
    return ts_comm_all_to_all_v(lf->sharding->back_comm, &lf->token,
                                lf->out.ptr, lf->recv, lf->emb.ptr, lf->send,
                                lane);
  TS_DO(code(lf, c, lf->emb.ptr, lf->wire_send.ptr, false, true, lane));
  return ts_comm_all_to_all_v(lf->sharding->back_comm, &lf->token,
                              lf->wire_recv.ptr, lf->recv, lf->wire_send.ptr,
                              lf->send, lane);
}

static ts_err backward_end(ts_sharding_batch *lf, ts_lane *lane) {
  const ts_codec c = lf->sharding->ebc->backward;
  TS_DO(ts_comm_end(&lf->token, lane));
  if (c != TS_CODEC_F32)
    TS_DO(code(lf, c, lf->out.ptr, lf->wire_recv.ptr, true, false, lane));
  return TS_OK;
}

static void cost(ts_load *l, const ts_cost *c, double floats) {
  ts_cost_exchange(l, c, floats, TS_LINK_ALL_TO_ALL, TS_LINK_ALL_TO_ALL);
}

static void cost_once(ts_load *l, const ts_cost *c) {
  l->time.output = l->time.gradient = ts_cost_latency_ms(c, TS_LINK_ALL_TO_ALL);
}

const ts_output_dist ts_output_all_to_all = {.name = "all-to-all",
                                             .n_blocks = n_blocks,
                                             .block_of = block_of,
                                             .written_by = written_by,
                                             .create = create,
                                             .reserve = reserve,
                                             .cost = cost,
                                             .cost_once = cost_once,
                                             .forward_begin = forward_begin,
                                             .forward_end = forward_end,
                                             .backward_begin = backward_begin,
                                             .backward_end = backward_end};
