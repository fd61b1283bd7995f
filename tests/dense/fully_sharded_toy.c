/* fully_sharded_toy.c - the layers, their made-up gradients, and what is seen.
 */
#include "tests/dense/fully_sharded_toy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "tests/support/optim_config.h"
#include "runtime/trace.h"

static char sgd[] = "sgd", constant[] = "constant", f32[] = "f32";
static char names[TOY_LAYERS_MAX][32];
static char *items[2][TOY_ENTRIES_MAX][TOY_LAYERS_MAX];
static ts_prefetch_config entries[2][TOY_ENTRIES_MAX];

void toy_sleep(double ms) {
  const struct timespec t = {(time_t)(ms / 1e3), (long)(fmod(ms, 1e3) * 1e6)};
  if (ms > 0) nanosleep(&t, NULL);
}

static char *name_of(int layer) {
  snprintf(names[layer], sizeof names[layer], "layer.%d", layer + 1);
  return names[layer];
}

ts_config toy_config(const char *parallel) {
  ts_config c = {0};
  c.optimizer.base = test_optim(sgd, 0.1);
  c.optimizer.in_backward = true;
  c.optimizer.schedule = constant;
  c.run.accumulate = 1;
  c.dense.bucket_mb = 25;
  c.dense.parallel = (char *)parallel;
  c.dense.comm_dtype = f32;
  c.dense.post_optimizer_event = true;
  c.dense.reduce_inputs = 1;
  return c;
}

void toy_list(ts_config *c, ts_pass pass, int at, const int *list) {
  int32_t *n = pass == TS_FORWARD ? &c->dense.n_forward_prefetch
                                  : &c->dense.n_backward_prefetch;
  ts_prefetch_config *e = &entries[pass][*n];
  char **to = items[pass][*n];
  ck_assert_int_lt(*n, TOY_ENTRIES_MAX);
  *e = (ts_prefetch_config){name_of(at - 1), {to, 0}};
  for (; *list; list++) to[e->prefetch.n++] = name_of(*list - 1);
  ++*n;
  c->dense.forward_prefetch = entries[TS_FORWARD];
  c->dense.backward_prefetch = entries[TS_BACKWARD];
}

void toy_lists(ts_config *c, int n_layers, int forward_k, int backward_k) {
  for (int i = 1; i <= n_layers; i++) {
    int forward[TOY_LAYERS_MAX] = {0}, backward[TOY_LAYERS_MAX] = {0};
    for (int k = 0; k < forward_k && i + k + 1 <= n_layers; k++)
      forward[k] = i + k + 1;
    for (int k = 0; k < backward_k && i - k - 1 >= 1; k++)
      backward[k] = i - k - 1;
    if (forward_k) toy_list(c, TS_FORWARD, i, forward);
    if (backward_k) toy_list(c, TS_BACKWARD, i, backward);
  }
}

/* ---- what is seen -------------------------------------------------------- */

static void more(int *peak, int x) {
  if (x > *peak) *peak = x;
}

static void watch(void *arg, ts_fully_sharded_event event, int32_t group) {
  toy *t = arg;
  const ts_fully_sharded_live *l = &t->fs->live;
  const size_t n = strlen(t->events);
  more(&t->peak.flats, l->flats);
  more(&t->peak.wholes, l->wholes);
  more(&t->peak.inputs, l->inputs);
  more(&t->flats_and_wholes, l->flats + l->wholes);
  more(&t->all, l->flats + l->wholes + l->grads + l->inputs);
  t->n_gathered += event == TS_FULLY_SHARDED_GATHER;
  t->n_reduced += event == TS_FULLY_SHARDED_REDUCE;
  t->n_drained += event == TS_FULLY_SHARDED_DRAIN;
  if (event != TS_FULLY_SHARDED_GATHER && event != TS_FULLY_SHARDED_RESHARD)
    return;
  if (n < TOY_EVENTS_MAX - 16)
    snprintf(t->events + n, 16, "%s%c%s", n ? " " : "",
             event == TS_FULLY_SHARDED_GATHER ? 'U' : 'R',
             t->fs->groups[group].name + strlen("layer."));
}

