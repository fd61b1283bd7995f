/* inspect.c - `tessera inspect FILE`. */
#include "commands/commands.h"
#include "io/checkpoint.h"

ts_err ts_cmd_inspect(const ts_args *a) {
  if (!a->target)
    return ts_fail(TS_ERR_USAGE, "usage: tessera inspect FILE [--verify]");
  return ts_inspect(a->target, a->verify);
}
