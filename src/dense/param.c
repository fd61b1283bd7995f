/* param.c - dense parameters and their initial values. */
#include "dense/param.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

ts_err ts_params_add(ts_params *ps, ts_device *device, ts_param **out,
                     const char *name, const char *group, int32_t rows,
                     int32_t cols) {
  ts_err err = TS_OK;
  ts_param *p = NULL;
  TS_TRY(ts_mem_resize(&ps->item, (size_t)ps->n * sizeof *ps->item,
                       (size_t)(ps->n + 1) * sizeof *ps->item, TS_TAG_DENSE));
  TS_TRY(ts_mem_alloc(&p, sizeof *p, TS_TAG_DENSE));
  ps->item[ps->n] = p;
  p->index = ps->n++;
  p->rows = rows;
  p->cols = cols;
  p->n = (int64_t)rows * (cols ? cols : 1);
  TS_TRY(ts_mem_strdup(&p->name, name));
  TS_TRY(ts_mem_strdup(&p->group, group));
  /* Replicated parameters live in host memory on the host; a device keeps
   * its own full view. */
  (void)device;
  TS_TRY(ts_mem_array(&p->w, p->n, sizeof *p->w, TS_TAG_DENSE));
  *out = p;
done:
  return err;
}

void ts_params_reset(ts_params *ps) {
  for (int32_t i = 0; i < ps->n; i++) {
    ts_mem_free(ps->item[i]->name);
    ts_mem_free(ps->item[i]->group);
    ts_mem_free(ps->item[i]->w);
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

void ts_param_init_uniform(ts_param *p, uint64_t seed, double bound) {
  for (int64_t i = 0; i < p->n; i += 4) {
    uint32_t x[4];
    ts_rng4(x, seed, TS_RNG_DENSE_INIT, (uint64_t)(i / 4), (uint32_t)p->index,
            0);
    for (int k = 0; k < 4 && i + k < p->n; k++)
      p->w[i + k] = (float)(bound * (2.0 * (double)ts_rng_unit(x[k]) - 1.0));
  }
  p->version++;
}

void ts_param_init_normal(ts_param *p, uint64_t seed, double deviation) {
  for (int64_t i = 0; i < p->n; i += 4) {
    uint32_t x[4];
    double n[4];
    ts_rng4(x, seed, TS_RNG_DENSE_INIT, (uint64_t)(i / 4), (uint32_t)p->index,
            0);
    ts_rng_normal2(n, x[0], x[1]);
    ts_rng_normal2(n + 2, x[2], x[3]);
    for (int k = 0; k < 4 && i + k < p->n; k++)
      p->w[i + k] = (float)(deviation * n[k]);
  }
  p->version++;
}

void ts_param_init_constant(ts_param *p, float value) {
  for (int64_t i = 0; i < p->n; i++) p->w[i] = value;
  p->version++;
}
