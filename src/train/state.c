/* state.c - a trainer as a checkpoint, and back.
 *
 * Dense parameters, which every rank holds, are written by rank 0; tables are
 * described in state_tables.c. */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "dense/param_optim.h"
#include "config.h"
#include "io/deck.h"
#include "io/split.h"
#include "train/planning.h"
#include "train/state_dense.h"
#include "train/state_ids.h"
#include "train/state_tables.h"

/* ---- values -------------------------------------------------------------- */

static ts_err add_i64(ts_ckpt *ckpt, const char *path, int64_t value) {
  return ts_ckpt_add_value(ckpt, path, TS_I64, 1, &value);
}

static int64_t get_i64(const ts_ckpt *ckpt, const char *path, int64_t none) {
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, path);
  int64_t x = none;
  if (v && v->dtype == TS_I64 && v->n == 1) memcpy(&x, v->ptr, sizeof x);
  return x;
}

/* The choices of a device's products; rank 0's are the ones that are kept. */
static ts_err add_choices(ts_trainer *t, ts_ckpt *ckpt) {
  ts_err err = TS_OK;
  ts_str text = {0};
  if (!ts_linear_chooses(&t->kernels)) return TS_OK;
  TS_TRY(ts_linear_choices(&t->kernels, &text));
  TS_TRY(ts_ckpt_add_text(ckpt, "meta/products", text.text ? text.text : ""));
done:
  ts_str_reset(&text);
  return err;
}

static ts_err take_choices(ts_trainer *t, const ts_ckpt *ckpt) {
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, "meta/products");
  if (!v || v->dtype != TS_U8 || !v->n) return TS_OK;
  return ts_linear_choose(&t->kernels, v->ptr);
}

static ts_err add_meta(ts_trainer *t, ts_ckpt *ckpt) {
  ts_err err = TS_OK;
  ts_str deck = {0}, plan = {0}, topology = {0}, versions = {0};
  uint64_t hash;
  TS_TRY(ts_deck_print(&deck, t->config));
  TS_TRY(ts_plan_print(&plan, t->plan, t->config));
  TS_TRY(ts_str_append(&versions, "tessera %s; %s; %s; kernels %s; %d threads",
                       PACKAGE_VERSION, ts_mpi_version(),
                       ts_linear_engine_version(&t->kernels), t->kernels.isa,
                       t->n_threads));
  TS_TRY(ts_ckpt_add_text(ckpt, "meta/deck", deck.text));
  TS_TRY(ts_topology_print(&topology, &t->planning->topology));
  TS_TRY(ts_ckpt_add_text(ckpt, "meta/plan", plan.text));
  TS_TRY(ts_ckpt_add_text(ckpt, "meta/topology", topology.text));
  TS_TRY(ts_ckpt_add_text(ckpt, "meta/versions", versions.text));
  TS_TRY(ts_ckpt_add_text(ckpt, "meta/backend", ts_device_name(t->device)));
  TS_TRY(add_choices(t, ckpt));
  TS_TRY(add_i64(ckpt, "meta/ranks", t->n_ranks));
  TS_TRY(add_i64(ckpt, "meta/threads", t->n_threads));
  TS_TRY(add_i64(ckpt, "meta/seed", t->config->run.seed));
  TS_TRY(ts_deck_hash(&hash, t->config));
  TS_TRY(add_i64(ckpt, "meta/deck_hash", (int64_t)hash));
  TS_TRY(add_i64(ckpt, "optim/step", t->step));
done:
  ts_str_reset(&deck);
  ts_str_reset(&plan);
  ts_str_reset(&topology);
  ts_str_reset(&versions);
  return err;
}

static ts_err add_files(ts_ckpt *ckpt, const ts_strings *paths) {
  ts_err err = TS_OK;
  ts_str text = {0};
  for (int32_t i = 0; i < paths->n; i++)
    TS_TRY(ts_str_append(&text, "%s\n", paths->item[i]));
  TS_TRY(ts_ckpt_add_text(ckpt, "loader/files", text.text ? text.text : ""));
done:
  ts_str_reset(&text);
  return err;
}

static ts_err add_best(ts_ckpt *ckpt, const ts_best *b) {
  const double numbers[] = {b->value, ts_best_rate(b)};
  const int64_t counts[] = {b->step, b->at, b->n_since, b->n_flat, b->restored};
  if (!b->at) return TS_OK; /* there was no validation */
  TS_DO(ts_ckpt_add_value(ckpt, "loader/valid_best", TS_F64, 2, numbers));
  return ts_ckpt_add_value(ckpt, "loader/valid_steps", TS_I64, 5, counts);
}

