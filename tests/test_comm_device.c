/* test_comm_device.c - the contract of collectives on memory that the host may
 * not touch, staged through pinned memory and by a library; a fake device
 * ends the program where the host does touch it.
 * ranks: 1 3 4
 * seconds: 400 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fake_device.h"
#include "harness.h"
#include "runtime/comm_impl.h"
#include "runtime/device_impl.h"

enum { RANKS = 4 };

/* Bits of a variant. */
enum { SERIAL = 1, WORDS = 2, ASKED = 4, WIRED = 8, LIBRARY = 16, NODES = 32 };
static const int variants[] = {0,
                               SERIAL,
                               WORDS,
                               ASKED,
                               WORDS | ASKED,
                               WIRED,
                               WIRED | SERIAL,
                               WIRED | WORDS,
                               WIRED | LIBRARY,
                               WIRED | WORDS | ASKED,
                               NODES,
                               WIRED | NODES | WORDS};
enum { N_VARIANTS = sizeof variants / sizeof *variants };
/* Of these what goes wrong is looked at, too. */
static const int broken[] = {0, WORDS | ASKED, WIRED | WORDS};
enum { N_BROKEN = sizeof broken / sizeof *broken };

typedef struct rig {
  ts_device *device;
  ts_world *world;
  ts_comm *comm;
  ts_lane *lane;
  int rank, size, variant;
} rig;

static rig r;

/* With TESSERA_BACKEND = cuda all of this is about a GPU, and its library where
 * each rank has one for itself. */
static bool is_fake(void) {
  return !strcmp(ts_test_backend(), "host");
}

static bool is_wired(void) {
  return strncmp(ts_world_backend(r.world), "mpi", 3) != 0;
}

static ts_err create_device(int variant) {
  ts_fake_options f = {.serial = variant & SERIAL,
                       .words = variant & WORDS,
                       .asked = variant & ASKED,
                       .slow_us = 300,
                       .timeout_s = 300};
  snprintf(f.id, sizeof f.id, "fake %d", ts_mpi_rank());
  return is_fake() ? ts_fake_create(&r.device, &f)
                   : ts_test_device(&r.device, variant & SERIAL, 1);
}

static void rig_start(int variant, double timeout_s) {
  const int per_node = (variant & NODES) && ts_mpi_size() % 2 == 0 ? 2 : 0;
  const ts_comm_backend wired = is_fake() ? TS_COMM_NCCL : TS_COMM_AUTO;
  const ts_world_options o = {.ordered = !(variant & LIBRARY),
                              .timeout_s = timeout_s,
                              .ranks_per_node = per_node,
                              .backend = variant & WIRED ? wired : TS_COMM_MPI,
                              .wire = is_fake() ? &ts_fake_wire : NULL};
  memset(&r, 0, sizeof r);
  r.variant = variant;
  ck_assert_ok(create_device(variant));
  ck_assert_ok(ts_world_create(&r.world, r.device, &o));
  ck_assert_ok(ts_comm_create(r.world, &r.comm, TS_GROUP_WORLD, "test"));
  ck_assert_ok(ts_lane_create(r.device, &r.lane, "compute", TS_LANE_COMPUTE));
  r.rank = ts_world_rank(r.world);
  r.size = ts_world_size(r.world);
}

static void rig_stop(void) {
  ts_lane_destroy(r.lane);
  ts_comm_destroy(r.comm);
  ts_world_destroy(r.world);
  ts_device_destroy(r.device);
  ck_assert_all(ts_fake_n_blocks() == 0);
  ck_assert_all(ts_fake.n_bad == 0);
}

/* BYTES of the device's memory, with what HOST has. */
static ts_buffer put(const void *host, int64_t bytes) {
  ts_buffer b;
  ck_assert_ok(ts_buffer_create(&b, r.device, (size_t)bytes, TS_SPACE_DEVICE,
                                TS_TAG_MISC));
  if (bytes && host)
    ck_assert_ok(ts_lane_copy(r.lane, b.ptr, host, (size_t)bytes));
  return b;
}

/* What B has, once LANE's work is done. */
static bool has(const ts_buffer *b, const void *want, int64_t bytes) {
  char *got;
  ck_assert_ok(ts_mem_alloc(&got, (size_t)bytes, TS_TAG_MISC));
  if (bytes) ck_assert_ok(ts_lane_copy(r.lane, got, b->ptr, (size_t)bytes));
  ck_assert_ok(ts_lane_sync(r.lane));
  const bool same = !bytes || !memcmp(got, want, (size_t)bytes);
  ts_mem_free(got);
  return same;
}

