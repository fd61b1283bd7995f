/* sequences.c - events by user, each user's in the order of time. */
#include "io/sequences.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/sequences_impl.h"

/* ---- what is rare is left out -------------------------------------------- */

/* Events of each of N names. */
static ts_err count(int64_t **counts, int32_t n, const int32_t *of,
                    int64_t n_events) {
  TS_DO(ts_mem_many(*counts, n, INPUT));
  for (int64_t i = 0; i < n_events; i++) (*counts)[of[i]]++;
  return TS_OK;
}

/* Leaves out events of users and items that have fewer than LEAST, once; *MORE:
 * there were some. */
static ts_err leave_out(ts_events *x, const ts_sequences *s, int64_t least,
                        bool *more) {
  ts_err err = TS_OK;
  int64_t *users = NULL, *items = NULL, n = 0;
  TS_TRY(count(&users, s->users.names.n, x->user, x->n));
  TS_TRY(count(&items, s->items.names.n, x->item, x->n));
  for (int64_t i = 0; i < x->n; i++) {
    if (users[x->user[i]] < least || items[x->item[i]] < least) continue;
    x->user[n] = x->user[i];
    x->item[n] = x->item[i];
    if (x->time) x->time[n] = x->time[i];
    for (int32_t k = 0; k < s->sides->n; k++) x->side[k][n] = x->side[k][i];
    n++;
  }
  *more = n < x->n;
  x->n = n;
done:
  ts_mem_free_all(users, items);
  return err;
}

/* ---- ids ----------------------------------------------------------------- */

typedef struct ts_named {
  int64_t id;
  int32_t name;
} ts_named;

static int by_id(const void *a, const void *b) {
  const int64_t x = ((const ts_named *)a)->id, y = ((const ts_named *)b)->id;
  return (x > y) - (x < y);
}

/* The names that are in OF become ids in order, and OF's numbers of names
 * places among these. */
static ts_err settle_ids(ts_sequence_ids *ids, int32_t *of, int64_t n_events) {
  ts_err err = TS_OK;
  int32_t *place = NULL, n = 0;
  ts_named *named = NULL;
  ts_numbering_settle(&ids->names);
  TS_TRY(ts_mem_many(place, ids->names.n, INPUT));
  TS_TRY(ts_mem_many(named, ids->names.n, INPUT));
  for (int64_t i = 0; i < n_events; i++) place[of[i]] = 1;
  for (int32_t k = 0; k < ids->names.n; k++) {
    if (!place[k]) continue;
    named[n] = (ts_named){n + 1, k};
    if (!ids->line)
      (void)ts_events_id(ts_numbering_word(&ids->names, k),
                         ts_numbering_bytes(&ids->names, k), &named[n].id);
    n++;
  }
  if (n) qsort(named, (size_t)n, sizeof *named, by_id);
  ids->n = n;
  TS_TRY(ts_mem_many(ids->id, n, INPUT));
  if (ids->line) TS_TRY(ts_mem_many(ids->word, n, INPUT));
  for (int32_t i = 0; i < n; i++) {
    ids->id[i] = named[i].id;
    if (ids->word) ids->word[i] = named[i].name;
    place[named[i].name] = i;
  }
  for (int64_t i = 0; i < n_events; i++) of[i] = place[of[i]];
done:
  ts_mem_free_all(place, named);
  return err;
}

/* ---- by user and time ---------------------------------------------------- */

typedef struct ts_timed {
  uint64_t key;
  uint32_t at;
  int32_t value; /* room for what is put in order */
} ts_timed;

static int by_time(const void *a, const void *b) {
  const ts_timed *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->at < y->at ? -1 : 1; /* a stable sort */
}

/* Puts N values OF events into the order that ROOM has. */
static void reorder(ts_timed *room, int32_t *of, int64_t n) {
  for (int64_t i = 0; i < n; i++) room[i].value = of[room[i].at];
  for (int64_t i = 0; i < n; i++) of[i] = room[i].value;
}

/* N events of one user, from FROM on, in the order of the lines. */
static ts_err sort_user(ts_sequences *s, ts_timed *room, uint64_t *key,
                        int64_t from, int64_t n) {
  bool sorted = true;
  key += from;
  if (n > UINT32_MAX)
    return ts_fail(TS_ERR_DATA, "a user has more than 2^32 events");
  for (int64_t i = 1; sorted && i < n; i++) sorted = key[i - 1] <= key[i];
  if (sorted) return TS_OK;
  for (int64_t i = 0; i < n; i++)
    room[i] = (ts_timed){.key = key[i], .at = (uint32_t)i};
  qsort(room, (size_t)n, sizeof *room, by_time);
  for (int64_t i = 0; i < n; i++) key[i] = room[i].key;
  reorder(room, s->item + from, n);
  for (int32_t k = 0; k < s->sides->n; k++)
    reorder(room, s->side[k].of + from, n);
  return TS_OK;
}

/* With APART a user's first BEFORE events are sorted by themselves, and so are
 * the others. */
static ts_err sort_users(ts_sequences *s, uint64_t *key, bool apart) {
  ts_err err = TS_OK;
  ts_timed *room = NULL;
  int64_t most = 0;
  for (int32_t u = 0; u < s->users.n; u++) {
    const int64_t n = s->offsets[u + 1] - s->offsets[u];
    if (n > most) most = n;
  }
  TS_TRY(ts_mem_many(room, most, INPUT));
  for (int32_t u = 0; u < s->users.n; u++) {
    const int64_t from = s->offsets[u], to = s->offsets[u + 1];
    const int64_t middle = apart ? from + s->before[u] : to;
    TS_TRY(sort_user(s, room, key, from, middle - from));
    TS_TRY(sort_user(s, room, key, middle, to - middle));
  }
done:
  ts_mem_free(room);
  return err;
}

