/* checkpoint_impl.h - blocks, checksums and file access of checkpoints;
 * private to checkpoint*.c and inspect.c.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "io/checkpoint.h"
#include "io/hdf5.h"

/* A checksum covers this many bytes of a dataset. */
enum { TS_BLOCK_BYTES = 1 << 20 };

/* Bytes that are summed and written at a time. */
enum { TS_BITE_BYTES = 8 * TS_BLOCK_BYTES };

static inline int64_t ts_blocks(int64_t n_bytes) {
  return (n_bytes + TS_BLOCK_BYTES - 1) / TS_BLOCK_BYTES;
}

/* Bytes of an item, or -1 when they overflow. */
int64_t ts_item_bytes(ts_dtype, int64_t rows, int64_t cols);
int64_t ts_item_row_bytes(const ts_ckpt_item *);
int64_t ts_columns_row_bytes(const ts_ckpt_item *, const ts_ckpt_columns *);

/* Where an item's bytes lie in an open file; -1 offset: chunked. */
typedef struct ts_stored {
  int64_t at;
  ts_dtype dtype;
  int64_t rows, cols;
  uint32_t *crc; /* (blocks) or NULL where the file has none */
} ts_stored;

/* Compaction has no rows in memory that pieces could point to: fill writes this
 * rank's rows of item I, publish gives the finished file its name, on rank 0.
 */
struct ts_saver;
typedef struct ts_filling {
  ts_err (*fill)(void *arg, struct ts_saver *, int32_t i);
  ts_err (*publish)(void *arg, struct ts_saver *);
  void *arg;
} ts_filling;

/* A checkpoint that is being written. */
typedef struct ts_saver {
  ts_ckpt *c;
  ts_comm *comm;
  bool first; /* rank 0 */
  char path[4096], temp[4096], dir[4096];
  hid_t file;
  int fd;
  int64_t *at;       /* (n_items) place in the file */
  uint32_t **crc;    /* (n_items) (blocks) */
  uint8_t **own;     /* (n_items) (blocks) 1: this rank has summed it */
  int64_t *n_blocks; /* (n_items) */
  int64_t *shared;   /* (most blocks) checksums of all ranks */
  char *block;       /* (TS_BLOCK_BYTES) */
  char *bite;        /* (TS_BITE_BYTES) ts_ckpt_needs_bite, or NULL */
  ts_ckpt_hooks hooks;
  const struct ts_filling *filling; /* in place of pieces, or NULL */
} ts_saver;

/* A checkpoint that is being read. */
typedef struct ts_ckpt_reader {
  const char *path;
  hid_t file;
  int fd;
  char *block;         /* (TS_BLOCK_BYTES) */
  ts_staging *staging; /* of what is read into, or NULL: the host's memory */
  ts_ckpt_kind kind;
  int64_t step, seal, number, stands_for;
  ts_ckpt_point parent;         /* of one that is not full */
  struct ts_ckpt_reader *under; /* the parent, owned; NULL: a full one */
} ts_ckpt_reader;

/* checkpoint_open.c: opens PATH, whose seal is checked, and all that it builds
 * on, for reading; one that was not finished, or another program's, only
 * without NEED_COMPLETE.  To be closed in any case; the caller sets the
 * staging. */
ts_err ts_ckpt_reader_open(ts_ckpt_reader *, const char *path,
                           bool need_complete, int64_t *step);
void ts_ckpt_reader_close(ts_ckpt_reader *);

/* The same of PATH alone, without a buffer. */
ts_err ts_ckpt_reader_open_one(ts_ckpt_reader *, const char *path,
                               bool need_complete);
void ts_ckpt_reader_close_one(ts_ckpt_reader *);

/* checkpoint_chain.c: opens what R builds on, down to a full checkpoint. */
ts_err ts_ckpt_chain_open(ts_ckpt_reader *r);
void ts_ckpt_chain_close(ts_ckpt_reader *r);
/* Whether R's open file is still the one that its name is of; whether one of
 * the chain, as far as it is open, is not: compaction removes deltas, the
 * newest first. */
bool ts_ckpt_is_still(const ts_ckpt_reader *r);
bool ts_ckpt_chain_moved(const ts_ckpt_reader *r);
/* The name of the dataset that says which rows of their table an item's are,
 * in ROWS; false: items of that name are whole in any file. */
bool ts_ckpt_rows_name(char rows[1024], const char *item);
/* The one of R and those under it that has all rows of dataset NAME. */
const ts_ckpt_reader *ts_ckpt_holder(const ts_ckpt_reader *r, const char *name);
/* As ts_stored_open, in the holder; its rows are as many as R's table has. */
ts_err ts_ckpt_open_set(ts_stored *, const ts_ckpt_reader *r, const char *name);

/* checkpoint_over.c: the rows of one item that files above the holder have,
 * from there up. */
