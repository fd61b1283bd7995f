/* target_attention.c - a sample's tokens summed by how much each is of interest
 * to a vector (DIN).
 *
 * Rows [q, k, q - k, q k] of all tokens go through an mlp with one output, as
 * if each were a sample.  Spreading a vector over its sample's tokens is the
 * gradient of their sum, and the other way about. */
#include "base/mem.h"
#include "model/activation.h"

typedef struct ts_target_options {
  ts_ints units;
  int activation;
} ts_target_options;

#define KEY(name, kind, fallback, choices, help)                               \
  {                                                                            \
    TS_SCOPE_LAYER, #name, kind, offsetof(ts_target_options, name), fallback,  \
        "", 1, 1000000, choices, help                                          \
  }
static const ts_key keys[] = {
    KEY(units, TS_KEY_INTS, "[80, 40]", NULL,
        "widths of the mlp's hidden layers; one of width 1 comes behind them"),
    KEY(activation, TS_KEY_CHOICE, "\"sigmoid\"",
        "relu|leaky_relu|prelu|gelu|silu|sigmoid|tanh",
        "behind each hidden layer"),
};

/* z = W x + b, y = act(z); of the last one y is z. */
typedef struct ts_target_layer {
  ts_rows_linear linear;
  ts_activation act;
  int32_t n;
  bool acts;
  float *z, *y; /* (tokens, n) */
} ts_target_layer;

typedef struct ts_target {
  ts_target_layer *layer; /* (n) */
  int32_t n, d;
  float *x, *dx;     /* (tokens, 4 d) rows, and their gradient */
  float *wk;         /* (tokens, d) weight times token; its gradient */
  float *dy[2], *dw; /* (tokens, widest), (tokens, 1) */
} ts_target;

static const ts_rows none = {0};

static ts_err shape(ts_layer *l) {
  ts_target *t = l->data;
  const ts_value *k = l->in[0].value;
  const ts_value *q = ts_layer_in(l, TS_ROLE_QUERY, 0)->value;
  char a[TS_SHAPE_BYTES], b[TS_SHAPE_BYTES];
  t->d = k->shape.dim;
  if (ts_shape_width(q->shape) != t->d)
    return ts_layer_fail(l,
                         "its query \"%.80s\" is %s, but tokens \"%.80s\" are "
                         "%s: they have to be equally wide, as kind linear "
                         "makes them",
                         q->name, ts_layer_shape_text(a, q->shape), k->name,
                         ts_layer_shape_text(b, k->shape));
  return ts_layer_gives(l, NULL, ts_vector_of(t->d));
}

static ts_err create_layer(ts_layer *l, int32_t i, ts_lane *lane) {
  ts_target *t = l->data;
  const ts_target_options *o = l->options;
  ts_target_layer *f = &t->layer[i];
  const int32_t n_in = i ? t->layer[i - 1].n : 4 * t->d;
  const ts_activation_spec act = {
      .kind = (ts_activation_kind)(TS_ACTIVATION_RELU + o->activation),
      .i = i,
      .prefix = "activation.",
      .n = i < o->units.n ? (int32_t)o->units.item[i] : 1,
      .rows_each = 1,
      .slope = 0.01};
  f->n = act.n;
  f->acts = i < o->units.n;
  TS_DO(ts_rows_linear_make(&f->linear, l, i, n_in, n_in, f->n, 1, TS_ROWS_BIAS,
                            lane));
  if (f->acts) TS_DO(ts_activation_create(&f->act, l, &act));
  const int64_t floats = (int64_t)l->spec->batch_max * f->n;
  TS_DO(ts_layer_take(l, &f->z, floats, 4));
  f->y = f->z;
  return f->acts ? ts_layer_take(l, &f->y, floats, 4) : TS_OK;
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  ts_target *t = l->data;
  const ts_target_options *o = l->options;
  const int64_t n = l->spec->batch_max;
  int64_t widest = 1;
  TS_DO(ts_mem_many(t->layer, o->units.n + 1, DENSE));
  t->n = o->units.n + 1;
  for (int32_t i = 0; i < t->n; i++) {
    TS_DO(create_layer(l, i, lane));
    if (t->layer[i].n > widest) widest = t->layer[i].n;
  }
  TS_DO(ts_layer_take(l, &t->x, n * 4 * t->d, 4));
  TS_DO(ts_layer_take(l, &t->wk, n * t->d, 4));
  if (!l->spec->training) return TS_OK;
  TS_DO(ts_layer_take(l, &t->dx, n * 4 * t->d, 4));
  TS_DO(ts_layer_take(l, &t->dw, n, 4));
  for (int k = 0; k < 2; k++) TS_DO(ts_layer_take(l, &t->dy[k], n * widest, 4));
  return TS_OK;
}

