/* kernels_tokens.c - the host's kernels of tokens, in plain C: they wait for
 * memory. */
#include <string.h>

#include "runtime/backends.h"

/* ---- where they are ------------------------------------------------------ */

static ts_err tokens(const ts_tokens_args *a) {
  int64_t at = 0;
  for (int64_t s = 0; s < a->n_samples; s++) {
    a->offsets[s] = at;
    at += a->bags      ? a->bags[s + 1] - a->bags[s]
          : a->lengths ? a->lengths[s]
                       : 1;
    at += a->more;
  }
  a->offsets[a->n_samples] = at;
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < a->n_samples; s++)
    for (int64_t t = a->offsets[s]; t < a->offsets[s + 1]; t++) {
      a->sample[t] = (int32_t)s;
      a->position[t] = (int32_t)(t - a->offsets[s]);
    }
  return TS_OK;
}

static ts_err token_times(const ts_token_times_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < a->n_tokens; t++) {
    const int64_t s = a->sample[t], end = a->bags ? a->bags[s + 1] : 0;
    const int64_t k = a->bags ? a->bags[s] + t - a->offsets[s] : 0;
    a->when[t] = k < end ? (double)a->ids[k] : 0;
    a->asked[t] = k + 1 < end ? (double)a->ids[k + 1] : a->when[t];
  }
  return TS_OK;
}

/* ---- vectors before them ------------------------------------------------- */

/* Token T of y is a row of x, and is a vector of its sample otherwise: where
 * that begins. */
static bool is_of_x(const ts_prepend_args *a, int64_t t, int64_t *at) {
  const int64_t s = a->sample[t], k = a->position[t];
  const bool of_x = k >= a->n_before;
  *at = of_x ? (t - (s + 1) * a->n_before) * a->x_stride
             : s * a->before_stride + k * a->n;
  return of_x;
}

static ts_err prepend_forward(const ts_prepend_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < a->n_tokens; t++) {
    int64_t at;
    const float *from = is_of_x(a, t, &at) ? a->x : a->before;
    memcpy(a->y + t * a->y_stride, from + at, (size_t)a->n * sizeof *from);
  }
  return TS_OK;
}

static ts_err prepend_backward(const ts_prepend_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < a->n_tokens; t++) {
    int64_t at;
    float *to = is_of_x(a, t, &at) ? a->dx : a->dbefore;
    if (to) memcpy(to + at, a->dy + t * a->y_stride, (size_t)a->n * sizeof *to);
  }
  return TS_OK;
}

/* ---- pool ---------------------------------------------------------------- */

static void add_rows(float *y, const float *x, int64_t n_rows, int64_t stride,
                     int32_t n) {
  for (int64_t t = 0; t < n_rows; t++)
    for (int32_t c = 0; c < n; c++) y[c] += x[t * stride + c];
}

static void largest(float *y, const float *x, int64_t n_rows, int64_t stride,
                    int32_t n) {
  memcpy(y, x, (size_t)n * sizeof *y);
  for (int64_t t = 1; t < n_rows; t++)
    for (int32_t c = 0; c < n; c++)
      y[c] = x[t * stride + c] > y[c] ? x[t * stride + c] : y[c];
}

static ts_err pool_forward(const ts_pool_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < a->n_samples; s++) {
    const int64_t from = a->offsets[s], n_rows = a->offsets[s + 1] - from;
    const float *x = a->x + from * a->x_stride;
    float *y = a->y + s * a->y_stride;
    memset(y, 0, (size_t)a->n * sizeof *y);
    if (n_rows == 0) continue;
    if (a->kind == TS_POOL_TOKENS_MAX)
      largest(y, x, n_rows, a->x_stride, a->n);
    else if (a->kind == TS_POOL_TOKENS_LAST)
      memcpy(y, x + (n_rows - 1) * a->x_stride, (size_t)a->n * sizeof *y);
    else
      add_rows(y, x, n_rows, a->x_stride, a->n);
    if (a->kind == TS_POOL_TOKENS_MEAN)
      for (int32_t c = 0; c < a->n; c++) y[c] *= 1 / (float)n_rows;
  }
  return TS_OK;
}

/* dx of the first largest of N_ROWS tokens. */
static void give_largest(const ts_pool_args *a, const float *x, const float *dy,
                         float *dx, int64_t n_rows) {
  for (int64_t t = 0; t < n_rows; t++)
    memset(dx + t * a->x_stride, 0, (size_t)a->n * sizeof *dx);
  for (int32_t c = 0; c < a->n && n_rows; c++) {
    int64_t best = 0;
    for (int64_t t = 1; t < n_rows; t++)
      if (x[t * a->x_stride + c] > x[best * a->x_stride + c]) best = t;
    dx[best * a->x_stride + c] = dy[c];
  }
}

