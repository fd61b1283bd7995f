/* sequences_part.h - a file of samples while it is written; private to
 * sequences*.c.  All of it is Local. */
#pragma once

#include "io/dataset_make.h"
#include "io/sequences.h"

/* Arrays of the file, each of which is filled in order. */
typedef struct ts_stream {
  int64_t at; /* byte of the file */
  int32_t n;
  int64_t room[8192];
} ts_stream;

typedef struct ts_streams {
  const char *path;
  int fd;
  int32_t n;
  ts_stream *of; /* (n) */
} ts_streams;

ts_err ts_streams_put(ts_streams *, int which, int64_t value);
ts_err ts_streams_flush(ts_streams *);

/* sequences_side.c: features that have an id for each event of item, or seen:
 * of the side columns, and where they are kept of the times, which have one
 * more.  Events are by their places in ts_sequences.item. */
typedef struct ts_beside {
  const ts_sequences *s;
  int stream; /* the first one that is theirs: values, offsets, and so on */
  ts_dataset_bags bags[TS_SIDES + 1];
  int64_t n_put[TS_SIDES + 1]; /* ids */
} ts_beside;

int32_t ts_beside_features(const ts_sequences *); /* two streams each */
ts_beside ts_beside_of(const ts_sequences *, int stream);
/* A sample has events [FIRST, END), and the model is asked at the time of
 * ASKED: first all are counted, then the features are made, then all are put.
 */
void ts_beside_count(ts_beside *, int64_t first, int64_t end, int64_t asked);
ts_err ts_beside_make(ts_beside *, hid_t file, int64_t n_samples, ts_streams *);
ts_err ts_beside_put(ts_beside *, ts_streams *, int64_t first, int64_t end,
                     int64_t asked);
