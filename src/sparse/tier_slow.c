/* tier_slow.c - rows in slow memory, with lines of fast memory in front of
 * them ("cached"), or none ("host").
 *
 * Kernels keep the lines (sparse/cache.h).  Where the memory of the device is
 * the host's, rows and lines are one range of addresses (runtime/store.h).
 * Where it is not, rows are the host's memory, which kernels reach, and lines
 * and their directory are the device's: then kernels get the addresses of
 * both (lines, first_line), a hold is some launches, and no size or count
 * comes back to the host before figures are asked for. */
#include <string.h>

#include "base/mem.h"
#include "runtime/store.h"
#include "sparse/cache.h"
#include "sparse/hold_clock.h"
#include "sparse/tier.h"

extern const ts_tier_ops ts_tier_cached, ts_tier_host;

/* One array: weights, or a state of dim floats. */
typedef struct ts_reached {
  ts_store store;  /* rows, and lines unless the device is discrete */
  void *seen;      /* rows, by kernels; NULL: not reached */
  ts_buffer lines; /* of a discrete device */
} ts_reached;

typedef struct ts_slow {
  ts_tier base;
  ts_tier_spec spec;
  ts_device *device;
  bool discrete; /* the device has memory of its own */
  ts_reached array[1 + TS_ROW_STATES_MAX]; /* weights, states */
  ts_buffer row_state[TS_ROW_STATES_MAX];  /* of one float per row */
  ts_buffer directory;
  ts_cache cache;
  int64_t n_lines, line_bytes;
  ts_tier_count *count;
  double *table_s, known_s; /* seconds of each table, of all together */
  uint64_t *raw;            /* counts, then locks, as last fetched */
  uint32_t now, round;
  ts_cache_report report;
  ts_hold_clock clock;
  int32_t n_held;
} ts_slow;

/* ---- making one ---------------------------------------------------------- */

static void drop_array(ts_slow *t, ts_reached *a) {
  ts_buffer_reset(&a->lines);
  if (a->seen) ts_device_unreach(t->device, a->store.base, !t->spec.dir);
  ts_store_reset(&a->store);
}

static void destroy(ts_tier *tier) {
  ts_slow *t = (ts_slow *)tier;
  if (!t) return;
  for (int k = 0; k <= TS_ROW_STATES_MAX; k++) drop_array(t, &t->array[k]);
  for (int k = 0; k < TS_ROW_STATES_MAX; k++) ts_buffer_reset(&t->row_state[k]);
  ts_buffer_reset(&t->directory);
  ts_hold_clock_reset(&t->clock);
  ts_mem_free(t->report.scratch);
  ts_mem_free_all(t->count, t->table_s);
  ts_mem_free(t->raw);
  ts_mem_free(t);
}

static ts_err create_array(ts_slow *t, int k, int64_t bytes, ts_tag tag) {
  ts_reached *a = &t->array[k];
  t->line_bytes += bytes;
  TS_DO(ts_store_create(&a->store, t->spec.dir, t->spec.n_rows,
                        t->discrete ? 0 : t->n_lines, bytes, tag));
  TS_DO(ts_device_reach(t->device, &a->seen, a->store.base,
                        (size_t)a->store.slow_bytes, !t->spec.dir));
  if (t->discrete)
    TS_DO(ts_buffer_create(&a->lines, t->device, (size_t)(t->n_lines * bytes),
                           TS_SPACE_DEVICE, tag));
  if (!t->n_lines) return TS_OK;
  ts_cache_part *p = &t->cache.part[t->cache.n_parts++];
  *p = (ts_cache_part){.rows = a->seen, .lines = a->lines.ptr, .bytes = bytes};
  if (!t->discrete) p->lines = ts_store_at(&a->store, t->cache.first_line);
  if (!t->discrete) p->store = &a->store;
  return TS_OK;
}

static ts_err create_arrays(ts_slow *t) {
  const ts_tier_spec *s = &t->spec;
  TS_DO(create_array(t, 0, ts_row_bytes(s->dtype, s->dim), TS_TAG_TABLES));
  for (int k = 0; k < s->n_states; k++)
    if (s->state_per_row[k])
      TS_DO(ts_buffer_create(&t->row_state[k], t->device, (size_t)s->n_rows * 4,
                             TS_SPACE_DEVICE, TS_TAG_ROW_STATE));
    else
      TS_DO(create_array(t, 1 + k, 4 * (int64_t)s->state_cols[k],
                         TS_TAG_ROW_STATE));
  return TS_OK;
}

