/* dense_update_run.cuh - from the arguments of dense_update and dense_stats
 * (src/dense/optim.h) to launches, as cuda/dense/flat_run.cuh. */
#ifndef TS_CUDA_DENSE_UPDATE_RUN_CUH
#define TS_CUDA_DENSE_UPDATE_RUN_CUH

#include <string.h>

#include "cuda/dense/dense_update_kernels.cuh"
#include "cuda/dense/flat_run.cuh"

static inline ts_update_kind ts_update_kind_of(const ts_dense_update_args *a) {
  static const struct {
    const char *name;
    ts_update_kind kind;
  } kinds[] = {{"adagrad", TS_UPDATE_ADAGRAD},
               {"adam", TS_UPDATE_ADAM},
               {"adamw", TS_UPDATE_ADAM},
               {"lamb", TS_UPDATE_LAMB},
               {"lars", TS_UPDATE_LARS}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(a->optim->kind, kinds[i].name)) return kinds[i].kind;
  return a->state[0] ? TS_UPDATE_MOMENTUM : TS_UPDATE_SGD;
}

static inline ts_update_piece
ts_update_piece_of(const ts_dense_update_args *a) {
  ts_update_piece p;
  p.w = a->w;
  for (int k = 0; k < TS_PARAM_STATES_MAX; k++) p.state[k] = a->state[k];
  p.grad = a->grad;
  p.scale = a->grad_factor_at;
  p.stats = a->stats;
  p.n = a->n;
  p.numbers = ts_update_numbers_of(a);
  p.kind = ts_update_kind_of(a);
  return p;
}

/* stats[0], stats[1] += those of P. */
template <class Run>
ts_err ts_dense_stats_of(Run &run, const ts_update_piece &p, double *stats) {
  ts_err err = TS_OK;
  void *sums = NULL;
  const int64_t n_blocks = p.n > 0 ? ts_ceil_div(p.n, TS_SUM_BLOCK) : 0;
  const size_t bytes = 2 * (size_t)n_blocks * sizeof(double);
  if (!bytes) return TS_OK;
  TS_TRY(run.take(&sums, bytes));
  TS_TRY(run.launch(ts_dense_stats_kernel, ts_sum_grid(n_blocks),
                    TS_SUM_THREADS, p, (double *)sums));
  TS_TRY(run.launch(ts_sums_kernel<2>, dim3(1), TS_FLAT_THREADS, stats,
                    (const double *)sums, n_blocks));
done:
  if (sums) run.give(sums, bytes);
  return err;
}

template <class Run>
ts_err ts_dense_stats_on(Run &run, const ts_dense_update_args *a,
                         double *stats) {
  return ts_dense_stats_of(run, ts_update_piece_of(a), stats);
}

/* Pieces that are whole parameters get their sums in OWN, two for each. */
template <class Run>
ts_err ts_update_own_stats(Run &run, ts_update_params *p, double *own) {
  ts_err err = TS_OK;
  TS_TRY(run.clear(own, 2 * TS_DENSE_PIECES * sizeof(double)));
  for (int32_t i = 0; i < p->n_pieces; i++) {
    ts_update_piece &piece = p->piece[i];
    if (piece.stats || piece.kind < TS_UPDATE_LAMB) continue;
    piece.stats = own + 2 * i;
    TS_TRY(ts_dense_stats_of(run, piece, own + 2 * i));
  }
done:
  return err;
}

template <class Run>
ts_err ts_dense_update_on(Run &run, const ts_dense_update_args *a, int32_t n) {
  ts_err err = TS_OK;
  const size_t bytes = 2 * TS_DENSE_PIECES * sizeof(double);
  void *own = NULL;
  bool need = false;
  int64_t blocks = 0;
  ts_update_params p = {};
  p.n_pieces = 0;
  for (int32_t i = 0; i < n && n <= TS_DENSE_PIECES; i++) {
    if (a[i].n <= 0) continue;
    p.first[p.n_pieces] = (uint32_t)blocks;
    p.piece[p.n_pieces] = ts_update_piece_of(&a[i]);
    need |= p.piece[p.n_pieces].kind >= TS_UPDATE_LAMB && !a[i].stats;
    p.n_pieces++;
    blocks += ts_ceil_div(a[i].n, TS_FLAT_CHUNK);
  }
  if (n > TS_DENSE_PIECES || blocks > TS_GRID_X_MAX)
    TS_THROW(TS_ERR_INTERNAL, "an update of %d pieces, %lld blocks", (int)n,
             (long long)blocks);
  if (!blocks) goto done;
  if (need) TS_TRY(run.take(&own, bytes));
  if (need) TS_TRY(ts_update_own_stats(run, &p, (double *)own));
  TS_TRY(run.launch(ts_dense_update_kernel, dim3((unsigned)blocks),
                    TS_FLAT_THREADS, p));
done:
  if (own) run.give(own, bytes);
  return err;
}

#endif
