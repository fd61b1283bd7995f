/* weight_grad_body.h - the gradient by each id's weight, for each instruction
 * set: a dot product per id.
 *
 * The ids and rows are those of the lookup, so it is cut over threads and
 * asks for rows ahead in the same way; a bag's gradient stays in the caches
 * over its ids. */
#pragma once

#include "sparse/lookup_body.h"

/* Columns of a row: of one in few bits as its scale and bias make them. */
TS_BODY ts_vec number_vec(const char *row, int32_t d, const float tail[2],
                          ts_dtype t) {
  if (!ts_dtype_has_scale(t)) return load(row, d, t);
  return ts_vec_fused(load_few(row, d, t), tail[0] - (ts_vec){0},
                      tail[1] - (ts_vec){0});
}

TS_BODY float number1(const char *row, int32_t d, const float tail[2],
                      ts_dtype t) {
  if (!ts_dtype_has_scale(t)) return load1(row, d, t);
  return __builtin_fmaf(load_few1(row, d, t), tail[0], tail[1]);
}

TS_BODY float dot_row(const char *row, const float *g, int32_t dim,
                      ts_dtype t) {
  float tail[2] = {0};
  ts_vec sum[16 / LANES];
  float part[16];
  int32_t d = 0;
  if (ts_dtype_has_scale(t))
    memcpy(tail, row + ts_columns_bytes(t, dim), sizeof tail);
  for (int v = 0; v < 16 / LANES; v++) sum[v] = (ts_vec){0};
  for (; d + 16 <= dim; d += 16)
    for (int v = 0; v < 16 / LANES; v++) {
      const int32_t at = d + LANES * v;
      sum[v] += number_vec(row, at, tail, t) * *(const ts_vecu *)(g + at);
    }
  memcpy(part, sum, sizeof part);
  for (int k = 0; d < dim; d++, k++) part[k] += number1(row, d, tail, t) * g[d];
  return ts_v16_sum(part);
}

TS_BODY void weight_grad_bags(const ts_weight_grad_args *w, int64_t first,
                              int64_t end, ts_dtype t) {
  const ts_lookup_args *a = w->bags;
  const int64_t row_bytes = ts_row_bytes(t, a->dim);
  ts_bag b = {.rows = a->rows,
              .row_bytes = row_bytes,
              .ahead = a->offsets[a->bag_start[a->n_features]] - AHEAD};
  int64_t bag = first;
  for (int32_t f = 0; f < a->n_features && bag < end; f++) {
    const int64_t stop = a->bag_start[f + 1] < end ? a->bag_start[f + 1] : end;
    b.table = (const char *)a->weight + a->row_base[f] * row_bytes;
    for (; bag < stop; bag++) {
      const float *g = w->grad + a->at[bag];
      b.from = a->offsets[bag], b.to = a->offsets[bag + 1];
      b.scale = a->mean && b.to > b.from ? 1.0f / (float)(b.to - b.from) : 1.0f;
      for (int64_t i = b.from; i < b.to; i++)
        w->out[i] =
            b.scale * dot_row(row_at(&b, i, 0, row_bytes), g, a->dim, t);
    }
  }
}

TS_BODY void weight_grad_part(const ts_weight_grad_args *w, int p, int n) {
  const ts_lookup_args *a = w->bags;
  const int64_t first = lookup_cut(a, p, n), end = lookup_cut(a, p + 1, n);
  if (a->dtype == TS_F32) weight_grad_bags(w, first, end, TS_F32);
  if (a->dtype == TS_BF16) weight_grad_bags(w, first, end, TS_BF16);
  if (a->dtype == TS_F16) weight_grad_bags(w, first, end, TS_F16);
  if (a->dtype == TS_INT8) weight_grad_bags(w, first, end, TS_INT8);
  if (a->dtype == TS_INT4) weight_grad_bags(w, first, end, TS_INT4);
}
