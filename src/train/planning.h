/* planning.h - what the planner has to know of the rest of the program, and
 * the plan of a run: from a file, a checkpoint, or a search. */
#pragma once

#include "shard/planner.h"
#include "train/trainer.h"

typedef struct ts_planning {
  ts_plan_request request;
  ts_topology topology;
  ts_plan_stats *stats;   /* (features) */
  double *load_factor;    /* (tables) of the plan in force */
  ts_plan_report *report; /* of the plan in force; rank 0 alone */
} ts_planning;

/* Whether the ranks that are planned for have memory of a device apart: as T's
 * device, or as a deck says that names it where there is none.  Local. */
static inline bool ts_planning_discrete(const ts_trainer *t) {
  return ts_device_is_discrete(t->device) ||
         t->config->run.backend == TS_BACKEND_CUDA;
}

/* A request for NODES (which must stay) and GLOBAL_BATCH samples a step.
 * TOPOLOGY NULL: the deck's, which may mean measuring; KEPT (may be NULL): a
 * checkpoint's text of what was measured then.  Collective. */
ts_err ts_planning_create(ts_planning **, ts_trainer *, const ts_nodes *,
                          int64_t global_batch, const ts_topology *topology,
                          const char *kept);
void ts_planning_destroy(ts_planning *);

/* The plan of the run in t->plan, and t->planning.  TEXT: a checkpoint's
 * plan, or NULL.  Collective. */
ts_err ts_planning_choose(ts_trainer *, const char *text);

/* PLAN's kernels to the deck's tables, and what follows from them to the
 * request.  Local. */
void ts_planning_apply(ts_planning *, const ts_config *, const ts_plan *);

/* Lines of cached tables under PLAN, to the request and to *REPORT, which is
 * made anew (it may be NULL so far).  Local. */
ts_err ts_planning_lines(ts_planning *, const ts_plan *, ts_plan_report **);

/* PLAN and, as comments, what is expected of it, to the file PATH.  Local. */
ts_err ts_planning_save(const ts_planning *, const ts_plan *,
                        const ts_plan_report *, const char *path);

/* planning_dense.c: what the dense part takes, for BATCH samples of each of
 * N_RANKS ranks; *GFLOPS (unless NULL) is timed.  Local. */
ts_err ts_planning_dense(ts_plan_dense *, double *gflops, ts_trainer *,
                         int32_t batch, const ts_plan_stats *, int n_ranks);
/* planning_stats.c: of each feature, from the training data where that is a
 * data set file, else as the deck has synthetic data, else one id a sample,
 * spread evenly.  BATCH: samples of all ranks in a (micro-)batch.  (features),
 * freed by the caller.  Collective. */
ts_err ts_planning_stats(ts_plan_stats **, ts_trainer *, int64_t batch);
