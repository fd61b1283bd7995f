/* harness.c - Check under MPI. */
#include "tests/support/harness.h"

#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "runtime/backends.h"
#include "tests/support/emulated/emulated.h"
#include "tests/support/fake_device.h"

static ts_fixture shared; /* for ts_test_all */

static void start_on_device(ts_fixture *f) {
  const ts_world_options w = {.ordered = true, .timeout_s = 60};
  ck_assert_ok(ts_world_create(&f->world, f->device, &w));
  ck_assert_ok(ts_comm_create(f->world, &f->comm, TS_GROUP_WORLD, "test"));
  ck_assert_ok(
      ts_lane_create(f->device, &f->lane, "test compute", TS_LANE_COMPUTE));
  f->rank = ts_world_rank(f->world);
  f->size = ts_world_size(f->world);
}

void ts_fixture_start(ts_fixture *f, bool serial, int n_threads) {
  const ts_device_options d = {
      .serial = serial, .n_threads = n_threads, .timeout_s = 60};
  ck_assert_ok(ts_device_create(&f->device, "host", &d));
  start_on_device(f);
}

void ts_fixture_start_device(ts_fixture *f, bool serial, int n_threads) {
  ck_assert_ok(ts_test_device(&f->device, serial, n_threads));
  start_on_device(f);
}

void ts_fixture_stop(ts_fixture *f) {
  ts_lane_destroy(f->lane);
  ts_comm_destroy(f->comm);
  ts_world_destroy(f->world);
  ts_device_destroy(f->device);
}

const char *ts_test_backend(void) {
  const char *name = getenv("TESSERA_BACKEND");
  return name && *name ? name : "host";
}

static bool is_emulated(void) {
  return !strcmp(ts_test_backend(), "emulated");
}

bool ts_test_on_gpu(void) {
  return is_emulated() || !strcmp(ts_test_backend(), "cuda");
}

static bool is_fake(void) {
  return !strcmp(ts_test_backend(), "fake");
}

ts_err ts_test_device(ts_device **d, bool serial, int n_threads) {
  const ts_device_options o = {
      .serial = serial, .n_threads = n_threads, .timeout_s = 60};
  const ts_fake_options fake = {
      .serial = serial, .id = "fake", .slow_us = 20, .timeout_s = 60};
  if (is_fake()) return ts_fake_create(d, &fake);
  return ts_device_create(d, ts_test_backend(), &o);
}

bool ts_test_reads_pages(void) {
  static _Alignas(4096) char page[4096];
  void *there;
  ts_device *d;
#ifdef HAVE_EMULATED
  static const ts_emulated_gpu gpu = {.reads_pages = true};
  if (is_emulated()) ts_emulated_set_gpu(&gpu);
#endif
  if (!ts_test_on_gpu()) return true;
  ck_assert_ok(ts_test_device(&d, true, 1));
  const ts_err err = ts_device_reach(d, &there, page, sizeof page, false);
  if (err == TS_OK)
    ts_device_unreach(d, page, false);
  else
    printf("SKIPPED, tables in files: %s\n", ts_err_message());
  ts_err_clear();
  ts_device_destroy(d);
  return err == TS_OK;
}

ts_err ts_test_kernels(ts_kernels *k) {
  if (is_fake()) return ts_fake_kernels(k, NULL);
  return ts_kernels_fill(k, ts_test_backend(), NULL);
}

void ts_test_put(ts_device *d, void *dst, const void *src, size_t bytes) {
  ts_lane *lane;
  if (!ts_device_is_discrete(d)) {
    if (bytes) memcpy(dst, src, bytes);
    return;
  }
  if (!bytes) return;
  if (ts_fake_has(dst) || ts_fake_has(src)) { /* a million times */
    memcpy(ts_fake_alias(dst), ts_fake_alias(src), bytes);
    return;
  }
  if (is_emulated()) { /* so, too: a lane there is a thread */
    memcpy(dst, src, bytes);
    return;
  }
  ck_assert_ok(ts_lane_create(d, &lane, "test copies", TS_LANE_DATA));
  ck_assert_ok(ts_lane_copy(lane, dst, src, bytes));
  ck_assert_ok(ts_lane_sync(lane));
  ts_lane_destroy(lane);
}

void ts_test_get(ts_device *d, void *dst, const void *src, size_t bytes) {
  ts_test_put(d, dst, src, bytes);
}

void *ts_test_borrow(ts_device *d, const void *p, size_t bytes) {
  if (!ts_device_is_discrete(d)) return (void *)(uintptr_t)p;
  void *x = malloc(bytes + 1);
  ck_assert_ptr_nonnull(x);
  ts_test_get(d, x, p, bytes);
  return x;
}

void ts_test_return(ts_device *d, const void *p, void *x, size_t bytes,
                    bool put) {
  if (!ts_device_is_discrete(d)) return;
  if (put) ts_test_put(d, (void *)(uintptr_t)p, x, bytes);
  free(x);
}

