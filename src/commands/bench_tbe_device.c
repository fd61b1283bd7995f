/* bench_tbe_device.c - `tessera bench tbe --backend NAME`: lookup and fused
 * backward by the clock of a device's lane, beside a copy in its memory.
 * All batches are enqueued before the host waits: no step waits for a launch.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "commands/bench_limits.h"
#include "commands/bench_table.h"
#include "commands/bench_tbe.h"
#include "runtime/clock.h"
#include "runtime/topology.h"

enum {
  WARM = 2, /* batches before those that count */
  SORTS = 6
};
static const int64_t COPY_MAX = INT64_C(256) << 20, COPY_MIN = 1 << 20;

/* One shape, its batches in device memory. */
typedef struct ts_shape {
  ts_tbe_case *c;
  const ts_kernels *k;
  ts_clock *clock;
  ts_tbe_lent lent;
  ts_buffer ids[TS_TBE_INPUTS];
  int64_t unique; /* distinct rows of a batch, of all the mean */
  double copy;    /* bytes per second, read and written */
} ts_shape;

/* Medians in s. */
typedef struct ts_device_times {
  double forward, backward, sort;
} ts_device_times;

static ts_err room(ts_buffer *b, const ts_tbe_case *c, int64_t bytes,
                   ts_tag tag) {
  return ts_buffer_create(b, c->device, (size_t)bytes, TS_SPACE_DEVICE, tag);
}

/* The median of what N pairs of marks, STRIDE apart, have between them. */
static ts_err median(ts_clock *clock, int first, int stride, int n,
                     double *seconds) {
  double x[n];
  for (int i = 0; i < n; i++)
    TS_DO(ts_clock_between(clock, first + i * stride, first + i * stride + 1,
                           &x[i]));
  *seconds = ts_bench_median(x, n);
  return TS_OK;
}

/* ---- what memory gives --------------------------------------------------- */

static ts_err measure_copy(const ts_tbe_case *c, double *speed) {
  int64_t bytes = c->tables * c->rows * c->row_bytes;
  if (bytes > COPY_MAX) bytes = COPY_MAX;
  if (bytes < COPY_MIN) bytes = COPY_MIN;
  return ts_bench_copy_rate(speed, c->device, c->lane, bytes);
}

/* ---- times --------------------------------------------------------------- */

static ts_tbe_input input_of(const ts_shape *s, int i) {
  return ts_tbe_lent_input(&s->lent, ts_tbe_case_input(s->c, i),
                           &s->ids[i % TS_TBE_INPUTS]);
}

static ts_err measure_group(const ts_shape *s, ts_device_times *t) {
  const ts_tbe_case *c = s->c;
  for (int i = 0; i < c->iters; i++) {
    const ts_tbe_input in = input_of(s, i);
    TS_DO(ts_clock_mark(s->clock, 3 * i));
    TS_DO(ts_tbe_forward(c->tbe, s->lent.out.ptr, &in, c->lane));
    TS_DO(ts_clock_mark(s->clock, 3 * i + 1));
    TS_DO(ts_tbe_backward(c->tbe, s->lent.grad.ptr, &in, 1.0, i + 1, c->lane));
    TS_DO(ts_clock_mark(s->clock, 3 * i + 2));
  }
  TS_DO(ts_lane_sync(c->lane));
  TS_DO(median(s->clock, 3 * WARM, 3, c->iters - WARM, &t->forward));
  return median(s->clock, 3 * WARM + 1, 3, c->iters - WARM, &t->backward);
}

/* The sort of a batch's entries, alone. */
typedef struct ts_sort_case {
  const ts_kernels *k;
  ts_sort_args args;
  const void *source; /* keys as they come */
} ts_sort_case;

static ts_err unsort(void *arg, ts_lane *lane) {
  const ts_sort_case *x = *(ts_sort_case **)arg;
  (void)lane;
  return x->k->copy(x->args.keys, x->source, (size_t)x->args.n * 4);
}

/* The arrays may have changed places afterwards: they are given anew. */
static ts_err sort(void *arg, ts_lane *lane) {
  const ts_sort_case *x = *(ts_sort_case **)arg;
  const ts_sort_args args = x->args;
  (void)lane;
  return x->k->sort(&args);
}

