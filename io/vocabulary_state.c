/* vocabulary_state.c - vocabularies as the text that a checkpoint keeps: of
 * each a head and a word a line, and after all of them, of each, how often its
 * words were there.  Readers that know of no counts stop before these. */
#include <stdlib.h>
#include <string.h>

#include "io/batch_store.h"
#include "io/vocabulary_impl.h"

/* ---- to text ------------------------------------------------------------- */

/* A word is a line of the state.  Those of fields in quotes may have line ends:
 * such a vocabulary is written with \n for one, and \\ for \. */
static bool has_line_ends(const ts_words *w) {
  for (int64_t i = 0; i < w->n; i++)
    if (strchr(ts_words_at(w, i), '\n')) return true;
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

static ts_err save_words(const ts_words *w, const char *name, ts_str *text) {
  const bool plain = !has_line_ends(w);
  TS_DO(ts_str_append(text, "%c %lld %s\n", plain ? 'V' : 'W', (long long)w->n,
                      name));
  for (int64_t i = 0; i < w->n; i++)
    TS_DO(plain ? ts_str_append(text, "%s\n", ts_words_at(w, i))
                : append_escaped(text, ts_words_at(w, i)));
  return TS_OK;
}

static ts_err save_times(const ts_words *w, const char *name, ts_str *text) {
  if (!w->times) return TS_OK;
  TS_DO(ts_str_append(text, "N %lld %s\n", (long long)w->n, name));
  for (int64_t i = 0; i < w->n; i++)
    TS_DO(ts_str_append(text, "%lld\n", (long long)w->times[i]));
  return TS_OK;
}

ts_err ts_vocabularies_save(const ts_vocabularies *v, ts_str *text) {
  const char *name;
  for (int times = 0; v && times < 2; times++)
    for (int32_t k = 0; k < v->n_features; k++) {
      if (!v->on[k] || v->whose[k] != k) continue;
      (void)ts_feature_table(v->config, k, &name);
      TS_DO((times ? save_times : save_words)(&v->of[k].words, name, text));
    }
  return TS_OK;
}

/* ---- from text ----------------------------------------------------------- */

typedef struct ts_head {
  char kind; /* V, W: words; N: how often */
  long long n;
  const char *name;
  size_t n_bytes;
} ts_head;

/* Past the end of the line at P, or at the end of the text. */
static const char *next_line(const char *p) {
  const char *end = strchr(p, '\n');
  return end ? end + 1 : p + strlen(p);
}

/* The head at *P, which moves behind it; false where there is none. */
static bool read_head(ts_head *h, const char **p) {
  char *end;
  h->kind = **p;
  if ((h->kind != 'V' && h->kind != 'W' && h->kind != 'N') || (*p)[1] != ' ')
    return false;
  h->n = strtoll(*p + 2, &end, 10);
  if (end == *p + 2) return false;
  h->name = end + (*end == ' ');
  h->n_bytes = strcspn(h->name, "\n");
  *p = next_line(*p);
  return true;
}

/* The feature that a vocabulary's head names; without a name (of older
 * versions) the K-th. */
static ts_err find_feature(int32_t *feature, const ts_vocabularies *v,
                           int32_t k, const ts_head *h) {
  const char *name;
  for (*feature = h->n_bytes ? 0 : k; h->n_bytes && *feature < v->n_features;
       ++*feature) {
    (void)ts_feature_table(v->config, *feature, &name);
    if (strlen(name) == h->n_bytes && !memcmp(name, h->name, h->n_bytes)) break;
  }
  if (*feature < v->n_features &&
      (h->kind == 'N') == (v->of[v->whose[*feature]].block != NULL)) {
    *feature = v->whose[*feature];
    return TS_OK;
  }
  return ts_fail(TS_ERR_CKPT,
                 "the checkpoint's vocabulary number %d is of feature %.*s, "
                 "which the deck does not have, or not twice",
                 k + 1, (int)h->n_bytes, h->name);
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

static ts_err ends_early(int32_t feature, long long n) {
  return ts_fail(TS_ERR_CKPT,
                 "the checkpoint's vocabulary for categorical column %d ends "
                 "%lld words early",
                 feature + 1, n);
}

/* The words behind the head H, at *P, which moves behind them. */
static ts_err load_words(ts_vocabularies *v, int32_t feature, const ts_head *h,
                         const char **p) {
  ts_word_list *l = &v->of[feature].met;
  for (long long n = h->n; n > 0; n--, *p = next_line(*p)) {
    if (!**p) return ends_early(feature, n);
    TS_DO(ts_word_list_add(l, *p, strcspn(*p, "\n"), 1));
    if (h->kind == 'W') unescape(l->item[l->n - 1].word);
  }
  return ts_vocabulary_take(&v->of[feature], 1, false);
}

static ts_err load_times(ts_vocabularies *v, int32_t feature, const ts_head *h,
                         const char **p) {
  ts_words *w = &v->of[feature].words;
  int64_t *times = (int64_t *)w->at + w->n; /* in the block */
  if (h->n != w->n) return ends_early(feature, w->n);
  for (int64_t i = 0; i < w->n; i++, *p = next_line(*p)) {
    char *end;
    times[i] = strtoll(*p, &end, 10);
    if (end == *p || times[i] < 0) return ends_early(feature, w->n - i);
  }
  w->times = times;
  return TS_OK;
}

static ts_err load(ts_vocabularies *v, const char *p) {
  ts_head h;
  int32_t feature;
  while (*p && strchr("DSB", *p)) p = next_line(p); /* io/scales_state.c */
  for (int32_t k = 0; read_head(&h, &p); k++) {
    TS_DO(find_feature(&feature, v, k, &h));
    TS_DO((h.kind == 'N' ? load_times : load_words)(v, feature, &h, &p));
  }
  return TS_OK;
}

ts_err ts_vocabularies_load(ts_vocabularies *v, const char *state) {
  if (!v) return TS_OK;
  TS_DO(load(v, state));
  for (int32_t k = 0; k < v->n_features; k++)
    if (v->on[k] && !v->of[v->whose[k]].block)
      return ts_fail(
          TS_ERR_CKPT,
          "the checkpoint has no vocabulary for categorical column %d", k + 1);
  return TS_OK;
}

ts_err ts_vocabularies_recall(ts_vocabularies **out, const ts_config *c,
                              const char *state) {
  bool any = false;
  ts_vocabularies *v = NULL;
  *out = NULL;
  TS_DO(ts_vocabularies_make(&v, c));
  const ts_err err = load(v, state);
  for (int32_t k = 0; err == TS_OK && k < v->n_features; k++)
    any |= v->on[k] = v->of[v->whose[k]].words.n > 0;
  if (any)
    *out = v;
  else
    ts_vocabularies_destroy(v);
  return err;
}
