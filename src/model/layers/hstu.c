/* hstu.c - a block of HSTU: attention whose weights are silu of products, gated
 * by what the token is itself. */
#include <math.h>

#include "model/attention.h"
#include "model/layer_ops.h"

typedef struct ts_hstu_options {
  int32_t heads, dim, value_dim, places, length, time_buckets, context;
  bool causal;
  double dropout;
} ts_hstu_options;

#define KEY(name, kind, fallback, min, max, help)                              \
  {                                                                            \
    TS_SCOPE_LAYER, #name, kind, offsetof(ts_hstu_options, name), fallback,    \
        "", min, max, NULL, help                                               \
  }
static const ts_key keys[] = {
    KEY(heads, TS_KEY_INT32, "1", 1, 10000, "side by side"),
    KEY(dim, TS_KEY_INT32, "0", 0, 100000,
        "of q and k of a head; 0: d / heads"),
    KEY(value_dim, TS_KEY_INT32, "0", 0, 100000,
        "of u and v of a head; 0: d / heads"),
    KEY(places, TS_KEY_INT32, "0", 0, 1 << 20,
        "distances that have a bias of their own, for each head; 0: none"),
    KEY(time_buckets, TS_KEY_INT32, "128", 1, TS_TIME_BUCKETS,
        "with `times`: so many biases by the time that passed, for each head"),
    KEY(length, TS_KEY_INT32, "0", 0, 1 << 20,
        "what weights are divided by; 0: the sample's own length"),
    KEY(causal, TS_KEY_BOOL, "true", 1, 0,
        "a token looks at none that comes after it"),
    KEY(context, TS_KEY_INT32, "0", 0, 1 << 20,
        "so many of a sample's first tokens look at all of them, although "
        "causal: at later ones as at distance 0"),
    KEY(dropout, TS_KEY_FLOAT, "0", 0, 0.999999,
        "probability of 0, before the last product"),
};

/* Arrays of (tokens, ..); a has u, v, q, k side by side. */
typedef struct ts_hstu {
  int32_t d, k, v, wide; /* of all heads: q and k, u and v; 2 (k + v) */
  ts_rows_linear in, out;
  /* NULL: none. */
  ts_param *bias;      /* (heads, buckets) */
  ts_param *times;     /* (heads, time_buckets) */
  ts_param *biases[2]; /* (n_biases) those that there are */
  int32_t n_biases;
  float *n;            /* (d) norm of x */
  float *z, *a;        /* (wide) before and after silu */
  float *y, *m, *g;    /* (v) attention's; its norm; u m */
  float *da, *dg, *dn; /* gradients: (wide), (v), (d) */
  void *work;
} ts_hstu;

static ts_err shape(ts_layer *l) {
  const ts_hstu_options *o = l->options;
  ts_hstu *t = l->data;
  t->d = l->in[0].value->shape.dim;
  if ((!o->dim || !o->value_dim) && t->d % o->heads)
    return ts_layer_fail(l,
                         "heads = %d does not divide the %d numbers of a "
                         "token: give dim and value_dim, of one head",
                         o->heads, t->d);
  const int64_t k = (int64_t)o->heads * (o->dim ? o->dim : t->d / o->heads);
  const int64_t v =
      (int64_t)o->heads * (o->value_dim ? o->value_dim : t->d / o->heads);
  if (o->context && !o->causal)
    return ts_layer_fail(l,
                         "context = %d is for causal = true: else all "
                         "tokens look at all",
                         o->context);
  if (k + v > TS_WIDTH_MAX / 2)
    return ts_layer_fail(l, "heads times dim is more than %d",
                         TS_WIDTH_MAX / 2);
  t->k = (int32_t)k;
  t->v = (int32_t)v;
  t->wide = 2 * (t->k + t->v);
  return ts_layer_gives(l, NULL, ts_tokens_of(t->d));
}

static double pairs(const ts_layer *l) {
  const ts_hstu_options *o = l->options;
  const ts_hstu *t = l->data;
  return (t->k + t->v) * (o->causal ? 0.5 : 1.0);
}

/* With the biases' places, which are there while they are acquired. */
static ts_attention_args args_of(const ts_layer *l, int64_t batch,
                                 int64_t n_tokens) {
  const ts_hstu_options *o = l->options;
  const ts_hstu *t = l->data;
  ts_attention_args a = {.q_stride = t->wide,
                         .k_stride = t->wide,
                         .v_stride = t->wide,
                         .o_stride = t->v,
                         .o = t->y,
                         .out = t->y,
                         .d_o = t->dg,
                         .offsets = ts_tokens_at(l->tokens)->offsets,
                         .n_sequences = batch,
                         .n_tokens = n_tokens,
                         .max_length =
                             ts_tokens_longest(ts_tokens_at(l->tokens)),
                         .n_heads = o->heads,
                         .dim = t->k / o->heads,
                         .v_dim = t->v / o->heads,
                         .scale = 1,
                         .norm = (float)o->length,
                         .kind = TS_ATTENTION_SILU,
                         .causal = o->causal,
                         .context = o->context,
                         .work = t->work};
  if (t->bias) {
    a.bias = t->bias->w;
    a.dbias = t->bias->grad;
    a.n_buckets = o->places;
  }
  if (t->times) ts_layer_times(l, t->times, &a);
  if (t->a) {
    a.v = t->a + t->v;
    a.q = t->a + 2 * t->v;
    a.k = a.q + t->k;
  }
  if (t->da) {
    a.dv = t->da + t->v;
    a.dq = t->da + 2 * t->v;
    a.dk = a.dq + t->k;
  }
  return a;
}

