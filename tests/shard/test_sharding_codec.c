/* test_sharding_codec.c - collections whose embeddings and gradients travel
 * coded.  Lanes of their own and batches that grow: what travels lies in
 * other buffers than plain floats do.
 * ranks: 1 3 4  sanitized: 3  seconds: 300 */
#include <math.h>
#include <string.h>

#include "shard/sharding.h"
#include "tests/shard/shard_contract.h"

static const char *const names[] = {"f32", "bf16", "f16", "int8"};
enum { N_CODECS = 4 };

static ct_deck deck; /* large, and pointed into */
enum { N_STEPS = 8 };
static const int sizes[N_STEPS][CT_RANKS] = {
    {1, 0, 0, 0}, {0, 1, 0, 0}, {2, 1, 0, 1}, {3, 0, 2, 2},
    {8, 8, 8, 8}, {4, 8, 8, 8}, {0, 1, 1, 0}, {8, 7, 8, 5}};

static bool has_sequences(ts_shard_kind kind) {
  return ts_sharding_find(kind)->sequence != NULL;
}

static bool splits_rows(ts_shard_kind kind) {
  return ts_sharding_find(kind)->split_rows;
}

/* Sums, means, weighted ones, distinct bags, embeddings per id. */
static void start_deck(ts_shard_kind kind) {
  static const char *const optimizers[] = {"sgd", "rowwise_adagrad", "adam"};
  static const char *const bags[] = {"mo", "lm", "Rm", "MO", "re"};
  ct_deck_start(&deck);
  for (int i = 0; i < 15; i++) {
    const ts_pooling pooling = (ts_pooling)(i / 5);
    if (pooling == TS_POOL_NONE && !has_sequences(kind)) continue;
    ct_deck_add(&deck,
                &(ct_table){.bags = bags[i % 5],
                            .rows = 13 + 9 * (i % 4),
                            .dim = 8 + 4 * (i % 3),
                            .kind = kind,
                            .optimizer = optimizers[(i + i / 5) % 3],
                            .pooling = pooling,
                            .weighted = i % 2 && pooling != TS_POOL_NONE});
  }
}

static void run_coded(ct_run *run, ct_world *w, ts_codec forward,
                      ts_codec backward, ts_codec gradients) {
  *run = (ct_run){.world = w,
                  .deck = &deck,
                  .name = names[forward ? forward : backward],
                  .sizes = sizes[0],
                  .n_sizes = N_STEPS,
                  .n_steps = N_STEPS,
                  .ahead = true,
                  .coded = gradients,
                  .near = forward || backward || gradients};
  deck.config.sharding.comm_dtype_forward = (char *)(uintptr_t)names[forward];
  deck.config.sharding.comm_dtype_backward = (char *)(uintptr_t)names[backward];
  ct_run_do(run);
}

static bool has_dedup(const ts_table_config *t) {
  for (int32_t k = 0; k < deck.n_dedup; k++)
    for (int32_t f = 0; f < t->features.n; f++)
      if (deck.dedup[k] == t->features.item[f]) return true;
  return false;
}

/* Nothing travels. */
static bool stays(const ct_world *w, ts_shard_kind kind) {
  return w->size == 1 || kind == TS_SHARD_DATA_PARALLEL;
}

/* ---- forward ------------------------------------------------------------- */

/* True where a row is coded as the model sees it: no sums of coded parts, no
 * division behind them. */
static bool coded_whole(ts_shard_kind kind, const ts_table_config *t) {
  if (t->pooling == TS_POOL_NONE) return true;
  return kind != TS_SHARD_ROW_WISE &&
         !(splits_rows(kind) && t->pooling == TS_POOL_MEAN);
}

/* The most that an element may lose, in parts of its row's largest. */
static double unit_of(ts_codec c) {
  static const double unit[] = {1e-6, 0x1p-8, 0x1p-11, 1.001 / 254};
  return unit[c];
}

/* The largest weight of table T at start and end. */
static double largest(const ct_run *r, int32_t t) {
  double top = 0;
  for (int64_t i = 0; i < deck.tables[t].rows * deck.tables[t].dim; i++) {
    top = fmax(top, fabs(r->first[deck.at[t][0] + i]));
    top = fmax(top, fabs(r->last[deck.at[t][0] + i]));
  }
  return top;
}

