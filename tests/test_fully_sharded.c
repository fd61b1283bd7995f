/* test_fully_sharded.c - shards, orders, counts, memory and numbers of the
 * strategy fully_sharded.
 * ranks: 1 2 3 4  fake: 1 2
 * seconds: 400 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fs_toy.h"

enum { N = 1 << 20 };
static float a[N], b[N];

static toy_spec small(const char *parallel) {
  return (toy_spec){
      .n_layers = 4, .rows = 5, .cols = 3, .config = toy_config(parallel)};
}

static void train(const toy_spec *s, int steps, float *out) {
  static toy t;
  toy_start(&t, s);
  for (int i = 1; i <= steps; i++) toy_step(&t, i);
  toy_weights(&t, out);
  toy_stop(&t);
}

static int64_t n_weights(const toy_spec *s) {
  int64_t n = 0;
  for (int i = 0; i < s->n_layers; i++)
    n += (s->rows_of ? s->rows_of[i] : s->rows) * (s->cols + 1);
  return n + (s->late ? 7 : 0);
}

static bool same(const toy_spec *s, const float *x, const float *y) {
  return !memcmp(x, y, (size_t)n_weights(s) * sizeof *x);
}

/* ---- shards -------------------------------------------------------------- */

/* Rows as torch.chunk gives them: rank 0 has 3 of 5 on 2 ranks, 2 on 4, where
 * the last rank has none. */
START_TEST(shards_are_chunks) {
  static const int rows[] = {1, 5, 8};
  toy_spec s = small("fully_sharded");
  static toy t;
  s.n_layers = 3;
  s.rows_of = rows;
  toy_start(&t, &s);
  const int w = t.fs->n_ranks, r = t.fs->rank;
  for (int i = 0; i < 3; i++) {
    const int c = (rows[i] + w - 1) / w;
    const int row0 = c * r < rows[i] ? c * r : rows[i];
    const int n = rows[i] - row0 < c ? rows[i] - row0 : c;
    const ts_param_piece x = ts_parallel_piece(t.parallel, t.W[i]);
    const ts_param_piece y = ts_parallel_piece(t.parallel, t.b[i]);
    ck_assert_all(!x.replicated && x.row0 == row0 && x.n_rows == n);
    ck_assert_all(y.row0 == row0 && y.n_rows == n);
    ck_assert(t.W[i]->w == NULL); /* nobody has the whole */
  }
  static const int64_t on_four[] = {2, 2, 1, 0}, on_two[] = {3, 2};
  const int64_t n = ts_parallel_piece(t.parallel, t.W[1]).n_rows;
  if (w == 4) ck_assert_all(n == on_four[r]);
  if (w == 2) ck_assert_all(n == on_two[r]);
  toy_stop(&t);
}
END_TEST

static void spoil(const ts_fs *d, float *x, int64_t n) {
  const float bad = NAN;
  for (int64_t i = 0; i < n; i++)
    ts_test_put(d->base.spec.device, x + i, &bad, sizeof bad);
}

static void poison(ts_fs *d) {
  spoil(d, d->slot_memory, d->n_slots * d->slot_n);
  for (int32_t g = 0; g < d->n_groups; g++)
    for (int32_t k = 0; k < d->groups[g].n_parts; k++) {
      const ts_fs_part *p = &d->groups[g].parts[k];
      spoil(d, p->w + p->n_rows * p->width, (p->chunk - p->n_rows) * p->width);
    }
}

/* Gathered is what was cut, in every layer of both passes; initial values are
 * those of a whole model; padding is never read. */
