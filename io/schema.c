/* schema.c - the rows of the schema. */
#include "io/schema.h"

#include "base/kinds.h"

#define DECK(path, kind, field, fallback, unit, min, max, choices, help)       \
  {                                                                            \
    TS_SCOPE_DECK, path, TS_KEY_##kind, offsetof(ts_config, field), fallback,  \
        unit, min, max, choices, help                                          \
  }
#define OVERRIDE(path, kind, field, fallback, choices, help)                   \
  {                                                                            \
    TS_SCOPE_OVERRIDE, path, TS_KEY_##kind,                                    \
        offsetof(ts_optim_override, field), fallback, "", 1, 0, choices, help  \
  }
#define OVERRIDE_NUMBER(path, field, max, help)                                \
  {                                                                            \
    TS_SCOPE_OVERRIDE, path, TS_KEY_FLOAT, offsetof(ts_optim_override, field), \
        NULL, "", 0, max, NULL, help                                           \
  }
#define PREFETCH(pass)                                                         \
  {TS_SCOPE_##pass,                                                            \
   "layer",                                                                    \
   TS_KEY_STRING,                                                              \
   offsetof(ts_prefetch_config, layer),                                        \
   NULL,                                                                       \
   "",                                                                         \
   1,                                                                          \
   0,                                                                          \
   NULL,                                                                       \
   "the layer that has been gathered"},                                        \
  {                                                                            \
    TS_SCOPE_##pass, "prefetch", TS_KEY_STRINGS,                               \
        offsetof(ts_prefetch_config, prefetch), "[]", "", 1, 0, NULL,          \
        "layers to gather then, in this order; []: as without an entry"        \
  }

