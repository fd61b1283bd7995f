/* sequences_write.c - sequences as data sets. */
#include "io/sequences_write.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/csv_fields.h"
#include "io/sequences_part.h"
#include "runtime/progress.h"

/* ---- samples ------------------------------------------------------------- */

/* Events of a user: [item, item_end) and [next, next_end); the model is asked
 * at the time of ASKED. */
typedef struct ts_user_sample {
  int64_t item, item_end, next, next_end, asked;
} ts_user_sample;

/* Of N events of user U: train has [0, *train), test's targets are [*test, N),
 * and valid's what is between. */
static void divide(const ts_sequences *s, const ts_sequences_form *f, int32_t u,
                   int64_t n, int64_t *train, int64_t *test) {
  const bool left = f->leave > 0 && n > f->leave;
  *train = left ? n - f->leave : n;
  *test = left ? *train + (f->leave > 1) : n;
  if (s->before) *train = *test = s->before[u];
  if (f->targets == TS_TARGETS_USERS) *train = *test = 0;
}

/* The K-th sample of user U in PART; false: there are not so many. */
static bool sample_of(const ts_sequences *s, const ts_sequences_form *f,
                      int part, int32_t u, int64_t k, ts_user_sample *x) {
  const bool shift = f->targets == TS_TARGETS_SHIFT;
  const bool masked = f->targets == TS_TARGETS_MASKED;
  const int64_t n = s->offsets[u + 1] - s->offsets[u];
  int64_t train, test;
  divide(s, f, u, n, &train, &test);
  if (part != TS_PART_TRAIN) {
    const int64_t at = part == TS_PART_VALID ? train : test;
    *x = (ts_user_sample){0, at, at, part == TS_PART_VALID ? test : n, at};
    if (k || x->next == x->next_end) return false;
    if ((shift || masked) && !at) return false;
  } else if (masked) {
    *x = (ts_user_sample){0, train, train, train, train - 1};
    if (k || train < 1) return false;
  } else if (shift) {
    *x = (ts_user_sample){0, train - 1, 1, train, train - 1};
    if (k || train < 2) return false;
  } else {
    *x = (ts_user_sample){0, 0, k, k + 1, k};
    return k < train;
  }
  if (f->max_length && x->item_end > f->max_length) {
    x->item = x->item_end - f->max_length;
    if (part == TS_PART_TRAIN && shift) x->next = x->item + 1;
  }
  return true;
}

/* ---- ids that a user never had ------------------------------------------- */

typedef struct ts_strangers {
  const ts_sequences *s;
  const ts_sequences_form *form;
  int32_t *seen;  /* (items.n) u + 1: user u had it, or it is drawn already */
  int32_t *drawn; /* (negatives) */
} ts_strangers;

static ts_err refuse_user(const ts_strangers *x, int32_t u, int64_t left) {
  char user[64];
  const ts_sequence_ids *ids = &x->s->users;
  if (ids->word)
    snprintf(user, sizeof user, "\"%.40s\"",
             ts_numbering_word(&ids->names, ids->word[u]));
  else
    snprintf(user, sizeof user, "%lld", (long long)ids->id[u]);
  return ts_fail(TS_ERR_DATA,
                 "user %s had all items but %lld: --negatives %lld takes more",
                 user, (long long)left, (long long)x->form->negatives);
}

/* Marks what user U had. */
static ts_err meet(ts_strangers *x, int32_t u) {
  const ts_sequences *s = x->s;
  int64_t left = s->items.n;
  if (!x->form->negatives) return TS_OK;
  for (int64_t i = s->offsets[u]; i < s->offsets[u + 1]; i++) {
    left -= x->seen[s->item[i]] != u + 1;
    x->seen[s->item[i]] = u + 1;
  }
  return left < x->form->negatives ? refuse_user(x, u, left) : TS_OK;
}

/* DRAWN for TARGET of user U, whom meet has marked. */
static void draw(ts_strangers *x, int32_t u, uint32_t target) {
  const int64_t wanted = x->form->negatives;
  uint32_t words[4] = {0};
  int64_t n = 0;
  for (uint64_t i = 0; n < wanted; i++) {
    const uint32_t *w = &words[i % 2 * 2];
    if (i % 2 == 0)
      ts_rng4(words, x->form->seed, TS_RNG_NEGATIVES,
              (uint64_t)x->s->users.id[u], (uint32_t)(i / 2), target);
    const int32_t item = (int32_t)(ts_rng_unit64(w[0], w[1]) * x->s->items.n);
    if (item == x->s->items.n || x->seen[item] == u + 1) continue;
    x->seen[item] = u + 1;
    x->drawn[n++] = item;
  }
  for (int64_t i = 0; i < n; i++) x->seen[x->drawn[i]] = 0;
}

