/* csv_learn.c - what CSV's training files teach: means and deviations of
 * numeric columns, vocabularies of categorical ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/columns.h"
#include "io/csv_impl.h"
#include "io/word_list.h"

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
  ts_moments *moments; /* (n_dense) */
  ts_word_list *words; /* (n_features) */
} ts_learning;

/* Those that are there LEAST times or more become V's. */
static ts_err take_words(ts_vocabulary *v, ts_word_list *l, int64_t least) {
  ts_word_list_settle(l);
  TS_DO(ts_mem_many(v->word, l->n, INPUT));
  for (int64_t i = 0; i < l->n; i++) {
    if (l->item[i].times < least) continue;
    v->word[v->n++] = l->item[i].word;
    l->item[i].word = NULL;
  }
  return TS_OK;
}

/* The words of a field: one, or those of a list. */
static ts_err learn_words(ts_csv *s, ts_learning *l, int32_t k) {
  ts_field rest = ts_csv_word(s, k), item;
  float weight;
  if (s->ids[k].encoding != TS_CSV_VOCABULARY || ts_csv_is_missing(s, &rest))
    return TS_OK;
  if (!ts_csv_has_bags(&s->bags[k]))
    return ts_word_list_add(&l->words[k], rest.text, rest.n_bytes, 1);
  while (ts_csv_item(s, k, &rest, &item, &weight))
    TS_DO(ts_word_list_add(&l->words[k], item.text, item.n_bytes, 1));
  return TS_OK;
}

static ts_err learn_line(ts_csv *s, void *arg, int64_t sample) {
  ts_learning *l = arg;
  double x;
  (void)sample;
  if (*s->why) return TS_OK; /* reported when it is read */
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++) {
    if (ts_csv_dense(s, d, &x))
      add_moments(&l->moments[d], &(ts_moments){1, x, 0});
  }
  for (int32_t k = 0; s->vocabulary && k < s->n_features; k++)
    TS_DO(learn_words(s, l, k));
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

ts_err ts_csv_learn(ts_csv *s, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_learning l = {0};
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  const int64_t n = ts_text_n_lines(s->text);
  TS_TRY(ts_mem_many(l.moments, s->n_dense, INPUT));
  TS_TRY(ts_mem_many(l.words, s->n_features, INPUT));
  TS_TRY(ts_agree(comm,
                  ts_csv_each_line(s, n * me / w, n * (me + 1) / w - n * me / w,
                                   learn_line, &l)));
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++)
    TS_TRY(share_moments(s, d, &l.moments[d], comm));
  for (int32_t k = 0; s->vocabulary && k < s->n_features; k++) {
    const ts_column_config column = ts_column_of_feature(s->base.config, k);
    TS_TRY(ts_word_list_share(&l.words[k], comm));
    TS_TRY(ts_agree(comm,
                    take_words(&s->words[k], &l.words[k], column.min_count)));
  }
done:
  for (int32_t k = 0; l.words && k < s->n_features; k++)
    ts_word_list_empty(&l.words[k]);
  ts_mem_free_all(l.moments, l.words);
  return err;
}

/* A word is a line of the state.  Those of fields in quotes may have line ends:
 * such a vocabulary is written with \n for one, and \\ for \. */
static bool has_line_ends(const ts_vocabulary *v) {
  for (int64_t i = 0; i < v->n; i++)
    if (strchr(v->word[i], '\n')) return true;
  return false;
}

static ts_err append_escaped(ts_str *text, const char *word) {
  for (; *word; word++) {
    const char two[2] = {'\\', *word == '\n' ? 'n' : *word};
    const int plain = *word != '\n' && *word != '\\';
    TS_DO(ts_str_append_bytes(text, two + plain, (size_t)(2 - plain)));
  }
  return ts_str_append(text, "\n");
}

static void unescape(char *word) {
  char *to = word;
  for (; *word; word++) {
    const bool escaped = *word == '\\' && word[1];
    if (escaped) word++;
    *to++ = escaped && *word == 'n' ? '\n' : *word;
  }
  *to = '\0';
}

