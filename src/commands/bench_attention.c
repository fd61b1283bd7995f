/* bench_attention.c - `tessera bench attention [key=value]...`: the kernels of
 * attention beside the engine's products for the same multiplications: scores
 * and o forward; backward scores once more and four of gradients.  Of causal
 * attention half of them count.  Turns alternate, so that both feel the same
 * machine; the fastest fifth of turns says most. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "commands/bench.h"
#include "commands/bench_table.h"
#include "dense/linear.h"
#include "model/attention.h"
#include "runtime/clock.h"
#include "runtime/topology.h"

enum {
  ITERS_MAX = 1000,
  MARKS = 5,            /* of a turn */
  PRODUCT_MAX = 1 << 24 /* scores that the engine makes at a time */
};

/* Arrays of attention: those that are read come first. */
enum {
  Q,
  K,
  V,
  D_O,
  O,
  DQ,
  DK,
  DV,
  LSE,
  WORK,
  OFFSETS,
  BIAS,
  DBIAS,
  WHEN,
  N_ARRAYS,
  READ = O
};

/* The engine's: x (rows, dim), y (rows, length), z (rows, dim), and gradients
 * of x and y; of weights. */
enum { X, Y, Z, DX, DY, DW, N_SIDES };

typedef struct ts_attention_case {
  int length, dim, heads, tokens, threads, iters, causal, kind, times, bf16;
  const char *backend;
  ts_device *device;
  ts_lane *lane;
  ts_kernels kernels;
  ts_attention_args args;
  ts_buffer array[N_ARRAYS], side[N_SIDES];
  ts_params params;
  ts_linear *scores, *sum; /* y = x W^T, z = y W^T */
  int32_t rows;
  ts_clock *clock;
} ts_attention_case;

/* ---- a shape ------------------------------------------------------------- */

static ts_err room(ts_buffer *b, const ts_attention_case *c, int64_t bytes) {
  return ts_buffer_create(b, c->device, (size_t)bytes, TS_SPACE_DEVICE,
                          TS_TAG_ACTIVATIONS);
}

/* N numbers in [-1, 1). */
static ts_err draw(ts_buffer *b, const ts_attention_case *c, int64_t n,
                   uint32_t key) {
  ts_err err = TS_OK;
  float *x = NULL;
  TS_TRY(room(b, c, 4 * n));
  TS_TRY(ts_mem_many(x, n, MISC));
  for (int64_t i = 0; i < n; i += 4) {
    uint32_t word[4];
    ts_rng4(word, 1, TS_RNG_TEST, (uint64_t)i, key, 0);
    for (int64_t k = 0; k < 4 && i + k < n; k++)
      x[i + k] = 2 * ts_rng_unit(word[k]) - 1;
  }
  TS_TRY(ts_lane_copy(c->lane, b->ptr, x, (size_t)n * sizeof *x));
  TS_TRY(ts_lane_sync(c->lane));
done:
  ts_mem_free(x);
  return err;
}

static ts_err create_offsets(ts_attention_case *c, int64_t n) {
  ts_err err = TS_OK;
  int64_t *offsets = NULL;
  const size_t bytes = (size_t)(n + 1) * sizeof *offsets;
  TS_TRY(ts_mem_many(offsets, n + 1, MISC));
  for (int64_t s = 0; s <= n; s++) offsets[s] = s * c->length;
  TS_TRY(room(&c->array[OFFSETS], c, (int64_t)bytes));
  TS_TRY(ts_lane_copy(c->lane, c->array[OFFSETS].ptr, offsets, bytes));
  TS_TRY(ts_lane_sync(c->lane));
done:
  ts_mem_free(offsets);
  return err;
}

/* Biases by time, of events that are up to a day apart, the next one asked for
 * at the time of this one. */
