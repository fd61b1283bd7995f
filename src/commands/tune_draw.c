/* tune_draw.c - the figure of each trial by its number, and the best so far. */
#include <math.h>
#include <stdio.h>

#include "commands/svg.h"
#include "commands/tune.h"

enum { WIDE = 560, HIGH = 280, LEFT = 70, TOP = 34, RIGHT = 24, BELOW = 60 };

typedef struct ts_tune_drawing {
  FILE *f;
  double lo, hi, step; /* of the figure */
  double across;       /* px a trial */
} ts_tune_drawing;

static double x_of(const ts_tune_drawing *d, int32_t trial) {
  return LEFT + d->across * (trial + 0.5);
}

static double y_of(const ts_tune_drawing *d, double y) {
  return TOP + HIGH * (d->hi - y) / (d->hi - d->lo);
}

static void find_axes(ts_tune_drawing *d, const ts_tune *t) {
  double lo = INFINITY, hi = -INFINITY;
  for (int32_t i = 0; i < t->n_trials; i++) {
    lo = fmin(lo, ts_trial_metric(&t->trial[i]));
    hi = fmax(hi, ts_trial_metric(&t->trial[i]));
  }
  if (!(hi > lo)) lo -= 0.5, hi += 0.5;
  d->step = ts_svg_step(hi - lo, 4);
  d->lo = floor(lo / d->step) * d->step;
  d->hi = ceil(hi / d->step) * d->step;
  d->across = (double)WIDE / t->n_trials;
}

static void put_axes(const ts_tune_drawing *d, const ts_tune *t) {
  const int digits = (int)fmax(0, ceil(-log10(d->step) - 1e-9));
  for (int i = 0; d->lo + i * d->step < d->hi + d->step / 2; i++) {
    const double y = y_of(d, d->lo + i * d->step);
    fprintf(d->f,
            "<path d=\"M%d %.1fh%d\" stroke=\"#ddd\"/>\n<text x=\"%d\" "
            "y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n",
            LEFT, y, WIDE, LEFT - 6, y + 4, digits, d->lo + i * d->step);
  }
  const double span = t->n_trials > 4 ? ts_svg_step(t->n_trials, 4) : 1;
  for (double k = span; k < t->n_trials + 0.5; k += span)
    fprintf(d->f,
            "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
            x_of(d, (int32_t)k - 1), TOP + HIGH + 14, k);
  fprintf(d->f,
          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
          "stroke=\"#666\"/>\n<text x=\"%d\" y=\"%d\" font-weight=\"bold\">"
          "%s of validation</text>\n<text x=\"%d\" y=\"%d\" "
          "text-anchor=\"end\">trial</text>\n",
          LEFT, TOP, WIDE, HIGH, LEFT, TOP - 8, t->metric, LEFT + WIDE,
          TOP + HIGH + 28);
}

/* A step down or up at each trial that is better than all before. */
static void put_best(const ts_tune_drawing *d, const ts_tune *t) {
  double best = NAN;
  fprintf(d->f,
          "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" "
          "points=\"",
          ts_svg_colour(1));
  for (int32_t i = 0; i < t->n_trials; i++) {
    const double y = ts_trial_metric(&t->trial[i]), x = x_of(d, i);
    if (!isnan(best)) fprintf(d->f, "%.1f,%.1f ", x, y_of(d, best));
    if (!ts_tune_is_better(t, y, best)) continue;
    best = y;
    fprintf(d->f, "%.1f,%.1f ", x, y_of(d, best));
  }
  fputs("\"/>\n", d->f);
}

/* Those of the last rung are full, the others rings. */
static ts_err put_trials(const ts_tune_drawing *d, const ts_tune *t) {
  for (int32_t i = 0; i < t->n_trials; i++) {
    ts_str sets = {0};
    const ts_trial *x = &t->trial[i];
    if (!x->n_rungs) continue;
    const ts_err err = ts_tune_sets(&sets, t, i);
    fprintf(d->f,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" stroke=\"%s\" "
            "fill=\"%s\"><title>",
            x_of(d, i), y_of(d, ts_trial_metric(x)), ts_svg_colour(0),
            x->n_rungs == t->n_rungs ? ts_svg_colour(0) : "white");
    fprintf(d->f, "trial %d: %s %.6f, %lld steps:", i + 1, t->metric,
            ts_trial_metric(x), (long long)x->step);
    if (sets.text) ts_svg_text(d->f, sets.text);
    fputs("</title></circle>\n", d->f);
    ts_str_reset(&sets);
    TS_DO(err);
  }
  return TS_OK;
}

ts_err ts_tune_draw(const ts_tune *t) {
  ts_str path = {0};
  ts_tune_drawing d = {0};
  ts_err err = ts_str_append(&path, "%s/tune.svg", t->folder);
  if (err == TS_OK)
    err =
        ts_svg_create(&d.f, path.text, LEFT + WIDE + RIGHT, TOP + HIGH + BELOW);
  if (err == TS_OK) {
    find_axes(&d, t);
    put_axes(&d, t);
    put_best(&d, t);
    err = put_trials(&d, t);
    fprintf(d.f, "<text x=\"%d\" y=\"%d\">line: the best so far%s</text>\n",
            LEFT, TOP + HIGH + 44,
            t->n_rungs > 1 ? "; rings: trials that were not run to the end"
                           : "");
    const ts_err closed = ts_svg_close(d.f, path.text);
    if (err == TS_OK) err = closed;
  }
  ts_str_reset(&path);
  return err;
}
