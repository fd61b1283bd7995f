/* choose.c - which GPU a rank takes, and whether this build runs there. */
#include "cuda/runtime/choose.h"

#include <stdlib.h>

int ts_cuda_choose(int node_rank, int n_gpus) {
  return node_rank > 0 && n_gpus > 0 ? node_rank % n_gpus : 0;
}

bool ts_cuda_runs_on(const char *archs, int capability) {
  long arch = 0;
  bool runs = false;
  for (;;) {
    char *end;
    const long next = strtol(archs, &end, 10);
    if (end == archs) break;
    arch = next;
    runs |= capability / 10 == arch / 10 && capability >= arch;
    archs = end;
    while (*archs && *archs != ' ') archs++; /* "90a" is for 90 alone */
  }
  return runs || (arch > 0 && capability >= arch);
}
