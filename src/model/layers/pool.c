/* pool.c - one vector of a sample's tokens. */
#include "model/layer_ops.h"

typedef struct ts_pool_options {
  int by;
} ts_pool_options;

/* As ts_pool_kind has them. */
static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "by", TS_KEY_CHOICE, offsetof(ts_pool_options, by),
     "\"mean\"", "", 1, 0, "sum|mean|max|last", "over a sample's tokens"},
};

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, ts_vector_of(l->in[0].value->shape.dim));
}

static ts_err pool(const ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  static const ts_pool_kind by[] = {TS_POOL_TOKENS_SUM, TS_POOL_TOKENS_MEAN,
                                    TS_POOL_TOKENS_MAX, TS_POOL_TOKENS_LAST};
  const ts_pool_options *o = l->options;
  const ts_value *x = l->in[0].value, *y = &l->out[0];
  const ts_pool_args a = {.x = x->x,
                          .y = y->x,
                          .dy = y->dx,
                          .dx = l->in[0].dx,
                          .offsets = ts_tokens_at(l->tokens)->offsets,
                          .n_samples = r->batch,
                          .x_stride = x->stride,
                          .y_stride = y->stride,
                          .n = y->shape.dim,
                          .kind = by[o->by]};
  return ts_run_pool(l, r, &a, pass);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  return pool(l, r, TS_FORWARD);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  return l->in[0].dx ? pool(l, r, TS_BACKWARD) : TS_OK;
}

const ts_layer_ops ts_layer_pool = {
    .kind = "pool",
    .tokens = TS_ITS_TOKENS,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_pool_options),
    .least = 1,
    .most = 1,
    .keeps_in = true,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .page = "y = the sum, the mean, or the largest of each column, of a\n"
            "sample's tokens, or the last of them\n"
            "\n"
            "  A sample without tokens gives zeros.\n"
            "\n"
            "  in    tokens (T, d), side by side\n"
            "  out   (B, d)\n"};