void toy_forget(toy *t) {
  t->events[0] = 0;
  t->peak = (ts_fully_sharded_live){0};
  t->flats_and_wholes = t->all = 0;
  t->n_gathered = t->n_reduced = t->n_drained = 0;
}

/* ---- start and stop ------------------------------------------------------ */

static ts_err (*real_update)(const ts_dense_update_args *, int32_t);
static double update_ms;

static ts_err slow_update(const ts_dense_update_args *a, int32_t n) {
  toy_sleep((double)n * update_ms);
  return real_update(a, n);
}

static ts_err add_layers(toy *t) {
  const toy_spec *s = &t->spec;
  t->params.deferred = ts_parallel_defers(&s->config);
  ts_params whole = {0};
  if (s->late) {
    TS_DO(ts_params_add(&whole, t->device, &t->late, "late", "late", 7, 0));
    TS_DO(ts_mem_resize(&t->params.item, 0, sizeof *t->params.item,
                        TS_TAG_DENSE));
    t->late->late = true;
    t->late->index = 2 * s->n_layers;
    TS_DO(ts_param_init_constant(t->late, 1.0f));
  }
  for (int i = 0; i < s->n_layers; i++) {
    const int rows = s->rows_of ? s->rows_of[i] : s->rows;
    char *group = name_of(i), name[32];
    snprintf(name, sizeof name, "%.20s.weight", group);
    TS_DO(ts_params_add(&t->params, t->device, &t->W[i], name, group, rows,
                        s->cols));
    snprintf(name, sizeof name, "%.20s.bias", group);
    TS_DO(ts_params_add(&t->params, t->device, &t->b[i], name, group, rows, 0));
    TS_DO(ts_param_init_uniform(t->W[i], 3, 1.0));
    TS_DO(ts_param_init_uniform(t->b[i], 3, 1.0));
  }
  if (s->late) { /* the first, with the last index */
    const size_t n = (size_t)t->params.n * sizeof *t->params.item;
    TS_DO(ts_mem_resize(&t->params.item, n, n + sizeof *t->params.item,
                        TS_TAG_DENSE));
    memmove(t->params.item + 1, t->params.item, n);
    t->params.item[0] = t->late;
    t->params.n++;
    ts_mem_free(whole.item);
  }
  return TS_OK;
}

ts_err toy_try(toy *t, const toy_spec *s) {
  const ts_world_options w = {.ordered = true,
                              .timeout_s = 60,
                              .delay_us = 1e3 * s->comm_ms,
                              .delay_gbytes_per_s = s->comm_gbytes_per_s};
  memset(t, 0, sizeof *t);
  t->spec = *s;
  TS_DO(ts_test_device(&t->device, s->serial, 1));
  TS_DO(ts_world_create(&t->world, t->device, &w));
  TS_DO(ts_lane_create(t->device, &t->lane, "work", TS_LANE_COMPUTE));
  TS_DO(ts_test_kernels(&t->kernels));
  real_update = t->kernels.dense_update;
  update_ms = s->optimizer_ms;
  t->kernels.dense_update = slow_update;
  TS_DO(add_layers(t));
  if (s->prepare) s->prepare(&t->params);
  const ts_parallel_spec spec = {.params = &t->params,
                                 .config = &t->spec.config,
                                 .device = t->device,
                                 .world = t->world,
                                 .kernels = &t->kernels,
                                 .training = !s->evaluation};
  TS_DO(ts_parallel_create(&t->parallel, &spec));
  if (!strcmp(s->config.dense.parallel, "fully_sharded")) {
    t->fs = (ts_fully_sharded *)t->parallel;
    t->fs->watch = watch;
    t->fs->watch_arg = t;
  }
  return TS_OK;
}

void toy_start(toy *t, const toy_spec *s) {
  ck_assert_ok(toy_try(t, s));
}

void toy_stop(toy *t) {
  ts_parallel_destroy(t->parallel);
  ts_params_reset(&t->params);
  ts_lane_destroy(t->lane);
  ts_world_destroy(t->world);
  ts_device_destroy(t->device);
}

