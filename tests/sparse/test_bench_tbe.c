/* test_bench_tbe.c - `tessera bench tbe` on a device: the bytes that it
 * counts, and that its core runs where the host may not touch memory.
 * ranks: 1  fake: 1 */
#include <stdlib.h>

#include "commands/bench_tbe.h"
#include "tests/support/sparse_util.h"

static char kind[24], name[] = "bench", uniform[] = "uniform";
static ts_table_config config;

static void start(ts_tbe_case *c, const char *optimizer, ts_dtype type,
                  int tables, int64_t rows, int dim, int batch, int pool) {
  strcpy(kind, optimizer);
  config = (ts_table_config){
      .name = name,
      .dtype = type,
      .init_kind = uniform,
      .optimizer = {kind, NAN, NAN, NAN, NAN, NAN, NAN, NAN, 0, TS_WD_NONE}};
  *c = (ts_tbe_case){.tables = tables,
                     .dim = dim,
                     .batch = batch,
                     .pool = pool,
                     .threads = 1,
                     .iters = 4,
                     .rows = rows,
                     .alpha = 1.05,
                     .config = &config};
  ck_assert_ok(ts_row_optim_check(&config.optimizer, "bench"));
  ck_assert_ok(ts_tbe_case_size(c));
}

/* 3 tables of 1000 rows: keys of 12 bits, two passes of the sort; 60 bags of
 * 4 ids. */
TS_TEST(bytes_are_counted_once) {
  ts_tbe_case c;
  start(&c, "rowwise_adagrad", TS_BF16, 3, 1000, 8, 20, 4);
  const int64_t n = 240, bags = 60;
  const int64_t batch = n * 4 + bags * 16 + bags * 8 * 4;
  ck_assert_int_eq(c.n, n);
  ck_assert_int_eq(ts_tbe_forward_bytes(&c, 100), batch + 100 * 16);
  ck_assert_int_eq(ts_tbe_backward_bytes(&c, 100),
                   batch + n * 8 * 6 + 2 * 100 * (16 + 4));
  strcpy(kind, "adam");
  c.weights = (float[1]){0};
  ck_assert_int_eq(ts_tbe_forward_bytes(&c, 0), batch + n * 4);
  ck_assert_int_eq(ts_tbe_backward_bytes(&c, 7),
                   batch + n * 4 + n * 8 * 6 + 2 * 7 * (16 + 64));
}

TS_TEST(distinct_rows) {
  ts_tbe_case c;
  int64_t distinct, sum = 0;
  start(&c, "sgd", TS_F32, 2, 500, 4, 50, 5);
  ck_assert_ok(ts_tbe_case_allocate(&c));
  for (int zipf = 0; zipf < 2; zipf++, sum = 0) {
    ts_tbe_case_draw(&c, zipf ? 1.15 : 0);
    ck_assert_ok(ts_tbe_case_distinct(&c, &distinct));
    for (int k = 0; k < TS_TBE_INPUTS; k++) {
      ts_tbe_case_touch(&c, k);
      sum += c.n_touched;
    }
    ck_assert_int_eq(distinct, sum / TS_TBE_INPUTS);
    ck_assert_int_lt(distinct, zipf ? 250 : 450);
  }
  ts_tbe_case_free(&c);
}

/* One shape and a sweep of small ones; the lines are in the log. */
TS_TESTS(runs_on_devices, 0, 4) {
  ts_tbe_case c;
  ts_kernels k;
  start(&c, "rowwise_adagrad", TS_F32, 2, 300, 12, 9, 3);
  c.weighted = _i & 2;
  c.mean = _i & 2;
  ck_assert_ok(ts_test_kernels(&k));
  ck_assert_ok(ts_test_device(&c.device, _i & 1, 1));
  ck_assert_ok(ts_lane_create(c.device, &c.lane, "bench", TS_LANE_COMPUTE));
  ck_assert_ok(ts_bench_tbe_device(&c, &k, _i == 0));
  ck_assert_ptr_null(c.tbe);
  ts_lane_destroy(c.lane);
  ts_device_destroy(c.device);
}

/* More rows than there is memory: one message, and nothing is left. */
TS_TEST(rows_beyond_memory) {
  ts_tbe_case c;
  ts_kernels k;
  if (!strcmp(ts_test_backend(), "host")) return; /* which has no end */
  start(&c, "sgd", TS_F32, 1000, 4000000, 256, 9, 3);
  ck_assert_ok(ts_test_kernels(&k));
  ck_assert_ok(ts_test_device(&c.device, true, 1));
  ck_assert_ok(ts_lane_create(c.device, &c.lane, "bench", TS_LANE_COMPUTE));
  ck_assert_int_eq(ts_bench_tbe_device(&c, &k, false), TS_ERR_NOMEM);
  ck_assert_ptr_nonnull(
      strstr(ts_err_message(), "4096000000000 bytes for embedding tables"));
  ts_err_clear();
  ts_lane_destroy(c.lane);
  ts_device_destroy(c.device);
}
