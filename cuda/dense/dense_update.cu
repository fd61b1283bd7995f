/* dense_update.cu - the dense optimizers: formulas of src/dense/update_body.h
 * operation by operation, so that the bits are the host's; one launch for all
 * pieces of a bucket. */
#include <string.h>

#include "cuda/dense/flat.cuh"
#include "cuda/sparse/exact.cuh"

/* By value: the host's settings are not read later. */
struct ts_update_piece {
  float *w, *state[TS_PARAM_STATES_MAX], *ema;
  const float *grad;
  const double *scale, *stats; /* device memory; scale may be NULL */
  int64_t n;
  ts_update_numbers numbers;
  ts_update_rule rule;
  float ema_rest;
};

struct ts_update_params {
  uint32_t first[TS_DENSE_PIECES]; /* block of each piece */
  int32_t n_pieces;
  ts_update_piece piece[TS_DENSE_PIECES];
};
static_assert(sizeof(ts_update_params) <= 4096, "kernel parameters");

static __device__ __forceinline__ ts_real
ts_update_scale(const ts_update_piece &p) {
  return {p.scale ? (float)*p.scale : p.numbers.scale};
}

/* ---- formulas ------------------------------------------------------------ */

/* The numbers of an element's formula, which reads and writes STATES states. */
struct ts_rule {
  ts_real lr, scale, l2, keep, eps, momentum, b1, b2, a1, a2, c1, c2, decay,
      most;
  ts_real rate = {0}; /* of lamb and lars, from the sums */
  __device__ explicit ts_rule(const ts_update_piece &p)
      : lr{p.numbers.lr},
        scale(ts_update_scale(p)), l2{p.numbers.l2}, keep{p.numbers.keep},
        eps{p.numbers.eps}, momentum{p.numbers.momentum}, b1{p.numbers.b1},
        b2{p.numbers.b2}, a1{p.numbers.a1}, a2{p.numbers.a2}, c1{p.numbers.c1},
        c2{p.numbers.c2}, decay{p.numbers.decay}, most{p.numbers.most} {
  }
  /* NaN stays. */
  __device__ ts_real clipped(ts_real grad) const {
    const ts_real g = scale * grad, least = {-most.x};
    return g > most ? most : least > g ? least : g;
  }
  __device__ ts_real gradient(ts_real g, ts_real w) const {
    return clipped(g) + l2 * w;
  }
  /* lamb's direction. */
  __device__ ts_real direction(ts_real m, ts_real v, ts_real w) const {
    return m * c1 / (ts_sqrt(v * c2) + eps) + decay * w;
  }
  __device__ void move(ts_real &m, ts_real &v, ts_real g) const {
    m = b1 * m + a1 * g;
    v = b2 * v + a2 * (g * g);
  }
};

struct ts_rule_sgd : ts_rule {
  static constexpr int STATES = 0;
  using ts_rule::ts_rule;
  __device__ void apply(ts_real &w, ts_real g, ts_real &, ts_real &) const {
    w = keep * w - lr * gradient(g, w);
  }
};

struct ts_rule_momentum : ts_rule {
  static constexpr int STATES = 1;
  using ts_rule::ts_rule;
  __device__ void apply(ts_real &w, ts_real g, ts_real &m, ts_real &) const {
    m = momentum * m + gradient(g, w);
    w = keep * w - lr * m;
  }
};

struct ts_rule_nesterov : ts_rule {
  static constexpr int STATES = 1;
  using ts_rule::ts_rule;
  __device__ void apply(ts_real &w, ts_real g, ts_real &m, ts_real &) const {
    const ts_real x = gradient(g, w);
    m = momentum * m + x;
    w = keep * w - lr * (x + momentum * m);
  }
};

struct ts_rule_adagrad : ts_rule {
  static constexpr int STATES = 1;
  using ts_rule::ts_rule;
  __device__ void apply(ts_real &w, ts_real g, ts_real &s, ts_real &) const {
    const ts_real x = gradient(g, w);
    s = s + x * x;
    w = keep * w - lr * x / (ts_sqrt(s) + eps);
  }
};

