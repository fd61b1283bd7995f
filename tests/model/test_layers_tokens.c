/* test_layers_tokens.c - kinds of layers on tokens, against themselves in
 * double.
 * ranks: 1
 * fake: 1  emulated: 1 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dense/linear.h"
#include "tests/model/layer_rig.h"

#define TABLE(name, dim)                                                       \
  "{ name = \"t" name "\"; features = [\"" name "\"]; rows = 9; dim = " dim    \
  "; pooling = \"none\"; }"
#define PLAIN "{ name = \"tp\"; features = [\"p\"]; rows = 9; dim = 3; }"

enum { DIM = 3, MOST = 64 };

/* None, one, as many as have places, more. */
static const int32_t lengths[LR_BATCH] = {3, 0, 1, 5, 2, 0, 4};

/* The first token of sample B. */
static int32_t first_of(const lr_point *p, int32_t b) {
  int32_t t = 0;
  for (int32_t k = 0; k < b; k++) t += p->lengths[k];
  return t;
}

/* ---- pool ---------------------------------------------------------------- */

/* Rows X (tokens, n) of each sample to OUT (batch, n). */
static void pool(double *out, const lr_point *p, const double *x, int32_t n,
                 const char *by) {
  for (int32_t b = 0; b < p->batch; b++)
    for (int32_t c = 0; c < n; c++) {
      const int32_t len = p->lengths[b];
      const double *col = x + first_of(p, b) * n + c;
      double sum = 0, most = len ? col[0] : 0;
      for (int32_t t = 0; t < len; t++) {
        sum += col[t * n];
        most = fmax(most, col[t * n]);
      }
      out[b * n + c] = !strcmp(by, "max")           ? most
                       : !strcmp(by, "sum")         ? sum
                       : !strcmp(by, "mean") && len ? sum / len
                       : !strcmp(by, "last") && len ? col[(len - 1) * n]
                                                    : 0;
    }
}

static void pool_oracle(double *out, const lr_point *p, const void *arg) {
  pool(out, p, p->emb[0], DIM, arg);
}

TS_TEST(pools) {
#define POOL(by)                                                               \
  lr_check(&(lr_case){.layers =                                                \
                          "{ name = \"y\"; kind = \"pool\"; in = \"s\"; "      \
                          "by = \"" by "\"; }",                                \
                      .tables = TABLE("s", "3"),                               \
                      .n_out = DIM,                                            \
                      .lengths = lengths,                                      \
                      .oracle = pool_oracle,                                   \
                      .arg = by})
  POOL("sum");
  POOL("mean");
  POOL("max");
  POOL("last");
}

/* ---- position ------------------------------------------------------------ */

typedef struct place_case {
  bool newest, sine;
  int32_t places;
  double scale;
} place_case;

static double wave(int32_t place, int32_t c) {
  const double a = place * pow(10000, -(double)(c - c % 2) / DIM);
  return c % 2 ? cos(a) : sin(a);
}

static void place_oracle(double *out, const lr_point *p, const void *arg) {
  const place_case *k = arg;
  double y[MOST * DIM] = {0};
  for (int32_t b = 0; b < p->batch; b++)
    for (int32_t i = 0; i < p->lengths[b]; i++)
      for (int32_t c = 0; c < DIM; c++) {
        const int32_t t = first_of(p, b) + i;
        int32_t at = k->newest ? p->lengths[b] - 1 - i : i;
        if (at >= k->places) at = k->places - 1;
        y[t * DIM + c] =
            k->scale * p->emb[0][t * DIM + c] +
            (k->sine ? wave(at, c) : lr_param(p, "at.0.weight")[at * DIM + c]);
      }
  pool(out, p, y, DIM, "sum");
  for (int32_t i = 0; i < p->batch * DIM; i++) out[i] *= 0.5;
}

