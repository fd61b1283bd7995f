/* trainer.h - all that a training, evaluation or prediction is made of:
 * device, ranks, tables, model, and the batch that is under way.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/checkpoint.h"
#include "io/order.h"
#include "runtime/arrays.h"
#include "dense/parallel.h"
#include "dense/tally.h"
#include "model/model.h"
#include "shard/ebc.h"
#include "runtime/watchdog.h"
#include "train/best.h"
#include "train/metrics.h"
#include "train/micro.h"
#include "train/upload.h"

/* The sum of all ranks' statuses of a batch. */
typedef struct ts_verdict {
  bool end;          /* some rank has no more batches: it is not trained */
  int stop;          /* highest stop that any rank asks for */
  int64_t n_global;  /* samples of this batch */
  double weight_sum; /* over all ranks */
} ts_verdict;

/* The arrays of a batch that the model and the loss read, where kernels may
 * read them: the batch's own on the host, copies in device memory on a discrete
 * device. */
typedef struct ts_inputs {
  const float *dense, *labels, *weights; /* as in ts_batch; or NULL */
} ts_inputs;

/* A batch on its way through the stages; pipelines differ in how many are
 * under way and in how far each is. */
typedef struct ts_inflight {
  ts_ebc_batch *ebc_batch;
  ts_batch *batch;       /* NULL: this rank has none */
  ts_err read;           /* why not; OK: the data has ended */
  ts_err_record fault;   /* its message */
  ts_loader_state after; /* the loader's position behind it */
  ts_verdict verdict;
  ts_inputs inputs;  /* set by ts_stage_input_begin */
  ts_upload *upload; /* on a discrete device: inputs point into it */
  ts_event copied; /* inputs are there, and the batch may be given back; set by
                      ts_stage_input_begin */
  ts_event done; /* the last use of this batch's device memory, its ebc_batch's
                    too; set by ts_stage_finish, and stays */
  bool again;    /* its step's micro-batches have begun with others */
  bool more;     /* of its step's micro-batches others follow */
  ts_micro *micro; /* holds BATCH where run.accumulate > 1, else NULL */
  bool loaded, begun, judged, looked_up;
  ts_event ready; /* lookup, or prefetch, where it runs on a lane of its own */
  ts_event arrived; /* compute has its embeddings; set by stage_forward */
} ts_inflight;

enum { TS_INFLIGHT_MAX = 6 };

typedef struct ts_trainer {
  const ts_config *config;
  bool training; /* false: forward only, no optimizer state in use */
  ts_device *device;
  ts_world *world;
  ts_comm *control; /* for agreement and reports, never inside a step */
  ts_kernels kernels;
  const char *keeps; /* layer whose values outlive a pass; NULL: none's */
  ts_lane *compute, *data;
  ts_lane *ahead;      /* lookups or cache filling beside compute; NULL: none */
  ts_uploads *uploads; /* of batches; NULL: the host */
  struct ts_step_graph *graph;    /* train/graph.h; NULL: not yet */
  struct ts_recompute *recompute; /* train/recompute.h; NULL: not asked for */
  ts_nodes *nodes;
  ts_plan *plan;
  struct ts_planning *planning; /* what the plan goes by: train/planning.h */
  int n_stores; /* batches held in memory; 0: as many as the loader has */
  char *kept_topology; /* a checkpoint's, set before build; or NULL */
  ts_ebc *ebc;
  const struct ts_pipeline_ops *pipeline; /* NULL unless training */
  ts_inflight inflight[TS_INFLIGHT_MAX];  /* a ring */
  int n_inflight;                         /* batches that may be under way */
  int n_filled; /* of these, sent and judged before a step begins */
  int depth;    /* batches whose rows are fetched ahead: cache.depth */
  int64_t head; /* number of the next to be trained */
  ts_model *model;
  ts_jagged *tokens;  /* (n_features) of the batch under way, where kernels see
                         them; NULL: no table has pooling "none" */
  ts_spread *spread;  /* (n_features) likewise, of candidates */
  float *log_q;       /* as in ts_model_pass; NULL: no output takes it */
  int64_t *n_targets; /* (n_ranks) of the batch that goes forward; or NULL */
  ts_params params;   /* of collection, model and tasks, in forward's order;
                         borrowed, but for the list */
  ts_parallel *dense; /* how ranks share the dense parameters */
  ts_metrics **metrics; /* (n_tasks) of the training samples */
  double negatives;     /* share that is trained on: data.negatives */
  int rank, n_ranks;
  int n_threads;
  bool widened;     /* the launcher's binding was */
  char no_gpu[256]; /* run.backend "auto": why training is on the host; or "" */
  ts_backend_choice backend;       /* as asked for */
  int64_t in_flight[TS_TAG_COUNT]; /* bytes predicted for batches under way */
  double *pooling;           /* ids of each feature per sample, as expected */
  int32_t n_tasks, n_logits; /* of a sample: base/tasks.h */
  int32_t batch_max;      /* samples of this rank at most, of a micro-batch */
  ts_sample_costs costs;  /* n 0: data.balance has nothing to balance */
  int64_t global_batch;   /* samples of a step */
  int64_t micro_batch;    /* of a micro-batch, over all ranks, at most */
  ts_batch *cut;          /* the loader's batch that is being cut, NULL: none */
  int32_t n_cut;          /* micro-batches of it that are on their way */
  double prefetch_wait_s; /* compute waited for rows of slow memory */
  int64_t step;           /* finished optimizer steps, since the first start */
  /* the batch under way */
  ts_arrays arrays;
  float *dlogits, *predictions; /* (batch_max, n_logits) device memory */
  double *loss_sum;      /* (1) device memory: local sum of weight * loss */
  int32_t *bad_gradient; /* (1) device memory: some table's was not finite */
  ts_task_loss *tasks;   /* (n_tasks), NULL: all bce of weight 1 */
  struct ts_late *late;  /* a discrete device's; NULL: the host */
  /* tasks.log_variance (n_tasks), where weights of tasks are learnt, and the
   * batch's gradient of it, device memory; none and NULL */
  ts_params task_params;
  float *log_variance_grad;
} ts_trainer;

