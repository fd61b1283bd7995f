/* test_wire.c - messages of input dist: one for each batch where sizes are
 * known or as before, a second one between two ranks where a piece is larger
 * than expected; uneven batches, ranks without samples, the end of the data
 * and one rank's error need none.
 * On one rank no id is in a message.
 * ranks: 1 3 4  fake: 1 2
 * seconds: 400 */
#include <string.h>

#include "base/mem.h"
#include "tests/train/pipe_run.h"
#include "shard/message.h"

/* ---- exchanges with rooms ------------------------------------------------ */

enum { RANKS_MAX = 4, MOST = 4096 };

typedef struct stream {
  ts_fixture f;
  ts_exchange x;
  ts_rooms rooms;
  int64_t send_bytes[RANKS_MAX], recv_bytes[RANKS_MAX], recv_at[RANKS_MAX];
  char data[RANKS_MAX * MOST];
} stream;

static stream s;

static void stream_start(bool serial) {
  memset(&s, 0, sizeof s);
  ts_fixture_start_device(&s.f, serial, 1);
  ck_assert_ok(ts_rooms_create(&s.rooms, s.f.size));
  s.x = (ts_exchange){.send = s.data,
                      .send_bytes = s.send_bytes,
                      .recv = {.owned = true, .device = s.f.device},
                      .recv_bytes = s.recv_bytes,
                      .recv_at = s.recv_at,
                      .rooms = &s.rooms};
}

static void stream_stop(void) {
  ts_buffer_reset(&s.x.recv);
  ts_rooms_reset(&s.rooms);
  ts_fixture_stop(&s.f);
}

static char letter(int from, int to, int64_t i) {
  return (char)(1 + (37 * from + 11 * to + i) % 120);
}

/* Exchanges SIZES[from][to]; the rounds and messages that it took here. */
static ts_comm_stat exchange(int64_t sizes[RANKS_MAX][RANKS_MAX]) {
  const ts_comm_stat before = ts_comm_stat_of(s.f.comm);
  const int me = s.f.rank;
  ts_token token;
  int64_t n = 0, bad = 0;
  for (int r = 0; r < s.f.size; r++) {
    s.send_bytes[r] = sizes[me][r];
    for (int64_t i = 0; i < sizes[me][r]; i++) s.data[n++] = letter(me, r, i);
  }
  ck_assert_ok(ts_comm_exchange(s.f.comm, &token, &s.x, s.f.lane));
  ck_assert_ok(ts_comm_wait(&token));
  ts_comm_stat after = ts_comm_stat_of(s.f.comm);
  for (int r = 0; r < s.f.size; r++) {
    bad += s.recv_bytes[r] != sizes[r][me] || s.recv_at[r] % 64 != 0;
    for (int64_t i = 0; !bad && i < sizes[r][me]; i++)
      bad += ((char *)s.x.recv.ptr)[s.recv_at[r] + i] != letter(r, me, i);
  }
  ck_assert_all(bad == 0);
  after.n_rounds -= before.n_rounds;
  after.n_messages -= before.n_messages;
  after.sent_bytes -= before.sent_bytes;
  return after;
}

static void all_sizes(int64_t sizes[RANKS_MAX][RANKS_MAX], int64_t bytes) {
  for (int i = 0; i < RANKS_MAX; i++)
    for (int k = 0; k < RANKS_MAX; k++) sizes[i][k] = bytes;
}

TS_TESTS_BETWEEN(NULL, pr_close_data)

/* Every size up to the room goes at once, and no byte more than it has. */
TS_TESTS(one_message_where_it_fits, 0, 2) {
  static const int64_t bytes[] = {64, 0, 8, 63, 1};
  int64_t sizes[RANKS_MAX][RANKS_MAX];
  stream_start(_i);
  const int others = s.f.size - 1;
  for (size_t k = 0; k < sizeof bytes / sizeof *bytes; k++) {
    all_sizes(sizes, bytes[k]);
    const ts_comm_stat n = exchange(sizes);
    ck_assert_all(n.n_rounds == 1 && n.n_messages == others &&
                  n.sent_bytes == others * bytes[k]);
  }
  stream_stop();
}