static void take_best(const ts_ckpt *ckpt, ts_best *b) {
  const ts_ckpt_value *x = ts_ckpt_value_of(ckpt, "loader/valid_best");
  const ts_ckpt_value *n = ts_ckpt_value_of(ckpt, "loader/valid_steps");
  double numbers[2];
  int64_t counts[5];
  if (!x || x->dtype != TS_F64 || x->n != 2) return;
  if (!n || n->dtype != TS_I64 || n->n != 5) return;
  memcpy(numbers, x->ptr, sizeof numbers);
  memcpy(counts, n->ptr, sizeof counts);
  *b = (ts_best){.value = numbers[0],
                 .rate = numbers[1],
                 .step = counts[0],
                 .at = counts[1],
                 .n_since = counts[2],
                 .n_flat = counts[3],
                 .restored = counts[4]};
}

static ts_err add_loader(ts_trainer *t, ts_ckpt *ckpt,
                         const ts_run_state *state, ts_source *train) {
  ts_err err = TS_OK;
  ts_str text = {0};
  TS_TRY(add_i64(ckpt, "loader/epoch", state->loader.epoch));
  TS_TRY(add_i64(ckpt, "loader/next_sample", state->loader.next_sample));
  TS_TRY(add_i64(ckpt, "loader/batches", state->loader.step));
  TS_TRY(add_i64(ckpt, "loader/samples", train->info.n_samples));
  TS_TRY(add_i64(ckpt, "loader/trained", state->n_samples));
  TS_TRY(ts_order_save(t->config, t->global_batch, ckpt));
  TS_TRY(ts_split_save(t->config, ckpt));
  TS_TRY(
      ts_ckpt_add_value(ckpt, "loader/seconds", TS_F64, 1, &state->trained_s));
  TS_TRY(add_best(ckpt, &state->best));
  TS_TRY(add_files(ckpt, &t->config->data.train));
  if (train->ops->state_save) {
    TS_TRY(train->ops->state_save(train, &text));
    if (text.text) TS_TRY(ts_ckpt_add_text(ckpt, "loader/state", text.text));
  }
done:
  ts_str_reset(&text);
  return err;
}

/* The metrics of all tasks into CKPT, or where PATH is its file out of it. */
static ts_err each_metric(ts_trainer *t, ts_ckpt *ckpt, const char *path) {
  ts_err err = TS_OK;
  ts_str prefix = {0};
  for (int32_t k = 0; k < t->n_tasks; k++) {
    ts_metrics *m = t->metrics[k];
    ts_str_reset(&prefix);
    TS_TRY(
        ts_str_append(&prefix, "metrics/%s", t->config->model.tasks[k].name));
    TS_TRY(path ? ts_metrics_load(m, ckpt, path, prefix.text, t->control)
                : ts_metrics_save(m, ckpt, prefix.text, t->control));
  }
done:
  ts_str_reset(&prefix);
  return err;
}

typedef struct ts_taking {
  ts_trainer *t;
  ts_ckpt *ckpt;
} ts_taking;

static ts_err take_metrics(void *arg, const char *path, bool mirrored) {
  const ts_taking *x = arg;
  (void)mirrored;
  return x->t->training ? each_metric(x->t, x->ckpt, path) : TS_OK;
}

/* The next batch's lookup, which may run beside, moves rows of cached
 * tables. */
static ts_err flush(ts_trainer *t) {
  const ts_err err = ts_trainer_rest(t);
  return err != TS_OK ? err : ts_ebc_flush(t->ebc);
}

/* Brings work on tables and layers to rest, then lists their memory. */
static ts_err describe(ts_trainer *t, ts_ckpt *ckpt, bool with_state) {
  TS_DO(ts_settle(t, ts_ckpt_on(ckpt, t->device)));
  TS_DO(ts_settle(t, flush(t)));
  const ts_ckpt_kind asked = ckpt->kind;
  TS_DO(ts_state_tables(t, ckpt, with_state));
  /* A full one in the place of weights alone has the state, too. */
  with_state |= ckpt->kind != asked;
  return ts_settle(t, ts_state_dense(t, ckpt, with_state));
}

ts_err ts_trainer_describe_weights(ts_trainer *t, ts_ckpt *ckpt,
                                   bool with_state) {
  return describe(t, ckpt, with_state);
}

