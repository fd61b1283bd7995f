/* help.c - `tessera help deck`, `tessera help KEY`. */
#include <stdio.h>

#include "commands/commands.h"
#include "io/deck.h"

ts_err ts_cmd_help(const ts_args *a) {
  ts_str text = {0};
  ts_err err = ts_deck_help(&text, a->target);
  if (err == TS_OK && text.text) fputs(text.text, stdout);
  ts_str_reset(&text);
  return err;
}
