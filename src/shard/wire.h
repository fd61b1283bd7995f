/* wire.h - coding the sections of a sharding's matrix; private to shard/.
 *
 * In a task of a lane: start, sections of whatever blocks and ranks, end.
 * Kernels run as soon as there are enough pieces for one, the last at the
 * end.  All of it is Local. */
#pragma once

#include "shard/ebc_batch.h"
#include "shard/view_kernels.h"

typedef struct ts_coder {
  const ts_sharding_batch *lf;
  const ts_kernels *kernels;
  ts_code_args args; /* n_parts and part_bytes may be set after start; not
                        with f32 */
} ts_coder;

void ts_coder_start(ts_coder *, const ts_sharding_batch *, ts_codec,
                    bool encode);
/* The section of RANK in a matrix of BLOCK's layout, at X; *WIRE moves behind
 * its coded rows.  Both are device memory. */
ts_err ts_coder_section(ts_coder *, int block, int rank, float *x, char **wire);
ts_err ts_coder_end(ts_coder *);