/* Sum of the factors of the ids of output row ROW of the batch here. */
static double factors(const ct_batch *b, int f, int row) {
  const ts_table_config *t = &deck.tables[deck.table_of[f]];
  const ct_bags *bags = &b->features[f];
  const int64_t from = bags->start[b->first + row];
  const int64_t to = bags->start[b->first + row + 1];
  double sum = 0;
  for (int64_t i = from; i < to; i++)
    sum += t->weighted ? (double)bags->weights[i] : 1;
  return t->pooling == TS_POOL_MEAN && to > from ? sum / (double)(to - from)
                                                 : sum;
}

typedef struct ct_pair {
  const ct_run *coded, *plain;
  ts_codec codec;
  ts_shard_kind kind;
  const ts_plan *plan;
} ct_pair;

static void same_row(const ct_pair *p, const ct_batch *b, int f, int row,
                     const float *x, const float *y) {
  const int32_t t = deck.table_of[f], dim = deck.tables[t].dim;
  const bool exact = coded_whole(p->kind, &deck.tables[t]);
  float want[CT_DIM];
  double room = 0;
  memcpy(want, y, (size_t)dim * sizeof *want);
  if (!stays(p->coded->world, p->kind)) {
    if (exact)
      ct_code_row(p->codec, want, dim, p->plan->tables[t].shards[0].n_cols);
    else
      room = unit_of(p->codec) * factors(b, f, row) * largest(p->plain, t);
  }
  for (int c = 0; c < dim; c++)
    if (!(fabs((double)x[c] - want[c]) <= room))
      ct_fault(p->coded, "step %d %s row %d column %d: %.9g instead of %.9g",
               b->step, deck.feature_names[f], row, c, (double)x[c],
               (double)want[c]);
}

/* Weights have seen the same gradients: every embedding of every step is what
 * the codec makes of that of the plain run. */
static void check_forward(const ct_pair *p) {
  static ct_batch b;
  for (int i = 0; i < N_STEPS; i++) {
    const float *x = p->coded->pooled[i], *y = p->plain->pooled[i];
    ct_batch_draw(&b, &deck, p->coded->world, i, sizes[i], false);
    for (int f = 0; f < deck.n_features; f++)
      for (int row = 0; row < p->plain->n_rows[i][f]; row++) {
        same_row(p, &b, f, row, x, y);
        x += CT_DIM;
        y += CT_DIM;
      }
  }
  ct_settle();
  ct_same_last(p->coded, p->plain, 0, NULL);
}

CT_TEST(embeddings_travel_coded, false) {
  ct_run plain, coded;
  ts_plan *plan;
  start_deck(kind);
  ck_assert_ok(ts_plan_make(&plan, &deck.config, w->nodes));
  run_coded(&plain, w, TS_CODEC_F32, TS_CODEC_F32, TS_CODEC_F32);
  for (int c = 1; c < N_CODECS; c++) {
    run_coded(&coded, w, (ts_codec)c, TS_CODEC_F32, TS_CODEC_F32);
    check_forward(&(ct_pair){&coded, &plain, (ts_codec)c, kind, plan});
  }
  ts_plan_destroy(plan);
}

/* ---- backward ------------------------------------------------------------ */

/* Tables whose gradients are coded as the model gives them: no division and
 * no sum before. */
static ts_shard_kind kind_of_case;
static bool graded_whole(const ts_table_config *t) {
  return !has_dedup(t) && t->pooling != TS_POOL_NONE &&
         !(splits_rows(kind_of_case) && t->pooling == TS_POOL_MEAN);
}

/* Weights are within SHARE of the way that the table's have gone. */
static void near_in_the_end(const ct_run *a, const ct_run *b, double share) {
  for (int32_t t = 0; t < deck.config.n_tables; t++) {
    const int64_t at = deck.at[t][0],
                  n = deck.tables[t].rows * deck.tables[t].dim;
    double way = 0;
    for (int64_t i = at; i < at + n; i++)
      way = fmax(way, fabs(b->last[i] - b->first[i]));
    for (int64_t i = at; i < at + n; i++)
      if (!(fabs(a->last[i] - b->last[i]) <= share * way))
        ct_fault(a, "table t%d element %lld: %.9g, but %.9g plain", t,
                 (long long)(i - at), a->last[i], b->last[i]);
  }
  ct_settle();
}

static double share_of(ts_codec c) {
  static const double share[] = {1e-6, 0.01, 0.001, 0.05};
  return share[c];
}

