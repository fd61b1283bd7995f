/* export_serve.h - `tessera export --format serve`.  Local. */
#pragma once

#include "commands/commands.h"
#include "io/checkpoint.h"
#include "io/scales.h"
#include "io/vocabulary.h"
#include "serve/write.h"

typedef struct ts_serve_export {
  ts_serve_out out;
  ts_scales *scales;
  ts_vocabularies *words;
  ts_str text; /* of the scales */
} ts_serve_export;

/* What the options of A ask for; E then writes the file. */
ts_err ts_serve_export_begin(ts_serve_export *, ts_ckpt_export *e,
                             const ts_config *c, const ts_args *a);
void ts_serve_export_end(ts_serve_export *);
