/* shard_batch.c - batches of the sharding tests: every rank draws the whole
 * batch, so that the reference needs no messages. */
#include <string.h>

#include "tests/shard/shard_contract.h"

static uint32_t hash(int a, int b, int c, int d) {
  const int in[] = {a, b, c, d};
  uint64_t x = 88172645463325252u;
  for (int i = 0; i < 4; i++) {
    x = (x ^ (uint64_t)(uint32_t)in[i]) * UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 29;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 32;
  }
  return (uint32_t)x;
}

float ct_grad(int step, int feature, int row, int column) {
  const uint32_t h = hash(step, feature, 1000 + row, column);
  const float size = (float)(1 + h % 4096) / 4096.0f;
  return (hash(0, 0, 0, column) & 64 ? -0.1f : 0.1f) * (0.1f + 0.9f * size);
}

static float weight(uint32_t h) {
  return 0.1f + (float)(h % 1024) / 1024.0f;
}

/* A bag of its own: LENGTH ids from hash(step, f, sample). */
static int64_t draw_own(ct_bags *b, int64_t n, int64_t rows, char letter, int f,
                        int step, int sample, int length) {
  for (int i = 0; i < length; i++, n++) {
    const uint32_t h = hash(step, f, sample, 100 + i);
    b->ids[n] = letter == 'h' ? rows - 1 - (h >> 8) % (rows < 4 ? rows : 4)
                              : (h >> 8) % rows;
    b->weights[n] = weight(h);
  }
  return n;
}

/* One of seven bags that many samples share: none, {a}, {a b}, {b a},
 * {a b c}, {c}, {a a}; of some samples with weights of their own. */
static int64_t draw_shared(ct_bags *b, int64_t n, int64_t rows, int f, int step,
                           int sample) {
  static const char *const bags[] = {"", "a", "ab", "ba", "abc", "c", "aa"};
  const uint32_t h = hash(step, f, sample, 1);
  const char *bag = bags[h % 7];
  const bool own = (h >> 8) % 4 == 0;
  for (int i = 0; bag[i]; i++, n++) {
    b->ids[n] = hash(step, f, 0, bag[i]) % rows;
    b->weights[n] = weight(hash(step, f, own ? 1 + sample : 0, 50 + i));
  }
  return n;
}

static int length_of(char letter, int step, int sample, uint32_t h) {
  switch (letter) {
  case 'o':
    return 1;
  case 'l':
    return sample == 1 ? 256 : sample == 2 ? 300 : (int)(h % 3);
  case 'e':
    return step % 2 ? 0 : (int)(h % 3);
  default:
    return h % 3 == 0 ? 0 : (int)(h / 3 % 6);
  }
}

static void draw_feature(ct_bags *b, const ct_deck *d, int f, int step,
                         int n_samples) {
  const int64_t rows = d->tables[d->table_of[f]].rows;
  int64_t n = 0;
  for (int s = 0; s < n_samples; s++) {
    const int length = length_of(d->bags[f], step, s, hash(step, f, s, 2));
    const bool shared = d->bags[f] == 'o' && s % 3 == 0;
    b->start[s] = n;
    n = d->bags[f] == 'r'
            ? draw_shared(b, n, rows, f, step, s)
            : draw_own(b, n, rows, d->bags[f], f, step, shared ? 0 : s, length);
  }
  b->start[n_samples] = n;
  ck_assert_int_le(n, CT_IDS);
}

/* A processor's weights as those of the data. */
static void spell(ct_bags *b, const ct_deck *d, int f, int n_samples) {
  for (int s = 0; s < n_samples; s++)
    for (int64_t i = b->start[s]; i < b->start[s + 1]; i++)
      b->weights[i] = d->position[f][ct_position_of(d, f, i - b->start[s])];
}

/* This rank's bags of feature F: by lengths, by offsets, or one id each. */
static void view(ct_batch *b, const ct_deck *d, int f, bool columns) {
  const ct_bags *all = &b->features[f];
  const int64_t from = all->start[b->first];
  ts_jagged *j = &b->jagged[f];
  for (int s = 0; s <= b->n; s++)
    b->offsets[f][s] = all->start[b->first + s] - from;
  for (int s = 0; s < b->n; s++)
    b->lengths[f][s] = (int32_t)(b->offsets[f][s + 1] - b->offsets[f][s]);
  *j = (ts_jagged){.ids = all->ids + from, .n_ids = b->offsets[f][b->n]};
  if (d->tables[d->table_of[f]].weighted) j->weights = all->weights + from;
  if (d->bags[f] == 'o' && f % 2) return;
  /* Columns of both forms come side by side. */
  if (columns && f % 4)
    j->offsets = b->offsets[f];
  else if (d->bags[f] != 'o')
    j->lengths = b->lengths[f];
}

static const int uneven[][CT_RANKS] = {
    {4, 6, 2, 3}, {5, 0, 1, 7}, {0, 8, 3, 0}, {1, 0, 0, 0}, {2, 3, 8, 1}};

void ct_batch_draw(ct_batch *b, const ct_deck *d, const ct_world *w, int step,
                   const int *sizes, bool columns) {
  const bool fixed = sizes != NULL;
  if (!sizes) sizes = uneven[step % 5];
  memset(b, 0, sizeof *b);
  b->step = step;
  for (int r = 0; r < w->size; r++) {
    b->sizes[r] = sizes[r];
    if (r < w->rank) b->first += sizes[r];
    b->n_global += sizes[r];
  }
  if (!b->n_global && !fixed) {
    b->n_global = b->sizes[0] = 1;
    b->first = w->rank > 0;
  }
  b->n = b->sizes[w->rank];
  for (int f = 0; f < d->n_features; f++) {
    draw_feature(&b->features[f], d, f, step, b->n_global);
    if (d->spelled && d->max_length[d->table_of[f]])
      spell(&b->features[f], d, f, b->n_global);
    view(b, d, f, columns);
  }
  b->kjt = (ts_kjt){
      .features = b->jagged, .n_features = d->n_features, .batch = b->n};
}

ct_rows ct_rows_of(const ct_deck *d, const ct_batch *b, int f) {
  const ct_bags *bags = &b->features[f];
  if (d->tables[d->table_of[f]].pooling != TS_POOL_NONE)
    return (ct_rows){b->n_global, b->n, b->first};
  return (ct_rows){(int)bags->start[b->n_global], (int)b->jagged[f].n_ids,
                   (int)bags->start[b->first]};
}
