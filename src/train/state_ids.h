/* state_ids.h - which ids the rows of dynamic tables are, in a checkpoint.
 *
 * A dynamic table's items have a row for each id that has one, on all ranks, by
 * ascending key (sparse/index.h): so each shard's rows follow each other, on
 * any number of ranks.  Item dynamic/TABLE/ids has the ids, and value
 * meta/dynamic/TABLE the places where each of the keys' parts begins.
 * Functions are Local unless they say Collective or Enqueues. */
#pragma once

#include "train/trainer.h"

/* Of one table. */
typedef struct ts_ids {
  int64_t *start; /* (TS_INDEX_PARTS + 1) places of the parts, of all ranks */
  /* What this rank has of it; tbe NULL: nothing. */
  ts_tbe *tbe;
  int32_t number;          /* of the table in it */
  int32_t shard, n_shards; /* which of them */
  int64_t n;               /* ids, and their places from start's on */
  int64_t *ids;            /* (n) */
  uint32_t *rows;          /* (n) in the shard */
  int64_t *seen, *last;    /* (n) as in ts_tbe_ids, of tables that evict */
  float *score;            /* (n) the same, of tables that score */
  int64_t *changed;        /* of a delta: those of the ids whose rows it has */
  int32_t first;           /* number of its item of ids; those of seen, last
                              and score, weights, states of optimizers follow
                              it */
  int32_t n_lists;         /* items before the weights */
  int32_t sights;          /* number of the item of its counts, if it admits */
  bool sights_known;       /* the file that is loaded has them, of this size */
  bool sights_differ;      /* it has them of another size */
  bool shrinks;            /* the file has more ids than the capacity */
  void **staged; /* (n_items) where it shrinks: the file's rows, of which some
                    go to the table; else NULL */
  int32_t n_items;
} ts_ids;

typedef struct ts_state_ids {
  ts_trainer *trainer;
  ts_ids *tables; /* (n_tables); those without start are not dynamic */
  bool may_lack;  /* tables that the file has no ids for stay as they are */
} ts_state_ids;

/* The tables as they are after the last step, without ids that batches under
 * way have brought since; memory of the checkpoint.  CKPT, as it is loaded,
 * gets the rows of its file.  The lanes are idle.  Collective. */
ts_err ts_state_ids_find(ts_trainer *, ts_ckpt *, ts_state_ids **);
/* CKPT, which is to be saved, gets the places of their parts. */
ts_err ts_state_ids_add(ts_trainer *, ts_ckpt *);
/* Adds table I's items of its ids, of which the other items of it come after:
 * ids, where it evicts how often and when they were met, and their scores. */
ts_err ts_ids_add_lists(ts_ckpt *, ts_state_ids *, int32_t i);
/* state_delta.c: which of D's ids were updated, or came, since the last save:
 * their ROWS (*N, in the shard, owned by the caller), by the order of the ids,
 * and D's changed.  The lanes are idle.  MEMORY.  bytes: of D's lists and
 * counts. */
ts_err ts_ids_changed(ts_ckpt *, ts_ids *d, uint32_t **rows, int64_t *n);
int64_t ts_ids_bytes(const ts_ids *d);
/* state_shrink.c: the file has more ids than table D, which C describes, has
 * rows.  can_shrink: its evict says which stay.  stage: this rank's, from PLACE
 * of the file on, are to be read beside the table.  shrink: once they are, D
 * has those that a look would keep, and they are in the table's rows from 1 on.
 * MEMORY.  shrink is Collective. */
bool ts_ids_can_shrink(const ts_table_config *);
ts_err ts_ids_stage(ts_ckpt *, ts_ids *d, int64_t place);
ts_err ts_ids_shrink(ts_ckpt *, ts_ids *d, const ts_table_config *c, ts_comm *);
/* state_sights.c: counts of ids without a row, of table D, which C describes;
 * nothing where it admits all.
 * add: their item.  write: what this rank has of them is to be written, as it
 * was before batch FIRST (0: after all), or a copy of it; bytes of it.  say:
 * value meta/sights/TABLE, their size.  read: they are to be read, where CKPT's
 * file PATH has them of the same size, if somebody trains; CKPT where its size
 * makes no sense.
 * take: once it is loaded, those that the file has not are 0, and all with
 * ANEW.  note: says so where the file has them of another size. */
ts_err ts_sights_add(ts_ckpt *, ts_ids *d, const ts_table_config *c);
ts_err ts_sights_write(ts_ckpt *, const ts_ids *d, uint32_t first, bool copy);
int64_t ts_sights_bytes(const ts_ids *d);
ts_err ts_sights_say(ts_ckpt *, const ts_table_config *c);
ts_err ts_sights_read(ts_ckpt *, ts_ids *d, const ts_table_config *c,
                      const char *path, bool training);
void ts_sights_note(const ts_ids *d, const ts_table_config *c);
void ts_sights_take(const ts_ids *d, const ts_ckpt *, bool anew);
/* *N: how many ids of dynamic TABLE checkpoint PATH has, whose values CKPT has;
 * CKPT error where it says nothing of them.  Local. */
ts_err ts_ids_of_file(int64_t *n, const ts_ckpt *, const char *table,
                      const char *path);
/* Places of a table's own ids among all. */
int64_t ts_ids_place(const ts_ids *);
/* Once CKPT is loaded: its ids have the rows that were read; with ANEW none was
 * met yet, as the run begins at step 0.  An error on one rank is all ranks'.
 * Collective. */
ts_err ts_state_ids_take(ts_trainer *, ts_ckpt *, bool anew);
/* Before CKPT is loaded: may_lack. */
void ts_state_ids_may_lack(ts_ckpt *);
