/* bench_pipeline.h - what `tessera bench pipeline` measures; private to
 * bench_pipeline*.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "commands/bench.h"
#include "train/pipeline.h"

/* A row of the table. */
typedef struct ts_pipeline_case {
  const char *kind;
  ts_pipeline_variant variant;
  bool plain; /* run.graph = "off" */
  bool in_backward;
  /* (rounds, steps) each, in ms: the slowest rank's step; the ranks' means
   * of messages that nothing hid, of input dist's messages, and of those of
   * them that nothing hid. */
  double *ms, *exposed, *input, *input_exposed;
  int64_t alloc, reserved; /* bytes, P90 over ranks */
  int64_t losses;          /* a digest of all losses of a round */
  /* Rank 0's rows of slow memory in the last round: ms a step, of them with
   * compute waiting; bytes. */
  double fetch, waited;
  int64_t scratch;
} ts_pipeline_case;

typedef struct ts_pipeline_bench {
  const char *deck;
  const char *const *sets;
  int n_sets;
  double scale;
  int steps, warm, rounds;
  bool plain;        /* with rows without graphs */
  const char *only;  /* rows, with commas between; "": all */
  const char *trace; /* files; "": none */
  ts_pipeline_case *cases;
  int n_cases;
  /* of all cases alike */
  int n_ranks, n_threads;
  int64_t global_batch;
  char ids[TS_BENCH_IDS]; /* how they are distributed */
  double delay_us, delay_gbytes_per_s;
  char *plan;        /* text of the first case's */
  ts_device *device; /* whose memory they are in; NULL: plain */
  ts_batch_store **stores;
} ts_pipeline_bench;

/* bench_pipeline_table.c.  Times are sorted there. */
void ts_pipeline_bench_head(const ts_pipeline_bench *);
void ts_pipeline_bench_print(const ts_pipeline_bench *);
