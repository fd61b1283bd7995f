/* linear_onednn.c - linear layers by oneDNN's matrix products.
 *
 * f32 reads parameters as they are.  bf16 keeps the weights as one bf16 copy
 * per version, read by forward and backward alike, in rows and columns padded
 * to 32 with zeros: on CPUs with tiles another inner dimension halves the
 * speed.  oneDNN's own blocked formats gain 2 to 5 % of a product, and the
 * packing costs as much at batches up to a few thousand: not used.  Sums,
 * gradients of weights and the weights themselves stay f32.  Primitives are
 * made once per batch size on the lane's thread, those of a backward pass by
 * the first one of that size; of narrow layers on tokens y and dx are made in
 * pieces of rows (onednn_pieces.h). */
#include "config.h"
#ifdef HAVE_ONEDNN
#include <stdio.h>

#include "base/mem.h"
#include "dense/half.h"
#include "dense/linear_impl.h"
#include "dense/onednn_pieces.h"
#include "runtime/trace.h"

enum { BATCHES_MAX = 8, SOME_MAX = 2 };

/* The three products of a layer for one batch size. */
typedef struct ts_products {
  int32_t batch; /* 0: free */
  ts_product y, dx, dW;
} ts_products;

typedef struct ts_onednn {
  ts_onednn_stream stream;
  ts_products products[BATCHES_MAX];
  ts_products *last; /* of the last pass */
  int next;
  ts_pieces y, dx;          /* for any batch size; n 0: products has it */
  ts_pieces some[SOME_MAX]; /* of some outputs, from the first that asks */
  float *dW_alone;          /* for repeat, from its first call */
  /* bf16 */
  uint16_t *x16; /* (batch, k_pad), NULL where x comes as bf16 */
  uint16_t *w16; /* (n_pad, k_pad) */
  uint64_t w_version;
} ts_onednn;

static const char *version(void) {
  static char text[32];
  const dnnl_version_t *v = dnnl_version();
  snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
  return text;
}

/* Layers with fewer outputs are dot products. */
static bool has_bf16(int32_t n_out) {
  const int needed = (int)dnnl_cpu_isa_avx512_core_bf16;
  return n_out > TS_NARROW_MAX &&
         ((int)dnnl_get_effective_cpu_isa() & needed) == needed;
}

/* Elements from row to row of x and of dy, as products read them. */
static int64_t x_stride(const ts_linear *l) {
  return l->half && !l->spec.x_half ? l->k_pad : l->spec.in_stride;
}
static int64_t dy_stride(const ts_linear *l) {
  return l->half && !l->spec.y_half ? l->n_pad : l->spec.out_stride;
}

/* In pieces, of N outputs. */
static ts_err make_pieces(ts_pieces *p, const ts_linear *l, int64_t n) {
  const ts_linear_spec *s = &l->spec;
  const int64_t K = s->n_in;
  const ts_matrix x = {0, K, s->in_stride, 1, dnnl_f32};
  const ts_matrix wT = {K, n, 1, K, dnnl_f32};
  const ts_matrix y = {0, n, n, 1, dnnl_f32};
  return ts_pieces_make(p, x, wT, y, l->b != NULL, s->relu);
}

static ts_err make_y(ts_product *p, const ts_linear *l, int32_t rows) {
  const ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  const dnnl_data_type_t type = l->half ? dnnl_bf16 : dnnl_f32;
  const dnnl_data_type_t y_type = s->y_half ? dnnl_bf16 : dnnl_f32;
  const int64_t N = s->n_out, Kp = l->half ? l->k_pad : s->n_in;
  const ts_matrix x = {rows, Kp, x_stride(l), 1, type};
  const ts_matrix wT = {Kp, N, 1, Kp, type};
  const ts_matrix y = {rows, N, s->out_stride, 1, y_type};
  if (p->primitive) return TS_OK;
  return ts_product_matmul(p, &o->stream, x, wT, y, l->b != NULL, s->relu);
}

