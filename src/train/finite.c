/* finite.c - gradients and parameters that are not finite, where run.on_nan
 * goes on after them.
 *
 * The loss is judged before anything is updated.  A gradient may overflow all
 * the same, and by then buckets are being reduced and updated beside the
 * backward pass, so it is looked for and told once the step has ended: the
 * run goes back to a checkpoint.  Tables' gradients are looked at where they
 * come out of the model, before they are sent; dense gradients by what they
 * did to the parameters, or, where they are kept for the next step, as they
 * are: a checkpoint would have them applied. */
#include <math.h>

#include "base/dtype.h"
#include "base/fault.h"
#include "io/batch_store.h"
#include "train/late.h"

typedef struct ts_look_arg {
  ts_trainer *t;
  ts_ebc_batch *ebc_batch;
  int32_t n;
} ts_look_arg;

/* Features that lie side by side are looked at together. */
static ts_err look_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_look_arg *a = arg;
  const ts_config *c = a->t->config;
  const int64_t *stride = ts_ebc_batch_stride(a->ebc_batch);
  ts_check_finite_args check_finite = {.rows = a->n, .bad = a->t->bad_gradient};
  for (int32_t t = 0, f = 0; t < c->n_tables; t++)
    for (int32_t k = 0; k < c->tables[t].features.n; k++, f++) {
      const float *x = ts_ebc_batch_grad(a->ebc_batch)[f];
      if (check_finite.x && (x != check_finite.x + check_finite.n ||
                             stride[f] != check_finite.stride)) {
        TS_DO(a->t->kernels.check_finite(&check_finite));
        check_finite.x = NULL;
      }
      if (!check_finite.x)
        check_finite.x = x, check_finite.stride = stride[f], check_finite.n = 0;
      check_finite.n += c->tables[t].dim;
    }
  if (check_finite.x) TS_DO(a->t->kernels.check_finite(&check_finite));
  return TS_OK;
}

static ts_err spoil_task(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_look_arg *a = arg;
  const float bad = INFINITY;
  if (!a->n) return TS_OK;
  return a->t->kernels.put(ts_ebc_batch_grad(a->ebc_batch)[0], &bad,
                           sizeof bad);
}

ts_err ts_stage_check_finite(ts_trainer *t, ts_inflight *c) {
  const ts_look_arg arg = {t, c->ebc_batch, c->batch->n};
  if (ts_fault("gradient"))
    TS_DO(ts_lane_submit(t->compute, "(fault)", spoil_task, &arg, sizeof arg));
  if (t->config->run.on_nan == TS_ON_NAN_STOP) return TS_OK;
  return ts_lane_submit(t->compute, "look at gradients", look_task, &arg,
                        sizeof arg);
}

static int64_t piece_floats(const ts_param *p, const ts_param_piece *piece) {
  return piece->n_rows * (p->cols ? p->cols : 1);
}

static bool all_parameters_finite(const ts_trainer *t) {
  int bad = 0;
#pragma omp parallel for reduction(| : bad) num_threads(t->n_threads)
  for (int32_t i = 0; i < t->params.n; i++) {
    const ts_param *p = t->params.item[i];
    const ts_param_piece piece = ts_parallel_piece(t->dense, p);
    bad |= !ts_all_finite(piece.w, TS_F32, piece_floats(p, &piece));
  }
  return !bad;
}

/* On a discrete device it looks, and says so where gradients do. */
static ts_err look_at_parameters(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_trainer *t = *(ts_trainer **)arg;
  for (int32_t i = 0; i < t->params.n; i++) {
    const ts_param *p = t->params.item[i];
    const ts_param_piece piece = ts_parallel_piece(t->dense, p);
    const ts_check_finite_args check_finite = {.x = piece.w,
                                               .rows = 1,
                                               .n = piece_floats(p, &piece),
                                               .bad = t->bad_gradient};
    if (check_finite.n) TS_DO(t->kernels.check_finite(&check_finite));
  }
  return TS_OK;
}

static ts_err judge_late(ts_trainer *t, bool *bad) {
  TS_DO(ts_lane_submit(t->compute, "look at parameters", look_at_parameters, &t,
                       sizeof t));
  TS_DO(ts_late_flag(t, t->bad_gradient, bad));
  *bad |= !ts_parallel_stash_finite(t->dense);
  return TS_OK;
}

ts_err ts_stage_judge_step(ts_trainer *t, ts_step_result *result) {
  bool bad;
  if (t->late) {
    TS_DO(judge_late(t, &bad));
  } else {
    bad = *t->bad_gradient || !all_parameters_finite(t) ||
          !ts_parallel_stash_finite(t->dense);
    *t->bad_gradient = 0;
  }
  double n_bad = bad;
  TS_DO(ts_comm_sum_f64(t->control, &n_bad, 1));
  result->broken = n_bad > 0; /* on all ranks alike */
  return TS_OK;
}
