/* interact_launch.cuh - from ts_interact_args to launches: how many samples a
 * block has, what lies in shared memory.  cuda/dense/interact.cu launches;
 * tests
 * define TS_CUDA_LAUNCH and run the same on the CPU.
 *
 * Where vectors lie is copied into the kernel's parameters; of more than
 * TS_INTERACT_OWN of them to device memory. */
#ifndef TS_CUDA_INTERACT_LAUNCH_CUH
#define TS_CUDA_INTERACT_LAUNCH_CUH

#include <string.h>

#include "cuda/dense/interact_half.cuh"
#include "cuda/dense/interact_kernels.cuh"

/* shared_max: bytes that a block may ask for; shared_good: so many that a
 * multiprocessor has a few blocks. */
struct ts_interact_machine {
  int64_t shared_max, shared_good;
  int64_t blocks; /* of a grid, at most */
  int64_t wide;   /* blocks that keep all of the GPU at work */
};

struct ts_interact_plan {
  int64_t shared;
  int32_t samples, cols, pitch, rows_bytes, more_bytes;
  bool more;
};

/* ---- sizes --------------------------------------------------------------- */

/* Of what a sample has in shared memory beside its vectors. */
static inline int64_t ts_interact_more_bytes(const ts_interact_args *a,
                                             bool back, int32_t n) {
  if (!back) return a->out_stride * (a->half ? 2 : 4);
  return a->half ? ts_half_padded(n) * (int64_t)ts_half_pitch(n) * 2
                 : n * (int64_t)ts_interact_matrix(n) * 4;
}

/* For chunks of COLS columns. */
static inline void ts_interact_lay(ts_interact_plan *l,
                                   const ts_interact_args *a, bool back,
                                   int32_t n, int32_t cols) {
  const int64_t rows = !a->half ? n
                       : back   ? ts_half_padded(n) / 2
                                : ts_half_padded(n);
  l->cols = cols;
  /* f32: a bank's vector more, so that rows begin in banks of their own. */
  l->pitch = a->half ? ts_half_pitch(cols)
                     : (int32_t)ts_round_up(cols, 4) + (back ? 0 : 4);
  l->rows_bytes =
      (int32_t)ts_round_up(rows * l->pitch * (a->half && !back ? 2 : 4), 16);
}

/* Samples of a block: enough for its threads, as long as they fit and all
 * blocks have some. */
static inline int32_t ts_interact_samples(const ts_interact_args *a, bool back,
                                          int32_t n, int64_t each, int64_t room,
                                          const ts_interact_machine *m) {
  const int64_t side =
      a->half ? ts_half_padded(n) / TS_HALF_SIDE : ts_interact_side(n);
  const int64_t workers = TS_INTERACT_THREADS / (a->half ? 32 : 1);
  const int64_t loads = n * ts_ceil_div(a->dim, 4);
  const int64_t items = back ? loads : side * (side + 1) / 2;
  const int64_t for_work = ts_ceil_div(workers, items);
  const int64_t for_loads =
      ts_ceil_div(TS_INTERACT_THREADS * 2 * TS_INTERACT_AHEAD, loads);
  const int64_t want = for_work > for_loads ? for_work : for_loads;
  const int64_t fit = room / each, spread = ts_ceil_div(a->batch, m->wide);
  const int64_t least = fit < spread ? fit : spread;
  return (int32_t)(least < 1 ? 1 : least < want ? least : want);
}

static inline ts_err ts_interact_too_many(int32_t n) {
  return ts_fail(TS_ERR_INTERNAL,
                 "dot interaction of %d vectors: a GPU's block has no room for "
                 "them",
                 n);
}

static inline ts_err ts_interact_plan_of(ts_interact_plan *l,
                                         const ts_interact_args *a, bool back,
                                         const ts_interact_machine *m) {
  const int32_t n = a->n_features + (a->bottom ? 1 : 0);
  const int32_t least = a->half ? TS_HALF_SIDE : 4;
  const int64_t head = ts_interact_head_bytes(n);
  const int64_t more = ts_round_up(ts_interact_more_bytes(a, back, n), 16);
  int32_t cols = a->dim;
  if (head > m->shared_max) return ts_interact_too_many(n);
  ts_interact_lay(l, a, back, n, cols < least ? cols : least);
  l->more = head + l->rows_bytes + more <= m->shared_max / 2;
  l->more_bytes = l->more ? (int32_t)more : 0;
  ts_interact_lay(l, a, back, n, cols);
  while (head + l->rows_bytes + l->more_bytes > m->shared_max) {
    if (cols <= least) return ts_interact_too_many(n);
    cols = (int32_t)ts_round_up(ts_ceil_div(cols, 2), least);
    ts_interact_lay(l, a, back, n, cols);
  }
  const int64_t each = l->rows_bytes + l->more_bytes;
  const int64_t room =
      (m->shared_good < m->shared_max ? m->shared_good : m->shared_max) - head;
  l->samples = ts_interact_samples(a, back, n, each, room, m);
  l->shared = head + l->samples * each;
  return TS_OK;
}

/* ---- parameters ---------------------------------------------------------- */

