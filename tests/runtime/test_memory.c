/* test_memory.c - in steady state no step allocates: every pipeline, with all
 * shardings, distinct bags, codecs, clipping, lanes parallel and serial.
 * Metrics, whose window fills up, are left out.  What batches under way need
 * was predicted: no buffer grows, from the first step on.
 * ranks: 1 3 4
 * seconds: 400 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/batch_store.h"
#include "tests/train/pipe_run.h"
#include "train/planning.h"

static const char *const kinds[] = {
    "pipeline.kind=base", "pipeline.kind=sparse_dist",
    "pipeline.kind=fused_sparse_dist", "pipeline.kind=semi_sync",
    "pipeline.kind=prefetch"};
enum { N_KINDS = sizeof kinds / sizeof *kinds, FROM = 3, TO = 20 };

static const char *const ways[][2] = {
    {"run.lanes=parallel", "data.input=kjt"},
    {"run.lanes=serial", "optimizer.clip_norm=0.01"},
    {"sharding.comm_dtype_forward=bf16", "data.input=columns"}};
enum { N_WAYS = sizeof ways / sizeof *ways };

static int64_t allocations(void) {
  int64_t n = 0;
  for (int k = 0; k < TS_TAG_COUNT; k++)
    if (k != TS_TAG_METRICS) n += ts_mem_n_allocs((ts_tag)k);
  return n;
}

static int64_t grown(void) {
  int64_t n = 0;
  for (int k = 0; k < TS_TAG_COUNT; k++)
    n += ts_mem_flight_of((ts_tag)k).n_grown;
  return n;
}

static void tell(int64_t step, const int64_t *before) {
  for (int k = 0; k < TS_TAG_COUNT; k++)
    if (ts_mem_n_allocs((ts_tag)k) > before[k] && k != TS_TAG_METRICS)
      fprintf(stderr, "rank %d, step %lld: %lld blocks of %s\n", ts_mpi_rank(),
              (long long)step,
              (long long)(ts_mem_n_allocs((ts_tag)k) - before[k]),
              ts_tag_text((ts_tag)k));
}

TS_TESTS_BETWEEN(NULL, pr_close_data)

TS_TESTS(no_step_allocates, 0, N_KINDS *N_WAYS) {
  pr_run r;
  pr_sets sets = {0};
  int64_t in_steps = 0;
  pr_set(&sets, kinds[_i / N_WAYS]);
  pr_set(&sets, ways[_i % N_WAYS][0]);
  pr_set(&sets, ways[_i % N_WAYS][1]);
  pr_set(&sets, "run.steps=25");
  pr_set(&sets, "data.synthetic.samples=98"); /* batches of 96 and of 2 */
  pr_set(&sets, "optimizer.in_backward=false");
  if (_i / N_WAYS == 3) pr_set(&sets, "pipeline.start_batch=0");
  const int64_t before_all = grown();
  pr_start(&r, NULL, &sets);
  for (int64_t step = 1; step <= TO; step++) {
    int64_t before[TS_TAG_COUNT];
    ts_step_result result = {0};
    for (int k = 0; k < TS_TAG_COUNT; k++)
      before[k] = ts_mem_n_allocs((ts_tag)k);
    const int64_t n = allocations();
    ck_assert_ok(ts_pipeline_step(r.t, r.loader, 0, &result));
    ck_assert(!result.end);
    r.t->step++;
    if (step < FROM) continue;
    in_steps += allocations() - n;
    tell(step, before);
  }
  ck_assert_all(in_steps == 0);
  ck_assert_all(grown() == before_all); /* the first steps, too */
  for (int k = 0; k < TS_TAG_COUNT; k++) {
    const ts_ebc_batch_mem m = ts_mem_flight_of((ts_tag)k);
    ck_assert_all(m.used.now_bytes <= m.held.now_bytes);
  }
  pr_stop(&r);
}

static double other_bytes(pr_run *r, int ring, int n_stores) {
  ts_plan_dense d;
  r->config->data.synthetic.ring = ring;
  r->t->n_stores = n_stores;
  ck_assert_ok(ts_planning_dense(&d, NULL, r->t, 32, r->t->planning->stats,
                                 r->t->n_ranks));
  return d.other_bytes;
}

static double input_bytes(void) {
  return (double)ts_mem_stat_of(TS_TAG_INPUT, TS_SPACE_HOST).now_bytes;
}

