/* kernels_candidates.c - the host's kernels of losses over candidates.
 *
 * Rows of a few dozen floats are gathered from a table that is in cache as a
 * rule: loops that compilers make vectors of. */
#include <omp.h>
#include <string.h>

#include "base/clones.h"
#include "base/mem.h"
#include "model/add_row.h"
#include "model/candidates.h"
#include "runtime/backends.h"

/* ---- where targets lie --------------------------------------------------- */

static int64_t n_targets_of(const ts_targets_args *a, int64_t s) {
  const int64_t n = a->bags      ? a->bags[s + 1] - a->bags[s]
                    : a->lengths ? a->lengths[s]
                                 : 1;
  return (n - ts_slices_length(a->slices, s)) / a->n_each;
}

/* Rows [from, from + N) of sample S, whose first target is T. */
static void place_rows(const ts_targets_args *a, int64_t s, int64_t from,
                       int64_t n) {
  const int64_t t = a->offsets[s], m = a->offsets[s + 1] - t;
  for (int64_t r = 0; r < n; r++)
    a->first[from + r] =
        (int32_t)(t + (a->rows && r > n - m ? r - (n - m) : 0));
  for (int64_t j = 0; j < m; j++) {
    a->row[t + j] = (int32_t)(a->rows ? from + n - m + j : s);
    a->sample[t + j] = (int32_t)s;
  }
}

/* The same of masked rows. */
static void place_masked(const ts_targets_args *a, int64_t s, int64_t from,
                         int64_t n) {
  const int64_t t = a->offsets[s], m = a->offsets[s + 1] - t;
  int64_t masks = 0, k = 0, last = from;
  for (int64_t r = from; r < from + n; r++) {
    masks += a->ids[r] == a->mask;
    if (a->ids[r] == a->mask) last = r;
  }
  for (int64_t r = from; r < from + n; r++) {
    a->first[r] = (int32_t)(t + (k < masks && k < m ? k : m));
    if (a->ids[r] != a->mask) continue;
    if (k < m) a->row[t + k] = (int32_t)r;
    k++;
  }
  for (int64_t j = 0; j < m; j++) {
    if (j >= masks) a->row[t + j] = (int32_t)last;
    a->sample[t + j] = (int32_t)s;
  }
}

static ts_err targets(const ts_targets_args *a) {
  a->offsets[0] = 0;
  for (int64_t s = 0; s < a->n_samples; s++)
    a->offsets[s + 1] = a->offsets[s] + n_targets_of(a, s);
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < a->n_samples; s++) {
    const int64_t from = a->rows ? a->rows[s] : s;
    (a->ids ? place_masked : place_rows)(a, s, from,
                                         a->rows ? a->rows[s + 1] - from : 1);
  }
  a->first[a->n_rows] = (int32_t)a->n_targets;
  return TS_OK;
}

/* ---- scores -------------------------------------------------------------- */

enum { LANES = 16 };

/* A sum in the order of LANES partial ones, whatever the CPU. */
TS_CLONES
static void score_all(float *restrict s, const ts_candidates_args *a,
                      const float *restrict q, int64_t t) {
  const int32_t *index = a->index + t * a->n_each;
  const int32_t whole = a->dim / LANES * LANES;
  for (int32_t k = 0; k < a->n_each; k++) {
    const float *x = a->items + (int64_t)index[k] * a->item_stride;
    float part[LANES] = {0}, rest = 0;
    for (int32_t c = 0; c < whole; c += LANES)
      for (int l = 0; l < LANES; l++) part[l] += q[c + l] * x[c + l];
    for (int32_t c = whole; c < a->dim; c++) rest += q[c] * x[c];
    for (int by = LANES / 2; by > 0; by /= 2)
      for (int l = 0; l < by; l++) part[l] += part[l + by];
    s[k] = a->scale * (part[0] + rest);
    if (a->shift) s[k] -= a->shift[a->ids[t * a->n_each + k]];
  }
}

