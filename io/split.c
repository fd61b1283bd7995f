/* split.c - which samples of data.train are for validation. */
#include "io/split.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/mem.h"
#include "io/datetime.h"
#include "io/keys.h"
#include "io/subset.h"
#include "runtime/progress.h"
#include "runtime/watchdog.h"

/* Samples whose column is read at a time; bits that a digit of a time has when
 * the one is sought from which on samples are for validation. */
enum { SAMPLES = 65536, DIGIT = 8, BUCKETS = 1 << DIGIT };

static const char column_is[] = "column:";

typedef enum { BY_HASH, BY_TIME, BY_TAIL, BY_COLUMN } ts_split_by;

typedef struct ts_splitting {
  const ts_config *config;
  ts_split_by by;
  ts_keys *keys;    /* of one column; NULL: none is asked for */
  int64_t n;        /* samples */
  int64_t from, to; /* this rank's */
  uint64_t *times;  /* (to - from) in the order of unsigned numbers */
  uint64_t since;
  uint64_t *bits; /* 1: for validation */
} ts_splitting;

void ts_split_forget(ts_config *c) {
  c->data.split.valid = 0;
  *c->data.split.by = '\0';
}

bool ts_split_parts(const ts_config *c, ts_split split) {
  return (split == TS_SPLIT_TRAIN || split == TS_SPLIT_VALID) &&
         ts_split_is_on(c);
}

static const char *column_of(const ts_config *c) {
  const char *by = c->data.split.by;
  return strncmp(by, column_is, strlen(column_is)) ? c->data.split.key
                                                   : by + strlen(column_is);
}

/* ---- times --------------------------------------------------------------- */

bool ts_split_time(const char *cell, size_t n, double *time) {
  char text[64], *end;
  n = strnlen(cell, n);
  if (!n || n >= sizeof text) return false;
  memcpy(text, cell, n);
  text[n] = '\0';
  *time = strtod(text, &end);
  return (!*end && isfinite(*time)) || ts_time_seconds(text, n, time);
}

/* Numbers without a sign, in the order of T. */
static uint64_t ordered(double t) {
  uint64_t x;
  if (t == 0) t = 0; /* -0 */
  memcpy(&x, &t, sizeof x);
  return x >> 63 ? ~x : x | UINT64_C(1) << 63;
}

static ts_err time_of(const ts_splitting *x, int64_t sample, int64_t i) {
  const ts_sheet_column *column = &x->keys->columns[0];
  const char *cell = x->keys->data[0];
  double t = NAN;
  bool good = true;
  if (column->kind == TS_SHEET_TEXT) {
    cell += i * column->width;
    good = ts_split_time(cell, (size_t)column->width, &t);
  } else if (column->kind == TS_SHEET_I64) {
    t = (double)((const int64_t *)x->keys->data[0])[i];
  } else {
    t = ((const double *)x->keys->data[0])[i];
    good = isfinite(t);
  }
  if (good) {
    x->times[sample - x->from] = ordered(t);
    return TS_OK;
  }
  return ts_fail(TS_ERR_DATA,
                 "data.split.key: column \"%s\" of sample %lld (from 0, over "
                 "all files of data.train) has \"%.*s\", neither a number nor "
                 "a date like 2014-10-21 07:30:00",
                 column->name, (long long)sample,
                 column->kind == TS_SHEET_TEXT ? column->width : 3,
                 column->kind == TS_SHEET_TEXT ? cell : "nan");
}

/* The greatest time that as many as WANTED samples have, or a later one: by
 * its digits, the first ones first. */
static ts_err find_since(ts_splitting *x, int64_t wanted, ts_comm *comm) {
  for (int shift = 64 - DIGIT; shift >= 0; shift -= DIGIT) {
    int64_t count[BUCKETS] = {0}, above = 0;
    const uint64_t known =
        shift + DIGIT < 64 ? ~UINT64_C(0) << (shift + DIGIT) : 0;
    for (int64_t i = 0; i < x->to - x->from; i++)
      if ((x->times[i] & known) == x->since)
        count[x->times[i] >> shift & (BUCKETS - 1)]++;
    TS_DO(ts_comm_sum_i64(comm, count, BUCKETS));
    int digit = BUCKETS - 1;
    while (digit > 0 && above + count[digit] < wanted) above += count[digit--];
    wanted -= above;
    x->since |= (uint64_t)digit << shift;
  }
  return TS_OK;
}

/* ---- one sample ---------------------------------------------------------- */

static bool is_marked(const ts_splitting *x, int64_t i) {
  static const char *const none[] = {"0", "false", "train"};
  const ts_sheet_column *column = &x->keys->columns[0];
  const size_t width = (size_t)column->width;
  const void *data = x->keys->data[0];
  if (column->kind == TS_SHEET_I64) return ((const int64_t *)data)[i] != 0;
  if (column->kind != TS_SHEET_TEXT) {
    const double t = ((const double *)data)[i];
    return t == t && t != 0;
  }
  const char *cell = (const char *)data + (size_t)i * width;
  const size_t n = strnlen(cell, width);
  for (size_t k = 0; k < sizeof none / sizeof *none; k++)
    if (strlen(none[k]) == n && !strncasecmp(cell, none[k], n)) return false;
  return n > 0;
}

