/* distinct.cu - distinct bags, numbered by their first occurrence.
 *
 * All bags of a slot of the hash table have equal content, and the thread of
 * each leaves the lower number there.  So in the end a slot names the first of
 * its bags, however threads took turns.  Which slot that is depends on the
 * turns, but no result does. */
#include "cuda/shard/pack.cuh"

/* Features and scratch, on the device. */
struct ts_distinct_work {
  const ts_distinct *features;
  int32_t n_features;
  uint32_t *first; /* (n_out) of all features: bag of each distinct one */
  /* (n_out) of one feature, for sorts */
  uint32_t *keys, *keys_scratch, *values, *values_scratch;
};

struct ts_bag_of {
  int64_t from, n;
};
static __device__ __forceinline__ ts_bag_of ts_bag_at(const ts_distinct &d,
                                                      int64_t i) {
  if (d.sequence) return {i, 1};
  return {d.from_offsets[i], d.from_offsets[i + 1] - d.from_offsets[i]};
}

static __device__ __forceinline__ uint64_t ts_bag_mix(uint64_t h, uint64_t x) {
  h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
  return h ^ h >> 29;
}

static __device__ __forceinline__ const uint32_t *
ts_weight_bits(const ts_distinct &d) {
  return (const uint32_t *)(const void *)d.from.weights;
}

static __device__ __forceinline__ uint64_t ts_bag_hash(const ts_distinct &d,
                                                       ts_bag_of b) {
  uint64_t h = (uint64_t)b.n;
  for (int64_t k = b.from; k < b.from + b.n; k++)
    h = ts_bag_mix(h, (uint64_t)d.from.ids[k]);
  for (int64_t k = b.from; d.from.weights && k < b.from + b.n; k++)
    h = ts_bag_mix(h, ts_weight_bits(d)[k]);
  return h;
}

static __device__ __forceinline__ bool ts_bag_same(const ts_distinct &d,
                                                   ts_bag_of a, ts_bag_of b) {
  if (a.n != b.n) return false;
  for (int64_t k = 0; k < a.n; k++)
    if (d.from.ids[a.from + k] != d.from.ids[b.from + k]) return false;
  for (int64_t k = 0; d.from.weights && k < a.n; k++)
    if (ts_weight_bits(d)[a.from + k] != ts_weight_bits(d)[b.from + k])
      return false;
  return true;
}

/* Where feature F's part of scratch starts. */
static __device__ __forceinline__ int64_t
ts_distinct_start(const ts_distinct_work &w, int32_t f) {
  int64_t n = 0;
  for (int32_t i = 0; i < f; i++) n += w.features[i].n_out;
  return n;
}

/* Slots, which are zeros, get bag + 1; inverse the bag's slot. */
static __global__ void ts_distinct_insert_kernel(ts_distinct_work w) {
  for (int32_t f = (int32_t)blockIdx.y; f < w.n_features;
       f += (int32_t)gridDim.y) {
    const ts_distinct &d = w.features[f];
    ts_each<TS_SCAN_BLOCK>(d.n_out, [&](int64_t i) {
      const ts_bag_of b = ts_bag_at(d, i);
      const uint32_t me = (uint32_t)i + 1;
      uint64_t at = ts_bag_hash(d, b) & d.mask;
      for (;; at = (at + 1) & d.mask) {
        /* Slots of bags that come often are read, mostly. */
        uint32_t who = *(volatile uint32_t *)&d.slot[at];
        if (!who) who = atomicCAS(&d.slot[at], 0u, me);
        if (!who) break;
        if (!ts_bag_same(d, ts_bag_at(d, who - 1), b)) continue;
        if (me < who) atomicMin(&d.slot[at], me);
        break;
      }
      d.inverse[i] = (int32_t)at;
    });
  }
}

/* Slots get their number + 1, which is at most what they hold: no later bag
 * takes it for its own.  A block has a feature. */
