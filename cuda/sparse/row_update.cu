/* row_update.cu - the kernel row_update.
 *
 * Entries are sorted by row, and the first entry of each run of equal rows is
 * known.  A run is summed in order in pieces of 256 entries from its start,
 * then the pieces in order: the host's sums, and the same whatever the grid is.
 * A group of lanes takes one run after the other, with the next one's addresses
 * on their way meanwhile; runs of more than one piece come first, piece by
 * piece, each as if it were a run, and end in a kernel of their own.  No kernel
 * adds floats by atomics, and none needs a number that the host would have to
 * read.
 *
 * Arguments point to device memory, but for optim, hyper, row_base, row_dim,
 * table_id, first_row and first_col: these are host memory, which the call
 * copies.  n_out may be device or page-locked memory; with pageable memory the
 * call waits for the lane.  work is not used: scratch comes from the lane's
 * pool. */
#include "cuda/sparse/row_score.cuh"
#include "cuda/sparse/row_sum.cuh"

/* Lists the runs of more than one piece, and their pieces.  Their order in
 * the lists is any; no sum depends on it. */
static __global__ void ts_row_find_long(ts_row_work a) {
  const uint32_t n_runs = a.counts->n_runs;
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  if (first == 0) a.counts->n_out = n_runs;
  for (int64_t i = first; i < (int64_t)n_runs;
       i += (int64_t)gridDim.x * blockDim.x) {
    const uint32_t run = (uint32_t)i;
    const uint32_t from = a.start[run], to = ts_run_end(a, run, n_runs);
    if (to - from <= TS_ROW_PIECE) continue;
    const uint32_t n = (to - from - 1) / TS_ROW_PIECE + 1;
    const uint32_t at = atomicAdd(&a.counts->n_pieces, n);
    a.longs[atomicAdd(&a.counts->n_long, 1u)] = {run, at, n};
    for (uint32_t k = 0; k < n; k++) {
      const uint32_t begin = from + k * TS_ROW_PIECE;
      const uint32_t end =
          to - begin > TS_ROW_PIECE ? begin + TS_ROW_PIECE : to;
      a.pieces[at + k] = {begin, end};
    }
  }
}

/* ---- runs ---------------------------------------------------------------- */

/* The next work of a group: the sum of a piece, a whole run, or nothing. */
struct ts_row_task {
  uint32_t from, to; /* entries; none: nothing to do */
  uint32_t number;   /* of the run or the piece */
  bool piece;
};

__device__ inline ts_row_task
ts_row_task_at(const ts_row_work &a, const ts_row_counts &c, int64_t i) {
  ts_row_task t = {0, 0, 0, false};
  if (i < (int64_t)c.n_pieces) {
    const ts_row_piece p = a.pieces[i];
    return {p.from, p.to, (uint32_t)i, true};
  }
  i -= c.n_pieces;
  if (i >= (int64_t)c.n_runs) return t;
  t.number = (uint32_t)i;
  t.from = a.start[t.number];
  t.to = ts_run_end(a, t.number, c.n_runs);
  if (t.to - t.from > TS_ROW_PIECE) t.to = t.from; /* piece by piece */
  return t;
}

/* The row of a task, and the number in order of the entry of each lane. */
struct ts_row_head {
  ts_row_id id;
  uint32_t order;
};

template <int W>
__device__ inline ts_row_head ts_row_head_of(const ts_row_work &a,
                                             const ts_row_task &t,
                                             const ts_group<W> &group) {
  ts_row_head h = {};
  if (t.from == t.to) return h;
  if (t.from + (uint32_t)group.lane < t.to)
    h.order = a.order[t.from + (uint32_t)group.lane];
  h.id.active = !t.piece;
  h.id.key = a.keys[t.from];
  h.id.at = a.place ? a.place[t.from] : h.id.key;
  return h;
}

