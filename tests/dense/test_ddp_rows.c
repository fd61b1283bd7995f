/* test_ddp_rows.c - what data parallel promises of its buckets, its memory
 * and its order, each with what would be a wrong use.  Buckets follow the
 * model's backward order from the start: nothing is rebuilt, and a parameter
 * without a gradient is an error in its own step.
 * ranks: 1 2 3 4 */
#include <time.h>

#include "tests/dense/ddp_rig.h"

enum { LAYERS = 12, MANY = 2000 };

static void sleep_ms(int ms) {
  const struct timespec t = {0, ms * 1000000L};
  nanosleep(&t, NULL);
}

static ts_err (*real_update)(const ts_dense_update_args *, int32_t);
static ts_err slow_update(const ts_dense_update_args *a, int32_t n) {
  sleep_ms(2 * n);
  return real_update(a, n);
}

static void small_deck(const char *kind) {
  deck(kind, 0.125);
  c.dense.bucket_mb = 0.001;
}

static void start_layers(int n, int rows, int cols) {
  for (int p = 0; p < n; p++)
    ck_assert_ok(ts_param_init_uniform(add_layer(p, rows, cols), 3, 1.0));
  ts_mem_forget_peaks();
  start();
}

static void setup(void) {
  ts_fixture_start(&f, false, 1);
  ck_assert_ok(ts_kernels_fill(&k, "host", NULL));
}

typedef struct fill_arg {
  float *grad;
  int64_t n;
  int p, step, rank, size;
} fill_arg;

static ts_err fill(void *arg, ts_lane *lane) {
  (void)lane;
  const fill_arg *a = arg;
  for (int64_t i = 0; i < a->n; i++)
    a->grad[i] =
        (float)(sin(a->step * 1.3 + a->p * 7 + (double)i * 0.01 + a->rank) /
                a->size);
  return TS_OK;
}

static void write_grad(const ts_param *q, int step) {
  const fill_arg a = {q->grad, q->n, q->index, step, f.rank, f.size};
  ck_assert_ok(ts_lane_submit(f.lane, "fill", fill, &a, sizeof a));
}

static void layer(ts_param *q, int step) {
  ck_assert_ok(ts_layer_acquire(&h, q, TS_BACKWARD, f.lane));
  write_grad(q, step);
  ck_assert_ok(ts_layer_ready(&h, q, f.lane));
  ck_assert_ok(ts_layer_release(&h, q, TS_BACKWARD, f.lane));
}

static void steps(int n) {
  for (int step = 1; step <= n; step++) {
    ck_assert_ok(ts_parallel_begin(d, step, true));
    for (int p = ps.n - 1; p >= 0; p--) layer(ps.item[p], step);
    ck_assert_ok(ts_parallel_end(d, NULL, f.lane));
  }
  ck_assert_ok(ts_lane_sync(f.lane));
}

/* Weights after three steps. */
static void weights(float *out) {
  start_layers(LAYERS, MANY, 0);
  steps(3);
  for (int p = 0; p < LAYERS; p++)
    memcpy(out + (size_t)p * MANY, ps.item[p]->w, MANY * sizeof *out);
  stop();
}

static float a[LAYERS * MANY], b[LAYERS * MANY];

/* ---- buckets ------------------------------------------------------------- */

TS_EACH_TEST_BETWEEN(setup, rig_stop)

/* 8 parameters of 4 MiB: after which gradients reductions begin. */
TS_TEST(bucket_lists) {
  static const struct {
    double mb;
    int n, after[4];
  } want[] = {{0, 2, {1, 8}}, {25, 2, {7, 8}}, {8, 4, {2, 4, 6, 8}}};
  for (int i = 0; i < 3; i++) {
    small_deck("sgd");
    c.optimizer.in_backward = false;
    c.dense.bucket_mb = want[i].mb;
    start_layers(8, 1024, 1024);
    ck_assert_all(ts_parallel_stat_of(d).n_buckets == want[i].n);
    ck_assert_ok(ts_parallel_begin(d, 1, true));
    int64_t before = 0;
    for (int p = 7, n = 0; p >= 0; p--) {
      ck_assert_ok(ts_layer_ready(&h, ps.item[p], f.lane));
      const int64_t now = ts_parallel_stat_of(d).n_reductions;
      if (now > before) ck_assert_all(want[i].after[n++] == 8 - p);
      before = now;
    }
    ck_assert_ok(ts_parallel_end(d, NULL, f.lane));
    ck_assert_ok(ts_lane_sync(f.lane));
    stop();
  }
}

