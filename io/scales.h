/* scales.h - numbers of the files on their way into the model: transforms of
 * dense columns, and features whose ids are the bucket that a number is in
 * (encoding bucketise), whatever format they stand in.  Means, limits and
 * quantiles are those of the samples that are trained on, learnt once, kept in
 * the checkpoint and applied to whatever is read later.
 *
 * INPUTS are the dense columns in the deck's order, then the bucketised
 * features in theirs, one for all features of one column.  A missing number is
 * NAN: it teaches nothing, and becomes 0 in the dense row (all numbers of its
 * column), or row 0 of a table.
 *
 * Quantiles are those of at most TS_SCALES_SAMPLE numbers of an input, those of
 * the samples whose position has the lowest hashes, so that they are the same
 * on any number of ranks; up to so many samples they are exact.
 * Functions are Local unless they say Collective. */
#pragma once

#include <math.h>

#include "base/config.h"
#include "base/str.h"
#include "runtime/comm.h"

enum { TS_SCALES_SAMPLE = 100000 };

typedef struct ts_scales ts_scales;

/* By the deck's columns; USUAL: the transform of those that say none, and what
 * a reader does itself: *S is NULL where nothing else is asked for.  USUAL
 * NULL: data.csv.dense_transform, and *S is there in any case. */
ts_err ts_scales_create(ts_scales **s, const ts_config *, const char *usual);
void ts_scales_destroy(ts_scales *);

int32_t ts_scales_count(const ts_scales *);   /* inputs; of NULL 0 */
int32_t ts_scales_n_dense(const ts_scales *); /* of these dense columns */
/* The input of a bucketised FEATURE; -1: its ids are made otherwise. */
int32_t ts_scales_of_feature(const ts_scales *, int32_t feature);
/* Input I's number is taken as it is. */
bool ts_scales_is_plain(const ts_scales *, int32_t i);
/* Input I's name in the deck. */
const char *ts_scales_name(const ts_scales *, int32_t i);

/* ---- from the data ------------------------------------------------------- */

/* Some of it is learnt; of NULL nothing is. */
bool ts_scales_learn_some(const ts_scales *);
/* N samples are to come, each rank's own [*FIRST, *END); KEPT: a bit for each
 * that counts (io/subset.h), NULL: all do.  NULL scales: a rank's share. */
ts_err ts_scales_begin(ts_scales *, int64_t n, const uint64_t *kept, ts_comm *,
                       int64_t *first, int64_t *end);
/* Input I of SAMPLE, this rank's, in rising order, is X. */
ts_err ts_scales_learn(ts_scales *, int32_t i, int64_t sample, double x);
/* All ranks know what all have met; what can't be scaled is noted.
 * Collective. */
ts_err ts_scales_settle(ts_scales *, ts_comm *);

/* Appends what was learnt; takes it from STATE, which may go on with
 * vocabularies (io/vocabulary.h).  NULL scales: nothing. */
ts_err ts_scales_save(const ts_scales *, ts_str *text);
ts_err ts_scales_load(ts_scales *, const char *state);

/* ---- to the model -------------------------------------------------------- */

/* Input I, a dense column's X, to its place in ROW, a sample's dense row
 * (base/dense_columns.h). */
void ts_scales_put(const ts_scales *, int32_t i, double x, float *row);
/* Input I, a bucketised feature's: 0 for NAN, else 1 and the number of edges
 * that are X or less. */
int64_t ts_scales_bucket(const ts_scales *, int32_t i, double x);
/* Rows of FEATURE's table that its buckets need; 0: it has none. */
int64_t ts_scales_rows(const ts_scales *, int32_t feature);
