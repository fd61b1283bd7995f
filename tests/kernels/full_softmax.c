/* full_softmax.c - the contract of the kernels of the softmax over all items:
 * what is taken for the products, blocks of scores, losses from parts,
 * gradients, and all of it behind each other, over all items and over those of
 * the batch; against formulas in double.  Of
 * the layer, and of ranks, tests/run/items.sh knows the losses and gradients.
 * ranks: 1  fake: 1  emulated: 1  isa: none
 * seconds: 120 */
#include "kernel_table.h"
#include "tests/kernels/layers.h"

KT_CONTRACT("full_softmax_take full_softmax_part full_softmax_slopes "
            "full_softmax_loss full_softmax_factor full_softmax_give contract")

enum { ITEMS = 60 }; /* at most, where samples bring all of them */
enum { MOST = 128 }; /* columns, where all of them are looked at */

/* The items that samples bring: some of them, all, or none, where the loss is
 * over those that the batch's targets want. */
typedef enum brought { SOME, ALL, BATCH } brought;

/* Where things lie: bags of wanted ids and a slice each. */
typedef struct bags {
  int32_t *index, *what, *wanted_row, *row, *sample, *first;
  int64_t *offsets;
  int64_t n_ids;
  int64_t *target_ids; /* of BATCH */
  float *column_shift;
} bags;

static void put_sample(ts_full_softmax_args *a, bags *w, int64_t b,
                       int64_t rows) {
  const int64_t m = w->offsets[b + 1] - w->offsets[b];
  const int64_t n = ts_slices_length(a->slices, b);
  for (int64_t r = 0; r < rows; r++)
    w->first[a->n_rows + r] =
        (int32_t)(w->offsets[b] +
                  (rows > 1 && r > rows - m ? r - rows + m : 0));
  for (int64_t j = 0; j < m; j++, w->n_ids++) {
    const int64_t t = w->offsets[b] + j;
    w->row[t] = (int32_t)(a->n_rows + (rows > 1 ? rows - m + j : 0));
    w->sample[t] = (int32_t)b;
    w->wanted_row[t] = w->index[w->n_ids] = kt_below((int32_t)a->n_items);
    w->what[w->n_ids] = (int32_t)t;
  }
  for (int64_t k = 0; k < n; k++, w->n_ids++) {
    w->what[w->n_ids] = (int32_t)(-1 - a->n_columns);
    w->index[w->n_ids] = (int32_t)(a->n_items - 1 - a->n_columns++);
  }
  a->n_rows += rows;
}

/* Samples of one row and any number of targets, or of rows, and targets that
 * are the last ones'. */
static ts_full_softmax_args some(int i, brought how, bags *w) {
  ts_full_softmax_args a = {
      .n_samples = i % 9 ? 1 + kt_below(how == BATCH ? 8 : 40) : 0,
      .dim = 1 + kt_below(i % 3 ? 70 : 6),
      .scale = i % 4 ? 1 : 1.7f,
      .by_stride = 1 + kt_below(3),
  };
  const int64_t lower = kt_below(20), n = i % 5 ? 1 + kt_below(300) : 0;
  a.slices = (ts_slices){n, lower, lower + a.n_samples + kt_below(20) + 1};
  if (how == BATCH) a.slices = (ts_slices){0, 0, 0};
  if (how == ALL)
    a.slices = (ts_slices){a.n_samples ? 1 + n % ITEMS : 0, 0, a.n_samples};
  a.n_items = ts_slices_before(a.slices, a.n_samples);
  if (how != ALL) a.n_items += 1 + kt_below(20);
  const int64_t most = 12 * a.n_samples + a.n_items;
  *w = (bags){.index = kt_array(most, 4, 0),
              .what = kt_array(most, 4, 0),
              .wanted_row = kt_array(most, 4, 0),
              .row = kt_zeros(most, 4),
              .sample = kt_zeros(most, 4),
              .first = kt_zeros(most + 1, 4),
              .offsets = kt_zeros(a.n_samples + 1, 8)};
  for (int64_t b = 0; b < a.n_samples; b++) {
    const int32_t rows = i % 2 ? 1 : 2 + kt_below(11);
    w->offsets[b + 1] = w->offsets[b] + kt_below(i % 2 ? 5 : rows + 1);
    put_sample(&a, w, b, rows);
  }
  a.n_targets = w->offsets[a.n_samples];
  w->first[a.n_rows] = (int32_t)a.n_targets;
  a.q_stride = a.dim + kt_below(3);
  a.item_stride = a.dim + kt_below(3);
  a.q = lt_numbers(a.n_rows * a.q_stride, 1);
  a.items = lt_numbers(a.n_items * a.item_stride, 1);
  a.index = w->index;
  a.row = w->row;
  a.sample = w->sample;
  a.first = w->first;
  a.offsets = w->offsets;
  return a;
}

