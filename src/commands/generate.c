/* generate.c - `tessera generate DECK [train|eval] --out FILE`. */
#include "commands/write_data.h"

ts_err ts_cmd_generate(const ts_args *a) {
  return ts_write_data(a, true);
}
