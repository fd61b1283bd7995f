/* test_models.c - each model against itself in double: losses, and gradients
 * of every parameter and embedding against differences of that oracle; what
 * models say of their layers; the kernels by element.
 * ranks: 1
 * fake: 1
 * seconds: 400 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "dense/interact.h"
#include "dense/linear.h"
#include "tests/support/harness.h"
#include "tests/model/model_oracle.h"
#include "runtime/arrays.h"

static float draw(uint32_t a, uint32_t b) {
  uint32_t x[4];
  ts_rng4(x, 9, TS_RNG_TEST, a, b, 0);
  return 2 * ts_rng_unit(x[0]) - 1;
}

static const char *const engines[] = {"ref", "auto", "cblas"};
static const char *const isas[] = {"ref", "avx2", "avx512"};

/* ---- whole models -------------------------------------------------------- */

enum { MB = 6, MF = 3, MD = 17, MN = 4, MT = 2, PARAMS_MAX = 24 };

/* A model of KIND on tables of DIMS, and its deck. */
typedef struct ts_model_case {
  const char *kind;
  int32_t dims[MF];
  int64_t bottom[2]; /* 0: no dense features */
  int32_t n_tasks;
  int32_t layers, rank;   /* dcnv2 */
  int32_t hidden, fm_dim; /* deepfm: has dense features where hidden > 0 */
  const char *fm;
  bool weighted; /* the first table, whose place in sparsenn is the last */
} ts_model_case;

