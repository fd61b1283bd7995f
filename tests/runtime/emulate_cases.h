/* emulate_cases.h - small kernels for the test of the emulation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* *OUT = sum of the N at IN, by warps and blocks; NULL or what went wrong. */
const char *emulate_sum(int *out, const int *in, int n);
/* Number of the first check that fails, 0: none does. */
int emulate_warps(void);
int emulate_memory(void);
/* The complaint about fault NUMBER, of which *EXPECTED is a part; NULL: there
 * are no more. */
const char *emulate_fault(int number, const char **expected);

/* In which order 8 blocks of 4 warps ran; how many came. */
int emulate_order(unsigned block[32], unsigned warp[32]);
/* How many values are wrong that thread T reads of another one, for K below 2
 * of its warp, to 3 of its block; WAIT: with the barrier that this takes. */
int emulate_race(int k, bool wait);

/* A launch on STREAM that adds four floats; CUDA's answer.  The kernel takes
 * 256 threads at most; ANY: the compiler was told of no such limit. */
int emulate_add(bool any, void *to, const void *from, unsigned block,
                size_t shared_bytes, void *stream);

#ifdef __cplusplus
}
#endif
