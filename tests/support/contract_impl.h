/* contract_impl.h - who is tested, between contract.c and contract_run.c. */
#pragma once

#include "tests/support/contract.h"

enum { WHO_MAX = 12 };
typedef struct who {
  char name[64];
  ts_kernels kernels;
  int threads;
  int gpu; /* of gpus */
  ts_device *device;
  ts_lane *lane;
} who;

extern who kt_all[WHO_MAX], *kt_now; /* NULL: the oracle */
extern int kt_n;
extern ts_kernels kt_oracle;

bool kt_on(const char *backend);
/* On "emulated": the GPU of that number from now on; its shared memory. */
void kt_use_gpu(int);
int kt_shared_bytes(int gpu);
/* kt_bits begins anew. */
void kt_seed(void);
