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
  char *bite;        /* (TS_BITE_BYTES) of a device's memory, or NULL */
  ts_ckpt_hooks hooks;
} ts_saver;

/* A checkpoint that is being read. */
typedef struct ts_ckpt_reader {
  const char *path;
  hid_t file;
  int fd;
  char *block;         /* (TS_BLOCK_BYTES) */
  ts_staging *staging; /* of what is read into */
} ts_ckpt_reader;

/* checkpoint_read.c: opens PATH, whose seal is checked, for reading; one that
 * was not finished, or another program's, only without NEED_COMPLETE.  To be
 * closed in any case; the caller sets the staging. */
ts_err ts_ckpt_reader_open(ts_ckpt_reader *, const char *path,
                           bool need_complete, int64_t *step);
void ts_ckpt_reader_close(ts_ckpt_reader *);

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

/* checkpoint_stored.c: whether a dataset and the groups on the way to it are
 * there; the dtype of an HDF5 type, false where there is none. */
bool ts_stored_exists(hid_t file, const char *name);
bool ts_stored_dtype(hid_t type, ts_dtype *);

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
ts_err ts_ckpt_file_seal(ts_saver *);
/* Makes DIR, an error of which is one of the checkpoint; rename, and fsync of
 * the folder IN. */
ts_err ts_ckpt_mkdirs(const char *dir);
ts_err ts_ckpt_give_name(const char *temp, const char *path, const char *in);

/* checkpoint_mirror.c: copies the checkpoint PATH into DIR, where the newest
 * KEEP stay.  Local. */
ts_err ts_ckpt_mirror(const char *path, const char *dir, int keep,
                      const ts_ckpt_hooks *);

/* checkpoint_list.c: names step-N.h5 in DIR, in no order; none where DIR is
 * not there, an error where it can't be read.  Freed in any case. */
ts_err ts_ckpt_list(const char *dir, char ***names, int *n);
void ts_ckpt_list_free(char **names, int n);
void ts_ckpt_sort(char **names, int n);            /* newest first */
int ts_ckpt_compare(const char *a, const char *b); /* > 0: A is newer */
/* Removes all but the newest KEEP, never WRITTEN, and what killed runs have
 * left half-written.  Where DIR can't be read a warning says so. */
ts_err ts_ckpt_prune(const char *dir, int keep, const char *written);

/* checkpoint_mpio.c: whether IO ("auto" | "pwrite" | "mpio") means MPI-IO for
 * DIR, and saving by it.  ts_ckpt_save_mpio is Collective. */
bool ts_ckpt_use_mpio(const char *io, const char *dir);
ts_err ts_ckpt_save_mpio(ts_ckpt *, const char *dir, int keep, ts_comm *);