static void destroy(ts_layer *l) {
  ts_target *t = l->data;
  for (int32_t i = 0; t->layer && i < t->n; i++) {
    ts_rows_linear_reset(&t->layer[i].linear);
    ts_activation_reset(&t->layer[i].act);
  }
  ts_mem_free(t->layer);
}

/* ---- parts --------------------------------------------------------------- */

/* Part P of rows of four. */
static ts_rows part(const ts_target *t, float *x, int32_t p) {
  return (ts_rows){x + (int64_t)p * t->d, 4 * (int64_t)t->d};
}

static ts_rows tokens_of(const ts_layer *l) {
  return (ts_rows){l->in[0].value->x, l->in[0].value->stride};
}

/* Samples' rows to all their tokens (BACKWARD), or the tokens' sums to them. */
static ts_err sum(const ts_layer *l, const ts_layer_run *r, ts_rows tokens,
                  ts_rows samples, ts_pass pass) {
  const ts_target *t = l->data;
  const ts_pool_args a = {.x = tokens.p,
                          .dx = tokens.p,
                          .y = samples.p,
                          .dy = samples.p,
                          .offsets = ts_tokens_at(l->tokens)->offsets,
                          .n_samples = r->batch,
                          .x_stride = tokens.stride,
                          .y_stride = samples.stride,
                          .n = t->d,
                          .kind = TS_POOL_TOKENS_SUM};
  return ts_run_pool(l, r, &a, pass);
}

/* y = w x, W a number of each row. */
static ts_err weigh(const ts_layer *l, const ts_layer_run *rows, ts_rows y,
                    const float *w, ts_rows x) {
  const ts_target *t = l->data;
  const ts_map_args a = {.y = y.p,
                         .a = w,
                         .x = x.p,
                         .ys = {.b = y.stride, .c = 1},
                         .as = {.b = 1},
                         .xs = {.b = x.stride, .c = 1},
                         .n_b = rows->batch,
                         .n_h = 1,
                         .n_i = 1,
                         .n_j = t->d,
                         .op = TS_MAP_MULTIPLY,
                         .scale = 1};
  return ts_run_map(l, rows, &a);
}

/* ---- passes -------------------------------------------------------------- */

static ts_err make_rows(ts_layer *l, const ts_layer_run *r,
                        const ts_layer_run *rows) {
  const ts_target *t = l->data;
  const ts_value *query = ts_layer_in(l, TS_ROLE_QUERY, 0)->value;
  const ts_rows k = tokens_of(l), q = part(t, t->x, 0);
  TS_DO(sum(l, r, q, (ts_rows){query->x, query->stride}, TS_BACKWARD));
  TS_DO(ts_run_rows(l, rows, TS_MAP_MULTIPLY, part(t, t->x, 1), 1, k, none,
                    t->d, false));
  TS_DO(ts_run_rows(l, rows, TS_MAP_SUM, part(t, t->x, 2), -1, k, q, t->d,
                    false));
  return ts_run_rows(l, rows, TS_MAP_MULTIPLY, part(t, t->x, 3), 1, k, q, t->d,
                     false);
}

/* The slopes of prelu are of the linear layer's group. */
static ts_err layer_forward(const ts_layer *l, const ts_layer_run *rows,
                            ts_target_layer *f, const float *x) {
  const ts_param *first = f->linear.p[0];
  TS_DO(ts_layer_begin(rows, first, TS_FORWARD));
  TS_DO(ts_linear_forward(f->linear.linear, f->z, x, rows->batch, rows->lane));
  if (f->acts)
    TS_DO(ts_activation_forward(&f->act, l, rows, (ts_rows){f->y, f->n},
                                (ts_rows){f->z, f->n}));
  return ts_layer_end(rows, first, TS_FORWARD);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_target *t = l->data;
  const ts_layer_run rows = ts_layer_by_token(l, r);
  const ts_value *y = &l->out[0];
  const float *x = t->x;
  TS_DO(make_rows(l, r, &rows));
  for (int32_t i = 0; i < t->n; i++) {
    ts_target_layer *f = &t->layer[i];
    TS_DO(layer_forward(l, &rows, f, x));
    x = f->y;
  }
  TS_DO(weigh(l, &rows, (ts_rows){t->wk, t->d}, x, tokens_of(l)));
  return sum(l, r, (ts_rows){t->wk, t->d}, (ts_rows){y->x, y->stride},
             TS_FORWARD);
}

