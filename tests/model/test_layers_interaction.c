/* test_layers_interaction.c - kinds of layers that multiply features, against
 * themselves in double.
 * ranks: 1
 * fake: 1  emulated: 1 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/model/layer_rig.h"

enum { MOST = 512 };

/* ---- cross --------------------------------------------------------------- */

/* ARG: the rank, 0: full. */
static void cross_oracle(double *out, const lr_point *p, const void *arg) {
  const int32_t n = p->n_out, rank = *(const int32_t *)arg;
  double x0[LR_BATCH * MOST], u[MOST], t[MOST];
  lr_embeddings(p, x0);
  memcpy(out, x0, (size_t)(p->batch * n) * sizeof *out);
  for (int32_t s = 0; s < p->batch; s++)
    for (int32_t l = 0; l < 2; l++) {
      double *x = out + s * n;
      if (rank)
        lr_affine(u, lr_param_of(p, "y.V_kernels.%d", l), NULL, x, rank, n);
      lr_affine(t, lr_param_of(p, rank ? "y.W_kernels.%d" : "y.kernels.%d", l),
                lr_param_of(p, "y.bias.%d", l), rank ? u : x, n,
                rank ? rank : n);
      for (int32_t i = 0; i < n; i++) x[i] += x0[s * n + i] * t[i];
    }
}

/* DCN's first form. */
static void vector_cross_oracle(double *out, const lr_point *p,
                                const void *arg) {
  const int32_t n = p->n_out;
  double x0[LR_BATCH * MOST], dot;
  (void)arg;
  lr_embeddings(p, x0);
  memcpy(out, x0, (size_t)(p->batch * n) * sizeof *out);
  for (int32_t s = 0; s < p->batch; s++)
    for (int32_t l = 0; l < 3; l++) {
      double *x = out + s * n;
      lr_affine(&dot, lr_param_of(p, "y.%d.weight", l), NULL, x, 1, n);
      for (int32_t i = 0; i < n; i++)
        x[i] += x0[s * n + i] * dot + lr_param_of(p, "y.%d.bias", l)[i];
    }
}

/* Two layers of three experts of rank 2. */
static void moe_oracle(double *out, const lr_point *p, const void *arg) {
  enum { E = 3, R = 2 };
  const int32_t n = p->n_out;
  double x0[LR_BATCH * MOST];
  (void)arg;
  lr_embeddings(p, x0);
  memcpy(out, x0, (size_t)(p->batch * n) * sizeof *out);
  for (int32_t s = 0; s < p->batch; s++)
    for (int32_t l = 0; l < 2; l++) {
      double *x = out + s * n, y[MOST], gate[E], sum = 0;
      const double *U = lr_param_of(p, "y.%d.weight", 4 * l + 3);
      memcpy(y, x, (size_t)n * sizeof *y);
      lr_affine(gate, lr_param_of(p, "y.%d.weight", 4 * l + 1), NULL, x, E, n);
      for (int e = 0; e < E; e++) sum += exp(gate[e]);
      for (int e = 0; e < E; e++) {
        double h[R], c[R];
        lr_affine(h, lr_param_of(p, "y.%d.weight", 4 * l) + e * R * n, NULL, x,
                  R, n);
        for (int k = 0; k < R; k++) h[k] = tanh(h[k]);
        lr_affine(c, lr_param_of(p, "y.%d.weight", 4 * l + 2) + e * R * R, NULL,
                  h, R, R);
        for (int32_t i = 0; i < n; i++) {
          double t = lr_param_of(p, "y.%d.bias", 4 * l + 3)[i];
          for (int k = 0; k < R; k++)
            t += U[i * E * R + e * R + k] * tanh(c[k]);
          y[i] += exp(gate[e]) / sum * x0[s * n + i] * t;
        }
      }
      memcpy(x, y, (size_t)n * sizeof *y);
    }
}

TS_TEST(crosses_of_other_forms) {
  lr_check(&(lr_case){.layers = "{ name = \"y\"; kind = \"cross\"; in = "
                                "\"embeddings\"; form = \"vector\"; }",
                      .n_out = 12,
                      .oracle = vector_cross_oracle});
  lr_check(&(lr_case){.layers = "{ name = \"y\"; kind = \"cross\"; in = "
                                "\"embeddings\"; form = \"moe\"; layers = 2; "
                                "rank = 2; experts = 3; }",
                      .n_out = 12,
                      .oracle = moe_oracle,
                      .tolerance = 1e-3});
}

