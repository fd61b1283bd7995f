/* mlp_options.c - layers of linear, norm, activation, dropout, residual. */
#include "model/mlp_options.h"

#include "base/mem.h"

/* Arrays (batch_max, n): what linear, norm, activation and residual give; the
 * one before where there is no such part.  Dropout is in place: what comes
 * before it does not need its own output, but for a ReLU within linear, whose
 * zeros have no gradient either way. */
typedef struct ts_full_layer {
  ts_rows_linear linear;
  ts_batch_norm batch;
  ts_row_norm row;
  ts_activation act;
  ts_mlp_norm norm;
  bool relu; /* within linear */
  bool acts, residual;
  double dropout;
  int32_t n;
  float *z, *a, *b, *y;
} ts_full_layer;

struct ts_mlp_full {
  ts_full_layer *layer; /* (n) */
  int32_t n;
  float *dy[2]; /* (batch_max, widest) of layers in turns, but the last */
  float *work;  /* the same, where a residual wants dy as it was */
};

static ts_activation_kind act_of(const ts_mlp_options *o, int32_t i) {
  const bool own = i == o->units.n - 1 && o->last_activation;
  return (ts_activation_kind)(own ? o->last_activation - 1 : o->activation);
}

bool ts_mlp_is_plain(const ts_mlp_options *o) {
  const ts_activation_kind last = act_of(o, o->units.n - 1);
  return o->norm == TS_MLP_NONE && o->dropout <= 0 && !o->residual &&
         o->activation == TS_ACTIVATION_RELU &&
         (last == TS_ACTIVATION_RELU || last == TS_ACTIVATION_LINEAR);
}

/* The last layer of last_activation = "linear" is linear and nothing else. */
static bool is_bare(const ts_mlp_options *o, int32_t i) {
  return i == o->units.n - 1 && o->last_activation == TS_ACTIVATION_LINEAR + 1;
}

static int32_t n_before(const ts_layer *l, int32_t i) {
  const ts_mlp_options *o = l->options;
  return i ? (int32_t)o->units.item[i - 1]
           : ts_shape_width(l->in[0].value->shape);
}

static int64_t stride_before(const ts_layer *l, int32_t i) {
  return i ? n_before(l, i) : l->in[0].value->stride;
}

/* ---- create -------------------------------------------------------------- */

static ts_err create_norm(ts_full_layer *f, ts_layer *l, int32_t i) {
  const ts_batch_norm_spec batch = {.i = i,
                                    .prefix = "norm.",
                                    .n = f->n,
                                    .affine = true,
                                    .eps = 1e-5,
                                    .momentum = 0.1};
  const ts_row_norm_spec row = {
      .kind = f->norm == TS_MLP_LAYER ? TS_NORM_LAYER : TS_NORM_RMS,
      .i = i,
      .prefix = "norm.",
      .n = f->n,
      .rows_each = 1,
      .affine = true,
      .eps = f->norm == TS_MLP_LAYER ? 1e-5 : 1.1920928955078125e-7};
  if (f->norm == TS_MLP_NONE) return TS_OK;
  return f->norm == TS_MLP_BATCH ? ts_batch_norm_create(&f->batch, l, &batch)
                                 : ts_row_norm_create(&f->row, l, &row);
}

/* Each part's output; of its own where it is there. */
static ts_err take_arrays(ts_full_layer *f, ts_layer *l) {
  const int64_t floats = (int64_t)l->spec->batch_max * f->n;
  TS_DO(ts_layer_take(l, &f->z, floats, 4));
  f->a = f->z;
  if (f->norm != TS_MLP_NONE) TS_DO(ts_layer_take(l, &f->a, floats, 4));
  f->b = f->a;
  if (f->acts) TS_DO(ts_layer_take(l, &f->b, floats, 4));
  f->y = f->b;
  return f->residual ? ts_layer_take(l, &f->y, floats, 4) : TS_OK;
}

