/* layer.c - the table of kinds of layers, and what kinds say of themselves. */
#include "model/layer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/kinds.h"
#include "base/mem.h"
#include "base/str.h"
#include "runtime/comm.h"
#include "runtime/staging.h"

#define DECLARE(name) extern const ts_layer_ops ts_layer_##name;
TS_LAYERS(DECLARE)

#define ENTRY(name) &ts_layer_##name,
static const ts_layer_ops *const table[] = {TS_LAYERS(ENTRY)};

const ts_layer_ops *ts_layer_kind(int k) {
  return k < (int)(sizeof table / sizeof *table) ? table[k] : NULL;
}

const ts_layer_ops *ts_layer_find(const char *kind) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i]->kind, kind)) return table[i];
  return NULL;
}

const char *ts_layer_kinds(void) {
  return TS_LISTED(TS_LAYERS);
}

const char *ts_layer_shape_text(char buf[TS_SHAPE_BYTES], ts_shape s) {
  if (s.form == TS_FIELDS)
    snprintf(buf, TS_SHAPE_BYTES, "(B, %d, %d)", s.fields, s.dim);
  else
    snprintf(buf, TS_SHAPE_BYTES, "(%c, %d)", s.form == TS_TOKENS ? 'T' : 'B',
             s.dim);
  return buf;
}

const ts_input *ts_layer_in(const ts_layer *l, ts_role role, int32_t i) {
  int32_t at = i;
  if (i >= l->n_in[role]) return NULL;
  for (int k = 0; k < (int)role; k++) at += l->n_in[k];
  return &l->in[at];
}

ts_err ts_layer_fail(const ts_layer *l, const char *fmt, ...) {
  va_list args;
  char text[768];
  const char *deck = l->spec->config->deck_path;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (!l->config->line) /* of a graph that comes with the program */
    return ts_fail(TS_ERR_DECK, "%s: layer %s (%s): %s", deck ? deck : "deck",
                   l->config->name, l->config->kind, text);
  return ts_fail(TS_ERR_DECK, "%s:%d: layer %s (%s): %s", deck ? deck : "deck",
                 l->config->line, l->config->name, l->config->kind, text);
}

ts_err ts_layer_gives(ts_layer *l, const char *suffix, ts_shape shape) {
  ts_err err = TS_OK;
  ts_str name = {0};
  char text[TS_SHAPE_BYTES];
  if (shape.fields < 1 || shape.dim < 1 ||
      (int64_t)shape.fields * shape.dim > TS_WIDTH_MAX)
    return ts_layer_fail(l,
                         "it would give %s, but a sample has %d numbers "
                         "at most",
                         ts_layer_shape_text(text, shape), TS_WIDTH_MAX);
  if (ts_layer_is_by_token(l)) {
    if (shape.fields > 1)
      return ts_layer_fail(l, "it would give fields of each token, which no "
                              "kind takes");
    shape.form = TS_TOKENS;
  }
  TS_TRY(ts_str_append(&name, "%s%s%s", l->config->name, suffix ? "@" : "",
                       suffix ? suffix : ""));
  TS_TRY(ts_mem_resize(&l->out, (size_t)l->n_out * sizeof *l->out,
                       (size_t)(l->n_out + 1) * sizeof *l->out, TS_TAG_DENSE));
  l->out[l->n_out] =
      (ts_value){.shape = shape,
                 .tokens = shape.form == TS_TOKENS ? l->tokens : NULL,
                 .stride = ts_shape_width(shape),
                 .above = l->above};
  TS_TRY(ts_mem_strdup(&l->out[l->n_out++].name, name.text));
done:
  ts_str_reset(&name);
  return err;
}

/* NAME.I, or PATTERN with {i}, or with {2i} for twice that. */
static ts_err prefix_of(ts_str *s, const char *name, const char *pattern,
                        int32_t i) {
  if (!pattern || !*pattern) return ts_str_append(s, "%s.%d", name, i);
  const char *once = strstr(pattern, "{i}"), *twice = strstr(pattern, "{2i}");
  const char *at = once ? once : twice;
  if (!at) return ts_str_append(s, "%s", pattern);
  return ts_str_append(s, "%.*s%d%s", (int)(at - pattern), pattern,
                       once ? i : 2 * i, strchr(at, '}') + 1);
}

static ts_err init(const ts_layer *l, ts_param *p, double bound) {
  const ts_layer_config *c = l->config;
  const uint64_t seed = (uint64_t)l->spec->config->run.seed;
  const double fan_out = p->rows, fan_in = p->cols ? p->cols : p->rows;
  const double scale = c->init_scale != 0 ? c->init_scale : 1;
  const char *kind = c->init_kind ? c->init_kind : "";
  if (!*kind || !p->cols) { /* vectors stay as the kind has them */
    if (bound == TS_BOUND_ONES) return ts_param_init_constant(p, 1);
    return bound > 0 ? ts_param_init_uniform(p, seed, bound)
                     : ts_param_init_constant(p, 0);
  }
  if (!strcmp(kind, "xavier_uniform"))
    return ts_param_init_uniform(p, seed, scale * sqrt(6 / (fan_in + fan_out)));
  if (!strcmp(kind, "xavier_normal"))
    return ts_param_init_normal(p, seed, scale * sqrt(2 / (fan_in + fan_out)));
  if (!strcmp(kind, "kaiming_uniform"))
    return ts_param_init_uniform(p, seed, scale * sqrt(6 / fan_in));
  if (!strcmp(kind, "kaiming_normal"))
    return ts_param_init_normal(p, seed, scale * sqrt(2 / fan_in));
  if (!strcmp(kind, "normal")) return ts_param_init_normal(p, seed, scale);
  if (!strcmp(kind, "constant"))
    return ts_param_init_constant(p, (float)c->init_scale);
  return ts_param_init_uniform(p, seed, scale);
}

