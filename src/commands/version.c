/* version.c - `tessera version`. */
#include <jansson.h>
#include <libconfig.h>
#include <stdio.h>
#include <zlib.h>

#include "commands/commands.h"
#include "config.h"
#include "dense/linear.h"
#include "io/hdf5.h"
#include "runtime/comm.h"
#include "runtime/topology.h"

ts_err ts_cmd_version(const ts_args *a) {
  const ts_cpu *cpu = ts_cpu_info();
  (void)a;
  printf("tessera %s\n", PACKAGE_VERSION);
  printf("  compiler   %s\n", __VERSION__);
  printf("  MPI        %s\n", ts_mpi_version());
  printf("  HDF5       %s\n", ts_hdf5_version());
  printf("  dense      %s\n", ts_linear_engine_version(NULL));
  printf("  libconfig  %d.%d.%d, Jansson %s, zlib %s\n", LIBCONFIG_VER_MAJOR,
         LIBCONFIG_VER_MINOR, LIBCONFIG_VER_REVISION, JANSSON_VERSION,
         zlibVersion());
#ifdef _OPENMP
  printf("  OpenMP     %d\n", _OPENMP);
#endif
#ifdef HAVE_NCCL
  printf("  CUDA       built in, for %s; with NCCL\n", TS_CUDA_ARCHS);
#elif defined HAVE_CUDA
  printf("  CUDA       built in, for %s; without NCCL\n", TS_CUDA_ARCHS);
#else
  printf("  CUDA       not built in\n");
#endif
#ifdef TS_FAULTS
  printf("  faults     built in (TESSERA_FAULT)\n");
#else
  printf("  faults     not built in\n");
#endif
  printf("  CPU        %s%s%s\n", cpu->model, cpu->avx2 ? ", AVX2" : "",
         cpu->avx512 ? ", AVX-512" : "");
  return TS_OK;
}