/* Asks for the row of a task to come. */
template <class O, int W>
__device__ inline void ts_row_ask(const ts_row_place &r, const ts_row_id &id,
                                  const ts_group<W> &group) {
  const ts_columns c(r.dim, 0, W, group.lane);
  if (!id.active || c.n <= 0) return;
  if constexpr (ts_is_few<O>) {
    if (group.lane % 4 == 0)
      ts_prefetch(ts_few_row(r, id) + ts_few_bytes(r, c.at));
  } else if (group.lane % 2 == 0) /* 32 bytes are a sector */
    ts_prefetch((const char *)r.weight +
                ts_row_at(r, id, c.at, -1) * (r.dtype == TS_F32 ? 4 : 2));
  for (int k = 0; k < O::ELEMENTS; k++)
    if (group.lane % 2 == 0)
      ts_prefetch(r.state[k] + ts_row_at(r, id, c.at, k));
  if constexpr (O::ROW >= 0)
    if (group.lane == 0) ts_prefetch(r.state[O::ROW] + id.key);
}

/* A run's sum and key, kept: G the columns C of it. */
__device__ inline void ts_row_keep(const ts_row_work &a, uint32_t run,
                                   uint32_t key, const ts_quad &g,
                                   const ts_columns &c) {
  if (c.n <= 0) return;
  ts_quad_store(a.sum_out + (int64_t)run * a.rows.dim + c.at, g, c.n,
                a.rows.wide_loads);
  if (c.at == 0) a.key_out[run] = key;
}

/* A task whose rows fit the registers of a group: one quad for each lane. */
template <class O, int W>
__device__ inline void
ts_row_do_held(const ts_row_work &a, const ts_row_task &t, const ts_row_id &id,
               ts_row_entry entry, const ts_group<W> &group) {
  const ts_row_place &r = a.rows;
  const ts_columns c(r.dim, 0, W, group.lane);
  const int table = id.active ? ts_row_table_of(r, id.key) : 0;
  ts_elements<O> e;
  ts_real row = {};
  if constexpr (!O::KEEPS) {
    e.load(r, id, c);
    row = ts_row_state<O>(r, id);
  }
  const ts_quad g = ts_row_sum(a, t.from, t.to, entry, group, c, a.scaled);
  if (t.piece && c.n > 0)
    ts_quad_store(a.partial + (int64_t)t.number * r.dim + c.at, g, c.n,
                  r.wide_loads);
  if constexpr (O::KEEPS) {
    if (id.active) ts_row_keep(a, t.number, id.key, g, c);
  } else {
    if (r.score) ts_row_score_held(r, id, group, c, g);
    ts_row_update_held(r, id, r.table[table], group, e, g, row);
  }
}

/* A task of rows of any width: one sweep of columns after the other. */
template <class O, int W>
__device__ inline void
ts_row_do_wide(const ts_row_work &a, const ts_row_task &t, const ts_row_id &id,
               ts_row_entry entry, const ts_group<W> &group, float *aside) {
  const ts_row_place &r = a.rows;
  float *sum = t.piece ? a.partial + (int64_t)t.number * r.dim : aside;
  for (int sweep = 0; sweep * 4 * W < r.dim; sweep++) {
    const ts_columns c(r.dim, sweep, W, group.lane);
    const ts_quad g = ts_row_sum(a, t.from, t.to, entry, group, c, a.scaled);
    if (t.from == t.to || c.n <= 0) continue;
    if (O::KEEPS && id.active)
      ts_row_keep(a, t.number, id.key, g, c);
    else
      ts_quad_store(sum + c.at, g, c.n, r.wide_loads);
  }
  if constexpr (!O::KEEPS) {
    if (r.score) ts_row_score_wide(r, id, group, sum);
    ts_row_update_wide<O, W>(
        r, id, r.table[id.active ? ts_row_table_of(r, id.key) : 0], group, sum);
  }
}

/* All pieces, and all runs of one piece: W lanes for each.  HELD: dim is at
 * most 4 W. */