static bool has_optimizer(const ts_optim_config *o) {
  return o->kind || !isnan(o->lr) || !isnan(o->eps) || !isnan(o->beta1) ||
         !isnan(o->beta2) || !isnan(o->momentum) || !isnan(o->eta) ||
         !isnan(o->weight_decay);
}

static void own_param(ts_layer *l, ts_param *p) {
  const ts_layer_config *c = l->config;
  l->n_weights += (double)p->n;
  p->below = !l->above;
  p->frozen = c->frozen;
  if (has_optimizer(&c->optimizer)) p->optimizer = &c->optimizer;
  if (p->cols) p->l2 = c->l2;
  p->keyed = !(c->parameters && *c->parameters);
  if (p->keyed)
    p->key = (uint32_t)ts_fnv1a(TS_FNV_START, p->name, strlen(p->name));
}

ts_err ts_layer_own(ts_layer *l, ts_param *p) {
  const ts_param_init had = p->init;
  const char *kind = l->config->init_kind;
  own_param(l, p);
  if ((kind && *kind && p->cols) || had.kind == TS_INIT_CONSTANT)
    return init(l, p, had.scale == 1 ? TS_BOUND_ONES : 0);
  return had.kind == TS_INIT_NORMAL
             ? ts_param_init_normal(p, had.seed, had.scale)
             : ts_param_init_uniform(p, had.seed, had.scale);
}

ts_err ts_layer_param(ts_layer *l, ts_param **p, int32_t i, bool last,
                      const char *tail, int32_t rows, int32_t cols,
                      double bound) {
  ts_err err = TS_OK;
  const ts_layer_config *c = l->config;
  ts_str name = {0}, group = {0};
  const bool own = last && c->last_parameters && *c->last_parameters;
  TS_TRY(
      prefix_of(&name, c->name, own ? c->last_parameters : c->parameters, i));
  TS_TRY(ts_str_append(&name, ".%s", tail));
  TS_TRY(ts_str_append(
      &group, "%s.%d",
      c->parameter_group && *c->parameter_group ? c->parameter_group : c->name,
      i));
  if (ts_params_find(l->params, name.text))
    TS_THROW(TS_ERR_DECK, "model.layers: two layers have a parameter %s",
             name.text);
  TS_TRY(ts_params_add(l->params, l->device, p, name.text, group.text, rows,
                       cols));
  own_param(l, *p);
  TS_TRY(init(l, *p, bound));
done:
  ts_str_reset(&name);
  ts_str_reset(&group);
  return err;
}

ts_err ts_layer_buffer(ts_layer *l, ts_param **p, int32_t i, const char *tail,
                       int32_t n, float value) {
  ts_err err = TS_OK;
  ts_str name = {0};
  TS_TRY(prefix_of(&name, l->config->name, l->config->parameters, i));
  TS_TRY(ts_str_append(&name, ".%s", tail));
  if (ts_params_find(l->buffers, name.text))
    TS_THROW(TS_ERR_DECK, "model.layers: two layers have a parameter %s",
             name.text);
  TS_TRY(ts_params_add(l->buffers, l->device, p, name.text, l->config->name, n,
                       0));
  TS_TRY(ts_param_init_constant(*p, value));
done:
  ts_str_reset(&name);
  return err;
}

ts_err ts_layer_take(ts_layer *l, void *p, int64_t n, size_t size) {
  return ts_arrays_take(&l->arrays, l->device, p, n, size, TS_TAG_ACTIVATIONS);
}

ts_err ts_layer_take_filled(ts_layer *l, float **p, const float *x, int64_t n) {
  ts_err err = TS_OK;
  ts_staging s = {0};
  TS_TRY(ts_layer_take(l, p, n, sizeof *x));
  TS_TRY(ts_staging_create(&s, l->device));
  TS_TRY(ts_staging_put(&s, *p, x, (size_t)n * sizeof *x));
done:
  ts_staging_reset(&s);
  return err;
}

ts_err ts_layer_take_waves(ts_layer *l, float **p, int64_t places, int32_t n,
                           double base) {
  ts_err err = TS_OK;
  float *x = NULL;
  TS_TRY(ts_mem_many(x, places * n, DENSE));
  for (int32_t c = 0; c < n; c++) {
    const double turn = pow(base, -(double)(c - c % 2) / n);
    for (int64_t k = 0; k < places; k++)
      x[k * n + c] =
          (float)(c % 2 ? cos((double)k * turn) : sin((double)k * turn));
  }
  TS_TRY(ts_layer_take_filled(l, p, x, places * n));
done:
  ts_mem_free(x);
  return err;
}

ts_err ts_layer_comm(ts_layer *l, ts_comm **out) {
  ts_world *world = l->spec->world;
  *out = NULL;
  if (!world || ts_world_size(world) == 1) return TS_OK;
  if (!*l->comm)
    TS_DO(ts_comm_create(world, l->comm, TS_GROUP_WORLD, "layers"));
  *out = *l->comm;
  return TS_OK;
}

uint32_t ts_layer_key(const ts_layer *l) {
  const char *name = l->config->name;
  return (uint32_t)ts_fnv1a(TS_FNV_START, name, strlen(name));
}
