/* test_cuda_emulate.c - the emulation of CUDA that backend "emulated" stands
 * on: what it computes, and that it finds the faults it says it finds; a build
 * with the thread sanitizer also finds races.
 * ranks: 1 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/runtime/emulate_cases.h"
#include "tests/support/emulated/emulated.h"
#include "tests/support/emulated/runtime.h"
#include "tests/support/sparse_util.h"

TS_TEST(grid_sum) {
  enum { N = 10001 };
  static int in[N];
  int out, sum = 0;
  for (int i = 0; i < N; i++) sum += in[i] = i % 11 - 3;
  const char *said = emulate_sum(&out, in, N);
  ck_assert_msg(!said, "%s", said);
  ck_assert_int_eq(out, sum);
}

TS_TEST(warp_operations) {
  ck_assert_int_eq(emulate_warps(), 0);
}

TS_TEST(memory_and_arithmetic) {
  ck_assert_int_eq(emulate_memory(), 0);
}

/* Each is found, and the emulation works after it. */
TS_TEST(faults_are_found) {
  const char *expected, *said;
  int n = 0;
  for (; (said = emulate_fault(n, &expected)); n++) {
    ck_assert_msg(strstr(said, expected) && strstr(said, "emulate_cases.cu:"),
                  "fault %d: \"%s\" and not \"%s\"", n, said, expected);
    ck_assert_int_eq(emulate_warps(), 0);
  }
  ck_assert_int_eq(n, 8);
}

/* Drawn from the seed: all come, in another order for another one, and not as
 * they are numbered unless that is asked for. */
TS_TEST(orders_are_drawn) {
  enum { ORDERS = 4 };
  unsigned block[ORDERS][32], warp[ORDERS][32];
  for (int k = 0; k < ORDERS; k++) { /* the last is that of the program */
    unsigned seen[8] = {0};
    ts_emulated_set_order(k < ORDERS - 1 ? (uint64_t)k : ts_emulated_seed());
    ck_assert_int_eq(emulate_order(block[k], warp[k]), 32);
    for (int i = 0; i < 32; i++) seen[block[k][i]] |= 1u << warp[k][i];
    for (int b = 0; b < 8; b++) ck_assert_uint_eq(seen[b], 15);
  }
  for (int i = 0; i < 32; i++) ck_assert_uint_eq(block[0][i], (unsigned)i / 4);
  for (int k = 1; k < ORDERS; k++) {
    ck_assert(memcmp(block[k], block[k - 1], sizeof block[k]) != 0);
    ck_assert(memcmp(warp[k], warp[k - 1], sizeof warp[k]) != 0);
  }
}

/* Reports of the thread sanitizer, which are counted and not printed while
 * races are wanted: its weak __tsan::OnReport. */
static bool wants_races;
static int n_races;
#define ON_REPORT "_ZN6__tsan8OnReportEPKNS_10ReportDescEb"
bool ts_test_on_report(const void *report, bool suppressed) __asm__(ON_REPORT);
bool ts_test_on_report(const void *report, bool suppressed) {
  (void)report;
  (void)__atomic_add_fetch(&n_races, 1, __ATOMIC_RELAXED);
  return suppressed || __atomic_load_n(&wants_races, __ATOMIC_RELAXED);
}

#if defined(__SANITIZE_THREAD__)
enum { SEES_RACES = 1 };
#else
enum { SEES_RACES = 0 };
#endif

/* A missing barrier gives wrong values in some order, and is a race. */
TS_TEST(missing_barriers_show) {
  for (int k = 0; k < 4; k++) {
    __atomic_store_n(&n_races, 0, __ATOMIC_RELAXED);
    ck_assert_int_eq(emulate_race(k, true), 0);
    ck_assert_int_eq(__atomic_load_n(&n_races, __ATOMIC_RELAXED), 0);
    __atomic_store_n(&wants_races, true, __ATOMIC_RELAXED);
    ck_assert_int_gt(emulate_race(k, false), 0);
    __atomic_store_n(&wants_races, false, __ATOMIC_RELAXED);
    ck_assert_int_eq(__atomic_load_n(&n_races, __ATOMIC_RELAXED) > 0,
                     SEES_RACES);
  }
}

TS_TEST(sees_what_is_wrong) {
  const float four[4] = {1, 2, 3, 4};
  float got[4] = {0};
  cudaStream_t s;
  void *p, *old;
  ts_emulated_forgive();
  const ts_emulated_counts before = ts_emulated_now();
  ck_assert_int_eq(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), 0);
  ck_assert_int_eq(cudaMalloc(&p, sizeof four), 0);
  ck_assert_int_eq(cudaMalloc(&old, sizeof four), 0);
  cudaMemcpyAsync(p, four, sizeof four, cudaMemcpyDefault, s);
  ck_assert_int_eq(emulate_add(false, p, p, 256, 0, s), cudaSuccess);
  cudaMemcpyAsync(got, p, sizeof got, cudaMemcpyDefault, s);
  ck_assert_int_eq(cudaStreamSynchronize(s), cudaSuccess);
  for (int i = 0; i < 4; i++) ck_assert(got[i] == 2 * four[i]);
  ck_assert_int_eq(ts_emulated_now().complaints, 0);
  ck_assert_int_eq(ts_emulated_now().pageable - before.pageable, 2);
  ck_assert_int_eq(emulate_add(false, p, p, 1025, 0, s),
                   cudaErrorInvalidConfiguration);
  ck_assert_int_eq(emulate_add(false, p, p, 512, 0, s),
                   cudaErrorLaunchOutOfResources);
  ck_assert_int_eq(emulate_add(false, p, p, 256, 50000, s),
                   cudaErrorInvalidValue);
  ck_assert_int_eq(ts_emulated_now().complaints, 3);
  ts_emulated_hold(s); /* nothing of this is done */
  ck_assert_int_eq(emulate_add(false, p, got, 256, 0, s), cudaSuccess);
  ck_assert_int_eq(ts_emulated_now().complaints, 4);
  ck_assert_int_eq(cudaFree(old), cudaSuccess);
  ck_assert_int_eq(emulate_add(false, p, old, 256, 0, s), cudaSuccess);
  ck_assert_int_eq(ts_emulated_now().complaints, 5);
  cudaMemsetAsync(p, 0, sizeof four + 1, s);
  ck_assert_int_eq(ts_emulated_now().complaints, 6);
  ts_emulated_drop(s);
  ts_emulated_forgive();
  (void)cudaGetLastError();
  ck_assert_int_eq(cudaFree(p), cudaSuccess);
  ck_assert_int_eq(cudaStreamDestroy(s), cudaSuccess);
}

