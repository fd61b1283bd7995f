/* cuda_fake.h - a CUDA runtime without a GPU: the calls that cuda/ makes, with
 * a thread for each stream.  A program that links it runs the backend's own
 * code on the host.  Kernels are functions of the test, or do nothing
 * (cuda_fake_kernels.c), or are cuda/'s, emulated (cuda_fake_launch.h). */
#ifndef TS_TESTS_CUDA_FAKE_H
#define TS_TESTS_CUDA_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ts_cuda_fake {
  int64_t blocks;      /* of memory that are out */
  int streams, events; /* that exist */
  int events_most;     /* at once, so far */
  int device;          /* of the last cudaSetDevice */
  int word_waits;      /* of streams, so far */
  int graphs;          /* that have been run */
  int captures;        /* of streams, so far */
  int launches;        /* of kernels, so far: calls, not runs */
  int by_default;      /* uses of the default stream, so far */
} ts_cuda_fake;
ts_cuda_fake ts_cuda_fake_now(void);

/* While it is held, STREAM doesn't get on; NULL: none is. */
void ts_cuda_fake_hold(void *stream);
/* Copies, sets and launches that the held STREAM has not done never are; it is
 * held no more. */
void ts_cuda_fake_drop(void *stream);
/* The stream that was created last. */
void *ts_cuda_fake_stream(void);
/* A fault of the device, as of a kernel, when STREAM gets to it: every call
 * fails from then on, until ts_cuda_fake_heal. */
void ts_cuda_fake_fault(void *stream);
void ts_cuda_fake_heal(void);
/* Waits until STREAM has done all of its work, whatever came of it. */
void ts_cuda_fake_drain(void *stream);

/* Launches of KERNEL call it as a function of the host, with where its N
 * arguments of SIZES (static) are; others do nothing. */
void ts_cuda_fake_kernel(void (*kernel)(void **value), const size_t *sizes,
                         int n);

/* Work of a library: RUN (a copy of ARG) when STREAM gets to it. */
void ts_cuda_fake_call(void *stream, void (*run)(void *), const void *arg,
                       size_t bytes);

#endif
