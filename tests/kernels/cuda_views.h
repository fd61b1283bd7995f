/* cuda_views.h - the tests of the GPU's kernels of views, wires and positions
 * (shard/view_kernels.h) against the host's, bit for bit; where they run is a
 * target's: the CPU (tests/kernels/views_emulated.cc) or a GPU. */
#ifndef TS_TESTS_CUDA_VIEWS_H
#define TS_TESTS_CUDA_VIEWS_H

#include "tests/kernels/cuda_block.h"

#ifdef __cplusplus
extern "C" {
#endif
extern const block_target views_emulated;
#ifdef __cplusplus
}
#endif

#ifndef __cplusplus
#include <check.h>
Suite *cuda_views_suite(const char *name, const block_target *);
#endif

#endif
