/* trainer.c - putting the parts together, and taking them apart. */
#include "train/late.h"

#include <string.h>

#include "base/mem.h"
#include "base/tasks.h"
#include "dense/loss_tasks.h"
#include "dense/param_optim.h"
#include "model/named.h"
#include "runtime/topology.h"
#include "sparse/row_optim.h"
#include "train/graph.h"
#include "train/pipeline.h"
#include "train/planning.h"
#include "train/ranking.h"
#include "train/recompute.h"
#include "train/rows.h"

void ts_settle_own(ts_err err) {
  if (err != TS_OK && ts_mpi_size() > 1 && ts_err_is_own(err))
    ts_watch_fail(err);
}

ts_err ts_settle(ts_trainer *t, ts_err err) {
  if (err != TS_ERR_IO) ts_settle_own(err);
  return ts_agree(t->control, err);
}

ts_err ts_trainer_rest(ts_trainer *t) {
  TS_DO(ts_lane_sync(t->data));
  if (t->ahead) TS_DO(ts_lane_sync(t->ahead));
  TS_DO(ts_lane_sync(t->compute));
  if (t->late) TS_DO(ts_late_settle(t));
  return TS_OK;
}

static void watch(const ts_config *c) {
  ts_watch_options o = {.otherwise_s = c->comm.timeout_s,
                        .ranks_per_node = c->sharding.ranks_per_node};
  o.deadline_s[TS_SECTION_SETUP] = c->run.deadlines.setup_s;
  o.deadline_s[TS_SECTION_STEP] = c->run.deadlines.step_s;
  o.deadline_s[TS_SECTION_EVAL] = c->run.deadlines.eval_s;
  o.deadline_s[TS_SECTION_SAVE] = c->run.deadlines.save_s;
  o.deadline_s[TS_SECTION_LOAD] = c->run.deadlines.load_s;
  o.deadline_s[TS_SECTION_INPUT] = c->run.deadlines.input_s;
  for (int s = 0; s < TS_SECTION_COUNT; s++)
    if (o.deadline_s[s] <= 0) o.deadline_s[s] = c->run.deadline_s;
  ts_watch_configure(&o);
}

/* A plan for GPUs may be made where there are none: what it is agreed by then
 * is not what the deck says. */
static ts_comm_backend comm_backend(const ts_trainer *t) {
  const ts_config *c = t->config;
  if (t->backend != c->run.backend) return TS_COMM_AUTO;
  return !strcmp(c->comm.backend, "nccl")  ? TS_COMM_NCCL
         : !strcmp(c->comm.backend, "mpi") ? TS_COMM_MPI
                                           : TS_COMM_AUTO;
}

static ts_err start_world(ts_trainer *t) {
  const ts_config *c = t->config;
  const ts_world_options world = {.backend = comm_backend(t),
                                  .ordered = c->comm.ordered,
                                  .sums = c->run.check != TS_CHECK_NONE,
                                  .ranks_per_node = c->sharding.ranks_per_node,
                                  .timeout_s = c->comm.timeout_s,
                                  .delay_us = c->comm.delay_us,
                                  .delay_gbytes_per_s =
                                      c->comm.delay_gbytes_per_s};
  ts_device_options device = {.serial = c->run.serial_lanes,
                              .n_threads = t->n_threads,
                              .timeout_s = c->comm.timeout_s};
  TS_DO(ts_trainer_choose_device(t, &device));
  TS_DO(ts_world_create(&t->world, t->device, &world));
  return ts_comm_create_host(t->world, &t->control, TS_GROUP_WORLD, "control");
}

static int64_t global_batch(const ts_config *c, int n_ranks) {
  return c->data.global_batch ? c->data.global_batch
                              : c->data.batch_per_rank * n_ranks;
}

/* Every rank's node. */
static ts_err find_nodes(ts_trainer *t) {
  ts_err err = TS_OK;
  int *node = NULL;
  const int own = ts_world_node(t->world);
  TS_TRY(ts_mem_array(&node, t->n_ranks, sizeof *node, TS_TAG_MISC));
  TS_TRY(ts_comm_gather_all(t->control, node, &own, sizeof own));
  TS_TRY(ts_nodes_create(&t->nodes, t->n_ranks, 0, node));
done:
  ts_mem_free(node);
  return err;
}

ts_err ts_trainer_start(ts_trainer **out, const ts_config *c, bool training) {
  return ts_trainer_start_on(out, c, training, c->run.backend);
}