/* ---- a file -------------------------------------------------------------- */

const char *ts_sequences_before(const ts_sequences_form *f) {
  static const char *const names[] = {"item", "item", "seen", NULL};
  return names[f->targets];
}

enum { USER, ITEM, ITEM_OFFSETS, NEXT, NEXT_OFFSETS, N_STREAMS };

typedef struct ts_part {
  const ts_sequences *s;
  const ts_sequences_form *form;
  int part;
  char temp[TS_SEQUENCE_PATH];
  ts_part_counts n;
  ts_dataset_bags user, item, next;
  int64_t labels; /* byte of the file */
  ts_strangers strangers;
  ts_beside beside;
  ts_streams streams; /* N_STREAMS, and those of beside */
} ts_part;

static int64_t negatives_of(const ts_part *p) {
  return p->part == TS_PART_TRAIN ? 0 : p->form->negatives;
}

static void note_largest(const ts_part *p, ts_dataset_bags *b,
                         const int32_t *item, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (p->s->items.id[item[i]] > b->max_id)
      b->max_id = p->s->items.id[item[i]];
}

/* How much there is. */
static void count(ts_part *p) {
  const ts_sequences *s = p->s;
  const int64_t each = 1 + negatives_of(p);
  ts_user_sample x;
  p->user.max_id = p->item.max_id = p->next.max_id = -1;
  for (int32_t u = 0; u < s->users.n; u++)
    for (int64_t k = 0; sample_of(s, p->form, p->part, u, k, &x); k++) {
      const int32_t *events = s->item + s->offsets[u];
      const int64_t n_next = x.next_end - x.next;
      p->n.n_samples++;
      p->n.n_items += x.item_end - x.item;
      p->n.n_next += n_next * each;
      ts_beside_count(&p->beside, s->offsets[u] + x.item,
                      s->offsets[u] + x.item_end, s->offsets[u] + x.asked);
      p->user.max_id = s->users.id[u]; /* they ascend */
      p->next.offsets |= n_next * each != 1;
      note_largest(p, &p->item, events + x.item, x.item_end - x.item);
      note_largest(p, &p->next, events + x.next, n_next);
    }
  /* Any item may be drawn, so the largest counts. */
  if (each > 1) p->next.max_id = s->items.id[s->items.n - 1];
  p->item.offsets = ts_sequences_before(p->form) != NULL;
  p->user.n_ids = p->n.n_samples;
  p->item.n_ids = p->n.n_items;
  p->next.n_ids = p->n.n_next;
}

static ts_err make_file(ts_part *p) {
  ts_err err = TS_OK;
  const int64_t n = p->n.n_samples;
  ts_stream *streams = p->streams.of;
  hid_t file;
  ts_hdf5_lock();
  TS_TRY(ts_dataset_make(&file, p->temp, n));
  TS_TRY(
      ts_dataset_make_array(file, "labels", H5T_IEEE_F32LE, n, 1, &p->labels));
  TS_TRY(ts_dataset_make_feature(file, "user", n, &p->user));
  if (p->item.offsets)
    TS_TRY(ts_dataset_make_feature(file, ts_sequences_before(p->form), n,
                                   &p->item));
  TS_TRY(ts_dataset_make_feature(file, "next", n, &p->next));
  TS_TRY(ts_beside_make(&p->beside, file, n, &p->streams));
  streams[USER].at = p->user.at.values;
  streams[ITEM].at = p->item.at.values;
  streams[ITEM_OFFSETS].at = p->item.at.offsets;
  streams[NEXT].at = p->next.at.values;
  streams[NEXT_OFFSETS].at = p->next.at.offsets;
done:
  err = ts_hdf5_close(file, p->temp, err, TS_ERR_IO);
  ts_hdf5_unlock();
  return err;
}

static ts_err push(ts_part *p, int which, int64_t value) {
  return ts_streams_put(&p->streams, which, value);
}

