/* run_start.c - where a run begins: afresh or from a checkpoint. */
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/deck.h"
#include "io/split.h"
#include "io/target_law.h"
#include "train/pipeline.h"
#include "train/planning.h"
#include "train/run_impl.h"
#include "train/topk.h"

/* PATH.old, or PATH.old.2 and so on where that is taken. */
static ts_err old_name(ts_str *old, const char *path) {
  for (int k = 1; k == 1 || access(old->text, F_OK) == 0; k++) {
    ts_str_reset(old);
    TS_DO(ts_str_append(old, "%s.old", path));
    if (k > 1) TS_DO(ts_str_append(old, ".%d", k));
  }
  return TS_OK;
}

static ts_err set_aside_file(const char *path) {
  ts_str old = {0};
  ts_err err = old_name(&old, path);
  if (err == TS_OK && ts_file_rename(path, old.text) != 0)
    err = ts_fail_errno(TS_ERR_CKPT, path);
  ts_str_reset(&old);
  return err;
}

static ts_err set_aside_best(const char *dir, ts_comm *comm) {
  ts_str path = {0};
  ts_err err = ts_str_append(&path, "%s/best.h5", dir);
  if (err == TS_OK && ts_comm_rank(comm) == 0 && access(path.text, F_OK) == 0)
    err = set_aside_file(path.text);
  ts_str_reset(&path);
  return ts_agree(comm, err);
}

/* With resume = "never" the checkpoints of an earlier run make room: they
 * are kept as NAME.old. */
static ts_err set_aside_all(const char *dir) {
  ts_err err = TS_OK;
  ts_str path = {0};
  for (;;) {
    ts_str_reset(&path);
    TS_TRY(ts_ckpt_any(&path, dir));
    if (!path.text) break;
    TS_TRY(set_aside_file(path.text));
  }
done:
  ts_str_reset(&path);
  return err;
}

static ts_err set_aside(const char *dir, ts_comm *comm) {
  TS_DO(ts_agree(comm, ts_comm_rank(comm) == 0 ? set_aside_all(dir) : TS_OK));
  return set_aside_best(dir, comm);
}

/* Takes the topology that was measured when the run began. */
static ts_err old_topology(ts_trainer *t, const ts_ckpt *ckpt) {
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, "meta/topology");
  int64_t seen = v && v->dtype == TS_U8;
  TS_DO(ts_comm_sum_i64(t->control, &seen, 1));
  if (seen == t->n_ranks) TS_DO(ts_mem_strdup(&t->kept_topology, v->ptr));
  return TS_OK;
}

static bool resumes(const ts_config *c) {
  return c->checkpoint.dir && strcmp(c->checkpoint.resume, "never");
}

/* Reads the head of the newest checkpoint.  CKPT stays empty where there is
 * none or it is damaged: loading deals with that. */
static ts_err peek_newest(const ts_run *r, ts_ckpt *ckpt) {
  ts_err err = TS_OK;
  ts_str path = {0};
  TS_TRY(ts_ckpt_newest(&path, r->config->checkpoint.dir,
                        ts_mirror_of(r->config), r->t->control));
  if (path.text && ts_ckpt_peek(ckpt, path.text) != TS_OK) ts_err_clear();
done:
  ts_str_reset(&path);
  return err;
}

/* Whether all ranks have seen the newest checkpoint to be of backend NAME. */
static ts_err is_of(bool *is, const ts_run *r, const ts_ckpt *ckpt,
                    const char *name) {
  const ts_ckpt_value *v = ts_ckpt_value_of(ckpt, "meta/backend");
  int64_t seen = v && v->dtype == TS_U8 && !strcmp(v->ptr, name);
  TS_DO(ts_comm_sum_i64(r->t->control, &seen, 1));
  *is = seen == r->t->n_ranks;
  return TS_OK;
}

/* With run.backend = "auto" a run stays where it began, whose bits are its own:
 * on the host beside GPUs, too.  NCCL has no other place than a GPU. */
