/* topk_items.c - the items of a part, by the engine's own lookup. */
#include "train/topk_items.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

enum { ROWS = 4096 }; /* of a lookup, at most */

void ts_item_part_set(ts_item_part *p, int64_t first, int64_t n, int rank,
                      int n_ranks) {
  const int64_t from = n * rank / n_ranks, to = n * (rank + 1) / n_ranks;
  p->first = first + from;
  p->n = to - from;
}

/* One sample whose bag of FEATURE is some ids; all other bags are empty. */
typedef struct ts_asked {
  ts_trainer *t;
  ts_ebc_batch *batch;
  ts_kjt kjt;
  int64_t ids[ROWS];
  float weights[ROWS]; /* which tables may ask for */
  int32_t none, length;
  int32_t feature, dim;
  float *rows;    /* (ROWS, stride) as they come */
  int32_t *index; /* (ROWS) */
  size_t rows_bytes;
} ts_asked;

static ts_err open(ts_asked *a) {
  const int32_t n = ts_ebc_n_features(a->t->ebc);
  TS_DO(ts_ebc_batch_create(&a->batch, a->t->ebc, a->t->batch_max, false));
  TS_DO(ts_mem_many(a->kjt.features, n, METRICS));
  TS_DO(ts_mem_many(a->index, ROWS, METRICS));
  a->kjt.n_features = n;
  a->kjt.batch = 1;
  for (int32_t f = 0; f < n; f++)
    a->kjt.features[f] =
        (ts_jagged){.lengths = &a->none, .ids = a->ids, .weights = a->weights};
  a->kjt.features[a->feature].lengths = &a->length;
  return TS_OK;
}

static void close(ts_asked *a) {
  ts_ebc_batch_destroy(a->batch);
  ts_mem_free_all(a->kjt.features, a->rows, a->index);
}

typedef struct ts_fetch_arg {
  ts_asked *a;
  const float *from;
  const int32_t *index;
  int64_t floats;
  int32_t n;
} ts_fetch_arg;

static ts_err fetch_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_fetch_arg *f = p;
  const ts_kernels *k = &f->a->t->kernels;
  if (!f->n) return TS_OK;
  TS_DO(k->fetch(f->a->index, f->index, (size_t)f->n * 4));
  return k->fetch(f->a->rows, f->from, (size_t)f->floats * 4);
}

/* The rows of the LENGTH ids, to A's. */
static ts_err fetch(ts_asked *a, int64_t *stride) {
  ts_lane *lane = a->t->compute;
  const ts_spread *s = ts_ebc_batch_spread(a->batch, a->feature);
  *stride = ts_ebc_batch_stride(a->batch)[a->feature];
  const ts_fetch_arg f = {a, ts_ebc_batch_emb(a->batch)[a->feature], s->index,
                          s->n_rows * *stride, a->length};
  TS_DO(ts_mem_reserve(&a->rows, &a->rows_bytes, (size_t)f.floats * 4 + 4,
                       TS_TAG_METRICS));
  TS_DO(ts_lane_run(lane, "items", fetch_task, f));
  return ts_lane_sync(lane);
}

/* Items from FIRST on, N of them, 0 too, as all ranks ask alike. */
static ts_err ask(ts_asked *a, int64_t first, int32_t n, int64_t *stride) {
  ts_trainer *t = a->t;
  const ts_status own = {.n = 1, .weight_sum = 1};
  const ts_status *all;
  for (int32_t i = 0; i < n; i++) a->ids[i] = first + i;
  a->length = n;
  a->kjt.features[a->feature].n_ids = a->kjt.n_ids = n;
  ts_ebc_batch_uploaded(a->batch, NULL, 0, NULL);
  TS_DO(ts_ebc_input_begin(a->batch, &a->kjt, &own, t->data));
  TS_DO(ts_ebc_statuses(a->batch, &all));
  for (int r = 0; r < t->n_ranks; r++)
    if (all[r].err) return ts_agree(t->control, (ts_err)all[t->rank].err);
  TS_DO(ts_ebc_input_end(a->batch, t->data));
  TS_DO(ts_ebc_lookup(a->batch, t->compute));
  TS_DO(ts_ebc_output_end(a->batch, t->compute));
  return fetch(a, stride);
}

static float length_of(const float *x, int32_t dim) {
  double sum = 0;
  for (int32_t c = 0; c < dim; c++) sum += (double)x[c] * (double)x[c];
  return fmaxf((float)sqrt(sum), 1e-12f);
}

ts_err ts_item_part_room(ts_item_part *p, int64_t n) {
  const int64_t blocks = (n + TS_ITEM_BLOCK - 1) / TS_ITEM_BLOCK;
  return ts_mem_many(p->x, blocks * TS_ITEM_BLOCK * p->dim + 1, METRICS);
}

void ts_item_part_put(ts_item_part *p, int64_t at, const float *x,
                      bool normed) {
  const float by = normed ? length_of(x, p->dim) : 1;
  float *to = p->x + at / TS_ITEM_BLOCK * TS_ITEM_BLOCK * p->dim;
  for (int32_t c = 0; c < p->dim; c++)
    to[c * TS_ITEM_BLOCK + at % TS_ITEM_BLOCK] = x[c] / by;
}

/* Rows of a lookup: no more than a batch has ids, which caches have room for;
 * the same on all ranks. */
static int64_t rows_of(const ts_trainer *t, int32_t feature) {
  const double n = t->pooling[feature] * t->batch_max;
  return n < 1 ? 1 : n < ROWS ? (int64_t)n : ROWS;
}

ts_err ts_item_part_look_up(ts_item_part *p, ts_trainer *t, int32_t feature,
                            bool normed) {
  ts_err err = TS_OK;
  ts_asked a = {.t = t, .feature = feature, .dim = p->dim};
  int64_t most = p->n, stride = p->dim;
  TS_TRY(ts_item_part_room(p, p->n));
  TS_TRY(open(&a));
  TS_TRY(ts_comm_max_i64(t->control, &most, 1));
  const int64_t rows = rows_of(t, feature);
  for (int64_t at = 0; at < most; at += rows) {
    const int64_t left = p->n > at ? p->n - at : 0;
    const int32_t n = (int32_t)(left < rows ? left : rows);
    TS_TRY(ask(&a, p->first + at, n, &stride));
    for (int32_t i = 0; i < n; i++)
      ts_item_part_put(p, at + i, a.rows + a.index[i] * stride, normed);
  }
done:
  close(&a);
  return err;
}
