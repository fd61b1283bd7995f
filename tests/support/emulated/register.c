/* register.c - backend "emulated" for a build of the program; with
 * TESSERA_EMULATED_CUDA in the environment by the name "cuda", too, and with
 * TESSERA_FAKE_PAGES on a GPU that reads the host's pages by itself. */
#include <stdlib.h>

#include "runtime/backends.h"
#include "tests/support/emulated/emulated.h"

__attribute__((constructor)) static void add(void) {
  static const ts_emulated_gpu gpu = {.reads_pages = true};
  ts_backend_add(&ts_backend_emulated);
  if (getenv("TESSERA_EMULATED_CUDA"))
    ts_backend_replace(&ts_backend_emulated_cuda);
  if (getenv("TESSERA_FAKE_PAGES")) ts_emulated_set_gpu(&gpu);
}
