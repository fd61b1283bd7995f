/* recompute.c - a step that is computed twice. */
#include "train/recompute.h"

#include <string.h>

#include "base/fault.h"
#include "base/hash.h"
#include "base/mem.h"
#include "train/pass.h"
#include "train/replicas.h"

enum { PIECE = 1 << 20 }; /* bytes that the host takes of a device's at once */

struct ts_recompute {
  ts_trainer *t;
  bool on, flip; /* flip: a fault for tests, in the next gradient */
  bool defers;   /* gradients have room of the strategy's own */
  ts_layer_hooks inner;
  ts_arrays arrays;
  float *grads;    /* the largest group's, the first time; or NULL */
  float **kept;    /* (params) where they go else */
  float **emb;     /* (n_features) gradients of embeddings, the first time */
  ts_buffer room;  /* of them */
  float **buffers; /* (model->buffers) as they were */
  uint64_t *sums;  /* (2, n) of parameters' gradients, then of features' */
  int32_t n;
  int64_t differs; /* place in sums; -1: none */
  char *piece;     /* a discrete device's bytes on the host */
};

/* ---- its memory ---------------------------------------------------------- */

static bool is_same_group(const ts_param *a, const ts_param *b) {
  return !strcmp(a->group, b->group);
}

/* Floats before P in its group; P NULL: of the whole largest group. */
static int64_t place_in_group(const ts_trainer *t, const ts_param *p) {
  int64_t at = 0, most = 0;
  for (int32_t i = 0; i < t->params.n; i++) {
    const ts_param *q = t->params.item[i];
    if (p == q) return at;
    if (p ? is_same_group(p, q) : i && is_same_group(t->params.item[i - 1], q))
      at += ts_param_room(q->n);
    else
      at = p ? 0 : ts_param_room(q->n);
    if (at > most) most = at;
  }
  return most;
}

static ts_err make(ts_recompute *r) {
  ts_trainer *t = r->t;
  const ts_params *buffers = &t->model->buffers;
  const int32_t n_features = ts_ebc_n_features(t->ebc);
  r->n = t->params.n + n_features;
  TS_DO(ts_mem_many(r->sums, 2 * (int64_t)r->n, MISC));
  TS_DO(ts_mem_many(r->kept, t->params.n, MISC));
  TS_DO(ts_mem_many(r->emb, n_features, MISC));
  TS_DO(ts_mem_many(r->buffers, buffers->n, MISC));
  if (ts_device_is_discrete(t->device))
    TS_DO(ts_mem_many(r->piece, PIECE, MISC));
  for (int32_t i = 0; i < buffers->n; i++)
    TS_DO(ts_arrays_take(&r->arrays, t->device, &r->buffers[i],
                         buffers->item[i]->n, sizeof(float), TS_TAG_GRADS));
  r->defers = ts_parallel_defers(t->config);
  if (r->defers) return TS_OK;
  return ts_arrays_take(&r->arrays, t->device, &r->grads,
                        place_in_group(t, NULL), sizeof *r->grads,
                        TS_TAG_GRADS);
}

ts_err ts_recompute_create(ts_recompute **out, ts_trainer *t) {
  ts_err err = TS_OK;
  ts_recompute *r = NULL;
  if (!t->training || t->config->run.check != TS_CHECK_ROWS) return TS_OK;
  TS_TRY(ts_mem_alloc(&r, sizeof *r, TS_TAG_MISC));
  r->t = t;
  r->differs = -1;
  r->room = (ts_buffer){.space = TS_SPACE_DEVICE,
                        .tag = TS_TAG_GRADS,
                        .owned = true,
                        .device = t->device};
  TS_TRY(make(r));
  *out = r;
done:
  if (err != TS_OK) ts_recompute_destroy(r);
  return err;
}

void ts_recompute_destroy(ts_recompute *r) {
  if (!r) return;
  ts_buffer_reset(&r->room);
  ts_arrays_reset(&r->arrays);
  ts_mem_free_all(r->sums, r->kept, r->emb, r->buffers, r->piece, r);
}