ts_err ts_trainer_start_on(ts_trainer **out, const ts_config *c, bool training,
                           ts_backend_choice backend) {
  ts_trainer *t = NULL;
  TS_DO(ts_mem_alloc(&t, sizeof *t, TS_TAG_MISC));
  *out = t;
  t->config = c;
  t->training = training;
  t->negatives = c->data.negatives;
  t->backend = backend;
  t->n_tasks = c->model.n_tasks;
  watch(c);
  t->n_threads = ts_bind_local(t->config->run.threads, &t->widened);
  TS_DO(start_world(t));
  t->rank = ts_world_rank(t->world);
  t->n_ranks = ts_world_size(t->world);
  TS_DO(find_nodes(t));
  t->global_batch = global_batch(c, t->n_ranks);
  t->micro_batch =
      (t->global_batch + c->run.accumulate - 1) / c->run.accumulate;
  t->batch_max = (int32_t)ts_balance_most(c, t->micro_batch, t->n_ranks);
  TS_DO(ts_lane_create(t->device, &t->compute, "compute", TS_LANE_COMPUTE));
  TS_DO(ts_lane_create(t->device, &t->data, "data", TS_LANE_DATA));
  TS_DO(ts_uploads_create(&t->uploads, t->device));
  return ts_kernels_fill(&t->kernels, ts_device_name(t->device), NULL);
}

/* Checks what the deck's schema can't see: options per optimizer, shapes over
 * tables and layers. */
static ts_err check_config(const ts_trainer *t) {
  const ts_config *c = t->config;
  const ts_named *model = ts_named_of(c);
  char why[TS_ORDER_WHY];
  TS_DO(ts_ranking_check(c));
  if (!ts_order_fits(c, t->global_batch, why))
    return ts_fail(TS_ERR_DECK, "%s", why);
  for (int32_t i = 0; i < c->n_tables; i++) {
    ts_table_config *table = &c->tables[i];
    table->weighted_apart = table->weighted && model && model->weighted_apart;
    TS_DO(ts_row_optim_check(&table->optimizer, table->name));
    if (ts_param_is_table(table) && table->dtype != TS_F32)
      return ts_fail(
          TS_ERR_DECK,
          "table %s: optimizer \"none\" needs rows of dtype f32: dense "
          "optimizers do not round",
          table->name);
    if (ts_param_is_table(table) && c->optimizer.clip_norm > 0)
      return ts_fail(
          TS_ERR_DECK,
          "optimizer.clip_norm is of the dense parameters alone: table "
          "%s of optimizer \"none\" would not be clipped with them",
          table->name);
    const ts_table_config *whole = ts_table_whole(table),
                          *first = ts_table_whole(&c->tables[0]);
    if (model && !model->any_dims && whole->dim != first->dim)
      return ts_fail(TS_ERR_DECK,
                     "table %s has dim %d, table %s has dim %d: model %s takes "
                     "one dim for all tables",
                     whole->name, whole->dim, first->name, first->dim,
                     c->model.kind);
  }
  if (t->global_batch > INT32_MAX / 2)
    return ts_fail(TS_ERR_DECK,
                   "data: a global batch of %lld samples is too large",
                   (long long)t->global_batch);
  return TS_OK;
}

/* The collection's parameters come first: their gradients are the last. */
static ts_err list_params(ts_trainer *t) {
  const ts_params *first = ts_ebc_params(t->ebc), *then = &t->model->params;
  const ts_params *last = &t->task_params;
  TS_DO(ts_mem_many(t->params.item, first->n + then->n + last->n, DENSE));
  for (int32_t i = 0; i < first->n; i++) {
    first->item[i]->index = then->n + i;
    t->params.item[t->params.n++] = first->item[i];
  }
  for (int32_t i = 0; i < then->n; i++)
    t->params.item[t->params.n++] = then->item[i];
  for (int32_t i = 0; i < last->n; i++) {
    last->item[i]->index = then->n + first->n + i;
    t->params.item[t->params.n++] = last->item[i];
  }
  return TS_OK;
}

/* All tasks' in one: those of the others stay 0. */
static ts_err build_task_params(ts_trainer *t) {
  const ts_config *c = t->config;
  ts_param *p;
  bool any = false;
  for (int32_t k = 0; k < c->model.n_tasks; k++)
    any |= c->model.tasks[k].uncertainty;
  if (!any) return TS_OK;
  t->task_params.deferred = ts_parallel_defers(c);
  TS_DO(ts_params_add(&t->task_params, t->device, &p, "tasks.log_variance",
                      "tasks", t->n_tasks, 0));
  TS_DO(ts_param_init_constant(p, 0));
  return ts_arrays_take(&t->arrays, t->device, &t->log_variance_grad,
                        t->n_tasks, sizeof(float), TS_TAG_ACTIVATIONS);
}

