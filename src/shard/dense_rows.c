/* dense_rows.c - tables whose optimizer is "none": the deck's dense optimizer
 * trains them, with the override that matches their name.
 *
 * The rows that the batch touched are summed as for any table (over
 * micro-batches, and over ranks where all have the table), and put into a
 * gradient of the whole shard; then every row is updated, as a dense parameter
 * is: also those without a gradient, whose moments go on.  Each rank updates
 * the rows and columns that it holds; optimizers with norms of whole
 * parameters sum them over the ranks, in rank order.
 *
 * All of it is on the lane of the tables' updates, so whatever waits for these
 * waits for the dense optimizer of these rows, too. */
#include "base/mem.h"
#include "base/str.h"
#include "dense/param_optim.h"
#include "shard/ebc_batch.h"
#include "sparse/entries.h"

struct ts_dense_rows {
  ts_tbe *tbe;
  ts_row_optim kind; /* states only: the dense optimizer's */
  ts_optim_config config;
  ts_device *device;
  const ts_kernels *kernels;
  ts_buffer grad; /* (rows, dim) f32 of the group; zero between steps */
  int64_t n_rows;
  int32_t dim;
  /* In ebc->dense_stats, device memory: (2) of the table; (2) where this rank's
   * part is added, elsewhere if another rank counts it. */
  double *stats, *part;
  const void *msg; /* of ts_tbe_reduce, on one rank's own account */
  int64_t msg_bytes;
};

static ts_err make_stats(ts_ebc *ebc) {
  const size_t n = 2 * ((size_t)ebc->config->n_tables + 1);
  if (ebc->dense_stats.ptr) return TS_OK;
  return ts_buffer_create(&ebc->dense_stats, ebc->device, n * sizeof(double),
                          TS_SPACE_DEVICE, TS_TAG_MISC);
}

ts_err ts_dense_rows_create(ts_dense_rows **out, ts_ebc *ebc, int32_t table,
                            bool replicated) {
  ts_err err = TS_OK;
  ts_dense_rows *d = NULL;
  ts_str name = {0};
  TS_TRY(ts_mem_alloc(&d, sizeof *d, TS_TAG_MISC));
  TS_TRY(ts_param_table_name(&name, &ebc->config->tables[table]));
  TS_TRY(ts_param_optim_named(&d->config, ebc->config, name.text));
  d->kind.kind = "none";
  d->kind.n_states = ts_dense_optim_n_states(&d->config);
  for (int k = 0; k < d->kind.n_states; k++)
    d->kind.state[k].name = ts_dense_optim_state_name(&d->config, k);
  d->kernels = ebc->kernels;
  d->device = ebc->device;
  TS_TRY(make_stats(ebc));
  d->stats = (double *)ebc->dense_stats.ptr + 2 * table;
  d->part = d->stats;
  if (replicated && ebc->rank != 0)
    d->part = (double *)ebc->dense_stats.ptr + 2 * ebc->config->n_tables;
  *out = d;
  d = NULL;
done:
  ts_str_reset(&name);
  ts_dense_rows_destroy(d);
  return err;
}

const ts_row_optim *ts_dense_rows_optim(const ts_dense_rows *d) {
  return &d->kind;
}

void ts_dense_rows_attach(ts_dense_rows *d, ts_tbe *tbe) {
  ts_dtype dtype;
  d->tbe = tbe;
  ts_tbe_all_change(tbe);
  for (int32_t t = 0; t < ts_tbe_n_tables(tbe); t++)
    d->n_rows += ts_tbe_table_of(tbe, t)->n_rows;
  (void)ts_tbe_rows(tbe, 0, -1, &d->dim, &dtype);
}

void ts_dense_rows_destroy(ts_dense_rows *d) {
  if (!d) return;
  ts_buffer_reset(&d->grad);
  ts_mem_free(d);
}

/* ---- the gradient -------------------------------------------------------- */

typedef struct ts_scatter_arg {
  ts_dense_rows *d;
  const void *const *msg;
  const int64_t *msg_bytes;
  int n_ranks;
} ts_scatter_arg;

static ts_err scatter_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_scatter_arg *a = p;
  ts_dense_rows *d = a->d;
  const int64_t dim = d->dim;
  if (!d->grad.ptr) {
    const size_t bytes = (size_t)(d->n_rows * dim) * 4;
    TS_DO(ts_buffer_create(&d->grad, d->device, bytes, TS_SPACE_DEVICE,
                           TS_TAG_GRADS));
  }
  for (int r = 0; r < a->n_ranks; r++) {
    ts_add_rows_args rows = {.to = d->grad.ptr,
                             .keys = a->msg[r],
                             .n = a->msg_bytes[r] / (4 + 4 * dim),
                             .dim = d->dim};
    rows.sums = (const float *)(rows.keys + rows.n);
    if (rows.n) TS_DO(d->kernels->add_rows(&rows));
  }
  return TS_OK;
}

