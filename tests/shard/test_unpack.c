/* test_unpack.c - bags of thousands of samples, which devices of memory of
 * their own get in parts, as they lie in the groups' arrays after input dist;
 * and lengths that do not fit their ids: of a message, and of a batch whose ids
 * stay.  On two ranks rank 0 has what is not replicated.
 * ranks: 1 2  fake: 1 2  emulated: 1 2 */
#include <stdio.h>
#include <string.h>

#include "runtime/backends.h"
#include "shard/message.h"
#include "tests/shard/shard_contract.h"
#include "tests/support/sparse_util.h"

enum { SAMPLES = 2600, FEATURES = 8, MOST_IDS = 5 * SAMPLES + 300 };

typedef struct state {
  ct_world world;
  ct_deck deck;
  ts_plan *plan;
  ts_ebc *ebc;
  ts_ebc_batch *ebc_batch;
  ts_kjt kjt;
  ts_jagged jagged[FEATURES];
  int32_t lengths[FEATURES][SAMPLES];
  int64_t ids[FEATURES][MOST_IDS];
  float weights[MOST_IDS];
} state;
static state s;

/* Bags of one id, of up to five, and one of 300 among them. */
static void draw(int f, int64_t rows, bool weighted) {
  uint64_t seed = (uint64_t)f + 1;
  ts_jagged *j = &s.jagged[f];
  *j = (ts_jagged){.ids = s.ids[f], .weights = weighted ? s.weights : NULL};
  for (int b = 0; b < SAMPLES; b++) {
    s.lengths[f][b] = f % 4 == 0 ? 1 : (int32_t)(test_random(&seed) % 6);
    if (f % 4 == 2 && b == 1500) s.lengths[f][b] = 300;
    j->n_ids += s.lengths[f][b];
  }
  if (f % 4) j->lengths = s.lengths[f];
  ck_assert_int_le(j->n_ids, MOST_IDS);
  for (int64_t i = 0; i < j->n_ids; i++)
    s.ids[f][i] = test_random(&seed) % (uint32_t)rows;
}

/* A table of each width of rows that travel, and of ids that don't; the same
 * samples on all ranks. */
static void start(void) {
  static const int owner = 0;
  static const int64_t rows[] = {200, 5000, 70000, 3000};
  memset(&s, 0, sizeof s);
  test_floats(s.weights, MOST_IDS, 3);
  ct_world_start(&s.world, 1, true);
  ct_deck_start(&s.deck);
  for (int f = 0; f < FEATURES; f++) {
    const bool weighted = f % 4 == 3;
    ct_deck_add(&s.deck, &(ct_table){.bags = "m",
                                     .rows = rows[f % 4],
                                     .dim = 4,
                                     .kind = f < 4 ? TS_SHARD_TABLE_WISE
                                                   : TS_SHARD_DATA_PARALLEL,
                                     .optimizer = "sgd",
                                     .pooling = TS_POOL_SUM,
                                     .weighted = weighted});
    if (f < 4) ct_deck_ranks(&s.deck, &owner, 1);
    draw(f, rows[f % 4], weighted);
  }
  s.kjt =
      (ts_kjt){.features = s.jagged, .n_features = FEATURES, .batch = SAMPLES};
  ck_assert_ok(ts_plan_make(&s.plan, &s.deck.config, s.world.nodes));
  ck_assert_ok(ts_ebc_create(&s.ebc, &s.deck.config, s.plan, s.world.nodes,
                             s.world.world, s.world.device, &s.world.kernels));
  ck_assert_ok(ts_ebc_batch_create(&s.ebc_batch, s.ebc, SAMPLES, true));
}

static void stop(void) {
  ts_ebc_batch_destroy(s.ebc_batch);
  ts_ebc_destroy(s.ebc);
  ts_plan_destroy(s.plan);
  ct_world_stop(&s.world);
}

