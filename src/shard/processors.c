/* processors.c - feature processors: a trained weight for each position in a
 * bag, per feature.
 *
 * Positions come with the ids, weights are looked up on the compute lane: so
 * they are those of the step that looks up, however far ahead the ids have
 * travelled.  From there on the groups see bags with plain weights.
 *
 * On the way back every id's dot product of its row and its bag's gradient
 * belongs to its position's weight.  A rank adds what it holds: of all ids
 * and some columns, of some rows, of its own samples - whatever the sharding,
 * each product is in one sum over all columns and ranks.  Sums are taken in
 * double, in the order of the groups' ids; threads have features of their
 * own, so their number changes nothing. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "shard/flight.h"

static const char param_name[] =
    "sparse_arch.feature_processor.position_weight.%s";

/* Features of tables that have a processor. */
static int32_t count(const ts_ebc *ebc) {
  int32_t n = 0;
  for (int32_t f = 0; f < ebc->n_features; f++)
    n += ebc->config->tables[ebc->feature_table[f]].max_length > 0;
  return n;
}

static ts_err add_processor(ts_ebc *ebc, int32_t feature, const char *name,
                            int32_t max_length) {
  ts_err err = TS_OK;
  ts_str full = {0};
  ts_processor *p = &ebc->processors[ebc->params.n];
  p->feature = feature;
  TS_TRY(ts_str_append(&full, param_name, name));
  TS_TRY(ts_params_add(&ebc->params, ebc->device, &p->param, full.text,
                       "feature_processors", max_length, 0));
  TS_TRY(ts_mem_array(&p->sum, max_length, sizeof *p->sum, TS_TAG_DENSE));
  p->param->late = true;
done:
  ts_str_reset(&full);
  return err;
}

ts_err ts_processors_create(ts_ebc *ebc) {
  ts_err err = TS_OK;
  const ts_config *c = ebc->config;
  int32_t f = 0;
  TS_TRY(ts_mem_array(&ebc->processors, count(ebc), sizeof *ebc->processors,
                      TS_TAG_MISC));
  for (int32_t t = 0; t < c->n_tables; t++)
    for (int32_t i = 0; i < c->tables[t].features.n; i++, f++)
      if (c->tables[t].max_length > 0)
        TS_TRY(add_processor(ebc, f, c->tables[t].features.item[i],
                             c->tables[t].max_length));
done:
  return err;
}

void ts_processors_destroy(ts_ebc *ebc) {
  for (int32_t k = 0; ebc->processors && k < ebc->params.n; k++)
    ts_mem_free(ebc->processors[k].sum);
  ts_mem_free(ebc->processors);
  ts_params_reset(&ebc->params);
}

static const ts_processor *processor_of(const ts_ebc *ebc, int32_t feature) {
  const ts_processor *p = ebc->processors;
  while (p->feature != feature) p++;
  return p;
}

static inline int64_t place_of(uint16_t position, int64_t n) {
  return position < n ? position : n - 1;
}

/* Ids [*from, *to) of slot S of group G. */
static void ids_of_slot(const ts_lot_flight *lf, int32_t g, int32_t s,
                        int64_t *from, int64_t *to) {
  const ts_tbe_input *in = &lf->inputs[g];
  *from = in->offsets[in->bag_start[s]];
  *to = in->offsets[in->bag_start[s + 1]];
}

static bool has_positions(const ts_lot *lot) {
  for (int32_t g = 0; g < lot->n_groups; g++)
    if (lot->groups[g].positions) return true;
  return false;
}

/* ---- forward ------------------------------------------------------------- */

static void weigh_slot(const ts_lot_flight *lf, int32_t g, int32_t s) {
  const ts_lot *lot = lf->lot;
  const int32_t feature = lot->pieces[lot->groups[g].piece[s]].feature;
  const ts_param *p = processor_of(lot->ebc, feature)->param;
  const uint16_t *positions = lf->positions[g].ptr;
  float *weights = lf->weights[g].ptr;
  int64_t from, to;
  ids_of_slot(lf, g, s, &from, &to);
#pragma omp for schedule(static) nowait
  for (int64_t i = from; i < to; i++)
    weights[i] = p->w[place_of(positions[i], p->n)];
}

