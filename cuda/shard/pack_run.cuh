/* pack_run.cuh - from the arguments of input dist's sending side to launches.
 *
 * RUN is who launches: the current lane's stream (cuda/shard/pack.cu), or an
 * emulation in tests.  It has
 *   take(void **, bytes), give(void *, bytes)  device memory in order
 *   clear(p, bytes, byte = 0), copy(dst, src, bytes)
 *   sort(const ts_sort_args *)
 *   launch(kernel, grid, block, arguments...)
 *   blocks_most()       a good number of blocks for a grid
 * and all but give and the last return ts_err.  Descriptions go to the device
 * by copies out of pinned memory. */
#ifndef TS_CUDA_PACK_RUN_CUH
#define TS_CUDA_PACK_RUN_CUH

#include "cuda/shard/distinct_kernels.cuh"

extern "C" {
#include "runtime/kernels.h"
}

/* A grid for N items of each of ROWS rows. */
template <class RUN> dim3 ts_pack_grid(RUN &run, int64_t n, int64_t rows) {
  const int64_t y = rows < 1                ? 1
                    : rows < TS_GRID_YZ_MAX ? rows
                                            : TS_GRID_YZ_MAX;
  return dim3(ts_grid(n, TS_SCAN_BLOCK, ts_ceil_div(run.blocks_most(), y)),
              (unsigned)y);
}

/* A block for each of N rows. */
static inline dim3 ts_pack_rows(int64_t n) {
  return dim3(ts_grid(n, 1, TS_GRID_X_MAX));
}

/* Pieces of one block of scratch; counts only while it has none. */
struct ts_pack_block {
  char *at;
  size_t bytes;
  template <class T> T *take(int64_t n) {
    T *p = at ? (T *)(void *)(at + bytes) : nullptr;
    bytes += ((size_t)n * sizeof(T) + 255) / 256 * 256;
    return p;
  }
  template <class T, class RUN>
  ts_err bring(RUN &run, const T *&to, const T *from, int64_t n) {
    T *p = take<T>(n);
    to = p;
    return at && n ? run.copy(p, from, (size_t)n * sizeof(T)) : TS_OK;
  }
};

/* Calls body(block) to count, and again with as much scratch. */
template <class RUN, class Body> ts_err ts_pack_with(RUN &run, Body body) {
  ts_err err = TS_OK;
  void *p = NULL;
  ts_pack_block block = {NULL, 0};
  TS_TRY(body(block));
  TS_TRY(run.take(&p, block.bytes));
  {
    ts_pack_block filled = {(char *)p, 0};
    err = body(filled);
  }
done:
  if (p) run.give(p, block.bytes);
  return err;
}

/* ---- a batch ------------------------------------------------------------- */

template <class RUN> ts_err ts_bags_check_on(RUN &run, const ts_bags_args *a) {
  return ts_pack_with(run, [&](ts_pack_block &block) {
    ts_err err = TS_OK;
    const ts_pack_feature *f;
    int64_t most = 0;
    TS_TRY(block.bring(run, f, a->features, a->n_features));
    if (!block.at) return err;
    for (int32_t i = 0; i < a->n_features; i++)
      if (a->features[i].bags.n_ids > most) most = a->features[i].bags.n_ids;
    TS_TRY(run.clear(a->bad, sizeof *a->bad, 0xff));
    TS_TRY(run.launch(ts_bags_check_kernel,
                      ts_pack_grid(run, most, a->n_features), TS_SCAN_BLOCK, f,
                      a->n_features, (unsigned long long *)(void *)a->bad));
  done:
    return err;
  });
}

template <class RUN>
ts_err ts_bags_offsets_on(RUN &run, const ts_bags_args *a) {
  return ts_pack_with(run, [&](ts_pack_block &block) {
    ts_err err = TS_OK;
    const ts_pack_feature *f;
    TS_TRY(block.bring(run, f, a->features, a->n_features));
    if (!block.at) return err;
    TS_TRY(run.launch(ts_bags_offsets_kernel, ts_pack_rows(a->n_features),
                      TS_SCAN_BLOCK, f, a->n_features));
  done:
    return err;
  });
}

/* ---- sections ------------------------------------------------------------ */

template <class RUN>
ts_err ts_pack_bring(RUN &run, ts_pack_block &block, const ts_pack_args *a,
                     ts_pack_work *w) {
  ts_err err = TS_OK;
  TS_TRY(block.bring(run, w->sections, a->sections, a->n_sections));
  TS_TRY(block.bring(run, w->splits, a->splits, a->n_splits));
  TS_TRY(
      block.bring(run, w->parts, (const ts_pack_part *)a->parts, a->n_parts));
  w->n_sections = a->n_sections;
  w->n_splits = a->n_splits;
  w->n_parts = a->n_parts;
  w->bad = a->bad;
  w->words = a->words;
done:
  return err;
}

/* The most bags of a split. */
static inline int64_t ts_pack_split_bags(const ts_pack_args *a) {
  int64_t most = 0;
  for (int32_t k = 0; k < a->n_splits; k++)
    if (a->splits[k].n_bags > most) most = a->splits[k].n_bags;
  return most;
}

/* The most ids or bags of a section. */
static inline int64_t ts_pack_section_size(const ts_pack_args *a) {
  int64_t most = 0;
  for (int32_t i = 0; i < a->n_sections; i++) {
    const ts_pack_section *s = &a->sections[i];
    if (s->bags.n_ids > most) most = s->bags.n_ids;
    if (s->n_bags > most) most = s->n_bags;
  }
  return most;
}

