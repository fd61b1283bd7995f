/* subset.c - some of a source's samples, as a source. */
#include "io/subset.h"

#include <string.h>

#include "base/mem.h"

/* Samples between two counts. */
enum { BLOCK = 512, BLOCK_WORDS = BLOCK / TS_BITS_WORD };

typedef struct ts_subset {
  ts_source base;
  ts_source_ops ops; /* the inner one's, but for what numbers samples */
  ts_source *inner;
  uint64_t *kept;
  int64_t *before; /* (n_blocks) samples that are kept before each */
  int64_t n_blocks;
  int64_t *groups;  /* info.groups, of what is kept */
  int64_t *samples; /* scratch: the inner one's */
  size_t capacity;
} ts_subset;

int64_t ts_bits_count(const uint64_t *bits, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n / TS_BITS_WORD; i++)
    count += __builtin_popcountll(bits[i]);
  for (int64_t i = n / TS_BITS_WORD * TS_BITS_WORD; i < n; i++)
    count += bits[i / TS_BITS_WORD] >> i % TS_BITS_WORD & 1;
  return count;
}

/* ---- which they are ------------------------------------------------------ */

static ts_err count_blocks(ts_subset *s) {
  const int64_t n = s->inner->info.n_samples;
  s->n_blocks = (n + BLOCK - 1) / BLOCK;
  TS_DO(ts_mem_many(s->before, s->n_blocks, INPUT));
  for (int64_t b = 0, count = 0; b < s->n_blocks; b++) {
    const int64_t left = n - b * BLOCK;
    s->before[b] = count;
    count +=
        ts_bits_count(s->kept + b * BLOCK_WORDS, left < BLOCK ? left : BLOCK);
  }
  return TS_OK;
}

/* Groups that nothing is kept of are none. */
static ts_err count_groups(ts_subset *s) {
  ts_source_info *info = &s->base.info;
  const int64_t *of = s->inner->info.groups, n = info->n_groups;
  info->n_groups = 0;
  if (!of) return TS_OK;
  TS_DO(ts_mem_many(s->groups, n + 1, INPUT));
  for (int64_t g = 1; g <= n; g++) {
    const int64_t b = of[g] / BLOCK, from = b * BLOCK;
    const int64_t end =
        b == s->n_blocks
            ? info->n_samples
            : s->before[b] +
                  ts_bits_count(s->kept + b * BLOCK_WORDS, of[g] - from);
    if (end > s->groups[info->n_groups]) s->groups[++info->n_groups] = end;
  }
  info->groups = s->groups;
  return TS_OK;
}

/* The inner source's number of sample K. */
static int64_t inner_of(const ts_subset *s, int64_t k) {
  int64_t b = 0, end = s->n_blocks;
  while (end - b > 1) {
    const int64_t middle = b + (end - b) / 2;
    if (s->before[middle] <= k)
      b = middle;
    else
      end = middle;
  }
  const uint64_t *word = s->kept + b * BLOCK_WORDS;
  k -= s->before[b];
  for (int here; k >= (here = __builtin_popcountll(*word)); word++) k -= here;
  uint64_t x = *word;
  for (; k > 0; k--) x &= x - 1;
  return (word - s->kept) * TS_BITS_WORD + __builtin_ctzll(x);
}

/* The one that is kept next after SAMPLE of the inner source. */
static int64_t next_of(const ts_subset *s, int64_t sample) {
  int64_t w = ++sample / TS_BITS_WORD;
  uint64_t x = s->kept[w] >> sample % TS_BITS_WORD;
  if (x) return sample + __builtin_ctzll(x);
  do w++;
  while (!s->kept[w]);
  return w * TS_BITS_WORD + __builtin_ctzll(s->kept[w]);
}

/* ---- operations ---------------------------------------------------------- */

static void close_source(ts_source *src) {
  ts_subset *s = (ts_subset *)src;
  ts_source_close(s->inner);
  ts_mem_free_all(s->kept, s->before, s->groups, s->samples, s);
}

/* SAMPLES of the inner source, or those from FIRST on where that is NULL.  What
 * is counted is handed on, either way: who reads this one may set it. */
