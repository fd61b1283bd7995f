/* test_positions.c - feature processors: a table whose ids have a trained
 * weight per position in their bag, under every sharding type, on one node
 * and on two.  Outputs, rows and the weights' gradients are those of a
 * reference that knows nothing of shards.
 * ranks: 1 3 4  sanitized: 3  fake: 1 */
#include <math.h>
#include <string.h>

#include "shard/message.h"
#include "tests/shard/shard_contract.h"

static ct_deck deck, twin; /* large, and pointed into */

/* Sums and means, bags of one id, of few, of hundreds and ones that come
 * again; lengths from one to more than there are; another table beside. */
static void make_deck(ct_deck *d, ts_shard_kind kind, ts_dtype dtype) {
  static const char *const bags[] = {"mo", "Rm", "lE", "mLr", "r"};
  static const char *const optimizers[] = {"sgd", "rowwise_adagrad", "adam"};
  static const int32_t lengths[] = {3, 2, 270, 320, 1};
  static const int32_t dims[] = {8, 12, 16};
  ct_deck_start(d);
  for (int n = 0; n < 10; n++)
    ct_deck_add(d, &(ct_table){.bags = bags[n / 2],
                               .rows = 17 + 5 * n,
                               .dim = dims[n % 3],
                               .kind = kind,
                               .optimizer = optimizers[n % 3],
                               .pooling = n % 2 ? TS_POOL_MEAN : TS_POOL_SUM,
                               .dtype = dtype,
                               .max_length = n == 5 ? 0 : lengths[n / 2]});
  d->position_rate = 0.03125f;
}

/* Another run of the same: the same bits. */
static void check_same(const ct_run *a, const ct_run *b) {
  ct_same_pooled(a, b, CT_STEPS, 0, NULL);
  ct_same_last(a, b, 0, NULL);
  for (int i = 0; i < CT_FEATURES * CT_POSITIONS; i++)
    if (a->position[i] != b->position[i])
      ct_fault(a, "feature %d position %d: %.9g and %.9g", i / CT_POSITIONS,
               i % CT_POSITIONS, (double)a->position[i],
               (double)b->position[i]);
  ct_settle();
}

/* Some weight has moved, else nothing was trained. */
static void check_moved(const ct_run *r) {
  int n = 0;
  for (int f = 0; f < r->deck->n_features; f++)
    for (int p = 0; p < CT_POSITIONS; p++)
      n += r->position[f * CT_POSITIONS + p] !=
           0.5f + (float)((7 * f + 13 * p) % 16) / 16.0f;
  ck_assert_int_gt(n, 100);
}

static void run_beside(const ct_run *first, bool columns, bool ahead) {
  ct_run run = {.world = first->world,
                .deck = first->deck,
                .name = first->name,
                .columns = columns,
                .ahead = ahead};
  ct_run_do(&run);
  check_same(&run, first);
}

/* By lengths and by offsets, with ids sent ahead, with bags sent once. */
CT_TEST(trains_as_unsharded, true) {
  make_deck(&deck, kind, TS_F32);
  for (int dedup = 0; dedup < 2; dedup++) {
    ct_run run = ct_run_of(w, &deck, kind);
    ct_deck_dedup(&deck, dedup);
    ct_run_do(&run);
    check_moved(&run);
    run_beside(&run, true, false);
    run_beside(&run, false, true);
  }
}

CT_TEST(sixteen_bits, true) {
  for (int f16 = 0; f16 < 2; f16++) {
    make_deck(&deck, kind, f16 ? TS_F16 : TS_BF16);
    ct_run run = ct_run_of(w, &deck, kind);
    run.n_steps = 4;

    ct_run_do(&run);
  }
}

/* Weights that stay as they are do what the same weights in the data do, to
 * the bit. */
CT_TEST(as_spelled_out, true) {
  make_deck(&deck, kind, TS_F32);
  make_deck(&twin, kind, TS_F32);
  deck.position_rate = 0;
  ct_deck_spell(&twin, true);
  ct_run run = ct_run_of(w, &deck, kind);
  ct_run spelled = {.world = w, .deck = &twin, .name = "spelled out"};
  ct_run_do(&run);
  ct_run_do(&spelled);
  ct_same_pooled(&run, &spelled, CT_STEPS, 0, NULL);
  ct_same_last(&run, &spelled, 0, NULL);
}

CT_TEST(parallel_lanes, false) {
  make_deck(&deck, kind, TS_F32);
  ct_run parallel = ct_run_of(w, &deck, kind), serial = parallel;
  ct_run_do(&parallel);
  ct_world_restart(w, true);
  ct_run_do(&serial);
  check_same(&parallel, &serial);
}

/* ---- finite differences -------------------------------------------------- */

/* One batch through a collection, again and again. */
typedef struct {
  ct_world *w;
  ts_plan *plan;
  ts_ebc *ebc;
  ts_ebc_batch *ebc_batch;
  ct_batch batch;
} small;

static void small_start(small *s, ct_world *w) {
  s->w = w;
  ck_assert_ok(ts_plan_make(&s->plan, &deck.config, w->nodes));
  ck_assert_ok(ts_ebc_create(&s->ebc, &deck.config, s->plan, w->nodes, w->world,
                             w->device, &w->kernels));
  ck_assert_ok(ts_ebc_init(s->ebc));
  ck_assert_ok(ts_ebc_batch_create(&s->ebc_batch, s->ebc, CT_BATCH, true));
  ct_positions_start(&deck, s->ebc, w->device);
}

