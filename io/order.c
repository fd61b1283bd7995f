/* order.c - the order of an epoch's samples. */
#include "io/order.h"

#include <string.h>

#include "base/mem.h"

/* Streams of numbers: blocks and the shift have one each, then windows. */
enum { STREAM_BLOCKS, STREAM_SHIFT, STREAM_WINDOWS };

static int64_t sample_bytes(const ts_source_info *i) {
  const int64_t made =
      4 * (int64_t)(i->n_tasks + i->n_dense) + 8 * i->n_features;
  return i->bytes >= i->n_samples ? i->bytes / i->n_samples : made;
}

ts_err ts_order_set(ts_order *o, const ts_source *s) {
  const ts_config *c = s->config;
  *o = (ts_order){0};
  if (!strcmp(c->data.shuffle, "none")) return TS_OK;
  if (s->info.packed)
    return ts_fail(TS_ERR_DECK,
                   "%s: packed text is read in order, data.shuffle = \"%s\" "
                   "takes samples from anywhere; unpack it, or make a data set "
                   "of it with `tessera convert`",
                   s->info.packed, c->data.shuffle);
  const int64_t n = s->info.n_samples;
  *o = (ts_order){.n = n,
                  .window = n,
                  .block = n,
                  .seed = (uint64_t)c->run.seed,
                  .epoch = -1,
                  .ahead = -1};
  if (!strcmp(c->data.shuffle, "full")) return TS_OK;
  o->groups = s->info.groups;
  o->n_groups = s->info.n_groups;
  if (o->groups) return ts_mem_many(o->ends, o->n_groups, INPUT);
  const int64_t bytes = (int64_t)(c->data.shuffle_window * (1 << 20));
  o->block = bytes / sample_bytes(&s->info) / TS_ORDER_BLOCKS;
  if (o->block < 1) o->block = 1;
  if (o->block > n) o->block = n;
  o->window = o->block * TS_ORDER_BLOCKS;
  return TS_OK;
}

void ts_order_reset(ts_order *o) {
  ts_mem_free(o->ends);
  *o = (ts_order){0};
}

static const char *const kinds[] = {"none", "block", "full"};

static ts_order_key key_of(const ts_config *c) {
  ts_order_key k = {0};
  if (!strcmp(c->data.shuffle, "none")) return k;
  k.seed = c->run.seed;
  k.shuffle = !strcmp(c->data.shuffle, "full") ? 2 : 1;
  if (k.shuffle == 1)
    k.window_bytes = (int64_t)(c->data.shuffle_window * (1 << 20));
  return k;
}

ts_err ts_order_save(const ts_config *c, ts_ckpt *ckpt) {
  const ts_order_key k = key_of(c);
  const int64_t numbers[] = {k.shuffle, k.seed, k.window_bytes};
  return ts_ckpt_add_value(ckpt, "loader/shuffle", TS_I64, 3, numbers);
}

void ts_order_take(ts_order_key *k, const ts_ckpt *ckpt) {
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, "loader/shuffle");
  int64_t numbers[3];
  *k = (ts_order_key){0};
  if (!v || v->dtype != TS_I64 || v->n != 3) return;
  memcpy(numbers, v->ptr, sizeof numbers);
  *k = (ts_order_key){numbers[0], numbers[1], numbers[2]};
}

ts_err ts_order_check(const ts_config *c, const ts_order_key *was) {
  const ts_order_key k = key_of(c);
  static const char rest[] =
      "the checkpoint is of the middle of an epoch, whose other samples only "
      "the same order has; go on with that value, or start anew with "
      "checkpoint.resume = \"never\"";
  if (k.shuffle != was->shuffle)
    return ts_fail(
        TS_ERR_CKPT, "data.shuffle was \"%s\", the deck has \"%s\": %s",
        was->shuffle == 1 || was->shuffle == 2 ? kinds[was->shuffle] : kinds[0],
        c->data.shuffle, rest);
  if (k.seed != was->seed)
    return ts_fail(TS_ERR_CKPT, "run.seed was %lld, the deck has %lld: %s",
                   (long long)was->seed, (long long)k.seed, rest);
  if (k.window_bytes != was->window_bytes)
    return ts_fail(
        TS_ERR_CKPT, "data.shuffle_window was %g MiB, the deck has %g: %s",
        (double)was->window_bytes / (1 << 20), c->data.shuffle_window, rest);
  return TS_OK;
}