template <class RUN>
ts_err ts_pack_measure_on(RUN &run, const ts_pack_args *a) {
  return ts_pack_with(run, [&](ts_pack_block &block) {
    ts_err err = TS_OK;
    ts_pack_work w;
    TS_TRY(ts_pack_bring(run, block, a, &w));
    if (!block.at) return err;
    if (w.n_sections)
      TS_TRY(run.launch(ts_pack_measure_kernel, ts_pack_rows(w.n_sections),
                        TS_SCAN_BLOCK, w));
    if (w.n_splits) {
      TS_TRY(run.launch(ts_split_count_kernel,
                        ts_pack_grid(run, ts_pack_split_bags(a), w.n_splits),
                        TS_SCAN_BLOCK, w));
      TS_TRY(run.launch(ts_split_scan_kernel, ts_pack_rows(w.n_parts),
                        TS_SCAN_BLOCK, w));
    }
  done:
    return err;
  });
}

template <class RUN> ts_err ts_pack_write_on(RUN &run, const ts_pack_args *a) {
  return ts_pack_with(run, [&](ts_pack_block &block) {
    ts_err err = TS_OK;
    ts_pack_work w;
    const int64_t bags = ts_pack_split_bags(a);
    TS_TRY(ts_pack_bring(run, block, a, &w));
    if (!block.at) return err;
    if (w.n_sections)
      TS_TRY(
          run.launch(ts_pack_write_kernel,
                     ts_pack_grid(run, ts_pack_section_size(a), w.n_sections),
                     TS_SCAN_BLOCK, w));
    if (w.n_splits) {
      TS_TRY(run.launch(ts_split_lengths_kernel,
                        ts_pack_grid(run, bags, w.n_parts), TS_SCAN_BLOCK, w));
      TS_TRY(run.launch(ts_split_ids_kernel,
                        ts_pack_grid(run, bags, w.n_splits), TS_SCAN_BLOCK, w));
    }
  done:
    return err;
  });
}

/* ---- distinct bags ------------------------------------------------------- */

static inline int ts_pack_bits(uint64_t most) {
  int n = 0;
  for (; most; most >>= 1) n++;
  return n;
}

template <class RUN>
ts_err ts_distinct_sort(RUN &run, const ts_distinct_work &w, uint32_t *values,
                        int64_t n, int n_bits) {
  ts_sort_args s = {};
  s.keys = w.keys;
  s.keys_scratch = w.keys_scratch;
  s.values = values;
  s.values_scratch = w.values_scratch;
  s.n = n;
  s.n_bits = n_bits;
  return run.sort(&s);
}

/* Ids of a sequence by their parts; members. */
template <class RUN>
ts_err ts_distinct_order(RUN &run, const ts_distinct_work &w,
                         const ts_distinct &d) {
  ts_err err = TS_OK;
  const dim3 grid = ts_pack_grid(run, (int64_t)d.n_out + 1, 1);
  if (d.n_parts) {
    TS_TRY(run.launch(ts_distinct_part_keys_kernel, grid, TS_SCAN_BLOCK, w, d));
    TS_TRY(ts_distinct_sort(run, w, w.values, d.n_out,
                            ts_pack_bits((uint64_t)d.n_parts)));
    TS_TRY(run.launch(ts_distinct_parts_kernel, grid, TS_SCAN_BLOCK, w, d));
    TS_TRY(run.launch(ts_distinct_moved_kernel, grid, TS_SCAN_BLOCK, d));
  }
  if (d.member_start) {
    TS_TRY(run.launch(ts_member_keys_kernel, grid, TS_SCAN_BLOCK, w, d));
    TS_TRY(ts_distinct_sort(run, w, (uint32_t *)(void *)d.member, d.n_out,
                            ts_pack_bits((uint64_t)d.n_out)));
    TS_TRY(run.launch(ts_member_starts_kernel, grid, TS_SCAN_BLOCK, w, d));
  }
done:
  return err;
}

template <class RUN>
ts_err ts_distinct_launch(RUN &run, const ts_distinct_args *a,
                          const ts_distinct_work &w, int64_t most) {
  ts_err err = TS_OK;
  const dim3 grid = ts_pack_grid(run, most, w.n_features);
  for (int32_t f = 0; f < a->n_features; f++)
    TS_TRY(
        run.clear(a->features[f].slot, (size_t)(a->features[f].mask + 1) * 4));
  TS_TRY(run.launch(ts_distinct_insert_kernel, grid, TS_SCAN_BLOCK, w));
  TS_TRY(run.launch(ts_distinct_number_kernel, ts_pack_rows(w.n_features),
                    TS_SCAN_BLOCK, w));
  TS_TRY(run.launch(ts_distinct_fill_kernel, grid, TS_SCAN_BLOCK, w));
  for (int32_t f = 0; f < a->n_features; f++)
    TS_TRY(ts_distinct_order(run, w, a->features[f]));
done:
  return err;
}

template <class RUN>
ts_err ts_bags_distinct_on(RUN &run, const ts_distinct_args *a) {
  return ts_pack_with(run, [&](ts_pack_block &block) {
    ts_err err = TS_OK;
    ts_distinct_work w;
    int64_t most = 0, total = 0;
    for (int32_t f = 0; f < a->n_features; f++) {
      total += a->features[f].n_out;
      if (a->features[f].n_out > most) most = a->features[f].n_out;
    }
    TS_TRY(block.bring(run, w.features, a->features, a->n_features));
    w.n_features = a->n_features;
    w.first = block.take<uint32_t>(total);
    w.keys = block.take<uint32_t>(most);
    w.keys_scratch = block.take<uint32_t>(most);
    w.values = block.take<uint32_t>(most);
    w.values_scratch = block.take<uint32_t>(most);
    if (block.at) err = ts_distinct_launch(run, a, w, most);
  done:
    return err;
  });
}

#endif