static ts_err build_model(ts_trainer *t) {
  const ts_config *c = t->config;
  /* Micro-batches are cut by samples, whatever tokens these have. */
  const int64_t share = c->run.accumulate > 1
                            ? t->batch_max
                            : ts_balance_share(t->micro_batch, t->n_ranks);
  const ts_model_spec spec = {.config = c,
                              .n_features = ts_ebc_n_features(t->ebc),
                              .batch_max = t->batch_max,
                              .batch_share = (int32_t)share,
                              .training = t->training,
                              .deferred = ts_parallel_defers(c),
                              .kernels = &t->kernels,
                              .world = t->world,
                              .keeps = t->keeps};
  TS_DO(ts_model_create(&t->model, &spec, t->device, t->compute));
  if (ts_balance_is_on(c)) TS_DO(ts_model_costs(t->model, &t->costs));
  TS_DO(build_task_params(t));
  TS_DO(list_params(t));
  const ts_parallel_spec parallel = {.params = &t->params,
                                     .config = c,
                                     .device = t->device,
                                     .world = t->world,
                                     .kernels = &t->kernels,
                                     .training = t->training};
  TS_DO(ts_parallel_create(&t->dense, &parallel));
  return ts_parallel_start_averages(t->dense, NULL, t->compute);
}

static ts_err build_metrics(ts_trainer *t) {
  TS_DO(ts_mem_array(&t->metrics, t->n_tasks, sizeof *t->metrics,
                     TS_TAG_METRICS));
  for (int32_t k = 0; k < t->n_tasks; k++) {
    TS_DO(ts_metrics_create(&t->metrics[k], t->config->metrics.window,
                            t->n_ranks));
    if (t->late)
      TS_DO(ts_metrics_place(t->metrics[k], &t->kernels, t->compute,
                             &t->late->staging));
  }
  return TS_OK;
}

static ts_err build_batch(ts_trainer *t) {
  t->n_logits = ts_tasks_width(t->config, t->n_tasks);
  const int64_t n = (int64_t)t->batch_max * t->n_logits;
  const ts_tag tag = TS_TAG_ACTIVATIONS;
  ts_arrays *all = &t->arrays;
  TS_DO(ts_arrays_take(all, t->device, &t->dlogits, n, sizeof(float), tag));
  TS_DO(ts_arrays_take(all, t->device, &t->predictions, n, 4, tag));
  TS_DO(ts_arrays_take(all, t->device, &t->loss_sum, 1, sizeof(double), tag));
  TS_DO(ts_arrays_take(all, t->device, &t->bad_gradient, 1, 4, tag));
  TS_DO(ts_task_losses_create(&t->tasks, t->config));
  if (ts_device_is_discrete(t->device)) TS_DO(ts_late_create(&t->late, t));
  return build_metrics(t);
}

/* Features that are read id by id. */
static ts_err build_tokens(ts_trainer *t) {
  const ts_config *c = t->config;
  bool any = false;
  for (int32_t i = 0; i < c->n_tables; i++)
    any |= c->tables[i].pooling == TS_POOL_NONE;
  if (!any) return TS_OK;
  if (c->run.accumulate > 1 && ts_device_is_discrete(t->device))
    return ts_fail(TS_ERR_DECK,
                   "run.accumulate = %d: on a GPU not with tables of pooling = "
                   "\"none\", whose lengths go there with the whole batch",
                   c->run.accumulate);
  TS_DO(ts_mem_many(t->spread, ts_ebc_n_features(t->ebc), MISC));
  if (ts_task_meets(c->model.tasks, true))
    TS_DO(ts_mem_many(t->n_targets, t->n_ranks, MISC));
  return ts_mem_many(t->tokens, ts_ebc_n_features(t->ebc), MISC);
}

/* Sizes of a full batch's buffers and messages; what is known of the data is
 * rank 0's. */
static ts_err expect(ts_trainer *t) {
  const int32_t n = ts_ebc_n_features(t->ebc);
  TS_DO(ts_mem_array(&t->pooling, n, sizeof *t->pooling, TS_TAG_MISC));
  for (int32_t f = 0; f < n; f++) t->pooling[f] = t->planning->stats[f].pooling;
  TS_DO(ts_comm_bcast(t->control, t->pooling, n * (int64_t)sizeof *t->pooling,
                      0));
  TS_DO(ts_ebc_expect(t->ebc,
                      (int32_t)ts_balance_share(t->micro_batch, t->n_ranks),
                      t->pooling));
  if (t->uploads) ts_ebc_expect_uploaded(t->ebc);
  return build_tokens(t);
}

