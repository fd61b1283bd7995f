/* products.cu - linear layers on the GPU: matrix products by cuBLASLt.
 *
 * A layer is y = act(x W^T + b).  The library's matrices, column-major, are
 *
 *   y (n_out, B) = W^T x        W (n_in, n_out), x (n_in, B)
 *   dx (n_in, B) = W g          g (n_out, B)
 *   dW (n_in, n_out) = x g^T
 *
 * so bias and its gradient run along y's and dx's rows.  The library fuses
 * bias, ReLU and its mask, a bit for each output, which a layer keeps where
 * another one stands above it.  That one's dx is the lower one's dy: it is
 * masked as it is written, and its columns are summed.  The sums wait in the
 * lower layer's own array, as its gradients may have no place yet.
 * cuda/dense/mask.h masks a dy that comes from elsewhere, and does all that the
 * library can't fuse.  A layer without ReLU has its bias' gradient from the dW
 * product.
 *
 * bf16: W and b are kept as one bf16 copy per version; x and dy, too, where
 * they come as f32.  Inner dimensions are padded to 32 with zeros.  Sums and dW
 * are f32; a bias that is added to y of bf16 is bf16, as the library has it. */
#include <string.h>

#include "cuda/dense/mask.h"
#include "cuda/dense/products.h"

static ts_err take(ts_linear *l, void *p, int64_t n, size_t size) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  return ts_arrays_take(&d->arrays, ts_lane_device(d->blas->lane), p, n, size,
                        TS_TAG_ACTIVATIONS);
}

/* ---- layers -------------------------------------------------------------- */

/* The arrays of L that the layer above writes and reads. */
static ts_err make_mask(ts_linear *l) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  const ts_linear_spec *s = &l->spec;
  d->mask_ld = ts_round_up(s->n_out, TS_MASK_BITS);
  TS_DO(take(l, &d->mask, s->batch_max * d->mask_ld / 8, 1));
  return take(l, &d->db, s->n_out, s->y_half ? 2 : 4);
}

static ts_err make_half(ts_linear *l) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  const ts_linear_spec *s = &l->spec;
  const int64_t rows = s->batch_max;
  TS_DO(take(l, &d->w16, (int64_t)l->n_pad * l->k_pad, 2));
  if (!s->x_half) TS_DO(take(l, &d->x16, rows * l->k_pad, 2));
  if (!s->y_half) TS_DO(take(l, &d->g16, rows * l->n_pad, 2));
  if (s->y_half && l->b) TS_DO(take(l, &d->b16, s->n_out, 2));
  return TS_OK;
}

static ts_err create(ts_linear *l) {
  ts_cuda_linear *d;
  const ts_linear_spec *s = &l->spec;
  TS_DO(ts_mem_alloc(&d, sizeof *d, TS_TAG_DENSE));
  l->data = d;
  d->w_version = d->b_version = UINT64_MAX;
  TS_DO(ts_blas_take(&d->blas, ts_cuda_lane_now()));
  if (l->half) TS_DO(make_half(l));
  TS_DO(take(l, &d->parts, ts_cuda_mask_parts(s->batch_max) * s->n_out, 4));
  if (ts_masks_for(l)) TS_DO(make_mask(s->below));
  return TS_OK;
}

static void destroy(ts_linear *l) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  for (int i = 0; i < TS_BATCHES_MAX; i++)
    ts_layer_products_reset(&d->products[i]);
  ts_arrays_reset(&d->arrays);
  ts_blas_give(d->blas);
  ts_mem_free(d);
}

static ts_err to_half(const ts_linear *l, uint16_t *to, int64_t to_stride,
                      const float *from, int64_t from_stride, int64_t rows,
                      int64_t n) {
  const ts_half_args a = {to, from, to_stride, from_stride, rows, n};
  return l->spec.kernels->half_rows(&a);
}

/* Once for each version of the weights: they may lie elsewhere in the next
 * pass. */
static ts_err take_weights(ts_linear *l) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  const ts_linear_spec *s = &l->spec;
  if (d->w_version != l->W->version)
    TS_DO(to_half(l, d->w16, l->k_pad, l->at.W, s->n_in, s->n_out, s->n_in));
  d->w_version = l->W->version;
  if (d->b16 && d->b_version != l->b->version)
    TS_DO(to_half(l, d->b16, s->n_out, l->at.b, s->n_out, 1, s->n_out));
  d->b_version = l->b ? l->b->version : 0;
  return TS_OK;
}

static ts_err forward(ts_linear *l, void *y, const void *x, int32_t batch) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  const ts_linear_spec *s = &l->spec;
  bool masked;
  ts_product_at at = {l->at.W, x, y, (void *)l->at.b, d->mask};
  d->dy = NULL;
  TS_DO(ts_layer_products_of(&d->last, l, batch));
  if (l->half) {
    TS_DO(take_weights(l));
    at.a = d->w16;
    if (d->b16) at.bias = d->b16;
  }
  if (d->x16) {
    TS_DO(to_half(l, d->x16, l->k_pad, (const float *)x, s->in_stride, batch,
                  s->n_in));
    at.b = d->x16;
  }
  TS_DO(ts_fused_run(&d->last->y, d->blas, &at, d->mask != NULL, &masked));
  d->masked = masked ? batch : 0;
  return TS_OK;
}

/* ---- backward ------------------------------------------------------------ */

/* The gradient DY in l's own dtype to OUT, masked by ReLU's Y, and its columns'
 * sums; OUT, Y NULL: without. */
