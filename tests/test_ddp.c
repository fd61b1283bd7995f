/* test_ddp.c - buckets, reductions, the optimizer in backward.
 * ranks: 1 2 4 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dense/ddp.h"
#include "harness.h"

static ts_config config(char *kind, char *schedule) {
  ts_config c = {0};
  c.optimizer.base = (ts_optim_config){.kind = kind,
                                       .lr = 0.1,
                                       .eps = NAN,
                                       .beta1 = NAN,
                                       .beta2 = NAN,
                                       .momentum = NAN,
                                       .eta = NAN,
                                       .weight_decay = NAN};
  c.optimizer.in_backward = true;
  c.optimizer.schedule = schedule;
  c.dense.bucket_mb = 25;
  return c;
}

static char sgd[] = "sgd", constant[] = "constant", adam[] = "adam";

START_TEST(bucket_layouts) {
  /* 8 parameters of 4 MiB; a bucket closes once it holds its size. */
  const double caps[] = {0, 25, 8};
  const int want[] = {2, 2, 4};
  ts_fixture f;
  ts_kernels k;
  ts_fixture_start(&f, true, 1);
  ck_assert_ok(ts_kernels_fill(&k, "host", NULL));
  for (int i = 0; i < 3; i++) {
    ts_params ps = {0};
    ts_ddp *d;
    ts_config c = config(sgd, constant);
    c.dense.bucket_mb = caps[i];
    for (int p = 0; p < 8; p++) {
      ts_param *q;
      ck_assert_ok(ts_params_add(&ps, f.device, &q, "p", 1024, 1024));
    }
    ck_assert_ok(ts_ddp_create(&d, &ps, &c, f.device, &k, f.comm));
    ck_assert_all(ts_ddp_stat_of(d).n_buckets == want[i]);
    /* Gradients are views into buckets: neighbours in backward order. */
    ck_assert_ptr_eq(ps.item[6]->grad, ps.item[7]->grad + (1 << 20));
    ts_ddp_destroy(d);
    ts_params_reset(&ps);
  }
  ts_fixture_stop(&f);
}
END_TEST

enum { N_PARAMS = 5, N = 3000 };

/* Three steps of made-up gradients; the weights' bits go to OUT. */
static void run(ts_config *c, bool serial, float *out, double *norm) {
  ts_fixture f;
  ts_kernels k;
  ts_params ps = {0};
  ts_ddp *d;
  ts_fixture_start(&f, serial, 1);
  ck_assert_ok(ts_kernels_fill(&k, "host", NULL));
  for (int p = 0; p < N_PARAMS; p++) {
    ts_param *q;
    ck_assert_ok(ts_params_add(&ps, f.device, &q, "p", N, 0));
    ts_param_init_uniform(q, 3, 1.0);
  }
  ck_assert_ok(ts_ddp_create(&d, &ps, c, f.device, &k, f.comm));
  for (int step = 1; step <= 3; step++) {
    ck_assert_ok(ts_ddp_begin(d, step, true));
    for (int p = N_PARAMS - 1; p >= 0; p--) {
      for (int i = 0; i < N; i++)
        ps.item[p]->grad[i] =
            (float)sin(step * 1.3 + p * 7 + i * 0.01) / (float)f.size;
      ck_assert_ok(ts_ddp_ready(d, ps.item[p], f.lane));
    }
    ck_assert_ok(ts_ddp_end(d, norm, f.lane));
    ck_assert_ok(ts_lane_sync(f.lane));
  }
  for (int p = 0; p < N_PARAMS; p++)
    memcpy(out + p * N, ps.item[p]->w, N * sizeof *out);
  ts_ddp_destroy(d);
  ts_params_reset(&ps);
  ts_fixture_stop(&f);
}

static float a[N_PARAMS * N], b[N_PARAMS * N];

START_TEST(in_backward_equals_a_separate_step) {
  ts_config c = config(adam, constant);
  c.dense.bucket_mb = 0.02;
  run(&c, false, a, NULL);
  c.optimizer.in_backward = false;
  run(&c, false, b, NULL);
  ck_assert_all(memcmp(a, b, sizeof a) == 0);
  c.dense.bucket_mb = 25;
  run(&c, true, b, NULL);
  ck_assert_all(memcmp(a, b, sizeof a) == 0);
}
END_TEST

START_TEST(sums_over_ranks_are_the_mean_of_all) {
  ts_config c = config(sgd, constant);
  run(&c, false, a, NULL);
  /* The same gradients, undivided, by hand. */
  ts_params ps = {0};
  ts_fixture f;
  ts_fixture_start(&f, true, 1);
  for (int p = 0; p < N_PARAMS; p++) {
    ts_param *q;
    ck_assert_ok(ts_params_add(&ps, f.device, &q, "p", N, 0));
    ts_param_init_uniform(q, 3, 1.0);
    for (int i = 0; i < N; i += 17) {
      double w = q->w[i];
      for (int step = 1; step <= 3; step++)
        w -= 0.1 * sin(step * 1.3 + p * 7 + i * 0.01);
      ck_assert_float_eq_tol(a[p * N + i], (float)w, 1e-5f);
    }
  }
  ts_params_reset(&ps);
  ts_fixture_stop(&f);
}
END_TEST

START_TEST(clipping_by_the_global_norm) {
  ts_config c = config(sgd, constant);
  double norm = 0, sum = 0;
  c.optimizer.clip_norm = 0.5;
  run(&c, false, a, &norm);
  for (int p = 0; p < N_PARAMS; p++)
    for (int i = 0; i < N; i++) sum += pow(sin(3 * 1.3 + p * 7 + i * 0.01), 2);
  ck_assert_all(fabs(norm - sqrt(sum)) < 1e-3 * norm);
  c.optimizer.clip_norm = 0;
  run(&c, false, b, NULL);
  ck_assert_all(memcmp(a, b, sizeof a) != 0);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("ddp");
  TCase *t = tcase_create("ddp");
  tcase_add_test(t, bucket_layouts);
  tcase_add_test(t, in_backward_equals_a_separate_step);
  tcase_add_test(t, sums_over_ranks_are_the_mean_of_all);
  tcase_add_test(t, clipping_by_the_global_norm);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
