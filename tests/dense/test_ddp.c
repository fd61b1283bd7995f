/* test_ddp.c - buckets, reductions, the optimizer in backward.
 * ranks: 1 2 3 4  fake: 1 2  emulated: 1 2 */
#include "dense/ddp.h"
#include "tests/dense/ddp_rig.h"

/* Any name, like that of its group. */
static ts_param *add(const char *name, int rows, int cols) {
  ts_param *q;
  ck_assert_ok(ts_params_add(&ps, f.device, &q, name, name, rows, cols));
  return q;
}

/* Parameters in backward order, each with its bucket and where its gradient
 * begins there; buckets with their floats and slots (L: late); slots. */
static void tell(char *to) {
  const ts_ddp *x = (const ts_ddp *)d;
  for (int32_t s = 0; s < ps.n; s++)
    to += sprintf(to, "%s%d+%d ", x->place[s]->name, x->bucket_of[s],
                  (int)x->offset[s]);
  for (int32_t i = 0; i < x->n_buckets; i++) {
    const ts_bucket *y = &x->buckets[i];
    to += sprintf(to, "[%d,%d) %d %d%s, ", y->first, y->end, (int)y->n, y->slot,
                  y->late ? "L" : "");
    ck_assert(!x->kept || y->grads == x->kept + y->at);
    ck_assert(y->slot < 0 || y->fresh == x->slots[y->slot].grads);
    for (int32_t s = y->first; y->slot < 0 && s < y->end; s++)
      ck_assert_ptr_eq(x->place[s]->grad, y->fresh + x->offset[s]);
  }
  for (int32_t i = 0; i < x->n_slots; i++)
    to += sprintf(to, "slot %d, ", (int)x->slots[i].n);
  ck_assert_int_eq(x->n_kept, 348224);
}

static const char *const layouts[] = {
    "c0+0 c0+48 b0+91 b0+96 a1+0 a2+0 d3+0 "
    "[0,4) 300096 -1, [4,5) 80 -1, [5,6) 48000 -1, [6,7) 48 -1L, ",
    "c0+0 c0+48 b0+91 b0+96 a0+300096 a0+300176 d1+0 "
    "[0,6) 348176 -1, [6,7) 48 -1L, ",
    "c0+0 c0+48 b1+11 b1+16 a2+0 a3+0 d4+0 [0,2) 80 0, [2,4) 300016 1, "
    "[4,5) 80 2, [5,6) 48000 0, [6,7) 48 -1L, "
    "slot 48000, slot 300016, slot 80, ",
    "c0+0 c0+48 b0+91 b0+96 a1+0 a2+0 d3+0 "
    "[0,4) 300096 0, [4,5) 80 1, [5,6) 48000 2, [6,7) 48 -1L, "
    "slot 300096, slot 80, slot 48000, ",
    "c0+0 c0+48 b1+11 b1+16 a2+0 a2+80 d3+0 "
    "[0,2) 80 0, [2,4) 300016 1, [4,6) 48080 2, [6,7) 48 -1L, "
    "slot 80, slot 300016, slot 48080, ",
    "c0+0 c0+48 b0+91 b0+96 a1+0 a1+80 d2+0 "
    "[0,4) 300096 0, [4,6) 48080 1, [6,7) 48 -1L, slot 300096, slot 48080, "};

/* Their layouts on one rank and on several. */
static const struct {
  double mb;
  int accumulate;
  bool in_backward, kept, late;
  int layout[2];
} decks[] = {{0, 1, false, true, false, {0, 0}},
             {25, 1, false, true, false, {1, 1}},
             {0, 1, true, false, true, {2, 3}},
             {0.001, 1, true, false, true, {4, 5}},
             {0.001, 2, false, true, true, {4, 5}}};

TS_TESTS(layouts_of_buckets, 0, sizeof decks / sizeof *decks) {
  char says[2048];
  const ts_ddp *x;
  rig_start(true);
  deck("sgd", 0.1);
  c.dense.bucket_mb = decks[_i].mb;
  c.run.accumulate = decks[_i].accumulate;
  c.optimizer.in_backward = decks[_i].in_backward;
  add("d", 33, 0)->late = true;
  add("a", 600, 80)->below = true;
  add("a", 70, 0);
  add("b", 600, 500);
  add("b", 5, 0);
  add("c", 17, 0);
  add("c", 16, 3);
  start();
  tell(says);
  x = (const ts_ddp *)d;
  ck_assert(!x->kept != decks[_i].kept && !x->late != decks[_i].late);
  stop();
  rig_stop();
  ck_assert_str_eq(says, layouts[decks[_i].layout[f.size > 1]]);
}

