/* help.c - `tessera help deck`, model, layer KIND, or a KEY. */
#include <stdio.h>
#include <string.h>

#include "commands/commands.h"
#include "io/deck.h"

ts_err ts_cmd_help(const ts_args *a) {
  ts_str text = {0};
  ts_err err = TS_OK;
  if (!a->target)
    TS_THROW(TS_ERR_USAGE, "usage: tessera help [deck [--texinfo] | model "
                           "[--texinfo] | layer KIND | KEY]");
  const bool model = !strcmp(a->target, "model");
  const bool layer = !strcmp(a->target, "layer");
  if (a->texinfo && !model && strcmp(a->target, "deck") != 0)
    TS_THROW(TS_ERR_USAGE, "--texinfo is of `tessera help deck` and `tessera "
                           "help model`");
  if (a->n_more && !layer)
    TS_THROW(TS_ERR_USAGE, "tessera help takes one word");
  if (a->texinfo)
    TS_TRY(model ? ts_layers_texinfo(&text) : ts_deck_texinfo(&text));
  else if (model || (layer && !a->n_more))
    TS_TRY(ts_model_help(&text));
  else
    TS_TRY(layer ? ts_layer_help(&text, a->more[0])
                 : ts_deck_help(&text, a->target));
  if (text.text) fputs(text.text, stdout);
done:
  ts_str_reset(&text);
  return err;
}
