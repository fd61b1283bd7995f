/* source_words.c - what a source's training samples teach: vocabularies of data
 * whose ids are numbers, learnt from batches, which have the ids as they are in
 * the data as long as ts_source.learning is set; and scales. */
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/subset.h"
#include "runtime/watchdog.h"

/* Samples that are read at a time. */
enum { SAMPLES = 4096 };

/* FEATURE's ids of batch B, whose first sample is AT. */
static ts_err learn_feature(ts_source *s, const ts_batch *b, int32_t feature,
                            int64_t at, const uint64_t *kept, bool hex) {
  const ts_jagged *j = &b->kjt.features[feature];
  for (int64_t i = 0, k = 0; i < b->n; i++) {
    const int64_t end = k + ts_jagged_length(j, (int32_t)i);
    const bool counts = !kept || ts_bits_has(kept, at + i);
    for (; k < end; k++)
      if (counts)
        TS_DO(ts_vocabularies_learn_number(s->vocabularies, feature, j->ids[k],
                                           hex));
  }
  return TS_OK;
}

/* Samples [FIRST, END). */
static ts_err learn_share(ts_source *s, int64_t first, int64_t end,
                          const uint64_t *kept, bool hex) {
  ts_err err = TS_OK;
  ts_batch_store *store = NULL;
  TS_TRY(ts_batch_store_create(&store, s->config, NULL));
  for (int64_t at = first; at < end; at += SAMPLES) {
    const int64_t n = end - at < SAMPLES ? end - at : SAMPLES;
    ts_watch_beat();
    TS_TRY(s->ops->read(s, store, at, (int32_t)n));
    for (int32_t k = 0; k < s->info.n_features; k++)
      if (ts_vocabularies_have(s->vocabularies, k))
        TS_TRY(learn_feature(s, ts_batch_store_batch(store), k, at, kept, hex));
  }
done:
  ts_batch_store_destroy(store);
  s->n_short = s->n_bad_records = s->n_bad_ids = 0; /* read again to train */
  return err;
}

ts_err ts_source_take_learnt(ts_source *s, const char *encoding,
                             const char *transform, const char *state) {
  TS_DO(ts_scales_create(&s->scales, s->config, transform));
  TS_DO(ts_vocabularies_create(&s->vocabularies, s->config, encoding));
  if (!state) return TS_OK;
  TS_DO(ts_scales_load(s->scales, state));
  return ts_vocabularies_load(s->vocabularies, state);
}

ts_err ts_source_learn_numbers(ts_source *s, const uint64_t *kept, bool hex,
                               ts_comm *comm) {
  int64_t first, end;
  if (!s->vocabularies && !ts_scales_learn_some(s->scales)) return TS_OK;
  TS_DO(ts_agree(comm, ts_scales_begin(s->scales, s->info.n_samples, kept, comm,
                                       &first, &end)));
  s->learning = true;
  const ts_err err = learn_share(s, first, end, kept, hex);
  s->learning = false;
  TS_DO(ts_agree(comm, err));
  if (s->scales) TS_DO(ts_scales_settle(s->scales, comm));
  return s->vocabularies ? ts_vocabularies_settle(s->vocabularies, comm)
                         : TS_OK;
}

ts_err ts_source_save_learnt(ts_source *s, ts_str *text) {
  TS_DO(ts_scales_save(s->scales, text));
  return ts_vocabularies_save(s->vocabularies, text);
}

void ts_source_free_learnt(ts_source *s) {
  ts_mem_free(s->lacks);
  ts_scales_destroy(s->scales);
  ts_vocabularies_destroy(s->vocabularies);
}