TS_TEST(cross) {
  static const int32_t full = 0, low = 3;
  lr_case c = {.layers = "{ name = \"y\"; kind = \"cross\"; in = "
                         "\"embeddings\"; layers = 2; }",
               .n_out = 12,
               .oracle = cross_oracle,
               .arg = &full};
  lr_check(&c);
  c.layers = "{ name = \"y\"; kind = \"cross\"; in = \"embeddings\"; layers = "
             "2; form = \"low_rank\"; rank = 3; }";
  c.arg = &low;
  lr_check(&c);
  c.tables = LR_TABLES("0..1", "16"); /* rows without a gap */
  c.n_out = 32;
  lr_check(&c);
  c.layers = "{ name = \"y\"; kind = \"cross\"; in = \"fields\"; form = "
             "\"low_rank\"; }";
  lr_refused(&c, "need rank, below the width of the input, (B, 2, 16)");
}

/* ---- pairs of fields ----------------------------------------------------- */

typedef enum { ALL, EACH, INTERACTION, MAT, VEC, NUM } pair_form;

static void pairs_oracle(double *out, const lr_point *p, const void *arg) {
  const pair_form form = *(const pair_form *)arg;
  const int32_t f = p->n_features, d = p->dim[0];
  const double *w = lr_param(p, "y.0.weight");
  for (int32_t s = 0; s < p->batch; s++)
    for (int32_t i = 0, pair = 0; i < f; i++)
      for (int32_t j = i + 1; j < f; j++, pair++) {
        const int32_t at = form == ALL ? 0 : form == EACH ? i : pair;
        const double *x = p->emb[j] + s * d;
        double t[MOST], sum = 0;
        if (form <= MAT)
          lr_affine(t, w + at * d * d, NULL, p->emb[i] + s * d, d, d);
        for (int32_t c = 0; form > MAT && c < d; c++)
          t[c] = w[form == VEC ? pair * d + c : pair] * p->emb[i][s * d + c];
        for (int32_t c = 0; c < d; c++) {
          sum += t[c] * x[c];
          if (form < MAT) *out++ = t[c] * x[c];
        }
        if (form >= MAT) *out++ = sum;
      }
}

TS_TEST(pairs_with_weights) {
  static const pair_form forms[] = {ALL, EACH, INTERACTION, MAT, VEC, NUM};
  static const char *const keys[] = {
      "kind = \"bilinear\"; form = \"all\"",
      "kind = \"bilinear\"; form = \"each\"",
      "kind = \"bilinear\"",
      "kind = \"outer_product\"",
      "kind = \"outer_product\"; form = \"vec\"",
      "kind = \"outer_product\"; form = \"num\""};
  char layers[200];
  for (int k = 0; k < 6; k++) {
    snprintf(layers, sizeof layers, "{ name = \"y\"; %s; in = \"fields\"; }",
             keys[k]);
    lr_check(&(lr_case){.layers = layers,
                        .tables = LR_TABLES("0..3", "5"),
                        .n_out = forms[k] >= MAT ? 6 : 30,
                        .oracle = pairs_oracle,
                        .arg = &forms[k]});
    lr_check(&(lr_case){.layers = layers,
                        .tables = LR_TABLES("0..1", "16"),
                        .n_out = forms[k] >= MAT ? 1 : 16,
                        .oracle = pairs_oracle,
                        .arg = &forms[k]});
  }
  lr_refused(&(lr_case){.layers = "{ name = \"y\"; kind = \"bilinear\"; in = "
                                  "\"f0\"; }",
                        .n_out = 1},
             "or several vectors of one width, but \"f0\" is (B, 4)");
}

