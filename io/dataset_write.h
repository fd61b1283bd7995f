/* dataset_write.h - any data source as a data set file, or as Criteo TSV. */
#pragma once

#include "io/source.h"

/* All samples of SOURCE to PATH, each rank its part by pwrite at places that
 * are agreed beforehand; under a temporary name until all is written.
 * Collective. */
ts_err ts_dataset_write(const char *path, ts_source *, ts_comm *);

/* As Criteo's click log (13 or no dense features, one id per feature, at most
 * 26).  Ranks write one after the other.  Collective. */
ts_err ts_criteo_write(const char *path, ts_source *, ts_comm *);
