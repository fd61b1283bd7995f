/* row_average.cu - running means of rows (sparse/row_optim.h): before an update
 * or the end of a stage a kernel of its own brings them up to date, so that
 * the kernels of tables without means stay as they are; and the kernel
 * average_rows.  A warp has a row. */
#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

#include "cuda/dense/half.cuh"
#include "cuda/sparse/row_update.cuh"

/* ts_row_ema_rest. */
static __device__ inline float ts_ema_rest(double d, int64_t n) {
  double keep = 1;
  for (; n > 0; n /= 2, d = __dmul_rn(d, d))
    if (n % 2) keep = __dmul_rn(keep, d);
  return (float)__dsub_rn(1.0, keep);
}

static __device__ inline ts_real ts_ema_of(float e, float w, float rest) {
  return ts_real{e} + ts_real{rest} * (ts_real{w} - ts_real{e});
}

static __device__ inline float ts_element(const void *x, ts_dtype t,
                                          int64_t at) {
  if (t == TS_F32) return ((const float *)x)[at];
  const uint16_t h = ((const uint16_t *)x)[at];
  return t == TS_BF16 ? ts_wide_bf16(h) : ts_wide_f16(h);
}

/* Number D of ROW in few bits. */
static __device__ inline float ts_few_element(const char *row, ts_dtype t,
                                              int32_t dim, int32_t d) {
  const uint8_t *q = (const uint8_t *)row;
  const ts_few_tail tail = ts_few_tail_of(
      (const uint32_t *)row, (uint32_t)(t == TS_INT8 ? dim : (dim + 1) / 2));
  return fmaf(tail.scale,
              (float)(t == TS_INT8 ? q[d] : q[d / 2] >> 4 * (d % 2) & 15),
              tail.bias);
}

/* ---- before an update ---------------------------------------------------- */

struct ts_average_work {
  ts_row_place rows;
  ts_row_entries of;
  int mean; /* the state; the next one is the pass */
};

template <bool FEW>
static __global__ void __launch_bounds__(TS_ROW_BLOCK)
    ts_row_averages(ts_average_work a) {
  const ts_row_place &r = a.rows;
  const int64_t n = a.of.n_runs ? (int64_t)*a.of.n_runs : a.of.n;
  const int64_t stride = (int64_t)gridDim.x * (TS_ROW_BLOCK / 32);
  const int lane = (int)(threadIdx.x % 32);
  for (int64_t i = ((int64_t)blockIdx.x * TS_ROW_BLOCK + threadIdx.x) / 32;
       i < n; i += stride) {
    const int64_t j = a.of.start ? a.of.start[i] : i;
    const uint32_t key = a.of.keys[j];
    const ts_row_id id = {key, a.of.place ? a.of.place[j] : key, true};
    float *last = r.state[a.mean + 1] + key;
    const int64_t pass = (int64_t)*last;
    const double decay = r.table[ts_row_table_of(r, key)].hyper.ema;
    const float rest = ts_ema_rest(decay, (int64_t)r.step - pass);
    for (int32_t d = lane; d < r.dim; d += 32) {
      float *e = r.state[a.mean] + ts_row_at(r, id, d, a.mean);
      float w;
      if constexpr (FEW)
        w = ts_few_element(ts_few_row(r, id), r.dtype, r.dim, d);
      else
        w = ts_element(r.weight, r.dtype, ts_row_at(r, id, d, -1));
      *e = pass > 0 ? ts_ema_of(*e, w, rest).x : w;
    }
    __syncwarp();
    if (lane == 0) *last = (float)r.step;
  }
}

ts_err ts_row_average(const ts_row_update_args *a, const ts_row_place &rows,
                      const ts_row_entries &of) {
  if (!a->optim->averages) return TS_OK;
  const ts_average_work w = {rows, of, a->optim->n_states - 2};
  return ts_row_launch(ts_dtype_has_scale(a->dtype) ? ts_row_averages<true>
                                                    : ts_row_averages<false>,
                       of.n, TS_ROW_BLOCK / 32, w);
}

/* ---- average_rows -------------------------------------------------------- */

static __device__ inline void ts_put_near(void *to, ts_dtype t, int64_t at,
                                          float x) {
  if (t == TS_F32)
    ((float *)to)[at] = x;
  else
    ((uint16_t *)to)[at] =
        t == TS_BF16 ? ts_half_near(x) : __half_as_ushort(__float2half_rn(x));
}

