/* test_comm_cuda.c - the contract of collectives on memory of GPUs; through
 * pinned memory on any number of them, by NCCL where each rank has its own.
 * Skipped where there is no GPU.
 * ranks: 1 2 4
 * seconds: 400 */
#include "test_comm_device.c"

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "cuda", 1);
}
