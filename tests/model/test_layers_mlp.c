/* test_layers_mlp.c - kind mlp with norms, activations, dropout and residual,
 * against itself in double.
 * ranks: 1
 * fake: 1  emulated: 1 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "tests/model/layer_rig.h"

enum { MOST = 32 };

typedef struct ts_mlp_case {
  const char *keys;
  int act, last; /* 0 linear, 1 relu, 2 tanh, 3 prelu, 4 dice, 5 softmax */
  char norm;     /* b, l, r or 0 */
  double dropout;
  bool residual, bare; /* bare: the last layer is linear alone */
} ts_mlp_case;

static const double *param(const lr_point *p, int32_t i, const char *tail) {
  char name[64];
  snprintf(name, sizeof name, "y.%d.%s", i, tail);
  return lr_param(p, name);
}

/* Of columns of the batch; X in place. */
static void of_batch(const lr_point *p, double *x, int32_t n) {
  for (int32_t c = 0; c < n; c++) {
    double mean = 0, var = 0;
    for (int32_t s = 0; s < p->batch; s++) mean += x[s * n + c] / p->batch;
    for (int32_t s = 0; s < p->batch; s++)
      var += pow(x[s * n + c] - mean, 2) / p->batch;
    for (int32_t s = 0; s < p->batch; s++)
      x[s * n + c] = (x[s * n + c] - mean) / sqrt(var + 1e-5);
  }
}

static void of_row(double *x, int32_t n, char kind) {
  double mean = 0, square = 0;
  for (int32_t c = 0; kind == 'l' && c < n; c++) mean += x[c] / n;
  for (int32_t c = 0; c < n; c++) square += pow(x[c] - mean, 2) / n;
  for (int32_t c = 0; c < n; c++)
    x[c] = (x[c] - mean) / sqrt(square + (kind == 'l' ? 1e-5 : 1.1920929e-7));
}

static void norm(const lr_point *p, double *x, int32_t n, int32_t i,
                 char kind) {
  if (kind == 'b') of_batch(p, x, n);
  for (int32_t s = 0; s < p->batch; s++) {
    if (kind != 'b') of_row(x + s * n, n, kind);
    for (int32_t c = 0; c < n; c++) {
      x[s * n + c] *= param(p, i, "norm.weight")[c];
      if (kind != 'r') x[s * n + c] += param(p, i, "norm.bias")[c];
    }
  }
}

static void activate(const lr_point *p, double *x, int32_t n, int32_t i,
                     int kind) {
  double t[LR_BATCH * MOST], sum = 0;
  memcpy(t, x, (size_t)(p->batch * n) * sizeof *t);
  if (kind == 4) of_batch(p, t, n);
  for (int32_t k = 0; k < p->batch * n; k++) {
    const double w =
        kind == 3 || kind == 4 ? param(p, i, "activation.weight")[k % n] : 0;
    const double gate = 1 / (1 + exp(-t[k]));
    if ((kind == 1 || kind == 3) && x[k] < 0) x[k] *= w;
    if (kind == 2) x[k] = tanh(x[k]);
    if (kind == 4) x[k] *= gate + w * (1 - gate);
    if (kind != 5) continue;
    if (k % n == 0)
      for (int32_t c = sum = 0; c < n; c++) sum += exp(x[k + c]);
    x[k] = exp(x[k]) / sum;
  }
}

/* As kernels.h and layer_ops.h say. */
static void drop(const lr_point *p, double *x, int32_t n, int32_t i,
                 double share) {
  const uint64_t of[] = {(uint64_t)p->seed, 0,
                         (uint32_t)ts_fnv1a(TS_FNV_START, "y", 1), (uint64_t)i};
  uint32_t key[2];
  ts_rng_key(key, ts_fnv1a(TS_FNV_START, of, sizeof of), TS_RNG_DROPOUT);
  for (int32_t k = 0; k < p->batch * n; k++) {
    const uint32_t at[4] = {(uint32_t)(k / n), 0, (uint32_t)(k % n) / 4, 0};
    uint32_t word[4];
    ts_philox(word, at, key);
    x[k] *= ts_rng_unit(word[k % n % 4]) < (float)share
                ? 0
                : 1 / (1 - (double)(float)share);
  }
}

static void oracle(double *out, const lr_point *p, const void *arg) {
  static const int32_t widths[] = {12, 6, 6, 5};
  const ts_mlp_case *m = arg;
  double x[LR_BATCH * MOST], y[LR_BATCH * MOST];
  lr_embeddings(p, x);
  for (int32_t i = 0; i < 3; i++) {
    const int32_t n_in = widths[i], n = widths[i + 1];
    const bool bare = m->bare && i == 2;
    for (int32_t k = 0; k < p->batch * n; k++) {
      y[k] = param(p, i, "bias")[k % n];
      for (int32_t j = 0; j < n_in; j++)
        y[k] += param(p, i, "weight")[k % n * n_in + j] * x[k / n * n_in + j];
    }
    if (m->norm && !bare) norm(p, y, n, i, m->norm);
    activate(p, y, n, i, i == 2 ? m->last : m->act);
    if (m->dropout > 0 && !bare) drop(p, y, n, i, m->dropout);
    for (int32_t k = 0; m->residual && n_in == n && k < p->batch * n; k++)
      y[k] += x[k];
    memcpy(x, y, sizeof x);
  }
  memcpy(out, x, (size_t)(p->batch * 5) * sizeof *out);
}

static const ts_mlp_case cases[] = {
    {"", 1, 1, 0, 0, false, false},
    {"last_activation = \"linear\";", 1, 0, 0, 0, false, true},
    {"activation = \"tanh\";", 2, 2, 0, 0, false, false},
    {"activation = \"linear\"; residual = true;", 0, 0, 0, 0, true, false},
    {"dropout = 0.4; residual = true;", 1, 1, 0, 0.4, true, false},
    {"dropout = 0.4; activation = \"linear\"; norm = \"rms\";", 0, 0, 'r', 0.4,
     false, false},
    {"norm = \"layer\"; activation = \"tanh\"; last_activation = \"softmax\";",
     2, 5, 'l', 0, false, false},
    {"norm = \"batch\"; activation = \"prelu\"; dropout = 0.2; residual = "
     "true; "
     "last_activation = \"linear\";",
     3, 0, 'b', 0.2, true, true},
    {"norm = \"rms\"; activation = \"tanh\"; dropout = 0.2;", 2, 2, 'r', 0.2,
     false, false},
    {"activation = \"dice\"; last_activation = \"tanh\";", 4, 2, 0, 0, false,
     false}};
enum { CASES = sizeof cases / sizeof *cases };

TS_TESTS(options, 0, CASES) {
  char layers[256];
  const ts_mlp_case *m = &cases[_i];
  snprintf(layers, sizeof layers,
           "{ name = \"y\"; kind = \"mlp\"; in = \"embeddings\"; units = [6, "
           "6, 5]; %s }",
           m->keys);
  lr_check(&(lr_case){.layers = layers,
                      .n_out = 5,
                      .oracle = oracle,
                      .near = 1e-4, /* batch norm of one sample: var is 0 */
                      .tolerance = 3e-4,
                      .arg = m});
}
