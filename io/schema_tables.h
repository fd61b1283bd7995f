/* schema_tables.h - the schema's rows of a table's keys: schema.c has them in
 * its list. */
#define TABLE(path, kind, field, fallback, unit, min, max, choices, help)      \
  {                                                                            \
    TS_SCOPE_TABLE, path, TS_KEY_##kind, offsetof(ts_table_config, field),     \
        fallback, unit, min, max, choices, help                                \
  }
#define ROW_OPTIMIZERS                                                         \
  "rowwise_adagrad|sgd|adagrad|adam|partial_rowwise_adam|lamb|"                \
  "partial_rowwise_lamb|lars_sgd|none"
#define SHARDINGS                                                              \
  "auto|data_parallel|table_wise|row_wise|column_wise|table_row_wise|"         \
  "table_column_wise|grid"

TABLE("name", STRING, name, NULL, "", 1, 0, NULL,
      "t{0..25} makes one table per number"),
    TABLE("rows", ROWS, rows, NULL, "rows", 1, 9e15, NULL,
          "a list gives one number per table"),
    TABLE("dim", INT32, dim, "64", "floats", 1, 65536, NULL,
          "width of a row; multiples of 16 are fast"),
    TABLE("features", STRINGS, features, NULL, "", 1, 0, NULL,
          "looked up in this table; C{1..26} gives one per table"),
    TABLE("pooling", CHOICE, pooling, "\"sum\"", "", 1, 0, "sum|mean|-none",
          "of a bag's rows"),
    TABLE("weighted", BOOL, weighted, "false", "", 1, 0, NULL,
          "ids carry weights"),
    TABLE("dtype", CHOICE, dtype, "\"f32\"", "", 1, 0, "f32|bf16|f16",
          "of rows; 16-bit rows are rounded stochastically"),
    TABLE("init.kind", STRING, init_kind, "\"uniform\"", "", 1, 0,
          "uniform|normal|constant", "of initial weights"),
    TABLE("init.scale", FLOAT, init_scale, "0.0", "", -1e6, 1e6, NULL,
          "0: 1/sqrt(rows); of constant: the value"),
    TABLE("optimizer.kind", STRING, optimizer.kind, "\"rowwise_adagrad\"", "",
          1, 0, ROW_OPTIMIZERS,
          "doc/sparse.md; none: trained by the deck's optimizer, like a dense "
          "parameter"),
    TABLE("optimizer.lr", FLOAT, optimizer.lr, "0.01", "", 0, 1e9, NULL,
          "learning rate"),
    TABLE("optimizer.eps", FLOAT, optimizer.eps, NULL, "", 0, 1e9, NULL,
          "1e-8 unless given"),
    TABLE("optimizer.beta1", FLOAT, optimizer.beta1, NULL, "", 0, 0.9999999,
          NULL, "0.9 unless given"),
    TABLE("optimizer.beta2", FLOAT, optimizer.beta2, NULL, "", 0, 0.9999999,
          NULL, "0.999 unless given"),
    TABLE("optimizer.momentum", FLOAT, optimizer.momentum, NULL, "", 0, 1, NULL,
          "0.9 unless given"),
    TABLE("optimizer.eta", FLOAT, optimizer.eta, NULL, "", 0, 1e9, NULL,
          "0.001 unless given"),
    TABLE("optimizer.weight_decay", FLOAT, optimizer.weight_decay, NULL, "", 0,
          1e9, NULL, "needs a mode"),
    TABLE("optimizer.weight_decay_mode", CHOICE, optimizer.weight_decay_mode,
          "\"none\"", "", 1, 0, "none|l2|decoupled", "of rows with a gradient"),
    TABLE("sharding", CHOICE, sharding, "\"auto\"", "", 1, 0, SHARDINGS,
          "where the rows live: see Sharding in the manual"),
    TABLE("ranks", INTS, ranks, "[]", "", 0, 1000000, NULL, "fixed placement"),
    TABLE("allow", STRINGS, allow, "[]", "", 1, 0, NULL,
          "shardings that the planner may use; empty: all"),
    TABLE("kernel", STRING, kernel, "\"auto\"", "", 1, 0,
          "auto|fused|-dense|cached|host",
          "fused: rows in fast memory; cached: in slow memory behind a cache; "
          "host: in slow memory; doc/cache.md"),
    TABLE("feature_processor.kind", STRING, feature_processor, "\"none\"", "",
          1, 0, "none|position_weighted",
          "position_weighted: a trained weight for each position in a bag, per "
          "feature; see Sharding in the manual"),
    TABLE("feature_processor.max_length", INT32, max_length, "0", "positions",
          0, 65536, NULL,
          "of position_weighted; ids further on have the last weight"),
    TABLE("cache.load_factor", FLOAT, cache.load_factor, NULL, "", 1e-6, 1,
          NULL,
          "of kernel \"cached\": lines of fast memory per row; unless given "
          "the planner's, who fills the memory there is"),
    TABLE("cache.policy", STRING, cache.policy, "\"lru\"", "", 1, 0, "lru|lfu",
          "which line is given away: the one used longest ago, or the one used "
          "least of late"),
    TABLE(
        "cache.depth", INT32, cache.depth, "1", "batches", 1, 4, NULL,
        "batches whose rows pipeline \"prefetch\" fetches ahead; the most that "
        "a table asks for counts for all"),
    TABLE("cache.prefetch_passes", COUNT, cache.passes, "1", "passes", 1, 1000,
          "auto", "cuts the scratch of a batch's prefetch into as many parts"),
    TABLE("cache.min_pass_size", INT, cache.min_pass_size, "0", "ids", 0, 1e12,
          NULL, "least ids of a pass"),
    TABLE("cache.tier", STRING, cache.tier, "\"host\"", "", 1, 0, "host|file",
          "slow memory: the host's, or a mapped file in run.tier_dir"),