enum { N_PARAMS = 5, N = 3000 };

/* A run's settings beside the deck: micro-batches of a step, and whether the
 * host waits for each step or runs ahead of the lanes. */
typedef struct ts_run {
  bool serial, ahead;
  int micro;
} ts_run;

typedef struct ts_fill {
  float *grad;
  int p, step, micro, parts;
} ts_fill;

/* Made-up gradients: of micro-batches the parts add up to the whole. */
static ts_err fill(void *arg, ts_lane *lane) {
  (void)lane;
  const ts_fill *x = arg;
  float grad[N];
  for (int i = 0; i < N; i++) {
    const double whole = sin(x->step * 1.3 + x->p * 7 + i * 0.01);
    const double odd = 0.25 * (x->micro + 1);
    grad[i] = (float)(x->micro < 0 ? whole : odd * whole) / (float)x->parts;
  }
  return k.put(x->grad, grad, sizeof grad);
}

static void backward(int step, int micro) {
  for (int p = N_PARAMS - 1; p >= 0; p--) {
    ts_param *q = ps.item[p];
    ck_assert_ok(ts_layer_acquire(&h, q, TS_BACKWARD, f.lane));
    const ts_fill arg = {q->grad, p, step, micro, f.size};
    ck_assert_ok(ts_lane_submit(f.lane, "fill", fill, &arg, sizeof arg));
    ck_assert_ok(ts_layer_ready(&h, q, f.lane));
    ck_assert_ok(ts_layer_release(&h, q, TS_BACKWARD, f.lane));
  }
}

/* Three steps; the weights go to OUT. */
static void run(ts_run r, float *out, double *norm) {
  rig_start(r.serial);
  for (int p = 0; p < N_PARAMS; p++)
    ck_assert_ok(ts_param_init_uniform(add_layer(p, N, 0), 3, 1.0));
  c.run.accumulate = r.micro ? r.micro : 1;
  start();
  const int64_t version = (int64_t)ps.item[0]->version;
  for (int step = 1; step <= 3; step++) {
    for (int m = 0; m < r.micro - 1; m++) {
      ck_assert_ok(ts_parallel_begin(d, step, false));
      backward(step, m);
      ck_assert_ok(ts_parallel_end(d, NULL, f.lane));
    }
    ck_assert_ok(ts_parallel_begin(d, step, true));
    backward(step, r.micro ? r.micro - 1 : -1);
    ck_assert_ok(ts_parallel_end(d, norm, f.lane));
    if (!r.ahead) ck_assert_ok(ts_lane_sync(f.lane));
  }
  ck_assert_ok(ts_lane_sync(f.lane));
  ck_assert_all(ts_parallel_stat_of(d).n_reductions ==
                (f.size > 1 ? 3 * ts_parallel_stat_of(d).n_buckets : 0));
  /* Who keeps copies of weights has to see that they changed. */
  ck_assert_all((int64_t)ps.item[0]->version == version + 3);
  for (int p = 0; p < N_PARAMS; p++)
    ts_test_get(f.device, out + p * N, ps.item[p]->w, N * sizeof *out);
  stop();
  rig_stop();
}

static float a[N_PARAMS * N], b[N_PARAMS * N];

TS_TEST(in_backward_equals_a_separate_step) {
  deck("adam", 0.1);
  c.dense.bucket_mb = 0.01; /* one each */
  run((ts_run){0}, a, NULL);
  c.optimizer.in_backward = false;
  run((ts_run){0}, b, NULL);
  ck_assert_all(memcmp(a, b, sizeof a) == 0);
  c.dense.bucket_mb = 25;
  run((ts_run){.serial = true}, b, NULL);
  ck_assert_all(memcmp(a, b, sizeof a) == 0);
}

/* Schedule and step numbers are those of the step, however far ahead the
 * host is. */
TS_TEST(a_host_that_runs_ahead_changes_nothing) {
  static char linear[] = "linear";
  deck("adam", 0.1);
  c.optimizer.schedule = linear;
  c.optimizer.schedule_steps = 4;
  for (int i = 0; i < 2; i++) {
    c.optimizer.clip_norm = i ? 0.5 : 0;
    run((ts_run){.serial = true}, a, NULL);
    run((ts_run){.ahead = true}, b, NULL);
    ck_assert_all(memcmp(a, b, sizeof a) == 0);
  }
}

/* W after three steps of plain sgd, by gradients cut to MOST. */
static double by_hand(double w, int p, int i, double rate, double most) {
  for (int step = 1; step <= 3; step++)
    w -= rate * fmax(-most, fmin(most, sin(step * 1.3 + p * 7 + i * 0.01)));
  return w;
}

