/* kernels_avx512.c - the sparse kernels for AVX-512. */
#include <omp.h>

#include "base/mem.h"
#include "base/rng.h"
#include "runtime/backends.h"
#include "sparse/row_update.h"
#include "sparse/sort.h"

/* Everything from here on is built for this instruction set: vector types are
 * lowered before inlining, so an attribute on the wrappers is too late. */
#if defined(__x86_64__)
#pragma GCC target(                                                            \
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")
#endif
#include "sparse/lookup_body.h"
#include "sparse/update_body.h"

static ts_err lookup(const ts_lookup_args *a) {
#pragma omp parallel
  lookup_part(a, omp_get_thread_num(), omp_get_num_threads());
  return TS_OK;
}

static void part(const ts_row_update_args *a, struct ts_update_part *p) {
  update_part(a, p, TS_ISA_AVX512);
}

static void pieces(const ts_row_update_args *a, float *sum, int64_t from,
                   int64_t to) {
  sum_piece(a, sum, from, to);
}

static void end_long(const ts_row_update_args *a, int64_t from, int64_t number,
                     float *sums, int64_t n_pieces, float *wide) {
  int32_t table = 0;
  for (int64_t k = 1; k < n_pieces; k++)
    add_row(sums, sums + k * a->dim, a->dim);
  end_run(a, from, number, &table, sums, wide, TS_ISA_AVX512);
}

static ts_err row_update(const ts_row_update_args *a) {
  static const ts_update_ops ops = {TS_ISA_AVX512, part, pieces, end_long};
  return ts_row_update_run(a, &ops);
}

void ts_sparse_kernels_avx512(ts_kernels *k) {
  k->lookup = lookup;
  k->sort = ts_sort_host;
  k->row_update = row_update;
}
