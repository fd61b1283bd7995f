/* test_dense.c - schedules against plain formulas; options that there are not.
 * The kernels: tests/kernels/interact.c, loss.c, flat.c. */
#include <math.h>

#include "dense/optim.h"
#include "tests/support/harness.h"

TS_TEST(options_that_do_not_exist_are_refused) {
  char kind[] = "adagrad";
  ts_optim_config c = {.kind = kind,
                       .lr = 0.1,
                       .eps = NAN,
                       .beta1 = NAN,
                       .beta2 = NAN,
                       .momentum = 0.9,
                       .weight_decay = NAN};
  ck_assert_int_eq(ts_dense_optim_check(&c, "x"), TS_ERR_DECK);
  ts_err_clear();
}

TS_TEST(schedules) {
  ts_config c = {0};
  char kinds[][16] = {"constant",     "linear",     "cosine",
                      "inverse_sqrt", "polynomial", "step"};
  c.optimizer.warmup = 10;
  c.optimizer.schedule_steps = 110;
  c.optimizer.power = 2;
  const double want60[] = {1, 0.5, 0.5, sqrt(10.0 / 60.0), 0.25, 1};
  for (int i = 0; i < 6; i++) {
    c.optimizer.schedule = kinds[i];
    if (i == 5) c.optimizer.power = 0.5;
    ck_assert_double_eq_tol(ts_schedule_factor(&c, 5), 0.5, 1e-12);
    ck_assert_double_eq_tol(ts_schedule_factor(&c, 60), want60[i], 1e-12);
  }
  ck_assert_double_eq_tol(ts_schedule_factor(&c, 10 + 110), 0.5, 1e-12);
  c.optimizer.schedule = kinds[1];
  c.optimizer.floor = 0.1;
  ck_assert_double_eq_tol(ts_schedule_factor(&c, 500), 0.1, 1e-12);
}

TS_TEST(a_decay_without_its_length_is_refused) {
  char kinds[][16] = {"linear", "cosine", "polynomial", "step"};
  ts_config c = {0};
  for (int i = 0; i < 4; i++) {
    c.optimizer.schedule = kinds[i];
    c.optimizer.schedule_steps = 0;
    ck_assert_int_eq(ts_schedule_check(&c), TS_ERR_DECK);
    ts_err_clear();
    c.optimizer.schedule_steps = 100;
    ck_assert_ok(ts_schedule_check(&c));
  }
}
