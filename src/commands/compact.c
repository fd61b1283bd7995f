/* compact.c - `tessera compact DECK`. */
#include "commands/commands.h"
#include "train/compact.h"

ts_err ts_cmd_compact(const ts_args *a) {
  if (!a->target)
    return ts_fail(TS_ERR_USAGE,
                   "usage: tessera compact DECK [--checkpoint FILE]");
  return ts_run_compact(a->target, a->sets, a->n_sets, a->checkpoint);
}