ts_err ts_trainer_describe(ts_trainer *t, const ts_run_state *state,
                           ts_source *train, ts_ckpt *ckpt) {
  ckpt->step = t->step;
  TS_DO(describe(t, ckpt, ckpt->kind != TS_CKPT_WEIGHTS));
  TS_DO(ts_settle(t, ts_state_ids_add(t, ckpt)));
  TS_DO(ts_settle(t, add_meta(t, ckpt)));
  TS_DO(ts_settle(t, add_loader(t, ckpt, state, train)));
  TS_DO(ts_settle(t, each_metric(t, ckpt, NULL)));
  return ts_settle(t, ts_state_forget_touched(t, ckpt));
}

/* ---- load ---------------------------------------------------------------- */

static ts_err take_state(const ts_ckpt *ckpt, ts_run_state *state) {
  const ts_ckpt_value *text = ts_ckpt_value_of(ckpt, "loader/state");
  const ts_ckpt_value *s = ts_ckpt_value_of(ckpt, "loader/seconds");
  state->loader.epoch = get_i64(ckpt, "loader/epoch", 0);
  state->loader.next_sample = get_i64(ckpt, "loader/next_sample", 0);
  state->loader.step = get_i64(ckpt, "loader/batches", 0);
  state->n_samples = get_i64(ckpt, "loader/trained", 0);
  ts_order_take(&state->order, ckpt);
  take_best(ckpt, &state->best);
  if (s && s->dtype == TS_F64 && s->n == 1)
    memcpy(&state->trained_s, s->ptr, sizeof(double));
  if (get_i64(ckpt, "optim/step", ckpt->step) < 0 || state->loader.epoch < 0 ||
      state->loader.next_sample < 0 || state->loader.step < 0 ||
      state->n_samples < 0)
    return ts_fail(TS_ERR_CKPT, "the checkpoint is of a step or a place in "
                                "the data below 0");
  return text ? ts_mem_strdup(&state->source_state, text->ptr) : TS_OK;
}

int64_t ts_state_step(const ts_ckpt *ckpt) {
  return get_i64(ckpt, "optim/step", ckpt->step);
}

ts_err ts_trainer_load(ts_trainer *t, const char *path, ts_run_state *state,
                       ts_str *taken) {
  ts_err err = TS_OK;
  ts_ckpt ckpt = {0};
  ts_str missing = {0};
  ts_taking taking = {t, &ckpt};
  const ts_section before = ts_watch_enter(TS_SECTION_LOAD);
  TS_TRY(describe(t, &ckpt, t->training));
  /* A file may lack means; those that are there are of other rows. */
  TS_TRY(ts_settle(t, ts_state_move_means(t, TS_MEANS_BEGIN)));
  if (path) {
    TS_TRY(ts_ckpt_load(&ckpt, path, !t->training, &missing, t->control));
    TS_TRY(take_metrics(&taking, path, false));
    TS_TRY(ts_str_append(taken, "%s", path));
  } else {
    TS_TRY(ts_ckpt_load_newest(&ckpt, taken, t->config->checkpoint.dir,
                               ts_mirror_of(t->config), take_metrics, &taking,
                               t->control));
  }
  if (taken->text) TS_TRY(ts_state_ids_take(t, &ckpt, false));
  if (taken->text && !t->training)
    TS_TRY(ts_settle(
        t, ts_ebc_take_averages(t->ebc, ts_state_step(&ckpt), t->compute)));
  TS_TRY(ts_settle(t, ts_ebc_reload(t->ebc)));
  if (!taken->text) goto done;
  TS_TRY(ts_settle(t, ts_state_look_averages(t, &ckpt, taken->text)));
  if (!t->training && missing.text)
    TS_THROW(TS_ERR_CKPT, "%s lacks %s", taken->text, missing.text);
  t->step = ts_state_step(&ckpt);
  for (int32_t i = 0; i < ckpt.n_items; i++)
    state->lacks |= ckpt.items[i].absent || ckpt.items[i].converted;
  TS_TRY(ts_settle(t, take_state(&ckpt, state)));
  if (t->training) TS_TRY(ts_settle(t, ts_split_check(t->config, &ckpt)));
  if (!t->training) t->negatives = ts_negatives_of(t->config, &ckpt);
  TS_TRY(ts_settle(t, take_choices(t, &ckpt)));
  ts_parallel_touch(t->dense);
done:
  ts_watch_enter(before);
  ts_ckpt_reset(&ckpt);
  ts_str_reset(&missing);
  return err;
}