static ts_err take(ts_layer *l) {
  ts_hstu *t = l->data;
  const int64_t n = l->spec->batch_max;
  TS_DO(ts_layer_take(l, &t->n, n * t->d, 4));
  TS_DO(ts_layer_take(l, &t->z, n * t->wide, 4));
  TS_DO(ts_layer_take(l, &t->a, n * t->wide, 4));
  TS_DO(ts_layer_take(l, &t->y, n * t->v, 4));
  TS_DO(ts_layer_take(l, &t->m, n * t->v, 4));
  TS_DO(ts_layer_take(l, &t->g, n * t->v, 4));
  if (!l->spec->training) return TS_OK;
  TS_DO(ts_layer_take(l, &t->da, n * t->wide, 4));
  TS_DO(ts_layer_take(l, &t->dg, n * t->v, 4));
  TS_DO(ts_layer_take(l, &t->dn, n * t->d, 4));
  ts_attention_args most = args_of(l, ts_tokens_at(l->tokens)->samples_max, n);
  /* Weights have no place yet: that there are. */
  if (t->bias) most.bias = t->a;
  if (t->times) most.time_bias = t->a;
  return ts_layer_take(l, &t->work, ts_attention_work_bytes(&most), 1);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  ts_hstu *t = l->data;
  const ts_hstu_options *o = l->options;
  const int32_t each = o->causal ? o->places : 2 * o->places - 1;
  TS_DO(ts_rows_linear_make(&t->in, l, 0, t->d, t->d, t->wide, 1, 0, lane));
  if (o->places)
    TS_DO(ts_layer_param(l, &t->bias, 1, false, "weight", o->heads, each,
                         0.02 * sqrt(3)));
  if (ts_layer_is_timed(l))
    TS_DO(ts_layer_param(l, &t->times, 1, false, "times", o->heads,
                         o->time_buckets, 0.02 * sqrt(3)));
  if (t->bias) t->biases[t->n_biases++] = t->bias;
  if (t->times) t->biases[t->n_biases++] = t->times;
  TS_DO(ts_rows_linear_make(&t->out, l, 2, t->v, t->v, t->d, 1, TS_ROWS_BIAS,
                            lane));
  return take(l);
}

static void destroy(ts_layer *l) {
  ts_hstu *t = l->data;
  ts_rows_linear_reset(&t->in);
  ts_rows_linear_reset(&t->out);
}

/* ---- passes -------------------------------------------------------------- */

/* Layer norm without parameters of rows X, to Y (n); or DX, as X, of DY (n). */
static ts_err norm(const ts_layer *l, const ts_layer_run *rows, ts_rows x,
                   int32_t n, float *y, const float *dy, float *dx,
                   ts_pass pass) {
  const ts_norm_args a = {.x = x.p,
                          .y = y,
                          .dy = dy,
                          .dx = dx,
                          .rows = rows->batch,
                          .x_stride = x.stride,
                          .y_stride = n,
                          .n = n,
                          .kind = TS_NORM_LAYER,
                          .eps = 1e-6f,
                          .scale = 1};
  return ts_run_norm(l, rows, &a, pass);
}

/* With the biases, which are of one group, in place. */
static ts_err attention(ts_layer *l, const ts_layer_run *r, int64_t n,
                        ts_pass pass) {
  const ts_hstu *t = l->data;
  if (t->n_biases) TS_DO(ts_layer_begin(r, t->biases[0], pass));
  const ts_attention_args a = args_of(l, r->batch, n);
  TS_DO(ts_run_attention_pass(l, r, &a, pass));
  if (pass == TS_BACKWARD && t->n_biases)
    TS_DO(ts_layer_gave(r, t->biases, t->n_biases));
  return t->n_biases ? ts_layer_end(r, t->biases[0], pass) : TS_OK;
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_hstu *t = l->data;
  const ts_hstu_options *o = l->options;
  const ts_layer_run rows = ts_layer_by_token(l, r);
  const ts_value *x = l->in[0].value, *y = &l->out[0];
  const ts_rows g = {t->g, t->v}, u = {t->a, t->wide}, m = {t->m, t->v};
  const ts_rows out = {y->x, y->stride}, none = {0};
  TS_DO(norm(l, &rows, (ts_rows){x->x, x->stride}, t->d, t->n, NULL, NULL,
             TS_FORWARD));
  TS_DO(ts_rows_linear_forward(&t->in, &rows, t->z, t->n));
  TS_DO(ts_run_act_rows(l, &rows, TS_ACT_SILU, rows.batch, t->wide, t->z,
                        t->wide, t->a, NULL, NULL, TS_FORWARD));
  TS_DO(attention(l, r, rows.batch, TS_FORWARD));
  TS_DO(norm(l, &rows, (ts_rows){t->y, t->v}, t->v, t->m, NULL, NULL,
             TS_FORWARD));
  TS_DO(ts_run_rows(l, &rows, TS_MAP_MULTIPLY, g, 1, u, m, t->v, false));
  TS_DO(ts_run_drop(l, &rows, 0, g, g, t->v, o->dropout));
  TS_DO(ts_rows_linear_forward(&t->out, &rows, y->x, t->g));
  return ts_run_rows(l, &rows, TS_MAP_MULTIPLY, out, 1,
                     (ts_rows){x->x, x->stride}, none, t->d, true);
}

