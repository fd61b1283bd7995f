/* test_runtime.c - collectives beside lanes: one contract, with serial and
 * parallel lanes.  Lanes alone: test_device.c.  ranks: 1 2 4 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "tests/support/harness.h"
#include "tests/support/lane_tasks.h"
#include "runtime/topology.h"

static ts_fixture f;

static void stop(void) {
  ts_fixture_stop(&f);
  f = (ts_fixture){0};
}

TS_EACH_TEST_BETWEEN(NULL, stop)

/* ---- collectives --------------------------------------------------------- */

static float element(int from, int to, int i) {
  return (float)(from * 1000 + to * 100 + i % 97);
}

TS_TESTS(all_to_all_of_uneven_pieces, 0, 2) {
  ts_fixture_start(&f, _i, 1);
  const int w = f.size, me = f.rank;
  int64_t send_bytes[8], recv_bytes[8], n_send = 0, n_recv = 0;
  for (int r = 0; r < w; r++) { /* some pieces are empty */
    send_bytes[r] = 4 * (int64_t)((me * 7 + r * 3) % 5 * 100);
    recv_bytes[r] = 4 * (int64_t)((r * 7 + me * 3) % 5 * 100);
    n_send += send_bytes[r] / 4;
    n_recv += recv_bytes[r] / 4;
  }
  float *send, *recv;
  ck_assert_ok(ts_mem_many(send, n_send + 1, MISC));
  ck_assert_ok(ts_mem_many(recv, n_recv + 1, MISC));
  int64_t at = 0;
  for (int r = 0; r < w; r++)
    for (int i = 0; i < send_bytes[r] / 4; i++) send[at++] = element(me, r, i);
  ts_token token;
  ck_assert_ok(ts_comm_all_to_all_v(f.comm, &token, recv, recv_bytes, send,
                                    send_bytes, f.lane));
  ck_assert_ok(ts_comm_end(&token, f.lane));
  ck_assert_ok(ts_lane_sync(f.lane));
  at = 0;
  int bad = 0;
  for (int r = 0; r < w; r++)
    for (int i = 0; i < recv_bytes[r] / 4; i++)
      bad += recv[at++] != element(r, me, i);
  ck_assert_all(bad == 0);
  ts_mem_free_all(send, recv);
}

TS_TESTS(exchange_of_unknown_sizes, 0, 2) {
  ts_fixture_start(&f, _i, 1);
  int64_t send_bytes[8], recv_bytes[8];
  for (int round = 1; round < 5; round++) {
    char *send;
    int64_t total = 0, got = 0, want = 0;
    for (int r = 0; r < f.size; r++) {
      send_bytes[r] = (f.rank + r) % 3 * 1000 * round;
      want += (f.rank + r) % 3 * 1000 * round;
      total += send_bytes[r];
    }
    ck_assert_ok(ts_mem_alloc(&send, (size_t)total + 1, TS_TAG_MISC));
    memset(send, 'a' + f.rank, (size_t)total);
    ts_exchange x = {.send = send,
                     .send_bytes = send_bytes,
                     .recv_bytes = recv_bytes,
                     .recv = {.owned = true, .device = f.device}};
    ts_token token;
    ck_assert_ok(ts_comm_exchange(f.comm, &token, &x, f.lane));
    ck_assert_ok(ts_comm_wait(&token));
    int bad = 0;
    for (int r = 0; r < f.size; r++)
      for (int64_t i = 0; i < recv_bytes[r]; i++)
        bad += ((char *)x.recv.ptr)[got++] != 'a' + r;
    ck_assert_all(bad == 0 && got == want);
    ts_buffer_reset(&x.recv);
    ts_mem_free(send);
  }
}

