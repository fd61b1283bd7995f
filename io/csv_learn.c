/* csv_learn.c - what CSV's training samples teach: scales of numeric columns,
 * vocabularies of categorical ones. */
#include "io/csv_impl.h"
#include "io/subset.h"
#include "runtime/progress.h"
#include "runtime/watchdog.h"

/* Lines of a large file after which the watchdog hears of it. */
enum { BEAT = 65536 };

typedef struct ts_learning {
  const uint64_t *kept; /* the samples that count; NULL: all */
  int64_t first;        /* line of this rank's */
  ts_scales *scales;    /* NULL: nothing is learnt of numbers */
  ts_work work;
} ts_learning;

/* The words of a field: one, or those of a list. */
static ts_err learn_words(ts_csv *s, int32_t k) {
  ts_csv_items items;
  ts_field item;
  float weight;
  if (s->ids[k].encoding != TS_CSV_VOCABULARY || !ts_csv_items_of(s, k, &items))
    return TS_OK;
  if (!ts_csv_has_bags(&s->bags[k]))
    return ts_vocabularies_learn(s->base.vocabularies, k, items.rest.text,
                                 items.rest.n_bytes);
  while (ts_csv_item(s, k, &items, &item, &weight))
    TS_DO(ts_vocabularies_learn(s->base.vocabularies, k, item.text,
                                item.n_bytes));
  return TS_OK;
}

static ts_err learn_line(ts_csv *s, void *arg, int64_t sample) {
  ts_learning *l = arg;
  double x;
  if (sample % BEAT == 0) ts_watch_beat();
  ts_work_at(&l->work, (double)(sample - l->first));
  if (l->kept && !ts_bits_has(l->kept, sample)) return TS_OK;
  if (*s->why) return TS_OK; /* reported when it is read */
  for (int32_t i = 0; l->scales && i < ts_scales_count(l->scales); i++)
    if (ts_csv_dense(s, i, &x)) TS_DO(ts_scales_learn(l->scales, i, sample, x));
  for (int32_t k = 0; k < s->n_features; k++) TS_DO(learn_words(s, k));
  return TS_OK;
}

ts_err ts_csv_learn(ts_source *src, const uint64_t *kept, ts_comm *comm) {
  ts_csv *s = (ts_csv *)src;
  ts_scales *scales = s->base.scales;
  ts_vocabularies *v = s->base.vocabularies;
  if (!ts_scales_learn_some(scales)) scales = NULL;
  if (!scales && !v) return TS_OK;
  ts_learning l = {.kept = kept, .scales = scales};
  int64_t end;
  TS_DO(ts_agree(comm, ts_scales_begin(scales, ts_csv_n_lines(s), kept, comm,
                                       &l.first, &end)));
  l.work = ts_work_begin("learning words and scales of",
                         s->base.config->data.train.item[0],
                         (double)(end - l.first), "lines");
  TS_DO(ts_agree(comm,
                 ts_csv_each_line(s, l.first, end - l.first, learn_line, &l)));
  if (scales) TS_DO(ts_scales_settle(scales, comm));
  return v ? ts_vocabularies_settle(v, comm) : TS_OK;
}