/* da, from the gradient of g in dg, which becomes the one of y. */
static ts_err attention_backward(ts_layer *l, const ts_layer_run *r,
                                 const ts_layer_run *rows) {
  ts_hstu *t = l->data;
  const ts_hstu_options *o = l->options;
  const ts_rows dg = {t->dg, t->v}, u = {t->a, t->wide}, m = {t->m, t->v};
  TS_DO(ts_run_drop(l, rows, 0, dg, dg, t->v, o->dropout));
  TS_DO(ts_run_rows(l, rows, TS_MAP_MULTIPLY, (ts_rows){t->da, t->wide}, 1, dg,
                    m, t->v, false));
  TS_DO(ts_run_rows(l, rows, TS_MAP_MULTIPLY, dg, 1, dg, u, t->v, false));
  TS_DO(norm(l, rows, (ts_rows){t->y, t->v}, t->v, NULL, t->dg, t->dg,
             TS_BACKWARD));
  return attention(l, r, rows->batch, TS_BACKWARD);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_hstu *t = l->data;
  const ts_layer_run rows = ts_layer_by_token(l, r);
  const ts_value *y = &l->out[0], *x = l->in[0].value;
  const ts_rows dx = {l->in[0].dx, x->stride}, dy = {y->dx, y->stride};
  const ts_rows none = {0};
  TS_DO(ts_rows_linear_backward(&t->out, &rows, t->dg, y->dx, t->g, y->x));
  TS_DO(attention_backward(l, r, &rows));
  TS_DO(ts_run_act_rows(l, &rows, TS_ACT_SILU, rows.batch, t->wide, t->z,
                        t->wide, NULL, t->da, t->da, TS_BACKWARD));
  TS_DO(ts_rows_linear_backward(&t->in, &rows, t->dn, t->da, t->n, t->z));
  if (!dx.p) return TS_OK;
  TS_DO(norm(l, &rows, (ts_rows){x->x, x->stride}, t->d, NULL, t->dn, dx.p,
             TS_BACKWARD));
  return ts_run_rows(l, &rows, TS_MAP_MULTIPLY, dx, 1, dy, none, t->d, true);
}

const ts_layer_ops ts_layer_hstu = {
    .kind = "hstu",
    .tokens = TS_ITS_TOKENS,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_hstu_options),
    .data_bytes = sizeof(ts_hstu),
    .least = 1,
    .most = 1,
    .takes_times = true,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .pairs = pairs,
    .forward = forward,
    .backward = backward,
    .page =
        "A block of HSTU, with [u, v, q, k] = silu(W norm(x)):\n"
        "  y_i = sum of silu(q_i . k_j + bias of i - j + bias of the time\n"
        "                    from j to when i is asked) v_j / length\n"
        "  out = x + W_o dropout(u norm(y)) + b_o\n"
        "of the sample's tokens j (causal: j <= i, unless i is of the first\n"
        "`context`); norm is layer norm without parameters, eps 1e-6\n"
        "\n"
        "  A block reads the one before it, as often as wanted.  The code of\n"
        "  the paper divides by the length that sequences are padded to: that\n"
        "  is `length`; its biases are shared by the heads.  With `times` "
        "they\n"
        "  go by time, too: a token is asked at the time of the next one, the\n"
        "  last at the one more that the feature has (else at its own); x is\n"
        "  in bucket ln(max(x, 1)) / 0.301, rounded down, as that code has "
        "it.\n"
        "  It takes whole numbers of any unit: that code's data have "
        "seconds.\n"
        "\n"
        "  in    tokens (T, d), side by side\n"
        "  out   (T, d)\n"
        "  NAME.0.weight (heads (2 value_dim + 2 dim), d): rows of u, v, q, "
        "k;\n"
        "        NAME.1.weight (heads, places; not causal 2 places - 1): the\n"
        "        biases, NAME.1.times (heads, time_buckets): those by time,\n"
        "        uniform in +-0.02 sqrt(3); NAME.2.weight\n"
        "        (d, heads value_dim), NAME.2.bias (d): uniform in\n"
        "        +-1/sqrt(columns), as PyTorch's Linear has them\n"
        "  J. Zhai et al., \"Actions Speak Louder than Words\", ICML 2024\n"};
