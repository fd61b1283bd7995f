/* test_fully_sharded_numbers.c - weights that fully_sharded comes to, beside
 * ddp's and those by hand. ranks: 1 2 3 4  fake: 1 2  emulated: 1 seconds: 400
 */
#include <math.h>
#include <string.h>

#include "tests/dense/fully_sharded_toy.h"

enum { N = 1 << 20 };
static float a[N], b[N];

static char adam[] = "adam", adagrad[] = "adagrad", linear[] = "linear",
            nesterov[] = "nesterov", rmsprop[] = "rmsprop", lion[] = "lion";

/* Everything that must not matter, beside ddp: the same bits. */
TS_TEST(as_ddp) {
  static const int rows[] = {9, 1, 64, 5, 3, 130};
  static char *const kinds[] = {adam, nesterov, rmsprop, lion, adagrad};
  for (int i = 0; i < 24; i++) {
    toy_spec s = toy_small("ddp"), f = toy_small("fully_sharded");
    toy_spec *const both[] = {&s, &f};
    const int reshard[] = {0, 1, 2};
    if (i % 3 == 2 && ts_mpi_size() % 2) continue;
    for (int k = 0; k < 2; k++) {
      toy_spec *x = both[k];
      x->n_layers = 6;
      x->rows_of = rows;
      x->cols = 33;
      x->late = i % 2;
      x->serial = i % 5 == 0;
      x->config.optimizer.base.kind = kinds[i / 3 % 5];
      x->config.optimizer.base.clip_value = i % 2 ? 0.01 : 0;
      x->config.optimizer.schedule = linear;
      x->config.optimizer.schedule_steps = 20;
      x->config.optimizer.in_backward = i / 2 % 2;
    }
    f.config.dense.reshard = reshard[i % 3];
    f.config.dense.reduce_inputs = 1 + i % 2;
    f.config.dense.post_optimizer_event = i / 4 % 2;
    if (i / 8 == 1) toy_lists(&f.config, 6, 2, 2);
    if (i / 8 == 2) toy_lists(&f.config, 6, 4, 1);
    f.comm_ms = i % 7 == 1 ? 0.5 : 0;
    toy_train(&s, 10, a);
    toy_train(&f, 10, b);
    ck_assert_msg(ts_test_all(toy_same(&s, a, b)), "case %d", i);
  }
}

/* The mean of all ranks, as one rank would have it: 1e-6. */
TS_TEST(as_by_hand) {
  toy_spec s = toy_small("fully_sharded");
  float *w = b;
  toy_train(&s, 0, w);
  toy_train(&s, 10, a);
  int64_t at = 0;
  for (int p = 0; p < 2 * s.n_layers; p++)
    for (int64_t i = 0; i < (p % 2 ? s.rows : s.rows * s.cols); i++, at++) {
      double x = w[at];
      for (int step = 1; step <= 10; step++)
        x -= 0.1 * toy_gradient(step, p, i);
      ck_assert_msg(fabs(a[at] - x) < 1e-6 * fmax(1, fabs(x)), "%d %d: %g %g",
                    p, (int)i, (double)a[at], x);
    }
}

/* Parts of 1/4, 2/4 and 3/4: one and a half wholes; one of 6/4. */
TS_TEST(micro_batches_add_up) {
  for (int in_backward = 0; in_backward < 2; in_backward++) {
    toy_spec s = toy_small("fully_sharded");
    static toy t;
    s.late = true;
    s.config.optimizer.in_backward = in_backward;
    s.config.run.accumulate = 3;
    toy_start(&t, &s);
    toy_weights(&t, b);
    for (int step = 1; step <= 4; step++)
      for (int micro = 0; micro < 3; micro++) {
        toy_forward(&t);
        toy_backward(&t, step, micro == 2, micro, NULL);
      }
    const int64_t n = toy_weights(&t, a);
    toy_stop(&t);
    int64_t at = 0;
    for (int p = 0; at < n; p++) {
      const int64_t of_p = p == 2 * s.n_layers ? 7
                           : p % 2             ? s.rows
                                               : s.rows * s.cols;
      for (int64_t i = 0; i < of_p; i++, at++) {
        double x = b[at];
        for (int step = 1; step <= 4; step++)
          x -= 0.15 * toy_gradient(step, p, i);
        ck_assert_msg(fabs(a[at] - x) < 2e-6, "%d %d: %g %g", p, (int)i,
                      (double)a[at], x);
      }
    }
  }
}

