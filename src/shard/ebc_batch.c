/* ebc_batch.c - one batch on its way through the collection. */
#include "base/mem.h"
#include "shard/message.h"

static ts_err create_arrays(ts_ebc_batch *fl) {
  const ts_ebc *ebc = fl->ebc;
  const int n_ranks = ebc->n_ranks;
  const ts_buffer empty = {.space = TS_SPACE_PINNED,
                           .tag = TS_TAG_COMM,
                           .owned = true,
                           .device = ebc->device};
  fl->send = fl->exchange.recv = empty;
  TS_DO(ts_mem_many(fl->statuses, n_ranks, COMM));
  TS_DO(ts_mem_many(fl->batch, n_ranks, COMM));
  TS_DO(ts_mem_many(fl->send_bytes, n_ranks, COMM));
  TS_DO(ts_mem_many(fl->section_send, 3 * (int64_t)n_ranks, COMM));
  fl->section_recv = fl->section_send + n_ranks;
  fl->section_recv_at = fl->section_recv + n_ranks;
  TS_DO(ts_mem_many(fl->exchange.recv_bytes, n_ranks, COMM));
  TS_DO(ts_mem_many(fl->exchange.recv_at, n_ranks, COMM));
  TS_DO(ts_mem_many(fl->emb, ebc->n_features, MISC));
  TS_DO(ts_mem_many(fl->grad, ebc->n_features, MISC));
  TS_DO(ts_mem_many(fl->stride, ebc->n_features, MISC));
  TS_DO(ts_mem_many(fl->shardings, ebc->n_shardings, MISC));
  TS_DO(ts_mem_many(fl->section_at, ebc->n_routes, COMM));
  TS_DO(ts_mem_many(fl->replica_rows, (int64_t)(n_ranks + 1) * ebc->n_replicas,
                    COMM));
  TS_DO(ts_input_create(fl));
  TS_DO(ts_bags_create(fl));
  return ts_send_create(fl);
}

ts_err ts_ebc_batch_create(ts_ebc_batch **out, ts_ebc *ebc, int32_t batch_max,
                           bool trains) {
  ts_err err = TS_OK;
  ts_ebc_batch *fl = NULL;
  TS_TRY(ts_mem_alloc(&fl, sizeof *fl, TS_TAG_MISC));
  fl->ebc = ebc;
  fl->batch_max = batch_max;
  fl->sorts = trains && ts_device_is_discrete(ebc->device);
  TS_TRY(create_arrays(fl));
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    TS_TRY(ts_sharding_batch_create(&fl->shardings[l], &ebc->shardings[l], fl));
  if (ebc->batch_max) TS_TRY(ts_ebc_batch_expect(fl));
  *out = fl;
  fl = NULL;
done:
  ts_ebc_batch_destroy(fl);
  return err;
}

void ts_ebc_batch_destroy(ts_ebc_batch *fl) {
  if (!fl) return;
  for (int32_t l = 0; fl->shardings && l < fl->ebc->n_shardings; l++)
    if (fl->shardings[l].sharding) ts_sharding_batch_reset(&fl->shardings[l]);
  ts_bags_destroy(fl);
  ts_send_destroy(fl);
  ts_buffer_reset(&fl->send);
  ts_buffer_reset(&fl->exchange.recv);
  ts_buffer_reset(&fl->arrived);
  ts_buffer_reset(&fl->list);
  ts_buffer_reset(&fl->list_copy);
  ts_pool_reset(&fl->pool);
  void *arrays[] = {fl->statuses,
                    fl->batch,
                    fl->send_bytes,
                    fl->section_send,
                    fl->exchange.recv_bytes,
                    fl->exchange.recv_at,
                    fl->section_at,
                    fl->replica_rows,
                    fl->sections,
                    fl->emb,
                    fl->grad,
                    fl->stride,
                    fl->shardings};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    ts_mem_free(arrays[i]);
  ts_mem_free(fl);
}

void ts_ebc_batch_uploaded(ts_ebc_batch *fl, const void *from, size_t bytes,
                           const void *at) {
  fl->uploaded = (struct ts_uploaded){from, at, bytes};
}

/* The device is done with what describes the batch before to it, and an error
 * that it has found there is told to all ranks as this one's. */
static void judge_before(ts_ebc_batch *fl) {
  const ts_err err = ts_input_judge(fl);
  if (err == TS_OK) return;
  if (fl->own.err == TS_OK) {
    fl->own.err = err;
    ts_err_take(&fl->fault);
  }
  ts_err_clear();
}

ts_err ts_ebc_input_begin(ts_ebc_batch *fl, const ts_kjt *kjt,
                          const ts_status *status, ts_lane *data) {
  const bool counts = fl->ebc->counts;
  fl->kjt = kjt;
  fl->own = *status;
  fl->exchange.send_bytes = fl->send_bytes;
  fl->exchange.rooms = &fl->ebc->input_rooms;
  if (counts) judge_before(fl);
  TS_DO(ts_lane_run(data, "input pack", ts_input_pack, fl));
  return ts_comm_exchange(fl->ebc->input_comm, &fl->token, &fl->exchange,
                          counts ? NULL : data);
}