static __global__ void __launch_bounds__(TS_ROW_BLOCK)
    ts_average_rows(ts_average_rows_args a) {
  const int64_t stride = (int64_t)gridDim.x * (TS_ROW_BLOCK / 32);
  const int64_t first = (int64_t)a.first_line * a.dim;
  const int lane = (int)(threadIdx.x % 32);
  for (int64_t i = ((int64_t)blockIdx.x * TS_ROW_BLOCK + threadIdx.x) / 32;
       i < a.n; i += stride) {
    const int64_t key = a.keys ? (int64_t)a.keys[i] : i;
    const int64_t at = (a.place ? (int64_t)a.place[i] : key) * a.dim;
    const bool in_line = a.lines && at >= first;
    const void *w = in_line ? a.lines : a.weight;
    const float *e = in_line ? a.ema_lines : a.ema;
    const int64_t from = in_line ? at - first : at;
    const int64_t pass = (int64_t)a.ema_pass[key];
    const float rest = ts_ema_rest(a.decay, a.pass - pass + 1);
    for (int32_t d = lane; d < a.dim; d += 32) {
      float x = ts_element(w, a.dtype, from + d);
      if (pass > 0) x = ts_ema_of(e[from + d], x, rest).x;
      ts_put_near(a.out, a.dtype, i * a.dim + d, x);
    }
    if (a.index && lane == 0) a.index[i] = (uint32_t)i;
  }
}

/* Rows in few bits: once for the range, then for the numbers, of which a lane
 * has two beside each other; scale and bias, by which they are read, last. */
static __global__ void __launch_bounds__(TS_ROW_BLOCK)
    ts_average_few(ts_average_rows_args a) {
  const int64_t stride = (int64_t)gridDim.x * (TS_ROW_BLOCK / 32);
  const uint64_t bytes = 4 * (uint64_t)ts_few_pitch(a.dtype, a.dim);
  const float most = ts_few_bits_most(a.dtype);
  const int lane = (int)(threadIdx.x % 32);
  for (int64_t i = ((int64_t)blockIdx.x * TS_ROW_BLOCK + threadIdx.x) / 32;
       i < a.n; i += stride) {
    const int64_t key = a.keys ? (int64_t)a.keys[i] : i;
    const int64_t at = a.place ? (int64_t)a.place[i] : key;
    const bool in_line = a.lines && at >= (int64_t)a.first_line;
    const int64_t from = in_line ? at - a.first_line : at;
    const char *row =
        (const char *)(in_line ? a.lines : a.weight) + (uint64_t)from * bytes;
    const float *e = (in_line ? a.ema_lines : a.ema) + from * a.dim;
    const int64_t pass = (int64_t)a.ema_pass[key];
    const float rest = ts_ema_rest(a.decay, a.pass - pass + 1);
    const auto number = [&](int32_t d) {
      const float x = ts_few_element(row, a.dtype, a.dim, d);
      return pass > 0 ? ts_ema_of(e[d], x, rest).x : x;
    };
    ts_few_range range;
    for (int32_t d = 2 * lane; d < a.dim; d += 64) {
      ts_quad q = {};
      q.x[0].x = number(d);
      if (d + 1 < a.dim) q.x[1].x = number(d + 1);
      range.add(q, a.dim - d < 2 ? 1 : 2);
    }
    range.share<32>();
    const ts_few_bits_code c =
        ts_few_bits_code_of(range.least, range.last, most);
    uint8_t *to = (uint8_t *)a.out + (uint64_t)i * bytes;
    for (int32_t d = 2 * lane; d < a.dim; d += 64) {
      const bool two = d + 1 < a.dim;
      const int32_t x = ts_few_bits_near(number(d), c, most);
      const int32_t y = two ? ts_few_bits_near(number(d + 1), c, most) : 0;
      if (a.dtype == TS_INT8) {
        to[d] = (uint8_t)x;
        if (two) to[d + 1] = (uint8_t)y;
      } else {
        to[d / 2] = (uint8_t)(x | y << 4);
      }
    }
    __syncwarp();
    const int32_t tail = a.dtype == TS_INT8 ? a.dim : (a.dim + 1) / 2;
    const uint32_t bits = ts_bits_of(lane ? c.bias : c.scale);
    for (int k = 0; lane < 2 && k < 4; k++)
      to[tail + 4 * lane + k] = (uint8_t)(bits >> 8 * k);
    if (a.index && lane == 0) a.index[i] = (uint32_t)i;
  }
}

ts_err ts_cuda_average_rows(const ts_average_rows_args *a) {
  if (a->n == 0) return TS_OK;
  if (ts_dtype_has_scale(a->dtype))
    return ts_row_launch(ts_average_few, a->n, TS_ROW_BLOCK / 32, *a);
  return ts_row_launch(ts_average_rows, a->n, TS_ROW_BLOCK / 32, *a);
}
