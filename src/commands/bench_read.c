/* bench_read.c - `tessera bench read DECK`: reads the training data once, one
 * thread a rank, and nothing else; in the order of data.shuffle. */
#include <glob.h>
#include <sys/stat.h>

#include "commands/bench.h"
#include "commands/bench_table.h"
#include "io/deck.h"
#include "io/order.h"
#include "runtime/trace.h"
#include "train/trainer.h"

enum { CHUNK = 4096 };

/* Bytes of the deck's training files, which may be in folders where S has
 * groups. */
static double file_bytes(const ts_config *c, const ts_source *s) {
  double n = 0;
  if (s->info.groups) return (double)s->info.bytes;
  for (int32_t i = 0; i < c->data.train.n; i++) {
    glob_t found;
    struct stat st;
    if (glob(c->data.train.item[i], 0, NULL, &found) != 0) continue;
    for (size_t k = 0; k < found.gl_pathc; k++)
      if (stat(found.gl_pathv[k], &st) == 0) n += (double)st.st_size;
    globfree(&found);
  }
  return n;
}

/* Samples at places [FIRST, first + n) of the first epoch. */
static ts_err read_chunk(ts_source *s, ts_batch_store *store, ts_order *o,
                         int64_t first, int32_t n) {
  int64_t samples[CHUNK];
  if (!o->n) return s->ops->read(s, store, first, n);
  ts_order_samples(o, samples, 0, first, n);
  s->ahead = o->ahead;
  return s->ops->gather(s, store, samples, n);
}

/* This rank's part of the N places from FIRST on. */
static ts_err read_places(ts_trainer *t, ts_source *s, ts_batch_store *store,
                          ts_order *o, int64_t first, int64_t n) {
  const int64_t end = first + n * (t->rank + 1) / t->n_ranks;
  for (int64_t at = first + n * t->rank / t->n_ranks; at < end; at += CHUNK)
    TS_DO(read_chunk(s, store, o, at,
                     (int32_t)(end - at < CHUNK ? end - at : CHUNK)));
  return TS_OK;
}

/* In streams batch by batch, as training does, which are made so that a rank
 * reads few of them; else at once. */
static ts_err read_part(ts_trainer *t, ts_source *s, double *seconds) {
  ts_err err = TS_OK;
  ts_batch_store *store = NULL;
  ts_order order = {0};
  const int64_t n = s->info.n_samples;
  TS_TRY(ts_order_set(&order, s, t->global_batch));
  TS_TRY(ts_batch_store_create(&store, t->config, t->device));
  const int64_t piece = order.streams > 1 ? t->global_batch : n;
  const double t0 = ts_now();
  for (int64_t at = 0; at < n; at += piece)
    TS_TRY(
        read_places(t, s, store, &order, at, n - at < piece ? n - at : piece));
  *seconds = ts_now() - t0;
done:
  ts_order_reset(&order);
  ts_batch_store_destroy(store);
  return err;
}

static const ts_bench_table passes = {
    "read",
    "{format|bench read: %s}{shuffle|, shuffle %s}{streams|, streams "
    "%.0f}{ranks|, %.0f "
    "ranks}{seconds|: %.3f s}"
    "{file_mb_per_s|, %.0f MB/s of file}{samples_per_s|, %C samples/s}"};

ts_err ts_bench_read(const ts_args *a) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_trainer *t = NULL;
  ts_source *s = NULL;
  double seconds = 0;
  TS_TRY(ts_bench_keys(a, 1, NULL, 0));
  TS_TRY(ts_deck_read_all(&c, a->more[0], a->sets, a->n_sets));
  TS_TRY(ts_trainer_start(&t, c, false));
  TS_TRY(ts_source_open(&s, c, TS_SPLIT_TRAIN, NULL, t->control));
  for (int pass = 0; pass < 3; pass++) { /* the first one fills the cache */
    TS_TRY(ts_settle(t, read_part(t, s, &seconds)));
    TS_TRY(ts_comm_max_f64(t->control, &seconds, 1));
    ts_bench_print(&passes, s->info.format, c->data.shuffle,
                   (double)c->data.streams, (double)t->n_ranks, seconds,
                   file_bytes(c, s) / seconds / 1e6,
                   (double)s->info.n_samples / seconds);
  }
done:
  ts_source_close(s);
  ts_trainer_destroy(t);
  ts_deck_destroy(c);
  return err;
}
