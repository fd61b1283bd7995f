/* harness.h - Check under MPI.
 *
 * Check's own timeouts do nothing without fork, and a plain ck_assert that
 * fails on one rank leaves the others waiting: assertions between collective
 * calls are ck_assert_all, which all ranks make together.  The wall-clock
 * limit and the numbers of ranks are tests/support/launch's. */
#pragma once

#include <check.h>

/* Check notes the place of each assertion that holds, in case a later one
 * crashes, by a message that it allocates: the most part of the time of tests
 * with millions of them, and under sanitizers nearly all of it. */
#define _mark_point(file, line) ((void)0)

#include "base/err.h"
#include "runtime/comm.h"
#include "runtime/device.h"
#include "kernel_table.h"

/* World, device and a comm of the kind that the test wants. */
typedef struct ts_fixture {
  ts_device *device;
  ts_world *world;
  ts_comm *comm;
  ts_lane *lane;
  int rank, size;
} ts_fixture;

void ts_fixture_start(ts_fixture *, bool serial, int n_threads);
/* On the device of ts_test_device, not the host. */
void ts_fixture_start_device(ts_fixture *, bool serial, int n_threads);
void ts_fixture_stop(ts_fixture *);

/* A device of the kind that TESSERA_BACKEND names, "host" where it isn't set;
 * "fake" is tests/support/fake_device.h's, whose memory only kernels and copies
 * touch. Where there is none, ts_test_main has ended the test as skipped. */
const char *ts_test_backend(void);
/* cuda/ is tested, on a GPU or emulated (tests/support/emulated/emulated.h). */
bool ts_test_on_gpu(void);
ts_err ts_test_device(ts_device **, bool serial, int n_threads);
/* From now on an emulated GPU reads the host's pages, as tables in files need;
 * false where the backend's does not, which is said. */
bool ts_test_reads_pages(void);
/* Its kernels; of a GPU those of the dense side may be missing. */
ts_err ts_test_kernels(ts_kernels *);
/* From or to memory of D, host or device, at once; no lane may use it. */
void ts_test_get(ts_device *d, void *dst, const void *src, size_t bytes);
void ts_test_put(ts_device *d, void *dst, const void *src, size_t bytes);
/* BYTES at P, memory of D: where the host may touch them P itself, else a
 * copy.  return gives X back, of PUT what the host has written to it, too. */
void *ts_test_borrow(ts_device *d, const void *p, size_t bytes);
void ts_test_return(ts_device *d, const void *p, void *x, size_t bytes,
                    bool put);

/* The other way: BYTES at X of the host, for kernels: X itself or a copy in
 * device memory, of PUT with the bytes.  reclaim ends that; of GET they come
 * back to X. */
void *ts_test_lend(ts_device *d, const void *x, size_t bytes, bool put);
void ts_test_reclaim(ts_device *d, const void *x, const void *lent,
                     size_t bytes, bool get);

/* True on all ranks when COND holds on all of them. */
bool ts_test_all(bool cond);

#define ck_assert_all(cond)                                                    \
  ck_assert_msg(ts_test_all(cond), "not on all ranks: " #cond)
#define ck_assert_ok(call)                                                     \
  do {                                                                         \
    ts_err ck_err = (call);                                                    \
    ck_assert_msg(ck_err == TS_OK, #call ": %s", ts_err_message());            \
  } while (0)

/* ---- tests ----------------------------------------------------------------
 */

/* TS_TEST(name) { ... } is a test of the program that it is linked into; those
 * of a file run in its order.  TS_TESTS runs it with _i from FIRST to END - 1.
 * They are entered before main. */
#define TS_TEST(test) TS_TESTS(test, 0, 1)
#define TS_TESTS(test, first, end)                                             \
  static void test(int);                                                       \
  __attribute__((constructor)) static void test##_is_a_test(void) {            \
    static const TTest t = {#test, test, __FILE__, __LINE__};                  \
    ts_test_add(&t, first, (int)(end));                                        \
  }                                                                            \
  static void test(int _i CK_ATTRIBUTE_UNUSED)
/* Before the first of the tests that follow in the file, and after the last;
 * START and STOP may be NULL.  The second one: before and after each. */
#define TS_TESTS_BETWEEN(start, stop)                                          \
  TS_BEFORE_MAIN(tcase_add_unchecked_fixture(ts_test_group(), start, stop))
#define TS_EACH_TEST_BETWEEN(start, stop)                                      \
  TS_BEFORE_MAIN(tcase_add_checked_fixture(ts_test_group(), start, stop))
TCase *ts_test_group(void);
/* Not where TESSERA_TESTS, names with blanks between, hasn't it. */
void ts_test_add(const TTest *, int first, int end);

/* Makes the CALL before main, in the order of the file. */
#define TS_BEFORE_MAIN(call) TS_BEFORE_MAIN_(call, __COUNTER__)
#define TS_BEFORE_MAIN_(call, n) TS_BEFORE_MAIN__(call, n)
#define TS_BEFORE_MAIN__(call, n)                                              \
  __attribute__((constructor)) static void before_main_##n(void) {             \
    call;                                                                      \
  }

/* Runs the tests; 0 when all ranks passed and nothing leaked, 77 where the
 * device is missing that TESSERA_BACKEND asks for.  A program without a main
 * has that of main.c, which does no more. */
int ts_test_main(int argc, char **argv);
