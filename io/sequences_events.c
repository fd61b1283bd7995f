/* sequences_events.c - events one by one: ids and times, and room for them. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/sequences_impl.h"

bool ts_events_id(const char *text, size_t n_bytes, int64_t *id) {
  if (!n_bytes || n_bytes > 19 || (*text == '0' && n_bytes > 1)) return false;
  uint64_t x = 0; /* 19 digits fit */
  for (size_t i = 0; i < n_bytes; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    x = 10 * x + (uint64_t)(text[i] - '0');
  }
  *id = (int64_t)x;
  return x <= INT64_MAX;
}

bool ts_events_time(ts_events *x, const char *text, size_t n_bytes,
                    uint64_t *time) {
  char word[64], *end;
  if (!n_bytes || n_bytes >= sizeof word) return false;
  memcpy(word, text, n_bytes);
  word[n_bytes] = '\0';
  errno = 0;
  const long long whole = strtoll(word, &end, 10);
  const bool is_whole = !*end && end != word && errno == 0;
  const double fraction = is_whole ? (double)whole : strtod(word, &end);
  if (*end || end == word || !isfinite(fraction)) return false;
  for (int64_t i = 0; !is_whole && !x->fractions && i < x->n; i++) {
    const double t = (double)(int64_t)x->time[i];
    memcpy(&x->time[i], &t, sizeof t);
  }
  x->fractions |= !is_whole;
  if (x->fractions)
    memcpy(time, &fraction, sizeof fraction);
  else
    *time = (uint64_t)whole;
  return true;
}

ts_err ts_events_room(ts_events *x, int32_t n_sides, bool timed) {
  const int64_t more = x->n ? x->n + x->n / 2 : 1 << 16;
  if (x->n < x->capacity) return TS_OK;
  TS_DO(ts_mem_extend(&x->user, x->n, more, sizeof *x->user, TS_TAG_INPUT));
  TS_DO(ts_mem_extend(&x->item, x->n, more, sizeof *x->item, TS_TAG_INPUT));
  if (timed)
    TS_DO(ts_mem_extend(&x->time, x->n, more, sizeof *x->time, TS_TAG_INPUT));
  for (int32_t k = 0; k < n_sides; k++)
    TS_DO(
        ts_mem_extend(&x->side[k], x->n, more, sizeof **x->side, TS_TAG_INPUT));
  x->capacity = more;
  return TS_OK;
}

void ts_events_reset(ts_events *x) {
  ts_mem_free_all(x->user, x->item, x->time);
  ts_mem_free_each((void *const *)x->side, TS_SIDES);
  *x = (ts_events){0};
}
