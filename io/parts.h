/* parts.h - which samples of each batch are whose: base/balance.h, on what a
 * source says of its samples.
 * Functions are Local. */
#pragma once

#include "base/balance.h"
#include "io/source.h"

typedef struct ts_parts ts_parts;

/* For batches of up to N samples of SOURCE.  Parts have as many samples each
 * where COSTS is NULL or the source does not say how long samples are. */
ts_err ts_parts_create(ts_parts **, ts_source *source, int64_t n, int n_ranks,
                       const ts_sample_costs *costs);
void ts_parts_destroy(ts_parts *);
/* Costs count, so that ts_parts_of reads how long samples are. */
bool ts_parts_cost(const ts_parts *);
/* *START (n_ranks + 1): rank r has samples [start[r], start[r + 1]) of the N
 * that are SAMPLES of the source, or those from FIRST on where that is NULL;
 * until the next call. */
ts_err ts_parts_of(ts_parts *, const int64_t **start, const int64_t *samples,
                   int64_t first, int64_t n);
/* Costs, added up over all batches so far: of the dearest part, of the dearest
 * part if parts were even, and of the mean part. */
typedef struct ts_parts_sums {
  double cut, even, mean;
} ts_parts_sums;
ts_parts_sums ts_parts_sums_of(const ts_parts *);