ts_err ts_ebc_statuses(ts_ebc_batch *fl, const ts_status **all) {
  TS_DO(ts_event_sync(fl->token.done));
  TS_DO(ts_input_statuses(fl));
  *all = fl->statuses;
  return TS_OK;
}

const ts_status *ts_ebc_known_statuses(const ts_ebc_batch *fl) {
  return fl->statuses;
}

/* Numbers of ids are known when the task runs, behind unpack. */
static ts_err sort_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ebc_batch *fl = *(ts_ebc_batch **)arg;
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++) {
    const ts_sharding_batch *lf = &fl->shardings[l];
    for (int32_t g = 0; g < lf->sharding->n_groups; g++)
      TS_DO(ts_tbe_sort_ahead(lf->sharding->groups[g].tbe, &lf->inputs[g]));
  }
  return TS_OK;
}

/* The rows of its ids are there. */
static ts_err unpacked(ts_ebc_batch *fl, ts_lane *data) {
  if (fl->sorts) TS_DO(ts_lane_run(data, "sort rows", sort_task, fl));
  fl->unpacked = ts_lane_record(data);
  return TS_OK;
}

ts_err ts_ebc_input_end(ts_ebc_batch *fl, ts_lane *data) {
  TS_DO(ts_comm_end(&fl->token, data));
  if (fl->ebc->section_comm) TS_DO(ts_input_sections(fl, data));
  TS_DO(ts_lane_run(data, "input unpack", ts_input_unpack, fl));
  return unpacked(fl, data);
}

ts_err ts_ebc_place_again(ts_ebc_batch *fl, ts_lane *data) {
  TS_DO(ts_lane_run(data, "place again", ts_dynamic_again, fl));
  return unpacked(fl, data);
}

/* Pointers for the model, which hold for this batch's sizes. */
static void point(ts_ebc_batch *fl) {
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++) {
    ts_sharding_batch *lf = &fl->shardings[l];
    ts_sharding_point(lf);
    for (int32_t i = 0; i < lf->sharding->n_views; i++) {
      const int32_t f = lf->sharding->views[i].feature;
      fl->emb[f] = fl->grad[f] = lf->emb_ptr[i];
      fl->stride[f] = lf->stride[i];
    }
  }
}

/* Counts the bytes that input dist sent, and those that it would have sent
 * without short forms of rows and lengths. */
static void count_input(ts_ebc_batch *fl) {
  ts_ebc_stat *stat = &fl->ebc->stat;
  for (int r = 0; r < fl->ebc->n_ranks; r++)
    stat->input_coded += fl->send_bytes[r] + fl->section_send[r];
  for (int32_t i = 0; fl->own.n > 0 && i < fl->ebc->n_routes; i++) {
    const ts_route *route = &fl->ebc->routes[i];
    const int64_t n = fl->route_count[i] >> TS_FORM_BITS;
    stat->input_raw += n * (route->weighted || route->positions ? 12 : 8) +
                       4 * (int64_t)fl->own.n;
  }
}

/* Bytes of embeddings that this rank sends with codec C. */
static int64_t output_bytes(const ts_sharding_batch *lf, ts_codec c) {
  const ts_sharding *sharding = lf->sharding;
  int64_t bytes = 0;
  if (sharding->output == &ts_output_local) return 0;
  if (sharding->output->bytes) return sharding->output->bytes(lf, c);
  for (int r = 0; r < sharding->ebc->n_ranks; r++)
    bytes += ts_wire_bytes(lf, c, sharding->own_block, r);
  return bytes;
}

/* Gradients take the same ways back. */
static void count_output(const ts_sharding_batch *lf) {
  ts_ebc *ebc = lf->sharding->ebc;
  const int64_t raw = output_bytes(lf, TS_CODEC_F32);
  ebc->stat.forward_raw += raw;
  ebc->stat.forward_coded += output_bytes(lf, ebc->forward);
  ebc->stat.backward_raw += raw;
  ebc->stat.backward_coded += output_bytes(lf, ebc->backward);
}

/* Calls FN for the inputs of all groups of a sharding. */
static ts_err each_of_lot(ts_sharding_batch *lf, ts_lane *lane,
                          ts_err (*fn)(ts_tbe *, const ts_tbe_input *,
                                       ts_lane *)) {
  for (int32_t g = 0; g < lf->sharding->n_groups; g++)
    TS_DO(fn(lf->sharding->groups[g].tbe, &lf->inputs[g], lane));
  return TS_OK;
}

static ts_err each_input(ts_ebc_batch *fl, ts_lane *lane,
                         ts_err (*fn)(ts_tbe *, const ts_tbe_input *,
                                      ts_lane *)) {
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    TS_DO(each_of_lot(&fl->shardings[l], lane, fn));
  return TS_OK;
}