static const ts_model_case model_cases[] = {
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
enum { N_MODELS = sizeof model_cases / sizeof *model_cases, DCNV2 = 4 };

/* A deck and what belongs to it. */
typedef struct ts_plain_deck {
  ts_config c;
  char kind[16], fm[16], task[8], table[8], feature[8];
  char *features[1];
  int64_t bottom[2], over[2];
  ts_task_config tasks[MT];
  ts_table_config tables[MF];
} ts_plain_deck;

static void make_deck(ts_plain_deck *d, const ts_model_case *m) {
  const bool deepfm = !strcmp(m->kind, "deepfm");
  *d = (ts_plain_deck){.task = "label", .table = "t", .feature = "f"};
  snprintf(d->kind, sizeof d->kind, "%s", m->kind);
  snprintf(d->fm, sizeof d->fm, "%s", m->fm);
  d->features[0] = d->feature;
  for (int t = 0; t < MF; t++)
    d->tables[t] = (ts_table_config){.name = d->table,
                                     .dim = m->dims[t],
                                     .rows = 10,
                                     .features = {d->features, 1},
                                     .weighted = m->weighted && !t};
  for (int k = 0; k < MT; k++)
    d->tasks[k] = (ts_task_config){d->task, k ? 0.3 : 1.0};
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

/* On any device: what kernels touch is its memory. */
typedef struct ts_probe {
  const ts_model_case *m;
  ts_plain_deck deck;
  ts_device *device;
  ts_lane *lane;
  ts_kernels k;
  ts_arrays arrays;
  ts_model *model;
  float emb[MF][MB * MD], grad[MF][MB * MD], dense[MB * MN], label[MB * MT];
  float *data[MF], *grads[MF], *inputs, *labels, *dlogits; /* the device's */
  double *loss;
  int64_t stride[MF];
  float *dw[PARAMS_MAX]; /* gradients of parameters, for the host */
  ts_oracle oracle;
  double *w[PARAMS_MAX], *demb[MF], emb64[MF][MB * MD];
} ts_probe;

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

static void start_in(ts_probe *p, const ts_model_case *m, const char *engine,
                     ts_precision precision) {
  *p = (ts_probe){.m = m};
  make_deck(&p->deck, m);
  p->deck.c.run.precision = precision;
  ck_assert_ok(ts_test_device(&p->device, true, 1));
  ck_assert_ok(ts_lane_create(p->device, &p->lane, "compute", TS_LANE_COMPUTE));
  ck_assert_ok(ts_test_kernels(&p->k));
  const ts_model_spec spec = {.config = &p->deck.c,
                              .n_features = MF,
                              .dim = m->dims[0],
                              .batch_max = MB,
                              .training = true,
                              .engine = engine,
                              .kernels = &p->k};
  ck_assert_ok(
      ts_model_find(m->kind)->create(&p->model, &spec, p->device, p->lane));
  fill_probe(p);
  copy_params(p);
}

static void start(ts_probe *p, const ts_model_case *m, const char *engine) {
  start_in(p, m, engine, TS_PRECISION_F32);
}

static void stop(ts_probe *p) {
  for (int32_t i = 0; i < p->model->params.n; i++) {
    p->model->params.item[i]->grad = NULL;
    ts_mem_free(p->dw[i]);
    ts_mem_free(p->w[i]);
  }
  p->model->ops->destroy(p->model);
  ts_arrays_reset(&p->arrays);
  ts_lane_destroy(p->lane);
  ts_device_destroy(p->device);
}

/* What the step left on the device. */
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
  ts_bce_args args;
} ts_loss_task;

static ts_err loss_task(void *arg, ts_lane *lane) {
  const ts_loss_task *t = arg;
  (void)lane;
  return t->kernels->bce(&t->args);
}

/* One step over the first BATCH samples; the loss. */
static double step(ts_probe *p, int32_t batch, const ts_layer_hooks *hooks) {
  const ts_model_ops *ops = p->model->ops;
  const int n = p->m->n_tasks;
  const ts_emb_views v = {(const float *const *)p->data, p->grads, p->stride,
                          MF};
  float *logits;
  double weights[MT];
  for (int k = 0; k < n; k++) weights[k] = p->deck.tasks[k].weight;
  ck_assert_ok(ops->dense_forward(p->model, p->inputs, batch, hooks, p->lane));
  ck_assert_ok(ops->over_forward(p->model, &logits, &v, batch, hooks, p->lane));
  const ts_loss_task t = {&p->k,
                          {.loss_sum = p->loss,
                           .grad = p->dlogits,
                           .logits = logits,
                           .labels = p->labels,
                           .task_weights = weights,
                           .scale = 1.0 / MB,
                           .batch = batch,
                           .n_tasks = n}};
  ck_assert_ok(ts_lane_submit(p->lane, "loss", loss_task, &t, sizeof t));
  ck_assert_ok(
      ops->over_backward(p->model, p->dlogits, &v, batch, hooks, p->lane));
  ck_assert_ok(ops->dense_backward(p->model, batch, hooks, p->lane));
  return fetch_step(p);
}

/* d loss / d *x of the oracle, by a central difference. */
static double slope_at(const ts_probe *p, double *x) {
  const double kept = *x, h = 1e-6;
  *x = kept + h;
  const double up = ts_oracle_loss(&p->oracle);
  *x = kept - h;
  const double down = ts_oracle_loss(&p->oracle);
  *x = kept;
  return (up - down) / (2 * h);
}

/* Beside GRAD. */
static void compare(const ts_probe *p, double *x, float grad,
                    const char *what) {
  const double slope = slope_at(p, x);
  ck_assert_msg(fabs(slope - (double)grad) < 2e-6 + 1e-5 * fabs(slope),
                "%s, %s: %.8g by difference, %.8g by backward", p->m->kind,
                what, slope, (double)grad);
}

static void model_case(const ts_model_case *m, const char *engine) {
  static ts_probe p;
  start(&p, m, engine);
  /* Sanitizers make the oracle slow, and look at arithmetic alone; another
   * device's products are the host's. */
  const bool few =
      getenv("TESSERA_SANITIZED") || ts_device_is_discrete(p.device);
  const int every = few ? 11 : 1;
  const double loss = step(&p, MB, NULL);
  ck_assert_double_eq_tol(loss, ts_oracle_loss(&p.oracle), 1e-6 * loss);
  for (int f = 0; f < MF; f++)
    for (int j = 0; j < MB * m->dims[f]; j += every)
      compare(&p, &p.emb64[f][j], p.grad[f][j], "embedding");
  for (int32_t i = 0; i < p.model->params.n; i++) {
    const ts_param *q = p.model->params.item[i];
    for (int64_t j = 0; j < q->n; j += every)
      compare(&p, &p.w[i][j], p.dw[i][j], q->name);
  }
  stop(&p);
}

/* Scratch of the interaction: for each thread, of the host. */
TS_TEST(dlrm_has_scratch_for_each_thread) {
  ts_plain_deck d;
  ts_kernels k;
  ts_lane *lane;
  ts_device *device;
  ts_model *m;
  int64_t bytes[4] = {0};
  make_deck(&d, &model_cases[0]);
  ck_assert_ok(ts_kernels_fill(&k, "host", NULL));
  for (int n = 1; n <= 3; n++) {
    const ts_device_options o = {.serial = true, .n_threads = n};
    const ts_model_spec spec = {.config = &d.c,
                                .n_features = MF,
                                .dim = d.tables[0].dim,
                                .batch_max = MB,
                                .training = true,
                                .engine = "ref",
                                .kernels = &k};
    ck_assert_ok(ts_device_create(&device, "host", &o));
    ck_assert_ok(ts_lane_create(device, &lane, "compute", TS_LANE_COMPUTE));
    bytes[n] = -ts_mem_stat_of(TS_TAG_ACTIVATIONS, TS_SPACE_HOST).now_bytes;
    ck_assert_ok(ts_model_find("dlrm")->create(&m, &spec, device, lane));
    bytes[n] += ts_mem_stat_of(TS_TAG_ACTIVATIONS, TS_SPACE_HOST).now_bytes;
    m->ops->destroy(m);
    ts_lane_destroy(lane);
    ts_device_destroy(device);
  }
  /* 4 vectors, 8 outputs of the bottom and 6 pairs in a row of 32. */
  const int64_t each = 4 * ts_interact_work(MF + 1, d.tables[0].dim, 32);
  ck_assert_int_eq(bytes[2] - bytes[1], each);
  ck_assert_int_eq(bytes[3] - bytes[1], 2 * each);
  ck_assert_int_ge(bytes[1], each + 4 * MB * 2 * 32);
}

TS_TESTS(models_against_double, 0, 3) {
  if (strcmp(ts_linear_engine(engines[_i]), "none") == 0) return;
  for (int m = 0; m < N_MODELS; m++) model_case(&model_cases[m], engines[_i]);
}

/* In bf16 what adds up is compared: a gradient's distance from the oracle's to
 * its length. */
static void compare_norms(const ts_probe *p, double *x, const float *grad,
                          int64_t n, const char *what) {
  double off = 0, all = 0;
  for (int64_t j = 0; j < n; j++) {
    const double slope = slope_at(p, &x[j]), d = slope - (double)grad[j];
    off += d * d;
    all += slope * slope;
  }
  ck_assert_msg(sqrt(off) < 0.02 * sqrt(all) + 1e-6, "%s, %s: %.3g of %.3g off",
                p->m->kind, what, sqrt(off), sqrt(all));
}

/* Odd widths, too: rows of bf16 are padded. */
TS_TEST(models_in_bf16_against_double) {
  static ts_probe p;
  ts_kernels k;
  ck_assert_ok(ts_test_kernels(&k));
  if (!ts_linear_in_bf16(TS_PRECISION_BF16, 64, NULL, &k)) return;
  for (int m = 0; m < N_MODELS; m++) {
    start_in(&p, &model_cases[m], NULL, TS_PRECISION_BF16);
    const double loss = step(&p, MB, NULL);
    ck_assert_double_eq_tol(loss, ts_oracle_loss(&p.oracle), 5e-3 * loss);
    for (int f = 0; f < MF; f++)
      compare_norms(&p, p.emb64[f], p.grad[f], MB * p.m->dims[f], "embedding");
    for (int32_t i = 0; i < p.model->params.n; i++) {
      const ts_param *q = p.model->params.item[i];
      compare_norms(&p, p.w[i], p.dw[i], q->n, q->name);
    }
    stop(&p);
  }
}

/* A rank without samples takes part with gradients of 0. */
TS_TEST(no_samples_give_no_gradient) {
  static ts_probe p;
  for (int m = 0; m < N_MODELS; m++) {
    start(&p, &model_cases[m], "auto");
    (void)step(&p, MB, NULL);
    (void)step(&p, 0, NULL);
    for (int32_t i = 0; i < p.model->params.n; i++)
      for (int64_t j = 0; j < p.model->params.item[i]->n; j++)
        ck_assert_float_eq(p.dw[i][j], 0);
    stop(&p);
  }
}

/* ---- layers and groups --------------------------------------------------- */

/* What a model said in one step. */
typedef struct ts_heard {
  const ts_params *params;
  const char *open; /* the group at work */
  int32_t next;     /* forward: the parameter whose group comes next */
  int32_t ready;    /* backward: parameters not given up yet */
} ts_heard;

static ts_err hear_acquire(void *arg, const ts_param *p, ts_pass pass,
                           ts_lane *lane) {
  (void)lane;
  ts_heard *h = arg;
  ck_assert_ptr_null(h->open);
  h->open = p->group;
  if (pass == TS_FORWARD)
    ck_assert_str_eq(p->group, h->params->item[h->next]->group);
  else
    ck_assert_str_eq(p->group, h->params->item[h->ready - 1]->group);
  return TS_OK;
}

static ts_err hear_release(void *arg, const ts_param *p, ts_pass pass,
                           ts_lane *lane) {
  (void)lane;
  ts_heard *h = arg;
  ck_assert_str_eq(h->open, p->group);
  while (pass == TS_FORWARD && h->next < h->params->n &&
         !strcmp(h->params->item[h->next]->group, p->group))
    h->next++;
  if (pass == TS_BACKWARD && h->ready > 0)
    ck_assert_str_ne(p->group, h->params->item[h->ready - 1]->group);
  h->open = NULL;
  return TS_OK;
}

static ts_err hear_ready(void *arg, ts_param *p, ts_lane *lane) {
  (void)lane;
  ts_heard *h = arg;
  ck_assert_str_eq(h->open, p->group);
  ck_assert_ptr_eq(p, h->params->item[--h->ready]);
  return TS_OK;
}

TS_TEST(layers_come_in_order) {
  static ts_probe p;
  for (int m = 0; m < N_MODELS; m++) {
    start(&p, &model_cases[m], "auto");
    ts_heard h = {.params = &p.model->params, .ready = p.model->params.n};
    const ts_layer_hooks hooks = {hear_acquire, hear_release, hear_ready, &h};
    (void)step(&p, MB, &hooks);
    ck_assert_int_eq(h.next, h.params->n);
    ck_assert_int_eq(h.ready, 0);
    stop(&p);
  }
}

TS_TEST(cross_layers_are_groups_and_normal) {
  static ts_probe p;
  start(&p, &model_cases[DCNV2], "auto");
  const ts_param *V =
      ts_params_find(&p.model->params, "inter_arch.crossnet.V_kernels.1");
  const ts_param *W =
      ts_params_find(&p.model->params, "inter_arch.crossnet.W_kernels.1");
  ck_assert_str_eq(V->group, "cross.1");
  ck_assert_str_eq(W->group, "cross.1");
  const size_t bytes = (size_t)V->n * sizeof(float); /* of W, too */
  float *v = ts_test_borrow(p.device, V->w, bytes);
  float *w = ts_test_borrow(p.device, W->w, bytes);
  double sum = 0, square = 0;
  for (int64_t j = 0; j < V->n; j++) {
    sum += (double)v[j] + (double)w[j];
    square += (double)v[j] * v[j] + (double)w[j] * w[j];
  }
  ts_test_return(p.device, V->w, v, bytes, false);
  ts_test_return(p.device, W->w, w, bytes, false);
  const double n = 2.0 * (double)V->n, want = 2.0 / (V->rows + V->cols);
  ck_assert_double_lt(fabs(sum / n), 4 * sqrt(want / n));
  ck_assert_double_lt(fabs(square / n / want - 1), 4 * sqrt(2 / n));
  stop(&p);
}

TS_TEST(decks_that_do_not_fit_are_refused) {
  static ts_probe p;
  for (int m = 0; m < N_MODELS; m++) {
    const ts_model_case *c = &model_cases[m];
    start(&p, c, "auto");
    const ts_model_spec spec = {.config = &p.deck.c,
                                .n_features = MF,
                                .dim = c->dims[0],
                                .batch_max = MB,
                                .kernels = &p.k};
    ts_model *none = NULL;
    p.deck.c.model.n_tasks = c->n_tasks + 1;
    ck_assert_int_eq(
        ts_model_find(c->kind)->create(&none, &spec, p.device, p.lane),
        TS_ERR_DECK);
    ts_err_clear();
    p.deck.c.model.n_tasks = c->n_tasks;
    if (c->fm_dim) p.deck.c.model.over_arch = (ts_ints){p.deck.over, 2};
    if (c->bottom[0]) p.deck.c.model.dense_arch.n = 0;
    if (c->fm_dim || c->bottom[0]) {
      ck_assert_int_eq(
          ts_model_find(c->kind)->create(&none, &spec, p.device, p.lane),
          TS_ERR_DECK);
      ts_err_clear();
    }
    stop(&p);
  }
}

/* ---- kernels by element -------------------------------------------------- */

enum { KB = 5, KW = 77 };

static void fill(float *x, int n, uint32_t stream) {
  for (int j = 0; j < n; j++) x[j] = draw(stream, (uint32_t)j);
}

/* The end of a row of x, y, ... must stay as it is. */
static void cross_case(const ts_kernels *k, int width, int stride, bool first,
                       bool add, bool last) {
  float x0[KB * KW], x[KB * KW], t[KB * KW], y[KB * KW], dv[KB * KW],
      dy[KB * KW], dx0[KB * KW], dt[KB * KW], dy_was[KB * KW], dx0_was[KB * KW];
  float *all[] = {x0, x, t, y, dv, dy, dx0, dt};
  for (uint32_t i = 0; i < 8; i++) fill(all[i], KB * KW, 100 + i);
  memcpy(dy_was, dy, sizeof dy);
  memcpy(dx0_was, dx0, sizeof dx0);
  ts_cross_args a = {.x0 = x0,
                     .x = x,
                     .t = t,
                     .y = y,
                     .add = add ? dv : NULL,
                     .dy = dy,
                     .dx0 = dx0,
                     .dt = dt,
                     .first = first,
                     .width = width,
                     .stride = stride,
                     .t_stride = width,
                     .batch = KB};
  ck_assert_ok(k->cross_forward(&a));
  if (last) a.t = NULL;
  ck_assert_ok(k->cross_backward(&a));
  for (int i = 0; i < KB; i++)
    for (int c = 0; c < stride; c++) {
      const int j = i * stride + c, tj = i * width + c;
      if (c >= width) {
        ck_assert_float_eq(y[j], draw(103, (uint32_t)j));
        ck_assert_float_eq(dx0[j], dx0_was[j]);
        continue;
      }
      const double g = dy_was[j] + (add ? (double)dv[j] : 0);
      const double to =
          (first ? 0 : (double)dx0_was[j]) + g * (last ? 1 : (double)t[tj]);
      ck_assert_float_eq_tol(y[j], x0[j] * t[tj] + x[j], 1e-6f);
      ck_assert_float_eq_tol(dx0[j], (float)to, 1e-6f);
      if (!last) ck_assert_float_eq_tol(dt[tj], (float)(g * x0[j]), 1e-6f);
    }
  if (last) ck_assert_mem_eq(dy, dy_was, sizeof dy);
}

/* With t, dt and add in bf16: as of floats that are rounded so; then without
 * y, and with dy in bf16, too. */
static void half_cross_case(const ts_kernels *k, int width, bool first) {
  enum { RUNS = 3 };
  static float x0[KB * KW], x[KB * KW], t[KB * KW], add[KB * KW], dt[KB * KW];
  static float y[2][KB * KW], dy[RUNS][KB * KW], dx0[RUNS][KB * KW];
  static uint16_t t16[KB * KW], add16[KB * KW], dy16[KB * KW];
  static uint16_t dt16[RUNS][KB * KW], y16[RUNS][KB * KW];
  fill(x0, KB * KW, 130);
  fill(x, KB * KW, 131);
  memset(dt16, 0, sizeof dt16);
  memset(y16, 0, sizeof y16);
  for (int i = 0; i < KB * KW; i++) {
    t16[i] = ts_f32_to_bf16(draw(132, (uint32_t)i));
    add16[i] = ts_f32_to_bf16(draw(133, (uint32_t)i));
    dy16[i] = ts_f32_to_bf16(draw(134, (uint32_t)i));
    t[i] = ts_bf16_to_f32(t16[i]);
    add[i] = ts_bf16_to_f32(add16[i]);
    dy[0][i] = dy[1][i] = dy[2][i] = ts_bf16_to_f32(dy16[i]);
  }
  for (int run = 0; run < RUNS; run++) {
    const bool half = run > 0, ends = run > 1;
    fill(dx0[run], KB * KW, 135);
    for (int i = 0; ends && i < KB * KW; i++)
      if (i % KW < width) dy[run][i] = NAN;
    const ts_cross_args a = {.x0 = x0,
                             .x = x,
                             .t = half ? (void *)t16 : t,
                             .y = ends ? NULL : y[run],
                             .y16 = half ? y16[run] : NULL,
                             .half = half,
                             .add = half ? (void *)add16 : add,
                             .dy = dy[run],
                             .dy16 = ends ? dy16 : NULL,
                             .dx0 = dx0[run],
                             .dt = half ? (void *)dt16[run] : dt,
                             .first = first,
                             .width = width,
                             .stride = KW,
                             .t_stride = KW,
                             .batch = KB};
    ck_assert_ok(k->cross_forward(&a));
    ck_assert_ok(k->cross_backward(&a));
  }
  for (int j = 0; j < KB * KW; j++) {
    const bool used = j % KW < width;
    if (used) ck_assert_float_eq_tol(y[1][j], y[0][j], 1e-6f);
    ck_assert_float_eq_tol(dx0[1][j], dx0[0][j], 1e-6f);
    ck_assert_float_eq(dy[1][j], dy[0][j]);
    ck_assert_float_eq(dy[2][j], dy[0][j]);
    ck_assert_uint_eq(y16[1][j], used ? ts_f32_to_bf16(y[1][j]) : 0);
    ck_assert_uint_eq(dt16[1][j], used ? ts_f32_to_bf16(dt[j]) : 0);
  }
  ck_assert_mem_eq(dx0[1], dx0[2], sizeof dx0[1]);
  ck_assert_mem_eq(dt16[1], dt16[2], sizeof dt16[1]);
  ck_assert_mem_eq(y16[1], y16[2], sizeof y16[1]);
}

static void fm_case(const ts_kernels *k, int n, int dim, int stride) {
  float x[KB * KW], dx[KB * KW], was[KB * KW], out[KB * 3], g[KB * 3];
  fill(x, KB * KW, 120);
  fill(dx, KB * KW, 121);
  fill(g, KB * 3, 122);
  memcpy(was, dx, sizeof dx);
  const ts_fm_args a = {.x = x,
                        .dx = dx,
                        .out = out + 1,
                        .grad = g + 1,
                        .n_vectors = n,
                        .dim = dim,
                        .stride = stride,
                        .out_stride = 3,
                        .batch = KB};
  ck_assert_ok(k->fm_forward(&a));
  ck_assert_ok(k->fm_backward(&a));
  for (int i = 0; i < KB; i++) {
    double fm = 0;
    for (int d = 0; d < dim; d++) {
      double sum = 0, square = 0;
      for (int v = 0; v < n; v++) {
        const double e = x[i * stride + v * dim + d];
        sum += e;
        square += e * e;
      }
      fm += (sum * sum - square) / 2;
      for (int v = 0; v < n; v++) {
        const int j = i * stride + v * dim + d;
        const double want = was[j] + (double)g[3 * i + 1] * (sum - x[j]);
        ck_assert_float_eq_tol(dx[j], (float)want, 1e-5f);
      }
    }
    for (int j = n * dim; j < stride; j++)
      ck_assert_float_eq(dx[i * stride + j], was[i * stride + j]);
    ck_assert_float_eq_tol(out[3 * i + 1], (float)fm, 2e-5f);
  }
}

TS_TESTS(kernels_against_double, 0, 3) {
  ts_kernels k;
  if (ts_kernels_fill(&k, "host", isas[_i]) != TS_OK) {
    ts_err_clear(); /* not on this CPU */
    return;
  }
  for (int v = 0; v < 8; v++) {
    cross_case(&k, 64, 64, v & 1, v & 2, v & 4);
    half_cross_case(&k, 37 + v, v & 1);
    cross_case(&k, 37, 64, v & 1, v & 2, v & 4);
    cross_case(&k, 3, 5, v & 1, v & 2, v & 4);
  }
  fm_case(&k, 64, 1, 64);
  fm_case(&k, 61, 1, 64);
  fm_case(&k, 3, 1, 3);
  fm_case(&k, 4, 16, 64);
  fm_case(&k, 4, 19, 77);
  fm_case(&k, 7, 3, 32);
}
