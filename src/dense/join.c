/* join.c - the host's join_rows and split_rows: sample by sample, as what a
 * sample has lies in as many streams as there are parts. */
#include <string.h>

#include "dense/half.h"
#include "runtime/backends.h"

static void halve(uint16_t *restrict to, const float *restrict from,
                  int32_t n) {
  for (int32_t k = 0; k < n; k++) to[k] = ts_half_of(from[k]);
}

static void widen(float *restrict to, const uint16_t *restrict from,
                  int32_t n) {
  for (int32_t k = 0; k < n; k++) to[k] = ts_half_float(from[k]);
}

static void add_row(float *restrict to, const float *restrict from, int32_t n) {
  for (int32_t k = 0; k < n; k++) to[k] += from[k];
}

static void join_row(const ts_join_args *a, int64_t i) {
  float *wide = (float *)a->wide + i * a->stride;
  if (a->first_width)
    memcpy(wide, a->first + i * a->first_width, (size_t)a->first_width * 4);
  for (int32_t k = 0; k < a->n_parts; k++)
    memcpy(wide + a->at[k], a->part[k] + i * a->part_stride[k],
           (size_t)a->width[k] * 4);
}

static void join_row_half(const ts_join_args *a, int64_t i) {
  uint16_t *wide = (uint16_t *)a->wide + i * a->stride;
  if (a->first_width)
    halve(wide, a->first + i * a->first_width, a->first_width);
  for (int32_t k = 0; k < a->n_parts; k++)
    halve(wide + a->at[k], a->part[k] + i * a->part_stride[k], a->width[k]);
}

static void split_row(const ts_join_args *a, int64_t i) {
  const float *wide = (const float *)a->wide + i * a->stride;
  if (a->first_width)
    memcpy(a->first + i * a->first_width, wide, (size_t)a->first_width * 4);
  for (int32_t k = 0; k < a->n_parts; k++)
    memcpy(a->part[k] + i * a->part_stride[k], wide + a->at[k],
           (size_t)a->width[k] * 4);
}

static void split_row_half(const ts_join_args *a, int64_t i) {
  const uint16_t *wide = (const uint16_t *)a->wide + i * a->stride;
  if (a->first_width)
    widen(a->first + i * a->first_width, wide, a->first_width);
  for (int32_t k = 0; k < a->n_parts; k++)
    widen(a->part[k] + i * a->part_stride[k], wide + a->at[k], a->width[k]);
}

static void add_rows(const ts_join_args *a, int64_t i) {
  float *wide = (float *)a->wide + i * a->stride;
  if (a->first_width)
    add_row(wide, a->first + i * a->first_width, a->first_width);
  for (int32_t k = 0; k < a->n_parts; k++)
    add_row(wide + a->at[k], a->part[k] + i * a->part_stride[k], a->width[k]);
}

static ts_err join_rows(const ts_join_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->batch; i++)
    if (a->add)
      add_rows(a, i);
    else if (a->half)
      join_row_half(a, i);
    else
      join_row(a, i);
  return TS_OK;
}

static ts_err split_rows(const ts_join_args *a) {
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < a->batch; i++)
    if (a->half)
      split_row_half(a, i);
    else
      split_row(a, i);
  return TS_OK;
}

void ts_join_kernels_host(ts_kernels *k) {
  k->join_rows = join_rows;
  k->split_rows = split_rows;
}
