/* linear_onednn.c - matrix products by oneDNN's matmul.
 *
 * f32 reads the parameter as it is: packing the weights anew each step costs
 * more than the few percent it gains.  bf16 converts activations and weights
 * into buffers whose inner dimension is padded to 32, which doubles oneDNN's
 * speed there; sums, gradients and weights stay f32.  Primitives are made
 * once per batch size on the lane's thread; scratchpads are ours. */
#include "config.h"
#ifdef HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "dense/linear_impl.h"
#include "runtime/trace.h"

enum { BATCHES_MAX = 8 };

/* C (m, n) = A (m, k) B (k, n) [+ bias, ReLU], each with two strides. */
typedef struct ts_product {
  dnnl_primitive_t primitive;
  dnnl_memory_t a, b, c, bias, scratch;
  void *scratch_ptr;
} ts_product;

typedef struct ts_matrix {
  int64_t rows, cols, row_stride, col_stride;
  dnnl_data_type_t type;
} ts_matrix;

/* The three products of a layer for one batch size. */
typedef struct ts_products {
  int32_t batch; /* 0: free */
  ts_product y, dx, dW;
} ts_products;

typedef struct ts_onednn {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  ts_products products[BATCHES_MAX];
  int next;
  /* bf16 */
  int32_t k_pad;
  uint16_t *x16, *w16, *dy16; /* (batch, k_pad), (n_out, k_pad), (b, n_out) */
  uint64_t w_version;
} ts_onednn;

static ts_err check(dnnl_status_t status, const char *call) {
  if (status == dnnl_success) return TS_OK;
  return ts_fail(status == dnnl_out_of_memory ? TS_ERR_NOMEM : TS_ERR_INTERNAL,
                 "oneDNN: %.60s gave status %d", call, (int)status);
}
#define DNNL(call) check((call), #call)

const char *ts_engine_onednn_version(void) {
  static char text[32];
  const dnnl_version_t *v = dnnl_version();
  snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
  return text;
}

static ts_err describe(dnnl_memory_desc_t *md, const ts_matrix *m) {
  const dnnl_dims_t dims = {m->rows, m->cols};
  const dnnl_dims_t strides = {m->row_stride, m->col_stride};
  return DNNL(dnnl_memory_desc_init_by_strides(md, 2, dims, m->type, strides));
}

static ts_err set_relu(dnnl_primitive_attr_t attr) {
  ts_err err = TS_OK;
  dnnl_post_ops_t ops = NULL;
  TS_TRY(DNNL(dnnl_post_ops_create(&ops)));
  TS_TRY(DNNL(
      dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f)));
  TS_TRY(DNNL(dnnl_primitive_attr_set_post_ops(attr, ops)));
done:
  if (ops) dnnl_post_ops_destroy(ops);
  return err;
}

static ts_err make_scratch(ts_product *p, const ts_onednn *o,
                           const_dnnl_primitive_desc_t pd) {
  ts_err err = TS_OK;
  const dnnl_memory_desc_t *md =
      dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  const size_t bytes = md ? dnnl_memory_desc_get_size(md) : 0;
  if (!bytes) goto done;
  TS_TRY(ts_mem_alloc(&p->scratch_ptr, bytes, TS_TAG_ACTIVATIONS));
  TS_TRY(DNNL(dnnl_memory_create(&p->scratch, md, o->engine, p->scratch_ptr)));
done:
  return err;
}

static ts_err make_memories(ts_product *p, const ts_onednn *o,
                            const dnnl_memory_desc_t md[4], bool bias) {
  ts_err err = TS_OK;
  dnnl_memory_t *memory[4] = {&p->a, &p->b, &p->c, &p->bias};
  for (int i = 0; i < (bias ? 4 : 3); i++)
    TS_TRY(DNNL(
        dnnl_memory_create(memory[i], &md[i], o->engine, DNNL_MEMORY_NONE)));
done:
  return err;
}

static ts_err product_create(ts_product *p, const ts_onednn *o, ts_matrix a,
                             ts_matrix b, ts_matrix c, bool bias, bool relu) {
  ts_err err = TS_OK;
  dnnl_memory_desc_t md[4];
  dnnl_matmul_desc_t op;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  const ts_matrix row = {1, c.cols, c.cols, 1, dnnl_f32};
  TS_TRY(describe(&md[0], &a));
  TS_TRY(describe(&md[1], &b));
  TS_TRY(describe(&md[2], &c));
  TS_TRY(describe(&md[3], &row));
  TS_TRY(DNNL(dnnl_matmul_desc_init(&op, &md[0], &md[1], bias ? &md[3] : NULL,
                                    &md[2])));
  TS_TRY(DNNL(dnnl_primitive_attr_create(&attr)));
  TS_TRY(DNNL(dnnl_primitive_attr_set_scratchpad_mode(
      attr, dnnl_scratchpad_mode_user)));
  if (relu) TS_TRY(set_relu(attr));
  TS_TRY(DNNL(dnnl_primitive_desc_create(&pd, &op, attr, o->engine, NULL)));
  TS_TRY(DNNL(dnnl_primitive_create(&p->primitive, pd)));
  TS_TRY(make_memories(p, o, md, bias));
  TS_TRY(make_scratch(p, o, pd));
done:
  if (attr) dnnl_primitive_attr_destroy(attr);
  if (pd) dnnl_primitive_desc_destroy(pd);
  return err;
}

