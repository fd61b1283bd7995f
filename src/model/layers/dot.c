/* dot.c - DLRM's interaction: products of all pairs of vectors. */
#include "base/mem.h"
#include "dense/interact.h"
#include "model/layer_ops.h"

/* The vectors: the first where it is one of its own, then fields. */
typedef struct ts_dot {
  const ts_value *bottom; /* NULL: none */
  int32_t n, dim;         /* fields */
  float **x, **dx;        /* (n), filled by tasks alone */
  int64_t *stride;
  float *sink; /* the gradient of a bottom that wants none */
  float *work; /* the host's */
  int n_threads;
} ts_dot;

static ts_err shape(ts_layer *l) {
  ts_dot *d = l->data;
  char a[TS_SHAPE_BYTES], b[TS_SHAPE_BYTES];
  const ts_value *first = l->in[0].value;
  if (first->shape.form == TS_VECTOR && !first->emb) d->bottom = first;
  d->dim = first->shape.dim;
  for (int32_t k = d->bottom != NULL; k < l->n_in[TS_ROLE_IN]; k++) {
    const ts_value *v = l->in[k].value;
    if (v->is_input)
      return ts_layer_fail(l, "\"dense\" can be its first input alone; kind "
                              "linear or concat makes it another");
    if (v->shape.dim != d->dim)
      return ts_layer_fail(l,
                           "\"%.80s\" is %s, but \"%.80s\" is %s: products of "
                           "pairs need vectors of one width",
                           first->name, ts_layer_shape_text(a, first->shape),
                           v->name, ts_layer_shape_text(b, v->shape));
    if (v->emb && v->emb->n != v->shape.fields)
      return ts_layer_fail(l,
                           "\"%.80s\" are embeddings of different dims: "
                           "products of pairs need vectors of one width",
                           v->name);
    d->n += v->shape.fields;
  }
  const int64_t n = d->n + (d->bottom != NULL);
  if (n < 2) return ts_layer_fail(l, "one vector makes no pair");
  if (d->bottom && d->bottom->stride != d->dim)
    return ts_layer_fail(l, "its first input can't be a concat");
  const int64_t width = (d->bottom ? d->dim : 0) + n * (n - 1) / 2;
  if (width > TS_WIDTH_MAX)
    return ts_layer_fail(l,
                         "%lld vectors make %lld pairs; a sample has %d "
                         "numbers at most",
                         (long long)n, (long long)width, TS_WIDTH_MAX);
  TS_DO(ts_layer_gives(l, NULL, ts_vector_of((int32_t)width)));
  l->out[0].stride = (int32_t)((width + 31) / 32 * 32);
  return TS_OK;
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  (void)lane;
  ts_dot *d = l->data;
  TS_DO(ts_mem_many(d->x, d->n, DENSE));
  TS_DO(ts_mem_many(d->dx, d->n, DENSE));
  TS_DO(ts_mem_many(d->stride, d->n, DENSE));
  if (d->bottom && !l->in[0].dx)
    TS_DO(ts_layer_take(l, &d->sink, (int64_t)l->spec->batch_max * d->dim, 4));
  if (ts_device_is_discrete(l->device)) return TS_OK;
  d->n_threads = ts_device_options_of(l->device)->n_threads;
  return ts_mem_array(&d->work,
                      d->n_threads *
                          ts_interact_work(d->n + (d->bottom != NULL), d->dim,
                                           l->out[0].stride),
                      4, TS_TAG_ACTIVATIONS);
}

static void destroy(ts_layer *l) {
  ts_dot *d = l->data;
  ts_mem_free_all(d->x, d->dx, d->stride, d->work);
}

typedef struct ts_dot_arg {
  const ts_layer *l;
  ts_emb_views views;
  float *out, *grad;
  const float *bottom;
  int32_t batch;
  ts_pass pass;
} ts_dot_arg;

