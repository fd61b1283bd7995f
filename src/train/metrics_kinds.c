/* metrics_kinds.c - what an evaluation can say: a line of the table each, with
 * the sums of its own that it needs and how they become a figure. */
#include <math.h>
#include <string.h>

#include "base/kinds.h"
#include "base/mem.h"
#include "train/metrics_impl.h"

enum { BINS = TS_METRIC_BINS, OWN = 3 * BINS };

/* What figures are made of: sums over all ranks. */
typedef struct ts_metric_seen {
  const ts_metric_sums *all;
  const double *own; /* (OWN) what ADD has summed */
  double auc, pr_auc;
  const ts_group_figures *groups;
} ts_metric_seen;

typedef struct ts_metric_kind {
  const char *name, *text; /* in decks and metrics.jsonl; in the log */
  int digits;              /* there */
  void (*add)(double *own, ts_metric_sample, double threshold); /* or NULL */
  double (*finish)(const ts_metric_seen *);
  bool is_cost; /* less of it is better */
} ts_metric_kind;

/* 0 where there is nothing to divide by, as scikit-learn has it. */
static double share(double part, double all) {
  return all > 0 ? part / all : 0;
}

/* ---- of the order of predictions ----------------------------------------- */

static double finish_auc(const ts_metric_seen *s) {
  return s->auc;
}

static double finish_pr_auc(const ts_metric_seen *s) {
  return s->pr_auc;
}

/* ---- of probabilities ---------------------------------------------------- */

static double finish_logloss(const ts_metric_seen *s) {
  return share(s->all->loss, s->all->weight);
}

static double finish_ne(const ts_metric_seen *s) {
  return ts_metric_ne(s->all);
}

static double finish_calibration(const ts_metric_seen *s) {
  return share(s->all->predicted, s->all->positive);
}

/* Bins of equal width, of each the weight, its predictions and its labels. */
static void add_bin(double *own, ts_metric_sample x, double threshold) {
  const int k = (int)fmin((double)x.p * BINS, BINS - 1);
  double *bin = own + 3 * (k < 0 ? 0 : k);
  (void)threshold;
  bin[0] += (double)x.w;
  bin[1] += (double)x.w * (double)x.p;
  bin[2] += (double)x.w * (double)x.y;
}

static double finish_ece(const ts_metric_seen *s) {
  double off = 0;
  for (int k = 0; k < BINS; k++)
    off += fabs(s->own[3 * k + 1] - s->own[3 * k + 2]);
  return share(off, s->all->weight);
}

/* ---- of yes and no ------------------------------------------------------- */

static bool is_told(ts_metric_sample x, double threshold) {
  return (double)x.p >= threshold;
}

static bool is_real(ts_metric_sample x) {
  return x.y >= 0.5f;
}

/* THRESHOLD NAN: a task of classes, where the label says already whether the
 * prediction was right. */
static void add_right(double *own, ts_metric_sample x, double threshold) {
  const bool told = isnan(threshold) || is_told(x, threshold);
  if (told == is_real(x)) own[0] += (double)x.w;
}

static double finish_accuracy(const ts_metric_seen *s) {
  return share(s->own[0], s->all->weight);
}

/* What is told, what is real, and what is both. */
static void add_hits(double *own, ts_metric_sample x, double threshold) {
  const double w = (double)x.w;
  if (is_told(x, threshold)) own[0] += w;
  if (is_real(x)) own[1] += w;
  if (is_told(x, threshold) && is_real(x)) own[2] += w;
}

static double finish_precision(const ts_metric_seen *s) {
  return share(s->own[2], s->own[0]);
}

static double finish_recall(const ts_metric_seen *s) {
  return share(s->own[2], s->own[1]);
}

static double finish_f1(const ts_metric_seen *s) {
  return share(2 * s->own[2], s->own[0] + s->own[1]);
}

/* ---- of numbers ---------------------------------------------------------- */

static void add_errors(double *own, ts_metric_sample x, double threshold) {
  const double w = (double)x.w, y = (double)x.y, off = (double)x.p - y;
  (void)threshold;
  own[0] += w * off * off;
  own[1] += w * fabs(off);
  own[2] += w * y * y;
}

static double finish_mse(const ts_metric_seen *s) {
  return share(s->own[0], s->all->weight);
}

static double finish_mae(const ts_metric_seen *s) {
  return share(s->own[1], s->all->weight);
}

