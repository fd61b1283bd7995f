/* planning.c - the plan of a run.
 *
 * Rank 0 searches and sends its plan as text, so all ranks hold the same
 * bits.  A resumed run keeps its checkpoint's plan as long as that may run
 * here and agrees with the deck: only sharding.plan = "replan" makes it plan
 * afresh. */
#include "train/pipeline.h"
#include "train/planning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

/* The part of the machine's memory that tables and buffers may take where the
 * deck gives no limit; the rest is for the system, MPI and HDF5. */
static const double usable = 0.85;

/* Only who has tables in files, or may have them there, wants to know how fast
 * they are. */
static bool needs_files(const ts_config *c) {
  if (!c->run.tier_dir || !*c->run.tier_dir) return false;
  for (int32_t i = 0; i < c->n_tables; i++)
    if (ts_table_kernel_is_open(&c->tables[i]) ||
        (ts_table_is_slow(&c->tables[i]) &&
         !strcmp(ts_table_tier(&c->tables[i]), "file")))
      return true;
  return false;
}

static ts_err measure(ts_planning *p, ts_trainer *t, double gflops) {
  const ts_topology_bench bench = {
      .world = t->world,
      .control = t->control,
      .device = t->device,
      .kernels = &t->kernels,
      .compute = t->compute,
      .tier_dir = needs_files(t->config) ? t->config->run.tier_dir : NULL};
  TS_DO(ts_settle(t, ts_topology_measure(&p->topology, &bench)));
  TS_DO(ts_topology_middle(&gflops, t->control));
  if (gflops > 0) p->topology.dense_gflops = gflops;
  return TS_OK;
}

/* A checkpoint's figures serve where they were measured on as many ranks. */
static bool take_kept(ts_topology *out, const char *text, const ts_trainer *t) {
  if (!text || !*text) return false;
  const bool read = ts_topology_parse(out, text, "/meta/topology") == TS_OK;
  if (!read) ts_err_clear();
  return read && out->ranks == t->n_ranks;
}

static ts_err find_topology(ts_planning *p, ts_trainer *t, const char *kept,
                            bool *to_measure) {
  const char *word = t->config->sharding.topology;
  *to_measure = false;
  if (!strcmp(word, "measure")) {
    *to_measure = !take_kept(&p->topology, kept, t);
    return TS_OK;
  }
  if (strcmp(word, "default") != 0) return ts_topology_read(&p->topology, word);
  ts_topology_default(&p->topology);
  p->topology.memory_gib = ts_topology_memory_gib(ts_world_node_size(t->world));
  return TS_OK;
}

typedef struct ts_share {
  char id[TS_DEVICE_ID];
  double bytes;
  int64_t node;
} ts_share;

/* On devices with discrete memory the limit is not the host's but each rank's
 * share of its device's, the least over all ranks.  Collective. */
static ts_err take_device_memory(ts_planning *p, ts_trainer *t) {
  ts_err err = TS_OK;
  ts_device_info info = {0};
  ts_share own, *all = NULL;
  double least = INFINITY;
  if (!ts_device_describe(t->device, &info)) return TS_OK;
  memset(&own, 0, sizeof own);
  memcpy(own.id, info.id, sizeof own.id);
  own.bytes = info.bytes;
  own.node = ts_world_node(t->world);
  TS_TRY(ts_mem_array(&all, t->n_ranks, sizeof *all, TS_TAG_MISC));
  TS_TRY(ts_comm_gather_all(t->control, all, &own, sizeof own));
  for (int r = 0; r < t->n_ranks; r++) {
    int users = 0;
    for (int k = 0; k < t->n_ranks; k++)
      users += all[k].node == all[r].node &&
               !memcmp(all[k].id, all[r].id, sizeof own.id);
    least = fmin(least, all[r].bytes / users);
  }
  if (least > 0) p->topology.memory_gib = least / (1 << 30);
done:
  ts_mem_free(all);
  return err;
}

