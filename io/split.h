/* split.h - the samples of data.train that a run trains on: data.split, which
 * takes those for validation out of it, and data.negatives.
 *
 * Who is where depends on the data and the deck alone, so it is the same on any
 * number of ranks, and after a restart.
 * Functions are Local unless they say Collective. */
#pragma once

#include <string.h>

#include "io/checkpoint.h"
#include "io/source.h"

/* data.split has a part for validation. */
static inline bool ts_split_is_on(const ts_config *c) {
  return c->data.split.valid > 0 || !strncmp(c->data.split.by, "column:", 7);
}
/* And SPLIT is one of the two. */
bool ts_split_parts(const ts_config *, ts_split);
/* All of data.train is wanted as it is, whatever the deck says. */
void ts_split_forget(ts_config *);
/* *S, all of data.train, becomes the part that SPLIT has.  Collective. */
ts_err ts_split_take(ts_source **s, ts_split, ts_comm *);
/* A date and time, or a number, to seconds or that number; false where CELL
 * (its first N bytes, or up to a NUL) is neither. */
bool ts_split_time(const char *cell, size_t n, double *time);

/* Leaves samples with label 0 out of *S, which is to be trained on, as
 * data.negatives says, and reads all of it for that.  Collective. */
ts_err ts_negatives_take(ts_source **s, ts_comm *);
/* What a prediction P of a model that was trained with a share R of the
 * negatives says of all: He et al., 2014, 6.3. */
static inline double ts_negatives_correct(double p, double r) {
  return p / (p + (1 - p) / r);
}
/* R of a checkpoint, 1 where it has none, and a word in the log where there is
 * something to correct, or the deck says otherwise. */
double ts_negatives_of(const ts_config *, const ts_ckpt *);

/* The deck's split and negatives into CKPT; an error that names the key by
 * which the deck has another part of the samples than CKPT. */
ts_err ts_split_save(const ts_config *, ts_ckpt *ckpt);
ts_err ts_split_check(const ts_config *, const ts_ckpt *ckpt);
