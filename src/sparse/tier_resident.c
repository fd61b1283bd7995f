/* tier_resident.c - all rows in fast memory: a row is its own slot. */
#include "sparse/tier.h"

typedef struct ts_resident {
  ts_tier base;
  ts_tier_spec spec;
  ts_buffer weights, state[TS_ROW_STATES_MAX];
} ts_resident;

static void destroy(ts_tier *tier) {
  ts_resident *r = (ts_resident *)tier;
  if (!r) return;
  ts_buffer_reset(&r->weights);
  for (int k = 0; k < TS_ROW_STATES_MAX; k++) ts_buffer_reset(&r->state[k]);
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
  TS_TRY(ts_buffer_create(
      &r->weights, device,
      (size_t)(spec->n_rows * ts_row_bytes(spec->dtype, spec->dim)),
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

static ts_err nothing(ts_tier *tier) {
  (void)tier;
  return TS_OK;
}

static void *weights(ts_tier *tier) {
  return ((ts_resident *)tier)->weights.ptr;
}

static float *state(ts_tier *tier, int k) {
  return ((ts_resident *)tier)->state[k].ptr;
}

static void *rows(ts_tier *tier, int k) {
  return k < 0 ? weights(tier) : state(tier, k);
}

extern const ts_tier_ops ts_tier_resident;
const ts_tier_ops ts_tier_resident = {.kind = "resident",
                                      .create = create,
                                      .destroy = destroy,
                                      .rows = rows,
                                      .flush = nothing,
                                      .reload = nothing,
                                      .weights = weights,
                                      .state = state};