START_TEST(gathered_is_what_was_cut) {
  static const int rows[] = {1, 5, 8, 7};
  for (int reshard = 0; reshard < 3; reshard++) {
    toy_spec s = small("ddp"), f = small("fully_sharded");
    static toy t;
    s.rows_of = f.rows_of = rows;
    f.check = true;
    train(&s, 0, a);
    f.config.dense.reshard = reshard;
    if (reshard == 2 && ts_mpi_size() % 2) continue;
    toy_start(&t, &f);
    poison(t.fs);
    t.want = a;
    toy_step(&t, 1);
    toy_sync(&t);
    ck_assert_all(t.bad == 0);
    toy_weights(&t, b);
    toy_stop(&t);
    train(&s, 1, a);
    ck_assert_all(same(&s, a, b));
  }
}
END_TEST

/* ---- order --------------------------------------------------------------- */

typedef struct order_case {
  int forward_k, backward_k;
  const char *want;
} order_case;

static const char forward_default[] =
    "U1 R1 U2 R2 U3 R3 U4 R4 U5 R5 U6 R6 U7 R7";
static const char backward_default[] =
    "U7 U6 R7 U5 R6 U4 R5 U3 R4 U2 R3 U1 R2 R1";

static const order_case forwards[] = {
    {0, 0, forward_default},
    {1, 0, "U1 U2 R1 U3 R2 U4 R3 U5 R4 U6 R5 U7 R6 R7"},
    {2, 0, "U1 U2 U3 R1 U4 R2 U5 R3 U6 R4 U7 R5 R6 R7"},
    {4, 0, "U1 U2 U3 U4 U5 R1 U6 R2 U7 R3 R4 R5 R6 R7"}};
static const order_case backwards[] = {
    {0, 0, backward_default},
    {0, 1, backward_default},
    {0, 2, "U7 U6 U5 R7 U4 R6 U3 R5 U2 R4 U1 R3 R2 R1"}};

static toy_spec seven(int forward_k, int backward_k) {
  toy_spec s = small("fully_sharded");
  s.n_layers = 7;
  toy_lists(&s.config, 7, forward_k, backward_k);
  return s;
}

START_TEST(orders) {
  for (int i = 0; i < 4 + 3; i++) {
    const order_case *c = i < 4 ? &forwards[i] : &backwards[i - 4];
    const toy_spec s = seven(c->forward_k, c->backward_k);
    static toy t;
    toy_start(&t, &s);
    for (int step = 1; step <= 2; step++) { /* the second as the first */
      toy_forget(&t);
      toy_forward(&t);
      ck_assert_str_eq(t.events, i < 4 ? c->want : forward_default);
      toy_forget(&t);
      toy_backward(&t, step, true, -1, NULL);
      ck_assert_str_eq(t.events, i < 4 ? backward_default : c->want);
    }
    toy_sync(&t);
    toy_stop(&t);
  }
}
END_TEST

/* An empty list is the default again; a list is for its layer alone; what is
 * there already is not gathered twice. */
START_TEST(lists_replace_the_default) {
  toy_spec s = seven(0, 0);
  static toy t;
  toy_list(&s.config, TS_BACKWARD, 7, (const int[]){5, 6, 5, 7, 0});
  toy_list(&s.config, TS_BACKWARD, 5, (const int[]){3, 0});
  toy_list(&s.config, TS_BACKWARD, 4, (const int[]){1, 0});
  toy_list(&s.config, TS_BACKWARD, 4, (const int[]){0});
  toy_start(&t, &s);
  toy_forward(&t);
  toy_forget(&t);
  toy_backward(&t, 1, true, -1, NULL);
  ck_assert_str_eq(t.events, "U7 U5 U6 R7 R6 U3 R5 U4 R4 U2 R3 U1 R2 R1");
  toy_sync(&t);
  toy_stop(&t);
}
END_TEST

