/* inspect.c - `tessera inspect FILE`, of a checkpoint its words and the first
 * ids of a table, too. */
#include "commands/commands.h"
#include "io/checkpoint.h"

ts_err ts_cmd_inspect(const ts_args *a) {
  enum { USUAL = 20, MOST = 1000000 };
  int32_t k;
  if (!a->target)
    return ts_fail(TS_ERR_USAGE,
                   "usage: tessera inspect FILE [--verify | --vocabulary "
                   "FEATURE | --table NAME [--top K]]");
  TS_DO(ts_args_number("--top", a->top, USUAL, 1, MOST, &k));
  if (a->top && !a->table)
    return ts_fail(TS_ERR_USAGE, "--top goes with --table");
  if (a->verify && (a->table || a->vocabulary))
    return ts_fail(TS_ERR_USAGE,
                   "--verify goes alone: without --table and --vocabulary");
  if (a->table) return ts_inspect_top(a->target, a->table, k);
  if (a->vocabulary) return ts_inspect_words(a->target, a->vocabulary);
  return ts_inspect(a->target, a->verify);
}
