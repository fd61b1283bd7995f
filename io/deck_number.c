/* deck_number.c - numbers and times of a deck. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/deck_impl.h"

enum { HOURS_MAX = 100000 };

/* A number with k, M or G behind it. */
static bool parse_suffixed(const char *text, double *x) {
  char *end;
  *x = strtod(text, &end);
  if (end == text) return false;
  if (*end == 'k')
    *x *= 1e3, end++;
  else if (*end == 'M')
    *x *= 1e6, end++;
  else if (*end == 'G')
    *x *= 1e9, end++;
  while (isspace((unsigned char)*end)) end++;
  return *end == '\0';
}

static bool number_of(const config_setting_t *s, double *x, int64_t *i) {
  switch (config_setting_type(s)) {
  case CONFIG_TYPE_INT:
    *i = config_setting_get_int(s);
    *x = (double)*i;
    return true;
  case CONFIG_TYPE_INT64:
    *i = config_setting_get_int64(s);
    *x = (double)*i;
    return true;
  case CONFIG_TYPE_FLOAT:
    *x = config_setting_get_float(s);
    break;
  case CONFIG_TYPE_STRING:
    if (!parse_suffixed(config_setting_get_string(s), x)) return false;
    break;
  default:
    return false;
  }
  *i = fabs(*x) < 9e18 ? (int64_t)*x : 0;
  return true;
}

static const char *unit_of(const ts_key *k) {
  return k->unit && *k->unit ? k->unit : "";
}

static bool in_range(ts_deck *d, const ts_key *k, const config_setting_t *s,
                     double x) {
  if (k->min > k->max || (x >= k->min && x <= k->max)) return true;
  if (k->min == k->max) {
    ts_deck_error(d, s, "%s = %g is not in this version; it has: %g", k->path,
                  x, k->min);
    return false;
  }
  ts_deck_error(d, s, "%s = %g is out of range: %g to %g%s%s, default %s",
                k->path, x, k->min, k->max, *unit_of(k) ? " " : "", unit_of(k),
                k->fallback ? k->fallback : "none");
  return false;
}

int64_t ts_deck_integer(ts_deck *d, const ts_key *k,
                        const config_setting_t *s) {
  double x;
  int64_t i;
  if (!number_of(s, &x, &i)) {
    ts_deck_error(d, s, "%s takes an integer", k->path);
    return 0;
  }
  if ((double)i != x) {
    ts_deck_error(d, s, "%s takes an integer, not %g", k->path, x);
    return 0;
  }
  return in_range(d, k, s, x) ? i : 0;
}

double ts_deck_real(ts_deck *d, const ts_key *k, const config_setting_t *s) {
  double x;
  int64_t i;
  if (!number_of(s, &x, &i) || !isfinite(x)) {
    ts_deck_error(d, s, "%s takes a number", k->path);
    return 0;
  }
  return in_range(d, k, s, x) ? x : 0;
}

double ts_deck_duration(ts_deck *d, const ts_key *k,
                        const config_setting_t *s) {
  const char *text = ts_deck_raw(s);
  int h, m, sec, n = 0;
  if (text && !*text) return 0;
  if (!text || sscanf(text, "%d:%d:%d%n", &h, &m, &sec, &n) != 3 || text[n] ||
      h < 0 || h > HOURS_MAX || m < 0 || m > 59 || sec < 0 || sec > 59) {
    ts_deck_error(d, s, "%s takes \"hh:mm:ss\", at most %d hours", k->path,
                  HOURS_MAX);
    return 0;
  }
  return 3600.0 * h + 60.0 * m + sec;
}

/* ---- long integers ------------------------------------------------------- */

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_*"
#define DIGITS "0123456789"

/* The word, number or other byte at P, which is neither comment nor text;
 * *IS_INTEGER: decimal digits alone. */
static size_t token(const char *p, bool *is_integer) {
  const bool begins = strchr(LETTERS DIGITS ".", *p) != NULL;
  const size_t n = begins ? strspn(p, LETTERS DIGITS ".+-") : 1;
  *is_integer = strspn(p, DIGITS) == n;
  return n;
}

bool ts_deck_cuts(const char *text) {
  for (const char *p = text; *p;) {
    bool is_integer = false;
    const char *next = ts_deck_skip_quiet(p);
    if (next == p) next += token(p, &is_integer);
    if (is_integer && strtoll(p, NULL, 10) > INT32_MAX) return true;
    p = next;
  }
  return false;
}

ts_err ts_deck_widen(ts_str *out, const char *text) {
  const bool cuts = ts_deck_cuts(text);
  if (!cuts) return ts_str_append(out, "%s", text);
  for (const char *p = text; *p;) {
    bool is_integer = false;
    const char *next = ts_deck_skip_quiet(p);
    if (next == p) next += token(p, &is_integer);
    TS_DO(ts_str_append_bytes(out, p, (size_t)(next - p)));
    if (is_integer) TS_DO(ts_str_append_bytes(out, "L", 1));
    p = next;
  }
  return TS_OK;
}
