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
 * double, in the order of the groups' ids (shard/view_kernels.h). */
#include <string.h>

#include "base/features.h"
#include "base/mem.h"
#include "base/str.h"
#include "shard/ebc_batch.h"
#include "shard/view_kernels.h"

static const char param_name[] =
    "sparse_arch.feature_processor.position_weight.%s";

/* Features of tables that have a processor. */
static int32_t count(const ts_ebc *ebc) {
  int32_t n = 0;
  for (int32_t f = 0; f < ebc->n_features; f++)
    n += ebc->config->tables[ebc->feature_table[f]].max_length > 0;
  return n;
}

/* A feature of several tables has weights in each: those behind the first
 * that has some are called f@t. */
static bool is_taken(const ts_ebc *ebc, const char *feature) {
  const char *name;
  for (int32_t k = 0; k < ebc->params.n; k++) {
    (void)ts_feature_table(ebc->config, ebc->processors[k].feature, &name);
    if (!strcmp(name, feature)) return true;
  }
  return false;
}

static ts_err add_processor(ts_ebc *ebc, int32_t feature) {
  ts_err err = TS_OK;
  ts_str full = {0};
  const char *name;
  ts_processor *p = &ebc->processors[ebc->params.n];
  const ts_table_config *t = ts_feature_table(ebc->config, feature, &name);
  const int32_t max_length = t->max_length;
  p->feature = feature;
  TS_TRY(ts_str_append(&full, param_name, name));
  if (is_taken(ebc, name)) TS_TRY(ts_str_append(&full, "@%s", t->name));
  TS_TRY(ts_params_add(&ebc->params, ebc->device, &p->param, full.text,
                       "feature_processors", max_length, 0));
  p->at = ebc->positions.n;
  ebc->positions.n += max_length;
  p->param->late = true;
done:
  ts_str_reset(&full);
  return err;
}

ts_err ts_processors_create(ts_ebc *ebc) {
  TS_DO(ts_mem_many(ebc->processors, count(ebc), MISC));
  for (int32_t f = 0; f < ebc->n_features; f++)
    if (ebc->config->tables[ebc->feature_table[f]].max_length > 0)
      TS_DO(add_processor(ebc, f));
  return ts_buffer_create(&ebc->positions.sum, ebc->device,
                          (size_t)ebc->positions.n * 8, TS_SPACE_DEVICE,
                          TS_TAG_DENSE);
}

void ts_processors_destroy(ts_ebc *ebc) {
  ts_buffer_reset(&ebc->positions.sum);
  ts_mem_free(ebc->processors);
  ts_params_reset(&ebc->params);
}

static bool has_positions(const ts_sharding *sharding) {
  for (int32_t g = 0; g < sharding->n_groups; g++)
    if (sharding->groups[g].positions) return true;
  return false;
}

/* ---- the kernels' lists ---------------------------------------------------
 */

/* Slots for one kernel, which runs as soon as there are as many as it takes,
 * and at the end. */
typedef struct ts_slot_list {
  ts_err (*kernel)(const ts_position_args *);
  ts_position_args args;
} ts_slot_list;

static ts_err flush(ts_slot_list *l) {
  const ts_err err = l->args.n_slots ? l->kernel(&l->args) : TS_OK;
  l->args.n_slots = 0;
  l->args.most_ids = 0;
  return err;
}

/* Slot S of group G, whose feature has processor K; VALUES: of the ids. */
static ts_err add_slot(ts_slot_list *l, const ts_sharding_batch *lf, int32_t k,
                       int32_t g, int32_t s, float *values) {
  const ts_ebc *ebc = lf->sharding->ebc;
  const ts_processor *p = &ebc->processors[k];
  const ts_tbe_input *in = &lf->inputs[g];
  double *sums = ebc->positions.sum.ptr;
  if (in->n_ids > l->args.most_ids) l->args.most_ids = in->n_ids;
  l->args.slot[l->args.n_slots++] =
      (ts_position_slot){.offsets = in->offsets + in->bag_start[s],
                         .n_bags = in->bag_start[s + 1] - in->bag_start[s],
                         .positions = lf->positions[g].ptr,
                         .value = values,
                         .weight = p->param->w,
                         .sum = sums + p->at,
                         .n = (int32_t)p->param->n};
  return l->args.n_slots == TS_POSITION_SLOTS ? flush(l) : TS_OK;
}