typedef struct ts_overlay {
  const ts_ckpt_reader *r;
  ts_stored stored;
  int64_t *rows; /* (n) ascending: of the table, or the keys of its ids */
  int64_t n;
  int64_t next; /* with ids: those before it were passed by */
  /* Its rows [row0, row0 + n_rows), columns from col0 on, n_cols of them, as
   * they were read last: who goes up a table meets them once. */
  char *bite;
  int64_t row0, n_rows;
  int32_t col0, n_cols;
} ts_overlay;
typedef struct ts_overlays {
  const ts_ckpt_reader *holder;
  ts_overlay *of; /* (n) oldest first */
  int32_t n;
  struct ts_ids_over *ids; /* of a dynamic table; else NULL */
} ts_overlays;
/* To be closed in any case.  S: the holder's. */
ts_err ts_overlays_open(ts_overlays *, const ts_ckpt_reader *r,
                        const ts_stored *s, const ts_ckpt_item *);
void ts_overlays_close(ts_overlays *);
/* As read_part below, with ITEM's `from`; the newest of each row. */
ts_err ts_ckpt_read_over(const ts_ckpt_reader *r, ts_overlays *,
                         const ts_stored *, const ts_ckpt_item *,
                         const ts_ckpt_columns *c, bool whole);

/* Room for rows that are read of O, whose dataset is open; row K of it, as part
 * of C, until the next call; how many of ROWS (n, ascending) are below ROW. */
ts_err ts_overlay_room(ts_overlay *);
ts_err ts_overlay_row(ts_overlay *, const ts_ckpt_item *,
                      const ts_ckpt_columns *c, bool whole, int64_t k,
                      const char **row);
int64_t ts_rows_below(const int64_t *rows, int64_t n, int64_t row);

/* checkpoint_ids.c: dynamic tables, whose rows are known by ids.  ids_name:
 * NAME of the list of ids of ITEM's table in R's file; false: it has none.
 * n_ids: how many are in list NAME there.  open: of X, whose overlays are open
 * but for their keys, rows of all files from R down; S is the holder's ITEM,
 * with R's rows; closed in any case.  read: as ts_ckpt_read_over. */
bool ts_ckpt_ids_name(char name[1024], const ts_ckpt_reader *r,
                      const char *item);
ts_err ts_ckpt_n_ids(int64_t *n, const ts_ckpt_reader *r, const char *name);
ts_err ts_ids_over_open(ts_overlays *x, const ts_ckpt_reader *r,
                        const ts_stored *s, const char *item, const char *name);
void ts_ids_over_close(ts_overlays *x);
ts_err ts_ids_over_read(ts_overlays *x, const ts_ckpt_item *,
                        const ts_ckpt_columns *c, bool whole);

/* checkpoint_write.c: saves C under the temporary name TEMP of its folder.
 * Collective. */
ts_err ts_ckpt_save_filled(ts_ckpt *, const char *dir, const char *temp,
                           const ts_filling *, ts_comm *);

/* checkpoint_pieces.c: reads rows of a dataset, WHOLE or some columns of them,
 * to C's ptr (host or device memory), as the item's type. */
ts_err ts_ckpt_read_part(const ts_ckpt_reader *, const ts_stored *,
                         const ts_ckpt_item *, const ts_ckpt_columns *c,
                         bool whole);

/* checkpoint_read.c: all that this rank wants of ITEM, as far as the dataset
 * has rows. */
ts_err ts_ckpt_read_rows(const ts_ckpt_reader *, const ts_stored *,
                         const ts_ckpt_item *);
/* checkpoint_read.c: an error that lists what the file HAS and the items. */
ts_err ts_ckpt_refuse_strange(const char *path, const ts_listing *has,
                              const ts_ckpt *);

/* checkpoint_tensors.c: what ITEM's tensor is called, in files that are written
 * and read: "model/NAME" NAME, "optim/NAME/STATE" NAME.STATE, "ema/NAME"
 * NAME.ema. */
ts_err ts_ckpt_tensor_name(ts_str *name, const char *item);

/* checkpoint_from.c: as read_part, of an item whose rows are others in the
 * file. */
ts_err ts_ckpt_read_from(const ts_ckpt_reader *, const ts_stored *,
                         const ts_ckpt_item *, const ts_ckpt_columns *c,
                         bool whole);

/* checkpoint_write.c: rows of item I with pwrite, checksums of the blocks
 * that lie wholly in them. */
ts_err ts_ckpt_write_rows(ts_saver *, int32_t i, const ts_ckpt_piece *);
/* checkpoint_gather.c: bytes [from, from + n) of the rows of piece P, of ROW
 * bytes each, to TO one behind the other.  gather: the rows are scattered in
 * the host's memory; bring: whatever they are. */
void ts_ckpt_gather(char *to, const ts_ckpt_piece *p, int64_t row, int64_t from,
                    int64_t n);
ts_err ts_ckpt_bring(ts_staging *, char *to, const ts_ckpt_piece *p,
                     int64_t row, int64_t from, int64_t n);
/* The host may read the rows where they are, as one. */
bool ts_ckpt_is_plain(const ts_staging *, const ts_ckpt_piece *);
/* Some written piece is scattered, or in a device's memory: writing it takes a
 * buffer. */
