/* test_layers.c - kinds of layers that the first models were made of, against
 * themselves in double.
 * ranks: 1
 * fake: 1  emulated: 1 */
#include <math.h>
#include <string.h>

#include "tests/model/layer_rig.h"

enum { MOST = 128 };

/* Y (batch, n_out) = X W^T + B. */
static void linear(double *y, const double *x, const double *w, const double *b,
                   int32_t batch, int32_t n_in, int32_t n_out, bool relu) {
  for (int32_t s = 0; s < batch; s++)
    for (int32_t o = 0; o < n_out; o++) {
      double sum = b ? b[o] : 0;
      for (int32_t i = 0; i < n_in; i++)
        sum += w[o * n_in + i] * x[s * n_in + i];
      y[s * n_out + o] = relu && sum < 0 ? 0 : sum;
    }
}

static void linear_oracle(double *out, const lr_point *p, const void *arg) {
  double x[LR_BATCH * MOST];
  lr_embeddings(p, x);
  linear(out, x, lr_param(p, "y.0.weight"),
         arg ? lr_param(p, "y.0.bias") : NULL, p->batch, 12, 5, false);
}

TS_TEST(linear_layers) {
  lr_check(&(lr_case){.layers = "{ name = \"y\"; kind = \"linear\"; in = "
                                "\"embeddings\"; units = 5; }",
                      .n_out = 5,
                      .oracle = linear_oracle,
                      .arg = ""});
  lr_check(&(lr_case){.layers = "{ name = \"y\"; kind = \"linear\"; in = "
                                "\"embeddings\"; units = 5; bias = false; }",
                      .n_out = 5,
                      .oracle = linear_oracle});
}

/* Below and above the embeddings, and the dense input beside them. */
static void mlp_oracle(double *out, const lr_point *p, const void *arg) {
  double a[LR_BATCH * MOST], b[LR_BATCH * MOST], x[LR_BATCH * MOST];
  (void)arg;
  linear(a, p->dense, lr_param(p, "below.0.weight"),
         lr_param(p, "below.0.bias"), p->batch, 3, 6, true);
  linear(b, a, lr_param(p, "below.1.weight"), lr_param(p, "below.1.bias"),
         p->batch, 6, 2, true);
  for (int32_t s = 0; s < p->batch; s++) {
    double *to = x + s * 17;
    for (int32_t i = 0; i < 2; i++) *to++ = b[s * 2 + i];
    for (int32_t f = 0; f < 3; f++)
      for (int32_t j = 0; j < 4; j++) *to++ = p->emb[f][s * 4 + j];
    for (int32_t i = 0; i < 3; i++) *to++ = p->dense[s * 3 + i];
  }
  linear(a, x, lr_param(p, "deep.0.weight"), lr_param(p, "deep.0.bias"),
         p->batch, 17, 8, true);
  linear(out, a, lr_param(p, "y.0.weight"), lr_param(p, "y.0.bias"), p->batch,
         8, 4, false);
}

TS_TEST(mlps) {
  lr_check(&(lr_case){
      .layers =
          "{ name = \"below\"; kind = \"mlp\"; in = \"dense\"; units = [6, 2]; "
          "},\n{ name = \"deep\"; kind = \"mlp\"; in = [\"below\", "
          "\"embeddings\", \"dense\"]; units = [8]; },\n"
          "{ name = \"y\"; kind = \"linear\"; in = \"deep\"; units = 4; }",
      .n_dense = 3,
      .n_out = 4,
      .oracle = mlp_oracle});
}

/* Embeddings that several layers read, one of them twice: 3 e, and a part. */
static void add_oracle(double *out, const lr_point *p, const void *arg) {
  (void)arg;
  for (int32_t i = 0; i < p->batch * 4; i++)
    out[i] = 2 * p->emb[0][i] + p->emb[1][i] + (p->emb[0][i] + p->emb[2][i]);
}

