/* inputs.c - bags of ids and dense numbers as they are given, on their way into
 * the model. */
#include "serve/inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clones.h"
#include "base/compress.h"
#include "base/mem.h"

/* ---- bags ---------------------------------------------------------------- */

void ts_serve_bags_reset(ts_serve_bags *b) {
  ts_mem_free_all(b->rows, b->weights, b->offsets);
  ts_str_reset(&b->scratch);
  *b = (ts_serve_bags){0};
}

static ts_err bad(const ts_serve_feature *x, const tserve_bags *in, int64_t k) {
  const ts_table_config *t = ts_table_whole(x->table);
  if (in->words && ts_table_is_dynamic(t))
    return ts_fail(TS_ERR_DATA,
                   "feature %s: \"%.80s\", id %lld of the batch, is no id of "
                   "table %s, whose ids are numbers",
                   x->name, in->words[k], (long long)k, t->name);
  if (in->words)
    return ts_fail(TS_ERR_DATA,
                   "feature %s: \"%.80s\", id %lld of the batch, is no row of "
                   "table %s, which has %lld",
                   x->name, in->words[k], (long long)k, t->name,
                   (long long)t->rows);
  return ts_fail(TS_ERR_DATA,
                 "feature %s: id %lld of the batch is %lld: no row of table "
                 "%s, which has %lld",
                 x->name, (long long)k, (long long)in->ids[k], t->name,
                 (long long)t->rows);
}

/* The bag that begins at FROM loses ids: N of its first stay, or of its last.
 */
static void keep(ts_serve_bags *b, int64_t from, int64_t n, bool last) {
  const int64_t at = b->n_ids - n;
  if (last) {
    memmove(b->rows + from, b->rows + at, (size_t)n * 8);
    if (b->weights) memmove(b->weights + from, b->weights + at, (size_t)n * 4);
  }
  b->n_ids = from + n;
}

static void put(ts_serve_bags *b, int64_t row, float weight) {
  b->rows[b->n_ids] = row;
  if (b->weights) b->weights[b->n_ids] = weight;
  b->n_ids++;
}

/* What a bag of so many GIVEN ids is in the end: no longer than it may be, with
 * a word where its cell was missing, with a mask, whose place the oldest id
 * gives up, with weights by position. */
static void finish_bag(ts_serve_bags *b, const ts_serve_feature *x,
                       int64_t from, int64_t given) {
  const int64_t most = x->max_length;
  if (most && b->n_ids - from > most) keep(b, from, most, x->newest);
  int64_t row;
  if (b->n_ids == from && given < 2 && x->missing_word && x->is_list &&
      ts_missing_row(x, &row) && ts_id_is_row(row, ts_table_ids(x->table)))
    put(b, row, 1);
  if (x->mask >= 0) {
    if (most && b->n_ids - from == most) keep(b, from, most - 1, true);
    put(b, x->mask, 1);
  }
  for (int64_t k = from; x->position && k < b->n_ids; k++) {
    const int64_t last = x->table->max_length - 1, at = k - from;
    b->weights[k] = x->position[at < last ? at : last];
  }
}

static ts_err bad_weight(const ts_serve_feature *x, int64_t k) {
  return ts_fail(TS_ERR_DATA,
                 "feature %s: weight %lld of the batch is not finite", x->name,
                 (long long)k);
}

/* Ids [from, to) of IN are the next bag. */
static ts_err add_bag(ts_serve_bags *b, const ts_serve_state *s,
                      const ts_serve_feature *x, const tserve_bags *in,
                      int64_t from, int64_t to) {
  const int64_t begin = b->n_ids, rows = ts_table_ids(x->table);
  const int64_t most = x->max_length;
  const bool drops = s->config->data.on_bad_id != TS_ON_BAD_STOP;
  /* Readers of numbers cut bags as they are, CSV's what is left of them. */
  if (s->rules != TS_SERVE_CSV && most && to - from > most) {
    if (x->newest) from = to - most;
    to = from + most;
  }
  for (int64_t k = from; k < to; k++) {
    ts_given g = {.number = in->words ? 0 : in->ids[k]};
    const float weight = in->weights ? in->weights[k] : 1;
    if (in->words && !in->words[k])
      return ts_fail(TS_ERR_DATA, "feature %s: word %lld is NULL", x->name,
                     (long long)k);
    if (in->words) g.text = in->words[k], g.n_bytes = strlen(g.text);
    const int64_t row = ts_given_row(s, x, &g, &b->scratch);
    if (g.is == TS_NO_ID) continue;
    if (b->weights && !isfinite(weight)) return bad_weight(x, k);
    const bool there = ts_id_is_row(row, rows) || (x->is_times && row >= 0);
    if (there && g.is == TS_AN_ID)
      put(b, row, weight);
    else if (!drops || g.is == TS_BAD_ID)
      return bad(x, in, k);
  }
  finish_bag(b, x, begin, to - from);
  return TS_OK;
}

