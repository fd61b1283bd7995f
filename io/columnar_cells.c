/* columnar_cells.c - cells of columns as Arrow has them. */
#include "io/columnar_cells.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* ---- schemas ------------------------------------------------------------- */

/* Formats of one letter. */
static bool plain_kind(ts_cells *c, char letter) {
  static const char whole[] = "cCsSiIlL", floats[] = "efg";
  static const int32_t float_bytes[] = {2, 4, 8};
  const char *at = strchr(whole, letter);
  if (at) {
    c->kind = TS_CELLS_WHOLE;
    c->width = 1 << (at - whole) / 2;
    c->is_signed = (at - whole) % 2 == 0;
    return true;
  }
  at = strchr(floats, letter);
  if (at) {
    c->kind = TS_CELLS_FLOAT;
    c->width = float_bytes[at - floats];
    return true;
  }
  if (letter == 'n') return true; /* NONE */
  if (letter == 'b') c->kind = TS_CELLS_BOOL;
  if (strchr("uz", letter)) c->kind = TS_CELLS_TEXT, c->width = 4;
  if (strchr("UZ", letter)) c->kind = TS_CELLS_TEXT, c->width = 8;
  return c->kind != TS_CELLS_NONE;
}

/* tdD, tdm: days, milliseconds of days; ts, tt: stamps, times of a day. */
static bool time_kind(ts_cells *c, const char *format) {
  static const char units[] = "smun";
  c->kind = TS_CELLS_TIME;
  c->is_signed = true;
  c->width = 8;
  if (!strcmp(format, "tdD")) {
    c->width = 4;
    return c->is_date = true;
  }
  c->is_date = !strcmp(format, "tdm");
  if (strncmp(format, "ts", 2) != 0 && !c->is_date) return false;
  const char *unit = strchr(units, format[2]);
  if (!unit || !*unit) return false;
  for (c->per_second = 1; unit > units; unit--) c->per_second *= 1000;
  return true;
}

/* "d:19,10", or with the bits behind. */
static bool decimal_kind(ts_cells *c, const char *format) {
  int precision, scale, bits = 128;
  if (sscanf(format, "d:%d,%d,%d", &precision, &scale, &bits) < 2) return false;
  c->kind = TS_CELLS_DECIMAL;
  c->scale = scale;
  c->width = bits / 8;
  c->is_signed = true;
  return bits <= 128 && precision <= 38 && scale >= 0 && scale <= 38;
}

static bool list_kind(ts_cells *c, const char *format) {
  c->kind = TS_CELLS_LIST;
  c->width = format[1] == 'L' ? 8 : format[1] == 'w' ? 0 : 4;
  if (format[1] == 'w') c->scale = atoi(format + 3);
  return strchr("lLmw", format[1]) != NULL;
}

/* The items of a list: one thing each, or pairs of one and its weight. */
static ts_err list_items(ts_cells *c, const struct ArrowSchema *of,
                         const char **why) {
  const struct ArrowSchema *item = of->n_children ? of->children[0] : NULL;
  const bool pairs = item && !strcmp(item->format, "+s");
  if (!item || (pairs && item->n_children != 2)) {
    *why = "has structs that are no pairs of an id and a weight";
    return TS_OK;
  }
  TS_DO(ts_cells_create(&c->items, pairs ? item->children[0] : item, why));
  if (pairs && !*why)
    TS_DO(ts_cells_create(&c->weights, item->children[1], why));
  if (!*why && (c->items->kind == TS_CELLS_LIST ||
                (c->weights && c->weights->kind == TS_CELLS_LIST)))
    *why = "has lists in its lists";
  return TS_OK;
}

