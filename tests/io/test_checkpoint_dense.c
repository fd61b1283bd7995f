/* test_checkpoint_dense.c - checkpoints of dense parameters and their
 * optimizers' states in memory that the host may not touch, and initial values
 * there.  On the fake device unless TESSERA_BACKEND says otherwise.
 * ranks: 1 3 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config.h"
#include "tests/dense/fully_sharded_toy.h"
#include "tests/support/folder.h"
#include "io/checkpoint.h"

enum { N = 1 << 16, BEFORE = 3, STEPS = 5 };
static float straight[N], broken[N];

TS_EACH_TEST_BETWEEN(folder_start, folder_stop)

/* ---- what is saved ------------------------------------------------------- */

static void add_array(ts_ckpt *c, const ts_param *p, const ts_param_piece *x,
                      int k) {
  char name[64];
  ts_ckpt_item *item;
  snprintf(name, sizeof name, "%s/%s%s", k < 0 ? "model" : "optim", p->name,
           k < 0 ? ""
           : k   ? "/1"
                 : "/0");
  ck_assert_ok(ts_ckpt_add_item(c, name, TS_F32, p->rows, p->cols, &item));
  float *data = k < 0 ? x->w : x->state[k];
  if (ts_mpi_rank() == 0 || !x->replicated)
    ck_assert_ok(
        ts_ckpt_add_piece(item, true, false, x->row0, x->n_rows, data));
  ck_assert_ok(ts_ckpt_add_piece(item, false, true, x->row0, x->n_rows, data));
}

static void describe(ts_ckpt *c, toy *t) {
  *c = (ts_ckpt){.step = BEFORE};
  for (int32_t i = 0; i < t->params.n; i++) {
    const ts_param *p = t->params.item[i];
    const ts_param_piece x = ts_parallel_piece(t->parallel, p);
    for (int k = -1; k < 2; k++) add_array(c, p, &x, k);
  }
  ck_assert_ok(ts_ckpt_on(c, t->device));
}

static void save(toy *t, const char *io) {
  ts_ckpt c;
  toy_sync(t);
  describe(&c, t);
  ck_assert_ok(ts_ckpt_save(&c, dir, 2, io, f.comm));
  ts_ckpt_reset(&c);
}

static void load(toy *t) {
  ts_ckpt c;
  ts_str path = {0};
  describe(&c, t);
  ck_assert_ok(ts_ckpt_load_newest(&c, &path, dir, NULL, NULL, NULL, f.comm));
  ck_assert_int_eq(c.step, BEFORE);
  ts_parallel_touch(t->parallel);
  ts_str_reset(&path);
  ts_ckpt_reset(&c);
}

/* ---- tests --------------------------------------------------------------- */

static toy_spec spec_of(int i) {
  static char adam[] = "adam";
  static const int rows[] = {7, 300, 1};
  toy_spec s = {.n_layers = 3,
                .rows_of = rows,
                .cols = 33,
                .late = true,
                .config = toy_config(i % 2 ? "fully_sharded" : "ddp")};
  s.config.optimizer.base.kind = adam;
  s.config.optimizer.in_backward = i / 2 % 2;
  return s;
}

static void steps(toy *t, int from, int to) {
  for (int i = from; i <= to; i++) toy_step(t, i);
}

/* On after a checkpoint as if there had been none. */
TS_TESTS(resumed_is_straight, 0, 4) {
  static toy t;
  const toy_spec s = spec_of(_i);
  toy_start(&t, &s);
  steps(&t, 1, BEFORE);
  save(&t, "pwrite");
  steps(&t, BEFORE + 1, STEPS);
  const int64_t n = toy_weights(&t, straight);
  toy_stop(&t);

  toy_start(&t, &s);
  load(&t);
  steps(&t, BEFORE + 1, STEPS);
  ck_assert_int_eq(toy_weights(&t, broken), n);
  ck_assert_all(!memcmp(straight, broken, (size_t)n * sizeof *broken));
  toy_stop(&t);
}

/* More than pieces of the drawing and of the staging, from somewhere on. */
TS_TEST(initial_values) {
  enum { ROWS = 70001, COLS = 41, FIRST = 12345, PART = 600001 };
  const int64_t n = (int64_t)ROWS * COLS;
  ts_params ps = {0};
  ts_device *device;
  ts_staging s;
  ts_param *p;
  float *want, *got;
  ck_assert_ok(ts_test_device(&device, false, 1));
  ck_assert_ok(ts_params_add(&ps, device, &p, "w", "w", ROWS, COLS));
  ck_assert_ok(ts_mem_many(want, n, MISC));
  ck_assert_ok(ts_mem_many(got, n, MISC));
  ck_assert(ts_device_holds(device, p->w) == ts_device_is_discrete(device));
  for (int k = 0; k < 3; k++) {
    ck_assert_ok(k == 0   ? ts_param_init_uniform(p, 3, 0.5)
                 : k == 1 ? ts_param_init_normal(p, 4, 2)
                          : ts_param_init_constant(p, 7));
    ts_param_init_part(p, want, 0, n);
    ts_test_get(device, got, p->w, (size_t)n * 4);
    ck_assert(!memcmp(want, got, (size_t)n * 4));
  }
  ck_assert_ok(ts_param_init_uniform(p, 5, 1));
  ts_param_init_part(p, want, FIRST, PART);
  ck_assert_ok(ts_staging_create(&s, device));
  ck_assert_ok(ts_param_init_put(p, &s, p->w + 3, FIRST, PART));
  ts_test_get(device, got, p->w + 3, PART * 4);
  ck_assert(!memcmp(want, got, PART * 4));
  ts_staging_reset(&s);
  ts_mem_free_all(want, got);
  ts_params_reset(&ps);
  ts_device_destroy(device);
}

int main(int argc, char **argv) {
  (void)setenv("TESSERA_BACKEND", "fake", 0);
  return ts_test_main(argc, argv);
}