static char letter(int from, int to, int64_t i) {
  return (char)(1 + (37 * from + 11 * to + i) % 120);
}

static int64_t size_of(int from, int to, int round) {
  return (from * 7 + to * 3 + round) % 5 * 100 * (1 + round);
}

static void all_to_all_of_uneven_pieces(void) {
  char send[20000], want[20000];
  for (int round = 0; round < 4; round++) {
    int64_t out[RANKS], in[RANKS], n_out = 0, n_in = 0;
    for (int k = 0; k < r.size; k++) { /* some pieces are empty */
      out[k] = size_of(r.rank, k, round);
      in[k] = size_of(k, r.rank, round);
      for (int64_t i = 0; i < out[k]; i++) send[n_out++] = letter(r.rank, k, i);
      for (int64_t i = 0; i < in[k]; i++) want[n_in++] = letter(k, r.rank, i);
    }
    ts_buffer from = put(send, n_out), to = put(NULL, n_in);
    ts_token token;
    ck_assert_ok(ts_comm_all_to_all_v(r.comm, &token, to.ptr, in, from.ptr, out,
                                      r.lane));
    ck_assert_ok(ts_comm_end(&token, r.lane));
    ck_assert_all(has(&to, want, n_in));
    ts_buffer_reset(&from);
    ts_buffer_reset(&to);
  }
}

/* With MPI each rank's buffers may lie where they like. */
static void buffers_of_both_kinds(void) {
  char send[RANKS * 100], want[RANKS * 100], host[RANKS * 100];
  for (int k = 0; k < 4 && !is_wired(); k++) {
    int64_t n[RANKS], total = 0;
    const bool from_host = (k + r.rank) & 1, to_host = (k + r.rank) & 2;
    for (int i = 0; i < r.size; i++) {
      n[i] = 100;
      memset(send + total, letter(r.rank, i, k), 100);
      memset(want + total, letter(i, r.rank, k), 100);
      total += 100;
    }
    ts_buffer from = put(send, total), to = put(NULL, total);
    ts_token token;
    ck_assert_ok(ts_comm_all_to_all_v(r.comm, &token, to_host ? host : to.ptr,
                                      n, from_host ? send : from.ptr, n,
                                      r.lane));
    ck_assert_ok(ts_comm_end(&token, r.lane));
    ck_assert_ok(ts_lane_sync(r.lane));
    ck_assert_all(to_host ? !memcmp(host, want, (size_t)total)
                          : has(&to, want, total));
    ts_buffer_reset(&from);
    ts_buffer_reset(&to);
  }
}

static void exchange_rounds(ts_exchange *x, bool host_send) {
  char send[20000], got[20000];
  static int64_t out[RANKS];
  x->send_bytes = out;
  for (int round = 0; round < 6; round++) {
    int64_t n_out = 0, bad = 0;
    const int k = round < 5 ? round : 0; /* at last less than before */
    for (int to = 0; to < r.size; to++) {
      out[to] = size_of(r.rank, to, k);
      for (int64_t i = 0; i < out[to]; i++)
        send[n_out++] = letter(r.rank, to, i);
    }
    ts_buffer from = put(send, n_out);
    ts_token token;
    x->send = host_send ? send : from.ptr;
    ck_assert_ok(ts_comm_exchange(r.comm, &token, x, r.lane));
    ck_assert_ok(ts_comm_wait(&token));
    int64_t at = 0;
    for (int by = 0; by < r.size; by++) {
      const int64_t n = size_of(by, r.rank, k);
      bad += x->recv_bytes[by] != n;
      if (x->recv_at) at = x->recv_at[by];
      bad += x->rooms && at % 64 != 0;
      if (!bad && n) {
        ck_assert_ok(
            ts_lane_copy(r.lane, got, (char *)x->recv.ptr + at, (size_t)n));
        ck_assert_ok(ts_lane_sync(r.lane));
      }
      for (int64_t i = 0; !bad && i < n; i++)
        bad += got[i] != letter(by, r.rank, i);
      at += n;
    }
    ck_assert_all(bad == 0);
    ts_buffer_reset(&from);
  }
}

