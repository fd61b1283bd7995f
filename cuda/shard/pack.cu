/* pack.cu - input dist's sending side: ids are checked, counted by the shards
 * that they go to, and written into the messages.
 *
 * Bags that are spread over shards: a thread has a bag and a row of counters,
 * one for each shard, beside those of its neighbours.  Scans of the counters
 * over the bags give every id its place, in the order of the host. */
#include "cuda/shard/pack.cuh"

/* The largest VALUE of the block's threads, >= 0. */
static __device__ __forceinline__ int ts_block_max(int value) {
  __shared__ int most;
  __syncthreads();
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  if (value > 0) atomicMax(&most, value);
  __syncthreads();
  return most;
}

/* ---- a batch ------------------------------------------------------------- */

/* *BAD starts as the largest number: none. */
static __global__ void ts_bags_check_kernel(const ts_pack_feature *features,
                                            int32_t n_features,
                                            unsigned long long *bad) {
  for (int32_t f = (int32_t)blockIdx.y; f < n_features;
       f += (int32_t)gridDim.y) {
    const ts_jagged &j = features[f].bags;
    const uint64_t rows = (uint64_t)features[f].rows;
    if (features[f].rows == TS_ROWS_DYNAMIC) continue;
    ts_each<TS_SCAN_BLOCK>(j.n_ids, [&](int64_t k) {
      if ((uint64_t)j.ids[k] < rows) return;
      int64_t before = 0;
      for (int32_t i = 0; i < f; i++) before += features[i].bags.n_ids;
      atomicMin(bad, (unsigned long long)(before + k));
    });
  }
}

/* A block has a feature. */
static __global__ void ts_bags_offsets_kernel(const ts_pack_feature *features,
                                              int32_t n_features) {
  for (int32_t f = (int32_t)blockIdx.x; f < n_features;
       f += (int32_t)gridDim.x) {
    const ts_pack_feature &p = features[f];
    const int32_t *lengths = p.bags.lengths;
    for (int32_t b = (int32_t)threadIdx.x; p.lengths && b < p.n_bags;
         b += TS_SCAN_BLOCK)
      p.lengths[b] = (int32_t)(p.offsets[b + 1] - p.offsets[b]);
    if (!p.offsets || p.lengths) continue;
    const int64_t total = ts_scan_row<int64_t>(
        p.n_bags, [&](int64_t b) { return lengths ? lengths[b] : 1; },
        [&](int64_t b, int64_t before) { p.offsets[b] = before; });
    if (threadIdx.x == 0) p.offsets[p.n_bags] = total;
  }
}

/* run(features) with the features of A on the device. */
template <class Run>
static ts_err with_features(const ts_bags_args *a, Run run) {
  const ts_pack_feature *f;
  return ts_pack_with(
      [&](ts_cuda_pieces *all) {
        return ts_pack_bring(all, &f, a->features, a->n_features);
      },
      [&] { return run(f); });
}

ts_err ts_cuda_bags_check(const ts_bags_args *a) {
  return with_features(a, [=](const ts_pack_feature *f) {
    int64_t most = 0;
    for (int32_t i = 0; i < a->n_features; i++)
      if (a->features[i].bags.n_ids > most) most = a->features[i].bags.n_ids;
    const ts_err err = ts_cuda_set(a->bad, 0xff, sizeof *a->bad);
    if (err != TS_OK) return err;
    return TS_CUDA_LAUNCH(ts_bags_check_kernel,
                          ts_pack_items(most, a->n_features), f, a->n_features,
                          (unsigned long long *)(void *)a->bad);
  });
}

ts_err ts_cuda_bags_offsets(const ts_bags_args *a) {
  return with_features(a, [=](const ts_pack_feature *f) {
    return TS_CUDA_LAUNCH(ts_bags_offsets_kernel, ts_pack_rows(a->n_features),
                          f, a->n_features);
  });
}

/* ---- what goes where ----------------------------------------------------- */

/* Arrays of ts_pack_args, on the device. */
struct ts_pack_work {
  const ts_pack_section *sections;
  const ts_pack_split *splits;
  const ts_pack_part *parts;
  int32_t n_sections, n_splits, n_parts;
  const int64_t *bad;
  int64_t *words;
};

static __global__ void ts_pack_measure_kernel(ts_pack_work w) {
  if (*w.bad != TS_NO_BAD_ID) return;
  for (int32_t i = (int32_t)blockIdx.x; i < w.n_sections;
       i += (int32_t)gridDim.x) {
    const ts_pack_section &s = w.sections[i];
    int most = 0;
    for (int32_t b = (int32_t)threadIdx.x; s.bags.lengths && b < s.n_bags;
         b += TS_SCAN_BLOCK)
      most = max(most, s.bags.lengths[b]);
    most = ts_block_max(most);
    const int form = !s.bags.lengths ? TS_FORM_ONE
                     : most < 256    ? TS_FORM_BYTES
                                     : TS_FORM_INTS;
    if (threadIdx.x == 0)
      w.words[s.route] = s.bags.n_ids << TS_FORM_BITS | form;
  }
}