/* The batch in flight's rows of feature F, as the host may touch them. */
static size_t small_bytes(const small *s, int f) {
  const int64_t rows = s->batch.n, dim = deck.tables[deck.table_of[f]].dim;
  const int64_t stride = ts_ebc_batch_stride(s->ebc_batch)[f];
  return rows ? (size_t)((rows - 1) * stride + dim) * sizeof(float) : 0;
}

static void small_stop(small *s) {
  ct_positions_stop();
  ts_ebc_batch_destroy(s->ebc_batch);
  ts_ebc_destroy(s->ebc);
  ts_plan_destroy(s->plan);
}

static void small_input(small *s) {
  const ts_status *all;
  ct_batch_draw(&s->batch, &deck, s->w, 0, NULL, false);
  const ts_status own = {.n = s->batch.n};
  ck_assert_ok(
      ts_ebc_input_begin(s->ebc_batch, &s->batch.kjt, &own, s->w->data));
  ck_assert_ok(ts_ebc_statuses(s->ebc_batch, &all));
  ck_assert_ok(ts_ebc_input_end(s->ebc_batch, s->w->data));
}

/* Sum over the global batch of the outputs times what will be their
 * gradients. */
static double small_loss(small *s) {
  double sum = 0;
  small_input(s);
  ck_assert_ok(ts_ebc_lookup(s->ebc_batch, s->w->compute));
  ck_assert_ok(ts_ebc_output_end(s->ebc_batch, s->w->compute));
  ck_assert_ok(ts_lane_sync(s->w->compute));
  for (int f = 0; f < deck.n_features; f++) {
    const float *at = ts_ebc_batch_emb(s->ebc_batch)[f];
    float *emb = ts_test_borrow(s->w->device, at, small_bytes(s, f));
    for (int b = 0; b < s->batch.n; b++)
      for (int c = 0; c < deck.tables[deck.table_of[f]].dim; c++)
        sum += (double)ct_grad(0, f, s->batch.first + b, c) *
               emb[b * ts_ebc_batch_stride(s->ebc_batch)[f] + c];
    ts_test_return(s->w->device, at, emb, small_bytes(s, f), false);
  }
  ck_assert_ok(ts_comm_sum_f64(s->w->comm, &sum, 1));
  return sum;
}

static void small_backward(small *s) {
  for (int f = 0; f < deck.n_features; f++) {
    float *at = ts_ebc_batch_grad(s->ebc_batch)[f];
    float *grad = ts_test_borrow(s->w->device, at, small_bytes(s, f));
    for (int b = 0; b < s->batch.n; b++)
      for (int c = 0; c < deck.tables[deck.table_of[f]].dim; c++)
        grad[b * ts_ebc_batch_stride(s->ebc_batch)[f] + c] =
            ct_grad(0, f, s->batch.first + b, c);
    ts_test_return(s->w->device, at, grad, small_bytes(s, f), true);
  }
  ck_assert_ok(ts_ebc_backward_begin(s->ebc_batch, s->w->compute));
  ck_assert_ok(ts_ebc_backward_end(s->ebc_batch, 1.0, 1, NULL, s->w->compute));
  ck_assert_ok(ts_lane_sync(s->w->compute));
}

static float small_get(const small *s, const float *x) {
  float value;
  ts_test_get(s->w->device, &value, x, sizeof value);
  return value;
}

static void small_put(const small *s, float *x, float value) {
  ts_test_put(s->w->device, x, &value, sizeof value);
}

CT_TEST(finite_differences, true) {
  enum { WEIGHTS = 3 };
  const float h = 0.25f; /* the loss is linear in each weight */
  static small s;
  double slope[8][WEIGHTS];
  ct_deck_start(&deck);
  for (int mean = 0; mean < 2; mean++)
    ct_deck_add(&deck, &(ct_table){.bags = "mRl",
                                   .rows = 23,
                                   .dim = 8,
                                   .kind = kind,
                                   .optimizer = "sgd",
                                   .pooling = mean ? TS_POOL_MEAN : TS_POOL_SUM,
                                   .max_length = WEIGHTS});
  small_start(&s, w);
  const ts_params *params = ts_ebc_params(s.ebc);
  ck_assert_int_eq(params->n, 6);
  for (int k = 0; k < params->n; k++)
    for (int i = 0; i < WEIGHTS; i++) {
      float *x = &params->item[k]->w[i];
      const float was = small_get(&s, x);
      small_put(&s, x, was + h);
      slope[k][i] = small_loss(&s);
      small_put(&s, x, was - h);
      slope[k][i] = (slope[k][i] - small_loss(&s)) / (2 * (double)h);
      small_put(&s, x, was);
    }
  small_loss(&s);
  small_backward(&s);
  for (int k = 0; k < params->n; k++)
    for (int i = 0; i < WEIGHTS; i++) {
      double sum = (double)small_get(&s, &params->item[k]->grad[i]);
      ck_assert_ok(ts_comm_sum_f64(w->comm, &sum, 1));
      ck_assert_msg(fabs(sum - slope[k][i]) <= 1e-5 * fmax(fabs(sum), 1),
                    "parameter %d position %d: gradient %g, slope %g", k, i,
                    sum, slope[k][i]);
    }
  small_stop(&s);
}

TS_TEST(far_positions) {
  ck_assert_int_eq(ts_position(0), 0);
  ck_assert_int_eq(ts_position(65535), 65535);
  ck_assert_int_eq(ts_position(65536), 65535);
  ck_assert_int_eq(ts_position(INT64_C(1) << 40), 65535);
}