ts_err ts_cells_create(ts_cells **out, const struct ArrowSchema *schema,
                       const char **why) {
  ts_cells *c = NULL;
  const char *format = schema->format;
  bool known = false;
  TS_DO(ts_mem_alloc(&c, sizeof *c, TS_TAG_INPUT));
  *out = c;
  if (!format[1])
    known = plain_kind(c, *format);
  else if (*format == 't')
    known = time_kind(c, format);
  else if (*format == 'd')
    known = decimal_kind(c, format);
  else if (*format == 'w')
    c->kind = TS_CELLS_FIXED, c->width = atoi(format + 2), known = true;
  else if (*format == '+')
    known = list_kind(c, format);
  if (schema->dictionary) {
    known &= c->kind == TS_CELLS_WHOLE;
    c->kind = TS_CELLS_WORDS;
    if (known) TS_DO(ts_cells_create(&c->items, schema->dictionary, why));
    if (c->items && c->items->kind >= TS_CELLS_LIST) known = false;
  }
  if (!known && !*why)
    *why = "is of a type that is neither number, text, time "
           "nor a list of them";
  if (known && c->kind == TS_CELLS_LIST) return list_items(c, schema, why);
  return TS_OK;
}

void ts_cells_destroy(ts_cells *c) {
  if (!c) return;
  ts_cells_destroy(c->items);
  ts_cells_destroy(c->weights);
  ts_mem_free(c);
}

/* ---- rows ---------------------------------------------------------------- */

static const uint8_t *valid_of(const struct ArrowArray *a) {
  return a->n_buffers && a->null_count ? a->buffers[0] : NULL;
}

/* Pairs are in a struct, whose places are added to those of what it has. */
static void set_items(ts_cells *c, const struct ArrowArray *a) {
  const struct ArrowArray *item = a->children[0];
  c->pair_valid = c->weights ? valid_of(item) : NULL;
  c->pair_offset = item->offset;
  if (!c->weights) {
    ts_cells_set(c->items, item);
    return;
  }
  ts_cells_set(c->items, item->children[0]);
  ts_cells_set(c->weights, item->children[1]);
  c->items->offset += item->offset;
  c->weights->offset += item->offset;
}

void ts_cells_set(ts_cells *c, const struct ArrowArray *a) {
  c->n = a->length;
  c->offset = a->offset;
  c->valid = c->kind == TS_CELLS_NONE ? NULL : valid_of(a);
  c->data = c->offsets = NULL;
  if (c->kind == TS_CELLS_TEXT || (c->kind == TS_CELLS_LIST && c->width))
    c->offsets = a->buffers[1];
  if (c->kind == TS_CELLS_TEXT)
    c->data = a->buffers[2];
  else if (c->kind != TS_CELLS_NONE && c->kind != TS_CELLS_LIST)
    c->data = a->buffers[1];
  if (c->kind == TS_CELLS_LIST) set_items(c, a);
  if (c->kind == TS_CELLS_WORDS) ts_cells_set(c->items, a->dictionary);
}

/* The T at place AT, which a file of Arrow's own may have at any address. */
#define READ(T, p, at)                                                         \
  ({                                                                           \
    T v_;                                                                      \
    memcpy(&v_, (const char *)(p) + (at) * (int64_t)sizeof(T), sizeof v_);     \
    v_;                                                                        \
  })

static int64_t whole_at(const ts_cells *c, int64_t at) {
  const void *p = c->data;
  switch (c->width * 2 + c->is_signed) {
  case 3:
    return ((const int8_t *)p)[at];
  case 2:
    return ((const uint8_t *)p)[at];
  case 5:
    return READ(int16_t, p, at);
  case 4:
    return READ(uint16_t, p, at);
  case 9:
    return READ(int32_t, p, at);
  case 8:
    return (int64_t)READ(uint32_t, p, at);
  default:
    return READ(int64_t, p, at);
  }
}

static double half(uint16_t h) {
  const int e = h >> 10 & 31, m = h & 1023;
  const double x = e == 31 ? (m ? NAN : INFINITY)
                   : e     ? ldexp(1024 + m, e - 25)
                           : ldexp(m, -24);
  return h >> 15 ? -x : x;
}

static double float_at(const ts_cells *c, int64_t at) {
  if (c->width == 2) return half(READ(uint16_t, c->data, at));
  if (c->width == 4) return (double)READ(float, c->data, at);
  return READ(double, c->data, at);
}

