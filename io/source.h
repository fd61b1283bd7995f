/* source.h - data sources: a sequence of samples that can be read from any
 * place.  One file per format, listed in base/kinds.h.  Several files follow
 * each other.
 *
 * All ranks hold the same view (number of samples, features, vocabulary);
 * each reads only what it is asked for.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/config.h"
#include "base/str.h"
#include "io/batch.h"
#include "io/scales.h"
#include "io/vocabulary.h"
#include "runtime/comm.h"

typedef struct ts_source ts_source;
typedef struct ts_keys ts_keys; /* io/keys.h */

/* PREDICT: data.eval, which may lack labels. */
typedef enum {
  TS_SPLIT_TRAIN,
  TS_SPLIT_EVAL,
  TS_SPLIT_VALID,
  TS_SPLIT_PREDICT,
  TS_SPLIT_ITEMS /* data.items, which may lack anything: ts_source.lacks */
} ts_split;

/* Labels, and what says which samples count, are not asked for. */
static inline bool ts_split_is_unlabelled(ts_split split) {
  return split == TS_SPLIT_PREDICT || split == TS_SPLIT_ITEMS;
}

/* A source's description. */
typedef struct ts_source_info {
  const char *format;
  int64_t n_samples;
  int32_t n_dense; /* columns, as the deck counts them */
  int32_t n_tasks, n_features;
  int32_t n_columns; /* features, but for those that are in several tables */
  bool has_weights;  /* some batches have sample weights (or may skip) */
  int64_t bytes;     /* of its files; 0: not known */
  const int64_t *groups; /* (n_groups + 1) where samples begin that are read
                            together; NULL: they are read one by one */
  int64_t n_groups;
  const char *packed; /* a file that is read in order only; NULL: none */
  bool unlabelled;    /* to predict only: labels are NAN */
  bool transformed;   /* numbers of its files are as the model takes them */
  int64_t n_dropped;  /* that data.negatives has left out */
  int64_t period; /* samples after which the same ones come again; 0: none */
  /* synthetic only, NAN elsewhere: the best that any model can reach. */
  double bayes_logloss, bayes_auc;
} ts_source_info;

/* Storage that a source fills for one batch; grows, reused by the loader. */
typedef struct ts_batch_store ts_batch_store;

/* What a feature's ids need of their table: ROWS, 0: any number does, or it
 * is not known, WHY (static). */
typedef struct ts_need {
  int64_t rows;
  bool plain;   /* largest id + 1; else words and one for others */
  bool sampled; /* by some of the ids: others may need more */
  const char *why;
  const char *feature; /* of a table: the one that needs most */
} ts_need;

typedef struct ts_source_ops {
  const char *format;
  bool no_files;  /* samples are made, not read: data.train and the like may be
                     empty */
  bool has_where; /* columns say which samples count for a task */
  bool seekable;  /* reading samples from the middle costs no more than from the
                     start, so the planner looks at some */
  bool plain_ids; /* ids are what the data say, not made by the source */
  bool has_items; /* it opens data.items */
  /* True when the file looks like this format (for "auto"); NULL: never. */
  bool (*probe)(const char *path);
  /* Sets the statistics that the deck gives for a feature's ids: how many a
   * sample has, and the exponent of the Zipf law of their popularity; NULL: the
   * deck gives none. */
  void (*law)(const ts_config *, int32_t feature, double *ids, double *zipf);
  /* Collective over COMM: agrees on errors, shares indexes.  PATHS: globs
   * expanded; STATE: of state_save, or NULL. */
  ts_err (*open)(ts_source **, const ts_config *, ts_split, const char *state,
                 const ts_strings *paths, ts_comm *);
  void (*close)(ts_source *);
  /* Once it is open without a STATE: what the samples teach that later sources
   * have to know (vocabularies, means).  KEPT: a bit for each sample (as
   * io/subset.h has them) that counts, NULL: all do.  NULL: nothing.
   * Collective. */
  ts_err (*learn)(ts_source *, const uint64_t *kept, ts_comm *);
  /* Of each feature (info.n_features); SAMPLE: may read some of the ids for it.
   * NULL: ids are made to fit any number of rows. */
  ts_err (*needs)(ts_source *, ts_need *, bool sample);
  /* Samples [first, first + n) into STORE; called by one thread, which may
   * start n_threads - 1 more, no communication.  Ids are checked against the
   * table's rows (errors name file, sample, feature, id and row count;
   * data.on_bad_id). */
  ts_err (*read)(ts_source *, ts_batch_store *, int64_t first, int32_t n);
  /* The N SAMPLES, in that order; else as read.  Faster where many of them are
   * neighbours. */
  ts_err (*gather)(ts_source *, ts_batch_store *, const int64_t *samples,
                   int32_t n);
  /* How many ids the SAMPLES (n) have of each of FEATURES (n_features), at
   * most: N_IDS (n_features, n).  Faster than reading them, and neighbours at
   * once.  NULL: samples don't differ, or nobody can tell. */
  ts_err (*lengths)(ts_source *, int32_t *n_ids, const int32_t *features,
                    int32_t n_features, const int64_t *samples, int32_t n);
  /* Appends what was learnt as text, which the checkpoint keeps in /loader;
   * NULL: nothing. */
  ts_err (*state_save)(ts_source *, ts_str *text);
  /* All samples of any SOURCE to PATH in this format, for `tessera convert` and
   * `generate`; NULL: it is only read.  Collective. */
  ts_err (*write)(const char *path, ts_source *source, ts_comm *);
  /* Columns of the files, by name, as they are; NULL: it has none.
   * Collective. */
  ts_err (*keys)(ts_keys **, const ts_config *, const ts_strings *paths,
                 const ts_strings *names, ts_comm *);
} ts_source_ops;