static void product_reset(ts_product *p) {
  dnnl_memory_t memory[] = {p->a, p->b, p->c, p->bias, p->scratch};
  for (int i = 0; i < 5; i++)
    if (memory[i]) dnnl_memory_destroy(memory[i]);
  if (p->primitive) dnnl_primitive_destroy(p->primitive);
  ts_mem_free(p->scratch_ptr);
  *p = (ts_product){0};
}

static ts_err run(const ts_onednn *o, ts_product *p, const void *a,
                  const void *b, float *c, const float *bias) {
  ts_err err = TS_OK;
  dnnl_exec_arg_t args[5] = {
      {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
  int n = 3;
  TS_TRY(DNNL(dnnl_memory_set_data_handle(p->a, (void *)a)));
  TS_TRY(DNNL(dnnl_memory_set_data_handle(p->b, (void *)b)));
  TS_TRY(DNNL(dnnl_memory_set_data_handle(p->c, c)));
  if (bias) {
    TS_TRY(DNNL(dnnl_memory_set_data_handle(p->bias, (void *)bias)));
    args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, p->bias};
  }
  if (p->scratch)
    args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->scratch};
  const double t0 = ts_now();
  TS_TRY(DNNL(dnnl_primitive_execute(p->primitive, o->stream, n, args)));
  TS_TRY(DNNL(dnnl_stream_wait(o->stream)));
  ts_timer_add(TS_LINEAR_PRODUCTS, ts_now() - t0);
done:
  return err;
}

/* ---- layers -------------------------------------------------------------- */

static ts_err products_create(ts_products *p, const ts_linear *l,
                              int32_t batch) {
  ts_err err = TS_OK;
  const ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  const bool half = s->precision == TS_PRECISION_BF16;
  const dnnl_data_type_t type = half ? dnnl_bf16 : dnnl_f32;
  const int64_t B = batch, N = s->n_out, K = half ? o->k_pad : s->n_in;
  const int64_t x_stride = half ? o->k_pad : s->in_stride, w_stride = K;
  const ts_matrix x = {B, K, x_stride, 1, type};
  const ts_matrix wT = {K, N, 1, w_stride, type};
  const ts_matrix y = {B, N, N, 1, dnnl_f32};
  const ts_matrix dy = {B, N, N, 1, type};
  const ts_matrix w = {N, s->n_in, w_stride, 1, type};
  const ts_matrix dx = {B, s->n_in, s->in_stride, 1, dnnl_f32};
  const ts_matrix dyT = {N, B, 1, N, type};
  const ts_matrix x_own = {B, s->n_in, x_stride, 1, type};
  const ts_matrix dW = {N, s->n_in, s->n_in, 1, dnnl_f32};
  p->batch = batch;
  TS_TRY(product_create(&p->y, o, x, wT, y, true, s->relu));
  TS_TRY(product_create(&p->dW, o, dyT, x_own, dW, false, false));
  if (s->need_dx) TS_TRY(product_create(&p->dx, o, dy, w, dx, false, false));
done:
  return err;
}

static void products_reset(ts_products *p) {
  product_reset(&p->y);
  product_reset(&p->dx);
  product_reset(&p->dW);
  p->batch = 0;
}

/* The products for BATCH samples; few sizes are met in a run. */
static ts_err products_of(ts_products **out, ts_linear *l, int32_t batch) {
  ts_onednn *o = l->data;
  for (int i = 0; i < BATCHES_MAX; i++)
    if (o->products[i].batch == batch) {
      *out = &o->products[i];
      return TS_OK;
    }
  *out = &o->products[o->next];
  o->next = o->next + 1 < BATCHES_MAX ? o->next + 1 : 1; /* 0: batch_max */
  products_reset(*out);
  return products_create(*out, l, batch);
}

static ts_err create_half(ts_linear *l) {
  ts_err err = TS_OK;
  ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  o->k_pad = (s->n_in + 31) / 32 * 32;
  o->w_version = UINT64_MAX;
  TS_TRY(ts_mem_array(&o->x16, (int64_t)s->batch_max * o->k_pad, 2,
                      TS_TAG_ACTIVATIONS));
  TS_TRY(ts_mem_array(&o->w16, (int64_t)s->n_out * o->k_pad, 2, TS_TAG_DENSE));
  TS_TRY(ts_mem_array(&o->dy16, (int64_t)s->batch_max * s->n_out, 2,
                      TS_TAG_ACTIVATIONS));
done:
  return err;
}

