/* test_planner_memory.c - memory of plans, by hand: tables and their states,
 * tiers, what batches take, on the host and on a discrete device.
 * ranks: 1 */
#include "tests/shard/planner_setting.h"
#include "shard/unpack.h"

static char sgd[] = "sgd", adam[] = "adam";

static ts_plan_memory memory_of(ts_setting *x, ts_shard_kind kind, ts_shard s) {
  ts_cost c;
  ts_plan_memory m;
  ck_assert_ok(ts_cost_create(&c, &x->request));
  ts_storage_shard(&m, &c, 0, kind, &s);
  ts_cost_reset(&c);
  return m;
}

TS_TEST(storage_by_hand) {
  static char partial[] = "partial_rowwise_adam";
  const struct {
    char *kind;
    double per_row; /* of 16 columns out of 64 */
  } cases[] = {{sgd, 0}, {adam, 2 * 4 * 16}, {rowwise, 4}, {partial, 4 * 17}};
  ts_setting x;
  setting(&x, 1, 4, 2);
  know_ids(&x, 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    x.tables[0].optimizer.kind = cases[i].kind;
    x.tables[0].dtype = i % 2 ? TS_BF16 : TS_F32;
    const ts_plan_memory m =
        memory_of(&x, TS_SHARD_COLUMN_WISE, (ts_shard){1, 0, 10000, 16, 16});
    ck_assert_double_eq(m.weights, 10000.0 * 16 * (i % 2 ? 2 : 4));
    ck_assert_double_eq(m.state, 10000.0 * cases[i].per_row);
  }
  settle(&x);
}

/* Both tiers: 10000 rows of 64 floats, 2000 lines (63 sets of 32), states of
 * adam that move or of row-wise Adagrad that stay, passes, files. */
TS_TEST(tiers_by_hand) {
  static char cached[] = "cached", host[] = "host", file[] = "file";
  ts_setting x;
  setting(&x, 1, 4, 0);
  know_ids(&x, 1);
  ts_table_config *t = &x.tables[0];
  const ts_shard s = {0, 0, 10000, 0, 64};
  const double lines = 63 * 32, n = 512;
  x.request.n_ebc_batches = 3;
  t->optimizer.kind = adam;
  const ts_plan_memory fast = memory_of(&x, TS_SHARD_TABLE_WISE, s);
  ck_assert(fast.slow == 0 && fast.disk == 0);
  t->kernel = cached;
  t->cache.tier = host;
  t->cache.load_factor = 0.2;
  for (int passes = 0; passes <= 12; passes += 4) {
    t->cache.passes = passes;
    const ts_plan_memory m = memory_of(&x, TS_SHARD_TABLE_WISE, s);
    ck_assert_double_eq(m.weights, lines * (256 + 20) + 4 * 313);
    ck_assert_double_eq(m.state, lines * 512);
    ck_assert_double_eq(m.slow, 10000.0 * 768);
    ck_assert_double_eq(m.disk, 0);
    const double slots = 1.25 * 4 * n * (3 + 1);
    const double scratch = passes ? 6 * 4 * n / passes : 0;
    ck_assert_double_eq_tol(m.buffers - fast.buffers, slots + scratch, 1);
  }
  t->cache.tier = file;
  t->optimizer.kind = rowwise;
  const ts_plan_memory m = memory_of(&x, TS_SHARD_TABLE_WISE, s);
  ck_assert_double_eq(m.state, 10000.0 * 4);
  ck_assert_double_eq(m.slow, 0);
  ck_assert_double_eq(m.disk, 10000.0 * 256);
  t->kernel = host;
  ck_assert_double_eq(memory_of(&x, TS_SHARD_TABLE_WISE, s).weights, 0);
  settle(&x);
}

/* table_wise, 4 ranks of 128 samples, one id a bag, dim 64; with weights, which
 * are sent and kept beside the ids. */
TS_TESTS(buffers_by_hand, 0, 2) {
  ts_setting x;
  setting(&x, 1, 4, 0);
  x.tables[0].weighted = _i;
  know_ids(&x, 1);
  const double n = 512, bags = 512, weight = _i ? 4 : 0;
  const double scratch = /* of one more */
      1.25 * (n * (16 + weight) + bags * 12) + 28 + weight;
  const double input = /* and starts */
      1.25 * (bags * 16 + n * (4 + weight)) + 20 + weight + 16;
  const double matrices = 4 * bags * 64;
  for (int ebc_batches = 1; ebc_batches <= 3; ebc_batches++) {
    x.request.n_ebc_batches = ebc_batches;
    const ts_plan_memory m =
        memory_of(&x, TS_SHARD_TABLE_WISE, (ts_shard){0, 0, 10000, 0, 64});
    ck_assert_double_eq_tol(
        m.buffers,
        scratch + ebc_batches * (input + matrices + 1.25 * n * (2 + weight)) +
            48 * 4,
        1e-6);
  }
  settle(&x);
}