int64_t ts_cells_word(const ts_cells *c, int64_t i) {
  if (ts_cells_is_missing(c, i)) return -1;
  const int64_t word = whole_at(c, c->offset + i);
  return word < c->items->n ? word : -1;
}

const ts_cells *ts_cells_of(const ts_cells *c, int64_t *i) {
  while (c->kind == TS_CELLS_WORDS) {
    *i = ts_cells_word(c, *i);
    c = c->items;
    if (*i < 0) return NULL;
  }
  if (ts_cells_is_missing(c, *i)) return NULL;
  if (c->kind == TS_CELLS_FLOAT && isnan(float_at(c, c->offset + *i)))
    return NULL;
  return c;
}

bool ts_cells_is_text(const ts_cells *c) {
  while (c->kind == TS_CELLS_WORDS) c = c->items;
  return c->kind == TS_CELLS_TEXT || c->kind == TS_CELLS_FIXED;
}

static int64_t offset_at(const ts_cells *c, int64_t at) {
  return c->width == 8 ? READ(int64_t, c->offsets, at)
                       : READ(int32_t, c->offsets, at);
}

void ts_cells_items(const ts_cells *c, int64_t i, int64_t *from, int64_t *end) {
  const int64_t at = c->offset + i;
  *from = c->width ? offset_at(c, at) : at * c->scale;
  *end = c->width ? offset_at(c, at + 1) : (at + 1) * c->scale;
}

/* ---- numbers ------------------------------------------------------------- */

static __int128 decimal_at(const ts_cells *c, int64_t at) {
  __int128 x;
  if (c->width < 16) return whole_at(c, at);
  memcpy(&x, (const char *)c->data + at * 16, sizeof x);
  return x;
}

/* A time's whole seconds, and what is left in its own units. */
static int64_t seconds_at(const ts_cells *c, int64_t at, int64_t *left) {
  const int64_t x = whole_at(c, at), per = c->per_second;
  *left = 0;
  if (!per) return x * 86400;
  *left = x % per + (x % per < 0 ? per : 0);
  return x / per - (x % per < 0);
}

static double decimal_number(const ts_cells *c, int64_t i) {
  char text[TS_CELLS_TEXT_MAX];
  size_t n;
  return strtod(ts_cells_text(c, i, &n, text), NULL);
}

bool ts_cells_number(const ts_cells *c, int64_t i, double *x) {
  const int64_t at = c->offset + i;
  int64_t left;
  switch (c->kind) {
  case TS_CELLS_BOOL:
    *x = ((const uint8_t *)c->data)[at / 8] >> (at % 8) & 1;
    return true;
  case TS_CELLS_WHOLE:
    *x = (double)whole_at(c, at);
    if (c->width == 8 && !c->is_signed) *x = (double)(uint64_t)whole_at(c, at);
    return true;
  case TS_CELLS_FLOAT:
    *x = float_at(c, at);
    return true;
  case TS_CELLS_DECIMAL:
    *x = decimal_number(c, i);
    return true;
  case TS_CELLS_TIME:
    *x = (double)seconds_at(c, at, &left);
    if (left) *x += (double)left / (double)c->per_second;
    return true;
  default:
    return false;
  }
}

bool ts_cells_whole(const ts_cells *c, int64_t i, int64_t *x) {
  const int64_t at = c->offset + i;
  int64_t left;
  double y;
  switch (c->kind) {
  case TS_CELLS_WHOLE:
    *x = whole_at(c, at);
    return c->width < 8 || c->is_signed || *x >= 0;
  case TS_CELLS_TIME:
    *x = seconds_at(c, at, &left);
    return true;
  default:
    if (!ts_cells_number(c, i, &y) || y != floor(y) || fabs(y) > 9e15)
      return false;
    *x = (int64_t)y;
    return true;
  }
}

/* ---- text ---------------------------------------------------------------- */

