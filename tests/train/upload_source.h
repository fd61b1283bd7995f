/* upload_source.h - made-up samples for tests of a batch's way to a device:
 * bags of every kind, batches of every size. */
#pragma once

#include "io/source.h"

/* Tables of most shardings and a sequence; features "o*" have one id in each
 * bag, the others none to some, by lengths or, every other feature, by
 * offsets.  N overrides, "key=value". */
ts_err us_config_create(ts_config **, const char *const *sets, int n);

/* Batches of GLOBAL samples over all ranks; but the last, which is short. */
void us_source_start(ts_source *, const ts_config *, int64_t n_samples);
