/* test_upload_input.c - loader, upload, input dist and lookup on a device
 * apart: the host's embeddings bit by bit, whatever the input's layout, with
 * micro-batches, and with a batch that changes as soon as it is copied; a
 * batch goes up while the one before computes.  On the fake device unless
 * TESSERA_BACKEND says otherwise.
 * ranks: 1 2 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/harness.h"
#include "io/deck.h"
#include "runtime/device_impl.h"
#include "runtime/trace.h"
#include "shard/ebc_batch.h"
#include "train/trainer.h"
#include "tests/train/upload_source.h"

/* Over 2 ranks the last batch of an epoch has a sample on one alone. */
enum { GLOBAL = 24, SAMPLES = 2 * GLOBAL + 1, STEPS = 5, MOST = 1 << 16 };

typedef struct run {
  ts_config *config;
  ts_trainer t;
  ts_source source;
  ts_loader *loader;
  int n_batches;
  /* Embeddings and what model and loss read, of all batches in order. */
  float *out;
  int64_t n;
} run;

static void start_trainer(run *r, bool host) {
  ts_trainer *t = &r->t;
  const ts_config *c = r->config;
  const ts_device_options d = {.n_threads = 1, .timeout_s = 60};
  const ts_world_options w = {.ordered = true, .timeout_s = 60};
  t->config = c;
  if (host) {
    ck_assert_ok(ts_device_create(&t->device, "host", &d));
    ck_assert_ok(ts_kernels_fill(&t->kernels, "host", NULL));
  } else {
    ck_assert_ok(ts_test_device(&t->device, false, 1));
    ck_assert_ok(ts_test_kernels(&t->kernels));
  }
  ck_assert_ok(ts_world_create(&t->world, t->device, &w));
  ck_assert_ok(
      ts_comm_create_host(t->world, &t->control, TS_GROUP_WORLD, "control"));
  ck_assert_ok(
      ts_lane_create(t->device, &t->compute, "compute", TS_LANE_COMPUTE));
  ck_assert_ok(ts_lane_create(t->device, &t->data, "data", TS_LANE_DATA));
  ck_assert_ok(ts_uploads_create(&t->uploads, t->device));
  t->rank = ts_world_rank(t->world);
  t->n_ranks = ts_world_size(t->world);
  t->batch_max = GLOBAL;
  t->n_inflight = 2;
}

static void start(run *r, bool host, const char *const *sets, int n) {
  static double pooling[16];
  ts_trainer *t = &r->t;
  memset(r, 0, sizeof *r);
  ck_assert_ok(us_config_create(&r->config, sets, n));
  start_trainer(r, host);
  ck_assert_ok(ts_nodes_create(&t->nodes, t->n_ranks, 0, NULL));
  ck_assert_ok(ts_plan_make(&t->plan, r->config, t->nodes));
  ck_assert_ok(ts_ebc_create(&t->ebc, r->config, t->plan, t->nodes, t->world,
                             t->device, &t->kernels));
  us_source_start(&r->source, r->config, SAMPLES);
  for (int k = 0; k < 16; k++) pooling[k] = 3;
  ck_assert_ok(ts_ebc_expect(t->ebc, t->batch_max, pooling));
  if (t->uploads) ts_ebc_expect_uploaded(t->ebc);
  ck_assert_ok(ts_ebc_init(t->ebc));
  for (int k = 0; k < 2; k++) {
    ck_assert_ok(ts_ebc_batch_create(&t->inflight[k].ebc_batch, t->ebc,
                                     t->batch_max, true));
    if (r->config->run.accumulate > 1)
      ck_assert_ok(
          ts_micro_create(&t->inflight[k].micro, ts_ebc_n_features(t->ebc)));
  }
  const ts_loader_options o = {.global_batch = GLOBAL,
                               .max_steps = STEPS,
                               .rank = t->rank,
                               .n_ranks = t->n_ranks,
                               .depth = 3,
                               .device = t->device,
                               .pooling = pooling};
  ck_assert_ok(ts_loader_create(&r->loader, &r->source, &o, NULL));
  ck_assert_ok(ts_trainer_expect_batches(t, ts_loader_batch_bytes(r->loader)));
  r->out = calloc(MOST, sizeof *r->out);
  ck_assert_ptr_nonnull(r->out);
}