/* ---- layers -------------------------------------------------------------- */

typedef struct work {
  toy *t;
  int layer;
  double ms;
  const float *W, *b; /* where they are for this layer's work */
  float *dW, *db;
  const float *want; /* t->want when the work was enqueued */
  int64_t step;
  int micro;
} work;

double toy_gradient(int64_t step, int param, int64_t i) {
  return sin((double)step * 1.3 + param * 7 + (double)i * 0.01);
}

static ts_err make_gradient(const work *w, float *to, const ts_param *p) {
  float grad[p->n];
  const double part =
      (w->micro < 0 ? 1 : 0.25 * (w->micro + 1)) / ts_world_size(w->t->world);
  for (int64_t i = 0; i < p->n; i++)
    grad[i] = (float)(part * toy_gradient(w->step, p->index, i));
  if (w->step == w->t->spec.infinite && !p->index) grad[p->n - 1] = INFINITY;
  return w->t->kernels.put(to, grad, sizeof grad);
}

/* Weights must be those that the test knows, and not written meanwhile. */
static int count_bad(const work *w) {
  const toy *t = w->t;
  const float *want = w->want;
  int bad = 0;
  if (!t->spec.check || !want) return 0;
  for (int i = 0; i < w->layer; i++) want += t->W[i]->n + t->b[i]->n;
  const int64_t n_W = t->W[w->layer]->n, n_b = t->b[w->layer]->n;
  float W[n_W], b[n_b];
  if (t->kernels.fetch(W, w->W, sizeof W) != TS_OK) return 1;
  if (t->kernels.fetch(b, w->b, sizeof b) != TS_OK) return 1;
  for (int64_t i = 0; i < n_W; i++) bad += W[i] != want[i];
  for (int64_t i = 0; i < n_b; i++) bad += b[i] != want[n_W + i];
  return bad;
}

static ts_err forward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const work *w = arg;
  w->t->bad += count_bad(w);
  toy_sleep(w->ms);
  w->t->bad += count_bad(w);
  return TS_OK;
}

static ts_err backward_task(void *arg, ts_lane *lane) {
  (void)lane;
  const work *w = arg;
  const toy *t = w->t;
  w->t->bad += count_bad(w);
  if (w->layer < 0) return make_gradient(w, w->dW, t->late);
  TS_DO(make_gradient(w, w->dW, t->W[w->layer]));
  TS_DO(make_gradient(w, w->db, t->b[w->layer]));
  toy_sleep(w->ms);
  return TS_OK;
}

static const char *const spans[2][TOY_LAYERS_MAX] = {
    {"forward 1", "forward 2", "forward 3", "forward 4", "forward 5",
     "forward 6", "forward 7", "forward 8"},
    {"backward 1", "backward 2", "backward 3", "backward 4", "backward 5",
     "backward 6", "backward 7", "backward 8"}};

static const char *span(int pass, int layer) {
  return spans[pass][layer] ? spans[pass][layer] : "layer";
}

void toy_forward(toy *t) {
  const ts_layer_hooks h = ts_parallel_hooks(t->parallel);
  for (int i = 0; i < t->spec.n_layers; i++) {
    ck_assert_ok(ts_layer_acquire(&h, t->W[i], TS_FORWARD, t->lane));
    const work w = {.t = t,
                    .layer = i,
                    .ms = t->spec.ms_of ? t->spec.ms_of[i] : t->spec.forward_ms,
                    .W = t->W[i]->w,
                    .b = t->b[i]->w,
                    .want = t->want};
    ck_assert_ok(ts_lane_submit(t->lane, span(TS_FORWARD, i), forward_task, &w,
                                sizeof w));
    ck_assert_ok(ts_layer_release(&h, t->W[i], TS_FORWARD, t->lane));
  }
}

static void late_backward(toy *t, const ts_layer_hooks *h, work w) {
  w.layer = -1;
  w.dW = t->late->grad;
  ck_assert_ok(ts_lane_submit(t->lane, "late", backward_task, &w, sizeof w));
  ck_assert_ok(ts_layer_ready(h, t->late, t->lane));
}

