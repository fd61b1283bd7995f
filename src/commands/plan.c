/* plan.c - `tessera plan DECK`: where the tables would go on this machine or
 * any other, and what a step would take there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "commands/commands.h"
#include "io/deck.h"
#include "sparse/row_optim.h"
#include "train/planning.h"
#include "train/rows.h"

enum { RANKS_MAX = 1000000, SWEEP_MAX = 32, RANKS_SHOWN = 64 };

typedef struct ts_plan_job {
  const ts_args *args;
  ts_trainer *t;
  ts_topology topology;
  const ts_topology *given; /* NULL: the deck's */
  long per_node;
} ts_plan_job;

static ts_err number(long *x, const char *text, const char *what) {
  char *end = NULL;
  *x = strtol(text, &end, 10);
  if (end == text || *end || *x < 1 || *x > RANKS_MAX)
    return ts_fail(TS_ERR_USAGE, "%s takes a number from 1 to %d, not \"%s\"",
                   what, RANKS_MAX, text);
  return TS_OK;
}

static bool is_first(const ts_plan_job *j) {
  return j->t->rank == 0;
}

/* ---- one plan ------------------------------------------------------------ */

/* A machine of N ranks: its plan and what is expected of it. */
typedef struct ts_planned {
  ts_nodes *nodes;
  ts_planning *planning;
  ts_plan *plan;
  ts_plan_report *report;
} ts_planned;

static void planned_reset(ts_planned *p) {
  ts_plan_report_destroy(p->report);
  ts_plan_destroy(p->plan);
  ts_planning_destroy(p->planning);
  ts_nodes_destroy(p->nodes);
  *p = (ts_planned){0};
}

/* By the deck: a file's plan, the one by sizes, or a search. */
static ts_err find_plan(ts_planned *p, const ts_config *c) {
  const char *word = c->sharding.plan;
  if (!strcmp(word, "by_size")) {
    TS_DO(ts_plan_make(&p->plan, c, p->nodes));
  } else if (strcmp(word, "auto") != 0 && strcmp(word, "replan") != 0) {
    TS_DO(ts_plan_read(&p->plan, word, c));
    TS_DO(ts_plan_check(p->plan, c, p->nodes));
    TS_DO(ts_plan_obeys(p->plan, c, p->nodes));
  } else {
    TS_DO(ts_plan_search(&p->plan, &p->report, &p->planning->request));
  }
  if (!p->report) TS_DO(ts_plan_kernels(p->plan, &p->planning->request));
  ts_planning_apply(p->planning, c, p->plan);
  return ts_planning_lines(p->planning, p->plan, &p->report);
}

static ts_err plan_for(ts_planned *p, ts_plan_job *j, long n_ranks) {
  const ts_config *c = j->t->config;
  const int64_t batch = c->data.global_batch ? c->data.global_batch
                                             : c->data.batch_per_rank * n_ranks;
  ts_plan_apply(c, NULL, false); /* of a sweep's machine before */
  TS_DO(ts_nodes_create(&p->nodes, (int)n_ranks, (int)j->per_node, NULL));
  TS_DO(
      ts_planning_create(&p->planning, j->t, p->nodes, batch, j->given, NULL));
  /* All ranks of a launcher would find the same; one is enough. */
  return ts_settle(j->t, is_first(j) ? find_plan(p, c) : TS_OK);
}

static ts_err print_plan(const ts_planned *p, const ts_args *a) {
  ts_err err = TS_OK;
  ts_str text = {0};
  if (a->json) {
    TS_TRY(ts_json_put(
        stdout, ts_plan_report_json(p->report, p->plan, &p->planning->request),
        6));
    puts("");
  } else {
    TS_TRY(ts_plan_report_print(&text, p->report, p->plan,
                                &p->planning->request, RANKS_SHOWN));
    if (p->nodes->n_ranks <= RANKS_SHOWN)
      TS_TRY(ts_plan_print(&text, p->plan, p->planning->request.config));
  }
  if (text.text) fputs(text.text, stdout);
done:
  ts_str_reset(&text);
  return err;
}

