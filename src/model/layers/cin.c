/* cin.c - xDeepFM's compressed interaction network.
 *
 * Layer l has maps x^l (H_l, d), x^0 the fields: z_(hm) = x^(l-1)_h * x^0_m by
 * element, x^l = act(W z + b).  Maps lie as (B, d, H), so that W's products
 * are of rows (B d); z is made anew for the backward pass, since that of one
 * layer is larger than all the rest. */
#include "base/mem.h"
#include "model/layer_ops.h"

enum { IDENTITY, RELU };

typedef struct ts_cin_options {
  ts_ints units;
  bool split_half;
  int activation;
} ts_cin_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "units", TS_KEY_INTS, offsetof(ts_cin_options, units),
     "[128, 128]", "maps", 1, 100000, NULL, "maps of each layer"},
    {TS_SCOPE_LAYER, "split_half", TS_KEY_BOOL,
     offsetof(ts_cin_options, split_half), "false", "", 1, 0, NULL,
     "half of a layer's maps go to the output, half to the next layer"},
    {TS_SCOPE_LAYER, "activation", TS_KEY_CHOICE,
     offsetof(ts_cin_options, activation), "\"identity\"", "", 1, 0,
     "identity|relu", "of the maps"},
};

typedef struct ts_cin_layer {
  ts_rows_linear conv;
  int32_t h, prev; /* maps, and those of the layer below that it reads */
  int32_t sums;    /* maps that go to the output: the last ones */
  int32_t at;      /* of them there */
  float *x, *dx;   /* (batch_max, d, h) */
} ts_cin_layer;

typedef struct ts_cin {
  ts_cin_layer *layer;
  int32_t m, d;
  float *z, *dz; /* (batch_max, d, most of prev m) */
} ts_cin;

static ts_err shape(ts_layer *l) {
  const ts_cin_options *o = l->options;
  ts_cin *d = l->data;
  const ts_shape s = l->in[0].value->shape;
  int64_t width = 0;
  d->m = s.fields;
  d->d = s.dim;
  if (!o->units.n) return ts_layer_fail(l, "units is empty: give [128, 128]");
  TS_DO(ts_mem_many(d->layer, o->units.n, DENSE));
  for (int32_t i = 0; i < o->units.n; i++) {
    ts_cin_layer *k = &d->layer[i];
    const bool halves = o->split_half && i + 1 < o->units.n;
    k->h = (int32_t)o->units.item[i];
    if (halves && k->h % 2)
      return ts_layer_fail(l,
                           "split_half needs an even number of maps in all "
                           "layers but the last, not %d",
                           k->h);
    k->sums = halves ? k->h / 2 : k->h;
    k->prev = i ? k[-1].h - (o->split_half ? k[-1].sums : 0) : d->m;
    k->at = (int32_t)width;
    width += k->sums;
    if (width > TS_WIDTH_MAX)
      return ts_layer_fail(l, "a sample has %d numbers at most", TS_WIDTH_MAX);
    if ((int64_t)k->prev * d->m * d->d > TS_WIDTH_MAX)
      return ts_layer_fail(l,
                           "%d maps by %d fields of %d numbers: a sample has "
                           "%d numbers at most",
                           k->prev, d->m, d->d, TS_WIDTH_MAX);
  }
  return ts_layer_gives(l, NULL, ts_vector_of((int32_t)width));
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  const ts_cin_options *o = l->options;
  ts_cin *d = l->data;
  const int64_t rows = (int64_t)l->spec->batch_max * d->d;
  const unsigned relu = o->activation == RELU ? TS_ROWS_RELU : 0;
  int64_t most = 0;
  for (int32_t i = 0; i < o->units.n; i++) {
    ts_cin_layer *k = &d->layer[i];
    const int32_t nz = k->prev * d->m;
    TS_DO(ts_rows_linear_make(&k->conv, l, i, nz, nz, k->h, d->d,
                              TS_ROWS_BIAS | relu, lane));
    TS_DO(ts_layer_take(l, &k->x, rows * k->h, 4));
    if (l->spec->training) TS_DO(ts_layer_take(l, &k->dx, rows * k->h, 4));
    if (nz > most) most = nz;
  }
  TS_DO(ts_layer_take(l, &d->z, rows * most, 4));
  return l->spec->training ? ts_layer_take(l, &d->dz, rows * most, 4) : TS_OK;
}

static void destroy(ts_layer *l) {
  const ts_cin_options *o = l->options;
  ts_cin *d = l->data;
  for (int32_t i = 0; d->layer && i < o->units.n; i++)
    ts_rows_linear_reset(&d->layer[i].conv);
  ts_mem_free(d->layer);
}

/* Strides b, d, h of what layer I reads, and of x^0 as fields. */
static ts_stride4 below_strides(const ts_layer *l, int32_t i) {
  const ts_cin *d = l->data;
  if (!i) return (ts_stride4){.b = l->in[0].value->stride, .h = 1, .r = d->d};
  const int64_t h = d->layer[i - 1].h;
  return (ts_stride4){.b = d->d * h, .h = h, .r = 1};
}

static const float *below(const ts_layer *l, int32_t i) {
  const ts_cin *d = l->data;
  return i ? d->layer[i - 1].x : l->in[0].value->x;
}

