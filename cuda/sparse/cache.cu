/* cache.cu - the cache of rows in slow memory: its entries in the table of
 * kernels.
 *
 * The cache's struct points to device memory; its slow rows are the host's,
 * pinned or read as they are.  The result is that of the host's
 * entries, bit for bit.  How many launches a hold has depends on the number of
 * its passes alone. */
#include "cuda/runtime/cuda_impl.h"
#include "cuda/sparse/cache_kernels.cuh"

/* Grids go on with a stride. */
template <class K, class... A>
static ts_err ts_cache_launch(K *kernel, int64_t n, int64_t per_block,
                              const A &...args) {
  if (n == 0) return TS_OK;
  return TS_CUDA_LAUNCH(kernel, ts_cuda_strided(n, per_block, TS_CACHE_BLOCK),
                        args...);
}

/* CUB's launches, at most: 4 passes over 32 bits, their histograms and sums,
 * zeros, copies back; flags and places of first entries. */
enum { TS_CACHE_SORT_LAUNCHES = 16, TS_CACHE_STARTS_LAUNCHES = 4 };

/* A hold on its way. */
struct ts_cache_holding {
  const ts_cache_args *a;
  int64_t launches = 0;
  /* scratch of one pass */
  size_t bytes = 0, temp_bytes = 0;
  ts_sort_args sort = {};
  uint32_t *start = nullptr, *n_runs = nullptr, *slot = nullptr;
  uint32_t *old = nullptr;
  char *temp = nullptr;

  explicit ts_cache_holding(const ts_cache_args *args) : a(args) {
  }
  void lay_out(char *block, int64_t n) {
    ts_cuda_pieces all = {block, 0};
    all.cut(&n_runs, 1);
    all.cut(&sort.keys, n);
    all.cut(&sort.keys_scratch, n);
    all.cut(&sort.values, n);
    all.cut(&sort.values_scratch, n);
    all.cut(&old, n);
    all.cut(&temp, (int64_t)temp_bytes);
    bytes = all.bytes;
    start = sort.keys_scratch; /* free after the sort */
    slot = sort.values_scratch;
  }
  template <class K, class... A>
  ts_err launch(K *kernel, int64_t n, int64_t per_block, const A &...args) {
    launches++;
    return ts_cache_launch(kernel, n, per_block, args...);
  }
  ts_err clear(void *p, size_t n) {
    launches++;
    return ts_cuda_set(p, 0, n);
  }

  /* The ids [from, to) in order of their rows' hashes, and their runs. */
  ts_err order(int64_t from, int64_t to) {
    ts_err err = TS_OK;
    const uint32_t *const slots = a->slots + from;
    sort.n = to - from;
    sort.n_bits = 32;
    TS_TRY(launch(ts_cache_keys_kernel, sort.n, TS_CACHE_BLOCK, *a->cache,
                  slots, sort.n, sort.keys, sort.values));
    TS_TRY(ts_cuda_sort(&sort));
    TS_TRY(clear(n_runs, sizeof *n_runs));
    TS_TRY(ts_cuda_starts(temp, &temp_bytes, sort.keys, sort.n, start, n_runs));
    launches += TS_CACHE_SORT_LAUNCHES + TS_CACHE_STARTS_LAUNCHES;
  done:
    return err;
  }
  ts_cache_work work(int64_t from, int mode) const {
    ts_cache_work w = {};
    w.c = *a->cache;
    w.now = a->now;
    w.mode = mode;
    w.slots = a->slots + from;
    w.keys = sort.keys;
    w.order = sort.values;
    w.start = start;
    w.n_runs = n_runs;
    w.slot = slot;
    w.old = old;
    w.n = sort.n;
    return w;
  }
  ts_err step(int64_t from, int64_t to, int mode) {
    ts_err err = TS_OK;
    ts_cache_work w;
    TS_TRY(order(from, to));
    w = work(from, mode);
    TS_TRY(launch(ts_cache_hold_kernel, w.n, TS_CACHE_BLOCK, w));
    if (mode & TS_CACHE_TAKE)
      TS_TRY(launch(ts_cache_move_kernel, w.n, TS_CACHE_BLOCK / 32, w));
    TS_TRY(launch(ts_cache_slots_kernel, w.n, TS_CACHE_BLOCK, w));
  done:
    return err;
  }
  ts_err steps(int64_t pass, int mode) {
    ts_err err = TS_OK;
    for (int64_t from = 0; from < a->n && err == TS_OK; from += pass)
      err = step(from, from + pass < a->n ? from + pass : a->n, mode);
    return err;
  }
};

