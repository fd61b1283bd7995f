/* update_body.h - the fused update of rows, for each instruction set.
 *
 * Entries are sorted by row.  A run of equal rows is summed in order, in
 * pieces of 256 entries from its start; then the row's optimizer runs once.
 * Threads share the entries at borders of runs; a run so long that it would
 * keep one thread busy alone is put aside, and its pieces are summed by all
 * threads afterwards (the pieces are the same, so are the bits). */
#pragma once

#include <math.h>

#include "base/few_bits.h"
#include "base/mem.h"
#include "base/rng.h"
#include "sparse/isa.h"
#include "sparse/lookup_body.h"
#include "sparse/row_optim.h"

enum { PIECE = 256, LONG_RUN = 16 * PIECE, UPDATE_AHEAD = 32, SINGLES = 8 };

TS_BODY int64_t entry_bag(const ts_row_update_args *a, int64_t j) {
  return a->bag_of ? a->bag_of[a->order[j]] : a->order[j];
}

TS_BODY float entry_scale(const ts_row_update_args *a, int64_t j, int64_t bag) {
  const float w = a->weights ? a->weights[a->order[j]] : 1.0f;
  return a->bag_scale ? w * a->bag_scale[bag] : w;
}

/* Place of the row KEY of entry J, the first of its run. */
TS_BODY int64_t place_of(const uint32_t *place, int64_t j, int64_t key) {
  return place ? place[j] : key;
}

/* Asks for the gradient of entry J, and row and state where its run starts. */
TS_BODY void prefetch_entry(const ts_row_update_args *a, int64_t j) {
  if (j >= a->n) return;
  const int64_t key = a->keys[j];
  const int64_t bytes = ts_row_bytes(a->dtype, a->dim);
  const float *g = a->grad + a->grad_at[entry_bag(a, j)];
  for (int32_t d = 0; d < a->dim; d += 16) __builtin_prefetch(g + d, 0, 2);
  if (a->sum_out || (j > 0 && a->keys[j - 1] == key)) return;
  const int64_t at = place_of(a->place, j, key);
  const char *row = (const char *)a->weight + at * bytes;
  for (int64_t k = 0; k < bytes; k += 64) __builtin_prefetch(row + k, 0, 2);
  for (int k = 0; k < a->optim->n_states; k++) {
    const bool per_row = a->optim->state[k].per_row;
    const int64_t cols = per_row ? 1 : a->dim;
    const float *s = a->state[k] + (per_row ? key : at * cols);
    for (int64_t d = 0; d < cols; d += 16) __builtin_prefetch(s + d, 0, 2);
  }
}

/* sum (dim) = entries [from, to), in order. */
TS_BODY void sum_piece(const ts_row_update_args *a, float *sum, int64_t from,
                       int64_t to) {
  const int32_t dim = a->dim;
  const bool scaled = a->weights || a->bag_scale;
  for (int64_t j = from; j < to; j++) {
    const int64_t bag = entry_bag(a, j);
    const float *g = a->grad + a->grad_at[bag];
    prefetch_entry(a, j + UPDATE_AHEAD);
    const float s = scaled ? entry_scale(a, j, bag) : 1.0f;
    if (j == from)
      for (int32_t d = 0; d < dim; d++) sum[d] = s * g[d];
    else if (scaled)
      for (int32_t d = 0; d < dim; d++) sum[d] += s * g[d];
    else
      for (int32_t d = 0; d < dim; d++) sum[d] += g[d];
  }
}

TS_BODY void add_row(float *sum, const float *x, int32_t dim) {
  for (int32_t d = 0; d < dim; d++) sum[d] += x[d];
}

/* sum (dim) = a whole run; PART (dim) is scratch. */
TS_BODY void sum_run(const ts_row_update_args *a, float *sum, float *part,
                     int64_t from, int64_t to) {
  int64_t end = to - from > PIECE ? from + PIECE : to;
  sum_piece(a, sum, from, end);
  for (from = end; from < to; from = end) {
    end = to - from > PIECE ? from + PIECE : to;
    sum_piece(a, part, from, end);
    add_row(sum, part, a->dim);
  }
}

