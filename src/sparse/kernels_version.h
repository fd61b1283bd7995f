/* kernels_version.h - the sparse kernels of one instruction set: included
 * once by each kernels_*.c, which says which (TS_VERSION, TS_REGISTER) and
 * sets the compiler's target before the bodies. */
#pragma once

#include "sparse/lookup_ones.h"
#include "sparse/update_body.h"
#include "sparse/weight_grad_body.h"

static ts_err lookup(const ts_lookup_args *a) {
  const int64_t n_bags = a->bag_start[a->n_features];
  const bool as_many = a->offsets[n_bags] == n_bags;
  int64_t others = 0;
#pragma omp parallel
  {
    if (as_many) {
#pragma omp for reduction(+ : others)
      for (int64_t j = 0; j < n_bags; j++) others += a->offsets[j] != j;
    }
    lookup_part(a, omp_get_thread_num(), omp_get_num_threads(),
                as_many && !others);
  }
  return TS_OK;
}

static ts_err weight_grad(const ts_weight_grad_args *a) {
#pragma omp parallel
  weight_grad_part(a, omp_get_thread_num(), omp_get_num_threads());
  return TS_OK;
}

static void part(const ts_row_update_args *a, struct ts_update_part *p) {
  update_part(a, p, TS_VERSION);
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
  end_run(a, from, number, &table, sums, wide, TS_VERSION);
}

static ts_err row_update(const ts_row_update_args *a) {
  static const ts_update_ops ops = {TS_VERSION, part, pieces, end_long};
  return ts_row_update_run(a, &ops);
}

static ts_err row_stage(const ts_row_stage_args *s) {
  ts_err err = TS_OK;
  const int32_t dim = s->update->dim;
  const int n_parts = omp_get_max_threads();
  float *own = NULL, *wide = s->update->work;
  if (!wide) {
    TS_TRY(ts_mem_many(own, (int64_t)n_parts * dim, SPARSE));
    wide = own;
  }
#pragma omp parallel for schedule(static, 1)
  for (int p = 0; p < n_parts; p++)
    stage_part(s, s->n * p / n_parts, s->n * (p + 1) / n_parts,
               wide + (int64_t)p * dim, TS_VERSION);
done:
  ts_mem_free(own);
  return err;
}

void TS_REGISTER(ts_kernels *k) {
  k->lookup = lookup;
  k->weight_grad = weight_grad;
  k->sort = ts_sort_host;
  k->row_update = row_update;
  k->row_stage = row_stage;
}
