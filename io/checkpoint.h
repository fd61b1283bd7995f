/* checkpoint.h - HDF5 checkpoints, independent of plan and rank count.
 *
 * The caller describes what there is as items; this file knows nothing of
 * tables or layers.  What items point to may be a device's memory (ts_ckpt_on).
 * Layout: doc/formats.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "base/config.h"
#include "base/dtype.h"
#include "base/str.h"
#include "io/vocabulary.h"
#include "runtime/comm.h"
#include "runtime/staging.h"

/* Rows [row0, row0 + n_rows) of an item in this rank's memory, rows of
 * item.cols elements (cols 0: one) following each other, or scattered. */
typedef struct ts_ckpt_piece {
  int64_t row0, n_rows;
  void *ptr;
  bool copied;        /* ptr is a copy's: the caller may change its own rows */
  const uint32_t *at; /* NULL, or (n_rows) borrowed, the host's: row row0 + i
                         of the item is row at[i] of what ptr points to.  Only
                         of a piece that is written */
} ts_ckpt_piece;

/* Columns [col0, col0 + n_cols) of rows [row0, row0 + n_rows), on RANK. */
typedef struct ts_ckpt_columns {
  int rank;
  int64_t row0, n_rows;
  int32_t col0, n_cols;
  void *ptr; /* (n_rows, n_cols) on its rank, else NULL */
} ts_ckpt_columns;

/* One dataset: (rows, cols), stored as (rows) where cols is 0.  Every row is
 * written by exactly one rank; any rank may read any rows.  Or ranks hold
 * columns: then every rank lists all of them, they cover each element once,
 * and ranks exchange them to write whole rows. */
typedef struct ts_ckpt_item {
  char *name; /* "model/over_arch...", "optim/NAME/STATE"; owned */
  ts_dtype dtype;
  int64_t rows, cols;
  ts_ckpt_piece *write, *read; /* owned arrays; ptr borrowed */
  int32_t n_write, n_read;
  ts_ckpt_columns *columns; /* owned */
  int32_t n_columns;
  int64_t *from; /* (rows) where not NULL: the row of the file that is read for
                    each, -1: none; the file may have more rows or fewer;
                    owned */
  int64_t n_copied_turns; /* of the exchange of columns, the last ones are of
                             copies on all ranks */
  bool optional;          /* a file may lack it, and it stays as it is */
  bool absent;            /* the file that was loaded does */
  bool converted;         /* it has the item in another type */
  bool is_copy;           /* ts_ckpt_is_copy */
} ts_ckpt_item;

/* Small values of rank 0, kept as attributes and small datasets: the path
 * decides where ("meta/deck", "loader/epoch", "metrics/..."). */
typedef struct ts_ckpt_value {
  char *path;     /* owned */
  ts_dtype dtype; /* TS_U8: text */
  int64_t n;
  void *ptr; /* owned */
} ts_ckpt_value;

/* A full checkpoint holds all rows of tables.  A delta holds those that have
 * changed since another file, its parent (checkpoint_chain.c).  WEIGHTS is a
 * delta without optimizers' state, for eval and predict alone. */
typedef enum { TS_CKPT_FULL, TS_CKPT_DELTA, TS_CKPT_WEIGHTS } ts_ckpt_kind;

/* A file that others may build on. */
typedef struct ts_ckpt_point {
  int64_t step;
  int64_t seal;   /* its seal's checksum; -1: not known, nothing builds on it */
  int64_t number; /* of files that it builds on; 0: a full one */
} ts_ckpt_point;

typedef struct ts_ckpt ts_ckpt;
struct ts_ckpt {
  int64_t step;
  ts_ckpt_kind kind;
  ts_ckpt_point parent; /* of one that is not full */
  int64_t room;         /* bytes that this rank may take for its rows */
  int64_t stands_for;   /* seal of a delta of this step that this one has taken
                           the place of; 0: none */
  int64_t seal;         /* once it is saved, on rank 0 */
  ts_ckpt_item *items;
  int32_t n_items;
  ts_ckpt_value *values;
  int32_t n_values;
  void **own; /* memory that pieces point to, to be freed with it */
  int32_t n_own;
  ts_staging staging; /* of what lies separate from the host's memory */
  /* Of PATH, which is being loaded, all values are known, and no item is: how
   * many rows it has may depend on them.  NULL: on nothing.  Local. */
  ts_err (*arrived)(ts_ckpt *, const char *path, void *arg);
  void *arg;
};

