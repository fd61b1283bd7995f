/* test_comm_faults.c - what goes wrong with collectives on memory that the host
 * may not touch, and which waits are a lane's own.
 * ranks: 1 3 4
 * seconds: 400 */
#include <stdatomic.h>

#include "tests/support/comm_rig.h"
#include "tests/support/walk.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"

/* Variants of which what goes wrong is looked at. */
static const int broken[] = {0, ASKED, WIRED};
enum { N_BROKEN = sizeof broken / sizeof *broken };

static ts_err break_down(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  return ts_fail(TS_ERR_DATA, "on purpose");
}

TS_TESTS_BETWEEN(rig_wire_start, ts_fake_wire_stop)

TS_TESTS(a_failed_lane_fails_what_waits_for_it, 0, N_BROKEN) {
  rig_start(broken[_i], 300);
  ts_buffer b = put(NULL, 8);
  ts_token token = {{0}};
  ck_assert_ok(ts_lane_sync(r.lane));
  (void)ts_lane_submit(r.lane, "fail", break_down, NULL, 0);
  /* An operation that is launched ahead may have gone before it fails. */
  (void)ts_lane_sync(r.lane);
  ts_err_clear();
  (void)ts_comm_all_reduce(r.comm, &token, b.ptr, 2, TS_F32, TS_SUM, r.lane);
  ts_err_clear();
  const ts_err err = ts_event_sync(token.done);
  ts_err_clear();
  ck_assert_all(err == TS_ERR_DATA);
  ts_buffer_reset(&b);
  rig_stop();
}

static void expect_comm_error(ts_err err, const char *a, const char *b) {
  char message[512];
  strncpy(message, ts_err_message(), sizeof message - 1);
  message[sizeof message - 1] = 0;
  ts_err_clear();
  ck_assert_all(err == TS_ERR_COMM);
  ck_assert_msg(strstr(message, a) && strstr(message, b), "%s", message);
}

/* Who waits for an operation that never ends learns it by the deadline, as a
 * lane does that only waits. */
TS_TESTS(deadlines_name_the_operation, 0, N_BROKEN) {
  const int variant = broken[_i];
  if (ts_mpi_size() == 1) return;
  rig_start(variant, 1.5);
  ts_buffer b = put(NULL, 80000);
  ts_token token = {{0}};
  ts_err err = TS_OK;
  ck_assert_ok(ts_lane_sync(r.lane));
  ck_assert_all(true);
  ts_fake.hang = true;
  const bool hangs = is_wired() && is_fake();
  if (hangs || r.rank != 0)
    (void)ts_comm_all_reduce(r.comm, &token, b.ptr, 20000, TS_F32, TS_SUM,
                             r.lane);
  else
    err = ts_fail(TS_ERR_COMM, "all_reduce of \"test\""); /* the culprit */
  if (token.done.lane) {
    err = ts_comm_end(&token, r.lane);
    if (err == TS_OK) err = ts_lane_sync(r.lane);
  }
  expect_comm_error(err, "all_reduce", "\"test\"");
  ck_assert_all(ts_fake.n_aborts == hangs);
  ts_buffer_reset(&b);
  rig_stop();
}

/* An error that the library finds by itself ends the operation at once. */
TS_TESTS(errors_of_the_library, 0, N_BROKEN) {
  const int variant = broken[_i];
  if (ts_mpi_size() == 1 || !(variant & WIRED) || !is_fake()) return;
  rig_start(variant, 50);
  ts_buffer b = put(NULL, 80000);
  ts_token token = {{0}};
  ck_assert_ok(ts_lane_sync(r.lane));
  ck_assert_ok(ts_comm_barrier(r.comm));
  ts_fake.hang = true;
  ck_assert_ok(
      ts_comm_all_reduce(r.comm, &token, b.ptr, 20000, TS_F32, TS_SUM, r.lane));
  ts_fake.broken = true;
  expect_comm_error(ts_comm_wait(&token), "link", "down");
  ck_assert_all(ts_fake.n_aborts == 1);
  ts_buffer_reset(&b);
  rig_stop();
}

