/* bench.h - the benchmarks behind `tessera bench`.
 * ts_bench_attention to ts_bench_tbe are Collective; all else is Local. */
#pragma once

#include "commands/commands.h"
#include "train/trainer.h"

ts_err ts_bench_attention(const ts_args *);
ts_err ts_bench_cache(const ts_args *);
ts_err ts_bench_checkpoint(const ts_args *);
ts_err ts_bench_input(const ts_args *);
ts_err ts_bench_pipeline(const ts_args *);
ts_err ts_bench_read(const ts_args *);
ts_err ts_bench_rows_run(const ts_args *);
ts_err ts_bench_step(const ts_args *);
ts_err ts_bench_tbe(const ts_args *);

/* A key=value that a benchmark takes: a number, cut to a whole one for an int,
 * one of some words or any word, whichever of the pointers is set; what it
 * points to is the default. */
typedef struct ts_bench_key {
  const char *name;
  double *number, least, most;
  int *whole;
  int *choice; /* index of the word in CHOICES, "f32|bf16|f16" */
  const char *choices;
  const char **word;
  const char *help;
} ts_bench_key;

/* TO: which of the pointers, and so the kind. */
#define TS_BENCH_NUMBER(name_, to, least_, most_, help_)                       \
  { .name = name_, .number = to, .least = least_, .most = most_, .help = help_ }
#define TS_BENCH_WHOLE(name_, to, least_, most_, help_)                        \
  { .name = name_, .whole = to, .least = least_, .most = most_, .help = help_ }
#define TS_BENCH_CHOICE(name_, to, choices_, help_)                            \
  { .name = name_, .choice = to, .choices = choices_, .help = help_ }
#define TS_BENCH_WORD(name_, to, help_)                                        \
  { .name = name_, .word = to, .help = help_ }

/* Reads the words of the command line from number FIRST on; keys that are
 * not among the N_KEYS and values that don't fit are USAGE errors.  With --help
 * prints them with their defaults and ends with STOPPED. */
ts_err ts_bench_keys(const ts_args *, int first, const ts_bench_key *,
                     int n_keys);

/* N batches of the source, which follow each other, into STORES, memory of the
 * device (NULL: plain); IDS: how their ids are distributed, what rates depend
 * on. */
enum { TS_BENCH_IDS = 96 };
ts_err ts_bench_batches(ts_batch_store **stores, int n, const ts_trainer *,
                        ts_source *, ts_device *, char ids[TS_BENCH_IDS]);

/* Sorts and returns the middle one. */
double ts_bench_median(double *x, int n);
/* The last of the lower K tenths of N sorted numbers. */
double ts_bench_tenth(const double *sorted, int n, int k);

/* A number below ROWS by I and K: uniform, or of a bounded power law,
 * scattered, where ALPHA > 0. */
int32_t ts_bench_draw(int64_t i, uint32_t k, int64_t rows, double alpha);

/* Rows of several tables, one after the other in memory. */
typedef struct ts_bench_rows {
  const void *first;
  int64_t row_bytes, rows_per_table;
  const int32_t *ids; /* (n_ids) row in its table, table by table */
  int64_t n_ids, ids_per_table;
} ts_bench_rows;

/* The memory's speed in simple loops on all threads: seconds for reading the
 * rows of all ids with prefetch, and for reading BYTES one after the other.
 * Nothing is kept of the data. */
double ts_bench_read_rows(const ts_bench_rows *);
double ts_bench_read_stream(const void *, int64_t bytes);
/* The rows' sums by bag, POOL ids each, written where a lookup writes them, in
 * its order and over its threads: OUT + at[bag], dim floats. */
typedef struct ts_bench_bags {
  const ts_bench_rows *rows;
  const int64_t *at; /* (bags) */
  float *out;
  int64_t pool, dim;
} ts_bench_bags;
double ts_bench_pool_rows(const ts_bench_bags *);

/* What a backward pass reads and writes: by entry its bag's gradient (DIM
 * floats at grad + at[bag]), its row and the row's states, which keep their
 * values. */
typedef struct ts_bench_rewrite {
  const uint64_t *entries; /* (n) row << 32 | bag, ascending */
  int64_t n, dim, row_bytes;
  const int64_t *at;
  const float *grad;
  char *first;
  float *state[TS_ROW_STATES_MAX];
  int32_t cols[TS_ROW_STATES_MAX];
  int n_states;
} ts_bench_rewrite;
double ts_bench_rewrite_rows(const ts_bench_rewrite *);