static ts_err keep_host(ts_run *r) {
  ts_err err = TS_OK;
  ts_ckpt ckpt = {0};
  bool kept;
  if (r->config->run.backend != TS_BACKEND_AUTO || !resumes(r->config) ||
      !ts_device_is_discrete(r->t->device) ||
      !strcmp(r->config->comm.backend, "nccl"))
    return TS_OK;
  TS_TRY(peek_newest(r, &ckpt));
  TS_TRY(is_of(&kept, r, &ckpt, "host"));
  if (!kept) goto done;
  ts_trainer_destroy(r->t);
  r->t = NULL;
  TS_TRY(ts_trainer_start_on(&r->t, r->config, true, TS_BACKEND_HOST));
done:
  ts_ckpt_reset(&ckpt);
  return err;
}

ts_err ts_run_start(ts_run *r) {
  TS_DO(ts_trainer_start(&r->t, r->config, true));
  return keep_host(r);
}

/* A run that began on GPUs goes on on the host where there are none. */
static ts_err note_move(const ts_run *r, const ts_ckpt *ckpt) {
  bool moved;
  if (r->config->run.backend != TS_BACKEND_AUTO) return TS_OK;
  TS_DO(is_of(&moved, r, ckpt, "cuda"));
  if (moved && !ts_device_is_discrete(r->t->device))
    ts_note(
        "the run began on backend \"cuda\" and goes on with \"host\", which "
        "rounds otherwise: %s",
        *r->t->no_gpu ? r->t->no_gpu : "this program was built without CUDA");
  return TS_OK;
}

/* A batch for each rank is another step on other ranks. */
static void note_batch(const ts_run *r, int64_t ranks) {
  const int64_t each = r->config->data.batch_per_rank;
  if (each < 1 || ranks < 1 || ranks == r->t->n_ranks) return;
  ts_note("the checkpoint is of %lld ranks: data.batch_per_rank = %lld is a "
          "step of %lld samples now, not of %lld",
          (long long)ranks, (long long)each, (long long)(each * r->t->n_ranks),
          (long long)(each * ranks));
}

/* The plan of the newest checkpoint and its deck, NULL where there is none to
 * be had. */
static ts_err old_plan(const ts_run *r, char **plan, char **deck) {
  ts_err err = TS_OK;
  ts_ckpt ckpt = {0};
  int64_t ranks = 0;
  TS_TRY(peek_newest(r, &ckpt));
  const ts_ckpt_value *v = ts_ckpt_value_of(&ckpt, "meta/plan");
  const ts_ckpt_value *w = ts_ckpt_value_of(&ckpt, "meta/ranks");
  const ts_ckpt_value *d = ts_ckpt_value_of(&ckpt, "meta/deck");
  if (w && w->dtype == TS_I64 && w->n == 1) memcpy(&ranks, w->ptr, 8);
  /* All ranks read the same file, but only what all have seen counts. */
  int64_t seen = v && v->dtype == TS_U8 && ranks == r->t->n_ranks;
  TS_TRY(ts_comm_sum_i64(r->t->control, &seen, 1));
  if (seen == r->t->n_ranks) TS_TRY(ts_mem_strdup(plan, v->ptr));
  TS_TRY(old_topology(r->t, &ckpt));
  TS_TRY(note_move(r, &ckpt));
  note_batch(r, ranks);
  if (d && d->dtype == TS_U8) TS_TRY(ts_mem_strdup(deck, d->ptr));
done:
  ts_ckpt_reset(&ckpt);
  return err;
}

/* What is trained from here on is not what was trained until there.  R's deck
 * is whole: optimizers have been given what it left to them. */
static ts_err note_deck(const ts_run *r, const char *old) {
  ts_str differs = {0};
  const ts_err err = old ? ts_deck_differ(&differs, old, r->config) : TS_OK;
  if (err == TS_OK && differs.n_bytes)
    ts_note("the deck has changed since the checkpoint: %s", differs.text);
  ts_str_reset(&differs);
  return err;
}

ts_err ts_run_build(ts_run *r) {
  ts_err err = TS_OK;
  char *plan = NULL, *deck = NULL;
  if (resumes(r->config)) TS_TRY(old_plan(r, &plan, &deck));
  TS_TRY(ts_trainer_build(r->t, plan));
  TS_TRY(ts_settle(r->t, note_deck(r, deck)));
  if (!r->check) TS_TRY(ts_settle(r->t, ts_run_write_plan(r)));
done:
  ts_mem_free_all(plan, deck);
  return err;
}