void toy_backward(toy *t, int64_t step, bool sync, int micro, double *norm) {
  const ts_layer_hooks h = ts_parallel_hooks(t->parallel);
  work w = {.t = t, .want = t->want, .step = step, .micro = micro};
  ck_assert_ok(ts_parallel_begin(t->parallel, step, sync));
  for (int i = t->spec.n_layers - 1; i >= 0; i--) {
    ck_assert_ok(ts_layer_acquire(&h, t->W[i], TS_BACKWARD, t->lane));
    w.layer = i;
    w.ms = t->spec.ms_of ? t->spec.ms_of[i] : t->spec.backward_ms;
    w.W = t->W[i]->w;
    w.b = t->b[i]->w;
    w.dW = t->W[i]->grad;
    w.db = t->b[i]->grad;
    ck_assert_ok(ts_lane_submit(t->lane, span(TS_BACKWARD, i), backward_task,
                                &w, sizeof w));
    ck_assert_ok(ts_layer_ready(&h, t->b[i], t->lane));
    ck_assert_ok(ts_layer_ready(&h, t->W[i], t->lane));
    ck_assert_ok(ts_layer_release(&h, t->W[i], TS_BACKWARD, t->lane));
  }
  if (t->late) late_backward(t, &h, w);
  ck_assert_ok(ts_parallel_end(t->parallel, norm, t->lane));
}

void toy_step(toy *t, int64_t step) {
  toy_forward(t);
  toy_backward(t, step, true, -1, NULL);
}

void toy_sync(toy *t) {
  ck_assert_ok(ts_lane_sync(t->lane));
}

/* ---- weights ------------------------------------------------------------- */

static int64_t add_whole(toy *t, const ts_param *p, float *out, ts_comm *comm) {
  const ts_param_piece x = ts_parallel_piece(t->parallel, p);
  const int64_t width = p->cols ? p->cols : 1;
  int64_t bytes[8] = {0}, sent = 4 * x.n_rows * width;
  ts_token token;
  if (x.replicated) {
    ts_test_get(t->device, out, x.w, (size_t)p->n * sizeof *out);
    return p->n;
  }
  ck_assert_ok(ts_comm_gather_all(comm, bytes, &sent, sizeof sent));
  ck_assert_ok(ts_comm_all_gather_v(comm, &token, out, x.w, bytes, NULL));
  ck_assert_ok(ts_comm_wait(&token));
  return p->n;
}

int64_t toy_weights(toy *t, float *out) {
  int64_t n = 0;
  ts_comm *comm;
  toy_sync(t);
  ck_assert_ok(ts_comm_create(t->world, &comm, TS_GROUP_WORLD, "weights"));
  for (int i = 0; i < t->spec.n_layers; i++) {
    n += add_whole(t, t->W[i], out + n, comm);
    n += add_whole(t, t->b[i], out + n, comm);
  }
  if (t->late) n += add_whole(t, t->late, out + n, comm);
  ts_comm_destroy(comm);
  return n;
}

/* ---- small ones ---------------------------------------------------------- */

toy_spec toy_small(const char *parallel) {
  return (toy_spec){
      .n_layers = 4, .rows = 5, .cols = 3, .config = toy_config(parallel)};
}

void toy_train(const toy_spec *s, int steps, float *out) {
  static toy t;
  toy_start(&t, s);
  for (int i = 1; i <= steps; i++) toy_step(&t, i);
  toy_weights(&t, out);
  toy_stop(&t);
}

int64_t toy_n_weights(const toy_spec *s) {
  int64_t n = 0;
  for (int i = 0; i < s->n_layers; i++)
    n += (s->rows_of ? s->rows_of[i] : s->rows) * (s->cols + 1);
  return n + (s->late ? 7 : 0);
}

bool toy_same(const toy_spec *s, const float *x, const float *y) {
  return !memcmp(x, y, (size_t)toy_n_weights(s) * sizeof *x);
}
