/* shard_contract.h - what every sharding type must do, whatever it does
 * inside: train a deck as one process with whole tables would.
 *
 * A run takes a deck of tables through some steps over all ranks and holds
 * pooled embeddings, weights and optimizer state against a reference in
 * double that knows nothing of shards; embeddings per id against the rows
 * themselves, bit for bit.  What two runs gave can be compared
 * bit by bit. */
#pragma once

#include "tests/support/harness.h"
#include "base/kinds.h"
#include "shard/codec.h"
#include "shard/ebc.h"

enum {
  CT_RANKS = 4,
  CT_TABLES = 32,
  CT_FEATURES = 72,
  CT_BATCH = 8,      /* most samples of a rank */
  CT_IDS = 640,      /* most ids of a feature in a global batch */
  CT_DIM = 16,       /* most columns of a table */
  CT_STEPS = 10,     /* most steps of a run */
  CT_PARTS = 3,      /* of a table: weights and up to two states */
  CT_POSITIONS = 320 /* most weights of a feature processor */
};

/* ---- ranks and nodes (shard_deck.c) -------------------------------------- */

typedef struct ct_world {
  ts_device *device;
  ts_world *world;
  ts_comm *comm;
  ts_lane *data, *compute;
  ts_nodes *nodes;
  ts_kernels kernels;
  int rank, size, n_nodes;
} ct_world;

/* N_NODES virtual nodes of consecutive ranks; the last may be smaller. */
void ct_world_start(ct_world *, int n_nodes, bool serial);
/* stop frees the arrays that runs have left; restart keeps them. */
void ct_world_stop(ct_world *);
void ct_world_restart(ct_world *, bool serial);

/* CT_TEST(name, serial) { ... } is a test of all types, KIND, on one and two
 * nodes, W, as far as this build and this number of ranks have them.  Under
 * sanitizers, which watch memory, a type is on either, every other test of it
 * on the same. */
