/* choose.h - which GPU a rank takes, and whether this build runs there.
 * Plain C: it is tested without a GPU.  All of it is Local. */
#pragma once

#include <stdbool.h>

/* Index among the N_GPUS >= 1 visible ones: ranks of a node take turns. */
int ts_cuda_choose(int node_rank, int n_gpus);

/* ARCHS: "80 90", as configured; PTX of the last one is there, too.  CAPABILITY
 * is 10 * major + minor.  Binary code runs on its own generation (the same
 * tens) of the same or a higher minor number, PTX on anything later. */
bool ts_cuda_runs_on(const char *archs, int capability);