/* The permutations of window W of EPOCH, unless they are here. */
static void turn_to(ts_order *o, int64_t epoch, int64_t w) {
  const uint32_t e = (uint32_t)epoch;
  if (epoch == o->epoch && w == o->at) return;
  if (epoch != o->epoch) {
    const ts_permute shift =
        ts_permute_of((uint64_t)o->n, o->seed, e, STREAM_SHIFT);
    o->shift = (int64_t)ts_permute_at(&shift, 0);
    o->blocks =
        ts_permute_of((uint64_t)(o->n / o->block), o->seed, e, STREAM_BLOCKS);
  }
  const int64_t left = o->n - w * o->window;
  o->within = ts_permute_of((uint64_t)(left < o->window ? left : o->window),
                            o->seed, e, (uint32_t)(STREAM_WINDOWS + w));
  for (int k = 0; k < TS_ORDER_BLOCKS; k++) {
    const int64_t b = w * TS_ORDER_BLOCKS + k;
    o->place[k] = b < o->n / o->block
                      ? (int64_t)ts_permute_at(&o->blocks, (uint64_t)b)
                      : b;
  }
  o->epoch = epoch;
  o->at = w;
}

/* ---- groups -------------------------------------------------------------- */

/* The group that is K-th in the epoch at hand. */
static int64_t group_at(const ts_order *o, int64_t k) {
  return (int64_t)ts_permute_at(&o->blocks, (uint64_t)k);
}

/* Ends of the epoch's groups, which differ in size. */
static void order_groups(ts_order *o, int64_t epoch) {
  int64_t end = 0;
  o->blocks = ts_permute_of((uint64_t)o->n_groups, o->seed, (uint32_t)epoch,
                            STREAM_BLOCKS);
  for (int64_t k = 0; k < o->n_groups; k++) {
    const int64_t g = group_at(o, k);
    end += o->groups[g + 1] - o->groups[g];
    o->ends[k] = end;
  }
  o->epoch = epoch;
  o->at = -1;
}

/* The group, in the epoch's order, that has POSITION. */
static int64_t find_group(const ts_order *o, int64_t position) {
  int64_t low = 0, high = o->n_groups - 1;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    if (o->ends[mid] > position)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

static void samples_of_groups(ts_order *o, int64_t *samples, int64_t epoch,
                              int64_t first, int32_t n) {
  int64_t from = 0, end = 0, start = 0;
  if (epoch != o->epoch) order_groups(o, epoch);
  for (int32_t i = 0; i < n; i++) {
    const int64_t p = first + i;
    if (p >= end) {
      const int64_t k = find_group(o, p), g = group_at(o, k);
      from = k ? o->ends[k - 1] : 0;
      end = o->ends[k];
      start = o->groups[g];
      if (k != o->at)
        o->within =
            ts_permute_of((uint64_t)(end - from), o->seed, (uint32_t)epoch,
                          (uint32_t)(STREAM_WINDOWS + k));
      o->at = k;
      o->ahead = k + 1 < o->n_groups ? o->groups[group_at(o, k + 1)] : -1;
    }
    samples[i] =
        start + (int64_t)ts_permute_at(&o->within, (uint64_t)(p - from));
  }
}

void ts_order_samples(ts_order *o, int64_t *samples, int64_t epoch,
                      int64_t first, int32_t n) {
  if (o->groups) {
    samples_of_groups(o, samples, epoch, first, n);
    return;
  }
  for (int32_t i = 0; i < n; i++) {
    const int64_t w = (first + i) / o->window, from = w * o->window;
    turn_to(o, epoch, w);
    const int64_t x =
        (int64_t)ts_permute_at(&o->within, (uint64_t)(first + i - from));
    const int64_t b = o->place[x / o->block];
    samples[i] = (b * o->block + x % o->block + o->shift) % o->n;
  }
}
