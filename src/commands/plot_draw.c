/* plot_draw.c - the figures of runs over each other: a panel for each figure,
 * a line for each run, marks for its evaluations and validations.  Runs have a
 * colour and a dash of their own, so that paper without colours tells them
 * apart, too.  The SVG is our own: the timelines of `trace plot` are rectangles
 * with titles for the mouse, which gnuplot does not draw, so it would replace
 * this file only, and be one more program to install on a cluster. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "commands/plot.h"
#include "commands/svg.h"

enum {
  WIDE = 480, /* px: a panel's inside */
  HIGH = 240,
  LEFT = 66, /* beside it: numbers */
  RIGHT = 24,
  TOP = 34, /* over it: its name */
  BELOW = 38,
  LEGEND = 18 /* a line of the legend */
};

typedef struct ts_plot_axis {
  double lo, hi, step;
} ts_plot_axis;

typedef struct ts_drawing {
  FILE *file;
  const ts_plot_run *run;
  int32_t n_runs;
  ts_plot_axis x, y; /* of the panel under way */
  int left, top;     /* of its inside */
} ts_drawing;

/* ---- axes ---------------------------------------------------------------- */

static ts_plot_axis make_axis(double lo, double hi) {
  if (!(hi > lo)) {
    const double room = lo ? fabs(lo) / 10 : 1;
    lo -= room;
    hi += room;
  }
  ts_plot_axis a = {.step = ts_svg_step(hi - lo, 4)};
  a.lo = floor(lo / a.step + 1e-9) * a.step;
  a.hi = ceil(hi / a.step - 1e-9) * a.step;
  return a;
}

/* The axes that all runs' series of W span; false where there are none. */
static bool find_axes(ts_drawing *d, ts_plot_what w) {
  double x = 0, lo = INFINITY, hi = -INFINITY;
  for (int32_t r = 0; r < d->n_runs; r++)
    for (int32_t i = 0; i < d->run[r].n_series; i++) {
      const ts_plot_series *s = &d->run[r].series[i];
      for (int64_t k = 0; s->what == w && k < s->n; k++) {
        x = fmax(x, s->point[k].x);
        lo = fmin(lo, s->point[k].y);
        hi = fmax(hi, s->point[k].y);
      }
    }
  if (!(lo <= hi)) return false;
  d->x = make_axis(0, x > 0 ? x : 1);
  d->y = make_axis(w == TS_PLOT_SPEED ? 0 : lo, hi);
  return true;
}

static double x_of(const ts_drawing *d, double x) {
  return d->left + WIDE * (x - d->x.lo) / (d->x.hi - d->x.lo);
}

static double y_of(const ts_drawing *d, double y) {
  return d->top + HIGH * (d->y.hi - y) / (d->y.hi - d->y.lo);
}

/* X, a multiple of STEP, with as many digits as STEP asks for: 0.65, 250k. */
static void put_number(FILE *f, double x, double step) {
  static const struct {
    double unit;
    const char *sign;
  } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
  int u = 0;
  while (u < 4 && (fabs(x) < units[u].unit * (u == 3 ? 10 : 1))) u++;
  const double part = step / units[u].unit;
  const int digits = part < 1 ? (int)ceil(-log10(part) - 1e-9) : 0;
  if (fabs(x) < step / 2) x = 0;
  fprintf(f, "%.*f%s",
          x == 0       ? 0
          : digits < 9 ? digits
                       : 9,
          x / units[u].unit, x == 0 ? "" : units[u].sign);
}

/* Where the I-th line of an axis is; false behind the last one. */
static bool line_of(const ts_plot_axis *a, int i, double *at) {
  *at = a->lo + i * a->step;
  return *at < a->hi + a->step / 2;
}

static void put_line(FILE *f, double x1, double y1, double x2, double y2) {
  fprintf(f,
          "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
          "stroke=\"#ddd\"/>\n",
          x1, y1, x2, y2);
}

static void put_label(FILE *f, double x, double y, const char *anchor,
                      double number, double step) {
  fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
  put_number(f, number, step);
  fputs("</text>\n", f);
}

static void put_axes(const ts_drawing *d) {
  FILE *f = d->file;
  const double bottom = d->top + HIGH;
  double at;
  for (int i = 0; line_of(&d->x, i, &at); i++) {
    const double x = x_of(d, at);
    put_line(f, x, d->top, x, bottom);
    put_label(f, x, bottom + 14, "middle", at, d->x.step);
  }
  for (int i = 0; line_of(&d->y, i, &at); i++) {
    const double y = y_of(d, at);
    put_line(f, d->left, y, d->left + WIDE, y);
    put_label(f, d->left - 6, y + 4, "end", at, d->y.step);
  }
}

