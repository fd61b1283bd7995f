/* experts.c - mixtures of experts, one for each task (MMoE, PLE).
 *
 * Experts are MLPs: the shared ones first, then each gate's own.  A gate g
 * mixes the shared ones and its own, p_g = softmax(W_g x_g); the shared gate,
 * which the next layer of a PLE reads, mixes all.  What experts give lies as
 * (experts, batch_max, u). */
#include <string.h>

#include "base/mem.h"
#include "dense/mlp.h"
#include "model/layer_ops.h"

typedef struct ts_experts_options {
  ts_strings gates;
  ts_ints units;
  int32_t experts, own;
  bool mix_shared;
} ts_experts_options;

static const ts_key keys[] = {
    {TS_SCOPE_LAYER, "gates", TS_KEY_STRINGS,
     offsetof(ts_experts_options, gates), NULL, "names", 1, 0, NULL,
     "one mixture each, NAME@GATE"},
    {TS_SCOPE_LAYER, "units", TS_KEY_INTS, offsetof(ts_experts_options, units),
     NULL, "outputs", 1, 1000000, NULL, "of each expert's layers, with relu"},
    {TS_SCOPE_LAYER, "experts", TS_KEY_INT32,
     offsetof(ts_experts_options, experts), "4", "", 1, 10000, NULL,
     "that all gates share"},
    {TS_SCOPE_LAYER, "own", TS_KEY_INT32, offsetof(ts_experts_options, own),
     "0", "", 0, 10000, NULL, "further experts of each gate, as PLE has them"},
    {TS_SCOPE_LAYER, "mix_shared", TS_KEY_BOOL,
     offsetof(ts_experts_options, mix_shared), "false", "", 1, 0, NULL,
     "NAME@shared, too, of all experts, for the next layer of a PLE"},
};

typedef struct ts_gate {
  ts_rows_linear w;
  int32_t n;    /* experts that it mixes */
  int32_t in;   /* input */
  float *s, *p; /* (batch_max, n) before and after the softmax */
} ts_gate;

typedef struct ts_experts {
  ts_mlp **expert; /* (n) */
  ts_gate *gate;   /* (n_gates) the shared one last */
  int32_t n, n_gates, u;
  float *y, *dy; /* (n, batch_max, u) */
  float *ds;     /* (batch_max, n) */
  float *dx;     /* (batch_max, widest stride) of those who come second */
  bool *written; /* (inputs) in the backward pass under way */
} ts_experts;

static ts_err check(const ts_layer *l) {
  const ts_experts_options *o = l->options;
  const int32_t n = l->n_in[TS_ROLE_IN], g = o->gates.n;
  if (!g || !o->units.n)
    return ts_layer_fail(l, "gates and units must not be empty: give gates = "
                            "[\"ctr\", \"cvr\"], units = [64]");
  for (int32_t i = 0; i < g; i++) {
    bool again = o->mix_shared && !strcmp(o->gates.item[i], "shared");
    for (int32_t j = 0; j < i; j++)
      again |= !strcmp(o->gates.item[i], o->gates.item[j]);
    if (again)
      return ts_layer_fail(l, "two gates are named \"%.80s\"",
                           o->gates.item[i]);
  }
  if (n == 1 || n == g + 1) return TS_OK;
  return ts_layer_fail(l,
                       "it has %d inputs: it takes one for all, or %d, one for "
                       "each of its %d gates and the last for the shared "
                       "experts; kind concat puts several side by side",
                       n, g + 1, g);
}

static ts_err shape(ts_layer *l) {
  const ts_experts_options *o = l->options;
  ts_experts *d = l->data;
  TS_DO(check(l));
  d->u = (int32_t)o->units.item[o->units.n - 1];
  d->n = o->experts + o->own * o->gates.n;
  d->n_gates = o->gates.n + o->mix_shared;
  for (int32_t g = 0; g < o->gates.n; g++)
    TS_DO(ts_layer_gives(l, o->gates.item[g], ts_vector_of(d->u)));
  return o->mix_shared ? ts_layer_gives(l, "shared", ts_vector_of(d->u))
                       : TS_OK;
}