static void give_rows(const ts_pool_args *a, const float *dy, float *dx,
                      int64_t n_rows) {
  const float share = a->kind == TS_POOL_TOKENS_MEAN ? 1 / (float)n_rows : 1;
  for (int64_t t = 0; t < n_rows; t++, dx += a->x_stride) {
    const bool none = a->kind == TS_POOL_TOKENS_LAST && t < n_rows - 1;
    for (int32_t c = 0; c < a->n; c++) dx[c] = none ? 0 : share * dy[c];
  }
}

static ts_err pool_backward(const ts_pool_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t s = 0; s < a->n_samples; s++) {
    const int64_t from = a->offsets[s], n_rows = a->offsets[s + 1] - from;
    const float *dy = a->dy + s * a->y_stride;
    float *dx = a->dx + from * a->x_stride;
    if (a->kind == TS_POOL_TOKENS_MAX)
      give_largest(a, a->x + from * a->x_stride, dy, dx, n_rows);
    else
      give_rows(a, dy, dx, n_rows);
  }
  return TS_OK;
}

/* ---- position ------------------------------------------------------------ */

/* The place of token T. */
static int64_t place_of(const ts_places_args *a, int64_t t) {
  const int64_t place =
      a->from_newest ? a->offsets[a->sample[t] + 1] - 1 - t : a->position[t];
  return place < a->n_places ? place : a->n_places - 1;
}

static ts_err places_forward(const ts_places_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < a->n_tokens; t++) {
    const float *x = a->x + t * a->x_stride;
    const float *row = a->table + place_of(a, t) * a->n;
    float *y = a->y + t * a->y_stride;
    for (int32_t c = 0; c < a->n; c++) y[c] = a->scale * x[c] + row[c];
  }
  return TS_OK;
}

/* dtable's row P: those of the last one are many in a sample. */
static void sum_place(const ts_places_args *a, int32_t p) {
  float *sum = a->dtable + (int64_t)p * a->n;
  memset(sum, 0, (size_t)a->n * sizeof *sum);
  for (int64_t s = 0; s < a->n_samples; s++) {
    const int64_t from = a->offsets[s], end = a->offsets[s + 1];
    const int64_t n = end - from;
    const int64_t last =
        p == a->n_places - 1 ? n : p + 1; /* places [p, last) */
    for (int64_t k = p; k < last && k < n; k++) {
      const float *dy =
          a->dy + (a->from_newest ? end - 1 - k : from + k) * a->y_stride;
      for (int32_t c = 0; c < a->n; c++) sum[c] += dy[c];
    }
  }
}

static ts_err places_backward(const ts_places_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < (a->dx ? a->n_tokens : 0); t++)
    for (int32_t c = 0; c < a->n; c++)
      a->dx[t * a->x_stride + c] = a->scale * a->dy[t * a->y_stride + c];
#pragma omp parallel for schedule(static, 1)
  for (int32_t p = 0; p < a->n_places; p++) sum_place(a, p);
  return TS_OK;
}

/* ---- rotary -------------------------------------------------------------- */

/* Not TS_CLONES: gcc 12.2 fuses these products and sums there, although told
 * not to. */
static void turn(float *restrict x, const float *restrict wave, int32_t n,
                 float sign) {
  for (int32_t i = 0; i < n; i += 2) {
    const float a = x[i], b = x[i + 1];
    const float s = sign * wave[i], c = wave[i + 1];
    x[i] = a * c - b * s;
    x[i + 1] = a * s + b * c;
  }
}

static ts_err rotary(const ts_rotary_args *a) {
  const float sign = a->back ? -1 : 1;
#pragma omp parallel for schedule(static)
  for (int64_t t = 0; t < a->n_tokens; t++)
    for (int32_t h = 0; h < a->n_heads; h++)
      turn(a->x + t * a->x_stride + (int64_t)h * a->dim,
           a->waves + (int64_t)a->position[t] * a->dim, a->dim, sign);
  return TS_OK;
}

void ts_token_kernels_host(ts_kernels *k) {
  k->tokens = tokens;
  k->token_times = token_times;
  k->prepend_forward = prepend_forward;
  k->prepend_backward = prepend_backward;
  k->pool_forward = pool_forward;
  k->pool_backward = pool_backward;
  k->places_forward = places_forward;
  k->places_backward = places_backward;
  k->rotary = rotary;
}