void *ts_test_lend(ts_device *d, const void *x, size_t bytes, bool put) {
  ts_buffer b;
  if (!ts_device_is_discrete(d) || !bytes) return (void *)(uintptr_t)x;
  ck_assert_ok(ts_buffer_create(&b, d, bytes, TS_SPACE_DEVICE, TS_TAG_MISC));
  if (put) ts_test_put(d, b.ptr, x, bytes);
  return b.ptr;
}

void ts_test_reclaim(ts_device *d, const void *x, const void *lent,
                     size_t bytes, bool get) {
  ts_buffer b = {.ptr = (void *)(uintptr_t)lent,
                 .bytes = bytes,
                 .space = TS_SPACE_DEVICE,
                 .tag = TS_TAG_MISC,
                 .owned = true,
                 .device = d};
  if (lent == x) return;
  if (get) ts_test_get(d, (void *)(uintptr_t)x, lent, bytes);
  ts_buffer_reset(&b);
}

/* The device is there on all ranks or the test is skipped on all. */
static bool missing(void) {
  ts_device *d = NULL;
  const ts_err err = ts_mpi_agree(ts_test_device(&d, true, 1));
  ts_device_destroy(d);
  if (err != TS_ERR_DECK) return false;
  if (ts_mpi_rank() == 0) printf("SKIPPED: %s\n", ts_err_message());
  ts_err_clear();
  return true;
}

bool ts_test_all(bool cond) {
  /* Good ranks are counted: a sum that loses parts must not look like none
   * that is bad. */
  double good = cond ? 1 : 0;
  if (ts_comm_sum_f64(shared.comm, &good, 1) != TS_OK) return false;
  return cond && good == ts_comm_size(shared.comm);
}

/* ---- tests ----------------------------------------------------------------
 */

static Suite *suite;
static TCase *group;
static int n_added;

/* One of the words of TESSERA_TESTS, where it is set: these tests alone. */
static bool is_wanted(const char *name) {
  const char *all = getenv("TESSERA_TESTS");
  const size_t n = strlen(name);
  if (!all) return true;
  for (const char *at = all; (at = strstr(at, name)); at += n)
    if ((at == all || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
  return false;
}

TCase *ts_test_group(void) {
  if (!suite) suite = suite_create(program_invocation_short_name);
  group = tcase_create(program_invocation_short_name);
  tcase_set_timeout(group, 0);
  suite_add_tcase(suite, group);
  return group;
}

void ts_test_add(const TTest *test, int first, int end) {
  if (!group) ts_test_group();
  if (!is_wanted(test->name)) return;
  n_added++;
  tcase_add_loop_test(group, test, first, end);
}

/* Rank 0 says what it saw of its tests; the others what failed there, or a
 * failure of theirs alone would end the program without a word. */
static bool run_all(void) {
  SRunner *runner = srunner_create(suite);
  srunner_set_fork_status(runner, CK_NOFORK);
  srunner_run_all(runner, ts_mpi_rank() == 0 ? CK_NORMAL : CK_SILENT);
  const int n = srunner_ntests_failed(runner);
  TestResult **failures = ts_mpi_rank() ? srunner_failures(runner) : NULL;
  for (int i = 0; failures && i < n; i++)
    printf("rank %d: %s:%d: %s\n", ts_mpi_rank(), tr_lfile(failures[i]),
           tr_lno(failures[i]), tr_msg(failures[i]));
  free(failures);
  srunner_free(runner);
  return n == 0;
}

/* For tests/support/launch: one write, as all ranks append to one file. */
static int passed_all(void) {
  const char *path = getenv("TESSERA_TEST_ENDS");
  FILE *f = path ? fopen(path, "a") : NULL;
  if (f) fputs("passed\n", f);
  if (f) fclose(f);
  return EXIT_SUCCESS;
}

int ts_test_main(int argc, char **argv) {
  if (ts_mpi_start(&argc, &argv) != TS_OK) {
    fprintf(stderr, "%s\n", ts_err_message());
    return EXIT_FAILURE;
  }
  ts_log_rank(ts_mpi_rank());
#ifdef HAVE_EMULATED
  ts_backend_add(&ts_backend_emulated);
#endif
  if (missing()) {
    ts_mpi_stop();
    return 77;
  }
  if (!n_added && getenv("TESSERA_TESTS")) {
    printf("no test is named in TESSERA_TESTS\n");
    ts_mpi_stop();
    return EXIT_FAILURE;
  }
  /* A comm of its own, serial: usable beside whatever a test does. */
  const ts_device_options d = {.serial = true, .n_threads = 1};
  const ts_world_options w = {.ordered = true, .timeout_s = 100};
  if (ts_device_create(&shared.device, "host", &d) != TS_OK ||
      ts_world_create(&shared.world, shared.device, &w) != TS_OK ||
      ts_comm_create(shared.world, &shared.comm, TS_GROUP_WORLD, "harness") !=
          TS_OK)
    return EXIT_FAILURE;
  const bool passed = ts_test_all(run_all());
  ts_comm_destroy(shared.comm);
  ts_world_destroy(shared.world);
  ts_device_destroy(shared.device);
  ts_mpi_stop();
  /* A failed test leaves what it held: only a passed run is looked at. */
  if (passed && ts_mem_leaks() > 0) return EXIT_FAILURE;
  return passed ? passed_all() : EXIT_FAILURE;
}