/* Without momentum it has one state. */
template <bool MOMENTUM> struct ts_rule_rmsprop : ts_rule {
  static constexpr int STATES = MOMENTUM ? 2 : 1;
  using ts_rule::ts_rule;
  __device__ void apply(ts_real &w, ts_real g, ts_real &v, ts_real &m) const {
    const ts_real x = gradient(g, w);
    v = b2 * v + a2 * (x * x);
    const ts_real step = x / (ts_sqrt(v) + eps);
    if (MOMENTUM) m = momentum * m + step;
    w = keep * w - lr * (MOMENTUM ? m : step);
  }
};

struct ts_rule_adam : ts_rule {
  static constexpr int STATES = 2;
  using ts_rule::ts_rule;
  __device__ void apply(ts_real &w, ts_real g, ts_real &m, ts_real &v) const {
    move(m, v, gradient(g, w));
    w = keep * w - lr * (m * c1) / (ts_sqrt(v * c2) + eps);
  }
};

struct ts_rule_lion : ts_rule {
  static constexpr int STATES = 1;
  using ts_rule::ts_rule;
  __device__ void apply(ts_real &w, ts_real grad, ts_real &m, ts_real &) const {
    const ts_real g = clipped(grad), x = b1 * m, y = ts_real{-a1.x} * g;
    m = b2 * m + a2 * g;
    const ts_real sign = {(float)((x > y) - (y > x))};
    w = keep * w - lr * (sign + ts_real{0} * m);
  }
};

/* Its moments have moved with the sums. */
struct ts_rule_lamb : ts_rule {
  static constexpr int STATES = 2;
  __device__ explicit ts_rule_lamb(const ts_update_piece &p) : ts_rule(p) {
    const double ww = p.stats[0], rr = p.stats[1];
    const ts_real ratio = {(float)(ww > 0 && rr > 0 ? sqrt(ww / rr) : 1.0)};
    rate = lr * ratio;
  }
  __device__ void apply(ts_real &w, ts_real, ts_real &m, ts_real &v) const {
    w = w - rate * direction(m, v, w);
  }
};

struct ts_rule_lars : ts_rule {
  static constexpr int STATES = 1;
  __device__ explicit ts_rule_lars(const ts_update_piece &p) : ts_rule(p) {
    const double ww = sqrt(p.stats[0]), gg = sqrt(p.stats[1]);
    const double below = gg + p.numbers.decay * ww;
    rate = lr;
    if (ww > 0 && below > 0) rate = {(float)(p.numbers.lr_eta * ww / below)};
  }
  __device__ void apply(ts_real &w, ts_real g, ts_real &m, ts_real &) const {
    m = momentum * m + rate * (clipped(g) + decay * w);
    w = w - m;
  }
};

/* ---- a block ------------------------------------------------------------- */

template <class Rule>
static __device__ __forceinline__ void
ts_update_four(const Rule &rule, float4 &w, float4 g, float4 &a, float4 &b) {
  float *const ws = &w.x, *const as = &a.x, *const bs = &b.x;
  const float *const gs = &g.x;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    ts_real x = {ws[k]}, m = {as[k]}, v = {bs[k]};
    rule.apply(x, {gs[k]}, m, v);
    ws[k] = x.x;
    as[k] = m.x;
    bs[k] = v.x;
  }
}

/* Average E moved towards the new weight W by the share REST of the way. */
static __device__ __forceinline__ float ts_update_average(float e, float w,
                                                          ts_real rest) {
  return (ts_real{e} + rest * (ts_real{w} - ts_real{e})).x;
}

