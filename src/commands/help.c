/* help.c - `tessera help deck`, `tessera help KEY`. */
#include <stdio.h>
#include <string.h>

#include "commands/commands.h"
#include "io/deck.h"

ts_err ts_cmd_help(const ts_args *a) {
  ts_str text = {0};
  ts_err err = TS_OK;
  if (!a->target)
    TS_THROW(TS_ERR_USAGE, "usage: tessera help [deck [--texinfo] | KEY]");
  if (a->texinfo && strcmp(a->target, "deck") != 0)
    TS_THROW(TS_ERR_USAGE, "--texinfo is of `tessera help deck`");
  TS_TRY(a->texinfo ? ts_deck_texinfo(&text) : ts_deck_help(&text, a->target));
  if (text.text) fputs(text.text, stdout);
done:
  ts_str_reset(&text);
  return err;
}
