/* order.c - the order of an epoch's samples. */
#include "io/order.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* Streams of numbers: blocks and the shift have one each, then windows. */
enum { STREAM_BLOCKS, STREAM_SHIFT, STREAM_WINDOWS };

static int64_t sample_bytes(const ts_source_info *i) {
  const int64_t made =
      4 * (int64_t)(i->n_tasks + i->n_dense) + 8 * i->n_features;
  return i->bytes >= i->n_samples ? i->bytes / i->n_samples : made;
}

bool ts_order_fits(const ts_config *c, int64_t global_batch,
                   char why[TS_ORDER_WHY]) {
  const long long streams = c->data.streams, batch = global_batch;
  if (streams > 1 && !strcmp(c->data.shuffle, "full"))
    snprintf(why, TS_ORDER_WHY,
             "data.streams = %lld: with data.shuffle = \"full\" each sample "
             "comes from anywhere already; \"block\" and \"none\" go with "
             "streams",
             streams);
  else if (batch % streams)
    snprintf(why, TS_ORDER_WHY,
             "data.streams = %lld: a batch of %lld samples can't be cut into "
             "as many pieces of one size",
             streams, batch);
  else
    return true;
  return false;
}

/* Sets how data.shuffle cuts the samples into windows, blocks or groups. */
static void set_blocks(ts_order *o, const ts_source *s) {
  const ts_config *c = s->config;
  const int64_t n = s->info.n_samples;
  o->block = o->window = n;
  o->seed = (uint64_t)c->run.seed;
  o->epoch = -1;
  if (!strcmp(c->data.shuffle, "full")) return;
  o->groups = s->info.groups;
  o->n_groups = s->info.n_groups;
  if (o->groups) return;
  const int64_t bytes = (int64_t)(c->data.shuffle_window * (1 << 20));
  o->block = bytes / sample_bytes(&s->info) / TS_ORDER_BLOCKS;
  if (o->block < 1) o->block = 1;
  if (o->block > n) o->block = n;
  o->window = o->block * TS_ORDER_BLOCKS;
}

bool ts_order_is_of_files(const ts_config *c) {
  return !strcmp(c->data.shuffle, "none") && c->data.streams == 1;
}

static ts_order of_streams(const ts_source *s, int64_t global_batch,
                           int32_t streams, bool plain) {
  const int64_t piece = global_batch / streams;
  return (ts_order){.n = s->info.n_samples,
                    .plain = plain,
                    .ahead = -1,
                    .streams = streams,
                    .piece = piece,
                    .length = s->info.n_samples / global_batch * piece};
}

void ts_order_spread(ts_order *o, const ts_source *s, int64_t global_batch,
                     int n_ranks) {
  const ts_source_info *info = &s->info;
  if (n_ranks < 2 || global_batch % n_ranks || info->n_groups < 2 ||
      !s->ops->gather)
    return;
  *o = of_streams(s, global_batch, n_ranks, true);
  o->groups = info->groups;
  o->n_groups = info->n_groups;
}

ts_err ts_order_set(ts_order *o, const ts_source *s, int64_t global_batch) {
  const ts_config *c = s->config;
  const bool plain = !strcmp(c->data.shuffle, "none");
  *o = (ts_order){0};
  if (ts_order_is_of_files(c)) return TS_OK;
  if (s->info.packed)
    return ts_fail(TS_ERR_DECK,
                   "%s: packed text is read in order, %s takes samples from "
                   "anywhere; unpack it, or make a data set of it with "
                   "`tessera convert`",
                   s->info.packed, plain ? "data.streams" : "data.shuffle");
  *o = of_streams(s, global_batch, (int32_t)c->data.streams, plain);
  set_blocks(o, s);
  return o->groups && !plain ? ts_mem_many(o->ends, o->n_groups, INPUT) : TS_OK;
}

void ts_order_reset(ts_order *o) {
  ts_mem_free(o->ends);
  *o = (ts_order){0};
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

/* The first of the N rising ENDS that is above POSITION; the last if none is.
 */
static int64_t find_end(const int64_t *ends, int64_t n, int64_t position) {
  int64_t low = 0, high = n - 1;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    if (ends[mid] > position)
      high = mid;
    else
      low = mid + 1;
  }
  return low;
}

/* Turns to the group that has POSITION, the K-th of the epoch. */
static void turn_to_group(ts_order *o, int64_t k, int64_t until) {
  const int64_t from = k ? o->ends[k - 1] : 0;
  if (k != o->at)
    o->within =
        ts_permute_of((uint64_t)(o->ends[k] - from), o->seed,
                      (uint32_t)o->epoch, (uint32_t)(STREAM_WINDOWS + k));
  o->at = k;
  o->ahead = o->groups[group_at(o, o->ends[k] < until ? k + 1 : k)];
}

static void samples_of_groups(ts_order *o, int64_t *samples, int64_t epoch,
                              int64_t first, int32_t n, int64_t until) {
  int64_t from = 0, end = 0, start = 0;
  if (epoch != o->epoch) order_groups(o, epoch);
  for (int32_t i = 0; i < n; i++) {
    const int64_t p = first + i;
    if (p >= end) {
      const int64_t k = find_end(o->ends, o->n_groups, p);
      turn_to_group(o, k, until);
      from = k ? o->ends[k - 1] : 0;
      end = o->ends[k];
      start = o->groups[group_at(o, k)];
    }
    samples[i] =
        start + (int64_t)ts_permute_at(&o->within, (uint64_t)(p - from));
  }
}

/* ---- all ----------------------------------------------------------------- */

static void samples_of_blocks(ts_order *o, int64_t *samples, int64_t epoch,
                              int64_t first, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    const int64_t w = (first + i) / o->window, from = w * o->window;
    turn_to(o, epoch, w);
    const int64_t x =
        (int64_t)ts_permute_at(&o->within, (uint64_t)(first + i - from));
    const int64_t b = o->place[x / o->block];
    samples[i] = (b * o->block + x % o->block + o->shift) % o->n;
  }
}

static void samples_as_they_lie(ts_order *o, int64_t *samples, int64_t first,
                                int32_t n, int64_t until) {
  for (int32_t i = 0; i < n; i++) samples[i] = first + i;
  if (!o->groups) return;
  const int64_t *group =
      o->groups + find_end(o->groups + 1, o->n_groups, first + n - 1);
  o->ahead = group[group[1] < until];
}

/* Those of one stream, which ends before position UNTIL. */
static void samples_of_stream(ts_order *o, int64_t *samples, int64_t epoch,
                              int64_t first, int32_t n, int64_t until) {
  if (o->plain)
    samples_as_they_lie(o, samples, first, n, until);
  else if (o->groups)
    samples_of_groups(o, samples, epoch, first, n, until);
  else
    samples_of_blocks(o, samples, epoch, first, n);
}

void ts_order_samples(ts_order *o, int64_t *samples, int64_t epoch,
                      int64_t first, int32_t n) {
  const int64_t batch = o->piece * o->streams, dealt = o->length * o->streams;
  while (n > 0) {
    int64_t at = first, m = n, until = o->n;
    if (o->streams > 1 && first < dealt) {
      const int64_t in = first % batch, s = in / o->piece, i = in % o->piece;
      at = s * o->length + first / batch * o->piece + i;
      until = (s + 1) * o->length;
      if (m > o->piece - i) m = o->piece - i;
    }
    samples_of_stream(o, samples, epoch, at, (int32_t)m, until);
    samples += m;
    first += m;
    n -= (int32_t)m;
  }
}