/* A piece that does not fit concerns its two ranks, and once. */
TS_TESTS(two_messages_where_it_does_not, 0, 2) {
  int64_t sizes[RANKS_MAX][RANKS_MAX];
  stream_start(_i);
  const int others = s.f.size - 1, me = s.f.rank;
  const int last = s.f.size - 1;
  all_sizes(sizes, 40);
  sizes[0][last] = 1000;
  for (int again = 0; again < 3; again++) {
    /* Within the eighth that is added, too. */
    if (again == 2) sizes[0][last] = 1100;
    const ts_comm_stat n = exchange(sizes);
    const bool two = !again && others && (me == 0 || me == last);
    ck_assert_all(n.n_rounds == 1 + two &&
                  n.n_messages == others + (two && me == 0));
  }
  stream_stop();
}

/* Anything goes, and both sides always agree about the room. */
TS_TESTS(sizes_of_all_kinds, 0, 2) {
  int64_t sizes[RANKS_MAX][RANKS_MAX], most = 0;
  stream_start(_i);
  for (uint32_t step = 0; step < 40; step++) {
    for (int i = 0; i < RANKS_MAX; i++)
      for (int k = 0; k < RANKS_MAX; k++) {
        const uint32_t h = (step * 977 + (uint32_t)(i * 31 + k)) * 2654435761u;
        sizes[i][k] = (h >> 8) % 5 == 0 ? 0 : (h >> 12) % (16 + 100 * step);
        if (sizes[i][k] > most) most = sizes[i][k];
      }
    ck_assert_int_le(most, MOST);
    exchange(sizes);
    int64_t theirs[RANKS_MAX];
    for (int r = 0; r < s.f.size; r++) {
      int64_t all[RANKS_MAX];
      ck_assert_ok(
          ts_comm_gather_all(s.f.comm, all, &s.rooms.send[r], sizeof *all));
      if (r == s.f.rank) memcpy(theirs, all, sizeof all);
    }
    theirs[s.f.rank] = s.rooms.recv[s.f.rank];
    ck_assert_all(
        !memcmp(theirs, s.rooms.recv, (size_t)s.f.size * sizeof *theirs));
  }
  stream_stop();
}

/* ---- input dist ---------------------------------------------------------- */

/* One id a sample, whole bags; batches of 32, 32, 32 and 3 samples. */
static const char one_deck[] =
    "run = { name = \"t\"; seed = 5; steps = 8; threads = 1; };\n"
    "data = { format = \"synthetic\"; global_batch = 32;\n"
    "  synthetic = { samples = 99; eval_samples = 50; pooling = [1]; }; };\n"
    "sharding = { min_column = 8; topology = \"default\"; };\n"
    "tables = (\n"
    "  { name = \"a\"; rows = 300; dim = 16; features = [\"a\", \"a2\"];\n"
    "    sharding = \"table_wise\"; },\n"
    "  { name = \"b\"; rows = 70000; dim = 16; features = [\"b\"];\n"
    "    sharding = \"column_wise\"; },\n"
    "  { name = \"c\"; rows = 90; dim = 16; features = [\"c\"];\n"
    "    sharding = \"table_wise\"; } );\n"
    "model = { kind = \"dlrm\"; dense_features = 3; dense_arch = [32, 16];\n"
    "  over_arch = [32, 16, 1]; };\n";

static const char *const kinds[] = {
    "pipeline.kind=base", "pipeline.kind=sparse_dist",
    "pipeline.kind=fused_sparse_dist", "pipeline.kind=semi_sync",
    "pipeline.kind=prefetch"};

typedef struct counted {
  pr_result result;
  ts_ebc_stat stat;
  ts_comm_stat wire;
  int64_t head;  /* bytes of a message without ids */
  size_t copies; /* of messages, on a discrete device: bytes */
} counted;

/* ROOM: of every message at first, in place of what is expected; 0: as is. */
static void train(counted *out, const char *deck, const pr_sets *sets,
                  int64_t room) {
  pr_run r;
  memset(out, 0, sizeof *out);
  pr_start(&r, deck, sets);
  for (int k = 0; room && k < r.t->n_ranks; k++)
    r.t->ebc->input_rooms.send[k] = r.t->ebc->input_rooms.recv[k] = room;
  pr_steps(&r, &out->result);
  out->result.state = pr_state(&r);
  out->stat = ts_ebc_stat_of(r.t->ebc);
  out->wire = ts_comm_stat_of(r.t->ebc->input_comm);
  const ts_ebc_batch *fl = ts_inflight_at(r.t, 0)->ebc_batch;
  out->head = ts_head_bytes(r.t->ebc, 0);
  out->copies = fl->packed.bytes + fl->arrived.bytes;
  pr_stop(&r);
}

