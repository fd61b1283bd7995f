/* products_shapes.cu - the products of a layer for one batch size: what the
 * library is told of them, and what is fused. */
#include "cuda/dense/products.h"

static cublasLtEpilogue_t forward_epilogue(const ts_linear *l, bool mask) {
  int e = 0;
  if (l->b) e |= CUBLASLT_EPILOGUE_BIAS;
  if (l->spec.relu)
    e |= mask ? CUBLASLT_EPILOGUE_RELU_AUX : CUBLASLT_EPILOGUE_RELU;
  return (cublasLtEpilogue_t)(e ? e : CUBLASLT_EPILOGUE_DEFAULT);
}

static ts_err fused_init(ts_fused *f, ts_product_spec s,
                         cublasLtEpilogue_t with, cublasLtEpilogue_t without,
                         int64_t aux_ld) {
  s.epilogue = without;
  TS_DO(ts_product_init(&f->without, &s));
  s.epilogue = with;
  s.aux_ld = aux_ld;
  if (with != without) TS_DO(ts_product_init(&f->with, &s));
  return TS_OK;
}

static void fused_reset(ts_fused *f) {
  ts_product_reset(&f->with);
  ts_product_reset(&f->without);
  f->last = NULL;
}

/* (m, n) over k; D_HALF: it is bf16. */
static ts_product_spec spec_of(const ts_linear *l, int64_t m, int64_t n,
                               int64_t k, bool d_half) {
  ts_product_spec s = {m, n, k};
  s.type = l->half ? CUDA_R_16BF : CUDA_R_32F;
  s.d_type = d_half ? CUDA_R_16BF : CUDA_R_32F;
  s.compute = l->spec.precision == TS_PRECISION_TF32
                  ? CUBLAS_COMPUTE_32F_FAST_TF32
                  : CUBLAS_COMPUTE_32F;
  return s;
}

static int64_t x_stride(const ts_linear *l) {
  return l->half && !l->spec.x_half ? l->k_pad : l->spec.in_stride;
}

static ts_err init_y(ts_layer_products *p, const ts_linear *l, int32_t batch) {
  const ts_linear_spec *s = &l->spec;
  const ts_cuda_linear *d = ts_cuda_linear_of(l);
  ts_product_spec y =
      spec_of(l, s->n_out, batch, l->half ? l->k_pad : s->n_in, s->y_half);
  y.ta = true;
  y.lda = y.k;
  y.ldb = x_stride(l);
  y.ldd = s->out_stride;
  return fused_init(&p->y, y, forward_epilogue(l, d->mask != NULL),
                    forward_epilogue(l, false), d->mask_ld);
}

ts_linear *ts_masks_for(const ts_linear *l) {
  ts_linear *b = l->spec.below;
  return b && b->engine == l->engine && b->spec.relu &&
                 b->half == b->spec.y_half
             ? b
             : NULL;
}

static ts_err init_dx(ts_layer_products *p, const ts_linear *l, int32_t batch) {
  const ts_linear_spec *s = &l->spec;
  const ts_linear *below = ts_masks_for(l);
  ts_product_spec dx =
      spec_of(l, s->n_in, batch, l->half ? l->n_pad : s->n_out, s->x_half);
  dx.lda = l->half ? l->k_pad : s->n_in;
  dx.ldb = ts_g_stride(l);
  dx.ldd = s->in_stride;
  return fused_init(
      &p->dx, dx,
      below ? CUBLASLT_EPILOGUE_DRELU_BGRAD : CUBLASLT_EPILOGUE_DEFAULT,
      CUBLASLT_EPILOGUE_DEFAULT, below ? ts_cuda_linear_of(below)->mask_ld : 0);
}

static ts_err init_dW(ts_layer_products *p, const ts_linear *l, int32_t batch) {
  const ts_linear_spec *s = &l->spec;
  ts_product_spec dW = spec_of(l, s->n_in, s->n_out, batch, false);
  dW.tb = true;
  dW.lda = x_stride(l);
  dW.ldb = ts_g_stride(l);
  dW.ldd = s->n_in;
  return fused_init(&p->dW, dW,
                    l->b ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_DEFAULT,
                    CUBLASLT_EPILOGUE_DEFAULT, 0);
}

void ts_layer_products_reset(ts_layer_products *p) {
  fused_reset(&p->y);
  fused_reset(&p->dx);
  fused_reset(&p->dW);
  p->batch = 0;
}

ts_err ts_layer_products_of(ts_layer_products **out, const ts_linear *l,
                            int32_t batch) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  for (int i = 0; i < TS_BATCHES_MAX; i++)
    if (d->products[i].batch == batch) {
      *out = &d->products[i];
      return TS_OK;
    }
  ts_layer_products *p = &d->products[d->next];
  d->next = d->next + 1 < TS_BATCHES_MAX ? d->next + 1 : 1; /* 0: the first */
  ts_layer_products_reset(p);
  TS_DO(init_y(p, l, batch));
  TS_DO(init_dW(p, l, batch));
  if (l->spec.need_dx) TS_DO(init_dx(p, l, batch));
  p->batch = batch;
  *out = p;
  return TS_OK;
}

/* Runs F's product with all that is fused; *DID: the library has it, and would
 * run it. */
static ts_err run_with(ts_fused *f, ts_blas *blas, const ts_product_at *at,
                       bool *did) {
  ts_err err;
  TS_DO(ts_product_prepare(&f->with, blas, *at, did));
  if (!*did) return TS_OK;
  f->last = &f->with;
  err = ts_product_run(&f->with, blas, *at);
  if (err == TS_OK || !f->with.refused) return err;
  ts_err_clear();
  *did = false;
  return ts_product_give_up(&f->with);
}

ts_err ts_fused_run(ts_fused *f, ts_blas *blas, const ts_product_at *at,
                    bool wanted, bool *did) {
  bool fits = false;
  *did = false;
  if (wanted && f->with.desc) TS_DO(run_with(f, blas, at, did));
  if (*did) return TS_OK;
  f->last = &f->without;
  TS_DO(ts_product_prepare(f->last, blas, *at, &fits));
  if (!fits)
    return ts_fail(TS_ERR_INTERNAL,
                   "cuBLASLt has no product of %lld x %lld x %lld with "
                   "epilogue %d",
                   (long long)f->last->spec.m, (long long)f->last->spec.n,
                   (long long)f->last->spec.k, (int)f->last->spec.epilogue);
  return ts_product_run(f->last, blas, *at);
}

ts_err ts_products_unfused(ts_str *text) {
  static const ts_choice_kind kinds[] = {
      {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, "y with bias, ReLU and its mask"},
      {CUBLASLT_EPILOGUE_RELU_AUX, "y with ReLU and its mask"},
      {CUBLASLT_EPILOGUE_DRELU_BGRAD,
       "dx with ReLU's mask and a bias' gradient"},
      {CUBLASLT_EPILOGUE_BGRADB, "dW with the bias' gradient"},
      {0, NULL}};
  return ts_choices_unfused(text, kinds);
}
