/* kernels_full_softmax.c - the host's kernels of the softmax over all items,
 * but for the vectors of its blocks (full_softmax_body.h). */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "kernel_table.h"
#include "model/add_row.h"
#include "runtime/backends.h"

/* ---- rows for the products ----------------------------------------------- */

TS_CLONES
static float dot(const float *restrict a, const float *restrict b, int32_t n) {
  double sum = 0;
  for (int32_t c = 0; c < n; c++) sum += (double)a[c] * (double)b[c];
  return (float)sum;
}

static const float *query_of(const ts_full_softmax_args *a, int64_t t) {
  return a->q + a->row[t] * a->q_stride;
}
static const float *item_of(const ts_full_softmax_args *a, int32_t u) {
  return a->items + u * a->item_stride;
}

/* The wanted id at P as target T, and as a column. */
static void take_column(const ts_full_softmax_args *a, int64_t t, int64_t p) {
  const float shift = a->shift ? a->shift[a->ids[p]] : 0;
  a->target_ids[t] = a->ids[p];
  a->column_shift[t] = shift;
  a->wanted[t] -= shift;
  memcpy(a->columns + t * a->dim, item_of(a, a->index[p]),
         (size_t)a->dim * sizeof(float));
}

/* Sample B's bag. */
static void take_bag(const ts_full_softmax_args *a, int64_t b) {
  const size_t bytes = (size_t)a->dim * sizeof(float);
  const int64_t t0 = a->offsets[b], m = a->offsets[b + 1] - t0;
  const int64_t k0 = ts_slices_before(a->slices, b), p0 = t0 + k0;
  const int64_t n = ts_slices_length(a->slices, b);
  for (int64_t j = 0; j < m; j++) {
    const int64_t t = t0 + j;
    const int32_t u = a->index[p0 + j];
    a->what[p0 + j] = (int32_t)t;
    a->wanted_row[t] = u;
    a->wanted[t] = a->scale * dot(query_of(a, t), item_of(a, u), a->dim);
    memcpy(a->targets + t * a->dim, query_of(a, t), bytes);
    if (a->target_ids) take_column(a, t, p0 + j);
  }
  for (int64_t k = 0; k < n; k++) {
    const int64_t p = p0 + m + k;
    a->what[p] = (int32_t)(-1 - (k0 + k));
    memcpy(a->columns + (k0 + k) * a->dim, item_of(a, a->index[p]), bytes);
  }
}

static ts_err take(const ts_full_softmax_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < a->n_samples; b++) take_bag(a, b);
  return TS_OK;
}

/* ---- blocks, plainly ----------------------------------------------------- */

static void count_wanted(const ts_full_softmax_args *a, int64_t i) {
  float *s = a->s + i * a->n_columns;
  for (int64_t k = 0; a->target_ids && k < a->n_columns; k++)
    s[k] = a->target_ids[k] == a->row_ids[i] && k != i + a->own
               ? TS_NO_SCORE
               : s[k] - a->column_shift[k];
}

static ts_err part(const ts_full_softmax_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->n_block; i++) {
    const float *s = a->s + i * a->n_columns;
    double most = -INFINITY, sum = 0;
    count_wanted(a, i);
    for (int64_t k = 0; k < a->n_columns; k++) most = fmax(most, s[k]);
    for (int64_t k = 0; k < a->n_columns; k++) sum += exp(s[k] - most);
    a->part[2 * i] = (float)most;
    a->part[2 * i + 1] = (float)sum;
  }
  return TS_OK;
}

static ts_err slopes(const ts_full_softmax_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->n_block; i++) {
    float *s = a->s + i * a->n_columns;
    const double f = a->factor[2 * i], log_sum = a->factor[2 * i + 1];
    count_wanted(a, i);
    for (int64_t k = 0; k < a->n_columns; k++)
      s[k] = (float)(f * exp(s[k] - log_sum));
  }
  return TS_OK;
}

/* ---- losses -------------------------------------------------------------- */

/* The log of the sum over all parts, in their order. */
static double log_sum_of(const ts_full_softmax_args *a, int64_t t) {
  double most = -INFINITY, sum = 0;
  for (int32_t r = 0; r < a->n_parts; r++)
    most = fmax(most, a->parts[(r * a->n_targets + t) * 2]);
  for (int32_t r = 0; r < a->n_parts; r++) {
    const float *p = a->parts + (r * a->n_targets + t) * 2;
    if (p[1] != 0) sum += (double)p[1] * exp(p[0] - most);
  }
  return most + log(sum);
}

static ts_err loss(const ts_full_softmax_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < a->n_targets; t++) {
    const double log_sum = log_sum_of(a, t);
    a->factor[2 * t] = 0;
    a->factor[2 * t + 1] = (float)log_sum;
    a->loss[t] = (float)(log_sum - (double)a->wanted[t]);
  }
  return TS_OK;
}

static ts_err factor(const ts_full_softmax_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < a->n_targets; t++) {
    const int32_t b = a->sample[t];
    a->factor[2 * t] = a->scale * a->by[b * a->by_stride] /
                       (float)(a->offsets[b + 1] - a->offsets[b]);
  }
  return TS_OK;
}

/* ---- gradients ----------------------------------------------------------- */

static void give_row(const ts_full_softmax_args *a, int64_t r) {
  float *to = a->dq + r * a->q_stride;
  memset(to, 0, (size_t)a->dim * sizeof *to);
  for (int64_t t = a->first[r]; t < a->first[r + 1]; t++) {
    ts_add_row(to, 1, a->dtargets + t * a->dim, a->dim);
    ts_add_row(to, -a->factor[2 * t], item_of(a, a->wanted_row[t]), a->dim);
  }
}

static void give_item(const ts_full_softmax_args *a, int64_t u) {
  float *to = a->ditems + u * a->item_stride;
  memset(to, 0, (size_t)a->dim * sizeof *to);
  for (int64_t i = a->member_start[u]; i < a->member_start[u + 1]; i++) {
    const int64_t t = a->what[a->member[i]];
    if (t >= 0)
      ts_add_row(to, -a->factor[2 * t], a->targets + t * a->dim, a->dim);
    if (t < 0 || a->target_ids)
      ts_add_row(to, 1, a->dcolumns + (t < 0 ? -1 - t : t) * a->dim, a->dim);
  }
}

static ts_err give(const ts_full_softmax_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < (a->dq ? a->n_rows : 0); r++) give_row(a, r);
#pragma omp parallel for schedule(static)
  for (int64_t u = 0; u < a->n_items; u++) give_item(a, u);
  return TS_OK;
}

void ts_full_softmax_kernels_host(ts_kernels *k) {
  k->full_softmax_take = take;
  k->full_softmax_part = part;
  k->full_softmax_slopes = slopes;
  k->full_softmax_loss = loss;
  k->full_softmax_factor = factor;
  k->full_softmax_give = give;
}