/* Number of the table that holds group row KEY. */
TS_BODY int32_t table_of(const ts_row_update_args *a, int64_t key) {
  int32_t low = 0, high = a->n_tables - 1;
  while (low < high) {
    const int32_t mid = (low + high + 1) / 2;
    if (a->row_base[mid] <= key)
      low = mid;
    else
      high = mid - 1;
  }
  return low;
}

/* Random words for the stochastic rounding of columns [d, d + 64) of a row:
 * Philox at counter (step, global row, table and column / 4), 16 at once. */
TS_BODY void rounding_words(uint32_t *words, const ts_row_update_args *a,
                            int32_t table, int64_t row, int32_t d) {
  const uint32_t first = (uint32_t)(a->first_col[table] + d) / 4;
  for (uint32_t k = 0; k < 16; k++)
    ts_rng4(words + 4 * k, a->seed ^ ((uint64_t)a->table_id[table] << 40),
            TS_RNG_ROUNDING, (uint64_t)row, (uint32_t)a->step, first + k);
}

/* As base/few_bits.h has it. */
TS_BODY void store_few_bits(const ts_row_update_args *a, uint8_t *to,
                            const float *w, int32_t table, int64_t row) {
  const int32_t dim = a->dim;
  const float most = ts_few_bits_most(a->dtype);
  int32_t least = INT32_MAX, last = INT32_MIN;
  uint32_t words[64];
  uint8_t q[64];
  for (int32_t d = 0; d < dim; d++) {
    const int32_t x = ts_few_bits_order(w[d]);
    least = x < least ? x : least;
    last = x > last ? x : last;
  }
  const ts_few_bits f = ts_few_bits_of(least, last, most);
  for (int32_t d = 0; d < dim; d += 64) {
    const int32_t n = dim - d < 64 ? dim - d : 64;
    rounding_words(words, a, table, row, d);
    for (int32_t k = 0; k < n; k++)
      q[k] = (uint8_t)ts_few_bits_round(w[d + k], f, most, words[k]);
    if (n % 2) q[n] = 0;
    if (a->dtype == TS_INT8)
      memcpy(to + d, q, (size_t)n);
    else
      for (int32_t k = 0; k < n; k += 2)
        to[(d + k) / 2] = (uint8_t)(q[k] | q[k + 1] << 4);
  }
  memcpy(to + ts_columns_bytes(a->dtype, dim), &f.scale, 4);
  memcpy(to + ts_columns_bytes(a->dtype, dim) + 4, &f.bias, 4);
}

TS_BODY void store_rounded(const ts_row_update_args *a, uint16_t *to,
                           const float *w, int32_t table, int64_t row) {
  uint32_t words[64];
  for (int32_t d = 0; d < a->dim; d++) {
    if (d % 64 == 0) rounding_words(words, a, table, row, d);
    to[d] = a->dtype == TS_BF16 ? ts_f32_to_bf16_sr(w[d], words[d % 64])
                                : ts_f32_to_f16_sr(w[d], words[d % 64]);
  }
}

/* Group row KEY, which lies at AT, and its gradient, as the optimizer sees
 * them; rows that are not f32 are widened to WIDE. */
TS_BODY ts_row open_row(const ts_row_update_args *a, int64_t key, int64_t at,
                        int32_t table, const float *sum, float *wide) {
  const ts_row_optim *o = a->optim;
  ts_row r = {.g = sum, .dim = a->dim, .row_dim = a->row_dim[table]};
  if (a->dtype == TS_F32) {
    r.w = (float *)a->weight + at * a->dim;
  } else {
    ts_rows_to_f32(wide,
                   (char *)a->weight + at * ts_row_bytes(a->dtype, a->dim),
                   a->dtype, 1, a->dim);
    r.w = wide;
  }
  for (int k = 0; k < o->n_states; k++)
    r.state[k] = a->state[k] + (o->state[k].per_row ? key : at * a->dim);
  return r;
}

