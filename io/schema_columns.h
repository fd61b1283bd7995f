/* schema_columns.h - the schema's rows of an element of data.columns: schema.c
 * has them in its list. */
KEY(COLUMN, "name", name, STRING, NULL, "", 1, 0, NULL,
    "in the model: a feature, a task, a dense input; C{1..26} gives many"),
    KEY(COLUMN, "kind", kind, CHOICE, NULL, "", 1, 0,
        "dense|ids|label|weight|time|key",
        "key: beside scores, for groups, splits and segments"),
    WORD(COLUMN, from, STRING, "", NULL, "in the files; \"\": name"),
    WORD(COLUMN, encoding, STRING, "", "|hash|vocabulary|modulo|none|bucketise",
         "of ids: words to rows; none: numbers that are rows; bucketise: the "
         "bucket of a number; \"\": as the format's keys say"),
    WORD(COLUMN, list_separator, STRING, "", NULL,
         "of ids: between those of a field that is a list"),
    NUMBER(COLUMN, min_count, INT, "1", "", 1, 1e15,
           "of a vocabulary: rarer words are unknown ones"),
    WORD(COLUMN, transform, STRING, "",
         "|none|log1p|standardise|log1p_standardise|quantile|min_max|clip|"
         "piecewise_linear",
         "of dense columns; \"\": data.csv.dense_transform, in Criteo's logs "
         "log1p"),
    NUMBER(COLUMN, min, FLOAT, NULL, "", 1, 0,
           "of transform clip; not given: no limit"),
    NUMBER(COLUMN, max, FLOAT, NULL, "", 1, 0,
           "of transform clip; not given: no limit"),
    LIST(COLUMN, edges, FLOATS,
         "of piecewise_linear and bucketise: numbers that bins lie between, "
         "rising; []: quantiles, as many as bins says"),
    NUMBER(COLUMN, bins, INT32, "0", "", 0, 65536,
           "of piecewise_linear and bucketise, between quantiles of the "
           "training data; of quantile: how many of them; 0: 1000"),
    WORD(COLUMN, part, STRING, "", "|year|month|day|weekday|hour|minute",
         "of a date and time, which is then the id or the number"),
    LIST(COLUMN, cross, STRINGS,
         "of ids: columns of the files whose values together are one word"),
    NUMBER(COLUMN, seed, INT, "0", "", 0, 9e15, "of encoding hash"),
    WORD(COLUMN, missing, STRING, "unknown", "unknown|word",
         "of ids: what a missing field is, an unknown word (row 0 of a "
         "vocabulary) or one of its own"),
    WORD(COLUMN, label, STRING, "binary", "binary|soft|count|real|class",
         "of labels: 0 or 1; soft: a number from 0 to 1; class: 0, 1, 2 .."),
    WORD(COLUMN, group, STRING, "", NULL,
         "of a vocabulary: columns of one name have one together"),
    NUMBER(COLUMN, max_length, INT, "0", "ids", 0, 1e9,
           "of a bag: so many of its ids; 0: all"),
    WORD(COLUMN, truncate, STRING, "newest", "newest|oldest",
         "which ids go where a bag has more than max_length: its last ones, or "
         "its first ones, as of a history in the order of time")
