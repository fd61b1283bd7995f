/* layer_rig.c - a graph from a deck's text, and a pass of it. */
#include "tests/model/layer_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "io/deck.h"

static double draw(const lr_rig *r, uint32_t a, int64_t b) {
  uint32_t x[4];
  ts_rng4(x, r->seed, TS_RNG_TEST, (uint64_t)b, a, 0);
  return 2 * (double)ts_rng_unit(x[0]) - 1;
}

/* ---- the oracle's point -------------------------------------------------- */

static const double *find(const ts_params *params, double *const *w,
                          const char *name) {
  for (int32_t i = 0; params && i < params->n; i++)
    if (!strcmp(params->item[i]->name, name)) return w[i];
  return NULL;
}

const double *lr_param(const lr_point *p, const char *name) {
  const double *w = find(p->params, p->w, name);
  if (!w) w = find(p->buffers, p->buffer, name);
  ck_assert_msg(w != NULL, "there is no parameter %s", name);
  return w;
}

const double *lr_param_of(const lr_point *p, const char *fmt, int32_t i) {
  char name[64];
  snprintf(name, sizeof name, fmt, i);
  return lr_param(p, name);
}

void lr_affine(double *y, const double *w, const double *b, const double *x,
               int32_t n_out, int32_t n_in) {
  for (int32_t o = 0; o < n_out; o++) {
    y[o] = b ? b[o] : 0;
    for (int32_t i = 0; i < n_in; i++) y[o] += w[o * n_in + i] * x[i];
  }
}

void lr_embeddings(const lr_point *p, double *x) {
  for (int32_t b = 0; b < p->batch; b++)
    for (int32_t f = 0; f < p->n_features; f++)
      for (int32_t j = 0; j < p->dim[f]; j++)
        *x++ = p->emb[f][b * p->dim[f] + j];
}

/* ---- the graph ----------------------------------------------------------- */

static ts_err parse(ts_config **out, const lr_case *c) {
  ts_err err = TS_OK;
  ts_str s = {0};
  TS_TRY(ts_str_append(&s,
                       "run = { name = \"rig\"; steps = 1; precision = \"%s\"; "
                       "};\n"
                       "data = { format = \"synthetic\"; global_batch = 4; };\n"
                       "tables = (\n%s );\nmodel = { dense_features = %d;\n"
                       "tasks = (",
                       c->bf16 ? "bf16" : "f32",
                       c->tables ? c->tables : LR_TABLES("0..2", "4"),
                       c->n_dense));
  for (int32_t k = 0; k < c->n_out; k++)
    TS_TRY(ts_str_append(&s, "%s { name = \"y%d\"; }", k ? "," : "", k));
  TS_TRY(ts_str_append(&s, " );\nlayers = (\n%s );\n};\n%s", c->layers,
                       c->more ? c->more : ""));
  const char *room[] = {"data.synthetic.pooling=[9]", "data.max_tokens=64"};
  TS_TRY(ts_deck_parse(out, s.text, "/tmp", room, c->lengths ? 2 : 0));
done:
  ts_str_reset(&s);
  return err;
}

static ts_err create(lr_rig *r, const lr_case *c) {
  TS_DO(parse(&r->config, c));
  const ts_model_spec spec = {.config = r->config,
                              .n_features = ts_feature_count(r->config),
                              .batch_max = LR_BATCH,
                              .training = true,
                              .kernels = &r->k,
                              .keeps = c->keeps,
                              .world = r->world};
  return ts_model_create(&r->model, &spec, r->device, r->lane);
}

/* N floats of the device's, from the host's doubles. */
static float *to_device(lr_rig *r, const double *x, int32_t rows, int32_t n,
                        int64_t stride) {
  float *at, *host;
  ck_assert_ok(ts_arrays_take(&r->arrays, r->device, &at, rows * stride, 4,
                              TS_TAG_MISC));
  ck_assert_ok(ts_mem_array(&host, rows * stride + 1, 4, TS_TAG_MISC));
  for (int64_t i = 0; i < rows * stride; i++)
    host[i] = i % stride < n ? (float)x[i / stride * n + i % stride] : NAN;
  ts_test_put(r->device, at, host, (size_t)(rows * stride) * 4);
  ts_mem_free(host);
  return at;
}