/* All slots of a sharding, by processor: VALUES are buffers of the groups. */
static ts_err run_slots(const ts_sharding_batch *lf, const ts_buffer *values,
                        ts_err (*kernel)(const ts_position_args *)) {
  const ts_sharding *sharding = lf->sharding;
  ts_slot_list list = {.kernel = kernel};
  for (int32_t k = 0; k < sharding->ebc->params.n; k++)
    for (int32_t g = 0; g < sharding->n_groups; g++) {
      const ts_sharding_group *group = &sharding->groups[g];
      for (int32_t s = 0; group->positions && s < group->n_slots; s++)
        if (sharding->pieces[group->piece[s]].feature ==
            sharding->ebc->processors[k].feature)
          TS_DO(add_slot(&list, lf, k, g, s, values[g].ptr));
    }
  return flush(&list);
}

/* ---- forward ------------------------------------------------------------- */

static ts_err weigh_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_sharding_batch *lf = *(ts_sharding_batch **)arg;
  return run_slots(lf, lf->weights,
                   lf->sharding->ebc->kernels->weigh_positions);
}

ts_err ts_sharding_weigh(ts_sharding_batch *lf, ts_lane *lane) {
  if (!has_positions(lf->sharding)) return TS_OK;
  return ts_lane_run(lane, "position weights", weigh_task, lf);
}

/* ---- backward ------------------------------------------------------------ */

/* Parameters that nobody trains have no gradient. */
static bool trained(const ts_ebc *ebc) {
  return ebc->params.n > 0 && ebc->params.item[0]->grad;
}

static ts_err clear_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_ebc *ebc = *(ts_ebc **)arg;
  return ebc->kernels->zero(ebc->positions.sum.ptr,
                            (size_t)ebc->positions.n * 8);
}

ts_err ts_processors_begin(ts_ebc *ebc, ts_lane *lane) {
  if (!trained(ebc)) return TS_OK;
  return ts_lane_run(lane, "clear positions", clear_task, ebc);
}

static ts_err add_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_sharding_batch *lf = *(ts_sharding_batch **)arg;
  return run_slots(lf, lf->weight_grads,
                   lf->sharding->ebc->kernels->sum_positions);
}

ts_err ts_sharding_weight_grads(ts_sharding_batch *lf, ts_lane *lane) {
  const ts_sharding *sharding = lf->sharding;
  if (!trained(sharding->ebc) || !has_positions(sharding)) return TS_OK;
  for (int32_t g = 0; g < sharding->n_groups; g++)
    if (sharding->groups[g].positions)
      TS_DO(ts_tbe_weight_grad(sharding->groups[g].tbe, lf->weight_grads[g].ptr,
                               lf->out.ptr, &lf->inputs[g], lane));
  return ts_lane_run(lane, "position gradients", add_task, lf);
}

static ts_err write_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_ebc *ebc = *(ts_ebc **)arg;
  const double *sum = ebc->positions.sum.ptr;
  for (int32_t k = 0; k < ebc->params.n; k++) {
    const ts_param *p = ebc->params.item[k];
    TS_DO(ebc->kernels->narrow(p->grad, sum + ebc->processors[k].at, p->n));
  }
  return TS_OK;
}

ts_err ts_processors_end(ts_ebc *ebc, ts_lane *lane) {
  if (!trained(ebc)) return TS_OK;
  return ts_lane_run(lane, "position gradients", write_task, ebc);
}
