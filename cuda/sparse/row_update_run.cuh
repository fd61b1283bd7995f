/* row_update_run.cuh - from the arguments of row_update and row_stage to the
 * launches.
 *
 * RUN is who launches: the current lane's stream (cuda/sparse/row_update.cu,
 * cuda/sparse/row_stage.cu), or an emulation in tests.  It has
 *   take(void **, bytes), give(void *, bytes)  device memory in order
 *   clear(p, bytes), copy(dst, src, bytes)     in order
 *   starts(..)          positions of the first entries of runs, as below
 *   launch(kernel, grid, block, arguments...)
 *   blocks_most()       blocks of TS_ROW_BLOCK that may run at once
 *   blocks(kernel)      that do: at most as many
 * and all but the last two return ts_err. */
#ifndef TS_CUDA_ROW_UPDATE_RUN_CUH
#define TS_CUDA_ROW_UPDATE_RUN_CUH

#include "cuda/sparse/row_update_kernels.cuh"

extern "C" {
#include "base/hash.h"
#include "base/rng.h"
}

inline bool ts_row_aligned(const void *p, size_t bytes) {
  return (uintptr_t)p % bytes == 0;
}

/* Whether all quads of rows and states may be loaded at once. */
inline bool ts_row_wide_loads(const ts_row_update_args *a) {
  bool wide = a->dim % 4 == 0 && ts_row_aligned(a->grad, 16) &&
              ts_row_aligned(a->sum_out, 16) &&
              ts_row_aligned(a->weight, a->dtype == TS_F32 ? 16 : 8) &&
              ts_row_aligned(a->lines, a->dtype == TS_F32 ? 16 : 8);
  for (int k = 0; k < a->optim->n_states; k++)
    if (!a->optim->state[k].per_row)
      wide = wide && ts_row_aligned(a->state[k], 16) &&
             ts_row_aligned(a->line_state[k], 16);
  return wide;
}

inline ts_row_table ts_row_table_at(const ts_row_update_args *a, int32_t t) {
  ts_row_table to = {};
  if (a->hyper) to.hyper = a->hyper[t];
  to.row_dim = a->row_dim[t];
  to.first_quad = (uint32_t)a->first_col[t] / 4;
  to.base = a->row_base[t];
  to.first_row = a->first_row[t];
  /* the key of ts_rng4 (base/rng.c) */
  const uint64_t seed = a->seed ^ ((uint64_t)a->table_id[t] << 40);
  to.rounding_key = ts_mix64(seed ^ ts_mix64((uint64_t)TS_RNG_ROUNDING));
  return to;
}

/* Settings of at most MOST tables of A from T on to TABLE (device). */
template <int MOST, class RUN>
ts_err ts_row_send_some(RUN &run, const ts_row_update_args *a, int32_t t,
                        ts_row_table *table) {
  ts_row_tables<MOST> some = {};
  const int left = a->n_tables - t;
  const int n = left < MOST ? left : MOST;
  for (int i = 0; i < n; i++) some.table[i] = ts_row_table_at(a, t + i);
  return run.launch(ts_row_put_tables<MOST>, 1, MOST, table + t, some, n);
}

/* Of all, in arguments of launches. */
template <class RUN>
ts_err ts_row_send_tables(RUN &run, const ts_row_update_args *a,
                          ts_row_table *table) {
  ts_err err = TS_OK;
  if (a->n_tables <= TS_ROW_TABLES)
    return ts_row_send_some<TS_ROW_TABLES>(run, a, 0, table);
  for (int32_t t = 0; t < a->n_tables && err == TS_OK; t += TS_ROW_TABLES_MOST)
    err = ts_row_send_some<TS_ROW_TABLES_MOST>(run, a, t, table);
  return err;
}

/* Elements of SIZE bytes from place FIRST of ROWS on to LINES, which are no
 * part of the same array: addresses alone are counted. */
inline int64_t ts_row_shift(const void *rows, const void *lines, size_t size,
                            int64_t first) {
  return ((int64_t)(uintptr_t)lines - (int64_t)(uintptr_t)rows) /
             (int64_t)size -
         first;
}