/* backend.c: the device of run.backend; "auto": the GPU where the program has
 * CUDA and every rank sees one, else the host.  Collective. */
ts_err ts_trainer_choose_device(ts_trainer *, const ts_device_options *);

/* World, lanes and kernels only (ts_trainer_start), then tables and model by
 * PLAN_TEXT (a checkpoint's, reused where it fits; NULL: made anew).
 * Collective; an error that not all ranks share ends the program here. */
ts_err ts_trainer_start(ts_trainer **, const ts_config *, bool training);
/* With another backend than run.backend. */
ts_err ts_trainer_start_on(ts_trainer **, const ts_config *, bool training,
                           ts_backend_choice);
ts_err ts_trainer_build(ts_trainer *, const char *plan_text);
/* A batch of the loader takes BYTES (0: not known yet): room on a discrete
 * device for as many as are under way, once; before step 0.  Local. */
ts_err ts_trainer_expect_batches(ts_trainer *, size_t bytes);
void ts_trainer_destroy(ts_trainer *);

/* Threads that a reader beside the steps may use: the host's lanes need the
 * rank's. */
static inline int ts_trainer_readers(const ts_trainer *t) {
  return ts_device_is_discrete(t->device) ? t->n_threads : 1;
}

/* The host waits until the lanes are idle: before anyone but a step touches
 * tables.  What was begun ahead stays.  Local. */
ts_err ts_trainer_rest(ts_trainer *);

/* Collective, after a piece of set-up that returned ERR here: errors that all
 * ranks find alike, or have agreed on, are agreed and returned; one that a
 * single rank may have (memory, communication, internal) is printed by that
 * rank, which ends all ranks with the documented code. */
ts_err ts_settle(ts_trainer *, ts_err err);

/* Before a rank leaves what all take part in: an error that the ranks have
 * not agreed on, of a kind that one may have alone, ends all here. */
void ts_settle_own(ts_err err);

/* ---- stages of a step (stages*.c); a pipeline puts them in order -------- */
/* Functions that are called ts_stage_* are Collective: all ranks call them in
 * one order.  They Enqueue; those that make the host wait say so. */

/* The batch AHEAD of the next to be trained (0: itself). */
ts_inflight *ts_inflight_at(ts_trainer *, int ahead);
/* Of batches that are sent ahead, the lanes idle (evict.c): the number of the
 * first one that ids of dynamic tables may have got rows of, 0: none; let_go:
 * before ids lose their rows, or all rows are others: what was looked up or
 * fetched for them is forgotten; place_again: after that, the rows of their
 * ids.  The host waits for both.  Local; Collective. */
uint32_t ts_trainer_first_learnt(ts_trainer *);
ts_err ts_trainer_let_go(ts_trainer *);
ts_err ts_trainer_place_again(ts_trainer *);

/* Work enqueued from here on is traced as PHASE (static) of this batch; each
 * stage below says so itself. */
