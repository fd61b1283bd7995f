/* train.c - `tessera train DECK`. */
#include "commands/commands.h"
#include "io/deck.h"
#include "runtime/watchdog.h"
#include "train/run.h"

ts_err ts_cmd_train(const ts_args *a) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_run_options o = {.check = a->check, .began = a->began};
  if (!a->target) TS_THROW(TS_ERR_USAGE, "usage: tessera train DECK");
  TS_TRY(ts_args_trace(a, &o.trace));
  TS_TRY(ts_watch_start());
  TS_TRY(ts_deck_read_all(&c, a->target, a->sets, a->n_sets));
  TS_TRY(ts_run_train(c, &o));
done:
  ts_watch_stop();
  ts_deck_destroy(c);
  return err;
}