/* Ids and shifts of items, as they come and as they are taken. */
static void give_ids(ts_full_softmax_args *a, bags *w, int i) {
  int64_t *ids = kt_array(w->n_ids, 8, 0);
  float *shift = i % 2 ? lt_numbers(2 * a->n_items + 1, 3) : NULL;
  a->ids = ids;
  a->shift = shift;
  a->n_columns = a->n_targets;
  w->target_ids = kt_zeros(a->n_targets, 8);
  w->column_shift = kt_zeros(a->n_targets, 4);
  for (int64_t p = 0; p < w->n_ids; p++) {
    ids[p] = 2 * w->index[p] + 1;
    w->target_ids[w->what[p]] = ids[p];
    if (shift) w->column_shift[w->what[p]] = shift[ids[p]];
  }
}

static void same(const int32_t *got, const int32_t *want, int64_t n) {
  const int32_t *ref = kt_ref(got);
  for (int64_t k = 0; k < n; k++) ck_assert_int_eq(ref[k], want[k]);
}

/* ---- what is taken ------------------------------------------------------- */

KT_CALL(run_take, full_softmax_take, ts_full_softmax_args)

/* Expects the columns, ids and shifts that targets become. */
static void want_columns(ts_full_softmax_args *a, const bags *w) {
  a->target_ids = kt_array(a->n_targets, 8, 0);
  a->column_shift = lt_out(a->n_targets, 4);
  for (int64_t t = 0; t < a->n_targets; t++) {
    lt_want(a->column_shift, t, (double)w->column_shift[t], 0);
    for (int32_t c = 0; c < a->dim; c++)
      lt_want(a->columns, t * a->dim + c,
              (double)a->items[w->wanted_row[t] * a->item_stride + c], 0);
  }
}

static void same_ids(const int64_t *got, const int64_t *want, int64_t n) {
  const int64_t *ref = kt_ref(got);
  for (int64_t k = 0; k < n; k++) ck_assert_int_eq(ref[k], want[k]);
}

TS_TEST(takes) {
  for (int i = 0; i < 90; i++) {
    bags w;
    const brought how = i % 3 == 2 ? BATCH : SOME;
    lt_begin();
    ts_full_softmax_args a = some(i, how, &w);
    if (how == BATCH) give_ids(&a, &w, i);
    a.targets = lt_out(a.n_targets * a.dim, 4);
    a.columns = lt_out(a.n_columns * a.dim, 4);
    a.wanted = lt_out(a.n_targets, 4);
    a.wanted_row = kt_array(a.n_targets, 4, 0);
    a.what = kt_array(w.n_ids, 4, 0);
    for (int64_t t = 0; t < a.n_targets; t++) {
      const float *q = a.q + a.row[t] * a.q_stride;
      const float *x = a.items + w.wanted_row[t] * a.item_stride;
      double sum = 0;
      for (int32_t c = 0; c < a.dim; c++) {
        sum += (double)q[c] * (double)x[c];
        lt_want(a.targets, t * a.dim + c, (double)q[c], 0);
      }
      const double shift = how == BATCH ? (double)w.column_shift[t] : 0;
      lt_want(a.wanted, t, (double)a.scale * sum - shift, 4 + fabs(sum));
    }
    if (how == BATCH) want_columns(&a, &w);
    for (int64_t p = 0; p < w.n_ids; p++)
      for (int32_t c = 0; w.what[p] < 0 && c < a.dim; c++)
        lt_want(a.columns, (-1 - w.what[p]) * a.dim + c,
                (double)a.items[w.index[p] * a.item_stride + c], 0);
    lt_check(run_take, &a);
    same(a.what, w.what, w.n_ids);
    same(a.wanted_row, w.wanted_row, a.n_targets);
    if (how == BATCH) same_ids(a.target_ids, w.target_ids, a.n_targets);
  }
}

/* ---- blocks -------------------------------------------------------------- */