static ts_err create_times(ts_attention_case *c) {
  ts_err err = TS_OK;
  double *when = NULL, now = 1e9;
  ts_attention_args *a = &c->args;
  const size_t bytes = (size_t)a->n_tokens * sizeof *when;
  const int64_t n = (int64_t)c->heads * TS_TIME_BUCKETS;
  TS_TRY(ts_mem_many(when, a->n_tokens, MISC));
  for (int64_t t = 0; t < a->n_tokens; t++) {
    uint32_t word[4];
    ts_rng4(word, 1, TS_RNG_TEST, (uint64_t)t, 11, 0);
    now += floor(pow(86400, (double)ts_rng_unit(word[0])));
    when[t] = now;
  }
  TS_TRY(room(&c->array[WHEN], c, (int64_t)bytes));
  TS_TRY(ts_lane_copy(c->lane, c->array[WHEN].ptr, when, bytes));
  TS_TRY(ts_lane_sync(c->lane));
  TS_TRY(draw(&c->array[BIAS], c, n, 12));
  TS_TRY(room(&c->array[DBIAS], c, 4 * n));
  a->when = a->asked = c->array[WHEN].ptr;
  a->time_bias = c->array[BIAS].ptr;
  a->dtime_bias = c->array[DBIAS].ptr;
  a->n_times = TS_TIME_BUCKETS;
done:
  ts_mem_free(when);
  return err;
}

/* Sequences of the length, as many as TOKENS are enough for. */
static ts_err create_attention(ts_attention_case *c) {
  const int64_t n = c->tokens > c->length ? c->tokens / c->length : 1;
  const int64_t width = (int64_t)c->heads * c->dim, tokens = n * c->length;
  ts_buffer *const b = c->array;
  for (int i = Q; i < READ; i++)
    TS_DO(draw(&b[i], c, tokens * width, (uint32_t)i));
  for (int i = READ; i <= DV; i++) TS_DO(room(&b[i], c, 4 * tokens * width));
  TS_DO(create_offsets(c, n));
  TS_DO(room(&b[LSE], c, 4 * tokens * c->heads));
  c->args = (ts_attention_args){.q = b[Q].ptr,
                                .k = b[K].ptr,
                                .v = b[V].ptr,
                                .q_stride = width,
                                .k_stride = width,
                                .v_stride = width,
                                .o_stride = width,
                                .o = b[O].ptr,
                                .lse = b[LSE].ptr,
                                .out = b[O].ptr,
                                .d_o = b[D_O].ptr,
                                .dq = b[DQ].ptr,
                                .dk = b[DK].ptr,
                                .dv = b[DV].ptr,
                                .offsets = b[OFFSETS].ptr,
                                .n_sequences = n,
                                .n_tokens = tokens,
                                .max_length = c->length,
                                .n_heads = c->heads,
                                .dim = c->dim,
                                .v_dim = c->dim,
                                .scale = 1 / sqrtf((float)c->dim),
                                .kind = c->kind,
                                .causal = c->causal};
  if (c->times) TS_DO(create_times(c));
  TS_DO(room(&b[WORK], c, ts_attention_work_bytes(&c->args)));
  c->args.work = b[WORK].ptr;
  return TS_OK;
}

static ts_err create_layer(ts_linear **l, ts_attention_case *c,
                           const char *name, int32_t n_in, int32_t n_out) {
  ts_param *w;
  const ts_linear_spec spec = {.n_in = n_in,
                               .n_out = n_out,
                               .in_stride = n_in,
                               .out_stride = n_out,
                               .batch_max = c->rows,
                               .need_dx = true,
                               .precision = c->bf16 ? TS_PRECISION_BF16
                                                    : TS_PRECISION_F32,
                               .kernels = &c->kernels};
  TS_DO(ts_params_add(&c->params, c->device, &w, name, name, n_out, n_in));
  TS_DO(ts_param_init_uniform(w, 1, 1));
  w->grad = c->side[DW].ptr;
  return ts_linear_create(l, &spec, w, NULL, c->lane);
}

