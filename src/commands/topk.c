/* topk.c - `tessera topk DECK --out FILE`: the best items of each sample. */
#include <string.h>

#include "base/log.h"
#include "commands/commands.h"
#include "train/forward.h"

enum { USUAL = 100, MOST = 1 << 20 };

ts_err ts_cmd_topk(const ts_args *a) {
  ts_err err = TS_OK;
  ts_strings names = {0};
  int32_t k;
  if (!a->target || !a->out)
    TS_THROW(TS_ERR_USAGE, "usage: tessera topk DECK --out FILE [--k N]");
  TS_TRY(ts_args_number("--k", a->k, USUAL, 1, MOST, &k));
  if (!strcmp(a->out, "-")) ts_log_aside();
  TS_TRY(ts_args_names(&names, "--keys", a->keys));
  TS_TRY(ts_run_forward(a->target, a->sets, a->n_sets,
                        &(ts_forward){.checkpoint = a->checkpoint,
                                      .out = a->out,
                                      .data = a->data,
                                      .keys = &names,
                                      .k = k}));
done:
  ts_args_names_free(&names);
  return err;
}
