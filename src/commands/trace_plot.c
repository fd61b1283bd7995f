/* trace_plot.c - a trace as an SVG drawing: a row per lane, a box per span,
 * a colour per stage, the batch's number where there is room for it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "commands/svg.h"
#include "commands/trace.h"

enum {
  LEFT = 150, /* px: lanes' names */
  WIDE = 1250,
  HIGH = 22,   /* a row */
  TOP = 34,    /* the axis */
  DIGIT = 7,   /* width of a digit */
  COLUMN = 200 /* of the legend */
};

typedef struct ts_stage_colour {
  const char *name, *phase, *colour;
  ts_span_kind kind;
} ts_stage_colour;

typedef struct ts_plot {
  const ts_trace *trace;
  FILE *file;
  double t0, t1;           /* us */
  int32_t *row;            /* (n_lanes) from the top, -1: not drawn */
  ts_stage_colour *stages; /* (n_spans) at most */
  int32_t n_rows, n_stages;
} ts_plot;

static bool is_drawn(const ts_plot *p, const ts_read_span *s) {
  return s->t1 > p->t0 && s->t0 < p->t1 && p->row[s->lane] != -1;
}

/* The time in which lanes compute for the batches. */
static ts_err find_range(ts_plot *p, int64_t first, int64_t end, int rank) {
  const ts_trace *t = p->trace;
  p->t0 = INFINITY;
  p->t1 = -INFINITY;
  for (int64_t i = 0; i < t->n_spans; i++) {
    const ts_read_span *s = &t->spans[i];
    if (rank >= 0 && t->lanes[s->lane].rank != rank) continue;
    if (end > 0 &&
        (s->kind != TS_SPAN_COMPUTE || s->batch < first || s->batch >= end))
      continue;
    p->t0 = fmin(p->t0, s->t0);
    p->t1 = fmax(p->t1, s->t1);
  }
  if (p->t0 < p->t1) return TS_OK;
  if (end == 0) return ts_fail(TS_ERR_DATA, "the trace has no spans to draw");
  return ts_fail(TS_ERR_USAGE, "the trace has no spans of batches %lld to %lld",
                 (long long)first, (long long)end - 1);
}

/* Rows for the lanes that have something to show. */
static ts_err find_rows(ts_plot *p, int rank) {
  const ts_trace *t = p->trace;
  TS_DO(ts_mem_array(&p->row, t->n_lanes, sizeof *p->row, TS_TAG_MISC));
  for (int64_t i = 0; i < t->n_spans; i++) {
    const ts_read_span *s = &t->spans[i];
    if (is_drawn(p, s)) p->row[s->lane] = 1;
  }
  for (int32_t l = 0; l < t->n_lanes; l++) {
    const bool wanted = rank < 0 || t->lanes[l].rank == rank;
    p->row[l] = p->row[l] && wanted ? p->n_rows++ : -1;
  }
  return TS_OK;
}

/* The same in every drawing.  The table's colours are those of the manual's
 * drawings of pipelines; other names have the one that their bytes give. */
static const char *colour_of(const char *name, const char *phase,
                             ts_span_kind kind) {
  static const char *const names[] = {"output dist, backward",
                                      "lookup",
                                      "output dist",
                                      "dense backward",
                                      "interaction",
                                      "fused backward",
                                      "input dist",
                                      "loss",
                                      "interaction backward",
                                      "input unpack",
                                      "input pack",
                                      "dense forward",
                                      "dense reduce, backward",
                                      "read",
                                      "prefetch",
                                      "sort rows",
                                      "dense optimizer",
                                      "write"};
  enum { N = sizeof names / sizeof *names };
  char stage[128];
  if (kind == TS_SPAN_WAIT) return "#e6e6e6";
  snprintf(stage, sizeof stage, "%s%s", name,
           strcmp(phase, "backward") ? "" : ", backward");
  for (int32_t i = 0; i < N; i++)
    if (!strcmp(stage, names[i])) return ts_svg_colour(i);
  return ts_svg_colour(
      (int32_t)(ts_fnv1a(TS_FNV_START, stage, strlen(stage)) % N));
}

static int32_t stage_of(ts_plot *p, const ts_read_span *s) {
  const char *phase = s->kind == TS_SPAN_COMM ? s->phase : "";
  for (int32_t i = 0; i < p->n_stages; i++)
    if (p->stages[i].name == s->name && p->stages[i].kind == s->kind &&
        !strcmp(p->stages[i].phase, phase))
      return i;
  p->stages[p->n_stages] = (ts_stage_colour){
      s->name, phase, colour_of(s->name, phase, s->kind), s->kind};
  return p->n_stages++;
}

static double x_of(const ts_plot *p, double t) {
  const double part = (t - p->t0) / (p->t1 - p->t0);
  return LEFT + WIDE * fmin(fmax(part, 0), 1);
}

