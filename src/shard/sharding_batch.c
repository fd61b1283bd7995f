/* sharding_batch.c - what a sharding needs for one batch, and the order of its
 * work. */
#include <string.h>

#include "base/mem.h"
#include "shard/ebc_batch.h"
#include "shard/unpack.h"

static ts_err create_inputs(ts_sharding_batch *lf) {
  const int32_t n = lf->sharding->n_groups;
  const ts_buffer empty = {.space = TS_SPACE_DEVICE,
                           .tag = TS_TAG_SPARSE,
                           .owned = true,
                           .device = lf->sharding->ebc->device};
  ts_buffer **arrays[TS_GROUP_BUFFERS];
  ts_sharding_group_buffers(lf, arrays);
  TS_DO(ts_mem_many(lf->inputs, n, MISC));
  TS_DO(ts_mem_many(lf->holds, n, MISC));
  TS_DO(ts_mem_many(lf->sorted, n, MISC));
  TS_DO(ts_mem_many(lf->unpack, n, MISC));
  for (int32_t g = 0; g < n; g++) lf->holds[g].slots = empty;
  for (int i = 0; i < TS_GROUP_BUFFERS; i++) {
    TS_DO(ts_mem_array(arrays[i], n, sizeof(ts_buffer), TS_TAG_MISC));
    for (int32_t g = 0; g < n; g++) (*arrays[i])[g] = empty;
  }
  for (int32_t g = 0; g < n; g++) lf->starts[g].space = TS_SPACE_HOST;
  return TS_OK;
}

void ts_sharding_group_buffers(ts_sharding_batch *lf, ts_buffer ***out) {
  ts_buffer **all[TS_GROUP_BUFFERS] = {
      &lf->starts,  &lf->offsets,   &lf->at,           &lf->rows,
      &lf->weights, &lf->positions, &lf->weight_grads, &lf->keys,
      &lf->order,   &lf->runs,      &lf->bag_of,       &lf->bag_scale};
  memcpy(out, all, sizeof all);
}

int ts_sharding_batch_buffers(ts_sharding_batch *lf, ts_buffer **out) {
  ts_buffer *all[TS_SHARDING_BUFFERS] = {
      &lf->out,       &lf->emb,       &lf->views,  &lf->relay,
      &lf->wire_send, &lf->wire_recv, &lf->bundle, &lf->exchange.recv};
  memcpy(out, all, sizeof all);
  return TS_SHARDING_BUFFERS;
}

/* Empty: they get their sizes in expect_batch.c, or with the batch. */
static void create_matrices(ts_sharding_batch *lf) {
  enum { MATRICES = 3 };
  ts_buffer *all[TS_SHARDING_BUFFERS];
  const int n = ts_sharding_batch_buffers(lf, all);
  for (int i = 0; i < n; i++)
    *all[i] =
        (ts_buffer){.space = TS_SPACE_DEVICE,
                    .tag = i < MATRICES ? TS_TAG_ACTIVATIONS : TS_TAG_COMM,
                    .owned = true,
                    .device = lf->sharding->ebc->device};
}

static ts_err create_geometry(ts_sharding_batch *lf) {
  const ts_sharding *sharding = lf->sharding;
  const int64_t w = sharding->ebc->n_ranks, p = sharding->n_pieces,
                v = sharding->n_views;
  TS_DO(ts_mem_many(lf->count, w * p, MISC));
  TS_DO(ts_mem_many(lf->section, w, MISC));
  TS_DO(ts_mem_many(lf->sizes, w, MISC));
  TS_DO(ts_mem_many(lf->write_at, w * p, MISC));
  TS_DO(ts_mem_many(lf->block_at, sharding->n_blocks + 1, MISC));
  TS_DO(ts_mem_many(lf->piece_at, p, MISC));
  TS_DO(ts_mem_many(lf->send, w, MISC));
  TS_DO(ts_mem_many(lf->recv, w, MISC));
  TS_DO(ts_mem_many(lf->emb_ptr, v, MISC));
  TS_DO(ts_mem_many(lf->stride, v, MISC));
  if (sharding->ops->split_rows && !sharding->sequence)
    TS_DO(ts_buffer_create(&lf->inverse_room, sharding->ebc->device,
                           (size_t)(v * lf->ebc_batch->batch_max) * 4,
                           TS_SPACE_DEVICE, TS_TAG_SPARSE));
  lf->inverse = lf->inverse_room.ptr;
  return TS_OK;
}

static ts_err create_messages(ts_sharding_batch *lf) {
  const int32_t n = lf->sharding->n_groups;
  const int n_ranks = lf->sharding->ebc->n_ranks;
  TS_DO(ts_mem_many(lf->message, n, COMM));
  TS_DO(ts_mem_many(lf->message_bytes, n, COMM));
  TS_DO(ts_mem_many(lf->bundle_bytes, n_ranks, COMM));
  TS_DO(ts_mem_many(lf->exchange.recv_bytes, n_ranks, COMM));
  TS_DO(ts_mem_many(lf->exchange.recv_at, n_ranks, COMM));
  lf->exchange.rooms = &lf->sharding->rooms;
  TS_DO(ts_mem_many(lf->arrived, (int64_t)n * n_ranks, COMM));
  return ts_mem_many(lf->arrived_bytes, (int64_t)n * n_ranks, COMM);
}

