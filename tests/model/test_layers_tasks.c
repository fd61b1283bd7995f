/* test_layers_tasks.c - kinds of layers that put streams and experts together,
 * against themselves in double.
 * ranks: 1
 * fake: 1  emulated: 1 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/model/layer_rig.h"

enum { MOST = 256 };

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static void relu(double *x, int32_t n) {
  for (int32_t i = 0; i < n; i++) x[i] = fmax(0, x[i]);
}

/* ---- gate ---------------------------------------------------------------- */

static void gated_cross_oracle(double *out, const lr_point *p,
                               const void *arg) {
  const int32_t n = p->n_out;
  double x0[LR_BATCH * MOST], t[MOST], g[MOST];
  (void)arg;
  lr_embeddings(p, x0);
  memcpy(out, x0, (size_t)(p->batch * n) * sizeof *out);
  for (int32_t s = 0; s < p->batch; s++)
    for (int32_t l = 0; l < 2; l++) {
      double *x = out + s * n;
      lr_affine(t, lr_param_of(p, "y.%d.weight", 2 * l),
                lr_param_of(p, "y.%d.bias", 2 * l), x, n, n);
      lr_affine(g, lr_param_of(p, "y.%d.weight", 2 * l + 1), NULL, x, n, n);
      for (int32_t i = 0; i < n; i++)
        x[i] += x0[s * n + i] * t[i] * sigmoid(g[i]);
    }
}

typedef struct mask_shape {
  int32_t n, m, hidden; /* widths of x, e and the hidden layer */
  bool norm;
} mask_shape;

/* x is f0, or all; e all. */
static void mask_oracle(double *out, const lr_point *p, const void *arg) {
  const mask_shape *t = arg;
  double all[LR_BATCH * MOST];
  lr_embeddings(p, all);
  for (int32_t s = 0; s < p->batch; s++) {
    const double *e = all + s * t->m,
                 *x = t->n < t->m ? p->emb[0] + s * t->n : e;
    double h[MOST], m[MOST], *y = out + s * 5;
    lr_affine(h, lr_param(p, "y.0.weight"), lr_param(p, "y.0.bias"), e,
              t->hidden, t->m);
    relu(h, t->hidden);
    lr_affine(m, lr_param(p, "y.1.weight"), lr_param(p, "y.1.bias"), h, t->n,
              t->hidden);
    for (int32_t i = 0; i < t->n; i++) m[i] *= x[i];
    lr_affine(y, lr_param(p, "y.2.weight"), NULL, m, 5, t->n);
    if (t->norm) {
      double mean = 0, var = 0;
      for (int32_t i = 0; i < 5; i++) mean += y[i] / 5;
      for (int32_t i = 0; i < 5; i++) var += (y[i] - mean) * (y[i] - mean) / 5;
      for (int32_t i = 0; i < 5; i++)
        y[i] = (y[i] - mean) / sqrt(var + 1e-5) * lr_param(p, "y.3.weight")[i] +
               lr_param(p, "y.3.bias")[i];
    }
    relu(y, 5);
  }
}

TS_TEST(gates) {
  static const mask_shape shapes[] = {
      {4, 12, 3, true}, {12, 12, 12, true}, {12, 12, 2, false}};
  static const char *const keys[] = {
      "in = \"f0\"; gate = \"embeddings\"; hidden = 3", "in = \"embeddings\"",
      "in = \"fields\"; hidden = 2; norm = false"};
  char layers[200];
  lr_case c = {.layers = "{ name = \"y\"; kind = \"gate\"; in = "
                         "\"embeddings\"; layers = 2; }",
               .n_out = 12,
               .oracle = gated_cross_oracle};
  lr_check(&c);
  for (int k = 0; k < 3; k++) {
    snprintf(
        layers, sizeof layers,
        "{ name = \"y\"; kind = \"gate\"; form = \"mask\"; units = 5; %s; }",
        keys[k]);
    lr_check(&(lr_case){.layers = layers,
                        .n_out = 5,
                        .oracle = mask_oracle,
                        .arg = &shapes[k],
                        .tolerance = 1e-3});
  }
  c.layers = "{ name = \"y\"; kind = \"gate\"; in = \"f0\"; gate = \"f1\"; }";
  lr_refused(&c, "gate is for form = \"mask\"");
}

