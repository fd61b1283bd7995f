/* model_probe.c - a small model of each kind, and a step of it. */
#include "tests/model/model_probe.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

static float draw(uint32_t a, uint32_t b) {
  uint32_t x[4];
  ts_rng4(x, 9, TS_RNG_TEST, a, b, 0);
  return 2 * ts_rng_unit(x[0]) - 1;
}

const ts_model_case model_cases[] = {
    {"dlrm", {8, 8, 8}, {7, 8}, 1, 0, 0, 0, 0, "", false},
    {"sparsenn", {8, 4, 3}, {7, 5}, 1, 0, 0, 0, 0, "", false},
    {"sparsenn", {5, 8, 4}, {0, 0}, 2, 0, 0, 0, 0, "", false},
    {"sparsenn", {5, 8, 4}, {7, 5}, 1, 0, 0, 0, 0, "", true},
    {"dcnv2", {8, 8, 8}, {7, 8}, 1, 3, 6, 0, 0, "", false},
    {"dcnv2", {8, 5, 17}, {0, 0}, 1, 1, 2, 0, 0, "", false},
    {"dcnv2", {16, 3, 5}, {7, 5}, 2, 2, 9, 0, 0, "", false},
    {"deepfm", {8, 8, 8}, {0, 0}, 1, 0, 0, 7, 5, "flat", false},
    {"deepfm", {17, 17, 17}, {0, 0}, 2, 0, 0, 6, 3, "field", false},
    {"deepfm", {5, 5, 5}, {0, 0}, 1, 0, 0, 0, 6, "flat", false},
};

void make_deck(ts_plain_deck *d, const ts_model_case *m) {
  const bool deepfm = !strcmp(m->kind, "deepfm");
  *d = (ts_plain_deck){.task = "label"};
  snprintf(d->kind, sizeof d->kind, "%s", m->kind);
  snprintf(d->fm, sizeof d->fm, "%s", m->fm);
  for (int t = 0; t < MF; t++) {
    snprintf(d->table[t], sizeof d->table[t], "t%d", t);
    snprintf(d->feature[t], sizeof d->feature[t], "f%d", t);
    d->features[t] = d->feature[t];
    d->tables[t] = (ts_table_config){.name = d->table[t],
                                     .dim = m->dims[t],
                                     .rows = 10,
                                     .features = {&d->features[t], 1},
                                     .weighted = m->weighted && !t};
  }
  for (int k = 0; k < MT; k++)
    d->tasks[k] = (ts_task_config){.name = d->task, .weight = k ? 0.3 : 1.0};
  memcpy(d->bottom, m->bottom, sizeof d->bottom);
  d->over[0] = 9;
  d->over[1] = m->n_tasks;
  d->c.tables = d->tables;
  d->c.n_tables = MF;
  d->c.model.kind = d->kind;
  d->c.model.dense_features = m->bottom[0] || m->hidden ? MN : 0;
  d->c.model.dense_arch = (ts_ints){d->bottom, m->bottom[0] ? 2 : 0};
  d->c.model.over_arch = (ts_ints){d->over + deepfm, deepfm ? 1 : 2};
  d->c.model.dcn_layers = m->layers;
  d->c.model.dcn_rank = m->rank;
  d->c.model.deepfm_hidden = m->hidden;
  d->c.model.deepfm_fm_dim = m->fm_dim;
  d->c.model.deepfm_fm = d->fm;
  d->c.model.tasks = d->tasks;
  d->c.model.n_tasks = m->n_tasks;
}

/* A copy in the device's memory, until the end. */
static void *to_device(ts_probe *p, const void *x, size_t bytes) {
  void *at;
  ck_assert_ok(ts_arrays_take(&p->arrays, p->device, &at, (int64_t)bytes, 1,
                              TS_TAG_MISC));
  ts_test_put(p->device, at, (void *)(uintptr_t)x, bytes);
  return at;
}

static void fill_probe(ts_probe *p) {
  const ts_model_case *m = p->m;
  for (int f = 0; f < MF; f++) {
    for (int j = 0; j < MB * MD; j++)
      p->emb64[f][j] = p->emb[f][j] = draw(50 + (uint32_t)f, (uint32_t)j);
    p->data[f] = to_device(p, p->emb[f], sizeof p->emb[f]);
    p->grads[f] = to_device(p, p->grad[f], sizeof p->grad[f]);
    p->demb[f] = p->emb64[f];
    p->stride[f] = m->dims[f];
  }
  for (int j = 0; j < MB * MN; j++) p->dense[j] = draw(60, (uint32_t)j);
  for (int j = 0; j < MB * MT; j++) p->label[j] = (float)(j % 3 == 1);
  p->inputs = to_device(p, p->dense, sizeof p->dense);
  p->labels = to_device(p, p->label, sizeof p->label);
  p->dlogits = to_device(p, p->label, sizeof p->label);
  p->loss = to_device(p, &(double){0}, sizeof(double));
}