/* The ids have come; they are not unpacked yet. */
static void receive(void) {
  const ts_status own = {.n = SAMPLES, .weight_sum = SAMPLES};
  const ts_status *all;
  ck_assert_ok(ts_ebc_input_begin(s.ebc_batch, &s.kjt, &own, s.world.data));
  ck_assert_ok(ts_ebc_statuses(s.ebc_batch, &all));
}

/* Bags from FROM on are those of feature F, their ids the group's from
 * offsets[from] on. */
static void check_bags(int32_t f, const int64_t *offsets, const int32_t *rows,
                       const float *weights, int64_t from) {
  const int64_t first = offsets[from];
  for (int b = 0; b < SAMPLES; b++)
    ck_assert_int_eq(offsets[from + b + 1] - offsets[from + b],
                     s.lengths[f][b]);
  for (int64_t i = 0; i < s.jagged[f].n_ids; i++) {
    ck_assert_int_eq(rows[first + i], s.ids[f][i]);
    if (weights) ck_assert(weights[first + i] == s.weights[i]);
  }
}

static int check_group(const ts_sharding_batch *lf, int32_t g) {
  const ts_sharding_group *group = &lf->sharding->groups[g];
  const ts_tbe_input *in = &lf->inputs[g];
  ts_device *d = s.world.device;
  const size_t offset_bytes = (size_t)(in->bag_start[group->n_slots] + 1) * 8;
  const size_t bytes = (size_t)in->n_ids * 4;
  int64_t *offsets = ts_test_borrow(d, in->offsets, offset_bytes);
  int32_t *rows = ts_test_borrow(d, in->rows, bytes);
  float *weights = in->weights ? ts_test_borrow(d, in->weights, bytes) : NULL;
  for (int32_t k = 0; k < group->n_slots; k++) {
    const ts_piece *piece = &lf->sharding->pieces[group->piece[k]];
    const int from = piece->feature < 4 ? s.world.size : 1;
    ck_assert_int_eq(in->bag_start[k + 1] - in->bag_start[k], from * SAMPLES);
    for (int r = 0; r < from; r++)
      check_bags(piece->feature, offsets, rows, weights,
                 in->bag_start[k] + r * SAMPLES);
  }
  ck_assert_int_eq(offsets[in->bag_start[group->n_slots]], in->n_ids);
  ts_test_return(d, in->offsets, offsets, offset_bytes, false);
  ts_test_return(d, in->rows, rows, bytes, false);
  if (weights) ts_test_return(d, in->weights, weights, bytes, false);
  return group->n_slots;
}

TS_TEST(long_batch) {
  int n = 0;
  start();
  receive();
  ck_assert_ok(ts_ebc_input_end(s.ebc_batch, s.world.data));
  for (int32_t l = 0; l < s.ebc->n_shardings; l++)
    for (int32_t g = 0; g < s.ebc->shardings[l].n_groups; g++)
      n += check_group(&s.ebc_batch->shardings[l], g);
  ck_assert_int_eq(n, s.world.rank ? FEATURES - 4 : FEATURES);
  stop();
}

/* The lengths of rank 0's message, which is its own; no other rank sees it.  A
 * discrete device has the sections, which travel without their heads. */
static void spoil_message(void) {
  const ts_ebc_batch *fl = s.ebc_batch;
  ts_device *d = s.world.device;
  if (s.world.rank) return;
  /* The first section with lengths: what follows the one of one id each. */
  const int64_t at =
      1100 + ts_pad4(SAMPLES * ts_id_bytes(s.ebc->routes[0].n_rows));
  const size_t n = (size_t)at + 1;
  const char *sections = s.ebc->section_comm
                             ? fl->packed.ptr
                             : (char *)fl->exchange.recv.ptr +
                                   fl->exchange.recv_at[0] +
                                   ts_head_bytes(s.ebc, s.ebc->n_routes);
  uint8_t *bytes = ts_test_borrow(d, sections, n);
  bytes[at]++;
  ts_test_return(d, sections, bytes, n, true);
}

/* A discrete device has its own copy of a batch's lengths, which nobody adds
 * up. */
