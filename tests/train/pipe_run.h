/* pipe_run.h - short trainings inside a test: one deck with every sharding,
 * losses and a hash of all weights and states, kernels that can be slowed
 * down or watched. */
#pragma once

#include "kernel_table.h"
#include "dense/optim.h"
#include "sparse/row_optim.h"
#include "tests/support/harness.h"
#include "train/pipeline.h"

enum { PR_STEPS = 400, PR_SETS = 32 };

/* Overrides of the deck, "key=value"; the text must outlive them. */
typedef struct pr_sets {
  const char *item[PR_SETS];
  int n;
} pr_sets;
void pr_set(pr_sets *, const char *text);

/* A trainer with its data, ready for the first step. */
typedef struct pr_run {
  ts_config *config;
  ts_trainer *t;
  ts_source *source, *eval; /* kept for later runs */
  ts_loader *loader;
} pr_run;

/* DECK NULL: pr_deck, tables of all shardings, pr_n_batches steps in all. */
extern const char pr_deck[];
void pr_start(pr_run *, const char *deck, const pr_sets *);
void pr_stop(pr_run *);
/* After the last run: for an unchecked fixture's end. */
void pr_close_data(void);

typedef struct pr_result {
  int n;                 /* steps */
  double loss[PR_STEPS]; /* over all ranks */
  int64_t samples;       /* in all */
  uint64_t positions;    /* hash of the data's, behind each batch */
  uint64_t state;        /* hash of all weights and optimizer states */
  double auc;            /* of data.eval with run.eval_every > 0 */
} pr_result;

/* Steps to the end, evaluating after each run.eval_every; and all of it. */
void pr_steps(pr_run *, pr_result *);
void pr_train(pr_result *, const char *deck, const pr_sets *);
/* Adds a step's loss. */
void pr_note(pr_run *, pr_result *, ts_step_result *);
/* Weights and states of all ranks; the lanes are idle.  Collective. */
uint64_t pr_state(pr_run *);
/* Same losses, samples, position and state, on all ranks; FIRST, N: of the
 * losses alone. */
bool pr_same(const pr_result *, const pr_result *);
bool pr_same_losses(const pr_result *, const pr_result *, int first, int n);

/* Delays around kernels, on any lane's thread; 0 and NULL: none. */
typedef struct pr_kernels {
  int lookup_us, row_update_us, dense_update_us; /* sleep before */
  void (*lookup)(const ts_lookup_args *, bool begin);
  void (*row_update)(const ts_row_update_args *, bool begin);
  /* Instead of the kernel, which is the last argument. */
  ts_err (*dense_update)(const ts_dense_update_args *,
                         ts_err (*kernel)(const ts_dense_update_args *));
} pr_kernels;
extern pr_kernels pr_kernel_hooks;

void pr_sleep_us(int us);