void ts_recompute_begin(ts_trainer *t) {
  const bool flip = ts_fault("flip_gradient");
  ts_recompute *r = t->recompute;
  if (!r) return;
  r->on = (t->step + 1) % t->config->run.check_every == 0;
  r->flip = flip && r->on;
  r->differs = -1;
  memset(r->sums, 0, 2 * (size_t)r->n * sizeof *r->sums);
}

bool ts_recomputes(const ts_trainer *t) {
  return t->recompute && t->recompute->on;
}

/* ---- sums of gradients --------------------------------------------------- */

/* ROWS rows of N floats, STRIDE apart, as number AT of the sums. */
typedef struct ts_sum_arg {
  ts_recompute *r;
  float *x;
  int64_t rows, n, stride;
  int32_t at;
  bool flip;
} ts_sum_arg;

/* Adds the sum of BYTES at P. */
static ts_err add(const ts_recompute *r, uint64_t *sum, const char *p,
                  size_t bytes) {
  for (size_t n; bytes; p += n, bytes -= n) {
    n = bytes < PIECE || !r->piece ? bytes : PIECE;
    if (r->piece) TS_DO(r->t->kernels.fetch(r->piece, p, n));
    *sum = ts_sum64(*sum, r->piece ? r->piece : p, n);
  }
  return TS_OK;
}

/* Rows with others' columns between them: a device's come with these, as each
 * copy from there costs the time of many bytes. */
static ts_err add_rows(const ts_sum_arg *a, uint64_t *sum) {
  const char *piece = a->r->piece;
  int64_t at_once = PIECE / (a->stride * 4);
  if (at_once < 1) at_once = 1;
  for (int64_t i = 0, n; i < a->rows; i += n) {
    const float *x = a->x + i * a->stride;
    n = a->rows - i < at_once ? a->rows - i : at_once;
    if (!piece || a->n * 4 > PIECE) {
      n = 1;
      TS_DO(add(a->r, sum, (const char *)x, (size_t)a->n * 4));
      continue;
    }
    TS_DO(a->r->t->kernels.fetch(a->r->piece, x,
                                 (size_t)((n - 1) * a->stride + a->n) * 4));
    for (int64_t k = 0; k < n; k++)
      *sum = ts_sum64(*sum, piece + k * a->stride * 4, (size_t)a->n * 4);
  }
  return TS_OK;
}

static ts_err sum_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_sum_arg *a = arg;
  const ts_kernels *k = &a->r->t->kernels;
  uint64_t *sum = &a->r->sums[a->at];
  if (a->flip) {
    uint32_t bits;
    TS_DO(k->fetch(&bits, a->x, sizeof bits));
    bits ^= 4;
    TS_DO(k->put(a->x, &bits, sizeof bits));
  }
  if (a->n == a->stride)
    return add(a->r, sum, (const char *)a->x, (size_t)(a->rows * a->n) * 4);
  return add_rows(a, sum);
}

/* P's, of the first time or the second. */
static ts_err sum_of(ts_recompute *r, const ts_param *p, bool first,
                     ts_lane *lane) {
  int32_t i = 0;
  while (r->t->params.item[i] != p) i++;
  const ts_sum_arg arg = {.r = r,
                          .x = p->grad,
                          .rows = 1,
                          .n = p->n,
                          .stride = p->n,
                          .at = first ? i : r->n + i,
                          .flip = !first && r->flip};
  if (!first) r->flip = false;
  return ts_lane_run(lane, "sum of gradients", sum_task, arg);
}