static void fill(const ts_dot_arg *a) {
  const ts_layer *l = a->l;
  ts_dot *d = l->data;
  int32_t n = 0;
  for (int32_t k = d->bottom != NULL; k < l->n_in[TS_ROLE_IN]; k++) {
    const ts_input *in = &l->in[k];
    const ts_value *v = in->value;
    for (int32_t i = 0; i < v->shape.fields; i++, n++) {
      const int32_t f = v->emb ? v->emb->feature[i] : -1;
      d->x[n] = v->emb ? (float *)a->views.data[f] : v->x + i * d->dim;
      d->dx[n] = v->emb ? a->views.grad[f] : in->dx + i * d->dim;
      d->stride[n] = v->emb ? a->views.stride[f] : v->stride;
    }
  }
}

static ts_err task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_dot_arg *a = arg;
  const ts_kernels *k = a->l->spec->kernels;
  const ts_dot *d = a->l->data;
  fill(a);
  const ts_interact_args t = {.out = a->out,
                              .grad = a->grad,
                              .half = a->l->out[0].half,
                              .out_stride = a->l->out[0].stride,
                              .bottom = a->bottom,
                              .grad_bottom = d->sink     ? d->sink
                                             : d->bottom ? a->l->in[0].dx
                                                         : NULL,
                              .emb = (const float *const *)d->x,
                              .grad_emb = d->dx,
                              .emb_stride = d->stride,
                              .work = d->work,
                              .work_threads = d->n_threads,
                              .n_features = d->n,
                              .dim = d->dim,
                              .batch = a->batch};
  if (t.half)
    return a->pass == TS_FORWARD ? k->interact_forward_half(&t)
                                 : k->interact_backward_half(&t);
  return a->pass == TS_FORWARD ? k->interact_forward(&t)
                               : k->interact_backward(&t);
}

static ts_err submit(ts_layer *l, const ts_layer_run *r, ts_pass pass) {
  const ts_dot *d = l->data;
  const ts_dot_arg a = {l,
                        *r->views,
                        l->out[0].x,
                        l->out[0].dx,
                        d->bottom ? d->bottom->x : NULL,
                        r->batch,
                        pass};
  return ts_lane_submit(
      r->lane, pass == TS_FORWARD ? "interaction" : "interaction backward",
      task, &a, sizeof a);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  return submit(l, r, TS_FORWARD);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  return submit(l, r, TS_BACKWARD);
}

static double products(const ts_layer *l) {
  const ts_dot *d = l->data;
  const double n = d->n + (d->bottom != NULL);
  return n * (n - 1) / 2 * d->dim;
}

static bool gives_half(const ts_layer *l, const ts_layer *reader) {
  (void)reader;
  return ts_linear_precision(l->spec->config->run.precision,
                             l->spec->kernels) == TS_PRECISION_BF16;
}

const ts_layer_ops ts_layer_dot = {
    .kind = "dot",
    .data_bytes = sizeof(ts_dot),
    .least = 1,
    .reads_embeddings = true,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .gives_half = gives_half,
    .page =
        "y = [x_0, x_i . x_j for i < j]: DLRM's interaction\n"
        "\n"
        "  in    a vector x_0 (B, d) and fields (B, F, d), or fields alone:\n"
        "        then y has the products alone\n"
        "  out   (B, d + n (n - 1) / 2), n = F + 1; (B, F (F - 1) / 2)\n"
        "  M. Naumov et al., \"Deep Learning Recommendation Model for\n"
        "  Personalization and Recommendation Systems\", 2019\n"};

/* Without the vector. */
const ts_layer_ops ts_layer_inner_product = {
    .kind = "inner_product",
    .data_bytes = sizeof(ts_dot),
    .least = 1,
    .most = 1,
    .wants_fields = true,
    .reads_embeddings = true,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .gives_half = gives_half,
    .page = "y_ij = x_i . x_j for i < j: PNN's inner products, as kind dot "
            "gives\n"
            "them of fields alone\n"
            "\n"
            "  in    fields (B, F, d)\n"
            "  out   (B, F (F - 1) / 2): y_01, y_02 .. y_12 ..\n"
            "  Y. Qu et al., \"Product-Based Neural Networks for User "
            "Response\n"
            "  Prediction\", ICDM 2016\n"};