/* ---- two_stream ---------------------------------------------------------- */

/* a is f0 and f1 (8), b f2 (6); ARG: heads. */
static void two_stream_oracle(double *out, const lr_point *p, const void *arg) {
  const int32_t heads = *(const int32_t *)arg, u = p->n_out;
  const int32_t na = 8 / heads, nb = 6 / heads;
  const double *w = lr_param(p, "y.2.weight");
  for (int32_t s = 0; s < p->batch; s++) {
    const double *b = p->emb[2] + s * 6;
    double a[8], one[MOST];
    for (int32_t i = 0; i < 8; i++) a[i] = p->emb[i / 4][s * 4 + i % 4];
    lr_affine(out + s * u, lr_param(p, "y.0.weight"), lr_param(p, "y.0.bias"),
              a, u, 8);
    lr_affine(one, lr_param(p, "y.1.weight"), lr_param(p, "y.1.bias"), b, u, 6);
    for (int32_t o = 0; o < u; o++) {
      double *y = &out[s * u + o];
      *y += one[o];
      for (int32_t i = 0; i < 8; i++)
        for (int32_t c = 0; c < nb; c++)
          *y += a[i] * w[(i * u + o) * nb + c] * b[i / na * nb + c];
    }
  }
}

TS_TEST(two_stream) {
  static const int32_t heads[] = {1, 2, 2}, units[] = {1, 1, 3};
  static const char tables[] =
      LR_TABLES("0..1", "4") ",\n" LR_TABLES("2..2", "6");
  char layers[300];
  for (int k = 0; k < 3; k++) {
    snprintf(layers, sizeof layers,
             "{ name = \"a\"; kind = \"concat\"; in = [\"f0\", \"f1\"]; },\n"
             "{ name = \"y\"; kind = \"two_stream\"; in = [\"a\", \"f2\"]; "
             "heads = %d; units = %d; }",
             heads[k], units[k]);
    lr_check(&(lr_case){.layers = layers,
                        .tables = tables,
                        .n_out = units[k],
                        .oracle = two_stream_oracle,
                        .arg = &heads[k]});
  }
  lr_refused(&(lr_case){.layers = "{ name = \"y\"; kind = \"two_stream\"; in = "
                                  "[\"f0\", \"f1\"]; heads = 3; }",
                        .n_out = 1},
             "its first input is (B, 4), which 3 heads don't divide");
}

/* ---- experts ------------------------------------------------------------- */

typedef struct expert_shape {
  const char *name;
  int32_t gates, shared, own, layers; /* layers of each expert, 5 units */
  bool mix_shared;
} expert_shape;

/* OUT (gates and the shared one, 5) of X (gates + 1), N floats each. */
static void mixtures(double out[][5], const lr_point *p, const expert_shape *t,
                     double x[][MOST], int32_t n) {
  const int32_t all = t->shared + t->own * t->gates;
  double y[16][5], logit[16];
  char name[64];
  for (int32_t e = 0; e < all; e++) {
    const int32_t in = e < t->shared ? t->gates : (e - t->shared) / t->own;
    double h[MOST];
    memcpy(h, x[in], sizeof h);
    for (int32_t j = 0; j < t->layers; j++) {
      const int32_t i = e * t->layers + j;
      snprintf(name, sizeof name, "%s.%d.weight", t->name, i);
      const double *w = lr_param(p, name);
      snprintf(name, sizeof name, "%s.%d.bias", t->name, i);
      lr_affine(y[e], w, lr_param(p, name), h, 5, j ? 5 : n);
      relu(y[e], 5);
      memcpy(h, y[e], sizeof y[e]);
    }
  }
  for (int32_t g = 0; g < t->gates + t->mix_shared; g++) {
    const bool is_shared = g == t->gates;
    const int32_t k = is_shared ? all : t->shared + t->own;
    double sum = 0;
    snprintf(name, sizeof name, "%s.%d.weight", t->name, all * t->layers + g);
    lr_affine(logit, lr_param(p, name), NULL, x[g], k, n);
    for (int32_t i = 0; i < k; i++) sum += exp(logit[i]);
    for (int32_t c = 0; c < 5; c++) out[g][c] = 0;
    for (int32_t i = 0; i < k; i++) {
      const int32_t e = is_shared || i < t->shared ? i : i + g * t->own;
      for (int32_t c = 0; c < 5; c++)
        out[g][c] += exp(logit[i]) / sum * y[e][c];
    }
  }
}