inline void ts_row_put_lines(ts_row_place *r, const ts_row_update_args *a) {
  const int64_t first = (int64_t)a->first_line * a->dim;
  r->first_line = UINT32_MAX;
  if (!a->lines) return;
  r->first_line = a->first_line;
  r->shift[0] =
      ts_row_shift(a->weight, a->lines, ts_dtype_bytes(a->dtype), first);
  for (int k = 0; k < a->optim->n_states; k++)
    r->shift[1 + k] = ts_row_shift(a->state[k], a->line_state[k], 4, first);
}

inline ts_row_place ts_row_place_of(const ts_row_update_args *a,
                                    const ts_row_table *table) {
  ts_row_place r = {};
  r.weight = a->weight;
  r.dtype = a->dtype;
  r.dim = a->dim;
  for (int k = 0; k < TS_ROW_STATES_MAX; k++) r.state[k] = a->state[k];
  ts_row_put_lines(&r, a);
  r.table = table;
  r.n_tables = a->n_tables;
  r.step = (uint32_t)a->step;
  r.wide_loads = ts_row_wide_loads(a);
  return r;
}

/* ---- scratch ------------------------------------------------------------- */

/* Gives out pieces of one block; counts only while it has none. */
struct ts_row_layout {
  char *block;
  size_t bytes;
  template <class T> void take(T *&p, int64_t n) {
    p = block ? (T *)(block + bytes) : nullptr;
    bytes += ((size_t)n * sizeof(T) + 255) / 256 * 256;
  }
};

/* Scratch of an update, at BLOCK.  Runs of more than one piece have at least
 * 257 entries, so they have less than n / 128 pieces in all. */
template <class RUN>
size_t ts_row_lay_out(char *block, RUN &run, const ts_row_update_args *a,
                      ts_row_work *w, ts_row_table **table, char **temp,
                      size_t temp_bytes) {
  ts_row_layout all = {block, 0};
  const bool some_long = a->n > TS_ROW_PIECE;
  const int64_t n_pieces = some_long ? a->n / (TS_ROW_PIECE / 2) + 1 : 0;
  const int64_t n_groups = run.blocks_most() * (TS_ROW_BLOCK / 32);
  all.take(w->counts, 1);
  all.take(*table, a->n_tables);
  all.take(w->start, a->n);
  all.take(w->longs, some_long ? a->n / TS_ROW_PIECE + 1 : 0);
  all.take(w->pieces, n_pieces);
  all.take(w->partial, n_pieces * a->dim);
  all.take(w->aside, a->dim > 128 ? n_groups * a->dim : 0);
  all.take(*temp, (int64_t)temp_bytes);
  return all.bytes;
}

/* ---- update -------------------------------------------------------------- */

template <class RUN, class K>
ts_err ts_row_launch(RUN &run, K kernel, int64_t n, int64_t per_block,
                     const ts_row_work &w) {
  return run.launch(kernel, ts_grid(n, per_block, run.blocks(kernel)),
                    TS_ROW_BLOCK, w);
}

/* The kernels that know the optimizer: lanes of a group by the row's width. */
template <class O, class RUN>
ts_err ts_row_launch_tasks(RUN &run, const ts_row_work &w) {
  const int64_t n = w.n + (w.n > TS_ROW_PIECE ? w.n / (TS_ROW_PIECE / 2) : 0);
  const int32_t dim = w.rows.dim;
  ts_err err;
  if (dim <= 32)
    err = ts_row_launch(run, ts_row_tasks<O, 8, true>, n, 32, w);
  else if (dim <= 64)
    err = ts_row_launch(run, ts_row_tasks<O, 16, true>, n, 16, w);
  else if (dim <= 128)
    err = ts_row_launch(run, ts_row_tasks<O, 32, true>, n, 8, w);
  else
    err = ts_row_launch(run, ts_row_tasks<O, 32, false>, n, 8, w);
  if (err != TS_OK || w.n <= TS_ROW_PIECE) return err;
  return ts_row_launch(run, ts_row_end_long<O>, w.n / (TS_ROW_PIECE + 1), 1, w);
}