/* The input of gate G, and of expert E. */
static int32_t gate_input(const ts_layer *l, int32_t g) {
  return l->n_in[TS_ROLE_IN] > 1 ? g : 0;
}
static int32_t expert_input(const ts_layer *l, int32_t e) {
  const ts_experts_options *o = l->options;
  return gate_input(l, e < o->experts ? o->gates.n : (e - o->experts) / o->own);
}

typedef struct ts_expert_param {
  ts_layer *l;
  int32_t from; /* the expert's first index */
} ts_expert_param;

static ts_err param(void *arg, ts_param **p, int32_t i, bool last,
                    const char *tail, int32_t rows, int32_t cols,
                    double bound) {
  const ts_expert_param *a = arg;
  (void)last;
  return ts_layer_param(a->l, p, a->from + i, false, tail, rows, cols, bound);
}

static ts_err create_expert(ts_layer *l, int32_t e, ts_lane *lane) {
  const ts_experts_options *o = l->options;
  ts_experts *d = l->data;
  const ts_input *in = &l->in[expert_input(l, e)];
  ts_expert_param arg = {l, e * o->units.n};
  const ts_mlp_spec s = {.n_in = ts_shape_width(in->value->shape),
                         .in_stride = in->value->stride,
                         .sizes = o->units.item,
                         .n_layers = o->units.n,
                         .param = param,
                         .arg = &arg,
                         .precision = l->spec->config->run.precision,
                         .batch_max = l->spec->batch_max,
                         .need_dx = in->dx != NULL,
                         .engine = l->spec->engine,
                         .kernels = l->spec->kernels};
  return ts_mlp_create(&d->expert[e], &s, lane);
}

static ts_err create_gate(ts_layer *l, int32_t g, ts_lane *lane) {
  const ts_experts_options *o = l->options;
  ts_experts *d = l->data;
  ts_gate *k = &d->gate[g];
  k->in = gate_input(l, g);
  k->n = g < o->gates.n ? o->experts + o->own : d->n;
  const ts_input *in = &l->in[k->in];
  TS_DO(ts_rows_linear_make(&k->w, l, d->n * o->units.n + g,
                            ts_shape_width(in->value->shape), in->value->stride,
                            k->n, 1, in->dx ? 0 : TS_ROWS_NO_DX, lane));
  TS_DO(ts_layer_take(l, &k->s, (int64_t)l->spec->batch_max * k->n, 4));
  return ts_layer_take(l, &k->p, (int64_t)l->spec->batch_max * k->n, 4);
}

static ts_err create(ts_layer *l, ts_lane *lane) {
  ts_experts *d = l->data;
  const int64_t n = l->spec->batch_max;
  int32_t widest = 0;
  TS_DO(ts_mem_many(d->expert, d->n, DENSE));
  TS_DO(ts_mem_many(d->gate, d->n_gates, DENSE));
  TS_DO(ts_mem_many(d->written, l->n_in[TS_ROLE_IN], DENSE));
  for (int32_t e = 0; e < d->n; e++) TS_DO(create_expert(l, e, lane));
  for (int32_t g = 0; g < d->n_gates; g++) TS_DO(create_gate(l, g, lane));
  for (int32_t i = 0; i < l->n_in[TS_ROLE_IN]; i++)
    if (l->in[i].value->stride > widest) widest = l->in[i].value->stride;
  TS_DO(ts_layer_take(l, &d->y, n * d->n * d->u, 4));
  if (!l->spec->training) return TS_OK;
  TS_DO(ts_layer_take(l, &d->dy, n * d->n * d->u, 4));
  TS_DO(ts_layer_take(l, &d->ds, n * d->n, 4));
  return ts_layer_take(l, &d->dx, n * widest, 4);
}

static void destroy(ts_layer *l) {
  ts_experts *d = l->data;
  for (int32_t e = 0; d->expert && e < d->n; e++) ts_mlp_destroy(d->expert[e]);
  for (int32_t g = 0; d->gate && g < d->n_gates; g++)
    ts_rows_linear_reset(&d->gate[g].w);
  ts_mem_free_all(d->expert, d->gate, d->written);
}

