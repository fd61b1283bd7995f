/* test_fully_sharded.c - shards, orders, counts and memory of the
 * strategy fully_sharded.
 * ranks: 1 2 3 4  fake: 1 2  emulated: 1
 * seconds: 400 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/dense/fully_sharded_toy.h"

enum { N = 1 << 20 };
static float a[N], b[N];

/* ---- shards -------------------------------------------------------------- */

/* Rows as torch.chunk gives them: rank 0 has 3 of 5 on 2 ranks, 2 on 4, where
 * the last rank has none. */
TS_TEST(shards_are_chunks) {
  static const int rows[] = {1, 5, 8};
  toy_spec s = toy_small("fully_sharded");
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

static void spoil(const ts_fully_sharded *d, float *x, int64_t n) {
  const float bad = NAN;
  for (int64_t i = 0; i < n; i++)
    ts_test_put(d->base.spec.device, x + i, &bad, sizeof bad);
}

static void poison(ts_fully_sharded *d) {
  spoil(d, d->slot_memory, d->n_slots * d->slot_n);
  for (int32_t g = 0; g < d->n_groups; g++)
    for (int32_t k = 0; k < d->groups[g].n_parts; k++) {
      const ts_fully_sharded_part *p = &d->groups[g].parts[k];
      spoil(d, p->w + p->n_rows * p->width, (p->chunk - p->n_rows) * p->width);
    }
}

/* Gathered is what was cut, in every layer of both passes; initial values are
 * those of a whole model; padding is never read. */
TS_TEST(gathered_is_what_was_cut) {
  static const int rows[] = {1, 5, 8, 7};
  for (int reshard = 0; reshard < 3; reshard++) {
    toy_spec s = toy_small("ddp"), f = toy_small("fully_sharded");
    static toy t;
    s.rows_of = f.rows_of = rows;
    f.check = true;
    toy_train(&s, 0, a);
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
    toy_train(&s, 1, a);
    ck_assert_all(toy_same(&s, a, b));
  }
}

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
  toy_spec s = toy_small("fully_sharded");
  s.n_layers = 7;
  toy_lists(&s.config, 7, forward_k, backward_k);
  return s;
}

TS_TEST(orders) {
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

/* An empty list is the default again; a list is for its layer alone; what is
 * there already is not gathered twice. */
TS_TEST(lists_replace_the_default) {
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

/* Layers that are one group come and go together. */
TS_TEST(groups_of_layers) {
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
  toy_train(&ddp, 1, b);
  ck_assert_all(toy_same(&s, a, b));
}

/* ---- counts -------------------------------------------------------------- */

TS_TEST(counts_by_reshard) {
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

/* 7 layers, units of groups, in the order of the host: flats, and flats
 * with what was copied out of them. */
TS_TEST(alive_at_once) {
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

/* Bytes beside shards and what is made of shards, at the peak of two steps. */
static int64_t transient(int n_layers, int64_t *unit) {
  toy_spec s = toy_small("fully_sharded");
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

TS_TEST(memory_does_not_grow_with_depth) {
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

/* ---- lists --------------------------------------------------------------- */

/* Lists that name what is not used afterwards: gathered for nothing, given
 * back at the end of the pass, and nothing else changes. */
TS_TEST(gathered_for_nothing) {
  toy_spec s = seven(0, 0);
  static toy t;
  s.check = true;
  toy_train(&s, 4, a);
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
  ck_assert_all(toy_same(&s, a, b));
}
