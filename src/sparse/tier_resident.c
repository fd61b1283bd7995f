/* tier_resident.c - all rows in fast memory: a row is its own slot. */
#include <string.h>

#include "sparse/tier.h"

typedef struct ts_resident {
  ts_tier base;
  ts_tier_spec spec;
  ts_buffer weights, state[2];
} ts_resident;

static void destroy(ts_tier *tier) {
  ts_resident *r = (ts_resident *)tier;
  if (!r) return;
  ts_buffer_reset(&r->weights);
  ts_buffer_reset(&r->state[0]);
  ts_buffer_reset(&r->state[1]);
  ts_mem_free(r);
}

static ts_err create(ts_tier **out, ts_device *device,
                     const ts_tier_spec *spec) {
  extern const ts_tier_ops ts_tier_resident;
  ts_err err = TS_OK;
  ts_resident *r = NULL;
  TS_TRY(ts_mem_alloc(&r, sizeof *r, TS_TAG_MISC));
  r->base.ops = &ts_tier_resident;
  r->spec = *spec;
  TS_TRY(ts_buffer_create(&r->weights, device,
                          (size_t)(spec->n_rows * spec->dim) *
                              ts_dtype_bytes(spec->dtype),
                          TS_SPACE_DEVICE, TS_TAG_TABLES));
  for (int k = 0; k < spec->n_states; k++)
    TS_TRY(ts_buffer_create(&r->state[k], device,
                            (size_t)(spec->n_rows * spec->state_cols[k]) *
                                sizeof(float),
                            TS_SPACE_DEVICE, TS_TAG_ROW_STATE));
  *out = &r->base;
  r = NULL;
done:
  destroy((ts_tier *)r);
  return err;
}

static ts_err resolve(ts_tier *tier, const uint32_t **slots, ts_event *ready,
                      const uint32_t *rows, int64_t n, ts_lane *lane) {
  (void)tier, (void)n, (void)lane;
  *slots = rows;
  *ready = (ts_event){0};
  return TS_OK;
}

static ts_err nothing(ts_tier *tier, const uint32_t *slots, int64_t n,
                      ts_lane *lane) {
  (void)tier, (void)slots, (void)n, (void)lane;
  return TS_OK;
}

/* Bytes of a row of state K (-1: weights), and where row FIRST lies. */
static char *place(ts_resident *r, int k, int64_t first, int64_t *row_bytes) {
  const ts_buffer *b = k < 0 ? &r->weights : &r->state[k];
  *row_bytes = k < 0 ? (int64_t)ts_dtype_bytes(r->spec.dtype) * r->spec.dim
                     : 4 * (int64_t)r->spec.state_cols[k];
  return (char *)b->ptr + first * *row_bytes;
}

static ts_err get_rows(ts_tier *tier, void *dst, int k, int64_t first,
                       int64_t n) {
  int64_t bytes;
  const char *from = place((ts_resident *)tier, k, first, &bytes);
  memcpy(dst, from, (size_t)(n * bytes));
  return TS_OK;
}

static ts_err put_rows(ts_tier *tier, const void *src, int k, int64_t first,
                       int64_t n) {
  int64_t bytes;
  char *to = place((ts_resident *)tier, k, first, &bytes);
  memcpy(to, src, (size_t)(n * bytes));
  return TS_OK;
}

static void *weights(ts_tier *tier) {
  return ((ts_resident *)tier)->weights.ptr;
}

static float *state(ts_tier *tier, int k) {
  return ((ts_resident *)tier)->state[k].ptr;
}

extern const ts_tier_ops ts_tier_resident;
const ts_tier_ops ts_tier_resident = {.kind = "resident",
                                      .create = create,
                                      .destroy = destroy,
                                      .resolve = resolve,
                                      .lock = nothing,
                                      .unlock = nothing,
                                      .get_rows = get_rows,
                                      .put_rows = put_rows,
                                      .weights = weights,
                                      .state = state};