static ts_err run_block(const ts_kernels *k, const void *arg) {
  ts_full_softmax_args a = *(const ts_full_softmax_args *)arg;
  kt_at_all(&a, sizeof a);
  TS_DO(k->full_softmax_part(&a));
  return k->full_softmax_slopes(&a);
}

/* Where log_sum is that of more columns than the block has. */
TS_TEST(blocks) {
  for (int i = 0; i < 60; i++) {
    lt_begin();
    ts_full_softmax_args a = {.n_block = i % 11 ? 1 + kt_below(70) : 0,
                              .n_columns = i % 7 ? 1 + kt_below(400) : 0};
    float *s = lt_numbers(a.n_block * a.n_columns, 9);
    float *factor = lt_numbers(2 * a.n_block, 1);
    a.s = s;
    a.factor = factor;
    a.part = lt_out(2 * a.n_block, 4);
    lt_over(s, a.n_block * a.n_columns, 4);
    for (int64_t r = 0; r < a.n_block; r++) {
      const float *x = s + r * a.n_columns;
      double most = -INFINITY, sum = 0;
      for (int64_t k = 0; k < a.n_columns; k++) most = fmax(most, (double)x[k]);
      for (int64_t k = 0; k < a.n_columns; k++) sum += exp((double)x[k] - most);
      factor[2 * r + 1] =
          (float)(a.n_columns ? most + log(sum) : 0) + (i % 3 ? 0.0f : 2.0f);
      lt_want(a.part, 2 * r, most, 0);
      lt_want(a.part, 2 * r + 1, sum, 3 * sum);
      for (int64_t k = 0; k < a.n_columns; k++) {
        const double e = exp((double)x[k] - (double)factor[2 * r + 1]);
        lt_want(s, r * a.n_columns + k, (double)factor[2 * r] * e, 3 * e);
      }
    }
    lt_check(run_block, &a);
  }
}

/* ---- losses -------------------------------------------------------------- */

static ts_err run_losses(const ts_kernels *k, const void *arg) {
  ts_full_softmax_args a = *(const ts_full_softmax_args *)arg;
  kt_at_all(&a, sizeof a);
  TS_DO(k->full_softmax_loss(&a));
  return k->full_softmax_factor(&a);
}

/* Parts of ranks, some of which have no columns. */
static double log_sum_of(float *parts, int64_t n, int64_t t, int32_t n_parts) {
  const int32_t kept = kt_below(n_parts);
  double sum = 0;
  for (int32_t r = 0; r < n_parts; r++) {
    float *p = parts + (r * n + t) * 2;
    const bool none = r != kept && kt_below(4) == 0;
    p[0] = none ? -INFINITY : lt_number(20);
    p[1] = none ? 0 : 1 + fabsf(lt_number(30));
    if (!none) sum += (double)p[1] * exp((double)p[0]);
  }
  return log(sum);
}

TS_TEST(losses_of_parts) {
  for (int i = 0; i < 40; i++) {
    bags w;
    lt_begin();
    ts_full_softmax_args a = some(i, SOME, &w);
    a.n_parts = 1 + kt_below(5);
    a.wanted = lt_numbers(a.n_targets, 9);
    a.by = lt_numbers(a.n_samples * a.by_stride, 1);
    a.loss = lt_out(a.n_targets, 4);
    a.factor = lt_out(2 * a.n_targets, 4);
    float *parts = lt_numbers(2 * a.n_targets * a.n_parts, 1);
    a.parts = parts;
    for (int64_t t = 0; t < a.n_targets; t++) {
      const int32_t b = w.sample[t];
      const double sum = log_sum_of(parts, a.n_targets, t, a.n_parts);
      const double m = (double)(w.offsets[b + 1] - w.offsets[b]);
      lt_want(a.loss, t, sum - (double)a.wanted[t], 60);
      lt_want(a.factor, 2 * t,
              (double)a.scale * (double)a.by[b * a.by_stride] / m, 2);
      lt_want(a.factor, 2 * t + 1, sum, 30);
    }
    lt_check(run_losses, &a);
  }
}

/* ---- gradients ----------------------------------------------------------- */

KT_CALL(run_give, full_softmax_give, ts_full_softmax_args)

