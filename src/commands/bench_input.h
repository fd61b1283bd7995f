/* bench_input.h - what `bench input` measures of each input (bench_input.c),
 * and its table (bench_input_table.c).
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "commands/bench_copy.h"
#include "train/pipeline.h"

enum { TS_INPUT_KJT, TS_INPUT_COLUMNS, TS_INPUTS };

/* Times of one input, a number per batch or step, in ms. */
typedef struct ts_times {
  double *dist, *pack, *exchange, *unpack; /* (iters) */
  double *step;                            /* (rounds * steps) */
  double concat;                           /* per batch, in the reader */
  int64_t n_ids, n_bytes;                  /* of `iters` batches, all ranks */
  int64_t n_sent;                          /* of them into messages */
  double n_copied; /* times that the reader copied an id */
  ts_bench_copies copies;
} ts_times;

typedef struct ts_input_bench {
  ts_trainer *t;
  ts_config *config[TS_INPUTS];
  ts_source *source[TS_INPUTS];
  int scale, iters, steps, rounds;
  int64_t global_batch; /* of the deck */
  ts_times times[TS_INPUTS];
} ts_input_bench;

void ts_input_print_head(const ts_input_bench *);
/* Prints, for batches of K times the deck's size, a line per input with the
 * slowest rank's times, and their ratio; sorts the times.  Collective. */
ts_err ts_input_print(ts_input_bench *, int k);