/* Loss, rank and, of GRAD, scores become derivatives. */
static void judge(const ts_candidates_args *a, int64_t t, float *s) {
  const int32_t *index = a->index + t * a->n_each;
  ts_candidate_sum c = ts_candidate_begin(a->kind, s[0]);
  double rank = 0, others = 0;
  for (int32_t k = 1; k < a->n_each; k++) {
    if (index[k] == index[0]) continue;
    rank += ts_candidate_above(s[k], s[0]);
    ts_candidate_add(a, &c, s[k]);
  }
  a->loss[t] = (float)ts_candidate_loss(a, &c);
  a->rank[t] = (float)rank;
  if (!a->grad) return;
  for (int32_t k = 1; k < a->n_each; k++) {
    const double g = index[k] != index[0] ? ts_candidate_slope(a, &c, s[k]) : 0;
    others += g;
    s[k] = (float)g * a->scale;
  }
  s[0] = (float)ts_candidate_wanted(a, &c, others) * a->scale;
}

static ts_err candidates_forward(const ts_candidates_args *a) {
  float *own = NULL; /* without GRAD each thread has scores of its own */
  if (!a->grad)
    TS_DO(ts_mem_many(own, (int64_t)omp_get_max_threads() * a->n_each,
                      ACTIVATIONS));
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < a->n_targets; t++) {
    float *s = a->grad ? a->grad + t * a->n_each
                       : own + (int64_t)omp_get_thread_num() * a->n_each;
    score_all(s, a, a->q + a->row[t] * a->q_stride, t);
    judge(a, t, s);
  }
  ts_mem_free(own);
  return TS_OK;
}

/* ---- gradients ----------------------------------------------------------- */

/* by_t. */
static float factor(const ts_candidates_args *a, int64_t t) {
  const int32_t s = a->sample[t];
  return a->by[s * a->by_stride] / (float)(a->offsets[s + 1] - a->offsets[s]);
}

static ts_err candidates_rows(const ts_candidates_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < a->n_rows; r++) {
    float *to = a->dq + r * a->q_stride;
    memset(to, 0, (size_t)a->dim * sizeof *to);
    for (int64_t t = a->first[r]; t < a->first[r + 1]; t++) {
      const float by = factor(a, t);
      for (int32_t k = 0; k < a->n_each; k++) {
        const int64_t m = t * a->n_each + k;
        ts_add_row(to, by * a->grad[m], a->items + a->index[m] * a->item_stride,
                   a->dim);
      }
    }
  }
  return TS_OK;
}

static ts_err candidates_items(const ts_candidates_args *a) {
#pragma omp parallel for schedule(dynamic, 16)
  for (int64_t u = 0; u < a->n_items; u++) {
    float *to = a->ditems + u * a->item_stride;
    memset(to, 0, (size_t)a->dim * sizeof *to);
    for (int64_t i = a->member_start[u]; i < a->member_start[u + 1]; i++) {
      const int64_t m = a->member[i], t = m / a->n_each;
      ts_add_row(to, factor(a, t) * a->grad[m], a->q + a->row[t] * a->q_stride,
                 a->dim);
    }
  }
  return TS_OK;
}

/* ---- figures ------------------------------------------------------------- */

static ts_err target_figures(const ts_target_figures_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < a->n_samples; s++) {
    const int64_t m = a->offsets[s + 1] - a->offsets[s];
    float *y = a->y + s * a->y_stride;
    double sum[TS_TARGET_FIGURES] = {0};
    for (int64_t t = a->offsets[s]; t < a->offsets[s + 1]; t++) {
      const double r = a->rank ? a->rank[t] : INFINITY;
      sum[0] += a->loss[t];
      sum[2] += r < (double)a->k;
      sum[3] += r < (double)a->k ? 1 / log2(r + 2) : 0;
      sum[4] += 1 / (r + 1);
    }
    sum[0] = m ? sum[0] / (double)m : 0;
    sum[1] = (double)m;
    for (int i = 0; i < TS_TARGET_FIGURES; i++) y[i] = (float)sum[i];
  }
  return TS_OK;
}

void ts_candidate_kernels_host(ts_kernels *k) {
  k->targets = targets;
  k->candidates_forward = candidates_forward;
  k->candidates_rows = candidates_rows;
  k->candidates_items = candidates_items;
  k->target_figures = target_figures;
}
