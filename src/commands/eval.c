/* eval.c - `tessera eval DECK`. */
#include "base/str.h"
#include "commands/commands.h"
#include "train/forward.h"

enum { REPEATS = 5, BINS = 10, MOST = 1000 };

static ts_err check(const ts_args *a) {
  if (!a->target) return ts_fail(TS_ERR_USAGE, "usage: tessera eval DECK");
  if (!a->importance && (a->repeats || a->features))
    return ts_fail(TS_ERR_USAGE, "%s goes with --importance",
                   a->repeats ? "--repeats" : "--features");
  if (!a->calibration && a->bins)
    return ts_fail(TS_ERR_USAGE, "--bins goes with --calibration");
  if (a->calibration && *a->calibration && !ts_str_ends(a->calibration, ".svg"))
    return ts_fail(TS_ERR_USAGE,
                   "--calibration=%s: drawings are SVG, which browsers show: "
                   "give a name that ends with .svg",
                   a->calibration);
  return TS_OK;
}

ts_err ts_cmd_eval(const ts_args *a) {
  ts_err err = TS_OK;
  ts_strings features = {0};
  ts_forward f = {.checkpoint = a->checkpoint,
                  .by = a->by,
                  .importance.features = &features,
                  .drawing = a->calibration,
                  .draw = ts_reliability_draw};
  TS_TRY(check(a));
  if (a->importance)
    TS_TRY(ts_args_number("--repeats", a->repeats, REPEATS, 1, MOST,
                          &f.importance.repeats));
  if (a->calibration)
    TS_TRY(ts_args_number("--bins", a->bins, BINS, 2, MOST, &f.n_bins));
  TS_TRY(ts_args_names(&features, "--features", a->features));
  TS_TRY(ts_run_forward(a->target, a->sets, a->n_sets, &f));
done:
  ts_args_names_free(&features);
  return err;
}