/* The part of X, of those at PARTS, that has ID. */
static __device__ __forceinline__ int32_t ts_part_of(const ts_pack_split &x,
                                                     const ts_pack_part *parts,
                                                     int64_t id) {
  if (x.hashed) return ts_index_shard(id, x.n_parts);
  if (x.block) return (int32_t)(id / x.block);
  return ts_last_at(x.n_parts, id, [=](int32_t k) { return parts[k].row0; });
}

static __global__ void ts_split_count_kernel(ts_pack_work w) {
  if (*w.bad != TS_NO_BAD_ID) return;
  for (int32_t k = (int32_t)blockIdx.y; k < w.n_splits;
       k += (int32_t)gridDim.y) {
    const ts_pack_split &x = w.splits[k];
    const ts_pack_part *parts = w.parts + x.first;
    ts_each<TS_SCAN_BLOCK>(x.n_bags, [&](int64_t b) {
      for (int32_t p = 0; p < x.n_all; p++) parts[p].start[b] = 0;
      for (int64_t i = x.offsets[b]; i < x.offsets[b + 1]; i++)
        parts[ts_part_of(x, parts, x.bags.ids[i])].start[b]++;
    });
  }
}

/* The split that part P is of. */
static __device__ __forceinline__ const ts_pack_split &
ts_split_of(const ts_pack_work &w, int32_t p) {
  int32_t k = 0;
  while (k + 1 < w.n_splits && w.splits[k + 1].first <= p) k++;
  return w.splits[k];
}

/* Counts become starts; a block has a part. */
static __global__ void ts_split_scan_kernel(ts_pack_work w) {
  if (*w.bad != TS_NO_BAD_ID) return;
  for (int32_t p = (int32_t)blockIdx.x; p < w.n_parts;
       p += (int32_t)gridDim.x) {
    const int32_t n = ts_split_of(w, p).n_bags;
    int32_t *start = w.parts[p].start;
    int most = 0;
    const int32_t total = ts_scan_row<int32_t>(
        n,
        [&](int64_t b) {
          most = max(most, start[b]);
          return start[b];
        },
        [&](int64_t b, int32_t before) { start[b] = before; });
    most = ts_block_max(most);
    if (threadIdx.x == 0) {
      start[n] = total;
      w.words[w.parts[p].route] = (int64_t)total << TS_FORM_BITS |
                                  (most < 256 ? TS_FORM_BYTES : TS_FORM_INTS);
    }
  }
}

/* ---- writing ------------------------------------------------------------- */

static __device__ __forceinline__ void
ts_put_length(const ts_layout &to, int64_t b, int32_t length) {
  if (to.form == TS_FORM_BYTES)
    ((uint8_t *)to.lengths)[b] = (uint8_t)length;
  else
    ((int32_t *)(void *)to.lengths)[b] = length;
}

/* ts_put_row and ts_position of the host. */
static __device__ __forceinline__ void ts_store_row(const ts_layout &to,
                                                    int64_t n, int64_t row) {
  if (to.id_bytes == 1) ((uint8_t *)to.rows)[n] = (uint8_t)row;
  if (to.id_bytes == 2) ((uint16_t *)(void *)to.rows)[n] = (uint16_t)row;
  if (to.id_bytes == 4) ((int32_t *)(void *)to.rows)[n] = (int32_t)row;
  if (to.id_bytes == 8) { /* at multiples of 4 */
    ((uint32_t *)(void *)to.rows)[2 * n] = (uint32_t)row;
    ((uint32_t *)(void *)to.rows)[2 * n + 1] = (uint32_t)((uint64_t)row >> 32);
  }
}
static __device__ __forceinline__ uint16_t ts_place_in_bag(int64_t place) {
  return place < UINT16_MAX ? (uint16_t)place : UINT16_MAX;
}

static __global__ void ts_pack_write_kernel(ts_pack_work w) {
  if (*w.bad != TS_NO_BAD_ID) return;
  for (int32_t i = (int32_t)blockIdx.y; i < w.n_sections;
       i += (int32_t)gridDim.y) {
    const ts_pack_section &s = w.sections[i];
    const ts_layout &to = s.to;
    const ts_jagged &j = s.bags;
    if (to.form != TS_FORM_ONE)
      ts_each<TS_SCAN_BLOCK>(
          s.n_bags, [&](int64_t b) { ts_put_length(to, b, j.lengths[b]); });
    if (to.id_bytes)
      ts_each<TS_SCAN_BLOCK>(
          j.n_ids, [&](int64_t k) { ts_store_row(to, k, j.ids[k] - s.row0); });
    /* As words: heads come this way, too. */
    if (to.weights)
      ts_each<TS_SCAN_BLOCK>(j.n_ids, [&](int64_t k) {
        ((uint32_t *)(void *)to.weights)[k] =
            ((const uint32_t *)(const void *)j.weights)[k];
      });
  }
}