/* NCCL's: one for ids, those of the dense parameters; there, back and within a
 * node. */
TS_TEST(communicators_by_hand) {
  static const struct {
    ts_shard_kind kind;
    int n;
  } all[] = {{TS_SHARD_TABLE_WISE, 2},   {TS_SHARD_ROW_WISE, 2},
             {TS_SHARD_COLUMN_WISE, 2},  {TS_SHARD_TABLE_ROW_WISE, 3},
             {TS_SHARD_GRID, 3},         {TS_SHARD_TABLE_COLUMN_WISE, 2},
             {TS_SHARD_DATA_PARALLEL, 1}};
  ts_setting x;
  ts_cost c;
  ts_load l;
  setting(&x, 1, 8, 4);
  know_ids(&x, 1);
  x.request.comm_bytes = 1000;
  x.request.dense = (ts_plan_dense){.bucket_bytes = 7, .n_comms = 2};
  ck_assert_ok(ts_cost_create(&c, &x.request));
  ts_cost_always(&l, &c);
  ck_assert_double_eq(l.memory.buffers, 3007);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    ts_cost_kind(&l, &c, all[i].kind);
    ck_assert_double_eq(l.memory.buffers, 1000 * all[i].n);
  }
  ts_cost_reset(&c);
  settle(&x);
}

/* 4 MB of gradients on 4 nodes of 2 or 2 nodes of 4: from node to node half or
 * a quarter of them leaves each way, and 1/2 or 3/4 stays in the node; else 6/8
 * or 4/8 leave, and 1/8 or 3/8 stay. */
TS_TEST(dense_sums_by_hand) {
  for (int i = 0; i < 8; i++) {
    const int per = i & 1 ? 4 : 2;
    const bool large = i & 2, slow = i & 4;
    const double node = large ? per - 1. : (per - 1) * per / 8.;
    const double cross = large ? 1 : (8 - per) * per / 8.;
    ts_setting x;
    ts_cost c;
    ts_load l;
    setting(&x, 1, 8, per);
    know_ids(&x, 1);
    x.request.dense = (ts_plan_dense){.reduce_bytes = 4e6 * per,
                                      .sum_bytes = large ? 16e6 : 4e4};
    ck_assert_ok(ts_cost_create(&c, &x.request));
    for (int k = 0; k < TS_LINK_COUNT; k++)
      for (int to = 0; to < 2; to++)
        x.topology.link[to][k] = (ts_link){0, slow == to ? 2 : 1e12};
    ts_cost_always(&l, &c);
    ck_assert_double_eq_tol(l.sent.cross, 2 * 4e6 * cross, 1);
    ck_assert_double_eq_tol(l.sent.dense, 2 * 4e6 * (node + cross), 1);
    x.topology.call_us = 0;
    x.topology.dense_gflops = 1;
    ck_assert_double_eq_tol(ts_cost_dense_ms(&c), 2 * 2 * (slow ? cross : node),
                            1e-6);
    ts_cost_reset(&c);
    settle(&x);
  }
}

/* The same on a discrete device, of 4 senders: what comes lies there alone,
 * with lists of a part each, which the host has, too; of bags that are spread
 * there is a counter for each of 4 parts, and all know where they begin.  Each
 * batch has its ids sorted (keys, entries, runs, shares of bags), for which the
 * group's scratch is keys and entries once. */
TS_TEST(a_device_apart_by_hand) {
  ts_setting x;
  setting(&x, 1, 4, 0);
  know_ids(&x, 1);
  const ts_shard s = {0, 0, 10000, 0, 64};
  const double list = (4 + 512.0 / 1024) * (double)sizeof(ts_unpack_part);
  const double sorted = 1.25 * 512 * 16 + 16;
  const double scratch = 1.25 * 512 * 20 - 8;
  for (int ebc_batches = 1; ebc_batches <= 3; ebc_batches++) {
    x.request.n_ebc_batches = ebc_batches;
    x.request.discrete = false;
    const ts_plan_memory here = memory_of(&x, TS_SHARD_TABLE_WISE, s);
    x.request.discrete = true;
    const ts_plan_memory there = memory_of(&x, TS_SHARD_TABLE_WISE, s);
    ck_assert_double_eq(here.pinned, 0);
    ck_assert_double_eq_tol(there.pinned, ebc_batches * list, 1e-6);
    ck_assert_double_eq_tol(there.buffers - here.buffers,
                            ebc_batches * (2 * list + sorted) - scratch, 1e-6);
    ck_assert_double_eq_tol(ts_plan_memory_sum(&there) - there.buffers,
                            ts_plan_memory_sum(&here) - here.buffers, 1e-6);
  }
  settle(&x);
}

