/* register.c - backend "emulated" for a build of the program. */
#include "runtime/backends.h"
#include "tests/support/emulated/emulated.h"

__attribute__((constructor)) static void add(void) {
  ts_backend_add(&ts_backend_emulated);
}