/* How many batches a pipeline has between input dist and backward, and
 * whether it sends ids ahead. */
static void pipeline_of(ts_plan_request *r, const ts_config *c) {
  const ts_pipeline_ops *p = ts_pipeline_find(c->pipeline.kind);
  r->n_ebc_batches = ts_pipeline_n_inflight(c, r->discrete);
  r->hides_input = p && p->hides_input;
  r->hides_rows = p && p->hides_rows;
}

/* Memory of a GPU that NCCL takes for a communicator that sends from everyone
 * to everyone.  Of 8 H100 with NVLink the first all-to-all was seen to take
 * 3.28 GB, as each of 32 channels has buffers of 10 and 2 MiB for each of the
 * other 7 (NCCL's issue 1685); ranks of all other nodes together share 512 MiB
 * (issue 2363).  NCCL_MAX_P2P_NCHANNELS makes it less, which is not known
 * here.  Ranks that run say whether NCCL carries their messages; a plan for
 * others takes it that it does. */
static double comm_bytes(const ts_trainer *t, const ts_nodes *n) {
  static const double peer = 3.28e9 / 7, others = 512.0 * (1 << 20);
  const bool runs =
      ts_device_is_discrete(t->device) && ts_world_size(t->world) == n->n_ranks;
  const bool nccl = runs ? !strcmp(ts_world_backend(t->world), "nccl")
                         : strcmp(t->config->comm.backend, "mpi") != 0;
  const bool gpus = t->config->run.backend == TS_BACKEND_CUDA ||
                    !strcmp(ts_device_name(t->device), "cuda");
  int most = 1;
  if (!gpus || !nccl || n->n_ranks == 1) return 0;
  for (int k = 0; k < n->n_nodes; k++)
    if (ts_node_size(n, k) > most) most = ts_node_size(n, k);
  return (most - 1) * peer + (n->n_nodes > 1 ? others : 0);
}

ts_err ts_planning_create(ts_planning **out, ts_trainer *t,
                          const ts_nodes *nodes, int64_t global_batch,
                          const ts_topology *topology, const char *kept) {
  ts_err err = TS_OK;
  ts_planning *p = NULL;
  const char *word = t->config->sharding.topology; /* a file's figures stand */
  bool to_measure = false;
  double gflops = 0;
  const int n = nodes->n_ranks;
  TS_TRY(ts_mem_alloc(&p, sizeof *p, TS_TAG_MISC));
  p->request = (ts_plan_request){.config = t->config,
                                 .nodes = nodes,
                                 .batch = (int32_t)((global_batch + n - 1) / n),
                                 .discrete = ts_planning_discrete(t),
                                 .comm_bytes = comm_bytes(t, nodes),
                                 .topology = &p->topology};
  pipeline_of(&p->request, t->config);
  if (topology)
    p->topology = *topology;
  else
    TS_TRY(ts_settle(t, find_topology(p, t, kept, &to_measure)));
  TS_TRY(ts_planning_stats(&p->stats, t, global_batch));
  p->request.stats = p->stats;
  TS_TRY(ts_settle(t, ts_planning_dense(&p->request.dense,
                                        to_measure ? &gflops : NULL, t,
                                        p->request.batch, p->stats, n)));
  if (to_measure) TS_TRY(measure(p, t, gflops));
  if (!topology && ts_device_is_discrete(t->device))
    p->request.host_bytes =
        usable * ts_topology_memory_gib(ts_world_node_size(t->world)) *
        (1 << 30);
  if (!topology && (!strcmp(word, "default") || !strcmp(word, "measure")))
    TS_TRY(ts_settle(t, take_device_memory(p, t)));
  const double limit = t->config->sharding.memory_gib > 0
                           ? t->config->sharding.memory_gib
                           : usable * p->topology.memory_gib;
  p->request.memory_bytes = limit * (1 << 30);
  *out = p;
done:
  if (err != TS_OK) ts_planning_destroy(p);
  return err;
}

