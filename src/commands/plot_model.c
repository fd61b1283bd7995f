/* plot_model.c - `tessera plot --model DECK --out FILE.svg`: a graph's layers,
 * inputs below, each above what it reads. */
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "commands/plot.h"
#include "commands/svg.h"
#include "io/deck.h"
#include "model/graph.h"

enum { BOX_WIDE = 168, BOX_HIGH = 44, GAP_X = 24, GAP_Y = 48, EDGE = 20 };

/* A layer of the deck, or an input. */
typedef struct ts_box {
  const ts_layer *layer; /* NULL: an input */
  const ts_value *value; /* what it gives */
  int32_t row, column;   /* row 0: inputs */
} ts_box;

typedef struct ts_drawing {
  FILE *file;
  ts_box *box;
  int32_t n, n_rows, n_columns;
  int32_t *in_row; /* (n_rows) boxes */
} ts_drawing;

/* The graph puts values side by side in layers of its own: they are not
 * drawn, but looked through. */
static bool is_added(const ts_layer *l) {
  const char *colon = strchr(l->config->name, ':');
  return colon != NULL;
}

static const ts_layer *layer_of(const ts_graph *g, const ts_value *v) {
  for (int32_t i = 0; i < g->n; i++)
    for (int32_t k = 0; k < g->layers[i]->n_out; k++)
      if (&g->layers[i]->out[k] == v) return g->layers[i];
  return NULL;
}

static ts_box *box_of(const ts_drawing *d, const ts_graph *g,
                      const ts_value *v) {
  const ts_layer *l = layer_of(g, v);
  for (int32_t i = 0; i < d->n; i++)
    if (l ? d->box[i].layer == l : d->box[i].value == v) return &d->box[i];
  return NULL;
}

/* Calls FN with each box that L reads. */
typedef void (*ts_box_fn)(ts_drawing *, ts_box *from, ts_box *to);
static void each_input(ts_drawing *d, const ts_graph *g, const ts_layer *l,
                       ts_box *to, ts_box_fn fn) {
  for (int32_t k = 0; k < ts_layer_n_in(l); k++) {
    const ts_value *v = l->in[k].value;
    const ts_layer *from = layer_of(g, v);
    if (from && is_added(from))
      each_input(d, g, from, to, fn);
    else
      fn(d, box_of(d, g, v), to);
  }
}

/* ---- places -------------------------------------------------------------- */

static void above(ts_drawing *d, ts_box *from, ts_box *to) {
  (void)d;
  if (from && from->row >= to->row) to->row = from->row + 1;
}

static void add_box(ts_drawing *d, const ts_layer *l, const ts_value *v) {
  d->box[d->n++] = (ts_box){.layer = l, .value = v, .row = l ? 1 : 0};
}

static ts_err place(ts_drawing *d, const ts_graph *g) {
  TS_DO(ts_mem_many(d->box, g->n + g->n_emb + 1, MISC));
  if (g->dense.shape.dim) add_box(d, NULL, &g->dense);
  for (int32_t k = 0; k < g->n_emb; k++) add_box(d, NULL, g->emb[k]);
  for (int32_t i = 0; i < g->n; i++) {
    const ts_layer *l = g->layers[i];
    if (is_added(l)) continue;
    add_box(d, l, &l->out[0]);
    each_input(d, g, l, &d->box[d->n - 1], above);
  }
  TS_DO(ts_mem_many(d->in_row, d->n + 2, MISC));
  for (int32_t i = 0; i < d->n; i++) {
    ts_box *b = &d->box[i];
    b->column = d->in_row[b->row]++;
    if (b->row >= d->n_rows) d->n_rows = b->row + 1;
    if (b->column >= d->n_columns) d->n_columns = b->column + 1;
  }
  return TS_OK;
}

static int left_of(const ts_drawing *d, const ts_box *b) {
  const int spare = (d->n_columns - d->in_row[b->row]) * (BOX_WIDE + GAP_X);
  return EDGE + spare / 2 + b->column * (BOX_WIDE + GAP_X);
}

static int top_of(const ts_drawing *d, const ts_box *b) {
  return EDGE + (d->n_rows - 1 - b->row) * (BOX_HIGH + GAP_Y);
}

/* ---- drawing ------------------------------------------------------------- */

static void draw_edge(ts_drawing *d, ts_box *from, ts_box *to) {
  if (!from) return;
  const int x = left_of(d, from) + BOX_WIDE / 2, y = top_of(d, from);
  const int u = left_of(d, to) + BOX_WIDE / 2, v = top_of(d, to) + BOX_HIGH;
  fprintf(d->file,
          "<path d=\"M %d %d C %d %d, %d %d, %d %d\" fill=\"none\" "
          "stroke=\"#888\"/>\n",
          x, y, x, y - GAP_Y / 2, u, v + GAP_Y / 2, u, v);
}

static void draw_text(const ts_drawing *d, int x, int y, const char *text,
                      const char *more) {
  fprintf(d->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", x, y);
  ts_svg_text(d->file, text);
  if (*more) fprintf(d->file, " ");
  ts_svg_text(d->file, more);
  fprintf(d->file, "</text>\n");
}

static void draw_box(const ts_drawing *d, const ts_box *b) {
  const int x = left_of(d, b), y = top_of(d, b);
  char shape[TS_SHAPE_BYTES], name[24];
  const char *full = b->layer ? b->layer->config->name : b->value->name;
  const bool cut = strlen(full) >= sizeof name;
  snprintf(name, sizeof name, "%.*s%s", cut ? 20 : 23, full, cut ? ".." : "");
  fprintf(d->file,
          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" "
          "fill=\"%s\" stroke=\"%s\"/>\n",
          x, y, BOX_WIDE, BOX_HIGH, b->layer ? "#fff" : "#eee",
          b->value->above ? "#333" : "#999");
  draw_text(d, x + BOX_WIDE / 2, y + 18, name, "");
  draw_text(d, x + BOX_WIDE / 2, y + 36, b->layer ? b->layer->ops->kind : "",
            ts_layer_shape_text(shape, b->value->shape));
}

static ts_err draw(ts_drawing *d, const ts_graph *g, const char *out) {
  const int wide = 2 * EDGE + d->n_columns * (BOX_WIDE + GAP_X) - GAP_X;
  const int high = 2 * EDGE + d->n_rows * (BOX_HIGH + GAP_Y) - GAP_Y;
  TS_DO(ts_svg_create(&d->file, out, wide, high));
  for (int32_t i = 0; i < d->n; i++)
    if (d->box[i].layer)
      each_input(d, g, d->box[i].layer, &d->box[i], draw_edge);
  for (int32_t i = 0; i < d->n; i++) draw_box(d, &d->box[i]);
  return ts_svg_close(d->file, out);
}

ts_err ts_plot_model(const char *deck, const char *const *sets, int n_sets,
                     const char *out) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_graph g = {0};
  ts_drawing d = {0};
  TS_TRY(ts_deck_read_all(&c, deck, sets, n_sets));
  TS_TRY(ts_deck_spare(c, "--out", out));
  const ts_model_spec spec = {
      .config = c, .n_features = ts_feature_count(c), .batch_max = 1};
  TS_TRY(ts_graph_plan(&g, &spec));
  TS_TRY(place(&d, &g));
  TS_TRY(draw(&d, &g, out));
done:
  ts_graph_reset(&g);
  ts_mem_free_all(d.box, d.in_row);
  ts_deck_destroy(c);
  return err;
}
