/* row_update.c - the row update over threads. */
#include "sparse/row_update.h"

#include <omp.h>
#include <string.h>

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
  if (a->n_out) *a->n_out = total;
}

/* Where the parts of the scratch lie. */
typedef struct ts_work {
  ts_update_part *parts; /* (n_parts) */
  float *scratch;        /* (n_parts, 3 * dim) */
  ts_long_run *aside;    /* (n_parts, long_max) */
  float *sums;           /* of the pieces of a long run */
  size_t bytes;
} ts_work;

static size_t lines(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

static int64_t whole_dim(int32_t dim) {
  return ((int64_t)dim + 15) / 16 * 16;
}

static int64_t long_max(int64_t n) {
  return n / LONG_RUN + 1;
}

static ts_work lay_out(char *at, int64_t n, int32_t dim, int n_parts) {
  ts_work w = {.parts = (void *)at};
  const size_t parts = (size_t)n_parts, wide = (size_t)whole_dim(dim);
  size_t next = lines(parts * sizeof *w.parts);
  w.scratch = (void *)(at + next);
  next += lines(3 * wide * parts * 4);
  w.aside = (void *)(at + next);
  next += lines((size_t)long_max(n) * parts * sizeof *w.aside);
  w.sums = (void *)(at + next);
  if (n >= LONG_RUN) next += lines((size_t)(n / PIECE + 1) * (size_t)dim * 4);
  w.bytes = next;
  return w;
}

size_t ts_row_update_work_bytes(int64_t n, int32_t dim, int n_threads) {
  return lay_out(NULL, n, dim, n_threads).bytes;
}

static void finish_long(const ts_row_update_args *a, const ts_update_ops *ops,
                        const ts_long_run *run, const ts_work *w) {
  const int64_t n_pieces = (run->to - run->from + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static)
  for (int64_t k = 0; k < n_pieces; k++) {
    const int64_t from = run->from + k * PIECE;
    const int64_t to = run->to - from > PIECE ? from + PIECE : run->to;
    ops->pieces(a, w->sums + k * a->dim, from, to);
  }
  ops->end(a, run->from, run->number, w->sums, n_pieces, w->scratch);
}

static void run_parts(const ts_row_update_args *a, const ts_update_ops *ops,
                      const ts_work *w, int n_parts) {
  const int64_t dim = whole_dim(a->dim);
  memset(w->parts, 0, (size_t)n_parts * sizeof *w->parts);
  for (int p = 0; p < n_parts; p++) {
    ts_update_part *part = &w->parts[p];
    part->from = border(a, a->n * p / n_parts);
    part->to = border(a, a->n * (p + 1) / n_parts);
    part->sum = w->scratch + 3 * dim * p;
    part->part = part->sum + dim;
    part->wide = part->sum + 2 * dim;
    part->aside = w->aside + long_max(a->n) * p;
  }
  if (a->sum_out) number_runs(a, w->parts, n_parts);
#pragma omp parallel for schedule(static, 1)
  for (int p = 0; p < n_parts; p++) ops->part(a, &w->parts[p]);
  for (int p = 0; p < n_parts; p++)
    for (int64_t k = 0; k < w->parts[p].n_aside; k++)
      finish_long(a, ops, &w->parts[p].aside[k], w);
}

ts_err ts_row_update_run(const ts_row_update_args *a,
                         const ts_update_ops *ops) {
  ts_err err = TS_OK;
  const int n_parts = omp_get_max_threads();
  char *own = NULL;
  if (!a->work)
    TS_TRY(ts_mem_alloc(&own, ts_row_update_work_bytes(a->n, a->dim, n_parts),
                        TS_TAG_SPARSE));
  const ts_work w = lay_out(own ? own : a->work, a->n, a->dim, n_parts);
  run_parts(a, ops, &w, n_parts);
done:
  ts_mem_free(own);
  return err;
}
