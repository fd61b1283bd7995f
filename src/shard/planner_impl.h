/* planner_impl.h - inside the search; private to planner*.c.
 * All of it is Local. */
#pragma once

#include "shard/cost.h"
#include "shard/sharding.h"

/* A way to shard a table. */
typedef struct ts_option {
  ts_shard_kind kind;
  int32_t n_cols; /* of a column shard, 0 where there are none */
} ts_option;

/* The options of table T are option[start[t] .. start[t + 1]). */
typedef struct ts_options {
  ts_option *option;
  int32_t *start; /* (n_tables + 1) */
} ts_options;

/* All that deck and version allow; DECK errors name the table. */
ts_err ts_options_list(ts_options *, const ts_plan_request *);
void ts_options_reset(ts_options *);

/* A plan under way, with the loads that it makes. */
typedef struct ts_draft {
  const ts_plan_request *request;
  ts_cost cost;
  ts_plan *plan;
  double *ms;    /* (W) of each rank's shards */
  double *bytes; /* (W) */
  ts_load all;   /* what every rank bears beside its shards */
  int32_t n_of_kind[TS_SHARD_COUNT];
  double *at; /* (W) scratch: loads that placement goes by */
  int64_t n_tried;
} ts_draft;

ts_err ts_draft_create(ts_draft *, const ts_plan_request *);
void ts_draft_reset(ts_draft *);
/* Takes table T's shards off (it must have some), or puts P there. */
void ts_draft_remove(ts_draft *, int32_t t, ts_table_plan *out);
void ts_draft_put(ts_draft *, int32_t t, const ts_table_plan *p);
/* Where OPTION would go now. */
ts_err ts_draft_place(ts_draft *, int32_t t, const ts_option *,
                      ts_table_plan *out);
/* By which drafts are compared: bytes over the limit first, then ms. */
typedef struct ts_worth {
  double over, ms;
} ts_worth;
ts_worth ts_draft_worth(const ts_draft *);
bool ts_worth_better(const ts_worth *, const ts_worth *than);

/* A table's shards, and what the draft is worth with them. */
typedef struct ts_choice {
  ts_table_plan plan;
  ts_worth worth;
} ts_choice;
/* Replaces BEST (owned; no shards: none yet) by the best of those of table T's
 * options whose kinds are in KINDS (bits), where that is better.  T is not in
 * the draft.  Returns how many were tried. */
ts_err ts_draft_choose(ts_draft *, const ts_options *, int32_t t,
                       unsigned kinds, ts_choice *best, int *n_tried);

/* planner_kernels.c: a request with tables of its own, whose kernels may be
 * chosen; those that the deck leaves open are fused. */
typedef struct ts_open {
  ts_plan_request request;
  ts_config config;
  double *factor; /* (tables) the deck's load factors; next to no lines where it
                     leaves them open */
} ts_open;
ts_err ts_open_create(ts_open *, const ts_plan_request *);
void ts_open_reset(ts_open *);

/* planner_lines.c: the load factor that lines are added to. */
extern const double ts_lines_least;
/* planner_passes.c: scratch of one pass over all ids, of tables whose passes
 * the planner chooses; adds to OWN (W), returns the most of a rank. */
double ts_passes_scratch(double *own, const ts_cost *, const ts_plan *);

/* planner_local.c: moves and swaps until nothing helps. */
ts_err ts_draft_improve(ts_draft *, const ts_options *);
/* planner_why.c: the error for a draft that doesn't fit. */
ts_err ts_draft_explain(const ts_draft *, const ts_options *);
