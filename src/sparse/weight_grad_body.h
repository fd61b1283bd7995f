/* weight_grad_body.h - the gradient by each id's weight, for each instruction
 * set: a dot product per id.
 *
 * The ids and rows are those of the lookup, so it is cut over threads and
 * asks for rows ahead in the same way; a bag's gradient stays in the caches
 * over its ids. */
#pragma once

#include "sparse/lookup_body.h"

TS_BODY float dot_row(const char *row, const float *g, int32_t dim,
                      ts_dtype t) {
  ts_vec sum[16 / LANES];
  float part[16];
  int32_t d = 0;
  for (int v = 0; v < 16 / LANES; v++) sum[v] = (ts_vec){0};
  for (; d + 16 <= dim; d += 16)
    for (int v = 0; v < 16 / LANES; v++) {
      const int32_t at = d + LANES * v;
      sum[v] += load(row, at, t) * *(const ts_vecu *)(g + at);
    }
  memcpy(part, sum, sizeof part);
  for (int k = 0; d < dim; d++, k++) part[k] += load1(row, d, t) * g[d];
  return ts_v16_sum(part);
}

TS_BODY void weight_grad_bags(const ts_weight_grad_args *w, int64_t first,
                              int64_t end, ts_dtype t) {
  const ts_lookup_args *a = w->bags;
  const int64_t row_bytes = (t == TS_F32 ? 4 : 2) * (int64_t)a->dim;
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
}