/* What weights begin with is not what is moved away before. */
static ts_err is_own(const ts_config *c) {
  if (!ts_file_is_same(c->checkpoint.dir, c->checkpoint.init_from))
    return TS_OK;
  return ts_fail(TS_ERR_DECK,
                 "checkpoint.init_from is checkpoint.dir, whose content "
                 "checkpoint.resume = \"never\" moves away: name another "
                 "run.output");
}

ts_err ts_run_start_weights(ts_run *r) {
  ts_err err = TS_OK;
  const ts_config *c = r->config;
  ts_str taken = {0};
  const bool never = !strcmp(c->checkpoint.resume, "never");
  if (c->checkpoint.dir && never) {
    TS_TRY(ts_settle(r->t, is_own(c)));
    TS_TRY(set_aside(c->checkpoint.dir, r->t->control));
    if (ts_mirror_of(c)) TS_TRY(set_aside(ts_mirror_of(c), r->t->control));
  } else if (c->checkpoint.dir) {
    TS_TRY(ts_trainer_load(r->t, NULL, &r->state, &taken));
  }
  r->saved_step = taken.text ? r->t->step : -1;
  if (taken.text) {
    ts_info("resumed at step %lld from %s", (long long)r->t->step, taken.text);
    TS_TRY(ts_settle(r->t, ts_mem_strdup(&r->loaded, taken.text)));
    goto done;
  }
  if (!strcmp(c->checkpoint.resume, "must"))
    TS_THROW(TS_ERR_CKPT,
             "checkpoint.resume = \"must\", and %s holds no checkpoint",
             c->checkpoint.dir ? c->checkpoint.dir : "no folder");
  TS_TRY(ts_settle(r->t, ts_ebc_init(r->t->ebc)));
done:
  ts_str_reset(&taken);
  return err;
}

void ts_run_note_eval(const ts_run *r) {
  const int64_t every = r->config->run.eval_every;
  if (every > 0 && !r->eval)
    ts_note("run.eval_every = %lld has no data to evaluate on, so nothing is "
            "evaluated: give data.eval, or leave it at 0",
            (long long)every);
}

/* The data is open: which rows are whose is known by its words. */
ts_err ts_run_init_from(ts_run *r) {
  ts_err err = TS_OK;
  ts_str path = {0};
  if (r->saved_step >= 0) return TS_OK;
  TS_TRY(ts_trainer_init_tables(r->t, r->train));
  TS_TRY(ts_trainer_init_path(r->t, &path));
  if (path.text) TS_TRY(ts_trainer_init_from(r->t, r->train, path.text));
  r->state.loader.step = r->t->step;
done:
  ts_str_reset(&path);
  return err;
}

static void say_part(const ts_run *r) {
  const ts_config *c = r->config;
  char n[32];
  if (r->valid && ts_split_is_on(c))
    ts_info("data.split: %s more samples are for validation, by \"%s\"%s%s",
            ts_str_count(n, r->valid->info.n_samples), c->data.split.by,
            *c->data.split.key ? " of column " : "", c->data.split.key);
  if (c->data.negatives < 1)
    ts_info("data.negatives = %g: %s more samples with label 0 are not trained "
            "on; evaluations and predictions are corrected for it",
            c->data.negatives, ts_str_count(n, r->train->info.n_dropped));
  if (c->data.negatives < 1 && c->model.n_tasks > 1)
    ts_note("data.negatives goes by the first task, %s, and only its "
            "predictions are corrected: the other tasks are trained on the "
            "same samples",
            c->model.tasks[0].name);
}

static void say_words(const ts_vocabularies *v) {
  char n[32], size[32];
  int64_t bytes;
  if (!v) return;
  const int64_t count = ts_vocabularies_count(v, &bytes);
  ts_info("vocabularies: %s words, %s on each node", ts_str_count(n, count),
          ts_str_bytes(size, bytes));
}

