/* cuda_gpu.h - a GPU for suites of its kernels (test_cuda_*_gpu.c), and the
 * end of those programs where there is none. */
#ifndef TS_TESTS_CUDA_GPU_H
#define TS_TESTS_CUDA_GPU_H

#include "tests/support/harness.h"

/* Around each suite's cases. */
void cuda_gpu_start(void);
void cuda_gpu_stop(void);
ts_device *cuda_gpu_device(void);

/* Calls TASK (ARG) in a task of a lane and waits for the lane. */
ts_err cuda_gpu_run(ts_err (*task)(void *), void *arg);

/* Copies there, back and over what is there; drop gives a copy's memory
 * back. */
void *cuda_gpu_send(const void *p, size_t bytes);
void cuda_gpu_copy(void *to, const void *from, size_t bytes);
void cuda_gpu_drop(void *sent);

/* Defines ts_err NAME(const TYPE *) that calls CALL (const TYPE *) so. */
#define CUDA_GPU_ENTRY(name, type, call)                                       \
  static ts_err name##_task(void *args) {                                      \
    return call((const type *)args);                                           \
  }                                                                            \
  static ts_err name(const type *args) {                                       \
    return cuda_gpu_run(name##_task, (void *)args);                            \
  }

/* main: SUITE where there is a GPU, else 77 with the reason. */
int cuda_gpu_main(int argc, char **argv, Suite *(*suite)(void));

#endif
