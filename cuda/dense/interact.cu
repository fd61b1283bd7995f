/* interact.cu - DLRM's dot interaction: how many samples a block has, what lies
 * in shared memory, and the launches.
 *
 * The addresses of the vectors are copied into the kernel's parameters; more
 * than TS_INTERACT_OWN of them to device memory. */
#include <string.h>

#include "cuda/dense/interact.cuh"

enum {
  SHARED_GOOD = 72 << 10, /* bytes: a multiprocessor has a few such blocks */
  BLOCKS_MOST = 16,       /* of a grid, for each multiprocessor */
  BLOCKS_WIDE = 2         /* that keep it at work */
};

struct interact_plan {
  int64_t shared;
  int32_t samples, cols, pitch, rows_bytes, more_bytes;
  bool more;
};

/* ---- sizes --------------------------------------------------------------- */

/* Bytes that a sample has in shared memory beside its vectors. */
static int64_t more_bytes_of(const ts_interact_args *a, bool back, int32_t n) {
  if (!back) return a->out_stride * (a->half ? 2 : 4);
  return a->half ? ts_half_padded(n) * (int64_t)ts_half_pitch(n) * 2
                 : n * (int64_t)ts_interact_matrix(n) * 4;
}

/* For chunks of COLS columns. */
static void lay(interact_plan *l, const ts_interact_args *a, bool back,
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
static int32_t samples_of(const ts_interact_args *a, bool back, int32_t n,
                          int64_t each, int64_t room, const ts_cuda_gpu *gpu) {
  const int64_t side =
      a->half ? ts_half_padded(n) / TS_HALF_SIDE : ts_interact_side(n);
  const int64_t workers = TS_INTERACT_THREADS / (a->half ? 32 : 1);
  const int64_t loads = n * ts_ceil_div(a->dim, 4);
  const int64_t items = back ? loads : side * (side + 1) / 2;
  const int64_t for_work = ts_ceil_div(workers, items);
  const int64_t for_loads =
      ts_ceil_div(TS_INTERACT_THREADS * 2 * TS_INTERACT_AHEAD, loads);
  const int64_t want = for_work > for_loads ? for_work : for_loads;
  const int64_t fit = room / each,
                spread = ts_ceil_div(a->batch, gpu->n_sms * BLOCKS_WIDE);
  const int64_t least = fit < spread ? fit : spread;
  return (int32_t)(least < 1 ? 1 : least < want ? least : want);
}

static ts_err too_many(int32_t n) {
  return ts_fail(TS_ERR_INTERNAL,
                 "dot interaction of %d vectors: a GPU's block has no room for "
                 "them",
                 n);
}

static ts_err plan_of(interact_plan *l, const ts_interact_args *a, bool back,
                      const ts_cuda_gpu *gpu) {
  const int32_t n = a->n_features + (a->bottom ? 1 : 0);
  const int32_t least = a->half ? TS_HALF_SIDE : 4;
  const int64_t head = ts_interact_head_bytes(n);
  const int64_t more = ts_round_up(more_bytes_of(a, back, n), 16);
  int32_t cols = a->dim;
  if (head > gpu->shared_bytes_max) return too_many(n);
  lay(l, a, back, n, cols < least ? cols : least);
  l->more = head + l->rows_bytes + more <= gpu->shared_bytes_max / 2;
  l->more_bytes = l->more ? (int32_t)more : 0;
  lay(l, a, back, n, cols);
  while (head + l->rows_bytes + l->more_bytes > gpu->shared_bytes_max) {
    if (cols <= least) return too_many(n);
    cols = (int32_t)ts_round_up(ts_ceil_div(cols, 2), least);
    lay(l, a, back, n, cols);
  }
  const int64_t each = l->rows_bytes + l->more_bytes;
  const int64_t good = SHARED_GOOD, max = gpu->shared_bytes_max;
  const int64_t room = (good < max ? good : max) - head;
  l->samples = samples_of(a, back, n, each, room, gpu);
  l->shared = head + l->samples * each;
  return TS_OK;
}

/* ---- parameters ---------------------------------------------------------- */

static ts_interact_vector vector_of(const ts_interact_args *a, bool back,
                                    int32_t i) {
  if (a->bottom && i == 0) return {a->bottom, a->grad_bottom, a->dim};
  const int32_t f = a->bottom ? i - 1 : i;
  return {a->emb[f], back ? a->grad_emb[f] : NULL, a->emb_stride[f]};
}

static void fill_params(ts_interact_params *p, const ts_interact_args *a,
                        const interact_plan *l) {
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

/* All vectors to own or to device memory, a *TABLE that is to be given back;
 * *WIDE: all are whole vectors of 16 bytes. */
static ts_err send_vectors(ts_interact_params *p, bool *wide,
                           const ts_interact_args *a, bool back,
                           ts_interact_vector **table) {
  ts_err err = TS_OK;
  ts_interact_vector some[TS_INTERACT_OWN];
  const size_t size = sizeof *some;
  *wide = a->dim % 4 == 0;
  if (p->n > TS_INTERACT_OWN)
    err = ts_cuda_take(table, (size_t)p->n * size, TS_TAG_ACTIVATIONS);
  for (int32_t first = 0; first < p->n && err == TS_OK;
       first += TS_INTERACT_OWN) {
    const int32_t left = p->n - first;
    const int32_t n = left < TS_INTERACT_OWN ? left : TS_INTERACT_OWN;
    for (int32_t i = 0; i < n; i++) {
      const ts_interact_vector v = vector_of(a, back, first + i);
      const bool whole = (uintptr_t)v.from % 16 == 0 &&
                         (!back || (uintptr_t)v.to % 16 == 0) &&
                         v.stride % 4 == 0;
      *wide = *wide && whole;
      some[i] = v;
    }
    if (!*table)
      memcpy(p->own, some, (size_t)n * size);
    else
      err = ts_cuda_put(*table + first, some, (size_t)n * size);
  }
  p->table = *table;
  return err;
}

/* ---- launches ------------------------------------------------------------ */

/* Blocks that ask for more than 48 KiB of shared memory have to say so. */
static ts_err launch_kernel(void (*kernel)(ts_interact_params),
                            const ts_interact_params &p,
                            const ts_cuda_shape &shape) {
  if (shape.shared_bytes > 48 << 10) {
    const cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    /* Always the same: less would be too little for a recorded launch. */
    TS_DO(TS_CUDA(cudaFuncSetAttribute(kernel, most,
                                       ts_cuda_gpu_now()->shared_bytes_max)));
  }
  return TS_CUDA_LAUNCH(kernel, shape, p);
}

static ts_err launch(const ts_interact_args *a, bool back) {
  ts_err err = TS_OK;
  const ts_cuda_gpu *gpu = ts_cuda_gpu_now();
  const ts_interact_kernels &k = a->half ? ts_interact_half : ts_interact_f32;
  interact_plan l = {};
  ts_interact_params p = {};
  ts_cuda_shape shape = {1, TS_INTERACT_THREADS};
  ts_interact_vector *table = NULL;
  bool wide;
  if (a->batch == 0) return TS_OK;
  TS_TRY(plan_of(&l, a, back, gpu));
  fill_params(&p, a, &l);
  TS_TRY(send_vectors(&p, &wide, a, back, &table));
  shape.grid = ts_grid(a->batch, l.samples, (int64_t)gpu->n_sms * BLOCKS_MOST);
  shape.shared_bytes = (size_t)l.shared;
  TS_TRY(launch_kernel(back ? k.backward[wide][p.more] : k.forward[wide], p,
                       shape));
done:
  ts_cuda_give(table, (size_t)p.n * sizeof *table, TS_TAG_ACTIVATIONS);
  return err;
}

ts_err ts_cuda_interact_forward(const ts_interact_args *a) {
  return launch(a, false);
}

ts_err ts_cuda_interact_backward(const ts_interact_args *a) {
  return launch(a, true);
}

ts_err ts_cuda_interact_forward_half(const ts_interact_args *a) {
  return launch(a, false);
}

ts_err ts_cuda_interact_backward_half(const ts_interact_args *a) {
  return launch(a, true);
}
