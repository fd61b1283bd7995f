/* add_row.h - a multiple of a row added to another.  Local. */
#pragma once

#include <stdint.h>

#include "base/clones.h"

TS_CLONES
static void ts_add_row(float *restrict to, float g, const float *restrict x,
                       int32_t n) {
  for (int32_t c = 0; c < n; c++) to[c] += g * x[c];
}
