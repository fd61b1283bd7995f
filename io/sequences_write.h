/* sequences_write.h - sequences as data sets: one to train on, one to validate,
 * one to test.
 *
 * A sample has the features user (one id), item (the sequence, oldest first)
 * and next (targets), and a label that is 0.  Of a user with n events
 * s[0 .. n - 1] and LEAVE = N, the last N are left out of training, where
 * n > N; else none is:
 *
 *   shift  train  item = s[0 .. m - 2], next = s[1 .. m - 1], m = n - N >= 2
 *          valid  item = s[0 .. n - N - 1], next = s[n - N]; none where N < 2
 *          test   item = what is before next = the rest: N - 1, 1 where N = 1
 *   masked the same, but in train item = s[0 .. m - 1], and no next: who trains
 *          on it hides some of item (io/masks.h); m >= 1
 *   pairs  the same next, each of s[0 .. m - 1] as a sample of train; what was
 *          item is seen, which is empty in train
 *   users  test   next = s[0 .. n - 1]; no item, and nothing else
 *
 * A side column gives each sample a feature with an id for each id of item, or
 * seen.  Where times are kept, shift and masked have the feature time: those of
 * item, and behind them that of the event after these, when the model is asked
 * (of masked's train, which has all events, the last one's again).
 *
 * With a split (ts_sequences.before) m is what is before it, and test's next is
 * what is not; shift and masked need m >= 1 there.  All of it is Local. */
#pragma once

#include "io/sequences.h"

typedef enum {
  TS_TARGETS_SHIFT,
  TS_TARGETS_MASKED,
  TS_TARGETS_PAIRS,
  TS_TARGETS_USERS
} ts_sequence_targets;

typedef struct ts_sequences_form {
  const char *prefix;    /* of the files: PREFIX.train.h5 */
  const ts_sides *sides; /* those that were read */
  ts_sequence_targets targets;
  int64_t leave;
  int64_t max_length; /* of these two, the newest so many of item, and of
                         train's next; 0: all */
  /* Behind each target of valid and test so many ids that the user never had,
   * each of them once, drawn by Philox from (seed, user, target) alone. */
  int64_t negatives;
  uint64_t seed;
} ts_sequences_form;

/* The feature that has a user's events before the targets, item or seen; NULL:
 * none has. */
const char *ts_sequences_before(const ts_sequences_form *);

/* The files, those of words behind the parts: PREFIX.FEATURE.csv of the first
 * side column is TS_SIDE_CSV. */
enum {
  TS_PART_TRAIN,
  TS_PART_VALID,
  TS_PART_TEST,
  TS_PARTS,
  TS_USERS_CSV = TS_PARTS,
  TS_ITEMS_CSV,
  TS_SIDE_CSV
};
enum { TS_SEQUENCE_PATH = 4200 };
int ts_sequences_files(const ts_sequences_form *); /* how many there may be */
/* PATH is PREFIX.train.h5 and so on; TEMPORARY: while it is not whole. */
void ts_sequences_name(char path[TS_SEQUENCE_PATH], const ts_sequences_form *,
                       int file, bool temporary);
/* The users, items or side column whose words FILE lists. */
const ts_sequence_ids *ts_sequences_ids(const ts_sequences *, int file);

/* Whether ts_sequences_write writes FILE. */
bool ts_sequences_has(const ts_sequences *, const ts_sequences_form *,
                      int file);

/* Samples and ids in a part's file (n_items: of ts_sequences_before); a part
 * without samples has no file. */
typedef struct ts_part_counts {
  int64_t n_samples, n_items, n_next;
} ts_part_counts;

/* Writes the parts, and PREFIX.users.csv and PREFIX.items.csv where these are
 * words (columns user,word and item,word), and PREFIX.FEATURE.csv likewise of a
 * side column (FEATURE,word): under temporary names until all of them are
 * whole.  Memory: 64 KiB for an array of the file that is open, and with
 * negatives 4 bytes an item.  DATA: a part has no samples, or a user leaves too
 * few items. */
ts_err ts_sequences_write(const ts_sequences *, const ts_sequences_form *,
                          ts_part_counts counts[TS_PARTS]);
