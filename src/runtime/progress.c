/* progress.c - lines of long work. */
#include "runtime/progress.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/str.h"
#include "runtime/trace.h"

/* Seconds between lines. */
static double pause_s(void) {
  const char *text = getenv("TESSERA_PROGRESS");
  char *end;
  const double s = text ? strtod(text, &end) : 0;
  return text && end != text && s >= 0 ? s : 10;
}

ts_work ts_work_begin(const char *what, const char *of, double all,
                      const char *unit) {
  const double now = ts_now();
  return (ts_work){.what = what,
                   .of = of,
                   .unit = unit,
                   .all = all,
                   .begun = now,
                   .next = now + pause_s()};
}

bool ts_work_is_due(const ts_work *w) {
  return ts_now() >= w->next;
}

void ts_work_at(ts_work *w, double done) {
  char rate[32], left[32];
  const double now = ts_now(), gone = fmax(now - w->begun, 1e-6);
  if (now < w->next || !(done > 0) || done > w->all) return;
  w->next = now + pause_s();
  const int64_t each = (int64_t)(done / gone);
  ts_progress("%s %s: %.0f%%, %s%s%s/s, left %s", w->what, w->of,
              100 * done / w->all,
              w->unit ? ts_str_count(rate, each) : ts_str_bytes(rate, each),
              w->unit ? " " : "", w->unit ? w->unit : "",
              ts_str_seconds(left, gone * (w->all - done) / done));
}
