/* row_stage.cu - the kernel row_stage: rounds of an optimizer over rows whose
 * sums are known.  Arguments lie as row_update's do. */
#include "cuda/sparse/row_update.cuh"

/* One round of the optimizer (round >= 0) or its end, for rows whose sums are
 * known: W lanes for each. */
template <class O, int W>
__global__ void __launch_bounds__(TS_ROW_BLOCK, 3)
    ts_row_stages(ts_row_stage s) {
  const ts_group<W> group;
  const ts_row_place &r = s.rows;
  const int64_t thread = (int64_t)blockIdx.x * TS_ROW_BLOCK + threadIdx.x;
  const int64_t stride = (int64_t)gridDim.x * (TS_ROW_BLOCK / W);
  const int k = s.round >= 0 ? s.round : O::ROUNDS;
  for (int64_t i = thread / 32 * (32 / W); i < s.n; i += stride) {
    const int64_t j = i + thread % 32 / W;
    ts_row_id id = {0, 0, j < s.n};
    ts_real stat[TS_ROW_STATS_MAX] = {};
    if (id.active) {
      id.key = s.keys[j];
      id.at = s.place ? s.place[j] : id.key;
      for (int c = 0; c < TS_ROW_STATS_MAX; c++)
        stat[c].x = s.stats[j * TS_ROW_STATS_MAX + c];
    }
    const ts_row_table &t = r.table[id.active ? ts_row_table_of(r, id.key) : 0];
    const float *sum = s.sums + (id.active ? j : 0) * r.dim;
    ts_real row = ts_row_state<O>(r, id);
    O o = {};
    o.open(t.hyper);
    o.before(k, row, stat, ts_real{(float)t.row_dim});
    __syncwarp(); /* all lanes have read their statistics */
    if (s.round >= 0) {
      ts_row_do_round<O, W>(r, id, o, k, sum, group, stat);
      if (id.active && group.lane == 0)
        for (int c = 0; c < TS_ROW_STATS_MAX; c++)
          s.stats[j * TS_ROW_STATS_MAX + c] = stat[c].x;
    } else {
      ts_row_do_apply<O, W>(r, id, t, o, sum, group, ts_real{1});
    }
    if constexpr (O::ROW >= 0)
      if (id.active && group.lane == 0 && k == 1)
        r.state[O::ROW][id.key] = row.x;
  }
}

template <class O> static ts_err launch_stages(const ts_row_stage &s) {
  if (s.rows.dim <= 32) return ts_row_launch(ts_row_stages<O, 8>, s.n, 32, s);
  return ts_row_launch(ts_row_stages<O, 32>, s.n, 8, s);
}

ts_err ts_cuda_row_stage(const ts_row_stage_args *a) {
  ts_err err = TS_OK;
  ts_row_table *table = NULL;
  const size_t bytes = (size_t)a->update->n_tables * sizeof *table;
  ts_row_stage s = {};
  bool found = true;
  if (a->n == 0) return TS_OK;
  if (ts_dtype_has_scale(a->update->dtype))
    return ts_fail(TS_ERR_INTERNAL, "stages of rows in few bits on a GPU");
  TS_TRY(ts_cuda_take(&table, bytes, TS_TAG_SPARSE));
  TS_TRY(ts_row_send_tables(a->update, table));
  s.rows = ts_row_place_of(a->update, table);
  s.rows.wide_loads = s.rows.wide_loads && (uintptr_t)a->sums % 16 == 0;
  s.keys = a->keys;
  s.place = a->place;
  s.sums = a->sums;
  s.stats = a->stats;
  s.n = a->n;
  s.round = a->round;
  if (a->round < 0)
    TS_TRY(ts_row_average(a->update, s.rows,
                          {a->keys, a->place, nullptr, nullptr, a->n}));
  found = ts_with_optim(a->update->optim->kind,
                        [&](auto o) { err = launch_stages<decltype(o)>(s); });
  if (!found)
    err = ts_fail(TS_ERR_INTERNAL, "no rounds of %s on a GPU",
                  a->update->optim->kind);
done:
  ts_cuda_give(table, bytes, TS_TAG_SPARSE);
  return err;
}