/* Known beforehand: never a second message, from the first batch to the one
 * that says that the data has ended. */
TS_TESTS(known_sizes_need_no_second_message, 0, 5) {
  counted c;
  pr_sets sets = {0};
  pr_set(&sets, kinds[_i]);
  train(&c, one_deck, &sets, 0);
  const int64_t n = c.stat.n_inputs;
  ck_assert_int_eq(c.result.n, 8);
  ck_assert_all(n >= 8 && c.stat.n_input_rounds == n);
  const int64_t others = ts_mpi_size() - 1;
  ck_assert_all(c.wire.n_messages == n * others);
}

/* All shardings, many ids, distinct bags: too little room costs a message or
 * two and no bit of the result. */
TS_TESTS(unexpected_sizes_cost_a_message, 0, 5) {
  static counted expected, small;
  pr_sets sets = {0};
  pr_set(&sets, kinds[_i]);
  pr_set(&sets, "run.steps=12");
  train(&expected, NULL, &sets, 0);
  train(&small, NULL, &sets, 64);
  ck_assert_all(pr_same(&expected.result, &small.result));
  const int64_t more = small.stat.n_input_rounds - small.stat.n_inputs;
  const int64_t few = expected.stat.n_input_rounds - expected.stat.n_inputs;
  const bool many = ts_mpi_size() > 1;
  ck_assert_all(small.stat.n_inputs == expected.stat.n_inputs);
  ck_assert_all(many ? more >= 1 && more <= 4 : more == 0);
  ck_assert_all(few <= more && few <= 2);
}

/* All shardings: one rank has all rows, so that its ids stay where they are,
 * and no room is made for others. */
TS_TESTS(one_rank_sends_no_ids, 0, 5) {
  counted c;
  pr_sets sets = {0};
  pr_set(&sets, kinds[_i]);
  pr_set(&sets, "run.steps=12");
  train(&c, NULL, &sets, 0);
  ck_assert_int_gt(c.stat.n_ids, 0);
  if (ts_mpi_size() > 1) {
    ck_assert_all(c.stat.n_copied > 0 && c.stat.input_raw > 0);
    return;
  }
  ck_assert_int_eq(c.stat.n_copied, 0);
  ck_assert_int_eq(c.stat.input_raw, 0);
  ck_assert_int_le(c.stat.input_coded, c.stat.n_inputs * c.head);
  ck_assert_uint_eq(c.copies, 0);
}

/* A rank whose ids are no rows says so with its one message, or where the host
 * does not wait for the device, with the next one. */
TS_TESTS(an_error_needs_no_second_message, 0, 2) {
  pr_run r;
  pr_sets sets = {0};
  const ts_status *all;
  pr_set(&sets, _i ? "run.lanes=serial" : "run.lanes=parallel");
  pr_start(&r, one_deck, &sets);
  ts_inflight *c = ts_inflight_at(r.t, 0);
  const int told = ts_ebc_counts(r.t->ebc) ? 2 : 1;
  for (int k = 0; k < 3; k++) {
    const ts_comm_stat before = ts_comm_stat_of(r.t->ebc->input_comm);
    ts_stage_load(r.t, c, r.loader);
    const bool faulty = k == 1 && r.t->rank == 0;
    const ts_status own = {.n = c->batch->n, .weight_sum = c->batch->n};
    if (faulty) ((int64_t *)c->batch->kjt.features[0].ids)[0] = 300;
    ck_assert_ok(
        ts_ebc_input_begin(c->ebc_batch, &c->batch->kjt, &own, r.t->data));
    ck_assert_ok(ts_ebc_statuses(c->ebc_batch, &all));
    ts_err_clear();
    const ts_comm_stat after = ts_comm_stat_of(r.t->ebc->input_comm);
    ck_assert_all(all[0].err == (k == told ? TS_ERR_DATA : TS_OK));
    ck_assert_all(after.n_rounds == before.n_rounds + 1);
    ck_assert_ok(ts_lane_sync(r.t->data));
    if (k != told) ck_assert_ok(ts_ebc_input_end(c->ebc_batch, r.t->data));
    ck_assert_ok(ts_lane_sync(r.t->data));
    ts_inflight_empty(c, r.loader);
  }
  pr_stop(&r);
}