ts_err ts_csv_state_save(ts_source *src, ts_str *text) {
  const ts_csv *s = (const ts_csv *)src;
  const char *name;
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++)
    TS_DO(ts_str_append(text, "D %.17g %.17g\n", s->mean[d], s->deviation[d]));
  for (int32_t k = 0; s->vocabulary && k < s->n_features; k++) {
    const ts_vocabulary *v = &s->words[k];
    const bool plain = !has_line_ends(v);
    (void)ts_feature_table(s->base.config, k, &name);
    TS_DO(ts_str_append(text, "%c %lld %s\n", plain ? 'V' : 'W',
                        (long long)v->n, name));
    for (int64_t i = 0; i < v->n; i++)
      TS_DO(plain ? ts_str_append(text, "%s\n", v->word[i])
                  : append_escaped(text, v->word[i]));
  }
  return TS_OK;
}

/* Past the end of the line at P, or at the end of the text. */
static const char *next_line(const char *p) {
  const char *end = strchr(p, '\n');
  return end ? end + 1 : p + strlen(p);
}

/* The feature that a vocabulary's head names at P, of N_BYTES; without a name
 * (of older versions) the K-th. */
static ts_err find_feature(int32_t *feature, const ts_csv *s, int32_t k,
                           const char *p, size_t n_bytes) {
  const char *name;
  for (*feature = n_bytes ? 0 : k; n_bytes && *feature < s->n_features;
       ++*feature) {
    (void)ts_feature_table(s->base.config, *feature, &name);
    if (strlen(name) == n_bytes && !memcmp(name, p, n_bytes)) break;
  }
  if (*feature < s->n_features && !s->words[*feature].word) return TS_OK;
  return ts_fail(TS_ERR_CKPT,
                 "the checkpoint's vocabulary number %d is of feature %.*s, "
                 "which the deck does not have, or not twice",
                 k + 1, (int)n_bytes, p);
}

/* The vocabulary whose head is at *P, which moves behind it. */
static ts_err load_words(ts_csv *s, int32_t k, const char **p) {
  ts_err err = TS_OK;
  long long n;
  int digits;
  int32_t feature;
  ts_word_list l = {0};
  const bool plain = **p == 'V';
  if (sscanf(*p, plain ? "V %lld%n" : "W %lld%n", &n, &digits) != 1)
    return ts_fail(TS_ERR_CKPT,
                   "the checkpoint has no vocabulary for categorical column %d",
                   k + 1);
  const char *name = *p + digits + ((*p)[digits] == ' ');
  const size_t n_bytes = strcspn(name, "\n");
  TS_DO(find_feature(&feature, s, k, name, n_bytes));
  for (*p = next_line(*p); n > 0; n--, *p = next_line(*p)) {
    if (!**p)
      TS_THROW(TS_ERR_CKPT,
               "the checkpoint's vocabulary for categorical column %d ends "
               "%lld words early",
               k + 1, n);
    TS_TRY(ts_word_list_add(&l, *p, strcspn(*p, "\n"), 1));
    if (!plain) unescape(l.item[l.n - 1].word);
  }
  err = take_words(&s->words[feature], &l, 1);
done:
  ts_word_list_empty(&l);
  return err;
}

ts_err ts_csv_state_load(ts_csv *s, const char *p) {
  for (int32_t d = 0; s->standardise && d < s->n_dense; d++) {
    if (sscanf(p, "D %lf %lf", &s->mean[d], &s->deviation[d]) != 2)
      return ts_fail(TS_ERR_CKPT,
                     "the checkpoint has no scale for numeric column "
                     "%d",
                     d + 1);
    p = next_line(p);
  }
  for (int32_t k = 0; s->vocabulary && k < s->n_features; k++)
    TS_DO(load_words(s, k, &p));
  return TS_OK;
}