TS_TEST(wrong_lengths) {
  start();
  receive();
  const bool here = s.world.size == 1;
  if (here)
    s.lengths[1][1100]++;
  else
    spoil_message();
  ts_err err = ts_ebc_input_end(s.ebc_batch, s.world.data);
  if (err == TS_OK) err = ts_ebc_input_wait(s.ebc_batch);
  if (here ? ts_device_is_discrete(s.world.device) : s.world.rank > 0) {
    ck_assert_ok(err);
  } else {
    ck_assert_int_eq(err, TS_ERR_COMM);
    ck_assert_msg(strstr(ts_err_message(), "input dist: lengths of"), "%s",
                  ts_err_message());
    ts_err_clear();
  }
  stop();
}

/* Everyone's error, after a batch was begun. */
static ts_err begin(void) {
  const ts_status own = {.n = SAMPLES, .weight_sum = SAMPLES};
  const ts_status *all;
  ck_assert_ok(ts_ebc_input_begin(s.ebc_batch, &s.kjt, &own, s.world.data));
  ck_assert_ok(ts_ebc_statuses(s.ebc_batch, &all));
  for (int r = 0; r < s.world.size; r++)
    ck_assert_int_eq(all[r].err, all[0].err);
  return (ts_err)all[0].err;
}

static void expect_bad_id(const char *which) {
  char text[64];
  snprintf(text, sizeof text, "feature t5_f0: id %s is not a row of", which);
  ck_assert_msg(strstr(ts_err_message(), text), "%s", ts_err_message());
  ts_err_clear();
}

/* Of ids that stay on their rank.  Where the host waits for nothing it hears of
 * one once it is unpacked, as another row, and tells all with the next batch;
 * who asks is told once. */
TS_TEST(bad_ids_that_stay) {
  start();
  s.ids[5][7] = 5000;
  if (!s.ebc->counts) {
    ck_assert_int_eq(begin(), TS_ERR_DATA);
    expect_bad_id("5000");
    stop();
    return;
  }
  for (int round = 0; round < 2; round++) {
    ck_assert_int_eq(begin(), TS_OK);
    ck_assert_ok(ts_ebc_input_end(s.ebc_batch, s.world.data));
    if (round) continue;
    ck_assert_int_eq(ts_ebc_input_wait(s.ebc_batch), TS_ERR_DATA);
    expect_bad_id("of an earlier batch");
    ck_assert_ok(ts_ebc_input_wait(s.ebc_batch));
    s.ids[5][7] = 0; /* which it has become */
    for (int32_t l = 0; l < s.ebc->n_shardings; l++)
      for (int32_t g = 0; g < s.ebc->shardings[l].n_groups; g++)
        if (!s.ebc->shardings[l].travels)
          (void)check_group(&s.ebc_batch->shardings[l], g);
    s.ids[5][7] = 5000;
  }
  s.ids[5][7] = 0;
  ck_assert_int_eq(begin(), TS_ERR_DATA);
  expect_bad_id("of an earlier batch");
  ck_assert_int_eq(begin(), TS_OK);
  ck_assert_ok(ts_ebc_input_end(s.ebc_batch, s.world.data));
  ck_assert_ok(ts_ebc_input_wait(s.ebc_batch));
  stop();
}

/* The host's kernel looks at a part without ids, too. */
TS_TEST(lengths_without_ids) {
  ts_kernels k = {0};
  int64_t offsets[2], at[1];
  const int32_t one = 1;
  ts_unpack_part p = {.id_bytes = 8, .n_bags = 1, .form = TS_FORM_INTS};
  ts_unpack_args a = {
      .parts = &p, .n_parts = 1, .n_bags = 1, .offsets = offsets, .at = at};
  p.lengths = &one;
  ts_unpack_kernels_host(&k);
  ck_assert_int_eq(k.unpack(&a), TS_ERR_COMM);
  ck_assert_str_eq(ts_err_message(), "input dist: lengths of 1 ids for 0");
  ts_err_clear();
  p.n_listed = -1;
  ck_assert_ok(k.unpack(&a));
}
