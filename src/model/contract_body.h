/* contract_body.h - sums of products over one index, for each instruction set.
 *
 * Rows of C are made of panels of 16 columns, one or two, whose sums stay in
 * registers, one after the other over k: B's factors are a panel's, as they lie
 * or packed, A's are spread.  The sides change places where that saves packing
 * or fills panels.  Where C has a few elements and its factors lie side by
 * side, sums are those of 16 lanes.  Long sums of few elements, gradients of
 * weights, are cut into chunks, large products into slabs of rows, which
 * threads share.  The shape alone says which. */
#pragma once

#include <omp.h>

#include "base/mem.h"
#include "kernel_table.h"

#define TS_BODY static inline __attribute__((always_inline))
typedef float ts_vec __attribute__((vector_size(4 * TS_WIDTH), aligned(4)));

enum {
  LANES = 16,
  VECS = LANES / TS_WIDTH,
  ROWS = TS_WIDTH == 16 ? 8 : 4,   /* of a panel, by registers */
  PANELS = TS_WIDTH == 16 ? 2 : 1, /* at once, where none is packed */
  CHUNK = 512,
  SLAB = 32, /* rows at least; 8 times that where each packs B's factors */
  PIECES = 64,
  PARTS_MAX = 1 << 22 /* floats of chunks' sums */
};

/* The sum of lanes by halves. */
TS_BODY float lanes_sum(float part[LANES]) {
  for (int w = LANES / 2; w; w /= 2)
    for (int k = 0; k < w; k++) part[k] += part[k + w];
  return part[0];
}

/* SUM = the sum of TERM over C < N, in 16 lanes. */
#define TS_LANES_SUM(sum, c, n, term)                                          \
  do {                                                                         \
    float part[LANES] = {0};                                                   \
    const int64_t whole = (n) / LANES * LANES;                                 \
    for (int64_t at = 0; at < whole; at += LANES)                              \
      _Pragma("omp simd") for (int lane = 0; lane < LANES; lane++) {           \
        const int64_t c = at + lane;                                           \
        part[lane] += (term);                                                  \
      }                                                                        \
    for (int64_t c = whole; c < (n); c++) part[c - whole] += (term);           \
    (sum) = lanes_sum(part);                                                   \
  } while (0)

/* One chunk of the sums of one b and h: C = (ADD: +=) SCALE times them. */
typedef struct sum_product {
  const float *a, *b;
  float *c;
  int64_t c_i, c_j, a_i, a_k, b_j, b_k, n_i, n_j, n_k; /* strides, sizes */
  float scale;
  bool add;
} sum_product;

TS_BODY void put_sum(const sum_product *p, int64_t i, int64_t j, float sum) {
  float *c = p->c + i * p->c_i + j * p->c_j;
  *c = p->add ? *c + p->scale * sum : p->scale * sum;
}

/* The same for elements from J on, LANES or as many as there are. */
TS_BODY void put_panel(const sum_product *p, int64_t i, int64_t j,
                       const ts_vec sum[VECS]) {
  const int64_t n = p->n_j - j < LANES ? p->n_j - j : LANES;
  float *c = p->c + i * p->c_i + j, sums[LANES];
  if (n == LANES && p->c_j == 1) {
    for (int u = 0; u < VECS; u++) {
      ts_vec *to = (ts_vec *)(c + u * TS_WIDTH);
      *to = p->add ? *to + p->scale * sum[u] : p->scale * sum[u];
    }
    return;
  }
  for (int u = 0; u < VECS; u++) *(ts_vec *)(sums + u * TS_WIDTH) = sum[u];
  for (int64_t q = 0; q < n; q++) put_sum(p, i, j + q, sums[q]);
}

/* B's factors, unless they are ones, and A's lie side by side. */
static void by_dots(const sum_product *p) {
  for (int64_t i = 0; i < p->n_i; i++)
    for (int64_t j = 0; j < p->n_j; j++) {
      const float *x = p->a + i * p->a_i, *y = p->b + j * p->b_j;
      float sum;
      if (p->b_k)
        TS_LANES_SUM(sum, k, p->n_k, x[k] * y[k]);
      else
        TS_LANES_SUM(sum, k, p->n_k, x[k]);
      put_sum(p, i, j, sum);
    }
}

