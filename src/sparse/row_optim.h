/* row_optim.h - row optimizers: what happens to a row that got a gradient.
 *
 * One file per optimizer or family (optim_sgd.c, optim_adagrad.c, ...), listed
 * in base/kinds.h.  Formulas: FBGEMM's, with our own guards (a norm
 * of zero gives trust ratio 1; step counts backward passes only).  All are
 * lazy: rows that got no gradient keep weights and state.
 *
 *   g   summed gradient of the row (dim), f32
 *   w   the row, f32 (others are widened, updated in f32 and rounded
 *       stochastically by (seed, step, table, row, column))
 *
 * An update is zero to two rounds of row statistics, then apply.  Statistics
 * are sums over the row's elements, so that column shards can add theirs
 * (in shard order) before apply.
 *
 * A table with `ema` keeps the running mean of its rows, too, whatever its
 * optimizer: e <- e + (1 - d) (w - e) after each pass of the table, e beginning
 * as w, which is also what the dense optimizers keep.  Between two updates w
 * stands still, so a row is brought up to date when it is updated: n passes
 * later e <- e + (1 - d^n) (w - e), with w as it was before this update.  So
 * state ema holds the mean up to the pass before ema_pass, which the row's last
 * update had (0: none yet, and e is w).  All of it is Local. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/dtype.h"
#include "base/err.h"

/* States of optimizers, and the two of a mean. */
enum {
  TS_ROW_OWN_STATES_MAX = 2,
  TS_ROW_STATES_MAX = TS_ROW_OWN_STATES_MAX + 2,
  TS_ROW_STATS_MAX = 2,
  TS_ROW_ROUNDS_MAX = 2
};

/* Versions of a function by instruction set: one body, compiled for each
 * (sparse/isa.h).  All give the same bits. */
enum { TS_ISA_REF, TS_ISA_AVX2, TS_ISA_AVX512, TS_ISA_COUNT };

/* Settings of one table for one step, ready for use. */
typedef struct ts_row_hyper {
  float lr; /* after the schedule */
  float eps, beta1, beta2, momentum, eta, weight_decay;
  ts_wd_mode weight_decay_mode;
  float correction1; /* 1 / (1 - beta1^k), k backward passes from 1 */
  float correction2; /* 1 / (1 - beta2^k) */
  /* Of a row after its update; 0: none.  Kernel row_update alone, of whole
   * rows: a row longer than that is multiplied by max_norm / (|w| + 1e-7). */
  float max_norm;
  double ema; /* d of rows' means; where the optimizer averages */
} ts_row_hyper;

/* The row at hand. */
typedef struct ts_row {
  float *w;                        /* (dim) */
  const float *g;                  /* (dim) */
  float *state[TS_ROW_STATES_MAX]; /* (dim) or (1), by the optimizer */
  int32_t dim;                     /* of this shard of the row */
  int32_t row_dim;                 /* of the whole row */
} ts_row;

/* Which of the deck's options the optimizer has. */
enum {
  TS_OPT_EPS = 1,
  TS_OPT_BETAS = 2,
  TS_OPT_MOMENTUM = 4,
  TS_OPT_ETA = 8,
  TS_OPT_WD_L2 = 16,       /* weight_decay_mode "l2" */
  TS_OPT_WD_DECOUPLED = 32 /* "decoupled" */
};

typedef struct ts_row_state_desc {
  const char *name; /* in checkpoints: sum, exp_avg, exp_avg_sq, momentum */
  bool per_row;     /* one float per row, else dim floats per row */
} ts_row_state_desc;

typedef void (*ts_row_round)(const ts_row *, const ts_row_hyper *, float *stat);
typedef void (*ts_row_apply)(const ts_row *, const ts_row_hyper *,
                             const float *stat);

typedef struct ts_row_optim {
  const char *kind;
  int options; /* TS_OPT_* */
  int n_states;
  ts_row_state_desc state[TS_ROW_STATES_MAX];
  bool averages; /* its last two states are ema (dim) and ema_pass (1) */
  int n_rounds;  /* 0 to 2 */
  /* Round I: adds this shard's part to stat (TS_ROW_STATS_MAX floats, zeroed
   * before round 0, kept over rounds).  May update per-element state. */
  ts_row_round round[TS_ROW_ROUNDS_MAX][TS_ISA_COUNT];
  ts_row_apply apply[TS_ISA_COUNT];
} ts_row_optim;

const ts_row_optim *ts_row_optim_find(const char *kind); /* NULL: unknown */

/* A table's own: that of its kind, with the states of a mean where the table
 * has one.  Of an unknown kind: nothing. */
ts_row_optim ts_row_optim_of(const ts_table_config *);
/* Bytes of the states of COLUMNS of a table's row: those of as many floats as
 * the row has, and where ALL is true those of one, too. */
int64_t ts_row_state_bytes(const ts_table_config *, int32_t columns, bool all);

/* What the mean of a row takes of w after N passes in which w stood still:
 * 1 - d^N, by squares in double, so that all devices have the same bits. */
static inline float ts_row_ema_rest(double d, int64_t n) {
  double keep = 1;
  for (; n > 0; n /= 2, d *= d)
    if (n % 2) keep *= d;
  return (float)(1.0 - keep);
}

/* Row W (n) becomes its mean at the end of pass AT, by mean E and the pass of
 * its last update. */
