/* test_layers_basic.c - activations, norms, dropout and what takes values
 * apart and puts them together, against themselves in double.
 * ranks: 1
 * fake: 1  emulated: 1 */
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tests/model/layer_rig.h"

enum { MOST = 128 };

#define ONE(kind, in, keys)                                                    \
  "{ name = \"y\"; kind = \"" kind "\"; in = " in "; " keys " }"

/* ---- activations --------------------------------------------------------- */

typedef struct ts_act_case {
  const char *layers;
  int kind; /* the K-th below */
  bool fields;
} ts_act_case;

static double act(int kind, double x, const double *w) {
  switch (kind) {
  case 0:
    return x > 0 ? x : 0;
  case 1:
    return x > 0 ? x : 0.2 * x;
  case 2:
    return x > 0 ? x : *w * x;
  case 3:
    return x * erfc(-x / sqrt(2)) / 2;
  case 4:
    return x / (1 + exp(-x));
  case 5:
    return 1 / (1 + exp(-x));
  case 6:
    return tanh(x);
  default:
    return x;
  }
}

static void act_oracle(double *out, const lr_point *p, const void *arg) {
  const ts_act_case *c = arg;
  double x[LR_BATCH * MOST];
  lr_embeddings(p, x);
  for (int32_t i = 0; i < p->batch * 12; i++)
    out[i] = act(c->kind, x[i],
                 c->kind == 2 ? lr_param(p, "y.0.weight") + i % 12 : NULL);
}

static void softmax_oracle(double *out, const lr_point *p, const void *arg) {
  const int32_t n = *(const int32_t *)arg;
  double x[LR_BATCH * MOST];
  lr_embeddings(p, x);
  for (int32_t i = 0; i < p->batch * 12; i += n) {
    double sum = 0;
    for (int32_t j = 0; j < n; j++) sum += exp(x[i + j]);
    for (int32_t j = 0; j < n; j++) out[i + j] = exp(x[i + j]) / sum;
  }
}