/* ARG: the layers, one after the other, up to the one whose name is "y". */
static void experts_oracle(double *out, const lr_point *p, const void *arg) {
  const int32_t n = 4 * p->n_features;
  double all[LR_BATCH * MOST];
  lr_embeddings(p, all);
  for (int32_t s = 0; s < p->batch; s++) {
    const expert_shape *t = arg;
    double x[4][MOST], y[4][5];
    for (int32_t g = 0; g <= t->gates; g++)
      memcpy(x[g], all + s * n, (size_t)n * sizeof *all);
    mixtures(y, p, t, x, n);
    while (strcmp(t->name, "y")) {
      for (int32_t g = 0; g <= t->gates; g++) memcpy(x[g], y[g], sizeof y[g]);
      mixtures(y, p, ++t, x, 5);
    }
    for (int32_t g = 0; g < t->gates; g++, out += 5)
      memcpy(out, y[g], sizeof y[g]);
  }
}

#define BOTH                                                                   \
  ",\n{ name = \"z\"; kind = \"concat\"; in = [\"y@ctr\", \"y@cvr\"]; }"

TS_TEST(experts_of_tasks) {
  static const expert_shape mmoe[] = {{"y", 2, 3, 0, 2, false}};
  static const expert_shape cgc[] = {{"y", 2, 2, 2, 1, false}};
  static const expert_shape ple[] = {{"a", 2, 1, 2, 1, true},
                                     {"y", 2, 2, 1, 2, false}};
  lr_case c = {.layers = "{ name = \"y\"; kind = \"experts\"; in = "
                         "\"embeddings\"; gates = [\"ctr\", \"cvr\"]; experts "
                         "= 3; units = [5, 5]; }" BOTH,
               .n_out = 10,
               .oracle = experts_oracle,
               .arg = mmoe};
  lr_check(&c);
  c.layers = "{ name = \"y\"; kind = \"experts\"; in = \"embeddings\"; gates = "
             "[\"ctr\", \"cvr\"]; experts = 2; own = 2; units = 5; }" BOTH;
  c.arg = cgc;
  lr_check(&c);
  c.layers =
      "{ name = \"a\"; kind = \"experts\"; in = \"embeddings\"; gates = "
      "[\"ctr\", \"cvr\"]; experts = 1; own = 2; units = 5; mix_shared = "
      "true; },\n{ name = \"y\"; kind = \"experts\"; in = [\"a@ctr\", "
      "\"a@cvr\", \"a@shared\"]; gates = [\"ctr\", \"cvr\"]; experts = "
      "2; own = 1; units = [5, 5]; }" BOTH;
  c.arg = ple;
  lr_check(&c);
  c.layers = "{ name = \"y\"; kind = \"experts\"; in = [\"f0\", \"f1\"]; gates "
             "= [\"ctr\", \"cvr\"]; units = 5; }" BOTH;
  lr_refused(&c, "it has 2 inputs: it takes one for all, or 3");
}

/* ---- task_product -------------------------------------------------------- */

static void product_oracle(double *out, const lr_point *p, const void *arg) {
  (void)arg;
  for (int32_t i = 0; i < p->batch * 4; i++)
    out[i] = sigmoid(p->emb[0][i]) * sigmoid(p->emb[2][i] + p->emb[1][i]);
}

TS_TEST(task_product) {
  lr_case c = {.layers =
                   "{ name = \"b\"; kind = \"add\"; in = [\"f1\", \"f2\"]; },\n"
                   "{ name = \"y\"; kind = \"task_product\"; in = [\"f0\", "
                   "\"b\"]; }",
               .n_out = 4,
               .oracle = product_oracle};
  lr_check(&c);
  c.layers = "{ name = \"y\"; kind = \"task_product\"; in = [\"f0\", "
             "\"fields\"]; }";
  lr_refused(&c, "it takes two logits of one shape");
}
