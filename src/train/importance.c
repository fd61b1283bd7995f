/* importance.c - how much an evaluation loses by each feature alone. */
#include "train/importance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/batch_store.h"
#include "io/columns.h"
#include "io/permuted.h"
#include "runtime/trace.h"

enum { NAME = 256, TELL_S = 10 };

/* Figures that are lost: of AUC, and as log loss that is gained. */
typedef struct ts_loss {
  double auc, logloss;
} ts_loss;

typedef struct ts_subject {
  char name[NAME];
  int32_t what;
  ts_loss *lost; /* (repeats, n_tasks) */
} ts_subject;

/* A line of the table. */
typedef struct ts_importance_row {
  const char *name;
  ts_loss mean, spread;
} ts_importance_row;

typedef struct ts_importance_pass {
  ts_trainer *t;
  const ts_importance *asked;
  ts_source *permuted;
  ts_subject *subject; /* (n) */
  int32_t n;
  double t0, told; /* of the first pass, of the last line */
} ts_importance_pass;

/* ---- what is asked for --------------------------------------------------- */

static int32_t count_all(const ts_config *c) {
  return ts_feature_count(c) + c->model.dense_features;
}

/* Features have names; dense inputs where the deck names columns. */
static void name_of(char name[NAME], const ts_config *c, int32_t what) {
  const int32_t n = ts_feature_count(c);
  const char *feature;
  if (what < n) {
    (void)ts_feature_table(c, what, &feature);
    snprintf(name, NAME, "%s", feature);
  } else if (what - n < ts_column_n_dense(c)) {
    snprintf(name, NAME, "%s", ts_column_of_dense(c, what - n).name);
  } else {
    snprintf(name, NAME, "dense[%d]", what - n);
  }
}

/* A feature that is in several tables stands for all of them. */
static bool is_again(const ts_config *c, int32_t what) {
  const char *feature;
  if (what >= ts_feature_count(c)) return false;
  (void)ts_feature_table(c, what, &feature);
  return ts_feature_find(c, feature) != what;
}

static bool is_asked(const ts_importance *o, const char *name) {
  for (int32_t i = 0; i < o->features->n; i++)
    if (!strcmp(o->features->item[i], name)) return true;
  return !o->features->n;
}

static ts_err unknown(const ts_config *c, const char *asked) {
  ts_err err = TS_OK;
  ts_str names = {0};
  char name[NAME];
  for (int32_t k = 0; k < count_all(c); k++) {
    name_of(name, c, k);
    if (is_again(c, k)) continue;
    TS_TRY(ts_str_append(&names, "%s%s", k ? ", " : "", name));
  }
  TS_THROW(TS_ERR_USAGE, "--features: no feature \"%s\"; there are: %.1000s",
           asked, names.text);
done:
  ts_str_reset(&names);
  return err;
}

ts_err ts_importance_check(const ts_config *c, const ts_importance *o) {
  char name[NAME];
  if (o->repeats && ts_feature_of_times(c) >= 0)
    return ts_fail(TS_ERR_USAGE,
                   "--importance permutes a column at a time, and times (key "
                   "times of a layer) go with the ids that they are of");
  for (int32_t i = 0; o->repeats && i < o->features->n; i++) {
    int32_t k = 0;
    for (; k < count_all(c); k++) {
      name_of(name, c, k);
      if (!strcmp(o->features->item[i], name)) break;
    }
    if (k == count_all(c)) return unknown(c, o->features->item[i]);
  }
  return TS_OK;
}

static ts_err pass_create(ts_importance_pass *p) {
  const ts_config *c = p->t->config;
  const int64_t each = (int64_t)p->asked->repeats * p->t->n_tasks;
  TS_DO(ts_mem_many(p->subject, count_all(c), METRICS));
  for (int32_t k = 0; k < count_all(c); k++) {
    ts_subject *s = &p->subject[p->n];
    name_of(s->name, c, k);
    if (is_again(c, k) || !is_asked(p->asked, s->name)) continue;
    s->what = k;
    p->n++;
    TS_DO(ts_mem_many(s->lost, each, METRICS));
  }
  return TS_OK;
}

/* ---- passes -------------------------------------------------------------- */

static void tell(ts_importance_pass *p, int64_t done) {
  const double now = ts_now(), gone = now - p->t0;
  const int64_t all = (int64_t)p->n * p->asked->repeats;
  char a[32], b[32];
  if (now - p->told < TELL_S || done == all) return;
  p->told = now;
  ts_progress("importance: %lld of %lld passes  %s, left %s", (long long)done,
              (long long)all, ts_str_seconds(a, gone),
              ts_str_seconds(b, gone / (double)done * (double)(all - done)));
}

