/* watchdog_report.c - who holds a job up, from what its ranks say of
 * themselves. */
#include "runtime/watchdog_impl.h"

#include <string.h>

/* Lines in a message; the rest are counted. */
enum { RANKS_MAX = 16 };

const char *ts_section_name(int section) {
  static const char *const text[] = {
#define TEXT(name, words) words,
      TS_SECTION_LIST(TEXT)
#undef TEXT
  };
  return section >= 0 && section < TS_SECTION_COUNT ? text[section] : "?";
}

/* ---- suspects ------------------------------------------------------------ */

typedef enum { INNOCENT, BEHIND, ON_ITS_OWN, LEFT, SILENT } ts_guilt;

/* The lane on which another rank is in a collective that R hasn't begun; all
 * ranks make their comms in the same order. */
static const ts_watch_lane *missing(const ts_watch_row *r,
                                    const ts_watch_row *rows, int n) {
  for (int k = 0; k < n; k++)
    for (int i = 0; rows[k].answered && i < TS_WATCH_LANES; i++) {
      const ts_watch_lane *other = &rows[k].lanes[i];
      if (!*other->comm || other->started == other->done) continue;
      if (!strncmp(r->lanes[i].comm, other->comm, TS_WATCH_NAME) &&
          r->lanes[i].started < other->started)
        return other;
    }
  return NULL;
}

/* Waiting for data, which ranks do each on their own, or opening it, which
 * they do together: then one that is in a collective is not the one to blame.
 */
static bool is_alone(const ts_watch_row *r) {
  if (r->section != TS_SECTION_INPUT) return false;
  for (int i = 0; i < TS_WATCH_LANES; i++)
    if (!strcmp(r->lanes[i].comm, "control"))
      return r->lanes[i].started == r->lanes[i].done;
  return true;
}

static ts_guilt guilt(const ts_watch_row *r, const ts_watch_row *rows, int n) {
  if (!r->answered) return SILENT;
  if (r->state == TS_WATCH_LEFT) return LEFT;
  if (r->silent_s > TS_WATCH_SILENT_S) return SILENT;
  if (is_alone(r)) return ON_ITS_OWN;
  return missing(r, rows, n) ? BEHIND : INNOCENT;
}

static ts_err accuse(ts_str *text, const ts_watch_row *r,
                     const ts_watch_row *rows, int n, ts_guilt g) {
  const ts_watch_lane *l = missing(r, rows, n);
  TS_DO(ts_str_append(text, ": rank %d on %s ", r->rank, r->host));
  switch (g) {
  case SILENT:
    return ts_str_append(text, "does not run: stopped, gone or cut off");
  case LEFT:
    return ts_str_append(text, "has ended while others wait for it");
  case ON_ITS_OWN:
    return ts_str_append(text, "waits for its input data");
  default:
    return ts_str_append(text,
                         "has not begun number %llu of \"%s\" (%s), in which "
                         "others wait",
                         (unsigned long long)l->started, l->comm, l->op);
  }
}

static ts_err name_suspects(ts_str *text, const ts_watch_row *rows, int n,
                            ts_guilt most) {
  int more = -1;
  const ts_watch_row *first = NULL;
  for (int r = 0; r < n; r++) {
    if (guilt(&rows[r], rows, n) != most) continue;
    if (!first) first = &rows[r];
    more++;
  }
  if (most == INNOCENT) return TS_OK;
  TS_DO(accuse(text, first, rows, n, most));
  if (more) TS_DO(ts_str_append(text, "; so do %d more ranks", more));
  return TS_OK;
}

/* ---- a line per rank ----------------------------------------------------- */

static ts_err describe_lanes(ts_str *text, const ts_watch_row *r) {
  const char *comma = "; last collectives: ";
  for (int i = 0; i < TS_WATCH_LANES; i++) {
    const ts_watch_lane *l = &r->lanes[i];
    if (!*l->comm || !l->begun) continue;
    const bool under_way = l->started > l->done;
    const char *state = under_way            ? " under way"
                        : l->begun > l->done ? " done, the next waits"
                                             : " done";
    TS_DO(ts_str_append(text, "%s%.*s: %.*s %llu%s", comma, TS_WATCH_NAME,
                        l->comm, TS_WATCH_NAME, l->op,
                        (unsigned long long)(under_way ? l->started : l->done),
                        state));
    comma = ", ";
  }
  return TS_OK;
}

static ts_err describe(ts_str *text, const ts_watch_row *r) {
  TS_DO(ts_str_append(text, "\n  rank %d on %s: ", r->rank, r->host));
  if (!r->answered) {
    TS_DO(ts_str_append(text, "no answer"));
    return TS_OK;
  }
  if (r->state == TS_WATCH_LEFT)
    TS_DO(ts_str_append(text, "has ended"));
  else
    TS_DO(ts_str_append(text, "section %s since %.0f s",
                        ts_section_name(r->section), r->stuck_s));
  TS_DO(ts_str_append(text, ", step %lld", (long long)r->step));
  if (r->state == TS_WATCH_RUNS && r->silent_s > TS_WATCH_SILENT_S)
    TS_DO(ts_str_append(text, ", not run for %.0f s", r->silent_s));
  return describe_lanes(text, r);
}

ts_err ts_watch_text(ts_str *text, const ts_watch_row *rows, int n,
                     ts_watch_blame blame) {
  int said = 0;
  ts_guilt most = INNOCENT;
  for (int r = 0; r < n; r++) {
    const ts_guilt g = guilt(&rows[r], rows, n);
    if (g > most) most = g;
  }
  if (blame == TS_WATCH_ANYBODY ||
      (blame == TS_WATCH_STOPPED && most == SILENT))
    TS_DO(name_suspects(text, rows, n, most));
  /* The guilty first. */
  for (int g = SILENT; g >= INNOCENT; g--)
    for (int r = 0; r < n && said < RANKS_MAX; r++) {
      if (guilt(&rows[r], rows, n) != (ts_guilt)g) continue;
      TS_DO(describe(text, &rows[r]));
      said++;
    }
  if (said < n) TS_DO(ts_str_append(text, "\n  and %d more ranks", n - said));
  return TS_OK;
}