static void inner_oracle(double *out, const lr_point *p, const void *arg) {
  const int32_t f = p->n_features, d = p->dim[0];
  (void)arg;
  for (int32_t s = 0; s < p->batch; s++)
    for (int32_t i = 0; i < f; i++)
      for (int32_t j = i + 1; j < f; j++, out++) {
        *out = 0;
        for (int32_t c = 0; c < d; c++)
          *out += p->emb[i][s * d + c] * p->emb[j][s * d + c];
      }
}

TS_TEST(inner_product) {
  lr_check(&(lr_case){.layers = "{ name = \"y\"; kind = \"inner_product\"; in "
                                "= \"fields\"; }",
                      .tables = LR_TABLES("0..4", "3"),
                      .n_out = 10,
                      .oracle = inner_oracle});
}

/* ARG: of the weights, sigmoid or relu. */
static void senet_oracle(double *out, const lr_point *p, const void *arg) {
  const int32_t f = p->n_features, d = p->dim[0], h = f / 2;
  for (int32_t s = 0; s < p->batch; s++) {
    double z[MOST], hidden[MOST], a[MOST];
    for (int32_t i = 0; i < f; i++) {
      z[i] = 0;
      for (int32_t c = 0; c < d; c++) z[i] += p->emb[i][s * d + c] / d;
    }
    lr_affine(hidden, lr_param(p, "y.0.weight"), NULL, z, h, f);
    for (int32_t i = 0; i < h; i++) hidden[i] = fmax(0, hidden[i]);
    lr_affine(a, lr_param(p, "y.1.weight"), NULL, hidden, f, h);
    for (int32_t i = 0; i < f; i++) {
      a[i] = arg ? 1 / (1 + exp(-a[i])) : fmax(0, a[i]);
      for (int32_t c = 0; c < d; c++) *out++ = a[i] * p->emb[i][s * d + c];
    }
  }
}

TS_TEST(senet) {
  lr_case c = {.layers = "{ name = \"y\"; kind = \"senet\"; in = \"fields\"; "
                         "reduction = 2; }",
               .tables = LR_TABLES("0..4", "3"),
               .n_out = 15,
               .oracle = senet_oracle};
  lr_check(&c);
  c.layers = "{ name = \"y\"; kind = \"senet\"; in = \"fields\"; reduction = "
             "2; activation = \"sigmoid\"; }";
  c.arg = "";
  lr_check(&c);
}

/* ---- field_attention ----------------------------------------------------- */

typedef struct attention_shape {
  int32_t layers, heads, dim;
  bool scale, residual;
} attention_shape;

/* One layer of one sample: Y (f, a) of X (f, n). */
static void attend(double *y, const double *x, const double *w,
                   const attention_shape *t, int32_t f, int32_t n) {
  const int32_t a = t->heads * t->dim, parts = t->residual && n != a ? 4 : 3;
  double q[MOST];
  for (int32_t i = 0; i < f; i++)
    lr_affine(q + i * parts * a, w, NULL, x + i * n, parts * a, n);
  for (int32_t i = 0; i < f; i++)
    for (int32_t h = 0; h < t->heads; h++) {
      double p[MOST], sum = 0;
      for (int32_t j = 0; j < f; j++) {
        double dot = 0;
        for (int32_t c = h * t->dim; c < (h + 1) * t->dim; c++)
          dot += q[i * parts * a + c] * q[j * parts * a + a + c];
        p[j] = exp(t->scale ? dot / sqrt(t->dim) : dot);
        sum += p[j];
      }
      for (int32_t c = h * t->dim; c < (h + 1) * t->dim; c++) {
        double v = parts == 4 ? q[i * parts * a + 3 * a + c] : 0;
        if (parts == 3 && t->residual) v = x[i * n + c];
        for (int32_t j = 0; j < f; j++)
          v += p[j] / sum * q[j * parts * a + 2 * a + c];
        y[i * a + c] = fmax(0, v);
      }
    }
}

static void attention_oracle(double *out, const lr_point *p, const void *arg) {
  const attention_shape *t = arg;
  const int32_t f = p->n_features, a = t->heads * t->dim;
  double all[LR_BATCH * MOST], x[MOST];
  int32_t n = p->dim[0];
  lr_embeddings(p, all);
  for (int32_t s = 0; s < p->batch; s++, n = p->dim[0]) {
    memcpy(x, all + s * f * n, (size_t)(f * n) * sizeof *x);
    for (int32_t l = 0; l < t->layers; l++, n = a) {
      attend(out + s * f * a, x, lr_param_of(p, "y.%d.weight", l), t, f, n);
      memcpy(x, out + s * f * a, (size_t)(f * a) * sizeof *x);
    }
  }
}

