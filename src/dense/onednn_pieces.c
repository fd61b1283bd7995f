/* onednn_pieces.c - matrix products by oneDNN in pieces of rows. */
#include "config.h"
#ifdef HAVE_ONEDNN
#include "dense/onednn_pieces.h"

#include <omp.h>
#include <string.h>

#include "base/mem.h"

static ts_err make_one(ts_pieces *p, int i, ts_matrix a, ts_matrix b,
                       ts_matrix c, bool bias, bool relu) {
  a.rows = c.rows = TS_PIECE_ROWS;
  TS_DO(ts_onednn_stream_init(&p->stream[i]));
  return ts_product_matmul(&p->product[i], &p->stream[i], a, b, c, bias, relu);
}

ts_err ts_pieces_make(ts_pieces *p, ts_matrix a, ts_matrix b, ts_matrix c,
                      bool bias, bool relu) {
  ts_err err = TS_OK;
  const int n = omp_get_max_threads();
  omp_set_num_threads(1); /* a primitive takes the number of when it is made */
  p->n = n;
  p->a_stride = a.row_stride;
  p->c_stride = c.row_stride;
  p->cols = c.cols;
  TS_TRY(ts_mem_many(p->stream, n, DENSE));
  TS_TRY(ts_mem_many(p->product, n, DENSE));
  TS_TRY(ts_mem_many(p->a, TS_PIECE_ROWS * p->a_stride, ACTIVATIONS));
  TS_TRY(ts_mem_many(p->c, TS_PIECE_ROWS * p->c_stride, ACTIVATIONS));
  for (int i = 0; i < n; i++) TS_TRY(make_one(p, i, a, b, c, bias, relu));
done:
  omp_set_num_threads(n);
  return err;
}

void ts_pieces_reset(ts_pieces *p) {
  for (int i = 0; p->product && i < p->n; i++) ts_product_reset(&p->product[i]);
  for (int i = 0; p->stream && i < p->n; i++)
    ts_onednn_stream_reset(&p->stream[i]);
  ts_mem_free_all(p->stream, p->product, p->a, p->c);
  *p = (ts_pieces){0};
}

static ts_err run_piece(ts_pieces *p, const struct ts_piece_run *r,
                        int32_t at) {
  const int i = omp_get_thread_num();
  const int32_t n = r->rows - at;
  const float *a = r->a + at * p->a_stride;
  float *c = r->c + at * p->c_stride;
  if (n >= TS_PIECE_ROWS)
    return ts_product_run(&p->product[i], &p->stream[i], a, r->b, c, r->bias);
  memcpy(p->a, a, (size_t)(n * p->a_stride) * sizeof *a);
  TS_DO(
      ts_product_run(&p->product[i], &p->stream[i], p->a, r->b, p->c, r->bias));
  memcpy(c, p->c, (size_t)(n * p->c_stride) * sizeof *c);
  return TS_OK;
}

ts_err ts_pieces_run(ts_pieces *p, const struct ts_piece_run *r) {
  int n_failed = 0;
  p->last = *r;
#pragma omp parallel for schedule(dynamic) num_threads(p->n)                   \
    reduction(+ : n_failed)
  for (int32_t at = 0; at < r->rows; at += TS_PIECE_ROWS)
    n_failed += run_piece(p, r, at) != TS_OK;
  if (!n_failed) return TS_OK;
  return ts_fail(TS_ERR_INTERNAL, "oneDNN: %d pieces of a product failed",
                 n_failed);
}

ts_err ts_pieces_again(ts_pieces *p) {
  const struct ts_piece_run last = p->last;
  return last.rows ? ts_pieces_run(p, &last) : TS_OK;
}
#else
typedef int ts_no_onednn_pieces; /* a file must hold something */
#endif