static ts_err one(ts_plan_job *j, long n_ranks) {
  ts_err err = TS_OK;
  ts_planned p = {0};
  TS_TRY(plan_for(&p, j, n_ranks));
  if (!is_first(j)) goto done;
  TS_TRY(print_plan(&p, j->args));
  if (j->args->save)
    TS_TRY(ts_planning_save(p.planning, p.plan, p.report, j->args->save));
done:
  planned_reset(&p);
  return err;
}

/* ---- many sizes ---------------------------------------------------------- */

static void print_size(const ts_planned *p, json_t *all) {
  static const char *const names[] = {"ranks",    "step_ms",   "samples_per_s",
                                      "dense_ms", "tables_ms", "imbalance",
                                      "node_mib", "cross_mib", "memory_mib"};
  const ts_plan_report *r = p->report;
  const double samples = (double)p->planning->request.batch * r->n_ranks;
  double node = 0, cross = 0;
  for (int32_t k = 0; k < r->n_ranks; k++) {
    const ts_plan_traffic *s = &r->ranks[k].load.sent;
    const double sent = s->input + s->output + s->gradient + s->dense;
    if (sent - s->cross > node) node = sent - s->cross;
    if (s->cross > cross) cross = s->cross;
  }
  const double v[] = {
      r->n_ranks,       r->step_ms,        1e3 * samples / r->step_ms,
      r->dense_ms,      r->sparse_ms,      r->imbalance,
      node / (1 << 20), cross / (1 << 20), r->memory_bytes / (1 << 20)};
  if (all) {
    json_t *size = json_object();
    ts_json_numbers(size, sizeof v / sizeof *v, names, v);
    json_array_append_new(all, size);
    return;
  }
  printf("%7.0f %9.3f %13.0f %9.3f %9.3f %9.3f %10.3f %10.3f %10.1f\n", v[0],
         v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]);
}

static ts_err sweep(ts_plan_job *j, const long *sizes, int n) {
  ts_err err = TS_OK;
  ts_planned p = {0};
  const bool speaks = is_first(j);
  json_t *all = j->args->json ? json_array() : NULL;
  if (speaks && !all)
    puts("  ranks   step ms     samples/s     dense    tables imbalance   node "
         "MiB  cross MiB memory MiB");
  for (int i = 0; i < n; i++) {
    err = plan_for(&p, j, sizes[i]);
    if (err == TS_ERR_DECK && !all) { /* too small a machine: go on */
      const char *message = ts_err_message();
      if (speaks)
        printf("%7ld %.*s\n", sizes[i], (int)strcspn(message, "\n"), message);
      ts_err_clear();
      err = TS_OK;
    } else if (err == TS_OK && speaks) {
      print_size(&p, all);
    }
    planned_reset(&p);
    TS_TRY(err);
  }
  if (speaks && all) {
    TS_TRY(ts_json_put(stdout, json_incref(all), 6));
    puts("");
  }
done:
  json_decref(all);
  return err;
}

/* "8,64,512" */
static ts_err read_sizes(long *sizes, int *n, const char *text) {
  char word[16];
  *n = 0;
  for (;;) {
    const size_t len = strcspn(text, ",");
    snprintf(word, sizeof word, "%.*s", (int)len, text);
    if (*n == SWEEP_MAX)
      return ts_fail(TS_ERR_USAGE, "--sweep takes %d numbers at most",
                     SWEEP_MAX);
    TS_DO(number(&sizes[(*n)++], word, "--sweep"));
    if (!text[len]) break;
    text += len + 1;
  }
  return TS_OK;
}

/* ---- measuring ----------------------------------------------------------- */

static ts_err write_topology(const ts_topology *t, const char *path) {
  ts_err err = TS_OK;
  ts_str text = {0};
  FILE *f = NULL;
  TS_TRY(ts_topology_print(&text, t));
  f = fopen(path, "w");
  if (!f || fputs(text.text, f) < 0) err = ts_fail_errno(TS_ERR_IO, path);
  if (f && fclose(f) != 0 && err == TS_OK) err = ts_fail_errno(TS_ERR_IO, path);
  if (err == TS_OK) fputs(text.text, stdout);
done:
  ts_str_reset(&text);
  return err;
}

/* As a run with sharding.topology = "measure" would. */
static ts_err measure(ts_plan_job *j) {
  ts_err err = TS_OK;
  ts_planning *p = NULL;
  TS_TRY(
      ts_planning_create(&p, j->t, j->t->nodes, j->t->micro_batch, NULL, NULL));
  if (is_first(j)) err = write_topology(&p->topology, j->args->measure);
  TS_TRY(ts_settle(j->t, err));
done:
  ts_planning_destroy(p);
  return err;
}