static ts_err mask(const ts_linear *l, void *out, const void *dy, const void *y,
                   int32_t batch) {
  const ts_cuda_linear *d = ts_cuda_linear_of(l);
  const ts_linear_spec *s = &l->spec;
  const ts_cuda_mask_args a = {dy,
                               y,
                               out,
                               l->at.db,
                               d->parts,
                               s->out_stride,
                               s->out_stride,
                               ts_g_stride(l),
                               s->y_half,
                               l->half,
                               batch,
                               s->n_out};
  return ts_cuda_mask(&a, ts_cuda_stream(d->blas->lane));
}

/* *G: the gradient that the products read; *SUMMED: db is made, too. */
static ts_err make_g(ts_linear *l, const void **g, bool *summed, void *dy,
                     const void *y, int32_t batch) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  const ts_linear_spec *s = &l->spec;
  cudaStream_t stream = ts_cuda_stream(d->blas->lane);
  const bool masked = d->dy == dy;
  d->dy = NULL;
  *g = dy;
  *summed = true;
  if (masked && !l->at.db) return TS_OK;
  if (masked && s->y_half)
    return ts_cuda_widen_bf16(l->at.db, (const uint16_t *)d->db, s->n_out,
                              stream);
  if (masked)
    return ts_cuda_move(l->at.db, d->db, (size_t)s->n_out * sizeof(float),
                        stream);
  *summed = s->relu || d->g16;
  if (!*summed) return TS_OK;
  if (d->g16) *g = d->g16;
  return mask(l, (void *)*g, dy, s->relu ? y : NULL, batch);
}

/* Zeroes in rows that are wider than what is written of them. */
typedef struct ts_gaps {
  void *at;
  size_t pitch, width, height;
} ts_gaps;

static ts_err clear_gaps(const void *arg, cudaStream_t stream) {
  const ts_gaps *a = (const ts_gaps *)arg;
  return TS_CUDA(
      cudaMemset2DAsync(a->at, a->pitch, 0, a->width, a->height, stream));
}

static ts_err grad_x(ts_linear *l, void *dx, const void *g, int32_t batch) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  const ts_linear_spec *s = &l->spec;
  const ts_linear *below = ts_masks_for(l);
  ts_cuda_linear *under = below ? ts_cuda_linear_of(below) : NULL;
  const size_t gap = (size_t)(s->in_stride - s->n_in) * sizeof(float);
  bool masked;
  const ts_product_at at = {l->half ? (const void *)d->w16 : l->at.W, g, dx,
                            under ? under->db : NULL,
                            under ? under->mask : NULL};
  TS_DO(ts_fused_run(&d->last->dx, d->blas, &at,
                     under && under->masked == batch, &masked));
  if (masked) under->dy = dx;
  if (gap && !s->x_half && !s->part) {
    const ts_gaps a = {(float *)dx + s->n_in,
                       (size_t)s->in_stride * sizeof(float), gap,
                       (size_t)batch};
    TS_DO(
       ts_cuda_call(clear_gaps, &a, sizeof a, ts_cuda_stream(d->blas->lane)));
  }
  return TS_OK;
}

/* x16 and w16 are forward's. */
static ts_err backward(ts_linear *l, void *dx, void *dy, const void *x,
                       const void *y, int32_t batch) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  ts_product_at at;
  const void *g;
  bool summed, fused;
  TS_DO(ts_layer_products_of(&d->last, l, batch));
  TS_DO(make_g(l, &g, &summed, dy, y, batch));
  if (dx) TS_DO(grad_x(l, dx, g, batch));
  at = {d->x16 ? d->x16 : x, g, l->at.dW, l->at.db, NULL};
  TS_DO(ts_fused_run(&d->last->dW, d->blas, &at, l->at.db && !summed, &fused));
  if (l->at.db && !summed && !fused) TS_DO(mask(l, NULL, g, NULL, batch));
  return TS_OK;
}

/* ---- for benchmarks, checkpoints ----------------------------------------- */

static ts_err again(ts_fused *f, ts_blas *blas) {
  return f->last ? ts_product_run(f->last, blas, f->last->at) : TS_OK;
}

static ts_err repeat(ts_linear *l, ts_pass pass) {
  ts_cuda_linear *d = ts_cuda_linear_of(l);
  ts_layer_products *p = d->last;
  const int64_t n = ts_round_up(l->W->n, 64);
  if (!p) return TS_OK;
  if (pass == TS_FORWARD) return again(&p->y, d->blas);
  if (!d->alone) TS_DO(take(l, &d->alone, n + l->spec.n_out, 4));
  TS_DO(again(&p->dx, d->blas));
  if (p->dW.last) {
    p->dW.last->at.d = d->alone;
    p->dW.last->at.bias = d->alone + n;
  }
  return again(&p->dW, d->blas);
}

static bool has_bf16(int32_t) {
  return true;
}

static ts_err save(ts_str *text) {
  return ts_choices_print(text, ts_blas_maker());
}

static ts_err restore(const char *text) {
  return ts_choices_take(text, ts_blas_maker());
}

static ts_engine engine() {
  ts_engine e = {};
  e.name = "cublasLt";
  e.version = ts_blas_version;
  e.has_bf16 = has_bf16;
  e.has_tf32 = true;
  e.create = create;
  e.destroy = destroy;
  e.forward = forward;
  e.backward = backward;
  e.repeat = repeat;
  e.unfused = ts_products_unfused;
  e.save = save;
  e.restore = restore;
  return e;
}

const ts_engine ts_cuda_products = engine();
