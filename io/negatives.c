/* negatives.c - a share of the samples with label 0 is trained on; and what a
 * checkpoint knows of the samples that its run trained on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/split.h"
#include "io/subset.h"
#include "runtime/progress.h"
#include "runtime/watchdog.h"

/* Samples that are read at a time for their labels. */
enum { SAMPLES = 4096 };

/* ---- which --------------------------------------------------------------- */

static bool is_kept(const ts_config *c, int64_t sample) {
  const uint64_t h =
      ts_mix64((uint64_t)sample + ts_mix64(~(uint64_t)c->run.seed));
  return (double)(h >> 11) * 0x1p-53 < c->data.negatives;
}

/* The bits of samples [FIRST, END) that are trained on. */
static ts_err look(ts_source *s, uint64_t *bits, int64_t first, int64_t end) {
  ts_err err = TS_OK;
  ts_batch_store *store = NULL;
  TS_TRY(ts_batch_store_create(&store, s->config, NULL));
  ts_work work = ts_work_begin("choosing negatives of", "data.train",
                               (double)(end - first), "samples");
  for (int64_t at = first; at < end; at += SAMPLES) {
    const int64_t n = end - at < SAMPLES ? end - at : SAMPLES;
    ts_watch_beat();
    TS_TRY(s->ops->read(s, store, at, (int32_t)n));
    const ts_batch *b = ts_batch_store_batch(store);
    for (int64_t i = 0; i < n; i++)
      if (b->labels[i * b->n_tasks] != 0 || is_kept(s->config, at + i))
        ts_bits_set(bits, at + i);
    ts_work_at(&work, (double)(at + n - first));
  }
done:
  ts_batch_store_destroy(store);
  s->n_short = s->n_bad_records = s->n_bad_ids = 0; /* read again to train */
  return err;
}

ts_err ts_negatives_take(ts_source **source, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_source *s = *source;
  const int64_t n = s->info.n_samples, words = ts_bits_words(n);
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t stop = words * (me + 1) / w * TS_BITS_WORD;
  uint64_t *bits = NULL;
  if (s->config->data.negatives >= 1) return TS_OK;
  TS_TRY(ts_agree(comm, ts_mem_many(bits, words, INPUT)));
  TS_TRY(ts_agree(
      comm, look(s, bits, words * me / w * TS_BITS_WORD, stop < n ? stop : n)));
  TS_TRY(ts_comm_sum_i64(comm, (int64_t *)bits, words));
  const int64_t n_kept = ts_bits_count(bits, n);
  if (!n_kept)
    TS_THROW(TS_ERR_DATA,
             "data.negatives = %g leaves nothing to train on: all %lld samples "
             "have label 0, and none is kept",
             s->config->data.negatives, (long long)n);
  TS_TRY(ts_agree(comm, ts_subset_take(source, bits)));
  bits = NULL;
  (*source)->info.n_dropped = n - n_kept;
done:
  ts_mem_free(bits);
  return err;
}

/* ---- checkpoints --------------------------------------------------------- */

static const char negatives_is[] = "data.negatives ";

/* A line for each key, in this order; those that decide nothing are as where
 * nothing is split. */
static ts_err print(ts_str *to, const ts_config *c) {
  const bool on = ts_split_is_on(c), hashes = !strcmp(c->data.split.by, "hash");
  const bool seeded = (on && hashes) || c->data.negatives < 1;
  TS_DO(ts_str_append(to, "data.split.valid %.10g\n", c->data.split.valid));
  TS_DO(ts_str_append(to, "data.split.by %s\n", on ? c->data.split.by : "-"));
  TS_DO(ts_str_append(to, "data.split.key \"%s\"\n",
                      on ? c->data.split.key : ""));
  TS_DO(ts_str_append(to, "%s%.10g\n", negatives_is, c->data.negatives));
  return ts_str_append(to, "run.seed %lld\n",
                       seeded ? (long long)c->run.seed : 0);
}

static const char name_of_text[] = "loader/split";

ts_err ts_split_save(const ts_config *c, ts_ckpt *ckpt) {
  ts_str text = {0};
  ts_err err = print(&text, c);
  if (err == TS_OK) err = ts_ckpt_add_text(ckpt, name_of_text, text.text);
  ts_str_reset(&text);
  return err;
}

/* That of CKPT; an older one's is of all samples. */
static const char *text_of(const ts_ckpt *ckpt) {
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, name_of_text);
  return v && v->dtype == TS_U8 && v->n > 0
             ? v->ptr
             : "data.split.valid 0\ndata.split.by -\ndata.split.key \"\"\n"
               "data.negatives 1\nrun.seed 0\n";
}

double ts_negatives_of(const ts_config *c, const ts_ckpt *ckpt) {
  const char *at = strstr(text_of(ckpt), negatives_is);
  double r = at ? strtod(at + strlen(negatives_is), NULL) : 1;
  if (!(r > 0 && r <= 1)) r = 1; /* damaged */
  if (r < 1) ts_info("predictions are corrected for data.negatives = %g", r);
  if (fabs(r - c->data.negatives) > 1e-9)
    ts_note("the deck has data.negatives = %g, the checkpoint was trained with "
            "%g: that is what predictions are corrected for",
            c->data.negatives, r);
  return r;
}

/* What line TEXT has behind its name. */
static void value_of(char value[256], const char *text) {
  const size_t name = strcspn(text, " \n"), all = strcspn(text, "\n");
  const size_t skipped = name < all ? name + 1 : all;
  snprintf(value, 256, "%.*s", (int)(all - skipped), text + skipped);
}

ts_err ts_split_check(const ts_config *c, const ts_ckpt *ckpt) {
  ts_err err = TS_OK;
  ts_str text = {0};
  char old[256], new[256];
  const char *was = text_of(ckpt);
  TS_TRY(print(&text, c));
  for (const char *is = text.text; *is && *was;) {
    value_of(old, was);
    value_of(new, is);
    if (strcmp(old, new) != 0)
      TS_THROW(TS_ERR_CKPT,
               "%.*s was %s, the deck has %s: the checkpoint was trained on "
               "another part of data.train; go on with that value, or start "
               "anew with checkpoint.resume = \"never\"",
               (int)strcspn(is, " "), is, old, new);
    is += strcspn(is, "\n");
    is += *is == '\n';
    was += strcspn(was, "\n");
    was += *was == '\n';
  }
done:
  ts_str_reset(&text);
  return err;
}