/* ---- the command --------------------------------------------------------- */

static ts_err run(ts_plan_job *j) {
  const ts_args *a = j->args;
  const ts_config *c = j->t->config;
  long n_ranks = j->t->n_ranks, sizes[SWEEP_MAX];
  int n_sizes = 0;
  if (a->measure) return measure(j);
  if (a->n_more) TS_DO(number(&n_ranks, a->more[0], "RANKS"));
  if (a->world) TS_DO(number(&n_ranks, a->world, "--world"));
  j->per_node = c->sharding.ranks_per_node;
  if (a->ranks_per_node)
    TS_DO(number(&j->per_node, a->ranks_per_node, "--ranks-per-node"));
  if (a->topology) {
    TS_DO(ts_topology_read(&j->topology, a->topology));
    j->given = &j->topology;
  } else if (n_ranks != j->t->n_ranks &&
             !strcmp(c->sharding.topology, "default")) {
    ts_topology_default(&j->topology); /* another machine than this one */
    j->given = &j->topology;
  }
  if (a->sweep) TS_DO(read_sizes(sizes, &n_sizes, a->sweep));
  return n_sizes ? sweep(j, sizes, n_sizes) : one(j, n_ranks);
}

/* For GPUs, which need not be here where a file says what they have. */
static ts_err start(ts_plan_job *j, const ts_config *c) {
  const char *word = c->sharding.topology;
  const bool has_file = j->args->topology || (strcmp(word, "measure") != 0 &&
                                              strcmp(word, "default") != 0);
  const bool gpus = c->run.backend == TS_BACKEND_CUDA;
  char why[1024];
  if (gpus && has_file)
    return ts_trainer_start_on(&j->t, c, true, TS_BACKEND_HOST);
  const ts_err err = ts_trainer_start(&j->t, c, true);
  if (!gpus || err != TS_ERR_DECK) return err;
  snprintf(why, sizeof why, "%s", ts_err_message());
  ts_err_clear();
  return ts_fail(TS_ERR_DECK,
                 "%s; plan needs none with the figures of such a machine: "
                 "--topology FILE (as input/topology_h200)",
                 why);
}

/* A plan without rows = "auto" needs no data. */
static ts_err find_rows(ts_plan_job *j) {
  ts_err_record why;
  const ts_err err = ts_trainer_rows(j->t, NULL);
  if (err != TS_ERR_DATA) return err;
  ts_err_take(&why);
  const size_t n = strlen(why.text);
  snprintf(why.text + n, sizeof why.text - n,
           "; a plan by rows = \"auto\" needs the data or a checkpoint: give "
           "the tables their rows to plan without");
  ts_err_put(&why);
  return err;
}

ts_err ts_cmd_plan(const ts_args *a) {
  ts_err err = TS_OK;
  ts_config *c = NULL;
  ts_plan_job job = {.args = a};
  if (!a->target || a->n_more > 1 || (a->n_more && a->world) ||
      (a->n_more && atol(a->more[0]) < 1) ||
      (a->n_more && strspn(a->more[0], "0123456789") != strlen(a->more[0])))
    TS_THROW(TS_ERR_USAGE,
             "usage: tessera plan DECK [RANKS | --world N] [--ranks-per-node "
             "K] [--topology FILE] [--save FILE] [--sweep N,N...] [--json]; "
             "mpirun -n N tessera plan DECK --measure FILE");
  if (a->json) ts_log_aside();
  TS_TRY(ts_deck_read_all(&c, a->target, a->sets, a->n_sets));
  if (a->measure) {
    ts_mem_free(c->sharding.topology);
    c->sharding.topology = NULL;
    TS_TRY(ts_mem_strdup(&c->sharding.topology, "measure"));
  }
  for (int32_t t = 0; t < c->n_tables; t++)
    TS_TRY(ts_row_optim_check(&c->tables[t].optimizer, c->tables[t].name));
  TS_TRY(start(&job, c));
  TS_TRY(find_rows(&job));
  TS_TRY(run(&job));
done:
  ts_trainer_destroy(job.t);
  ts_deck_destroy(c);
  return err;
}