const ts_key ts_schema[] = {
    DECK("run.name", STRING, run.name, "\"run\"", "", 1, 0, NULL,
         "name of the run"),
    DECK("run.output", PATH, run.output, "\"\"", "", 1, 0, NULL,
         "output folder: metrics.jsonl, log, deck.effective, trace and by "
         "default the checkpoints; \"\": runs/NAME beside the deck"),
    DECK("run.seed", INT, run.seed, "1", "", 0, 9e15, NULL,
         "of initial weights and stochastic rounding"),
    DECK("run.backend", CHOICE, run.backend, "\"auto\"", "", 1, 0,
         "auto|host|cuda|?emulated", "auto: the host"),
    DECK("run.steps", INT, run.steps, "0", "steps", 0, 1e15, NULL,
         "optimizer steps from the first start; or give run.epochs"),
    DECK("run.epochs", FLOAT, run.epochs, "0.0", "epochs", 0, 1e9, NULL,
         "passes over the training data; or give run.steps"),
    DECK("run.threads", INT32, run.threads, "0", "threads", 0, 4096, NULL,
         "per rank; 0: the rank's share of the CPUs that the job may use; a "
         "launcher's one-core binding is widened, and the log says so"),
    DECK("run.precision", CHOICE, run.precision, "\"f32\"", "", 1, 0,
         "f32|tf32|bf16",
         "of dense matrix products; weights and sums stay f32. tf32: a GPU's "
         "f32 with 10 bits of mantissa; f32 on the host"),
    DECK("run.lanes", CHOICE, run.serial_lanes, "\"parallel\"", "", 1, 0,
         "parallel|serial",
         "serial: nothing overlaps; the results are the same bit for bit"),
    DECK("run.graph", CHOICE, run.graph, "\"auto\"", "", 1, 0, "off|auto",
         "a step's work on a GPU as one CUDA graph, where its order allows; a "
         "note says why not"),
    DECK("run.log_every", INT, run.log_every, "50", "steps", 1, 1e12, NULL,
         "between progress lines"),
    DECK("run.eval_every", INT, run.eval_every, "0", "steps", 0, 1e12, NULL,
         "between evaluations on data.eval; 0: only at the end"),
    DECK("run.max_time", TIME, run.max_time_s, "\"\"", "hh:mm:ss", 1, 0, NULL,
         "saves and ends with code 75 before it is over"),
    DECK("run.accumulate", INT32, run.accumulate, "1", "micro-batches", 1, 1e6,
         NULL,
         "micro-batches per optimizer step: data.global_batch is cut into "
         "them, and parameters and tables are updated once, from all"),
    DECK("run.on_nan", CHOICE, run.on_nan, "\"stop\"", "", 1, 0,
         "stop|skip|rollback",
         "a loss that is not a number: stop (code 3), leave the step out, or "
         "go back to the last checkpoint's weights and go on with the data.  "
         "skip and rollback look at gradients and dense parameters, too: what "
         "is not finite there may have been applied already, so both go back "
         "to the checkpoint"),
    DECK("run.max_skips", INT, run.max_skips, "100", "steps", 0, 1e15, NULL,
         "steps that run.on_nan may leave out or go back for, of one start; "
         "then the run stops (code 3)"),
    DECK("run.tier_dir", PATH, run.tier_dir, "\"\"", "", 1, 0, NULL,
         "folder on a disk of the node's own, for tables with cache.tier = "
         "\"file\": a file per rank and group, without a name"),
    DECK("run.deadline_s", FLOAT, run.deadline_s, "0.0", "s", 0, 1e9, NULL,
         "longest time that a rank may take without getting on, before the "
         "watchdog ends the run with code 5; 0: 50 times the median step, at "
         "least 120 s (steps, evaluation, input), else comm.timeout_s"),
    DECK("run.deadlines.setup_s", FLOAT, run.deadlines.setup_s, "0.0", "s", 0,
         1e9, NULL, "of the set-up; 0 here and below: run.deadline_s"),
    DECK("run.deadlines.step_s", FLOAT, run.deadlines.step_s, "0.0", "s", 0,
         1e9, NULL, "of a step; never less than that of input"),
    DECK("run.deadlines.eval_s", FLOAT, run.deadlines.eval_s, "0.0", "s", 0,
         1e9, NULL, "of a batch of an evaluation; never less than input's"),
    DECK("run.deadlines.save_s", FLOAT, run.deadlines.save_s, "0.0", "s", 0,
         1e9, NULL, "of saving a checkpoint"),
    DECK("run.deadlines.load_s", FLOAT, run.deadlines.load_s, "0.0", "s", 0,
         1e9, NULL, "of loading one"),
    DECK("run.deadlines.input_s", FLOAT, run.deadlines.input_s, "0.0", "s", 0,
         1e9, NULL, "of opening the data, and of waiting for a batch of it"),
    DECK("run.trace", STRING, run.trace, "\"\"", "", 1, 0, NULL,
         "file in the output folder for a trace of the whole run (for Chrome's "
         "trace viewer and tessera trace); \"\": none"),

    DECK("data.train", PATHS, data.train, "[]", "", 1, 0, NULL,
         "files of training data; globs and lists; paths from the deck's "
         "folder"),
    DECK("data.eval", PATHS, data.eval, "[]", "", 1, 0, NULL,
         "files of evaluation data; synthetic data needs none"),
    DECK("data.format", STRING, data.format, "\"auto\"", "", 1, 0,
         "auto" TS_DATA_FORMATS(TS_OR_NAME),
         "auto looks at the file; .gz text is read as it is"),
    DECK("data.global_batch", INT, data.global_batch, "0", "samples", 0, 1e9,
         NULL, "of all ranks together; or give data.batch_per_rank"),
    DECK("data.batch_per_rank", INT, data.batch_per_rank, "0", "samples", 0,
         1e9, NULL, "of each rank; exactly one of the two"),
    DECK("data.pin_memory", BOOL, data.pin_memory, "true", "", 1, 0, NULL,
         "page-locked input buffers where the backend has them: a GPU then "
         "copies batches beside its work"),
    DECK("data.input", STRING, data.input, "\"kjt\"", "", 1, 0, "kjt|columns",
         "a batch's ids: all features in one array, or an array each"),
    DECK("data.dedup", STRINGS, data.dedup, "[]", "", 1, 0, NULL,
         "features whose distinct bags are sent and looked up once"),
    DECK("data.shuffle", STRING, data.shuffle, "\"none\"", "", 1, 0,
         "none|-block", "order of the samples"),
    DECK("data.drop_last", BOOL, data.drop_last, "false", "", 1, 0, NULL,
         "leave out an epoch's short last batch"),
    DECK("data.on_bad_id", CHOICE, data.on_bad_id, "\"stop\"", "", 1, 0,
         "stop|drop", "an id that is no row of its table"),
    DECK("data.on_bad_record", CHOICE, data.on_bad_record, "\"stop\"", "", 1, 0,
         "stop|skip", "a record that can't be read"),
    DECK("data.max_bad", INT, data.max_bad, "1000", "", 0, 1e15, NULL,
         "bad ids and records of a rank after which it stops all the same"),
    DECK("data.categorical", STRING, data.categorical, "\"modulo\"", "", 1, 0,
         "modulo|hash", "criteo_tsv: hex ids to rows"),
    DECK("data.synthetic.samples", INT, data.synthetic.samples, "1000000",
         "samples", 1, 1e13, NULL, "of the training part"),
    DECK("data.synthetic.eval_samples", INT, data.synthetic.eval_samples, "0",
         "samples", 0, 1e13, NULL, "0: a tenth of samples"),
    DECK("data.synthetic.zipf", FLOAT, data.synthetic.zipf, "1.05", "", 0, 10,
         NULL, "exponent of the ids' popularity; 0: uniform"),
    DECK("data.synthetic.pooling", INTS, data.synthetic.pooling, "[1]", "ids",
         0, 100000, NULL, "ids per bag: one number, or one per feature"),
    DECK("data.synthetic.hidden_dim", INT32, data.synthetic.hidden_dim, "8", "",
         1, 256, NULL, "width of the planted truth's hidden vectors"),
    DECK("data.synthetic.noise", FLOAT, data.synthetic.noise, "1.0", "", 0, 100,
         NULL, "scale of what no feature explains, in logits"),
    DECK("data.synthetic.seed", INT, data.synthetic.seed, "1", "", 0, 9e15,
         NULL, "of the planted truth"),
    DECK("data.synthetic.ring", INT, data.synthetic.ring, "0", "batches", 0,
         100000, NULL,
         "for benchmarks: so many batches are drawn once, kept in memory and "
         "given again in turns; 0: all are new"),
    DECK("data.csv.label", STRING, data.csv.label, "\"label\"", "", 1, 0, NULL,
         "column of the label"),
    DECK("data.csv.labels", STRINGS, data.csv.labels, "[]", "", 1, 0, NULL,
         "instead, with several tasks: a column for each"),
    DECK("data.csv.label_true", STRINGS, data.csv.label_true, "[]", "", 1, 0,
         NULL, "labels that mean 1; others mean 0"),
    DECK("data.csv.label_threshold", FLOAT, data.csv.label_threshold, NULL, "",
         1, 0, NULL, "labels from here on mean 1; else they are 0 or 1"),
    DECK("data.csv.separator", STRING, data.csv.separator, "\",\"", "", 1, 0,
         NULL, "between fields: one character, or \"tab\""),
    DECK("data.csv.missing", STRING, data.csv.missing, "\"\"", "", 1, 0, NULL,
         "a field that means missing, besides the empty one"),
    DECK("data.csv.dense", STRINGS, data.csv.dense, "[]", "", 1, 0, NULL,
         "numeric columns"),
    DECK("data.csv.sparse", STRINGS, data.csv.sparse, "[]", "", 1, 0, NULL,
         "categorical columns; empty: the tables' features"),
    DECK("data.csv.dense_transform", STRING, data.csv.dense_transform,
         "\"none\"", "", 1, 0, "none|log1p|standardise|log1p_standardise",
         "of numeric columns; missing ones become 0 afterwards"),
    DECK("data.csv.encoding", STRING, data.csv.encoding, "\"hash\"", "", 1, 0,
         "hash|vocabulary",
         "of categorical columns; a vocabulary is built from the training "
         "files and kept in the checkpoint; row 0 is for unknown values"),

    DECK("model.kind", STRING, model.kind, "\"dlrm\"", "", 1, 0,
         TS_CHOICES(TS_MODELS), "what is computed: see Models in the manual"),
    DECK("model.dense_features", INT32, model.dense_features, "0", "", 0,
         1000000, NULL, "0: no dense arch, b is left out"),
    DECK("model.dense_arch", INTS, model.dense_arch, "[]", "outputs", 1,
         1000000, NULL, "layers of the bottom MLP; not of deepfm"),
    DECK("model.over_arch", INTS, model.over_arch, "[1]", "outputs", 1, 1000000,
         NULL, "layers of the top MLP; the last is the logit"),
    DECK("model.dcn.layers", INT32, model.dcn_layers, "3", "", 1, 1000, NULL,
         "dcnv2: cross layers"),
    DECK("model.dcn.rank", INT32, model.dcn_rank, "512", "", 1, 1000000, NULL,
         "dcnv2: of their products W V"),
    DECK("model.deepfm.hidden", INT32, model.deepfm_hidden, "20", "outputs", 1,
         1000000, NULL, "deepfm: the first of the two layers below"),
    DECK("model.deepfm.fm_dim", INT32, model.deepfm_fm_dim, "5", "outputs", 1,
         1000000, NULL, "deepfm: the deep layer"),
    DECK("model.deepfm.fm", STRING, model.deepfm_fm, "\"flat\"", "", 1, 0,
         "flat|field",
         "deepfm: its factorisation machine is over all scalars, or over "
         "vectors, coordinate by coordinate"),
    {TS_SCOPE_TASK, "name", TS_KEY_STRING, offsetof(ts_task_config, name),
     "\"label\"", "", 1, 0, NULL, "name of the task"},
    {TS_SCOPE_TASK, "weight", TS_KEY_FLOAT, offsetof(ts_task_config, weight),
     "1.0", "", 0, 1e9, NULL, "of its loss"},

    DECK("optimizer.kind", STRING, optimizer.base.kind, "\"adam\"", "", 1, 0,
         TS_CHOICES(TS_DENSE_OPTIMS), "for the dense parameters"),
    DECK("optimizer.lr", FLOAT, optimizer.base.lr, "1e-3", "", 0, 1e9, NULL,
         "learning rate"),
    DECK("optimizer.eps", FLOAT, optimizer.base.eps, NULL, "", 0, 1e9, NULL,
         "1e-10 for adagrad, else 1e-8 unless given"),
    DECK("optimizer.beta1", FLOAT, optimizer.base.beta1, NULL, "", 0, 0.9999999,
         NULL, "0.9 unless given"),
    DECK("optimizer.beta2", FLOAT, optimizer.base.beta2, NULL, "", 0, 0.9999999,
         NULL, "0.999 unless given"),
    DECK("optimizer.momentum", FLOAT, optimizer.base.momentum, NULL, "", 0, 1,
         NULL, "of sgd 0, of momentum and lars 0.9 unless given"),
    DECK("optimizer.eta", FLOAT, optimizer.base.eta, NULL, "", 0, 1e9, NULL,
         "of lars, 0.001 unless given"),
    DECK("optimizer.weight_decay", FLOAT, optimizer.base.weight_decay, NULL, "",
         0, 1e9, NULL, "l2 unless the mode says otherwise"),
    DECK("optimizer.weight_decay_mode", CHOICE,
         optimizer.base.weight_decay_mode, "\"l2\"", "", 1, 0,
         "none|l2|decoupled",
         "how weight_decay enters; adamw's is decoupled, lamb's and lars's "
         "part of their norms"),
    DECK("optimizer.in_backward", BOOL, optimizer.in_backward, "true", "", 1, 0,
         NULL,
         "update parameters as soon as their gradients are reduced and their "
         "layer's backward pass is over; a few buckets of gradients are held, "
         "not all"),
    DECK("optimizer.schedule.kind", STRING, optimizer.schedule, "\"constant\"",
         "", 1, 0, "constant|linear|cosine|inverse_sqrt|polynomial|step",
         "scales the tables' rates too; formulas: doc/dense.md"),
    DECK("optimizer.schedule.warmup", INT, optimizer.warmup, "0", "steps", 0,
         1e15, NULL, "linear rise to the full rate"),
    DECK("optimizer.schedule.steps", INT, optimizer.schedule_steps, "0",
         "steps", 0, 1e15, NULL,
         "end of the decay, warm-up included; for step: between falls"),
    DECK("optimizer.schedule.power", FLOAT, optimizer.power, "1.0", "", 0, 100,
         NULL, "of polynomial decay; factor of step decay"),
    DECK("optimizer.schedule.floor", FLOAT, optimizer.floor, "0.0", "", 0, 1,
         NULL, "least factor"),
    DECK("optimizer.clip_norm", FLOAT, optimizer.clip_norm, "0.0", "", 0, 1e12,
         NULL, "global norm of the dense gradients; 0: no clipping"),
    OVERRIDE("match", STRING, match, NULL, NULL,
             "shell pattern over full parameter names"),
    OVERRIDE("kind", STRING, optimizer.kind, NULL, TS_CHOICES(TS_DENSE_OPTIMS),
             "optimizer of these parameters"),
    OVERRIDE_NUMBER("lr", optimizer.lr, 1e9, "learning rate"),
    OVERRIDE_NUMBER("eps", optimizer.eps, 1e9, "as optimizer.eps"),
    OVERRIDE_NUMBER("beta1", optimizer.beta1, 0.9999999, "as optimizer.beta1"),
    OVERRIDE_NUMBER("beta2", optimizer.beta2, 0.9999999, "as optimizer.beta2"),
    OVERRIDE_NUMBER("momentum", optimizer.momentum, 1, "as optimizer.momentum"),
    OVERRIDE_NUMBER("eta", optimizer.eta, 1e9, "as optimizer.eta"),
    OVERRIDE_NUMBER("weight_decay", optimizer.weight_decay, 1e9,
                    "as optimizer.weight_decay"),
    OVERRIDE("weight_decay_mode", CHOICE, optimizer.weight_decay_mode, "\"l2\"",
             "none|l2|decoupled", "how weight_decay enters"),

    DECK("dense.parallel", STRING, dense.parallel, "\"ddp\"", "", 1, 0,
         TS_CHOICES(TS_PARALLELS),
         "of the dense parameters: ddp: on every rank; fully_sharded: cut over "
         "the ranks, layers gathered as they are used: doc/dense.md"),
    DECK("dense.bucket_mb", FLOAT, dense.bucket_mb, "25.0", "MiB", 0, 1e6, NULL,
         "of a reduction; 0: first 1, then 25"),
    DECK("dense.comm_dtype", STRING, dense.comm_dtype, "\"f32\"", "", 1, 0,
         "f32|bf16|f16",
         "how dense gradients travel; bf16 and f16 are summed in f32 and "
         "rounded once: half the bytes"),
    DECK("dense.reshard_after_forward", RANKS, dense.reshard, "true", "ranks",
         1, 1000000, NULL,
         "fully sharded layers between forward and backward: true: cut over "
         "all ranks; false: whole; N: cut over N neighbouring ranks"),
    DECK("dense.post_optimizer_event", BOOL, dense.post_optimizer_event, "true",
         "", 1, 0, NULL,
         "a step's first gathering waits for the optimizer alone; false: for "
         "all that was computed before it"),
    DECK("dense.reduce_inputs", INT32, dense.reduce_inputs, "1", "", 1, 8, NULL,
         "gradients of layers that are on their way at once"),
    {TS_SCOPE_GROUP, "layers", TS_KEY_STRINGS,
     offsetof(ts_layers_config, layers), "[]", "", 1, 0, NULL,
     "neighbouring layers (shell patterns) that are gathered and reduced as "
     "one"},
    PREFETCH(FORWARD),
    PREFETCH(BACKWARD),

    DECK("comm.backend", STRING, comm.backend, "\"auto\"", "", 1, 0,
         "auto|mpi|nccl",
         "of collectives on the memory of GPUs; mpi: through pinned memory of "
         "the host; auto: nccl where it is built in and no two ranks share a "
         "GPU, else mpi.  Without GPUs it is mpi"),
    DECK("comm.reduce", CHOICE, comm.ordered, "\"ordered\"", "", 1, 0,
         "mpi|ordered",
         "ordered: sums in rank order, the same bits with any MPI library"),
    DECK("comm.timeout_s", FLOAT, comm.timeout_s, "600.0", "s", 0, 1e9, NULL,
         "deadline of a collective; 0: none"),
    DECK("comm.delay.latency_us", FLOAT, comm.delay_us, "0.0", "us", 0, 1e9,
         NULL, "a slower network, to measure overlap"),
    DECK("comm.delay.gbytes_per_s", FLOAT, comm.delay_gbytes_per_s, "0.0",
         "GB/s", 0, 1e9, NULL, "its bandwidth; 0: as it is"),

    DECK("sharding.plan", PATH, sharding.plan, "\"auto\"", "", 1, 0,
         "auto|replan|by_size",
         "auto: the planner's, which a resumed run keeps; replan: resumed runs "
         "plan afresh, too; by_size: by bytes alone; else a file of tessera "
         "plan --save: see Planner in the manual"),
    DECK("sharding.topology", PATH, sharding.topology, "\"measure\"", "", 1, 0,
         "default|measure",
         "what the planner takes the machine for; measure: timed at the first "
         "start; default: round figures, the same everywhere; else a file of "
         "tessera plan --measure"),
    DECK("sharding.ranks_per_node", INT32, sharding.ranks_per_node, "0",
         "ranks", 0, 1000000, NULL, "0: as the launcher says"),
    DECK("sharding.memory_gib", FLOAT, sharding.memory_gib, "0.0", "GiB", 0,
         1e9, NULL,
         "limit of a rank; 0: 85% of its share of the machine's memory"),
    DECK("sharding.min_column", INT32, sharding.min_column, "32", "columns", 4,
         1000000, NULL, "least width of a column shard"),
    DECK("sharding.comm_dtype_forward", STRING, sharding.comm_dtype_forward,
         "\"f32\"", "", 1, 0, "f32|bf16|f16|int8",
         "how pooled embeddings travel"),
    DECK("sharding.comm_dtype_backward", STRING, sharding.comm_dtype_backward,
         "\"f32\"", "", 1, 0, "f32|bf16|f16|int8",
         "how their gradients travel"),

    DECK("pipeline.kind", STRING, pipeline.kind, "\"base\"", "", 1, 0,
         TS_CHOICES(TS_PIPELINES), "what overlaps with what"),
    DECK("pipeline.lookup", STRING, pipeline.lookup, "\"before_optimizer\"", "",
         1, 0, "before_optimizer|after_optimizer",
         "fused_sparse_dist: when the next batch's lookup is enqueued"),
    DECK("pipeline.lookup_lane", STRING, pipeline.lookup_lane, "\"data_dist\"",
         "", 1, 0, "data_dist|own|compute", "fused_sparse_dist: where it runs"),
    DECK("pipeline.start_batch", INT, pipeline.start_batch, "900", "steps", 0,
         1e15, NULL, "semi_sync: steps before lookups run ahead of updates"),
    DECK("pipeline.stash_gradients", BOOL, pipeline.stash_gradients, "false",
         "", 1, 0, NULL, "semi_sync: dense updates are a step late, too"),

    DECK("checkpoint.dir", PATH, checkpoint.dir, "\"\"", "", 1, 0, "none",
         "\"\": OUTPUT/checkpoints; \"none\": no checkpoints.  One is always "
         "written at the end"),
    DECK("checkpoint.every", INT, checkpoint.every, "0", "steps", 0, 1e15, NULL,
         "0: only at the end"),
    DECK("checkpoint.keep", INT32, checkpoint.keep, "2", "files", 1, 1000000,
         NULL, "newest ones that stay"),
    DECK("checkpoint.async", BOOL, checkpoint.async, "true", "", 1, 0, NULL,
         "checkpoints of checkpoint.every are written while training goes on, "
         "from a copy, where memory allows; the log says where not.  The last "
         "one, and that of a stop, is always waited for"),
    DECK("checkpoint.buffer_mib", INT, checkpoint.buffer_mib, "0", "MiB", 0,
         1e9, NULL,
         "the most that a rank's copy may take; a step waits while what does "
         "not fit is written.  0: as much as it needs, up to half of the "
         "memory that is free on the node"),
    DECK("checkpoint.mirror", PATH, checkpoint.mirror, "\"\"", "", 1, 0, NULL,
         "second folder, which finished checkpoints are copied to beside the "
         "steps, and whose newest is taken where this one's are damaged or "
         "gone; one that can't be written is told, and training goes on.  "
         "\"\": none"),
    DECK("checkpoint.mirror_every", INT32, checkpoint.mirror_every, "1",
         "checkpoints", 1, 1000000, NULL,
         "every how many checkpoints one is copied to the mirror; the last "
         "one of a run always is"),
    DECK("checkpoint.io", STRING, checkpoint.io, "\"auto\"", "", 1, 0,
         "auto|pwrite|mpio", "auto: mpio on NFS, else pwrite"),
    DECK("checkpoint.resume", STRING, checkpoint.resume, "\"auto\"", "", 1, 0,
         "auto|never|must", "go on from the newest checkpoint"),
    DECK("checkpoint.init_from", PATH, checkpoint.init_from, "\"\"", "", 1, 0,
         NULL, "file with initial weights, any subset of /model"),

    DECK("metrics.window", INT, metrics.window, "10000000", "samples", 0, 1e12,
         NULL, "that window metrics look back"),

#include "io/schema_tables.h"
};

const int ts_schema_n = sizeof ts_schema / sizeof *ts_schema;
