/* register.c - backend "emulated" for a build of the program; with
 * TESSERA_EMULATED_CUDA in the environment by the name "cuda", too. */
#include <stdlib.h>

#include "runtime/backends.h"
#include "tests/support/emulated/emulated.h"

__attribute__((constructor)) static void add(void) {
  ts_backend_add(&ts_backend_emulated);
  if (getenv("TESSERA_EMULATED_CUDA"))
    ts_backend_replace(&ts_backend_emulated_cuda);
}
