/* act_body.h - activations, for each instruction set: plain loops over rows,
 * which the compiler turns into vectors, with functions that it can. */
#pragma once

#include "kernel_table.h"

/* e^x for x <= 0, within 2 units of its last place (S. Moshier's Cephes); 0
 * below -87. */
TS_BODY float exp_below(float x) {
  const float low = x < -87 ? -87 : x;
  const union {
    float f;
    uint32_t i;
  } turn = {.f = low * 1.44269504f + 12582912.0f}; /* n in the low bits */
  const float n = turn.f - 12582912.0f;
  const union {
    uint32_t i;
    float f;
  } two = {.i = (turn.i - 0x4b400000u + 127u) << 23};
  const float r = (low - n * 0.693359375f) + n * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = (y * (r * r) + r + 1) * two.f;
  return x < -87 ? 0 : y;
}

/* Phi(x), by a fit of erfc within 1.2e-7 of it (Press et al., "Numerical
 * Recipes", erfcc). */
TS_BODY float phi_of(float x) {
  static const float c[] = {
      0.17087277f,  -0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f,
      -0.18628806f, 0.09678418f,  0.37409196f, 1.00002368f,  -1.26551223f};
  const float z = fabsf(x) * 0.70710678f, t = 1 / (1 + 0.5f * z);
  float y = c[0];
  for (int k = 1; k < 10; k++) y = y * t + c[k];
  const float tail = 0.5f * t * exp_below(y - z * z);
  const float rest = 1 - tail;
  return x > 0 ? rest : tail;
}

/* tanh, near 0 by a polynomial (Cephes). */
TS_BODY float tanh_of(float x, float e) {
  const float z = x * x, far = (1 - e) / (1 + e);
  float y = -5.70498872745e-3f;
  y = y * z + 2.06390887954e-2f;
  y = y * z - 5.37397155531e-2f;
  y = y * z + 1.33314422036e-1f;
  y = y * z - 3.33332819422e-1f;
  const float near_0 = y * z * x + x, side = x < 0 ? -far : far;
  return fabsf(x) < 0.625f ? near_0 : side;
}

/* act(x), or where GRAD its slope; KIND is known where it is called. */
TS_BODY float act_of(ts_act_kind kind, bool grad, float x, float leak) {
  if (kind == TS_ACT_GELU) {
    const float phi = phi_of(x), e = exp_below(-0.5f * x * x);
    return grad ? phi + 0.39894228f * x * e : x * phi;
  }
  if (kind == TS_ACT_TANH) {
    const float e = exp_below(-2 * fabsf(x)), f = 1 + e;
    return grad ? 4 * e / (f * f) : tanh_of(x, e);
  }
  if (kind == TS_ACT_SILU || kind == TS_ACT_SIGMOID) {
    const float e = exp_below(-fabsf(x)), f = 1 / (1 + e), g = e * f;
    const float s = x < 0 ? g : f, rest = x < 0 ? f : g;
    if (kind == TS_ACT_SIGMOID) return grad ? s * rest : s;
    return grad ? s * (1 + x * rest) : x * s;
  }
  if (grad) return x > 0 ? 1 : kind == TS_ACT_RELU ? 0 : leak;
  if (kind == TS_ACT_RELU) return x < 0 ? 0 : x;
  return x > 0 ? x : leak * x;
}

/* Row R: y = act(x), dx = dy act'(x). */
TS_BODY void act_row_of(const ts_act_args *t, int64_t r, ts_act_kind kind,
                        bool grad) {
  const float *x = t->x + r * t->x_stride, *slope = t->slope;
  const float *dy = grad ? t->dy + r * t->y_stride : NULL;
  float *to = grad ? t->dx + r * t->x_stride : t->y + r * t->y_stride;
  TS_EACH(c, t->n) {
    const float leak = kind == TS_ACT_PRELU ? slope[c] : t->leak;
    const float v = act_of(kind, grad, x[c], leak);
    to[c] = grad ? dy[c] * v : v;
  }
}

#define TS_ACT_ROW(name, grad)                                                 \
  static void name(const ts_act_args *t, int64_t r) {                          \
    switch (t->kind) {                                                         \
    case TS_ACT_RELU:                                                          \
      act_row_of(t, r, TS_ACT_RELU, grad);                                     \
      break;                                                                   \
    case TS_ACT_LEAKY:                                                         \
      act_row_of(t, r, TS_ACT_LEAKY, grad);                                    \
      break;                                                                   \
    case TS_ACT_PRELU:                                                         \
      act_row_of(t, r, TS_ACT_PRELU, grad);                                    \
      break;                                                                   \
    case TS_ACT_GELU:                                                          \
      act_row_of(t, r, TS_ACT_GELU, grad);                                     \
      break;                                                                   \
    case TS_ACT_SILU:                                                          \
      act_row_of(t, r, TS_ACT_SILU, grad);                                     \
      break;                                                                   \
    case TS_ACT_SIGMOID:                                                       \
      act_row_of(t, r, TS_ACT_SIGMOID, grad);                                  \
      break;                                                                   \
    case TS_ACT_TANH:                                                          \
      act_row_of(t, r, TS_ACT_TANH, grad);                                     \
      break;                                                                   \
    }                                                                          \
  }
TS_ACT_ROW(act_row, false)
TS_ACT_ROW(act_grad_row, true)
