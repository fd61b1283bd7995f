/* attention.c - tokens of a sample that look at each other.
 *
 * q, k and v are one product, side by side, as PyTorch's MultiheadAttention has
 * them; what goes on between them is the kernel attention. */
#include "model/attention.h"

#include <math.h>

#include "base/mem.h"
#include "model/layer_ops.h"

typedef enum { NO_PLACES, ALIBI, ROTARY } ts_attention_places;

typedef struct ts_attention_options {
  int32_t heads, dim, time_buckets, context;
  int by, places;
  bool causal, output, bias;
  double dropout, rotary_base;
} ts_attention_options;

#define KEY(name, kind, fallback, min, max, choices, help)                     \
  {                                                                            \
    TS_SCOPE_LAYER, #name, kind, offsetof(ts_attention_options, name),         \
        fallback, "", min, max, choices, help                                  \
  }
static const ts_key keys[] = {
    KEY(heads, TS_KEY_INT32, "1", 1, 10000, NULL, "side by side"),
    KEY(dim, TS_KEY_INT32, "0", 0, 100000, NULL, "of one head; 0: d / heads"),
    KEY(by, TS_KEY_CHOICE, "\"softmax\"", 1, 0, "softmax|silu",
        "what makes weights of products; silu: over the sample's length"),
    KEY(causal, TS_KEY_BOOL, "true", 1, 0, NULL,
        "a token looks at none that comes after it"),
    KEY(context, TS_KEY_INT32, "0", 0, 1 << 20, NULL,
        "so many of a sample's first tokens look at all of them, although "
        "causal"),
    KEY(places, TS_KEY_CHOICE, "\"none\"", 1, 0, "none|alibi|rotary",
        "alibi: products fall with the distance, by a slope for each head; "
        "rotary: q and k are turned by their place"),
    KEY(rotary_base, TS_KEY_FLOAT, "10000", 1, 1e12, NULL,
        "of rotary: pair i of a head turns by place / rotary_base^(2 i / dim)"),
    KEY(time_buckets, TS_KEY_INT32, "128", 1, TS_TIME_BUCKETS, NULL,
        "with `times`: so many biases by the time that passed, for each head"),
    KEY(output, TS_KEY_BOOL, "true", 1, 0, NULL,
        "whether W_o and its bias are there, which give d numbers again"),
    KEY(dropout, TS_KEY_FLOAT, "0", 0, 0.999999, NULL,
        "probability that a weight p_ij is 0 in training; others are over 1 - "
        "dropout then"),
    KEY(bias, TS_KEY_BOOL, "true", 1, 0, NULL,
        "whether q, k, v and the output have biases"),
};

typedef struct ts_attention {
  ts_rows_linear in, out;
  ts_param *times;       /* (heads, time_buckets); NULL: none */
  int32_t heads, dim, a; /* a = heads dim */
  float *qkv, *dqkv;     /* (tokens, 3 a) */
  float *y, *dy;         /* (tokens, a); NULL: the output's own */
  float *lse, *slopes;
  float *waves; /* (places, dim) of rotary; NULL: none */
  void *work;
} ts_attention;

static ts_err shape(ts_layer *l) {
  const ts_attention_options *o = l->options;
  ts_attention *d = l->data;
  const int32_t n = l->in[0].value->shape.dim;
  if (!o->dim && n % o->heads)
    return ts_layer_fail(l,
                         "heads = %d does not divide the %d numbers of a "
                         "token: give dim, of one head",
                         o->heads, n);
  if (o->context && !o->causal)
    return ts_layer_fail(l,
                         "context = %d is for causal = true: else all "
                         "tokens look at all",
                         o->context);
  d->heads = o->heads;
  d->dim = o->dim ? o->dim : n / o->heads;
  if ((int64_t)d->heads * d->dim > TS_WIDTH_MAX / 3)
    return ts_layer_fail(l, "heads times dim is more than %d",
                         TS_WIDTH_MAX / 3);
  if (o->places == ROTARY && d->dim % 2)
    return ts_layer_fail(l,
                         "places = \"rotary\" turns pairs of numbers, and a "
                         "head has %d: give an even dim, of one head",
                         d->dim);
  d->a = d->heads * d->dim;
  return ts_layer_gives(l, NULL, ts_tokens_of(o->output ? n : d->a));
}

/* 2^-(8 h / heads) for heads h from 1 on. */
static ts_err make_slopes(ts_layer *l) {
  ts_err err = TS_OK;
  ts_attention *d = l->data;
  float *x = NULL;
  TS_TRY(ts_mem_many(x, d->heads, DENSE));
  for (int32_t h = 0; h < d->heads; h++)
    x[h] = (float)pow(2, -8.0 * (h + 1) / d->heads);
  TS_TRY(ts_layer_take_filled(l, &d->slopes, x, d->heads));
done:
  ts_mem_free(x);
  return err;
}

