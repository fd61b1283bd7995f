/* task_product.c - the probability of one event after another (ESMM). */
#include "model/layer_ops.h"

typedef struct ts_task_product {
  float *p[2]; /* (batch_max, n) sigmoids */
  float *dp;
} ts_task_product;

static ts_err shape(ts_layer *l) {
  const ts_value *a = l->in[0].value, *b = l->in[1].value;
  char s[TS_SHAPE_BYTES], t[TS_SHAPE_BYTES];
  const int32_t n = ts_shape_width(a->shape);
  if (n != ts_shape_width(b->shape))
    return ts_layer_fail(l,
                         "its inputs are %s and %s: it takes two logits of one "
                         "shape, such as (B, 1)",
                         ts_layer_shape_text(s, a->shape),
                         ts_layer_shape_text(t, b->shape));
  return ts_layer_gives(l, NULL, ts_vector_of(n));
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  ts_task_product *d = l->data;
  const int64_t n =
      (int64_t)l->spec->batch_max * ts_shape_width(l->out[0].shape);
  for (int k = 0; k < 2; k++) TS_DO(ts_layer_take(l, &d->p[k], n, 4));
  return l->spec->training ? ts_layer_take(l, &d->dp, n, 4) : TS_OK;
}

static ts_err sigmoid(const ts_layer *l, const ts_layer_run *r, int k,
                      ts_pass pass) {
  const ts_task_product *d = l->data;
  const ts_input *in = &l->in[k];
  return ts_run_act_rows(l, r, TS_ACT_SIGMOID, r->batch,
                         ts_shape_width(l->out[0].shape), in->value->x,
                         in->value->stride, d->p[k], d->dp, in->dx, pass);
}

/* Y = a x, of (B, n) each. */
static ts_err times(const ts_layer *l, const ts_layer_run *r, float *y,
                    const float *a, const float *x) {
  const int32_t n = ts_shape_width(l->out[0].shape);
  const ts_stride4 rows = {.b = n, .c = 1};
  return ts_run_times(l, r, y, rows, a, rows, x, rows,
                      (ts_sizes){r->batch, 1, 1, n, 1}, 1, false);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_task_product *d = l->data;
  for (int k = 0; k < 2; k++) TS_DO(sigmoid(l, r, k, TS_FORWARD));
  return times(l, r, l->out[0].x, d->p[0], d->p[1]);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_task_product *d = l->data;
  for (int k = 0; k < 2; k++) {
    if (!l->in[k].dx) continue;
    TS_DO(times(l, r, d->dp, l->out[0].dx, d->p[1 - k]));
    TS_DO(sigmoid(l, r, k, TS_BACKWARD));
  }
  return TS_OK;
}

const ts_layer_ops ts_layer_task_product = {
    .kind = "task_product",
    .data_bytes = sizeof(ts_task_product),
    .least = 2,
    .most = 2,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .forward = forward,
    .backward = backward,
    .page =
        "y = sigmoid(a) sigmoid(b): of two logits, say of a click and of a\n"
        "conversion after it, the probability of both: ESMM's pCTCVR.  Its\n"
        "output takes loss = \"bce\" with from = \"probability\".\n"
        "\n"
        "  in    two logits (B, n), n being 1 as a rule\n"
        "  out   (B, n), probabilities\n"
        "  X. Ma et al., \"Entire Space Multi-Task Model: An Effective\n"
        "  Approach for Estimating Post-Click Conversion Rate\", SIGIR "
        "2018\n"};