/* data_parallel, 2 ranks of 128 samples: each has sums of rows, as many
 * as ids at most, and applies everyone's. */
TS_TEST(replicas_by_hand) {
  ts_setting x;
  setting(&x, 1, 2, 0);
  know_ids(&x, 1);
  const double room = 1.25 * 128, rows = room, all = 2 * rows;
  const double scratch =
      (16 + 12) * (all + 1) + room * 4 * (64 + 1) + 4 * rows * (64 + 1) + 4;
  const double ebc_batch =
      (16 + 4) * (room + 1) + 16 + 4 * 128 * 64 + 2 * 2 * rows * 4 * (64 + 1);
  const ts_plan_memory m =
      memory_of(&x, TS_SHARD_DATA_PARALLEL, (ts_shard){0, 0, 10000, 0, 64});
  ck_assert_double_eq_tol(m.buffers,
                          scratch + x.request.n_ebc_batches * ebc_batch, 1e-6);
  settle(&x);
}

/* One rank of 128 samples: no messages, here or there; a discrete device has
 * the list of what stays, and sorted ids in each batch. */
TS_TEST(one_rank_by_hand) {
  ts_setting x;
  setting(&x, 1, 1, 0);
  know_ids(&x, 1);
  const ts_shard s = {0, 0, 10000, 0, 64};
  const double n = 128, list = (1 + n / 1024) * (double)sizeof(ts_unpack_part);
  const double scratch = 1.25 * n * (16 + 12) + 28;
  const double input = (16 + 4) * (1.25 * n + 1) + 16;
  for (int kind = 0; kind < 2; kind++) {
    const ts_shard_kind k = kind ? TS_SHARD_ROW_WISE : TS_SHARD_TABLE_WISE;
    x.request.n_ebc_batches = 2;
    x.request.discrete = false;
    const ts_plan_memory here = memory_of(&x, k, s);
    x.request.discrete = true;
    const ts_plan_memory there = memory_of(&x, k, s);
    ck_assert_double_eq_tol(here.buffers, scratch + 2 * (input + 4 * n * 64),
                            1e-6);
    ck_assert_double_eq(here.pinned, 0);
    ck_assert_double_eq_tol(there.pinned, 2 * list, 1e-6);
    ck_assert_double_eq_tol(
        there.buffers - here.buffers,
        4 * list + 2 * (1.25 * n * 16 + 16) - (1.25 * n * 20 - 8), 1e-6);
  }
  settle(&x);
}

static ts_plan_memory everywhere_of(ts_setting *x, const ts_table_plan *p) {
  ts_cost c;
  ts_plan_memory m;
  ck_assert_ok(ts_cost_create(&c, &x->request));
  ts_storage_everywhere(&m, &c, 0, p);
  ts_cost_reset(&c);
  return m;
}

/* 128 own samples of one id: row_wise in 4 parts, to each of which lengths go;
 * table_wise, in one. */
TS_TESTS(batches_apart_by_hand, 0, 2) {
  const int n = _i ? 1 : 4;
  ts_setting x;
  ts_shard s[4];
  for (int k = 0; k < n; k++)
    s[k] = (ts_shard){k, 10000 / n * k, 10000 / n, 0, 64};
  const ts_table_plan plan = {.kind = n > 1 ? TS_SHARD_ROW_WISE
                                            : TS_SHARD_TABLE_WISE,
                              .shards = s,
                              .n_shards = n};
  setting(&x, 1, 4, 0);
  know_ids(&x, 1);
  x.request.n_ebc_batches = 2;
  const ts_plan_memory here = everywhere_of(&x, &plan);
  x.request.discrete = true;
  const ts_plan_memory there = everywhere_of(&x, &plan);
  const double lengths = n > 1 ? 128 : 0;
  const double sent = 1.25 * (128 * 2 + n * lengths);
  const double routes = 56 * n + 48 + 2 * 12 * 4;
  ck_assert_double_eq_tol(
      here.buffers, routes + 2 * (4 * 128 * 64 + sent + 4 * lengths), 1e-6);
  ck_assert_double_eq(there.pinned, 0);
  ck_assert_double_eq_tol(there.buffers - here.buffers,
                          2 * (8 * 128 + 4 * lengths * n), 1e-6);
  settle(&x);
}