TS_TEST(add) {
  lr_check(&(lr_case){
      .layers = "{ name = \"a\"; kind = \"add\"; in = [\"f0\", \"f2\"]; },\n"
                "{ name = \"y\"; kind = \"add\"; in = [\"f0\", \"f1\", \"a\", "
                "\"f0\"]; }",
      .n_out = 4,
      .oracle = add_oracle});
  lr_refused(&(lr_case){.layers = "{ name = \"y\"; kind = \"add\"; in = "
                                  "[\"fields\", \"f1\"]; }",
                        .n_out = 4},
             "its inputs must be of one shape");
}

static void wide_oracle(double *out, const lr_point *p, const void *arg) {
  (void)arg;
  for (int32_t s = 0; s < p->batch; s++) {
    out[s] = lr_param(p, "y.0.bias")[0];
    for (int32_t f = 0; f < 3; f++)
      for (int32_t j = 0; j < p->dim[f]; j++)
        out[s] += p->emb[f][s * p->dim[f] + j];
  }
}

TS_TEST(wide) {
  lr_case c = {.layers = "{ name = \"y\"; kind = \"wide\"; in = \"fields\"; }",
               .tables = LR_TABLES("0..2", "1"),
               .n_out = 1,
               .oracle = wide_oracle};
  lr_check(&c);
  c.tables = NULL;
  lr_check(&c);
}

typedef enum { FM_SUM, FM_VECTOR, FM_ALL } fm_kind;

static void fm_oracle(double *out, const lr_point *p, const void *arg) {
  const fm_kind kind = *(const fm_kind *)arg;
  const int32_t d = p->dim[0], f = p->n_features;
  double x[LR_BATCH * MOST];
  lr_embeddings(p, x);
  for (int32_t s = 0; s < p->batch; s++) {
    const double *row = x + s * f * d;
    const int32_t n = kind == FM_ALL ? 1 : d;
    double total = 0;
    for (int32_t j = 0; j < n; j++) {
      double sum = 0, square = 0;
      for (int32_t i = j; i < f * d; i += n) {
        sum += row[i];
        square += row[i] * row[i];
      }
      total += (sum * sum - square) / 2;
      if (kind == FM_VECTOR) out[s * d + j] = (sum * sum - square) / 2;
    }
    if (kind != FM_VECTOR) out[s] = total;
  }
}

TS_TEST(fm) {
  static const fm_kind kinds[] = {FM_SUM, FM_VECTOR, FM_ALL};
  static const char *const layers[] = {
      "{ name = \"y\"; kind = \"fm\"; in = \"fields\"; }",
      "{ name = \"y\"; kind = \"fm\"; in = \"fields\"; reduce = false; }",
      "{ name = \"y\"; kind = \"fm\"; in = \"fields\"; over = \"all\"; }"};
  for (int k = 0; k < 3; k++)
    lr_check(&(lr_case){.layers = layers[k],
                        .tables = LR_TABLES("0..4", "3"),
                        .n_out = kinds[k] == FM_VECTOR ? 3 : 1,
                        .oracle = fm_oracle,
                        .arg = &kinds[k]});
  lr_refused(&(lr_case){.layers = "{ name = \"y\"; kind = \"fm\"; in = "
                                  "\"f0\"; }",
                        .n_out = 1},
             "or several vectors of one width, but \"f0\" is (B, 4)");
}

/* Layers that add to the gradient of what others read, too: fm, and slice. */
static void shared_oracle(double *out, const lr_point *p, const void *arg) {
  double x[LR_BATCH * MOST], a[LR_BATCH], b[LR_BATCH], first[LR_BATCH * 4];
  (void)arg;
  lr_embeddings(p, x);
  for (int32_t s = 0; s < p->batch; s++)
    memcpy(first + s * 4, x + s * 12, 4 * sizeof *first);
  linear(a, x, lr_param(p, "all.0.weight"), lr_param(p, "all.0.bias"), p->batch,
         12, 1, false);
  linear(b, first, lr_param(p, "part.0.weight"), lr_param(p, "part.0.bias"),
         p->batch, 4, 1, false);
  for (int32_t s = 0; s < p->batch; s++) {
    out[s] = a[s] + b[s];
    for (int32_t i = 0; i < 12; i++)
      for (int32_t j = i + 1; j < 12; j++)
        if (i % 4 == j % 4) out[s] += x[s * 12 + i] * x[s * 12 + j];
  }
}

