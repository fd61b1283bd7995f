/* shard_contract.c - takes a deck through its steps on all ranks and compares
 * with the reference. */
#include "tests/shard/shard_contract.h"
#include "tests/support/sparse_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts of all tables ------------------------------------------------- */

typedef struct ct_gather {
  const ct_run *run;
  double *x;     /* sums over ranks and shards */
  double *cover; /* how many hold it */
  bool check;    /* second pass: every holder has the same */
  ts_err err;
} ct_gather;

/* Part K (0: weights) of a shard that this rank holds. */
static void gather_part(ct_gather *g, int32_t table, const ts_shard *s,
                        ts_tbe *tbe, int32_t t, int k) {
  const ct_deck *d = g->run->deck;
  const bool per_row = k && d->cols[table][k] < d->tables[table].dim;
  int32_t cols;
  ts_dtype type;
  ts_device *device = g->run->world->device;
  const void *at_device = ts_tbe_rows(tbe, t, k - 1, &cols, &type);
  const size_t bytes = (size_t)(s->n_rows * ts_row_bytes(type, cols));
  if (cols != (per_row ? 1 : s->n_cols)) {
    ct_fault(g->run, "table t%d part %d: rows of %d columns", table, k, cols);
    return;
  }
  char *rows = ts_test_borrow(device, at_device, bytes);
  for (int64_t i = 0; i < s->n_rows * cols; i++) {
    float value;
    const int64_t at = d->at[table][k] +
                       (s->row0 + i / cols) * d->cols[table][k] +
                       (per_row ? 0 : s->col0 + i % cols);
    value = (float)test_number(rows, type, i / cols, cols, (int32_t)(i % cols));
    if (!g->check) {
      g->x[at] += value;
      g->cover[at]++;
    } else if (g->x[at] != value)
      ct_fault(g->run, "table t%d part %d row %lld: shards differ: %g and %g",
               table, k, (long long)(s->row0 + i / cols), g->x[at],
               (double)value);
  }
  ts_test_return(device, at_device, rows, bytes, false);
}

static ts_err gather_shard(void *arg, int32_t table, const ts_shard *s,
                           ts_tbe *tbe, int32_t t) {
  ct_gather *g = arg;
  for (int k = 0; k < g->run->deck->n_parts[table]; k++)
    gather_part(g, table, s, tbe, t, k);
  return TS_OK;
}

/* How many must hold an element of part K of table T. */
static bool covered(const ct_run *r, int32_t t, int k, double n) {
  const ts_table_config *c = &r->deck->tables[t];
  if (c->sharding == TS_SHARD_DATA_PARALLEL) return n == r->world->size;
  if (k && r->deck->cols[t][k] < c->dim) return n >= 1;
  return n == 1;
}

static void gather(const ct_run *r, ts_ebc *ebc, double *x) {
  const ct_deck *d = r->deck;
  double *cover = calloc((size_t)d->n, sizeof *cover);
  ct_gather g = {.run = r, .x = x, .cover = cover};
  ck_assert_ptr_nonnull(cover);
  memset(x, 0, (size_t)d->n * sizeof *x);
  ck_assert_ok(ts_ebc_each_shard(ebc, gather_shard, &g));
  ck_assert_ok(ts_comm_sum_f64(r->world->comm, x, d->n));
  ck_assert_ok(ts_comm_sum_f64(r->world->comm, cover, d->n));
  for (int32_t t = 0; t < d->config.n_tables; t++)
    for (int k = 0; k < d->n_parts[t]; k++)
      for (int64_t i = 0; i < d->tables[t].rows * d->cols[t][k]; i++) {
        const int64_t at = d->at[t][k] + i;
        if (!covered(r, t, k, cover[at]))
          ct_fault(r, "table t%d part %d element %lld is held %g times", t, k,
                   (long long)i, cover[at]);
        x[at] /= cover[at];
      }
  g.check = true;
  ck_assert_ok(ts_ebc_each_shard(ebc, gather_shard, &g));
  free(cover);
  ct_settle();
}

/* ---- against the reference ----------------------------------------------- */

/* Bytes from a feature's first row to the end of its last. */
static size_t span(const ct_deck *d, int f, int64_t n_rows, int64_t stride) {
  const int64_t dim = d->tables[d->table_of[f]].dim;
  return n_rows ? (size_t)((n_rows - 1) * stride + dim) * sizeof(float) : 0;
}