/* Digits of X, the last SCALE of them behind the point. */
static int print_decimal(char *to, __int128 x, int scale) {
  char digits[48];
  int n = 0, at = 0;
  unsigned __int128 u = (unsigned __int128)x;
  if (x < 0) u = -u;
  for (; u >> 64; u /= 10) digits[n++] = (char)('0' + (int)(u % 10));
  for (uint64_t low = (uint64_t)u; low || n <= scale; low /= 10)
    digits[n++] = (char)('0' + (int)(low % 10));
  if (x < 0) to[at++] = '-';
  while (n > 0) {
    if (n == scale) to[at++] = '.';
    to[at++] = digits[--n];
  }
  to[at] = '\0';
  return at;
}

/* As an integer; else the shortest that is read as the same number. */
static int print_float(char *to, double x, int digits, bool is_float) {
  int n = 0;
  if (fabs(x) < 0x1p53 && x == floor(x))
    return print_decimal(to, (int64_t)x, 0);
  for (const int most = is_float ? 9 : 17; digits <= most; digits++) {
    n = snprintf(to, TS_CELLS_TEXT_MAX, "%.*g", digits, x);
    const double y = strtod(to, NULL);
    if (is_float ? (float)y == (float)x : y == x) break;
  }
  return n;
}

/* 2014-10-21 of days, 2014-10-21 13:05:59 of stamps, or 13:05:59.25. */
static int print_time(char *to, const ts_cells *c, int64_t at) {
  int64_t left;
  const int64_t s = seconds_at(c, at, &left);
  const int64_t days = s / 86400 - (s % 86400 < 0);
  const int second = (int)(s - days * 86400);
  /* Days since 0000-03-01, in eras of 400 years (proleptic Gregorian). */
  const int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
  const int64_t doe = z - era * 146097;
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int64_t mp = (5 * doy + 2) / 153, month = mp < 10 ? mp + 3 : mp - 9;
  const long long year = (long long)(yoe + era * 400 + (month <= 2));
  const int day = (int)(doy - (153 * mp + 2) / 5 + 1);
  int n = snprintf(to, TS_CELLS_TEXT_MAX, "%04lld-%02d-%02d", year, (int)month,
                   day);
  if (c->is_date) return n;
  n += snprintf(to + n, TS_CELLS_TEXT_MAX - (size_t)n, " %02d:%02d:%02d",
                second / 3600, second / 60 % 60, second % 60);
  if (!left) return n;
  const int64_t billionths = left * (1000000000 / c->per_second);
  n +=
      snprintf(to + n, TS_CELLS_TEXT_MAX - (size_t)n, ".%09d", (int)billionths);
  while (to[n - 1] == '0') to[--n] = '\0';
  return n;
}

const char *ts_cells_text(const ts_cells *c, int64_t i, size_t *n_bytes,
                          char room[TS_CELLS_TEXT_MAX]) {
  const int64_t at = c->offset + i;
  double x = 0;
  int n;
  switch (c->kind) {
  case TS_CELLS_TEXT:
    *n_bytes = (size_t)(offset_at(c, at + 1) - offset_at(c, at));
    return *n_bytes ? (const char *)c->data + offset_at(c, at) : "";
  case TS_CELLS_FIXED:
    *n_bytes = (size_t)c->width;
    return (const char *)c->data + at * c->width;
  case TS_CELLS_WHOLE: {
    const int64_t v = whole_at(c, at);
    n = print_decimal(room, c->is_signed ? v : (__int128)(uint64_t)v, 0);
    break;
  }
  case TS_CELLS_DECIMAL:
    n = print_decimal(room, decimal_at(c, at), c->scale);
    break;
  case TS_CELLS_TIME:
    n = print_time(room, c, at);
    break;
  default:
    (void)ts_cells_number(c, i, &x);
    n = print_float(room, x, c->kind == TS_CELLS_FLOAT && c->width < 8 ? 6 : 15,
                    c->width < 8);
  }
  *n_bytes = (size_t)n;
  return room;
}
