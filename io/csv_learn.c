/* csv_learn.c - what CSV's training samples teach: means and deviations of
 * numeric columns, vocabularies of categorical ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/csv_impl.h"
#include "io/subset.h"
#include "runtime/progress.h"
#include "runtime/watchdog.h"

/* Lines of a large file after which the watchdog hears of it. */
enum { BEAT = 65536 };

/* Mean and spread of the numbers so far.  Distances are squared, not numbers:
 * squares of a date's seconds leave no digits for the differences. */
typedef struct ts_moments {
  double n, mean, squares; /* sum of the squares of distances from the mean */
} ts_moments;

static void add_moments(ts_moments *to, const ts_moments *x) {
  const double n = to->n + x->n, apart = x->mean - to->mean;
  if (x->n == 0) return;
  to->squares += x->squares + apart * apart * to->n * x->n / n;
  to->mean += apart * x->n / n;
  to->n = n;
}

typedef struct ts_learning {
  ts_moments *moments;  /* (n_dense) */
  const uint64_t *kept; /* the samples that count; NULL: all */
  int64_t first;        /* line of this rank's */
  ts_work work;
} ts_learning;

/* The words of a field: one, or those of a list. */
static ts_err learn_words(ts_csv *s, int32_t k) {
  ts_field rest = ts_csv_word(s, k), item;
  float weight;
  if (s->ids[k].encoding != TS_CSV_VOCABULARY || ts_csv_is_missing(s, &rest))
    return TS_OK;
  if (!ts_csv_has_bags(&s->bags[k]))
    return ts_vocabularies_learn(s->base.vocabularies, k, rest.text,
                                 rest.n_bytes);
  while (ts_csv_item(s, k, &rest, &item, &weight))
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
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++) {
    if (ts_csv_dense(s, d, &x))
      add_moments(&l->moments[d], &(ts_moments){1, x, 0});
  }
  for (int32_t k = 0; k < s->n_features; k++) TS_DO(learn_words(s, k));
  return TS_OK;
}

/* In rank order; numbers that are all alike are left at 0. */
static ts_err share_moments(ts_csv *s, int32_t d, const ts_moments *own,
                            ts_comm *comm) {
  ts_moments all[ts_comm_size(comm)], sum = {0};
  TS_DO(ts_comm_gather_all(comm, all, own, sizeof *own));
  for (int r = 0; r < ts_comm_size(comm); r++) add_moments(&sum, &all[r]);
  const double variance = sum.squares / fmax(sum.n, 1);
  s->mean[d] = sum.mean;
  s->deviation[d] = variance > 1e-12 ? sqrt(variance) : 1;
  return TS_OK;
}

ts_err ts_csv_learn(ts_source *src, const uint64_t *kept, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_csv *s = (ts_csv *)src;
  ts_learning l = {.kept = kept};
  ts_vocabularies *v = s->base.vocabularies;
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t n = ts_text_n_lines(s->text);
  const int64_t own = n * (me + 1) / w - n * me / w;
  if (!s->standardise && !v) return TS_OK;
  l.first = n * me / w;
  l.work =
      ts_work_begin("learning words and scales of",
                    s->base.config->data.train.item[0], (double)own, "lines");
  TS_TRY(ts_agree(comm, ts_mem_many(l.moments, s->n_dense, INPUT)));
  TS_TRY(ts_agree(comm, ts_csv_each_line(s, l.first, own, learn_line, &l)));
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++)
    TS_TRY(share_moments(s, d, &l.moments[d], comm));
  if (v) TS_TRY(ts_vocabularies_settle(v, comm));
done:
  ts_mem_free(l.moments);
  return err;
}

ts_err ts_csv_state_save(ts_source *src, ts_str *text) {
  const ts_csv *s = (const ts_csv *)src;
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++)
    TS_DO(ts_str_append(text, "D %.17g %.17g\n", s->mean[d], s->deviation[d]));
  return ts_vocabularies_save(s->base.vocabularies, text);
}

/* "D MEAN DEVIATION"; sscanf would look for the end of the whole text first. */
static bool take_scale(const char *p, double *mean, double *deviation) {
  char *middle, *end;
  if (strncmp(p, "D ", 2) != 0) return false;
  *mean = strtod(p + 2, &middle);
  *deviation = strtod(middle, &end);
  return middle != p + 2 && end != middle;
}

ts_err ts_csv_state_load(ts_csv *s, const char *p) {
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++) {
    if (!take_scale(p, &s->mean[d], &s->deviation[d]))
      return ts_fail(TS_ERR_CKPT,
                     "the checkpoint has no scale for numeric column "
                     "%d",
                     d + 1);
    p += strcspn(p, "\n");
    p += *p == '\n';
  }
  return ts_vocabularies_load(s->base.vocabularies, p);
}