/* So many rows of C from I on, PANELS side by side from column J on, whose
 * factors of B are at PANEL, STEP apart. */
TS_BODY void panel_rows(const sum_product *p, int64_t i, int64_t j,
                        const float *panel, int64_t step, int rows,
                        int panels) {
  ts_vec s[ROWS][PANELS * VECS] = {{{0}}};
  const float *x[ROWS];
  for (int r = 0; r < rows; r++) /* those that aren't there are the last */
    x[r] = p->a + (i + r < p->n_i ? i + r : p->n_i - 1) * p->a_i;
  for (int64_t k = 0; k < p->n_k; k++) {
    ts_vec v[PANELS * VECS];
    for (int u = 0; u < panels * VECS; u++)
      v[u] = *(const ts_vec *)(panel + k * step + u * TS_WIDTH);
    for (int r = 0; r < rows; r++)
      for (int u = 0; u < panels * VECS; u++)
        s[r][u] += x[r][k * p->a_k] * v[u];
  }
  for (int r = 0; r < rows && i + r < p->n_i; r++)
    for (int q = 0; q < panels; q++)
      put_panel(p, i + r, j + q * LANES, s[r] + q * VECS);
}

/* All rows. */
TS_BODY void panel_all(const sum_product *p, int64_t j, const float *panel,
                       int64_t step, int panels) {
  int64_t i = 0;
  for (; i + ROWS / 2 < p->n_i; i += ROWS)
    panel_rows(p, i, j, panel, step, ROWS, panels);
  for (; i + ROWS / 4 < p->n_i; i += ROWS / 2)
    panel_rows(p, i, j, panel, step, ROWS / 2, panels);
  for (; i < p->n_i; i++) panel_rows(p, i, j, panel, step, 1, panels);
}

/* PACK: room for 16 columns of factors. */
static void by_panels(const sum_product *p, float *pack) {
  int64_t j = 0;
  if (p->b_j == 1)
    for (; j + PANELS * LANES <= p->n_j; j += PANELS * LANES)
      panel_all(p, j, p->b + j, p->b_k, PANELS);
  for (; j < p->n_j; j += LANES) {
    const float *panel = p->b + j * p->b_j;
    const int64_t n = p->n_j - j < LANES ? p->n_j - j : LANES;
    if (p->b_j == 1 && n == LANES) {
      panel_all(p, j, panel, p->b_k, 1);
      continue;
    }
    for (int64_t k = 0; k < p->n_k; k++)
      for (int64_t q = 0; q < LANES; q++)
        pack[k * LANES + q] = q < n ? panel[k * p->b_k + q * p->b_j] : 0;
    panel_all(p, j, pack, LANES, 1);
  }
}

/* ---- which b, h, chunk --------------------------------------------------- */

typedef struct work {
  ts_contract_args t;
  int64_t n_chunks, chunk, n; /* n: of C's elements */
  int64_t n_slabs, slab;      /* of rows of C */
  float *parts, *pack;        /* (n_chunks, n); of each thread */
  bool dots;
} work;

static const float contract_one = 1;

/* Slabs where there is little else for threads to share. */
static void cut_rows(work *w) {
  const int64_t n = w->t.n_b * w->t.n_h * w->n_chunks, n_i = w->t.n_i;
  const int64_t least = w->t.bs.r == 1 ? SLAB : 8 * SLAB;
  w->slab = n_i;
  if (!w->dots && n < PIECES) {
    w->slab = (n_i * n + PIECES - 1) / PIECES;
    w->slab = (w->slab + ROWS - 1) / ROWS * ROWS;
    if (w->slab < least) w->slab = least;
  }
  w->n_slabs = n_i ? (n_i + w->slab - 1) / w->slab : 0;
}