static void stop(run *r) {
  ts_trainer *t = &r->t;
  for (int k = 0; k < 2; k++) {
    ts_ebc_batch_destroy(t->inflight[k].ebc_batch);
    ts_micro_destroy(t->inflight[k].micro);
  }
  ts_uploads_destroy(t->uploads);
  ts_ebc_destroy(t->ebc);
  ts_plan_destroy(t->plan);
  ts_nodes_destroy(t->nodes);
  ts_loader_destroy(r->loader);
  ts_lane_destroy(t->data);
  ts_lane_destroy(t->compute);
  ts_comm_destroy(t->control);
  ts_world_destroy(t->world);
  ts_device_destroy(t->device);
  ts_deck_destroy(r->config);
  free(r->out);
}

/* ---- a batch ------------------------------------------------------------- */

static void put(run *r, const float *at, int64_t n) {
  const size_t bytes = (size_t)n * sizeof *at;
  ck_assert_int_le(r->n + n, MOST);
  if (!bytes) return;
  float *x = ts_test_borrow(r->t.device, at, bytes);
  memcpy(r->out + r->n, x, bytes);
  ts_test_return(r->t.device, at, x, bytes, false);
  r->n += n;
}

static void put_seen(run *r, const ts_inflight *c) {
  const ts_batch *b = c->batch;
  if (!b) return;
  put(r, c->inputs.dense, (int64_t)b->n * b->n_dense);
  put(r, c->inputs.labels, (int64_t)b->n * b->n_tasks);
  put(r, c->inputs.weights, b->n);
}

/* Rows of feature F that the model sees, of sequences as many as ids. */
static int64_t rows_of(const run *r, const ts_inflight *c, int32_t f) {
  const ts_ebc *ebc = r->t.ebc;
  return r->config->tables[ebc->feature_table[f]].pooling == TS_POOL_NONE
             ? c->batch->kjt.features[f].n_ids
             : c->batch->n;
}

static void look_up(run *r, ts_inflight *c) {
  ts_trainer *t = &r->t;
  ck_assert_ok(ts_stage_check(t, c));
  ck_assert_ok(ts_stage_lookup(t, c, t->compute));
  ck_assert_ok(ts_ebc_output_end(c->ebc_batch, t->compute));
  ck_assert_ok(ts_ebc_release(c->ebc_batch, t->compute));
  ck_assert_ok(ts_lane_sync(t->compute));
  for (int32_t f = 0; f < ts_ebc_n_features(t->ebc); f++) {
    const float *emb = ts_ebc_batch_emb(c->ebc_batch)[f];
    const int64_t stride = ts_ebc_batch_stride(c->ebc_batch)[f];
    for (int64_t b = 0; b < rows_of(r, c, f); b++) put(r, emb + b * stride, 8);
  }
}

/* A source may change once it is copied: here at once, later when the loader
 * reads on. */
static void spoil(const run *r, const ts_inflight *c) {
  if (!c->upload || c->more) return;
  ck_assert_ok(ts_event_sync(c->copied));
  memset((void *)(uintptr_t)c->batch->arena, 0xee, c->batch->arena_bytes);
  ck_assert(ts_device_is_discrete(r->t.device));
}

static void begin(run *r, ts_inflight *c) {
  ts_stage_load(&r->t, c, r->loader);
  ck_assert_ok(ts_stage_input_begin(&r->t, c, 0));
  spoil(r, c);
}

/* All of the data: ids of the next batch travel during a lookup. */
static void go(run *r) {
  ts_trainer *t = &r->t;
  begin(r, ts_inflight_at(t, 0));
  ck_assert_ok(ts_stage_input_end(t, ts_inflight_at(t, 0)));
  while (!ts_inflight_at(t, 0)->verdict.end) {
    ts_inflight *c = ts_inflight_at(t, 0), *next = ts_inflight_at(t, 1);
    begin(r, next);
    put_seen(r, c);
    look_up(r, c);
    ck_assert_ok(ts_stage_input_end(t, next));
    r->n_batches += c->batch->n > 0;
    ts_stage_advance(t, r->loader);
  }
  for (int k = 0; k < 2; k++)
    ts_stage_discard(t, ts_inflight_at(t, k), r->loader);
}

/* ---- as on the host ------------------------------------------------------ */

static char texts[3][40];
static const char *const sets[3] = {texts[0], texts[1], texts[2]};