static void want_dq(const ts_full_softmax_args *a, const float *items) {
  for (int64_t r = 0; r < a->n_rows; r++)
    for (int32_t c = 0; c < a->dim; c++) {
      double sum = 0;
      for (int64_t t = a->first[r]; t < a->first[r + 1]; t++)
        sum += (double)a->dtargets[t * a->dim + c] -
               (double)a->factor[2 * t] *
                   (double)items[a->wanted_row[t] * a->item_stride + c];
      lt_want(a->dq, r * a->q_stride + c, sum, 20);
    }
}

static void want_ditems(const ts_full_softmax_args *a) {
  for (int64_t u = 0; u < a->n_items; u++)
    for (int32_t c = 0; c < a->dim; c++) {
      double sum = 0;
      for (int64_t k = a->member_start[u]; k < a->member_start[u + 1]; k++) {
        const int64_t t = a->what[a->member[k]];
        sum += t < 0 ? (double)a->dcolumns[(-1 - t) * a->dim + c]
                     : -(double)a->factor[2 * t] *
                           (double)a->targets[t * a->dim + c];
      }
      lt_want(a->ditems, u * a->item_stride + c, sum, 60);
    }
}

/* Where each item is among the ids. */
static void find_members(ts_full_softmax_args *a, const bags *w) {
  int32_t *member = kt_array(w->n_ids, 4, 0), at = 0;
  int32_t *start = kt_zeros(a->n_items + 1, 4);
  for (int32_t u = 0; u < a->n_items; u++) {
    for (int32_t p = 0; p < w->n_ids; p++)
      if (w->index[p] == u) member[at++] = p;
    start[u + 1] = at;
  }
  a->member = member;
  a->member_start = start;
}

/* Gradients of queries, or not; of items over the items themselves, too. */
static void give_to(ts_full_softmax_args *a, int i) {
  if (i % 4) a->dq = lt_out(a->n_rows * a->q_stride, 4);
  if (i % 3) {
    a->ditems = lt_out(a->n_items * a->item_stride, 4);
  } else {
    a->ditems = (float *)a->items;
    lt_over(a->items, a->n_items * a->item_stride, 4);
  }
}

TS_TEST(gives) {
  for (int i = 0; i < 60; i++) {
    bags w;
    lt_begin();
    ts_full_softmax_args a = some(i, SOME, &w);
    find_members(&a, &w);
    a.what = w.what;
    a.wanted_row = w.wanted_row;
    a.targets = lt_numbers(a.n_targets * a.dim, 1);
    a.dtargets = lt_numbers(a.n_targets * a.dim, 1);
    a.dcolumns = lt_numbers(a.n_columns * a.dim, 1);
    a.factor = lt_numbers(2 * a.n_targets, 1);
    give_to(&a, i);
    if (a.dq) want_dq(&a, a.items);
    want_ditems(&a);
    lt_check(run_give, &a);
  }
}

/* ---- all of it ----------------------------------------------------------- */

enum { PARTS = 4 };

/* The columns from cut[r] to cut[r + 1] are those of a rank R, which may have
 * none; the queries are all ranks', BLOCK of them at a time. */
typedef struct whole {
  ts_full_softmax_args a;
  float *dtargets, *dcolumns; /* a's */
  int64_t cut[PARTS + 1], block;
} whole;

/* The ids of the rows from I on, and of the columns of rank R. */
static void on_rank(ts_full_softmax_args *a, const whole *w, int32_t r,
                    int64_t i) {
  if (!a->target_ids) return;
  a->row_ids = a->target_ids + i;
  a->target_ids += w->cut[r];
  a->column_shift += w->cut[r];
  a->own = i - w->cut[r];
}

/* Products of the queries from I on with the columns of rank R. */
static ts_err run_scores(const ts_kernels *k, const whole *w, int32_t r,
                         int64_t i) {
  ts_full_softmax_args a = w->a;
  a.n_block = a.n_targets - i < w->block ? a.n_targets - i : w->block;
  a.n_columns = w->cut[r + 1] - w->cut[r];
  const ts_contract_args score = {.c = a.s,
                                  .a = a.targets + i * a.dim,
                                  .b = a.columns + w->cut[r] * a.dim,
                                  .cs = {.r = a.n_columns, .c = 1},
                                  .as = {.r = a.dim, .c = 1},
                                  .bs = {.r = a.dim, .c = 1},
                                  .n_b = 1,
                                  .n_h = 1,
                                  .n_i = (int32_t)a.n_block,
                                  .n_j = (int32_t)a.n_columns,
                                  .n_k = a.dim,
                                  .scale = a.scale};
  return a.n_columns ? k->contract(&score) : TS_OK;
}