static void put_frame(const ts_drawing *d, ts_plot_what w) {
  put_axes(d);
  fprintf(d->file,
          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
          "stroke=\"#666\"/>\n<text x=\"%d\" y=\"%d\" font-weight=\"bold\">",
          d->left, d->top, WIDE, HIGH, d->left, d->top - 8);
  ts_svg_text(d->file, ts_plot_heading(w));
  fprintf(d->file,
          "</text>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\">"
          "samples seen</text>\n",
          d->left + WIDE, d->top + HIGH + 28);
}

/* ---- series -------------------------------------------------------------- */

static void put_xy(const ts_drawing *d, const ts_plot_point *p) {
  fprintf(d->file, "%.1f,%.1f ", x_of(d, p->x), y_of(d, p->y));
}

/* Draws the least and the greatest of the points in a column of pixels: the
 * others would not be seen. */
static void put_points(const ts_drawing *d, const ts_plot_series *s) {
  for (int64_t k = 0, end; k < s->n; k = end) {
    int64_t lo = k, hi = k;
    const int column = (int)x_of(d, s->point[k].x);
    for (end = k; end < s->n && (int)x_of(d, s->point[end].x) == column;
         end++) {
      if (s->point[end].y < s->point[lo].y) lo = end;
      if (s->point[end].y > s->point[hi].y) hi = end;
    }
    put_xy(d, &s->point[lo < hi ? lo : hi]);
    if (lo != hi) put_xy(d, &s->point[lo < hi ? hi : lo]);
  }
}

static void put_stroke(FILE *f, int32_t run) {
  fprintf(f,
          "fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" "
          "stroke-dasharray=\"%s\"",
          ts_svg_colour(run), ts_svg_dash(run));
}

static void put_curve(const ts_drawing *d, const ts_plot_series *s,
                      int32_t run) {
  if (s->n == 1) {
    fprintf(d->file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill=\"%s\"/>\n",
            x_of(d, s->point[0].x), y_of(d, s->point[0].y), ts_svg_colour(run));
    return;
  }
  fputs("<polyline ", d->file);
  put_stroke(d->file, run);
  fputs(" points=\"", d->file);
  put_points(d, s);
  fputs("\"/>\n", d->file);
}

/* Four shapes, for up to four tasks; then they come again. */
static void put_shape(FILE *f, int shape, double x, double y, const char *c) {
  static const char *const paths[] = {"M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
                                      "M-4 -4H4V4H-4Z", "M0 -5L5 0L0 5L-5 0Z",
                                      "M0 -5L5 4H-5Z"};
  fprintf(f,
          "<path transform=\"translate(%.1f %.1f)\" d=\"%s\" "
          "fill=\"white\" stroke=\"%s\" stroke-width=\"1.6\">",
          x, y, paths[shape % 4], c);
}

/* Which evaluation of its figure a series is: its shape. */
static int shape_of(const ts_plot_run *r, const ts_plot_series *s) {
  int n = 0;
  for (const ts_plot_series *o = r->series; o < s; o++)
    n += o->data && o->what == s->what;
  return n;
}

/* "validation of click" */
static void put_name(FILE *f, const ts_plot_series *s) {
  fputs(s->data == TS_PLOT_VALID ? "validation" : "evaluation", f);
  if (s->task) fputs(" of ", f), ts_svg_text(f, s->task);
}

/* A thin line from mark to mark: the training's curve is a thicker one. */
static void put_join(const ts_drawing *d, const ts_plot_series *s,
                     int32_t run) {
  if (s->n < 2) return;
  fprintf(d->file,
          "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"0.8\" "
          "points=\"",
          ts_svg_colour(run));
  put_points(d, s);
  fputs("\"/>\n", d->file);
}

static void put_marks(const ts_drawing *d, const ts_plot_series *s,
                      int32_t run) {
  put_join(d, s, run);
  for (int64_t k = 0; k < s->n; k++) {
    const ts_plot_point *p = &s->point[k];
    put_shape(d->file, shape_of(&d->run[run], s), x_of(d, p->x), y_of(d, p->y),
              ts_svg_colour(run));
    fputs("<title>", d->file);
    ts_svg_text(d->file, d->run[run].name);
    fprintf(d->file, ", step %lld: ", (long long)p->step);
    put_name(d->file, s);
    fprintf(d->file, " %.6g</title></path>\n", p->y);
  }
}

