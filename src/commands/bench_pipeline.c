/* bench_pipeline.c - `tessera bench pipeline DECK [key=value]...`: every
 * pipeline on the same batches.
 *
 * Batches lie ready in memory.  Pipelines take turns, round by round, so that
 * what else the machine does hits them alike; each turn has a trainer of its
 * own, with the same plan and the same initial weights, and after some steps
 * to warm up its steps are timed one by one.  Pipelines that promise base's
 * results are held to it: their losses are compared bit for bit. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/compress.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "commands/bench_pipeline.h"
#include "io/deck.h"
#include "runtime/overlap.h"
#include "runtime/trace_file.h"
#include "train/pipeline.h"
#include "train/report.h"

enum { N_BATCHES = 8, AHEAD = 4 };

/* "semi_sync.stash", "fused_sparse_dist.before.own". */
static void name_case(char *to, size_t bytes, const ts_pipeline_case *x) {
  snprintf(to, bytes, "%s%s%s%s%s%s%s", x->kind, x->plain ? ".plain" : "",
           x->variant.stash ? ".stash" : "", x->variant.lookup ? "." : "",
           x->variant.lookup ? x->variant.lookup : "",
           x->variant.lookup ? "." : "",
           x->variant.lookup ? x->variant.lane : "");
}

/* Whether WORD, up to its end or a comma, names X: whole, or up to a dot. */
static bool is_named(const ts_pipeline_case *x, const char *word) {
  char name[64];
  const size_t n = strcspn(word, ",");
  name_case(name, sizeof name, x);
  return n && !strncmp(name, word, n) && (!name[n] || name[n] == '.');
}

/* Moves on to the next of the words in a list. */
static const char *next_word(const char *word) {
  word += strcspn(word, ",");
  return *word ? word + 1 : NULL;
}

/* ---- decks --------------------------------------------------------------- */

static int64_t scaled(int64_t n, double scale, int64_t least) {
  const int64_t m = (int64_t)llround((double)n * scale);
  return n == 0 ? 0 : m < least ? least : m;
}

static void scale_deck(ts_config *c, double scale) {
  for (int32_t t = 0; t < c->n_tables; t++) {
    ts_table_config *x = &c->tables[t];
    const int64_t rows = ts_table_whole(x)->rows;
    if (x->rows != TS_ROWS_AUTO) /* the first part is the whole's, too */
      ts_table_ids_are(x, ts_table_is_first(x) ? scaled(rows, scale, 1) : rows);
  }
  c->data.global_batch = scaled(c->data.global_batch, scale, ts_mpi_size());
  c->data.batch_per_rank = scaled(c->data.batch_per_rank, scale, 1);
}

/* The deck as CASE wants it. */
static ts_err read_deck(ts_config **out, const ts_pipeline_bench *b,
                        const ts_pipeline_case *x) {
  enum { OWN = 6 };
  char text[OWN][64];
  const char *sets[b->n_sets + OWN];
  int n = b->n_sets;
  for (int i = 0; i < n; i++) sets[i] = b->sets[i];
  snprintf(text[0], sizeof *text, "pipeline.kind=%s", x->kind);
  snprintf(text[1], sizeof *text, "pipeline.start_batch=0");
  snprintf(text[2], sizeof *text, "optimizer.in_backward=%s",
           x->in_backward ? "true" : "false");
  for (int i = 0; i < 3; i++) sets[n++] = text[i];
  if (x->variant.stash) sets[n++] = "pipeline.stash_gradients=true";
  if (x->variant.lookup) {
    snprintf(text[3], sizeof *text, "pipeline.lookup=%s_optimizer",
             x->variant.lookup);
    snprintf(text[4], sizeof *text, "pipeline.lookup_lane=%s", x->variant.lane);
    for (int i = 3; i < 5; i++) sets[n++] = text[i];
  }
  if (x->plain) sets[n++] = "run.graph=off";
  TS_DO(ts_deck_read_all(out, b->deck, sets, n));
  scale_deck(*out, b->scale);
  return TS_OK;
}

/* ---- batches ------------------------------------------------------------- */

static ts_err read_batches(ts_pipeline_bench *b, ts_trainer *t, ts_source *s) {
  /* Trainers come and go. */
  if (ts_device_is_discrete(t->device))
    TS_DO(ts_device_create(&b->device, ts_device_name(t->device),
                           ts_device_options_of(t->device)));
  TS_DO(ts_mem_array(&b->stores, N_BATCHES, sizeof *b->stores, TS_TAG_INPUT));
  return ts_bench_batches(b->stores, N_BATCHES, t, s, b->device, b->ids);
}

