/* test_models.c - each model against itself in double: losses, and gradients
 * of every parameter and embedding against differences of that oracle; what
 * models say of their layers.
 * ranks: 1
 * fake: 1  emulated: 1
 * seconds: 400 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dense/interact.h"
#include "dense/linear.h"
#include "model/graph.h"
#include "tests/model/model_probe.h"

static const char *const engines[] = {"ref", "auto", "cblas"};

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
                                .batch_max = MB,
                                .training = true,
                                .engine = "ref",
                                .kernels = &k};
    ck_assert_ok(ts_device_create(&device, "host", &o));
    ck_assert_ok(ts_lane_create(device, &lane, "compute", TS_LANE_COMPUTE));
    bytes[n] = -ts_mem_stat_of(TS_TAG_ACTIVATIONS, TS_SPACE_HOST).now_bytes;
    ck_assert_ok(ts_model_create(&m, &spec, device, lane));
    bytes[n] += ts_mem_stat_of(TS_TAG_ACTIVATIONS, TS_SPACE_HOST).now_bytes;
    ts_model_destroy(m);
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

static bool is_half(const ts_probe *p, const char *layer) {
  return ts_graph_value(p->model, layer)->half;
}

/* Between dot or cross and an mlp, where products are; not what is kept for
 * others to read, nor what sparsenn puts side by side. */
TS_TEST(values_between_layers_are_bf16) {
  static ts_probe p;
  ts_kernels k;
  ck_assert_ok(ts_test_kernels(&k));
  if (!ts_linear_in_bf16(TS_PRECISION_BF16, 64, NULL, &k)) return;
  start_in(&p, &model_cases[0], NULL, TS_PRECISION_BF16);
  ck_assert(is_half(&p, "interaction"));
  ck_assert(!is_half(&p, "bottom") && !is_half(&p, "over"));
  const ts_model_spec spec = {.config = &p.deck.c,
                              .n_features = MF,
                              .batch_max = MB,
                              .kernels = &p.k,
                              .keeps = "interaction"};
  ts_graph g = {0};
  ck_assert_ok(ts_graph_plan(&g, &spec));
  ck_assert(!ts_graph_value(&g.base, "interaction")->half);
  ts_graph_reset(&g);
  stop(&p);
  start_in(&p, &model_cases[DCNV2], NULL, TS_PRECISION_BF16);
  const ts_graph *d = (const ts_graph *)p.model;
  ck_assert(is_half(&p, "cross"));
  for (int32_t i = 0; i < d->n; i++) /* the join that it reads */
    if (d->layers[i]->in[0].value->emb) ck_assert(d->layers[i]->out[0].half);
  stop(&p);
  start_in(&p, &model_cases[1], NULL, TS_PRECISION_BF16);
  const ts_graph *s = (const ts_graph *)p.model;
  for (int32_t i = 0; i < s->n; i++) ck_assert(!s->layers[i]->out[0].half);
  stop(&p);
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

/* The answers of a model in one step. */
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
                                .batch_max = MB,
                                .kernels = &p.k};
    ts_model *none = NULL;
    p.deck.c.model.n_tasks = c->n_tasks + 1;
    ck_assert_int_eq(ts_model_create(&none, &spec, p.device, p.lane),
                     TS_ERR_DECK);
    ts_err_clear();
    p.deck.c.model.n_tasks = c->n_tasks;
    if (c->fm_dim) p.deck.c.model.over_arch = (ts_ints){p.deck.over, 2};
    if (c->bottom[0]) p.deck.c.model.dense_arch.n = 0;
    if (c->fm_dim || c->bottom[0]) {
      ck_assert_int_eq(ts_model_create(&none, &spec, p.device, p.lane),
                       TS_ERR_DECK);
      ts_err_clear();
    }
    stop(&p);
  }
}

/* Four vectors of 8 numbers: 6 pairs, 2 operations for each number; what
 * the linear layers have is what create makes. */
TS_TEST(products_and_weights_are_counted) {
  static ts_probe p;
  static const struct {
    int model;
    double products;
  } cases[] = {{0, 48}, {7, 64}};
  for (int k = 0; k < 2; k++) {
    const ts_model_case *c = &model_cases[cases[k].model];
    ts_model_count n;
    double weights = 0;
    start(&p, c, "auto");
    const ts_model_spec spec = {.config = &p.deck.c,
                                .n_features = MF,
                                .batch_max = MB,
                                .kernels = &p.k};
    ck_assert_ok(ts_model_counted(&n, &spec));
    for (int32_t i = 0; i < p.model->params.n; i++)
      weights += (double)p.model->params.item[i]->n;
    ck_assert_double_eq(n.products, cases[k].products);
    ck_assert_double_eq(n.weights, weights);
    stop(&p);
  }
}