/* A piece of the directory's one block; counts while there is none. */
static void *cut(char *block, size_t *at, size_t bytes) {
  void *piece = block && bytes ? block + *at : NULL;
  *at += (bytes + 255) / 256 * 256;
  return piece;
}

static size_t counts_bytes(const ts_slow *t) {
  return (size_t)t->spec.n_tables * TS_CACHE_COUNTS * 8;
}

static size_t lay_out(ts_slow *t, char *block) {
  ts_cache *c = &t->cache;
  const ts_tier_spec *s = &t->spec;
  size_t at = 0;
  c->tag = cut(block, &at, (size_t)t->n_lines * sizeof *c->tag);
  c->line = cut(block, &at, (size_t)t->n_lines * sizeof *c->line);
  c->row_base = cut(block, &at, ((size_t)s->n_tables + 1) * 8);
  c->through =
      cut(block, &at, (size_t)ts_cache_through_bytes(s->n_rows, s->passes));
  c->counts = cut(block, &at, counts_bytes(t) + 16); /* locks behind them */
  if (block) c->locks = c->counts + (size_t)s->n_tables * TS_CACHE_COUNTS;
  return at;
}

static ts_cache_args args_of(const ts_slow *t) {
  return (ts_cache_args){.cache = &t->cache, .now = t->now, .round = t->round};
}

/* Waits for what was enqueued outside of tasks. */
static ts_err fetch_counts(ts_slow *t) {
  return t->spec.kernels->fetch(t->raw, t->cache.counts, counts_bytes(t) + 16);
}

/* A reload of lines that nobody uses frees them. */
static ts_err create_directory(ts_slow *t) {
  const ts_tier_spec *s = &t->spec;
  t->cache.n_sets = t->n_lines / TS_CACHE_WAYS;
  t->cache.lfu = s->lfu;
  t->cache.n_tables = s->n_tables;
  TS_DO(ts_mem_alloc(&t->raw, counts_bytes(t) + 16, TS_TAG_MISC));
  TS_DO(ts_buffer_create(&t->directory, t->device, lay_out(t, NULL),
                         TS_SPACE_DEVICE, TS_TAG_TABLES));
  (void)lay_out(t, t->directory.ptr);
  TS_DO(s->kernels->put((void *)(uintptr_t)t->cache.row_base, s->row_base,
                        ((size_t)s->n_tables + 1) * 8));
  const ts_cache_args a = args_of(t);
  TS_DO(s->kernels->cache_reload(&a));
  return fetch_counts(t);
}

static ts_err create(ts_tier **out, ts_device *device, const ts_tier_spec *spec,
                     const ts_tier_ops *ops) {
  ts_err err = TS_OK;
  ts_slow *t = NULL;
  const int64_t first = ts_store_first_line(spec->n_rows);
  TS_TRY(ts_mem_alloc(&t, sizeof *t, TS_TAG_MISC));
  t->base.ops = ops;
  t->spec = *spec;
  t->device = device;
  t->discrete = ts_device_is_discrete(device);
  t->cache.by_number = !t->discrete;
  if (ops->cached)
    t->n_lines = ts_cache_lines_for(spec->n_rows, spec->load_factor);
  if (first + t->n_lines > INT32_MAX)
    TS_THROW(TS_ERR_DECK,
             "%lld rows on one rank in slow memory; a group takes %d with its "
             "lines: use more ranks or row_wise",
             (long long)spec->n_rows, INT32_MAX);
  t->cache.first_line = (uint32_t)first;
  TS_TRY(ts_mem_many(t->count, spec->n_tables, MISC));
  TS_TRY(ts_mem_many(t->table_s, spec->n_tables, MISC));
  TS_TRY(create_arrays(t));
  if (ops->cached) TS_TRY(create_directory(t));
  *out = &t->base;
  t = NULL;
done:
  destroy((ts_tier *)t);
  return err;
}