/* Memory of a batch of 32 samples before it is read. */
static double batch_bytes(const pr_run *r) {
  ts_batch_store *store;
  double pooling[32];
  for (int32_t f = 0; f < ts_feature_count(r->config); f++)
    pooling[f] = r->t->planning->stats[f].pooling;
  ck_assert_ok(ts_batch_store_create(&store, r->config, NULL));
  const double before = input_bytes();
  ck_assert_ok(ts_batch_store_expect(store, r->config, 32, pooling));
  const double bytes = input_bytes() - before;
  ts_batch_store_destroy(store);
  return bytes;
}

/* A ring of batches, or as many as are read ahead, at least; and no less than
 * their content: 4 numbers a sample, 20 ids, in kjt and columns (two tables are
 * weighted), lengths of the 6 features that have more than one id. */
TS_TEST(batches_by_hand) {
  pr_run r;
  pr_sets sets = {0};
  pr_start(&r, NULL, &sets);
  const double one = batch_bytes(&r), four = other_bytes(&r, 0, 0);
  ck_assert_double_gt(one, 32 * (16 + 2 * (20 * 8 + 3 * 4 + 6 * 4)));
  ck_assert_double_eq(other_bytes(&r, 4, 0), four);
  ck_assert_double_eq_tol(other_bytes(&r, 8, 0), four + 4 * one, 1e-6);
  ck_assert_double_eq_tol(other_bytes(&r, 0, 1), four - 3 * one, 1e-6);
  r.t->n_stores = 0;
  pr_stop(&r);
}

static ts_ebc_batch_mem in_flight(void) {
  return ts_mem_flight_of(TS_TAG_COMM);
}

/* A pool's buffers take from its arena; what does not fit is counted. */
TS_TEST(pools_count_what_grows) {
  ts_fixture f;
  ts_pool pool = {0};
  ts_buffer b[3], gone;
  ts_fixture_start(&f, true, 1);
  const ts_ebc_batch_mem before = in_flight();
  for (int i = 0; i < 3; i++) {
    b[i] = (ts_buffer){.space = TS_SPACE_PINNED,
                       .tag = TS_TAG_COMM,
                       .owned = true,
                       .device = f.device};
    ck_assert_ok(ts_pool_add(&pool, &b[i]));
    ck_assert_ok(ts_buffer_reserve(&b[i], 100 * (size_t)i));
    ck_assert_ok(ts_buffer_reserve(&b[i], 10));
    ck_assert_ptr_null(b[i].ptr);
  }
  gone = b[0];
  b[0] = ts_buffer_wrap(&gone, sizeof gone, TS_SPACE_HOST); /* left the pool */
  ck_assert_ok(ts_pool_start(&pool));
  ts_ebc_batch_mem now = in_flight();
  ck_assert_int_eq(now.planned.now_bytes - before.planned.now_bytes, 128 + 256);
  ck_assert_int_eq(now.used.now_bytes, before.used.now_bytes);
  const int64_t n = allocations();
  ck_assert_ok(ts_buffer_reserve(&b[1], 128));
  ck_assert_ok(ts_buffer_reserve(&b[2], 200));
  ck_assert_int_eq(allocations(), n);
  memset(b[1].ptr, 1, 128);
  memset(b[2].ptr, 2, 200);
  ck_assert_int_eq(((char *)b[1].ptr)[127], 1);
  ck_assert_int_eq(in_flight().used.now_bytes - before.used.now_bytes, 328);
  ck_assert_int_eq(in_flight().n_grown, before.n_grown);
  ck_assert_ok(ts_buffer_reserve(&b[1], 1000));
  now = in_flight();
  ck_assert_int_eq(now.n_grown - before.n_grown, 1);
  ck_assert_int_eq(now.grown_bytes - before.grown_bytes, 1250);
  ck_assert_int_eq(now.held.now_bytes - before.held.now_bytes, 384 + 1250);
  memset(b[1].ptr, 3, 1000);
  ck_assert_int_eq(((char *)b[2].ptr)[0], 2);
  for (int i = 0; i < 3; i++) ts_buffer_reset(&b[i]);
  ts_pool_reset(&pool);
  now = in_flight();
  ck_assert_int_eq(now.held.now_bytes, before.held.now_bytes);
  ck_assert_int_eq(now.used.now_bytes, before.used.now_bytes);
  ck_assert_int_eq(now.planned.now_bytes, before.planned.now_bytes);
  ts_fixture_stop(&f);
}