/* Sums in rank order: the same bits as a loop over ranks. */
TS_TESTS(sums_are_in_rank_order, 0, 2) {
  ts_fixture_start(&f, _i, 1);
  const int64_t sizes[] = {1, 7, 5000, 40000};
  for (int k = 0; k < 4; k++) {
    const int64_t n = sizes[k];
    float *x, *want;
    ts_token token;
    ck_assert_ok(ts_mem_many(x, n, MISC));
    ck_assert_ok(ts_mem_many(want, n, MISC));
    for (int64_t i = 0; i < n; i++) {
      for (int r = 0; r < f.size; r++) {
        const float v = 1.0f / (float)(i + 3 + 11 * r);
        want[i] = r ? want[i] + v : v;
        if (r == f.rank) x[i] = v;
      }
    }
    ck_assert_ok(
        ts_comm_all_reduce(f.comm, &token, x, n, TS_F32, TS_SUM, f.lane));
    ck_assert_ok(ts_comm_wait(&token));
    ck_assert_all(memcmp(x, want, (size_t)n * 4) == 0);
    ts_mem_free_all(x, want);
  }
}

TS_TESTS(reduce_scatter_and_all_gather, 0, 2) {
  ts_fixture_start(&f, _i, 1);
  int64_t counts[8], bytes[8], total = 0, first = 0;
  for (int r = 0; r < f.size; r++) {
    counts[r] = r == 1 ? 0 : 50 + 10 * r; /* one rank gets nothing */
    bytes[r] = 4 * counts[r];
    if (r < f.rank) first += counts[r];
    total += counts[r];
  }
  float send[1000], own[1000], all[1000];
  for (int64_t i = 0; i < total; i++) {
    send[i] = (float)(i * (f.rank + 1));
    own[i] = all[i] = -1;
  }
  ts_token token;
  ck_assert_ok(ts_comm_reduce_scatter_v(f.comm, &token, own, send, counts,
                                        TS_F32, f.lane));
  ck_assert_ok(ts_comm_end(&token, f.lane));
  ck_assert_ok(ts_comm_all_gather_v(f.comm, &token, all, own, bytes, f.lane));
  ck_assert_ok(ts_comm_wait(&token));
  const int sum = f.size * (f.size + 1) / 2;
  int bad = 0;
  for (int64_t i = 0; i < counts[f.rank]; i++)
    bad += own[i] != (float)((first + i) * sum);
  for (int64_t i = 0; i < total; i++) bad += all[i] != (float)(i * sum);
  ck_assert_all(bad == 0);
}

/* Comms are independent: the second one's operation does not wait for the
 * first one's, which waits for a slow lane. */
TS_TESTS(two_comms_at_once, 0, 2) {
  ts_comm *second;
  ts_fixture_start(&f, _i, 1);
  ck_assert_ok(ts_comm_create(f.world, &second, TS_GROUP_WORLD, "second"));
  double a[3] = {1, 2, 3}, b = f.rank;
  int zero = 0;
  ts_token first_token, second_token;
  atomic_store(&n_done, 0);
  ck_assert_ok(ts_lane_submit(f.lane, "slow", slow_append, &zero, 4));
  ck_assert_ok(
      ts_comm_all_reduce(f.comm, &first_token, a, 3, TS_F64, TS_SUM, f.lane));
  ck_assert_ok(
      ts_comm_all_reduce(second, &second_token, &b, 1, TS_F64, TS_MAX, NULL));
  ck_assert_ok(ts_comm_wait(&second_token));
  ck_assert_ok(ts_comm_wait(&first_token));
  ck_assert_all(a[2] == 3.0 * f.size && b == f.size - 1);
  ts_comm_destroy(second);
}

TS_TESTS(one_ranks_error_is_everyones, 0, 2) {
  ts_fixture_start(&f, _i, 1);
  const int bad = f.size - 1;
  ck_assert_all(ts_agree(f.comm, TS_OK) == TS_OK);
  ts_err err = TS_OK;
  if (f.rank == bad) err = ts_fail(TS_ERR_CKPT, "disk %d is full", bad);
  err = ts_agree(f.comm, err);
  ck_assert_all(err == TS_ERR_CKPT &&
                strstr(ts_err_message(), "is full") != NULL);
  ts_err_clear();
}

TS_TESTS(a_failed_lane_fails_what_waits_for_it, 0, 2) {
  double x = 1;
  ts_token token = {{0}};
  ts_fixture_start(&f, _i, 1);
  (void)ts_lane_submit(f.lane, "fail", break_down, NULL, 0);
  ts_err_clear();
  (void)ts_comm_all_reduce(f.comm, &token, &x, 1, TS_F64, TS_SUM, f.lane);
  ts_err_clear();
  ck_assert_all(ts_event_sync(token.done) == TS_ERR_DATA);
  ts_err_clear();
}