/* Items may point to memory of DEVICE; it goes through the host's in bounded
 * pieces.  Once, or never: all is the host's.  Local. */
ts_err ts_ckpt_on(ts_ckpt *, ts_device *);
void ts_ckpt_reset(ts_ckpt *);
ts_err ts_ckpt_add_item(ts_ckpt *, const char *name, ts_dtype, int64_t rows,
                        int64_t cols, ts_ckpt_item **);
/* write: this rank writes them; read: this rank wants them. */
ts_err ts_ckpt_add_piece(ts_ckpt_item *, bool write, bool read, int64_t row0,
                         int64_t n_rows, void *ptr);
/* This rank writes rows that lie scattered, as in a hash table: row row0 + i
 * is row at[i] of what PTR points to, which may have rows that nobody writes.
 * AT, and the rows, stay as they are until the item is written or copied; AT
 * may be of ts_ckpt_own.  Of a device's memory each row is a transfer of its
 * own.  Local. */
ts_err ts_ckpt_add_gathered(ts_ckpt_item *, int64_t row0, int64_t n_rows,
                            void *ptr, const uint32_t *at);
ts_err ts_ckpt_add_columns(ts_ckpt_item *, ts_ckpt_columns);
/* The rows of the item, which are some of a table's, lie in memory of the
 * checkpoint's own: nobody changes them, so none are copied.  The same on all
 * N_RANKS ranks. */
void ts_ckpt_is_copy(ts_ckpt_item *, int n_ranks);
/* BYTES that are freed with the checkpoint. */
ts_err ts_ckpt_own(ts_ckpt *, size_t bytes, void **ptr);
ts_err ts_ckpt_add_value(ts_ckpt *, const char *path, ts_dtype, int64_t n,
                         const void *ptr);
ts_err ts_ckpt_add_text(ts_ckpt *, const char *path, const char *text);
const ts_ckpt_value *ts_ckpt_value_of(const ts_ckpt *, const char *path);

/* Writes <dir>/step-%08d.h5, or delta-, or weights-: temporary name (O_EXCL),
 * reserved space, every rank's pwrite with CRC32C, all statuses agreed,
 * complete = 1, fsync of file and folder, rename; then keeps the newest KEEP
 * full ones, and what builds on them.  IO: "auto" | "pwrite" | "mpio".  On an
 * error nothing of the earlier checkpoints is lost.  Collective. */
ts_err ts_ckpt_save(ts_ckpt *, const char *dir, int keep, const char *io,
                    ts_comm *);

/* Bytes that this rank has to write of C, and room for a copy of them. */
int64_t ts_ckpt_own_bytes(const ts_ckpt *, int rank);
int64_t ts_ckpt_own_room(const ts_ckpt *, int rank);
/* Copies what fits of them into ROOM (BYTES, this rank's own number) and lets
 * pieces and columns point there; what does not fit stays where it is and must
 * be written before it changes.  *COPIED = bytes.  On N_THREADS.
 * Collective. */
ts_err ts_ckpt_copy(ts_ckpt *, void *room, int64_t bytes, int n_threads,
                    int64_t *copied, ts_comm *);

/* A save calls these from its thread; each may be NULL. */
typedef struct ts_ckpt_hooks {
  void (*read)(void *arg); /* from here on only copies are read */
  void (*beat)(void *arg); /* it has got on */
  void *arg;
} ts_ckpt_hooks;
/* As save, through pwrite. */
ts_err ts_ckpt_save_hooked(ts_ckpt *, const char *dir, int keep, ts_comm *,
                           const ts_ckpt_hooks *);

/* The finished checkpoint PATH is DIR/NAME as well, whatever becomes of PATH.
 * Local. */