/* Takes what all turns share from the first trainer. */
static ts_err take_from(ts_pipeline_bench *b, ts_trainer *t) {
  ts_err err = TS_OK;
  ts_source *s = NULL;
  ts_str plan = {0};
  TS_TRY(ts_report_header(t));
  ts_report_plan(t);
  TS_TRY(ts_plan_print(&plan, t->plan, t->config));
  TS_TRY(ts_mem_strdup(&b->plan, plan.text));
  TS_TRY(ts_source_open(&s, t->config, TS_SPLIT_TRAIN, NULL, t->control));
  TS_TRY(ts_settle(t, read_batches(b, t, s)));
  b->n_ranks = t->n_ranks;
  b->n_threads = t->n_threads;
  b->global_batch = t->global_batch;
  b->delay_us = t->config->comm.delay_us;
  b->delay_gbytes_per_s = t->config->comm.delay_gbytes_per_s;
done:
  ts_str_reset(&plan);
  ts_source_close(s);
  return err;
}

static ts_err prepare(ts_pipeline_bench *b) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_trainer *t = NULL;
  TS_TRY(read_deck(&c, b, &b->cases[0]));
  TS_TRY(ts_trainer_start(&t, c, true));
  TS_TRY(ts_trainer_build(t, NULL));
  TS_TRY(take_from(b, t));
done:
  ts_trainer_destroy(t);
  ts_deck_destroy(c);
  return err;
}

/* ---- a turn -------------------------------------------------------------- */

static ts_err p90_over_ranks(ts_trainer *t, int64_t *x) {
  double all[t->n_ranks];
  const double own = (double)*x;
  TS_DO(ts_comm_gather_all(t->control, all, &own, sizeof own));
  (void)ts_bench_median(all, t->n_ranks); /* sorts */
  *x = (int64_t)ts_bench_tenth(all, t->n_ranks, 9);
  return TS_OK;
}

/* One step; I < 0: to warm up. */
static ts_err one_step(ts_pipeline_case *x, ts_trainer *t, ts_loader *loader,
                       int64_t i, ts_step_result *result) {
  ts_overlap_reset();
  const double t0 = ts_now();
  TS_DO(ts_pipeline_step(t, loader, 0, result));
  t->step++;
  if (i < 0) return TS_OK;
  const ts_overlap all = ts_overlap_of(NULL), in = ts_overlap_of("input dist");
  x->ms[i] = 1e3 * (ts_now() - t0);
  x->exposed[i] = 1e3 * all.exposed_s;
  x->input[i] = 1e3 * in.flight_s;
  x->input_exposed[i] = 1e3 * in.exposed_s;
  return TS_OK;
}

/* Between the first and the last step that are measured. */
static ts_err see_rows(ts_pipeline_case *x, ts_trainer *t, double *fetch,
                       double *waited) {
  TS_DO(ts_trainer_rest(t));
  const ts_ebc_tiers rows = ts_ebc_tiers_of(t->ebc, NULL, NULL);
  const bool beside = t->pipeline->hides_rows && !t->config->run.serial_lanes;
  *fetch = 1e3 * rows.hold_s;
  *waited = beside ? 1e3 * t->prefetch_wait_s : *fetch;
  x->scratch = rows.scratch_bytes;
  return TS_OK;
}

static ts_err run_steps(ts_pipeline_bench *b, ts_pipeline_case *x,
                        ts_trainer *t, ts_loader *loader, int64_t first) {
  uint64_t digest = TS_FNV_START;
  double fetch = 0, waited = 0;
  for (int i = -b->warm; i < b->steps; i++) {
    ts_step_result result = {0};
    if (i == 0) TS_DO(see_rows(x, t, &fetch, &waited));
    if (i == 0) TS_DO(ts_comm_barrier(t->control));
    ts_trace_train(b->warm + i);
    TS_DO(one_step(x, t, loader, i < 0 ? -1 : first + i, &result));
    /* On a discrete device losses of steps that go on are not known here. */
    if (i + 1 == b->steps) TS_DO(ts_stage_fetch(t, &result));
    digest = ts_fnv1a(digest, &result.loss_sum, sizeof result.loss_sum);
  }
  x->losses = (int64_t)(digest >> 16); /* room for a sum over ranks */
  TS_DO(see_rows(x, t, &x->fetch, &x->waited));
  x->fetch = (x->fetch - fetch) / b->steps;
  x->waited = fmin((x->waited - waited) / b->steps, x->fetch);
  ts_pipeline_drain(t, loader);
  return TS_OK;
}