/* Of labels that are all the same nothing can be explained. */
static double finish_r2(const ts_metric_seen *s) {
  const double y = s->all->positive;
  const double spread = s->own[2] - share(y * y, s->all->weight);
  return spread > 0 ? 1 - s->own[0] / spread : 0;
}

/* ---- within groups ------------------------------------------------------- */

static double finish_gauc(const ts_metric_seen *s) {
  return s->groups->gauc;
}

static double finish_ndcg(const ts_metric_seen *s) {
  return s->groups->ndcg;
}

static double finish_hit_rate(const ts_metric_seen *s) {
  return s->groups->hit_rate;
}

static double finish_mrr(const ts_metric_seen *s) {
  return s->groups->mrr;
}

static double finish_recall_at_k(const ts_metric_seen *s) {
  return s->groups->recall;
}

/* ---- the table ----------------------------------------------------------- */

static const ts_metric_kind kinds[] = {
    {"auc", "AUC", 5, NULL, finish_auc, false},
    {"logloss", "log loss", 5, NULL, finish_logloss, true},
    {"ne", "NE", 5, NULL, finish_ne, true},
    {"accuracy", "accuracy", 4, add_right, finish_accuracy, false},
    {"calibration", "calibration", 4, NULL, finish_calibration, false},
    {"pr_auc", "PR-AUC", 5, NULL, finish_pr_auc, false},
    {"ece", "ECE", 5, add_bin, finish_ece, true},
    {"precision", "precision", 4, add_hits, finish_precision, false},
    {"recall", "recall", 4, add_hits, finish_recall, false},
    {"f1", "F1", 4, add_hits, finish_f1, false},
    {"mse", "MSE", 5, add_errors, finish_mse, true},
    {"mae", "MAE", 5, add_errors, finish_mae, true},
    {"r2", "R2", 4, add_errors, finish_r2, false},
    {"gauc", "GAUC", 5, NULL, finish_gauc, false},
    {"ndcg", "NDCG", 5, NULL, finish_ndcg, false},
    {"hit_rate", "hit rate", 4, NULL, finish_hit_rate, false},
    {"mrr", "MRR", 5, NULL, finish_mrr, false},
    {"recall_at_k", "recall at k", 4, NULL, finish_recall_at_k, false}};

#define ONE(name) +1
_Static_assert(sizeof kinds / sizeof *kinds == TS_METRIC_KINDS &&
                   TS_METRIC_KINDS == 0 TS_METRICS(ONE),
               "the list in base/kinds.h has the rows of this table");

int ts_metric_find(const char *name) {
  for (int k = 0; k < TS_METRIC_KINDS; k++)
    if (!strcmp(kinds[k].name, name)) return k;
  return -1;
}

const char *ts_metric_word(int kind) {
  return kinds[kind].name;
}

const char *ts_metric_text(int kind, int *digits) {
  *digits = kinds[kind].digits;
  return kinds[kind].text;
}

bool ts_metric_is_of_numbers(int kind) {
  return kinds[kind].add == add_errors;
}

bool ts_metric_is_of_classes(int kind) {
  return kinds[kind].add == add_right || kinds[kind].finish == finish_logloss;
}

bool ts_metric_is_of_ranks(int kind) {
  return kinds[kind].finish == finish_ndcg ||
         kinds[kind].finish == finish_hit_rate ||
         kinds[kind].finish == finish_mrr ||
         kinds[kind].finish == finish_recall_at_k;
}

bool ts_metric_is_cost(int kind) {
  return kinds[kind].is_cost;
}

ts_err ts_metrics_judge(ts_metrics *m, ts_metrics_result *r, double threshold,
                        ts_comm *comm) {
  double own[TS_METRIC_KINDS][OWN] = {0};
  for (int k = 0; k < TS_METRIC_KINDS; k++)
    for (int64_t i = 0; kinds[k].add && i < m->place.n; i++)
      kinds[k].add(own[k], m->ring[i], threshold);
  TS_DO(ts_comm_sum_f64(comm, own[0], TS_METRIC_KINDS * OWN));
  for (int k = 0; k < TS_METRIC_KINDS; k++) {
    const ts_metric_seen seen = {&m->sums, own[k], r->auc, r->pr_auc,
                                 &r->groups};
    r->value[k] = kinds[k].finish(&seen);
  }
  memcpy(r->bins, own[ts_metric_find("ece")], sizeof r->bins);
  return TS_OK;
}
