/* fault.c - the point that is armed, and how often it was passed. */
#include "base/fault.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static char point[16];
static int wanted; /* passage */
static atomic_bool armed;
static atomic_int passed;

void ts_fault_set(const char *text, int rank) {
  int of;
  atomic_store(&armed, false);
  atomic_store(&passed, 0);
  if (!text || sscanf(text, "%15[^:]:%d:%d", point, &of, &wanted) != 3) return;
  atomic_store(&armed, of == rank);
}

bool ts_fault(const char *what) {
  if (!atomic_load_explicit(&armed, memory_order_relaxed)) return false;
  if (strcmp(what, point) != 0) return false;
  return atomic_fetch_add(&passed, 1) + 1 == wanted;
}
