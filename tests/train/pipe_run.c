/* pipe_run.c - a training in the test's own process, through the pipeline
 * that the deck names. */
#include "tests/train/pipe_run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/log.h"
#include "tests/support/fake_device.h"
#include "io/deck.h"
#include "runtime/backends.h"

/* Epochs of 96, 96, 96 and 2 samples: over 3 and 4 ranks some have none. */
const char pr_deck[] =
    "run = { name = \"t\"; seed = 5; steps = 7; threads = 1; };\n"
    "data = { format = \"synthetic\"; global_batch = 96;\n"
    "  dedup = [\"rw\", \"dp2\", \"cw\"];\n"
    "  synthetic = { samples = 290; eval_samples = 150;\n"
    "    pooling = [1, 3, 2, 1, 4, 1, 2, 2, 1, 3]; }; };\n"
    "sharding = { ranks_per_node = 2; min_column = 8;\n"
    "             topology = \"default\"; };\n"
    "tables = (\n"
    "  { name = \"dp\"; rows = 40; dim = 16; features = [\"dp\", \"dp2\"];\n"
    "    sharding = \"data_parallel\"; optimizer = { kind = \"adam\"; }; },\n"
    "  { name = \"tw\"; rows = 300; dim = 16; features = [\"tw\"];\n"
    "    pooling = \"mean\"; sharding = \"table_wise\";\n"
    "    optimizer = { kind = \"rowwise_adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"rw\"; rows = 90; dim = 16; features = [\"rw\"];\n"
    "    weighted = true; sharding = \"row_wise\";\n"
    "    optimizer = { kind = \"adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"cw\"; rows = 70; dim = 16; features = [\"cw\"];\n"
    "    sharding = \"column_wise\"; dtype = \"bf16\";\n"
    "    optimizer = { kind = \"rowwise_adagrad\"; lr = 0.05; }; },\n"
    "  { name = \"trw\"; rows = 100; dim = 16; features = [\"trw\"];\n"
    "    sharding = \"table_row_wise\"; pooling = \"mean\";\n"
    "    optimizer = { kind = \"sgd\"; lr = 0.1; }; },\n"
    "  { name = \"twcw\"; rows = 60; dim = 16; features = [\"twcw\"];\n"
    "    sharding = \"table_column_wise\"; weighted = true;\n"
    "    optimizer = { kind = \"lamb\"; lr = 0.01; }; },\n"
    "  { name = \"grid\"; rows = 110; dim = 16; features = [\"grid\"];\n"
    "    sharding = \"grid\"; optimizer = { kind = \"adam\"; lr = 0.01; }; },\n"
    "  { name = \"dpb\"; rows = 30; dim = 16; features = [\"dpb\"];\n"
    "    sharding = \"data_parallel\"; dtype = \"bf16\";\n"
    "    optimizer = { kind = \"sgd\"; lr = 0.1; }; },\n"
    "  { name = \"tw2\"; rows = 80; dim = 16; features = [\"tw2\"];\n"
    "    sharding = \"table_wise\"; dtype = \"f16\";\n"
    "    optimizer = { kind = \"adagrad\"; lr = 0.05; }; } );\n"
    "model = { kind = \"dlrm\"; dense_features = 3; dense_arch = [32, 16];\n"
    "  over_arch = [32, 16, 1]; };\n"
    "dense = { bucket_mb = 0.001; };\n"
    "optimizer = { kind = \"adam\"; lr = 1e-2; };\n";

void pr_set(pr_sets *s, const char *text) {
  ck_assert_int_lt(s->n, PR_SETS);
  s->item[s->n++] = text;
}

/* ---- kernels ------------------------------------------------------------- */

pr_kernels pr_kernel_hooks;
static ts_kernels real;

void pr_sleep_us(int us) {
  const struct timespec t = {us / 1000000, us % 1000000 * 1000};
  if (us > 0) nanosleep(&t, NULL);
}

static ts_err lookup(const ts_lookup_args *a) {
  pr_sleep_us(pr_kernel_hooks.lookup_us);
  if (pr_kernel_hooks.lookup) pr_kernel_hooks.lookup(a, true);
  const ts_err err = real.lookup(a);
  if (pr_kernel_hooks.lookup) pr_kernel_hooks.lookup(a, false);
  return err;
}

static ts_err row_update(const ts_row_update_args *a) {
  if (pr_kernel_hooks.row_update) pr_kernel_hooks.row_update(a, true);
  pr_sleep_us(pr_kernel_hooks.row_update_us);
  const ts_err err = real.row_update(a);
  if (pr_kernel_hooks.row_update) pr_kernel_hooks.row_update(a, false);
  return err;
}

static ts_err one_update(const ts_dense_update_args *a) {
  return real.dense_update(a, 1);
}

static ts_err dense_update(const ts_dense_update_args *a, int32_t n) {
  ts_err err = TS_OK;
  pr_sleep_us(n * pr_kernel_hooks.dense_update_us);
  if (!pr_kernel_hooks.dense_update) return real.dense_update(a, n);
  for (int32_t i = 0; i < n && err == TS_OK; i++)
    err = pr_kernel_hooks.dense_update(&a[i], one_update);
  return err;
}