/* Numbers that f32 has, too. */
static double *random_of(const lr_rig *r, uint32_t a, int64_t n) {
  double *x;
  ck_assert_ok(ts_mem_array(&x, n + 1, 8, TS_TAG_MISC));
  for (int64_t i = 0; i < n; i++) x[i] = (double)(float)draw(r, a, i);
  return x;
}

int32_t lr_rows(const lr_point *p, int32_t f) {
  int32_t n = 0;
  for (int32_t b = 0; p->by_token[f] && b < p->batch; b++) n += p->lengths[b];
  return p->by_token[f] ? n : p->batch;
}

static void fill_lengths(lr_rig *r) {
  if (!r->c->lengths) return;
  ck_assert_ok(ts_arrays_take(&r->arrays, r->device, &r->lengths, LR_BATCH, 4,
                              TS_TAG_MISC));
  ts_test_put(r->device, r->lengths, r->c->lengths, LR_BATCH * 4);
}

static void fill_inputs(lr_rig *r) {
  lr_point *p = &r->p;
  const int32_t n_out = r->c->n_out;
  p->batch = LR_BATCH;
  p->lengths = r->c->lengths;
  fill_lengths(r);
  p->n_dense = r->c->n_dense;
  p->n_out = n_out;
  p->seed = r->config->run.seed;
  p->n_features = ts_feature_count(r->config);
  ck_assert_int_le(p->n_features, LR_FEATURES_MAX);
  for (int32_t f = 0; f < p->n_features; f++) {
    const ts_table_config *t = ts_feature_table(r->config, f, NULL);
    const int32_t d = p->dim[f] = t->dim;
    p->by_token[f] = t->pooling == TS_POOL_NONE;
    const int32_t rows = lr_rows(p, f);
    r->stride[f] = d + (int64_t)(r->seed + (uint32_t)f) % 3;
    p->emb[f] = random_of(r, 100 + (uint32_t)f, (int64_t)rows * d);
    r->data[f] = to_device(r, p->emb[f], rows, d, r->stride[f]);
    r->grad[f] = to_device(r, p->emb[f], rows, d, r->stride[f]);
    ck_assert_ok(
        ts_mem_array(&r->demb[f], rows * r->stride[f], 4, TS_TAG_MISC));
  }
  p->dense = random_of(r, 1, (int64_t)LR_BATCH * p->n_dense);
  r->dense = p->n_dense
                 ? to_device(r, p->dense, LR_BATCH, p->n_dense, p->n_dense)
                 : NULL;
  r->c_out = random_of(r, 2, (int64_t)LR_BATCH * n_out);
  r->dlogits = to_device(r, r->c_out, LR_BATCH, n_out, n_out);
  ck_assert_ok(
      ts_mem_array(&r->out, (int64_t)LR_BATCH * n_out, 4, TS_TAG_MISC));
}

/* Copies in double; vectors (biases, gains) move away from 0 and 1. */
static void copy_params(lr_rig *r) {
  const ts_params *params = &r->model->params;
  r->p.params = params;
  ck_assert_int_le(params->n, LR_PARAMS_MAX);
  for (int32_t i = 0; i < params->n; i++) {
    ts_param *q = params->item[i];
    const size_t bytes = (size_t)q->n * sizeof(float);
    ck_assert_ok(
        ts_arrays_take(&r->arrays, r->device, &q->grad, q->n, 4, TS_TAG_DENSE));
    ck_assert_ok(ts_mem_array(&r->dw[i], q->n, 4, TS_TAG_MISC));
    ck_assert_ok(ts_mem_array(&r->p.w[i], q->n, 8, TS_TAG_MISC));
    float *w = ts_test_borrow(r->device, q->w, bytes);
    for (int64_t j = 0; j < q->n; j++) {
      if (!q->cols) w[j] += 0.3f * (float)draw(r, 40 + (uint32_t)i, j);
      r->p.w[i][j] = w[j];
    }
    ts_test_return(r->device, q->w, w, bytes, true);
  }
}