#define ACT(text) ONE("activation", "\"embeddings\"", "activation = " text ";")
TS_TEST(activations) {
  static const ts_act_case cases[] = {
      {ONE("activation", "\"embeddings\"", ""), 0, false},
      {ACT("\"leaky_relu\"; slope = 0.2"), 1, false},
      {ACT("\"prelu\""), 2, false},
      {ACT("\"gelu\""), 3, false},
      {ACT("\"silu\""), 4, false},
      {ACT("\"sigmoid\""), 5, false},
      {ACT("\"tanh\""), 6, false},
      {ACT("\"linear\""), 7, false}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    lr_check(&(lr_case){.layers = cases[k].layers,
                        .n_out = 12,
                        .oracle = act_oracle,
                        .arg = &cases[k]});
  const int32_t row = 12, field = 4;
  lr_check(&(lr_case){
      .layers = "{ name = \"x\"; kind = \"flatten\"; in = \"fields\"; },\n" ONE(
          "activation", "\"x\"", "activation = \"softmax\";"),
      .n_out = 12,
      .oracle = softmax_oracle,
      .arg = &row});
  lr_check(&(lr_case){
      .layers = ONE("activation", "\"fields\"", "activation = \"softmax\";"),
      .n_out = 12,
      .oracle = softmax_oracle,
      .arg = &field});
}

/* ---- batch norm ---------------------------------------------------------- */

typedef struct ts_norm_case {
  const char *weight, *bias; /* NULL: none */
  double eps;
  int32_t n; /* of a row */
} ts_norm_case;

/* X (batch, n) in place; RUN: with the running statistics. */
static void batch_norm(const lr_point *p, double *x, int32_t n, double eps,
                       bool run) {
  for (int32_t c = 0; c < n; c++) {
    double mean = 0, var = 0;
    for (int32_t s = 0; s < p->batch; s++) mean += x[s * n + c] / p->batch;
    for (int32_t s = 0; s < p->batch; s++)
      var += (x[s * n + c] - mean) * (x[s * n + c] - mean) / p->batch;
    if (run) {
      mean = lr_param(p, "y.0.running_mean")[c];
      var = lr_param(p, "y.0.running_var")[c];
    }
    for (int32_t s = 0; s < p->batch; s++)
      x[s * n + c] = (x[s * n + c] - mean) / sqrt(var + eps);
  }
}

static void batch_norm_oracle(double *out, const lr_point *p, const void *arg) {
  const ts_norm_case *c = arg;
  lr_embeddings(p, out);
  batch_norm(p, out, 12, c->eps, c->n < 0);
  for (int32_t i = 0; c->weight && i < p->batch * 12; i++)
    out[i] =
        out[i] * lr_param(p, c->weight)[i % 12] + lr_param(p, c->bias)[i % 12];
}

static void dice_oracle(double *out, const lr_point *p, const void *arg) {
  (void)arg;
  double x[LR_BATCH * MOST], y[LR_BATCH * MOST];
  lr_embeddings(p, x);
  memcpy(y, x, sizeof y);
  batch_norm(p, y, 12, 1e-5, false);
  for (int32_t i = 0; i < p->batch * 12; i++) {
    const double w = lr_param(p, "y.0.weight")[i % 12],
                 gate = 1 / (1 + exp(-y[i]));
    out[i] = x[i] * (gate + w * (1 - gate));
  }
}

TS_TEST(batch_norms) {
  const ts_norm_case cases[] = {{"y.0.weight", "y.0.bias", 0.1, 12},
                                {NULL, NULL, 0.1, 12},
                                {"y.0.weight", "y.0.bias", 1e-5, -1}};
  static const char *const layers[] = {
      ONE("batch_norm", "\"embeddings\"", "eps = 0.1;"),
      ONE("batch_norm", "\"fields\"", "eps = 0.1; affine = false;"),
      ONE("batch_norm", "\"embeddings\"", "")};
  for (int k = 0; k < 3; k++)
    lr_check(&(lr_case){.layers = layers[k],
                        .n_out = 12,
                        .oracle = batch_norm_oracle,
                        .arg = &cases[k],
                        .eval = k == 2});
  lr_check(&(lr_case){.layers = ACT("\"dice\""),
                      .n_out = 12,
                      .near = 1e-4, /* of one sample var is 0 */
                      .oracle = dice_oracle});
}

/* The mean of two batches, by momentum; of the variance that of n - 1. */
TS_TEST(running_statistics) {
  const lr_case c = {.layers = ONE("batch_norm", "\"f0\"", "momentum = 0.25;"),
                     .tables = LR_TABLES("0..0", "4"),
                     .n_out = 4};
  lr_rig r;
  ts_device *device;
  float have[2][4];
  ck_assert_ok(ts_test_device(&device, true, 1));
  lr_start(&r, &c, 5, NULL, device);
  double mean[4] = {0}, var[4] = {1, 1, 1, 1};
  for (int32_t batch = LR_BATCH; batch >= LR_BATCH - 1; batch--) {
    r.model->pass = (ts_model_pass){.training = true, .n_global = batch};
    lr_forward(&r, batch);
    for (int32_t j = 0; j < 4; j++) {
      double sum = 0, square = 0;
      for (int32_t s = 0; s < batch; s++) sum += r.p.emb[0][s * 4 + j];
      for (int32_t s = 0; s < batch; s++)
        square += pow(r.p.emb[0][s * 4 + j] - sum / batch, 2);
      mean[j] = 0.75 * mean[j] + 0.25 * sum / batch;
      var[j] = 0.75 * var[j] + 0.25 * square / (batch - 1);
    }
  }
  r.model->pass.training = false;
  lr_forward(&r, 3); /* leaves them alone */
  ck_assert_int_eq(r.model->buffers.n, 2);
  for (int k = 0; k < 2; k++)
    ts_test_get(device, have[k], r.model->buffers.item[k]->w, sizeof have[k]);
  ck_assert_str_eq(r.model->buffers.item[0]->name, "y.0.running_mean");
  ck_assert_str_eq(r.model->buffers.item[1]->name, "y.0.running_var");
  for (int j = 0; j < 4; j++) {
    ck_assert_double_eq_tol((double)have[0][j], mean[j], 1e-6);
    ck_assert_double_eq_tol((double)have[1][j], var[j], 1e-6);
  }
  lr_stop(&r);
  ts_device_destroy(device);
}

/* ---- norms of rows ------------------------------------------------------- */

static void row_norm_oracle(double *out, const lr_point *p, const void *arg) {
  const ts_norm_case *c = arg;
  const int32_t n = c->n;
  lr_embeddings(p, out);
  for (double *x = out; x < out + p->batch * 12; x += n) {
    double mean = 0, square = 0;
    for (int32_t j = 0; c->bias && j < n; j++) mean += x[j] / n;
    for (int32_t j = 0; j < n; j++) square += (x[j] - mean) * (x[j] - mean) / n;
    const double f =
        c->eps < 0 ? 1 / sqrt(square * n) : 1 / sqrt(square + c->eps);
    for (int32_t j = 0; j < n; j++) {
      x[j] = (x[j] - mean) * f;
      if (c->weight && *c->weight) x[j] *= lr_param(p, c->weight)[j];
      if (c->bias && *c->bias) x[j] += lr_param(p, c->bias)[j];
    }
  }
}

TS_TEST(row_norms) {
  static const ts_norm_case cases[] = {{"y.0.weight", "y.0.bias", 1e-5, 4},
                                       {"", "", 0.1, 4},
                                       {"y.0.weight", NULL, 1.2e-7, 4},
                                       {"y.0.weight", NULL, 0.2, 12},
                                       {NULL, NULL, -1, 4},
                                       {NULL, NULL, -1, 12}};
  static const char *const layers[] = {
      ONE("layer_norm", "\"fields\"", ""),
      ONE("layer_norm", "\"fields\"", "eps = 0.1; affine = false;"),
      ONE("rms_norm", "\"fields\"", ""),
      ONE("rms_norm", "[\"f0\", \"f1\", \"f2\"]", "eps = 0.2;"),
      ONE("l2_norm", "\"fields\"", ""),
      "{ name = \"x\"; kind = \"flatten\"; in = \"fields\"; },\n" ONE(
          "l2_norm", "\"x\"", "")};
  for (int k = 0; k < 6; k++) {
    if (k == 3) continue; /* embeddings side by side are fields */
    lr_check(&(lr_case){.layers = layers[k],
                        .n_out = 12,
                        .oracle = row_norm_oracle,
                        .arg = &cases[k]});
  }
}

/* ---- dropout ------------------------------------------------------------- */

static const lr_case dropped = {
    .layers = ONE("dropout", "\"embeddings\"", "p = 0.3;"), .n_out = 12};

/* Masks of samples [from, from + n) of EPOCH, 1 where kept. */
static void masks(lr_rig *r, int64_t epoch, int64_t from, int32_t n,
                  double (*mask)[12]) {
  r->model->pass = (ts_model_pass){
      .training = true, .epoch = epoch, .first = from, .n_global = n};
  lr_forward(r, n);
  lr_backward(r, n);
  for (int32_t i = 0; i < n * 12; i++) {
    const int32_t s = i / 12, c = i % 12;
    const double x = r->p.emb[c / 4][s * 4 + c % 4], y = (double)r->out[i];
    const double dx = (double)r->demb[c / 4][s * r->stride[c / 4] + c % 4];
    const bool kept = y != 0;
    ck_assert_double_eq_tol(y, kept ? x / 0.7 : 0, 1e-6);
    ck_assert_double_eq_tol(dx, kept ? r->c_out[i] / 0.7 : 0, 1e-6);
    mask[s][c] = kept;
  }
}

TS_TEST(dropout) {
  lr_rig r;
  ts_device *device;
  double all[8 * LR_BATCH][12], part[LR_BATCH][12], sum = 0;
  ck_assert_ok(ts_test_device(&device, true, 1));
  lr_start(&r, &dropped, 5, NULL, device);
  for (int k = 0; k < 8; k++)
    masks(&r, 0, k * LR_BATCH, LR_BATCH, all + k * LR_BATCH);
  /* The same samples on ranks that have other parts, and again. */
  for (int32_t from = 0; from < 8 * LR_BATCH; from += 3) {
    masks(&r, 0, from, 2, part);
    if (from + 2 <= 8 * LR_BATCH)
      ck_assert(!memcmp(part, all + from, 2 * sizeof *part));
  }
  for (int k = 0; k < 8 * LR_BATCH * 12; k++) sum += all[k / 12][k % 12];
  ck_assert_double_eq_tol(sum / (8 * LR_BATCH * 12), 0.7, 0.06);
  masks(&r, 1, 0, LR_BATCH, part); /* another epoch */
  ck_assert(memcmp(part, all, sizeof part) != 0);
  r.model->pass.training = false;
  lr_forward(&r, LR_BATCH);
  for (int32_t i = 0; i < LR_BATCH * 12; i++)
    ck_assert((double)r.out[i] == r.p.emb[i % 12 / 4][i / 12 * 4 + i % 12 % 4]);
  lr_stop(&r);
  ts_device_destroy(device);
}

/* ---- products, sums ------------------------------------------------------ */

/* fields (B, 3, 4) times a gate (B, 3) and a factor (B, 1), both of f0. */
static void multiply_oracle(double *out, const lr_point *p, const void *arg) {
  (void)arg;
  const double *w = lr_param(p, "g.0.weight"), *b = lr_param(p, "g.0.bias"),
               *v = lr_param(p, "s.0.weight"), *a = lr_param(p, "s.0.bias");
  for (int32_t s = 0; s < p->batch; s++) {
    const double *x = p->emb[0] + s * 4;
    double factor = a[0];
    for (int32_t j = 0; j < 4; j++) factor += v[j] * x[j];
    for (int32_t f = 0; f < 3; f++) {
      double gate = b[f];
      for (int32_t j = 0; j < 4; j++) gate += w[f * 4 + j] * x[j];
      for (int32_t j = 0; j < 4; j++)
        *out++ = gate * factor * p->emb[f][s * 4 + j] * p->emb[f][s * 4 + j];
    }
  }
}

static void product_oracle(double *out, const lr_point *p, const void *arg) {
  for (int32_t i = 0; i < p->batch * 4; i++)
    out[i] = p->emb[0][i] * (arg ? p->emb[1][i] * p->emb[2][i] : 1);
}

TS_TEST(multiply) {
  lr_check(&(lr_case){
      .layers = "{ name = \"g\"; kind = \"linear\"; in = \"f0\"; units = 3; "
                "},\n{ name = \"s\"; kind = \"linear\"; in = \"f0\"; units = "
                "1; },\n" ONE("multiply",
                              "[\"s\", \"fields\", \"g\", \"fields\"]", ""),
      .n_out = 12,
      .oracle = multiply_oracle});
  lr_check(&(lr_case){.layers = ONE("multiply", "[\"f0\", \"f1\", \"f2\"]", ""),
                      .n_out = 4,
                      .oracle = product_oracle,
                      .arg = ""});
  lr_check(&(lr_case){.layers = ONE("multiply", "\"f0\"", ""),
                      .tables = LR_TABLES("0..0", "4"),
                      .n_out = 4,
                      .oracle = product_oracle});
  lr_refused(&(lr_case){.layers = ONE("multiply", "[\"fields\", \"f0\"]", ""),
                        .n_out = 12},
             "\"f0\" is (B, 4): it takes inputs of one shape");
}

static void similarity_oracle(double *out, const lr_point *p, const void *arg) {
  for (int32_t s = 0; s < p->batch; s++) {
    double dot = 0, x = 0, z = 0;
    for (int32_t i = s * 4; i < s * 4 + 4; i++) {
      dot += p->emb[0][i] * p->emb[1][i];
      x += p->emb[0][i] * p->emb[0][i];
      z += p->emb[1][i] * p->emb[1][i];
    }
    out[s] = arg ? dot / sqrt(x * z) : dot;
  }
}

TS_TEST(similarity) {
  lr_check(&(lr_case){.layers = ONE("similarity", "[\"f0\", \"f1\"]", ""),
                      .tables = LR_TABLES("0..1", "4"),
                      .n_out = 1,
                      .oracle = similarity_oracle});
  lr_check(&(lr_case){
      .layers = ONE("similarity", "[\"f0\", \"f1\"]", "by = \"cosine\";"),
      .tables = LR_TABLES("0..1", "4"),
      .n_out = 1,
      .oracle = similarity_oracle,
      .arg = ""});
  lr_refused(&(lr_case){.layers = ONE("similarity", "[\"fields\", \"f0\"]", ""),
                        .n_out = 1},
             "it takes two vectors of one width");
}

static void reduce_oracle(double *out, const lr_point *p, const void *arg) {
  const char *by = arg;
  for (int32_t i = 0; i < p->batch * 4; i++) {
    const double a = p->emb[0][i], b = p->emb[1][i], c = p->emb[2][i];
    out[i] = by[1] == 'a' ? fmax(a, fmax(b, c)) : a + b + c;
    if (by[1] == 'e') out[i] /= 3;
  }
}

TS_TEST(reduce) {
  static const char *const by[] = {"sum", "mean", "max"};
  static const char *const layers[] = {
      ONE("reduce", "\"fields\"", ""),
      ONE("reduce", "\"fields\"", "by = \"mean\";"),
      ONE("reduce", "\"fields\"", "by = \"max\";")};
  for (int k = 0; k < 3; k++)
    lr_check(&(lr_case){.layers = layers[k],
                        .n_out = 4,
                        .oracle = reduce_oracle,
                        .arg = by[k]});
}

static void scale_oracle(double *out, const lr_point *p, const void *arg) {
  const double f = arg ? lr_param(p, "y.0.weight")[0] : -1.5;
  lr_embeddings(p, out);
  for (int32_t i = 0; i < p->batch * 12; i++) out[i] *= f;
}

TS_TEST(scale) {
  lr_check(
      &(lr_case){.layers = ONE("scale", "\"embeddings\"", "factor = -1.5;"),
                 .n_out = 12,
                 .oracle = scale_oracle});
  lr_check(&(lr_case){
      .layers = ONE("scale", "\"embeddings\"", "factor = 0.5; learnt = true;"),
      .n_out = 12,
      .oracle = scale_oracle,
      .arg = ""});
}

/* ---- parts --------------------------------------------------------------- */

/* Fields 1 and 2 of [f0, f1, f2] stacked, f1 of them beside; flat. */
static void parts_oracle(double *out, const lr_point *p, const void *arg) {
  (void)arg;
  for (int32_t s = 0; s < p->batch; s++) {
    const double *x[] = {p->emb[1] + s * 4, p->emb[2] + s * 4,
                         p->emb[1] + s * 4};
    for (int k = 0; k < 3; k++)
      for (int j = 0; j < 4; j++) *out++ = x[k][j];
    for (int j = 1; j < 3; j++) *out++ = p->emb[0][s * 4 + j];
  }
}

TS_TEST(parts) {
  lr_check(&(lr_case){
      .layers =
          "{ name = \"all\"; kind = \"stack\"; in = [\"f0\", \"f1\", \"f2\"]; "
          "},\n"
          "{ name = \"a\"; kind = \"slice\"; in = \"all\"; from = 1; to = 3; "
          "},\n"
          "{ name = \"b\"; kind = \"slice\"; in = \"all\"; from = 1; to = 2; "
          "},\n"
          "{ name = \"c\"; kind = \"slice\"; in = \"f0\"; from = 1; to = 3; "
          "},\n" ONE("flatten", "[\"a\", \"b\", \"c\"]", ""),
      .n_out = 14,
      .oracle = parts_oracle});
  lr_refused(
      &(lr_case){.layers = ONE("slice", "\"fields\"", "to = 4;"), .n_out = 16},
      "\"fields\" is (B, 3, 4): from < to <= 3");
  lr_refused(
      &(lr_case){.layers = ONE("stack", "[\"f0\", \"f1\"]", ""),
                 .tables = LR_TABLES("0..0", "4") ",\n" LR_TABLES("1..1", "5"),
                 .n_out = 8},
      "kind project makes them so");
}
