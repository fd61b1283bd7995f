/* tier_cached.c - rows in slow memory, with lines of fast memory in front of
 * them ("cached"), or none ("host"). */
#include "sparse/tier_cached.h"

#include "base/mem.h"

extern const ts_tier_ops ts_tier_cached, ts_tier_host;

enum { EXPECT = 12, BLOCK = 256 };

static void destroy(ts_tier *tier) {
  ts_cached *c = (ts_cached *)tier;
  if (!c) return;
  ts_cache_reset(&c->cache);
  ts_store_reset(&c->weights);
  for (int k = 0; k < 2; k++) {
    ts_store_reset(&c->state[k]);
    ts_buffer_reset(&c->row_state[k]);
    ts_buffer_reset(&c->keys[k]);
    ts_buffer_reset(&c->order[k]);
  }
  ts_mem_free(c->through);
  ts_mem_free(c->count);
  ts_mem_free(c);
}

static ts_err create_state(ts_cached *c, ts_device *device, int k,
                           int64_t n_lines) {
  const ts_tier_spec *s = &c->spec;
  if (s->state_per_row[k])
    return ts_buffer_create(&c->row_state[k], device, (size_t)s->n_rows * 4,
                            TS_SPACE_DEVICE, TS_TAG_ROW_STATE);
  const int64_t bytes = 4 * (int64_t)s->state_cols[k];
  c->line_bytes += bytes;
  return ts_store_create(&c->state[k], s->dir, s->n_rows, n_lines, bytes,
                         TS_TAG_ROW_STATE);
}

static ts_err create_stores(ts_cached *c, ts_device *device, int64_t n_lines) {
  ts_err err = TS_OK;
  const ts_tier_spec *s = &c->spec;
  c->first_line = ts_store_first_line(s->n_rows);
  if (c->first_line + n_lines > INT32_MAX)
    TS_THROW(TS_ERR_DECK,
             "%lld rows on one rank in slow memory; a group takes %d with its "
             "lines: use more ranks or row_wise",
             (long long)s->n_rows, INT32_MAX);
  c->line_bytes = s->dim * (int64_t)ts_dtype_bytes(s->dtype);
  TS_TRY(ts_store_create(&c->weights, s->dir, s->n_rows, n_lines, c->line_bytes,
                         TS_TAG_TABLES));
  for (int k = 0; k < s->n_states; k++)
    TS_TRY(create_state(c, device, k, n_lines));
  while (c->key_bits < 32 && s->n_rows >> c->key_bits) c->key_bits++;
done:
  return err;
}

static ts_err create(ts_tier **out, ts_device *device, const ts_tier_spec *spec,
                     bool cached) {
  ts_err err = TS_OK;
  ts_cached *c = NULL;
  const ts_buffer empty = {.space = TS_SPACE_DEVICE,
                           .tag = TS_TAG_SPARSE,
                           .owned = true,
                           .device = device};
  TS_TRY(ts_mem_alloc(&c, sizeof *c, TS_TAG_MISC));
  c->base.ops = cached ? &ts_tier_cached : &ts_tier_host;
  c->spec = *spec;
  c->keys[0] = c->keys[1] = c->order[0] = c->order[1] = empty;
  TS_TRY(
      ts_mem_array(&c->count, spec->n_tables, sizeof *c->count, TS_TAG_MISC));
  if (cached) {
    TS_TRY(
        ts_cache_create(&c->cache, spec->n_rows, spec->load_factor, spec->lfu));
    TS_TRY(
        ts_mem_alloc(&c->through, (size_t)spec->n_rows / 8 + 1, TS_TAG_TABLES));
  }
  TS_TRY(create_stores(c, device, ts_cache_n_lines(&c->cache)));
  *out = &c->base;
  c = NULL;
done:
  destroy((ts_tier *)c);
  return err;
}

static ts_err create_cached(ts_tier **out, ts_device *d,
                            const ts_tier_spec *spec) {
  return create(out, d, spec, true);
}

static ts_err create_host(ts_tier **out, ts_device *d,
                          const ts_tier_spec *spec) {
  return create(out, d, spec, false);
}

static ts_err release(ts_tier *tier, const uint32_t *slots, int64_t n,
                      ts_lane *lane) {
  (void)lane;
  ts_cached *c = (ts_cached *)tier;
  ts_cache_round_begin(&c->cache);
  for (int64_t i = 0; i < n; i++) {
    if (i + EXPECT < n && slots[i + EXPECT] >= c->first_line)
      __builtin_prefetch(c->cache.line + slots[i + EXPECT] - c->first_line, 1,
                         3);
    if (slots[i] >= c->first_line)
      (void)ts_cache_unlock(&c->cache, slots[i] - c->first_line);
  }
  if (--c->n_held == 0 && c->cache.n_locks)
    return ts_fail(TS_ERR_INTERNAL, "%lld locks on lines are left",
                   (long long)c->cache.n_locks);
  return TS_OK;
}