static void put_span(ts_plot *p, const ts_read_span *s) {
  const double x = x_of(p, s->t0), wide = x_of(p, s->t1) - x;
  const int y = TOP + HIGH * p->row[s->lane];
  char batch[32] = "";
  if (s->batch >= 0) snprintf(batch, sizeof batch, "%lld", (long long)s->batch);
  fprintf(p->file,
          "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" "
          "fill=\"%s\"><title>",
          x, y + 2, fmax(wide, 0.3), HIGH - 4,
          p->stages[stage_of(p, s)].colour);
  ts_svg_text(p->file, s->name);
  if (*batch) fprintf(p->file, ", batch %s", batch);
  fprintf(p->file, ", %.3f ms", (s->t1 - s->t0) / 1e3);
  if (s->kind == TS_SPAN_COMM || s->bytes)
    fprintf(p->file, ", %lld bytes%s", (long long)s->bytes,
            s->kind == TS_SPAN_COMM ? " sent" : "");
  fputs("</title></rect>\n", p->file);
  if (*batch && wide > DIGIT * (double)strlen(batch) + 3)
    fprintf(p->file,
            "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
            x + wide / 2, y + HIGH - 7, batch);
}

static void put_lanes(const ts_plot *p) {
  const ts_trace *t = p->trace;
  int rank = -1;
  for (int32_t l = 0; l < t->n_lanes; l++) {
    if (p->row[l] < 0) continue;
    const int y = TOP + HIGH * p->row[l];
    if (t->lanes[l].rank != rank)
      fprintf(p->file,
              "<line x1=\"0\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"#666\"/>\n"
              "<text x=\"4\" y=\"%d\" font-weight=\"bold\">%d</text>\n",
              y, LEFT + WIDE, y, y + HIGH - 7, t->lanes[l].rank);
    rank = t->lanes[l].rank;
    fprintf(p->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LEFT - 6,
            y + HIGH - 7);
    ts_svg_text(p->file, t->lanes[l].name);
    fputs("</text>\n", p->file);
  }
}

/* Ten to twenty-five lines, at round times. */
static void put_axis(const ts_plot *p) {
  const double span = p->t1 - p->t0;
  const double step = ts_svg_step(span, 10);
  const int bottom = TOP + HIGH * p->n_rows;
  for (int i = 0; i * step <= span; i++) {
    const double x = x_of(p, p->t0 + i * step);
    fprintf(p->file,
            "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%d\" "
            "stroke=\"#ddd\"/>\n<text x=\"%.2f\" y=\"%d\" "
            "text-anchor=\"middle\">%g</text>\n",
            x, TOP - 4, x, bottom, x, TOP - 10, i * step / 1e3);
  }
  fprintf(p->file, "<text x=\"4\" y=\"%d\">rank, ms</text>\n", TOP - 10);
}

static void put_legend(const ts_plot *p, int y, int per_line) {
  for (int32_t i = 0; i < p->n_stages; i++) {
    const int x = 4 + COLUMN * (i % per_line), at = y + HIGH * (i / per_line);
    fprintf(p->file,
            "<rect x=\"%d\" y=\"%d\" width=\"14\" height=\"14\" "
            "fill=\"%s\"/><text x=\"%d\" y=\"%d\">",
            x, at, p->stages[i].colour, x + 20, at + 12);
    ts_svg_text(p->file, p->stages[i].name);
    if (*p->stages[i].phase) fputs(", ", p->file);
    ts_svg_text(p->file, p->stages[i].phase);
    fputs("</text>\n", p->file);
  }
}

static ts_err draw(ts_plot *p, const char *path) {
  const ts_trace *t = p->trace;
  const int per_line = (LEFT + WIDE) / COLUMN;
  for (int64_t i = 0; i < t->n_spans; i++)
    if (is_drawn(p, &t->spans[i])) stage_of(p, &t->spans[i]);
  const int bottom = TOP + HIGH * p->n_rows + 12;
  const int high = bottom + HIGH * ((p->n_stages - 1) / per_line + 1) + 4;
  TS_DO(ts_svg_create(&p->file, path, LEFT + WIDE + 20, high));
  put_axis(p);
  for (int64_t i = 0; i < t->n_spans; i++)
    if (is_drawn(p, &t->spans[i])) put_span(p, &t->spans[i]);
  put_lanes(p);
  put_legend(p, bottom, per_line);
  return ts_svg_close(p->file, path);
}

ts_err ts_trace_plot(const ts_trace *t, const char *path, int64_t first,
                     int64_t end, int rank) {
  ts_err err = TS_OK;
  ts_plot p = {.trace = t};
  TS_TRY(find_range(&p, first, end, rank));
  TS_TRY(find_rows(&p, rank));
  TS_TRY(ts_mem_array(&p.stages, t->n_spans, sizeof *p.stages, TS_TAG_MISC));
  TS_TRY(draw(&p, path));
done:
  ts_mem_free_all(p.row, p.stages);
  return err;
}
