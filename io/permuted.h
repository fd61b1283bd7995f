/* permuted.h - a source with the values of one feature given to other samples:
 * what it says is lost, and what it looks like by itself stays.
 *
 * A bag goes as a whole, with its weights.  Sample i gets what sample p(i) has,
 * with p the permutation of all samples (base/permute.h) of (run.seed, REPEAT,
 * WHAT): the same on any number of ranks.  Nothing is kept for it; each batch
 * is read twice, as its samples and as those.  All of it is Local. */
#pragma once

#include "io/source.h"

/* Of INNER, which stays the caller's and is read by nobody else meanwhile; an
 * error where its samples can't be had from anywhere, for which WHO asks. */
ts_err ts_permuted_open(ts_source **, ts_source *inner, const char *who);
/* WHAT: a feature, the first of its column, for all of them; or, from their
 * number on, a dense input.  Between passes. */
void ts_permuted_choose(ts_source *, int32_t what, int32_t repeat);