template <class O, int W, bool HELD>
__global__ void __launch_bounds__(TS_ROW_BLOCK,
                                  O::ELEMENTS > 0 || ts_is_few<O> ? 3 : 4)
    ts_row_tasks(ts_row_work a) {
  const ts_group<W> group;
  const ts_row_counts counts = *a.counts;
  const int64_t n = (int64_t)counts.n_pieces + counts.n_runs;
  const int64_t stride = (int64_t)gridDim.x * (TS_ROW_BLOCK / W);
  const int64_t thread = (int64_t)blockIdx.x * TS_ROW_BLOCK + threadIdx.x;
  float *aside = HELD ? nullptr : a.aside + thread / W * a.rows.dim;
  ts_row_task task = ts_row_task_at(a, counts, thread / W);
  ts_row_head head = ts_row_head_of(a, task, group);
  /* A warp leaves as one: it goes by its first group. */
  for (int64_t i = thread / 32 * (32 / W); i < n; i += stride) {
    const int64_t mine = i + thread % 32 / W;
    const ts_row_task next = ts_row_task_at(a, counts, mine + stride);
    ts_row_entry entry = {};
    if (task.from + (uint32_t)group.lane < task.to)
      entry = ts_row_entry_of(a, head.order, a.scaled);
    if constexpr (HELD)
      ts_row_do_held<O>(a, task, head.id, entry, group);
    else
      ts_row_do_wide<O>(a, task, head.id, entry, group, aside);
    head = ts_row_head_of(a, next, group);
    task = next;
    if constexpr (HELD && !O::KEEPS) ts_row_ask<O>(a.rows, head.id, group);
  }
}

/* The ends of runs of more than one piece, a block for each: the pieces in
 * order, every thread with columns of its own, then the first warp updates
 * the row.  Three blocks of a multiprocessor leave rows in few bits registers
 * enough; without a number the compiler keeps to 64 and spills. */
template <class O>
__global__ void __launch_bounds__(TS_ROW_BLOCK, ts_is_few<O> ? 3 : 0)
    ts_row_end_long(ts_row_work a) {
  const ts_group<32> group;
  const ts_row_place &r = a.rows;
  const uint32_t n = a.counts->n_long;
  for (uint32_t i = blockIdx.x; i < n; i += gridDim.x) {
    const ts_row_long run = a.longs[i];
    float *sum = a.partial + (int64_t)run.first * r.dim;
    for (int32_t d = (int32_t)threadIdx.x; d < r.dim; d += TS_ROW_BLOCK) {
      ts_real total = {sum[d]};
#pragma unroll 16
      for (uint32_t k = 1; k < run.n; k++)
        total = total + ts_real{sum[(int64_t)k * r.dim + d]};
      sum[d] = total.x;
    }
    __syncthreads();
    if (threadIdx.x >= 32) continue;
    const uint32_t from = a.start[run.run], key = a.keys[from];
    const ts_row_id id = {key, a.place ? a.place[from] : key, true};
    if constexpr (O::KEEPS) {
      for (int sweep = 0; sweep * 128 < r.dim; sweep++) {
        const ts_columns c(r.dim, sweep, 32, group.lane);
        if (c.n > 0)
          ts_row_keep(a, run.run, key,
                      ts_quad_load(sum + c.at, c.n, r.wide_loads), c);
      }
    } else {
      if (r.score) ts_row_score_wide(r, id, group, sum);
      ts_row_update_wide<O, 32>(r, id, r.table[ts_row_table_of(r, key)], group,
                                sum);
    }
  }
}

/* ---- launches ------------------------------------------------------------ */

/* Scratch of an update, at BLOCK.  Runs of more than one piece have at least
 * 257 entries, so they have less than n / 128 pieces in all. */
static size_t lay_out(char *block, const ts_row_update_args *a, ts_row_work *w,
                      ts_row_table **table, char **temp, size_t temp_bytes) {
  ts_cuda_pieces all = {block, 0};
  const bool some_long = a->n > TS_ROW_PIECE;
  const int64_t n_pieces = some_long ? a->n / (TS_ROW_PIECE / 2) + 1 : 0;
  const int64_t n_groups =
      ts_cuda_blocks_most(TS_ROW_BLOCK) * (TS_ROW_BLOCK / 32);
  all.cut(&w->counts, 1);
  all.cut(table, a->n_tables);
  all.cut(&w->start, a->n);
  all.cut(&w->longs, some_long ? a->n / TS_ROW_PIECE + 1 : 0);
  all.cut(&w->pieces, n_pieces);
  all.cut(&w->partial, n_pieces * a->dim);
  all.cut(&w->aside, a->dim > 128 ? n_groups * a->dim : 0);
  all.cut(temp, (int64_t)temp_bytes);
  return all.bytes;
}