/* The norm is that of all gradients, once, whoever has them. */
TS_TEST(clipping_by_the_global_norm) {
  double norm[2] = {0};
  for (int k = 0; k < 2; k++) {
    toy_spec s = toy_small(k ? "fully_sharded" : "ddp");
    static toy t;
    s.late = true;
    s.config.optimizer.clip_norm = 0.5;
    toy_start(&t, &s);
    for (int step = 1; step <= 5; step++) {
      toy_forward(&t);
      toy_backward(&t, step, true, -1, &norm[k]);
    }
    toy_weights(&t, k ? b : a);
    toy_stop(&t);
  }
  const toy_spec s = {.n_layers = 4, .rows = 5, .cols = 3, .late = true};
  ck_assert_all(norm[0] > 1 && fabs(norm[0] - norm[1]) < 1e-6 * norm[0]);
  for (int64_t i = 0; i < toy_n_weights(&s); i++)
    ck_assert_msg(fabsf(a[i] - b[i]) < 1e-6f, "%g %g", (double)a[i],
                  (double)b[i]);
}

/* Stashed gradients are applied a step later. */
TS_TEST(stashed_gradients) {
  for (int k = 0; k < 2; k++) {
    toy_spec s = toy_small(k ? "fully_sharded" : "ddp");
    static toy t;
    s.late = true;
    s.config.optimizer.in_backward = false;
    toy_start(&t, &s);
    for (int step = 1; step <= 5; step++) {
      ck_assert_ok(ts_parallel_stash(t.parallel, step >= 2));
      toy_step(&t, step);
    }
    ck_assert_ok(ts_parallel_unstash(t.parallel, 5, t.lane));
    toy_weights(&t, k ? b : a);
    toy_stop(&t);
  }
  const toy_spec s = {.n_layers = 4, .rows = 5, .cols = 3, .late = true};
  ck_assert_all(toy_same(&s, a, b));
}

/* A gradient that is not finite is seen in the step that keeps it. */
TS_TESTS(infinite_stash, 0, 2) {
  toy_spec s = toy_small(_i ? "fully_sharded" : "ddp");
  static toy t;
  s.config.optimizer.in_backward = false;
  s.infinite = 3;
  toy_start(&t, &s);
  for (int step = 1; step <= 4; step++) {
    ck_assert_ok(ts_parallel_stash(t.parallel, step >= 2));
    toy_step(&t, step);
    toy_sync(&t);
    const bool all = ts_test_all(ts_parallel_stash_finite(t.parallel));
    ck_assert_all(all == (step != 3));
  }
  toy_stop(&t);
}

/* Forward alone: no gradients, no optimizer, no memory for them; weights that
 * change from outside are seen. */
TS_TEST(evaluation) {
  toy_spec s = toy_small("fully_sharded");
  static toy t;
  s.evaluation = s.check = true;
  toy_start(&t, &s);
  ck_assert_ptr_null(t.fs->reduce_comm);
  ck_assert_int_eq(t.fs->n_slots, 3);
  toy_weights(&t, a);
  t.want = a;
  toy_forward(&t);
  toy_forward(&t);
  toy_sync(&t);
  for (int64_t i = 0; i < toy_n_weights(&s); i++) a[i] *= 2;
  for (int i = 0; i < s.n_layers; i++)
    for (int k = 0; k < 2; k++) {
      const ts_param_piece x =
          ts_parallel_piece(t.parallel, k ? t.b[i] : t.W[i]);
      const int64_t n = x.n_rows * (k ? 1 : s.cols);
      float *w = ts_test_borrow(t.device, x.w, (size_t)n * sizeof *w);
      for (int64_t e = 0; e < n; e++) w[e] *= 2;
      ts_test_return(t.device, x.w, w, (size_t)n * sizeof *w, true);
    }
  const uint64_t version = t.W[0]->version;
  ts_parallel_touch(t.parallel);
  ck_assert_int_eq(t.W[0]->version, version + 1);
  toy_forward(&t);
  toy_sync(&t);
  ck_assert_all(t.bad == 0);
  toy_stop(&t);
}

/* However slow the optimizer is, the next pass has its weights. */
TS_TEST(gathered_after_the_optimizer) {
  for (int i = 0; i < 4; i++) {
    toy_spec s = toy_small("fully_sharded");
    static toy t;
    s.config.optimizer.in_backward = i % 2;
    s.config.dense.post_optimizer_event = i / 2;
    toy_train(&s, 1, a);
    s.check = true;
    s.optimizer_ms = 4;
    toy_start(&t, &s);
    toy_step(&t, 1);
    t.want = a;
    toy_forward(&t);
    toy_sync(&t);
    ck_assert_all(t.bad == 0);
    toy_stop(&t);
  }
}

/* Who keeps copies of weights sees each update, on ranks without rows, too. */
TS_TEST(versions_grow) {
  toy_spec s = toy_small("fully_sharded");
  static toy t;
  s.rows = 1;
  toy_start(&t, &s);
  const uint64_t version = t.W[2]->version;
  toy_step(&t, 1);
  toy_forward(&t);
  toy_step(&t, 2);
  toy_sync(&t);
  ck_assert_all(t.W[2]->version == version + 2);
  toy_stop(&t);
}