/* A row for each place that a token may have. */
static ts_err make_waves(ts_layer *l) {
  ts_attention *d = l->data;
  const ts_attention_options *o = l->options;
  const int64_t n = l->spec->batch_max, most = ts_tokens_at(l->tokens)->longest;
  return ts_layer_take_waves(l, &d->waves, most && most < n ? most : n, d->dim,
                             o->rotary_base);
}

static ts_attention_args args_of(const ts_layer *l, int64_t batch) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  const ts_tokens *t = ts_tokens_at(l->tokens);
  const int64_t wide = 3 * (int64_t)d->a;
  ts_attention_args x = {.q = d->qkv,
                         .k = d->qkv ? d->qkv + d->a : NULL,
                         .v = d->qkv ? d->qkv + 2 * d->a : NULL,
                         .q_stride = wide,
                         .k_stride = wide,
                         .v_stride = wide,
                         .o_stride = d->y ? d->a : l->out[0].stride,
                         .o = d->y ? d->y : l->out[0].x,
                         .out = d->y ? d->y : l->out[0].x,
                         .d_o = d->y ? d->dy : l->out[0].dx,
                         .lse = d->lse,
                         .dq = d->dqkv,
                         .dk = d->dqkv ? d->dqkv + d->a : NULL,
                         .dv = d->dqkv ? d->dqkv + 2 * d->a : NULL,
                         .slopes = d->slopes,
                         .offsets = t->offsets,
                         .kept = t->kept,
                         .n_sequences = batch,
                         .n_tokens = t->n,
                         .max_length = ts_tokens_longest(t),
                         .n_heads = d->heads,
                         .dim = d->dim,
                         .v_dim = d->dim,
                         .scale = 1 / sqrtf((float)d->dim),
                         .kind =
                             o->by ? TS_ATTENTION_SILU : TS_ATTENTION_SOFTMAX,
                         .causal = o->causal,
                         .context = o->context,
                         .work = d->work};
  return x;
}

static double pairs(const ts_layer *l) {
  const ts_attention_options *o = l->options;
  const ts_attention *d = l->data;
  return d->a * (o->causal ? 1.0 : 2.0);
}

/* The arguments in this pass, with its dropout. */
static ts_attention_args args_in(const ts_layer *l, const ts_layer_run *r) {
  const ts_attention_options *o = l->options;
  ts_attention_args a = args_of(l, r->batch);
  if (!r->training || o->dropout == 0) return a;
  a.drop = (float)o->dropout;
  a.first = r->first;
  ts_layer_drop_key(l, r, 0, a.key);
  return a;
}

static ts_err take(ts_layer *l) {
  ts_attention *d = l->data;
  const ts_attention_options *o = l->options;
  const int64_t n = l->spec->batch_max;
  ts_attention_args most = args_of(l, ts_tokens_at(l->tokens)->samples_max);
  most.n_tokens = n;
  if (d->times) most.n_times = d->times->cols;
  /* Weights have no place yet: that there are. */
  if (d->times) most.time_bias = (float *)d;
  TS_DO(ts_layer_take(l, &d->qkv, n * 3 * d->a, 4));
  TS_DO(ts_layer_take(l, &d->lse, n * d->heads, 4));
  if (o->output) TS_DO(ts_layer_take(l, &d->y, n * d->a, 4));
  if (!l->spec->training) return TS_OK;
  TS_DO(ts_layer_take(l, &d->dqkv, n * 3 * d->a, 4));
  if (o->output) TS_DO(ts_layer_take(l, &d->dy, n * d->a, 4));
  return ts_layer_take(l, &d->work, ts_attention_work_bytes(&most), 1);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  ts_attention *d = l->data;
  const ts_attention_options *o = l->options;
  const ts_value *x = l->in[0].value;
  const unsigned bias = o->bias ? TS_ROWS_BIAS : 0;
  TS_DO(ts_rows_linear_make(&d->in, l, 0, x->shape.dim, x->stride, 3 * d->a, 1,
                            bias | (l->in[0].dx ? 0 : TS_ROWS_NO_DX), lane));
  if (ts_layer_is_timed(l))
    TS_DO(ts_layer_param(l, &d->times, 2, false, "times", d->heads,
                         o->time_buckets, 0.02 * sqrt(3)));
  if (o->output)
    TS_DO(ts_rows_linear_make(&d->out, l, 1, d->a, d->a, l->out[0].shape.dim, 1,
                              bias, lane));
  if (o->places == ALIBI) TS_DO(make_slopes(l));
  if (o->places == ROTARY) TS_DO(make_waves(l));
  return take(l);
}