/* Initial weights of parameter P into W. */
static void first_weights(float *w, int p) {
  ts_param q = {.index = p, .n = N, .w = w};
  ck_assert_ok(ts_param_init_uniform(&q, 3, 1.0));
}

static void check_by_hand_clipped(const float *got, const double *rates,
                                  double most) {
  static float w[N];
  for (int p = 0; p < N_PARAMS; p++) {
    first_weights(w, p);
    for (int i = 0; i < N; i += 17)
      ck_assert_float_eq_tol(got[p * N + i],
                             (float)by_hand(w[i], p, i, rates[p], most), 1e-5f);
  }
}

static void check_by_hand(const float *got, const double *rates) {
  check_by_hand_clipped(got, rates, 1);
}

TS_TEST(sums_over_ranks_are_the_mean_of_all) {
  deck("sgd", 0.1);
  run((ts_run){0}, a, NULL);
  check_by_hand(a, (const double[]){0.1, 0.1, 0.1, 0.1, 0.1});
}

/* Parts of 1/4, 2/4 and 3/4: one and a half wholes. */
TS_TEST(micro_batches_add_up) {
  for (int in_backward = 0; in_backward < 2; in_backward++) {
    deck("sgd", 0.1);
    c.optimizer.in_backward = in_backward;
    c.dense.bucket_mb = 0.01; /* one each */
    run((ts_run){.micro = 3, .ahead = true}, a, NULL);
    check_by_hand(a, (const double[]){0.15, 0.15, 0.15, 0.15, 0.15});
  }
}

TS_TEST(overrides_by_name) {
  deck("sgd", 0.1);
  char three[] = "layer.0[234].*", last[] = "layer.04.weight";
  ts_optim_config other = c.optimizer.base;
  other.kind = NULL;
  ts_optim_override overrides[] = {{three, other}, {last, other}};
  overrides[0].optimizer.lr = 0.01;
  overrides[1].optimizer.lr = 0.5; /* the last match wins */
  c.optimizer.overrides = overrides;
  c.optimizer.n_overrides = 2;
  run((ts_run){0}, a, NULL);
  check_by_hand(a, (const double[]){0.1, 0.1, 0.01, 0.01, 0.5});
}

/* Options that an override lacks come from the deck's optimizer, as far as the
 * kind is the same; the rest from the kind. */
TS_TEST(overrides_inherit) {
  deck("sgd", 0.1);
  char one[] = "one", two[] = "two", adam[] = "adam";
  ts_optim_config same = c.optimizer.base, other = c.optimizer.base;
  same.kind = NULL;
  same.lr = other.lr = NAN;
  other.kind = adam;
  ts_optim_override overrides[] = {{one, same}, {two, other}};
  c.optimizer.base.momentum = 0.7;
  c.optimizer.base.weight_decay = 0.3;
  c.optimizer.base.weight_decay_mode = TS_WD_L2;
  overrides[0].optimizer.weight_decay_mode = TS_WD_L2;
  overrides[1].optimizer.weight_decay_mode = TS_WD_L2;
  c.optimizer.overrides = overrides;
  c.optimizer.n_overrides = 2;
  rig_start(true);
  const ts_param *first = add(one, 4, 4), *second = add(two, 4, 4);
  start();
  const ts_optim_config *o = ts_parallel_optim(d, first);
  ck_assert_str_eq(o->kind, "sgd");
  ck_assert(o->lr == 0.1 && o->momentum == 0.7 && o->weight_decay == 0.3);
  o = ts_parallel_optim(d, second);
  ck_assert_str_eq(o->kind, "adam");
  ck_assert(o->lr == 0.1 && !(o->momentum == 0.7) && o->weight_decay == 0.3);
  stop();
  rig_stop();
}

/* Each of the tables that the deck's optimizer trains may be named. */
TS_TEST(overrides_name_tables) {
  char none[] = "none", sgd[] = "sgd", dlrm[] = "dlrm";
  char names[3][4] = {"t0", "t1", "t2"}, match[] = "sparse_arch.*.tX.weight";
  ts_table_config tables[3];
  deck("sgd", 0.1);
  ts_optim_override override = {match, c.optimizer.base};
  for (int t = 0; t < 3; t++)
    tables[t] = (ts_table_config){.name = names[t],
                                  .optimizer = {.kind = t < 2 ? none : sgd}};
  c.model.kind = dlrm;
  c.tables = tables;
  c.n_tables = 3;
  c.optimizer.overrides = &override;
  c.optimizer.n_overrides = 1;
  rig_start(true);
  for (int t = 0; t < 3; t++) {
    *strchr(match, 'X') = (char)('0' + t);
    const ts_err err = create();
    ck_assert_all(err == (t < 2 ? TS_OK : TS_ERR_DECK));
    if (t < 2) stop();
    ts_err_clear();
    strcpy(match, "sparse_arch.*.tX.weight");
  }
  stop();
  rig_stop();
}