static ts_err make_backward(ts_products *p, const ts_linear *l) {
  ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  const bool half = l->half;
  const dnnl_data_type_t type = half ? dnnl_bf16 : dnnl_f32;
  const dnnl_data_type_t dx_type = s->x_half ? dnnl_bf16 : dnnl_f32;
  const int64_t B = p->batch, N = s->n_out, K = s->n_in;
  const int64_t Np = half ? l->n_pad : N, Kp = half ? l->k_pad : K;
  const ts_matrix dy = {B, Np, dy_stride(l), 1, type};
  const ts_matrix w = {Np, K, Kp, 1, type};
  const ts_matrix dx = {B, K, s->in_stride, 1, dx_type};
  const ts_matrix dy_own = {B, N, dy_stride(l), 1, type};
  const ts_matrix x_own = {B, K, x_stride(l), 1, type};
  const ts_matrix dW = {N, K, K, 1, dnnl_f32};
  if (p->dW.primitive) return TS_OK;
  if (s->need_dx && o->y.n && !o->dx.n)
    TS_DO(ts_pieces_make(&o->dx, dy, w, dx, false, false));
  if (s->need_dx && !o->y.n)
    TS_DO(ts_product_matmul(&p->dx, &o->stream, dy, w, dx, false, false));
  return ts_product_weights(&p->dW, &o->stream, dy_own, x_own, dW);
}

static void products_reset(ts_products *p) {
  ts_product_reset(&p->y);
  ts_product_reset(&p->dx);
  ts_product_reset(&p->dW);
  p->batch = 0;
}

/* Those for BATCH samples, which their passes make; few sizes are met in a run.
 */
static ts_products *products_of(ts_onednn *o, int32_t batch) {
  for (int i = 0; i < BATCHES_MAX; i++)
    if (o->products[i].batch == batch) return &o->products[i];
  ts_products *p = &o->products[o->next];
  o->next = o->next + 1 < BATCHES_MAX ? o->next + 1 : 1; /* 0: batch_max */
  products_reset(p);
  p->batch = batch;
  return p;
}

static ts_err create_half(ts_linear *l) {
  ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  o->w_version = UINT64_MAX;
  if (!s->x_half)
    TS_DO(ts_mem_array(&o->x16, (int64_t)s->batch_max * l->k_pad, 2,
                       TS_TAG_ACTIVATIONS));
  return ts_mem_array(&o->w16, (int64_t)l->n_pad * l->k_pad, 2, TS_TAG_DENSE);
}

/* By its shape alone, which all ranks see alike. */
static bool has_pieces(const ts_linear *l) {
  const ts_linear_spec *s = &l->spec;
  return s->varies && !l->half && !s->part &&
         (int64_t)s->n_in * s->n_out <= TS_PIECE_WEIGHTS;
}

static ts_err create(ts_linear *l) {
  ts_onednn *o;
  TS_DO(ts_mem_alloc(&o, sizeof *o, TS_TAG_DENSE));
  l->data = o;
  TS_DO(ts_linear_mask_create(l));
  TS_DO(ts_onednn_stream_init(&o->stream));
  if (l->half) TS_DO(create_half(l));
  o->last = products_of(o, l->spec.batch_max);
  TS_DO(has_pieces(l) ? make_pieces(&o->y, l, l->spec.n_out)
                      : make_y(&o->last->y, l, l->spec.batch_max));
  return make_backward(o->last, l);
}

static void destroy(ts_linear *l) {
  ts_onednn *o = l->data;
  for (int i = 0; i < BATCHES_MAX; i++) products_reset(&o->products[i]);
  ts_pieces_reset(&o->y);
  ts_pieces_reset(&o->dx);
  for (int i = 0; i < SOME_MAX; i++) ts_pieces_reset(&o->some[i]);
  ts_onednn_stream_reset(&o->stream);
  ts_mem_free(o->dW_alone);
  ts_mem_free(o->x16);
  ts_mem_free(o->w16);
  ts_mem_free(o);
}

static ts_err run(ts_onednn *o, ts_product *p, const void *a, const void *b,
                  void *c, const float *bias) {
  const double t0 = ts_now();
  const ts_err err = ts_product_run(p, &o->stream, a, b, c, bias);
  ts_timer_part(TS_LINEAR_PRODUCTS, ts_now() - t0);
  return err;
}

/* ---- forward ------------------------------------------------------------- */