static void choose(bool pinned, bool columns, int parts) {
  snprintf(texts[0], sizeof texts[0], "data.pin_memory=%s",
           pinned ? "true" : "false");
  snprintf(texts[1], sizeof texts[1], "data.input=%s",
           columns ? "columns" : "kjt");
  snprintf(texts[2], sizeof texts[2], "run.accumulate=%d", parts);
}

/* Bytes that the batch in flight sends beside the batch's block: the lengths of
 * micro-batches that come with offsets; none else but where rows of sequences
 * are cut. */
static void check_second_copy(const run *r, bool columns, int parts) {
  const ts_ebc *ebc = r->t.ebc;
  const size_t cuts = (size_t)r->t.n_ranks * 8 + 64;
  for (int k = 0; k < 2; k++) {
    const ts_ebc_batch *fl = r->t.inflight[k].ebc_batch;
    size_t most = cuts;
    if (columns && parts > 1)
      most += (size_t)ebc->n_features * (GLOBAL * 4 + 16);
    ck_assert_uint_le(fl->stage.most, most);
  }
}

TS_TESTS(as_on_the_host, 0, 4) {
  run host, discrete;
  const bool columns = _i & 1, pinned = _i == 1 || _i == 2;
  const int parts = _i & 2 ? 3 : 1;
  choose(pinned, columns, parts);
  start(&host, true, sets, 3);
  go(&host);
  ck_assert_ptr_null(host.t.uploads);
  ck_assert_all(host.n > 1000);
  start(&discrete, false, sets, 3);
  go(&discrete);
  ck_assert_int_eq(discrete.n_batches, host.n_batches);
  ck_assert_int_eq(discrete.n, host.n);
  ck_assert_all(!memcmp(discrete.out, host.out, (size_t)host.n * 4));
  /* A rank without samples copies nothing. */
  const int empty = discrete.t.n_ranks > 1 && discrete.t.rank > 0 ? 1 : 0;
  if (discrete.t.uploads) {
    ck_assert_int_eq(ts_upload_stat_of(discrete.t.uploads).n_copies,
                     STEPS - empty);
    check_second_copy(&discrete, columns, parts);
  }
  stop(&discrete);
  stop(&host);
}

/* ---- beside the batch before --------------------------------------------- */

static atomic_bool gate;

static ts_err wait_gate(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  const double t0 = ts_now();
  while (!gate)
    if (ts_now() - t0 > 20)
      return ts_fail(TS_ERR_INTERNAL, "the copy waits for compute");
  return TS_OK;
}

/* Compute of a batch ends only once the next one is there; data waits for
 * compute, as in sparse_dist. */
TS_TESTS(beside_compute, 0, 2) {
  run r;
  choose(_i, true, 1);
  start(&r, false, sets, 3);
  ts_trainer *t = &r.t;
  ts_inflight *c = ts_inflight_at(t, 0), *next = ts_inflight_at(t, 1);
  begin(&r, c);
  ck_assert_ok(ts_stage_input_end(t, c));
  ck_assert_ok(ts_stage_check(t, c));
  ck_assert_ok(ts_stage_lookup(t, c, t->compute));
  ck_assert_ok(ts_ebc_output_end(c->ebc_batch, t->compute));
  gate = strcmp(ts_test_backend(), "fake") != 0; /* tasks of others are done */
  ck_assert_ok(ts_lane_submit(t->compute, "gate", wait_gate, NULL, 0));
  c->done = ts_lane_record(t->compute);
  ck_assert_ok(ts_lane_wait(t->data, c->done));
  ts_stage_load(t, next, r.loader);
  ck_assert_ok(ts_stage_input_begin(t, next, 0));
  ck_assert_ok(ts_event_sync(next->copied));
  ck_assert(gate || !ts_event_done(c->done));
  gate = true;
  ck_assert_ok(ts_event_sync(c->done));
  ck_assert_ok(ts_stage_input_end(t, next));
  ck_assert_ok(ts_ebc_release(c->ebc_batch, t->compute));
  for (int k = 0; k < 2; k++)
    ts_stage_discard(t, ts_inflight_at(t, k), r.loader);
  stop(&r);
}

int main(int argc, char **argv) {
  (void)setenv("TESSERA_BACKEND", "fake", !strcmp(ts_test_backend(), "host"));
  return ts_test_main(argc, argv);
}