template <class RUN>
ts_err ts_row_launch_update(RUN &run, const ts_row_update_args *a,
                            const ts_row_work &w) {
  ts_err err = TS_OK;
  if (a->sum_out) return ts_row_launch_tasks<ts_optim_keep>(run, w);
  if (!ts_with_optim(a->optim->kind, [&](auto o) {
        err = ts_row_launch_tasks<decltype(o)>(run, w);
      }))
    return ts_fail(TS_ERR_INTERNAL, "no update of rows by %s on a GPU",
                   a->optim->kind);
  return err;
}

inline void ts_row_entries(ts_row_work *w, const ts_row_update_args *a) {
  w->keys = a->keys;
  w->place = a->place;
  w->order = a->order;
  w->bag_of = a->bag_of;
  w->grad = a->grad;
  w->weights = a->weights;
  w->bag_scale = a->bag_scale;
  w->grad_at = a->grad_at;
  w->n = a->n;
  w->sum_out = a->sum_out;
  w->key_out = a->key_out;
}

template <class RUN>
ts_err ts_row_update_on(RUN &run, const ts_row_update_args *a) {
  ts_err err = TS_OK;
  ts_row_work w = {};
  ts_row_table *table;
  char *temp;
  void *block = NULL;
  size_t temp_bytes = 0, bytes = 0;
  if (a->n >= INT64_C(1) << 31)
    return ts_fail(TS_ERR_INTERNAL, "%lld entries in one update of rows",
                   (long long)a->n);
  if (a->n == 0 && !a->n_out) return TS_OK;
  TS_TRY(run.starts(NULL, &temp_bytes, a->keys, a->n, NULL, NULL));
  bytes = ts_row_lay_out(NULL, run, a, &w, &table, &temp, temp_bytes);
  TS_TRY(run.take(&block, bytes));
  ts_row_lay_out((char *)block, run, a, &w, &table, &temp, temp_bytes);
  ts_row_entries(&w, a);
  w.rows = ts_row_place_of(a, table);
  TS_TRY(run.clear(w.counts, sizeof *w.counts));
  if (a->n > 0) {
    if (!a->sum_out) TS_TRY(ts_row_send_tables(run, a, table));
    TS_TRY(run.starts(temp, &temp_bytes, a->keys, a->n, w.start,
                      &w.counts->n_runs));
    TS_TRY(ts_row_launch(run, ts_row_find_long, a->n, TS_ROW_BLOCK, w));
    TS_TRY(ts_row_launch_update(run, a, w));
  }
  if (a->sum_out) TS_TRY(run.copy(a->n_out, &w.counts->n_out, sizeof(int64_t)));
done:
  if (block) run.give(block, bytes);
  return err;
}

/* ---- stage --------------------------------------------------------------- */

template <class O, class RUN>
ts_err ts_row_launch_stages(RUN &run, const ts_row_stage &s) {
  const auto launch = [&](auto kernel, int64_t per_block) {
    return run.launch(kernel, ts_grid(s.n, per_block, run.blocks(kernel)),
                      TS_ROW_BLOCK, s);
  };
  if (s.rows.dim <= 32) return launch(ts_row_stages<O, 8>, 32);
  return launch(ts_row_stages<O, 32>, 8);
}

template <class RUN>
ts_err ts_row_stage_on(RUN &run, const ts_row_stage_args *a) {
  ts_err err = TS_OK;
  void *table = NULL;
  const size_t bytes = (size_t)a->update->n_tables * sizeof(ts_row_table);
  ts_row_stage s = {};
  bool found = true;
  if (a->n == 0) return TS_OK;
  TS_TRY(run.take(&table, bytes));
  TS_TRY(ts_row_send_tables(run, a->update, (ts_row_table *)table));
  s.rows = ts_row_place_of(a->update, (ts_row_table *)table);
  s.rows.wide_loads = s.rows.wide_loads && ts_row_aligned(a->sums, 16);
  s.keys = a->keys;
  s.place = a->place;
  s.sums = a->sums;
  s.stats = a->stats;
  s.n = a->n;
  s.round = a->round;
  found = ts_with_optim(a->update->optim->kind, [&](auto o) {
    err = ts_row_launch_stages<decltype(o)>(run, s);
  });
  if (!found)
    err = ts_fail(TS_ERR_INTERNAL, "no rounds of %s on a GPU",
                  a->update->optim->kind);
done:
  if (table) run.give(table, bytes);
  return err;
}

#endif