/* A counting sort by user, which keeps the order of the lines; KEY (n_events)
 * goes along, where there are times. */
static ts_err group(ts_sequences *s, const ts_events *x, uint64_t **key) {
  int64_t *next = s->offsets;
  TS_DO(ts_mem_many(s->item, x->n, INPUT));
  if (x->time) TS_DO(ts_mem_many(*key, x->n, INPUT));
  for (int32_t k = 0; k < s->sides->n; k++)
    TS_DO(ts_mem_many(s->side[k].of, x->n, INPUT));
  for (int64_t i = 0; i < x->n; i++)
    if (x->user[i] + 2 <= s->users.n) next[x->user[i] + 2]++;
  for (int32_t u = 2; u <= s->users.n; u++) next[u] += next[u - 1];
  /* Behind this loop next[u + 1] is where user u ends. */
  for (int64_t i = 0; i < x->n; i++) {
    const int64_t to = next[x->user[i] + 1]++;
    s->item[to] = x->item[i];
    if (x->time) (*key)[to] = ts_events_key(x, x->time[i]);
    for (int32_t k = 0; k < s->sides->n; k++) s->side[k].of[to] = x->side[k][i];
  }
  return TS_OK;
}

static ts_err count_before(ts_sequences *s, const uint64_t *key,
                           uint64_t split) {
  TS_DO(ts_mem_many(s->before, s->users.n, INPUT));
  for (int32_t u = 0; u < s->users.n; u++)
    for (int64_t i = s->offsets[u]; i < s->offsets[u + 1]; i++)
      s->before[u] += key[i] < split;
  return TS_OK;
}

/* The time at which parts are split, among those of X. */
static ts_err split_of(ts_events *x, const ts_sequences_of *of,
                       uint64_t *time) {
  if (!of->split_at) return TS_OK;
  if (!x->time)
    return ts_fail(TS_ERR_DATA, "%s: has no times for --split-at", of->path);
  if (!ts_events_time(x, of->split_at, strlen(of->split_at), time))
    return ts_fail(TS_ERR_USAGE, "--split-at %s is no number", of->split_at);
  if (of->times && x->fractions)
    return ts_fail(
        TS_ERR_USAGE,
        "--split-at %s is no whole number: times are ids with --times",
        of->split_at);
  return TS_OK;
}

/* The times that KEY has, in its place. */
static void keep_times(ts_sequences *s, uint64_t **key) {
  s->time = (int64_t *)*key;
  for (int64_t i = 0; i < s->n_events; i++)
    s->time[i] = (int64_t)((*key)[i] ^ UINT64_C(1) << 63);
  *key = NULL;
}

/* Appends the second log's events to the N of the first. */
static ts_err read_test(ts_events *x, ts_sequences *s,
                        const ts_sequences_of *of, int64_t *n) {
  ts_sequences_of test = *of;
  *n = x->n;
  test.path = of->test;
  return of->test ? ts_events_read(x, s, &test) : TS_OK;
}

/* BEFORE counts each user's events among the first N_TRAIN, which are those of
 * the first log. */
static ts_err count_train(ts_sequences *s, const ts_events *x,
                          int64_t n_train) {
  TS_DO(ts_mem_many(s->before, s->users.n, INPUT));
  for (int64_t i = 0; i < n_train; i++) s->before[x->user[i]]++;
  return TS_OK;
}

ts_err ts_sequences_read(ts_sequences *s, const ts_sequences_of *of) {
  ts_err err = TS_OK;
  ts_events x = {0};
  uint64_t *key = NULL, split = 0;
  int64_t n_train;
  bool more = of->min_count > 1;
  s->sides = of->sides;
  TS_TRY(ts_events_read(&x, s, of));
  if (of->times && !x.time)
    TS_THROW(TS_ERR_DATA,
             "%s: has no times for --times: --columns USER,ITEM,TIME says "
             "where they are",
             of->path);
  TS_TRY(read_test(&x, s, of, &n_train));
  TS_TRY(split_of(&x, of, &split));
  while (more) TS_TRY(leave_out(&x, s, of->min_count, &more));
  if (!x.n)
    TS_THROW(
        TS_ERR_DATA,
        "%s: --min-count %lld leaves no events: there are no users and items "
        "with so many of each other",
        of->path, (long long)of->min_count);
  TS_TRY(settle_ids(&s->users, x.user, x.n));
  TS_TRY(settle_ids(&s->items, x.item, x.n));
  for (int32_t k = 0; k < of->sides->n; k++)
    TS_TRY(settle_ids(&s->side[k].ids, x.side[k], x.n));
  s->n_events = x.n;
  TS_TRY(ts_mem_many(s->offsets, s->users.n + 1, INPUT));
  if (of->test) TS_TRY(count_train(s, &x, n_train));
  TS_TRY(group(s, &x, &key));
  split = ts_events_key(&x, split);
  ts_events_reset(&x);
  if (of->split_at) TS_TRY(count_before(s, key, split));
  if (key) TS_TRY(sort_users(s, key, of->test != NULL));
  if (of->times) keep_times(s, &key);
done:
  ts_events_reset(&x);
  ts_mem_free(key);
  return err;
}

static void reset_ids(ts_sequence_ids *ids) {
  ts_mem_free_all(ids->id, ids->word);
  ts_numbering_reset(&ids->names);
}

void ts_sequences_reset(ts_sequences *s) {
  reset_ids(&s->users);
  reset_ids(&s->items);
  for (int32_t k = 0; k < TS_SIDES; k++) {
    reset_ids(&s->side[k].ids);
    ts_mem_free(s->side[k].of);
  }
  ts_mem_free_all(s->offsets, s->item, s->before, s->time);
  *s = (ts_sequences){0};
}