/* Layers that are one group come and go together. */
START_TEST(groups_of_layers) {
  static char first[] = "layer.1", second[] = "layer.2", rest[] = "layer.[567]";
  char *one[] = {first, second}, *two[] = {rest};
  ts_layers_config groups[] = {{{one, 2}}, {{two, 1}}};
  toy_spec s = seven(0, 0), ddp = seven(0, 0);
  static toy t;
  s.config.dense.groups = groups;
  s.config.dense.n_groups = 2;
  toy_start(&t, &s);
  ck_assert_int_eq(ts_parallel_stat_of(t.parallel).n_buckets, 4);
  toy_forward(&t);
  ck_assert_str_eq(t.events, "U1 R1 U3 R3 U4 R4 U5 R5");
  toy_forget(&t);
  toy_backward(&t, 1, true, -1, NULL);
  ck_assert_str_eq(t.events, "U5 U4 R5 U3 R4 U1 R3 R1");
  ck_assert_int_eq(t.n_reduced, 4);
  toy_weights(&t, a);
  toy_stop(&t);
  ddp.config.dense.parallel = (char[]){"ddp"};
  train(&ddp, 1, b);
  ck_assert_all(same(&s, a, b));
}
END_TEST

/* ---- counts -------------------------------------------------------------- */

START_TEST(counts_by_reshard) {
  for (int reshard = 0; reshard <= 4; reshard++) {
    toy_spec s = seven(0, 0);
    static toy t;
    s.config.dense.reshard = reshard;
    if (reshard && ts_mpi_size() % reshard) continue;
    toy_start(&t, &s);
    for (int step = 1; step <= 3; step++) {
      toy_forget(&t);
      toy_forward(&t);
      ck_assert_int_eq(t.n_gathered, 7);
      toy_forget(&t);
      toy_backward(&t, step, true, -1, NULL);
      ck_assert_int_eq(t.n_gathered, reshard == 1 ? 0 : 7);
      ck_assert_int_eq(t.n_reduced, 7);
    }
    toy_sync(&t);
    ck_assert_int_eq(ts_parallel_stat_of(t.parallel).n_reductions, 3 * 7);
    const bool block = reshard > 1 && reshard < t.fs->n_ranks;
    ck_assert_all((t.fs->block_comm != NULL) == block);
    ck_assert_int_eq(ts_comm_stat_of(t.fs->gather_comm).n_ops,
                     3 * (block || reshard == 1 ? 7 : 14));
    if (block) {
      ck_assert_int_eq(ts_comm_size(t.fs->block_comm), reshard);
      ck_assert_int_eq(ts_comm_stat_of(t.fs->block_comm).n_ops, 3 * 7);
    }
    toy_stop(&t);
  }
}
END_TEST

/* Of 7 layers, units of groups, in the order of the host: flats, and flats
 * with what was copied out of them. */
START_TEST(alive_at_once) {
  static const int cases[][6] = {
      /* k forward, backward; forward's flats, with wholes; backward's */
      {0, 0, 2, 2, 1, 2}, {1, 0, 2, 3, 1, 2}, {2, 0, 3, 4, 1, 2},
      {3, 0, 4, 5, 1, 2}, {0, 1, 2, 2, 1, 2}, {0, 2, 2, 2, 2, 3},
      {0, 3, 2, 2, 3, 4}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int *c = cases[i];
    const toy_spec s = seven(c[0], c[1]);
    static toy t;
    toy_start(&t, &s);
    for (int step = 1; step <= 2; step++) {
      toy_forget(&t);
      toy_forward(&t);
      ck_assert_int_eq(t.peak.flats, c[2]);
      ck_assert_int_eq(t.flats_and_wholes, c[3]);
      ck_assert_int_le(t.all, c[0] ? c[0] + 2 : 3);
      toy_forget(&t);
      toy_backward(&t, step, true, -1, NULL);
      ck_assert_int_eq(t.peak.flats, c[4]);
      ck_assert_int_eq(t.flats_and_wholes, c[5]);
      ck_assert_int_le(t.all, c[1] ? c[1] + 3 : 4);
    }
    /* So much memory there is, and no more. */
    const int forward = c[0] ? c[0] + 2 : 3, backward = c[1] ? c[1] + 3 : 4;
    ck_assert_int_eq(t.fs->n_slots, forward > backward ? forward : backward);
    toy_sync(&t);
    toy_stop(&t);
  }
}
END_TEST

