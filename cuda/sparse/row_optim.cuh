/* row_optim.cuh - the formulas of the row optimizers, for the update's and the
 * stage's kernels: those of sparse/optim_*.c, operation by operation, so that
 * the bits are the host's.
 *
 * Each is a struct of the coefficients of one row:
 *   ELEMENTS   states of one float per element: the first so many
 *   ROW        the number of the state of one float per row, or -1
 *   ROUNDS     rounds of statistics
 *   STATS0, STATS1  statistics of rounds 0 and 1; those of round 1 replace the
 *              earlier ones
 *   MOVES      the round that changes states per element, or -1
 *   open       from the settings of the row's table
 *   before(k)  what happens once per row before round k; k = ROUNDS: before
 *              apply.  row is the row's own state, which before(1) changes,
 *              stat the statistics so far
 *   round(k)   an element's parts of the statistics, x and y
 *   apply      the update of an element */
#pragma once

#include <string.h>

#include "cuda/sparse/exact.cuh"

extern "C" {
#include "sparse/row_optim.h"
}

TS_CUDA_BOTH inline ts_real ts_l2_of(const ts_row_hyper &h) {
  return {h.weight_decay_mode == TS_WD_L2 ? h.weight_decay : 0.0f};
}

TS_CUDA_BOTH inline ts_real ts_decay_of(const ts_row_hyper &h) {
  return {h.weight_decay_mode == TS_WD_DECOUPLED ? h.weight_decay : 0.0f};
}

/* c of w = c w - .. */
TS_CUDA_BOTH inline ts_real ts_keep_of(const ts_row_hyper &h, bool decays) {
  const ts_real one = {1}, lr = {h.lr}, wd = {h.weight_decay};
  return decays ? one - lr * wd : one;
}

/* An optimizer that has nothing: the others say what they have. */
struct ts_optim_base {
  static constexpr int ELEMENTS = 0, ROW = -1, ROUNDS = 0;
  static constexpr int STATS0 = 0, STATS1 = 0, MOVES = -1;
  static constexpr bool KEEPS = false; /* sums instead of an update */
  TS_CUDA_BOTH void before(int, ts_real &, const ts_real *, ts_real) {
  }
  TS_CUDA_BOTH void round(int, ts_real, ts_real, ts_real &, ts_real &,
                          ts_real &, ts_real &) const {
  }
};

/* No update: the sums are kept (ts_row_update_args.sum_out). */
struct ts_optim_keep : ts_optim_base {
  static constexpr bool KEEPS = true;
  TS_CUDA_BOTH void open(const ts_row_hyper &) {
  }
  TS_CUDA_BOTH void apply(ts_real &, ts_real, ts_real &, ts_real &) const {
  }
};

struct ts_optim_sgd : ts_optim_base {
  ts_real lr, keep;
  TS_CUDA_BOTH void open(const ts_row_hyper &h) {
    lr = {h.lr};
    keep = ts_keep_of(h, h.weight_decay_mode != TS_WD_NONE);
  }
  TS_CUDA_BOTH void apply(ts_real &w, ts_real g, ts_real &, ts_real &) const {
    w = keep * w - lr * g;
  }
};

/* Both Adagrads. */
struct ts_optim_sums : ts_optim_base {
  ts_real lr, eps, l2, keep;
  TS_CUDA_BOTH void open(const ts_row_hyper &h) {
    lr = {h.lr};
    eps = {h.eps};
    l2 = ts_l2_of(h);
    keep = ts_keep_of(h, h.weight_decay_mode == TS_WD_DECOUPLED);
  }
};

struct ts_optim_adagrad : ts_optim_sums {
  static constexpr int ELEMENTS = 1;
  TS_CUDA_BOTH void apply(ts_real &w, ts_real g, ts_real &m, ts_real &) const {
    const ts_real x = g + l2 * w;
    m = m + x * x;
    w = keep * w - lr * x / (ts_sqrt(m) + eps);
  }
};