ts_err ts_ckpt_also(const char *path, const char *dir, const char *name);

/* Newest complete checkpoint of DIR and of MIRROR (NULL: none) together (""
 * where there is none).  Collective. */
ts_err ts_ckpt_newest(ts_str *path, const char *dir, const char *mirror,
                      ts_comm *);

/* Whether PATH has the name of a full checkpoint, "step-N.h5".  Local. */
bool ts_ckpt_is_full(const char *path);
/* Any file of a checkpoint in DIR, of weights alone, too; "" where there is
 * none.  Local. */
ts_err ts_ckpt_any(ts_str *path, const char *dir);

/* The one that NUMBER others (0: none) are newer than, as this rank sees it.
 * Local. */
ts_err ts_ckpt_newest_seen(ts_str *path, const char *dir, const char *mirror,
                           int number);

/* Uses checkpoint PATH, of the mirror if MIRRORED.  A CKPT error, the same on
 * all ranks, says that the file is damaged. */
typedef ts_err ts_ckpt_use(void *arg, const char *path, bool mirrored);
/* USE with the newest of DIR and MIRROR (NULL: none) together; after a CKPT
 * error that is said, and the one before it is used.  A file may have gone
 * since it was listed, because compaction or a run has put a newer one in its
 * place: then it begins anew.  On OK *PATH = the one that was used, NULL
 * text: there is none at all.  All damaged: the error of the last.  COMM
 * NULL: this rank is alone.  Collective. */
ts_err ts_ckpt_use_newest(ts_str *path, const char *dir, const char *mirror,
                          ts_ckpt_use *use, void *arg, ts_comm *comm);

/* Reads PATH: fills the read pieces of all items, the values and the step;
 * verifies the checksums of all that it reads.  What is wrong is said once
 * (dataset, both shapes, byte range).  Names under model/ or optim/ in the
 * file that no item has are errors unless SUBSET, in which case items absent
 * in the file are left as they are and listed in MISSING; a file that has none
 * of them is an error, and it may be another program's.  Collective. */
ts_err ts_ckpt_load(ts_ckpt *, const char *path, bool subset, ts_str *missing,
                    ts_comm *);

/* As load with the newest of DIR and MIRROR (NULL: none) together; where that
 * one is damaged, warns with the dataset's name and takes the one before.  Of
 * equal steps DIR's comes first, and the log says where the mirror's is taken.
 * *PATH = the one taken, "" where there is none at all.  ALSO (or NULL) reads
 * more of the file that was loaded; its errors count as the load's, as
 * compaction may have put another file in its place.  All damaged: CKPT error.
 * Collective. */
ts_err ts_ckpt_load_newest(ts_ckpt *, ts_str *path, const char *dir,
                           const char *mirror, ts_ckpt_use *also, void *arg,
                           ts_comm *);

/* The read pieces of C's items alone, whatever else PATH holds.
 * Collective. */
ts_err ts_ckpt_load_items(ts_ckpt *, const char *path, ts_comm *);

/* The first few names of N, "a, b, ..." */
typedef struct ts_listing {
  ts_str text;
  int64_t n;
} ts_listing;
ts_err ts_listing_add(ts_listing *, const char *name);

/* checkpoint_tensors.c: fills the read pieces of all items out of the
 * safetensors file or index PATH, converted to their types (nearest even):
 * names as ts_tensors_find has them, full ones before others.  Items that are
 * no weights come out of state.safetensors beside it, which has the step.
 * MISSING: items that are not there and stay as they are; LEFT: tensors that
 * are no item's.  Other shapes are an error, and so is a file of none of the
 * weights.  Collective. */
ts_err ts_ckpt_load_tensors(ts_ckpt *, const char *path, ts_str *missing,
                            ts_listing *left, ts_comm *);
/* The first rows of ITEM out of the array PATH (ts_tensors_rows), whose number
 * is *ROWS: no more than the item has.  Local. */
ts_err ts_ckpt_load_array(ts_ckpt *, const ts_ckpt_item *, const char *path,
                          int64_t *rows);