static void destroy(ts_layer *l) {
  ts_attention *d = l->data;
  ts_rows_linear_reset(&d->in);
  ts_rows_linear_reset(&d->out);
}

/* With the biases by time in place. */
static ts_err look(ts_layer *l, const ts_layer_run *r,
                   const ts_attention_args *a, ts_pass pass) {
  ts_attention *d = l->data;
  ts_attention_args own = *a;
  if (d->times) {
    TS_DO(ts_layer_begin(r, d->times, pass));
    ts_layer_times(l, d->times, &own);
  }
  TS_DO(ts_run_attention_pass(l, r, &own, pass));
  if (!d->times) return TS_OK;
  if (pass == TS_BACKWARD) TS_DO(ts_layer_gave(r, &d->times, 1));
  return ts_layer_end(r, d->times, pass);
}

/* Turns HEADS vectors of each of N rows of X, row i by place POSITION[i]. */
static ts_err turn(ts_layer *l, const ts_layer_run *r, ts_rows x, int32_t heads,
                   const int32_t *position, int64_t n, ts_pass pass) {
  const ts_attention *d = l->data;
  const ts_rotary_args a = {.x = x.p,
                            .waves = d->waves,
                            .position = position,
                            .n_tokens = n,
                            .x_stride = x.stride,
                            .n_heads = heads,
                            .dim = d->dim,
                            .back = pass == TS_BACKWARD};
  return d->waves ? ts_run_rotary(l, r, &a) : TS_OK;
}

/* Q and k of all tokens, or their gradients, in rows of QKV: backward reads
 * them turned, as they are kept. */
static ts_err turn_all(ts_layer *l, const ts_layer_run *r, float *qkv,
                       ts_pass pass) {
  const ts_attention *d = l->data;
  const ts_tokens *t = ts_tokens_at(l->tokens);
  return turn(l, r, (ts_rows){qkv, 3 * (int64_t)d->a}, 2 * d->heads,
              t->position, t->n, pass);
}

/* Queries of the kept tokens alone: keys and values of all lie side by side,
 * queries behind them.  What comes out has the rows of the kept ones. */
static ts_err look_back(ts_layer *l, const ts_layer_run *r) {
  ts_attention *d = l->data;
  const ts_tokens *t = ts_tokens_at(l->tokens);
  const ts_value *x = l->in[0].value;
  const int64_t wide = 2 * (int64_t)d->a;
  ts_attention_args a = args_in(l, r);
  float *const some = l->out[0].x; /* free until W_o writes it */
  a.k = d->qkv;
  a.v = d->qkv + d->a;
  a.q = d->qkv + t->n * wide;
  a.k_stride = a.v_stride = wide;
  a.q_stride = d->a;
  a.kept_alone = true;
  TS_DO(ts_layer_begin(r, d->in.p[0], TS_FORWARD));
  TS_DO(ts_linear_forward_some(d->in.linear, (float *)a.k, x->x, (int32_t)t->n,
                               d->a, 2 * d->a, r->lane));
  TS_DO(ts_run_kept(t, r, some, x->x, (size_t)x->stride * sizeof *some));
  TS_DO(ts_linear_forward_some(d->in.linear, (float *)a.q, some,
                               (int32_t)t->n_kept, 0, d->a, r->lane));
  TS_DO(ts_layer_end(r, d->in.p[0], TS_FORWARD));
  /* Rows in SOME have been read. */
  if (d->waves)
    TS_DO(ts_run_kept(t, r, some, t->position, sizeof *t->position));
  TS_DO(turn(l, r, (ts_rows){(float *)a.k, wide}, d->heads, t->position, t->n,
             TS_FORWARD));
  TS_DO(turn(l, r, (ts_rows){(float *)a.q, d->a}, d->heads, (int32_t *)some,
             t->n_kept, TS_FORWARD));
  return look(l, r, &a, TS_FORWARD);
}

