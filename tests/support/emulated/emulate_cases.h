/* emulate_cases.h - small kernels for the test of the emulation. */
#ifndef TS_TESTS_EMULATE_CASES_H
#define TS_TESTS_EMULATE_CASES_H

#ifdef __cplusplus
extern "C" {
#endif

/* Sum of N integers by 256 threads in blocks, in two ways that must agree;
 * NULL, or what the emulation says. */
const char *emulate_sum(int *out, const int *in, int n);
/* Checks in the kernel: which one failed first, or 0. */
int emulate_warps(void);
int emulate_memory(void);
/* Faults on purpose: what the emulation says; NULL after the last. */
const char *emulate_fault(int number, const char **expected);

#ifdef __cplusplus
}
#endif
#endif