/* The batch locks the lines that it finds, too: it will release them. */
static ts_err refresh(ts_tier *tier, uint32_t *slots, int64_t n) {
  ts_cached *c = (ts_cached *)tier;
  ts_cache_round_begin(&c->cache);
  for (int64_t i = 0; i < n; i++) {
    if (slots[i] >= c->first_line) continue;
    const int64_t line = ts_cache_find(&c->cache, slots[i]);
    if (line < 0) continue;
    ts_cache_lock(&c->cache, line);
    slots[i] = (uint32_t)(c->first_line + line);
  }
  return TS_OK;
}

/* Keys [from, to), BLOCK at most: distinct rows are looked for in a run, which
 * asks for the tags of the next ones and for the lines that are marked. */
static void locate_block(ts_cached *c, uint32_t *slots, const uint32_t *keys,
                         int64_t from, int64_t to) {
  uint32_t rows[BLOCK], at[BLOCK];
  int32_t line[BLOCK];
  int64_t n = 0;
  rows[0] = keys[from];
  for (int64_t i = from; i < to; i++) {
    rows[n] = keys[i];
    at[n] = (uint32_t)(i - from);
    n += i == 0 || keys[i] != keys[i - 1];
  }
  ts_cache_find_many(&c->cache, rows, n, 0, line);
  for (int64_t k = 0; k < n; k++) {
    const bool has_line = line[k] >= 0;
    slots[from + at[k]] =
        has_line ? (uint32_t)(c->first_line + line[k]) : rows[k];
    if (has_line) ts_cache_mark(&c->cache, line[k]);
  }
}

static ts_err locate(ts_tier *tier, uint32_t *slots, const uint32_t *keys,
                     int64_t n) {
  ts_cached *c = (ts_cached *)tier;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < n; i += BLOCK)
    locate_block(c, slots, keys, i, i + BLOCK < n ? i + BLOCK : n);
  return TS_OK;
}

/* ---- whole rows ---------------------------------------------------------- */

/* What is written stays in its line, clean: it is not written again. */
static ts_err flush(ts_tier *tier) {
  ts_err err = TS_OK;
  ts_cached *c = (ts_cached *)tier;
  const int64_t n = ts_cache_n_lines(&c->cache);
  for (int64_t i = 0; i < n; i++) {
    if (c->cache.tag[i] == TS_CACHE_NONE || !c->cache.line[i].dirty) continue;
    c->cache.line[i].dirty = false;
    c->out.row[c->out.n] = c->cache.tag[i];
    c->out.slot[c->out.n++] = (uint32_t)(c->first_line + i);
    if (c->out.n == TS_MOVE_MAX) TS_TRY(ts_tier_write(c, &c->out));
  }
  TS_TRY(ts_tier_write(c, &c->out));
done:
  return err;
}

/* Lines in use are read anew, the others given up. */
static ts_err reload(ts_tier *tier) {
  ts_err err = TS_OK;
  ts_cached *c = (ts_cached *)tier;
  const int64_t n = ts_cache_n_lines(&c->cache);
  for (int64_t i = 0; i < n; i++) {
    c->cache.line[i].dirty = false;
    if (!c->cache.line[i].locks) c->cache.tag[i] = TS_CACHE_NONE;
    if (c->cache.tag[i] == TS_CACHE_NONE) continue;
    c->in.row[c->in.n] = c->cache.tag[i];
    c->in.slot[c->in.n++] = (uint32_t)(c->first_line + i);
    if (c->in.n == TS_MOVE_MAX) TS_TRY(ts_tier_read(c, &c->in));
  }
  TS_TRY(ts_tier_read(c, &c->in));
  ts_store_forget(&c->weights);
  for (int k = 0; k < 2; k++) ts_store_forget(&c->state[k]);
done:
  return err;
}

static void *weights(ts_tier *tier) {
  return ((ts_cached *)tier)->weights.base;
}

static float *state(ts_tier *tier, int k) {
  const ts_cached *c = (ts_cached *)tier;
  return c->state[k].base ? (float *)(void *)c->state[k].base
                          : c->row_state[k].ptr;
}

static void *rows(ts_tier *tier, int k) {
  return k < 0 ? weights(tier) : state(tier, k);
}

static ts_tier_figures figures(const ts_tier *tier) {
  const ts_cached *c = (const ts_cached *)tier;
  ts_tier_figures f = {.count = c->count,
                       .hold_s = c->hold_s,
                       .n_lines = ts_cache_n_lines(&c->cache),
                       .slow_bytes = c->spec.n_rows * c->line_bytes,
                       .n_locks = c->cache.n_locks};
  f.fast_bytes = f.n_lines * (c->line_bytes + TS_CACHE_LINE_BYTES);
  for (int k = 0; k < 2; k++) {
    f.fast_bytes += (int64_t)c->row_state[k].bytes;
    f.scratch_bytes += (int64_t)(c->keys[k].bytes + c->order[k].bytes);
  }
  return f;
}

#define SLOW_OPS                                                               \
  .destroy = destroy, .locate = locate, .rows = rows, .flush = flush,          \
  .reload = reload, .weights = weights, .state = state, .figures = figures

const ts_tier_ops ts_tier_cached = {.kind = "cached",
                                    .cached = true,
                                    .create = create_cached,
                                    .hold = ts_tier_hold,
                                    .release = release,
                                    .refresh = refresh,
                                    SLOW_OPS};
const ts_tier_ops ts_tier_host = {
    .kind = "host", .create = create_host, SLOW_OPS};
