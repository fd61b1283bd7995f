/* eval.c - `tessera eval DECK`. */
#include "commands/commands.h"
#include "train/forward.h"

ts_err ts_cmd_eval(const ts_args *a) {
  if (!a->target) return ts_fail(TS_ERR_USAGE, "usage: tessera eval DECK");
  return ts_run_forward(
      a->target, a->sets, a->n_sets,
      &(ts_forward){.checkpoint = a->checkpoint, .by = a->by});
}
