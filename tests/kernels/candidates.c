/* candidates.c - the contract of the kernels of losses over candidates: where
 * targets lie, scores, losses and ranks, gradients, figures; against formulas
 * in double.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 300 */
#include "model/candidates.h"
#include "tests/kernels/layers.h"

KT_CONTRACT("targets candidates_forward candidates_rows candidates_items "
            "target_figures")

/* Samples of some rows, or of one, and of no more targets than rows. */
typedef struct wanted {
  int32_t *lengths;               /* of candidates */
  int64_t *bags, *rows, *offsets; /* rows NULL: one a sample */
  int32_t *first, *row, *sample;
  int64_t n_samples, n_rows, n_targets;
  int32_t n_each;
} wanted;

static void put_sample(wanted *w, int64_t s, int64_t m, int64_t n) {
  const int64_t t = w->offsets[s], r = w->rows ? w->rows[s] : s;
  w->lengths[s] = (int32_t)(m * w->n_each);
  w->bags[s + 1] = w->bags[s] + m * w->n_each;
  w->offsets[s + 1] = t + m;
  if (w->rows) w->rows[s + 1] = r + n;
  for (int64_t j = 0; j < n; j++)
    w->first[r + j] = (int32_t)(t + (w->rows && j > n - m ? j + m - n : 0));
  for (int64_t j = 0; j < m; j++) {
    w->sample[t + j] = (int32_t)s;
    w->row[t + j] = (int32_t)(w->rows ? r + n - m + j : s);
  }
}

static wanted draw(int i, int32_t n_each) {
  wanted w = {.n_samples = i % 11 ? 1 + kt_below(i % 3 ? 20 : 120) : 0,
              .n_each = n_each};
  const int64_t most = 12 * w.n_samples;
  w.lengths = kt_array(w.n_samples, 4, 0);
  w.bags = kt_zeros(w.n_samples + 1, 8);
  w.rows = i % 2 ? kt_zeros(w.n_samples + 1, 8) : NULL;
  w.offsets = kt_zeros(w.n_samples + 1, 8);
  w.first = kt_zeros(most + 1, 4);
  w.row = kt_zeros(most, 4);
  w.sample = kt_zeros(most, 4);
  for (int64_t s = 0; s < w.n_samples; s++) {
    const int64_t n = w.rows ? kt_below(13) : 1;
    put_sample(&w, s, w.rows ? kt_below((int32_t)n + 1) : kt_below(5), n);
    w.n_rows += n;
  }
  w.n_targets = w.offsets[w.n_samples];
  w.first[w.n_rows] = (int32_t)w.n_targets;
  return w;
}

/* ---- where they lie ------------------------------------------------------ */

KT_CALL(run_targets, targets, ts_targets_args)

static void same(const int32_t *got, const int32_t *want, int64_t n) {
  const int32_t *ref = kt_ref(got);
  for (int64_t k = 0; k < n; k++) ck_assert_int_eq(ref[k], want[k]);
}

/* Behind the candidates of each bag what a sample brings along. */
static ts_slices bring(wanted *w, int64_t n_items) {
  const int64_t lower = kt_below(9);
  const ts_slices s = {n_items, lower, lower + w->n_samples + kt_below(9) + 1};
  for (int64_t b = 0; b < w->n_samples; b++) {
    w->lengths[b] += (int32_t)ts_slices_length(s, b);
    w->bags[b + 1] += ts_slices_before(s, b + 1);
  }
  return s;
}

/* By lengths, by starts, and one of each sample. */
TS_TEST(places) {
  for (int i = 0; i < 48; i++) {
    lt_begin();
    const bool one = i % 6 == 4;
    wanted w = draw(i, one ? 1 : 1 + kt_below(4));
    if (one)
      for (int64_t s = w.n_targets = 0; s < w.n_samples; s++, w.n_targets++)
        put_sample(&w, s, 1, 1);
    w.first[w.n_rows] = (int32_t)w.n_targets;
    ts_targets_args a = {.lengths = i % 3 && !one ? w.lengths : NULL,
                         .bags = i % 3 || one ? NULL : w.bags,
                         .rows = w.rows,
                         .offsets = kt_array(w.n_samples + 1, 8, 0),
                         .first = kt_array(w.n_rows + 1, 4, 0),
                         .row = kt_array(w.n_targets, 4, 0),
                         .sample = kt_array(w.n_targets, 4, 0),
                         .n_samples = w.n_samples,
                         .n_rows = w.n_rows,
                         .n_targets = w.n_targets,
                         .n_each = w.n_each};
    if (!one && i % 4 < 2) a.slices = bring(&w, kt_below(200));
    kt_check(run_targets, &a);
    const int64_t *offsets = kt_ref(a.offsets);
    for (int64_t s = 0; s <= w.n_samples; s++)
      ck_assert_int_eq(offsets[s], w.offsets[s]);
    same(a.first, w.first, w.n_rows + 1);
    same(a.row, w.row, w.n_targets);
    same(a.sample, w.sample, w.n_targets);
  }
}