/* Bytes beside shards and what is made of shards, at the peak of two steps. */
static int64_t transient(int n_layers, int64_t *unit) {
  toy_spec s = small("fully_sharded");
  static toy t;
  s.n_layers = n_layers;
  s.rows = s.cols = 256;
  toy_start(&t, &s);
  const ts_mem_stat before = ts_mem_stat_of(TS_TAG_DENSE, TS_SPACE_HOST);
  const ts_mem_stat idle = ts_mem_stat_of(TS_TAG_COMM, TS_SPACE_HOST);
  ts_mem_forget_peaks();
  toy_step(&t, 1);
  toy_step(&t, 2);
  toy_sync(&t);
  const ts_mem_stat dense = ts_mem_stat_of(TS_TAG_DENSE, TS_SPACE_HOST);
  const ts_mem_stat comm = ts_mem_stat_of(TS_TAG_COMM, TS_SPACE_HOST);
  ck_assert_int_eq(dense.peak_bytes, before.now_bytes); /* all is there */
  *unit = 4 * t.fs->slot_n;
  const int64_t slots = *unit * t.fs->n_slots;
  toy_stop(&t);
  return slots + comm.peak_bytes - idle.now_bytes;
}

START_TEST(memory_does_not_grow_with_depth) {
  int64_t unit, same_unit;
  if (strcmp(ts_test_backend(), "host") != 0) return; /* counted elsewhere */
  const int64_t four = transient(4, &unit), sixteen = transient(16, &same_unit);
  ck_assert_int_eq(unit, same_unit);
  /* Operations that wait are some hundred bytes each. */
  ck_assert_msg(llabs(sixteen - four) < unit / 2, "%lld, %lld of %lld",
                (long long)four, (long long)sixteen, (long long)unit);
  /* Slots, what a reduction receives, and those. */
  ck_assert_msg(sixteen <= 5 * unit + unit / 2, "%lld of %lld",
                (long long)sixteen, (long long)unit);
}
END_TEST

/* ---- numbers ------------------------------------------------------------- */

static char adam[] = "adam", adagrad[] = "adagrad", linear[] = "linear";

/* Everything that must not matter, beside ddp: the same bits. */
START_TEST(as_ddp) {
  static const int rows[] = {9, 1, 64, 5, 3, 130};
  static char *const kinds[] = {adam, adagrad, adam};
  for (int i = 0; i < 24; i++) {
    toy_spec s = small("ddp"), f = small("fully_sharded");
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
      x->config.optimizer.base.kind = kinds[i % 3];
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
    train(&s, 10, a);
    train(&f, 10, b);
    ck_assert_msg(ts_test_all(same(&s, a, b)), "case %d", i);
  }
}
END_TEST