/* Rows with a gap and without, widths equal and not, one to three layers. */
TS_TEST(field_attention) {
  static const attention_shape shapes[] = {
      {1, 2, 3, false, true}, {3, 2, 4, true, true},  {2, 1, 8, false, true},
      {2, 1, 5, false, true}, {2, 2, 3, true, false}, {3, 1, 5, false, true}};
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
    for (int gap = 0; gap < 2; gap++) {
      const attention_shape *t = &shapes[k];
      char layers[200];
      snprintf(layers, sizeof layers,
               "{ name = \"y\"; kind = \"field_attention\"; in = \"fields\"; "
               "layers = %d; heads = %d; dim = %d; scale = %s; residual = %s; "
               "}",
               t->layers, t->heads, t->dim, t->scale ? "true" : "false",
               t->residual ? "true" : "false");
      const int32_t f = gap ? 3 : 4;
      lr_check(&(lr_case){.layers = layers,
                          .tables = gap ? LR_TABLES("0..2", "5")
                                        : LR_TABLES("0..3", "8"),
                          .n_out = f * t->heads * t->dim,
                          .oracle = attention_oracle,
                          .arg = t});
    }
}

/* ---- cin ----------------------------------------------------------------- */

typedef struct cin_shape {
  int32_t n, h[3];
  bool halves, relu;
} cin_shape;

static void cin_oracle(double *out, const lr_point *p, const void *arg) {
  const cin_shape *t = arg;
  const int32_t f = p->n_features, d = p->dim[0];
  for (int32_t s = 0; s < p->batch; s++) {
    double x0[MOST], x[MOST], y[MOST], z[MOST];
    int32_t prev = f;
    for (int32_t i = 0; i < f * d; i++)
      x[i] = x0[i] = p->emb[i / d][s * d + i % d];
    for (int32_t l = 0; l < t->n; l++) {
      const int32_t h = t->h[l], half = t->halves && l + 1 < t->n ? h / 2 : 0;
      for (int32_t c = 0; c < d; c++) {
        double map[MOST];
        for (int32_t i = 0; i < prev * f; i++)
          z[i] = x[i / f * d + c] * x0[i % f * d + c];
        lr_affine(map, lr_param_of(p, "y.%d.weight", l),
                  lr_param_of(p, "y.%d.bias", l), z, h, prev * f);
        for (int32_t i = 0; i < h; i++)
          y[i * d + c] = t->relu ? fmax(0, map[i]) : map[i];
      }
      for (int32_t i = half; i < h; i++, out++)
        for (int32_t c = *out = 0; c < d; c++) *out += y[i * d + c];
      memcpy(x, y, sizeof x);
      prev = half ? half : h;
    }
  }
}

TS_TEST(cin) {
  static const cin_shape shapes[] = {{1, {3}, false, false},
                                     {3, {4, 2, 5}, false, true},
                                     {3, {4, 6, 3}, true, false}};
  static const char *const keys[] = {"units = 3",
                                     "units = [4, 2, 5]; activation = \"relu\"",
                                     "units = [4, 6, 3]; split_half = true"};
  static const int32_t n_out[] = {3, 11, 8};
  char layers[200];
  for (int k = 0; k < 3; k++) {
    snprintf(layers, sizeof layers,
             "{ name = \"y\"; kind = \"cin\"; in = \"fields\"; %s; }", keys[k]);
    lr_check(&(lr_case){.layers = layers,
                        .tables = LR_TABLES("0..2", "4"),
                        .n_out = n_out[k],
                        .oracle = cin_oracle,
                        .arg = &shapes[k]});
  }
  lr_refused(&(lr_case){.layers = "{ name = \"y\"; kind = \"cin\"; in = "
                                  "\"fields\"; units = [3, 2]; split_half = "
                                  "true; }",
                        .n_out = 3},
             "split_half needs an even number of maps");
}