static void put_panel(const ts_drawing *d, ts_plot_what w) {
  put_frame(d, w);
  for (int marks = 0; marks < 2; marks++) /* over lines */
    for (int32_t r = 0; r < d->n_runs; r++)
      for (int32_t i = 0; i < d->run[r].n_series; i++) {
        const ts_plot_series *s = &d->run[r].series[i];
        if (s->what != w || (s->data != TS_PLOT_TRAIN) != marks) continue;
        if (marks)
          put_marks(d, s, r);
        else
          put_curve(d, s, r);
      }
}

/* ---- the whole ----------------------------------------------------------- */

/* Whether the legend has a shape for S: it has one series of each task. */
static bool has_shape(const ts_plot_series *s) {
  return s->data && s->what == TS_PLOT_NE;
}

/* The run with the most tasks says what the shapes mean. */
static void put_shapes(const ts_drawing *d, int x, int y) {
  const ts_plot_run *most = d->run;
  for (int32_t r = 0; r < d->n_runs; r++)
    if (d->run[r].n_series > most->n_series) most = &d->run[r];
  for (int32_t i = 0; i < most->n_series; i++) {
    const ts_plot_series *s = &most->series[i];
    if (!has_shape(s)) continue;
    put_shape(d->file, shape_of(most, s), x + 10, y - 4, "#444");
    fprintf(d->file, "</path>\n<text x=\"%d\" y=\"%d\">", x + 22, y);
    put_name(d->file, s);
    fputs("</text>\n", d->file);
    y += LEGEND;
  }
}

static void put_legend(const ts_drawing *d, int y) {
  for (int32_t r = 0; r < d->n_runs; r++) {
    const int at = y + LEGEND * r;
    fputs("<path ", d->file);
    put_stroke(d->file, r);
    fprintf(d->file, " d=\"M%d %dh40\"/>\n<text x=\"%d\" y=\"%d\">", LEFT,
            at - 4, LEFT + 48, at);
    ts_svg_text(d->file, d->run[r].name);
    fputs("</text>\n", d->file);
  }
  put_shapes(d, LEFT + WIDE / 2, y);
}

/* The panels that can be drawn; what is asked for and nobody has is noted. */
static int32_t find_panels(ts_drawing *d, const bool *what, ts_plot_what *out) {
  int32_t n = 0;
  for (int w = 0; w < TS_PLOT_COUNT; w++) {
    if (!what[w]) continue;
    if (find_axes(d, (ts_plot_what)w))
      out[n++] = (ts_plot_what)w;
    else
      ts_note("no run has figures of %s: left out",
              ts_plot_name((ts_plot_what)w));
  }
  return n;
}

static int legend_lines(const ts_drawing *d) {
  int most = d->n_runs;
  for (int32_t r = 0; r < d->n_runs; r++) {
    int n = 0;
    for (int32_t i = 0; i < d->run[r].n_series; i++)
      n += has_shape(&d->run[r].series[i]);
    most = n > most ? n : most;
  }
  return most;
}

ts_err ts_plot_draw(const ts_plot_run *run, int32_t n_runs,
                    const bool what[TS_PLOT_COUNT], const char *path) {
  ts_plot_what panel[TS_PLOT_COUNT];
  ts_drawing d = {.run = run, .n_runs = n_runs};
  const int32_t n = find_panels(&d, what, panel);
  if (!n) return ts_fail(TS_ERR_DATA, "there is nothing to draw");
  const int columns = n > 1 ? 2 : 1, rows = (n + 1) / 2;
  const int wide = LEFT + WIDE + RIGHT, high = TOP + HIGH + BELOW;
  const int legend = rows * high + LEGEND;
  TS_DO(ts_svg_create(&d.file, path, columns * wide,
                      legend + LEGEND * legend_lines(&d)));
  for (int32_t i = 0; i < n; i++) {
    find_axes(&d, panel[i]);
    d.left = LEFT + wide * (i % 2);
    d.top = TOP + high * (i / 2);
    put_panel(&d, panel[i]);
  }
  put_legend(&d, legend);
  return ts_svg_close(d.file, path);
}
