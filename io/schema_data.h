/* schema_data.h - the schema's rows of data: schema.c has them in its list. */
LIST(DECK, data.train, PATHS,
     "files of training data; globs and lists; paths from the deck's "
     "folder"),
    LIST(DECK, data.valid, PATHS,
         "files for validation while training, every run.valid_every steps; "
         "synthetic data needs none"),
    LIST(DECK, data.eval, PATHS,
         "files of evaluation data; synthetic data needs none"),
    LIST(DECK, data.items, PATHS,
         "files of the items that an output ranks by a layer's vectors "
         "(model.outputs: items), a line or sample each: CSV or data sets with "
         "the features that these layers read"),
    WORD(DECK, data.format, STRING, "auto", "auto" TS_DATA_FORMATS(TS_OR_NAME),
         "auto looks at the file; .gz text is read as it is"),
    NUMBER(DECK, data.global_batch, INT, "0", "samples", 0, 1e9,
           "of all ranks together; or give data.batch_per_rank"),
    NUMBER(DECK, data.batch_per_rank, INT, "0", "samples", 0, 1e9,
           "of each rank; exactly one of the two"),
    FLAG(DECK, data.pin_memory, "true",
         "page-locked input buffers where the backend has them: a GPU then "
         "copies batches beside its work"),
    WORD(DECK, data.input, STRING, "kjt", "kjt|columns",
         "a batch's ids: all features in one array, or an array each"),
    LIST(DECK, data.dedup, STRINGS,
         "features whose distinct bags are sent and looked up once"),
    NUMBER(DECK, data.max_tokens, INT, "0", "ids", 0, 1e9,
           "of a feature that is read id by id (pooling \"none\"), in a rank's "
           "batch, at most; 0: as many as its column's max_length allows"),
    WORD(DECK, data.balance, STRING, "tokens", "samples|tokens",
         "which of a batch's samples each rank takes: as many, or, where a "
         "table's pooling is \"none\", those that take as long"),
    WORD(DECK, data.shuffle, STRING, "none", "none|block|full",
         "order of the training samples, another in each epoch: full has any "
         "sample anywhere; block moves blocks of neighbours, and mixes those "
         "of a window, for files larger than memory"),
    NUMBER(DECK, data.shuffle_window, FLOAT, "64.0", "MiB", 0.001, 1e9,
           "of data that data.shuffle = \"block\" mixes at a time"),
    NUMBER(DECK, data.streams, INT, "1", "", 1, 65536,
           "places of the training data, far from each other, that each batch "
           "is made of: as many as ranks, and each of these decodes row groups "
           "of its own"),
    NUMBER(DECK, data.split.valid, FLOAT, "0.0", "", 0, 1,
           "share of data.train that is for validation instead of data.valid; "
           "0: none"),
    WORD(DECK, data.split.by, STRING, "hash", NULL,
         "which samples: hash|time|tail|column:NAME; time: the newest by "
         "data.split.key; tail: the last; column: those where it is not empty, "
         "0, false or train"),
    WORD(DECK, data.split.key, STRING, "", NULL,
         "column of the files; hash: samples with the same value are on the "
         "same side"),
    NUMBER(DECK, data.negatives, FLOAT, "1.0", "", 1e-9, 1,
           "share of the samples with label 0 that are trained on; "
           "evaluations and predictions are corrected for it"),
    NUMBER(DECK, data.positive_weight, FLOAT, "1.0", "", 1e-9, 1e9,
           "a training sample with label 1 counts as so many"),
    FLAG(DECK, data.drop_last, "false",
         "leave out an epoch's short last batch"),
    WORD(DECK, data.on_bad_id, CHOICE, "stop", "stop|drop",
         "an id that is no row of its table"),
    WORD(DECK, data.on_bad_record, CHOICE, "stop", "stop|skip",
         "a record that can't be read"),
    NUMBER(
        DECK, data.max_bad, INT, "1000", "", 0, 1e15,
        "so many bad records a rank skips, and bad ids it drops; the next one "
        "stops the run"),
    WORD(DECK, data.categorical, STRING, "modulo", "modulo|hash",
         "criteo_tsv: hex ids to rows"),
    NUMBER(DECK, data.synthetic.samples, INT, "1000000", "samples", 1, 1e13,
           "of the training part"),
    NUMBER(DECK, data.synthetic.eval_samples, INT, "0", "samples", 0, 1e13,
           "0: a tenth of samples"),
    NUMBER(DECK, data.synthetic.zipf, FLOAT, "1.05", "", 0, 10,
           "exponent of the ids' popularity; 0: uniform"),
    NUMBER(DECK, data.synthetic.pooling, INTS, "[1]", "ids", 0, 100000,
           "ids per bag: one number, or one per feature"),
    NUMBER(DECK, data.synthetic.hidden_dim, INT32, "8", "", 1, 256,
           "width of the planted truth's hidden vectors"),
    NUMBER(DECK, data.synthetic.noise, FLOAT, "1.0", "", 0, 100,
           "scale of what no feature explains, in logits"),
    NUMBER(DECK, data.synthetic.seed, INT, "1", "", 0, 9e15,
           "of the planted truth"),
    NUMBER(DECK, data.synthetic.ring, INT, "0", "batches", 0, 100000,
           "for benchmarks: so many batches are drawn once, kept in memory and "
           "given again in turns; 0: all are new"),
    WORD(DECK, data.csv.label, STRING, "label", NULL, "column of the label"),
    LIST(DECK, data.csv.labels, STRINGS,
         "instead, with several tasks: a column for each"),
    LIST(DECK, data.csv.label_true, STRINGS,
         "labels that mean 1; others mean 0"),
    KEY(DECK, "data.csv.label_threshold", data.csv.label_threshold, FLOAT, NULL,
        "", 1, 0, NULL, "labels from here on mean 1; else they are 0 or 1"),
    WORD(DECK, data.csv.separator, STRING, ",", NULL,
         "between fields: one character, or \"tab\""),
    LIST(DECK, data.csv.missing, STRINGS,
         "fields that mean missing, besides the empty one: a text or a list"),
    WORD(DECK, data.csv.list_separator, STRING, "", NULL,
         "between the ids of a field that is a list: one character; \"\": none "
         "is"),
    LIST(DECK, data.csv.lists, STRINGS,
         "columns that hold lists; empty: all categorical ones"),
    LIST(DECK, data.csv.dense, STRINGS, "numeric columns"),
    LIST(DECK, data.csv.sparse, STRINGS,
         "categorical columns; empty: the tables' features"),
    WORD(DECK, data.csv.dense_transform, STRING, "none",
         "none|log1p|standardise|log1p_standardise",
         "of numeric columns; missing ones become 0 afterwards"),
    WORD(DECK, data.csv.encoding, STRING, "hash", "hash|vocabulary",
         "of categorical columns; a vocabulary is built from the training "
         "files and kept in the checkpoint; row 0 is for unknown values"),
