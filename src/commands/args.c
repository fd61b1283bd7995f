/* args.c - options that several commands read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
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

ts_err ts_args_names(ts_strings *list, const char *option, const char *names) {
  for (const char *p = names; p;) {
    const char *comma = strchr(p, ',');
    const size_t n = comma ? (size_t)(comma - p) : strlen(p);
    if (!n)
      return ts_fail(TS_ERR_USAGE, "%s %s: a name is empty", option, names);
    TS_DO(ts_mem_extend(&list->item, list->n, list->n + 1, sizeof(char *),
                        TS_TAG_MISC));
    TS_DO(ts_mem_alloc(&list->item[list->n++], n + 1, TS_TAG_MISC));
    memcpy(list->item[list->n - 1], p, n);
    p = comma ? comma + 1 : NULL;
  }
  return TS_OK;
}

void ts_args_names_free(ts_strings *list) {
  for (int32_t i = 0; i < list->n; i++) ts_mem_free(list->item[i]);
  ts_mem_free(list->item);
}

ts_err ts_args_number(const char *option, const char *text, int32_t usual,
                      int32_t least, int32_t most, int32_t *out) {
  char *end;
  *out = usual;
  if (!text) return TS_OK;
  const long n = strtol(text, &end, 10);
  if (end == text || *end || n < least || n > most)
    return ts_fail(TS_ERR_USAGE, "%s %s is no number in %d to %d", option, text,
                   least, most);
  *out = (int32_t)n;
  return TS_OK;
}

ts_err ts_args_trace(const ts_args *a, ts_trace_request *t) {
  t->path = a->trace;
  if (!a->trace_steps) return TS_OK;
  return ts_args_range("--trace-steps", a->trace_steps, &t->first, &t->end);
}