static inline void ts_row_take_mean(float *w, const float *e, float last,
                                    int64_t n, double d, int64_t at) {
  if (!(last > 0)) return;
  const float rest = ts_row_ema_rest(d, at - (int64_t)last + 1);
  for (int64_t i = 0; i < n; i++) w[i] = e[i] + rest * (w[i] - e[i]);
}

/* Kernel average_rows: rows as their means are at the end of pass PASS,
 * rounded to nearest.  Row keys[i] of the group, or i, lies at place[i], or
 * where its number says. */
typedef struct ts_average_rows_args {
  void *out;       /* (n, dim) dtype; may be weight, where keys are NULL */
  uint32_t *index; /* (n) = i, to look rows of out up; or NULL */
  const void *weight, *lines; /* as in ts_row_update_args, like the rest */
  const float *ema, *ema_lines, *ema_pass;
  uint32_t first_line;
  const uint32_t *keys, *place; /* (n) or NULL */
  int64_t n;
  ts_dtype dtype;
  int32_t dim;
  double decay;
  int64_t pass;
} ts_average_rows_args;

/* Checks a table's settings (options that the kind does not have are a DECK
 * error that names table, option and kind) and fills defaults (FBGEMM's: lr
 * 0.01, eps 1e-8, betas 0.9 0.999, momentum 0.9, eta 0.001).  Local. */
ts_err ts_row_optim_check(ts_optim_config *, const char *table);

/* Settings for backward pass K (from 1) with the schedule's factor. */
ts_row_hyper ts_row_hyper_at(const ts_optim_config *, double lr_factor,
                             int64_t k);

/* Kernel row_update: applies summed contributions to each distinct row.
 * Entry j (in sorted order) adds to row keys[j] of the group the vector at
 * grad + grad_at[bag] times (weights ? weights[i] : 1) * (bag_scale ?
 * bag_scale[bag] : 1), where i = order[j] and bag = bag_of[i]; without
 * weights order[j] is the bag itself and bag_of is NULL.  Runs of equal keys
 * are summed in order, cut every 256 entries from their start: partial sums,
 * then their sum; never cut by thread. */
typedef struct ts_row_update_args {
  const ts_row_optim *optim;
  const ts_row_hyper *hyper; /* (n_tables) host memory */
  void *weight;              /* (rows, dim) dtype */
  ts_dtype dtype;
  int32_t dim;
  float *state[TS_ROW_STATES_MAX]; /* (rows, dim) or (rows) f32, or NULL */
  const uint32_t *keys;            /* (n) sorted rows of the group */
  /* (n) Where the row of entry j lies in weight and in states of dim floats,
   * at the first entry of each row; NULL: a row is its own place. */
  const uint32_t *place;
  /* On devices of discrete memory, else NULL: places from FIRST_LINE on are
   * not in weight and state but here, (n, dim) each. */
  void *lines;
  float *line_state[TS_ROW_STATES_MAX];
  uint32_t first_line;
  const uint32_t *runs;  /* (1 + n) of the sort, or NULL: a GPU finds them */
  const uint32_t *order; /* (n) */
  int64_t n;
  const float *grad;
  const int64_t *grad_at; /* (bags) floats */
  const uint32_t *bag_of; /* (n) or NULL */
  const float *weights;   /* (n) or NULL */
  const float *bag_scale; /* (bags) or NULL */
  /* Tables of the group: rows [row_base[t], row_base[t + 1]). */
  const int64_t *row_base; /* (n_tables + 1) host memory */
  int32_t n_tables;
  /* For stochastic rounding, host memory, too: global table number and first
   * global row of each table's shard, seed and step. */
  const int32_t *row_dim;   /* (n_tables) columns of the whole row */
  const int32_t *table_id;  /* (n_tables) */
  const int64_t *first_row; /* (n_tables) */
  const int32_t *first_col; /* (n_tables) */
  const int64_t *row_id; /* (rows) of dynamic tables, device memory: which id's
                            a row is, in place of its global number; or NULL */
  uint64_t seed;
  int64_t step;
  /* (rows) f32 or NULL.  An update adds to score[key] the L2 norm of the row's
   * sum as the optimizer gets it: of the whole step, weights of ids and shares
   * of bags in it, before weight decay; max_norm is of rows, and the deck's
   * clipping of dense gradients. */
  float *score;
  /* When not NULL: no update; the sum of run r goes to sum_out[r * dim], its
   * key to key_out[r], and their number to *n_out, which is there when the
   * call returns where it is the host's memory; NULL: nobody asks.  For
   * data_parallel. */
  float *sum_out;
  uint32_t *key_out;
  int64_t *n_out;
  void *work; /* the host's: ts_row_update_work_bytes; NULL: allocated */
} ts_row_update_args;

/* Scratch of an update of N entries; it may hold anything. */
size_t ts_row_update_work_bytes(int64_t n, int32_t dim, int n_threads);

/* Kernel row_stage: one round of the optimizer, or its end, over rows whose
 * gradients are summed already; for column shards.  Round K >= 0 replaces
 * stats by this shard's part; ROUND < 0 applies with stats of whole rows. */
typedef struct ts_row_stage_args {
  const ts_row_update_args *update; /* optimizer, tables, weights, states */
  const uint32_t *keys;             /* (n) distinct, ascending */
  const float *sums;                /* (n, dim) */
  const uint32_t *place;            /* (n) or NULL, as above */
  int64_t n;
  float *stats; /* (n, TS_ROW_STATS_MAX) */
  int round;
} ts_row_stage_args;