/* First steps to 1e-6; later ones have trained weights. */
static void check_pooled(ct_run *r, ts_ebc_batch *fl, const ct_batch *b,
                         const double *x) {
  const ct_deck *d = r->deck;
  float *keep = r->pooled[b->step];
  for (int f = 0; f < d->n_features; f++) {
    const float *at = ts_ebc_batch_emb(fl)[f];
    const int64_t stride = ts_ebc_batch_stride(fl)[f];
    const ct_rows rows = ct_rows_of(d, b, f);
    const size_t bytes = span(d, f, rows.n, stride);
    float *emb = ts_test_borrow(r->world->device, at, bytes);
    r->n_rows[b->step][f] = rows.n;
    for (int i = 0; i < rows.n; i++, keep += CT_DIM)
      for (int c = 0; c < d->tables[d->table_of[f]].dim; c++) {
        double size;
        const double want = ct_oracle_row(d, x, b, f, rows.first + i, c, &size);
        const double got = keep[c] = emb[i * stride + c];
        /* The biases of rows in few bits are greater than their sum. */
        const double room = ts_dtype_has_scale(d->tables[d->table_of[f]].dtype)
                                ? 1e-4 * fmax(size, 1)
                            : b->step ? 1e-5 * fmax(size, 0.1)
                                      : 1e-6 * size;
        if (!r->near && !(fabs(got - want) <= room))
          ct_fault(r, "step %d %s row %d column %d: %.9g instead of %.9g",
                   b->step, d->feature_names[f], rows.first + i, c, got, want);
      }
    ts_test_return(r->world->device, at, emb, bytes, false);
  }
  ct_settle();
}

/* Embeddings per id are the rows of X, all parts of all tables as they are. */
static void check_rows(const ct_run *r, const ct_batch *b, const double *x) {
  const ct_deck *d = r->deck;
  const float *row = r->pooled[b->step];
  for (int f = 0; f < d->n_features; f++) {
    const int32_t t = d->table_of[f], dim = d->tables[t].dim;
    const bool sequence = d->tables[t].pooling == TS_POOL_NONE;
    for (int i = 0; i < r->n_rows[b->step][f]; i++, row += CT_DIM)
      for (int c = 0; sequence && c < dim; c++) {
        const double want = x[d->at[t][0] + b->jagged[f].ids[i] * dim + c];
        if (!r->near && row[c] != want)
          ct_fault(r, "step %d %s id %d column %d: %.9g, but in its row %.9g",
                   b->step, d->feature_names[f], i, c, (double)row[c], want);
      }
  }
  ct_settle();
}

/* Rounding of one step of a table of 16 bits, else what floats lose. */
static double rounding(const ts_table_config *c, int k, double value) {
  if (k == 0 && c->dtype == TS_BF16) return 0x1p-7 * fabs(value) + 1e-6;
  if (k == 0 && c->dtype == TS_F16) return 0x1p-10 * fabs(value) + 1e-6;
  /* From nearest to nearest; or a step, of a row of at most 2 or so. */
  if (k == 0 && c->dtype == TS_INT8) return 2.5 / 255;
  if (k == 0 && c->dtype == TS_INT4) return 2.5 / 15;
  /* A decay can cancel a gradient in the first moment. */
  const double least = k == 0                                    ? 0.1
                       : k == 1 && c->optimizer.weight_decay > 0 ? 1e-3
                                                                 : 1e-6;
  return 1e-5 * fmax(fabs(value), least);
}

static void check_parts(const ct_run *r, const double *got,
                        const double *want) {
  const ct_deck *d = r->deck;
  for (int32_t t = 0; t < d->config.n_tables; t++)
    for (int k = 0; k < d->n_parts[t]; k++)
      for (int64_t i = 0; i < d->tables[t].rows * d->cols[t][k]; i++) {
        const int64_t at = d->at[t][k] + i;
        const double larger = fmax(fabs(got[at]), fabs(want[at]));
        if (!r->near &&
            !(fabs(got[at] - want[at]) <= rounding(&d->tables[t], k, larger)))
          ct_fault(r,
                   "table t%d (%s) part %d row %lld column %lld: %.9g "
                   "instead of %.9g",
                   t, d->tables[t].optimizer.kind, k,
                   (long long)(i / d->cols[t][k]),
                   (long long)(i % d->cols[t][k]), got[at], want[at]);
      }
  ct_settle();
}

/* ---- a run --------------------------------------------------------------- */