static ts_err create_cached(ts_tier **out, ts_device *d,
                            const ts_tier_spec *spec) {
  return create(out, d, spec, &ts_tier_cached);
}

static ts_err create_host(ts_tier **out, ts_device *d,
                          const ts_tier_spec *spec) {
  return create(out, d, spec, &ts_tier_host);
}

/* ---- batches ------------------------------------------------------------- */

static int64_t pass_size(const ts_slow *t, int64_t n) {
  const ts_tier_spec *s = &t->spec;
  const int32_t passes = ts_cache_passes_for(s->passes, t->discrete);
  if (n <= s->passes) return n;
  const int64_t even = (n + passes - 1) / passes;
  return even > s->min_pass ? even : s->min_pass;
}

static ts_err hold(ts_tier *tier, uint32_t *slots, int64_t n, ts_lane *lane) {
  ts_slow *t = (ts_slow *)tier;
  t->now++;
  t->n_held++;
  ts_cache_args a = args_of(t);
  a.slots = slots;
  a.n = n;
  a.pass = pass_size(t, n);
  a.report = &t->report;
  TS_DO(ts_hold_begin(&t->clock, lane));
  TS_DO(t->spec.kernels->cache_hold(&a));
  TS_DO(ts_hold_end(&t->clock));
  if (t->report.launches >= TS_CACHE_LAUNCHES_MAX)
    return ts_fail(TS_ERR_INTERNAL, "%lld launches for one batch of rows",
                   (long long)t->report.launches);
  return TS_OK;
}

static ts_err no_locks(uint64_t n) {
  return n ? ts_fail(TS_ERR_INTERNAL, "%lld locks on lines are left",
                     (long long)n)
           : TS_OK;
}

static ts_err release(ts_tier *tier, const uint32_t *slots, int64_t n,
                      ts_lane *lane) {
  (void)lane;
  ts_slow *t = (ts_slow *)tier;
  t->round++;
  t->n_held--;
  ts_cache_args a = args_of(t);
  a.slots = (uint32_t *)(uintptr_t)slots; /* only read */
  a.n = n;
  TS_DO(t->spec.kernels->cache_release(&a));
  if (!t->n_held && !t->discrete) TS_DO(no_locks(*t->cache.locks));
  return TS_OK;
}

static ts_err refresh(ts_tier *tier, uint32_t *slots, int64_t n) {
  ts_slow *t = (ts_slow *)tier;
  t->round++;
  ts_cache_args a = args_of(t);
  a.slots = slots;
  a.n = n;
  return t->spec.kernels->cache_refresh(&a);
}

static ts_err locate(ts_tier *tier, uint32_t *slots, const uint32_t *keys,
                     int64_t n) {
  const ts_slow *t = (ts_slow *)tier;
  ts_cache_args a = args_of(t);
  a.slots = slots;
  a.keys = keys;
  a.n = n;
  return t->spec.kernels->cache_locate(&a);
}

/* ---- whole rows ---------------------------------------------------------- */

/* The host reads the rows next, so it waits.  A device's locks are looked at
 * here, where that costs nothing. */
static ts_err flush(ts_tier *tier) {
  ts_slow *t = (ts_slow *)tier;
  const ts_cache_args a = args_of(t);
  if (!t->n_lines) return TS_OK;
  TS_DO(t->spec.kernels->cache_flush(&a));
  TS_DO(fetch_counts(t));
  if (!t->n_held) TS_DO(no_locks(t->raw[t->spec.n_tables * TS_CACHE_COUNTS]));
  return TS_OK;
}

static ts_err reload(ts_tier *tier) {
  ts_slow *t = (ts_slow *)tier;
  const ts_cache_args a = args_of(t);
  if (t->n_lines) {
    TS_DO(t->spec.kernels->cache_reload(&a));
    TS_DO(fetch_counts(t));
  }
  for (int k = 0; k <= TS_ROW_STATES_MAX; k++)
    ts_store_forget(&t->array[k].store);
  return TS_OK;
}

static void *rows(ts_tier *tier, int k) {
  const ts_slow *t = (ts_slow *)tier;
  const void *per_row = k < 0 ? NULL : t->row_state[k].ptr;
  return per_row ? (void *)(uintptr_t)per_row : t->array[1 + k].store.base;
}