/* ---- setting up ---------------------------------------------------------- */

#ifdef TS_FAULTS
static ts_err set_up(void *variant) {
  ts_err err = rig_create(*(int *)variant, 50);
  if (err == TS_OK) err = ts_comm_reserve(r.comm, 1000);
  rig_destroy();
  return err;
}

TS_TESTS(nothing_stays_of_what_fails, 0, N_BROKEN) {
  int variant = broken[_i] | SERIAL;
  if (ts_mpi_size() > 1 || !is_fake()) return;
  walk(set_up, &variant, "alloc", 1 << TS_ERR_NOMEM);
  walk(set_up, &variant, "mpi", 1 << TS_ERR_COMM);
}
#endif

/* ---- checksums of messages ----------------------------------------------- */

#ifdef TS_FAULTS
enum { FLOATS = 2 << 20 }; /* a sum of so many goes by parts, or nodes */

typedef struct room {
  ts_buffer far;
  float one[FLOATS];
  char send[RANKS * 100], recv[RANKS * 100];
  int64_t bytes[RANKS], in[RANKS], at[RANKS], counts[RANKS];
  ts_exchange x;
  ts_rooms rooms;
} room;

/* One collective of each kind. */
static ts_err go(room *o, int kind, ts_token *token) {
  switch (kind) {
  case 0:
    return ts_comm_all_to_all_v(r.comm, token, o->recv, o->bytes, o->send,
                                o->bytes, NULL);
  case 1:
    return ts_comm_all_gather_v(r.comm, token, o->recv, o->send, o->bytes,
                                NULL);
  case 2:
    return ts_comm_all_reduce(r.comm, token, o->one, 3, TS_F32, TS_SUM, NULL);
  case 3:
    return ts_comm_all_reduce(r.comm, token, o->one, FLOATS, TS_F32, TS_SUM,
                              NULL);
  case 4:
    return ts_comm_broadcast(r.comm, token, o->one, 100, 0, NULL);
  case 5:
    return ts_comm_reduce_scatter_v(r.comm, token, o->recv, o->send, o->counts,
                                    TS_F32, NULL);
  case 6:
    return ts_comm_all_reduce(r.comm, token, o->far.ptr, 2, TS_F32, TS_SUM,
                              NULL);
  case 7:
    return ts_comm_exchange(r.comm, token, &o->x, NULL);
  default:
    o->x.rooms = &o->rooms;
    o->x.recv_at = o->at;
    return ts_comm_exchange(r.comm, token, &o->x, NULL);
  }
}

/* A bit of what comes to rank 1, in the first message of each kind, the second,
 * and the first where nodes sum: its sender is named; other ranks have what
 * they wait for. */
TS_TESTS(a_bit_of_a_message, 0, 3 * 9) {
  const int variant = _i / 9 == 2 ? SUMS | NODES : SUMS;
  static room o;
  ts_token token = {{0}};
  if (ts_mpi_size() == 1 || !is_fake()) return;
  /* Other ranks wait for the rest of sums that go by parts, and of pieces whose
   * sizes go first. */
  const bool parts = _i % 9 == 3 || _i % 9 >= 7;
  rig_start(variant, parts ? 1.5 : 50);
  memset(&o, 0, sizeof o);
  o.far = put(NULL, 8);
  ck_assert_ok(ts_rooms_create(&o.rooms, r.size));
  for (int k = 0; k < r.size; k++) o.bytes[k] = 100, o.counts[k] = 5;
  o.x = (ts_exchange){.send = o.send,
                      .send_bytes = o.bytes,
                      .recv = {.owned = true, .device = r.device},
                      .recv_bytes = o.in};
  ck_assert_ok(ts_lane_sync(r.lane));
  ck_assert_ok(ts_comm_barrier(r.comm));
  ck_assert_ok(ts_fault_set(
      _i / 9 == 1 ? "flip_message:1:2" : "flip_message:1:1", r.rank));
  ts_err err = go(&o, _i % 9, &token);
  if (err == TS_OK) err = ts_comm_wait(&token);
  ck_assert_ok(ts_fault_set(NULL, 0));
  /* A broadcast has one message. */
  const bool there = r.rank == 1 && !(_i / 9 == 1 && _i % 9 == 4);
  if (there)
    expect_comm_error(err, "came from rank", "not those that it sent");
  else
    ck_assert_all(err == TS_OK || (parts && err == TS_ERR_COMM));
  ts_err_clear();
  ts_rooms_reset(&o.rooms);
  ts_buffer_reset(&o.x.recv);
  ts_buffer_reset(&o.far);
  rig_stop();
}
#endif