TS_TEST(added_gradients) {
  lr_check(&(lr_case){
      .layers =
          "{ name = \"x\"; kind = \"stack\"; in = \"fields\"; },"
          "{ name = \"pairs\"; kind = \"fm\"; in = \"x\"; },"
          "{ name = \"first\"; kind = \"slice\"; in = \"x\"; to = 1; },"
          "{ name = \"all\"; kind = \"linear\"; in = \"x\"; units = 1; },"
          "{ name = \"part\"; kind = \"linear\"; in = \"first\"; units = 1; },"
          "{ name = \"y\"; kind = \"add\"; in = [\"all\", \"pairs\", "
          "\"part\"]; }",
      .n_out = 1,
      .oracle = shared_oracle});
}

/* ARG: with the vector of the dense input. */
static void dot_oracle(double *out, const lr_point *p, const void *arg) {
  const int32_t d = 4, first = arg != NULL, n = 3 + first;
  double b[LR_BATCH * MOST];
  if (arg)
    linear(b, p->dense, lr_param(p, "b.0.weight"), lr_param(p, "b.0.bias"),
           p->batch, 2, d, false);
  for (int32_t s = 0; s < p->batch; s++) {
    const double *v[4];
    for (int32_t k = 0; k < n; k++)
      v[k] = k < first ? b + s * d : p->emb[k - first] + s * d;
    for (int32_t j = 0; first && j < d; j++) *out++ = b[s * d + j];
    for (int32_t i = 0; i < n; i++)
      for (int32_t k = i + 1; k < n; k++, out++) {
        *out = 0;
        for (int32_t j = 0; j < d; j++) *out += v[i][j] * v[k][j];
      }
  }
}

TS_TEST(dot) {
  lr_check(&(lr_case){.layers = "{ name = \"b\"; kind = \"linear\"; in = "
                                "\"dense\"; units = 4; },\n{ name = \"y\"; "
                                "kind = \"dot\"; in = [\"b\", \"fields\"]; }",
                      .n_dense = 2,
                      .n_out = 10,
                      .oracle = dot_oracle,
                      .arg = ""});
  lr_check(&(lr_case){.layers = "{ name = \"y\"; kind = \"dot\"; in = "
                                "\"fields\"; }",
                      .n_out = 3,
                      .oracle = dot_oracle});
}

/* Embeddings of different dims, twice, and what reads them elsewhere. */
static void concat_oracle(double *out, const lr_point *p, const void *arg) {
  (void)arg;
  for (int32_t s = 0; s < p->batch; s++) {
    for (int32_t f = 0; f < 3; f++)
      for (int32_t j = 0; j < p->dim[f]; j++)
        *out++ = p->emb[f][s * p->dim[f] + j];
    for (int32_t i = 0; i < 2; i++) *out++ = p->dense[s * 2 + i];
    for (int32_t j = 0; j < p->dim[2]; j++)
      *out++ = 2 * p->emb[2][s * p->dim[2] + j];
  }
}

TS_TEST(concat) {
  lr_check(&(lr_case){
      .layers = "{ name = \"twice\"; kind = \"add\"; in = [\"f2\", \"f2\"]; "
                "},\n{ name = \"y\"; kind = \"concat\"; in = [\"embeddings\", "
                "\"dense\", \"twice\"]; }",
      .tables = LR_TABLES("0..1", "3") ",\n" LR_TABLES("2..2", "5"),
      .n_dense = 2,
      .n_out = 18,
      .oracle = concat_oracle});
}