/* Features that lie side by side are taken together, as the first of them. */
static ts_err sum_tables(ts_trainer *t, ts_inflight *c, float *const *grad,
                         bool first) {
  ts_recompute *r = t->recompute;
  const int64_t *stride = ts_ebc_batch_stride(c->ebc_batch);
  ts_sum_arg arg = {.r = r};
  for (int32_t i = 0, f = 0; i < t->config->n_tables; i++)
    for (int32_t k = 0; k < t->config->tables[i].features.n; k++, f++) {
      const int64_t rows = ts_ebc_batch_rows(c->ebc_batch, f);
      if (arg.x && grad[f] == arg.x + arg.n && stride[f] == arg.stride &&
          rows == arg.rows) {
        arg.n += t->config->tables[i].dim;
        continue;
      }
      if (arg.x)
        TS_DO(ts_lane_run(t->compute, "sum of gradients", sum_task, arg));
      arg.x = grad[f];
      arg.rows = rows;
      arg.n = t->config->tables[i].dim;
      arg.stride = stride[f];
      arg.at = (first ? 0 : r->n) + t->params.n + f;
    }
  return arg.x ? ts_lane_run(t->compute, "sum of gradients", sum_task, arg)
               : TS_OK;
}

/* ---- the first time ------------------------------------------------------ */

/* Gradients of P's group get room: where ranks share parameters it is the
 * strategy's own, which reduces nothing that is not said to be ready. */
static ts_err acquire(void *arg, const ts_param *p, ts_pass pass,
                      ts_lane *lane) {
  ts_recompute *r = arg;
  const ts_params *all = &r->t->params;
  if (pass == TS_FORWARD || r->defers)
    return ts_layer_acquire(&r->inner, p, pass, lane);
  for (int32_t i = 0; i < all->n; i++) {
    if (!is_same_group(all->item[i], p) || all->item[i]->late) continue;
    float *own = r->grads + place_in_group(r->t, all->item[i]);
    if (all->item[i]->grad != own) r->kept[i] = all->item[i]->grad;
    all->item[i]->grad = own;
  }
  return TS_OK;
}

static ts_err release(void *arg, const ts_param *p, ts_pass pass,
                      ts_lane *lane) {
  ts_recompute *r = arg;
  const ts_params *all = &r->t->params;
  if (pass == TS_FORWARD || r->defers)
    return ts_layer_release(&r->inner, p, pass, lane);
  for (int32_t i = 0; i < all->n; i++)
    if (is_same_group(all->item[i], p) && !all->item[i]->late)
      all->item[i]->grad = r->kept[i];
  return TS_OK;
}

static ts_err ready_first(void *arg, ts_param *p, ts_lane *lane) {
  return sum_of(arg, p, true, lane);
}

/* Layers' running statistics change with each forward pass. */
static ts_err copy_buffers(ts_recompute *r, bool back) {
  const ts_params *all = &r->t->model->buffers;
  for (int32_t i = 0; i < all->n; i++) {
    float *w = all->item[i]->w, *own = r->buffers[i];
    TS_DO(ts_lane_copy(r->t->compute, back ? w : own, back ? own : w,
                       (size_t)all->item[i]->n * sizeof *w));
  }
  return TS_OK;
}

static ts_err backward_first(ts_trainer *t, ts_inflight *c,
                             const ts_layer_hooks *hooks) {
  ts_recompute *r = t->recompute;
  ts_emb_views views = ts_pass_views(t, c);
  if (r->defers) TS_DO(ts_parallel_begin(t->dense, t->step + 1, !c->more));
  TS_DO(ts_lane_sync(t->compute)); /* a micro-batch before has the room */
  TS_DO(ts_ebc_batch_apart(c->ebc_batch, &r->room, r->emb));
  views.grad = r->emb;
  TS_DO(ts_pass_task_backward(t, hooks));
  TS_DO(ts_model_over_backward(t->model, t->dlogits, &views, c->batch->n, hooks,
                               t->compute));
  TS_DO(sum_tables(t, c, views.grad, true));
  return ts_model_dense_backward(t->model, c->batch->n, hooks, t->compute);
}

