/* test_cuda_graph_gpu.c - graphs of lanes on a GPU: the cases of
 * cuda_graph_cases.c.  Skipped where there is none. */
#include <stdlib.h>

#include "tests/runtime/cuda_graph_cases.c"

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "cuda", 1);
}