void ts_planning_destroy(ts_planning *p) {
  if (!p) return;
  ts_mem_free_all(p->stats, p->load_factor);
  ts_plan_report_destroy(p->report);
  ts_mem_free(p);
}

/* ---- where a plan comes from --------------------------------------------- */

/* Whether the plan may run here and agrees with the deck. */
static ts_err check(const ts_plan *p, const ts_trainer *t) {
  TS_DO(ts_plan_check(p, t->config, t->nodes));
  return ts_plan_obeys(p, t->config, t->nodes);
}

static ts_err from_file(ts_plan **out, const ts_trainer *t, const char *path) {
  ts_err err = TS_OK;
  ts_str why = {0};
  TS_DO(ts_plan_read(out, path, t->config));
  if (check(*out, t) == TS_OK) return TS_OK;
  ts_plan_destroy(*out);
  *out = NULL;
  TS_TRY(ts_str_append(&why, "sharding.plan: %s: %s", path, ts_err_message()));
  ts_err_clear();
  err = ts_fail(TS_ERR_DECK, "%s", why.text);
done:
  ts_str_reset(&why);
  return err;
}

/* The checkpoint's; *OUT stays NULL where it may not run here. */
static ts_err from_checkpoint(ts_plan **out, const ts_trainer *t,
                              const char *text) {
  if (!text || !*text) return TS_OK;
  ts_err err = ts_plan_parse(out, text, t->config);
  if (err == TS_OK) err = check(*out, t);
  if (err == TS_OK || err == TS_ERR_NOMEM) return err;
  ts_note("the checkpoint's plan is not used: %s", ts_err_message());
  ts_err_clear();
  ts_plan_destroy(*out);
  *out = NULL;
  return TS_OK;
}

/* On rank 0. */
static ts_err find(ts_plan **out, ts_trainer *t, const char *text) {
  const char *plan = t->config->sharding.plan;
  const bool again = !strcmp(plan, "replan");
  if (!again && strcmp(plan, "auto") != 0 && strcmp(plan, "by_size") != 0)
    return from_file(out, t, plan);
  if (!again) TS_DO(from_checkpoint(out, t, text));
  if (*out) return TS_OK;
  if (!strcmp(plan, "by_size")) return ts_plan_make(out, t->config, t->nodes);
  return ts_plan_search(out, &t->planning->report, &t->planning->request);
}

static ts_err decide(ts_plan **out, ts_trainer *t, const char *text) {
  TS_DO(find(out, t, text));
  if (t->planning->report) return TS_OK; /* a search has chosen kernels */
  return ts_plan_kernels(*out, &t->planning->request);
}

static ts_err share(ts_trainer *t, ts_plan *own) {
  ts_err err = TS_OK;
  ts_str text = {0};
  int64_t n = 0;
  char *copy = NULL;
  if (own) {
    TS_TRY(ts_plan_print(&text, own, t->config));
    n = (int64_t)text.n_bytes + 1;
  }
  TS_TRY(ts_comm_bcast(t->control, &n, sizeof n, 0));
  TS_TRY(ts_mem_alloc(&copy, (size_t)n, TS_TAG_MISC));
  if (own) memcpy(copy, text.text, (size_t)n);
  TS_TRY(ts_comm_bcast(t->control, copy, n, 0));
  TS_TRY(ts_plan_parse(&t->plan, copy, t->config));
done:
  ts_str_reset(&text);
  ts_mem_free(copy);
  return err;
}

void ts_planning_apply(ts_planning *p, const ts_config *c,
                       const ts_plan *plan) {
  ts_plan_apply(c, plan, p->request.discrete);
  pipeline_of(&p->request, c);
}

