/* test_dense.c - schedules against plain formulas, options and sizes.
 * The kernels: tests/kernels/interact.c, loss.c, flat.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "dense/optim.h"
#include "dense/param.h"
#include "tests/support/harness.h"
#include "tests/support/optim_config.h"

/* TAKES has a letter for each option that an optimizer takes: m momentum, e
 * eps, 1 and 2 the betas, a eta.  The numbers are those it has where the deck
 * says nothing, 0 for options that it doesn't take. */
static const struct {
  const char *kind, *takes;
  double momentum, eps, beta1, beta2, eta;
  int n_states;
  const char *state;
  bool norms, decoupled;
} optims[] = {
    {"sgd", "m", 0, 0, 0, 0, 0, 0, "momentum", false, false},
    {"momentum", "m", 0.9, 0, 0, 0, 0, 1, "momentum", false, false},
    {"nesterov", "m", 0.9, 0, 0, 0, 0, 1, "momentum", false, false},
    {"adagrad", "e", 0, 1e-10, 0, 0, 0, 1, "sum", false, false},
    {"rmsprop", "me2", 0, 1e-8, 0, 0.99, 0, 1, "square_avg", false, false},
    {"adam", "e12", 0, 1e-8, 0.9, 0.999, 0, 2, "exp_avg", false, false},
    {"adamw", "e12", 0, 1e-8, 0.9, 0.999, 0, 2, "exp_avg", false, true},
    {"lion", "12", 0, 0, 0.9, 0.99, 0, 1, "exp_avg", false, true},
    {"lamb", "e12", 0, 1e-8, 0.9, 0.999, 0, 2, "exp_avg", true, false},
    {"lars", "ma", 0.9, 0, 0, 0, 0.001, 1, "momentum", true, false},
};

TS_TESTS(options, 0, sizeof optims / sizeof *optims) {
  ts_optim_config c = test_optim(optims[_i].kind, NAN);
  c.weight_decay_mode = TS_WD_L2;
  ck_assert_ok(ts_dense_optim_check(&c, "x"));
  const double got[] = {c.lr,    c.weight_decay, c.momentum, c.eps,
                        c.beta1, c.beta2,        c.eta};
  const double want[] = {1e-3,
                         0,
                         optims[_i].momentum,
                         optims[_i].eps,
                         optims[_i].beta1,
                         optims[_i].beta2,
                         optims[_i].eta};
  for (int k = 0; k < 7; k++)
    ck_assert_double_eq(isnan(got[k]) ? 0 : got[k], want[k]);
  ck_assert_int_eq(c.weight_decay_mode == TS_WD_DECOUPLED,
                   optims[_i].decoupled);
  ck_assert_int_eq(ts_dense_optim_n_states(&c), optims[_i].n_states);
  ck_assert_str_eq(ts_dense_optim_state_name(&c, 0), optims[_i].state);
  ck_assert_int_eq(ts_dense_optim_has_norms(&c), optims[_i].norms);
  for (int k = 0; k < 10; k++) {
    c = test_optim(optims[_i].kind, 0.5);
    double *option[] = {&c.momentum, &c.eps, &c.beta1, &c.beta2, &c.eta};
    *option[k % 5] = k < 5 ? 0.25 : 0; /* a zero asks for nothing */
    const bool fine = k >= 5 || strchr(optims[_i].takes, "me12a"[k % 5]);
    ck_assert_int_eq(ts_dense_optim_check(&c, "x"), fine ? TS_OK : TS_ERR_DECK);
    char says[64];
    snprintf(says, sizeof says, "x: dense optimizer %s has no ", c.kind);
    ck_assert(fine || strstr(ts_err_message(), says));
    ts_err_clear();
    ck_assert(!fine || *option[k % 5] == (k < 5 ? 0.25 : 0));
  }
}

/* Sizes of parameters side by side, on borders of 16; an eighth below. */
TS_TEST(sizes_of_parameters) {
  ts_param part[] = {{.n = 16, .name = "a"},
                     {.n = 17, .below = true, .name = "b"},
                     {.n = 103, .name = "c"}};
  ts_param *item[] = {&part[0], &part[1], &part[2]};
  const ts_params all = {.item = item, .n = 3};
  ck_assert_int_eq(ts_params_count(&all), 136);
  ck_assert_int_eq(ts_params_room(&all), 16 + 32 + 112);
  ck_assert(ts_params_heavy_below(&all));
  part[2].n++;
  ck_assert(!ts_params_heavy_below(&all));
  ck_assert_ptr_eq(ts_params_find(&all, "c"), item[2]);
  ck_assert_ptr_null(ts_params_find(&all, "d"));
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
    ck_assert_double_eq_tol(ts_schedule_factor(&c, 10), 1, 1e-12);
    ck_assert_double_eq_tol(ts_schedule_factor(&c, 60), want60[i], 1e-12);
  }
  ck_assert_double_eq_tol(ts_schedule_factor(&c, 10 + 110), 0.5, 1e-12);
  c.optimizer.schedule = kinds[1];
  c.optimizer.floor = 0.1;
  ck_assert_double_eq_tol(ts_schedule_factor(&c, 500), 0.1, 1e-12);
}

static void refused(const ts_config *c, const char *why) {
  ck_assert(ts_schedule_check(c) == TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), why));
  ts_err_clear();
}

/* Its rise and its fall are cosines; in the middle of each the mean of their
 * ends. */
TS_TEST(one_cycle) {
  ts_config c = {0};
  c.optimizer.schedule = (char[]){"one_cycle"};
  c.optimizer.warmup = 10;
  c.optimizer.schedule_steps = 110;
  c.optimizer.floor = 1e-5;
  const double want[][2] = {{0, 0.04}, {5, 0.52},   {10, 1},
                            {60, 0.5}, {110, 1e-5}, {200, 1e-5}};
  for (int i = 0; i < 6; i++)
    ck_assert_double_eq_tol(ts_schedule_factor(&c, (int64_t)want[i][0]),
                            want[i][1], 1e-12);
  ck_assert_ok(ts_schedule_check(&c));
  c.optimizer.schedule_steps = 10;
  refused(&c, "after the warm-up");
  c.optimizer.schedule = (char[]){"plateau"};
  c.optimizer.power = 1;
  refused(&c, "under 1");
  c.optimizer.power = 0.5;
  ck_assert_ok(ts_schedule_check(&c));
}

TS_TEST(a_decay_without_its_length_is_refused) {
  char kinds[][16] = {"linear", "cosine", "polynomial", "step"};
  ts_config c = {0};
  for (int i = 0; i < 4; i++) {
    c.optimizer.schedule = kinds[i];
    c.optimizer.schedule_steps = 0;
    ck_assert_int_eq(ts_schedule_check(&c), TS_ERR_DECK);
    ts_err_clear();
    c.optimizer.schedule_steps = i == 3 ? 1 : 100;
    ck_assert_ok(ts_schedule_check(&c));
    c.optimizer.warmup = i == 3 ? 100 : 99;
    ck_assert_ok(ts_schedule_check(&c));
    c.optimizer.warmup = 100;
    ck_assert_int_eq(ts_schedule_check(&c), i == 3 ? TS_OK : TS_ERR_DECK);
    ts_err_clear();
    c.optimizer.warmup = 0;
  }
}