static ts_err look(ts_importance_pass *p, const ts_metrics_result *whole) {
  static const ts_eval_hooks none = {0};
  const int32_t n_tasks = p->t->n_tasks;
  ts_metrics_result m[n_tasks];
  bool stopped;
  p->t0 = p->told = ts_now();
  for (int32_t i = 0; i < p->n; i++)
    for (int32_t r = 0; r < p->asked->repeats; r++) {
      ts_permuted_choose(p->permuted, p->subject[i].what, r);
      TS_DO(ts_evaluate(p->t, p->permuted, m, &none, &stopped));
      for (int32_t k = 0; k < n_tasks; k++)
        p->subject[i].lost[r * n_tasks + k] =
            (ts_loss){whole[k].auc - m[k].auc, m[k].logloss - whole[k].logloss};
      tell(p, (int64_t)i * p->asked->repeats + r + 1);
    }
  return TS_OK;
}

/* ---- the table ----------------------------------------------------------- */

/* Mean, and standard deviation, over repeats of task K. */
static ts_importance_row row_of(const ts_importance_pass *p,
                                const ts_subject *s, int32_t k) {
  const int32_t n = p->asked->repeats, n_tasks = p->t->n_tasks;
  ts_importance_row x = {.name = s->name};
  for (int32_t r = 0; r < n; r++) {
    x.mean.auc += s->lost[r * n_tasks + k].auc / n;
    x.mean.logloss += s->lost[r * n_tasks + k].logloss / n;
  }
  for (int32_t r = 0; n > 1 && r < n; r++) {
    const ts_loss *one = &s->lost[r * n_tasks + k];
    x.spread.auc += pow(one->auc - x.mean.auc, 2) / (n - 1);
    x.spread.logloss += pow(one->logloss - x.mean.logloss, 2) / (n - 1);
  }
  x.spread = (ts_loss){sqrt(x.spread.auc), sqrt(x.spread.logloss)};
  return x;
}

static int by_loss(const void *a, const void *b) {
  const ts_importance_row *x = a, *y = b;
  if (x->mean.auc != y->mean.auc) return x->mean.auc > y->mean.auc ? -1 : 1;
  if (x->mean.logloss != y->mean.logloss)
    return x->mean.logloss > y->mean.logloss ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* One pass has no spread. */
static const char *spread_text(char to[16], double spread, int32_t repeats) {
  snprintf(to, 16, "%.5f", spread);
  return repeats > 1 ? to : "-";
}

static void say(const ts_importance_pass *p, const ts_importance_row *row,
                int32_t k) {
  const ts_config *c = p->t->config;
  const int32_t n = p->asked->repeats;
  char a[16], b[16];
  int wide = 8;
  for (int32_t i = 0; i < p->n; i++)
    if ((int)strlen(row[i].name) > wide) wide = (int)strlen(row[i].name);
  if (wide > 40) wide = 40;
  ts_info("importance%s%s: what is lost with one feature's values given to "
          "other samples, mean and spread of %d",
          p->t->n_tasks > 1 ? " of " : "",
          p->t->n_tasks > 1 ? c->model.tasks[k].name : "", n);
  ts_info("  %-*s  AUC lost  +-        log loss gained  +-", wide, "feature");
  for (int32_t i = 0; i < p->n; i++)
    ts_info("  %-*s  %8.5f  %-7s   %15.5f  %s", wide, row[i].name,
            row[i].mean.auc, spread_text(a, row[i].spread.auc, n),
            row[i].mean.logloss, spread_text(b, row[i].spread.logloss, n));
}

static ts_err report(const ts_importance_pass *p) {
  ts_importance_row *row = NULL;
  TS_DO(ts_mem_many(row, p->n, METRICS));
  for (int32_t k = 0; k < p->t->n_tasks; k++) {
    for (int32_t i = 0; i < p->n; i++) row[i] = row_of(p, &p->subject[i], k);
    if (p->n) qsort(row, (size_t)p->n, sizeof *row, by_loss);
    say(p, row, k);
  }
  ts_mem_free(row);
  return TS_OK;
}

ts_err ts_importance_report(ts_trainer *t, ts_source *permuted,
                            const ts_importance *o,
                            const ts_metrics_result *whole) {
  ts_err err = TS_OK;
  ts_importance_pass p = {.t = t, .asked = o, .permuted = permuted};
  TS_TRY(ts_settle(t, pass_create(&p)));
  TS_TRY(look(&p, whole));
  TS_TRY(ts_settle(t, report(&p)));
done:
  for (int32_t i = 0; i < p.n; i++) ts_mem_free(p.subject[i].lost);
  ts_mem_free(p.subject);
  return err;
}