static inline ts_interact_vector
ts_interact_vector_of(const ts_interact_args *a, bool back, int32_t i) {
  if (a->bottom && i == 0) return {a->bottom, a->grad_bottom, a->dim};
  const int32_t f = a->bottom ? i - 1 : i;
  return {a->emb[f], back ? a->grad_emb[f] : NULL, a->emb_stride[f]};
}

static inline void ts_interact_fill_params(ts_interact_params *p,
                                           const ts_interact_args *a,
                                           const ts_interact_plan *l) {
  const int64_t size = a->half ? 2 : 4;
  p->out = a->out;
  p->grad = a->grad;
  p->table = NULL;
  p->out_stride = a->out_stride;
  p->n = a->n_features + (a->bottom ? 1 : 0);
  p->dim = a->dim;
  p->batch = a->batch;
  p->head = a->bottom ? a->dim : 0;
  p->samples = l->samples;
  p->cols = l->cols;
  p->pitch = l->pitch;
  p->rows_bytes = l->rows_bytes;
  p->more_bytes = l->more_bytes;
  p->more = l->more;
  p->aligned = (uintptr_t)a->out % 16 == 0 && a->out_stride * size % 16 == 0;
}

/* All vectors, N of them, to own or, by RUN, to device memory; *WIDE: all are
 * whole vectors of 16 bytes. */
template <class Run>
static ts_err ts_interact_vectors(ts_interact_params *p, bool *wide,
                                  const ts_interact_args *a, bool back,
                                  Run &run, void **table) {
  ts_err err = TS_OK;
  ts_interact_vector some[TS_INTERACT_OWN];
  const size_t size = sizeof *some;
  *wide = a->dim % 4 == 0;
  if (p->n > TS_INTERACT_OWN) err = run.take(table, (size_t)p->n * size);
  for (int32_t first = 0; first < p->n && err == TS_OK;
       first += TS_INTERACT_OWN) {
    const int32_t left = p->n - first;
    const int32_t n = left < TS_INTERACT_OWN ? left : TS_INTERACT_OWN;
    for (int32_t i = 0; i < n; i++) {
      const ts_interact_vector v = ts_interact_vector_of(a, back, first + i);
      const bool whole = (uintptr_t)v.from % 16 == 0 &&
                         (!back || (uintptr_t)v.to % 16 == 0) &&
                         v.stride % 4 == 0;
      *wide = *wide && whole;
      some[i] = v;
    }
    if (!*table)
      memcpy(p->own, some, (size_t)n * size);
    else
      err =
          run.put((ts_interact_vector *)*table + first, some, (size_t)n * size);
  }
  p->table = (const ts_interact_vector *)*table;
  return err;
}

/* ---- launches ------------------------------------------------------------ */

template <bool WIDE, class Run>
static ts_err ts_interact_forward_of(const ts_interact_params &p, bool half,
                                     dim3 grid, int64_t shared, Run &run) {
  return half ? run.launch_shared(ts_interact_half_kernel<WIDE>, grid,
                                  TS_INTERACT_THREADS, shared, p)
              : run.launch_shared(ts_interact_kernel<WIDE>, grid,
                                  TS_INTERACT_THREADS, shared, p);
}

template <bool WIDE, bool MORE, class Run>
static ts_err ts_interact_grad_of(const ts_interact_params &p, bool half,
                                  dim3 grid, int64_t shared, Run &run) {
  return half ? run.launch_shared(ts_interact_half_grad_kernel<WIDE, MORE>,
                                  grid, TS_INTERACT_THREADS, shared, p)
              : run.launch_shared(ts_interact_grad_kernel<WIDE, MORE>, grid,
                                  TS_INTERACT_THREADS, shared, p);
}

template <bool WIDE, class Run>
static ts_err ts_interact_by_kind(const ts_interact_params &p, bool half,
                                  bool back, dim3 grid, int64_t shared,
                                  Run &run) {
  if (!back) return ts_interact_forward_of<WIDE>(p, half, grid, shared, run);
  return p.more ? ts_interact_grad_of<WIDE, true>(p, half, grid, shared, run)
                : ts_interact_grad_of<WIDE, false>(p, half, grid, shared, run);
}

/* RUN: take, give, put, and launch_shared (kernel, grid, block, bytes of
 * shared memory, parameters). */
template <class Run>
static ts_err ts_interact_launch(const ts_interact_args *a, bool back,
                                 const ts_interact_machine *m, Run &run) {
  ts_err err = TS_OK;
  ts_interact_plan l = {};
  ts_interact_params p = {};
  void *table = NULL;
  bool wide;
  if (a->batch == 0) return TS_OK;
  err = ts_interact_plan_of(&l, a, back, m);
  if (err != TS_OK) return err;
  ts_interact_fill_params(&p, a, &l);
  err = ts_interact_vectors(&p, &wide, a, back, run, &table);
  const dim3 grid(ts_grid(a->batch, l.samples, m->blocks));
  if (err == TS_OK)
    err =
        wide
            ? ts_interact_by_kind<true>(p, a->half, back, grid, l.shared, run)
            : ts_interact_by_kind<false>(p, a->half, back, grid, l.shared, run);
  if (table) run.give(table, (size_t)p.n * sizeof *p.table);
  return err;
}

#endif