/* The ids of samples [first, first + n) are [*from, *to) of IN. */
static ts_err find_ids(const ts_serve_feature *x, const tserve_bags *in,
                       int64_t first, int64_t n, int64_t *from, int64_t *to) {
  const int64_t *at = in->offsets;
  *from = first;
  *to = first + n;
  for (int64_t i = 0; at && i <= n; i++)
    if (at[first + i] < 0 || at[first + i] > in->n_ids ||
        (i && at[first + i] < at[first + i - 1]))
      return ts_fail(TS_ERR_DATA,
                     "feature %s: offsets[%lld] does not rise, or is beyond "
                     "n_ids",
                     x->name, (long long)(first + i));
  if (at) *from = at[first], *to = at[first + n];
  if (*to <= in->n_ids && (in->ids || in->words || *from == *to)) return TS_OK;
  return ts_fail(TS_ERR_DATA, "feature %s: has %lld ids, and there are %lld",
                 x->name, (long long)*to,
                 (long long)(in->ids || in->words ? in->n_ids : 0));
}

/* ---- ids that are rows --------------------------------------------------- */

/* Copies N ids; false where one is no row. */
TS_CLONES static bool copy_rows(int64_t *to, const int64_t *ids, int64_t n,
                                uint64_t rows) {
  uint64_t bad = 0;
  for (int64_t i = 0; i < n; i++) {
    bad |= (uint64_t)ids[i] >= rows;
    to[i] = ids[i];
  }
  return !bad;
}

TS_CLONES static bool copy_weights(float *to, const float *w, int64_t n) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; i++) {
    bad |= !isfinite(w[i]);
    to[i] = w[i];
  }
  return !bad;
}

/* All bags at once, where nothing has to be made of their ids; false: one by
 * one, as one of them is not as it should be, too (of a dynamic table -1 and
 * -2, which are right). */
static bool take_rows(ts_serve_bags *b, const ts_serve_state *s,
                      const ts_serve_feature *x, const tserve_bags *in,
                      int64_t from, int64_t n_ids) {
  if (!in->ids || in->words || x->encoding != TS_SERVE_PLAIN ||
      s->rules == TS_SERVE_CRITEO || x->crosses || x->part || x->is_times ||
      x->max_length || x->mask >= 0 || x->position || x->missing_word ||
      (s->rules == TS_SERVE_CSV && s->config->data.csv.missing.n) ||
      !copy_rows(b->rows, in->ids + from, n_ids,
                 (uint64_t)ts_table_ids(x->table)))
    return false;
  if (b->weights && in->weights)
    return copy_weights(b->weights, in->weights + from, n_ids);
  for (int64_t i = 0; b->weights && i < n_ids; i++) b->weights[i] = 1;
  return true;
}

/* Where they end. */
static void take_offsets(ts_serve_bags *b, const int64_t *at, int64_t n,
                         int64_t n_ids) {
  b->n_ids = n_ids;
  b->ones = n_ids == n;
  for (int64_t i = 1; i <= n; i++) {
    b->offsets[i] = at ? at[i] - at[0] : i;
    b->ones &= b->offsets[i] == i;
  }
}