/* z[b, d, h, m] = x^(l-1)[b, d, h] x^0[b, m, d]. */
static ts_err outer(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_cin *d = l->data;
  const ts_cin_layer *k = &d->layer[i];
  const int64_t nz = (int64_t)k->prev * d->m;
  return ts_run_times(
      l, r, d->z, (ts_stride4){.b = d->d * nz, .h = nz, .r = d->m, .c = 1},
      below(l, i), below_strides(l, i), l->in[0].value->x,
      (ts_stride4){.b = l->in[0].value->stride, .h = 1, .c = d->d},
      (ts_sizes){r->batch, d->d, k->prev, d->m, 1}, 1, false);
}

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  const ts_cin_options *o = l->options;
  ts_cin *d = l->data;
  for (int32_t i = 0; i < o->units.n; i++) {
    ts_cin_layer *k = &d->layer[i];
    TS_DO(outer(l, r, i));
    TS_DO(ts_rows_linear_forward(&k->conv, r, k->x, d->z));
    TS_DO(ts_run_products(
        l, r, l->out[0].x + k->at, (ts_stride4){.b = l->out[0].stride, .h = 1},
        k->x + k->h - k->sums,
        (ts_stride4){.b = (int64_t)d->d * k->h, .h = 1, .c = k->h}, NULL,
        (ts_stride4){0}, (ts_sizes){r->batch, k->sums, 1, 1, d->d}, 1, false));
  }
  return TS_OK;
}

/* Gradients of the maps that go to the output; the layer above has written
 * those that it read, or nobody has. */
static ts_err from_output(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  const ts_cin_options *o = l->options;
  const ts_cin *d = l->data;
  const ts_cin_layer *k = &d->layer[i];
  return ts_run_times(
      l, r, k->dx + k->h - k->sums,
      (ts_stride4){.b = (int64_t)d->d * k->h, .r = k->h, .c = 1},
      l->out[0].dx + k->at, (ts_stride4){.b = l->out[0].stride, .c = 1}, NULL,
      (ts_stride4){0}, (ts_sizes){r->batch, 1, d->d, k->sums, 1}, 1,
      i + 1 < o->units.n && !o->split_half);
}

/* dx^(l-1) = sum over m of dz_hm x^0_m, which is added to DX0 in the first
 * layer; dx^0 += sum over h of dz_hm x^(l-1)_h. */
static ts_err through_outer(const ts_layer *l, const ts_layer_run *r, int32_t i,
                            float *dx0) {
  const ts_cin *d = l->data;
  const ts_cin_layer *k = &d->layer[i];
  const int64_t nz = (int64_t)k->prev * d->m, stride = l->in[0].value->stride;
  const ts_stride4 bs = below_strides(l, i);
  const ts_stride4 x0 = {.b = stride, .h = 1, .r = d->d, .c = d->d};
  TS_DO(ts_run_products(l, r, dx0, x0, d->dz,
                        (ts_stride4){d->d * nz, nz, 1, d->m}, below(l, i),
                        (ts_stride4){.b = bs.b, .h = bs.h, .c = bs.r},
                        (ts_sizes){r->batch, d->d, d->m, 1, k->prev}, 1, true));
  return ts_run_products(l, r, i ? d->layer[i - 1].dx : dx0, bs, d->dz,
                         (ts_stride4){d->d * nz, nz, d->m, 1},
                         l->in[0].value->x, x0,
                         (ts_sizes){r->batch, d->d, k->prev, 1, d->m}, 1, !i);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  const ts_cin_options *o = l->options;
  ts_cin *d = l->data;
  float *dx = l->in[0].dx;
  const size_t bytes = (size_t)r->batch * (size_t)l->in[0].value->stride * 4;
  TS_DO(ts_run_zero(l, r, dx, bytes)); /* fields have one always */
  for (int32_t i = o->units.n - 1; i >= 0; i--) {
    ts_cin_layer *k = &d->layer[i];
    TS_DO(from_output(l, r, i));
    TS_DO(outer(l, r, i));
    TS_DO(ts_rows_linear_backward(&k->conv, r, d->dz, k->dx, d->z, k->x));
    TS_DO(through_outer(l, r, i, dx));
  }
  return TS_OK;
}

/* Besides one for each weight, which d coordinates share. */
static double products(const ts_layer *l) {
  const ts_cin_options *o = l->options;
  const ts_cin *d = l->data;
  double sum = 0;
  for (int32_t i = 0; i < o->units.n; i++) {
    const ts_cin_layer *k = &d->layer[i];
    sum += (double)k->prev * d->m * ((d->d - 1.0) * k->h + d->d);
  }
  return sum;
}

const ts_layer_ops ts_layer_cin = {
    .kind = "cin",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_cin_options),
    .data_bytes = sizeof(ts_cin),
    .least = 1,
    .most = 1,
    .wants_fields = true,
    .keeps_in = true,
    .any_stride = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "x^l_k = act(sum over h, m of W^l_khm x^(l-1)_h * x^0_m + b^l_k), *\n"
        "by element, x^0 the fields; y = the sums over d of all maps x^l_k,\n"
        "side by side: xDeepFM's compressed interaction network, as FuxiCTR\n"
        "has it; with split_half = true and activation = \"relu\" as\n"
        "DeepCTR: the first half of a layer's maps goes on, the second to\n"
        "the output, of the last layer all\n"
        "\n"
        "  in    fields (B, F, d)\n"
        "  out   (B, sum of the maps that go to the output)\n"
        "  NAME.l.weight (units[l], H F), column h F + m as DeepCTR has it,\n"
        "        H the maps that the layer reads, F in the first;\n"
        "        NAME.l.bias: uniform in +-1/sqrt(H F), as PyTorch's Conv1d\n"
        "  The products of a layer, B d H F floats, are kept for one layer\n"
        "  at a time, twice in training: with 26 fields of dim 16 and 128\n"
        "  maps 426 KB a sample.  run.accumulate makes batches smaller.\n"
        "  J. Lian et al., \"xDeepFM: Combining Explicit and Implicit Feature\n"
        "  Interactions for Recommender Systems\", KDD 2018\n"};