/* Copies log q to where kernels see it, if the loss takes it. */
static ts_err bring_law(ts_trainer *t, const ts_target_law *law) {
  if (!law || !t->config->model.tasks[0].log_q) return TS_OK;
  const int64_t rows = law->first + law->n;
  TS_DO(ts_arrays_take(&t->arrays, t->device, &t->log_q, rows, sizeof *t->log_q,
                       TS_TAG_INPUT));
  TS_DO(ts_lane_copy(t->compute, t->log_q, law->log_q,
                     (size_t)rows * sizeof *t->log_q));
  return ts_lane_sync(t->compute);
}

ts_err ts_run_open_data(ts_run *r) {
  ts_err err = TS_OK;
  const ts_config *c = r->config;
  ts_str state = {0};
  ts_source *items = NULL;
  const ts_section before = ts_watch_enter(TS_SECTION_INPUT);
  /* Who goes on learns nothing anew: words would have other words' rows. */
  const char *learnt =
      r->state.source_state || r->saved_step < 0 ? r->state.source_state : "";
  /* Opened for its rows, without a checkpoint's vocabulary. */
  if (r->train && learnt) {
    ts_source_close(r->train);
    r->train = NULL;
  }
  if (!r->train)
    TS_TRY(ts_source_open(&r->train, c, TS_SPLIT_TRAIN, learnt, r->t->control));
  TS_TRY(ts_negatives_take(&r->train, r->t->control));
  TS_TRY(ts_target_law_take(&r->train->law, r->train, r->t->control));
  TS_TRY(ts_settle(r->t, bring_law(r->t, r->train->law)));
  if (r->train->ops->state_save)
    TS_TRY(ts_settle(r->t, r->train->ops->state_save(r->train, &state)));
  if (c->data.eval.n || r->train->ops->no_files)
    TS_TRY(
        ts_source_open(&r->eval, c, TS_SPLIT_EVAL, state.text, r->t->control));
  if (c->run.valid_every > 0)
    TS_TRY(ts_source_open(&r->valid, c, TS_SPLIT_VALID, state.text,
                          r->t->control));
  if (c->data.items.n) {
    TS_TRY(ts_topk_open_items(&items, r->t, r->train));
    ts_source_close(items);
  }
  ts_run_note_eval(r);
  char n[32];
  ts_info("data: %s, %s samples, %d dense and %d sparse features",
          r->train->info.format, ts_str_count(n, r->train->info.n_samples),
          r->train->info.n_dense, r->train->info.n_columns);
  say_words(r->train->vocabularies);
  say_part(r);
done:
  ts_watch_enter(before);
  ts_str_reset(&state);
  return err;
}

ts_err ts_run_open_loader(ts_run *r) {
  const ts_config *c = r->config;
  const int64_t skipped = r->state.loader.step - r->t->step;
  ts_loader_options o = {.global_batch = r->t->global_batch,
                         .max_steps = c->run.steps > 0 ? c->run.steps : -1,
                         .epochs = c->run.epochs,
                         .drop_last = c->data.drop_last,
                         .shuffle = true,
                         .rank = r->t->rank,
                         .n_ranks = r->t->n_ranks,
                         .depth = ts_pipeline_n_inflight(c, false) + 1,
                         .device = r->t->device,
                         .pooling = r->t->pooling,
                         .costs = &r->t->costs,
                         .n_threads = ts_trainer_readers(r->t),
                         .serial = c->run.serial_lanes};
  const int64_t at = r->state.loader.next_sample;
  const int64_t left = r->train->info.n_samples - at;
  if (at > 0 && left >= (c->data.drop_last ? r->t->global_batch : 1))
    TS_DO(ts_order_check(c, r->t->global_batch, &r->state.order));
  /* Batches that are left out make no step. */
  if (o.max_steps >= 0 && skipped > 0) o.max_steps += skipped;
  if (o.max_steps >= 0 &&
      (c->run.on_nan != TS_ON_NAN_STOP ||
       (c->run.check != TS_CHECK_NONE && c->run.on_fault != TS_ON_FAULT_STOP)))
    o.max_steps = INT64_MAX / 2;
  TS_DO(ts_loader_create(&r->loader, r->train, &o, &r->state.loader));
  r->last_step = c->run.steps > 0 ? c->run.steps : ts_loader_end(r->loader);
  return ts_trainer_expect_batches(r->t, ts_loader_batch_bytes(r->loader));
}