static __global__ void ts_distinct_number_kernel(ts_distinct_work w) {
  for (int32_t f = (int32_t)blockIdx.x; f < w.n_features;
       f += (int32_t)gridDim.x) {
    const ts_distinct &d = w.features[f];
    uint32_t *first = w.first + ts_distinct_start(w, f);
    const int32_t n = ts_scan_row<int32_t>(
        d.n_out,
        [&](int64_t i) { return d.slot[d.inverse[i]] == (uint32_t)i + 1; },
        [&](int64_t i, int32_t number) {
          if (d.slot[d.inverse[i]] != (uint32_t)i + 1) return;
          first[number] = (uint32_t)i;
          d.slot[d.inverse[i]] = (uint32_t)number + 1;
        });
    __syncthreads(); /* the firsts are there for all */
    const int64_t n_ids = ts_scan_row<int64_t>(
        n, [&](int64_t k) { return ts_bag_at(d, first[k]).n; },
        [&](int64_t k, int64_t before) {
          d.start[k] = before;
          d.lengths[k] = (int32_t)ts_bag_at(d, first[k]).n;
        });
    if (threadIdx.x == 0) {
      d.start[n] = n_ids;
      d.found[0] = n;
      d.found[1] = n_ids;
    }
  }
}

/* Copies ids and weights of the distinct bag K, by LANES threads of which this
 * is one. */
static __device__ __forceinline__ void ts_distinct_copy(const ts_distinct &d,
                                                        const uint32_t *first,
                                                        int64_t k, int lane,
                                                        int lanes) {
  const ts_bag_of b = ts_bag_at(d, first[k]);
  const int64_t to = d.start[k];
  for (int64_t i = lane; i < b.n; i += lanes)
    d.ids[to + i] = d.from.ids[b.from + i];
  for (int64_t i = lane; d.from.weights && i < b.n; i += lanes)
    ((uint32_t *)(void *)d.weights)[to + i] = ts_weight_bits(d)[b.from + i];
}

/* Inverse, and the contents of the distinct bags: a warp copies a bag, a thread
 * an id of a sequence. */
static __global__ void ts_distinct_fill_kernel(ts_distinct_work w) {
  for (int32_t f = (int32_t)blockIdx.y; f < w.n_features;
       f += (int32_t)gridDim.y) {
    const ts_distinct &d = w.features[f];
    const uint32_t *first = w.first + ts_distinct_start(w, f);
    const int lanes = d.sequence ? 1 : 32;
    ts_each<TS_SCAN_BLOCK>(d.n_out, [&](int64_t i) {
      d.inverse[i] = (int32_t)d.slot[d.inverse[i]] - 1;
    });
    ts_each<TS_SCAN_BLOCK>(d.found[0] * lanes, [&](int64_t i) {
      ts_distinct_copy(d, first, i / lanes, (int)(i % lanes), lanes);
    });
  }
}

/* ---- sequences cut by rows, members -------------------------------------- */

static __device__ __forceinline__ uint32_t ts_row_part(const ts_distinct &d,
                                                       int64_t id) {
  if (d.hashed) return (uint32_t)ts_index_shard(id, d.n_parts);
  return (uint32_t)ts_last_at(d.n_parts, id,
                              [&](int32_t k) { return d.row0[k]; });
}

/* Distinct ids by their parts; places beyond the last come after all. */
static __global__ void ts_distinct_part_keys_kernel(ts_distinct_work w,
                                                    ts_distinct d) {
  const int64_t n = d.found[0];
  ts_each<TS_SCAN_BLOCK>(d.n_out, [&](int64_t k) {
    w.keys[k] = k < n ? ts_row_part(d, d.ids[k]) : (uint32_t)d.n_parts;
    w.values[k] = (uint32_t)k;
  });
}

static __global__ void ts_distinct_parts_kernel(ts_distinct_work w,
                                                ts_distinct d) {
  const int64_t n = d.found[0];
  int64_t *part = d.found + 2;
  ts_each<TS_SCAN_BLOCK>(n + 1, [&](int64_t t) {
    /* part[p] = ids of the parts before */
    const int32_t before = t ? (int32_t)w.keys[t - 1] : -1;
    const int32_t now = t < n ? (int32_t)w.keys[t] : d.n_parts;
    for (int32_t p = before + 1; p <= now; p++) part[p] = t;
    if (t == n) return;
    d.slot[w.values[t]] = (uint32_t)t;
    d.start[t] = d.ids[w.values[t]];
  });
}