static ts_err take(ts_serve_bags *b, const ts_serve_state *s, int32_t f,
                   const tserve_bags *in, int64_t first, int64_t n) {
  const ts_serve_feature *x = &s->feature[f];
  int64_t from = 0, to = 0;
  const bool none = !in->n_ids && !in->offsets;
  const int64_t all[2] = {0, in->n_ids};
  tserve_bags own = *in;
  if (in->same && !in->offsets) own.offsets = all;
  if (in->same) first = 0, n = 1;
  if (!none) TS_DO(find_ids(x, &own, first, n, &from, &to));
  const int64_t most = to - from + 2 * n + 1; /* masks, and missing words */
  TS_DO(ts_mem_reserve(&b->rows, &b->room[0], (size_t)most * 8, TS_TAG_INPUT));
  TS_DO(ts_mem_reserve(&b->offsets, &b->room[2], (size_t)(n + 1) * 8,
                       TS_TAG_INPUT));
  if (x->table->weighted || x->position)
    TS_DO(ts_mem_reserve(&b->weights, &b->room[1], (size_t)most * 4,
                         TS_TAG_INPUT));
  b->n = n;
  b->n_ids = 0;
  b->ones = true;
  b->offsets[0] = 0;
  if (!none && take_rows(b, s, x, &own, from, to - from)) {
    take_offsets(b, own.offsets ? own.offsets + first : NULL, n, to - from);
    return TS_OK;
  }
  for (int64_t i = 0; i < n; i++) {
    const int64_t *at = own.offsets ? own.offsets + first + i : NULL;
    const int64_t begin = at ? at[0] : first + i;
    TS_DO(add_bag(b, s, x, &own, begin, none ? begin : at ? at[1] : begin + 1));
    b->offsets[i + 1] = b->n_ids;
    b->ones = b->ones && b->n_ids == i + 1;
  }
  return TS_OK;
}

/* Rows of the part of a table that the feature's is. */
static ts_err take_part(ts_serve_bags *b, const ts_serve_feature *x) {
  int64_t to = 0;
  if (!b->ones && ts_part_wants_ones(x->table))
    for (int64_t i = 0; i < b->n; i++)
      if (b->offsets[i + 1] - b->offsets[i] > 1)
        return ts_fail(TS_ERR_DATA,
                       "feature %s: sample %lld of the batch has %lld ids, "
                       "table %s takes one",
                       x->name, (long long)i,
                       (long long)(b->offsets[i + 1] - b->offsets[i]),
                       x->table->whole->name);
  ts_part_map(x->table, b->rows, b->n_ids);
  if (!ts_compress_of(x->table)->leaves_out) return TS_OK;
  for (int64_t i = 0, k = 0; i < b->n; i++) {
    for (; k < b->offsets[i + 1]; k++) {
      if (b->rows[k] < 0) continue;
      b->rows[to] = b->rows[k];
      if (b->weights) b->weights[to] = b->weights[k];
      to++;
    }
    b->offsets[i + 1] = to;
    b->ones = b->ones && to == i + 1;
  }
  b->n_ids = to;
  return TS_OK;
}

ts_err ts_serve_bags_take(ts_serve_bags *b, const ts_serve_state *s, int32_t f,
                          const tserve_bags *in, int64_t first, int64_t n) {
  const ts_serve_feature *x = &s->feature[f];
  TS_DO(take(b, s, f, in, first, n));
  if (x->table->whole && !x->is_times) TS_DO(take_part(b, x));
  if (x->keys && !x->is_times) ts_serve_keys_find(x->keys, b->rows, b->n_ids);
  return TS_OK;
}

/* ---- dense numbers ------------------------------------------------------- */

/* Numbers of a sample; false where one of them can't be: what is missing is
 * for the scales to know. */
static bool take_row(float *out, const ts_serve_state *s, const float *x) {
  const int32_t columns = s->config->model.dense_features;
  for (int32_t d = 0; d < columns; d++) {
    if (isinf(x[d])) return false;
    if (s->scales)
      ts_scales_put(s->scales, d, x[d], out);
    else if (s->rules == TS_SERVE_CRITEO)
      out[d] = x[d] > 0 ? (float)log1p((double)x[d]) : 0;
    else if (isnan(x[d]))
      return false;
    else
      out[d] = x[d];
  }
  return true;
}

ts_err ts_serve_dense_take(float *out, const ts_serve_state *s,
                           const tserve_batch *in, int64_t first, int64_t n) {
  const int32_t columns = s->config->model.dense_features;
  for (int64_t i = 0; i < n; i++, out += s->dense_width)
    if (!take_row(out, s,
                  in->dense + (in->same_dense ? 0 : (first + i) * columns)))
      return ts_fail(TS_ERR_DATA,
                     "sample %lld of the batch has a dense number that is not "
                     "finite",
                     (long long)(first + i));
  return TS_OK;
}