/* The kernels that know the optimizer: lanes of a group by the row's width. */
template <class O>
static ts_err launch_tasks(const char *kind, const ts_row_work &w) {
  const int64_t n = w.n + (w.n > TS_ROW_PIECE ? w.n / (TS_ROW_PIECE / 2) : 0);
  const int32_t dim = w.rows.dim;
  ts_err err;
  if (ts_row_is_plain(w))
    err = ts_row_launch_plain(kind, w);
  else if (dim <= 32)
    err = ts_row_launch(ts_row_tasks<O, 8, true>, n, 32, w);
  else if (dim <= 64)
    err = ts_row_launch(ts_row_tasks<O, 16, true>, n, 16, w);
  else if (dim <= 128)
    err = ts_row_launch(ts_row_tasks<O, 32, true>, n, 8, w);
  else
    err = ts_row_launch(ts_row_tasks<O, 32, false>, n, 8, w);
  if (err != TS_OK || w.n <= TS_ROW_PIECE) return err;
  return ts_row_launch(ts_row_end_long<O>, w.n / (TS_ROW_PIECE + 1), 1, w);
}

static ts_err launch_update(const ts_row_update_args *a, const ts_row_work &w) {
  ts_err err = TS_OK;
  const char *kind = a->optim->kind;
  if (a->sum_out) return launch_tasks<ts_optim_keep>(kind, w);
  const auto launch = [&](auto o) {
    if (ts_dtype_has_scale(a->dtype))
      err = launch_tasks<ts_few<decltype(o)>>(kind, w);
    else
      err = launch_tasks<decltype(o)>(kind, w);
  };
  if (!ts_with_optim(kind, launch))
    return ts_fail(TS_ERR_INTERNAL, "no update of rows by %s on a GPU", kind);
  return err;
}

static void set_entries(ts_row_work *w, const ts_row_update_args *a) {
  w->keys = a->keys;
  w->place = a->place;
  w->order = a->order;
  w->bag_of = a->bag_of;
  w->grad = a->grad;
  w->weights = a->weights;
  w->bag_scale = a->bag_scale;
  w->grad_at = a->grad_at;
  w->scaled = a->weights || a->bag_scale;
  w->n = a->n;
  w->sum_out = a->sum_out;
  w->key_out = a->key_out;
  if (a->runs) w->start = (uint32_t *)a->runs + 1; /* only read */
}

/* The call waits where the host reads n_out next: CUDA does not promise that a
 * copy to pageable memory does. */
ts_err ts_cuda_row_update(const ts_row_update_args *a) {
  ts_err err = TS_OK;
  ts_row_work w = {};
  ts_row_table *table;
  char *temp, *block = NULL;
  size_t temp_bytes = 0, bytes = 0;
  if (a->n >= INT64_C(1) << 31)
    return ts_fail(TS_ERR_INTERNAL, "%lld entries in one update of rows",
                   (long long)a->n);
  if (a->n == 0 && !a->n_out) return TS_OK;
  TS_TRY(ts_cuda_starts(NULL, &temp_bytes, a->keys, a->n, NULL, NULL));
  bytes = lay_out(NULL, a, &w, &table, &temp, temp_bytes);
  TS_TRY(ts_cuda_take(&block, bytes, TS_TAG_SPARSE));
  lay_out(block, a, &w, &table, &temp, temp_bytes);
  set_entries(&w, a);
  w.rows = ts_row_place_of(a, table);
  TS_TRY(ts_cuda_set(w.counts, 0, sizeof *w.counts));
  if (a->n > 0) {
    if (!a->sum_out) TS_TRY(ts_row_send_tables(a, table));
    if (a->runs)
      TS_TRY(ts_cuda_move(&w.counts->n_runs, a->runs, sizeof *a->runs));
    else
      TS_TRY(ts_cuda_starts(temp, &temp_bytes, a->keys, a->n, w.start,
                            &w.counts->n_runs));
    TS_TRY(ts_row_launch(ts_row_find_long, a->n, TS_ROW_BLOCK, w));
    if (!a->sum_out)
      TS_TRY(ts_row_average(
          a, w.rows, {w.keys, w.place, w.start, &w.counts->n_runs, a->n}));
    TS_TRY(launch_update(a, w));
  }
  if (a->sum_out && a->n_out) {
    TS_TRY(ts_cuda_copy(a->n_out, &w.counts->n_out, sizeof(int64_t)));
    if (ts_cuda_is_pageable(a->n_out)) TS_TRY(ts_cuda_settle_now());
  }
done:
  ts_cuda_give(block, bytes, TS_TAG_SPARSE);
  return err;
}