/* The same weights as a plain run whose gradients are coded beforehand. */
CT_TEST(gradients_travel_coded, false) {
  ct_run plain, coded, before;
  kind_of_case = kind;
  start_deck(kind);
  const bool same = stays(w, kind);
  run_coded(&plain, w, TS_CODEC_F32, TS_CODEC_F32, TS_CODEC_F32);
  for (int i = 1; i < N_CODECS; i++) {
    const ts_codec c = (ts_codec)i;
    run_coded(&coded, w, TS_CODEC_F32, c, TS_CODEC_F32);
    run_coded(&before, w, TS_CODEC_F32, TS_CODEC_F32, same ? 0 : c);
    ct_same_last(&coded, &before, 0, same ? NULL : graded_whole);
    ct_same_pooled(&coded, &before, N_STEPS, 0, same ? NULL : graded_whole);
    near_in_the_end(&coded, &plain, share_of(c));
  }
}

/* ---- both, and their bytes ----------------------------------------------- */

/* Samples of all batches; each has one at least. */
static int64_t count_samples(const ct_world *w) {
  int64_t n = 0;
  for (int i = 0; i < N_STEPS; i++) {
    int64_t here = 0;
    for (int r = 0; r < w->size; r++) here += sizes[i][r];
    n += here ? here : 1;
  }
  return n;
}

/* Bytes of a sample's embedding on its ways, all ranks together. */
static int64_t sample_bytes(const ts_table_plan *p, ts_codec c) {
  int64_t bytes = 0;
  for (int32_t k = 0; k < p->n_shards; k++) {
    const ts_shard *s = &p->shards[k];
    bytes += ts_codec_bytes(c, s->n_cols);
    if (!splits_rows(p->kind) || p->kind == TS_SHARD_ROW_WISE) continue;
    /* Within the node plain; across, once for all of its shards. */
    bytes += 4 * s->n_cols;
    if (k && s[-1].col0 == s->col0) bytes -= ts_codec_bytes(c, s->n_cols);
  }
  return bytes;
}

static int64_t bytes_of(const ts_plan *plan, const ct_world *w, ts_codec c) {
  int64_t bytes = 0;
  for (int f = 0; f < deck.n_features; f++)
    bytes += sample_bytes(&plan->tables[deck.table_of[f]], c);
  return bytes * count_samples(w);
}

static void check_bytes(const ct_run *r, const ts_plan *plan, ts_codec forward,
                        ts_codec backward) {
  const ts_ebc_stat *s = &r->stat;
  const ct_world *w = r->world;
  const bool none = stays(w, plan->tables[0].kind);
  int64_t n[] = {s->forward_raw, s->forward_coded, s->backward_raw,
                 s->backward_coded};
  const ts_codec codecs[] = {TS_CODEC_F32, forward, TS_CODEC_F32, backward};
  ck_assert_ok(ts_comm_sum_i64(w->comm, n, 4));
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(n[i], none ? 0 : bytes_of(plan, w, codecs[i]));
}

CT_TEST(one_way_and_the_other, false) {
  static const ts_codec pairs[][2] = {{TS_CODEC_INT8, TS_CODEC_BF16},
                                      {TS_CODEC_F16, TS_CODEC_INT8},
                                      {TS_CODEC_F32, TS_CODEC_INT8},
                                      {TS_CODEC_BF16, TS_CODEC_F32}};
  ct_run plain, coded;
  ts_plan *plan;
  start_deck(kind);
  ck_assert_ok(ts_plan_make(&plan, &deck.config, w->nodes));
  run_coded(&plain, w, TS_CODEC_F32, TS_CODEC_F32, TS_CODEC_F32);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    run_coded(&coded, w, pairs[i][0], pairs[i][1], TS_CODEC_F32);
    near_in_the_end(&coded, &plain, share_of(pairs[i][1]));
  }
  ts_plan_destroy(plan);
}

/* Without distinct bags: their numbers are another test's. */
CT_TEST(bytes_are_counted, false) {
  ct_run run;
  ts_plan *plan;
  ct_deck_start(&deck);
  for (int i = 0; i < 6; i++)
    ct_deck_add(&deck, &(ct_table){.bags = i % 2 ? "m" : "or",
                                   .rows = 30,
                                   .dim = 8 + 8 * (i % 2),
                                   .kind = kind,
                                   .optimizer = "sgd",
                                   .pooling = (ts_pooling)(i % 2)});
  ck_assert_ok(ts_plan_make(&plan, &deck.config, w->nodes));
  for (int i = 0; i < N_CODECS; i++) {
    const ts_codec forward = (ts_codec)i;
    const ts_codec backward = (ts_codec)((i + 1) % N_CODECS);
    run_coded(&run, w, forward, backward, TS_CODEC_F32);
    check_bytes(&run, plan, forward, backward);
  }
  ts_plan_destroy(plan);
}