/* The pipeline, its batches and lanes. */
static ts_err build_cargo(ts_trainer *t) {
  const ts_config *c = t->config;
  if (!t->training) return TS_OK;
  t->pipeline = ts_pipeline_find(c->pipeline.kind);
  if (!t->pipeline)
    return ts_fail(TS_ERR_DECK, "pipeline.kind: no \"%s\"", c->pipeline.kind);
  if (t->pipeline->check) TS_DO(t->pipeline->check(t));
  t->depth = t->pipeline->has_depth ? ts_pipeline_depth(c) : 1;
  t->n_inflight = ts_pipeline_n_inflight(c, ts_device_is_discrete(t->device));
  t->n_filled = t->pipeline->n_filled + t->depth - 1;
  for (int k = 0; k < t->n_inflight; k++) {
    TS_DO(ts_ebc_batch_create(&t->inflight[k].ebc_batch, t->ebc, t->batch_max,
                              true));
    if (c->run.accumulate > 1)
      TS_DO(ts_micro_create(&t->inflight[k].micro, ts_ebc_n_features(t->ebc)));
  }
  if (t->pipeline->has_ahead)
    TS_DO(ts_lane_create(t->device, &t->ahead, "ahead", TS_LANE_COMPUTE));
  return ts_trainer_expect_batches(t, 0);
}

ts_err ts_trainer_build(ts_trainer *t, const char *plan_text) {
  TS_DO(ts_settle(t, check_config(t)));
  TS_DO(ts_trainer_rows(t, NULL));
  TS_DO(ts_planning_choose(t, plan_text));
  TS_DO(ts_settle(t, ts_ebc_create(&t->ebc, t->config, t->plan, t->nodes,
                                   t->world, t->device, &t->kernels)));
  TS_DO(ts_settle(t, expect(t)));
  TS_DO(ts_settle(t, build_cargo(t)));
  TS_DO(ts_settle(t, build_model(t)));
  TS_DO(ts_settle(t, build_batch(t)));
  return ts_settle(t, ts_recompute_create(&t->recompute, t));
}

/* Micro-batches of a batch share its copy. */
ts_err ts_trainer_expect_batches(ts_trainer *t, size_t bytes) {
  const int parts = t->config->run.accumulate;
  const int n = t->n_inflight + parts - 1;
  return ts_uploads_expect(t->uploads, (n + parts - 1) / parts, bytes);
}

/* Steps may be under way, those of an error, too, whose record stays: their
 * tasks still touch what is about to go. */
static void run_out(ts_trainer *t) {
  ts_err_record kept;
  ts_err_take(&kept);
  if (t->data) (void)ts_lane_sync(t->data);
  if (t->ahead) (void)ts_lane_sync(t->ahead);
  if (t->compute) (void)ts_lane_sync(t->compute);
  if (t->late) (void)ts_late_settle(t);
  ts_err_clear();
  ts_err_put(&kept);
}

void ts_trainer_destroy(ts_trainer *t) {
  if (!t) return;
  run_out(t);
  ts_step_graph_destroy(t);
  ts_recompute_destroy(t->recompute);
  for (int32_t k = 0; t->metrics && k < t->n_tasks; k++)
    ts_metrics_destroy(t->metrics[k]);
  ts_mem_free(t->metrics);
  ts_late_destroy(t->late);
  ts_arrays_reset(&t->arrays);
  ts_mem_free(t->tasks);
  ts_parallel_destroy(t->dense);
  ts_mem_free(t->params.item);
  ts_params_reset(&t->task_params);
  ts_model_destroy(t->model);
  ts_mem_free(t->costs.of);
  for (int k = 0; k < TS_INFLIGHT_MAX; k++) {
    ts_ebc_batch_destroy(t->inflight[k].ebc_batch);
    ts_micro_destroy(t->inflight[k].micro);
  }
  ts_uploads_destroy(t->uploads);
  ts_ebc_destroy(t->ebc);
  ts_plan_destroy(t->plan);
  ts_planning_destroy(t->planning);
  ts_mem_free_all(t->kept_topology, t->pooling, t->tokens, t->spread,
                  t->n_targets);
  ts_nodes_destroy(t->nodes);
  ts_lane_destroy(t->ahead);
  ts_lane_destroy(t->data);
  ts_lane_destroy(t->compute);
  ts_comm_destroy(t->control);
  ts_world_destroy(t->world);
  ts_device_destroy(t->device);
  ts_mem_free(t);
}