/* Several passes look for all ids before the first one takes a line. */
ts_err ts_cuda_cache_hold(const ts_cache_args *a) {
  ts_err err = TS_OK;
  ts_cache_holding h(a);
  char *block = NULL;
  const int64_t pass = a->pass < a->n ? a->pass : a->n;
  if (a->n == 0) return TS_OK;
  if (pass >= INT64_C(1) << 31)
    return ts_fail(TS_ERR_INTERNAL, "%lld ids in one pass", (long long)pass);
  TS_TRY(ts_cuda_starts(NULL, &h.temp_bytes, NULL, pass, NULL, NULL));
  h.lay_out(NULL, pass);
  TS_TRY(ts_cuda_take(&block, h.bytes, TS_TAG_SPARSE));
  h.lay_out(block, pass);
  if (pass == a->n) {
    TS_TRY(h.steps(pass, TS_CACHE_FIND | TS_CACHE_TAKE));
  } else {
    TS_TRY(h.steps(pass, TS_CACHE_FIND));
    TS_TRY(h.steps(pass, TS_CACHE_TAKE));
  }
  if (a->cache->through) {
    TS_TRY(h.launch(ts_cache_clear_kernel, a->n, TS_CACHE_BLOCK, *a->cache,
                    a->slots, a->n));
    TS_TRY(h.clear(a->cache->locks + 1, sizeof *a->cache->locks));
  }
  if (a->report) {
    a->report->launches = h.launches;
    if (a->report->scratch_bytes < (int64_t)h.bytes)
      a->report->scratch_bytes = (int64_t)h.bytes;
  }
done:
  ts_cuda_give(block, h.bytes, TS_TAG_SPARSE);
  return err;
}

ts_err ts_cuda_cache_release(const ts_cache_args *a) {
  const uint32_t *const slots = a->slots;
  return ts_cache_launch(ts_cache_release_kernel, a->n, TS_CACHE_BLOCK,
                         *a->cache, a->round, slots, a->n);
}

ts_err ts_cuda_cache_refresh(const ts_cache_args *a) {
  return ts_cache_launch(ts_cache_refresh_kernel, a->n, TS_CACHE_BLOCK,
                         *a->cache, a->round, a->slots, a->n);
}

ts_err ts_cuda_cache_locate(const ts_cache_args *a) {
  return ts_cache_launch(ts_cache_locate_kernel, a->n, TS_CACHE_BLOCK,
                         *a->cache, a->slots, a->keys, a->n);
}

/* Flush (OUT), or reload. */
static ts_err all_lines(const ts_cache_args *a, bool out) {
  return ts_cache_launch(ts_cache_all_kernel, 32 * a->cache->n_sets,
                         TS_CACHE_BLOCK / 32, *a->cache, out);
}

ts_err ts_cuda_cache_flush(const ts_cache_args *a) {
  return all_lines(a, true);
}

ts_err ts_cuda_cache_reload(const ts_cache_args *a) {
  return all_lines(a, false);
}

/* The group's rows, by features; their bases travel with the launch. */
ts_err ts_cuda_cache_rows(const ts_cache_rows_args *a) {
  ts_err err = TS_OK;
  for (int32_t f = 0; f < a->n_features && err == TS_OK;
       f += TS_CACHE_FEATURES) {
    ts_cache_features some = {};
    const int32_t left = a->n_features - f;
    const int32_t n = left < TS_CACHE_FEATURES ? left : TS_CACHE_FEATURES;
    const unsigned per = ts_grid(a->n / a->n_features + 1, TS_CACHE_BLOCK,
                                 ts_cuda_blocks_most(TS_CACHE_BLOCK) / n + 1);
    for (int32_t i = 0; i < n; i++) some.base[i] = a->row_base[f + i];
    for (int32_t i = 0; i <= n; i++) some.bag[i] = a->bag_start[f + i];
    err = TS_CUDA_LAUNCH(ts_cache_rows_kernel,
                         {per * (unsigned)n, TS_CACHE_BLOCK}, some, per,
                         a->offsets, a->rows, a->out);
  }
  return err;
}
