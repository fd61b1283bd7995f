/* row_plain.cu - the update of plain rows (ts_row_is_plain), the commonest,
 * with as few instructions a run as there can be.
 *
 * A warp has up to 32 consecutive runs.  Each lane looks for one: its start,
 * key, table and own state, and where its gradient lies; W lanes at a time
 * update one row after the other and get what they need by exchanges.  A row
 * and its first gradient are loaded while the one before is worked on.  The
 * settings of a table stay in registers until a run is another table's. */
#include "cuda/sparse/row_sum.cuh"

/* A lane's run. */
struct ts_plain_run {
  uint32_t from, n; /* entries; n 0: none here */
  uint32_t key, at; /* the row, and where it lies */
  int table;
  int64_t grad; /* of the first entry */
  bool one;     /* whose gradient is on a border of 16 bytes */
  float row;    /* the row's own state */
};

template <class O>
__device__ inline ts_plain_run ts_plain_run_of(const ts_row_work &a,
                                               uint32_t run, uint32_t n_runs) {
  ts_plain_run h = {};
  if (run >= n_runs) return h;
  h.from = a.start[run];
  h.n = ts_run_end(a, run, n_runs) - h.from;
  if (h.n > TS_ROW_PIECE) h.n = 0; /* piece by piece */
  h.key = a.keys[h.from];
  h.at = a.place ? a.place[h.from] : h.key;
  h.table = ts_row_table_of(a.rows, h.key);
  h.grad = a.grad_at[a.order[h.from]];
  h.one = h.n == 1 && h.grad % 4 == 0;
  if constexpr (O::ROW >= 0) h.row = a.rows.state[O::ROW][h.key];
  return h;
}

/* A lane's columns: gradients, weights and states of row 0 from there on. */
struct ts_plain_lane {
  bool has;
  uint32_t pitch; /* bytes of a row */
  const float *grad;
  char *weight, *state[TS_ROW_STATES_MAX];

  __device__ ts_plain_lane(const ts_row_work &a, const ts_columns &c)
      : has(c.n > 0), pitch((uint32_t)a.rows.dim * 4), grad(a.grad + c.at),
        weight((char *)((float *)a.rows.weight + c.at)) {
    for (int k = 0; k < TS_ROW_STATES_MAX; k++)
      state[k] = (char *)(a.rows.state[k] + c.at);
  }
  __device__ float *at(char *rows, uint32_t place) const {
    return (float *)(rows + (uint64_t)place * pitch);
  }
};

/* A row as W lanes have it, and its gradient where it has one entry. */
template <class O> struct ts_plain_row {
  uint32_t at;
  bool live;
  ts_quad g;
  ts_elements<O> e;

  /* Run K of the group's. */
  template <int W>
  __device__ void load(const ts_plain_lane &l, const ts_plain_run &h, int k) {
    const int64_t grad = __shfl_sync(0xffffffffu, h.grad, k, W);
    const bool one = __shfl_sync(0xffffffffu, (int)h.one, k, W);
    at = __shfl_sync(0xffffffffu, h.at, k, W);
    live = __shfl_sync(0xffffffffu, h.n, k, W) > 0 && l.has;
    g = e.w = e.state[0] = e.state[1] = {};
    if (!live) return;
    if (one) g = ts_quad_load(l.grad + grad, 4, true);
    e.w = ts_quad_load(l.at(l.weight, at), 4, true);
    for (int s = 0; s < O::ELEMENTS; s++)
      e.state[s] = ts_quad_load(l.at(l.state[s], at), 4, true);
  }
  __device__ void store(const ts_plain_lane &l) const {
    if (!live) return;
    ts_quad_store(l.at(l.weight, at), e.w, 4, true);
    for (int s = 0; s < O::ELEMENTS; s++)
      ts_quad_store(l.at(l.state[s], at), e.state[s], 4, true);
  }
};

/* Settings of one table. */
template <class O> struct ts_plain_settings {
  int table = -1;
  O o = {};
  ts_real row_dim = {};

  __device__ void take(const ts_row_place &r, int t) {
    if (t == table) return;
    table = t;
    o.open(r.table[t].hyper);
    row_dim = {(float)r.table[t].row_dim};
  }
};

/* The sum of entries [from, from + n). */
template <int W>
__device__ inline ts_quad ts_plain_sum(const ts_row_work &a, uint32_t from,
                                       uint32_t n, const ts_group<W> &group,
                                       const ts_columns &c) {
  const uint32_t mine = from + (uint32_t)group.lane;
  ts_row_entry e = {};
  if (mine < from + n) e = ts_row_entry_of(a, a.order[mine], false);
  return ts_row_sum(a, from, from + n, e, group, c, false);
}

