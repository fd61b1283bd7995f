/* tessera_serve.h - scores samples by a file that `tessera export --format
 * serve` wrote (doc/formats.md).
 *
 * A model is the file, mapped: opening takes milliseconds, memory is what is
 * looked at (ids of tables of any 64-bit ids are looked through as it is
 * opened, and take a byte more each).  Any number of threads may use one model;
 * each scores with a scorer of its own.  Nothing here prints, exits or starts a
 * thread that outlives a call.
 *
 * Functions that return int give 0, or one of the codes below; then
 * tserve_error() says what is wrong and where.  Link: pkg-config
 * tessera_serve, or -ltessera_serve. */
#ifndef TESSERA_SERVE_H
#define TESSERA_SERVE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSERVE_ABI 1
#ifdef __GNUC__
#define TSERVE_API __attribute__((visibility("default")))
#else
#define TSERVE_API
#endif

enum {
  TSERVE_OK,
  TSERVE_FILE,  /* it can't be read, is damaged, or of a newer version */
  TSERVE_INPUT, /* a batch, or an argument, that can't be scored */
  TSERVE_MEMORY /* there is not enough of it */
};

/* The message of this thread's last call that failed; "" before any. */
TSERVE_API const char *tserve_error(void);
TSERVE_API int tserve_abi(void); /* TSERVE_ABI of the library that is loaded */

/* ---- a model ------------------------------------------------------------- */

typedef struct tserve_model tserve_model;

TSERVE_API int tserve_open(tserve_model **, const char *path);
/* What is in PATH, a newer file or a delta of the file that is served, takes
 * its place: calls under way end with the old, the next begin with the new.
 * Where it fails the old stays.  The graph, its inputs and its outputs have to
 * be the same.  Any thread may call it. */
TSERVE_API int tserve_update(tserve_model *, const char *path);
/* After all of its scorers.  NULL: nothing. */
TSERVE_API void tserve_close(tserve_model *);

TSERVE_API int64_t
tserve_step(tserve_model *); /* of training, of what is served now */
/* Inputs and outputs, in the deck's order; names stay until close. */
TSERVE_API int32_t tserve_n_dense(const tserve_model *);
TSERVE_API int32_t tserve_n_features(const tserve_model *);
TSERVE_API int32_t
tserve_n_outputs(const tserve_model *); /* numbers a sample */
TSERVE_API const char *tserve_feature(const tserve_model *, int32_t i);
TSERVE_API const char *tserve_output(const tserve_model *, int32_t i);
/* Rows of the table of feature I, of what is served now, and numbers a row. */
TSERVE_API int64_t tserve_rows(tserve_model *, int32_t i);
/* Whose row ROW of it is: ROW itself, but in a table of any 64-bit ids
 * (rows = "dynamic"), which has so many ids as rows; those that it has not read
 * zeros. */
TSERVE_API int64_t tserve_id(tserve_model *, int32_t i, int64_t row);
TSERVE_API int32_t tserve_dim(const tserve_model *, int32_t i);

/* ---- a batch ------------------------------------------------------------- */

/* A feature's ids, or words, of each sample: as they stand in the data that the
 * model was trained on; what they become of them (a vocabulary, a hash, a
 * remainder, a bucket, a part of a time) is in the file.  Of a feature that is
 * made of several columns the word has a tab between theirs.  A feature may
 * have none: N_IDS 0. */
typedef struct tserve_bags {
  const int64_t *ids;       /* (n_ids), or NULL: */
  const char *const *words; /* (n_ids), NUL behind each */
  const float *weights;     /* (n_ids), or NULL: 1 */
  const int64_t *offsets;   /* (n + 1): sample b has ids offsets[b] up to, not
                               with, offsets[b + 1]; NULL: one each */
  int64_t n_ids;
  int32_t same; /* 1: there is one bag (offsets (2), or all of n_ids), which is
                   every sample's: one user, many items */
} tserve_bags;

typedef struct tserve_batch {
  int32_t n;                   /* samples */
  const float *dense;          /* (n, n_dense) as in the data (of a time's part
                                  that part), NAN: missing */
  int32_t same_dense;          /* 1: (1, n_dense), every sample's */
  const tserve_bags *features; /* (n_features) */
} tserve_batch;

/* ---- scoring ------------------------------------------------------------- */

/* One thread's memory for scoring; it holds what it has grown to. */
typedef struct tserve_scorer tserve_scorer;

/* N_THREADS: for the products and lookups of one call, 1 or more; larger
 * batches than N_MAX are scored piece by piece. */
TSERVE_API int tserve_scorer_open(tserve_scorer **, tserve_model *,
                                  int32_t n_max, int32_t n_threads);
TSERVE_API void tserve_scorer_close(tserve_scorer *); /* NULL: nothing */
/* OUT (n, n_outputs): as `tessera predict` writes them; NAN of outputs over
 * items. */
TSERVE_API int tserve_score(tserve_scorer *, const tserve_batch *, float *out);
/* Of an output over items, number OUTPUT: SCORES (n, n_items) of ITEMS, rows of
 * its table (NULL: its first n_items). */
TSERVE_API int tserve_items(tserve_scorer *, const tserve_batch *,
                            int32_t output, const int64_t *items,
                            int64_t n_items, float *scores);
/* Numbers of the vectors that output OUTPUT, over items, compares; 0: it has
 * none.  OUT (n, dim): samples' vectors; with ITEMS 1 those of items, where
 * layers make them, the batch being items.  Score: the product of two, divided
 * by the deck's temperature. */
TSERVE_API int32_t tserve_vector_dim(const tserve_model *, int32_t output);
TSERVE_API int tserve_vectors(tserve_scorer *, const tserve_batch *,
                              int32_t output, int32_t items, float *out);

#ifdef __cplusplus
}
#endif
#endif