static void exchange_of_unknown_sizes(void) {
  int64_t in[RANKS], at[RANKS];
  for (int k = 0; k < 3; k++) {
    ts_rooms rooms = {0};
    ck_assert_ok(ts_rooms_create(&rooms, r.size));
    ts_exchange x = {
        .recv = {.space = TS_SPACE_DEVICE, .owned = true, .device = r.device},
        .recv_bytes = in,
        .recv_at = k ? at : NULL,
        .rooms = k ? &rooms : NULL};
    exchange_rounds(&x, k == 2);
    ck_assert_all(ts_comm_is_remote(r.comm, x.recv.ptr));
    ts_buffer_reset(&x.recv);
    ts_rooms_reset(&rooms);
  }
}

/* Element I of rank K, in T. */
static void element(void *at, int k, int64_t i, ts_dtype t) {
  const float f = 1.0f / (float)(i + 3 + 11 * k);
  const double d = 1.0 / (double)(i + 3 + 11 * k);
  const int64_t n = (i * 7919 + k * 104729) % 1000 - 500;
  if (t == TS_F32) memcpy(at, &f, sizeof f);
  if (t == TS_F64) memcpy(at, &d, sizeof d);
  if (t == TS_I64) memcpy(at, &n, sizeof n);
  if (t == TS_BF16) ts_from_f32(at, &f, TS_BF16, 1);
}

static void reduce(int64_t n, ts_dtype t, ts_reduction how) {
  const int64_t size = (int64_t)ts_dtype_bytes(t);
  char *all, *want;
  ts_token token;
  ck_assert_ok(ts_mem_array(&all, n * r.size, (size_t)size, TS_TAG_MISC));
  ck_assert_ok(ts_mem_array(&want, n, (size_t)size, TS_TAG_MISC));
  for (int k = 0; k < r.size; k++)
    for (int64_t i = 0; i < n; i++) element(all + (k * n + i) * size, k, i, t);
  ck_assert_ok(ts_reduce_ranks(want, all, r.size, n, n, t, how));
  ts_buffer b = put(all + r.rank * n * size, n * size);
  ck_assert_ok(ts_comm_all_reduce(r.comm, &token, b.ptr, n, t, how, r.lane));
  ck_assert_ok(ts_comm_end(&token, r.lane));
  ck_assert_all(has(&b, want, n * size));
  ts_buffer_reset(&b);
  ts_mem_free(all);
  ts_mem_free(want);
}

static void sums_are_in_rank_order(void) {
  static const int64_t sizes[] = {1, 7, 8192, 40000, 40001};
  for (int k = 0; k < 5; k++) reduce(sizes[k], TS_F32, TS_SUM);
  reduce(9000, TS_BF16, TS_SUM);
  reduce(9000, TS_F64, TS_SUM);
  reduce(100, TS_I64, TS_MAX);
  reduce(100, TS_F64, TS_MIN);
}

static void reduce_scatter_and_all_gather(void) {
  for (int equal = 0; equal < 2; equal++) {
    int64_t counts[RANKS], bytes[RANKS], total = 0, first = 0;
    for (int k = 0; k < r.size; k++) {
      /* One rank gets nothing. */
      counts[k] = equal ? 60 : k == 1 ? 0 : 50 + 10 * k;
      bytes[k] = 4 * counts[k];
      if (k < r.rank) first += counts[k];
      total += counts[k];
    }
    float send[1000], want[1000];
    for (int64_t i = 0; i < total; i++) {
      send[i] = (float)(i * (r.rank + 1));
      want[i] = (float)(i * r.size * (r.size + 1) / 2);
    }
    ts_buffer from = put(send, total * 4), own = put(NULL, bytes[r.rank]);
    ts_buffer all = put(NULL, total * 4), again = put(NULL, total * 4);
    ts_token token;
    ck_assert_ok(ts_comm_reduce_scatter_v(r.comm, &token, own.ptr, from.ptr,
                                          counts, TS_F32, r.lane));
    ck_assert_ok(ts_comm_end(&token, r.lane));
    ck_assert_ok(
        ts_comm_all_gather_v(r.comm, &token, all.ptr, own.ptr, bytes, r.lane));
    ck_assert_ok(ts_comm_end(&token, r.lane));
    char *mine = (char *)again.ptr + first * 4;
    if (counts[r.rank])
      ck_assert_ok(ts_lane_copy(r.lane, mine, own.ptr, (size_t)bytes[r.rank]));
    ck_assert_ok(
        ts_comm_all_gather_v(r.comm, &token, again.ptr, mine, bytes, r.lane));
    ck_assert_ok(ts_comm_end(&token, r.lane));
    ck_assert_all(has(&own, want + first, bytes[r.rank]));
    ck_assert_all(has(&all, want, total * 4));
    ck_assert_all(has(&again, want, total * 4));
    ts_buffer *used[] = {&from, &own, &all, &again};
    for (int i = 0; i < 4; i++) ts_buffer_reset(used[i]);
  }
}