/* Once per version: w may lie elsewhere in the next pass, w16 stays. */
static void take_weights(ts_linear *l) {
  ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  if (o->w_version == l->W->version) return;
  ts_half_rows(o->w16, l->k_pad, l->at.W, s->n_in, s->n_out, s->n_in);
  o->w_version = l->W->version;
}

static ts_err run_pieces(ts_pieces *p, const struct ts_piece_run *r) {
  const double t0 = ts_now();
  const ts_err err = ts_pieces_run(p, r);
  ts_timer_part(TS_LINEAR_PRODUCTS, ts_now() - t0);
  return err;
}

static ts_err forward(ts_linear *l, void *y, const void *x, int32_t batch) {
  ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  if (o->y.n) {
    const struct ts_piece_run r = {x, l->at.W, l->at.b, y, batch};
    return run_pieces(&o->y, &r);
  }
  o->last = products_of(o, batch);
  TS_DO(make_y(&o->last->y, l, batch));
  if (!l->half) return run(o, &o->last->y, x, l->at.W, y, l->at.b);
  if (!s->x_half)
    ts_half_rows(o->x16, l->k_pad, x, s->in_stride, batch, s->n_in);
  take_weights(l);
  return run(o, &o->last->y, s->x_half ? x : o->x16, o->w16, y, l->at.b);
}

static bool has_some(const ts_linear *l) {
  const ts_onednn *o = l->data;
  return o->y.n > 0;
}

static ts_err forward_some(ts_linear *l, float *y, const float *x,
                           int32_t batch, int32_t n) {
  ts_onednn *o = l->data;
  const struct ts_piece_run r = {x, l->at.W, l->at.b, y, batch};
  int i = 0;
  while (i < SOME_MAX - 1 && o->some[i].n && o->some[i].cols != n) i++;
  if (o->some[i].cols != n) ts_pieces_reset(&o->some[i]);
  if (!o->some[i].n) TS_DO(make_pieces(&o->some[i], l, n));
  return run_pieces(&o->some[i], &r);
}

/* ---- backward ------------------------------------------------------------ */

static void zero_padding(const ts_linear_spec *s, float *dx, int32_t batch) {
  for (int32_t i = 0; i < batch; i++)
    for (int32_t k = s->n_in; k < s->in_stride; k++)
      dx[(int64_t)i * s->in_stride + k] = 0;
}

/* x16 and w16 are forward's. */
static ts_err backward(ts_linear *l, void *dx, void *grad, const void *x,
                       const void *y, int32_t batch) {
  ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  const void *dy = ts_linear_masked(l, grad, y, batch);
  o->last = products_of(o, batch);
  TS_DO(make_backward(o->last, l));
  if (dx && o->dx.n) {
    const struct ts_piece_run r = {dy, l->at.W, NULL, dx, batch};
    TS_DO(run_pieces(&o->dx, &r));
  } else if (dx) {
    TS_DO(
        run(o, &o->last->dx, dy, l->half ? (void *)o->w16 : l->at.W, dx, NULL));
  }
  if (dx && !s->x_half && !s->part) zero_padding(s, dx, batch);
  return run(o, &o->last->dW, dy, o->x16 ? o->x16 : x, l->at.dW, NULL);
}

static ts_err repeat(ts_linear *l, ts_pass pass) {
  ts_onednn *o = l->data;
  ts_products *p = o->last;
  if (pass == TS_FORWARD && o->y.n) return ts_pieces_again(&o->y);
  if (pass == TS_FORWARD) return ts_product_again(&p->y, &o->stream, NULL);
  if (!o->dW_alone) TS_DO(ts_mem_many(o->dW_alone, l->W->n, DENSE));
  TS_DO(o->dx.n ? ts_pieces_again(&o->dx)
                : ts_product_again(&p->dx, &o->stream, NULL));
  return ts_product_again(&p->dW, &o->stream, o->dW_alone);
}

const ts_engine ts_engine_onednn = {.name = "onednn",
                                    .version = version,
                                    .has_bf16 = has_bf16,
                                    .create = create,
                                    .destroy = destroy,
                                    .forward = forward,
                                    .forward_some = forward_some,
                                    .has_some = has_some,
                                    .backward = backward,
                                    .repeat = repeat};
#else
typedef int ts_no_onednn; /* a file must hold something */
#endif
