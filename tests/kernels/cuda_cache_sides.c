/* cuda_cache_sides.c - two caches of the same rows, and whether they differ. */
#include "tests/kernels/cuda_cache_sides.h"

#include "base/mem.h"

const int64_t part_bytes[PARTS] = {2064, 20, 6};
static const int64_t row_base[TABLES + 1] = {0, 300, 300, 310, ROWS};

/* ---- two sides ----------------------------------------------------------- */

const cache_target *cache_tested;
cache_target cache_plain;

static void *copy_of(const void *p, size_t bytes) {
  void *to = malloc(bytes ? bytes : 1);
  ck_assert_ptr_nonnull(to);
  memcpy(to, p, bytes);
  return to;
}

static void copy_to(void *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
}

static void *share(void **seen, size_t bytes) {
  return *seen = calloc(1, bytes);
}

void sides_start(void) {
  cache_plain = (cache_target){.send = copy_of,
                               .fetch = copy_to,
                               .put = copy_to,
                               .drop = free,
                               .share = share,
                               .unshare = free};
  ck_assert_ok(ts_kernels_fill(&cache_plain.kernels, "host", "ref"));
  if (cache_tested->start) cache_tested->start();
}

void sides_stop(void) {
  if (cache_tested->stop) cache_tested->stop();
}

static void *zeros(const side *s, size_t bytes) {
  void *none = test_alloc((int64_t)bytes, 1);
  void *to = s->t->send(none, bytes);
  free(none);
  return to;
}

static void open_rows(side *s, const spec *x) {
  uint64_t seed = 77;
  for (int k = 0; k < PARTS; k++) {
    void *seen = NULL;
    s->rows[k] = s->t->share(&seen, (size_t)(ROWS * part_bytes[k]));
    for (int64_t i = 0; i < ROWS * part_bytes[k]; i++)
      ((uint8_t *)s->rows[k])[i] = (uint8_t)test_random(&seed);
    s->c.part[k] = (ts_cache_part){
        .rows = seen,
        .lines = zeros(s, (size_t)(32 * x->n_sets * part_bytes[k])),
        .bytes = part_bytes[k]};
  }
  s->c.n_parts = PARTS;
}

void side_open(side *s, const cache_target *t, const spec *x) {
  const size_t line = (size_t)x->n_sets * 32 * 4;
  *s = (side){.t = t};
  s->c = (ts_cache){.tag = zeros(s, line),
                    .line = zeros(s, 4 * line),
                    .n_sets = x->n_sets,
                    .first_line = FIRST_LINE,
                    .lfu = x->lfu,
                    .row_base = t->send(row_base, sizeof row_base),
                    .n_tables = TABLES,
                    .counts = zeros(s, TABLES * TS_CACHE_COUNTS * 8),
                    .locks = zeros(s, 16)};
  if (x->passes > 1) s->c.through = zeros(s, (ROWS / 32 + 1) * 4);
  open_rows(s, x);
  for (int b = 0; b < STEPS; b++) s->slots[b] = zeros(s, IDS * 4);
  s->keys = zeros(s, IDS * 4);
  s->place = zeros(s, IDS * 4);
  const ts_cache_args a = {.cache = &s->c};
  ck_assert_ok(t->kernels.cache_reload(&a));
}

void side_close(side *s) {
  void *all[] = {s->c.tag,
                 s->c.line,
                 s->c.counts,
                 s->c.locks,
                 s->keys,
                 s->place,
                 (void *)(uintptr_t)s->c.row_base};
  ts_mem_free(s->report.scratch);
  for (int i = 0; i < TEST_COUNT(all); i++) s->t->drop(all[i]);
  if (s->c.through) s->t->drop(s->c.through);
  for (int b = 0; b < STEPS; b++) s->t->drop(s->slots[b]);
  for (int k = 0; k < PARTS; k++) {
    s->t->drop(s->c.part[k].lines);
    s->t->unshare(s->rows[k]);
  }
}

/* ---- the same bytes ------------------------------------------------------ */

const char *sides_step;

void sides_same(const side *s, const char *what, const void *a, const void *b,
                size_t bytes) {
  static char x[LINES * 2064], y[LINES * 2064];
  ck_assert_uint_le(bytes, sizeof x);
  s[0].t->fetch(x, a, bytes);
  s[1].t->fetch(y, b, bytes);
  if (!memcmp(x, y, bytes)) return;
  for (size_t i = 0; i < bytes; i++)
    ck_assert_msg(x[i] == y[i], "%s: %s differs at byte %zu of %zu", sides_step,
                  what, i, bytes);
}

void sides_compare(const side *s) {
  const ts_cache *a = &s[0].c, *b = &s[1].c;
  const size_t line = (size_t)a->n_sets * 32 * 4;
  sides_same(s, "tag", a->tag, b->tag, line);
  sides_same(s, "line", a->line, b->line, 4 * line);
  sides_same(s, "counts", a->counts, b->counts, TABLES * TS_CACHE_COUNTS * 8);
  sides_same(s, "locks", a->locks, b->locks, 16);
  if (a->through)
    sides_same(s, "through", a->through, b->through, (ROWS / 32 + 1) * 4);
  for (int k = 0; k < PARTS; k++) {
    sides_same(s, "lines", a->part[k].lines, b->part[k].lines,
               (size_t)(a->n_sets * 32 * part_bytes[k]));
    ck_assert_msg(
        !memcmp(s[0].rows[k], s[1].rows[k], (size_t)(ROWS * part_bytes[k])),
        "%s: rows differ", sides_step);
  }
}