/* Some of the item's row is read by this rank.  Local. */
bool ts_ckpt_has_row(const ts_ckpt_item *, int64_t row);
/* X (cols) to that; ROOM for a row of the item's type.  Local. */
ts_err ts_ckpt_put_row(ts_ckpt *, const ts_ckpt_item *, int64_t row,
                       const float *x, void *room);

struct ts_tensors_out; /* io/tensors_write.h */
/* checkpoint_export.c: what is written of a checkpoint as safetensors.
 * NAMES (NULL: any; else it ends with NULL) are patterns of fnmatch: weights of
 * other names are USAGE errors, and so are patterns that no weight has. */
typedef struct ts_ckpt_export {
  const char *out;  /* the folder */
  bool state;       /* state.safetensors, too */
  int64_t max_file; /* bytes of a file's tensors */
  const char *const *names;
  const char *whose; /* are they, as a message has it: "DLRM" */
  /* NULL, or running means take the weights' place: W (dim) of a row, with its
   * MEAN and PASS of optimizer state in a checkpoint of STEP, becomes that. */
  void (*average)(const void *arg, float *w, const float *mean, float pass,
                  int64_t dim, int64_t step);
  const void *arg;
  /* NULL: safetensors.  Else it writes OUT: the tensors of MODEL, of which its
   * read gives rows of f32, of dynamic/TABLE/ids i64, and what the loader had
   * learnt, STATE ("": nothing). */
  ts_err (*write)(void *arg, const char *out,
                  const struct ts_tensors_out *model, const ts_ckpt *head);
  void *write_arg;
} ts_ckpt_export;

/* Weights of the checkpoint PATH by their names under model/, and the ids of
 * dynamic tables as dynamic/TABLE/ids, to model.safetensors or several files,
 * optimizers' state and running means as NAME.STATE to state.safetensors, a
 * block of rows at a time.  CKPT errors are of PATH alone.  Local. */
ts_err ts_ckpt_export_to(const ts_ckpt_export *, const char *path);

/* checkpoint_compact.c: PATH, a delta, and all that it builds on become the
 * full checkpoint of its step beside it, block by block, a part of the rows on
 * each rank; then what is no longer needed goes, but the newest KEEP full ones.
 * Training may go on meanwhile, whose next delta builds on the new one.  What
 * is wrong is a CKPT error, and nothing is lost; BROKEN: of what is read, so
 * that an older one may do.  *N = deltas taken in.  Collective. */
ts_err ts_ckpt_compact(const char *path, int keep, int64_t *n, bool *broken,
                       ts_comm *);
/* What PATH is, as a parent of others; number 0 of a full one.  Local. */
ts_err ts_ckpt_point_of(ts_ckpt_point *, const char *path);

/* Only the values, the step and the kind of PATH, with its parent's step (items
 * ignored).  Local. */
ts_err ts_ckpt_peek(ts_ckpt *, const char *path);

/* As peek, of a file of weights that may be another program's.  Local. */
ts_err ts_ckpt_peek_weights(ts_ckpt *, const char *path);

/* `tessera inspect`: prints what the file holds; VERIFY: checks every
 * checksum.  Data sets too.  Local. */
ts_err ts_inspect(const char *path, bool verify);
/* `tessera inspect --vocabulary`: prints FEATURE's words in the order of their
 * rows, each with a tab and how often it was there, nothing where that is not
 * known.  Local. */
ts_err ts_inspect_words(const char *path, const char *feature);
/* `tessera inspect --table`: prints the first K of TABLE's ids: those with the
 * largest scores, where it has them; those that were met in the most steps, of
 * equal ones those met last; where that is not known
 * (tables without evict, and plain ones, whose ids are numbers of rows) those
 * with the longest rows; then the lower id.  Of a table as large as may be it
 * keeps 8 MiB.  No such table: USAGE.  Local. */
ts_err ts_inspect_top(const char *path, const char *table, int32_t k);
/* The deck of a file of weights and the words that it has rows for; NULL where
 * it does not say.  Local. */
ts_err ts_ckpt_recall(ts_config **, ts_vocabularies **, const char *path);