struct ts_optim_rowwise_adagrad : ts_optim_sums {
  static constexpr int ROW = 0, ROUNDS = 1, STATS0 = 1;
  ts_real a, c;
  TS_CUDA_BOTH void before(int k, ts_real &row, const ts_real *stat,
                           ts_real row_dim) {
    if (k == 0) return;
    row = row + stat[0] / row_dim;
    a = lr / (ts_sqrt(row) + eps);
    c = keep - a * l2;
  }
  TS_CUDA_BOTH void round(int, ts_real w, ts_real g, ts_real &, ts_real &,
                          ts_real &x, ts_real &) const {
    const ts_real s = l2.x == 0.0f ? g : g + l2 * w;
    x = s * s;
  }
  TS_CUDA_BOTH void apply(ts_real &w, ts_real g, ts_real &, ts_real &) const {
    w = c * w - a * g;
  }
};

/* Adam and LAMB.  OWN: weight decay is LAMB's, part of the direction whatever
 * the mode. */
template <bool OWN> struct ts_optim_with_moments : ts_optim_base {
  ts_real lr, eps, b1, b2, rest1, rest2, c1, c2, l2, decay;
  TS_CUDA_BOTH void open(const ts_row_hyper &h) {
    const ts_real one = {1};
    lr = {h.lr};
    eps = {h.eps};
    b1 = {h.beta1};
    b2 = {h.beta2};
    rest1 = one - b1;
    rest2 = one - b2;
    c1 = {h.correction1};
    c2 = {h.correction2};
    if (OWN) {
      decay = {h.weight_decay};
    } else {
      l2 = ts_l2_of(h);
      decay = ts_decay_of(h);
    }
  }
};

struct ts_optim_adam : ts_optim_with_moments<false> {
  static constexpr int ELEMENTS = 2;
  TS_CUDA_BOTH void apply(ts_real &w, ts_real g, ts_real &m, ts_real &v) const {
    const ts_real x = g + l2 * w;
    m = b1 * m + rest1 * x;
    v = b2 * v + rest2 * (x * x);
    w = w - lr * (m * c1 / (ts_sqrt(v * c2) + eps) + decay * w);
  }
};

struct ts_optim_partial_adam : ts_optim_with_moments<false> {
  static constexpr int ELEMENTS = 1, ROW = 1, ROUNDS = 1, STATS0 = 1;
  ts_real s;
  TS_CUDA_BOTH void before(int k, ts_real &row, const ts_real *stat,
                           ts_real row_dim) {
    if (k == 0) return;
    row = b2 * row + rest2 * (stat[0] / row_dim);
    s = c1 / (ts_sqrt(row * c2) + eps);
  }
  TS_CUDA_BOTH void round(int, ts_real w, ts_real g, ts_real &, ts_real &,
                          ts_real &x, ts_real &) const {
    const ts_real y = g + l2 * w;
    x = y * y;
  }
  TS_CUDA_BOTH void apply(ts_real &w, ts_real g, ts_real &m, ts_real &) const {
    m = b1 * m + rest1 * (g + l2 * w);
    w = w - lr * (m * s + decay * w);
  }
};

/* |w| / |r|, or 1 where one of the norms is zero. */
TS_CUDA_BOTH inline ts_real ts_norm_ratio(const ts_real *stat) {
  const ts_real zero = {0}, one = {1};
  return stat[0] > zero && stat[1] > zero ? ts_sqrt(stat[0]) / ts_sqrt(stat[1])
                                          : one;
}

