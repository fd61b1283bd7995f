/* trainer.h - all that a training, evaluation or prediction is made of:
 * device, ranks, tables, model, and the batch that is under way. */
#ifndef TS_TRAIN_TRAINER_H
#define TS_TRAIN_TRAINER_H

#include "io/checkpoint.h"
#include "io/source.h"
#include "model/model.h"
#include "shard/ebc.h"
#include "train/metrics.h"

typedef struct ts_trainer {
  const ts_config *config;
  bool training; /* false: forward only, no optimizer state in use */
  ts_device *device;
  ts_world *world;
  ts_comm *control;  /* for agreement and reports, never inside a step */
  ts_comm *ddp_comm; /* carries the dense gradients */
  ts_kernels kernels;
  ts_lane *compute, *data;
  ts_nodes *nodes;
  ts_plan *plan;
  struct ts_planning *planning; /* what the plan goes by: train/planning.h */
  int n_stores; /* batches held in memory; 0: as many as the loader has */
  char *kept_topology; /* a checkpoint's, set before build; or NULL */
  ts_ebc *ebc;
  ts_flight *flight;
  ts_model *model;
  ts_ddp *ddp;          /* NULL unless training */
  ts_metrics **metrics; /* (n_tasks) of the training samples */
  int rank, n_ranks;
  int n_threads;
  bool widened; /* the launcher's binding was */
  int32_t n_tasks, batch_max;
  int64_t global_batch;
  int64_t step; /* finished optimizer steps, since the first start */
  /* the batch under way */
  float *dlogits, *predictions; /* (batch_max, n_tasks) */
  float *weights;               /* (batch_max, n_tasks), several tasks */
  double loss_sum;              /* local sum of weight * loss */
} ts_trainer;

/* World, lanes and kernels only (ts_trainer_start), then tables and model by
 * PLAN_TEXT (a checkpoint's, reused where it fits; NULL: made anew).
 * Collective; an error that not all ranks share ends the program here. */
ts_err ts_trainer_start(ts_trainer **, const ts_config *, bool training);
ts_err ts_trainer_build(ts_trainer *, const char *plan_text);
void ts_trainer_destroy(ts_trainer *);

/* After a collective piece of set-up that returned ERR here: errors that all
 * ranks find alike, or have agreed on, are agreed and returned; one that a
 * single rank may have (memory, communication, internal) is printed by that
 * rank, which ends all ranks with the documented code. */
ts_err ts_settle(ts_trainer *, ts_err err);

/* Prints this rank's message and ends all ranks. */
_Noreturn void ts_fail_alone(ts_err err);

/* ---- stages of a step; a pipeline puts them in order -------------------- */

/* Loss, predictions and d loss / d logits of BATCH on the compute lane;
 * WEIGHT_SUM: over the global batch.  WITH_GRAD false: no gradients. */
ts_err ts_stage_loss(ts_trainer *, const float *logits, const ts_batch *,
                     double weight_sum, bool with_grad);

/* Sends ids, waits for everyone's status and judges it.  BATCH NULL: this
 * rank has none; ERR: why not (OK: the data has ended). */
typedef struct ts_verdict {
  bool end;          /* no rank has a batch: nothing was trained */
  int stop;          /* highest stop that any rank asks for */
  int64_t n_global;  /* samples of this batch */
  double weight_sum; /* over all ranks */
} ts_verdict;
ts_err ts_stage_input(ts_trainer *, const ts_batch *, ts_err err, int stop,
                      ts_verdict *);

/* Forward through the model: bottom, lookup, output dist, top. */
ts_err ts_stage_forward(ts_trainer *, const ts_batch *, float **logits);
/* Backward, and all optimizers, for step number STEP (from 1). */
ts_err ts_stage_backward(ts_trainer *, const ts_batch *, int64_t step);
/* Adds the batch's predictions to METRICS (one per task). */
ts_err ts_stage_metrics(ts_trainer *, ts_metrics **metrics, const ts_batch *);

/* ---- state.c: checkpoints of a trainer ---------------------------------- */

typedef struct ts_run_state {
  ts_loader_state loader;
  char *source_state; /* owned; of the training source, may be NULL */
  double trained_s;   /* seconds spent in earlier runs */
  int64_t n_samples;  /* trained on since the first start */
} ts_run_state;

/* Saves to the deck's folder.  The lanes are idle.  Collective. */
ts_err ts_trainer_save(ts_trainer *, const ts_run_state *, ts_source *train);
/* Newest checkpoint of the deck's folder, or PATH where not NULL; *TAKEN is
 * its name, "" where there is none.  Collective. */
ts_err ts_trainer_load(ts_trainer *, const char *path, ts_run_state *,
                       ts_str *taken);
/* Weights of checkpoint.init_from; the log says which stayed initial. */
ts_err ts_trainer_init_from(ts_trainer *, const char *path);

/* ---- eval.c ------------------------------------------------------------- */

/* Called with each batch's predictions (n, n_tasks), n may be 0. */
typedef ts_err (*ts_prediction_fn)(void *arg, const ts_batch *,
                                   const float *predictions);

/* One pass over SOURCE; *RESULT per task (n_tasks).  FN may be NULL.  *STOP
 * (may be NULL) says that a signal ended it early.  Collective. */
ts_err ts_evaluate(ts_trainer *, ts_source *, ts_metrics_result *result,
                   ts_prediction_fn fn, void *arg);

#endif
