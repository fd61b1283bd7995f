/* cuda_entries_emulated.h - the CUDA kernels of sparse/entries.h on the CPU. */
#ifndef TS_TESTS_CUDA_ENTRIES_EMULATED_H
#define TS_TESTS_CUDA_ENTRIES_EMULATED_H

#include "runtime/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets the entries; arguments in host memory. */
void emulated_entries(ts_kernels *);
extern int64_t emulated_entries_blocks; /* of a grid, at most */

#ifdef __cplusplus
}
#endif
#endif