enum { MASK = 3 };

/* Makes MASKS of the N rows of sample S masks, and says which of its M targets
 * go by each. */
static void put_masks(wanted *w, int64_t *ids, int64_t s, int64_t m, int64_t n,
                      int64_t masks) {
  const int64_t t = w->offsets[s], from = w->rows[s];
  int64_t k = 0, left = masks;
  for (int64_t r = from; r < from + n; r++) {
    const bool is = kt_below((int32_t)(from + n - r)) < left;
    ids[r] = is ? MASK : 4 + kt_below(9);
    w->first[r] = (int32_t)(t + (left ? k : m));
    if (!is) continue;
    if (k < m) w->row[t + k] = (int32_t)r;
    for (int64_t j = k; left == 1 && j < m; j++) w->row[t + j] = (int32_t)r;
    left--;
    k++;
  }
}

/* Targets of masked rows: as many, or one that has all of them, or none. */
TS_TEST(places_of_masks) {
  for (int i = 0; i < 48; i++) {
    lt_begin();
    const int64_t n_samples = i % 11 ? 1 + kt_below(i % 3 ? 20 : 120) : 0;
    const int64_t most = 90 * n_samples;
    wanted w = {.lengths = kt_array(n_samples, 4, 0),
                .bags = kt_zeros(n_samples + 1, 8),
                .rows = kt_zeros(n_samples + 1, 8),
                .offsets = kt_zeros(n_samples + 1, 8),
                .first = kt_zeros(most + 1, 4),
                .row = kt_zeros(most, 4),
                .sample = kt_zeros(most, 4),
                .n_samples = n_samples,
                .n_each = 1 + kt_below(4)};
    int64_t *ids = kt_zeros(most, 8);
    for (int64_t s = 0; s < n_samples; s++) {
      const int64_t n = kt_below(i % 2 ? 12 : 80);
      const int64_t masks = !n ? 0 : i % 4 ? 1 + kt_below((int32_t)n) : 1;
      const int64_t m = !n ? 0 : i % 4 ? masks : kt_below(4);
      put_sample(&w, s, m, n);
      put_masks(&w, ids, s, m, n, masks);
      w.n_rows += n;
    }
    w.n_targets = w.offsets[n_samples];
    w.first[w.n_rows] = (int32_t)w.n_targets;
    ts_targets_args a = {.lengths = i % 3 ? w.lengths : NULL,
                         .bags = i % 3 ? NULL : w.bags,
                         .rows = w.rows,
                         .offsets = kt_array(n_samples + 1, 8, 0),
                         .first = kt_array(w.n_rows + 1, 4, 0),
                         .row = kt_array(w.n_targets, 4, 0),
                         .sample = kt_array(w.n_targets, 4, 0),
                         .ids = ids,
                         .mask = MASK,
                         .n_samples = n_samples,
                         .n_rows = w.n_rows,
                         .n_targets = w.n_targets,
                         .n_each = w.n_each};
    kt_check(run_targets, &a);
    same(a.first, w.first, w.n_rows + 1);
    same(a.row, w.row, w.n_targets);
    same(a.sample, w.sample, w.n_targets);
  }
}

/* ---- losses -------------------------------------------------------------- */

static ts_err run_candidates(const ts_kernels *k, const void *arg) {
  ts_candidates_args a = *(const ts_candidates_args *)arg;
  kt_at_all(&a, sizeof a);
  TS_DO(k->candidates_forward(&a));
  if (!a.grad) return TS_OK;
  TS_DO(k->candidates_rows(&a));
  return k->candidates_items(&a);
}

enum { IDS = 50 }; /* of shifts */