typedef struct ct_state {
  ts_plan *plan;
  ts_ebc *ebc;
  ts_ebc_batch *ebc_batch[2]; /* ids of the next batch may be on their way */
  ct_batch *batch[2];
  double *x; /* the reference's parts */
  bool narrow, sequences;
} ct_state;

static void *zeros(size_t n, size_t size) {
  void *p = calloc(n, size);
  ck_assert_ptr_nonnull(p);
  return p;
}

/* Arrays that runs have left, until ct_world_stop. */
enum { KEPT_MAX = 1000 };
static void *kept[KEPT_MAX];
static int n_kept;

static void *keep(size_t n, size_t size) {
  ck_assert_int_lt(n_kept, KEPT_MAX);
  return kept[n_kept++] = zeros(n, size);
}

static void start(ct_run *r, ct_state *s) {
  ct_world *w = r->world;
  ct_deck *d = r->deck;
  memset(s, 0, sizeof *s);
  d->config.sharding.ranks_per_node = ts_node_size(w->nodes, 0);
  d->config.data.input = (char *)(uintptr_t)(r->columns ? "columns" : "kjt");
  ck_assert_ok(ts_plan_make(&s->plan, &d->config, w->nodes));
  ck_assert_ok(ts_ebc_create(&s->ebc, &d->config, s->plan, w->nodes, w->world,
                             w->device, &w->kernels));
  ck_assert_int_eq(ts_ebc_n_features(s->ebc), d->n_features);
  ck_assert_ok(ts_ebc_init(s->ebc));
  ct_positions_start(d, s->ebc, w->device);
  for (int i = 0; i < 2; i++) {
    ck_assert_ok(ts_ebc_batch_create(&s->ebc_batch[i], s->ebc, CT_BATCH, true));
    s->batch[i] = zeros(1, sizeof *s->batch[i]);
  }
  s->x = zeros((size_t)d->n, sizeof *s->x);
  r->first = keep((size_t)d->n, sizeof *r->first);
  r->last = keep((size_t)d->n, sizeof *r->last);
  gather(r, s->ebc, r->first);
  memcpy(s->x, r->first, (size_t)d->n * sizeof *s->x);
  for (int32_t t = 0; t < d->config.n_tables; t++) {
    s->narrow = s->narrow || d->tables[t].dtype != TS_F32;
    s->sequences = s->sequences || d->tables[t].pooling == TS_POOL_NONE;
  }
}

static void stop(ct_state *s) {
  for (int i = 0; i < 2; i++) {
    ts_ebc_batch_destroy(s->ebc_batch[i]);
    free(s->batch[i]);
  }
  ct_positions_stop();
  ts_ebc_destroy(s->ebc);
  ts_plan_destroy(s->plan);
  free(s->x);
}

static void input(ct_run *r, ct_state *s, int step) {
  ct_world *w = r->world;
  ct_batch *b = s->batch[step % 2];
  ts_ebc_batch *fl = s->ebc_batch[step % 2];
  const ts_status *all;
  const int *sizes =
      r->n_sizes ? r->sizes + step % r->n_sizes * CT_RANKS : r->sizes;
  ct_batch_draw(b, r->deck, w, step, sizes, r->columns);
  const ts_status own = {.n = b->n, .weight_sum = b->n};
  ck_assert_ok(ts_ebc_input_begin(fl, &b->kjt, &own, w->data));
  ck_assert_ok(ts_ebc_statuses(fl, &all));
  for (int k = 0; k < w->size; k++)
    if (all[k].n != b->sizes[k] || all[k].err != TS_OK)
      ct_fault(r, "step %d: rank %d says %d samples, error %d", step, k,
               all[k].n, all[k].err);
  ct_settle();
  ck_assert_ok(ts_ebc_input_end(fl, w->data));
}

void ct_code_row(ts_codec c, float *row, int32_t dim, int32_t n_cols) {
  char wire[8 * CT_DIM];
  for (int32_t d = 0; d < dim; d += n_cols) {
    ts_codec_encode(c, wire, row + d, n_cols);
    ts_codec_decode(c, row + d, wire, n_cols);
  }
}