/* The group's COUNT runs, of which each lane has one. */
template <class O, int W>
__device__ inline void
ts_plain_do(const ts_row_work &a, ts_plain_run &h, int count,
            ts_plain_settings<O> &set, const ts_plain_lane &l,
            const ts_group<W> &group, const ts_columns &c) {
  constexpr unsigned FIRSTS = 0xffffffffu / (0xffffffffu >> (32 - W));
  const unsigned others = __ballot_sync(0xffffffffu, h.n > 0 && !h.one);
  ts_plain_row<O> next;
  next.template load<W>(l, h, 0);
#pragma unroll 1
  for (int k = 0; k < count; k++) {
    ts_plain_row<O> now = next;
    if (others >> k & FIRSTS) {
      const uint32_t n = __shfl_sync(0xffffffffu, h.n, k, W);
      const ts_quad g =
          ts_plain_sum(a, __shfl_sync(0xffffffffu, h.from, k, W), n, group, c);
      if (n > 0) now.g = g;
    }
    if (k + 1 < count) next.template load<W>(l, h, k + 1);
    set.take(a.rows, __shfl_sync(0xffffffffu, h.table, k, W));
    ts_real row = {};
    if constexpr (O::ROW >= 0) row.x = __shfl_sync(0xffffffffu, h.row, k, W);
    ts_row_rounds<O, W>(set.o, now.e, now.g, l.has ? 4 : 0, row, set.row_dim);
    now.store(l);
    if (group.lane == k) h.row = row.x;
  }
}

/* The pieces of longer runs: W lanes for each. */
template <int W>
__device__ inline void
ts_plain_pieces(const ts_row_work &a, uint32_t n, int64_t first, int64_t stride,
                const ts_group<W> &group, const ts_columns &c) {
  for (int64_t i = first; i < n; i += stride) {
    const int64_t mine = i + threadIdx.x % 32 / W;
    const ts_row_piece p = mine < n ? a.pieces[mine] : ts_row_piece{0, 0};
    const ts_quad sum = ts_plain_sum(a, p.from, p.to - p.from, group, c);
    if (p.from < p.to && c.n > 0)
      ts_quad_store(a.partial + mine * a.rows.dim + c.at, sum, 4, true);
  }
}

/* Blocks of a multiprocessor: as many as there are registers for, none of
 * which is kept in memory. */
template <class O, int W> constexpr int ts_plain_blocks() {
  return 4 - (O::ELEMENTS > 0) - (W < 32);
}

template <class O, int W>
__global__ void __launch_bounds__(TS_ROW_BLOCK, ts_plain_blocks<O, W>())
    ts_row_plain(ts_row_work a) {
  const ts_group<W> group;
  const ts_columns c(a.rows.dim, 0, W, group.lane);
  const ts_row_counts counts = *a.counts;
  const uint32_t groups = gridDim.x * (TS_ROW_BLOCK / W);
  const uint32_t thread = blockIdx.x * TS_ROW_BLOCK + threadIdx.x;
  /* Runs of a group: fewer where they are few, so that all warps have some. */
  const uint32_t share = (counts.n_runs + groups - 1) / groups;
  const uint32_t count = share < W ? share : W;
  const ts_plain_lane lane(a, c);
  ts_plain_settings<O> set;
  ts_plain_pieces<W>(a, counts.n_pieces, thread / 32 * (32 / W), groups, group,
                     c);
  for (int64_t i = (int64_t)(thread / 32) * (32 / W) * count; i < counts.n_runs;
       i += (int64_t)groups * count) {
    const int64_t run = i + threadIdx.x % 32 / W * count + group.lane;
    ts_plain_run h = ts_plain_run_of<O>(
        a, group.lane < (int)count ? (uint32_t)run : UINT32_MAX, counts.n_runs);
    ts_plain_do<O, W>(a, h, (int)count, set, lane, group, c);
    if constexpr (O::ROW >= 0)
      if (h.n > 0) a.rows.state[O::ROW][h.key] = h.row;
  }
}

/* ---- launches ------------------------------------------------------------ */

template <class O> static ts_err launch_plain(const ts_row_work &w) {
  if (w.rows.dim <= 32) return ts_row_launch(ts_row_plain<O, 8>, w.n, 32, w);
  if (w.rows.dim <= 64) return ts_row_launch(ts_row_plain<O, 16>, w.n, 16, w);
  return ts_row_launch(ts_row_plain<O, 32>, w.n, 8, w);
}

bool ts_row_is_plain(const ts_row_work &w) {
  return w.rows.dtype == TS_F32 && w.rows.wide_loads && w.rows.dim <= 128 &&
         w.rows.first_line == UINT32_MAX && !w.scaled && !w.sum_out &&
         !w.rows.caps && !w.rows.score;
}

ts_err ts_row_launch_plain(const char *kind, const ts_row_work &w) {
  ts_err err = TS_OK;
  if (!ts_with_optim(kind, [&](auto o) { err = launch_plain<decltype(o)>(w); }))
    return ts_fail(TS_ERR_INTERNAL, "no update of plain rows by %s", kind);
  return err;
}