ts_err ts_ebc_prefetch(ts_ebc_batch *fl, ts_lane *lane) {
  TS_DO(ts_input_await(fl));
  TS_DO(ts_lane_wait(lane, fl->unpacked));
  return each_input(fl, lane, ts_tbe_prefetch);
}

ts_err ts_ebc_refresh(ts_ebc_batch *fl, ts_lane *lane) {
  return each_input(fl, lane, ts_tbe_refresh);
}

ts_err ts_ebc_release(ts_ebc_batch *fl, ts_lane *lane) {
  return each_input(fl, lane, ts_tbe_release);
}

ts_err ts_ebc_input_wait(ts_ebc_batch *fl) {
  return ts_input_judge(fl);
}

ts_err ts_ebc_lookup_begin(ts_ebc_batch *fl, ts_lane *lane) {
  /* Numbers of ids that arrived are needed on the host. */
  TS_DO(ts_input_await(fl));
  TS_DO(ts_lane_wait(lane, fl->unpacked));
  point(fl);
  count_input(fl);
  return TS_OK;
}

ts_err ts_ebc_lookup_sharding(ts_ebc_batch *fl, int32_t sharding,
                              ts_lane *lane) {
  ts_sharding_batch *lf = &fl->shardings[sharding];
  for (int32_t g = 0; g < lf->sharding->n_groups; g++)
    fl->ebc->stat.n_ids += lf->inputs[g].n_ids;
  count_output(lf);
  return ts_sharding_forward(lf, lane);
}

ts_err ts_ebc_lookup(ts_ebc_batch *fl, ts_lane *lane) {
  TS_DO(ts_ebc_lookup_begin(fl, lane));
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    TS_DO(ts_ebc_lookup_sharding(fl, l, lane));
  return TS_OK;
}

ts_err ts_ebc_output_end(ts_ebc_batch *fl, ts_lane *compute) {
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    TS_DO(ts_sharding_forward_end(&fl->shardings[l], compute));
  return TS_OK;
}

const float *const *ts_ebc_batch_emb(ts_ebc_batch *fl) {
  return fl->emb;
}
float *const *ts_ebc_batch_grad(ts_ebc_batch *fl) {
  return fl->grad;
}
const ts_spread *ts_ebc_batch_spread(const ts_ebc_batch *fl, int32_t f) {
  return fl->ebc->once[f] ? &fl->bags[f].spread : NULL;
}

int32_t ts_ebc_batch_rows(const ts_ebc_batch *fl, int32_t f) {
  return fl->bags[f].n_out;
}

/* As aligned as a buffer of its own, and no neighbour of the next one. */
static size_t apart(const ts_buffer *b) {
  return (b->bytes / 64 + 2) * 64;
}

ts_err ts_ebc_batch_apart(ts_ebc_batch *fl, ts_buffer *room, float **grad) {
  size_t at = 0, total = 0;
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    total += apart(&fl->shardings[l].emb) + apart(&fl->shardings[l].views);
  TS_DO(ts_buffer_reserve(room, total));
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++) {
    const ts_sharding_batch *lf = &fl->shardings[l];
    for (int32_t i = 0; i < lf->sharding->n_views; i++) {
      const ts_view *v = &lf->sharding->views[i];
      const ts_buffer *whole = v->assembled ? &lf->views : &lf->emb;
      const size_t base = at + (v->assembled ? apart(&lf->emb) : 0);
      grad[v->feature] = (float *)(void *)((char *)room->ptr + base) +
                         (lf->emb_ptr[i] - (float *)whole->ptr);
    }
    at += apart(&lf->emb) + apart(&lf->views);
  }
  return TS_OK;
}

const int64_t *ts_ebc_batch_stride(ts_ebc_batch *fl) {
  return fl->stride;
}

ts_err ts_ebc_backward_begin(ts_ebc_batch *fl, ts_lane *compute) {
  for (int32_t l = 0; l < fl->ebc->n_shardings; l++)
    TS_DO(ts_sharding_backward_begin(&fl->shardings[l], compute));
  return TS_OK;
}

ts_err ts_ebc_backward_end(ts_ebc_batch *fl, double lr_factor, int64_t pass,
                           const ts_ebc_updated *then, ts_lane *compute) {
  const ts_ebc *ebc = fl->ebc;
  TS_DO(ts_processors_begin(fl->ebc, compute));
  for (int32_t l = 0; l < ebc->n_shardings; l++) {
    TS_DO(
        ts_sharding_backward_end(&fl->shardings[l], lr_factor, pass, compute));
    TS_DO(each_of_lot(&fl->shardings[l], compute, ts_tbe_release));
    if (then && !ebc->shardings[l].late) TS_DO(then->call(then->arg, l));
  }
  if (!ebc->more)
    TS_DO(ts_dense_rows_update(fl->ebc, lr_factor, pass, compute));
  for (int32_t l = 0; then && l < ebc->n_shardings; l++)
    if (ebc->shardings[l].late) TS_DO(then->call(then->arg, l));
  return ts_processors_end(fl->ebc, compute);
}