static ts_err create_layer(ts_full_layer *f, ts_layer *l, int32_t i,
                           ts_lane *lane) {
  const ts_mlp_options *o = l->options;
  const ts_activation_kind kind = act_of(o, i);
  const bool bare = is_bare(o, i);
  f->n = (int32_t)o->units.item[i];
  f->norm = bare ? TS_MLP_NONE : (ts_mlp_norm)o->norm;
  f->dropout = bare ? 0 : o->dropout;
  f->residual = !bare && o->residual && n_before(l, i) == f->n;
  f->relu = kind == TS_ACTIVATION_RELU && f->norm == TS_MLP_NONE;
  f->acts = kind != TS_ACTIVATION_LINEAR && !f->relu;
  const ts_rows_linear_spec linear = {.i = i,
                                      .last = i == o->units.n - 1,
                                      .n_in = n_before(l, i),
                                      .in_stride = (int32_t)stride_before(l, i),
                                      .n_out = f->n,
                                      .rows_each = 1,
                                      .bias = true,
                                      .relu = f->relu,
                                      .need_dx = i || l->in[0].dx};
  const ts_activation_spec act = {.kind = kind,
                                  .i = i,
                                  .prefix = "activation.",
                                  .n = f->n,
                                  .rows_each = 1,
                                  .slope = 0.01};
  TS_DO(ts_rows_linear_create(&f->linear, l, &linear, lane));
  TS_DO(create_norm(f, l, i));
  if (f->acts) TS_DO(ts_activation_create(&f->act, l, &act));
  return take_arrays(f, l);
}

ts_err ts_mlp_full_create(ts_mlp_full **out, ts_layer *l, ts_lane *lane) {
  const ts_mlp_options *o = l->options;
  int64_t widest = 0;
  TS_DO(ts_mem_alloc(out, sizeof **out, TS_TAG_DENSE));
  ts_mlp_full *m = *out; /* on an error the layer's destroy frees it */
  TS_DO(ts_mem_many(m->layer, o->units.n, DENSE));
  m->n = o->units.n;
  for (int32_t i = 0; i < m->n; i++) {
    TS_DO(create_layer(&m->layer[i], l, i, lane));
    if (m->layer[i].n > widest) widest = m->layer[i].n;
  }
  l->out[0].x = m->layer[m->n - 1].y;
  if (!l->spec->training) return TS_OK;
  widest *= l->spec->batch_max;
  for (int k = 0; k < 2; k++) TS_DO(ts_layer_take(l, &m->dy[k], widest, 4));
  return o->residual ? ts_layer_take(l, &m->work, widest, 4) : TS_OK;
}

void ts_mlp_full_destroy(ts_mlp_full *m) {
  if (!m) return;
  for (int32_t i = 0; i < m->n; i++) {
    ts_rows_linear_reset(&m->layer[i].linear);
    ts_batch_norm_reset(&m->layer[i].batch);
    ts_activation_reset(&m->layer[i].act);
  }
  ts_mem_free_all(m->layer, m);
}

/* ---- passes -------------------------------------------------------------- */

static ts_rows rows_of(const ts_full_layer *f, float *p) {
  return (ts_rows){p, f->n};
}

static ts_rows input_of(const ts_mlp_full *m, const ts_layer *l, int32_t i) {
  return (ts_rows){i ? m->layer[i - 1].y : l->in[0].value->x,
                   stride_before(l, i)};
}

static ts_err layer_forward(ts_mlp_full *m, const ts_layer *l,
                            const ts_layer_run *r, int32_t i) {
  ts_full_layer *f = &m->layer[i];
  const ts_rows x = input_of(m, l, i), b = rows_of(f, f->b);
  TS_DO(ts_linear_forward(f->linear.linear, f->z, x.p, r->batch, r->lane));
  if (f->norm == TS_MLP_BATCH)
    TS_DO(ts_batch_norm_forward(&f->batch, l, r, f->a, f->n, f->z, f->n));
  else if (f->norm != TS_MLP_NONE)
    TS_DO(ts_row_norm_forward(&f->row, l, r, f->a, f->z));
  if (f->acts) TS_DO(ts_activation_forward(&f->act, l, r, b, rows_of(f, f->a)));
  TS_DO(ts_run_drop(l, r, i, b, b, f->n, f->dropout));
  if (!f->residual) return TS_OK;
  return ts_run_rows(l, r, TS_MAP_SUM, rows_of(f, f->y), 1, b, x, f->n, false);
}

