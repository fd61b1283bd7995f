/* segments.c - an evaluation's figures by the values of a column. */
#include "train/segments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/tasks.h"
#include "io/keys.h"
#include "io/word_list.h"
#include "train/report.h"

/* Cells that are read at a time. */
enum { CELLS = 65536 };

struct ts_segments {
  ts_trainer *t;
  const char *column;
  ts_keys *keys;
  ts_word_list values;  /* sorted, those that have figures */
  int64_t n_others;     /* values that have none */
  ts_metrics **metrics; /* (values.n + 1, n_tasks) */
};

/* ---- which they are ------------------------------------------------------ */

typedef struct ts_cell_text {
  const char *text;
  size_t n;
  char number[32];
} ts_cell_text;

/* Of sample I of those that were read last; one that is missing has a name. */
static void read_cell(ts_cell_text *to, const ts_keys *k, int64_t i) {
  const ts_sheet_column *column = &k->columns[0];
  const void *data = k->data[0];
  to->text = to->number;
  if (column->kind == TS_SHEET_TEXT) {
    to->text = (const char *)data + i * column->width;
    to->n = strnlen(to->text, (size_t)column->width);
  } else if (column->kind == TS_SHEET_I64) {
    to->n = (size_t)snprintf(to->number, sizeof to->number, "%lld",
                             (long long)((const int64_t *)data)[i]);
  } else {
    const double x = column->kind == TS_SHEET_F64
                         ? ((const double *)data)[i]
                         : (double)((const float *)data)[i];
    to->n = (size_t)snprintf(to->number, sizeof to->number, "%g", x);
  }
  if (to->n) return;
  to->text = "(none)";
  to->n = strlen(to->text);
}

static ts_err read_values(ts_segments *s) {
  const int w = s->t->n_ranks, me = s->t->rank;
  const int64_t n = s->keys->n_samples;
  const int64_t end = n * (me + 1) / w;
  ts_cell_text cell;
  for (int64_t at = n * me / w; at < end; at += CELLS) {
    const int64_t here = end - at < CELLS ? end - at : CELLS;
    ts_watch_beat();
    TS_DO(ts_keys_asked_by("--by", ts_keys_read(s->keys, at, here)));
    for (int64_t i = 0; i < here; i++) {
      read_cell(&cell, s->keys, i);
      TS_DO(ts_word_list_add(&s->values, cell.text, cell.n, 1));
    }
  }
  return TS_OK;
}

static int by_times(const void *a, const void *b) {
  const ts_met *x = a, *y = b;
  if (x->times != y->times) return x->times > y->times ? -1 : 1;
  return strcmp(x->word, y->word);
}

/* The same on all ranks. */
static void choose(ts_segments *s) {
  ts_word_list *v = &s->values;
  ts_word_list_settle(v);
  if (v->n) qsort(v->item, (size_t)v->n, sizeof *v->item, by_times);
  for (; v->n > TS_SEGMENTS; v->n--) {
    s->n_others++;
    ts_mem_free(v->item[v->n - 1].word);
  }
  ts_word_list_settle(v);
}

static ts_err create_metrics(ts_segments *s) {
  const int64_t n = (s->values.n + 1) * s->t->n_tasks;
  TS_DO(ts_mem_many(s->metrics, n, METRICS));
  for (int64_t i = 0; i < n; i++)
    TS_DO(ts_metrics_create(&s->metrics[i], -1, s->t->n_ranks));
  return TS_OK;
}

ts_err ts_segments_open(ts_segments **out, ts_trainer *t, const char *column) {
  ts_err err = TS_OK;
  ts_segments *s = NULL;
  char *names[] = {(char *)column};
  TS_TRY(ts_settle(t, ts_mem_alloc(&s, sizeof *s, TS_TAG_METRICS)));
  s->t = t;
  s->column = column;
  TS_TRY(ts_keys_asked_by("--by",
                          ts_keys_open(&s->keys, t->config, TS_SPLIT_EVAL,
                                       &(ts_strings){names, 1}, t->control)));
  TS_TRY(ts_settle(t, read_values(s)));
  TS_TRY(ts_word_list_share(&s->values, 1, t->control));
  choose(s);
  TS_TRY(ts_settle(t, create_metrics(s)));
  *out = s;
  s = NULL;
done:
  ts_segments_close(s);
  return err;
}

void ts_segments_close(ts_segments *s) {
  if (!s) return;
  const int64_t n = (s->values.n + 1) * s->t->n_tasks;
  for (int64_t i = 0; s->metrics && i < n; i++)
    ts_metrics_destroy(s->metrics[i]);
  ts_word_list_empty(&s->values);
  ts_keys_close(s->keys);
  ts_mem_free_all(s->metrics, s);
}

/* ---- their figures ------------------------------------------------------- */

/* The number of CELL's value; that behind the last for others. */
static int64_t find(const ts_segments *s, const ts_cell_text *cell) {
  int64_t low = 0, high = s->values.n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    const char *word = s->values.item[middle].word;
    int order = strncmp(word, cell->text, cell->n);
    if (!order) order = word[cell->n] != '\0';
    if (!order) return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return s->values.n;
}

ts_err ts_segments_add(void *segments, const ts_batch *b,
                       const float *predictions) {
  ts_segments *s = segments;
  const int32_t n_tasks = s->t->n_tasks;
  ts_cell_text cell;
  TS_DO(ts_keys_asked_by("--by", ts_keys_read(s->keys, b->first, b->n)));
  for (int32_t i = 0; i < b->n; i++) {
    read_cell(&cell, s->keys, i);
    ts_metrics **metrics = s->metrics + find(s, &cell) * n_tasks;
    for (int32_t k = 0; k < n_tasks; k++) {
      const ts_tally_args a =
          ts_stage_samples(s->t, k, predictions + (int64_t)i * s->t->n_logits,
                           b->labels + (int64_t)i * n_tasks,
                           b->weights ? b->weights + i : NULL, 1);
      TS_DO(ts_metrics_add(metrics[k], &a));
    }
  }
  return TS_OK;
}

static ts_err report(ts_segments *s, int64_t segment, const ts_look *look) {
  ts_trainer *t = s->t;
  for (int32_t k = 0; k < t->n_tasks; k++) {
    ts_metrics *m = s->metrics[segment * t->n_tasks + k];
    ts_metrics_result r = {0};
    TS_DO(ts_metrics_compute(m, &r, t->control));
    /* Groups may lie in several segments. */
    r.groups = (ts_group_figures){NAN, NAN, NAN, NAN, NAN};
    TS_DO(ts_metrics_judge(m, &r, ts_task_threshold(t->config, k), t->control));
    TS_DO(ts_report_eval(t, look, k, &r, NULL));
  }
  return TS_OK;
}

ts_err ts_segments_report(ts_segments *s) {
  char name[256];
  const ts_look look = {name, "eval"};
  for (int64_t i = 0; i < s->values.n; i++) {
    snprintf(name, sizeof name, "%.100s = %.100s", s->column,
             s->values.item[i].word);
    TS_DO(report(s, i, &look));
  }
  if (!s->n_others) return TS_OK;
  snprintf(name, sizeof name, "%.100s, %lld other values", s->column,
           (long long)s->n_others);
  return report(s, s->values.n, &look);
}