/* Gradients lie in their buckets, and there is no other copy. */
TS_TEST(views) {
  small_deck("sgd");
  c.optimizer.in_backward = false;
  start_layers(8, MANY, 0);
  for (int p = 0; p < 7; p++)
    ck_assert_ptr_eq(ps.item[p]->grad, ps.item[p + 1]->grad + MANY);
  steps(1);
  ck_assert_ptr_eq(ps.item[6]->grad, ps.item[7]->grad + MANY);
  ck_assert_all(ts_mem_stat_of(TS_TAG_GRADS, TS_SPACE_HOST).peak_bytes ==
                8 * MANY * 4);
  stop();
}

/* Ranks whose gradients are there in other orders reduce in one order. */
TS_TEST(permuted) {
  small_deck("sgd");
  c.optimizer.in_backward = false;
  weights(a);
  start_layers(LAYERS, MANY, 0);
  for (int step = 1; step <= 3; step++) {
    ck_assert_ok(ts_parallel_begin(d, step, true));
    for (int i = 0; i < LAYERS; i++) {
      ts_param *q = ps.item[(i * 5 + 7 * f.rank) % LAYERS];
      write_grad(q, step);
      ck_assert_ok(ts_layer_ready(&h, q, f.lane));
    }
    ck_assert_ok(ts_parallel_end(d, NULL, f.lane));
  }
  ck_assert_ok(ts_lane_sync(f.lane));
  for (int p = 0; p < LAYERS; p++)
    ck_assert_all(
        !memcmp(a + (size_t)p * MANY, ps.item[p]->w, MANY * sizeof *a));
  stop();
}

/* Half the bytes; sums that 16 bits hold come out as they are: nothing is
 * divided, once or twice. */
TS_TEST(short_wire) {
  static char names[][5] = {"f32", "bf16", "f16"};
  int64_t bytes[3];
  for (int i = 0; i < 3; i++) {
    small_deck("sgd");
    c.dense.comm_dtype = names[i];
    start_layers(LAYERS, 2400, 0);
    const float w = ps.item[3]->w[17];
    ck_assert_ok(ts_parallel_begin(d, 1, true));
    for (int p = LAYERS - 1; p >= 0; p--) {
      ts_param *q = ps.item[p];
      ck_assert_ok(ts_layer_acquire(&h, q, TS_BACKWARD, f.lane));
      ck_assert_ok(ts_lane_sync(f.lane));
      for (int j = 0; j < 2400; j++)
        q->grad[j] = (float)((f.rank + 1) * (j % 5 + 1));
      ck_assert_ok(ts_layer_ready(&h, q, f.lane));
      ck_assert_ok(ts_layer_release(&h, q, TS_BACKWARD, f.lane));
    }
    ck_assert_ok(ts_parallel_end(d, NULL, f.lane));
    ck_assert_ok(ts_lane_sync(f.lane));
    const float sum = (float)(f.size * (f.size + 1) / 2);
    ck_assert_all(ps.item[3]->w[17] == w - 0.125f * (sum * 3));
    bytes[i] = ts_parallel_stat_of(d).sent_bytes;
    stop();
  }
  ck_assert_all((bytes[0] > 0) == (f.size > 1));
  ck_assert_all(bytes[0] == 2 * bytes[1] && bytes[0] == 2 * bytes[2]);
}

/* Rounded gradients are near those that are not. */
TS_TEST(short_wire_is_near) {
  static char bf16[] = "bf16";
  small_deck("sgd");
  weights(a);
  c.dense.comm_dtype = bf16;
  weights(b);
  double worst = 0;
  for (int i = 0; i < LAYERS * MANY; i++)
    worst = fmax(worst, fabs((double)a[i] - b[i]));
  ck_assert_all(worst < 3 * 0.125 / 128 && (worst > 0) == (f.size > 1));
}

/* ---- in backward --------------------------------------------------------- */

/* Slots are taken in turns, and only once what is in them was used: updates
 * are slow here. */
