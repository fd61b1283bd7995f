/* loader.c - a thread that reads the next batches ahead.
 *
 * Which samples a batch has follows from its number alone, so all ranks see
 * the same number of batches without a word. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/order.h"
#include "io/parts.h"
#include "io/targets.h"
#include "runtime/trace.h"

/* The samples that a store holds: N from FIRST on; N -1: none. */
typedef struct ts_held {
  int64_t first, n;
} ts_held;

struct ts_loader {
  ts_source *source;
  ts_loader_options options;
  ts_order order;
  ts_parts *parts;
  ts_parts_sums sums;      /* of the batches read, under lock */
  int64_t *samples;        /* (a rank's part of a batch, or a batch where parts
                              cost) where it shuffles */
  ts_loader_state read;    /* next batch to be read */
  ts_loader_state given;   /* after the batches handed out */
  int64_t end_step;        /* batches in all */
  ts_batch_store **stores; /* (n_stores) ring */
  ts_loader_state *after;  /* (n_stores) position behind each */
  ts_held *held;           /* (n_stores) */
  int n_stores;
  size_t batch_bytes;                  /* of a block, as expected */
  int64_t n_read, n_given, n_released; /* batches, under lock */
  ts_err_record fault;
  bool ended, stop, has_thread;
  int row;           /* of the trace */
  const char *phase; /* that it was made for, in the trace */
  bool replay;       /* stores are the caller's, and full */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
};

static int64_t per_epoch(const ts_loader *l) {
  const int64_t g = l->options.global_batch, n = l->source->info.n_samples;
  return l->options.drop_last ? n / g : (n + g - 1) / g;
}

/* What is trained on counts as the deck says: once, when it is read. */
static ts_err weigh(const ts_loader *l, int slot, ts_err err) {
  const double positive = l->source->config->data.positive_weight;
  if (err == TS_OK && l->source->split == TS_SPLIT_TRAIN && positive != 1)
    ts_batch_store_weigh(l->stores[slot], positive);
  return err;
}

/* Samples of the epoch at hand: N from FIRST on, this rank's. */
typedef struct ts_stretch {
  int64_t first, n;
  const int64_t *samples; /* (n) of the source; NULL: those from FIRST on */
} ts_stretch;

/* This rank's samples of the batch of SIZE that is next; START: all ranks'. */
static ts_err find_own(ts_loader *l, ts_stretch *own, const int64_t **start,
                       int64_t size) {
  const int64_t first = l->read.next_sample;
  const int r = l->options.rank;
  const bool all = l->order.n && ts_parts_cost(l->parts);
  if (all)
    ts_order_samples(&l->order, l->samples, l->read.epoch, first,
                     (int32_t)size);
  TS_DO(ts_parts_of(l->parts, start, all ? l->samples : NULL, first, size));
  own->first = first + (*start)[r];
  own->n = (*start)[r + 1] - (*start)[r];
  own->samples = l->samples;
  if (all) own->samples += (*start)[r];
  if (l->order.n && !all)
    ts_order_samples(&l->order, l->samples, l->read.epoch, own->first,
                     (int32_t)own->n);
  return TS_OK;
}

/* This rank's samples of the batch of SIZE that is next into store number SLOT,
 * unless they are there. */
