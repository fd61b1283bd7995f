/* cuda_fake_params.h - the kernels' own knowledge of their parameters. */
#ifndef TS_TESTS_CUDA_FAKE_PARAMS_H
#define TS_TESTS_CUDA_FAKE_PARAMS_H

#include <stddef.h>

/* BYTES of PARAMS of the kernel NAME: what is behind the last entry of a list
 * is 0. */
void ts_fake_params_clear(const char *name, void *params, size_t bytes);

#endif