#define PLACES(keys)                                                           \
  "{ name = \"at\"; kind = \"position\"; in = \"s\"; " keys " },"              \
  "{ name = \"all\"; kind = \"pool\"; in = \"at\"; by = \"sum\"; },"           \
  "{ name = \"y\"; kind = \"scale\"; in = \"all\"; factor = 0.5; }"

TS_TEST(positions) {
  static const struct {
    const char *layers;
    place_case of;
  } cases[] = {
      {PLACES("places = 8;"), {true, false, 8, 1}},
      {PLACES("places = 3; scale = 0.5;"), {true, false, 3, 0.5}},
      {PLACES("places = 3; from = \"oldest\";"), {false, false, 3, 1}},
      {PLACES("places = 1; scale = 0;"), {true, false, 1, 1.7320508075688772}},
      {PLACES("places = 4; by = \"sine\"; from = \"oldest\";"),
       {false, true, 4, 1}},
      {PLACES("places = 9; by = \"sine\";"), {true, true, 9, 1}}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    lr_check(&(lr_case){.layers = cases[k].layers,
                        .tables = TABLE("s", "3"),
                        .n_out = DIM,
                        .lengths = lengths,
                        .oracle = place_oracle,
                        .arg = &cases[k].of});
}

/* ---- attention ----------------------------------------------------------- */

typedef struct look_case {
  int32_t heads, dim;             /* of one head */
  bool silu, causal, alibi, bare; /* bare: without W_o */
  int32_t before;                 /* vectors before each sample's tokens */
  int32_t context;                /* so many first ones look at all */
  double rotary;                  /* its base; 0: none */
} look_case;

/* Q . k of DIM numbers that are turned by their tokens' places, FAR apart: k by
 * as many steps alone. */
static double turned(const look_case *k, const double *q, const double *key,
                     int32_t far) {
  double s = 0;
  for (int32_t c = 0; c < k->dim; c += 2) {
    const double by = -far / pow(k->rotary, (double)c / k->dim);
    s += q[c] * (key[c] * cos(by) - key[c + 1] * sin(by)) +
         q[c + 1] * (key[c] * sin(by) + key[c + 1] * cos(by));
  }
  return s;
}

/* A number by which token I looks at token J, both of sample B. */
static double look(const look_case *k, const double *qkv, int32_t h, int32_t i,
                   int32_t j) {
  const int32_t a = k->heads * k->dim;
  const double *q = qkv + i * 3 * a + h * k->dim;
  const double *key = qkv + j * 3 * a + a + h * k->dim;
  double s = 0;
  for (int32_t c = 0; c < k->dim; c++) s += q[c] * key[c];
  if (k->rotary) s = turned(k, q, key, i - j);
  s /= sqrt(k->dim);
  if (k->alibi) s -= pow(2, -8.0 * (h + 1) / k->heads) * abs(i - j);
  return s;
}

/* Y (heads dim) = token I of the LEN at QKV. */
static void look_around(double *y, const look_case *k, const double *qkv,
                        int32_t len, int32_t i) {
  const int32_t a = k->heads * k->dim;
  const int32_t end = k->causal && i >= k->context ? i + 1 : len;
  for (int32_t h = 0; h < k->heads; h++) {
    double sum = 0;
    for (int32_t j = 0; j < end; j++) sum += exp(look(k, qkv, h, i, j));
    for (int32_t c = 0; c < k->dim; c++) {
      double v = 0;
      for (int32_t j = 0; j < end; j++) {
        const double s = look(k, qkv, h, i, j);
        v += (k->silu ? s / (1 + exp(-s)) / len : exp(s) / sum) *
             qkv[j * 3 * a + 2 * a + h * k->dim + c];
      }
      y[h * k->dim + c] = v;
    }
  }
}

enum { LOOK_DIM = 4, LOOK_MOST = 3 * 12 };

/* X = sample B's rows of features 1 to BEFORE, then its tokens; how many. */
static int32_t whole_rows(double *x, const lr_point *p, int32_t b,
                          int32_t before) {
  const int32_t len = p->lengths[b];
  for (int32_t k = 0; k < before; k++, x += LOOK_DIM)
    memcpy(x, p->emb[k + 1] + b * LOOK_DIM, LOOK_DIM * sizeof *x);
  memcpy(x, p->emb[0] + first_of(p, b) * LOOK_DIM,
         (size_t)(len * LOOK_DIM) * sizeof *x);
  return before + len;
}

static void look_oracle(double *out, const lr_point *p, const void *arg) {
  const look_case *k = arg;
  const int32_t a = k->heads * k->dim, n = k->bare ? a : LOOK_DIM;
  double x[8 * LOOK_DIM], qkv[8 * LOOK_MOST], y[LOOK_MOST], z[LOOK_MOST];
  memset(out, 0, (size_t)(p->batch * n) * sizeof *out);
  for (int32_t b = 0; b < p->batch; b++) {
    const int32_t len = whole_rows(x, p, b, k->before);
    for (int32_t t = 0; t < len; t++)
      lr_affine(qkv + t * 3 * a, lr_param(p, "l.0.weight"),
                lr_param(p, "l.0.bias"), x + t * LOOK_DIM, 3 * a, LOOK_DIM);
    for (int32_t t = 0; t < len; t++) {
      look_around(k->bare ? z : y, k, qkv, len, t);
      if (!k->bare)
        lr_affine(z, lr_param(p, "l.1.weight"), lr_param(p, "l.1.bias"), y, n,
                  a);
      for (int32_t c = 0; c < n; c++) out[b * n + c] += z[c];
    }
  }
}

#define LOOKS(keys)                                                            \
  "{ name = \"l\"; kind = \"attention\"; in = \"s\"; " keys " },"              \
  "{ name = \"y\"; kind = \"pool\"; in = \"l\"; by = \"sum\"; }"

TS_TEST(attention) {
  static const struct {
    const char *layers;
    look_case of;
    int32_t n_out;
  } cases[] = {
      {LOOKS(""), {.heads = 1, .dim = 4, .causal = true}, 4},
      {LOOKS("heads = 2; causal = false;"), {.heads = 2, .dim = 2}, 4},
      {LOOKS("heads = 2; dim = 3; places = \"alibi\";"),
       {.heads = 2, .dim = 3, .causal = true, .alibi = true},
       4},
      {LOOKS("heads = 2; dim = 3; by = \"silu\"; output = false;"),
       {.heads = 2, .dim = 3, .silu = true, .causal = true, .bare = true},
       6},
      {LOOKS("places = \"rotary\"; rotary_base = 20.0;"),
       {.heads = 1, .dim = 4, .causal = true, .rotary = 20},
       4},
      {LOOKS("heads = 2; dim = 6; places = \"rotary\"; by = \"silu\"; "
             "causal = false; output = false;"),
       {.heads = 2, .dim = 6, .silu = true, .bare = true, .rotary = 10000},
       12},
      {LOOKS("heads = 2; context = 2;"),
       {.heads = 2, .dim = 2, .causal = true, .context = 2},
       4}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    lr_check(&(lr_case){.layers = cases[k].layers,
                        .tables = TABLE("s", "4"),
                        .n_out = cases[k].n_out,
                        .lengths = lengths,
                        .oracle = look_oracle,
                        .arg = &cases[k].of});
}

/* ---- whose products ------------------------------------------------------ */

static ts_err (*half)(const ts_attention_args *);
static ts_err (*half_grad)(const ts_attention_args *);
static int n_half;

static ts_err count_half(const ts_attention_args *a) {
  n_half++;
  return half(a);
}
static ts_err count_half_grad(const ts_attention_args *a) {
  n_half += 10;
  return half_grad(a);
}

/* Run.precision "bf16" is attention's, too, where products have it. */
TS_TESTS(half_kernels, 0, 4) {
  const lr_case c = {.layers = _i % 2 ? LOOKS("")
                                      : "{ name = \"b\"; kind = \"hstu\"; "
                                        "in = \"s\"; }, { name = \"y\"; kind "
                                        "= \"pool\"; in = \"b\"; }",
                     .tables = TABLE("s", "4"),
                     .n_out = 4,
                     .lengths = lengths,
                     .bf16 = _i / 2,
                     .oracle = look_oracle,
                     .arg = &(const look_case){.heads = 1, .dim = 4}};
  lr_rig r;
  ts_device *device;
  /* Another engine of the host refuses it. */
  if (c.bf16 && !strcmp(ts_test_backend(), "host") &&
      strcmp(ts_linear_engine(NULL), "onednn") != 0)
    return;
  ck_assert_ok(ts_test_device(&device, true, 1));
  lr_start(&r, &c, 1, NULL, device);
  const bool has =
      ts_linear_precision(r.config->run.precision, &r.k) == TS_PRECISION_BF16;
  half = r.k.attention_half, half_grad = r.k.attention_half_grad;
  r.k.attention_half = count_half, r.k.attention_half_grad = count_half_grad;
  n_half = 0;
  r.model->pass = (ts_model_pass){.training = true};
  lr_forward(&r, LR_BATCH);
  ck_assert_int_eq(n_half, has ? 1 : 0);
  lr_backward(&r, LR_BATCH);
  ck_assert_int_eq(n_half, has ? 11 : 0);
  lr_stop(&r);
  ts_device_destroy(device);
}

/* ---- vectors before them ------------------------------------------------- */

#define VECTORS(name, dim)                                                     \
  "{ name = \"t" name "\"; features = [\"" name "\"]; rows = 9; dim = " dim    \
  "; }"
#define ONE TABLE("s", "4") "," VECTORS("p", "4")
#define TWO ONE "," VECTORS("q", "4")
#define WHOLE(keys, look)                                                      \
  "{ name = \"w\"; kind = \"prepend\"; in = \"s\"; " keys " },"                \
  "{ name = \"l\"; kind = \"attention\"; in = \"w\"; heads = 2; " look " },"   \
  "{ name = \"y\"; kind = \"pool\"; in = \"l\"; by = \"sum\"; }"

/* Fields and vectors; one vector; and what others read, too. */
TS_TEST(prepend) {
  static const look_case one = {
      .heads = 2, .dim = 2, .causal = true, .before = 1};
  static const look_case open = {
      .heads = 2, .dim = 2, .causal = true, .before = 2, .context = 2};
  static const look_case two = {
      .heads = 2, .dim = 2, .causal = true, .before = 2};
  static const struct {
    const char *layers, *tables;
    const look_case *of;
  } cases[] = {
      {WHOLE("before = [\"p\", \"q\"];", ""), TWO, &two},
      {WHOLE("before = \"embeddings\";", "context = 2;"), TWO, &open},
      {WHOLE("before = \"p\";", ""), ONE, &one},
      {"{ name = \"v\"; kind = \"prepend\"; in = \"s\"; before = \"q\"; },"
       "{ name = \"w\"; kind = \"prepend\"; in = \"v\"; before = \"p\"; },"
       "{ name = \"l\"; kind = \"attention\"; in = \"w\"; heads = 2; },"
       "{ name = \"y\"; kind = \"pool\"; in = \"l\"; by = \"sum\"; }",
       TWO, &two}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    lr_check(&(lr_case){.layers = cases[k].layers,
                        .tables = cases[k].tables,
                        .n_out = LOOK_DIM,
                        .lengths = lengths,
                        .oracle = look_oracle,
                        .arg = cases[k].of});
  }
}

/* What is read by several layers, as tokens and as vectors: y = sums of [p, s]
 * and of 2 [p, s], and p. */
static void shared_oracle(double *out, const lr_point *p, const void *arg) {
  (void)arg;
  pool(out, p, p->emb[0], DIM, "sum");
  for (int32_t i = 0; i < p->batch * DIM; i++)
    out[i] = 3 * (out[i] + p->emb[1][i]) + p->emb[1][i] + out[i];
}

TS_TEST(prepend_shared) {
  lr_check(&(lr_case){
      .layers =
          "{ name = \"v\"; kind = \"prepend\"; in = \"s\"; before = \"p\"; },"
          "{ name = \"w\"; kind = \"prepend\"; in = \"s\"; before = \"p\"; },"
          "{ name = \"x\"; kind = \"scale\"; in = \"w\"; factor = 2.0; },"
          "{ name = \"z\"; kind = \"add\"; in = [\"v\", \"x\"]; },"
          "{ name = \"a\"; kind = \"pool\"; in = \"z\"; by = \"sum\"; },"
          "{ name = \"b\"; kind = \"pool\"; in = \"s\"; by = \"sum\"; },"
          "{ name = \"y\"; kind = \"add\"; in = [\"a\", \"p\", \"b\"]; }",
      .tables = TABLE("s", "3") "," PLAIN,
      .n_out = DIM,
      .lengths = lengths,
      .oracle = shared_oracle});
}

/* ---- hstu ---------------------------------------------------------------- */

typedef struct hstu_case {
  int32_t heads, k, v, places, length; /* k, v: of one head */
  bool causal;
  int32_t context;
} hstu_case;

static double silu(double x) {
  return x / (1 + exp(-x));
}

static void normed(double *y, const double *x, int32_t n) {
  double sum = 0, square = 0;
  for (int32_t c = 0; c < n; c++) sum += x[c] / n;
  for (int32_t c = 0; c < n; c++) square += pow(x[c] - sum, 2) / n;
  for (int32_t c = 0; c < n; c++) y[c] = (x[c] - sum) / sqrt(square + 1e-6);
}

/* The bias of head H for a token I that looks at J. */
static double bias_of(const lr_point *p, const hstu_case *k, int32_t h,
                      int32_t i, int32_t j) {
  const int32_t most = k->places - 1, least = k->causal ? 0 : -most;
  int32_t at = i - j;
  if (!k->places) return 0;
  if (at > most) at = most;
  if (at < least) at = least; /* causal: of what context sees ahead */
  return lr_param(p, "l.1.weight")[h * (most - least + 1) + at - least];
}

enum { HSTU_V = 6, HSTU_WIDE = 2 * (6 + 6) };

/* Row I of the LEN at A: u, v, q, k side by side. */
static void hstu_row(double *y, const lr_point *p, const hstu_case *k,
                     const double *a, int32_t wide, int32_t len, int32_t i) {
  const int32_t v = k->heads * k->v, q = 2 * v, key = q + k->heads * k->k;
  for (int32_t h = 0; h < k->heads; h++)
    for (int32_t c = 0; c < k->v; c++) {
      double sum = 0;
      for (int32_t j = 0; j < (k->causal && i >= k->context ? i + 1 : len);
           j++) {
        double s = bias_of(p, k, h, i, j);
        for (int32_t e = 0; e < k->k; e++)
          s +=
              a[i * wide + q + h * k->k + e] * a[j * wide + key + h * k->k + e];
        sum += silu(s) * a[j * wide + v + h * k->v + c];
      }
      y[h * k->v + c] = sum / (k->length ? k->length : len);
    }
}

static void hstu_oracle(double *out, const lr_point *p, const void *arg) {
  const hstu_case *k = arg;
  const int32_t v = k->heads * k->v, wide = 2 * (v + k->heads * k->k);
  double z[MOST * LOOK_DIM] = {0}, a[8 * HSTU_WIDE], y[HSTU_V], m[HSTU_V];
  for (int32_t b = 0; b < p->batch; b++) {
    const int32_t first = first_of(p, b), len = p->lengths[b];
    const double *x = p->emb[0] + first * LOOK_DIM;
    for (int32_t t = 0; t < len; t++) {
      double n[LOOK_DIM];
      normed(n, x + t * LOOK_DIM, LOOK_DIM);
      lr_affine(a + t * wide, lr_param(p, "l.0.weight"), NULL, n, wide,
                LOOK_DIM);
      for (int32_t c = 0; c < wide; c++)
        a[t * wide + c] = silu(a[t * wide + c]);
    }
    for (int32_t t = 0; t < len; t++) {
      double *to = z + (first + t) * LOOK_DIM;
      hstu_row(y, p, k, a, wide, len, t);
      normed(m, y, v);
      for (int32_t c = 0; c < v; c++) m[c] *= a[t * wide + c];
      lr_affine(to, lr_param(p, "l.2.weight"), lr_param(p, "l.2.bias"), m,
                LOOK_DIM, v);
      for (int32_t c = 0; c < LOOK_DIM; c++) to[c] += x[t * LOOK_DIM + c];
    }
  }
  pool(out, p, z, LOOK_DIM, "sum");
}

#define HSTU(keys)                                                             \
  "{ name = \"l\"; kind = \"hstu\"; in = \"s\"; " keys " },"                   \
  "{ name = \"y\"; kind = \"pool\"; in = \"l\"; by = \"sum\"; }"

TS_TEST(hstu) {
  static const struct {
    const char *layers;
    hstu_case of;
  } cases[] = {
      {HSTU(""), {1, 4, 4, 0, 0, true, 0}},
      {HSTU("heads = 2; places = 3; length = 6;"), {2, 2, 2, 3, 6, true, 0}},
      {HSTU("heads = 2; places = 3; context = 2;"), {2, 2, 2, 3, 0, true, 2}},
      {HSTU("heads = 2; dim = 3; value_dim = 2; places = 2; causal = false;"),
       {2, 3, 2, 2, 0, false, 0}}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    lr_check(&(lr_case){.layers = cases[k].layers,
                        .tables = TABLE("s", "4"),
                        .n_out = LOOK_DIM,
                        .lengths = lengths,
                        .near = 1e-4,
                        .tolerance = 1e-3,
                        .oracle = hstu_oracle,
                        .arg = &cases[k].of});
}

/* ---- target attention ---------------------------------------------------- */

static double act_of(const char *kind, double x, double slope) {
  if (!strcmp(kind, "sigmoid")) return 1 / (1 + exp(-x));
  return x > 0 ? x : slope * x; /* prelu */
}

static void target_oracle(double *out, const lr_point *p, const void *arg) {
  const char *kind = arg;
  for (int32_t b = 0; b < p->batch; b++)
    for (int32_t c = 0; c < DIM; c++) out[b * DIM + c] = 0;
  for (int32_t b = 0; b < p->batch; b++)
    for (int32_t i = 0; i < p->lengths[b]; i++) {
      const double *q = p->emb[1] + b * DIM;
      const double *k = p->emb[0] + (first_of(p, b) + i) * DIM;
      double x[4 * DIM], h[5], g[2], w;
      for (int32_t c = 0; c < DIM; c++) {
        x[c] = q[c], x[DIM + c] = k[c];
        x[2 * DIM + c] = q[c] - k[c], x[3 * DIM + c] = q[c] * k[c];
      }
      lr_affine(h, lr_param(p, "y.0.weight"), lr_param(p, "y.0.bias"), x, 5,
                4 * DIM);
      for (int j = 0; j < 5; j++)
        h[j] =
            act_of(kind, h[j],
                   *kind == 'p' ? lr_param(p, "y.0.activation.weight")[j] : 0);
      lr_affine(g, lr_param(p, "y.1.weight"), lr_param(p, "y.1.bias"), h, 2, 5);
      for (int j = 0; j < 2; j++)
        g[j] =
            act_of(kind, g[j],
                   *kind == 'p' ? lr_param(p, "y.1.activation.weight")[j] : 0);
      lr_affine(&w, lr_param(p, "y.2.weight"), lr_param(p, "y.2.bias"), g, 1,
                2);
      for (int32_t c = 0; c < DIM; c++) out[b * DIM + c] += w * k[c];
    }
}

TS_TEST(target_attention) {
#define TARGET(keys, kind)                                                     \
  lr_check(&(lr_case){                                                         \
      .layers = "{ name = \"y\"; kind = \"target_attention\"; "                \
                "in = \"s\"; query = \"p\"; units = [5, 2]; " keys " }",       \
      .tables = TABLE("s", "3") "," PLAIN,                                     \
      .n_out = DIM,                                                            \
      .lengths = lengths,                                                      \
      .oracle = target_oracle,                                                 \
      .arg = kind})
  TARGET("", "sigmoid");
  TARGET("activation = \"prelu\";", "prelu");
  lr_refused(&(lr_case){.layers = "{ name = \"y\"; kind = "
                                  "\"target_attention\"; in = \"s\"; query = "
                                  "\"s\"; }",
                        .tables = TABLE("s", "3"),
                        .n_out = DIM,
                        .lengths = lengths},
             "`in` alone may be");
  lr_refused(&(lr_case){.layers = "{ name = \"y\"; kind = "
                                  "\"target_attention\"; in = \"s\"; query = "
                                  "\"p\"; }",
                        .tables = TABLE("s", "2") "," PLAIN,
                        .n_out = 2,
                        .lengths = lengths},
             "they have to be equally wide");
}

/* ---- kinds that take a token for a sample -------------------------------- */

/* z = norm(W [a, b] + v) + a by token, their mean and a vector's product. */
static void rows_oracle(double *out, const lr_point *p, const void *arg) {
  (void)arg;
  double z[MOST * DIM] = {0}, mean[LR_BATCH * DIM];
  for (int32_t t = 0; t < lr_rows(p, 0); t++) {
    double x[DIM + 2], y[DIM], sum = 0, square = 0;
    memcpy(x, p->emb[0] + t * DIM, DIM * sizeof *x);
    memcpy(x + DIM, p->emb[1] + t * 2, 2 * sizeof *x);
    lr_affine(y, lr_param(p, "w.0.weight"), lr_param(p, "w.0.bias"), x, DIM,
              DIM + 2);
    for (int32_t c = 0; c < DIM; c++) sum += y[c] / DIM;
    for (int32_t c = 0; c < DIM; c++) square += pow(y[c] - sum, 2) / DIM;
    for (int32_t c = 0; c < DIM; c++)
      z[t * DIM + c] =
          (y[c] - sum) / sqrt(square + 1e-5) * lr_param(p, "n.0.weight")[c] +
          lr_param(p, "n.0.bias")[c] + x[c];
  }
  pool(mean, p, z, DIM, "mean");
  for (int32_t i = 0; i < p->batch * DIM; i++) out[i] = mean[i] * p->emb[2][i];
}

TS_TEST(by_row) {
  lr_check(&(lr_case){
      .layers = "{ name = \"w\"; kind = \"linear\"; in = [\"a\", \"b\"]; units "
                "= 3; },"
                "{ name = \"n\"; kind = \"layer_norm\"; in = \"w\"; },"
                "{ name = \"z\"; kind = \"add\"; in = [\"n\", \"a\"]; },"
                "{ name = \"m\"; kind = \"pool\"; in = \"z\"; },"
                "{ name = \"y\"; kind = \"multiply\"; in = [\"m\", \"p\"]; }",
      .tables = TABLE("a", "3") "," TABLE("b", "2") "," PLAIN,
      .n_out = DIM,
      .lengths = lengths,
      .oracle = rows_oracle});
}

/* ---- mistakes ------------------------------------------------------------ */

TS_TEST(refused) {
#define REFUSED(layers_, text)                                                 \
  lr_refused(&(lr_case){.layers = layers_,                                     \
                        .tables = TABLE("s", "3") "," PLAIN,                   \
                        .n_out = DIM,                                          \
                        .lengths = lengths},                                   \
             text)
  REFUSED("{ name = \"y\"; kind = \"senet\"; in = \"s\"; }",
          "a row for each of a sample's tokens, which it does not take");
  REFUSED("{ name = \"y\"; kind = \"pool\"; in = \"p\"; }",
          "but it takes tokens (T, d)");
  REFUSED(
      "{ name = \"y\"; kind = \"linear\"; in = [\"p\", \"s\"]; units = 3; }",
      "tokens go beside tokens");
  REFUSED("{ name = \"y\"; kind = \"add\"; in = [\"s\", \"p\"]; }",
          "tokens beside tokens");
  REFUSED("{ name = \"y\"; kind = \"batch_norm\"; in = \"s\"; }",
          "which it does not take");
  REFUSED("{ name = \"y\"; kind = \"linear\"; in = \"s\"; units = 3; }",
          "gives a row for each token");
  REFUSED("{ name = \"y\"; kind = \"pool\"; in = [\"s\", \"p\"]; }",
          "but it takes tokens (T, d)");
  REFUSED("{ name = \"y\"; kind = \"hstu\"; in = \"s\"; causal = false; "
          "context = 1; }",
          "context = 1 is for causal = true");
  REFUSED("{ name = \"y\"; kind = \"attention\"; in = \"s\"; causal = false; "
          "context = 1; }",
          "context = 1 is for causal = true");
  REFUSED("{ name = \"y\"; kind = \"attention\"; in = \"s\"; places = "
          "\"rotary\"; }",
          "a head has 3: give an even dim");
  REFUSED("{ name = \"y\"; kind = \"prepend\"; in = \"s\"; }",
          "it needs the key before");
  REFUSED("{ name = \"y\"; kind = \"pool\"; in = \"s\"; before = \"p\"; }",
          "it does not take the key before");
  REFUSED("{ name = \"y\"; kind = \"prepend\"; in = \"p\"; before = \"p\"; }",
          "but it takes tokens (T, d)");
  REFUSED("{ name = \"y\"; kind = \"prepend\"; in = \"s\"; before = \"s\"; }",
          "`in` alone may be");
  REFUSED("{ name = \"y\"; kind = \"prepend\"; in = \"s\"; before = "
          "\"dense?\"; }",
          "nothing is left of `before`");
  REFUSED("{ name = \"v\"; kind = \"linear\"; in = \"p\"; units = 6; },"
          "{ name = \"y\"; kind = \"prepend\"; in = \"s\"; before = \"v\"; }",
          "it takes vectors (B, 3), or fields (B, F, 3)");
  REFUSED("{ name = \"v\"; kind = \"linear\"; in = \"p\"; units = 6; },"
          "{ name = \"y\"; kind = \"prepend\"; in = \"s\"; before = [\"v\", "
          "\"p\"]; }",
          "or several vectors of one width");
  REFUSED("{ name = \"v\"; kind = \"prepend\"; in = \"s\"; before = \"p\"; },"
          "{ name = \"y\"; kind = \"add\"; in = [\"v\", \"s\"]; }",
          "kind prepend gives both as many");
  lr_refused(
      &(lr_case){
          .layers =
              "{ name = \"v\"; kind = \"prepend\"; in = \"s\"; before = \"p\"; "
              "},"
              "{ name = \"u\"; kind = \"hstu\"; in = \"v\"; times = \"w\"; },"
              "{ name = \"y\"; kind = \"pool\"; in = \"u\"; }",
          .tables = TABLE(
              "s",
              "3") "," PLAIN
                   ",{ name = \"w\"; features = [\"w\"]; rows = 1; dim = 4; "
                   "pooling = \"none\"; }",
          .n_out = DIM,
          .lengths = lengths},
      "which no event of \"w\" stands for");
}