static ts_err put_sample(ts_part *p, int32_t u, const ts_user_sample *x,
                         ts_part_counts *done) {
  const ts_sequences *s = p->s;
  const int32_t *events = s->item + s->offsets[u];
  const int64_t n = s->offsets[u + 1] - s->offsets[u], more = negatives_of(p);
  TS_DO(push(p, USER, s->users.id[u]));
  for (int64_t i = x->item; i < x->item_end; i++)
    TS_DO(push(p, ITEM, s->items.id[events[i]]));
  TS_DO(ts_beside_put(&p->beside, &p->streams, s->offsets[u] + x->item,
                      s->offsets[u] + x->item_end, s->offsets[u] + x->asked));
  if (more) TS_DO(meet(&p->strangers, u));
  for (int64_t i = x->next; i < x->next_end; i++) {
    TS_DO(push(p, NEXT, s->items.id[events[i]]));
    if (more) draw(&p->strangers, u, (uint32_t)(n - 1 - i));
    for (int64_t k = 0; k < more; k++)
      TS_DO(push(p, NEXT, s->items.id[p->strangers.drawn[k]]));
  }
  done->n_items += x->item_end - x->item;
  done->n_next += (x->next_end - x->next) * (1 + more);
  if (p->item.offsets) TS_DO(push(p, ITEM_OFFSETS, done->n_items));
  if (p->next.offsets) TS_DO(push(p, NEXT_OFFSETS, done->n_next));
  return TS_OK;
}

static ts_err put_labels(ts_part *p) {
  static const float zeros[16384];
  for (int64_t i = 0; i < p->n.n_samples; i += 16384) {
    const int64_t left = p->n.n_samples - i;
    TS_DO(ts_pwrite(p->streams.fd, zeros, 4 * (left < 16384 ? left : 16384),
                    p->labels + 4 * i, p->temp, TS_ERR_IO));
  }
  return TS_OK;
}

static ts_err put_all(ts_part *p) {
  ts_user_sample x;
  ts_part_counts done = {0};
  ts_work work =
      ts_work_begin("writing", p->temp, (double)p->n.n_samples, "samples");
  const int fd = p->streams.fd = ts_file_open(p->temp, O_RDWR);
  if (fd < 0) return ts_fail_errno(TS_ERR_IO, p->temp);
  TS_DO(put_labels(p));
  if (p->item.offsets) TS_DO(push(p, ITEM_OFFSETS, 0));
  if (p->next.offsets) TS_DO(push(p, NEXT_OFFSETS, 0));
  for (int32_t u = 0; u < p->s->users.n; u++)
    for (int64_t k = 0; sample_of(p->s, p->form, p->part, u, k, &x); k++) {
      TS_DO(put_sample(p, u, &x, &done));
      if (++done.n_samples % 1024 == 0)
        ts_work_at(&work, (double)done.n_samples);
    }
  TS_DO(ts_streams_flush(&p->streams));
  return ts_file_sync(fd) == 0 ? TS_OK : ts_fail_errno(TS_ERR_IO, p->temp);
}

/* ---- the files ----------------------------------------------------------- */

static const char *const ends[TS_SIDE_CSV] = {"train.h5", "valid.h5", "test.h5",
                                              "users.csv", "items.csv"};

int ts_sequences_files(const ts_sequences_form *f) {
  return TS_SIDE_CSV + f->sides->n;
}

void ts_sequences_name(char path[TS_SEQUENCE_PATH], const ts_sequences_form *f,
                       int file, bool temporary) {
  const bool side = file >= TS_SIDE_CSV;
  snprintf(path, TS_SEQUENCE_PATH, "%.4000s.%s%s%s", f->prefix,
           side ? f->sides->feature[file - TS_SIDE_CSV] : ends[file],
           side ? ".csv" : "", temporary ? ".part" : "");
}

const ts_sequence_ids *ts_sequences_ids(const ts_sequences *s, int file) {
  if (file >= TS_SIDE_CSV) return &s->side[file - TS_SIDE_CSV].ids;
  return file == TS_USERS_CSV ? &s->users : &s->items;
}

bool ts_sequences_has(const ts_sequences *s, const ts_sequences_form *f,
                      int file) {
  const bool users = f->targets == TS_TARGETS_USERS;
  switch (file) {
  case TS_PART_TRAIN:
    return !users;
  case TS_PART_VALID:
    return !users && !s->before && f->leave > 1;
  case TS_PART_TEST:
    return users || s->before || f->leave > 0;
  default:
    return ts_sequences_ids(s, file)->word != NULL;
  }
}

