/* row_place.cu - where rows and tables lie, for the kernels of row_update and
 * row_stage. */
#include "cuda/sparse/row_work.cuh"

extern "C" {
#include "base/hash.h"
#include "base/rng.h"
}

static bool aligned(const void *p, size_t bytes) {
  return (uintptr_t)p % bytes == 0;
}

/* Whether all quads of rows and states may be loaded at once. */
static bool wide_loads(const ts_row_update_args *a) {
  bool wide = a->dim % 4 == 0 && aligned(a->grad, 16) &&
              aligned(a->sum_out, 16) &&
              aligned(a->weight, a->dtype == TS_F32 ? 16 : 8) &&
              aligned(a->lines, a->dtype == TS_F32 ? 16 : 8);
  for (int k = 0; k < a->optim->n_states; k++)
    if (!a->optim->state[k].per_row)
      wide = wide && aligned(a->state[k], 16) && aligned(a->line_state[k], 16);
  return wide;
}

static ts_row_table table_at(const ts_row_update_args *a, int32_t t) {
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

/* Settings of N tables to the device. */
template <int N>
static __global__ void
ts_row_put_tables(ts_row_table *to,
                  const __grid_constant__ ts_row_tables<N> from, int n) {
  const int i = (int)threadIdx.x;
  if (i < n) to[i] = from.table[i];
}

/* Settings of at most MOST tables of A from T on to TABLE (device). */
template <int MOST>
static ts_err send_some(const ts_row_update_args *a, int32_t t,
                        ts_row_table *table) {
  ts_row_tables<MOST> some = {};
  const int left = a->n_tables - t;
  const int n = left < MOST ? left : MOST;
  for (int i = 0; i < n; i++) some.table[i] = table_at(a, t + i);
  return TS_CUDA_LAUNCH(ts_row_put_tables<MOST>, {1, MOST}, table + t, some, n);
}

ts_err ts_row_send_tables(const ts_row_update_args *a, ts_row_table *table) {
  ts_err err = TS_OK;
  if (a->n_tables <= TS_ROW_TABLES)
    return send_some<TS_ROW_TABLES>(a, 0, table);
  for (int32_t t = 0; t < a->n_tables && err == TS_OK; t += TS_ROW_TABLES_MOST)
    err = send_some<TS_ROW_TABLES_MOST>(a, t, table);
  return err;
}

/* Elements of SIZE bytes from place FIRST of ROWS on to LINES, which are no
 * part of the same array: addresses alone are counted. */
static int64_t shift_of(const void *rows, const void *lines, size_t size,
                        int64_t first) {
  return ((int64_t)(uintptr_t)lines - (int64_t)(uintptr_t)rows) /
             (int64_t)size -
         first;
}

static void put_lines(ts_row_place *r, const ts_row_update_args *a) {
  const int64_t first = (int64_t)a->first_line * a->dim;
  r->first_line = UINT32_MAX;
  if (!a->lines) return;
  r->first_line = a->first_line;
  r->shift[0] =
      ts_dtype_has_scale(a->dtype)
          ? shift_of(a->weight, a->lines, 1,
                     a->first_line * ts_row_bytes(a->dtype, a->dim))
          : shift_of(a->weight, a->lines, ts_dtype_bytes(a->dtype), first);
  for (int k = 0; k < a->optim->n_states; k++)
    r->shift[1 + k] = shift_of(a->state[k], a->line_state[k], 4, first);
}

ts_row_place ts_row_place_of(const ts_row_update_args *a,
                             const ts_row_table *table) {
  ts_row_place r = {};
  r.weight = a->weight;
  r.dtype = a->dtype;
  r.dim = a->dim;
  for (int k = 0; k < TS_ROW_STATES_MAX; k++) r.state[k] = a->state[k];
  put_lines(&r, a);
  r.table = table;
  r.n_tables = a->n_tables;
  r.step = (uint32_t)a->step;
  r.row_id = a->row_id;
  r.score = a->score;
  r.wide_loads = wide_loads(a);
  for (int32_t t = 0; a->hyper && t < a->n_tables; t++)
    r.caps = r.caps || a->hyper[t].max_norm > 0;
  return r;
}
