/* predict.c - `tessera predict DECK --out FILE`. */
#include "commands/commands.h"
#include "train/forward.h"

ts_err ts_cmd_predict(const ts_args *a) {
  if (!a->target || !a->out)
    return ts_fail(TS_ERR_USAGE, "usage: tessera predict DECK --out FILE");
  return ts_run_forward(a->target, a->sets, a->n_sets, a->checkpoint, a->out);
}
