/* attention_float_body.h - factors of attention's products as they are: f32.
 * attention_half_body.h has the same names for pairs of bf16. */
#pragma once

enum { PER = 1 }; /* numbers in a factor */
typedef ts_vec factors;

/* Queries are scaled as they are packed, by this; what of the scale is left
 * comes behind their products. */
TS_BODY float packed_scale(const ts_attention_args *t) {
  return t->scale;
}
TS_BODY float scale_left(const ts_attention_args *t) {
  (void)t;
  return 1;
}

TS_BODY factors load_factors(const factor *x) {
  return *(const ts_vec *)x;
}
TS_BODY ts_vec add_product(ts_vec sum, factor x, factors v) {
  return sum + x * v;
}

/* TO (n, padded(dim)) = TIMES times rows of DIM, zeros behind them: factors of
 * a product along these, or across them. */
static void pack_along(float *restrict to, const float *x, int64_t stride,
                       int64_t n, int32_t dim, float times) {
  const int64_t pad = padded(dim);
  for (int64_t r = 0; r < n; r++, to += pad, x += stride) {
    TS_EACH(c, dim) to[c] = times * x[c];
    for (int64_t c = dim; c < pad; c++) to[c] = 0;
  }
}

/* The same rows, packed across to ACROSS and transposed to TURNED. */
static void pack_both(float *turned, float *across, float *room, const float *x,
                      int64_t stride, int64_t n, int32_t dim, float times) {
  (void)room;
  pack_along(across, x, stride, n, dim, times);
  turn_rows(turned, across, n, dim);
}

/* As they lie; across them in ROOM, unless they are whole panels. */
static attention_side along(float *room, const float *x, int64_t stride,
                            int64_t n, int32_t dim) {
  (void)room, (void)n, (void)dim;
  return (attention_side){x, stride};
}
static attention_side across(float *room, const float *x, int64_t stride,
                             int64_t n, int32_t dim) {
  if (dim % LANES == 0) return (attention_side){x, stride};
  pack_along(room, x, stride, n, dim, 1);
  return (attention_side){room, padded(dim)};
}

/* The numbers of a tile (n_j, TILE), n_i of each row, as factors: along rows,
 * which are TILE / PER factors apart, or across them. */
static const float *tile_along(float *room, float *x, int64_t n_j,
                               int64_t n_i) {
  (void)room, (void)n_j, (void)n_i;
  return x;
}
static const float *tile_across(float *room, const float *x, int64_t n_j,
                                int64_t n_i) {
  (void)room, (void)n_j, (void)n_i;
  return x;
}