ts_err ts_recompute_first(ts_trainer *t, ts_inflight *c) {
  ts_recompute *r = t->recompute;
  const ts_layer_hooks hooks = {acquire, release, ready_first, r};
  float *logits;
  r->inner = ts_parallel_hooks(t->dense);
  TS_DO(copy_buffers(r, false));
  TS_DO(ts_pass_model(t, c, &hooks, true, false, &logits));
  TS_DO(ts_pass_loss(t, c, &hooks, logits, true));
  TS_DO(backward_first(t, c, &hooks));
  TS_DO(copy_buffers(r, true));
  /* Nothing was reduced, which would say when room of shared parameters'
   * gradients is free: all-gathers of the second time go there. */
  return ts_lane_sync(t->compute);
}

/* ---- the second ---------------------------------------------------------- */

static ts_err acquire_second(void *arg, const ts_param *p, ts_pass pass,
                             ts_lane *lane) {
  return ts_layer_acquire(&((ts_recompute *)arg)->inner, p, pass, lane);
}

static ts_err release_second(void *arg, const ts_param *p, ts_pass pass,
                             ts_lane *lane) {
  return ts_layer_release(&((ts_recompute *)arg)->inner, p, pass, lane);
}

static ts_err ready_second(void *arg, ts_param *p, ts_lane *lane) {
  ts_recompute *r = arg;
  if (!p->late) TS_DO(sum_of(r, p, false, lane));
  return ts_layer_ready(&r->inner, p, lane);
}

ts_layer_hooks ts_recompute_hooks(ts_trainer *t) {
  if (!ts_recomputes(t)) return ts_parallel_hooks(t->dense);
  t->recompute->inner = ts_parallel_hooks(t->dense);
  return (ts_layer_hooks){acquire_second, release_second, ready_second,
                          t->recompute};
}

ts_err ts_recompute_tables(ts_trainer *t, ts_inflight *c, float *const *grad) {
  return ts_recomputes(t) ? sum_tables(t, c, grad, false) : TS_OK;
}

static ts_err compare_task(void *arg, ts_lane *lane) {
  (void)lane;
  ts_recompute *r = *(ts_recompute **)arg;
  for (int32_t i = 0; i < r->n && r->differs < 0; i++)
    if (r->sums[i] != r->sums[r->n + i]) r->differs = i;
  memset(r->sums, 0, 2 * (size_t)r->n * sizeof *r->sums);
  return TS_OK;
}

ts_err ts_recompute_compare(ts_trainer *t) {
  ts_recompute *r = t->recompute;
  if (!ts_recomputes(t)) return TS_OK;
  return ts_lane_run(t->compute, "compare gradients", compare_task, r);
}

/* ---- the verdict --------------------------------------------------------- */

static ts_err name_of(const ts_trainer *t, int64_t place, ts_str *to) {
  const ts_config *c = t->config;
  if (place < t->params.n)
    return ts_str_append(to, "%s", t->params.item[place]->name);
  int64_t f = place - t->params.n;
  int32_t i = 0;
  while (f >= c->tables[i].features.n) f -= c->tables[i++].features.n;
  return ts_str_append(to, "feature %s", c->tables[i].features.item[f]);
}

ts_err ts_recompute_judge(ts_trainer *t, ts_str *what) {
  ts_err err = TS_OK;
  ts_recompute *r = t->recompute;
  int64_t all[t->n_ranks], first = -1;
  ts_str name = {0}, ranks = {0};
  if (!ts_recomputes(t)) return TS_OK;
  r->on = false;
  TS_TRY(ts_settle(t, ts_lane_sync(t->compute)));
  TS_TRY(ts_comm_gather_all(t->control, all, &r->differs, sizeof *all));
  for (int k = t->n_ranks - 1; k >= 0; k--)
    if (all[k] >= 0) first = all[k];
  if (first < 0) goto done;
  for (int k = 0; k < t->n_ranks; k++) all[k] = all[k] >= 0;
  TS_TRY(name_of(t, first, &name));
  TS_TRY(ts_ranks_append(&ranks, all, t->n_ranks));
  TS_TRY(ts_str_append(what,
                       "%s computed the gradient of %s twice, with different "
                       "results",
                       ranks.text, name.text));
done:
  ts_str_reset(&name);
  ts_str_reset(&ranks);
  return err;
}