static __global__ void ts_distinct_moved_kernel(ts_distinct d) {
  ts_each<TS_SCAN_BLOCK>(d.n_out, [&](int64_t i) {
    d.inverse[i] = (int32_t)d.slot[d.inverse[i]];
  });
}

static __global__ void ts_member_keys_kernel(ts_distinct_work w,
                                             ts_distinct d) {
  ts_each<TS_SCAN_BLOCK>(d.n_out, [&](int64_t i) {
    w.keys[i] = (uint32_t)d.inverse[i];
    d.member[i] = (int32_t)i;
  });
}

static __global__ void ts_member_starts_kernel(ts_distinct_work w,
                                               ts_distinct d) {
  ts_each<TS_SCAN_BLOCK>((int64_t)d.n_out + 1, [&](int64_t t) {
    if (t == d.n_out)
      d.member_start[d.found[0]] = d.n_out;
    else if (t == 0 || w.keys[t] != w.keys[t - 1])
      d.member_start[w.keys[t]] = (int32_t)t;
  });
}

/* ---- launches ------------------------------------------------------------ */

static int bits_of(uint64_t most) {
  int n = 0;
  for (; most; most >>= 1) n++;
  return n;
}

static ts_err sort(const ts_distinct_work &w, uint32_t *values, int64_t n,
                   int n_bits) {
  ts_sort_args s = {};
  s.keys = w.keys;
  s.keys_scratch = w.keys_scratch;
  s.values = values;
  s.values_scratch = w.values_scratch;
  s.n = n;
  s.n_bits = n_bits;
  return ts_cuda_sort(&s);
}

/* Ids of a sequence by their parts; members. */
static ts_err order(const ts_distinct_work &w, const ts_distinct &d) {
  const ts_cuda_shape shape = ts_pack_items((int64_t)d.n_out + 1, 1);
  if (d.n_parts) {
    TS_DO(TS_CUDA_LAUNCH(ts_distinct_part_keys_kernel, shape, w, d));
    TS_DO(sort(w, w.values, d.n_out, bits_of((uint64_t)d.n_parts)));
    TS_DO(TS_CUDA_LAUNCH(ts_distinct_parts_kernel, shape, w, d));
    TS_DO(TS_CUDA_LAUNCH(ts_distinct_moved_kernel, shape, d));
  }
  if (d.member_start) {
    TS_DO(TS_CUDA_LAUNCH(ts_member_keys_kernel, shape, w, d));
    TS_DO(sort(w, (uint32_t *)(void *)d.member, d.n_out,
               bits_of((uint64_t)d.n_out)));
    TS_DO(TS_CUDA_LAUNCH(ts_member_starts_kernel, shape, w, d));
  }
  return TS_OK;
}

static ts_err launch(const ts_distinct_args *a, const ts_distinct_work &w,
                     int64_t most) {
  const ts_cuda_shape shape = ts_pack_items(most, w.n_features);
  for (int32_t f = 0; f < a->n_features; f++)
    TS_DO(ts_cuda_set(a->features[f].slot, 0,
                      (size_t)(a->features[f].mask + 1) * 4));
  TS_DO(TS_CUDA_LAUNCH(ts_distinct_insert_kernel, shape, w));
  TS_DO(
      TS_CUDA_LAUNCH(ts_distinct_number_kernel, ts_pack_rows(w.n_features), w));
  TS_DO(TS_CUDA_LAUNCH(ts_distinct_fill_kernel, shape, w));
  for (int32_t f = 0; f < a->n_features; f++) TS_DO(order(w, a->features[f]));
  return TS_OK;
}

ts_err ts_cuda_bags_distinct(const ts_distinct_args *a) {
  ts_distinct_work w;
  int64_t most = 0, total = 0;
  for (int32_t f = 0; f < a->n_features; f++) {
    total += a->features[f].n_out;
    if (a->features[f].n_out > most) most = a->features[f].n_out;
  }
  w.n_features = a->n_features;
  return ts_pack_with(
      [&](ts_cuda_pieces *all) {
        all->cut(&w.first, total);
        all->cut(&w.keys, most);
        all->cut(&w.keys_scratch, most);
        all->cut(&w.values, most);
        all->cut(&w.values_scratch, most);
        return ts_pack_bring(all, &w.features, a->features, a->n_features);
      },
      [&] { return launch(a, w, most); });
}
