/* cuda_flat.h - the tests of the GPU's kernels over flat arrays and of its
 * dense optimizers against the host's, bit for bit; where they run is a
 * target's: the CPU (tests/kernels/flat_emulated.cc) or a GPU. */
#ifndef TS_TESTS_CUDA_FLAT_H
#define TS_TESTS_CUDA_FLAT_H

#include "tests/kernels/cuda_block.h"

#ifdef __cplusplus
extern "C" {
#endif
extern const block_target flat_emulated;
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include <check.h>
Suite *cuda_flat_suite(const char *name, const block_target *);
#endif

#endif
