/* row_update.c - the row update over threads. */
#include "sparse/row_update.h"

#include <omp.h>

#include "sparse/update_body.h"

/* The border of a run at or after entry J. */
static int64_t border(const ts_row_update_args *a, int64_t j) {
  while (j > 0 && j < a->n && a->keys[j] == a->keys[j - 1]) j++;
  return j;
}

/* Runs that start in [from, to). */
static int64_t count_runs(const ts_row_update_args *a, int64_t from,
                          int64_t to) {
  int64_t n = 0;
  for (int64_t j = from; j < to; j++)
    n += j == 0 || a->keys[j] != a->keys[j - 1];
  return n;
}

/* Where sums are kept each part has to know the number of its first run. */
static void number_runs(const ts_row_update_args *a, ts_update_part *parts,
                        int n_parts) {
  int64_t total = 0;
#pragma omp parallel for schedule(static, 1)
  for (int p = 0; p < n_parts; p++)
    parts[p].number = count_runs(a, parts[p].from, parts[p].to);
  for (int p = 0; p < n_parts; p++) {
    const int64_t n = parts[p].number;
    parts[p].number = total;
    total += n;
  }
  *a->n_out = total;
}

static ts_err finish_long(const ts_row_update_args *a, const ts_update_ops *ops,
                          const ts_long_run *run, float *wide) {
  float *sums;
  const int64_t n_pieces = (run->to - run->from + PIECE - 1) / PIECE;
  ts_err err =
      ts_mem_array(&sums, n_pieces * a->dim, sizeof *sums, TS_TAG_SPARSE);
  if (err != TS_OK) return err;
#pragma omp parallel for schedule(static)
  for (int64_t k = 0; k < n_pieces; k++) {
    const int64_t from = run->from + k * PIECE;
    const int64_t to = run->to - from > PIECE ? from + PIECE : run->to;
    ops->pieces(a, sums + k * a->dim, from, to);
  }
  ops->end(a, run->from, run->number, sums, n_pieces, wide);
  ts_mem_free(sums);
  return TS_OK;
}

ts_err ts_row_update_run(const ts_row_update_args *a,
                         const ts_update_ops *ops) {
  ts_err err = TS_OK;
  const int n_parts = omp_get_max_threads();
  const int64_t dim = (a->dim + 15) / 16 * 16;
  const int64_t long_max = a->n / LONG_RUN + 1;
  ts_update_part *parts = NULL;
  float *scratch = NULL;
  ts_long_run *aside = NULL;
  TS_TRY(ts_mem_array(&parts, n_parts, sizeof *parts, TS_TAG_SPARSE));
  TS_TRY(ts_mem_array(&scratch, 3 * dim * n_parts, 4, TS_TAG_SPARSE));
  TS_TRY(
      ts_mem_array(&aside, long_max * n_parts, sizeof *aside, TS_TAG_SPARSE));
  for (int p = 0; p < n_parts; p++) {
    parts[p].from = border(a, a->n * p / n_parts);
    parts[p].to = border(a, a->n * (p + 1) / n_parts);
    parts[p].sum = scratch + 3 * dim * p;
    parts[p].part = parts[p].sum + dim;
    parts[p].wide = parts[p].sum + 2 * dim;
    parts[p].aside = aside + long_max * p;
  }
  if (a->sum_out) number_runs(a, parts, n_parts);
#pragma omp parallel for schedule(static, 1)
  for (int p = 0; p < n_parts; p++) ops->part(a, &parts[p]);
  for (int p = 0; p < n_parts; p++)
    for (int64_t k = 0; k < parts[p].n_aside; k++)
      TS_TRY(finish_long(a, ops, &parts[p].aside[k], scratch));
done:
  ts_mem_free(parts);
  ts_mem_free(scratch);
  ts_mem_free(aside);
  return err;
}
