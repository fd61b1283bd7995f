/* sequences_side.c - what stands beside the items: names of side columns, and
 * the features that these and the times become. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/sequences_part.h"

/* ---- names --------------------------------------------------------------- */

/* Names of other features, and of other files of words. */
static const char *const taken[] = {"user", "item",  "next",  "seen",
                                    "time", "label", "users", "items"};

static ts_err check_name(const ts_sides *x, int32_t k) {
  const char *name = x->feature[k];
  /* It is part of a file's name, and of a path in it. */
  if (strchr(name, '/') || !strcmp(name, ".") ||
      strlen(x->column[k]) >= TS_SIDE_NAME)
    return ts_fail(TS_ERR_USAGE,
                   "--side: a name has less than %d letters and no /, not "
                   "\"%s\": give the column's number",
                   TS_SIDE_NAME, x->column[k]);
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
    if (!strcmp(name, taken[i]))
      return ts_fail(TS_ERR_USAGE,
                     "--side: a feature can't be called %s: give the column's "
                     "number",
                     name);
  for (int32_t i = 0; i < k; i++)
    if (!strcmp(name, x->feature[i]))
      return ts_fail(TS_ERR_USAGE, "--side has %s twice", name);
  return TS_OK;
}

ts_err ts_sides_take(ts_sides *x, char *const *columns, int32_t n) {
  if (n > TS_SIDES)
    return ts_fail(TS_ERR_USAGE, "--side has %d columns, %d are the most", n,
                   TS_SIDES);
  for (x->n = 0; x->n < n; x->n++) {
    const char *name = x->column[x->n] = columns[x->n];
    char *end;
    const long number = strtol(name, &end, 10);
    if (end != name && !*end)
      snprintf(x->feature[x->n], TS_SIDE_NAME, "side%ld", number);
    else
      snprintf(x->feature[x->n], TS_SIDE_NAME, "%s", name);
    TS_DO(check_name(x, x->n));
  }
  return TS_OK;
}

/* ---- arrays in a file ---------------------------------------------------- */

static ts_err flush(ts_streams *s, ts_stream *x) {
  TS_DO(ts_pwrite(s->fd, x->room, x->n * 8, x->at, s->path, TS_ERR_IO));
  x->at += x->n * 8;
  x->n = 0;
  return TS_OK;
}

ts_err ts_streams_put(ts_streams *s, int which, int64_t value) {
  ts_stream *x = &s->of[which];
  x->room[x->n++] = value;
  return x->n == sizeof x->room / 8 ? flush(s, x) : TS_OK;
}

ts_err ts_streams_flush(ts_streams *s) {
  for (int32_t k = 0; k < s->n; k++) TS_DO(flush(s, &s->of[k]));
  return TS_OK;
}

/* ---- features ------------------------------------------------------------ */

int32_t ts_beside_features(const ts_sequences *s) {
  return s->sides->n + (s->time != NULL);
}

/* Feature K is the times, which come after all side columns. */
static bool is_time(const ts_beside *b, int32_t k) {
  return k == b->s->sides->n;
}

static int64_t id_of(const ts_beside *b, int32_t k, int64_t event) {
  if (is_time(b, k)) return b->s->time[event];
  const ts_sequence_side *side = &b->s->side[k];
  return side->ids.id[side->of[event]];
}

ts_beside ts_beside_of(const ts_sequences *s, int stream) {
  ts_beside b = {.s = s, .stream = stream};
  for (int32_t k = 0; k < ts_beside_features(s); k++)
    b.bags[k] = (ts_dataset_bags){.max_id = -1, .offsets = true};
  return b;
}

static void count_id(ts_dataset_bags *bags, int64_t id) {
  bags->n_ids++;
  if (id > bags->max_id) bags->max_id = id;
}

void ts_beside_count(ts_beside *b, int64_t first, int64_t end, int64_t asked) {
  for (int32_t k = 0; k < ts_beside_features(b->s); k++) {
    for (int64_t e = first; e < end; e++) count_id(&b->bags[k], id_of(b, k, e));
    if (is_time(b, k)) count_id(&b->bags[k], id_of(b, k, asked));
  }
}

ts_err ts_beside_make(ts_beside *b, hid_t file, int64_t n_samples,
                      ts_streams *streams) {
  for (int32_t k = 0; k < ts_beside_features(b->s); k++) {
    const int to = b->stream + 2 * k;
    const char *name = is_time(b, k) ? "time" : b->s->sides->feature[k];
    TS_DO(ts_dataset_make_feature(file, name, n_samples, &b->bags[k]));
    streams->of[to].at = b->bags[k].at.values;
    streams->of[to + 1].at = b->bags[k].at.offsets;
    TS_DO(ts_streams_put(streams, to + 1, 0));
  }
  return TS_OK;
}

ts_err ts_beside_put(ts_beside *b, ts_streams *streams, int64_t first,
                     int64_t end, int64_t asked) {
  for (int32_t k = 0; k < ts_beside_features(b->s); k++) {
    const int to = b->stream + 2 * k;
    for (int64_t e = first; e < end; e++)
      TS_DO(ts_streams_put(streams, to, id_of(b, k, e)));
    if (is_time(b, k)) TS_DO(ts_streams_put(streams, to, id_of(b, k, asked)));
    b->n_put[k] += end - first + is_time(b, k);
    TS_DO(ts_streams_put(streams, to + 1, b->n_put[k]));
  }
  return TS_OK;
}