/* E: averages, or NULL. */
template <class Rule>
static __device__ __forceinline__ void
ts_update_chunk(const Rule &rule, float *__restrict__ w,
                const float *__restrict__ g, float *__restrict__ a,
                float *__restrict__ b, float *__restrict__ e, ts_real rest,
                int n) {
  int i = 0;
  if (ts_flat_fits(w) && ts_flat_fits(g) && ts_flat_fits(a) &&
      ts_flat_fits(b) && ts_flat_fits(e)) {
    for (i = (int)threadIdx.x; i < n / 4; i += TS_FLAT_THREADS) {
      float4 x = ((float4 *)w)[i], m = {}, v = {};
      const float4 d = ((const float4 *)g)[i];
      if (Rule::STATES > 0) m = ((float4 *)a)[i];
      if (Rule::STATES > 1) v = ((float4 *)b)[i];
      ts_update_four(rule, x, d, m, v);
      ((float4 *)w)[i] = x;
      if (Rule::STATES > 0) ((float4 *)a)[i] = m;
      if (Rule::STATES > 1) ((float4 *)b)[i] = v;
      if (!e) continue;
      float4 y = ((float4 *)e)[i];
      for (int k = 0; k < 4; k++)
        (&y.x)[k] = ts_update_average((&y.x)[k], (&x.x)[k], rest);
      ((float4 *)e)[i] = y;
    }
    i = n / 4 * 4;
  }
  for (i += (int)threadIdx.x; i < n; i += TS_FLAT_THREADS) {
    ts_real x = {w[i]}, m = {0}, v = {0};
    if (Rule::STATES > 0) m.x = a[i];
    if (Rule::STATES > 1) v.x = b[i];
    rule.apply(x, {g[i]}, m, v);
    w[i] = x.x;
    if (Rule::STATES > 0) a[i] = m.x;
    if (Rule::STATES > 1) b[i] = v.x;
    if (e) e[i] = ts_update_average(e[i], x.x, rest);
  }
}

template <class Rule>
static __device__ __forceinline__ void ts_update_block(const ts_update_piece &p,
                                                       int64_t begin) {
  const Rule rule(p);
  const int64_t left = p.n - begin;
  const int n = left < TS_FLAT_CHUNK ? (int)left : TS_FLAT_CHUNK;
  float *a = Rule::STATES > 0 ? p.state[0] + begin : NULL;
  float *b = Rule::STATES > 1 ? p.state[1] + begin : NULL;
  float *e = p.ema ? p.ema + begin : NULL;
  ts_update_chunk(rule, p.w + begin, p.grad + begin, a, b, e, {p.ema_rest}, n);
}

static __global__ void __launch_bounds__(TS_FLAT_THREADS)
    ts_dense_update_kernel(const __grid_constant__ ts_update_params all) {
  const int k = ts_flat_piece(all.first, all.n_pieces);
  const ts_update_piece &p = all.piece[k];
  const int64_t begin = (int64_t)(blockIdx.x - all.first[k]) * TS_FLAT_CHUNK;
  switch (p.rule) {
  case TS_RULE_SGD:
    return p.state[0] ? ts_update_block<ts_rule_momentum>(p, begin)
                      : ts_update_block<ts_rule_sgd>(p, begin);
  case TS_RULE_NESTEROV:
    return ts_update_block<ts_rule_nesterov>(p, begin);
  case TS_RULE_ADAGRAD:
    return ts_update_block<ts_rule_adagrad>(p, begin);
  case TS_RULE_RMSPROP:
    return p.state[1] ? ts_update_block<ts_rule_rmsprop<true>>(p, begin)
                      : ts_update_block<ts_rule_rmsprop<false>>(p, begin);
  case TS_RULE_ADAM:
    return ts_update_block<ts_rule_adam>(p, begin);
  case TS_RULE_LION:
    return ts_update_block<ts_rule_lion>(p, begin);
  case TS_RULE_LAMB:
    return ts_update_block<ts_rule_lamb>(p, begin);
  case TS_RULE_LARS:
    return ts_update_block<ts_rule_lars>(p, begin);
  }
}

/* ---- sums ---------------------------------------------------------------- */

/* Two sums of each block: squares of w, and of lamb's direction, whose moments
 * move, or of lars's gradient. */
