/* reliability.c - predictions beside what happened: a line for each task, a
 * mark for each bin, and the diagonal, where a calibrated model's marks are.
 * Both axes end at the greatest of all marks: clicks may be rare. */
#include <math.h>
#include <stdio.h>

#include "commands/commands.h"
#include "commands/svg.h"

enum {
  SIDE = 360, /* px: of the square inside */
  LEFT = 66,
  RIGHT = 24,
  TOP = 34,
  BELOW = 44,
  LEGEND = 18 /* a line of it */
};

typedef struct ts_reliability {
  FILE *file;
  const ts_calibration *c;
  double most, step;
} ts_reliability;

static double x_of(const ts_reliability *r, double x) {
  return LEFT + SIDE * x / r->most;
}

static double y_of(const ts_reliability *r, double y) {
  return TOP + SIDE * (1 - y / r->most);
}

static const ts_metric_bin *bin_of(const ts_calibration *c, int32_t task,
                                   int32_t i) {
  return &c->bins[(int64_t)task * c->n_bins + i];
}

static void find_axes(ts_reliability *r) {
  const ts_calibration *c = r->c;
  double most = 0;
  for (int32_t k = 0; k < c->t->n_tasks; k++)
    for (int32_t i = 0; i < c->n_bins; i++) {
      const ts_metric_bin *b = bin_of(c, k, i);
      if (!(b->n > 0)) continue;
      most = fmax(most, fmax(b->predicted, b->observed) / b->weight);
    }
  if (!(most > 0)) most = 1;
  r->step = ts_svg_step(most, 4);
  r->most = ceil(most / r->step - 1e-9) * r->step;
}

static void put_axes(const ts_reliability *r) {
  const int digits = r->step < 1 ? (int)ceil(-log10(r->step) - 1e-9) : 0;
  const double bottom = TOP + SIDE, right = LEFT + SIDE;
  FILE *f = r->file;
  for (int i = 0; i * r->step < r->most + r->step / 2; i++) {
    const double at = i * r->step, x = x_of(r, at), y = y_of(r, at);
    fprintf(f,
            "<path d=\"M%.1f %dV%.1fM%d %.1fH%.1f\" stroke=\"#ddd\"/>\n"
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.*f</text>\n"
            "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n",
            x, TOP, bottom, LEFT, y, right, x, bottom + 14, digits, at,
            LEFT - 6, y + 4, digits, at);
  }
  fprintf(f,
          "<path d=\"M%d %.1fL%.1f %d\" stroke=\"#666\" "
          "stroke-dasharray=\"2 3\"/>\n"
          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
          "stroke=\"#666\"/>\n"
          "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">what happened, beside "
          "what was predicted</text>\n"
          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">predicted</text>\n",
          LEFT, bottom, right, TOP, LEFT, TOP, SIDE, SIDE, LEFT, TOP - 8, right,
          bottom + 28);
}

static void put_task(const ts_reliability *r, int32_t k) {
  const ts_calibration *c = r->c;
  FILE *f = r->file;
  fprintf(f,
          "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" "
          "stroke-dasharray=\"%s\" points=\"",
          ts_svg_colour(k), ts_svg_dash(k));
  for (int32_t i = 0; i < c->n_bins; i++) {
    const ts_metric_bin *b = bin_of(c, k, i);
    if (b->n > 0)
      fprintf(f, "%.1f,%.1f ", x_of(r, b->predicted / b->weight),
              y_of(r, b->observed / b->weight));
  }
  fputs("\"/>\n", f);
  for (int32_t i = 0; i < c->n_bins; i++) {
    const ts_metric_bin *b = bin_of(c, k, i);
    if (!(b->n > 0)) continue;
    const double x = b->predicted / b->weight, y = b->observed / b->weight;
    fprintf(f,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"white\" "
            "stroke=\"%s\" stroke-width=\"1.6\"><title>predicted %.6g, "
            "observed %.6g, %.0f samples</title></circle>\n",
            x_of(r, x), y_of(r, y), ts_svg_colour(k), x, y, b->n);
  }
}

static void put_legend(const ts_reliability *r, int32_t k) {
  const int y = TOP + SIDE + BELOW + LEGEND * k;
  fprintf(r->file,
          "<path d=\"M%d %dh40\" stroke=\"%s\" stroke-width=\"1.6\" "
          "stroke-dasharray=\"%s\"/>\n<text x=\"%d\" y=\"%d\">",
          LEFT, y - 4, ts_svg_colour(k), ts_svg_dash(k), LEFT + 48, y);
  ts_svg_text(r->file, r->c->t->config->model.tasks[k].name);
  fprintf(r->file, ", off by %.5f in the mean</text>\n",
          ts_calibration_error(r->c, k));
}

ts_err ts_reliability_draw(const char *path, const ts_calibration *c) {
  ts_reliability r = {.c = c};
  const int high = TOP + SIDE + BELOW + LEGEND * c->t->n_tasks;
  find_axes(&r);
  TS_DO(ts_svg_create(&r.file, path, LEFT + SIDE + RIGHT, high));
  put_axes(&r);
  for (int32_t k = 0; k < c->t->n_tasks; k++) put_task(&r, k);
  for (int32_t k = 0; k < c->t->n_tasks; k++) put_legend(&r, k);
  return ts_svg_close(r.file, path);
}