struct ts_optim_lamb : ts_optim_with_moments<true> {
  static constexpr int ELEMENTS = 2, ROUNDS = 1, STATS0 = 2, MOVES = 0;
  ts_real a;
  TS_CUDA_BOTH void before(int k, ts_real &, const ts_real *stat, ts_real) {
    if (k == 1) a = lr * ts_norm_ratio(stat);
  }
  TS_CUDA_BOTH ts_real direction(ts_real w, ts_real m, ts_real v) const {
    return m * c1 / (ts_sqrt(v * c2) + eps) + decay * w;
  }
  TS_CUDA_BOTH void round(int, ts_real w, ts_real g, ts_real &m, ts_real &v,
                          ts_real &x, ts_real &y) const {
    m = b1 * m + rest1 * g;
    v = b2 * v + rest2 * (g * g);
    const ts_real r = direction(w, m, v);
    x = w * w;
    y = r * r;
  }
  TS_CUDA_BOTH void apply(ts_real &w, ts_real, ts_real &m, ts_real &v) const {
    w = w - a * direction(w, m, v);
  }
};

/* First the row's mean of g^2, then the norms. */
struct ts_optim_partial_lamb : ts_optim_with_moments<true> {
  static constexpr int ELEMENTS = 1, ROW = 1, ROUNDS = 2;
  static constexpr int STATS0 = 1, STATS1 = 2, MOVES = 1;
  ts_real a, v_row;
  TS_CUDA_BOTH void before(int k, ts_real &row, const ts_real *stat,
                           ts_real row_dim) {
    if (k == 1) row = b2 * row + rest2 * (stat[0] / row_dim);
    if (k == 2) a = lr * ts_norm_ratio(stat);
    v_row = row;
  }
  TS_CUDA_BOTH ts_real direction(ts_real w, ts_real m) const {
    return m * c1 / (ts_sqrt(v_row * c2) + eps) + decay * w;
  }
  TS_CUDA_BOTH void round(int k, ts_real w, ts_real g, ts_real &m, ts_real &,
                          ts_real &x, ts_real &y) const {
    if (k == 0) {
      x = g * g;
      return;
    }
    m = b1 * m + rest1 * g;
    const ts_real r = direction(w, m);
    x = w * w;
    y = r * r;
  }
  TS_CUDA_BOTH void apply(ts_real &w, ts_real, ts_real &m, ts_real &) const {
    w = w - a * direction(w, m);
  }
};

struct ts_optim_lars : ts_optim_base {
  static constexpr int ELEMENTS = 1, ROUNDS = 1, STATS0 = 2;
  ts_real lr, eta, decay, momentum, a;
  TS_CUDA_BOTH void open(const ts_row_hyper &h) {
    lr = {h.lr};
    eta = {h.eta};
    decay = {h.weight_decay};
    momentum = {h.momentum};
  }
  TS_CUDA_BOTH void before(int k, ts_real &, const ts_real *stat, ts_real) {
    if (k == 0) return;
    const ts_real zero = {0};
    const ts_real w_norm = ts_sqrt(stat[0]), g_norm = ts_sqrt(stat[1]);
    a = w_norm > zero && g_norm > zero
            ? lr * eta * w_norm / (g_norm + decay * w_norm)
            : lr;
  }
  TS_CUDA_BOTH void round(int, ts_real w, ts_real g, ts_real &, ts_real &,
                          ts_real &x, ts_real &y) const {
    x = w * w;
    y = g * g;
  }
  TS_CUDA_BOTH void apply(ts_real &w, ts_real g, ts_real &m, ts_real &) const {
    m = momentum * m + a * (g + decay * w);
    w = w - m;
  }
};

/* F called with a value of the struct of kind KIND; false: there is none. */
template <class F> bool ts_with_optim(const char *kind, F f) {
  const auto is = [kind](const char *name) { return !strcmp(kind, name); };
  if (is("sgd")) return f(ts_optim_sgd()), true;
  if (is("adagrad")) return f(ts_optim_adagrad()), true;
  if (is("rowwise_adagrad")) return f(ts_optim_rowwise_adagrad()), true;
  if (is("adam")) return f(ts_optim_adam()), true;
  if (is("partial_rowwise_adam")) return f(ts_optim_partial_adam()), true;
  if (is("lamb")) return f(ts_optim_lamb()), true;
  if (is("partial_rowwise_lamb")) return f(ts_optim_partial_lamb()), true;
  if (is("lars_sgd")) return f(ts_optim_lars()), true;
  return false;
}