static ts_candidates_args some(int i) {
  static const int32_t each[] = {4, 1, 2, 9, 101};
  const wanted w = draw(i, each[i % 5]);
  ts_candidates_args a = {.row = w.row,
                          .sample = w.sample,
                          .first = w.first,
                          .offsets = w.offsets,
                          .n_targets = w.n_targets,
                          .n_rows = w.n_rows,
                          .n_items = 3 + kt_below(40),
                          .n_each = w.n_each,
                          .dim = 1 + kt_below(i % 3 ? 70 : 6),
                          .scale = i % 4 ? 1 : 1.7f,
                          .margin = 0.1f,
                          .weight = 3,
                          .kind = i / 2 % 4,
                          .by_stride = 1 + kt_below(3)};
  a.q_stride = a.dim + kt_below(3);
  a.item_stride = a.dim + kt_below(3);
  a.q = lt_numbers(a.n_rows * a.q_stride, 1);
  float *items = lt_numbers(a.n_items * a.item_stride, 1);
  if (i % 3 == 0) /* equal scores */
    memcpy(items, items + a.item_stride, (size_t)a.dim * sizeof *items);
  a.items = items;
  a.shift = i % 5 == 2 ? lt_numbers(IDS, 1) : NULL;
  a.by = lt_numbers(w.n_samples * a.by_stride, 1);
  return a;
}

/* Candidates, and where each item is among them. */
static void choose(ts_candidates_args *a) {
  const int64_t n = a->n_targets * a->n_each;
  int32_t *index = kt_array(n, 4, 0), *member = kt_array(n, 4, 0);
  int32_t *start = kt_zeros(a->n_items + 1, 4), at = 0;
  int64_t *ids = kt_array(n, 8, 0);
  for (int64_t m = 0; m < n; m++) index[m] = kt_below((int32_t)a->n_items);
  for (int64_t m = 0; m < n; m++) ids[m] = kt_below(IDS);
  for (int32_t u = 0; u < a->n_items; u++) {
    for (int32_t m = 0; m < n; m++)
      if (index[m] == u) member[at++] = m;
    start[u + 1] = at;
  }
  a->index = index;
  a->ids = ids;
  a->member_start = start;
  a->member = member;
}

static double score(const ts_candidates_args *a, int64_t t, int32_t k,
                    double *of) {
  const int32_t u = a->index[t * a->n_each + k];
  double sum = 0;
  *of = 0;
  for (int32_t c = 0; c < a->dim; c++) {
    const double one = (double)a->q[a->row[t] * a->q_stride + c] *
                       (double)a->items[u * a->item_stride + c];
    sum += one;
    *of += fabs(one);
  }
  const double shift =
      a->shift ? (double)a->shift[a->ids[t * a->n_each + k]] : 0;
  *of = *of * (double)a->scale + fabs(shift);
  return (double)a->scale * sum - shift;
}