/* The host's arrays go their way on the same comm. */
static void broadcasts_and_control(void) {
  for (int root = 0; root < r.size; root++) {
    char text[3000], want[3000];
    double sum = r.rank;
    memset(text, 'a' + r.rank, sizeof text);
    memset(want, 'a' + root, sizeof want);
    ts_buffer b = put(text, sizeof text);
    ts_token token;
    ck_assert_ok(
        ts_comm_broadcast(r.comm, &token, b.ptr, sizeof text, root, r.lane));
    ck_assert_ok(ts_comm_end(&token, r.lane));
    ck_assert_ok(ts_comm_sum_f64(r.comm, &sum, 1));
    ck_assert_all(sum == r.size * (r.size - 1) / 2);
    ck_assert_all(has(&b, want, sizeof want));
    ts_buffer_reset(&b);
  }
  ck_assert_all(ts_agree(r.comm, TS_OK) == TS_OK);
}

/* Operations wait for slow lanes, for events that are followed and for each
 * other over two comms, and all ranks launch them in one order. */
static void chains_over_lanes_and_comms(void) {
  enum { N = 20000 };
  static float x[N], y[N], want[N];
  ts_comm *second, *node;
  ts_lane *data;
  ck_assert_ok(ts_comm_create(r.world, &second, TS_GROUP_WORLD, "second"));
  ck_assert_ok(ts_comm_create(r.world, &node, TS_GROUP_NODE, "node"));
  ck_assert_ok(ts_lane_create(r.device, &data, "data", TS_LANE_DATA));
  /* From here on no rank has a round without messages, which it leaves out. */
  ts_fake.order = 0;
  ts_fake.n_groups = 0;
  for (int round = 0; round < 5; round++) {
    ts_token a, b, c;
    for (int i = 0; i < N; i++) {
      x[i] = (float)(i % 97 + r.rank);
      y[i] = (float)(i % 89);
      /* x is summed, y added by the lane, the sum summed by node. */
      want[i] = (float)(i % 97 * r.size + r.size * (r.size - 1) / 2);
    }
    ts_buffer from = put(NULL, sizeof x), other = put(NULL, sizeof y);
    ts_buffer to = put(NULL, sizeof x);
    ck_assert_ok(ts_lane_copy(data, from.ptr, x, sizeof x));
    ts_comm_follow(r.comm, ts_lane_record(data));
    ck_assert_ok(
        ts_comm_all_reduce(r.comm, &a, from.ptr, N, TS_F32, TS_SUM, r.lane));
    ck_assert_ok(ts_lane_copy(r.lane, other.ptr, y, sizeof y));
    ck_assert_ok(
        ts_comm_all_reduce(second, &b, other.ptr, N, TS_F32, TS_MAX, r.lane));
    /* The second comm's next waits for the first's. */
    const int n = ts_comm_size(node), me = ts_comm_rank(node);
    int64_t bytes[RANKS];
    for (int k = 0; k < n; k++) bytes[k] = N * 4 * (k + 1) / n - N * 4 * k / n;
    ck_assert_ok(ts_comm_all_gather_v(node, &c, to.ptr,
                                      (char *)from.ptr + N * 4 * me / n, bytes,
                                      ts_comm_lane(r.comm)));
    ck_assert_ok(ts_comm_end(&c, r.lane));
    ck_assert_all(has(&to, want, sizeof want));
    ck_assert_ok(ts_comm_end(&a, r.lane));
    ck_assert_ok(ts_comm_end(&b, data));
    ck_assert_ok(ts_lane_sync(data));
    ck_assert_all(has(&other, y, sizeof y));
    ts_buffer_reset(&from);
    ts_buffer_reset(&other);
    ts_buffer_reset(&to);
  }
  uint64_t orders[RANKS];
  ck_assert_ok(
      ts_comm_gather_all(r.comm, orders, &ts_fake.order, sizeof *orders));
  for (int k = 0; k < r.size; k++) ck_assert_uint_eq(orders[k], orders[0]);
  ck_assert_all(ts_fake.n_groups > 0 || !is_wired() || !is_fake());
  ts_lane_destroy(data);
  ts_comm_destroy(node);
  ts_comm_destroy(second);
}