ts_err ts_sharding_batch_create(ts_sharding_batch *lf, ts_sharding *sharding,
                                ts_ebc_batch *fl) {
  lf->sharding = sharding;
  lf->ebc_batch = fl;
  TS_DO(create_inputs(lf));
  create_matrices(lf);
  TS_DO(create_geometry(lf));
  return create_messages(lf);
}

void ts_sharding_batch_reset(ts_sharding_batch *lf) {
  ts_buffer **groups[TS_GROUP_BUFFERS];
  ts_buffer *buffers[TS_SHARDING_BUFFERS];
  const int n_buffers = ts_sharding_batch_buffers(lf, buffers);
  void *arrays[] = {lf->inputs,
                    lf->count,
                    lf->section,
                    lf->sizes,
                    lf->write_at,
                    lf->block_at,
                    lf->piece_at,
                    lf->send,
                    lf->recv,
                    lf->emb_ptr,
                    lf->stride,
                    lf->unpack,
                    lf->message,
                    lf->message_bytes,
                    lf->bundle_bytes,
                    lf->exchange.recv_bytes,
                    lf->exchange.recv_at,
                    lf->arrived,
                    lf->arrived_bytes,
                    lf->holds,
                    lf->sorted};
  ts_sharding_group_buffers(lf, groups);
  for (int i = 0; i < TS_GROUP_BUFFERS; i++) {
    for (int32_t g = 0; *groups[i] && g < lf->sharding->n_groups; g++)
      ts_buffer_reset(&(*groups[i])[g]);
    ts_mem_free(*groups[i]);
  }
  for (int32_t g = 0; lf->holds && g < lf->sharding->n_groups; g++)
    ts_buffer_reset(&lf->holds[g].slots);
  for (int i = 0; i < n_buffers; i++) ts_buffer_reset(buffers[i]);
  ts_buffer_reset(&lf->inverse_room);
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    ts_mem_free(arrays[i]);
  *lf = (ts_sharding_batch){0};
}

/* ---- the work ------------------------------------------------------------ */

/* Zeroes what is sent: parts that no group of this rank writes would still hold
 * an earlier batch's embeddings. */
static ts_err clear_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_sharding_batch *lf = *(ts_sharding_batch **)arg;
  return lf->sharding->ebc->kernels->zero(lf->out.ptr,
                                          (size_t)lf->n_written * 4);
}

ts_err ts_sharding_forward(ts_sharding_batch *lf, ts_lane *lane) {
  const ts_sharding *sharding = lf->sharding;
  if (sharding->holes) TS_DO(ts_lane_run(lane, "clear", clear_task, lf));
  TS_DO(ts_sharding_weigh(lf, lane));
  for (int32_t g = 0; g < sharding->n_groups; g++)
    TS_DO(ts_tbe_forward(sharding->groups[g].tbe, lf->out.ptr, &lf->inputs[g],
                         lane));
  return sharding->output->forward_begin(lf, lane);
}

ts_err ts_sharding_forward_end(ts_sharding_batch *lf, ts_lane *lane) {
  TS_DO(lf->sharding->output->forward_end(lf, lane));
  return ts_sharding_assemble(lf, lane);
}

ts_err ts_sharding_backward_begin(ts_sharding_batch *lf, ts_lane *lane) {
  TS_DO(ts_sharding_disassemble(lf, lane));
  TS_DO(lf->sharding->output->backward_begin(lf, lane));
  if (!lf->sharding->ops->remote && lf->sharding->comm &&
      !lf->sharding->ebc->more)
    TS_DO(ts_replicas_begin(lf, lane));
  return TS_OK;
}

/* A micro-batch whose step goes on. */
static ts_err keep(ts_sharding_batch *lf, ts_lane *lane) {
  const ts_sharding *sharding = lf->sharding;
  if (sharding->ops->remote || !sharding->comm)
    TS_DO(sharding->output->backward_end(lf, lane));
  TS_DO(ts_sharding_weight_grads(lf, lane));
  for (int32_t g = 0; g < sharding->n_groups; g++)
    TS_DO(ts_tbe_keep(sharding->groups[g].tbe, lf->out.ptr, &lf->inputs[g],
                      lane));
  return TS_OK;
}

ts_err ts_sharding_backward_end(ts_sharding_batch *lf, double lr_factor,
                                int64_t pass, ts_lane *lane) {
  const ts_sharding *sharding = lf->sharding;
  if (sharding->ebc->more) return keep(lf, lane);
  if (!sharding->ops->remote && sharding->comm) {
    TS_DO(ts_sharding_weight_grads(lf, lane));
    return ts_replicas_end(lf, lr_factor, pass, lane);
  }
  TS_DO(sharding->output->backward_end(lf, lane));
  TS_DO(ts_sharding_weight_grads(lf, lane));
  for (int32_t g = 0; g < sharding->n_groups; g++)
    if (sharding->groups[g].dense)
      TS_DO(ts_dense_rows_add(sharding->groups[g].dense, lf->out.ptr,
                              &lf->inputs[g], lane));
    else if (!sharding->columns || !sharding->groups[g].columns)
      TS_DO(ts_tbe_backward(sharding->groups[g].tbe, lf->out.ptr,
                            &lf->inputs[g], lr_factor, pass, lane));
  if (sharding->columns) TS_DO(ts_columns_backward(lf, lr_factor, pass, lane));
  return TS_OK;
}