/* So that a pass that reads them can be told from one that does not. */
static void fill_buffers(lr_rig *r) {
  const ts_params *buffers = &r->model->buffers;
  r->p.buffers = buffers;
  ck_assert_int_le(buffers->n, LR_PARAMS_MAX);
  for (int32_t i = 0; i < buffers->n; i++) {
    const ts_param *q = buffers->item[i];
    float *w = ts_test_borrow(r->device, q->w, (size_t)q->n * 4);
    ck_assert_ok(ts_mem_array(&r->p.buffer[i], q->n, 8, TS_TAG_MISC));
    for (int64_t j = 0; j < q->n; j++) {
      if (r->c->eval) w[j] += 0.5f * (float)draw(r, 70 + (uint32_t)i, j);
      r->p.buffer[i][j] = w[j];
    }
    ts_test_return(r->device, q->w, w, (size_t)q->n * 4, true);
  }
}

void lr_start(lr_rig *r, const lr_case *c, uint32_t seed, ts_world *world,
              ts_device *device) {
  *r = (lr_rig){.c = c, .seed = seed, .world = world, .device = device};
  ck_assert_ok(ts_lane_create(r->device, &r->lane, "compute", TS_LANE_COMPUTE));
  ck_assert_ok(ts_test_kernels(&r->k));
  ck_assert_ok(create(r, c));
  fill_inputs(r);
  copy_params(r);
  fill_buffers(r);
}

void lr_stop(lr_rig *r) {
  for (int32_t i = 0; i < r->model->params.n; i++) {
    r->model->params.item[i]->grad = NULL;
    ts_mem_free_all(r->dw[i], r->p.w[i]);
  }
  for (int32_t i = 0; i < r->model->buffers.n; i++) ts_mem_free(r->p.buffer[i]);
  for (int32_t f = 0; f < r->p.n_features; f++)
    ts_mem_free_all(r->p.emb[f], r->demb[f]);
  ts_mem_free_all(r->p.dense, r->c_out, r->out);
  ts_model_destroy(r->model);
  ts_deck_destroy(r->config);
  ts_arrays_reset(&r->arrays);
  ts_lane_destroy(r->lane);
}

/* ---- a pass -------------------------------------------------------------- */

static ts_emb_views views_of(lr_rig *r, int32_t batch) {
  lr_point p = r->p;
  p.batch = batch;
  for (int32_t f = 0; f < p.n_features; f++)
    r->tokens[f] = (ts_jagged){.lengths = r->lengths, .n_ids = lr_rows(&p, f)};
  return (ts_emb_views){(const float *const *)r->data,
                        r->grad,
                        r->stride,
                        r->p.n_features,
                        r->tokens,
                        NULL};
}

void lr_forward(lr_rig *r, int32_t batch) {
  const ts_emb_views v = views_of(r, batch);
  float *logits;
  ck_assert_ok(
      ts_model_dense_forward(r->model, r->dense, batch, NULL, r->lane));
  ck_assert_ok(
      ts_model_over_forward(r->model, &logits, &v, batch, NULL, r->lane));
  ck_assert_ok(ts_lane_sync(r->lane));
  ts_test_get(r->device, r->out, logits, (size_t)(batch * r->c->n_out) * 4);
}

/* What a pass has to write is nothing of before. */
static void spoil(lr_rig *r, float *at, int64_t n) {
  float *x = ts_test_borrow(r->device, at, (size_t)n * 4);
  for (int64_t i = 0; i < n; i++) x[i] = NAN;
  ts_test_return(r->device, at, x, (size_t)n * 4, true);
}

void lr_backward(lr_rig *r, int32_t batch) {
  const ts_params *params = &r->model->params;
  const int64_t n = (int64_t)LR_BATCH * r->c->n_out;
  const ts_emb_views v = views_of(r, batch);
  float *c = ts_test_borrow(r->device, r->dlogits, (size_t)n * 4);
  for (int64_t i = 0; i < n; i++) c[i] = (float)r->c_out[i];
  ts_test_return(r->device, r->dlogits, c, (size_t)n * 4, true);
  for (int32_t f = 0; f < r->p.n_features; f++)
    spoil(r, r->grad[f], lr_rows(&r->p, f) * r->stride[f]);
  for (int32_t i = 0; i < params->n; i++)
    spoil(r, params->item[i]->grad, params->item[i]->n);
  ck_assert_ok(
      ts_model_over_backward(r->model, r->dlogits, &v, batch, NULL, r->lane));
  ck_assert_ok(ts_model_dense_backward(r->model, batch, NULL, r->lane));
  ck_assert_ok(ts_lane_sync(r->lane));
  for (int32_t f = 0; f < r->p.n_features; f++)
    ts_test_get(r->device, r->demb[f], r->grad[f],
                (size_t)(lr_rows(&r->p, f) * r->stride[f]) * 4);
  for (int32_t i = 0; i < params->n; i++)
    ts_test_get(r->device, r->dw[i], params->item[i]->grad,
                (size_t)params->item[i]->n * 4);
}

