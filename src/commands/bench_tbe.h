/* bench_tbe.h - what `tessera bench tbe` measures: a group of tables, and
 * batches for it.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "commands/bench.h"
#include "sparse/tbe.h"

enum { TS_TBE_INPUTS = 4 }; /* batches, used in turn */

typedef struct ts_tbe_case {
  int tables, dim, batch, pool, threads, iters;
  bool mean, weighted;
  int64_t rows, n, row_bytes; /* of a table; ids in a batch; of a row */
  double alpha;               /* of the power law; 0: uniform only */
  ts_table_config *config;
  const char *tier_dir; /* of tables in files */
  ts_device *device;
  ts_lane *lane;
  ts_tbe *tbe;
  /* Batches, memory of the host. */
  int64_t *offsets, *starts, *at;
  int32_t *ids[TS_TBE_INPUTS]; /* (n) */
  uint32_t *touched;           /* (n_touched) distinct rows, ascending */
  uint64_t *entries;           /* (n) row << 32 | bag, ascending */
  int64_t n_touched;
  float *weights;    /* (n) or NULL */
  float *out, *grad; /* (batch, tables * dim) */
} ts_tbe_case;

/* Sizes that follow from the others; USAGE where there is too much. */
ts_err ts_tbe_case_size(ts_tbe_case *);
/* Room for the batches, with all but the ids. */
ts_err ts_tbe_case_allocate(ts_tbe_case *);
void ts_tbe_case_free(ts_tbe_case *); /* what allocate took */
/* Ids of all batches: uniform, or by a power law with ALPHA > 0. */
void ts_tbe_case_draw(ts_tbe_case *, double alpha);
void ts_tbe_case_touch(ts_tbe_case *, int k); /* rows, entries of batch K */
/* THREADS: NAN where the device has none to name. */
void ts_tbe_case_print(const ts_tbe_case *, double threads,
                       const char *machine);
ts_tbe_input ts_tbe_case_input(const ts_tbe_case *, int i);
/* cool: fills the caches with other rows, so that the I-th measurement does not
 * find its own there; on the host.  passes: ms of batch I's forward and
 * backward pass of IN, from the call to the end of the lane's work; time: of
 * the host's arrays. */
void ts_tbe_case_cool(ts_tbe_case *, int i);
ts_err ts_tbe_case_passes(ts_tbe_case *, int i, const ts_tbe_input *in,
                          float *out, const float *grad, double *forward,
                          double *backward);
ts_err ts_tbe_case_time(ts_tbe_case *, int i, double *forward,
                        double *backward);

/* The batches' arrays but the ids, in memory of the case's device. */
typedef struct ts_tbe_lent {
  ts_buffer offsets, at, weights, out, grad;
} ts_tbe_lent;
/* BYTES at X of the host, copied into a new buffer of the device. */
ts_err ts_tbe_case_copy(ts_buffer *, const ts_tbe_case *, const void *x,
                        int64_t bytes, ts_tag);
ts_err ts_tbe_case_lend(ts_tbe_lent *, const ts_tbe_case *);
/* INPUT's arrays and ROWS, the device's. */
ts_tbe_input ts_tbe_lent_input(const ts_tbe_lent *, ts_tbe_input input,
                               const ts_buffer *rows);
void ts_tbe_lent_reset(ts_tbe_lent *);
/* Creates the group; initial weights are drawn. */
ts_err ts_tbe_case_group(ts_tbe_case *, const ts_kernels *);

/* Bits of numbers below N + 1. */
int ts_tbe_bits(int64_t n);
/* *N distinct rows of a batch, of all batches the mean. */
ts_err ts_tbe_case_distinct(const ts_tbe_case *, int64_t *n);
/* Bytes that such a batch reads and writes at least; backward with the
 * optimizer. */
int64_t ts_tbe_forward_bytes(const ts_tbe_case *, int64_t distinct);
int64_t ts_tbe_backward_bytes(const ts_tbe_case *, int64_t distinct);

/* Forward and backward with the optimizer on CASE's device, by its own clock,
 * beside a copy in its memory: bytes that have to move, and their share of
 * the copy's.  Prints a table: a line for uniform ids and one for the power
 * law; with SWEEP, of dims, pooling and types of its own choice. */
ts_err ts_bench_tbe_device(ts_tbe_case *, const ts_kernels *, bool sweep);
/* CASE's tables beside tables of any id (rows = "dynamic") which have as many
 * ids, LOAD of their capacity: forward and backward of both in turns, and what
 * it takes to find the ids' rows.  Prints a table as above. */
ts_err ts_bench_tbe_dynamic(ts_tbe_case *, const ts_kernels *, double load);
