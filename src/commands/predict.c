/* predict.c - `tessera predict DECK --out FILE`, of samples or embeddings. */
#include <string.h>

#include "base/log.h"
#include "commands/commands.h"
#include "io/sheet.h"
#include "train/embeddings.h"
#include "train/forward.h"

static ts_err check(const ts_args *a) {
  if (!a->target || !a->out)
    return ts_fail(TS_ERR_USAGE, "usage: tessera predict DECK --out FILE");
  if (a->embeddings && (a->keys || a->data))
    return ts_fail(TS_ERR_USAGE,
                   "--embeddings are of the checkpoint alone: it takes neither "
                   "--keys nor --data");
  if (a->embeddings && a->layer)
    return ts_fail(TS_ERR_USAGE, "--layer is of samples, --embeddings of the "
                                 "checkpoint alone: give one of them");
  return TS_OK;
}

ts_err ts_cmd_predict(const ts_args *a) {
  ts_err err = TS_OK;
  ts_strings names = {0};
  TS_TRY(check(a));
  if (!strcmp(a->out, "-")) ts_log_aside();
  TS_TRY(ts_args_names(&names, a->keys ? "--keys" : "--embeddings",
                       a->keys ? a->keys : a->embeddings));
  if (a->embeddings)
    TS_TRY(ts_run_embeddings(a->target, a->sets, a->n_sets, a->checkpoint,
                             a->out, &names));
  else
    TS_TRY(ts_run_forward(a->target, a->sets, a->n_sets,
                          &(ts_forward){.checkpoint = a->checkpoint,
                                        .out = a->out,
                                        .data = a->data,
                                        .layer = a->layer,
                                        .keys = &names}));
done:
  ts_args_names_free(&names);
  return err;
}