static void backward(ct_run *r, ct_state *s, int step) {
  const ct_batch *b = s->batch[step % 2];
  ts_ebc_batch *fl = s->ebc_batch[step % 2];
  const ct_deck *d = r->deck;
  for (int f = 0; f < d->n_features; f++) {
    float *at = ts_ebc_batch_grad(fl)[f];
    const int64_t stride = ts_ebc_batch_stride(fl)[f];
    const ct_rows rows = ct_rows_of(d, b, f);
    const size_t bytes = span(d, f, rows.n, stride);
    float *grad = ts_test_borrow(r->world->device, at, bytes);
    const int32_t t = d->table_of[f], dim = d->tables[t].dim;
    for (int i = 0; i < rows.n; i++) {
      for (int c = 0; c < dim; c++)
        grad[i * stride + c] = ct_grad(step, f, rows.first + i, c);
      ct_code_row(r->coded, grad + i * stride, dim,
                  s->plan->tables[t].shards[0].n_cols);
    }
    ts_test_return(r->world->device, at, grad, bytes, true);
  }
  ck_assert_ok(ts_ebc_backward_begin(fl, r->world->compute));
  ck_assert_ok(ts_ebc_backward_end(fl, 1.0, step + 1, NULL, r->world->compute));
}

/* Rounding of 16-bit tables is drawn: what they became is the start of the
 * next step. */
static void follow(ct_run *r, ct_state *s) {
  gather(r, s->ebc, r->last);
  check_parts(r, r->last, s->x);
  memcpy(s->x, r->last, (size_t)r->deck->n * sizeof *s->x);
}

/* Ranks that hold columns of row ID: its ways in input dist. */
static int ways_of(const ts_table_plan *p, int64_t id) {
  bool seen[CT_RANKS] = {false};
  int n = 0;
  for (int k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    if (id < s->row0 || id >= s->row0 + s->n_rows || seen[s->rank]) continue;
    seen[s->rank] = true;
    n++;
  }
  return p->kind == TS_SHARD_DATA_PARALLEL ? 0 : n;
}

/* Output rows of the batch here; its ids are counted. */
static size_t count_rows(ct_run *r, const ct_state *s, const ct_batch *b) {
  const ct_deck *d = r->deck;
  size_t n = 0;
  for (int f = 0; f < d->n_features; f++) {
    const ts_jagged *j = &b->jagged[f];
    n += (size_t)ct_rows_of(d, b, f).n;
    for (int64_t k = 0; k < j->n_ids; k++)
      r->n_ways += ways_of(&s->plan->tables[d->table_of[f]], j->ids[k]);
  }
  return n;
}

static void step(ct_run *r, ct_state *s, int i) {
  ts_ebc_batch *fl = s->ebc_batch[i % 2];
  const ct_batch *b = s->batch[i % 2];
  ts_lane *compute = r->world->compute;
  const size_t n_rows = count_rows(r, s, b);
  r->pooled[i] = keep((n_rows + 1) * CT_DIM, sizeof(float));
  ck_assert_ok(ts_ebc_lookup(fl, compute));
  ck_assert_ok(ts_ebc_output_end(fl, compute));
  ck_assert_ok(ts_lane_sync(compute));
  check_pooled(r, fl, b, s->x);
  if (s->sequences) {
    gather(r, s->ebc, r->last);
    check_rows(r, b, r->last);
  }
  if (r->ahead && i + 1 < r->n_steps) input(r, s, i + 1);
  backward(r, s, i);
  ck_assert_ok(ts_lane_sync(compute));
  ct_positions_check(r, s->ebc, b, s->x);
  ct_oracle_step(r->deck, s->x, b);
  ct_positions_train(r->deck, s->ebc, r->world->device);
  if (s->narrow) follow(r, s);
}

void ct_run_do(ct_run *r) {
  ct_state s;
  if (!r->n_steps) r->n_steps = CT_STEPS;
  start(r, &s);
  for (int i = 0; i < r->n_steps; i++) {
    if (i == 0 || !r->ahead) input(r, &s, i);
    step(r, &s, i);
  }
  gather(r, s.ebc, r->last);
  check_parts(r, r->last, s.x);
  r->stat = ts_ebc_stat_of(s.ebc);
  r->position = keep(1, sizeof r->deck->position);
  memcpy(r->position, r->deck->position, sizeof r->deck->position);
  stop(&s);
}

ct_run ct_run_of(ct_world *w, ct_deck *d, ts_shard_kind kind) {
  return (ct_run){.world = w, .deck = d, .name = ts_shard_kind_name(kind)};
}

void ct_runs_reset(void) {
  while (n_kept > 0) free(kept[--n_kept]);
}
