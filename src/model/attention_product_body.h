/* attention_product_body.h - the small products that attention's tiles are
 * made of, for each instruction set.
 *
 * Six rows of C, up to four panels of 16 columns, stay in registers over k:
 * rows of A are spread, B's panels are read as they lie.  Both sides come from
 * the cache; what is packed is padded to whole panels.  With TS_HALF a factor
 * is two of bf16 that are neighbours along k (attention_half_body.h). */
#pragma once

#include <string.h>

#include "model/attention.h"
#include "model/attention_ahead_body.h"
#include "sparse/isa.h"

enum {
  TILE = 48,        /* queries by keys */
  GROUP = 5 * TILE, /* of either, that are packed once */
  TILE_ROWS = 6,    /* a divisor of TILE */
  TILE_PANELS = TS_WIDTH == 16 ? 4 : 1,
  STEPS = TILE / TILE_ROWS /* of one of a tile's products */
};

static int64_t padded(int64_t n) {
  return (n + LANES - 1) / LANES * LANES;
}

/* TO (padded(n_c), TILE) = the transpose of the first N rows of FROM (TILE,
 * padded(n_c)), by squares of four; factors of any kind, of 32 bits. */
static void turn_rows(void *restrict to, const void *restrict from, int64_t n,
                      int64_t n_c) {
  const int64_t pad = padded(n_c);
  for (int64_t r = 0; r < n; r += 4)
    for (int64_t c = 0; c < n_c; c += 4) {
      ts_v4 x[4], y[4];
      for (int k = 0; k < 4; k++)
        memcpy(&x[k], (const float *)from + (r + k) * pad + c, sizeof x[k]);
      y[0] = TS_SHUFFLE4(x[0], x[1], 0, 4, 1, 5);
      y[1] = TS_SHUFFLE4(x[2], x[3], 0, 4, 1, 5);
      y[2] = TS_SHUFFLE4(x[0], x[1], 2, 6, 3, 7);
      y[3] = TS_SHUFFLE4(x[2], x[3], 2, 6, 3, 7);
      for (int k = 0; k < 4; k++) {
        const ts_v4 z =
            k % 2 ? TS_SHUFFLE4(y[k - k % 2], y[k - k % 2 + 1], 2, 3, 6, 7)
                  : TS_SHUFFLE4(y[k], y[k + 1], 0, 1, 4, 5);
        memcpy((float *)to + (c + k) * TILE + r, &z, sizeof z);
      }
    }
}

#ifdef TS_HALF
typedef uint32_t factor;
#else
typedef float factor;
#endif

/* Rows as factors of a product along them, or across them. */
typedef struct attention_side {
  const factor *x;
  int64_t stride; /* of one row; of bf16 across them of two */
} attention_side;

#ifdef TS_HALF
#include "model/attention_half_body.h"
#else
#include "model/attention_float_body.h"
#endif

/* Factors of N numbers. */
static int64_t factors_of(int64_t n) {
  return (n + PER - 1) / PER;
}

/* Tiles on the diagonal are half empty: what of them is left out.  Zeros
 * remain within the six rows. */
typedef enum {
  WHOLE,
  PANELS_FROM_ROW, /* of columns; those before stay as they are */
  K_TO_ROW,        /* k at rows or before */
  K_FROM_ROW
} tile_part;

/* C (n_r, 16 n_panels) = the sum over k of A[r][k] B[k][c]; where ADD, on top
 * of TIMES[r] C (NULL: C). */
typedef struct tile_product {
  float *c;
  const factor *a, *b;
  const float *times;
  int64_t c_r, a_r, b_k; /* strides */
  int64_t n_r,
      n_k; /* n_k: numbers; of pairs what is beyond them is 0, in a and b */
  int32_t n_panels;
  int64_t from_row, from_panel; /* those before may stay as they are */
  bool add;
  tile_part part;
  attention_ahead *ahead; /* a step with each six rows */
} tile_product;

/* Rows that aren't there are the last one again. */
TS_BODY void tile_rows(const tile_product *p, int64_t row, int64_t panel,
                       int panels, int64_t a_k) {
  ts_vec s[TILE_ROWS][TILE_PANELS * VECS] = {{{0}}};
  const factor *x[TILE_ROWS], *b = p->b + panel * LANES;
  const int64_t past = row + TILE_ROWS, last = p->n_r - 1;
  const int64_t most = p->part == K_TO_ROW && past < p->n_k ? past : p->n_k;
  const int64_t end = factors_of(most);
  for (int r = 0; r < TILE_ROWS; r++)
    x[r] = p->a + (row + r < last ? row + r : last) * p->a_r;
  for (int64_t k = p->part == K_FROM_ROW ? row / PER : 0; k < end; k++) {
    factors v[TILE_PANELS * VECS];
    for (int u = 0; u < panels * VECS; u++)
      v[u] = load_factors(b + k * p->b_k + u * TS_WIDTH);
    for (int r = 0; r < TILE_ROWS; r++)
      for (int u = 0; u < panels * VECS; u++)
        s[r][u] = add_product(s[r][u], x[r][k * a_k], v[u]);
  }
  for (int r = 0; r < TILE_ROWS; r++) {
    const int64_t at = row + r < last ? row + r : last;
    float *c = p->c + at * p->c_r + panel * LANES;
    const float f = p->times ? p->times[at] : 1;
    for (int u = 0; u < panels * VECS && row + r <= last; u++, c += TS_WIDTH)
      *(ts_vec *)c = p->add ? f * *(const ts_vec *)c + s[r][u] : s[r][u];
  }
}

TS_BODY void tile_product_of(const tile_product *p, int64_t a_k) {
  const int64_t first = p->from_row / TILE_ROWS * TILE_ROWS;
  for (int64_t r = first; r < p->n_r; r += TILE_ROWS) {
    int64_t panel = p->part == PANELS_FROM_ROW ? r / LANES : 0;
    if (panel < p->from_panel) panel = p->from_panel;
    ahead_step(p->ahead);
    for (; panel + TILE_PANELS <= p->n_panels; panel += TILE_PANELS)
      tile_rows(p, r, panel, TILE_PANELS, a_k);
#if TS_WIDTH == 16
    switch (p->n_panels - panel) {
    case 3:
      tile_rows(p, r, panel, 3, a_k);
      break;
    case 2:
      tile_rows(p, r, panel, 2, a_k);
      break;
    case 1:
      tile_rows(p, r, panel, 1, a_k);
      break;
    default:
      break;
    }
#endif
  }
}

/* A's factors of a row lie side by side; or rows do, k TILE apart. */
static void product_along(const tile_product *p) {
  tile_product_of(p, 1);
}
static void product_across(const tile_product *p) {
  tile_product_of(p, TILE);
}