/* Of layer I, whose output's gradient is DY, into DX. */
static ts_err layer_backward(ts_layer *l, const ts_layer_run *rows, int32_t i,
                             float *dx, float *dy) {
  ts_target *t = l->data;
  ts_target_layer *f = &t->layer[i];
  ts_param *p[3] = {f->linear.p[0], f->linear.p[1], f->act.weight};
  const ts_rows g = {dy, f->n};
  TS_DO(ts_layer_begin(rows, p[0], TS_BACKWARD));
  if (f->acts)
    TS_DO(
        ts_activation_backward(&f->act, l, rows, g, g, (ts_rows){f->z, f->n}));
  TS_DO(ts_linear_backward(f->linear.linear, dx, dy,
                           i ? t->layer[i - 1].y : t->x, f->z, rows->batch,
                           rows->lane));
  TS_DO(ts_layer_gave(rows, p, p[2] ? 3 : 2));
  return ts_layer_end(rows, p[0], TS_BACKWARD);
}

/* dw = dy . k of each token, dy being in wk. */
static ts_err weight_grad(ts_layer *l, const ts_layer_run *rows) {
  const ts_target *t = l->data;
  const ts_rows k = tokens_of(l);
  const ts_contract_args a = {.c = t->dw,
                              .a = t->wk,
                              .b = k.p,
                              .cs = {.b = 1},
                              .as = {.b = t->d, .c = 1},
                              .bs = {.b = k.stride, .c = 1},
                              .n_b = rows->batch,
                              .n_k = t->d,
                              .n_h = 1,
                              .n_i = 1,
                              .n_j = 1,
                              .scale = 1};
  return ts_run_contract(l, rows, &a);
}

/* Of tokens and query, from the rows' parts. */
static ts_err give(ts_layer *l, const ts_layer_run *r,
                   const ts_layer_run *rows) {
  ts_target *t = l->data;
  const ts_input *in = &l->in[0], *query = ts_layer_in(l, TS_ROLE_QUERY, 0);
  const ts_rows k = tokens_of(l), q = part(t, t->x, 0);
  const ts_rows dk = {in->dx, in->value->stride};
  const ts_rows dq = part(t, t->dx, 0), less = part(t, t->dx, 2);
  const ts_rows both = part(t, t->dx, 3);
  if (in->dx) {
    TS_DO(weigh(l, rows, dk, t->layer[t->n - 1].y, (ts_rows){t->wk, t->d}));
    TS_DO(ts_run_rows(l, rows, TS_MAP_MULTIPLY, dk, 1, part(t, t->dx, 1), none,
                      t->d, true));
    TS_DO(
        ts_run_rows(l, rows, TS_MAP_MULTIPLY, dk, -1, less, none, t->d, true));
    TS_DO(ts_run_rows(l, rows, TS_MAP_MULTIPLY, dk, 1, both, q, t->d, true));
  }
  if (!query->dx) return TS_OK;
  TS_DO(ts_run_rows(l, rows, TS_MAP_MULTIPLY, dq, 1, less, none, t->d, true));
  TS_DO(ts_run_rows(l, rows, TS_MAP_MULTIPLY, dq, 1, both, k, t->d, true));
  return sum(l, r, dq, (ts_rows){query->dx, query->value->stride}, TS_FORWARD);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_target *t = l->data;
  const ts_layer_run rows = ts_layer_by_token(l, r);
  const ts_value *y = &l->out[0];
  float *dy = t->dw;
  TS_DO(sum(l, r, (ts_rows){t->wk, t->d}, (ts_rows){y->dx, y->stride},
            TS_BACKWARD));
  TS_DO(weight_grad(l, &rows));
  for (int32_t i = t->n - 1; i >= 0; i--) {
    float *dx = i ? t->dy[i % 2] : t->dx;
    TS_DO(layer_backward(l, &rows, i, dx, dy));
    dy = dx;
  }
  return give(l, r, &rows);
}

const ts_layer_ops ts_layer_target_attention = {
    .kind = "target_attention",
    .tokens = TS_ITS_TOKENS,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_target_options),
    .data_bytes = sizeof(ts_target),
    .least = 1,
    .most = 1,
    .roles = {[TS_ROLE_QUERY] = true},
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .page =
        "y = sum of w_t k_t over a sample's tokens k, with the weight\n"
        "  w_t = mlp([q, k_t, q - k_t, q k_t])\n"
        "of a token for the sample's vector q, such as the item that may be\n"
        "shown: hidden layers with the activation, then one number\n"
        "\n"
        "  Weights are not normalised: their sum says how much of the history\n"
        "  is like the item.\n"
        "\n"
        "  in     tokens (T, d), side by side\n"
        "  query  a vector (B, d)\n"
        "  out    (B, d)\n"
        "  NAME.i.weight, NAME.i.bias: uniform in +-1/sqrt(columns), as\n"
        "        PyTorch's Linear has them; NAME.i.activation.weight of prelu\n"
        "  G. Zhou et al., \"Deep Interest Network for Click-Through Rate\n"
        "  Prediction\", KDD 2018\n"};