static ts_err run_sorts(const ts_shape *s, const ts_sort_case *x, double *t) {
  for (int i = 0; i < SORTS; i++) {
    TS_DO(ts_lane_submit(s->c->lane, "unsort", unsort, &x, sizeof x));
    TS_DO(ts_clock_mark(s->clock, 2 * i));
    TS_DO(ts_lane_submit(s->c->lane, "sort", sort, &x, sizeof x));
    TS_DO(ts_clock_mark(s->clock, 2 * i + 1));
  }
  TS_DO(ts_lane_sync(s->c->lane));
  return median(s->clock, 2 * WARM, 2, SORTS - WARM, t);
}

static ts_err measure_sort(const ts_shape *s, double *t) {
  enum { SOURCE, KEYS, KEYS_SCRATCH, VALUES, VALUES_SCRATCH, ARRAYS };
  ts_err err = TS_OK;
  ts_tbe_case *c = s->c;
  ts_buffer b[ARRAYS] = {{0}};
  int64_t segment[c->tables + 1], base[c->tables];
  const int64_t per_table = (int64_t)c->batch * c->pool;
  for (int64_t i = 0; i < c->n; i++)
    c->touched[i] = (uint32_t)(i / per_table * c->rows + c->ids[0][i]);
  for (int i = 0; i <= c->tables; i++) segment[i] = i * per_table;
  for (int i = 0; i < c->tables; i++) base[i] = i * c->rows;
  TS_TRY(ts_tbe_case_copy(&b[SOURCE], c, c->touched, c->n * 4, TS_TAG_MISC));
  for (int i = KEYS; i < ARRAYS; i++)
    TS_TRY(room(&b[i], c, c->n * 4, TS_TAG_MISC));
  const ts_sort_case x = {.k = s->k,
                          .args = {.keys = b[KEYS].ptr,
                                   .keys_scratch = b[KEYS_SCRATCH].ptr,
                                   .values = b[VALUES].ptr,
                                   .values_scratch = b[VALUES_SCRATCH].ptr,
                                   .n = c->n,
                                   .n_bits = ts_tbe_bits(c->tables * c->rows),
                                   .n_segments = c->tables,
                                   .segment = segment,
                                   .segment_base = base,
                                   .segment_bits = ts_tbe_bits(c->rows)},
                          .source = b[SOURCE].ptr};
  TS_TRY(run_sorts(s, &x, t));
done:
  if (err != TS_OK) (void)ts_lane_sync(c->lane); /* it reads what goes now */
  for (int i = 0; i < ARRAYS; i++) ts_buffer_reset(&b[i]);
  return err;
}

/* ---- shapes -------------------------------------------------------------- */

static const ts_bench_table lines = {
    "shapes",
    "{dim|%4.0f|dim}{dtype| %-4s|type}{pool| %4.0f|pool}{ids| %-9s|ids}"
    "{distinct_percent| %7.1f%%|distinct\nrows}"
    "{forward_ms| %9.4f|forward\nms}{forward_gb_per_s| %7.1f|GB/s}"
    "{forward_of_copy_percent| %6.1f%%|of\ncopy}"
    "{ids_gb_per_s| %8.1f|ids'\nGB/s}{backward_ms| %9.4f|backward\nms}"
    "{backward_gb_per_s| %7.1f|GB/s}"
    "{backward_of_copy_percent| %6.1f%%|of\ncopy}"
    "{sort_ms| %8.4f|of it\nsort ms}{backward_of_forward| %7.2f|bwd/\nfwd}"};

static void print_line(const ts_shape *s, double alpha,
                       const ts_device_times *t) {
  const ts_tbe_case *c = s->c;
  char ids[32] = "uniform";
  const double forward =
      (double)ts_tbe_forward_bytes(c, s->unique) / t->forward;
  const double backward =
      (double)ts_tbe_backward_bytes(c, s->unique) / t->backward;
  if (alpha > 0) snprintf(ids, sizeof ids, "zipf %.4g", alpha);
  ts_bench_print(&lines, (double)c->dim, ts_dtype_name(c->config->dtype),
                 (double)c->pool, ids, 100 * (double)s->unique / (double)c->n,
                 1e3 * t->forward, 1e-9 * forward, 100 * forward / s->copy,
                 1e-9 * (double)(c->n * c->row_bytes) / t->forward,
                 1e3 * t->backward, 1e-9 * backward, 100 * backward / s->copy,
                 1e3 * t->sort, t->backward / t->forward);
}

