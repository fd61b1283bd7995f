/* test_cuda_emulate.c - the emulation of CUDA that the kernels' tests stand
 * on: what it computes, and that it finds the faults it says it finds.
 * ranks: 1 */
#include "tests/support/emulated/emulate_cases.h"
#include "tests/support/sparse_util.h"

START_TEST(grid_sum) {
  enum { N = 10001 };
  static int in[N];
  int out, sum = 0;
  for (int i = 0; i < N; i++) sum += in[i] = i % 11 - 3;
  const char *said = emulate_sum(&out, in, N);
  ck_assert_msg(!said, "%s", said);
  ck_assert_int_eq(out, sum);
}
END_TEST

START_TEST(warp_operations) {
  ck_assert_int_eq(emulate_warps(), 0);
}
END_TEST

START_TEST(memory_and_arithmetic) {
  ck_assert_int_eq(emulate_memory(), 0);
}
END_TEST

/* Each is found, and the emulation works after it. */
START_TEST(faults_are_found) {
  const char *expected, *said;
  int n = 0;
  for (; (said = emulate_fault(n, &expected)); n++) {
    ck_assert_msg(strstr(said, expected) && strstr(said, "emulate_cases.cc:"),
                  "fault %d: \"%s\" and not \"%s\"", n, said, expected);
    ck_assert_int_eq(emulate_warps(), 0);
  }
  ck_assert_int_eq(n, 7);
}
END_TEST

static Suite *suite(void) {
  const TTest *const tests[] = {grid_sum, warp_operations,
                                memory_and_arithmetic, faults_are_found};
  return test_suite("cuda_emulate", tests, TEST_COUNT(tests));
}
TS_TEST_MAIN(suite)
