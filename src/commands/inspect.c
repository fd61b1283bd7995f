/* inspect.c - `tessera inspect FILE`, of a checkpoint its words, too. */
#include "commands/commands.h"
#include "io/checkpoint.h"

ts_err ts_cmd_inspect(const ts_args *a) {
  if (!a->target)
    return ts_fail(
        TS_ERR_USAGE,
        "usage: tessera inspect FILE [--verify | --vocabulary FEATURE]");
  if (a->vocabulary) return ts_inspect_words(a->target, a->vocabulary);
  return ts_inspect(a->target, a->verify);
}
