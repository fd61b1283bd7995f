/* pipeline.h - the order in which the stages of a step run, and on which
 * lanes.  One file per pipeline (base.c, ...), listed in base/kinds.h.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "train/trainer.h"

/* Settings that `tessera bench pipeline` has a row of its own for. */
typedef struct ts_pipeline_variant {
  const char *lookup, *lane; /* pipeline.lookup without "_optimizer" and
                                pipeline.lookup_lane, or NULL */
  bool stash; /* pipeline.stash_gradients; not with optimizer.in_backward */
} ts_pipeline_variant;

typedef struct ts_pipeline_ops {
  const char *name;
  int n_inflight; /* batches under way at most, the one in training included */
  int n_behind;   /* so many more on a discrete device, which is still at what
                     the host is done with: 1 where input that begins before
                     forward would wait for the end of the step before */
  int n_filled;   /* of these, sent and judged before a step begins */
  bool has_ahead; /* uses the lane "ahead" */
  bool has_depth; /* n_inflight and n_filled grow with cache.depth - 1 */
  bool hides_input; /* input dist runs beside the step before */
  bool hides_rows;  /* and fetching rows of slow memory, on the lane "ahead" */
  bool has_graph;   /* enqueues a step's parts between ts_step_graph_begin and
                       _end */
  const ts_pipeline_variant *variants; /* (n_variants) */
  int n_variants;                      /* 0: it has no settings */
  /* DECK errors: what this pipeline can't do. */
  ts_err (*check)(const ts_trainer *); /* may be NULL */
  /* Trains on batch 0, and moves those behind it on.  RESULT has their stops
   * and the step's figures added. */
  ts_err (*train)(ts_trainer *, ts_loader *, int stop, ts_step_result *);
  /* After it nothing that was computed ahead is older than the weights: for
   * checkpoints and for weights that change by other means.  May be NULL. */
  ts_err (*fence)(ts_trainer *);
} ts_pipeline_ops;

/* One optimizer step; the first call fills the pipeline.  STOP: this rank's
 * request.  Errors of the data are agreed; others are this rank's own.
 * Collective. */
ts_err ts_pipeline_step(ts_trainer *, ts_loader *, int stop, ts_step_result *);
/* True when the batch AHEAD is there and is one to train on. */
bool ts_pipeline_has(ts_trainer *, int ahead);
/* input_end of the batch AHEAD; a stop that any rank asks for with it counts
 * from now on.  Collective. */
ts_err ts_pipeline_receive(ts_trainer *, int ahead, ts_step_result *);

/* Repeats the lookups made ahead: the weights have changed by other means.
 * Collective. */
ts_err ts_pipeline_forget(ts_trainer *);

/* Drops the batches begun ahead, without training on them.  Collective. */
void ts_pipeline_drain(ts_trainer *, ts_loader *);

/* Batches under way in the deck's pipeline, on the host or APART; those of the
 * host hold batches of the loader. */
int ts_pipeline_n_inflight(const ts_config *, bool discrete);

/* The most batches that a cached table wants fetched ahead: they go through
 * the pipeline as wholes. */
int ts_pipeline_depth(const ts_config *);

const ts_pipeline_ops *ts_pipeline_find(const char *name); /* NULL: none */
const ts_pipeline_ops *ts_pipeline_at(int i); /* in order; NULL: the end */