static ts_err break_down(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  return ts_fail(TS_ERR_DATA, "on purpose");
}

START_TEST(a_failed_lane_fails_what_waits_for_it) {
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
END_TEST

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
START_TEST(deadlines_name_the_operation) {
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
END_TEST

/* What the library finds by itself ends the operation at once. */
START_TEST(errors_of_the_library) {
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
END_TEST

static void worlds_say_what_they_use(void) {
  const char *want =
      (r.variant & WIRED) && r.size > 1 ? "fake" : "mpi through pinned memory";
  if (is_fake()) ck_assert_str_eq(ts_world_backend(r.world), want);
}

START_TEST(contract) {
  rig_start(variants[_i], 300);
  worlds_say_what_they_use();
  all_to_all_of_uneven_pieces();
  buffers_of_both_kinds();
  exchange_of_unknown_sizes();
  sums_are_in_rank_order();
  reduce_scatter_and_all_gather();
  broadcasts_and_control();
  chains_over_lanes_and_comms();
  rig_stop();
}
END_TEST

static ts_err stand(void *arg, ts_lane *lane) {
  (void)arg, (void)lane;
  ts_pause(20000);
  return TS_OK;
}

/* Ends the operation of TOKEN, which is under way; waits of lanes for words. */
static int end_on_lane(ts_token *token) {
  const int before = ts_fake.n_words;
  ck_assert_ok(ts_comm_end(token, r.lane));
  ck_assert_ok(ts_lane_sync(r.lane));
  return ts_fake.n_words - before;
}

/* Lanes wait by themselves for what arrives in the device's memory; what the
 * host may read has arrived when a task that follows is submitted. */
START_TEST(words_are_for_the_devices_memory) {
  float one = 1, host = 1;
  int64_t bytes[RANKS] = {8, 8, 8, 8}, in[RANKS];
  char data[8 * RANKS] = {0};
  ts_token token;
  rig_start(_i ? WIRED | WORDS : WORDS, 300);
  const int words = is_fake();
  ts_exchange x = {.send = data,
                   .send_bytes = bytes,
                   .recv = {.owned = true, .device = r.device},
                   .recv_bytes = in};
  ts_buffer b = put(&one, 4);
  ck_assert_ok(ts_lane_submit(r.lane, "stand", stand, NULL, 0));
  ck_assert_ok(
      ts_comm_all_reduce(r.comm, &token, b.ptr, 1, TS_F32, TS_SUM, r.lane));
  ck_assert_all(end_on_lane(&token) == words);
  ck_assert_ok(ts_lane_submit(r.lane, "stand", stand, NULL, 0));
  ck_assert_ok(ts_comm_exchange(r.comm, &token, &x, r.lane));
  ck_assert_all(end_on_lane(&token) == 0);
  ck_assert_ok(ts_lane_submit(r.lane, "stand", stand, NULL, 0));
  ck_assert_ok(
      ts_comm_all_reduce(r.comm, &token, &host, 1, TS_F32, TS_SUM, r.lane));
  ck_assert_all(end_on_lane(&token) == 0);
  ck_assert_all(host == (float)r.size);
  ts_buffer_reset(&x.recv);
  ts_buffer_reset(&b);
  rig_stop();
}
END_TEST

static void wire_start(void) {
  ts_fake_wire_start(ts_mpi_size() % 2 == 0 ? 2 : 0);
}

static Suite *suite(void) {
  Suite *s = suite_create("comm on a device");
  TCase *t = tcase_create("contract");
  tcase_add_unchecked_fixture(t, wire_start, ts_fake_wire_stop);
  tcase_add_loop_test(t, contract, 0, N_VARIANTS);
  tcase_add_loop_test(t, a_failed_lane_fails_what_waits_for_it, 0, N_BROKEN);
  tcase_add_loop_test(t, deadlines_name_the_operation, 0, N_BROKEN);
  tcase_add_loop_test(t, errors_of_the_library, 0, N_BROKEN);
  tcase_add_loop_test(t, words_are_for_the_devices_memory, 0, 2);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