static double sp(double x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* The loss of scores S by its formula. */
static double loss_of(const ts_candidates_args *a, int64_t t, const double *s) {
  const int32_t *index = a->index + t * a->n_each, n = a->n_each - 1;
  double sum = 0;
  for (int32_t k = 1; k <= n; k++) {
    if (index[k] == index[0]) continue;
    switch (a->kind) {
    case TS_CANDIDATES_BCE:
      sum += sp(s[k]) / n;
      break;
    case TS_CANDIDATES_SOFTMAX:
      sum += exp(s[k]);
      break;
    case TS_CANDIDATES_BPR:
      sum += sp(s[k] - s[0]) / n;
      break;
    default:
      sum += (double)a->weight / n * fmax(0, s[k] - (double)a->margin);
    }
  }
  return a->kind == TS_CANDIDATES_BCE       ? sp(-s[0]) + sum
         : a->kind == TS_CANDIDATES_SOFTMAX ? log(exp(s[0]) + sum) - s[0]
         : a->kind == TS_CANDIDATES_BPR     ? sum
                                            : 1 - s[0] + sum;
}

/* Its derivative by s[k]: of differences, but for the hinge. */
static double slope_of(const ts_candidates_args *a, int64_t t, double *s,
                       int32_t k) {
  const double own = s[k], h = 1e-5;
  s[k] = own + h;
  const double up = loss_of(a, t, s);
  s[k] = own - h;
  const double down = loss_of(a, t, s);
  s[k] = own;
  return (up - down) / (2 * h);
}

/* Ranks are whole but for ties, which are of equal rows: equal bits. */
static double rank_of(const ts_candidates_args *a, int64_t t, const double *s) {
  const int32_t *index = a->index + t * a->n_each;
  double rank = 0;
  for (int32_t k = 1; k < a->n_each; k++)
    if (index[k] != index[0]) rank += s[k] > s[0] ? 1 : s[k] == s[0] ? 0.5 : 0;
  return rank;
}

/* No two scores that differ are so close that rounding might turn them, nor is
 * one close to the margin. */
static bool is_clear(const ts_candidates_args *a, const double *s, double of) {
  for (int32_t k = 0; k < a->n_each; k++) {
    const double apart = fabs(s[k] - s[0]);
    if (apart > 0 && apart < 1e-5 * of) return false;
    if (fabs(s[k] - (double)a->margin) < 1e-4) return false;
  }
  return true;
}

/* The gradients, from derivatives G of target T. */
static void add_gradients(const ts_candidates_args *a, int64_t t,
                          const double *g, double *dq, double *di) {
  const int32_t s = a->sample[t];
  const double by = (double)a->by[s * a->by_stride] /
                    (double)(a->offsets[s + 1] - a->offsets[s]);
  for (int32_t k = 0; k < a->n_each; k++)
    for (int32_t c = 0; c < a->dim; c++) {
      const int32_t u = a->index[t * a->n_each + k];
      dq[a->row[t] * a->dim + c] +=
          by * g[k] * (double)a->items[u * a->item_stride + c];
      di[u * a->dim + c] +=
          by * g[k] * (double)a->q[a->row[t] * a->q_stride + c];
    }
}

static void want_rows(const float *to, int64_t stride, const double *x,
                      int64_t n, int32_t dim, double of) {
  for (int64_t r = 0; r < n; r++)
    for (int32_t c = 0; c < dim; c++)
      lt_want(to, r * stride + c, x[r * dim + c], of);
}

TS_TEST(losses) {
  for (int i = 0; i < 80; i++) {
    lt_begin();
    ts_candidates_args a = some(i);
    choose(&a);
    a.loss = lt_out(a.n_targets, 4);
    a.rank = lt_out(a.n_targets, 4);
    a.grad = i % 7 ? lt_out(a.n_targets * a.n_each, 4) : NULL;
    a.dq = lt_out(a.n_rows * a.q_stride, 4);
    a.ditems = lt_out(a.n_items * a.item_stride, 4);
    double *dq = kt_zeros(a.n_rows * a.dim, 8);
    double *di = kt_zeros(a.n_items * a.dim, 8), s[101], g[101];
    bool clear = true;
    for (int64_t t = 0; t < a.n_targets; t++) {
      double of = 0, one;
      for (int32_t k = 0; k < a.n_each; k++) {
        s[k] = score(&a, t, k, &one);
        of = fmax(of, one);
      }
      clear &= is_clear(&a, s, of);
      lt_want(a.loss, t, loss_of(&a, t, s), 2 + 4 * of);
      lt_want(a.rank, t, rank_of(&a, t, s), 0);
      for (int32_t k = 0; k < a.n_each; k++) {
        g[k] = (double)a.scale * slope_of(&a, t, s, k);
        if (a.grad) lt_want(a.grad, t * a.n_each + k, g[k], 4 + 4 * of);
      }
      if (a.grad) add_gradients(&a, t, g, dq, di);
    }
    if (!clear) continue;
    if (a.grad) want_rows(a.dq, a.q_stride, dq, a.n_rows, a.dim, 40);
    if (a.grad) want_rows(a.ditems, a.item_stride, di, a.n_items, a.dim, 200);
    lt_check(run_candidates, &a);
  }
}

/* ---- figures ------------------------------------------------------------- */

KT_CALL(run_figures, target_figures, ts_target_figures_args)

TS_TEST(figures) {
  for (int i = 0; i < 24; i++) {
    lt_begin();
    const wanted w = draw(i, 1);
    float *loss = lt_numbers(w.n_targets, 3);
    float *rank = kt_array(w.n_targets, 4, 0);
    for (int64_t t = 0; t < w.n_targets; t++)
      rank[t] = 0.5f * (float)kt_below(40);
    ts_target_figures_args a = {.loss = loss,
                                .rank = rank,
                                .offsets = w.offsets,
                                .n_samples = w.n_samples,
                                .y_stride = TS_TARGET_FIGURES + kt_below(3),
                                .k = 1 + kt_below(12)};
    a.y = lt_out(w.n_samples * a.y_stride, 4);
    for (int64_t s = 0; s < w.n_samples; s++) {
      double y[TS_TARGET_FIGURES] = {0}, m = 0;
      for (int64_t t = w.offsets[s]; t < w.offsets[s + 1]; t++, m++) {
        const double r = (double)rank[t];
        y[0] += (double)loss[t];
        if (r < (double)a.k) y[2]++, y[3] += log(2) / log(r + 2);
        y[4] += 1 / (1 + r);
      }
      y[0] /= m > 0 ? m : 1;
      y[1] = m;
      for (int c = 0; c < TS_TARGET_FIGURES; c++)
        lt_want(a.y, s * a.y_stride + c, y[c], 40);
    }
    lt_check(run_figures, &a);
  }
}