bool ts_ckpt_needs_bite(const ts_ckpt *);

/* checkpoint_columns.c: the items of which ranks hold columns, the turns of
 * copies or the others.  Collective: every rank goes through all of it,
 * whatever fails. */
ts_err ts_ckpt_write_columns(ts_saver *, bool copied);
/* Rows of one rank's turn, and turns of all N_RANKS. */
int64_t ts_ckpt_turn_rows(const ts_ckpt_item *);
int64_t ts_ckpt_turns(const ts_ckpt_item *, int n_ranks);

/* checkpoint_finite.c: NAN error that names ITEM and the row where N_BYTES
 * from byte AT on hold a weight that is not finite.  Only items of model/ are
 * checked: a checkpoint with such a weight is useless. */
ts_err ts_ckpt_check_finite(ts_ckpt *, const ts_ckpt_item *, const void *data,
                            int64_t at, int64_t n_bytes);
/* The same of all rows of a piece. */
ts_err ts_ckpt_check_piece(ts_ckpt *, const ts_ckpt_item *,
                           const ts_ckpt_piece *);

/* checkpoint_stored.c: whether a dataset and the groups on the way to it are
 * there; the dtype of an HDF5 type, false where there is none. */
bool ts_stored_exists(hid_t file, const char *name);
bool ts_stored_dtype(hid_t type, ts_dtype *);
/* Rows in few bits (base/few_bits.h) are a dataset of bytes, (rows, bytes of a
 * row), whose attributes dtype and dim say what they are.  columns: of the
 * dataset of rows of COLS elements.  put_kind: the attributes of SET, none for
 * other dtypes; under the lock. */
int64_t ts_stored_columns(ts_dtype, int64_t cols);
ts_err ts_stored_put_kind(hid_t set, ts_dtype, int64_t cols);

/* checkpoint_stored.c.  Errors name the dataset. */
ts_err ts_stored_open(ts_stored *, hid_t file, const char *path,
                      const char *name);
void ts_stored_reset(ts_stored *);
/* checkpoint_read.c: "(rows, cols)", or "(rows)" where COLS is 0. */
void ts_shape_text(char buf[64], int64_t rows, int64_t cols);
/* One block of NAME against its checksum; BLOCK is a buffer of a block. */
ts_err ts_stored_block(const ts_stored *, int fd, const char *path,
                       const char *name, int64_t number, void *block);

/* checkpoint_file.c, rank 0: the file under its temporary name, with datasets
 * whose places S->at says, and space for all that follows; its end, once all
 * is in it and summed: checksums, complete = 1, the seal, fsync. */
ts_err ts_ckpt_file_create(ts_saver *);
/* The attributes of the root that it has from the beginning.  Under HDF5's
 * lock; of parallel HDF5 on all ranks. */
ts_err ts_ckpt_put_head(const ts_ckpt *, hid_t file);
ts_err ts_ckpt_file_seal(ts_saver *);
/* Makes DIR, an error of which is one of the checkpoint; rename, and fsync of
 * the folder IN. */
ts_err ts_ckpt_mkdirs(const char *dir);
ts_err ts_ckpt_give_name(const char *temp, const char *path, const char *in);

/* checkpoint_mirror.c: copies the checkpoint PATH into DIR, where the newest
 * KEEP stay.  Local. */
ts_err ts_ckpt_mirror(const char *path, const char *dir, int keep,
                      const ts_ckpt_hooks *);

/* checkpoint_list.c: the name in its folder of what is saved: "step-N.h5" of a
 * full one, "delta-N.h5", "weights-N.h5". */
void ts_ckpt_name(char name[64], ts_ckpt_kind, int64_t step);
/* Names of full checkpoints and of deltas in DIR, in no order; none where DIR
 * is not there, an error where it can't be read.  Freed in any case. */
ts_err ts_ckpt_list(const char *dir, char ***names, int *n);
void ts_ckpt_list_free(char **names, int n);
/* Newest first, of one step the full one. */
void ts_ckpt_sort(char **names, int n);
int ts_ckpt_compare(const char *a, const char *b); /* > 0: A is newer */
/* Removes all full ones but the newest KEEP, never WRITTEN, what is older than
 * those that stay; and, where DIR is this run's OWN, what killed runs have left
 * half-written.  Where DIR can't be read a warning says so. */
ts_err ts_ckpt_prune(const char *dir, int keep, const char *written, bool own);
/* Removes what compactions that were killed have left half-written, of steps
 * before that in the name BEFORE. */
void ts_ckpt_forget_compacted(const char *dir, const char *before);

/* checkpoint_mpio.c: whether IO ("auto" | "pwrite" | "mpio") means MPI-IO for
 * DIR, and saving by it.  ts_ckpt_save_mpio is Collective. */
bool ts_ckpt_use_mpio(const char *io, const char *dir);
ts_err ts_ckpt_save_mpio(ts_ckpt *, const char *dir, int keep, ts_comm *);