static ts_err measure(ts_shape *s, double alpha) {
  ts_tbe_case *c = s->c;
  ts_device_times t = {0};
  ts_tbe_case_draw(c, alpha);
  TS_DO(ts_tbe_case_distinct(c, &s->unique));
  for (int k = 0; k < TS_TBE_INPUTS; k++) {
    ts_buffer_reset(&s->ids[k]);
    TS_DO(ts_tbe_case_copy(&s->ids[k], c, c->ids[k], c->n * 4, TS_TAG_INPUT));
  }
  TS_DO(measure_group(s, &t));
  TS_DO(measure_sort(s, &t.sort));
  print_line(s, alpha, &t);
  return TS_OK;
}

/* The group as it is, with bags of POOL ids by each of the N power laws. */
static ts_err run_pool(ts_shape *s, int pool, const double *alpha, int n) {
  ts_err err = TS_OK;
  s->c->pool = pool;
  TS_TRY(ts_tbe_case_size(s->c));
  TS_TRY(ts_tbe_case_allocate(s->c));
  TS_TRY(ts_tbe_case_lend(&s->lent, s->c));
  for (int i = 0; i < n; i++) TS_TRY(measure(s, alpha[i]));
done:
  if (err != TS_OK) (void)ts_lane_sync(s->c->lane);
  ts_tbe_lent_reset(&s->lent);
  for (int k = 0; k < TS_TBE_INPUTS; k++) ts_buffer_reset(&s->ids[k]);
  ts_tbe_case_free(s->c);
  return err;
}

static ts_err run_group(ts_shape *s, int dim, ts_dtype type, bool sweep) {
  static const int pools[] = {1, 20, 100};
  static const double alphas[] = {0, 1.05, 1.15};
  const double own[] = {0, s->c->alpha};
  const int pool = s->c->pool;
  ts_err err = TS_OK;
  s->c->dim = dim;
  s->c->config->dtype = type;
  TS_TRY(ts_tbe_case_size(s->c));
  TS_TRY(ts_tbe_case_group(s->c, s->k));
  for (int i = 0; i < 3 && sweep; i++) TS_TRY(run_pool(s, pools[i], alphas, 3));
  if (!sweep) TS_TRY(run_pool(s, pool, own, s->c->alpha > 0 ? 2 : 1));
done:
  s->c->pool = pool;
  ts_tbe_destroy(s->c->tbe);
  s->c->tbe = NULL;
  return err;
}

static void print_header(const ts_tbe_case *c, double copy) {
  ts_device_info info;
  const bool told = ts_device_describe(c->device, &info);
  ts_tbe_case_print(c, NAN, told ? info.text : ts_cpu_info()->model);
  if (told && *info.note) ts_info("%s", info.note);
  ts_info("a copy in its memory: %.1f GB/s, read and written", 1e-9 * copy);
  ts_bench_heads(&lines);
}

ts_err ts_bench_tbe_device(ts_tbe_case *c, const ts_kernels *k, bool sweep) {
  static const int dims[] = {32, 64, 128, 256};
  static const ts_dtype types[] = {TS_F32, TS_BF16};
  ts_err err = TS_OK;
  ts_shape s = {.c = c, .k = k};
  const int n_marks = 3 * (c->iters > SORTS ? c->iters : SORTS);
  TS_TRY(measure_copy(c, &s.copy));
  TS_TRY(ts_clock_create(&s.clock, c->lane, n_marks));
  print_header(c, s.copy);
  for (int i = 0; i < 8 && sweep; i++)
    TS_TRY(run_group(&s, dims[i / 2], types[i % 2], true));
  if (!sweep) TS_TRY(run_group(&s, c->dim, c->config->dtype, false));
done:
  ts_clock_destroy(s.clock);
  return err;
}
