/* test_comm_plan.c - who sends what to whom, and which library carries it:
 * arithmetic, for all numbers of ranks. */
#include <stdio.h>
#include <string.h>

#include "tests/support/harness.h"
#include "runtime/comm_plan.h"

enum { W_MAX = 33, MOST_MAX = 64 };

static int64_t size_of(int from, int to) {
  return (from * 31 + to * 17) % 4 * 64;
}

static void fill(ts_wire_pieces *p, int me, int w) {
  static char recv[W_MAX * 256], send[W_MAX * 256];
  int64_t in[W_MAX], out[W_MAX];
  for (int k = 0; k < w; k++) {
    in[k] = size_of(k, me);
    out[k] = size_of(me, k);
  }
  ts_wire_all_to_all(p, recv, in, send, out, 1, w);
}

/* Both sides of every message are in the same round, with the same size;
 * nothing is sent twice, left out, or empty. */
static void check_plan(int w, int most) {
  static int64_t at[W_MAX][4][W_MAX];
  static int8_t sent[W_MAX][W_MAX], got[W_MAX][W_MAX]; /* round + 1 */
  ts_wire_message m[MOST_MAX];
  const int n_rounds = ts_wire_rounds(w, most);
  memset(sent, 0, sizeof sent);
  memset(got, 0, sizeof got);
  for (int me = 0; me < w; me++) {
    ts_wire_pieces p = {NULL, NULL, at[me][0], at[me][1], at[me][2], at[me][3]};
    fill(&p, me, w);
    for (int round = 0; round < n_rounds; round++) {
      const int n = ts_wire_plan(m, &p, me, w, round, most);
      ck_assert_int_le(n, most);
      for (int i = 0; i < n; i++) {
        const int other = m[i].rank;
        int8_t *seen = m[i].send ? &sent[me][other] : &got[other][me];
        ck_assert_int_eq(*seen, 0);
        *seen = (int8_t)(round + 1);
        ck_assert_int_eq(m[i].bytes,
                         m[i].send ? size_of(me, other) : size_of(other, me));
        const char *base = m[i].send ? p.send : p.recv;
        const int64_t start = m[i].send ? p.send_at[other] : p.recv_at[other];
        ck_assert_ptr_eq(m[i].at, base + start);
      }
    }
  }
  for (int i = 0; i < w; i++)
    for (int k = 0; k < w; k++) {
      ck_assert_int_eq(sent[i][k], got[i][k]);
      ck_assert_int_eq(sent[i][k] > 0, i != k && size_of(i, k) > 0);
    }
}

TS_TEST(both_sides_are_in_one_round) {
  static const int most[] = {2, 3, 4, 6, 16, MOST_MAX};
  for (int w = 1; w <= W_MAX; w++)
    for (int i = 0; i < 6; i++) check_plan(w, most[i]);
  ck_assert_int_eq(ts_wire_rounds(1, 2), 0);
  ck_assert_int_eq(ts_wire_rounds(5, 4), 2);
}

TS_TEST(gathers_send_one_piece_to_all) {
  static int64_t a[4][3];
  static const int64_t n[] = {5, 0, 7};
  ts_wire_pieces p = {NULL, NULL, a[0], a[1], a[2], a[3]};
  ts_wire_message m[4];
  static char recv[100], own[100];
  ts_wire_all_gather(&p, recv, own, n, 4, 2, 3);
  ck_assert_int_eq(ts_wire_plan(m, &p, 2, 3, 0, 4), 3);
  ck_assert(m[0].send && m[0].rank == 0 && m[0].at == own && m[0].bytes == 28);
  ck_assert(m[1].send && m[1].rank == 1 && m[1].at == own);
  ck_assert(!m[2].send && m[2].rank == 0 && m[2].at == recv &&
            m[2].bytes == 20);
  /* Who has nothing sends nothing. */
  ts_wire_all_gather(&p, recv, own, n, 4, 1, 3);
  ck_assert_int_eq(ts_wire_plan(m, &p, 1, 3, 0, 4), 2);
  ck_assert(!m[0].send && !m[1].send);
  ck_assert(!ts_wire_equal(n, 3) && ts_wire_equal(n, 1));
  ck_assert(!ts_wire_equal((const int64_t[]){4, 3, 4}, 2));
  ck_assert(!ts_wire_equal(n + 1, 1)); /* none at all */
}

TS_TEST(slices_are_whole) {
  for (int64_t n = 0; n < 50; n++)
    for (int w = 1; w < 9; w++) {
      ck_assert_int_eq(ts_slice_first(n, w, 0), 0);
      ck_assert_int_eq(ts_slice_first(n, w, w), n);
      for (int k = 0; k < w; k++)
        ck_assert_int_le(ts_slice_first(n, w, k), ts_slice_first(n, w, k + 1));
    }
}

