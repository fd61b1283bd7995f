/* segments.h - an evaluation's figures by the values of a column of the data,
 * such as a country: `tessera eval --by COLUMN`.
 * Functions are Local unless they say Collective. */
#pragma once

#include "train/trainer.h"

typedef struct ts_segments ts_segments;

/* Reads COLUMN of data.eval once, each rank its share.  The values that most
 * samples have, TS_SEGMENTS at most, get figures of their own, all others one
 * line.  Errors are agreed.  Collective. */
enum { TS_SEGMENTS = 50 };
ts_err ts_segments_open(ts_segments **, ts_trainer *, const char *column);
void ts_segments_close(ts_segments *); /* NULL is fine */
/* ts_eval_hooks.fn: keeps 12 bytes a sample and task, as evaluations do. */
ts_err ts_segments_add(void *segments, const ts_batch *,
                       const float *predictions);
/* What ts_report_eval says, of each.  Collective. */
ts_err ts_segments_report(ts_segments *);