static ts_err read_samples(ts_loader *l, int slot, int64_t size,
                           ts_stretch *own) {
  ts_source *s = l->source;
  ts_batch_store *store = l->stores[slot];
  ts_held *held = &l->held[slot];
  const int64_t *start;
  s->n_threads = l->options.n_threads > 1 ? l->options.n_threads : 1;
  TS_DO(find_own(l, own, &start, size));
  /* Drawn negatives don't come again. */
  const int64_t period = store->targets ? 0 : s->info.period;
  const ts_held wanted = {period ? own->first % period : own->first, own->n};
  if (ts_fault("stall"))
    for (;;) pause();
  if (ts_fault("batch"))
    return ts_fail(TS_ERR_DATA, "sample %lld: (fault asked for)",
                   (long long)own->first);
  store->for_model = true;
  ts_targets_at(store->targets,
                &(ts_targets_place){.training = s->split == TS_SPLIT_TRAIN,
                                    .epoch = l->read.epoch,
                                    .first = own->first,
                                    .start = start,
                                    .rank = l->options.rank,
                                    .n_ranks = l->options.n_ranks});
  s->ahead = l->order.n ? l->order.ahead : -1;
  if (own->samples)
    return weigh(l, slot,
                 s->ops->gather(s, store, own->samples, (int32_t)own->n));
  if (period && held->n == own->n && held->first == wanted.first) return TS_OK;
  held->n = -1;
  const ts_err err =
      weigh(l, slot, s->ops->read(s, store, own->first, (int32_t)own->n));
  if (err == TS_OK) *held = wanted;
  return err;
}

/* Reads batch number l->read into store number SLOT and moves on. */
static ts_err read_next(ts_loader *l, int slot) {
  const int64_t g = l->options.global_batch, n = l->source->info.n_samples;
  ts_loader_state *at = &l->read;
  ts_stretch own = {0};
  if (n - at->next_sample < (l->options.drop_last ? g : 1)) {
    at->next_sample = 0;
    at->epoch++;
  }
  const int64_t size = n - at->next_sample < g ? n - at->next_sample : g;
  const double t0 = ts_now();
  const ts_err err = read_samples(l, slot, size, &own);
  const double t1 = ts_now();
  ts_timer_add("read (own thread)", t1 - t0);
  ts_trace_span(&(ts_span){.row = l->row,
                           .kind = TS_SPAN_DATA,
                           .name = "read",
                           .mark = {at->step, l->phase},
                           .t0 = t0,
                           .t1 = t1});
  ts_batch *b = ts_batch_store_batch(l->stores[slot]);
  b->step = at->step;
  b->epoch = at->epoch;
  b->first = own.first;
  b->training = l->source->split == TS_SPLIT_TRAIN;
  b->n_global = size;
  at->next_sample += size;
  at->step++;
  return err;
}

