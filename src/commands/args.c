/* args.c - options that several commands read. */
#include <errno.h>
#include <stdlib.h>

#include "commands/commands.h"

ts_err ts_args_range(const char *option, const char *text, int64_t *first,
                     int64_t *end) {
  char *at, *last = NULL;
  errno = 0;
  const long long a = strtoll(text, &at, 10);
  const long long b = *at == ':' ? strtoll(at + 1, &last, 10) : -1;
  if (at == text || *at != ':' || !last || last == at + 1 || *last || errno ||
      a < 0 || b <= a)
    return ts_fail(TS_ERR_USAGE,
                   "%s %s is not A:B, batches from A up to but not B, as 10:20",
                   option, text);
  *first = a;
  *end = b;
  return TS_OK;
}

ts_err ts_args_trace(const ts_args *a, ts_trace_request *t) {
  t->path = a->trace;
  if (!a->trace_steps) return TS_OK;
  return ts_args_range("--trace-steps", a->trace_steps, &t->first, &t->end);
}
