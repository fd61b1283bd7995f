/* prepend.c - vectors of a sample before its tokens. */
#include "model/layer_ops.h"

static ts_err shape(ts_layer *l) {
  const ts_value *x = l->in[0].value;
  const ts_input *in = ts_layer_in(l, TS_ROLE_BEFORE, 0);
  char text[TS_SHAPE_BYTES], tokens[TS_SHAPE_BYTES];
  if (!in)
    return ts_layer_fail(l, "nothing is left of `before` without dense "
                            "features: it takes a vector at least");
  const ts_value *v = in->value;
  if (v->shape.dim != x->shape.dim)
    return ts_layer_fail(
        l,
        "vectors of `before`, \"%.80s\", are %s, and tokens \"%.80s\" %s: it "
        "takes vectors (B, %d), or fields (B, F, %d), as kind linear, or "
        "project, makes them",
        v->name, ts_layer_shape_text(text, v->shape), x->name,
        ts_layer_shape_text(tokens, x->shape), x->shape.dim, x->shape.dim);
  return ts_layer_gives(l, NULL, x->shape);
}

static int32_t more(const ts_layer *l) {
  return ts_layer_in(l, TS_ROLE_BEFORE, 0)->value->shape.fields;
}

static ts_err run(const ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  const ts_input *before = ts_layer_in(l, TS_ROLE_BEFORE, 0);
  const ts_value *x = l->in[0].value, *y = &l->out[0];
  const ts_tokens *t = ts_tokens_at(y->tokens);
  const ts_prepend_args a = {.x = x->x,
                             .before = before->value->x,
                             .y = y->x,
                             .dy = y->dx,
                             .dx = l->in[0].dx,
                             .dbefore = before->dx,
                             .sample = t->sample,
                             .position = t->position,
                             .n_tokens = t->n,
                             .x_stride = x->stride,
                             .before_stride = before->value->stride,
                             .y_stride = y->stride,
                             .n = y->shape.dim,
                             .n_before = more(l)};
  return ts_run_prepend(l, r, &a, pass);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  return run(l, r, TS_FORWARD);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  return run(l, r, TS_BACKWARD);
}

const ts_layer_ops ts_layer_prepend = {
    .kind = "prepend",
    .tokens = TS_ITS_TOKENS,
    .least = 1,
    .most = 1,
    .roles = {[TS_ROLE_BEFORE] = true},
    .more = more,
    .shape = shape,
    .forward = forward,
    .backward = backward,
    .page =
        "A sample's tokens with vectors before them: those of `before`, in\n"
        "their order, then its tokens\n"
        "\n"
        "  What holds of a sample as a whole (who the user is, where) becomes\n"
        "  tokens that attention looks at.  A sample without tokens has those\n"
        "  vectors alone.  Layers below count them as tokens: kind position\n"
        "  gives them places, pool takes them along, and an output over items\n"
        "  pairs its targets with the last tokens, as ever.  They are at no\n"
        "  time, so that a layer with `times` does not read them; and tokens\n"
        "  beside such have as many vectors before them.\n"
        "\n"
        "  in      tokens (T, d), side by side\n"
        "  before  vectors (B, d), or fields (B, F, d): as many as wanted\n"
        "  out     (T, d), T more by so many for each sample\n"
        "  J. Zhai et al., \"Actions Speak Louder than Words\", ICML 2024\n"};