/* Makes a turn's figures the same on all ranks. */
static ts_err share(ts_pipeline_bench *b, ts_pipeline_case *x, ts_trainer *t,
                    int64_t first) {
  double *const each[] = {x->exposed, x->input, x->input_exposed};
  TS_DO(ts_comm_sum_i64(t->control, &x->losses, 1));
  TS_DO(ts_comm_max_f64(t->control, x->ms + first, b->steps));
  for (int k = 0; k < 3; k++) {
    TS_DO(ts_comm_sum_f64(t->control, each[k] + first, b->steps));
    for (int i = 0; i < b->steps; i++) each[k][first + i] /= t->n_ranks;
  }
  TS_DO(p90_over_ranks(t, &x->alloc));
  return p90_over_ranks(t, &x->reserved);
}

static ts_err open_trace(ts_trace_file *file, const ts_pipeline_bench *b,
                         const ts_pipeline_case *x, ts_comm *comm) {
  char path[1024], name[64];
  if (!*b->trace) return TS_OK;
  name_case(name, sizeof name, x);
  snprintf(path, sizeof path, "%s.%s%s", b->trace, name,
           x->in_backward ? ".in_backward" : "");
  return ts_trace_file_open(file, path, 0, INT64_MAX, comm);
}

/* Bytes held, or at most since ts_mem_forget_peaks.  Memory that a device's own
 * pools keep beyond what is in use is not counted. */
typedef struct ts_bench_held {
  int64_t device, host, mapped;
} ts_bench_held;

static ts_bench_held held_now(bool most) {
  const ts_mem_stat d = ts_mem_total(TS_SPACE_DEVICE),
                    h = ts_mem_total(TS_SPACE_HOST), m = ts_mem_mapped();
  return most ? (ts_bench_held){d.peak_bytes, h.peak_bytes, m.peak_bytes}
              : (ts_bench_held){d.now_bytes, h.now_bytes, m.now_bytes};
}

static ts_err turn(ts_pipeline_bench *b, ts_pipeline_case *x, int round) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_trainer *t = NULL;
  ts_loader *loader = NULL;
  ts_trace_file file = {0};
  const int64_t first = (int64_t)round * b->steps;
  ts_bench_held before = {0};
  TS_TRY(read_deck(&c, b, x));
  before = held_now(false);
  TS_TRY(ts_trainer_start(&t, c, true));
  TS_TRY(ts_trainer_build(t, b->plan));
  TS_TRY(ts_settle(t, ts_ebc_init(t->ebc)));
  ts_mem_forget_peaks();
  TS_TRY(ts_loader_create_replay(&loader, b->stores, N_BATCHES,
                                 b->warm + b->steps + AHEAD));
  if (round == b->rounds - 1) TS_TRY(open_trace(&file, b, x, t->control));
  TS_TRY(run_steps(b, x, t, loader, first));
  TS_TRY(ts_trace_file_close(&file, NULL, t->control));
  const ts_bench_held most = held_now(true),
                      more = {most.device - before.device,
                              most.host - before.host,
                              most.mapped - before.mapped};
  const bool discrete = ts_device_is_discrete(t->device);
  x->alloc = discrete ? more.device : more.host;
  x->reserved = discrete ? more.device : more.mapped;
  TS_TRY(share(b, x, t, first));
done:
  ts_trace_file_reset(&file);
  ts_loader_destroy(loader);
  ts_trainer_destroy(t);
  ts_deck_destroy(c);
  return err;
}

/* ---- the whole ----------------------------------------------------------- */

static ts_err create_times(const ts_pipeline_bench *b, ts_pipeline_case *x) {
  double **const each[] = {&x->ms, &x->exposed, &x->input, &x->input_exposed};
  for (int k = 0; k < 4; k++)
    TS_DO(ts_mem_array(each[k], (int64_t)b->rounds * b->steps, sizeof(double),
                       TS_TAG_MISC));
  return TS_OK;
}

static bool is_wanted(const ts_pipeline_bench *b, const ts_pipeline_case *x) {
  if (!*b->only) return true;
  for (const char *w = b->only; w; w = next_word(w))
    if (is_named(x, w)) return true;
  return false;
}