/* ---- waits --------------------------------------------------------------- */

static atomic_bool open_gate;

static ts_err pass_gate(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  while (!open_gate) ts_pause(100);
  return TS_OK;
}

static void shut_gate(void) {
  open_gate = false;
  ck_assert_ok(ts_lane_submit(r.lane, "gate", pass_gate, NULL, 0));
}

/* Ends N operations, which are under way; waits of the lane for others of its
 * device.  AHEAD: the host comes back before the gate is opened. */
static int end_on_lane(ts_token *token, int n, bool ahead) {
  const int before = ts_fake.n_waits;
  open_gate = !ahead;
  for (int k = 0; k < n; k++) {
    const ts_event done = token[k].done;
    ck_assert_ok(ts_comm_end(&token[k], r.lane));
    ck_assert_all(!ahead || !ts_event_done(done));
  }
  open_gate = true;
  ck_assert_ok(ts_lane_sync(r.lane));
  return ts_fake.n_waits - before;
}

/* Lanes wait by themselves for what a library brings into the device's memory;
 * what comes through the host's has arrived when a task that follows runs. */
TS_TESTS(lanes_wait_for_what_the_device_has, 0, 2) {
  float one[3] = {1, 1, 1}, host = 1;
  int64_t bytes[RANKS] = {8, 8, 8, 8}, in[RANKS];
  char data[8 * RANKS] = {0};
  ts_token tokens[3];
  if (!is_fake()) return; /* whose lanes have tasks that wait */
  rig_start(_i ? WIRED : 0, 300);
  ts_exchange x = {.send = data,
                   .send_bytes = bytes,
                   .recv = {.owned = true, .device = r.device},
                   .recv_bytes = in};
  ts_buffer b = put(one, sizeof one);
  float *at = b.ptr;
  shut_gate();
  ck_assert_ok(
      ts_comm_all_reduce(r.comm, tokens, at, 1, TS_F32, TS_SUM, r.lane));
  ck_assert_all(end_on_lane(tokens, 1, _i) == _i);
  shut_gate(); /* several of one comm */
  for (int k = 0; k < 3; k++)
    ck_assert_ok(ts_comm_all_reduce(r.comm, &tokens[k], at + k, 1, TS_F32,
                                    TS_SUM, r.lane));
  ck_assert_all(end_on_lane(tokens, 3, _i) == 3 * _i);
  const float want[] = {(float)(r.size * r.size), (float)r.size, (float)r.size};
  ck_assert_all(has(&b, want, sizeof want));
  ck_assert_ok(ts_comm_exchange(r.comm, tokens, &x, r.lane));
  ck_assert_all(end_on_lane(tokens, 1, false) == 0);
  ck_assert_ok(
      ts_comm_all_reduce(r.comm, tokens, &host, 1, TS_F32, TS_SUM, r.lane));
  ck_assert_all(end_on_lane(tokens, 1, false) == 0);
  ck_assert_all(host == (float)r.size);
  ts_buffer_reset(&x.recv);
  ts_buffer_reset(&b);
  rig_stop();
}
