/* embeddings.h - the rows of tables out of a checkpoint, with their words. */
#pragma once

#include "base/config.h"
#include "base/err.h"

/* The rows of FEATURES' tables to OUT; a feature without a vocabulary has the
 * numbers of the rows.  Collective. */
ts_err ts_run_embeddings(const char *deck, const char *const *sets, int n_sets,
                         const char *checkpoint, const char *out,
                         const ts_strings *features);