static ts_err read_inner(ts_subset *s, ts_batch_store *b,
                         const int64_t *samples, int64_t first, int32_t n) {
  ts_source *to = s->inner;
  const int64_t ahead = s->base.ahead;
  to->n_threads = s->base.n_threads;
  to->ahead = ahead < 0 ? -1 : inner_of(s, ahead);
  to->anywhere |= s->base.anywhere;
  to->n_short = s->base.n_short;
  to->n_bad_records = s->base.n_bad_records;
  to->n_bad_ids = s->base.n_bad_ids;
  const ts_err err = samples ? to->ops->gather(to, b, samples, n)
                             : to->ops->read(to, b, first, n);
  s->base.n_short = to->n_short;
  s->base.n_bad_records = to->n_bad_records;
  s->base.n_bad_ids = to->n_bad_ids;
  return err;
}

static ts_err reserve(ts_subset *s, int32_t n) {
  return ts_mem_reserve(&s->samples, &s->capacity,
                        (size_t)n * sizeof *s->samples, TS_TAG_INPUT);
}

static ts_err read_batch(ts_source *src, ts_batch_store *b, int64_t first,
                         int32_t n) {
  ts_subset *s = (ts_subset *)src;
  const int64_t at = n ? inner_of(s, first) : 0;
  if (!n || inner_of(s, first + n - 1) - at == n - 1)
    return read_inner(s, b, NULL, at, n);
  TS_DO(reserve(s, n));
  s->samples[0] = at;
  for (int32_t i = 1; i < n; i++) s->samples[i] = next_of(s, s->samples[i - 1]);
  return read_inner(s, b, s->samples, 0, n);
}

static ts_err gather(ts_source *src, ts_batch_store *b, const int64_t *samples,
                     int32_t n) {
  ts_subset *s = (ts_subset *)src;
  if (!n) return read_inner(s, b, NULL, 0, 0);
  TS_DO(reserve(s, n));
  for (int32_t i = 0; i < n; i++) s->samples[i] = inner_of(s, samples[i]);
  return read_inner(s, b, s->samples, 0, n);
}

static ts_err lengths(ts_source *src, int32_t *n_ids, const int32_t *features,
                      int32_t n_features, const int64_t *samples, int32_t n) {
  ts_subset *s = (ts_subset *)src;
  TS_DO(reserve(s, n));
  for (int32_t i = 0; i < n; i++) s->samples[i] = inner_of(s, samples[i]);
  return s->inner->ops->lengths(s->inner, n_ids, features, n_features,
                                s->samples, n);
}

static ts_err needs(ts_source *src, ts_need *out, bool sample) {
  ts_source *to = ((ts_subset *)src)->inner;
  return to->ops->needs(to, out, sample);
}

/* From what is left: the others are to say how good it is on what it has not
 * met. */
static ts_err learn(ts_source *src, const uint64_t *kept, ts_comm *comm) {
  const ts_subset *s = (const ts_subset *)src;
  (void)kept;
  return s->inner->ops->learn(s->inner, s->kept, comm);
}

static ts_err state_save(ts_source *src, ts_str *text) {
  ts_source *to = ((ts_subset *)src)->inner;
  return to->ops->state_save(to, text);
}

static void set_ops(ts_subset *s) {
  const ts_source_ops *of = s->inner->ops;
  s->ops = *of;
  s->ops.close = close_source;
  s->ops.read = read_batch;
  s->ops.gather = gather;
  if (of->needs) s->ops.needs = needs;
  if (of->lengths) s->ops.lengths = lengths;
  if (of->learn) s->ops.learn = learn;
  if (of->state_save) s->ops.state_save = state_save;
  s->base.ops = &s->ops;
}

ts_err ts_subset_take(ts_source **source, uint64_t *kept) {
  ts_err err = TS_OK;
  ts_subset *s = NULL;
  ts_source *inner = *source;
  const int64_t n = inner->info.n_samples, left = ts_bits_count(kept, n);
  TS_TRY(ts_mem_alloc(&s, sizeof *s, TS_TAG_INPUT));
  s->inner = inner;
  s->kept = kept;
  s->base = *inner;
  TS_TRY(count_blocks(s));
  set_ops(s);
  s->base.info.n_samples = left;
  s->base.info.period = 0;
  TS_TRY(count_groups(s));
  s->base.info.bytes =
      (int64_t)((double)inner->info.bytes * (double)left / (double)n);
  *source = &s->base;
  s = NULL;
done:
  if (s) ts_mem_free_all(s->before, s->groups, s);
  return err;
}