/* The row's mean up to date, before the row moves. */
TS_BODY void average_row(const ts_row_update_args *a, const ts_row *r,
                         const ts_row_hyper *h) {
  if (!a->optim->averages) return;
  const int last = a->optim->n_states - 1;
  float *e = r->state[last - 1], *pass = r->state[last];
  const float rest =
      *pass > 0 ? ts_row_ema_rest(h->ema, a->step - (int64_t)*pass) : 1.0f;
  if (*pass > 0)
    for (int32_t d = 0; d < r->dim; d++) e[d] += rest * (r->w[d] - e[d]);
  else
    memcpy(e, r->w, (size_t)r->dim * 4);
  *pass = (float)a->step;
}

/* PyTorch's renorm, in f32: before a row is rounded. */
TS_BODY void cap_row(const ts_row *r, const ts_row_hyper *h) {
  if (!(h->max_norm > 0)) return;
  const float norm = sqrtf(ts_row_sum_squares(r->w, r->dim));
  if (!(norm > h->max_norm)) return;
  const float scale = h->max_norm / (norm + 1e-7f);
  for (int32_t d = 0; d < r->dim; d++) r->w[d] *= scale;
}

/* The norm of sum G to the score of group row KEY. */
TS_BODY void score_row(const ts_row_update_args *a, int64_t key,
                       const float *g) {
  if (a->score) a->score[key] += sqrtf(ts_row_sum_squares(g, a->dim));
}

TS_BODY void close_row(const ts_row_update_args *a, int64_t key, int64_t at,
                       int32_t table, const float *wide) {
  if (a->dtype == TS_F32) return;
  const int64_t row = a->row_id
                          ? a->row_id[key]
                          : a->first_row[table] + key - a->row_base[table];
  if (ts_dtype_has_scale(a->dtype))
    store_few_bits(a,
                   (uint8_t *)a->weight + at * ts_row_bytes(a->dtype, a->dim),
                   wide, table, row);
  else
    store_rounded(a, (uint16_t *)a->weight + at * a->dim, wide, table, row);
}

/* One update of group row KEY, which lies at AT, by its summed gradient. */
TS_BODY void update_row(const ts_row_update_args *a, int64_t key, int64_t at,
                        int32_t table, const float *sum, float *wide, int isa) {
  const ts_row_optim *o = a->optim;
  const ts_row_hyper *h = &a->hyper[table];
  float stat[TS_ROW_STATS_MAX] = {0};
  const ts_row r = open_row(a, key, at, table, sum, wide);
  score_row(a, key, sum);
  average_row(a, &r, h);
  for (int k = 0; k < o->n_rounds; k++) o->round[k][isa](&r, h, stat);
  o->apply[isa](&r, h, stat);
  cap_row(&r, h);
  close_row(a, key, at, table, wide);
}

/* Rows [from, to) of a stage; WIDE (dim) is scratch. */
TS_BODY void stage_part(const ts_row_stage_args *s, int64_t from, int64_t to,
                        float *wide, int isa) {
  const ts_row_update_args *a = s->update;
  int32_t table = 0;
  for (int64_t j = from; j < to; j++) {
    const int64_t key = s->keys[j], at = place_of(s->place, j, key);
    float *stat = s->stats + j * TS_ROW_STATS_MAX;
    if (key < a->row_base[table] || key >= a->row_base[table + 1])
      table = table_of(a, key);
    const ts_row r = open_row(a, key, at, table, s->sums + j * a->dim, wide);
    if (s->round >= 0) {
      a->optim->round[s->round][isa](&r, &a->hyper[table], stat);
    } else {
      average_row(a, &r, &a->hyper[table]);
      a->optim->apply[isa](&r, &a->hyper[table], stat);
      close_row(a, key, at, table, wide);
    }
  }
}

