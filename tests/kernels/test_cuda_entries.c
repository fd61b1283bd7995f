/* test_cuda_entries.c - the GPU's kernels around the row update, run on the
 * CPU.
 * ranks: 1
 * seconds: 400 */
#include "tests/kernels/cuda_entries_cases.h"
#include "tests/kernels/cuda_entries_emulated.h"

static ts_device *device;
static ts_kernels kernels;

/* A grid that goes on with its stride, one that need not, one in between. */
static void set_grid(int i) {
  static const int64_t blocks[] = {1, 1000, 3};
  emulated_entries_blocks = blocks[i];
}

START_TEST(stop) {
  ts_device_destroy(device);
}
END_TEST

static Suite *suite(void) {
  static const cuda_entries_target target = {&device, &kernels, 3, set_grid};
  const ts_device_options o = {.n_threads = 1};
  if (ts_device_create(&device, "host", &o) != TS_OK) exit(EXIT_FAILURE);
  emulated_entries(&kernels);
  Suite *s = cuda_entries_suite("cuda entries, emulated", &target);
  TCase *last = tcase_create("stop");
  tcase_add_test(last, stop);
  suite_add_tcase(s, last);
  return s;
}
TS_TEST_MAIN(suite)