static __global__ void __launch_bounds__(TS_SUM_THREADS)
    ts_dense_stats_kernel(const __grid_constant__ ts_update_piece p,
                          double *sums) {
  const ts_sum_place at(p.n);
  const ts_rule rule(p);
  double ww = 0, xx = 0;
#pragma unroll 4
  for (int64_t i = at.from + at.part; i < at.to; i += TS_SUM_PARTS) {
    const ts_real g = rule.clipped({p.grad[i]}), w = {p.w[i]};
    ts_real x = g;
    if (p.rule == TS_RULE_LAMB) {
      ts_real m = {p.state[0][i]}, v = {p.state[1][i]};
      rule.move(m, v, g);
      p.state[0][i] = m.x;
      p.state[1][i] = v.x;
      x = rule.direction(m, v, w);
    }
    ww += (double)w.x * w.x;
    xx += (double)x.x * x.x;
  }
  ww = ts_sum_parts(ww);
  xx = ts_sum_parts(xx);
  if (at.from >= p.n || at.part) return;
  sums[2 * at.block] = ww;
  sums[2 * at.block + 1] = xx;
}

/* ---- launches ------------------------------------------------------------ */

static ts_update_piece piece_of(const ts_dense_update_args *a) {
  ts_update_piece p;
  p.w = a->w;
  for (int k = 0; k < TS_PARAM_STATES_MAX; k++) p.state[k] = a->state[k];
  p.ema = a->ema;
  p.ema_rest = ts_update_ema_rest(a);
  p.grad = a->grad;
  p.scale = a->grad_factor_at;
  p.stats = a->stats;
  p.n = a->n;
  p.numbers = ts_update_numbers_of(a);
  p.rule = ts_dense_optim_find(a->optim->kind)->rule;
  return p;
}

/* stats[0], stats[1] += those of P. */
static ts_err stats_of(const ts_update_piece &p, double *stats) {
  return ts_sums_of(stats, 2, p.n, TS_TAG_DENSE_STATE,
                    [&](const ts_cuda_shape &shape, double *sums) {
                      return TS_CUDA_LAUNCH(ts_dense_stats_kernel, shape, p,
                                            sums);
                    });
}

ts_err ts_cuda_dense_stats(const ts_dense_update_args *a, double *stats) {
  return stats_of(piece_of(a), stats);
}

/* Pieces that are whole parameters get their sums in OWN, two for each. */
static ts_err own_stats(ts_update_params *p, double *own) {
  TS_DO(ts_cuda_set(own, 0, 2 * TS_DENSE_PIECES * sizeof(double)));
  for (int32_t i = 0; i < p->n_pieces; i++) {
    ts_update_piece &piece = p->piece[i];
    if (piece.stats || piece.rule < TS_RULE_LAMB) continue;
    piece.stats = own + 2 * i;
    TS_DO(stats_of(piece, own + 2 * i));
  }
  return TS_OK;
}

ts_err ts_cuda_dense_update(const ts_dense_update_args *a, int32_t n) {
  ts_err err = TS_OK;
  const size_t bytes = 2 * TS_DENSE_PIECES * sizeof(double);
  double *own = NULL;
  bool need = false;
  int64_t blocks = 0;
  ts_update_params p = {};
  p.n_pieces = 0;
  for (int32_t i = 0; i < n && n <= TS_DENSE_PIECES; i++) {
    if (a[i].n <= 0) continue;
    p.first[p.n_pieces] = (uint32_t)blocks;
    p.piece[p.n_pieces] = piece_of(&a[i]);
    need |= p.piece[p.n_pieces].rule >= TS_RULE_LAMB && !a[i].stats;
    p.n_pieces++;
    blocks += ts_ceil_div(a[i].n, TS_FLAT_CHUNK);
  }
  if (n > TS_DENSE_PIECES || blocks > TS_GRID_X_MAX)
    TS_THROW(TS_ERR_INTERNAL, "an update of %d pieces, %lld blocks", (int)n,
             (long long)blocks);
  if (!blocks) goto done;
  if (need) TS_TRY(ts_cuda_take(&own, bytes, TS_TAG_DENSE_STATE));
  if (need) TS_TRY(own_stats(&p, own));
  TS_TRY(TS_CUDA_LAUNCH(ts_dense_update_kernel,
                        {(unsigned)blocks, TS_FLAT_THREADS}, p));
done:
  ts_cuda_give(own, bytes, TS_TAG_DENSE_STATE);
  return err;
}