void ts_inflight_trace(const ts_inflight *, const char *phase);

/* Takes the next batch from LOADER (NULL: CARGO's batch is there already).
 * An error is kept: every rank hears of it in input_end. */
void ts_stage_load(ts_trainer *, ts_inflight *, ts_loader *loader);
/* Sends ids, and STOP, this rank's request. */
ts_err ts_stage_input_begin(ts_trainer *, ts_inflight *, int stop);
/* Waits for everyone's word on the batch, judges, and enqueues the rest of
 * input dist.  An error of any rank's data is that of all; it is kept with
 * the batch in flight and returned by ts_stage_check. */
ts_err ts_stage_input_end(ts_trainer *, ts_inflight *);
ts_err ts_stage_check(ts_trainer *, ts_inflight *);
/* Lookup of all groups on LANE, output dist begun. */
ts_err ts_stage_lookup(ts_trainer *, ts_inflight *, ts_lane *);
/* Forward through the model (lookup first, where it has not been), loss,
 * predictions and, WITH_GRAD, the loss gradient, all on the compute lane.
 * *LOSS: complete once t->loss_sum and t->predictions are there, and on a
 * device apart their copies (train/late.h): predictions without WITH_GRAD. */
ts_err ts_stage_forward(ts_trainer *, ts_inflight *, bool with_grad,
                        ts_event *loss);
/* Forward of a batch of items, through the layers that make their vectors
 * (model->items_only, which is set); the host waits for them. */
ts_err ts_stage_items(ts_trainer *, ts_inflight *);
/* With on_nan "skip" or "rollback": waits for the loss; *SKIP becomes true on
 * all ranks where any rank's is not a number; it stays true. */
ts_err ts_stage_judge_loss(ts_trainer *, ts_event loss, bool *skip);
/* A later batch's lookup on LANE: STALE, on the compute lane, before the
 * tables' updates; else each sharding's right behind its own updates. */
typedef struct ts_look_ahead {
  ts_inflight *inflight; /* NULL: none */
  ts_lane *lane;
  bool stale;
} ts_look_ahead;
/* Backward of step number STEP (from 1) up to the tables' updates, which wait
 * for BEFORE_UPDATE: the dense part above the tables; while their gradients
 * travel a stale lookup and the rest of the dense part; then, once they are
 * there, the tables' updates, and a lookup behind them. */
ts_err ts_stage_backward(ts_trainer *, ts_inflight *, int64_t step,
                         ts_look_ahead ahead, ts_event before_update);
/* The compute lane waits for rows of slow memory, and counts how long. */
ts_err ts_stage_wait_rows(ts_trainer *, ts_event);
/* The dense parameters' updates, as far as not made in backward. */
ts_err ts_stage_optimize(ts_trainer *);
/* Adds the step's predictions to METRICS (one per task; unless the loss is no
 * number).  On the host it waits for the step; on a discrete device for the one
 * before, unless METRICS are not the trainer's own: evaluation waits. */
typedef struct ts_step_result {
  bool end;                 /* the data has ended; nothing was trained */
  bool more;                /* one micro-batch of several; others follow */
  int stop;                 /* a stop was asked for, by any rank */
  bool skipped;             /* on_nan = "skip": no update was made */
  bool nan;                 /* this rank's loss is not a number */
  bool late;                /* loss_sum and nan are under way */
  bool broken;              /* likewise of on_nan: some rank has gradients or
                               parameters that are not finite */
  int64_t n_global;         /* samples */
  int64_t n_bad, n_bad_ids; /* this rank's records left out, ids dropped */
  double weight_sum;        /* over all ranks */
  double loss_sum;          /* this rank's */
  ts_loader_state after;    /* the loader's position behind the batch */
} ts_step_result;
ts_err ts_stage_finish(ts_trainer *, ts_inflight *, ts_event loss,
                       ts_metrics **metrics, ts_step_result *);
/* late.c: RESULT's loss_sum and nan, where they are under way: waits for the
 * step, the newest one.  Then nan is that of any step since the last call. */
ts_err ts_stage_fetch(ts_trainer *, ts_step_result *);
/* This rank's predictions of the last batch without gradient, once finished:
 * (n, n_logits) in the host's memory. */
const float *ts_stage_predictions(const ts_trainer *);
/* N samples for a metric of task K, from PREDICTIONS (n, n_logits), LABELS (n,
 * n_tasks) and WEIGHTS (n) or NULL.  Local. */
