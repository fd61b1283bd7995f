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

/* An array of ROW_BYTES a row. */
static ts_err create_rows(ts_resident *r, ts_buffer *b, ts_device *device,
                          size_t row_bytes, ts_tag tag) {
  const size_t bytes = (size_t)r->spec.n_rows * row_bytes;
  return r->spec.grows
             ? ts_buffer_create_range(b, device, bytes, tag)
             : ts_buffer_create(b, device, bytes, TS_SPACE_DEVICE, tag);
}

static size_t row_bytes(const ts_tier_spec *s, int k) {
  return k < 0 ? (size_t)ts_row_bytes(s->dtype, s->dim)
               : (size_t)s->state_cols[k] * sizeof(float);
}

static ts_err create(ts_tier **out, ts_device *device,
                     const ts_tier_spec *spec) {
  extern const ts_tier_ops ts_tier_resident;
  ts_err err = TS_OK;
  ts_resident *r = NULL;
  TS_TRY(ts_mem_alloc(&r, sizeof *r, TS_TAG_MISC));
  r->base.ops = &ts_tier_resident;
  r->spec = *spec;
  TS_TRY(
      create_rows(r, &r->weights, device, row_bytes(spec, -1), TS_TAG_TABLES));
  for (int k = 0; k < spec->n_states; k++)
    TS_TRY(create_rows(r, &r->state[k], device, row_bytes(spec, k),
                       TS_TAG_ROW_STATE));
  *out = &r->base;
  r = NULL;
done:
  destroy((ts_tier *)r);
  return err;
}

static ts_err give(ts_tier *tier, int64_t row0, int64_t n) {
  ts_resident *r = (ts_resident *)tier;
  for (int k = -1; k < r->spec.n_states; k++) {
    const size_t bytes = row_bytes(&r->spec, k);
    TS_DO(ts_buffer_give(k < 0 ? &r->weights : &r->state[k],
                         (size_t)row0 * bytes, (size_t)(row0 + n) * bytes));
  }
  return TS_OK;
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
                                      .give = give,
                                      .weights = weights,
                                      .state = state};
