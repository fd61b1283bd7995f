/* position.c - y = scale x + a vector for each place in a sequence. */
#include <math.h>

#include "model/layer_ops.h"

typedef enum { LEARNT, SINE } ts_position_kind;

typedef struct ts_position_options {
  int by, from;
  int32_t places;
  double scale;
} ts_position_options;

#define KEY(name, kind, fallback, min, max, choices, help)                     \
  {                                                                            \
    TS_SCOPE_LAYER, #name, kind, offsetof(ts_position_options, name),          \
        fallback, "", min, max, choices, help                                  \
  }
static const ts_key keys[] = {
    KEY(places, TS_KEY_INT32, NULL, 1, 1 << 20, NULL,
        "places that have a vector of their own; later ones have the last's"),
    KEY(by, TS_KEY_CHOICE, "\"learnt\"", 1, 0, "learnt|sine",
        "vectors are parameters, or waves"),
    KEY(from, TS_KEY_CHOICE, "\"newest\"", 1, 0, "newest|oldest",
        "the token that has place 0: a sample's last, or its first"),
    KEY(scale, TS_KEY_FLOAT, "1", 1, 0, NULL, "of x; 0: sqrt(d)"),
};

typedef struct ts_position {
  ts_param *weight; /* NULL: sine */
  float *waves;     /* (places, d) */
  float *sink;      /* the waves' gradient, for nobody */
} ts_position;

static ts_err shape(ts_layer *l) {
  return ts_layer_gives(l, NULL, ts_tokens_of(l->in[0].value->shape.dim));
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  ts_position *d = l->data;
  const ts_position_options *o = l->options;
  const int32_t n = l->out[0].shape.dim;
  if (o->by == LEARNT)
    return ts_layer_param(l, &d->weight, 0, false, "weight", o->places, n,
                          sqrt(6.0 / (o->places + n)));
  TS_DO(ts_layer_take(l, &d->sink, (int64_t)o->places * n, 4));
  return ts_layer_take_waves(l, &d->waves, o->places, n, 10000);
}

static ts_err run(const ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  const ts_position *d = l->data;
  const ts_position_options *o = l->options;
  const ts_tokens *t = ts_tokens_at(l->tokens);
  const ts_value *x = l->in[0].value, *y = &l->out[0];
  const ts_places_args a = {.x = x->x,
                            .table = d->weight ? d->weight->w : d->waves,
                            .y = y->x,
                            .dy = y->dx,
                            .dx = l->in[0].dx,
                            .dtable = d->weight ? d->weight->grad : d->sink,
                            .offsets = t->offsets,
                            .sample = t->sample,
                            .position = t->position,
                            .n_samples = t->n_samples,
                            .n_tokens = t->n,
                            .x_stride = x->stride,
                            .y_stride = y->stride,
                            .n = y->shape.dim,
                            .n_places = o->places,
                            .scale = o->scale == 0 ? sqrtf((float)y->shape.dim)
                                                   : (float)o->scale,
                            .from_newest = o->from == 0};
  return ts_run_places(l, r, &a, pass);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_position *d = l->data;
  if (d->weight) TS_DO(ts_layer_begin(r, d->weight, TS_FORWARD));
  TS_DO(run(l, r, TS_FORWARD));
  return d->weight ? ts_layer_end(r, d->weight, TS_FORWARD) : TS_OK;
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_position *d = l->data;
  if (!d->weight) return l->in[0].dx ? run(l, r, TS_BACKWARD) : TS_OK;
  TS_DO(ts_layer_begin(r, d->weight, TS_BACKWARD));
  TS_DO(run(l, r, TS_BACKWARD));
  TS_DO(ts_layer_gave(r, &d->weight, 1));
  return ts_layer_end(r, d->weight, TS_BACKWARD);
}

const ts_layer_ops ts_layer_position = {
    .kind = "position",
    .tokens = TS_ITS_TOKENS,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_position_options),
    .data_bytes = sizeof(ts_position),
    .least = 1,
    .most = 1,
    .shape = shape,
    .create = create,
    .forward = forward,
    .backward = backward,
    .page =
        "y_t = scale x_t + p_k, k the token's place in its sample\n"
        "\n"
        "  Vectors are learnt, or waves: sin and cos of k / 10000^(2 i / d) "
        "in\n"
        "  columns 2 i and 2 i + 1.  Places count from the newest token, so\n"
        "  that the one that is guessed by has place 0 whatever the length, "
        "as\n"
        "  in sequences that are padded in front; or from the oldest.\n"
        "\n"
        "  in    tokens (T, d), side by side\n"
        "  out   (T, d)\n"
        "  NAME.0.weight (places, d): uniform in +-sqrt(6 / (places + d)),\n"
        "        where learnt\n"
        "  A. Vaswani et al., \"Attention Is All You Need\", NeurIPS 2017;\n"
        "  W.-C. Kang, J. McAuley, \"Self-Attentive Sequential\n"
        "  Recommendation\", ICDM 2018\n"};