/* Rank R's part of the losses of the queries from I on. */
static ts_err run_part(const ts_kernels *k, const whole *w, int32_t r,
                       int64_t i) {
  ts_full_softmax_args a = w->a;
  TS_DO(run_scores(k, w, r, i));
  a.n_block = a.n_targets - i < w->block ? a.n_targets - i : w->block;
  a.n_columns = w->cut[r + 1] - w->cut[r];
  a.part += (r * a.n_targets + i) * 2;
  on_rank(&a, w, r, i);
  return k->full_softmax_part(&a);
}

/* Its part of the gradients. */
static ts_err run_grads(const ts_kernels *k, const whole *w, int32_t r,
                        int64_t i) {
  ts_full_softmax_args a = w->a;
  a.n_block = a.n_targets - i < w->block ? a.n_targets - i : w->block;
  a.n_columns = w->cut[r + 1] - w->cut[r];
  a.factor += 2 * i;
  TS_DO(run_scores(k, w, r, i));
  on_rank(&a, w, r, i);
  TS_DO(k->full_softmax_slopes(&a));
  if (!a.n_columns) return TS_OK;
  ts_contract_args c = {.c = w->dtargets + i * a.dim,
                        .a = a.s,
                        .b = a.columns + w->cut[r] * a.dim,
                        .cs = {.r = a.dim, .c = 1},
                        .as = {.r = a.n_columns, .c = 1},
                        .bs = {.r = 1, .c = a.dim},
                        .n_b = 1,
                        .n_h = 1,
                        .n_i = (int32_t)a.n_block,
                        .n_j = a.dim,
                        .n_k = a.n_columns,
                        .scale = 1,
                        .add = true};
  TS_DO(k->contract(&c));
  c.c = w->dcolumns + w->cut[r] * a.dim;
  c.b = a.targets + i * a.dim;
  c.as = (ts_stride4){.r = 1, .c = a.n_columns};
  c.n_i = (int32_t)a.n_columns;
  c.n_k = a.n_block;
  return k->contract(&c);
}

static ts_err run_whole(const ts_kernels *k, const void *arg) {
  whole w = *(const whole *)arg;
  kt_at_all(&w, sizeof w);
  TS_DO(k->full_softmax_take(&w.a));
  for (int32_t r = 0; r < w.a.n_parts; r++)
    for (int64_t i = 0; i < w.a.n_targets; i += w.block)
      TS_DO(run_part(k, &w, r, i));
  TS_DO(k->full_softmax_loss(&w.a));
  TS_DO(k->full_softmax_factor(&w.a));
  for (int32_t r = 0; r < w.a.n_parts; r++)
    for (int64_t i = 0; i < w.a.n_targets; i += w.block)
      TS_DO(run_grads(k, &w, r, i));
  return k->full_softmax_give(&w.a);
}

static float *own_zeros(int64_t n) {
  float *p = kt_zeros(n, 4);
  kt_compare(p, KT_OWN);
  return p;
}

/* What the kernels leave for each other. */
static whole room_for(ts_full_softmax_args a, const bags *w, int i) {
  whole x = {.block = 1 + kt_below(i % 2 ? 9 : 200)};
  a.n_parts = 1 + kt_below(PARTS);
  for (int32_t r = 0; r < a.n_parts; r++) {
    const int64_t left = a.n_columns - x.cut[r];
    const bool last = r == a.n_parts - 1, none = kt_below(3) == 0;
    x.cut[r + 1] = x.cut[r] + (last   ? left
                               : none ? 0
                                      : kt_below((int32_t)left + 1));
  }
  a.targets = kt_own(a.n_targets * a.dim, 4);
  a.columns = kt_own(a.n_columns * a.dim, 4);
  a.wanted = kt_own(a.n_targets, 4);
  a.wanted_row = kt_array(a.n_targets, 4, 0);
  a.what = kt_array(w->n_ids, 4, 0);
  if (w->target_ids) {
    a.target_ids = kt_array(a.n_targets, 8, 0);
    a.column_shift = kt_own(a.n_targets, 4);
  }
  a.s = kt_own(x.block * a.n_columns, 4);
  a.part = kt_own(2 * a.n_targets * a.n_parts, 4);
  a.parts = a.part;
  a.factor = kt_own(2 * a.n_targets, 4);
  x.dtargets = own_zeros(a.n_targets * a.dim);
  x.dcolumns = own_zeros(a.n_columns * a.dim);
  a.dtargets = x.dtargets;
  a.dcolumns = x.dcolumns;
  x.a = a;
  return x;
}