/* A long run that was put aside. */
typedef struct ts_long_run {
  int64_t from, to, number;
} ts_long_run;

/* A thread's part of the update. */
typedef struct ts_update_part {
  int64_t from, to;         /* entries, at borders of runs */
  int64_t number;           /* of the first run, where sums are kept */
  float *sum, *part, *wide; /* (dim) each */
  ts_long_run *aside;
  int64_t n_aside;
} ts_update_part;

TS_BODY void end_run(const ts_row_update_args *a, int64_t from, int64_t number,
                     int32_t *table, const float *sum, float *wide, int isa) {
  const int64_t key = a->keys[from];
  if (a->sum_out) {
    memcpy(a->sum_out + number * a->dim, sum, (size_t)a->dim * 4);
    a->key_out[number] = (uint32_t)key;
    return;
  }
  if (key < a->row_base[*table] || key >= a->row_base[*table + 1])
    *table = table_of(a, key);
  update_row(a, key, place_of(a->place, from, key), *table, sum, wide, isa);
}

/* Rows of one entry each, which are updated together: the sums, roots and
 * divisions of one row take long and don't wait for another's. */
typedef struct ts_singles {
  int n;
  ts_row row[SINGLES];
  const ts_row_hyper *hyper[SINGLES];
} ts_singles;

TS_BODY void update_singles(const ts_row_update_args *a, ts_singles *s,
                            int isa) {
  const ts_row_optim *o = a->optim;
  float stat[SINGLES][TS_ROW_STATS_MAX] = {{0}};
  for (int i = 0; i < s->n; i++) average_row(a, &s->row[i], s->hyper[i]);
  for (int k = 0; k < o->n_rounds; k++)
    for (int i = 0; i < s->n; i++)
      o->round[k][isa](&s->row[i], s->hyper[i], stat[i]);
  for (int i = 0; i < s->n; i++)
    o->apply[isa](&s->row[i], s->hyper[i], stat[i]);
  for (int i = 0; i < s->n; i++) cap_row(&s->row[i], s->hyper[i]);
  s->n = 0;
}

/* Entry J, alone in its run, of gradient G. */
TS_BODY void add_single(const ts_row_update_args *a, ts_singles *s, int64_t j,
                        int32_t *table, const float *g, int isa) {
  const int64_t key = a->keys[j];
  if (key < a->row_base[*table] || key >= a->row_base[*table + 1])
    *table = table_of(a, key);
  score_row(a, key, g);
  s->row[s->n] = open_row(a, key, place_of(a->place, j, key), *table, g, NULL);
  s->hyper[s->n++] = &a->hyper[*table];
  if (s->n == SINGLES) update_singles(a, s, isa);
}

TS_BODY void update_part(const ts_row_update_args *a, ts_update_part *p,
                         int isa) {
  const bool scaled = a->weights || a->bag_scale;
  const bool together = a->dtype == TS_F32 && !a->sum_out;
  ts_singles singles = {.n = 0};
  int32_t table = 0;
  int64_t number = p->number;
  for (int64_t from = p->from; from < p->to; number++) {
    int64_t to = from + 1;
    while (to < p->to && a->keys[to] == a->keys[from]) to++;
    if (to - from >= LONG_RUN) {
      p->aside[p->n_aside++] = (ts_long_run){from, to, number};
    } else if (to - from == 1 && !scaled) {
      const float *g = a->grad + a->grad_at[entry_bag(a, from)];
      prefetch_entry(a, from + UPDATE_AHEAD);
      if (together)
        add_single(a, &singles, from, &table, g, isa);
      else
        end_run(a, from, number, &table, g, p->wide, isa);
    } else {
      sum_run(a, p->sum, p->part, from, to);
      end_run(a, from, number, &table, p->sum, p->wide, isa);
    }
    from = to;
  }
  update_singles(a, &singles, isa);
}
