/* datetime.c - dates and times as columns have them. */
#include "io/datetime.h"

#include <string.h>

ts_time_part ts_time_part_of(const char *word) {
  static const char *const words[] = {"",        "year", "month", "day",
                                      "weekday", "hour", "minute"};
  for (int i = 1; i < (int)(sizeof words / sizeof *words); i++)
    if (!strcmp(word, words[i])) return (ts_time_part)i;
  return TS_TIME_NONE;
}

int64_t ts_time_rows(ts_time_part part) {
  static const int64_t rows[] = {0, 0, 13, 32, 7, 24, 60};
  return rows[part];
}

/* -1: it is not said. */
typedef struct ts_moment {
  int64_t year, month, day, hour, minute;
  int64_t east; /* minutes that its time zone is ahead of UTC */
  double second;
} ts_moment;

/* Days since 1970 of a date of the Gregorian calendar, whose years begin in
 * March here, so that February's end is the year's. */
static int64_t days_of(const ts_moment *m) {
  const int64_t year = m->year - (m->month <= 2), era = year / 400;
  const int64_t of_era = year - era * 400;
  const int64_t month = m->month > 2 ? m->month - 3 : m->month + 9;
  const int64_t of_year = (153 * month + 2) / 5 + m->day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year -
         719468;
}

static ts_moment of_seconds(int64_t seconds) {
  const int64_t day = seconds / 86400, second = seconds % 86400;
  ts_moment m = {.year = 1970 + day / 366,
                 .month = 1,
                 .day = 1,
                 .hour = second / 3600,
                 .minute = second / 60 % 60};
  for (ts_moment next = m; next.year++, days_of(&next) <= day;) m.year++;
  for (ts_moment next = m; m.month < 12; m.month++)
    if (next.month++, days_of(&next) > day) break;
  m.day = day - days_of(&m) + 1;
  return m;
}

static bool is_valid(const ts_moment *m) {
  ts_moment next = *m;
  next.day = 1;
  next.month = m->month % 12 + 1;
  next.year += m->month == 12;
  return m->month >= 1 && m->month <= 12 && m->day >= 1 &&
         days_of(m) < days_of(&next) && m->hour < 24 && m->minute < 60;
}

/* N digits at *P, which moves behind them; -1: there are not so many. */
static int64_t digits(const char **p, const char *end, int n) {
  int64_t x = 0;
  if (end - *p < n) return -1;
  for (int i = 0; i < n; i++) {
    const int digit = (*p)[i] - '0';
    if (digit < 0 || digit > 9) return -1;
    x = 10 * x + digit;
  }
  *p += n;
  return x;
}

/* :59, :59.25 at *P, if it is there. */
static bool read_second(ts_moment *m, const char **p, const char *end) {
  double unit = 1;
  if (end - *p < 3 || **p != ':') return true;
  ++*p;
  const int64_t second = digits(p, end, 2);
  m->second = (double)second;
  if (second < 0 || second > 60) return false; /* 60: a leap second */
  if (*p < end && **p == '.')
    for (++*p; *p < end && **p >= '0' && **p <= '9'; ++*p)
      m->second += (unit /= 10) * (**p - '0');
  return true;
}

/* What may stand behind the minute: seconds, and where they are. */
static bool read_tail(ts_moment *m, const char *p, const char *end) {
  if (!read_second(m, &p, end)) return false;
  if (p < end && *p == ' ') p++;
  if (end - p == 1 && *p == 'Z') return true;
  if (end - p == 3 && !memcmp(p, "UTC", 3)) return true;
  if (p < end && (*p == '+' || *p == '-')) {
    const int sign = *p++ == '-' ? -1 : 1;
    const int64_t hours = digits(&p, end, 2);
    if (p < end && *p == ':') p++;
    const int64_t minutes = p < end ? digits(&p, end, 2) : 0;
    if (hours < 0 || minutes < 0) return false;
    m->east = sign * (60 * hours + minutes);
  }
  return p == end;
}

/* 2014-10-21, and a time behind it or not. */
static bool read_date(ts_moment *m, const char *p, const char *end) {
  *m = (ts_moment){.hour = -1, .minute = -1};
  m->year = digits(&p, end, 4);
  if (m->year < 1 || p == end || (*p != '-' && *p != '/')) return false;
  const char sign = *p++;
  m->month = digits(&p, end, 2);
  if (p == end || *p++ != sign) return false;
  m->day = digits(&p, end, 2);
  if (p == end) return is_valid(m);
  if (*p != 'T' && *p != ' ') return false;
  p++;
  m->hour = digits(&p, end, 2);
  if (m->hour < 0 || p == end || *p++ != ':') return false;
  m->minute = digits(&p, end, 2);
  return m->minute >= 0 && read_tail(m, p, end) && is_valid(m);
}

/* Numbers, by how many digits they have. */
static bool read_number(ts_moment *m, const char *p, const char *end) {
  const char *point = memchr(p, '.', (size_t)(end - p)), *q = p;
  const char *stop = point ? point : end;
  const int n = stop - p > 18 ? 19 : (int)(stop - p);
  for (const char *rest = stop + 1; point && rest < end; rest++)
    if (*rest < '0' || *rest > '9') return false;
  if (n == 8 && !point) {
    *m = (ts_moment){.minute = -1};
    m->year = 2000 + digits(&q, end, 2);
    m->month = digits(&q, end, 2);
    m->day = digits(&q, end, 2);
    m->hour = digits(&q, end, 2);
    return q == end && m->hour >= 0 && is_valid(m);
  }
  if (n != 9 && n != 10 && n != 12 && n != 13) return false;
  const int64_t x = digits(&q, end, n);
  *m = of_seconds(n < 12 ? x : x / 1000);
  return x >= 0;
}

int64_t ts_time_read(const char *text, size_t n_bytes, ts_time_part part) {
  ts_moment m;
  const char *end = text + n_bytes;
  if (!read_date(&m, text, end) && !read_number(&m, text, end)) return -1;
  switch (part) {
  case TS_TIME_YEAR:
    return m.year;
  case TS_TIME_MONTH:
    return m.month;
  case TS_TIME_DAY:
    return m.day;
  case TS_TIME_WEEKDAY: /* 1970 began on a Thursday; 1 was long before */
    return (days_of(&m) + 3 + 7 * 200000) % 7;
  case TS_TIME_HOUR:
    return m.hour;
  case TS_TIME_MINUTE:
    return m.minute;
  case TS_TIME_NONE:
    break;
  }
  return -1;
}

bool ts_time_seconds(const char *text, size_t n_bytes, double *seconds) {
  ts_moment m;
  if (!read_date(&m, text, text + n_bytes)) return false;
  const int64_t hour = m.hour < 0 ? 0 : m.hour;
  const int64_t minute = m.minute < 0 ? 0 : m.minute;
  *seconds =
      (double)(days_of(&m) * 86400 + hour * 3600 + (minute - m.east) * 60) +
      m.second;
  return true;
}
