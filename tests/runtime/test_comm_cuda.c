/* test_comm_cuda.c - the contract of collectives on memory of GPUs, and what
 * goes wrong; through pinned memory on any number of them, by NCCL where each
 * rank has its own.
 * With TESSERA_NCCL_SHARED=1 by NCCL where ranks share one: each takes itself
 * for a node, and talks to the others by sockets.  Skipped where there is no
 * GPU.
 * ranks: 1 2 4
 * seconds: 400 */
#include "tests/runtime/test_comm_device.c"
#include "tests/runtime/test_comm_faults.c"

#include <stdlib.h>

__attribute__((constructor)) static void choose(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = getenv("PMIX_RANK");
  setenv("TESSERA_BACKEND", "cuda", 1);
  if (!getenv("TESSERA_NCCL_SHARED") || !rank) return;
  setenv("NCCL_HOSTID", rank, 1);
  setenv("NCCL_MNNVL_ENABLE", "0", 1);
  setenv("NCCL_IB_DISABLE", "1", 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
}
