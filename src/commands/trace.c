/* trace.c - `tessera trace summary FILE` and `tessera trace plot FILE`. */
#include "commands/trace.h"

#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"

static ts_err parse_rank(const char *text, const ts_trace *t, int *rank) {
  char *end;
  *rank = -1;
  if (!text) return TS_OK;
  const long r = strtol(text, &end, 10);
  if (end == text || *end || r < 0 || r >= t->n_ranks)
    return ts_fail(TS_ERR_USAGE, "--rank %s: the trace has ranks 0 to %d", text,
                   t->n_ranks - 1);
  *rank = (int)r;
  return TS_OK;
}

ts_err ts_cmd_trace(const ts_args *a) {
  ts_err err = TS_OK;
  ts_trace t = {0};
  int64_t first = 0, end = 0;
  int rank;
  const bool summary = a->target && !strcmp(a->target, "summary");
  const bool plot = a->target && !strcmp(a->target, "plot") && a->out;
  if ((!summary && !plot) || a->n_more != 1)
    TS_THROW(TS_ERR_USAGE, "usage: tessera trace summary FILE | trace plot "
                           "FILE -o FILE.svg [--steps A:B] [--rank R]");
  if (a->steps) TS_TRY(ts_args_range("--steps", a->steps, &first, &end));
  TS_TRY(ts_trace_read(&t, a->more[0]));
  TS_TRY(parse_rank(a->rank, &t, &rank));
  TS_TRY(summary ? ts_trace_summary(&t)
                 : ts_trace_plot(&t, a->out, first, end, rank));
done:
  ts_trace_reset(&t);
  return err;
}
