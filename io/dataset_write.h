/* dataset_write.h - any data source as a data set file, or as Criteo TSV. */
#pragma once

#include "io/source.h"

/* All samples of SOURCE to PATH, each rank its part by pwrite at places that
 * are agreed beforehand; under a temporary name until all is written.
 * Collective. */
ts_err ts_dataset_write(const char *path, ts_source *, ts_comm *);

/* An error where features F and G of B, of one column, differ: one column can't
 * have both.  Local. */
ts_err ts_dataset_check_same(const ts_config *, const ts_batch *b, int32_t f,
                             int32_t g);

/* As Criteo's click log (13 or no dense features, one id per feature, at most
 * 26).  Ranks write one after the other.  Collective. */
ts_err ts_criteo_write(const char *path, ts_source *, ts_comm *);