struct ts_source {
  const ts_source_ops *ops;
  ts_source_info info;
  const ts_config *config;
  ts_split split;
  ts_vocabularies *vocabularies; /* NULL: no feature's ids are words */
  ts_scales *scales;             /* NULL: numbers are as they are read */
  bool *lacks;   /* (n_features + 1) of data.items: features that the files have
                    not, whose bags are empty or any id's; the last: some dense
                    number, which counts as missing or 0; NULL else; owned */
  bool learning; /* for ts_source_learn_numbers read leaves ids of numbers as
                    they are in the data, -1: missing, and gives the numbers of
                    columns to ts_scales_learn, not to the batch */
  struct ts_target_law
      *law;      /* what targets are drawn by (io/target_law.h), made
                    for the training split; NULL: evenly; owned */
  int n_threads; /* for read: who calls it sets it; 1 once opened */
  int64_t ahead; /* for gather: a sample that is likely to be wanted soon, in
                    another of its groups; -1: not known, as once opened */
  bool anywhere; /* gather takes samples from all over: groups stay in memory */
  /* Counted by read, for the log: fields missing at a record's end, records
   * skipped, ids dropped. */
  int64_t n_short, n_bad_records, n_bad_ids;
};

const ts_source_ops *ts_source_find(const char *format); /* NULL: none */
const ts_source_ops *ts_source_at(int i); /* in order; NULL: the end */
/* The format that the deck gives, else the first that knows the file PATH by
 * its looks; NULL: none. */
const ts_source_ops *ts_source_of(const ts_config *, const char *path);

/* Opens data.train, data.eval or data.valid as the deck says, and settles the
 * tables' rows (io/rows.h).  STATE: text of an earlier source of the same run
 * (the train split's vocabulary), or NULL.  Collective. */
ts_err ts_source_open(ts_source **, const ts_config *, ts_split,
                      const char *state, ts_comm *);
/* The same, but for the rows.  Collective. */
ts_err ts_source_open_only(ts_source **, const ts_config *, ts_split,
                           const char *state, ts_comm *);
void ts_source_close(ts_source *);
/* Vocabularies and scales of the source, with what STATE has of them, NULL:
 * nothing.  ENCODING, TRANSFORM: of columns that do not say; NULL: as CSV has
 * them. */
ts_err ts_source_take_learnt(ts_source *, const char *encoding,
                             const char *transform, const char *state);
/* As learn, for formats of numbers, whose words are by HEX (io/vocabulary.h).
 * Collective. */
ts_err ts_source_learn_numbers(ts_source *, const uint64_t *kept, bool hex,
                               ts_comm *);