static double loss_of(const double *s, int64_t n, int32_t wanted) {
  double sum = 0;
  for (int64_t u = 0; u < n; u++) sum += exp(s[u]);
  return log(sum) - s[wanted];
}

/* Its derivative by s[u], of differences. */
static double slope_of(double *s, int64_t n, int32_t wanted, int32_t u) {
  const double own = s[u], h = 1e-5;
  s[u] = own + h;
  const double up = loss_of(s, n, wanted);
  s[u] = own - h;
  const double down = loss_of(s, n, wanted);
  s[u] = own;
  return (up - down) / (2 * h);
}

/* The rows of items whose scores target T's loss is over, and where its own
 * is. */
static int32_t columns_of(const ts_full_softmax_args *a, const bags *w,
                          int64_t t, int32_t *u, int32_t *own) {
  int32_t n = 0;
  *own = w->wanted_row[t];
  for (; !w->target_ids && n < a->n_items; n++) u[n] = n;
  if (!w->target_ids) return n;
  for (int64_t k = 0; k < a->n_targets; k++) {
    if (k == t) *own = n;
    if (k == t || w->wanted_row[k] != w->wanted_row[t])
      u[n++] = w->wanted_row[k];
  }
  return n;
}

static double shift_of(const ts_full_softmax_args *a, int32_t u) {
  return a->shift ? (double)a->shift[2 * u + 1] : 0;
}

/* The loss of target T, and what it adds to the gradients. */
static void add_target(const ts_full_softmax_args *a, const bags *w, int64_t t,
                       double *dq, double *di) {
  const float *q = a->q + a->row[t] * a->q_stride;
  const int32_t b = a->sample[t];
  const double by = (double)a->by[b * a->by_stride] /
                    (double)(a->offsets[b + 1] - a->offsets[b]);
  double s[MOST];
  int32_t u[MOST], own;
  const int32_t n = columns_of(a, w, t, u, &own);
  for (int32_t k = 0; k < n; k++) {
    s[k] = -shift_of(a, u[k]);
    for (int32_t c = 0; c < a->dim; c++)
      s[k] += (double)a->scale * (double)q[c] *
              (double)a->items[u[k] * a->item_stride + c];
  }
  lt_want(a->loss, t, loss_of(s, n, own), 8);
  for (int32_t k = 0; k < n; k++) {
    const double g = by * (double)a->scale * slope_of(s, n, own, k);
    for (int32_t c = 0; c < a->dim; c++) {
      dq[a->row[t] * a->dim + c] +=
          g * (double)a->items[u[k] * a->item_stride + c];
      di[u[k] * a->dim + c] += g * (double)q[c];
    }
  }
}

static void want_rows(const float *to, int64_t stride, const double *x,
                      int64_t n, int32_t dim, double of) {
  for (int64_t r = 0; r < n; r++)
    for (int32_t c = 0; c < dim; c++)
      lt_want(to, r * stride + c, x[r * dim + c], of);
}

/* Samples that bring all items along, or none: the gradient of the mean of log
 * of the sum of exp(s) - s_0 over a sample's targets, from differences. */
TS_TEST(chain) {
  for (int i = 0; i < 80; i++) {
    bags w;
    lt_begin();
    ts_full_softmax_args a = some(i, i < 40 ? ALL : BATCH, &w);
    if (i >= 40) give_ids(&a, &w, i);
    find_members(&a, &w);
    a.by = lt_numbers(a.n_samples * a.by_stride, 1);
    a.loss = lt_out(a.n_targets, 4);
    give_to(&a, i);
    double *dq = kt_zeros(a.n_rows * a.dim, 8);
    double *di = kt_zeros(a.n_items * a.dim, 8);
    for (int64_t t = 0; t < a.n_targets; t++) add_target(&a, &w, t, dq, di);
    if (a.dq) want_rows(a.dq, a.q_stride, dq, a.n_rows, a.dim, 2);
    want_rows(a.ditems, a.item_stride, di, a.n_items, a.dim, 2);
    const whole x = room_for(a, &w, i);
    lt_check(run_whole, &x);
    same(x.a.what, w.what, w.n_ids);
    same(x.a.wanted_row, w.wanted_row, a.n_targets);
  }
}
