/* products.h - what the files of the GPU's linear layers share: a layer's data
 * and its products, made once per batch size.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "cuda/dense/product.h"
extern "C" {
#include "dense/linear_impl.h"
}

enum { TS_BATCHES_MAX = 8, TS_MASK_BITS = 128 };

/* A product with all that may be fused, and without. */
struct ts_fused {
  ts_product with, without;
  ts_product *last; /* that ran */
};

/* The three products of a layer for one batch size. */
struct ts_layer_products {
  int32_t batch; /* 0: free */
  ts_fused y, dx, dW;
};

struct ts_cuda_linear {
  ts_blas *blas;
  ts_layer_products products[TS_BATCHES_MAX];
  ts_layer_products *last;
  int next;
  ts_arrays arrays;
  uint16_t *x16; /* (batch, k_pad), NULL where x comes as bf16 */
  uint16_t *g16; /* (batch, n_pad), NULL where dy does */
  uint16_t *w16; /* (n_pad, k_pad) */
  uint16_t *b16; /* (n_out), NULL where y is f32 */
  uint64_t w_version, b_version;
  float *parts; /* cuda/dense/mask.h's */
  float *alone; /* for repeat, from its first call: dW and db */
  /* For the layer above, which makes them. */
  void *mask;      /* (batch, mask_ld) bits */
  int64_t mask_ld; /* 128 n */
  void *db;        /* (n_out), f32 or bf16 as y */
  int32_t masked;  /* batch whose mask is there; 0: none */
  const void *dy;  /* what is masked, its sums being in db; NULL: nothing */
};

static inline ts_cuda_linear *ts_cuda_linear_of(const ts_linear *l) {
  return (ts_cuda_linear *)l->data;
}

/* Where g's rows are, in elements. */
static inline int64_t ts_g_stride(const ts_linear *l) {
  return l->half && !l->spec.y_half ? l->n_pad : l->spec.out_stride;
}

/* The layer below, if this one masks for it. */
ts_linear *ts_masks_for(const ts_linear *l);
/* The products for BATCH samples; few sizes are met in a run. */
ts_err ts_layer_products_of(ts_layer_products **, const ts_linear *,
                            int32_t batch);
void ts_layer_products_reset(ts_layer_products *);
/* Says what ts_fused_run could not fuse (dense/linear_impl.h, unfused). */
ts_err ts_products_unfused(ts_str *text);
/* Runs the product, with all that may be fused where that is WANTED and the
 * library has it: *DID. */
ts_err ts_fused_run(ts_fused *, ts_blas *, const ts_product_at *, bool wanted,
                    bool *did);