/* The mean of all ranks, as one rank would have it: 1e-6. */
START_TEST(as_by_hand) {
  toy_spec s = small("fully_sharded");
  float *w = b;
  train(&s, 0, w);
  train(&s, 10, a);
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
END_TEST

/* Parts of 1/4, 2/4 and 3/4: one and a half wholes; one of 6/4. */
START_TEST(micro_batches_add_up) {
  for (int in_backward = 0; in_backward < 2; in_backward++) {
    toy_spec s = small("fully_sharded");
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
END_TEST

/* The norm is that of all gradients, once, whoever has them. */
START_TEST(clipping_by_the_global_norm) {
  double norm[2] = {0};
  for (int k = 0; k < 2; k++) {
    toy_spec s = small(k ? "fully_sharded" : "ddp");
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
  for (int64_t i = 0; i < n_weights(&s); i++)
    ck_assert_msg(fabsf(a[i] - b[i]) < 1e-6f, "%g %g", (double)a[i],
                  (double)b[i]);
}
END_TEST

/* Stashed gradients are applied a step later. */
START_TEST(stashed_gradients) {
  for (int k = 0; k < 2; k++) {
    toy_spec s = small(k ? "fully_sharded" : "ddp");
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
  ck_assert_all(same(&s, a, b));
}
END_TEST

/* A gradient that is not finite is seen in the step that keeps it. */
START_TEST(infinite_stash) {
  toy_spec s = small(_i ? "fully_sharded" : "ddp");
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
END_TEST

/* Forward alone: no gradients, no optimizer, no memory for them; weights that
 * change from outside are seen. */
START_TEST(evaluation) {
  toy_spec s = small("fully_sharded");
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
  for (int64_t i = 0; i < n_weights(&s); i++) a[i] *= 2;
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
END_TEST

/* However slow the optimizer is, the next pass has its weights. */
START_TEST(gathered_after_the_optimizer) {
  for (int i = 0; i < 4; i++) {
    toy_spec s = small("fully_sharded");
    static toy t;
    s.config.optimizer.in_backward = i % 2;
    s.config.dense.post_optimizer_event = i / 2;
    train(&s, 1, a);
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
END_TEST

/* Who keeps copies of weights sees each update, on ranks without rows, too. */
START_TEST(versions_grow) {
  toy_spec s = small("fully_sharded");
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
END_TEST

/* ---- what goes wrong ----------------------------------------------------- */

/* Lists that name what is not used afterwards: gathered for nothing, given
 * back at the end of the pass, and nothing else changes. */
START_TEST(gathered_for_nothing) {
  toy_spec s = seven(0, 0);
  static toy t;
  s.check = true;
  train(&s, 4, a);
  toy_list(&s.config, TS_FORWARD, 3, (const int[]){1, 4, 0});
  toy_list(&s.config, TS_FORWARD, 7, (const int[]){7, 6, 2, 0});
  toy_list(&s.config, TS_BACKWARD, 2, (const int[]){1, 7, 0});
  toy_list(&s.config, TS_BACKWARD, 1, (const int[]){5, 0});
  toy_start(&t, &s);
  for (int step = 1; step <= 4; step++) {
    toy_forget(&t);
    toy_forward(&t);
    if (step == 2) toy_forward(&t); /* an evaluation in between */
    toy_backward(&t, step, true, -1, NULL);
    ck_assert_int_eq(t.n_drained, step == 2 ? 3 + 3 + 2 : 3 + 2);
    ck_assert_int_eq(t.fs->live.flats, 0);
    ck_assert_int_eq(t.fs->live.wholes, 0);
  }
  for (int32_t i = 0; i < t.fs->n_slots; i++) ck_assert(!t.fs->slots[i].taken);
  toy_weights(&t, b);
  ck_assert_all(t.bad == 0);
  toy_stop(&t);
  ck_assert_all(same(&s, a, b));
}
END_TEST

static void refused(const toy_spec *s, const char *words) {
  static toy t;
  ck_assert_all(toy_try(&t, s) == TS_ERR_DECK);
  ck_assert_msg(strstr(ts_err_message(), words) != NULL, "%s: %s", words,
                ts_err_message());
  ts_err_clear();
  toy_stop(&t);
}

START_TEST(decks_that_are_refused) {
  static char unknown[] = "over_arch.9", one[] = "layer.1", three[] = "layer.3",
              bf16[] = "bf16";
  char *apart[] = {one, three}, *none[] = {unknown}, *again[] = {one};
  ts_layers_config groups[] = {{{apart, 2}}, {{again, 1}}};
  ts_prefetch_config list = {one, {none, 1}};
  const char *known = "\"over_arch.9\"; there are: layer.1, layer.2, layer.3, "
                      "layer.4";
  toy_spec s = small("fully_sharded");
  s.config.dense.forward_prefetch = &list;
  s.config.dense.n_forward_prefetch = 1;
  refused(&s, known);
  refused(&s, "dense.forward_prefetch");
  list = (ts_prefetch_config){unknown, {again, 1}};
  refused(&s, known);
  s = small("fully_sharded");
  s.config.dense.groups = groups;
  s.config.dense.n_groups = 1;
  refused(&s, "layer.1 and layer.3 are not neighbours");
  s.config.dense.n_groups = 2;
  refused(&s, "layer.1 is in two groups");
  groups[0].layers = (ts_strings){none, 1};
  refused(&s, known);
  s = small("fully_sharded");
  s.config.dense.reshard = ts_mpi_size() + 1;
  refused(&s, "do not make up");
  s = small("fully_sharded");
  s.config.dense.comm_dtype = bf16;
  refused(&s, "reduces in f32");
}
END_TEST

static void fails(ts_err err, const char *words) {
  ck_assert_all(err == TS_ERR_INTERNAL);
  ck_assert_msg(strstr(ts_err_message(), words) != NULL, "%s: %s", words,
                ts_err_message());
  ts_err_clear();
}

/* Models that do not keep to hooks.h are told, not left to hang or to train
 * on stale gradients. */
START_TEST(misuse) {
  toy_spec s = small("fully_sharded");
  static toy t;
  toy_start(&t, &s);
  const ts_layer_hooks h = ts_parallel_hooks(t.parallel);
  ts_lane *l = t.lane;
  toy_forward(&t);
  fails(ts_layer_release(&h, t.W[0], TS_FORWARD, l), "not acquired");
  fails(ts_layer_acquire(&h, t.W[0], TS_BACKWARD, l), "no backward pass");
  fails(ts_layer_ready(&h, t.W[0], l), "outside its layer");
  fails(ts_parallel_begin(t.parallel, 1, false), "without run.accumulate");
  ck_assert_ok(ts_parallel_begin(t.parallel, 1, true));
  fails(ts_layer_ready(&h, t.W[3], l), "outside its layer");
  ck_assert_ok(ts_layer_acquire(&h, t.W[3], TS_BACKWARD, l));
  fails(ts_layer_acquire(&h, t.W[2], TS_BACKWARD, l), "within layer layer.4");
  fails(ts_layer_release(&h, t.W[2], TS_BACKWARD, l), "not acquired");
  fails(ts_layer_ready(&h, t.W[2], l), "outside its layer");
  ck_assert_ok(ts_layer_ready(&h, t.b[3], l));
  ck_assert_ok(ts_layer_ready(&h, t.W[3], l));
  fails(ts_layer_ready(&h, t.W[3], l), "came twice");
  fails(ts_parallel_end(t.parallel, NULL, l), "got no gradient");
  ck_assert_ok(ts_layer_release(&h, t.W[3], TS_BACKWARD, l));
  fails(ts_layer_acquire(&h, t.W[3], TS_BACKWARD, l), "no backward pass");
  toy_sync(&t);
  toy_stop(&t);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("fully_sharded");
  TCase *t = tcase_create("fully_sharded");
  tcase_add_test(t, shards_are_chunks);
  tcase_add_test(t, gathered_is_what_was_cut);
  tcase_add_test(t, orders);
  tcase_add_test(t, lists_replace_the_default);
  tcase_add_test(t, groups_of_layers);
  tcase_add_test(t, counts_by_reshard);
  tcase_add_test(t, alive_at_once);
  tcase_add_test(t, memory_does_not_grow_with_depth);
  tcase_add_test(t, as_ddp);
  tcase_add_test(t, as_by_hand);
  tcase_add_test(t, micro_batches_add_up);
  tcase_add_test(t, clipping_by_the_global_norm);
  tcase_add_test(t, stashed_gradients);
  tcase_add_loop_test(t, infinite_stash, 0, 2);
  tcase_add_test(t, evaluation);
  tcase_add_test(t, gathered_after_the_optimizer);
  tcase_add_test(t, versions_grow);
  tcase_add_test(t, gathered_for_nothing);
  tcase_add_test(t, decks_that_are_refused);
  tcase_add_test(t, misuse);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