static ts_err weigh_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_lot_flight *lf = *(ts_lot_flight **)arg;
  const ts_lot *lot = lf->lot;
#pragma omp parallel
  for (int32_t g = 0; g < lot->n_groups; g++)
    for (int32_t s = 0; lot->groups[g].positions && s < lot->groups[g].n_slots;
         s++)
      weigh_slot(lf, g, s);
  return TS_OK;
}

ts_err ts_lot_weigh(ts_lot_flight *lf, ts_lane *lane) {
  if (!has_positions(lf->lot)) return TS_OK;
  return ts_lane_submit(lane, "position weights", weigh_task, &lf, sizeof lf);
}

/* ---- backward ------------------------------------------------------------ */

/* Parameters that nobody trains have no gradient. */
static bool trained(const ts_ebc *ebc) {
  return ebc->params.n > 0 && ebc->params.item[0]->grad;
}

static ts_err clear_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ebc *ebc = *(ts_ebc **)arg;
  for (int32_t k = 0; k < ebc->params.n; k++)
    memset(ebc->processors[k].sum, 0,
           (size_t)ebc->params.item[k]->n * sizeof(double));
  return TS_OK;
}

ts_err ts_processors_begin(ts_ebc *ebc, ts_lane *lane) {
  if (!trained(ebc)) return TS_OK;
  return ts_lane_submit(lane, "clear positions", clear_task, &ebc, sizeof ebc);
}

/* What group G has for one processor. */
static void add_group(const ts_lot_flight *lf, int32_t g,
                      const ts_processor *p) {
  const ts_lot *lot = lf->lot;
  const ts_lot_group *group = &lot->groups[g];
  const uint16_t *positions = lf->positions[g].ptr;
  const float *dots = lf->weight_grads[g].ptr;
  int64_t from, to;
  for (int32_t s = 0; group->positions && s < group->n_slots; s++) {
    if (lot->pieces[group->piece[s]].feature != p->feature) continue;
    ids_of_slot(lf, g, s, &from, &to);
    for (int64_t i = from; i < to; i++)
      p->sum[place_of(positions[i], p->param->n)] += dots[i];
  }
}

static ts_err add_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_lot_flight *lf = *(ts_lot_flight **)arg;
  const ts_ebc *ebc = lf->lot->ebc;
#pragma omp parallel for schedule(dynamic)
  for (int32_t k = 0; k < ebc->params.n; k++)
    for (int32_t g = 0; g < lf->lot->n_groups; g++)
      add_group(lf, g, &ebc->processors[k]);
  return TS_OK;
}

ts_err ts_lot_weight_grads(ts_lot_flight *lf, ts_lane *lane) {
  ts_err err = TS_OK;
  const ts_lot *lot = lf->lot;
  if (!trained(lot->ebc) || !has_positions(lot)) return TS_OK;
  for (int32_t g = 0; g < lot->n_groups; g++)
    if (lot->groups[g].positions)
      TS_TRY(ts_tbe_weight_grad(lot->groups[g].tbe, lf->weight_grads[g].ptr,
                                lf->out.ptr, &lf->inputs[g], lane));
  TS_TRY(ts_lane_submit(lane, "position gradients", add_task, &lf, sizeof lf));
done:
  return err;
}

static ts_err write_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_ebc *ebc = *(ts_ebc **)arg;
  for (int32_t k = 0; k < ebc->params.n; k++) {
    ts_param *p = ebc->params.item[k];
    for (int64_t i = 0; i < p->n; i++)
      p->grad[i] = (float)ebc->processors[k].sum[i];
  }
  return TS_OK;
}

ts_err ts_processors_end(ts_ebc *ebc, ts_lane *lane) {
  if (!trained(ebc)) return TS_OK;
  return ts_lane_submit(lane, "position gradients", write_task, &ebc,
                        sizeof ebc);
}
