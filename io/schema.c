/* schema.c - the rows of the schema. */
#include "io/schema.h"

#include "base/kinds.h"

/* A key of SCOPE at PATH, of one KIND, into FIELD of the scope's struct. */
#define KEY(scope, path, field, kind, ...)                                     \
  {                                                                            \
    TS_SCOPE_##scope, path, TS_KEY_##kind, offsetof(STRUCT_##scope, field),    \
        __VA_ARGS__                                                            \
  }
#define STRUCT_DECK ts_config
#define STRUCT_TABLE ts_table_config
#define STRUCT_OVERRIDE ts_optim_override
#define STRUCT_TASK ts_task_config
#define STRUCT_OUTPUT ts_task_config
#define STRUCT_COLUMN ts_column_config
#define STRUCT_LAYER ts_layer_config
#define STRUCT_GROUP ts_layers_config
#define STRUCT_FORWARD ts_prefetch_config
#define STRUCT_BACKWARD ts_prefetch_config

/* Numbers, words, lists that are empty by default, flags; those with _OF have
 * a path that is not the field's name. */
#define NUMBER_OF(scope, path, field, kind, fallback, unit, min, max, help)    \
  KEY(scope, path, field, kind, fallback, unit, min, max, NULL, help)
#define WORD_OF(scope, path, field, kind, fallback, choices, help)             \
  KEY(scope, path, field, kind, "\"" fallback "\"", "", 1, 0, choices, help)
#define LIST_OF(scope, path, field, kind, help)                                \
  KEY(scope, path, field, kind, "[]", "", 1, 0, NULL, help)
#define FLAG_OF(scope, path, field, fallback, help)                            \
  KEY(scope, path, field, BOOL, fallback, "", 1, 0, NULL, help)
#define NUMBER(scope, field, ...) NUMBER_OF(scope, #field, field, __VA_ARGS__)
#define WORD(scope, field, ...) WORD_OF(scope, #field, field, __VA_ARGS__)
#define LIST(scope, field, ...) LIST_OF(scope, #field, field, __VA_ARGS__)
#define FLAG(scope, field, ...) FLAG_OF(scope, #field, field, __VA_ARGS__)
#define PREFETCH(pass)                                                         \
  KEY(pass, "layer", layer, STRING, NULL, "", 1, 0, NULL,                      \
      "the layer that has been gathered"),                                     \
      LIST(pass, prefetch, STRINGS,                                            \
           "layers to gather then, in this order; []: as without an entry")

