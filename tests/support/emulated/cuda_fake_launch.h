/* cuda_fake_launch.h - kernels of the fake CUDA runtime (cuda_fake.h): who
 * links cuda_fake_launch.c launches them on what says that it is an H200.
 * Each does what cuda_fake_body.h knows; whether it is one that a GPU would
 * take is looked at, as far as the binary code tells. */
#ifndef TS_TESTS_CUDA_FAKE_LAUNCH_H
#define TS_TESTS_CUDA_FAKE_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ts_cuda_fake_launches {
  int64_t n;          /* launches, captured ones included */
  int64_t n_pageable; /* copies that CUDA makes the host wait for */
  int64_t n_wrong;    /* things that a GPU would not take, or would fault on */
  char first[256];    /* the first of those */
} ts_cuda_fake_launches;
ts_cuda_fake_launches ts_cuda_fake_launched(void);
/* Starts counts anew, and drops what is known of launches: no graph and no
 * stream may have one. */
void ts_cuda_fake_forget(void);

/* False: the binary code is not such as is understood, or not for that GPU. */
bool ts_cuda_fake_knows_kernels(void);
/* The first kernel with NAME in its name, for cudaLaunchKernel; or NULL. */
const void *ts_cuda_fake_kernel_named(const char *name);

#endif