static ts_err check_only(const ts_pipeline_bench *b) {
  for (const char *w = *b->only ? b->only : NULL; w; w = next_word(w)) {
    bool found = false;
    for (int i = 0; i < b->n_cases; i++) found |= is_named(&b->cases[i], w);
    if (!found)
      return ts_fail(TS_ERR_USAGE, "bench: only = \"%s\": no row is \"%.*s\"",
                     b->only, (int)strcspn(w, ","), w);
  }
  return TS_OK;
}

/* One row for each pipeline and variant of it; PLAIN: for those that have
 * graphs one without. */
static ts_err add_cases(ts_pipeline_bench *b, bool plain, bool in_backward) {
  const ts_pipeline_ops *p;
  for (int k = 0; (p = ts_pipeline_at(k)); k++) {
    const int n = p->n_variants > 0 && !plain ? p->n_variants : 1;
    for (int v = 0; v < n && (p->has_graph || !plain); v++) {
      ts_pipeline_case x = {.kind = p->name, .plain = plain};
      if (p->n_variants) x.variant = p->variants[v];
      if (x.variant.stash && in_backward) continue; /* exclude each other */
      if (!is_wanted(b, &x)) continue;
      x.in_backward = in_backward;
      TS_DO(ts_mem_extend(&b->cases, b->n_cases, b->n_cases + 1, sizeof x,
                          TS_TAG_MISC));
      b->cases[b->n_cases++] = x;
      TS_DO(create_times(b, &b->cases[b->n_cases - 1]));
    }
  }
  return TS_OK;
}

/* IN_BACKWARD: 0 false, 1 true, 2 both. */
static ts_err create_cases(ts_pipeline_bench *b, int in_backward) {
  for (int later = 0; later < 2; later++) {
    if (in_backward == !later) continue;
    TS_DO(add_cases(b, false, later));
    if (b->plain) TS_DO(add_cases(b, true, later));
  }
  return check_only(b);
}

static void reset(ts_pipeline_bench *b) {
  for (int i = 0; i < b->n_cases; i++) {
    const ts_pipeline_case *x = &b->cases[i];
    double *const each[] = {x->ms, x->exposed, x->input, x->input_exposed};
    for (int k = 0; k < 4; k++) ts_mem_free(each[k]);
  }
  for (int i = 0; b->stores && i < N_BATCHES; i++)
    ts_batch_store_destroy(b->stores[i]);
  ts_mem_free(b->stores);
  ts_device_destroy(b->device);
  ts_mem_free_all(b->cases, b->plan);
}

ts_err ts_bench_pipeline(const ts_args *a) {
  ts_err err = TS_OK;
  ts_pipeline_bench b = {.scale = 0.01,
                         .steps = 20,
                         .warm = 4,
                         .rounds = 5,
                         .trace = "",
                         .only = ""};
  int in_backward = 2, plain = 0;
  const ts_bench_key keys[] = {
      TS_BENCH_NUMBER("scale", &b.scale, 1e-6, 1e3, "of rows and batch"),
      TS_BENCH_WHOLE("steps", &b.steps, 1, 1000, "steps of a turn"),
      TS_BENCH_WHOLE("warm", &b.warm, 0, 1e5, "steps before them"),
      TS_BENCH_WHOLE("rounds", &b.rounds, 1, 100, "turns of each"),
      TS_BENCH_CHOICE("in_backward", &in_backward, "false|true|both",
                      "optimizer.in_backward"),
      TS_BENCH_CHOICE("plain", &plain, "0|1",
                      "1: those with graphs of steps without them, too"),
      TS_BENCH_WORD("only", &b.only,
                    "rows: a pipeline's, or one of them; KIND,KIND"),
      TS_BENCH_WORD("trace", &b.trace,
                    "name of a trace of each pipeline's last turn")};
  TS_TRY(ts_bench_keys(a, 1, keys, sizeof keys / sizeof *keys));
  b.deck = a->more[0];
  b.sets = a->sets;
  b.n_sets = a->n_sets;
  b.plain = plain != 0;
  TS_TRY(create_cases(&b, in_backward));
  TS_TRY(prepare(&b));
  ts_pipeline_bench_head(&b);
  for (int round = 0; round < b.rounds; round++)
    for (int i = 0; i < b.n_cases; i++)
      TS_TRY(turn(&b, &b.cases[(i + round) % b.n_cases], round));
  ts_pipeline_bench_print(&b);
done:
  reset(&b);
  return err;
}
