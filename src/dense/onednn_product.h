/* onednn_product.h - one matrix product by oneDNN, made once and run often;
 * private to linear_onednn.c.  All of it is Local. */
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

typedef struct ts_onednn_stream {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
} ts_onednn_stream;

typedef struct ts_matrix {
  int64_t rows, cols, row_stride, col_stride;
  dnnl_data_type_t type;
} ts_matrix;

/* C = A B [+ bias, ReLU].  Scratchpads are ours. */
typedef struct ts_product {
  dnnl_primitive_t primitive; /* NULL: there is none */
  dnnl_memory_t a, b, c, bias, scratch;
  int arg_a, arg_b, arg_c; /* what the primitive calls them */
  void *scratch_ptr;
  bool ran; /* a, b and c are known */
} ts_product;

ts_err ts_onednn_check(dnnl_status_t, const char *call);
#define DNNL(call) ts_onednn_check((call), #call)

ts_err ts_onednn_stream_init(ts_onednn_stream *);
void ts_onednn_stream_reset(ts_onednn_stream *);

/* A (m, k), B (k, n), C (m, n), each with two strides. */
ts_err ts_product_matmul(ts_product *, const ts_onednn_stream *, ts_matrix a,
                         ts_matrix b, ts_matrix c, bool bias, bool relu);
/* dW (n, k) = dy^T x, from A = dy (m, n) and B = x (m, k). */
ts_err ts_product_weights(ts_product *, const ts_onednn_stream *, ts_matrix dy,
                          ts_matrix x, ts_matrix dW);
void ts_product_reset(ts_product *);

ts_err ts_product_run(ts_product *, const ts_onednn_stream *, const void *a,
                      const void *b, void *c, const float *bias);
/* On the arrays of the last run, but into C unless NULL; nothing before. */
ts_err ts_product_again(ts_product *, const ts_onednn_stream *, void *c);
