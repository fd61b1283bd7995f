/* order.h - the order of an epoch's samples: data.shuffle, data.streams.
 *
 * The order is a function of (run.seed, epoch) and the data alone, computed
 * sample by sample, so a run that is resumed on other ranks in the middle of an
 * epoch goes on with the same one.  With shift s and whole blocks of B samples
 * of the n,
 *
 *   position p is place x = w W + within_w(p - w W) of window w = p / W,
 *   its block is b = blocks(x / B), the short last one stays where it is,
 *   its sample is (b B + x mod B + s) mod n
 *
 * with within and blocks keyed permutations (base/permute.h).  "full" is one
 * window of one block.  The shift cuts the blocks elsewhere in each epoch, and
 * so the samples of the short block differ.
 *
 * If samples are read in groups (ts_source_info.groups), "block" takes the
 * groups in the order of blocks and mixes each in itself: a window is then a
 * group, whatever shuffle_window says.
 *
 * With data.streams S > 1 a batch of G samples takes G / S of each of S
 * streams: position p of batch b = p / G, the i-th of its stream s = (p mod G)
 * / (G / S), is position s L + b G / S + i of the order above.  A stream has
 * G / S samples for each whole batch of the epoch, L in all; the short last
 * batch is what is left.  All of it is Local. */
#pragma once

#include "base/permute.h"
#include "io/checkpoint.h"
#include "io/source.h"

/* Of a window: more mix better, fewer are read in larger pieces. */
enum { TS_ORDER_BLOCKS = 16 };

typedef struct ts_order {
  int64_t n, window, block; /* samples; n 0: as they lie */
  bool plain;               /* not shuffled; streams alone */
  int64_t piece, length;    /* samples: of a stream in a batch, and in all */
  int32_t streams;
  uint64_t seed;
  int64_t epoch, at; /* the epoch and window whose permutations are here */
  int64_t shift, place[TS_ORDER_BLOCKS]; /* where the window's blocks lie */
  ts_permute blocks, within;
  const int64_t *groups; /* (n_groups + 1) the source's; NULL: it has none */
  int64_t n_groups;
  int64_t *ends; /* (n_groups) positions at which the epoch's groups end */
  int64_t ahead; /* a sample of the group that comes next, at an end of the one
                    at hand; -1: not known */
} ts_order;

/* What an order depends on besides the data, for checkpoints. */
typedef struct ts_order_key {
  int64_t shuffle, seed, window_bytes; /* shuffle 0: none; 1: block; 2: full */
  int64_t streams, batch;              /* samples of one, 0 with one stream */
} ts_order_key;

/* The deck's, for batches of GLOBAL_BATCH samples, into CKPT, and that of CKPT:
 * none where it has none. */
ts_err ts_order_save(const ts_config *, int64_t global_batch, ts_ckpt *ckpt);
void ts_order_take(ts_order_key *, const ts_ckpt *ckpt);
/* An error that names the deck's key by which it has another order than WAS. */
ts_err ts_order_check(const ts_config *, int64_t global_batch,
                      const ts_order_key *was);

/* Whether data.streams goes with data.shuffle and with batches of GLOBAL_BATCH
 * samples (0: not known yet), else WHY not. */
enum { TS_ORDER_WHY = 200 };
bool ts_order_fits(const ts_config *, int64_t global_batch,
                   char why[TS_ORDER_WHY]);
/* Whether the deck's order is that of the files. */
bool ts_order_is_of_files(const ts_config *);
/* The order that the deck wants of SOURCE in batches of GLOBAL_BATCH, which
 * fits; an error where SOURCE can't be read in it. */
ts_err ts_order_set(ts_order *, const ts_source *source, int64_t global_batch);
/* For what looks at all samples of SOURCE once, in whatever order: as they lie,
 * a stream for each of N_RANKS, so that each reads groups of its own; none
 * where SOURCE has no groups, or batches of GLOBAL_BATCH can't be cut so. */
void ts_order_spread(ts_order *, const ts_source *source, int64_t global_batch,
                     int n_ranks);
void ts_order_reset(ts_order *);
/* The samples at positions [first, first + n) of EPOCH. */
void ts_order_samples(ts_order *, int64_t *samples, int64_t epoch,
                      int64_t first, int32_t n);