/* G = dropout's gradient.  Linear's own ReLU gives none where its output is 0,
 * as it is wherever dropout made it so: then nobody has to draw the mask
 * again. */
static ts_err drop_backward(const ts_full_layer *f, const ts_layer *l,
                            const ts_layer_run *r, int32_t i, ts_rows g,
                            ts_rows dy) {
  const float keep = 1 / (1 - (float)f->dropout);
  if (!f->relu || !r->training || f->dropout <= 0)
    return ts_run_drop(l, r, i, g, dy, f->n, f->dropout);
  return ts_run_rows(l, r, TS_MAP_MULTIPLY, g, keep, dy, (ts_rows){0}, f->n,
                     false);
}

static ts_err layer_backward(ts_mlp_full *m, const ts_layer *l,
                             const ts_layer_run *r, int32_t i, float *dx,
                             float *dy) {
  ts_full_layer *f = &m->layer[i];
  const ts_rows x = input_of(m, l, i), none = {0};
  const ts_rows g = rows_of(f, f->residual ? m->work : dy);
  TS_DO(drop_backward(f, l, r, i, g, rows_of(f, dy)));
  if (f->acts)
    TS_DO(ts_activation_backward(&f->act, l, r, g, g, rows_of(f, f->a)));
  if (f->norm == TS_MLP_BATCH)
    TS_DO(ts_batch_norm_backward(&f->batch, l, r, g.p, f->n, g.p, f->n, f->z,
                                 f->n));
  else if (f->norm != TS_MLP_NONE)
    TS_DO(ts_row_norm_backward(&f->row, l, r, g.p, g.p, f->z));
  TS_DO(ts_linear_backward(f->linear.linear, dx, g.p, x.p, f->z, r->batch,
                           r->lane));
  if (!f->residual || !dx) return TS_OK;
  return ts_run_rows(l, r, TS_MAP_MULTIPLY, (ts_rows){dx, x.stride}, 1,
                     rows_of(f, dy), none, f->n, true);
}

/* In the order of creation; how many there are. */
static int32_t params_of(const ts_full_layer *f, ts_param **p) {
  ts_param *const all[] = {f->linear.p[0], f->linear.p[1], f->batch.p[0],
                           f->batch.p[1],  f->row.p[0],    f->row.p[1],
                           f->act.weight};
  int32_t n = 0;
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    if (all[k]) p[n++] = all[k];
  return n;
}

ts_err ts_mlp_full_forward(ts_mlp_full *m, const ts_layer *l,
                           const ts_layer_run *r) {
  for (int32_t i = 0; i < m->n; i++) {
    const ts_param *first = m->layer[i].linear.p[0];
    TS_DO(ts_layer_begin(r, first, TS_FORWARD));
    TS_DO(layer_forward(m, l, r, i));
    TS_DO(ts_layer_end(r, first, TS_FORWARD));
  }
  return TS_OK;
}

ts_err ts_mlp_full_backward(ts_mlp_full *m, const ts_layer *l,
                            const ts_layer_run *r) {
  float *dy = l->out[0].dx;
  for (int32_t i = m->n - 1; i >= 0; i--) {
    ts_param *p[8];
    float *dx = i ? m->dy[i % 2] : l->in[0].dx;
    const int32_t n = params_of(&m->layer[i], p);
    TS_DO(ts_layer_begin(r, p[0], TS_BACKWARD));
    TS_DO(layer_backward(m, l, r, i, dx, dy));
    TS_DO(ts_layer_gave(r, p, n));
    TS_DO(ts_layer_end(r, p[0], TS_BACKWARD));
    dy = dx;
  }
  return TS_OK;
}