TS_TESTS(in_backward_equals_a_separate_step, 0, 10) {
  static const char *const kinds[] = {
      "sgd",  "momentum", "nesterov", "adagrad", "rmsprop",
      "adam", "adamw",    "lion",     "lamb",    "lars"};
  small_deck(kinds[_i]);
  c.optimizer.base.clip_value = _i % 2 ? 0.25 : 0;
  c.optimizer.in_backward = false;
  weights(a);
  c.optimizer.in_backward = true;
  real_update = k.dense_update;
  k.dense_update = slow_update;
  weights(b);
  k.dense_update = real_update;
  ck_assert_all(!memcmp(a, b, sizeof a));
}

TS_TEST(memory) {
  int64_t peak[2];
  for (int i = 0; i < 2; i++) {
    small_deck("sgd");
    c.optimizer.in_backward = i;
    start_layers(LAYERS, MANY, 0);
    steps(2);
    peak[i] = ts_mem_stat_of(TS_TAG_GRADS, TS_SPACE_HOST).peak_bytes;
    stop();
  }
  ck_assert_all(peak[0] == LAYERS * MANY * 4);
  ck_assert_all(peak[1] == 3 * MANY * 4);
}

static ts_err look(void *arg, ts_lane *lane) {
  (void)lane;
  const float **from_to = arg;
  sleep_ms(30);
  *(float *)(uintptr_t)from_to[1] = *from_to[0];
  return TS_OK;
}

/* Weights are read after their gradient is there, but before the layer is
 * released: they are the old ones. */
TS_TEST(updates_wait_for_reads) {
  static float seen;
  small_deck("sgd");
  start_layers(LAYERS, MANY, 0);
  ts_param *q = ps.item[LAYERS - 1];
  const float old = q->w[0];
  ck_assert_ok(ts_parallel_begin(d, 1, true));
  ck_assert_ok(ts_layer_acquire(&h, q, TS_BACKWARD, f.lane));
  write_grad(q, 1);
  ck_assert_ok(ts_layer_ready(&h, q, f.lane));
  const float *from_to[] = {q->w, &seen};
  ck_assert_ok(ts_lane_submit(f.lane, "read", look, from_to, sizeof from_to));
  ck_assert_ok(ts_layer_release(&h, q, TS_BACKWARD, f.lane));
  ck_assert_ptr_null(q->grad);
  for (int p = LAYERS - 2; p >= 0; p--) layer(ps.item[p], 1);
  ck_assert_ok(ts_parallel_end(d, NULL, f.lane));
  ck_assert_ok(ts_lane_sync(f.lane));
  ck_assert_all(seen == old && q->w[0] != old);
  stop();
}

/* ---- wrong uses ---------------------------------------------------------- */

static void fails(ts_err got, ts_err want, const char *text) {
  ck_assert_all(got == want);
  ck_assert_msg(strstr(ts_err_message(), text) != NULL, "%s", ts_err_message());
  ts_err_clear();
}

TS_TEST(wrong_uses) {
  small_deck("sgd");
  start_layers(LAYERS, MANY, 0);
  ts_param *last = ps.item[LAYERS - 1];
  fails(ts_layer_ready(&h, last, f.lane), TS_ERR_INTERNAL, "outside a step");
  fails(ts_layer_acquire(&h, last, TS_BACKWARD, f.lane), TS_ERR_INTERNAL,
        "outside a step");
  fails(ts_parallel_end(d, NULL, f.lane), TS_ERR_INTERNAL, "never began");
  ck_assert_ok(ts_parallel_begin(d, 1, true));
  fails(ts_parallel_begin(d, 2, true), TS_ERR_INTERNAL, "before 1 has ended");
  fails(ts_layer_ready(&h, last, f.lane), TS_ERR_INTERNAL, "acquire");
  /* The other way round: no slot is left for what came out of turn. */
  ck_assert_ok(ts_layer_acquire(&h, ps.item[0], TS_BACKWARD, f.lane));
  ck_assert_ok(ts_layer_acquire(&h, ps.item[1], TS_BACKWARD, f.lane));
  ck_assert_ok(ts_layer_acquire(&h, ps.item[2], TS_BACKWARD, f.lane));
  fails(ts_layer_acquire(&h, ps.item[3], TS_BACKWARD, f.lane), TS_ERR_INTERNAL,
        "reverse order");
  fails(ts_parallel_end(d, NULL, f.lane), TS_ERR_INTERNAL,
        "layer.11.weight got no gradient in step 1");
  fails(ts_parallel_stash(d, true), TS_ERR_DECK, "in_backward");
  stop();
}