static ts_op_extent extent(ts_op_kind kind, int me) {
  static const int64_t send[] = {1, 2, 3}, recv[] = {4, 5, 6};
  const ts_op_shape s = {.kind = kind,
                         .me = me,
                         .w = 3,
                         .send_counts = send,
                         .recv_counts = recv,
                         .n = 10,
                         .dtype = TS_F32,
                         .root = 1};
  return ts_op_extent_of(&s);
}

TS_TEST(extents) {
  ts_op_extent e = extent(TS_OP_ALL_TO_ALL, 1);
  ck_assert(e.send == 6 && e.recv == 15 && !e.reads && e.writes);
  e = extent(TS_OP_ALL_REDUCE, 1);
  ck_assert(e.send == 0 && e.recv == 40 && e.reads && e.writes);
  e = extent(TS_OP_REDUCE_SCATTER, 1);
  ck_assert(e.send == 24 && e.recv == 8 && !e.reads && e.writes);
  e = extent(TS_OP_ALL_GATHER, 2);
  ck_assert(e.send == 6 && e.recv == 15 && !e.reads && e.writes);
  e = extent(TS_OP_BROADCAST, 1);
  ck_assert(e.recv == 10 && e.reads && !e.writes);
  e = extent(TS_OP_BROADCAST, 0);
  ck_assert(e.recv == 10 && !e.reads && e.writes);
  e = extent(TS_OP_EXCHANGE_ROOMS, 0);
  ck_assert(e.send == 6);
}

typedef struct choice {
  ts_comm_backend wanted;
  const char *name;
  bool remote, shared;
  int w;
  const char *message; /* of a DECK error, or */
  bool wired;
} choice;

TS_TEST(the_choice) {
  static const choice all[] = {
      {TS_COMM_AUTO, NULL, false, false, 2, NULL, false},
      {TS_COMM_AUTO, "nccl", false, false, 2, NULL, false},
      {TS_COMM_AUTO, NULL, true, false, 2, NULL, false},
      {TS_COMM_AUTO, "nccl", true, false, 2, NULL, true},
      {TS_COMM_AUTO, "nccl", true, true, 4, NULL, false},
      {TS_COMM_AUTO, "nccl", true, false, 1, NULL, true},
      {TS_COMM_MPI, "nccl", true, false, 2, NULL, false},
      {TS_COMM_NCCL, "nccl", true, false, 4, NULL, true},
      {TS_COMM_NCCL, "nccl", true, false, 1, NULL, true},
      {TS_COMM_NCCL, "nccl", false, false, 2, "needs run.backend = \"cuda\"",
       false},
      {TS_COMM_NCCL, NULL, true, false, 2, "is not in this build", false},
      {TS_COMM_NCCL, "nccl", true, true, 4, "ranks 1 and 3 share one on node",
       false}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const choice *c = &all[i];
    ts_wire_place places[4] = {0};
    bool wired = true;
    for (int k = 0; k < 4; k++) {
      snprintf(places[k].host, sizeof places[k].host, "node");
      snprintf(places[k].device, sizeof places[k].device, "GPU %d",
               c->shared && k == 3 ? 1 : k);
    }
    const ts_err err =
        ts_wire_choose(&wired, c->wanted, c->name, c->remote, places, c->w);
    ck_assert_int_eq(err, c->message ? TS_ERR_DECK : TS_OK);
    if (c->message)
      ck_assert_msg(strstr(ts_err_message(), c->message) != NULL, "%s",
                    ts_err_message());
    else
      ck_assert_int_eq(wired, c->wired);
    ts_err_clear();
  }
  /* The first two ranks on one GPU. */
  ts_wire_place shared[2] = {{.host = "a"}, {.host = "a"}};
  bool together = true;
  ck_assert_ok(
      ts_wire_choose(&together, TS_COMM_AUTO, "nccl", true, shared, 2));
  ck_assert(!together);
  ck_assert_int_eq(
      ts_wire_choose(&together, TS_COMM_NCCL, "nccl", true, shared, 2),
      TS_ERR_DECK);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(), "ranks 0 and 1 share one on a"));
  ts_err_clear();
  /* The same GPU name on another host is another GPU. */
  ts_wire_place places[2] = {{.host = "a"}, {.host = "b"}};
  bool wired = false;
  ck_assert_ok(ts_wire_choose(&wired, TS_COMM_NCCL, "nccl", true, places, 2));
  ck_assert(wired);
  /* An old library on one of them; alone it does no harm. */
  places[1].disorder = 1;
  ck_assert_ok(ts_wire_choose(&wired, TS_COMM_AUTO, "nccl", true, places, 2));
  ck_assert(!wired);
  ck_assert_int_eq(
      ts_wire_choose(&wired, TS_COMM_NCCL, "nccl", true, places, 2),
      TS_ERR_DECK);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(), "rank 1 on b has an NCCL before 2.26"));
  ts_err_clear();
  ck_assert_ok(
      ts_wire_choose(&wired, TS_COMM_NCCL, "nccl", true, &places[1], 1));
  ck_assert(wired);
}
