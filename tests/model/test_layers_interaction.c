/* test_layers_interaction.c - kinds of layers that multiply features, against
 * themselves in double.
 * ranks: 1
 * fake: 1  emulated: 1 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/model/layer_rig.h"

enum { MOST = 512 };

/* Y (n_out) = W x + B, of one row. */
static void affine(double *y, const double *w, const double *b, const double *x,
                   int32_t n_out, int32_t n_in) {
  for (int32_t o = 0; o < n_out; o++) {
    y[o] = b ? b[o] : 0;
    for (int32_t i = 0; i < n_in; i++) y[o] += w[o * n_in + i] * x[i];
  }
}

static const double *param(const lr_point *p, const char *fmt, int32_t l) {
  char name[64];
  snprintf(name, sizeof name, fmt, l);
  return lr_param(p, name);
}

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
      if (rank) affine(u, param(p, "y.V_kernels.%d", l), NULL, x, rank, n);
      affine(t, param(p, rank ? "y.W_kernels.%d" : "y.kernels.%d", l),
             param(p, "y.bias.%d", l), rank ? u : x, n, rank ? rank : n);
      for (int32_t i = 0; i < n; i++) x[i] += x0[s * n + i] * t[i];
    }
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
  lr_refused(&c, "form = \"low_rank\" needs rank, below the width of its "
                 "input, (B, 2, 16)");
}

/* ---- pairs of fields ----------------------------------------------------- */

typedef enum { ALL, EACH, INTERACTION, OUTER } pair_form;

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
        affine(t, w + at * d * d, NULL, p->emb[i] + s * d, d, d);
        for (int32_t c = 0; c < d; c++) {
          sum += t[c] * x[c];
          if (form != OUTER) *out++ = t[c] * x[c];
        }
        if (form == OUTER) *out++ = sum;
      }
}

TS_TEST(pairs_with_weights) {
  static const pair_form forms[] = {ALL, EACH, INTERACTION, OUTER};
  static const char *const keys[] = {"kind = \"bilinear\"; form = \"all\"",
                                     "kind = \"bilinear\"; form = \"each\"",
                                     "kind = \"bilinear\"",
                                     "kind = \"outer_product\""};
  char layers[200];
  for (int k = 0; k < 4; k++) {
    snprintf(layers, sizeof layers, "{ name = \"y\"; %s; in = \"fields\"; }",
             keys[k]);
    lr_check(&(lr_case){.layers = layers,
                        .tables = LR_TABLES("0..3", "5"),
                        .n_out = forms[k] == OUTER ? 6 : 30,
                        .oracle = pairs_oracle,
                        .arg = &forms[k]});
    lr_check(&(lr_case){.layers = layers,
                        .tables = LR_TABLES("0..1", "16"),
                        .n_out = forms[k] == OUTER ? 1 : 16,
                        .oracle = pairs_oracle,
                        .arg = &forms[k]});
  }
  lr_refused(&(lr_case){.layers = "{ name = \"y\"; kind = \"bilinear\"; in = "
                                  "\"f0\"; }",
                        .n_out = 1},
             "it takes fields (B, F, d), but \"f0\" is (B, 4)");
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
    affine(hidden, lr_param(p, "y.0.weight"), NULL, z, h, f);
    for (int32_t i = 0; i < h; i++) hidden[i] = fmax(0, hidden[i]);
    affine(a, lr_param(p, "y.1.weight"), NULL, hidden, f, h);
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
