/* target_law.h - how often each item is a target in the training data, and
 * draws in that proportion: of outputs over items whose draw is "frequency", or
 * that take log_q.
 *
 * A draw takes one look into an alias table (A. J. Walker, ACM Transactions on
 * Mathematical Software 3, 1977; built as M. Vose, IEEE Transactions on
 * Software Engineering 17, 1991, has it): an entry that is drawn evenly, and a
 * word that says whether it is that item or the other one of the entry.  The
 * table follows from the counts alone, so it is the same on any ranks.
 * Memory: 12 bytes an item, while it is made 40. */
#pragma once

#include "io/source.h"

typedef struct ts_target_law {
  int64_t first, n; /* items are first to first + n - 1 */
  uint32_t *keep;   /* (n) an entry is its own item where a word is below */
  int32_t *other;   /* (n) from first on */
  float *log_q;     /* (first + n) of each id the log of its share of the
                       targets; of one that is none as if half of one were */
} ts_target_law;

/* Reads all that SOURCE trains on, each rank a part.  *OUT stays NULL where the
 * deck draws otherwise.  DATA errors: there is no target in it, or the table
 * has more rows than an entry can name.  Collective. */
ts_err ts_target_law_take(ts_target_law **out, ts_source *, ts_comm *);
void ts_target_law_destroy(ts_target_law *); /* Local; NULL is fine */

/* The item of entry AT, below n, and of a word.  Local. */
static inline int64_t ts_target_law_draw(const ts_target_law *l, int64_t at,
                                         uint32_t word) {
  return l->first + (word < l->keep[at] ? at : l->other[at]);
}