/* Queries of many sequences, by the keys of one. */
static ts_err create_products(ts_attention_case *c) {
  const int64_t most = PRODUCT_MAX / c->length;
  c->rows = (int32_t)(c->args.n_tokens < most ? c->args.n_tokens : most);
  const int64_t thin = (int64_t)c->rows * c->dim;
  const int64_t wide = (int64_t)c->rows * c->length;
  TS_DO(draw(&c->side[X], c, thin, 9));
  TS_DO(draw(&c->side[Z], c, thin, 10));
  TS_DO(room(&c->side[Y], c, 4 * wide));
  TS_DO(room(&c->side[DX], c, 4 * thin));
  TS_DO(room(&c->side[DY], c, 4 * wide));
  TS_DO(room(&c->side[DW], c, 4 * (int64_t)c->dim * c->length));
  TS_DO(create_layer(&c->scores, c, "scores", c->dim, c->length));
  return create_layer(&c->sum, c, "sum", c->length, c->dim);
}

static void reset(ts_attention_case *c) {
  ts_clock_destroy(c->clock);
  ts_linear_destroy(c->scores);
  ts_linear_destroy(c->sum);
  ts_params_reset(&c->params);
  for (int i = 0; i < N_ARRAYS; i++) ts_buffer_reset(&c->array[i]);
  for (int i = 0; i < N_SIDES; i++) ts_buffer_reset(&c->side[i]);
  c->clock = NULL, c->scores = c->sum = NULL;
}

/* ---- turns --------------------------------------------------------------- */

static ts_err forward_task(void *arg, ts_lane *l) {
  const ts_attention_case *c = *(ts_attention_case **)arg;
  (void)l;
  return c->bf16 ? c->kernels.attention_half(&c->args)
                 : c->kernels.attention(&c->args);
}

static ts_err backward_task(void *arg, ts_lane *l) {
  const ts_attention_case *c = *(ts_attention_case **)arg;
  (void)l;
  return c->bf16 ? c->kernels.attention_half_grad(&c->args)
                 : c->kernels.attention_grad(&c->args);
}

static ts_err turn(ts_attention_case *c, int mark) {
  ts_buffer *const s = c->side;
  TS_DO(ts_clock_mark(c->clock, mark));
  TS_DO(ts_lane_run(c->lane, "attention", forward_task, c));
  TS_DO(ts_clock_mark(c->clock, mark + 1));
  TS_DO(ts_lane_run(c->lane, "attention", backward_task, c));
  TS_DO(ts_clock_mark(c->clock, mark + 2));
  TS_DO(ts_linear_forward(c->scores, s[Y].ptr, s[X].ptr, c->rows, c->lane));
  TS_DO(ts_linear_forward(c->sum, s[DX].ptr, s[Y].ptr, c->rows, c->lane));
  TS_DO(ts_clock_mark(c->clock, mark + 3));
  TS_DO(ts_linear_forward(c->scores, s[Y].ptr, s[X].ptr, c->rows, c->lane));
  TS_DO(ts_linear_backward(c->sum, s[DY].ptr, s[Z].ptr, s[Y].ptr, s[DX].ptr,
                           c->rows, c->lane));
  TS_DO(ts_linear_backward(c->scores, s[DX].ptr, s[DY].ptr, s[X].ptr, s[Y].ptr,
                           c->rows, c->lane));
  return ts_clock_mark(c->clock, mark + 4);
}

/* SECONDS of attention, forward and backward, and of products. */
static ts_err measure(ts_attention_case *c, double seconds[MARKS - 1]) {
  TS_DO(ts_clock_create(&c->clock, c->lane, c->iters * MARKS));
  for (int i = 0; i < c->iters; i++) TS_DO(turn(c, i * MARKS));
  TS_DO(ts_lane_sync(c->lane));
  for (int k = 0; k < MARKS - 1; k++) {
    double x[c->iters];
    for (int i = 0; i < c->iters; i++)
      TS_DO(
          ts_clock_between(c->clock, i * MARKS + k, i * MARKS + k + 1, &x[i]));
    (void)ts_bench_median(x, c->iters); /* which sorts */
    seconds[k] = ts_bench_tenth(x, c->iters, 2);
  }
  return TS_OK;
}

