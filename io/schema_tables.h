/* schema_tables.h - the schema's rows of a table's keys: schema.c has them in
 * its list. */
KEY(TABLE, "name", name, STRING, NULL, "", 1, 0, NULL,
    "t{0..25} makes one table per number"),
    KEY(TABLE, "rows", rows, ROWS, NULL, "rows", 1, 9e15, "auto|dynamic",
        "a list gives one number per table; auto: as many as the data need, "
        "which train --check prints; dynamic: ids are any 64-bit number, and "
        "get a row when they are first met"),
    NUMBER(TABLE, dim, INT32, "64", "floats", 1, 65536,
           "width of a row; multiples of 16 are fast"),
    KEY(TABLE, "features", features, STRINGS, NULL, "", 1, 0, NULL,
        "looked up in this table; C{1..26} gives one per table"),
    WORD(TABLE, group, STRING, "", NULL,
         "of inputs of model.layers that it is in: \"wide\" is read by "
         "embeddings:wide and fields:wide; \"\": the main one"),
    FLAG(TABLE, wide, "false",
         "its features are in a table NAME_wide, too: the same, but for dim = "
         "1 and group = \"wide\""),
    WORD(TABLE, pooling, CHOICE, "sum", "sum|mean|none", "of a bag's rows"),
    FLAG(TABLE, weighted, "false", "ids carry weights"),
    WORD(
        TABLE, dtype, CHOICE, "f32", "f32|bf16|f16|int8|int4",
        "of rows; all but f32 are rounded stochastically, int8 and int4 have a "
        "scale and a bias a row"),
    WORD_OF(TABLE, "init.kind", init_kind, STRING, "uniform",
            "uniform|normal|constant|file",
            "of initial weights; file: init.path has rows, those that it lacks "
            "are as with uniform"),
    WORD_OF(TABLE, "init.path", init_path, PATH, "", NULL,
            "of init.kind file: .npy or .safetensors, rows by number; anything "
            "else is text, a word and its numbers a line"),
    NUMBER_OF(TABLE, "init.scale", init_scale, FLOAT, "0.0", "", -1e6, 1e6,
              "0: 1/sqrt(rows); of constant: the value"),
    WORD(TABLE, optimizer.kind, STRING, "rowwise_adagrad",
         TS_CHOICES(TS_ROW_OPTIMS),
         "doc/sparse.md; none: trained by the deck's optimizer, like a dense "
         "parameter"),
    NUMBER(TABLE, optimizer.lr, FLOAT, "0.01", "", 0, 1e9, "learning rate"),
    NUMBER(TABLE, optimizer.eps, FLOAT, NULL, "", 0, 1e9, "1e-8 unless given"),
    NUMBER(TABLE, optimizer.beta1, FLOAT, NULL, "", 0, 0.9999999,
           "0.9 unless given"),
    NUMBER(TABLE, optimizer.beta2, FLOAT, NULL, "", 0, 0.9999999,
           "0.999 unless given"),
    NUMBER(TABLE, optimizer.momentum, FLOAT, NULL, "", 0, 1,
           "0.9 unless given"),
    NUMBER(TABLE, optimizer.eta, FLOAT, NULL, "", 0, 1e9, "0.001 unless given"),
    NUMBER(TABLE, optimizer.weight_decay, FLOAT, NULL, "", 0, 1e9,
           "needs a mode"),
    WORD(TABLE, optimizer.weight_decay_mode, CHOICE, "none",
         "none|l2|decoupled", "of rows with a gradient"),
    NUMBER(TABLE, max_norm, FLOAT, "0.0", "", 0, 1e9,
           "a row that an update makes longer is scaled to it; 0: none"),
    FLAG(TABLE, ema, "false",
         "rows have running means, too (optimizer.ema), which evaluations and "
         "predictions take: as much memory again as the rows in f32"),
    WORD(TABLE, sharding, CHOICE, "auto", "auto" TS_SHARDINGS(TS_OR_SHARDING),
         "where the rows live: see Sharding in the manual"),
    NUMBER(TABLE, ranks, INTS, "[]", "", 0, 1000000, "fixed placement"),
    LIST(TABLE, allow, STRINGS,
         "shardings that the planner may use; empty: all"),
    WORD(TABLE, kernel, STRING, "auto", "auto|fused|-dense|cached|host",
         "fused: rows in fast memory; cached: in slow memory behind a cache; "
         "host: in slow memory; auto: fused, or what the planner says where "
         "memory doesn't suffice; doc/cache.md"),
    NUMBER(TABLE, capacity, INT, "0", "rows", 0, 9e15,
           "of rows = \"dynamic\": as many ids have a row, on all ranks "
           "together"),
    NUMBER(TABLE, grow, FLOAT, "0.0", "", 0, 1e6,
           "of rows = \"dynamic\", more than 1: memory for a sixteenth of the "
           "rows at the start, and whenever that is used up for so many times "
           "as many rows, up to the capacity; 0: for all at the start"),
    NUMBER_OF(TABLE, "admit.min_count", admit.min_count, INT32, "1", "steps", 1,
              255,
              "of rows = \"dynamic\": an id gets its row in the step in which "
              "it is met for so many times; until then it reads zeros"),
    NUMBER_OF(TABLE, "admit.window_steps", admit.window_steps, INT, "0",
              "steps", 0, 1e12,
              "after so many counts of ids without a row are halved; 0: never"),
    NUMBER_OF(TABLE, "admit.sketch_mib", admit.sketch_mib, FLOAT, "0.0", "MiB",
              0, 1e9,
              "memory for these counts, on all ranks together; 0: 8 bytes for "
              "each row of the capacity"),
    WORD_OF(
        TABLE, "evict.kind", evict.kind, STRING, "none",
        "none|lru|lfu|ttl|score",
        "which ids of rows = \"dynamic\" lose their rows: those met longest "
        "ago; in the fewest steps; not for evict.ttl steps; with the least "
        "sum of gradients' norms"),
    NUMBER_OF(TABLE, "evict.every", evict.every, INT, "100", "steps", 1, 1e12,
              "when that is looked at"),
    NUMBER_OF(TABLE, "evict.ttl", evict.ttl, INT, "0", "steps", 0, 4e9,
              "of evict.kind ttl"),
    NUMBER_OF(
        TABLE, "evict.keep", evict.keep, FLOAT, "0.9", "", 0.01, 1,
        "of evict.kind lru, lfu and score: a share of the capacity; ids beyond "
        "it go, so that new ones find room until the next look"),
    WORD_OF(TABLE, "evict.to", evict.to, STRING, "none", "none|file",
            "file, of evict.kind lru and lfu: rows leave memory for a file in "
            "run.tier_dir, as soon as others need their room, and come back "
            "as they were"),
    NUMBER_OF(TABLE, "evict.rows", evict.rows, INT, "0", "rows", 0, 9e15,
              "of evict.to file: as many ids have a row, in memory or in the "
              "file, on all ranks together"),
    WORD_OF(TABLE, "compress.kind", compress.kind, STRING, "none",
            "none|quotient_remainder|hashes|low_rank|blocks",
            "the table is trained as several with fewer numbers in all: see "
            "Smaller tables in the manual"),
    NUMBER_OF(TABLE, "compress.collisions", compress.collisions, INT, "0",
              "ids", 0, 9e15, "of quotient_remainder: ids that share a row"),
    WORD_OF(TABLE, "compress.combine", compress.combine, STRING, "multiply",
            "multiply|add|concat",
            "of quotient_remainder: what is made of an id's two rows"),
    NUMBER_OF(TABLE, "compress.hashes", compress.hashes, INT32, "0", "rows", 0,
              64, "of hashes: rows of an id, which are summed"),
    NUMBER_OF(TABLE, "compress.rows", compress.rows, INT, "0", "rows", 0, 9e15,
              "of hashes: rows of each hash"),
    NUMBER_OF(TABLE, "compress.rank", compress.rank, INT32, "0", "floats", 0,
              65536, "of low_rank: width of a row before it is projected"),
    NUMBER_OF(TABLE, "compress.starts", compress.starts, INTS, "[]", "", 0,
              9e15, "of blocks: the first id of each but the first"),
    NUMBER_OF(TABLE, "compress.dims", compress.dims, INTS, "[]", "", 0, 65536,
              "of blocks: width of a row of each before it is projected"),
    WORD_OF(TABLE, "feature_processor.kind", feature_processor, STRING, "none",
            "none|position_weighted",
            "position_weighted: a trained weight for each position in a bag, "
            "per feature; see Sharding in the manual"),
    NUMBER_OF(TABLE, "feature_processor.max_length", max_length, INT32, "0",
              "positions", 0, 65536,
              "of position_weighted; ids further on have the last weight"),
    NUMBER(TABLE, cache.load_factor, FLOAT, NULL, "", 1e-6, 1,
           "of kernel \"cached\": lines of fast memory per row; unless given "
           "the planner's, who fills the memory there is"),
    WORD(TABLE, cache.policy, STRING, "lru", "lru|lfu",
         "which line is given away: the one used longest ago, or the one used "
         "least of late"),
    NUMBER(TABLE, cache.depth, INT32, "1", "batches", 1, 4,
           "batches whose rows pipeline \"prefetch\" fetches ahead; the most "
           "that a table asks for counts for all"),
    KEY(TABLE, "cache.prefetch_passes", cache.passes, COUNT, "1", "passes", 1,
        1000, "auto",
        "cuts the scratch of a batch's prefetch into as many parts"),
    NUMBER(TABLE, cache.min_pass_size, INT, "0", "ids", 0, 1e12,
           "least ids of a pass"),
    WORD(TABLE, cache.tier, STRING, "host", "host|file",
         "slow memory: the host's, or a mapped file in run.tier_dir"),