TS_TEST(an_override_that_matches_nothing_is_refused) {
  deck("sgd", 0.1);
  char none[] = "over_arch.*";
  ts_optim_override override = {none, c.optimizer.base};
  c.optimizer.overrides = &override;
  c.optimizer.n_overrides = 1;
  rig_start(true);
  add("dense_arch.0", 4, 4);
  ck_assert_all(create() == TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "over_arch.*"));
  ts_err_clear();
  stop();
  rig_stop();
}

TS_TEST(clipping_by_the_global_norm) {
  deck("sgd", 0.1);
  double norm = 0, sum[4] = {0}, rate[4];
  c.optimizer.clip_norm = 0.5;
  run((ts_run){0}, a, &norm);
  for (int step = 1; step <= 3; step++)
    for (int p = 0; p < N_PARAMS; p++)
      for (int i = 0; i < N; i++)
        sum[step] += pow(sin(step * 1.3 + p * 7 + i * 0.01), 2);
  for (int step = 1; step <= 3; step++)
    rate[step] = 0.1 * 0.5 / (sqrt(sum[step]) + 1e-6);
  ck_assert_all(fabs(norm - sqrt(sum[3])) < 1e-5 * norm);
  for (int p = 0; p < N_PARAMS; p++) {
    first_weights(b, p);
    for (int i = 0; i < N; i += 17) {
      double w = b[i];
      for (int step = 1; step <= 3; step++)
        w -= rate[step] * sin(step * 1.3 + p * 7 + i * 0.01);
      ck_assert_float_eq_tol(a[p * N + i], (float)w, 1e-6f);
    }
  }
}

/* A bound above the norm changes nothing. */
TS_TEST(clipping_never_enlarges) {
  deck("sgd", 0.1);
  c.optimizer.clip_norm = 1e4;
  run((ts_run){0}, a, NULL);
  check_by_hand(a, (const double[]){0.1, 0.1, 0.1, 0.1, 0.1});
}

/* What all ranks and micro-batches add up to is clipped, in backward, too:
 * parts of it would be under the bound.  An override is clipped alike. */
TS_TEST(clipping_by_value) {
  for (int i = 0; i < 4; i++) {
    deck("sgd", 0.1);
    char last[] = "layer.04.weight";
    ts_optim_override override = {last, test_optim("sgd", 0.01)};
    c.optimizer.overrides = &override;
    c.optimizer.n_overrides = 1;
    c.optimizer.base.clip_value = 0.8;
    c.optimizer.in_backward = i % 2;
    c.dense.bucket_mb = 0.01; /* one each */
    run((ts_run){.micro = i / 2 * 3}, a, NULL);
    const double more = i / 2 ? 1.5 : 1; /* of micro-batches */
    check_by_hand_clipped(a,
                          (const double[]){0.1 * more, 0.1 * more, 0.1 * more,
                                           0.1 * more, 0.01 * more},
                          0.8 / more);
  }
}

TS_TEST(two_ways_of_clipping_are_refused) {
  deck("sgd", 0.1);
  c.optimizer.clip_norm = c.optimizer.base.clip_value = 1;
  rig_start(true);
  add("dense_arch.0", 4, 4);
  ck_assert_all(create() == TS_ERR_DECK);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "two ways of clipping"));
  ts_err_clear();
  stop();
  rig_stop();
}

/* Gradients that come twice or never would be wrong sums: errors. */
TS_TEST(gradients_come_once) {
  deck("sgd", 0.1);
  rig_start(true);
  ts_param *q = add("one", 4, 4);
  start();
  ck_assert_ok(ts_parallel_begin(d, 1, true));
  ck_assert_all(ts_parallel_end(d, NULL, f.lane) == TS_ERR_INTERNAL);
  ts_err_clear();
  ck_assert_ok(ts_layer_acquire(&h, q, TS_BACKWARD, f.lane));
  ck_assert_ok(ts_layer_ready(&h, q, f.lane));
  ck_assert_all(ts_layer_ready(&h, q, f.lane) == TS_ERR_INTERNAL);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "one came twice"));
  ts_err_clear();
  ck_assert_ok(ts_parallel_end(d, NULL, f.lane));
  ck_assert_ok(ts_lane_sync(f.lane));
  ck_assert_all(ts_parallel_begin(d, 2, false) == TS_ERR_INTERNAL);
  ts_err_clear();
  stop();
  rig_stop();
}