ts_err ts_planning_lines(ts_planning *p, const ts_plan *plan,
                         ts_plan_report **report) {
  ts_plan_report *r = NULL;
  if (!p->load_factor)
    TS_DO(ts_mem_array(&p->load_factor, plan->n_tables, sizeof(double),
                       TS_TAG_MISC));
  p->request.load_factor = NULL;
  TS_DO(ts_plan_lines(p->load_factor, plan, &p->request));
  p->request.load_factor = p->load_factor;
  TS_DO(ts_plan_estimate(&r, plan, &p->request));
  if (*report) r->n_tried = (*report)->n_tried;
  ts_plan_report_destroy(*report);
  *report = r;
  return TS_OK;
}

/* Sets the load factors that the deck leaves to the planner. */
static ts_err choose_lines(ts_trainer *t) {
  ts_planning *p = t->planning;
  const int32_t n = t->config->n_tables;
  double factor[n];
  memset(factor, 0, sizeof factor);
  TS_DO(ts_settle(t,
                  t->rank ? TS_OK : ts_planning_lines(p, t->plan, &p->report)));
  if (t->rank == 0) memcpy(factor, p->load_factor, sizeof factor);
  TS_DO(ts_comm_bcast(t->control, factor, sizeof factor, 0));
  for (int32_t i = 0; i < n; i++)
    t->config->tables[i].cache.auto_factor = factor[i];
  return TS_OK;
}

/* Sets the passes that the deck leaves at "auto", now that the plan is known.
 */
static ts_err choose_passes(ts_trainer *t) {
  const ts_planning *p = t->planning;
  int32_t passes = 1;
  TS_DO(ts_settle(
      t, t->rank ? TS_OK
                 : ts_plan_passes(&passes, t->plan, p->report, &p->request)));
  TS_DO(ts_comm_bcast(t->control, &passes, sizeof passes, 0));
  for (int32_t i = 0; i < t->config->n_tables; i++)
    t->config->tables[i].cache.auto_passes = passes;
  return TS_OK;
}

ts_err ts_planning_choose(ts_trainer *t, const char *text) {
  ts_err err = TS_OK;
  ts_plan *own = NULL;
  TS_TRY(ts_planning_create(&t->planning, t, t->nodes, t->micro_batch, NULL,
                            t->kept_topology));
  err = t->rank == 0 ? decide(&own, t, text) : TS_OK;
  TS_TRY(ts_settle(t, err));
  TS_TRY(share(t, own));
  ts_planning_apply(t->planning, t->config, t->plan);
  TS_TRY(choose_lines(t));
  TS_TRY(choose_passes(t));
  ts_mem_forget_peaks();
done:
  ts_plan_destroy(own);
  return err;
}

/* ---- files --------------------------------------------------------------- */

/* TEXT with "# " before each line. */
static ts_err append_comment(ts_str *s, const char *text) {
  while (*text) {
    const size_t n = strcspn(text, "\n");
    TS_DO(ts_str_append(s, "# %.*s\n", (int)n, text));
    text += n + (text[n] == '\n');
  }
  return TS_OK;
}

ts_err ts_planning_save(const ts_planning *p, const ts_plan *plan,
                        const ts_plan_report *report, const char *path) {
  ts_err err = TS_OK;
  ts_str text = {0}, words = {0};
  FILE *f = NULL;
  TS_TRY(ts_plan_print(&text, plan, p->request.config));
  TS_TRY(ts_str_append(&text, "#\n"));
  TS_TRY(ts_plan_report_print(&words, report, plan, &p->request, 0));
  TS_TRY(append_comment(&text, words.text));
  f = fopen(path, "w");
  if (!f || fwrite(text.text, 1, text.n_bytes, f) != text.n_bytes)
    err = ts_fail_errno(TS_ERR_IO, path);
  if (f && ts_file_close(f) != 0 && err == TS_OK)
    err = ts_fail_errno(TS_ERR_IO, path);
done:
  ts_str_reset(&text);
  ts_str_reset(&words);
  return err;
}