/* ---- data ---------------------------------------------------------------- */

/* Opening synthetic data takes time (its best AUC is estimated): sources are
 * kept, one of each kind. */
typedef struct kept_source {
  const char *deck, *input;
  ts_config *config;
  ts_source *source[2]; /* train, eval */
} kept_source;

static kept_source kept[4];
static int n_kept;

static const kept_source *data_of(const char *deck, const pr_sets *sets,
                                  const ts_config *c, ts_comm *comm) {
  for (int i = 0; i < n_kept; i++)
    if (kept[i].deck == deck && !strcmp(kept[i].input, c->data.input))
      return &kept[i];
  ck_assert_int_lt(n_kept, 4);
  kept_source *k = &kept[n_kept++];
  k->deck = deck;
  ck_assert_ok(ts_deck_parse(&k->config, deck, "/tmp", sets->item, sets->n));
  k->input = k->config->data.input;
  for (int split = 0; split < 2; split++)
    ck_assert_ok(ts_source_open(&k->source[split], k->config,
                                split ? TS_SPLIT_EVAL : TS_SPLIT_TRAIN, NULL,
                                comm));
  return k;
}

void pr_close_data(void) {
  for (int i = 0; i < n_kept; i++) {
    ts_source_close(kept[i].source[0]);
    ts_source_close(kept[i].source[1]);
    ts_deck_destroy(kept[i].config);
  }
  n_kept = 0;
}

/* ---- a run --------------------------------------------------------------- */

static bool names_backend(const pr_sets *s) {
  bool named = false;
  for (int i = 0; i < s->n; i++)
    named |= !strncmp(s->item[i], "run.backend=", 12);
  return named;
}

/* TESSERA_BACKEND, unless the sets name one.  "fake": its device in the place
 * of "cuda"; on one rank, too, messages go through the host. */
static void choose_backend(pr_sets *s) {
  if (!strcmp(ts_test_backend(), "fake")) {
    ts_backend_replace(&ts_fake_backend);
    pr_set(s, "run.backend=cuda");
    pr_set(s, "comm.backend=mpi");
  } else if (!names_backend(s) && ts_test_on_gpu()) {
    pr_set(s, strcmp(ts_test_backend(), "cuda") ? "run.backend=emulated"
                                                : "run.backend=cuda");
  }
}

void pr_start(pr_run *r, const char *deck, const pr_sets *asked) {
  pr_sets all = *asked, *sets = &all;
  memset(r, 0, sizeof *r);
  ts_log_quiet(1);
  choose_backend(sets);
  if (!deck) deck = pr_deck;
  ck_assert_ok(ts_deck_parse(&r->config, deck, "/tmp", sets->item, sets->n));
  ck_assert_ok(ts_trainer_start(&r->t, r->config, true));
  ck_assert(r->config->run.backend < TS_BACKEND_CUDA ||
            ts_device_is_discrete(r->t->device));
  ts_trainer *t = r->t;
  real = t->kernels;
  t->kernels.lookup = lookup;
  t->kernels.row_update = row_update;
  t->kernels.dense_update = dense_update;
  ck_assert_ok(ts_trainer_build(t, NULL));
  ck_assert_ok(ts_ebc_init(t->ebc));
  const kept_source *k = data_of(deck, sets, r->config, t->control);
  r->source = k->source[0];
  r->eval = k->source[1];
  const ts_loader_options o = {.global_batch = t->global_batch,
                               .max_steps = r->config->run.steps,
                               .drop_last = r->config->data.drop_last,
                               .rank = t->rank,
                               .n_ranks = t->n_ranks,
                               .depth = t->n_inflight + 1,
                               .device = t->device,
                               .pooling = t->pooling,
                               .serial = r->config->run.serial_lanes};
  ck_assert_ok(ts_loader_create(&r->loader, r->source, &o, NULL));
}

void pr_stop(pr_run *r) {
  ts_pipeline_drain(r->t, r->loader);
  ts_loader_destroy(r->loader);
  ts_trainer_destroy(r->t);
  ts_deck_destroy(r->config);
}

void pr_note(pr_run *r, pr_result *out, ts_step_result *s) {
  ck_assert_int_lt(out->n, PR_STEPS);
  ck_assert_ok(ts_stage_fetch(r->t, s));
  double loss = s->loss_sum;
  ck_assert_ok(ts_comm_sum_f64(r->t->control, &loss, 1));
  out->loss[out->n++] = loss;
  out->samples += s->n_global;
  out->positions = ts_fnv1a(out->positions, &s->after, sizeof s->after);
}

static void evaluate(pr_run *r, pr_result *out) {
  ts_metrics_result m;
  const ts_eval_hooks none = {0};
  bool stopped;
  ck_assert_ok(ts_evaluate(r->t, r->eval, &m, &none, &stopped));
  ck_assert(!stopped);
  out->auc = m.auc;
}

