/* test_layers_numbers.c - kinds of layers that make embeddings of numbers,
 * against themselves in double.
 * ranks: 1
 * fake: 1  emulated: 1 */
#include <math.h>
#include <string.h>

#include "dense/linear.h"
#include "tests/model/layer_rig.h"

#define ONE(kind, in, keys)                                                    \
  "{ name = \"y\"; kind = \"" kind "\"; in = " in "; " keys " }"

/* In run.precision "bf16" the same but for what inputs and weights are rounded
 * by; WEIGHT is one of these, of a layer of N_OUT outputs. */
static void check_bf16(lr_case *c, const char *weight, int32_t n_out) {
  lr_rig r;
  ts_device *device;
  bool half = false;
  c->bf16 = true;
  c->near = 0.03;
  c->tolerance = 0.1;
  lr_check(c);
  ck_assert_ok(ts_test_device(&device, true, 1));
  lr_start(&r, c, 1, NULL, device);
  for (int32_t i = 0; i < r.model->params.n; i++)
    if (!strcmp(r.model->params.item[i]->name, weight))
      half = r.model->params.item[i]->half;
  ck_assert_int_eq(half,
                   ts_linear_in_bf16(TS_PRECISION_BF16, n_out, NULL, &r.k));
  lr_stop(&r);
  ts_device_destroy(device);
}

/* ---- project ------------------------------------------------------------- */

/* Embeddings of 3 and 5, and two dense columns. */
static void project_oracle(double *out, const lr_point *p, const void *arg) {
  static const char *const weights[] = {"y.0.weight", "y.1.weight",
                                        "y.2.weight", "y.3.weight"};
  static const char *const biases[] = {"y.0.bias", "y.1.bias", "y.2.bias",
                                       "y.3.bias"};
  const int32_t dim = p->n_out / 4;
  for (int32_t s = 0; s < p->batch; s++)
    for (int k = 0; k < 4; k++) {
      const int32_t n = k < 2 ? p->dim[k] : 1;
      const double *x =
          k < 2 ? p->emb[k] + s * n : p->dense + s * p->n_dense + k - 2;
      const double *w = lr_param(p, weights[k]);
      for (int o = 0; o < dim; o++) {
        *out = arg ? lr_param(p, biases[k])[o] : 0;
        for (int32_t j = 0; j < n; j++) *out += w[o * n + j] * x[j];
        out++;
      }
    }
}

TS_TEST(project) {
  lr_case c = {.layers =
                   ONE("project", "[\"embeddings\", \"dense\"]", "dim = 2;"),
               .tables = LR_TABLES("0..0", "3") ",\n" LR_TABLES("1..1", "5"),
               .n_dense = 2,
               .n_out = 8,
               .oracle = project_oracle,
               .arg = ""};
  lr_check(&c);
  c.layers =
      ONE("project", "[\"embeddings\", \"dense\"]", "dim = 2; bias = false;");
  c.arg = NULL;
  lr_check(&c);
  c.layers = ONE("project", "[\"embeddings\", \"dense\"]", "dim = 6;");
  c.n_out = 24;
  c.arg = "";
  check_bf16(&c, "y.3.weight", 6);
}

/* ---- periodic ------------------------------------------------------------ */

typedef struct wave_case {
  const char *layers;
  int32_t n_dense, n_emb, k, dim; /* numbers, dense ones first */
  bool lite, relu;
} wave_case;

static void periodic_oracle(double *out, const lr_point *p, const void *arg) {
  const wave_case *t = arg;
  const double *c = lr_param(p, "y.0.frequencies");
  const double *w = t->dim ? lr_param(p, "y.1.weight") : NULL;
  const double *b = t->dim ? lr_param(p, "y.1.bias") : NULL;
  for (int32_t s = 0; s < p->batch; s++)
    for (int32_t i = 0; i < t->n_dense + t->n_emb; i++) {
      const double x = i < t->n_dense
                           ? p->dense[s * t->n_dense + i]
                           : p->emb[0][s * t->n_emb + i - t->n_dense];
      const int32_t own = t->lite ? 0 : i, wide = 2 * t->k;
      double wave[64];
      for (int32_t j = 0; j < t->k; j++) {
        wave[j] = sin(2 * acos(-1) * c[i * t->k + j] * x);
        wave[t->k + j] = cos(2 * acos(-1) * c[i * t->k + j] * x);
      }
      for (int32_t j = 0; !t->dim && j < wide; j++) *out++ = wave[j];
      if (!t->dim) continue;
      lr_affine(out, w + own * t->dim * wide, b + own * t->dim, wave, t->dim,
                wide);
      for (int32_t j = 0; j < t->dim; j++, out++)
        if (t->relu) *out = fmax(0, *out);
    }
}