/* As nvcc compiled a kernel of cuda/ with two doubles a thread in shared
 * memory; the file is empty where there is no cuobjdump. */
TS_TEST(limits_are_known) {
  ts_kernel k = {.name = "_ZL14ts_sums_kernelILi2EEvPdPKdl"};
  ts_limits_of(&k);
  if (!k.has_limits)
    puts("left out: no cuobjdump when this was built, so registers and shared "
         "memory of launches are not looked at");
  ck_assert_uint_eq(k.shared, k.has_limits ? 4096 : 0);
  ck_assert_int_eq(k.registers >= 16 && k.registers < 256, k.has_limits);
}

/* 113 registers are 120; static and dynamic shared memory count together. */
TS_TEST(launches_keep_to_limits) {
  char path[] = "/tmp/tessera-resources-XXXXXX";
  const int fd = mkstemp(path);
  void *p;
  ck_assert_int_ge(fd, 0);
  ck_assert_int_gt(dprintf(fd, " Function _Z7add_anyPfPKfl:\n"
                               "  REG:113 STACK:0 SHARED:5120 LOCAL:0\n"),
                   0);
  ck_assert_int_eq(close(fd), 0);
  ck_assert_int_eq(setenv("TESSERA_EMULATED_RESOURCES", path, 1), 0);
  ts_emulated_forgive();
  ck_assert_int_eq(cudaMalloc(&p, 16), 0);
  ck_assert_int_eq(emulate_add(true, p, p, 544, 45056, NULL), cudaSuccess);
  ck_assert_int_eq(ts_emulated_now().complaints, 0);
  ck_assert_int_eq(emulate_add(true, p, p, 576, 0, NULL),
                   cudaErrorLaunchOutOfResources);
  ck_assert_int_eq(emulate_add(true, p, p, 544, 45057, NULL),
                   cudaErrorInvalidValue);
  ck_assert_int_eq(ts_emulated_now().complaints, 2);
  (void)cudaGetLastError();
  ts_emulated_forgive();
  ck_assert_int_eq(cudaFree(p), cudaSuccess);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(unsetenv("TESSERA_EMULATED_RESOURCES"), 0);
}

/* A table whose places are numbers above 2^32, of which no page but those of
 * two rows is there. */
TS_TEST(far_rows_are_found) {
  enum { DIM = 64 };
  const int64_t n_rows = (INT64_C(1) << 27) + 9, bytes = n_rows * DIM * 4;
  const int64_t at = 0, bag_start[] = {0, 1}, offsets[] = {0, 2};
  const int64_t row_base[] = {n_rows - 9};
  const int32_t rows[] = {3, 8};
  float row[DIM], out[DIM];
  ts_device *d;
  ts_kernels k;
  ts_buffer table;
  ck_assert_ok(
      ts_device_create(&d, "emulated", &(ts_device_options){.n_threads = 1}));
  ck_assert_ok(ts_kernels_fill(&k, "emulated", NULL));
  ck_assert_ok(
      ts_buffer_create(&table, d, (size_t)bytes, TS_SPACE_DEVICE, TS_TAG_MISC));
  for (int i = 0; i < 2; i++) {
    for (int c = 0; c < DIM; c++) row[c] = (float)(100 * i + c);
    ts_test_put(d, (float *)table.ptr + (row_base[0] + rows[i]) * DIM, row,
                sizeof row);
  }
  const ts_lookup_args a = {.out = ts_test_lend(d, out, sizeof out, false),
                            .at = ts_test_lend(d, &at, sizeof at, true),
                            .weight = table.ptr,
                            .dtype = TS_F32,
                            .dim = DIM,
                            .row_base = row_base,
                            .bag_start = bag_start,
                            .offsets =
                                ts_test_lend(d, offsets, sizeof offsets, true),
                            .rows = ts_test_lend(d, rows, sizeof rows, true),
                            .n_features = 1};
  ck_assert_ok(k.lookup(&a));
  (void)cudaStreamSynchronize(NULL);
  ts_test_reclaim(d, out, a.out, sizeof out, true);
  for (int c = 0; c < DIM; c++) ck_assert(out[c] == (float)(100 + 2 * c));
  ts_test_reclaim(d, &at, a.at, sizeof at, false);
  ts_test_reclaim(d, offsets, a.offsets, sizeof offsets, false);
  ts_test_reclaim(d, rows, a.rows, sizeof rows, false);
  ts_buffer_reset(&table);
  ts_device_destroy(d);
}
