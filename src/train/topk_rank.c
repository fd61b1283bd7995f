/* topk_rank.c - the scores of some vectors with all items of a part, and the
 * best of them. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clones.h"
#include "base/mem.h"
#include "train/topk_items.h"

enum {
  B = TS_ITEM_BLOCK,
  SOME = 16, /* items that are looked at one by one, or not at all */
  TILE = 4,
  MOST = 64 /* vectors that share a pass */
};

/* score[q][i] = sum over c of query[q][c] x[c][i], ascending in c. */
TS_CLONES
static void score_tile(float (*restrict score)[B], const float *const *query,
                       const float *restrict x, int32_t dim) {
  for (int q = 0; q < TILE; q++)
    for (int i = 0; i < B; i++) score[q][i] = 0;
  for (int32_t c = 0; c < dim; c++)
    for (int q = 0; q < TILE; q++)
      for (int i = 0; i < B; i++)
        score[q][i] += query[q][c] * x[(int64_t)c * B + i];
}

/* ---- the best of one vector ---------------------------------------------- */

/* A heap whose first is the worst of the N so far. */
typedef struct ts_heap {
  ts_found *heap;
  int32_t n, k;
} ts_heap;

static void sink(ts_heap *b, int32_t at) {
  ts_found x = b->heap[at];
  for (int32_t child; (child = 2 * at + 1) < b->n; at = child) {
    if (child + 1 < b->n &&
        ts_found_before(&b->heap[child], &b->heap[child + 1]))
      child++;
    if (!ts_found_before(&x, &b->heap[child])) break;
    b->heap[at] = b->heap[child];
  }
  b->heap[at] = x;
}

static void push(ts_heap *b, ts_found x) {
  int32_t at = b->n;
  if (at == b->k) {
    b->heap[0] = x;
    sink(b, 0);
    return;
  }
  for (b->n++; at; at = (at - 1) / 2) {
    if (!ts_found_before(&b->heap[(at - 1) / 2], &x)) break;
    b->heap[at] = b->heap[(at - 1) / 2];
  }
  b->heap[at] = x;
}

static bool is_left_out(const ts_left_out *o, int64_t q, int64_t id) {
  int64_t low = o->start[q], high = o->start[q + 1];
  while (low < high) {
    const int64_t mid = (low + high) / 2;
    if (o->id[mid] == id) return true;
    if (o->id[mid] < id)
      low = mid + 1;
    else
      high = mid;
  }
  return false;
}

/* Bit k: of the k-th SOME items of a block one may be no worse than WORST,
 * which is rare once the best of some blocks are there. */
TS_CLONES
static unsigned better_ones(const float *restrict score, float worst) {
  unsigned bits = 0;
  for (int k = 0; k < B / SOME; k++) {
    int better = 0;
    for (int i = 0; i < SOME; i++) better |= !(score[k * SOME + i] < worst);
    bits |= (unsigned)(better != 0) << k;
  }
  return bits;
}

/* Items AT and on of the part, N of them. */
static void take(ts_heap *b, const float *score, const ts_item_part *p,
                 int64_t at, int n, const ts_left_out *o, int64_t q) {
  const unsigned all = (1u << B / SOME) - 1;
  const unsigned better =
      b->n < b->k ? all : better_ones(score, b->heap[0].score);
  if (!better) return;
  for (int i = 0; i < n; i++) {
    if (!(better >> i / SOME & 1)) {
      i += SOME - 1;
      continue;
    }
    /* No number is worse than any. */
    const float s = isnan(score[i]) ? -INFINITY : score[i];
    const ts_found x = {ts_item_part_id(p, at + i), s, 0};
    if (b->n == b->k && s < b->heap[0].score) continue;
    if (b->n == b->k && !ts_found_before(&x, &b->heap[0])) continue;
    if (!is_left_out(o, q, x.id)) push(b, x);
  }
}

static int in_order(const void *a, const void *b) {
  return ts_found_before(a, b) ? -1 : ts_found_before(b, a);
}

/* ---- all of them --------------------------------------------------------- */

/* Vectors from Q on, N of them, MOST at most. */
static void rank_some(const ts_item_part *p, const float *query, int64_t q,
                      int n, int32_t k, const ts_left_out *o, ts_found *found) {
  ts_heap best[MOST];
  float score[TILE][B];
  for (int i = 0; i < n; i++) best[i] = (ts_heap){found + (q + i) * k, 0, k};
  for (int64_t at = 0; at < p->n; at += B) {
    const int items = p->n - at < B ? (int)(p->n - at) : B;
    for (int i = 0; i < n; i += TILE) {
      const float *rows[TILE];
      for (int j = 0; j < TILE; j++) /* the last one again */
        rows[j] = query + (q + (i + j < n ? i + j : n - 1)) * p->dim;
      score_tile(score, rows, p->x + at * p->dim, p->dim);
      for (int j = 0; j < TILE && i + j < n; j++)
        take(&best[i + j], score[j], p, at, items, o, q + i + j);
    }
  }
  for (int i = 0; i < n; i++) {
    qsort(best[i].heap, (size_t)best[i].n, sizeof *best[i].heap, in_order);
    for (int32_t j = best[i].n; j < k; j++)
      best[i].heap[j] = (ts_found){-1, 0, 0};
  }
}

/* Vectors that a thread takes at once: so few that each thread has some. */
static int share_of(int64_t n) {
  const int64_t threads = omp_get_max_threads();
  const int64_t each = (n + threads - 1) / threads;
  return each < MOST ? (int)(each + TILE - 1) / TILE * TILE : MOST;
}

ts_err ts_item_part_rank(const ts_item_part *p, const float *query, int64_t n,
                         int32_t k, const ts_left_out *o, ts_found *found) {
  const int some = share_of(n);
#pragma omp parallel for schedule(dynamic)
  for (int64_t q = 0; q < n; q += some)
    rank_some(p, query, q, n - q < some ? (int)(n - q) : some, k, o, found);
  return TS_OK;
}