/* ---- mixtures ------------------------------------------------------------ */

/* Experts FROM .. FROM + N, which are AT .. of gate G's. */
typedef struct ts_part {
  int32_t from, n, at;
} ts_part;

/* Those of gate G: shared ones, its own; all. */
static int32_t parts_of(const ts_layer *l, int32_t g, ts_part part[2]) {
  const ts_experts_options *o = l->options;
  const ts_experts *d = l->data;
  part[0] = (ts_part){0, g < o->gates.n ? o->experts : d->n, 0};
  part[1] = (ts_part){o->experts + g * o->own, o->own, o->experts};
  return g < o->gates.n && o->own ? 2 : 1;
}

/* Floats from expert to expert. */
static int64_t expert_stride(const ts_layer *l) {
  const ts_experts *d = l->data;
  return (int64_t)l->spec->batch_max * d->u;
}

static ts_err softmax(const ts_layer *l, const ts_layer_run *r,
                      const ts_gate *k, ts_pass pass) {
  const ts_experts *d = l->data;
  return ts_run_softmax(l, r, r->batch, k->n, k->s, k->p, d->ds, pass);
}

/* out = sum over e of p_e y_e. */
static ts_err mix(const ts_layer *l, const ts_layer_run *r, int32_t g) {
  const ts_experts *d = l->data;
  const ts_gate *k = &d->gate[g];
  ts_part part[2];
  const int32_t n = parts_of(l, g, part);
  for (int32_t i = 0; i < n; i++) {
    TS_DO(ts_run_products(
        l, r, l->out[g].x, (ts_stride4){.b = d->u, .c = 1}, k->p + part[i].at,
        (ts_stride4){.b = k->n, .c = 1}, d->y + part[i].from * expert_stride(l),
        (ts_stride4){.b = d->u, .r = 1, .c = expert_stride(l)},
        (ts_sizes){r->batch, 1, 1, d->u, part[i].n}, 1, i > 0));
  }
  return TS_OK;
}

/* dp_e = dout . y_e, dy_e += p_e dout, = where the gate is the first. */
static ts_err unmix(const ts_layer *l, const ts_layer_run *r, int32_t g) {
  const ts_experts_options *o = l->options;
  const ts_experts *d = l->data;
  const ts_gate *k = &d->gate[g];
  ts_part part[2];
  const int32_t n = parts_of(l, g, part);
  for (int32_t i = 0; i < n; i++) {
    const int64_t from = part[i].from * expert_stride(l);
    TS_DO(ts_run_products(
        l, r, d->ds + part[i].at, (ts_stride4){.b = k->n, .c = 1}, l->out[g].dx,
        (ts_stride4){.b = d->u, .c = 1}, d->y + from,
        (ts_stride4){.b = d->u, .r = expert_stride(l), .c = 1},
        (ts_sizes){r->batch, 1, 1, part[i].n, d->u}, 1, false));
    TS_DO(ts_run_times(l, r, d->dy + from,
                       (ts_stride4){.b = d->u, .r = expert_stride(l), .c = 1},
                       k->p + part[i].at, (ts_stride4){.b = k->n, .r = 1},
                       l->out[g].dx, (ts_stride4){.b = d->u, .c = 1},
                       (ts_sizes){r->batch, 1, part[i].n, d->u, 1}, 1,
                       i ? o->mix_shared : g + 1 < d->n_gates));
  }
  return TS_OK;
}

/* ---- passes -------------------------------------------------------------- */

static ts_err forward(ts_layer *l, const ts_layer_run *r) {
  ts_experts *d = l->data;
  for (int32_t e = 0; e < d->n; e++) {
    float *y;
    TS_DO(ts_mlp_forward(d->expert[e], &y, l->in[expert_input(l, e)].value->x,
                         r->batch, r->hooks, r->lane));
    TS_DO(ts_run_copy(l, r, d->y + e * expert_stride(l), d->u, y, d->u, d->u,
                      false));
  }
  for (int32_t g = 0; g < d->n_gates; g++) {
    ts_gate *k = &d->gate[g];
    TS_DO(ts_rows_linear_forward(&k->w, r, k->s, l->in[k->in].value->x));
    TS_DO(softmax(l, r, k, TS_FORWARD));
    TS_DO(mix(l, r, g));
  }
  return TS_OK;
}

