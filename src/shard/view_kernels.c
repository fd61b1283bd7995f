/* view_kernels.c - the host's kernels of views, wires and positions: loops
 * over rows, whose widths leave the compiler enough to do. */
#include "shard/view_kernels.h"

#include <string.h>

#include "runtime/backends.h"

/* ---- rows ---------------------------------------------------------------- */

/* Where row I's number lies among those of P; -1: in another piece. */
static inline int64_t place_of_row(const ts_row_piece *p, int32_t i) {
  const int64_t at = (p->index ? p->index[i] : i) - (int64_t)p->first;
  return at >= 0 && at < p->count ? at : -1;
}

static void copy_piece(const ts_row_piece *p) {
#pragma omp parallel for schedule(static)
  for (int32_t i = 0; i < p->n; i++) {
    const int64_t at = place_of_row(p, i);
    if (at >= 0)
      memcpy(p->to + (int64_t)i * p->to_step, p->from + at * p->from_step,
             (size_t)p->n_cols * 4);
  }
}

static ts_err copy_rows(const ts_row_args *a) {
  for (int32_t k = 0; k < a->n_pieces; k++) copy_piece(&a->piece[k]);
  return TS_OK;
}

static void clear_rows(const ts_row_piece *p) {
  if (p->to_step == p->n_cols) {
    if (p->count) memset(p->to, 0, (size_t)p->count * (size_t)p->n_cols * 4);
    return;
  }
  for (int32_t j = 0; j < p->count; j++)
    memset(p->to + (int64_t)j * p->to_step, 0, (size_t)p->n_cols * 4);
}

static void sum_piece(const ts_row_piece *p) {
  clear_rows(p);
  for (int32_t i = 0; i < p->n; i++) {
    const int64_t at = place_of_row(p, i);
    if (at < 0) continue;
    float *x = p->to + at * p->to_step;
    const float *g = p->from + (int64_t)i * p->from_step;
    for (int32_t d = 0; d < p->n_cols; d++) x[d] += g[d];
  }
}

static ts_err sum_rows(const ts_row_args *a) {
  for (int32_t k = 0; k < a->n_pieces; k++) sum_piece(&a->piece[k]);
  return TS_OK;
}

static ts_err scale_rows(const ts_scale_args *a) {
  for (int32_t k = 0; k < a->n_pieces; k++) {
    const ts_scale_piece *p = &a->piece[k];
    for (int32_t i = 0; i < p->n; i++) {
      float *x = p->x + i * p->step;
      for (int32_t d = 0; d < p->n_cols; d++) x[d] *= p->by[i];
    }
  }
  return TS_OK;
}

/* ---- codes --------------------------------------------------------------- */

/* Part R of a piece: the first one sets, the others are added. */
static void code_piece(const ts_code_args *a, const ts_code_piece *p,
                       int32_t r) {
  const ts_codec c = a->codec;
  const int64_t bytes = ts_codec_bytes(c, p->n_cols);
  char *wire = p->wire + r * a->part_bytes;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < p->n; i++) {
    float *row = p->x + i * p->step;
    char *at = wire + i * bytes;
    if (a->encode)
      ts_codec_encode(c, at, row, p->n_cols);
    else if (r == 0)
      ts_codec_decode(c, row, at, p->n_cols);
    else
      ts_codec_add(c, row, at, p->n_cols);
  }
}

static ts_err code_rows(const ts_code_args *a) {
  for (int32_t r = 0; r < a->n_parts; r++)
    for (int32_t k = 0; k < a->n_pieces; k++) code_piece(a, &a->piece[k], r);
  return TS_OK;
}

/* ---- positions ----------------------------------------------------------- */

static inline int64_t place_of(uint16_t position, int64_t n) {
  return position < n ? position : n - 1;
}

static void weigh_slot(const ts_position_slot *s) {
  const int64_t to = s->offsets[s->n_bags];
#pragma omp for schedule(static) nowait
  for (int64_t i = s->offsets[0]; i < to; i++)
    s->value[i] = s->weight[place_of(s->positions[i], s->n)];
}

static ts_err weigh_positions(const ts_position_args *a) {
#pragma omp parallel
  for (int32_t k = 0; k < a->n_slots; k++) weigh_slot(&a->slot[k]);
  return TS_OK;
}

/* Slot K and those that follow with the same sum. */
static void sum_slots(const ts_position_args *a, int32_t k) {
  double *sum = a->slot[k].sum;
  for (; k < a->n_slots && a->slot[k].sum == sum; k++) {
    const ts_position_slot *s = &a->slot[k];
    const int64_t to = s->offsets[s->n_bags];
    for (int64_t i = s->offsets[0]; i < to; i++)
      sum[place_of(s->positions[i], s->n)] += s->value[i];
  }
}

/* A sum is one thread's. */
static ts_err sum_positions(const ts_position_args *a) {
#pragma omp parallel for schedule(dynamic)
  for (int32_t k = 0; k < a->n_slots; k++)
    if (k == 0 || a->slot[k].sum != a->slot[k - 1].sum) sum_slots(a, k);
  return TS_OK;
}

static ts_err narrow(float *dst, const double *src, int64_t n) {
  for (int64_t i = 0; i < n; i++) dst[i] = (float)src[i];
  return TS_OK;
}

void ts_view_kernels_host(ts_kernels *k) {
  k->copy_rows = copy_rows;
  k->sum_rows = sum_rows;
  k->scale_rows = scale_rows;
  k->code_rows = code_rows;
  k->weigh_positions = weigh_positions;
  k->sum_positions = sum_positions;
  k->narrow = narrow;
}