static void *read_ahead(void *arg) {
  ts_loader *l = arg;
  for (;;) {
    pthread_mutex_lock(&l->lock);
    while (!l->stop && l->n_read - l->n_released >= l->n_stores)
      pthread_cond_wait(&l->changed, &l->lock);
    const bool end = l->stop || l->read.step >= l->end_step;
    const int slot = (int)(l->n_read % l->n_stores);
    if (end) {
      l->ended = true;
      pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    if (end) return NULL;
    const ts_err err = read_next(l, slot);
    pthread_mutex_lock(&l->lock);
    l->after[slot] = l->read;
    l->sums = ts_parts_sums_of(l->parts);
    if (err != TS_OK) {
      ts_err_take(&l->fault);
      if (l->fault.code == TS_OK) l->fault.code = err;
      l->ended = true;
    } else {
      l->n_read++;
    }
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (err != TS_OK) return NULL;
  }
}

/* Batches that the samples from FIRST to END of an epoch make. */
static int64_t batches(const ts_loader *l, int64_t first, int64_t end) {
  const int64_t g = l->options.global_batch, n = end > first ? end - first : 0;
  return l->options.drop_last ? n / g : (n + g - 1) / g;
}

/* Epochs count samples: those behind the start's may have been read in batches
 * of another size. */
static int64_t last_step(const ts_loader *l) {
  const int64_t per = per_epoch(l), n = l->source->info.n_samples;
  const ts_loader_state *at = &l->read;
  if (l->options.max_steps >= 0) return l->options.max_steps;
  const int64_t all = (int64_t)(l->options.epochs * (double)per + 0.9999999);
  const int64_t whole = all / per, rest = all % per * l->options.global_batch;
  if (at->epoch > whole) return at->step;
  if (at->epoch == whole) return at->step + batches(l, at->next_sample, rest);
  return at->step + batches(l, at->next_sample, n) +
         (whole - at->epoch - 1) * per + all % per;
}

/* Stores so that one that comes again holds the samples that are wanted: a
 * multiple of the batches after which these come again. */
static int store_count(const ts_loader *l) {
  const int64_t least = l->options.depth + 2, g = l->options.global_batch;
  int64_t n = (l->source->info.period + g - 1) / g;
  if (n > per_epoch(l)) n = per_epoch(l);
  return (int)(n ? (least + n - 1) / n * n : least);
}

static ts_err create_store(ts_loader *l, ts_batch_store **out) {
  const ts_loader_options *o = &l->options;
  const int64_t n = ts_balance_share(o->global_batch, o->n_ranks);
  const ts_config *c = l->source->config;
  TS_DO(ts_batch_store_create(out, c, o->device));
  if (o->pooling) TS_DO(ts_batch_store_expect(*out, c, (int32_t)n, o->pooling));
  return TS_OK;
}

ts_err ts_loader_create(ts_loader **out, ts_source *source,
                        const ts_loader_options *o,
                        const ts_loader_state *start) {
  ts_err err = TS_OK;
  ts_loader *l = NULL;
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_INPUT));
  l->source = source;
  l->options = *o;
  l->row = ts_trace_row_take("reader");
  ts_trace_batch_set(-1, "input");
  l->phase = ts_trace_mark_now().phase;
  if (start) l->read = l->given = *start;
  if (per_epoch(l) < 1)
    TS_THROW(TS_ERR_DATA,
             "the data has %lld samples, fewer than one batch of %lld, and "
             "data.drop_last is set",
             (long long)source->info.n_samples, (long long)o->global_batch);
  if (o->shuffle) TS_TRY(ts_order_set(&l->order, source, o->global_batch));
  TS_TRY(ts_parts_create(&l->parts, source, o->global_batch, o->n_ranks,
                         o->costs));
  if (o->spread && !ts_parts_cost(l->parts))
    ts_order_spread(&l->order, source, o->global_batch, o->n_ranks);
  const int64_t share = ts_balance_share(o->global_batch, o->n_ranks);
  if (l->order.n)
    TS_TRY(ts_mem_many(
        l->samples, ts_parts_cost(l->parts) ? o->global_batch : share, INPUT));
  l->end_step = last_step(l);
  l->n_stores = store_count(l);
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->changed, NULL);
  TS_TRY(ts_mem_many(l->stores, l->n_stores, INPUT));
  TS_TRY(ts_mem_many(l->after, l->n_stores, INPUT));
  TS_TRY(ts_mem_many(l->held, l->n_stores, INPUT));
  for (int i = 0; i < l->n_stores; i++) {
    l->held[i].n = -1;
    TS_TRY(create_store(l, &l->stores[i]));
    ts_targets_use(l->stores[i]->targets, source->law);
  }
  (void)ts_batch_store_bytes(l->stores[0], &l->batch_bytes);
  if (!o->serial && pthread_create(&l->thread, NULL, read_ahead, l) != 0)
    TS_THROW(TS_ERR_NOMEM, "no thread for the reader can be started");
  l->has_thread = !o->serial;
  *out = l;
done:
  if (err != TS_OK) ts_loader_destroy(l);
  return err;
}

ts_err ts_loader_create_replay(ts_loader **out, ts_batch_store *const *stores,
                               int n, int64_t n_steps) {
  ts_err err = TS_OK;
  ts_loader *l = NULL;
  TS_TRY(ts_mem_alloc(&l, sizeof *l, TS_TAG_INPUT));
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->changed, NULL);
  l->replay = true;
  l->n_stores = n;
  l->end_step = n_steps;
  TS_TRY(ts_mem_many(l->stores, n, INPUT));
  memcpy(l->stores, stores, (size_t)n * sizeof *stores);
  *out = l;