/* ---- against the oracle -------------------------------------------------- */

static double loss(const lr_rig *r, const lr_point *p, double *out) {
  double sum = 0;
  r->c->oracle(out, p, r->c->arg);
  for (int64_t i = 0; i < (int64_t)p->batch * p->n_out; i++)
    sum += r->c_out[i] * out[i];
  return sum;
}

static void compare(const lr_rig *r, const lr_point *p, double *out, double *x,
                    float grad, const char *what, int64_t at) {
  const double kept = *x, h = 1e-6;
  const double tolerance = r->c->tolerance > 0 ? r->c->tolerance : 1e-4;
  *x = kept + h;
  const double up = loss(r, p, out);
  *x = kept - h;
  const double slope = (up - loss(r, p, out)) / (2 * h);
  *x = kept;
  ck_assert_msg(fabs(slope - (double)grad) < tolerance * (0.1 + fabs(slope)),
                "%s, seed %u, batch %d: d %s[%lld] is %.8g by difference, "
                "%.8g by backward",
                r->c->layers, r->seed, p->batch, what, (long long)at, slope,
                (double)grad);
}

static void check_gradients(lr_rig *r, const lr_point *p, double *out) {
  for (int32_t f = 0; f < p->n_features; f++)
    for (int32_t i = 0; i < lr_rows(p, f) * p->dim[f]; i++)
      compare(r, p, out, &p->emb[f][i],
              r->demb[f][i / p->dim[f] * r->stride[f] + i % p->dim[f]],
              "embedding", 100 * f + i);
  for (int32_t k = 0; k < p->params->n; k++)
    for (int64_t i = 0; i < p->params->item[k]->n; i++)
      compare(r, p, out, &p->w[k][i], r->dw[k][i], p->params->item[k]->name, i);
}

static void check_batch(lr_rig *r, int32_t batch) {
  const int64_t n = (int64_t)batch * r->c->n_out;
  const double near = r->c->near > 0 ? r->c->near : 1e-5;
  double *out;
  lr_point p = r->p;
  p.batch = batch;
  ck_assert_ok(ts_mem_array(&out, n + 1, 8, TS_TAG_MISC));
  r->model->pass = (ts_model_pass){.training = !r->c->eval, .n_global = batch};
  lr_forward(r, batch);
  (void)loss(r, &p, out);
  for (int64_t i = 0; i < n; i++)
    ck_assert_msg(
        fabs(out[i] - (double)r->out[i]) < near * (0.1 + fabs(out[i])),
        "%s, seed %u, batch %d: output %lld is %.8g, not %.8g", r->c->layers,
        r->seed, batch, (long long)i, (double)r->out[i], out[i]);
  if (!r->c->eval) {
    lr_backward(r, batch);
    check_gradients(r, &p, out);
  }
  ts_mem_free(out);
}

void lr_check(const lr_case *c) {
  static const int32_t batches[] = {LR_BATCH, 1, 0};
  for (uint32_t seed = 1; seed <= 3; seed++) {
    lr_rig r;
    ts_device *device;
    ck_assert_ok(ts_test_device(&device, true, 1));
    lr_start(&r, c, seed, NULL, device);
    for (int k = 0; k < 3; k++) check_batch(&r, batches[k]);
    lr_stop(&r);
    ts_device_destroy(device);
  }
}

void lr_refused(const lr_case *c, const char *text) {
  lr_rig r = {.c = c};
  ck_assert_ok(ts_test_device(&r.device, true, 1));
  ck_assert_ok(ts_lane_create(r.device, &r.lane, "compute", TS_LANE_COMPUTE));
  ck_assert_ok(ts_test_kernels(&r.k));
  ck_assert_int_eq(create(&r, c), TS_ERR_DECK);
  ck_assert_msg(strstr(ts_err_message(), text) != NULL, "\"%s\" is not in: %s",
                text, ts_err_message());
  ts_err_clear();
  ts_deck_destroy(r.config);
  ts_lane_destroy(r.lane);
  ts_device_destroy(r.device);
}
