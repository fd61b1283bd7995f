/* param.c - dense parameters and their initial values. */
#include "dense/param.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

ts_err ts_params_add(ts_params *ps, ts_device *device, ts_param **out,
                     const char *name, const char *group, int32_t rows,
                     int32_t cols) {
  ts_param *p = NULL;
  TS_DO(ts_mem_resize(&ps->item, (size_t)ps->n * sizeof *ps->item,
                      (size_t)(ps->n + 1) * sizeof *ps->item, TS_TAG_DENSE));
  TS_DO(ts_mem_alloc(&p, sizeof *p, TS_TAG_DENSE));
  ps->item[ps->n] = p;
  p->index = ps->n++;
  p->rows = rows;
  p->cols = cols;
  p->n = (int64_t)rows * (cols ? cols : 1);
  TS_DO(ts_mem_strdup(&p->name, name));
  TS_DO(ts_mem_strdup(&p->group, group));
  if (!ps->deferred)
    TS_DO(ts_buffer_create(&p->own, device, (size_t)p->n * sizeof *p->w,
                           TS_SPACE_DEVICE, TS_TAG_DENSE));
  p->w = p->own.ptr;
  *out = p;
  return TS_OK;
}

void ts_params_reset(ts_params *ps) {
  for (int32_t i = 0; i < ps->n; i++) {
    ts_mem_free(ps->item[i]->name);
    ts_mem_free(ps->item[i]->group);
    ts_buffer_reset(&ps->item[i]->own);
    ts_mem_free(ps->item[i]);
  }
  ts_mem_free(ps->item);
  *ps = (ts_params){0};
}

ts_param *ts_params_find(const ts_params *ps, const char *name) {
  for (int32_t i = 0; i < ps->n; i++)
    if (!strcmp(ps->item[i]->name, name)) return ps->item[i];
  return NULL;
}

int64_t ts_params_count(const ts_params *ps) {
  int64_t n = 0;
  for (int32_t i = 0; i < ps->n; i++) n += ps->item[i]->n;
  return n;
}

int64_t ts_params_room(const ts_params *ps) {
  int64_t n = 0;
  for (int32_t i = 0; i < ps->n; i++) n += ts_param_room(ps->item[i]->n);
  return n;
}

bool ts_params_heavy_below(const ts_params *p) {
  int64_t below = 0;
  for (int32_t i = 0; i < p->n; i++)
    if (p->item[i]->below) below += p->item[i]->n;
  return below * 8 >= ts_params_count(p);
}

/* Values are drawn four at a time, from the element's number alone. */
static void draw(const ts_param_init *init, double x[4], uint32_t key,
                 int64_t block) {
  uint32_t bits[4];
  ts_rng4(bits, init->seed, TS_RNG_DENSE_INIT, (uint64_t)block, key, 0);
  if (init->kind == TS_INIT_NORMAL) {
    ts_rng_normal2(x, bits[0], bits[1]);
    ts_rng_normal2(x + 2, bits[2], bits[3]);
    return;
  }
  for (int k = 0; k < 4; k++) x[k] = 2.0 * (double)ts_rng_unit(bits[k]) - 1.0;
}

void ts_param_init_part(const ts_param *p, float *to, int64_t first,
                        int64_t n) {
  const ts_param_init *init = &p->init;
  if (init->kind == TS_INIT_CONSTANT) {
    for (int64_t i = 0; i < n; i++) to[i] = (float)init->scale;
    return;
  }
  for (int64_t i = first / 4 * 4; i < first + n; i += 4) {
    double x[4];
    draw(init, x, p->keyed ? p->key : (uint32_t)p->index, i / 4);
    for (int64_t k = i < first ? first - i : 0; k < 4 && i + k < first + n; k++)
      to[i + k - first] = (float)(init->scale * x[k]);
  }
}

ts_err ts_param_init_put(const ts_param *p, ts_staging *s, float *to,
                         int64_t first, int64_t n) {
  enum { PIECE = 1 << 18 };
  ts_err err = TS_OK;
  float *x = NULL;
  if (!ts_staging_is_remote(s, to)) {
    if (n > 0) ts_param_init_part(p, to, first, n);
    return TS_OK;
  }
  TS_TRY(ts_mem_many(x, n < PIECE ? n : PIECE, MISC));
  for (int64_t i = 0; i < n; i += PIECE) {
    const int64_t m = n - i < PIECE ? n - i : PIECE;
    ts_param_init_part(p, x, first + i, m);
    TS_TRY(ts_staging_put(s, to + i, x, (size_t)m * sizeof *x));
  }
done:
  ts_mem_free(x);
  return err;
}

static ts_err set_init(ts_param *p, ts_param_init init) {
  ts_err err = TS_OK;
  ts_staging s = {0};
  p->init = init;
  p->version++;
  if (p->own.ptr) TS_TRY(ts_staging_create(&s, p->own.device));
  if (p->w) TS_TRY(ts_param_init_put(p, &s, p->w, 0, p->n));
done:
  ts_staging_reset(&s);
  return err;
}

ts_err ts_param_init_uniform(ts_param *p, uint64_t seed, double bound) {
  return set_init(p, (ts_param_init){TS_INIT_UNIFORM, seed, bound});
}

ts_err ts_param_init_normal(ts_param *p, uint64_t seed, double deviation) {
  return set_init(p, (ts_param_init){TS_INIT_NORMAL, seed, deviation});
}

ts_err ts_param_init_constant(ts_param *p, float value) {
  return set_init(p, (ts_param_init){TS_INIT_CONSTANT, 0, value});
}
