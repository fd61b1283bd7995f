/* rows_impl.h - the lookup's versions, one for each instruction set.
 * All of it is Local. */
#pragma once

#include "serve/rows.h"

void ts_rows_look_up_ref(const ts_rows_lookup *);
void ts_rows_look_up_avx2(const ts_rows_lookup *);
void ts_rows_look_up_avx512(const ts_rows_lookup *);