/* Where who reads input I puts its gradient; given adds it, where it is not
 * the first. */
static float *place_of(const ts_layer *l, int32_t i) {
  const ts_experts *d = l->data;
  return l->in[i].dx && d->written[i] ? d->dx : l->in[i].dx;
}
static ts_err given(const ts_layer *l, const ts_layer_run *r, int32_t i) {
  ts_experts *d = l->data;
  const ts_value *v = l->in[i].value;
  const bool add = d->written[i];
  d->written[i] = true;
  if (!l->in[i].dx || !add) return TS_OK;
  return ts_run_copy(l, r, l->in[i].dx, v->stride, d->dx, v->stride,
                     ts_shape_width(v->shape), true);
}

static ts_err backward(ts_layer *l, const ts_layer_run *r) {
  ts_experts *d = l->data;
  memset(d->written, 0, (size_t)l->n_in[TS_ROLE_IN] * sizeof *d->written);
  for (int32_t g = d->n_gates - 1; g >= 0; g--) {
    ts_gate *k = &d->gate[g];
    TS_DO(unmix(l, r, g));
    TS_DO(softmax(l, r, k, TS_BACKWARD));
    TS_DO(ts_rows_linear_backward(&k->w, r, place_of(l, k->in), d->ds,
                                  l->in[k->in].value->x, k->s));
    TS_DO(given(l, r, k->in));
  }
  for (int32_t e = d->n - 1; e >= 0; e--) {
    const int32_t i = expert_input(l, e);
    TS_DO(ts_mlp_backward(d->expert[e], place_of(l, i),
                          d->dy + e * expert_stride(l), r->batch, r->hooks,
                          r->lane));
    TS_DO(given(l, r, i));
  }
  return TS_OK;
}

static double products(const ts_layer *l) {
  const ts_experts *d = l->data;
  double sum = 0;
  for (int32_t g = 0; g < d->n_gates; g++) {
    ts_part part[2];
    const int32_t n = parts_of(l, g, part);
    for (int32_t i = 0; i < n; i++) sum += (double)part[i].n * d->u;
  }
  return sum;
}

const ts_layer_ops ts_layer_experts = {
    .kind = "experts",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .options_bytes = sizeof(ts_experts_options),
    .data_bytes = sizeof(ts_experts),
    .least = 1,
    .keeps_in = true,
    .shape = shape,
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .products = products,
    .page =
        "NAME@g = sum over e of p_ge expert_e(x), p_g = softmax(W_g x_g): a\n"
        "mixture of MLPs for each gate g (MMoE); with own > 0 the shared\n"
        "experts and the gate's own, a layer of PLE (CGC where it is one).\n"
        "mix_shared = true gives NAME@shared, too, of all experts, and the\n"
        "next layer of a PLE reads [\"a@ctr\", \"a@cvr\", \"a@shared\"].\n"
        "\n"
        "  in    one (B, n) for all; or one for each gate and its own\n"
        "        experts, and the last for the shared ones and their gate\n"
        "  out   NAME@g of each gate, NAME@shared: (B, last of units)\n"
        "  NAME.i.weight, NAME.i.bias: layer j of expert e at i = e L + j,\n"
        "        L layers each, shared experts first, then those of each\n"
        "        gate; then NAME.i.weight (experts mixed, n) of each gate,\n"
        "        the shared one last; shared experts come before its own in\n"
        "        a gate's rows: uniform in +-1/sqrt(n) as PyTorch's Linear\n"
        "  J. Ma et al., \"Modeling Task Relationships in Multi-task Learning\n"
        "  with Multi-gate Mixture-of-Experts\", KDD 2018; H. Tang et al.,\n"
        "  \"Progressive Layered Extraction (PLE)\", RecSys 2020\n"};
