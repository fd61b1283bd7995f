/* test_comm_device.c - the contract of collectives on memory that the host may
 * not touch, staged through pinned memory and by a library.
 * ranks: 1 3 4  emulated: 3 4
 * seconds: 400 */
#include "tests/support/comm_rig.h"
#include "runtime/comm_impl.h"

static const int variants[] = {0,
                               SERIAL,
                               ASKED,
                               WIRED,
                               WIRED | SERIAL,
                               WIRED | LIBRARY,
                               WIRED | ASKED,
                               NODES,
                               SUMS,
                               SUMS | SERIAL,
                               SUMS | NODES,
                               WIRED | NODES};
enum { N_VARIANTS = sizeof variants / sizeof *variants };

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

/* Element I of rank K, in T; where a library adds in its own order, such as
 * have the same sum in any. */
static void element(void *at, int k, int64_t i, ts_dtype t) {
  const int64_t n = (i * 7919 + k * 104729) % 1000 - 500;
  const bool any = r.variant & LIBRARY;
  const float f = any ? (float)n : 1.0f / (float)(i + 3 + 11 * k);
  const double d = any ? (double)n : 1.0 / (double)(i + 3 + 11 * k);
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
  ck_assert_ok(ts_reduce_ranks(want, all, r.size, n, n, t, how, false));
  ts_buffer b = put(all + r.rank * n * size, n * size);
  ck_assert_ok(ts_comm_all_reduce(r.comm, &token, b.ptr, n, t, how, r.lane));
  ck_assert_ok(ts_comm_end(&token, r.lane));
  ck_assert_all(has(&b, want, n * size));
  ts_buffer_reset(&b);
  ts_mem_free_all(all, want);
}

static void sums_are_in_rank_order(void) {
  static const int64_t sizes[] = {1, 7, 8192, 40000, 40001};
  for (int k = 0; k < 5; k++) reduce(sizes[k], TS_F32, TS_SUM);
  reduce(1000003, TS_F32, TS_SUM); /* from node to node */
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
    const ts_comm_stat before = ts_comm_stat_of(r.comm);
    ck_assert_ok(
        ts_comm_broadcast(r.comm, &token, b.ptr, sizeof text, root, r.lane));
    ck_assert_ok(ts_comm_end(&token, r.lane));
    ck_assert_ok(ts_lane_sync(r.lane));
    const ts_comm_stat stat = ts_comm_stat_of(r.comm);
    const int64_t others = r.rank == root && is_wired() ? r.size - 1 : 0;
    ck_assert_all(stat.n_ops == before.n_ops + 1);
    ck_assert_all(!is_wired() || stat.n_messages == before.n_messages + others);
    ck_assert_all(!is_wired() ||
                  stat.sent_bytes == before.sent_bytes + 3000 * others);
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
  ck_assert_all(ts_fake.n_groups > 0 || r.size == 1 || !is_wired() ||
                !is_fake());
  ts_lane_destroy(data);
  ts_comm_destroy(node);
  ts_comm_destroy(second);
}

static void worlds_say_what_they_use(void) {
  const char *want = r.variant & WIRED ? "fake" : "mpi through pinned memory";
  if (is_fake()) ck_assert_str_eq(ts_world_backend(r.world), want);
}

TS_TESTS_BETWEEN(rig_wire_start, ts_fake_wire_stop)

TS_TESTS(contract, 0, N_VARIANTS) {
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
