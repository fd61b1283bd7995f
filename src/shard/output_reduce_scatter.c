/* output_reduce_scatter.c - every rank pools what it holds of every bag; the
 * parts are summed in rank order where the samples are.  Gradients are
 * gathered by all.
 *
 * With a codec the parts travel by all-to-all as they are coded and are
 * summed here, in f32 and in rank order: nothing is rounded twice. */
#include "shard/cost.h"
#include "shard/wire.h"

static ts_err create(ts_sharding *sharding) {
  return ts_comm_create(sharding->ebc->world, &sharding->comm, TS_GROUP_WORLD,
                        sharding->ops->name);
}

/* Codes this rank's part of every rank's samples. */
static ts_err code_sections(ts_sharding_batch *lf, ts_codec c, bool encode,
                            char *wire) {
  ts_coder coder;
  ts_coder_start(&coder, lf, c, encode);
  for (int r = 0; r < lf->sharding->ebc->n_ranks; r++)
    TS_DO(ts_coder_section(&coder, 0, r, (float *)lf->out.ptr + lf->section[r],
                           &wire));
  return ts_coder_end(&coder);
}

/* This rank's own samples: the sum of N_PARTS, or one. */
static ts_err code_own(ts_sharding_batch *lf, ts_codec c, bool encode,
                       char *wire, int n_parts) {
  const int me = lf->sharding->ebc->rank;
  ts_coder coder;
  ts_coder_start(&coder, lf, c, encode);
  coder.args.n_parts = n_parts;
  coder.args.part_bytes = ts_wire_bytes(lf, c, 0, me);
  TS_DO(ts_coder_section(&coder, 0, me, lf->emb.ptr, &wire));
  return ts_coder_end(&coder);
}

static ts_err encode_sections(void *p, ts_lane *lane) {
  (void)lane;
  ts_sharding_batch *lf = *(ts_sharding_batch **)p;
  return code_sections(lf, lf->sharding->ebc->forward, true, lf->wire_send.ptr);
}

static ts_err sum_parts(void *p, ts_lane *lane) {
  (void)lane;
  ts_sharding_batch *lf = *(ts_sharding_batch **)p;
  const ts_ebc *ebc = lf->sharding->ebc;
  return code_own(lf, ebc->forward, false, lf->wire_recv.ptr, ebc->n_ranks);
}

static ts_err encode_grads(void *p, ts_lane *lane) {
  (void)lane;
  ts_sharding_batch *lf = *(ts_sharding_batch **)p;
  return code_own(lf, lf->sharding->ebc->backward, true, lf->wire_send.ptr, 1);
}

static ts_err decode_grads(void *p, ts_lane *lane) {
  (void)lane;
  ts_sharding_batch *lf = *(ts_sharding_batch **)p;
  return code_sections(lf, lf->sharding->ebc->backward, false,
                       lf->wire_recv.ptr);
}

static void size_forward(ts_sharding_batch *lf) {
  const ts_ebc *ebc = lf->sharding->ebc;
  for (int r = 0; r < ebc->n_ranks; r++) {
    lf->send[r] = ts_wire_bytes(lf, ebc->forward, 0, r);
    lf->recv[r] = ts_wire_bytes(lf, ebc->forward, 0, ebc->rank);
  }
}

static void size_backward(ts_sharding_batch *lf) {
  const ts_ebc *ebc = lf->sharding->ebc;
  for (int r = 0; r < ebc->n_ranks; r++)
    lf->recv[r] = ts_wire_bytes(lf, ebc->backward, 0, r);
}

static ts_err reserve(ts_sharding_batch *lf) {
  const ts_ebc *ebc = lf->sharding->ebc;
  size_forward(lf);
  if (ebc->forward != TS_CODEC_F32) TS_DO(ts_sharding_reserve_wire(lf));
  size_backward(lf);
  if (ebc->backward != TS_CODEC_F32) TS_DO(ts_sharding_reserve_wire(lf));
  return TS_OK;
}

static ts_err scratch(ts_sharding_batch *lf) {
  const ts_ebc *ebc = lf->sharding->ebc;
  if (ebc->forward != TS_CODEC_F32) return TS_OK;
  return ts_comm_reserve(lf->sharding->comm,
                         lf->sizes[ebc->rank] * 4 * ebc->n_ranks);
}

static ts_err forward_begin(ts_sharding_batch *lf, ts_lane *lane) {
  if (lf->sharding->ebc->forward == TS_CODEC_F32)
    return ts_comm_reduce_scatter_v(lf->sharding->comm, &lf->token, lf->emb.ptr,
                                    lf->out.ptr, lf->sizes, TS_F32, lane);
  size_forward(lf);
  TS_DO(ts_lane_run(lane, "encode", encode_sections, lf));
  return ts_comm_all_to_all_v(lf->sharding->comm, &lf->token, lf->wire_recv.ptr,
                              lf->recv, lf->wire_send.ptr, lf->send, lane);
}

static ts_err forward_end(ts_sharding_batch *lf, ts_lane *lane) {
  TS_DO(ts_comm_end(&lf->token, lane));
  if (lf->sharding->ebc->forward != TS_CODEC_F32)
    TS_DO(ts_lane_run(lane, "decode", sum_parts, lf));
  return TS_OK;
}

static ts_err backward_begin(ts_sharding_batch *lf, ts_lane *lane) {
  size_backward(lf);
  if (lf->sharding->ebc->backward == TS_CODEC_F32)
    return ts_comm_all_gather_v(lf->sharding->back_comm, &lf->token,
                                lf->out.ptr, lf->emb.ptr, lf->recv, lane);
  TS_DO(ts_lane_run(lane, "encode", encode_grads, lf));
  return ts_comm_all_gather_v(lf->sharding->back_comm, &lf->token,
                              lf->wire_recv.ptr, lf->wire_send.ptr, lf->recv,
                              lane);
}

static ts_err backward_end(ts_sharding_batch *lf, ts_lane *lane) {
  TS_DO(ts_comm_end(&lf->token, lane));
  if (lf->sharding->ebc->backward != TS_CODEC_F32)
    TS_DO(ts_lane_run(lane, "decode", decode_grads, lf));
  return TS_OK;
}

static void cost(ts_load *l, const ts_cost *c, double floats) {
  ts_cost_exchange(l, c, floats, TS_LINK_REDUCE_SCATTER, TS_LINK_ALL_GATHER);
}

static void cost_once(ts_load *l, const ts_cost *c) {
  l->time.output = ts_cost_latency_ms(c, TS_LINK_REDUCE_SCATTER);
  l->time.gradient = ts_cost_latency_ms(c, TS_LINK_ALL_GATHER);
}

/* Everyone's parts, while they are summed. */
static void storage(ts_plan_memory *m, const ts_cost *c, double floats) {
  (void)c;
  m->buffers += 4 * floats;
}

const ts_output_dist ts_output_reduce_scatter = {.name = "reduce-scatter",
                                                 .create = create,
                                                 .reserve = reserve,
                                                 .scratch = scratch,
                                                 .cost = cost,
                                                 .cost_once = cost_once,
                                                 .storage = storage,
                                                 .forward_begin = forward_begin,
                                                 .forward_end = forward_end,
                                                 .backward_begin =
                                                     backward_begin,
                                                 .backward_end = backward_end};
