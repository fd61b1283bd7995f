/* test_by_node.c - large sums that go from node to node: the bits of a loop
 * over ranks, and what crosses to other nodes.  Two ranks act as a node.
 * ranks: 1 2 4 6  emulated: 4 6
 * seconds: 300 */
#include <string.h>

#include "base/mem.h"
#include "tests/support/harness.h"

typedef struct ts_rig {
  ts_device *device;
  ts_world *world;
  ts_comm *comm;
  ts_lane *lane;
  int me, w;
} ts_rig;

static void start(ts_rig *g, bool serial) {
  const ts_world_options o = {
      .ordered = true, .ranks_per_node = 2, .timeout_s = 250};
  ck_assert_ok(ts_test_device(&g->device, serial, 1));
  ck_assert_ok(ts_world_create(&g->world, g->device, &o));
  ck_assert_ok(ts_comm_create(g->world, &g->comm, TS_GROUP_WORLD, "sums"));
  ck_assert_ok(ts_lane_create(g->device, &g->lane, "compute", TS_LANE_COMPUTE));
  if (strcmp(ts_test_backend(), "host") != 0 && ts_mpi_size() > 1)
    ck_assert_str_eq(ts_world_backend(g->world), "nccl");
  g->me = ts_world_rank(g->world);
  g->w = ts_world_size(g->world);
}

static void stop(ts_rig *g) {
  ts_lane_destroy(g->lane);
  ts_comm_destroy(g->comm);
  ts_world_destroy(g->world);
  ts_device_destroy(g->device);
}

/* Element I of rank R: signs and sizes differ, so sums round. */
static double element(int64_t i, int r) {
  const double x = 1.0 / (double)(i + 3 + 11 * r);
  return (i + r) % 3 ? x : -1000 * x;
}

static void put(void *x, int64_t i, double v, ts_dtype t) {
  const float f = (float)v;
  if (t == TS_F32)
    ((float *)x)[i] = f;
  else if (t == TS_F64)
    ((double *)x)[i] = v;
  else if (t == TS_I64)
    ((int64_t *)x)[i] = (int64_t)(v * 1e9);
  else
    ts_from_f32((uint16_t *)x + i, &f, t, 1);
}

/* want[i] = want[i] and x[i] of the next rank. */
#define TAKE(type)                                                             \
  {                                                                            \
    type *a = want;                                                            \
    const type *b = x;                                                         \
    for (int64_t i = 0; i < n; i++)                                            \
      a[i] = how == TS_SUM ? a[i] + b[i] : b[i] > a[i] ? b[i] : a[i];          \
  }
static void take(void *want, const void *x, int64_t n, ts_dtype t,
                 ts_reduction how) {
  if (t == TS_F32) TAKE(float)
  if (t == TS_F64) TAKE(double)
  if (t == TS_I64) TAKE(int64_t)
}

/* Sums N elements of T, checks them (but 16-bit floats); the bytes that this
 * rank has sent to other nodes. */
static int64_t sum(ts_rig *g, int64_t n, ts_dtype t, ts_reduction how) {
  const size_t bytes = (size_t)n * ts_dtype_bytes(t);
  void *x, *want;
  ts_token token;
  ck_assert_ok(ts_mem_alloc(&x, bytes, TS_TAG_MISC));
  ck_assert_ok(ts_mem_alloc(&want, bytes, TS_TAG_MISC));
  for (int64_t i = 0; i < n; i++) put(want, i, element(i, 0), t);
  for (int r = 1; r < g->w; r++) {
    for (int64_t i = 0; i < n; i++) put(x, i, element(i, r), t);
    take(want, x, n, t, how);
  }
  for (int64_t i = 0; i < n; i++) put(x, i, element(i, g->me), t);
  const int64_t before = ts_comm_stat_of(g->comm).cross_bytes;
  void *at = ts_test_lend(g->device, x, bytes, true);
  ck_assert_ok(ts_comm_all_reduce(g->comm, &token, at, n, t, how, g->lane));
  ck_assert_ok(ts_comm_end(&token, g->lane));
  ck_assert_ok(ts_lane_sync(g->lane));
  ts_test_reclaim(g->device, x, at, bytes, true);
  if (t != TS_BF16) ck_assert_all(!memcmp(x, want, bytes));
  ts_mem_free(x);
  ts_mem_free(want);
  return ts_comm_stat_of(g->comm).cross_bytes - before;
}

/* To the node before and to that behind, each once, a slice of two. */
static int64_t by_node(const ts_rig *g, int64_t n, int64_t size) {
  const int node = g->me / 2, last = g->w / 2 - 1;
  const int64_t slice = n * (g->me % 2 + 1) / 2 - n * (g->me % 2) / 2;
  return ((node > 0) + (node < last)) * slice * size;
}

enum { N = 3000001 };

TS_TESTS(sums_by_node_are_in_rank_order, 0, 2) {
  ts_rig g;
  start(&g, _i);
  const bool nodes = g.w > 2;
  ck_assert_all(sum(&g, N, TS_F32, TS_SUM) == (nodes ? by_node(&g, N, 4) : 0));
  ck_assert_all(sum(&g, N, TS_F64, TS_SUM) == (nodes ? by_node(&g, N, 8) : 0));
  ck_assert_all(sum(&g, N, TS_I64, TS_SUM) == (nodes ? by_node(&g, N, 8) : 0));
  ck_assert_all(sum(&g, N, TS_F32, TS_MAX) == (nodes ? by_node(&g, N, 4) : 0));
  stop(&g);
}

/* Sums of 16-bit floats are rounded once, so all parts have to meet: 2 n bytes
 * times the share of ranks elsewhere, both ways; the way of small sums, too. */
TS_TEST(the_rest_is_exchanged) {
  ts_rig g;
  enum { EVEN = 12 * 250000, SMALL = 12 * 2000 };
  start(&g, false);
  const int64_t elsewhere = g.w > 2 ? g.w - 2 : 0;
  ck_assert_all(sum(&g, EVEN, TS_BF16, TS_SUM) ==
                2 * 2 * EVEN / g.w * elsewhere);
  ck_assert_all(sum(&g, SMALL, TS_F32, TS_SUM) ==
                2 * 4 * SMALL / g.w * elsewhere);
  stop(&g);
}
