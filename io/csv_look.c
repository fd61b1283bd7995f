/* csv_look.c - a look at some of the training lines, for what trains badly
 * without a word: samples sorted by label, huge numbers, lists taken as one id.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/columns.h"
#include "io/csv_impl.h"
#include "io/order.h"

/* Signs from TEXT on are in texts, too. */
enum { LINES = 32768, PLACES = 64, N_SIGNS = 4, TEXT = 2 };
static const char signs[N_SIGNS] = {'|', ';', ',', ' '};
static const double huge = 1e4;

typedef struct ts_look_label {
  int64_t n, n_true, n_changes;
  float last;
} ts_look_label;

/* Fields of a categorical column. */
typedef struct ts_look_ids {
  int64_t n, with[N_SIGNS]; /* that look like lists by each sign */
  uint32_t counts[N_SIGNS]; /* bit i: one of them has i signs */
} ts_look_ids;

typedef struct ts_look {
  int64_t n; /* lines */
  ts_look_label *labels;
  double *low, *high; /* (n_dense) */
  ts_look_ids *ids;   /* (n_features) */
} ts_look;

/* Signs between short items; those of texts only between words of letters and
 * digits. */
static int n_signs(const ts_field *f, int of) {
  const char sign = signs[of];
  size_t length = 0;
  int n = 0;
  for (size_t i = 0; i < f->n_bytes; i++) {
    const unsigned char c = (unsigned char)f->text[i];
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                       (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
                       c == '\'';
    if (f->text[i] == sign) {
      if (!length) return 0;
      n++;
      length = 0;
    } else if (++length > 32 || (of >= TEXT && !plain)) {
      return 0;
    }
  }
  return n;
}

static void look_at_ids(ts_look_ids *ids, const ts_field *f) {
  ids->n++;
  for (int k = 0; k < N_SIGNS; k++) {
    const int n = f->n_bytes < 4096 ? n_signs(f, k) : 0;
    ids->with[k] += n > 0;
    ids->counts[k] |= UINT32_C(1) << (n < 31 ? n : 31);
  }
}

static ts_err look_at_line(ts_csv *s, void *arg, int64_t sample) {
  ts_look *l = arg;
  double x;
  (void)sample;
  if (*s->why) return TS_OK; /* reported when it is read */
  l->n++;
  for (int32_t k = 0; k < s->base.info.n_tasks; k++) {
    ts_look_label *label = &l->labels[k];
    const float y = ts_csv_label(s, k);
    if (isnan(y) || s->label_kind[k] != TS_CSV_BINARY) continue;
    label->n_changes += label->n && y != label->last;
    label->n_true += y > 0;
    label->last = y;
    label->n++;
  }
  for (int32_t d = 0; d < s->n_dense; d++) {
    if (!ts_csv_dense(s, d, &x)) continue;
    l->low[d] = fmin(l->low[d], x);
    l->high[d] = fmax(l->high[d], x);
  }
  for (int32_t k = 0; k < s->n_features; k++) {
    const int at = s->sparse[k];
    const bool made = s->ids[k].n_cross || s->ids[k].part;
    if (made || ts_csv_has_bags(&s->bags[k])) continue;
    const ts_field *f = ts_csv_field(s, at);
    if (!ts_csv_is_missing(s, f)) look_at_ids(&l->ids[k], f);
  }
  return TS_OK;
}

/* Some lines from all over the files; of packed ones, which are read in order,
 * and of files of columns, which are decoded in large pieces, the first. */
static ts_err look_at_lines(ts_csv *s, ts_look *l, bool packed) {
  const int64_t n = ts_csv_n_lines(s);
  if (n <= LINES || packed)
    return ts_csv_each_line(s, 0, n < LINES ? n : LINES, look_at_line, l);
  for (int64_t k = 0; k < PLACES; k++)
    TS_DO(ts_csv_each_line(s, (n - LINES / PLACES) / (PLACES - 1) * k,
                           LINES / PLACES, look_at_line, l));
  return TS_OK;
}

/* ---- what is said about it ----------------------------------------------- */

/* Labels that come in any order change 2 p (1 - p) times a sample. */
static void note_labels(const ts_look_label *l, const char *column,
                        bool packed) {
  static const char *const ways =
      "each step sees one label alone and learns little.  data.shuffle = "
      "\"full\" mixes samples (not of .gz), or once and for all: (head -n 1 "
      "FILE; tail -n +2 FILE | shuf) > MIXED";
  const double p = (double)l->n_true / fmax((double)l->n, 1);
  const double expected = 2 * p * (1 - p) * (double)l->n;
  const bool one = l->n >= 64 && (l->n_true == 0 || l->n_true == l->n);
  if (one && packed)
    ts_note("the first %lld labels (column \"%s\") are all %d; where the data "
            "is sorted by label, %s",
            (long long)l->n, column, l->n_true > 0, ways);
  else if (one)
    ts_note("all %lld labels looked at, from all over the data (column "
            "\"%s\"), are %d: with one class there is nothing to learn",
            (long long)l->n, column, l->n_true > 0);
  else if (expected >= 20 && (double)l->n_changes < expected / 8)
    ts_note("the data is sorted by label: column \"%s\" changes %lld times in "
            "%lld samples looked at, where %.0f times are usual; %s",
            column, (long long)l->n_changes, (long long)l->n, expected, ways);
}

static void note_dense(const ts_csv *s, const ts_look *l) {
  int32_t worst = -1, more = -1;
  double most = huge;
  for (int32_t d = 0; d < s->n_dense; d++) {
    if (!ts_scales_is_plain(s->base.scales, d)) continue;
    const double size = fmax(-l->low[d], l->high[d]);
    more += size > huge;
    if (size <= most) continue;
    worst = d;
    most = size;
  }
  if (worst < 0) return;
  char others[48] = "";
  if (more) snprintf(others, sizeof others, " (and %d more columns)", more);
  ts_note(
      "numeric column \"%s\" has numbers from %.10g to %.10g%s: so large, they "
      "hide the other columns and the loss starts huge; "
      "data.csv.dense_transform = \"standardise\" or \"log1p\" scales them",
      ts_column_of_dense(s->base.config, worst).from, l->low[worst],
      l->high[worst], others);
}

/* Of the features of one column. */
static bool is_first(const ts_csv *s, int32_t k) {
  const char *name;
  (void)ts_feature_table(s->base.config, k, &name);
  return ts_feature_find(s->base.config, name) == k;
}

static void note_lists(const ts_csv *s, const ts_look *l) {
  const bool listed = ts_columns_have_ids(s->base.config);
  for (int32_t k = 0; k < s->n_features; k++) {
    const ts_look_ids *ids = &l->ids[k];
    const ts_field *name = &s->header[s->sparse[k]];
    for (int j = 0; j < N_SIGNS; j++) {
      const bool text = j >= TEXT;
      /* Texts of a pattern, such as dates, have as many blanks each. */
      if (ids->n < 20 || 10 * ids->with[j] < 3 * ids->n ||
          (text && __builtin_popcount(ids->counts[j]) < 3) || !is_first(s, k))
        continue;
      ts_note("column \"%.*s\" looks like lists: %lld of %lld fields have a "
              "\"%c\", and each whole field is taken as one id; "
              "%slist_separator = \"%c\" makes them several%s",
              (int)name->n_bytes, name->text, (long long)ids->with[j],
              (long long)ids->n, signs[j], listed ? "" : "data.csv.", signs[j],
              listed ? " (in data.columns)"
                     : " (with data.csv.lists: in some columns only)");
      break;
    }
  }
}

static ts_err look(ts_csv *s, ts_look *l, const ts_strings *paths) {
  const ts_config *c = s->base.config;
  bool packed = s->table != NULL;
  TS_DO(ts_mem_many(l->labels, s->base.info.n_tasks, INPUT));
  TS_DO(ts_mem_many(l->low, s->n_dense, INPUT));
  TS_DO(ts_mem_many(l->high, s->n_dense, INPUT));
  TS_DO(ts_mem_many(l->ids, s->n_features, INPUT));
  for (int32_t d = 0; d < s->n_dense; d++)
    l->low[d] = INFINITY, l->high[d] = -INFINITY;
  for (int32_t i = 0; i < paths->n; i++)
    packed |= ts_str_ends(paths->item[i], ".gz");
  TS_DO(look_at_lines(s, l, packed));
  const bool sorted = ts_order_is_of_files(c);
  for (int32_t k = 0; sorted && k < s->base.info.n_tasks; k++)
    note_labels(&l->labels[k], ts_column_of_label(c, k).from, packed);
  note_dense(s, l);
  note_lists(s, l);
  return TS_OK;
}

ts_err ts_csv_look(ts_csv *s, const ts_strings *paths, ts_comm *comm) {
  ts_look l = {0};
  const ts_err err = ts_comm_rank(comm) == 0 ? look(s, &l, paths) : TS_OK;
  ts_mem_free_all(l.labels, l.low, l.high, l.ids);
  return ts_agree(comm, err);
}