const ts_key ts_schema[] = {
    WORD(DECK, run.name, STRING, "run", NULL, "name of the run"),
    WORD(DECK, run.output, PATH, "", NULL,
         "output folder: metrics.jsonl, log, deck.effective, trace and by "
         "default the checkpoints; \"\": runs/NAME beside the deck"),
    NUMBER(DECK, run.seed, INT, "1", "", 0, 9e15,
           "of initial weights and stochastic rounding"),
    WORD(DECK, run.backend, CHOICE, "auto", "auto|host|cuda|?emulated",
         "auto: cuda where it is built in and every rank sees a GPU, else "
         "host; the log's head says which"),
    NUMBER(DECK, run.steps, INT, "0", "steps", 0, 1e15,
           "optimizer steps from the first start; or give run.epochs"),
    NUMBER(DECK, run.epochs, FLOAT, "0.0", "epochs", 0, 1e9,
           "passes over the training data; or give run.steps"),
    NUMBER(DECK, run.threads, INT32, "0", "threads", 0, 4096,
           "per rank; 0: the rank's share of the CPUs that the job may use; a "
           "launcher's one-core binding is widened, and the log says so"),
    WORD(DECK, run.precision, CHOICE, "f32", "f32|tf32|bf16",
         "of dense matrix products; weights and sums stay f32. tf32: a GPU's "
         "f32 with 10 bits of mantissa; f32 on the host"),
    WORD_OF(DECK, "run.lanes", run.serial_lanes, CHOICE, "parallel",
            "parallel|serial",
            "serial: nothing overlaps; the results are the same bit for bit"),
    WORD(DECK, run.graph, CHOICE, "off", "off|auto",
         "auto: a step's work on a GPU as one CUDA graph, where its order "
         "allows; a note says why not"),
    NUMBER(DECK, run.log_every, INT, "50", "steps", 1, 1e12,
           "between progress lines"),
    NUMBER(DECK, run.eval_every, INT, "0", "steps", 0, 1e12,
           "between evaluations on data.eval; 0: only at the end"),
    NUMBER(DECK, run.valid_every, INT, "0", "steps", 0, 1e12,
           "between validations on data.valid; 0: none"),
    WORD(DECK, run.stop.metric, STRING, "auc", TS_CHOICES(TS_RANKED_METRICS),
         "of validations: what tells the best step"),
    WORD(DECK, run.stop.task, STRING, "", NULL,
         "whose metric; \"\": the first"),
    NUMBER(DECK, run.stop.patience, INT32, "0", "validations", 0, 1e9,
           "without a better one before the run ends; 0: it never does"),
    NUMBER(DECK, run.stop.min_delta, FLOAT, "0.0", "", 0, 1e9,
           "by how much the metric must be better to count"),
    WORD(DECK, run.stop.restore, STRING, "best", "best|last",
         "weights that a run with run.stop.patience ends with: those of the "
         "best validation, or the last ones"),
    NUMBER_OF(DECK, "run.max_time", run.max_time_s, TIME, "\"\"", "hh:mm:ss", 1,
              0, "saves and ends with code 75 before it is over"),
    NUMBER(DECK, run.accumulate, INT32, "1", "micro-batches", 1, 1e6,
           "micro-batches per optimizer step: data.global_batch is cut into "
           "them, and parameters and tables are updated once, from all"),
    WORD(DECK, run.on_nan, CHOICE, "stop", "stop|skip|rollback",
         "where a loss is not a number: stop ends the run with code 3; skip "
         "leaves the step out; rollback takes the last checkpoint's weights "
         "and goes on with the next batch.  skip and rollback look at "
         "gradients and dense parameters, too; where these are not finite "
         "weights may be spoilt already, so skip goes back as rollback does"),
    NUMBER(
        DECK, run.max_skips, INT, "100", "steps", 0, 1e15,
        "steps that run.on_nan may leave out or go back for, and as many times "
        "that run.on_fault may go back, of one start; then the run stops "
        "(codes 3 and 6)"),
    WORD(DECK, run.check, CHOICE, "none", "none|sums|rows",
         "looks for silent faults of memory, processors and networks. sums: "
         "every message through MPI brings a checksum along, and weights that "
         "several ranks hold are compared; rows: besides, steps are computed "
         "twice, and their gradients compared"),
    NUMBER(DECK, run.check_every, INT, "200", "steps", 1, 1e12,
           "between comparisons of weights, and steps that run.check = "
           "\"rows\" computes twice"),
    WORD(DECK, run.on_fault, CHOICE, "stop", "stop|rollback",
         "where run.check finds a rank with other weights, or other gradients "
         "the second time: stop ends the run with code 6; rollback takes the "
         "last checkpoint's weights and goes on with the next batch. A message "
         "that was changed ends the run with code 5"),
    WORD(DECK, run.tier_dir, PATH, "", NULL,
         "folder on a disk of the node's own, for tables with cache.tier = "
         "\"file\": a file per rank and group, without a name"),
    NUMBER(DECK, run.deadline_s, FLOAT, "0.0", "s", 0, 1e9,
           "longest time that a rank may take without getting on, before the "
           "watchdog ends the run with code 5; 0: 50 times the median step, at "
           "least 120 s (steps, evaluation, input), else comm.timeout_s"),
    NUMBER(DECK, run.deadlines.setup_s, FLOAT, "0.0", "s", 0, 1e9,
           "of the set-up; 0 here and below: run.deadline_s"),
    NUMBER(DECK, run.deadlines.step_s, FLOAT, "0.0", "s", 0, 1e9,
           "of a step; never less than that of input"),
    NUMBER(DECK, run.deadlines.eval_s, FLOAT, "0.0", "s", 0, 1e9,
           "of a batch of an evaluation; never less than input's"),
    NUMBER(DECK, run.deadlines.save_s, FLOAT, "0.0", "s", 0, 1e9,
           "of saving a checkpoint"),
    NUMBER(DECK, run.deadlines.load_s, FLOAT, "0.0", "s", 0, 1e9,
           "of loading one"),
    NUMBER(DECK, run.deadlines.input_s, FLOAT, "0.0", "s", 0, 1e9,
           "of opening the data, and of waiting for a batch of it"),
    WORD(DECK, run.trace, STRING, "", NULL,
         "file in the output folder for a trace of the whole run (for Chrome's "
         "trace viewer and tessera trace); \"\": none"),

#include "io/schema_data.h"
#include "io/schema_columns.h"
    ,

    WORD(DECK, model.kind, STRING, "dlrm", TS_CHOICES(TS_MODEL_KINDS),
         "what is computed: see Models in the manual; not asked for with "
         "model.layers"),
    NUMBER(DECK, model.dense_features, INT32, "0", "", 0, 1000000,
           "0: no dense arch, b is left out"),
    NUMBER(DECK, model.dense_arch, INTS, "[]", "outputs", 1, 1000000,
           "layers of the bottom MLP; not of deepfm"),
    NUMBER(DECK, model.over_arch, INTS, "[1]", "outputs", 1, 1000000,
           "layers of the top MLP; the last is the logit"),
    NUMBER_OF(DECK, "model.dcn.layers", model.dcn_layers, INT32, "3", "", 1,
              1000, "dcnv2: cross layers"),
    NUMBER_OF(DECK, "model.dcn.rank", model.dcn_rank, INT32, "512", "", 1,
              1000000, "dcnv2: of their products W V"),
    NUMBER_OF(DECK, "model.deepfm.hidden", model.deepfm_hidden, INT32, "20",
              "outputs", 1, 1000000,
              "deepfm: the first of the two layers below"),
    NUMBER_OF(DECK, "model.deepfm.fm_dim", model.deepfm_fm_dim, INT32, "5",
              "outputs", 1, 1000000, "deepfm: the deep layer"),
    WORD_OF(DECK, "model.deepfm.fm", model.deepfm_fm, STRING, "flat",
            "flat|field",
            "deepfm: its factorisation machine is over all scalars, or over "
            "vectors, coordinate by coordinate"),
    WORD(TASK, name, STRING, "label", NULL, "name of the task"),
    NUMBER(TASK, weight, FLOAT, "1.0", "", 0, 1e9, "of its loss"),
#include "io/schema_outputs.h"
    ,
#include "io/schema_layers.h"
    ,

    WORD_OF(DECK, "optimizer.kind", optimizer.base.kind, STRING, "adam",
            TS_CHOICES(TS_DENSE_OPTIMS), "for the dense parameters"),
    NUMBER_OF(DECK, "optimizer.lr", optimizer.base.lr, FLOAT, "1e-3", "", 0,
              1e9, "learning rate"),
    NUMBER_OF(DECK, "optimizer.eps", optimizer.base.eps, FLOAT, NULL, "", 0,
              1e9, "1e-10 for adagrad, else 1e-8 unless given"),
    NUMBER_OF(DECK, "optimizer.beta1", optimizer.base.beta1, FLOAT, NULL, "", 0,
              0.9999999, "0.9 unless given"),
    NUMBER_OF(DECK, "optimizer.beta2", optimizer.base.beta2, FLOAT, NULL, "", 0,
              0.9999999,
              "0.999 unless given, of lion and rmsprop (its alpha) 0.99"),
    NUMBER_OF(DECK, "optimizer.momentum", optimizer.base.momentum, FLOAT, NULL,
              "", 0, 1,
              "of sgd and rmsprop 0, of momentum, nesterov and lars 0.9 unless "
              "given"),
    NUMBER_OF(DECK, "optimizer.eta", optimizer.base.eta, FLOAT, NULL, "", 0,
              1e9, "of lars, 0.001 unless given"),
    NUMBER_OF(DECK, "optimizer.weight_decay", optimizer.base.weight_decay,
              FLOAT, NULL, "", 0, 1e9, "l2 unless the mode says otherwise"),
    WORD_OF(DECK, "optimizer.weight_decay_mode",
            optimizer.base.weight_decay_mode, CHOICE, "l2", "none|l2|decoupled",
            "how weight_decay enters; adamw's and lion's is decoupled, lamb's "
            "and lars's part of their norms"),
    FLAG(DECK, optimizer.in_backward, "true",
         "update parameters as soon as their gradients are reduced and their "
         "layer's backward pass is over; a few buckets of gradients are held, "
         "not all"),
    WORD_OF(DECK, "optimizer.schedule.kind", optimizer.schedule, STRING,
            "constant",
            "constant|linear|cosine|inverse_sqrt|polynomial|step|one_cycle|"
            "plateau",
            "scales the tables' rates too; formulas: doc/dense.md"),
    NUMBER_OF(DECK, "optimizer.schedule.warmup", optimizer.warmup, INT, "0",
              "steps", 0, 1e15, "linear rise to the full rate"),
    NUMBER_OF(DECK, "optimizer.schedule.steps", optimizer.schedule_steps, INT,
              "0", "steps", 0, 1e15,
              "end of the decay, warm-up included; for step: between falls"),
    NUMBER_OF(DECK, "optimizer.schedule.power", optimizer.power, FLOAT, "1.0",
              "", 0, 100,
              "of polynomial decay; factor of step decay and of plateau"),
    NUMBER_OF(DECK, "optimizer.schedule.patience", optimizer.schedule_patience,
              INT32, "2", "validations", 1, 1e9,
              "of plateau: without a better one before the rate falls"),
    NUMBER_OF(DECK, "optimizer.schedule.floor", optimizer.floor, FLOAT, "0.0",
              "", 0, 1, "least factor"),
    NUMBER(DECK, optimizer.clip_norm, FLOAT, "0.0", "", 0, 1e12,
           "global norm of the dense gradients; 0: no clipping"),
    NUMBER_OF(DECK, "optimizer.clip_value", optimizer.base.clip_value, FLOAT,
              "0.0", "", 0, 1e12,
              "each element of the dense gradients is cut to [-v, v]; 0: no "
              "clipping; not beside clip_norm"),
    NUMBER(DECK, optimizer.ema, FLOAT, "0.0", "", 0, 0.9999999,
           "decay of a running mean of the dense weights, which evaluations "
           "and predictions take; 0: none; doc/dense.md"),
    KEY(OVERRIDE, "match", match, STRING, NULL, "", 1, 0, NULL,
        "shell pattern over full parameter names"),
    KEY(OVERRIDE, "kind", optimizer.kind, STRING, NULL, "", 1, 0,
        TS_CHOICES(TS_DENSE_OPTIMS), "optimizer of these parameters"),
    NUMBER_OF(OVERRIDE, "lr", optimizer.lr, FLOAT, NULL, "", 0, 1e9,
              "learning rate"),
    NUMBER_OF(OVERRIDE, "eps", optimizer.eps, FLOAT, NULL, "", 0, 1e9,
              "as optimizer.eps"),
    NUMBER_OF(OVERRIDE, "beta1", optimizer.beta1, FLOAT, NULL, "", 0, 0.9999999,
              "as optimizer.beta1"),
    NUMBER_OF(OVERRIDE, "beta2", optimizer.beta2, FLOAT, NULL, "", 0, 0.9999999,
              "as optimizer.beta2"),
    NUMBER_OF(OVERRIDE, "momentum", optimizer.momentum, FLOAT, NULL, "", 0, 1,
              "as optimizer.momentum"),
    NUMBER_OF(OVERRIDE, "eta", optimizer.eta, FLOAT, NULL, "", 0, 1e9,
              "as optimizer.eta"),
    NUMBER_OF(OVERRIDE, "weight_decay", optimizer.weight_decay, FLOAT, NULL, "",
              0, 1e9, "as optimizer.weight_decay"),
    WORD_OF(OVERRIDE, "weight_decay_mode", optimizer.weight_decay_mode, CHOICE,
            "l2", "none|l2|decoupled", "how weight_decay enters"),

    WORD(DECK, dense.parallel, STRING, "ddp", TS_CHOICES(TS_PARALLELS),
         "of the dense parameters: ddp: on every rank; fully_sharded: cut over "
         "the ranks, layers gathered as they are used: doc/dense.md"),
    NUMBER(DECK, dense.bucket_mb, FLOAT, "25.0", "MiB", 0, 1e6,
           "of a reduction; 0: first 1, then 25"),
    WORD(DECK, dense.comm_dtype, STRING, "f32", "f32|bf16|f16",
         "how dense gradients travel; bf16 and f16 are summed in f32 and "
         "rounded once: half the bytes"),
    NUMBER_OF(DECK, "dense.reshard_after_forward", dense.reshard, RANKS, "true",
              "ranks", 1, 1000000,
              "fully sharded layers between forward and backward: true: cut "
              "over all ranks; false: whole; N: cut over N neighbouring ranks"),
    FLAG(DECK, dense.post_optimizer_event, "true",
         "a step's first gathering waits for the optimizer alone; false: for "
         "all that was computed before it"),
    NUMBER(DECK, dense.reduce_inputs, INT32, "1", "", 1, 8,
           "gradients of layers that are on their way at once"),
    LIST(GROUP, layers, STRINGS,
         "neighbouring layers (shell patterns) that are gathered and reduced "
         "as one"),
    PREFETCH(FORWARD),
    PREFETCH(BACKWARD),

    WORD(DECK, comm.backend, STRING, "auto", "auto|mpi|nccl",
         "of collectives on the memory of GPUs; mpi: through pinned memory of "
         "the host; auto: nccl where it is built in and no two ranks share a "
         "GPU, else mpi.  Without GPUs it is mpi"),
    WORD_OF(DECK, "comm.reduce", comm.ordered, CHOICE, "ordered", "mpi|ordered",
            "ordered: sums in rank order, the same bits with any MPI library"),
    WORD(DECK, comm.input_dist, CHOICE, "auto", "auto|exact|bounded",
         "sizes of input dist's messages on GPUs; exact: as the GPU counts "
         "ids, and the host waits for that; bounded: as the host has read "
         "them, and nothing waits; auto: bounded, but exact with data.dedup "
         "or sequences, where the GPU finds what is distinct"),
    NUMBER(DECK, comm.timeout_s, FLOAT, "600.0", "s", 0, 1e9,
           "deadline of a collective; 0: none"),
    NUMBER_OF(DECK, "comm.delay.latency_us", comm.delay_us, FLOAT, "0.0", "us",
              0, 1e9, "a slower network, to measure overlap"),
    NUMBER_OF(DECK, "comm.delay.gbytes_per_s", comm.delay_gbytes_per_s, FLOAT,
              "0.0", "GB/s", 0, 1e9, "its bandwidth; 0: as it is"),

    WORD(DECK, sharding.plan, PATH, "auto", "auto|replan|by_size",
         "auto: the planner's, which a resumed run keeps; replan: resumed runs "
         "plan afresh, too; by_size: by bytes alone; else a file of tessera "
         "plan --save: see Planner in the manual"),
    WORD(DECK, sharding.topology, PATH, "measure", "default|measure",
         "what the planner takes the machine for; measure: timed at the first "
         "start; default: round figures, the same everywhere; else a file of "
         "tessera plan --measure"),
    NUMBER(DECK, sharding.ranks_per_node, INT32, "0", "ranks", 0, 1000000,
           "0: as the launcher says"),
    NUMBER(DECK, sharding.memory_gib, FLOAT, "0.0", "GiB", 0, 1e9,
           "limit of a rank; 0: 85% of its share of the machine's memory"),
    NUMBER(DECK, sharding.min_column, INT32, "32", "columns", 4, 1000000,
           "least width of a column shard"),
    WORD(DECK, sharding.comm_dtype_forward, STRING, "f32", "f32|bf16|f16|int8",
         "how pooled embeddings travel"),
    WORD(DECK, sharding.comm_dtype_backward, STRING, "f32", "f32|bf16|f16|int8",
         "how their gradients travel"),

    WORD(DECK, pipeline.kind, STRING, "sparse_dist", TS_CHOICES(TS_PIPELINES),
         "what overlaps with what"),
    WORD(DECK, pipeline.lookup, STRING, "before_optimizer",
         "before_optimizer|after_optimizer",
         "fused_sparse_dist: when the next batch's lookup is enqueued"),
    WORD(DECK, pipeline.lookup_lane, STRING, "data_dist",
         "data_dist|own|compute", "fused_sparse_dist: where it runs"),
    NUMBER(DECK, pipeline.start_batch, INT, "900", "steps", 0, 1e15,
           "semi_sync: steps before lookups run ahead of updates"),
    FLAG(DECK, pipeline.stash_gradients, "false",
         "semi_sync: dense updates are a step late, too"),

    WORD(DECK, checkpoint.dir, PATH, "", "none",
         "\"\": OUTPUT/checkpoints; \"none\": no checkpoints.  One is always "
         "written at the end"),
    NUMBER(DECK, checkpoint.every, INT, "0", "steps", 0, 1e15,
           "0: only at the end"),
    NUMBER(
        DECK, checkpoint.delta_every, INT, "0", "steps", 0, 1e15,
        "every how many steps, between those of checkpoint.every, a delta is "
        "written: the rows of tables that have changed since the checkpoint "
        "or delta before, and all dense parameters.  A run goes on from a "
        "delta as from a checkpoint; \"tessera compact\" makes one of it.  0: "
        "none"),
    FLAG(
        DECK, checkpoint.delta_state, "true",
        "deltas have the optimizers' state, too.  false: they are called "
        "weights-N.h5, are smaller, and are for eval, predict, topk and export "
        "by --checkpoint; a run goes on from the last full checkpoint"),
    NUMBER(DECK, checkpoint.keep, INT32, "2", "files", 1, 1000000,
           "newest full ones that stay, and their deltas"),
    FLAG(DECK, checkpoint.best, "false",
         "keeps the checkpoint of the best validation as best.h5; with "
         "run.stop.patience and restore \"best\" it is kept in any case"),
    FLAG(DECK, checkpoint.async, "true",
         "checkpoints of checkpoint.every are written while training goes on, "
         "from a copy, where memory allows; the log says where not.  The last "
         "one, and that of a stop, is always waited for"),
    NUMBER(DECK, checkpoint.buffer_mib, INT, "0", "MiB", 0, 1e9,
           "the most that a rank's copy may take; a step waits while what does "
           "not fit is written.  0: as much as it needs, up to half of the "
           "memory that is free on the node"),
    WORD(DECK, checkpoint.mirror, PATH, "", NULL,
         "second folder, which finished checkpoints are copied to beside the "
         "steps, and whose newest is taken where this one's are damaged or "
         "gone; one that can't be written is told, and training goes on.  "
         "\"\": none"),
    NUMBER(DECK, checkpoint.mirror_every, INT32, "1", "checkpoints", 1, 1000000,
           "every how many checkpoints one is copied to the mirror; the last "
           "one of a run always is"),
    WORD(DECK, checkpoint.io, STRING, "auto", "auto|pwrite|mpio",
         "auto: mpio on NFS, else pwrite"),
    WORD(DECK, checkpoint.resume, STRING, "auto", "auto|never|must",
         "go on from the newest checkpoint"),
    WORD(DECK, checkpoint.init_from, PATH, "", NULL,
         "file with initial weights, any subset of /model; or a folder of "
         "checkpoints, the newest"),
    FLAG(DECK, checkpoint.init_state, "false",
         "from that file optimizers' state and its step as well: training goes "
         "on with other data; run.steps counts those steps, too"),

    NUMBER(DECK, metrics.window, INT, "10000000", "samples", 0, 1e12,
           "that window metrics look back, by whole steps; AUC at most 262144 "
           "of them"),
    KEY(DECK, "metrics.report", metrics.report, STRINGS,
        "[\"auc\", \"logloss\", \"ne\", \"accuracy\", \"calibration\"]", "", 1,
        0, TS_CHOICES(TS_METRICS),
        "what evaluations say, in this order; the manual says what each is"),
    NUMBER(
        DECK, metrics.threshold, FLOAT, "0.5", "", 0, 1,
        "predictions from here on are a yes, for accuracy, precision, recall "
        "and f1"),
    WORD(DECK, metrics.group, STRING, "", NULL,
         "feature whose first id says to which group, such as a user, a sample "
         "belongs: for gauc, ndcg, hit_rate, mrr and recall_at_k"),
    NUMBER(DECK, metrics.k, INT, "10", "samples", 1, 1e9,
           "of a group, those with the highest predictions, for ndcg, hit_rate "
           "and recall_at_k"),
    NUMBER(DECK, metrics.rotate_mib, FLOAT, "0.0", "MiB", 0, 1e9,
           "size at which metrics.jsonl becomes metrics.1.jsonl, "
           "metrics.2.jsonl and so on, and begins anew; 0: it grows"),

#include "io/schema_tables.h"
};

const int ts_schema_n = sizeof ts_schema / sizeof *ts_schema;
