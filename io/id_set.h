/* id_set.h - a set of ids that is emptied in no time: those of one sample after
 * the other.  All zero it is empty.  Functions are Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* An entry holds where its stamp is the set's. */
typedef struct ts_id_set {
  int64_t *id;
  uint32_t *stamp;
  uint64_t mask;
  uint32_t now;
} ts_id_set;

void ts_id_set_reset(ts_id_set *); /* gives its memory back */
/* Empties it; room for N ids. */
ts_err ts_id_set_begin(ts_id_set *, int64_t n);
void ts_id_set_add(ts_id_set *, int64_t id);
bool ts_id_set_has(const ts_id_set *, int64_t id);