ts_tally_args ts_stage_samples(const ts_trainer *, int32_t k,
                               const float *predictions, const float *labels,
                               const float *weights, int64_t n);
/* finite.c, unless on_nan = "stop": looks at the gradients of the tables of
 * CARGO on the compute lane; and once the step has ended at the parameters:
 * RESULT->broken, the same on all ranks. */
ts_err ts_stage_check_finite(ts_trainer *, ts_inflight *);
ts_err ts_stage_judge_step(ts_trainer *, ts_step_result *);
/* Leaves the step out, of which micro-batches may have been trained on. */
void ts_stage_drop(ts_trainer *);
/* CARGO is empty again; its batch goes back to LOADER (NULL: to whoever has
 * it) with the last of its parts, once it's copied. */
void ts_inflight_empty(ts_inflight *, ts_loader *loader);
/* Gives the batch back, waiting for what was begun of it. */
void ts_stage_discard(ts_trainer *, ts_inflight *, ts_loader *);
/* Moves on to the next batch: CARGO 0 is given back to LOADER. */
void ts_stage_advance(ts_trainer *, ts_loader *);

/* ---- state.c: checkpoints of a trainer ---------------------------------- */

typedef struct ts_run_state {
  ts_loader_state loader;
  ts_order_key order; /* that the loader's place is in */
  char *source_state; /* owned; of the training source, may be NULL */
  double trained_s;   /* seconds spent in earlier runs */
  int64_t n_samples;  /* trained on since the first start */
  ts_best best;
  bool lacks; /* the checkpoint that was loaded had not all that there is, or
                 had it in other types: none may build on it */
} ts_run_state;

/* Describes the content of a checkpoint of this step, of the kind that it says
 * it is; memory is pointed to, not copied, but rows that have changed.  From
 * here on rows count as changed once they are updated again.  Collective. */
ts_err ts_trainer_describe(ts_trainer *, const ts_run_state *, ts_source *train,
                           ts_ckpt *);
/* The deck's second folder, NULL: none. */
static inline const char *ts_mirror_of(const ts_config *c) {
  return *c->checkpoint.mirror ? c->checkpoint.mirror : NULL;
}
/* Newest checkpoint of the deck's folders, or PATH where not NULL; *TAKEN is
 * its name, "" where there is none.  Collective. */
ts_err ts_trainer_load(ts_trainer *, const char *path, ts_run_state *,
                       ts_str *taken);
/* Its weights alone, or the optimizers' state, too, as above.  Collective. */
ts_err ts_trainer_describe_weights(ts_trainer *, ts_ckpt *, bool with_state);

/* ---- init_from.c -------------------------------------------------------- */

/* The item of parameter NAME's weights, NULL: none.  Local. */
ts_ckpt_item *ts_trainer_item(const ts_ckpt *, const char *name);

/* init_tables.c: rows of the tables that have init.kind = "file" for a run on
 * TRAIN, over those that the seed gave them; the log says how many.
 * Collective. */
ts_err ts_trainer_init_tables(ts_trainer *, const ts_source *train);

/* The file of checkpoint.init_from: of a folder model.safetensors, or its
 * index, or its newest checkpoint; none where the deck names nothing.
 * Collective. */
ts_err ts_trainer_init_path(ts_trainer *, ts_str *path);
/* Weights of the checkpoint PATH for a run on TRAIN, whose words get the rows
 * that they have in that file; the log says which weights stayed initial.  With
 * checkpoint.init_state optimizers' state and t->step likewise.  Collective. */
ts_err ts_trainer_init_from(ts_trainer *, const ts_source *train,
                            const char *path);

/* ---- eval.c ------------------------------------------------------------- */

/* Called with each batch's predictions (n, n_logits), n may be 0. */
typedef ts_err (*ts_prediction_fn)(void *arg, const ts_batch *,
                                   const float *predictions);

/* Each may be NULL. */
typedef struct ts_eval_hooks {
  ts_prediction_fn fn;
  void *fn_arg;
  /* Behind the last batch, of each task: all samples.  Collective. */
  ts_err (*all)(void *arg, int32_t task, const ts_metrics *);
  void *all_arg;
  bool (*asks)(const void *arg); /* this rank asks for a stop */
  const void *asks_arg;
} ts_eval_hooks;

/* One pass over SOURCE; *RESULT per task (n_tasks).  *STOPPED: it was broken
 * off behind a batch, since a rank asked, and *RESULT is not set.
 * Collective. */
ts_err ts_evaluate(ts_trainer *, ts_source *, ts_metrics_result *result,
                   const ts_eval_hooks *, bool *stopped);