static ts_err write_part(const ts_sequences *s, const ts_sequences_form *f,
                         int part, ts_part_counts *counts) {
  ts_err err = TS_OK;
  ts_part p = {.s = s, .form = f, .part = part};
  p.beside = ts_beside_of(s, N_STREAMS);
  p.streams = (ts_streams){.path = p.temp, .fd = -1};
  p.streams.n = N_STREAMS + 2 * ts_beside_features(s);
  p.strangers = (ts_strangers){.s = s, .form = f};
  ts_sequences_name(p.temp, f, part, true);
  count(&p);
  if (!p.n.n_samples)
    TS_THROW(TS_ERR_DATA,
             "%.4000s.%s would have no samples: the users have too few events "
             "for what is left out of training (--leave, --split-at, --test)",
             f->prefix, ends[part]);
  if (negatives_of(&p)) {
    TS_TRY(ts_mem_many(p.strangers.seen, s->items.n, INPUT));
    TS_TRY(ts_mem_many(p.strangers.drawn, f->negatives, INPUT));
  }
  TS_TRY(ts_mem_many(p.streams.of, p.streams.n, INPUT));
  TS_TRY(make_file(&p));
  TS_TRY(put_all(&p));
  *counts = p.n;
done:
  if (p.streams.fd >= 0) close(p.streams.fd);
  ts_mem_free_all(p.strangers.seen, p.strangers.drawn, p.streams.of);
  return err;
}

/* "user,word", and a line for each. */
static ts_err write_words(const ts_sequences *s, const ts_sequences_form *form,
                          int file) {
  ts_err err = TS_OK;
  const ts_sequence_ids *ids = ts_sequences_ids(s, file);
  ts_str line = {0};
  char temp[TS_SEQUENCE_PATH];
  ts_sequences_name(temp, form, file, true);
  unlink(temp);
  FILE *f = ts_file_stream(temp, "wx");
  if (!f) return ts_fail_errno(TS_ERR_IO, temp);
  fprintf(f, "%s,word\n",
          file == TS_USERS_CSV   ? "user"
          : file == TS_ITEMS_CSV ? "item"
                                 : form->sides->feature[file - TS_SIDE_CSV]);
  for (int32_t i = 0; i < ids->n; i++) {
    line.n_bytes = 0;
    TS_TRY(ts_str_append(&line, "%lld,", (long long)ids->id[i]));
    TS_TRY(ts_csv_add(&line, ts_numbering_word(&ids->names, ids->word[i]),
                      ts_numbering_bytes(&ids->names, ids->word[i])));
    TS_TRY(ts_str_append_bytes(&line, "\n", 1));
    fwrite(line.text, 1, line.n_bytes, f);
  }
done:
  if (ts_file_close(f) != 0 && err == TS_OK)
    err = ts_fail_errno(TS_ERR_IO, temp);
  ts_str_reset(&line);
  return err;
}

/* All of them get their names, or are removed. */
static ts_err finish(const ts_sequences *s, const ts_sequences_form *f,
                     ts_err err) {
  char path[TS_SEQUENCE_PATH], temp[TS_SEQUENCE_PATH];
  for (int k = 0; k < ts_sequences_files(f); k++) {
    if (!ts_sequences_has(s, f, k)) continue;
    ts_sequences_name(path, f, k, false);
    ts_sequences_name(temp, f, k, true);
    if (err == TS_OK && ts_file_rename(temp, path) != 0)
      err = ts_fail_errno(TS_ERR_IO, path);
    if (err != TS_OK) unlink(temp);
  }
  return err;
}

ts_err ts_sequences_write(const ts_sequences *s, const ts_sequences_form *f,
                          ts_part_counts counts[TS_PARTS]) {
  ts_err err = TS_OK;
  memset(counts, 0, TS_PARTS * sizeof *counts);
  for (int k = 0; k < ts_sequences_files(f); k++) {
    if (!ts_sequences_has(s, f, k)) continue;
    TS_TRY(k < TS_PARTS ? write_part(s, f, k, &counts[k])
                        : write_words(s, f, k));
  }
done:
  return finish(s, f, err);
}