/* The sides in their places, and how sums are cut. */
static work work_of(const ts_contract_args *t) {
  work w = {.t = *t};
  if (!t->b) {
    w.t.b = &contract_one;
    w.t.bs = (ts_stride4){0};
  }
  const bool along = w.t.as.c == 1 && (w.t.bs.c == 1 || !t->b);
  w.dots = along && (int64_t)t->n_i * t->n_j < (t->b ? 6 : LANES);
  w.n = t->n_b * t->n_h * t->n_i * t->n_j;
  if (!w.dots &&
      (t->n_i > t->n_j ? t->n_j < LANES || w.t.bs.r != 1
                       : t->n_i >= LANES && w.t.bs.r != 1 && w.t.as.r == 1)) {
    const ts_contract_args u = w.t;
    w.t.a = u.b, w.t.b = u.a;
    w.t.as = u.bs, w.t.bs = u.as;
    w.t.n_i = u.n_j, w.t.n_j = u.n_i;
    w.t.cs.r = u.cs.c, w.t.cs.c = u.cs.r;
  }
  w.chunk = t->n_k;
  if (t->n_b * t->n_h < 64 && t->n_k > 2 * CHUNK && w.n <= PARTS_MAX / 2) {
    const int64_t most = PARTS_MAX / w.n;
    const int64_t each = (t->n_k + most - 1) / most;
    w.chunk = each > CHUNK ? each : CHUNK;
  }
  w.n_chunks = w.chunk ? (t->n_k + w.chunk - 1) / w.chunk : 1;
  cut_rows(&w);
  return w;
}

/* Piece AT: of the b and h, of the chunks, and of the slabs. */
static void contract_piece(const work *w, int64_t at) {
  const ts_contract_args *t = &w->t;
  const int64_t i = at % w->n_slabs * w->slab, rest = at / w->n_slabs;
  const int64_t chunk = rest % w->n_chunks, bh = rest / w->n_chunks;
  const int64_t b = bh / t->n_h, h = bh % t->n_h, k = chunk * w->chunk;
  sum_product p = {.a = t->a + b * t->as.b + h * t->as.h + i * t->as.r +
                        k * t->as.c,
                   .b = t->b + b * t->bs.b + h * t->bs.h + k * t->bs.c,
                   .c = t->c + b * t->cs.b + h * t->cs.h + i * t->cs.r,
                   .c_i = t->cs.r,
                   .c_j = t->cs.c,
                   .a_i = t->as.r,
                   .a_k = t->as.c,
                   .b_j = t->bs.r,
                   .b_k = t->bs.c,
                   .n_i = t->n_i - i < w->slab ? t->n_i - i : w->slab,
                   .n_j = t->n_j,
                   .n_k = t->n_k - k < w->chunk ? t->n_k - k : w->chunk,
                   .scale = t->scale,
                   .add = t->add};
  if (w->parts) {
    p.c = w->parts + chunk * w->n + (bh * t->n_i + i) * t->n_j;
    p.c_i = t->n_j, p.c_j = 1;
    p.scale = 1, p.add = false;
  }
  if (w->dots)
    by_dots(&p);
  else
    by_panels(&p, w->pack + omp_get_thread_num() * w->chunk * LANES);
}

/* Element I of C from its chunks. */
static void add_chunks(const work *w, int64_t i) {
  const ts_contract_args *t = &w->t;
  const int64_t j = i % t->n_j, row = i / t->n_j, bh = row / t->n_i;
  float *c = t->c + bh / t->n_h * t->cs.b + bh % t->n_h * t->cs.h +
             row % t->n_i * t->cs.r + j * t->cs.c;
  double sum = 0;
  for (int64_t k = 0; k < w->n_chunks; k++)
    sum += (double)w->parts[k * w->n + i];
  *c = (float)((t->add ? (double)*c : 0) + (double)t->scale * sum);
}

static ts_err contract(const ts_contract_args *t) {
  ts_err err = TS_OK;
  work w = work_of(t);
  if (w.n == 0) return TS_OK;
  if (!w.dots)
    TS_TRY(ts_mem_many(w.pack, omp_get_max_threads() * w.chunk * LANES,
                       ACTIVATIONS));
  if (w.n_chunks > 1)
    TS_TRY(ts_mem_many(w.parts, w.n_chunks * w.n, ACTIVATIONS));
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < t->n_b * t->n_h * w.n_chunks * w.n_slabs; i++)
    contract_piece(&w, i);
  if (w.parts)
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < w.n; i++) add_chunks(&w, i);
done:
  ts_mem_free(w.pack);
  ts_mem_free(w.parts);
  return err;
}