/* Before the ids: their starts move on while they are written. */
static __global__ void ts_split_lengths_kernel(ts_pack_work w) {
  if (*w.bad != TS_NO_BAD_ID) return;
  for (int32_t p = (int32_t)blockIdx.y; p < w.n_parts;
       p += (int32_t)gridDim.y) {
    const int32_t *start = w.parts[p].start;
    ts_each<TS_SCAN_BLOCK>(ts_split_of(w, p).n_bags, [&](int64_t b) {
      ts_put_length(w.parts[p].to, b, start[b + 1] - start[b]);
    });
  }
}

static __global__ void ts_split_ids_kernel(ts_pack_work w) {
  if (*w.bad != TS_NO_BAD_ID) return;
  for (int32_t k = (int32_t)blockIdx.y; k < w.n_splits;
       k += (int32_t)gridDim.y) {
    const ts_pack_split &x = w.splits[k];
    const ts_pack_part *parts = w.parts + x.first;
    ts_each<TS_SCAN_BLOCK>(x.n_bags, [&](int64_t b) {
      const int64_t first = x.offsets[b], end = x.offsets[b + 1];
      for (int64_t i = first; i < end; i++) {
        const int64_t id = x.bags.ids[i];
        const ts_pack_part &p = parts[ts_part_of(x, parts, id)];
        const int32_t at = p.start[b]++;
        ts_store_row(p.to, at, id - p.row0);
        if (p.to.weights) p.to.weights[at] = x.bags.weights[i];
        if (p.to.positions) p.to.positions[at] = ts_place_in_bag(i - first);
      }
    });
  }
}

/* ---- launches of sections ------------------------------------------------ */

/* run(work) with the arrays of A on the device. */
template <class Run> static ts_err with_work(const ts_pack_args *a, Run run) {
  ts_pack_work w = {NULL,        NULL,       NULL,   a->n_sections,
                    a->n_splits, a->n_parts, a->bad, a->words};
  const auto bring = [&](ts_cuda_pieces *all) {
    ts_err err = TS_OK;
    TS_TRY(ts_pack_bring(all, &w.sections, a->sections, a->n_sections));
    TS_TRY(ts_pack_bring(all, &w.splits, a->splits, a->n_splits));
    TS_TRY(ts_pack_bring(all, &w.parts, (const ts_pack_part *)a->parts,
                         a->n_parts));
  done:
    return err;
  };
  return ts_pack_with(bring, [&] { return run(w); });
}

/* The most bags of a split. */
static int64_t split_bags(const ts_pack_args *a) {
  int64_t most = 0;
  for (int32_t k = 0; k < a->n_splits; k++)
    if (a->splits[k].n_bags > most) most = a->splits[k].n_bags;
  return most;
}

/* The most ids or bags of a section. */
static int64_t section_size(const ts_pack_args *a) {
  int64_t most = 0;
  for (int32_t i = 0; i < a->n_sections; i++) {
    const ts_pack_section *s = &a->sections[i];
    if (s->bags.n_ids > most) most = s->bags.n_ids;
    if (s->n_bags > most) most = s->n_bags;
  }
  return most;
}

ts_err ts_cuda_pack_measure(const ts_pack_args *a) {
  return with_work(a, [=](const ts_pack_work &w) {
    ts_err err = TS_OK;
    if (w.n_sections)
      TS_TRY(TS_CUDA_LAUNCH(ts_pack_measure_kernel, ts_pack_rows(w.n_sections),
                            w));
    if (w.n_splits) {
      TS_TRY(TS_CUDA_LAUNCH(ts_split_count_kernel,
                            ts_pack_items(split_bags(a), w.n_splits), w));
      TS_TRY(TS_CUDA_LAUNCH(ts_split_scan_kernel, ts_pack_rows(w.n_parts), w));
    }
  done:
    return err;
  });
}

ts_err ts_cuda_pack_write(const ts_pack_args *a) {
  return with_work(a, [=](const ts_pack_work &w) {
    ts_err err = TS_OK;
    const int64_t bags = split_bags(a);
    if (w.n_sections)
      TS_TRY(TS_CUDA_LAUNCH(ts_pack_write_kernel,
                            ts_pack_items(section_size(a), w.n_sections), w));
    if (w.n_splits) {
      TS_TRY(TS_CUDA_LAUNCH(ts_split_lengths_kernel,
                            ts_pack_items(bags, w.n_parts), w));
      TS_TRY(TS_CUDA_LAUNCH(ts_split_ids_kernel,
                            ts_pack_items(bags, w.n_splits), w));
    }
  done:
    return err;
  });
}