void pr_steps(pr_run *r, pr_result *out) {
  ts_trainer *t = r->t;
  const ts_config *c = r->config;
  for (;;) {
    ts_step_result s = {0};
    ck_assert_ok(ts_pipeline_step(t, r->loader, 0, &s));
    if (s.end) break;
    if (!s.skipped) t->step++;
    pr_note(r, out, &s);
    if (c->run.eval_every && t->step % c->run.eval_every == 0) evaluate(r, out);
    if (c->checkpoint.every && t->step % c->checkpoint.every == 0 &&
        t->pipeline->fence)
      ck_assert_ok(t->pipeline->fence(t));
  }
}

void pr_train(pr_result *out, const char *deck, const pr_sets *sets) {
  pr_run r;
  memset(out, 0, sizeof *out);
  pr_start(&r, deck, sets);
  pr_steps(&r, out);
  out->state = pr_state(&r);
  pr_stop(&r);
}

/* ---- comparison ---------------------------------------------------------- */

/* Elements are hashed one by one and added, so nothing depends on which rank
 * holds what: pipelines with more batches under way get other plans. */
static uint64_t hash_element(int32_t table, int state, int64_t at,
                             const char *x, size_t bytes) {
  uint64_t bits = 0;
  memcpy(&bits, x, bytes);
  const uint64_t place =
      ((uint64_t)table << 44) + ((uint64_t)(state + 1) << 40) + (uint64_t)at;
  return ts_mix64(ts_mix64(place) + bits);
}

typedef struct {
  ts_device *device;
  uint64_t sum;
} shards_hash;

static ts_err hash_shard(void *arg, int32_t table, const ts_shard *s,
                         ts_tbe *tbe, int32_t k) {
  shards_hash *h = arg;
  for (int state = -1; state < ts_tbe_optim(tbe)->n_states; state++) {
    int32_t cols;
    ts_dtype dtype;
    const char *at = ts_tbe_rows(tbe, k, state, &cols, &dtype);
    const size_t bytes = ts_dtype_bytes(dtype);
    /* A value per row is the same in all shards of the row's columns: it counts
     * once. */
    if (cols < s->n_cols && s->col0) continue;
    const size_t all = (size_t)(s->n_rows * cols) * bytes;
    char *rows = ts_test_borrow(h->device, at, all);
    for (int64_t i = 0; i < s->n_rows * cols; i++)
      h->sum += hash_element(table, state,
                             (s->row0 + i / cols) * 1000 + s->col0 + i % cols,
                             rows + (size_t)i * bytes, bytes);
    ts_test_return(h->device, at, rows, all, false);
  }
  return TS_OK;
}

/* Weights that all ranks have count once; they have to be the same. */
static void hash_dense(pr_run *r, uint64_t *h) {
  const ts_params *params = &r->t->model->params;
  uint64_t same = TS_FNV_START;
  for (int32_t i = 0; i < params->n; i++) {
    const ts_param *p = params->item[i];
    const ts_param_piece x = ts_parallel_piece(r->t->dense, p);
    const int64_t width = p->cols ? p->cols : 1, n = x.n_rows * width;
    for (int k = -1; k < TS_PARAM_STATES_MAX; k++) {
      const float *at = k < 0 ? x.w : x.state[k];
      if (!at || !n) continue;
      float *v = ts_test_borrow(r->t->device, at, (size_t)n * 4);
      if (x.replicated) same = ts_fnv1a(same, v, (size_t)n * 4);
      for (int64_t e = 0; e < n && (!x.replicated || !r->t->rank); e++)
        *h += hash_element(1000 + i, k, x.row0 * width + e,
                           (const char *)(v + e), 4);
      ts_test_return(r->t->device, at, v, (size_t)n * 4, false);
    }
  }
  int64_t least = (int64_t)(same >> 1), most = -least;
  ck_assert_ok(ts_comm_max_i64(r->t->control, &most, 1));
  ck_assert_ok(ts_comm_max_i64(r->t->control, &least, 1));
  ck_assert_msg(least == -most, "ranks have different dense parameters");
}

uint64_t pr_state(pr_run *r) {
  shards_hash tables = {.device = r->t->device};
  uint64_t dense = 0;
  ck_assert_ok(ts_ebc_flush(r->t->ebc));
  ck_assert_ok(ts_ebc_each_shard(r->t->ebc, hash_shard, &tables));
  hash_dense(r, &dense);
  const uint64_t own = dense + tables.sum;
  int64_t halves[2] = {(int64_t)(own & UINT32_MAX), (int64_t)(own >> 32)};
  ck_assert_ok(ts_comm_sum_i64(r->t->control, halves, 2));
  return (uint64_t)halves[0] + ((uint64_t)halves[1] << 32);
}

bool pr_same_losses(const pr_result *a, const pr_result *b, int first, int n) {
  return a->n >= first + n && b->n >= first + n &&
         !memcmp(a->loss + first, b->loss + first,
                 (size_t)n * sizeof a->loss[0]);
}

bool pr_same(const pr_result *a, const pr_result *b) {
  return a->n == b->n && pr_same_losses(a, b, 0, a->n) &&
         a->samples == b->samples && a->state == b->state &&
         a->positions == b->positions;
}