static void *weights(ts_tier *tier) {
  return ((ts_slow *)tier)->array[0].seen;
}

static float *state(ts_tier *tier, int k) {
  const ts_slow *t = (ts_slow *)tier;
  return t->row_state[k].ptr ? t->row_state[k].ptr : t->array[1 + k].seen;
}

static void *lines(ts_tier *tier, int k) {
  return ((ts_slow *)tier)->array[1 + k].lines.ptr;
}

static uint32_t first_line(ts_tier *tier) {
  const ts_slow *t = (ts_slow *)tier;
  return t->discrete ? t->cache.first_line : 0;
}

/* ---- figures ------------------------------------------------------------- */

static void fill_count(ts_tier_count *to, const uint64_t *raw,
                       int64_t line_bytes) {
  *to = (ts_tier_count){.n_ids = (int64_t)raw[TS_CACHE_IDS],
                        .n_hits = (int64_t)raw[TS_CACHE_HITS],
                        .n_misses = (int64_t)raw[TS_CACHE_MISSES],
                        .n_conflicts = (int64_t)raw[TS_CACHE_CONFLICTS],
                        .n_evicted = (int64_t)raw[TS_CACHE_EVICTED],
                        .n_written = (int64_t)raw[TS_CACHE_WRITTEN]};
  to->n_unique = to->n_hits + to->n_misses;
  to->bytes_in = (to->n_misses - to->n_conflicts) * line_bytes;
  to->bytes_out = to->n_written * line_bytes;
}

static int64_t work_of(const uint64_t *raw) {
  return (int64_t)(raw[TS_CACHE_HITS] + 2 * raw[TS_CACHE_MISSES]);
}

/* The seconds since the last figures, by what each table has had done since:
 * RAW are its counts of now, count those of then. */
static void share_seconds(ts_slow *t, double seconds) {
  int64_t work[t->spec.n_tables], all = 0;
  for (int32_t i = 0; i < t->spec.n_tables; i++) {
    work[i] = work_of(t->raw + (int64_t)i * TS_CACHE_COUNTS) -
              t->count[i].n_unique - t->count[i].n_misses;
    all += work[i];
  }
  for (int32_t i = 0; all && i < t->spec.n_tables; i++)
    t->table_s[i] += (seconds - t->known_s) * (double)work[i] / (double)all;
  if (all) t->known_s = seconds;
}

/* A device that can't answer leaves what was known; who waits for a lane
 * hears of it. */
static ts_tier_figures figures(const ts_tier *tier) {
  ts_slow *t = (ts_slow *)(uintptr_t)tier;
  ts_tier_figures f = {.count = t->count,
                       .table_s = t->table_s,
                       .hold_s = ts_hold_seconds(&t->clock),
                       .n_lines = t->n_lines,
                       .slow_bytes = t->spec.n_rows * t->line_bytes,
                       .scratch_bytes = t->report.scratch_bytes,
                       .n_launches = t->report.launches};
  f.fast_bytes = t->n_lines * t->line_bytes + (int64_t)t->directory.bytes;
  for (int k = 0; k < TS_ROW_STATES_MAX; k++)
    f.fast_bytes += (int64_t)t->row_state[k].bytes;
  if (!t->n_lines) return f;
  if (fetch_counts(t) != TS_OK) ts_err_clear();
  share_seconds(t, f.hold_s);
  for (int32_t i = 0; i < t->spec.n_tables; i++)
    fill_count(&t->count[i], t->raw + (int64_t)i * TS_CACHE_COUNTS,
               t->line_bytes);
  f.n_locks = (int64_t)t->raw[t->spec.n_tables * TS_CACHE_COUNTS];
  return f;
}

#define SLOW_OPS                                                               \
  .destroy = destroy, .rows = rows, .flush = flush, .reload = reload,          \
  .weights = weights, .state = state, .lines = lines,                          \
  .first_line = first_line, .figures = figures

const ts_tier_ops ts_tier_cached = {.kind = "cached",
                                    .cached = true,
                                    .create = create_cached,
                                    .hold = hold,
                                    .release = release,
                                    .refresh = refresh,
                                    .locate = locate,
                                    SLOW_OPS};
const ts_tier_ops ts_tier_host = {
    .kind = "host", .create = create_host, SLOW_OPS};