/* state_save. */
ts_err ts_source_save_learnt(ts_source *, ts_str *text);
void ts_source_free_learnt(ts_source *); /* and lacks */
/* The words of a feature, which stay the source's; false where its ids are
 * none. */
bool ts_source_words(const ts_source *, int32_t feature, ts_words *);
/* The format and the files that open would take; to be freed in any case. */
ts_err ts_source_files(const ts_source_ops **, ts_strings *paths,
                       const ts_config *, ts_split);
void ts_source_files_free(ts_strings *paths);

/* DEVICE gives the memory; NULL: plain host memory. */
ts_err ts_batch_store_create(ts_batch_store **, const ts_config *,
                             ts_device *device);
void ts_batch_store_destroy(ts_batch_store *);
/* Room for N samples with POOLING (n_features) ids of each feature, before
 * the first is read. */
ts_err ts_batch_store_expect(ts_batch_store *, const ts_config *, int32_t n,
                             const double *pooling);
/* Bytes of its memory; *COPIED: those that a device takes of each batch. */
size_t ts_batch_store_bytes(const ts_batch_store *, size_t *copied);
/* The batch in the store; valid until the store is filled again. */
ts_batch *ts_batch_store_batch(ts_batch_store *);

/* /loader of a checkpoint: the position in the data. */
typedef struct ts_loader_state {
  int64_t epoch, next_sample, step; /* the next batch to be read */
} ts_loader_state;

/* Reader thread: prepares the next batches into a ring of stores. */
typedef struct ts_loader ts_loader;

typedef struct ts_loader_options {
  int64_t global_batch;
  int64_t max_steps; /* global batches until the end; -1: by epochs */
  double epochs;     /* of samples, used when max_steps < 0: what START has
                        behind it counts, whatever batches it was read in */
  bool drop_last;
  bool shuffle; /* the samples of an epoch in the order of data.shuffle */
  bool spread;  /* in whatever order each rank reads fewest groups; not with
                   shuffle */
  int rank, n_ranks;
  int depth;             /* batches ready ahead, >= 1 */
  int n_threads;         /* that read may use; 0: 1 */
  bool serial;           /* read in the calling thread */
  ts_device *device;     /* whose memory batches are in; NULL: plain */
  const double *pooling; /* ids of each feature per sample, as expected; NULL:
                            not known */
  const struct ts_sample_costs *costs; /* for ranks' parts; the caller's, which
                            stay; NULL: they are as long as each other */
} ts_loader_options;

/* Step s takes samples [sG, (s+1)G) of an epoch; rank r the r-th contiguous
 * part (io/parts.h); the epoch's short last batch is used unless drop_last.
 * With shuffle or spread these are places in the epoch's order (io/order.h),
 * and so for ts_batch.first.  All ranks see the same number of batches.  Where
 * the source's samples come again, so do batches that are there already.
 * Local. */
ts_err ts_loader_create(ts_loader **, ts_source *, const ts_loader_options *,
                        const ts_loader_state *start);
/* For measurements: hands out the batches of the N STORES (the caller's, which
 * stay) in turns, N_STEPS in all, and reads nothing.  N is more than the
 * batches under way at once.  Local. */
ts_err ts_loader_create_replay(ts_loader **, ts_batch_store *const *stores,
                               int n, int64_t n_steps);
/* *BATCH = next batch, or NULL at the end; returns the reader's error.  Give
 * each back with release, in order, before depth + 2 more are taken. */
ts_err ts_loader_next(ts_loader *, ts_batch **);
void ts_loader_release(ts_loader *, ts_batch *);
/* Waits until depth batches or more lie ready, or all that there are: for
 * measurements without the reader beside them. */
void ts_loader_fill(ts_loader *);
/* Position after the batches that next() has handed out. */
ts_loader_state ts_loader_state_of(const ts_loader *);
/* Number of the batch at which it ends, those before its start included. */
int64_t ts_loader_end(const ts_loader *);
/* The cost of a batch's dearest part as a multiple of the mean part's, over the
 * batches so far: CUT as parts were, EVEN if they had as many samples each.
 * False where costs did not count. */
bool ts_loader_balance(ts_loader *, double *cut, double *even);
/* Bytes of a batch's block as it is expected, 0: not known. */
size_t ts_loader_batch_bytes(const ts_loader *);
void ts_loader_destroy(ts_loader *);