ts_err ts_dense_rows_scatter(ts_dense_rows *d, const void *const *msg,
                             const int64_t *msg_bytes, int n_ranks,
                             ts_lane *lane) {
  const ts_scatter_arg arg = {d, msg, msg_bytes, n_ranks};
  return ts_lane_run(lane, "dense rows", scatter_task, arg);
}

ts_err ts_dense_rows_add(ts_dense_rows *d, const float *grad,
                         const ts_tbe_input *input, ts_lane *lane) {
  TS_DO(ts_tbe_reduce(d->tbe, &d->msg, &d->msg_bytes, grad, input, -1, lane));
  return ts_dense_rows_scatter(d, &d->msg, &d->msg_bytes, 1, lane);
}

/* ---- the update ---------------------------------------------------------- */

typedef struct ts_rows_arg {
  ts_dense_rows *d;
  double lr_factor;
  int64_t step;
} ts_rows_arg;

static ts_dense_update_args update_args(const ts_rows_arg *a) {
  ts_dense_rows *d = a->d;
  int32_t cols;
  ts_dtype dtype;
  ts_dense_update_args u = {.optim = &d->config,
                            .w = ts_tbe_rows(d->tbe, 0, -1, &cols, &dtype),
                            .grad = d->grad.ptr,
                            .n = d->n_rows * d->dim,
                            .lr_factor = a->lr_factor,
                            .grad_factor = 1.0,
                            .step = a->step};
  for (int k = 0; k < d->kind.n_states; k++)
    u.state[k] = ts_tbe_rows(d->tbe, 0, k, &cols, &dtype);
  return u;
}

static ts_err stats_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_rows_arg *a = p;
  const ts_dense_update_args u = update_args(a);
  return a->d->kernels->dense_stats(&u, a->d->part);
}

static ts_err update_task(void *p, ts_lane *lane) {
  (void)lane;
  const ts_rows_arg *a = p;
  ts_dense_update_args u = update_args(a);
  if (ts_dense_optim_has_norms(u.optim)) u.stats = a->d->stats;
  TS_DO(a->d->kernels->dense_update(&u, 1));
  return a->d->kernels->zero(a->d->grad.ptr, (size_t)u.n * 4);
}

static ts_err clear_task(void *p, ts_lane *lane) {
  (void)lane;
  ts_ebc *ebc = *(ts_ebc **)p;
  return ebc->kernels->zero(ebc->dense_stats.ptr, ebc->dense_stats.bytes);
}

static ts_err each(ts_ebc *ebc, const char *span, ts_task task, bool norms_only,
                   ts_rows_arg arg, ts_lane *lane) {
  for (int32_t l = 0; l < ebc->n_shardings; l++)
    for (int32_t g = 0; g < ebc->shardings[l].n_groups; g++) {
      arg.d = ebc->shardings[l].groups[g].dense;
      if (!arg.d) continue;
      if (norms_only && !ts_dense_optim_has_norms(&arg.d->config)) continue;
      TS_DO(ts_lane_run(lane, span, task, arg));
    }
  return TS_OK;
}

/* True on all ranks alike where a table's optimizer needs sums over ranks. */
static ts_err need_norms(bool *need, const ts_config *c) {
  ts_err err = TS_OK;
  ts_str name = {0};
  *need = false;
  for (int32_t t = 0; t < c->n_tables; t++) {
    ts_optim_config o;
    if (!ts_param_is_table(&c->tables[t])) continue;
    ts_str_reset(&name);
    TS_TRY(ts_param_table_name(&name, &c->tables[t]));
    TS_TRY(ts_param_optim_named(&o, c, name.text));
    *need |= ts_dense_optim_has_norms(&o);
  }
done:
  ts_str_reset(&name);
  return err;
}

ts_err ts_dense_rows_start(ts_ebc *ebc) {
  TS_DO(need_norms(&ebc->dense_norms, ebc->config));
  if (!ebc->dense_norms) return TS_OK;
  TS_DO(make_stats(ebc));
  if (ebc->n_ranks > 1)
    TS_DO(
        ts_comm_create(ebc->world, &ebc->dense_comm, TS_GROUP_WORLD, "norms"));
  return TS_OK;
}

ts_err ts_dense_rows_update(ts_ebc *ebc, double lr_factor, int64_t step,
                            ts_lane *lane) {
  const ts_rows_arg arg = {NULL, lr_factor, step};
  ts_token token;
  if (ebc->dense_norms) {
    TS_DO(ts_lane_run(lane, "norms", clear_task, ebc));
    TS_DO(each(ebc, "norms", stats_task, true, arg, lane));
    if (ebc->dense_comm) {
      TS_DO(ts_comm_all_reduce(ebc->dense_comm, &token, ebc->dense_stats.ptr,
                               2 * ebc->config->n_tables, TS_F64, TS_SUM,
                               lane));
      TS_DO(ts_comm_end(&token, lane));
    }
  }
  return each(ebc, "dense optimizer", update_task, false, arg, lane);
}