static bool by_hash(const ts_splitting *x, int64_t sample, int64_t i) {
  uint64_t h = (uint64_t)sample;
  if (x->keys) {
    const ts_sheet_column *column = &x->keys->columns[0];
    const bool text = column->kind == TS_SHEET_TEXT;
    const size_t width = text ? (size_t)column->width : 8;
    const char *cell = (const char *)x->keys->data[0] + (size_t)i * width;
    h = ts_fnv1a(TS_FNV_START, cell, text ? strnlen(cell, width) : width);
  }
  h = ts_mix64(h + ts_mix64((uint64_t)x->config->run.seed + 1));
  return (double)(h >> 11) * 0x1p-53 < x->config->data.split.valid;
}

/* Sample I of those whose column was read last. */
static bool is_valid(const ts_splitting *x, int64_t sample, int64_t i) {
  const int64_t last =
      (int64_t)ceil(x->config->data.split.valid * (double)x->n);
  switch (x->by) {
  case BY_HASH:
    return by_hash(x, sample, i);
  case BY_TIME:
    return x->times[sample - x->from] >= x->since;
  case BY_TAIL:
    return sample >= x->n - last;
  default:
    return is_marked(x, i);
  }
}

/* ---- all of them --------------------------------------------------------- */

/* This rank's samples: their times (TIMES), or the bits of those that are for
 * validation. */
static ts_err each(ts_splitting *x, bool times) {
  ts_work work = ts_work_begin("splitting by", x->config->data.split.by,
                               (double)(x->to - x->from), "samples");
  for (int64_t at = x->from; at < x->to; at += SAMPLES) {
    const int64_t n = x->to - at < SAMPLES ? x->to - at : SAMPLES;
    ts_watch_beat();
    if (x->keys && (times || x->by != BY_TIME))
      TS_DO(ts_keys_asked_by("data.split", ts_keys_read(x->keys, at, n)));
    for (int64_t i = 0; i < n; i++)
      if (times)
        TS_DO(time_of(x, at + i, i));
      else if (is_valid(x, at + i, i))
        ts_bits_set(x->bits, at + i);
    ts_work_at(&work, (double)(at + n - x->from));
  }
  return TS_OK;
}

static ts_err open_column(ts_splitting *x, ts_comm *comm) {
  char *name = (char *)column_of(x->config); /* lives as long as the keys */
  if (!*name) return TS_OK;
  const ts_err err = ts_keys_asked_by(
      "data.split", ts_keys_open(&x->keys, x->config, TS_SPLIT_TRAIN,
                                 &(ts_strings){&name, 1}, comm));
  if (err != TS_OK || x->keys->n_samples == x->n) return err;
  return ts_fail(TS_ERR_DATA,
                 "data.split: column \"%s\" has %lld values, the data %lld "
                 "samples",
                 column_of(x->config), (long long)x->keys->n_samples,
                 (long long)x->n);
}

static ts_err mark(ts_splitting *x, ts_comm *comm) {
  const double valid = x->config->data.split.valid;
  TS_DO(open_column(x, comm));
  if (x->by == BY_TIME) {
    TS_DO(ts_agree(comm, ts_mem_many(x->times, x->to - x->from, INPUT)));
    TS_DO(ts_agree(comm, each(x, true)));
    TS_DO(find_since(x, (int64_t)ceil(valid * (double)x->n), comm));
  }
  TS_DO(ts_agree(comm, each(x, false)));
  return ts_comm_sum_i64(comm, (int64_t *)x->bits, ts_bits_words(x->n));
}

static ts_err check_both(const ts_splitting *x) {
  const int64_t n = ts_bits_count(x->bits, x->n);
  if (n > 0 && n < x->n) return TS_OK;
  return ts_fail(TS_ERR_DATA,
                 "data.split leaves nothing to %s: %s of the %lld samples of "
                 "data.train are for validation by \"%s\"%s%s",
                 n ? "train on" : "validate on", n ? "all" : "none",
                 (long long)x->n, x->config->data.split.by,
                 *x->config->data.split.key ? " of column " : "",
                 x->config->data.split.key);
}

static void set_share(ts_splitting *x, ts_comm *comm) {
  static const char *const names[] = {"hash", "time", "tail"};
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t words = ts_bits_words(x->n);
  x->from = words * me / w * TS_BITS_WORD;
  x->to = words * (me + 1) / w * TS_BITS_WORD;
  if (x->to > x->n) x->to = x->n;
  x->by = BY_COLUMN;
  for (int k = 0; k < BY_COLUMN; k++)
    if (!strcmp(x->config->data.split.by, names[k])) x->by = (ts_split_by)k;
}

ts_err ts_split_take(ts_source **s, ts_split split, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_splitting x = {.config = (*s)->config, .n = (*s)->info.n_samples};
  const int64_t words = ts_bits_words(x.n);
  set_share(&x, comm);
  TS_TRY(ts_agree(comm, ts_mem_many(x.bits, words, INPUT)));
  TS_TRY(mark(&x, comm));
  TS_TRY(check_both(&x));
  for (int64_t i = 0; split == TS_SPLIT_TRAIN && i < words; i++)
    x.bits[i] = ~x.bits[i];
  if (split == TS_SPLIT_TRAIN && x.n % TS_BITS_WORD)
    x.bits[words - 1] &= ~UINT64_C(0) >> (TS_BITS_WORD - x.n % TS_BITS_WORD);
  TS_TRY(ts_agree(comm, ts_subset_take(s, x.bits)));
  x.bits = NULL;
  (*s)->split = split;
done:
  ts_keys_close(x.keys);
  ts_mem_free_all(x.times, x.bits);
  return err;
}