/* The room for these has to be there. */
static bool looks_back(const ts_layer *l) {
  const ts_attention *d = l->data;
  return ts_tokens_at(l->tokens)->kept && d->y && !l->out[0].half &&
         !l->out[0].row && l->out[0].stride == l->in[0].value->stride &&
         ts_linear_has_some(d->in.linear);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_attention *d = l->data;
  const ts_tokens *t = ts_tokens_at(l->tokens);
  ts_layer_run rows = ts_layer_by_token(l, r);
  if (looks_back(l)) {
    TS_DO(look_back(l, r));
    rows.batch = (int32_t)t->n_kept;
    return ts_rows_linear_forward(&d->out, &rows, l->out[0].x, d->y);
  }
  TS_DO(ts_rows_linear_forward(&d->in, &rows, d->qkv, l->in[0].value->x));
  TS_DO(turn_all(l, r, d->qkv, TS_FORWARD));
  const ts_attention_args a = args_in(l, r);
  TS_DO(look(l, r, &a, TS_FORWARD));
  if (t->kept) {
    TS_DO(d->y ? ts_run_cut(t, r, d->y, (size_t)d->a * sizeof *d->y)
               : ts_run_cut(t, r, l->out[0].x,
                            (size_t)l->out[0].stride * sizeof *l->out[0].x));
    rows.batch = (int32_t)t->n_kept;
  }
  return d->y ? ts_rows_linear_forward(&d->out, &rows, l->out[0].x, d->y)
              : TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_attention *d = l->data;
  const ts_layer_run rows = ts_layer_by_token(l, r);
  if (d->y)
    TS_DO(ts_rows_linear_backward(&d->out, &rows, d->dy, l->out[0].dx, d->y,
                                  l->out[0].x));
  const ts_attention_args a = args_in(l, r);
  TS_DO(look(l, r, &a, TS_BACKWARD));
  TS_DO(turn_all(l, r, d->dqkv, TS_BACKWARD));
  return ts_rows_linear_backward(&d->in, &rows, l->in[0].dx, d->dqkv,
                                 l->in[0].value->x, d->qkv);
}

const ts_layer_ops ts_layer_attention = {
    .kind = "attention",
    .tokens = TS_ITS_TOKENS,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_attention_options),
    .data_bytes = sizeof(ts_attention),
    .least = 1,
    .most = 1,
    .takes_times = true,
    .keeps_in = true,
    .keeps_out = true,
    .gives_kept = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .pairs = pairs,
    .forward = forward,
    .backward = backward,
    .page =
        "Tokens that look at each other: for each head, with\n"
        "[q, k, v] = W x + b\n"
        "  s_ij = q_i . k_j / sqrt(dim) - slope |i - j| + bias of the time\n"
        "         from j to when i is asked (with `times`, as kind hstu has "
        "it)\n"
        "  y_i = sum of p_ij v_j over the sample's tokens j (causal: j <= i, "
        "unless\n"
        "         i is of the first `context`)\n"
        "with p_i = softmax(s_i), or silu(s_ij) / length; then W_o y + b_o of\n"
        "the heads side by side\n"
        "\n"
        "  With places = \"rotary\" q_i and k_j are turned before: the "
        "numbers\n"
        "  x, y in columns 2 c, 2 c + 1 of a head become\n"
        "    x cos a - y sin a, x sin a + y cos a,\n"
        "    a = place / rotary_base^(2 c / dim)\n"
        "  where a token's place in its sample counts from the oldest, 0; "
        "s_ij\n"
        "  goes by i - j then, and from which end does not matter.  Pairs are\n"
        "  neighbours, as in the paper; Llama and GPT-NeoX pair columns c and\n"
        "  c + dim / 2: the same with W's rows of q and k in another order.\n"
        "\n"
        "  The products s_ij of all pairs are never in memory at once.  Kind\n"
        "  add makes a residual of it, layer_norm stands before or behind it,\n"
        "  dropout behind; its own dropout is of the p_ij, as in PyTorch's\n"
        "  MultiheadAttention, by the sample's place as kind dropout's.\n"
        "\n"
        "  in    tokens (T, d), side by side\n"
        "  out   (T, d); without W_o (T, heads dim)\n"
        "  NAME.0.weight (3 heads dim, d), NAME.0.bias (3 heads dim): rows of\n"
        "        q, k, v; NAME.1.weight (d, heads dim), NAME.1.bias (d):\n"
        "        uniform in +-1/sqrt(columns), as PyTorch's Linear has them;\n"
        "        NAME.2.times (heads, time_buckets): uniform in +-0.02 "
        "sqrt(3)\n"
        "  A. Vaswani et al., \"Attention Is All You Need\", NeurIPS 2017; "
        "silu:\n"
        "  J. Zhai et al., \"Actions Speak Louder than Words\", ICML 2024;\n"
        "  alibi: O. Press et al., \"Train Short, Test Long\", ICLR 2022;\n"
        "  rotary: J. Su et al., \"RoFormer\", Neurocomputing 2024, equation "
        "34\n"};