static ts_err create(ts_linear *l) {
  ts_err err = TS_OK;
  ts_onednn *o;
  ts_products *p;
  TS_TRY(ts_mem_alloc(&o, sizeof *o, TS_TAG_DENSE));
  l->data = o;
  TS_TRY(DNNL(dnnl_engine_create(&o->engine, dnnl_cpu, 0)));
  TS_TRY(DNNL(
      dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags)));
  if (l->spec.precision == TS_PRECISION_BF16) TS_TRY(create_half(l));
  TS_TRY(products_of(&p, l, l->spec.batch_max));
done:
  return err;
}

static void destroy(ts_linear *l) {
  ts_onednn *o = l->data;
  for (int i = 0; i < BATCHES_MAX; i++) products_reset(&o->products[i]);
  if (o->stream) dnnl_stream_destroy(o->stream);
  if (o->engine) dnnl_engine_destroy(o->engine);
  ts_mem_free(o->x16);
  ts_mem_free(o->w16);
  ts_mem_free(o->dy16);
  ts_mem_free(o);
}

/* Rows of N floats at a stride to bf16 rows at another, rest zeros. */
static void to_half(uint16_t *dst, int64_t dst_stride, const float *src,
                    int64_t src_stride, int64_t rows, int64_t n) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < n; k++) {
      uint32_t u;
      memcpy(&u, src + i * src_stride + k, 4);
      dst[i * dst_stride + k] = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
    for (int64_t k = n; k < dst_stride; k++) dst[i * dst_stride + k] = 0;
  }
}

static ts_err forward(ts_linear *l, float *y, const float *x, int32_t batch) {
  ts_err err = TS_OK;
  ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  ts_products *p;
  TS_TRY(products_of(&p, l, batch));
  if (s->precision != TS_PRECISION_BF16)
    return run(o, &p->y, x, l->at.W, y, l->at.b);
  to_half(o->x16, o->k_pad, x, s->in_stride, batch, s->n_in);
  if (o->w_version != l->W->version) {
    to_half(o->w16, o->k_pad, l->at.W, s->n_in, s->n_out, s->n_in);
    o->w_version = l->W->version;
  }
  TS_TRY(run(o, &p->y, o->x16, o->w16, y, l->at.b));
done:
  return err;
}

static void zero_padding(const ts_linear_spec *s, float *dx, int32_t batch) {
  for (int32_t i = 0; i < batch; i++)
    for (int32_t k = s->n_in; k < s->in_stride; k++)
      dx[(int64_t)i * s->in_stride + k] = 0;
}

static ts_err backward(ts_linear *l, float *dx, const float *dy, const float *x,
                       int32_t batch) {
  ts_err err = TS_OK;
  ts_onednn *o = l->data;
  const ts_linear_spec *s = &l->spec;
  const bool half = s->precision == TS_PRECISION_BF16;
  ts_products *p;
  TS_TRY(products_of(&p, l, batch));
  if (half) /* x16 and w16 are forward's */
    to_half(o->dy16, s->n_out, dy, s->n_out, batch, s->n_out);
  const void *g = half ? (const void *)o->dy16 : dy;
  if (dx) {
    TS_TRY(run(o, &p->dx, g, half ? (const void *)o->w16 : l->at.W, dx, NULL));
    zero_padding(s, dx, batch);
  }
  TS_TRY(run(o, &p->dW, g, half ? (const void *)o->x16 : x, l->at.dW, NULL));
done:
  return err;
}

static ts_err again(const ts_onednn *o, ts_product *p) {
  ts_err err = TS_OK;
  dnnl_exec_arg_t args[5] = {
      {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
  int n = 3;
  if (p->bias) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, p->bias};
  if (p->scratch)
    args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->scratch};
  TS_TRY(DNNL(dnnl_primitive_execute(p->primitive, o->stream, n, args)));
  TS_TRY(DNNL(dnnl_stream_wait(o->stream)));
done:
  return err;
}

static ts_err repeat(ts_linear *l, ts_pass pass) {
  ts_onednn *o = l->data;
  ts_products *p = &o->products[0];
  if (pass == TS_FORWARD) return again(o, &p->y);
  if (l->spec.need_dx) again(o, &p->dx);
  return again(o, &p->dW);
}

const ts_engine ts_engine_onednn = {.name = "onednn",
                                    .create = create,
                                    .destroy = destroy,
                                    .forward = forward,
                                    .backward = backward,
                                    .repeat = repeat};
#else
typedef int ts_no_onednn; /* a file must hold something */
#endif
