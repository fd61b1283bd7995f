/* test_cuda_entries_gpu.c - the GPU's kernels around the row update on a GPU;
 * skipped (77) where none is visible.
 * ranks: 1
 * seconds: 400 */
#include <stdio.h>

#include "tests/kernels/cuda_entries_cases.h"
#include "runtime/backends.h"

static ts_device *device;
static ts_kernels kernels;

/* The device goes before the harness counts memory. */
START_TEST(stop) {
  ts_device_destroy(device);
}
END_TEST

static Suite *suite(void) {
  static const cuda_entries_target target = {&device, &kernels, 1, NULL};
  const ts_device_options o = {.n_threads = 1, .timeout_s = 60};
  const ts_backend *cuda = ts_backend_find("cuda");
  if (!cuda || ts_device_create(&device, "cuda", &o) != TS_OK) {
    printf("skipped: %s\n", ts_err_message());
    exit(77);
  }
  if (cuda->kernels_fill(&kernels, NULL) != TS_OK) exit(EXIT_FAILURE);
  Suite *s = cuda_entries_suite("cuda entries, on a GPU", &target);
  TCase *last = tcase_create("stop");
  tcase_add_test(last, stop);
  suite_add_tcase(s, last);
  return s;
}
TS_TEST_MAIN(suite)