done:
  if (err != TS_OK) ts_loader_destroy(l);
  return err;
}

static ts_err next_replay(ts_loader *l, ts_batch **out) {
  if (l->n_given >= l->end_step) return TS_OK;
  if (l->n_given - l->n_released >= l->n_stores)
    return ts_fail(TS_ERR_INTERNAL, "%d batches to replay are too few",
                   l->n_stores);
  ts_batch *b = ts_batch_store_batch(l->stores[l->n_given % l->n_stores]);
  b->step = l->n_given++;
  l->given.step++;
  l->given.next_sample += b->n_global;
  *out = b;
  return TS_OK;
}

static ts_err next_serial(ts_loader *l, ts_batch **out) {
  const int slot = (int)(l->n_read % l->n_stores);
  if (l->read.step >= l->end_step) return TS_OK;
  TS_DO(read_next(l, slot));
  l->sums = ts_parts_sums_of(l->parts);
  l->n_read++;
  l->n_given++;
  l->given = l->read;
  *out = ts_batch_store_batch(l->stores[slot]);
  return TS_OK;
}

ts_err ts_loader_next(ts_loader *l, ts_batch **out) {
  ts_err err = TS_OK;
  *out = NULL;
  if (l->replay) return next_replay(l, out);
  if (!l->has_thread) return next_serial(l, out);
  const double t0 = ts_now();
  pthread_mutex_lock(&l->lock);
  while (l->n_given == l->n_read && !l->ended)
    pthread_cond_wait(&l->changed, &l->lock);
  if (l->n_given < l->n_read) {
    const int slot = (int)(l->n_given % l->n_stores);
    *out = ts_batch_store_batch(l->stores[slot]);
    l->given = l->after[slot];
    l->n_given++;
  } else if (l->fault.code != TS_OK) {
    ts_err_put(&l->fault);
    err = l->fault.code;
  }
  pthread_mutex_unlock(&l->lock);
  ts_timer_add("wait for data", ts_now() - t0);
  return err;
}

void ts_loader_fill(ts_loader *l) {
  pthread_mutex_lock(&l->lock);
  while (l->has_thread && !l->ended &&
         l->n_read - l->n_given < l->options.depth)
    pthread_cond_wait(&l->changed, &l->lock);
  pthread_mutex_unlock(&l->lock);
}

void ts_loader_release(ts_loader *l, ts_batch *batch) {
  (void)batch; /* batches come back in the order in which they went out */
  pthread_mutex_lock(&l->lock);
  l->n_released++;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
}

ts_loader_state ts_loader_state_of(const ts_loader *l) {
  return l->given;
}

int64_t ts_loader_end(const ts_loader *l) {
  return l->end_step;
}

bool ts_loader_balance(ts_loader *l, double *cut, double *even) {
  pthread_mutex_lock(&l->lock);
  const ts_parts_sums x = l->sums;
  pthread_mutex_unlock(&l->lock);
  if (!(x.mean > 0)) return false;
  *cut = x.cut / x.mean;
  *even = x.even / x.mean;
  return true;
}

size_t ts_loader_batch_bytes(const ts_loader *l) {
  return l->batch_bytes;
}

void ts_loader_destroy(ts_loader *l) {
  if (!l) return;
  if (l->has_thread) {
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
  }
  for (int i = 0; l->stores && !l->replay && i < l->n_stores; i++)
    ts_batch_store_destroy(l->stores[i]);
  ts_mem_free_all(l->stores, l->after, l->held, l->samples);
  ts_order_reset(&l->order);
  ts_parts_destroy(l->parts);
  ts_trace_row_give(l->row);
  pthread_mutex_destroy(&l->lock);
  pthread_cond_destroy(&l->changed);
  ts_mem_free(l);
}