static const ts_bench_table lines = {
    "attention",
    "{length|%8C|length}{dim| %5.0f|dim}{heads| %5.0f|heads}"
    "{sequences| %9C|sequences}{forward_gflops| %9.1f|forward\nGFLOP/s}"
    "{forward_products_gflops| %9.1f|products\nGFLOP/s}"
    "{forward_percent| %4.0f%%|of\nthem}"
    "{backward_gflops| %9.1f|backward\nGFLOP/s}"
    "{backward_products_gflops| %9.1f|products\nGFLOP/s}"
    "{backward_percent| %4.0f%%|of\nthem}"};

static ts_err run_length(ts_attention_case *c, int length) {
  ts_err err = TS_OK;
  double s[MARKS - 1];
  c->length = length;
  TS_TRY(create_attention(c));
  TS_TRY(create_products(c));
  TS_TRY(measure(c, s));
  const double each = 2e-9 * c->dim * length; /* of a query and a product */
  const double queries =
      (double)c->args.n_tokens * c->heads * (c->causal ? 0.5 : 1);
  const double forward = 2 * each * queries / s[0];
  const double backward = 5 * each * queries / s[1];
  const double products = 2 * each * c->rows / s[2];
  const double gradients = 5 * each * c->rows / s[3];
  ts_bench_print(&lines, (double)length, (double)c->dim, (double)c->heads,
                 (double)c->args.n_sequences, forward, products,
                 100 * forward / products, backward, gradients,
                 100 * backward / gradients);
done:
  reset(c);
  return err;
}

/* ---- the command --------------------------------------------------------- */

static ts_err read_options(ts_attention_case *c, const ts_args *a) {
  const ts_bench_key keys[] = {
      TS_BENCH_WHOLE("length", &c->length, 0, 1e6,
                     "of sequences; 0: 50, 200, 1024 and 8192"),
      TS_BENCH_WHOLE("dim", &c->dim, 1, 1024, "of a head"),
      TS_BENCH_WHOLE("heads", &c->heads, 1, 64, "of a token"),
      TS_BENCH_WHOLE("tokens", &c->tokens, 1, 1e7, "of all sequences"),
      TS_BENCH_WHOLE("threads", &c->threads, 0, 1024, "0: all"),
      TS_BENCH_WHOLE("iters", &c->iters, 1, ITERS_MAX, "turns"),
      TS_BENCH_CHOICE("causal", &c->causal, "0|1", "1: of earlier tokens"),
      TS_BENCH_CHOICE("times", &c->times, "0|1", "1: with biases by time"),
      TS_BENCH_CHOICE("kind", &c->kind, "softmax|silu", "of weights"),
      TS_BENCH_CHOICE("precision", &c->bf16, "f32|bf16",
                      "of products, the engine's too"),
      TS_BENCH_WORD("backend", &c->backend, "whose memory and kernels")};
  return ts_bench_keys(a, 0, keys, (int)(sizeof keys / sizeof *keys));
}

ts_err ts_bench_attention(const ts_args *a) {
  static const int lengths[] = {50, 200, 1024, 8192};
  ts_err err = TS_OK;
  bool widened;
  ts_attention_case c = {.dim = 64,
                         .heads = 1,
                         .tokens = 12800,
                         .iters = 20,
                         .causal = 1,
                         .backend = a->backend ? a->backend : "host"};
  TS_DO(read_options(&c, a));
  c.threads = ts_bind(c.threads, 0, 1, &widened);
  const ts_device_options options = {.serial = !strcmp(c.backend, "host"),
                                     .n_threads = c.threads};
  TS_TRY(ts_kernels_fill(&c.kernels, c.backend, NULL));
  TS_TRY(ts_device_create(&c.device, c.backend, &options));
  TS_TRY(ts_lane_create(c.device, &c.lane, "compute", TS_LANE_COMPUTE));
  ts_bench_heads(&lines);
  if (c.length)
    TS_TRY(run_length(&c, c.length));
  else
    for (int i = 0; i < 4; i++) TS_TRY(run_length(&c, lengths[i]));
done:
  reset(&c);
  ts_lane_destroy(c.lane);
  ts_device_destroy(c.device);
  return err;
}