#define WAVES(in, keys) ONE("periodic", in, "sigma = 0.8; " keys)
TS_TEST(periodic) {
  static const wave_case cases[] = {
      {WAVES("[\"dense\", \"f0\"]", "frequencies = 5; dim = 3;"), 2, 4, 5, 3,
       false, true},
      {WAVES("[\"dense\", \"f0\"]",
             "frequencies = 17; dim = 3; activation = \"linear\";"),
       2, 4, 17, 3, false, false},
      {WAVES("[\"dense\", \"f0\"]", "frequencies = 5; dim = 4; lite = true;"),
       2, 4, 5, 4, true, true},
      {WAVES("\"f0\"",
             "frequencies = 3; dim = 4; lite = true; activation = \"linear\";"),
       0, 4, 3, 4, true, false},
      {WAVES("[\"dense\", \"f0\"]", "frequencies = 3; dim = 0;"), 2, 4, 3, 0,
       false, false},
      {WAVES("\"f0\"", "frequencies = 1; dim = 2;"), 0, 1, 1, 2, false, true},
      {WAVES("\"f0\"", "frequencies = 9; dim = 0;"), 0, 1, 9, 0, false, false},
      {WAVES("[\"dense\", \"f0\"]", "frequencies = 5; dim = 6;"), 2, 4, 5, 6,
       false, true},
      {WAVES("[\"dense\", \"f0\"]",
             "frequencies = 5; dim = 6; activation = \"linear\";"),
       2, 4, 5, 6, false, false}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const wave_case *t = &cases[k];
    const int32_t each = t->dim ? t->dim : 2 * t->k;
    lr_check(&(lr_case){.layers = t->layers,
                        .tables = t->n_emb == 1 ? LR_TABLES("0..0", "1")
                                                : LR_TABLES("0..0", "4"),
                        .n_dense = t->n_dense,
                        .n_out = (t->n_dense + t->n_emb) * each,
                        .oracle = periodic_oracle,
                        .arg = t});
  }
  for (size_t k = 7; k < sizeof cases / sizeof *cases; k++)
    check_bf16(&(lr_case){.layers = cases[k].layers,
                          .tables = LR_TABLES("0..0", "4"),
                          .n_dense = 2,
                          .n_out = 36,
                          .oracle = periodic_oracle,
                          .arg = &cases[k],
                          .eval = cases[k].relu},
               "y.1.weight", 6);
  lr_refused(
      &(lr_case){.layers = ONE("periodic", "\"f0\"", "frequencies = 4096;"),
                 .tables = LR_TABLES("0..0", "4096"),
                 .n_out = 1},
      "4096 numbers of 4096 frequencies and dim 24: a sample has 16777216");
}

/* Frequencies are normal with sigma, 0.01 where the deck says none, and init is
 * for the other matrices. */
TS_TEST(frequencies) {
  static const char *const layers[] = {
      ONE("periodic", "\"f0\"", "frequencies = 4096; dim = 0;"),
      ONE("periodic", "\"f0\"",
          "frequencies = 4096; dim = 1; sigma = 3.0; "
          "init = { kind = \"constant\"; scale = 0.5; };")};
  static const double sigma[] = {0.01, 3};
  for (int k = 0; k < 2; k++) {
    const lr_case c = {.layers = layers[k],
                       .tables = LR_TABLES("0..0", "1"),
                       .n_out = k ? 1 : 8192};
    lr_rig r;
    ts_device *device;
    double sum = 0, square = 0;
    ck_assert_ok(ts_test_device(&device, true, 1));
    lr_start(&r, &c, 5, NULL, device);
    ck_assert_int_eq(r.model->params.n, k ? 3 : 1);
    const double *w = lr_param(&r.p, "y.0.frequencies");
    for (int i = 0; i < 4096; i++) {
      sum += w[i] / 4096;
      square += w[i] * w[i] / 4096;
    }
    ck_assert_double_eq_tol(sum / sigma[k], 0, 0.06);
    ck_assert_double_eq_tol(sqrt(square) / sigma[k], 1, 0.05);
    if (k) ck_assert(lr_param(&r.p, "y.1.weight")[7] == 0.5);
    lr_stop(&r);
    ts_device_destroy(device);
  }
}
