/* shard_deck.c - decks in C, worlds of one or two virtual nodes. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/sharding.h"
#include "tests/shard/shard_contract.h"

void ct_world_start(ct_world *w, int n_nodes, bool serial) {
  const int per = (ts_mpi_size() + n_nodes - 1) / n_nodes;
  const ts_world_options o = {
      .ordered = true, .ranks_per_node = per, .timeout_s = 60};
  memset(w, 0, sizeof *w);
  ck_assert_ok(ts_test_device(&w->device, serial, 1));
  ck_assert_ok(ts_world_create(&w->world, w->device, &o));
  ck_assert_ok(ts_comm_create(w->world, &w->comm, TS_GROUP_WORLD, "test"));
  ck_assert_ok(ts_lane_create(w->device, &w->data, "data", TS_LANE_DATA));
  ck_assert_ok(
      ts_lane_create(w->device, &w->compute, "compute", TS_LANE_COMPUTE));
  ck_assert_ok(ts_test_kernels(&w->kernels));
  w->rank = ts_world_rank(w->world);
  w->size = ts_world_size(w->world);
  w->n_nodes = n_nodes;
  ck_assert_ok(ts_nodes_create(&w->nodes, w->size, per, NULL));
  ck_assert_all(w->nodes->n_nodes == ts_world_nodes(w->world));
}

static void leave(ct_world *w) {
  ts_nodes_destroy(w->nodes);
  ts_lane_destroy(w->compute);
  ts_lane_destroy(w->data);
  ts_comm_destroy(w->comm);
  ts_world_destroy(w->world);
  ts_device_destroy(w->device);
}

void ct_world_stop(ct_world *w) {
  ct_runs_reset();
  leave(w);
}

void ct_world_restart(ct_world *w, bool serial) {
  const int n_nodes = w->n_nodes;
  leave(w);
  ct_world_start(w, n_nodes, serial);
}

void ct_case(int i, int line, bool serial,
             void (*test)(ct_world *, ts_shard_kind)) {
  const ts_shard_kind kind = (ts_shard_kind)(i / 2);
  const int n_nodes = 1 + i % 2;
  ct_world w;
  if (!ts_sharding_find(kind) || n_nodes > ts_mpi_size()) return;
  if (getenv("TESSERA_SANITIZED") && (line + i / 2 + i) % 2) return;
  ct_world_start(&w, n_nodes, serial);
  test(&w, kind);
  ct_world_stop(&w);
}

static char *text(const char *s) {
  return (char *)(uintptr_t)s; /* a config only reads its strings */
}

void ct_deck_start(ct_deck *d) {
  memset(d, 0, sizeof *d);
  ts_config *c = &d->config;
  c->tables = d->tables;
  c->run.seed = 7;
  c->run.threads = 1;
  c->run.accumulate = 1;
  c->data.input = text("kjt");
  c->data.dedup.item = d->dedup;
  c->sharding.plan = text("auto");
  c->sharding.topology = text("none");
  c->sharding.min_column = 4;
  c->sharding.comm_dtype_forward = text("f32");
  c->sharding.comm_dtype_backward = text("f32");
}

static void add_feature(ct_deck *d, int32_t t, char letter) {
  const int32_t f = d->n_features++;
  ts_strings *list = &d->tables[t].features;
  ck_assert_int_lt(f, CT_FEATURES);
  snprintf(d->feature_names[f], sizeof d->feature_names[f], "t%d_f%d", t,
           list->n);
  d->features[f] = d->feature_names[f];
  if (list->n++ == 0) list->item = &d->features[f];
  d->table_of[f] = t;
  d->bags[f] = (char)tolower(letter);
  if (isupper(letter)) d->dedup[d->n_dedup++] = d->feature_names[f];
  d->config.data.dedup.n = d->n_dedup;
}

/* Options that floats hold exactly, so that the reference has the same; rates
 * that move a weight well past the tolerances. */
static void set_optimizer(ts_optim_config *o, const ct_table *t) {
  const bool lars = !strcmp(t->optimizer, "lars_sgd");
  const ts_row_optim *kind = ts_row_optim_find(t->optimizer);
  ck_assert_ptr_nonnull(kind);
  *o = (ts_optim_config){
      .kind = text(t->optimizer),
      .lr = lars ? 0.5 : 0.015625,
      .eps = kind->options & TS_OPT_EPS ? 0x1p-19 : NAN,
      .beta1 = kind->options & TS_OPT_BETAS ? 0.875 : NAN,
      .beta2 = kind->options & TS_OPT_BETAS ? 0x1.ff8p-1 : NAN,
      .momentum = kind->options & TS_OPT_MOMENTUM ? 0.875 : NAN,
      .eta = kind->options & TS_OPT_ETA ? 0.0625 : NAN,
      .weight_decay = t->decay == TS_WD_NONE ? NAN : t->weight_decay,
      .weight_decay_mode = t->decay};
  ck_assert_ok(ts_row_optim_check(o, "t"));
}

/* Places of the table's weights and states. */
static void add_parts(ct_deck *d, int32_t t) {
  const ts_table_config *c = &d->tables[t];
  const ts_row_optim *o = ts_row_optim_find(c->optimizer.kind);
  d->n_parts[t] = 1 + o->n_states;
  for (int k = 0; k < d->n_parts[t]; k++) {
    d->cols[t][k] = k && o->state[k - 1].per_row ? 1 : c->dim;
    d->at[t][k] = d->n;
    d->n += c->rows * d->cols[t][k];
  }
}

void ct_deck_add(ct_deck *d, const ct_table *t) {
  const int32_t i = d->config.n_tables++;
  ck_assert_int_lt(i, CT_TABLES);
  ck_assert_int_le(t->dim, CT_DIM);
  snprintf(d->table_names[i], sizeof d->table_names[i], "t%d", i);
  d->tables[i] =
      (ts_table_config){.name = d->table_names[i],
                        .rows = t->rows,
                        .dim = t->dim,
                        .pooling = t->pooling,
                        .weighted = t->weighted,
                        .max_length = t->max_length,
                        .max_norm = t->max_norm,
                        .dtype = t->dtype,
                        .init_kind = text("uniform"),
                        .init_scale = 0.5,
                        .sharding = t->kind,
                        .kernel = text("auto"),
                        .feature_processor = text(
                            t->max_length > 0 ? "position_weighted" : "none")};
  d->max_length[i] = t->max_length;
  ck_assert_int_le(t->max_length, CT_POSITIONS);
  set_optimizer(&d->tables[i].optimizer, t);
  for (const char *b = t->bags; *b; b++) add_feature(d, i, *b);
  add_parts(d, i);
}

void ct_deck_ranks(ct_deck *d, const int *ranks, int n) {
  const int32_t i = d->config.n_tables - 1;
  ck_assert_int_le(n, CT_RANKS);
  for (int k = 0; k < n; k++) d->ranks[i][k] = ranks[k];
  d->tables[i].ranks = (ts_ints){d->ranks[i], n};
}

void ct_deck_shard(ct_deck *d, ts_shard_kind kind) {
  for (int32_t i = 0; i < d->config.n_tables; i++) d->tables[i].sharding = kind;
}

void ct_deck_dedup(ct_deck *d, bool on) {
  d->config.data.dedup.n = on ? d->n_dedup : 0;
}

void ct_deck_spell(ct_deck *d, bool on) {
  d->spelled = on;
  for (int32_t i = 0; i < d->config.n_tables; i++) {
    if (!d->max_length[i]) continue;
    d->tables[i].weighted = on;
    d->tables[i].max_length = on ? 0 : d->max_length[i];
  }
}