enum { CT_CASES = 2 * TS_SHARD_COUNT };
#define CT_TEST(test, serial)                                                  \
  static void test##_of(ct_world *, ts_shard_kind);                            \
  TS_TESTS(test, 0, CT_CASES) {                                                \
    ct_case(_i, __LINE__, serial, test##_of);                                  \
  }                                                                            \
  static void test##_of(ct_world *w, ts_shard_kind kind)
void ct_case(int i, int line, bool serial,
             void (*test)(ct_world *, ts_shard_kind));

/* ---- decks (shard_deck.c) ------------------------------------------------ */

/* One table.  BAGS has a letter for each feature, a capital where it is in
 * data.dedup:
 *   o  one id in every bag     r  bags that come again, or nearly so
 *   m  none to five ids        e  no id at all in every other step
 *   l  a bag of 256 ids, one of 300  h  ids of the last rows only */
typedef struct ct_table {
  const char *bags;
  int64_t rows;
  int32_t dim;
  ts_shard_kind kind;
  const char *optimizer;
  ts_pooling pooling;
  bool weighted;
  ts_dtype dtype;
  double weight_decay;
  ts_wd_mode decay;
  int32_t max_length; /* of position_weighted; 0: none */
  double max_norm;    /* 0: none */
} ct_table;

typedef struct ct_deck {
  ts_config config; /* points into the rest: never copied */
  ts_table_config tables[CT_TABLES];
  char table_names[CT_TABLES][16];
  int64_t ranks[CT_TABLES][CT_RANKS];
  int32_t n_features;
  char feature_names[CT_FEATURES][32];
  char *features[CT_FEATURES], *dedup[CT_FEATURES];
  char bags[CT_FEATURES]; /* small letters */
  int32_t table_of[CT_FEATURES];
  int32_t n_dedup;
  /* Feature processors: lengths, weights as they are (a run begins with its
   * own), and the rate at which the run trains them.  SPELLED: the data has
   * the weights instead. */
  int32_t max_length[CT_TABLES];
  float position[CT_FEATURES][CT_POSITIONS];
  float position_rate;
  bool spelled;
  /* Where each part of each table lies in a flat array of N numbers. */
  int64_t at[CT_TABLES][CT_PARTS], n;
  int32_t cols[CT_TABLES][CT_PARTS], n_parts[CT_TABLES];
} ct_deck;

void ct_deck_start(ct_deck *);
void ct_deck_add(ct_deck *, const ct_table *);
/* `ranks` of the table that was added last. */
void ct_deck_ranks(ct_deck *, const int *ranks, int n);
/* All tables of one kind; data.dedup as the letters say or empty. */
void ct_deck_shard(ct_deck *, ts_shard_kind);
void ct_deck_dedup(ct_deck *, bool on);
/* ON: tables with a feature processor are weighted ones instead. */
void ct_deck_spell(ct_deck *, bool on);

/* ---- batches (shard_batch.c) --------------------------------------------- */

typedef struct ct_bags {
  int64_t start[CT_RANKS * CT_BATCH + 1], ids[CT_IDS];
  float weights[CT_IDS];
} ct_bags;

/* The whole batch, known to all ranks, and this rank's part as a ts_kjt. */
typedef struct ct_batch {
  int step;
  int n_global, n, first; /* samples of all ranks, of this one, before it */
  int sizes[CT_RANKS];
  ct_bags features[CT_FEATURES];
  ts_kjt kjt;
  ts_jagged jagged[CT_FEATURES];
  int32_t lengths[CT_FEATURES][CT_BATCH];
  int64_t offsets[CT_FEATURES][CT_BATCH + 1];
} ct_batch;

/* SIZES (size) samples of each rank, or NULL: uneven ones, some none. */
void ct_batch_draw(ct_batch *, const ct_deck *, const ct_world *, int step,
                   const int *sizes, bool columns);
/* The gradient of an output row's column: made up, and of one sign over all
 * rows, so that sums don't cancel and Adam magnifies no rounding. */
float ct_grad(int step, int feature, int row, int column);

/* Rows of a feature's output in all, here, and on the ranks before: samples,
 * or with pooling "none" ids. */
typedef struct ct_rows {
  int n_global, n, first;
} ct_rows;
ct_rows ct_rows_of(const ct_deck *, const ct_batch *, int feature);

/* ---- the reference (shard_oracle.c) -------------------------------------- */

/* X: all parts of all tables in double, laid out as the deck says. */
double ct_oracle_row(const ct_deck *, const double *x, const ct_batch *,
                     int feature, int row, int column, double *size);
void ct_oracle_step(const ct_deck *, double *x, const ct_batch *);
/* Gradient of the weight at POSITION. */
double ct_oracle_position(const ct_deck *, const double *x, const ct_batch *,
                          int feature, int position, double *size);

/* ---- feature processors (shard_positions.c) ------------------------------ */

/* Which of a feature's weights the id at PLACE of its bag has. */
int ct_position_of(const ct_deck *, int feature, int64_t place);
/* Initial weights into deck and collection, where gradients find room until
 * stop; of one collection at a time. */
void ct_positions_start(ct_deck *, ts_ebc *, ts_device *);
/* The gradients over all ranks against the reference's; X as it was for the
 * lookup.  Then train takes a step. */
typedef struct ct_run ct_run;
void ct_positions_check(const ct_run *, ts_ebc *, const ct_batch *,
                        const double *x);
void ct_positions_train(ct_deck *, ts_ebc *, ts_device *);
void ct_positions_stop(void);

/* ---- runs (shard_contract.c) --------------------------------------------- */

struct ct_run {
  ct_world *world;
  ct_deck *deck;
  const char *name;
  bool columns; /* bags by offsets */
  bool ahead;   /* the next batch's ids travel before backward */
  int n_steps;  /* 0: CT_STEPS */
  /* Samples of each rank (n_sizes, CT_RANKS), used in turn; or NULL. */
  const int *sizes;
  int n_sizes;    /* 0: one */
  ts_codec coded; /* gradients are coded and decoded before they are given */
  bool near;      /* codecs: not held against the reference */
  /* out; until the world stops */
  double *first, *last;    /* parts of all tables at start and end */
  float *pooled[CT_STEPS]; /* (rows of all features here, CT_DIM) */
  int32_t n_rows[CT_STEPS][CT_FEATURES];
  int64_t n_ways; /* of all ids read here, to ranks that hold their rows */
  ts_ebc_stat stat;
  float *position; /* (CT_FEATURES, CT_POSITIONS) at the end */
};

ct_run ct_run_of(ct_world *, ct_deck *, ts_shard_kind);
void ct_run_do(ct_run *);
/* Gives back what all runs have left. */
void ct_runs_reset(void);
/* A row of DIM floats in slices of N_COLS, each as it arrives. */
void ct_code_row(ts_codec, float *row, int32_t dim, int32_t n_cols);

/* ---- two runs, and what differs (shard_compare.c) ------------------------ */

/* Pooled embeddings of steps [0, n_steps) within TOLERANCE (relative, 0: the
 * same bits); of all tables or of those that KEEP says. */
typedef bool (*ct_keep)(const ts_table_config *);
void ct_same_pooled(const ct_run *, const ct_run *, int n_steps,
                    double tolerance, ct_keep);
/* Weights and states at the start, and at the end. */
void ct_same_first(const ct_run *, const ct_run *); /* bits */
void ct_same_last(const ct_run *, const ct_run *, double tolerance, ct_keep);

/* A difference is told where it is seen (the harness shows rank 0 only);
 * settle asserts, on all ranks together, that there was none.  Collective. */
void ct_fault(const ct_run *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void ct_settle(void);