/* ---- comm.delay ---------------------------------------------------------- */

enum { DELAY_MS = 10, N_SLOW = 40000, N_COLLECTIVES = 7, RANKS_MAX = 4 };

/* Collective number WHICH on BUFS of N_SLOW floats a rank; returns the bytes
 * that this rank sends, with one rank those that it keeps. */
static int64_t one_collective(ts_comm *c, ts_token *token, int which,
                              float *recv, float *send, ts_exchange *x) {
  const int w = ts_comm_size(c), others = w > 1 ? w - 1 : 1;
  const int64_t bytes = N_SLOW * 4, part = bytes / w;
  int64_t whole[RANKS_MAX], parts[RANKS_MAX], counts[RANKS_MAX];
  for (int r = 0; r < w; r++) {
    whole[r] = bytes;
    parts[r] = x->recv_bytes[r] = part;
    counts[r] = N_SLOW / w;
  }
  memcpy((void *)x->send_bytes, parts, (size_t)w * 8);
  switch (which) {
  case 0:
    ck_assert_ok(
        ts_comm_all_to_all_v(c, token, recv, parts, send, parts, NULL));
    return part * others;
  case 1:
    ck_assert_ok(ts_comm_exchange(c, token, x, NULL));
    return part * others;
  case 2:
    ck_assert_ok(
        ts_comm_all_reduce(c, token, send, 1000, TS_F32, TS_SUM, NULL));
    return 4000 * others;
  case 3:
    ck_assert_ok(
        ts_comm_all_reduce(c, token, send, N_SLOW, TS_F32, TS_SUM, NULL));
    return part * others;
  case 4:
    ck_assert_ok(
        ts_comm_reduce_scatter_v(c, token, recv, send, counts, TS_F32, NULL));
    return part * others;
  case 5:
    ck_assert_ok(ts_comm_all_gather_v(c, token, recv, send, whole, NULL));
    return bytes * others;
  default:
    ck_assert_ok(ts_comm_broadcast(c, token, send, bytes, 0, NULL));
    return ts_comm_rank(c) == 0 ? bytes * others : 0;
  }
}

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* No collective ends before latency and bandwidth say, with one rank as with
 * several, and the time is slept. */
TS_TESTS(delays_hold_and_sleep, 0, 2) {
  static float recv[N_SLOW * RANKS_MAX], send[N_SLOW];
  int64_t send_bytes[RANKS_MAX], recv_bytes[RANKS_MAX];
  const double rate = 10e6; /* bytes per second */
  const ts_device_options d = {.serial = _i, .n_threads = 1};
  const ts_world_options o = {.ordered = true,
                              .timeout_s = 100,
                              .delay_us = DELAY_MS * 1000,
                              .delay_gbytes_per_s = rate / 1e9};
  ts_device *device;
  ts_world *world;
  ts_comm *c;
  double wall = 0, cpu = 0;
  bool held = true;
  ck_assert_ok(ts_device_create(&device, "host", &d));
  ck_assert_ok(ts_world_create(&world, device, &o));
  ck_assert_ok(ts_comm_create(world, &c, TS_GROUP_WORLD, "slow"));
  ts_exchange x = {.send = send,
                   .send_bytes = send_bytes,
                   .recv = {.owned = true, .device = device},
                   .recv_bytes = recv_bytes};
  for (int i = 0; i < N_COLLECTIVES; i++) {
    ts_token token;
    ck_assert_ok(ts_comm_barrier(c));
    const double t0 = seconds_of(CLOCK_MONOTONIC);
    const double c0 = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const int64_t bytes = one_collective(c, &token, i, recv, send, &x);
    ck_assert_ok(ts_comm_wait(&token));
    const double took = seconds_of(CLOCK_MONOTONIC) - t0;
    held &= took >= 1e-3 * DELAY_MS + (double)bytes / rate;
    wall += took;
    cpu += seconds_of(CLOCK_PROCESS_CPUTIME_ID) - c0;
  }
  ck_assert_all(held);
  ck_assert_all(cpu < 0.25 * wall);
  ts_buffer_reset(&x.recv);
  ts_comm_destroy(c);
  ts_world_destroy(world);
  ts_device_destroy(device);
}