/* The parameters in double, for the oracle; biases move away from 0. */
static void copy_params(ts_probe *p) {
  const ts_params *params = &p->model->params;
  ck_assert_int_le(params->n, PARAMS_MAX);
  for (int32_t i = 0; i < params->n; i++) {
    ts_param *q = params->item[i];
    const size_t bytes = (size_t)q->n * sizeof(float);
    ck_assert_ok(
        ts_arrays_take(&p->arrays, p->device, &q->grad, q->n, 4, TS_TAG_DENSE));
    ck_assert_ok(ts_mem_array(&p->dw[i], q->n, 4, TS_TAG_DENSE));
    ck_assert_ok(ts_mem_array(&p->w[i], q->n, 8, TS_TAG_DENSE));
    float *w = ts_test_borrow(p->device, q->w, bytes);
    for (int64_t j = 0; j < q->n; j++) {
      if (!q->cols) w[j] += 0.1f * draw(40 + (uint32_t)i, (uint32_t)j);
      p->w[i][j] = w[j];
    }
    ts_test_return(p->device, q->w, w, bytes, true);
  }
  p->oracle = (ts_oracle){&p->deck.c, params, p->w,     p->demb,
                          MF,         MB,     p->dense, p->label};
}

void start_in(ts_probe *p, const ts_model_case *m, const char *engine,
              ts_precision precision) {
  *p = (ts_probe){.m = m};
  make_deck(&p->deck, m);
  p->deck.c.run.precision = precision;
  ck_assert_ok(ts_test_device(&p->device, true, 1));
  ck_assert_ok(ts_lane_create(p->device, &p->lane, "compute", TS_LANE_COMPUTE));
  ck_assert_ok(ts_test_kernels(&p->k));
  const ts_model_spec spec = {.config = &p->deck.c,
                              .n_features = MF,
                              .batch_max = MB,
                              .training = true,
                              .engine = engine,
                              .kernels = &p->k};
  ck_assert_ok(ts_model_create(&p->model, &spec, p->device, p->lane));
  fill_probe(p);
  copy_params(p);
}

void start(ts_probe *p, const ts_model_case *m, const char *engine) {
  start_in(p, m, engine, TS_PRECISION_F32);
}

void stop(ts_probe *p) {
  for (int32_t i = 0; i < p->model->params.n; i++) {
    p->model->params.item[i]->grad = NULL;
    ts_mem_free(p->dw[i]);
    ts_mem_free(p->w[i]);
  }
  ts_model_destroy(p->model);
  ts_arrays_reset(&p->arrays);
  ts_lane_destroy(p->lane);
  ts_device_destroy(p->device);
}

/* Copies the step's gradients from the device; returns the mean loss. */
static double fetch_step(ts_probe *p) {
  const ts_params *params = &p->model->params;
  double loss;
  ck_assert_ok(ts_lane_sync(p->lane));
  ts_test_get(p->device, &loss, p->loss, sizeof loss);
  for (int f = 0; f < MF; f++)
    ts_test_get(p->device, p->grad[f], p->grads[f], sizeof p->grad[f]);
  for (int32_t i = 0; i < params->n; i++)
    ts_test_get(p->device, p->dw[i], params->item[i]->grad,
                (size_t)params->item[i]->n * sizeof(float));
  return loss / MB;
}

typedef struct ts_loss_task {
  const ts_kernels *kernels;
  ts_loss_args args;
} ts_loss_task;

static ts_err loss_task(void *arg, ts_lane *lane) {
  const ts_loss_task *t = arg;
  (void)lane;
  return t->kernels->loss(&t->args);
}

double step(ts_probe *p, int32_t batch, const ts_layer_hooks *hooks) {
  const int n = p->m->n_tasks;
  const ts_emb_views v = {
      (const float *const *)p->data, p->grads, p->stride, MF, NULL, NULL};
  float *logits;
  ts_task_loss tasks[MT] = {0};
  for (int k = 0; k < n; k++)
    tasks[k] = (ts_task_loss){.first = k, .weight = p->deck.tasks[k].weight};
  ck_assert_ok(
      ts_model_dense_forward(p->model, p->inputs, batch, hooks, p->lane));
  ck_assert_ok(
      ts_model_over_forward(p->model, &logits, &v, batch, hooks, p->lane));
  const ts_loss_task t = {&p->k,
                          {.loss_sum = p->loss,
                           .grad = p->dlogits,
                           .logits = logits,
                           .labels = p->labels,
                           .tasks = tasks,
                           .scale = 1.0 / MB,
                           .batch = batch,
                           .n_tasks = n,
                           .n_logits = n}};
  ck_assert_ok(ts_lane_submit(p->lane, "loss", loss_task, &t, sizeof t));
  ck_assert_ok(
      ts_model_over_backward(p->model, p->dlogits, &v, batch, hooks, p->lane));
  ck_assert_ok(ts_model_dense_backward(p->model, batch, hooks, p->lane));
  return fetch_step(p);
}
