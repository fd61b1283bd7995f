/* cuda_dense_rows.c - cases of what is by element or by row: cross layers,
 * factorisation machines, rows side by side; the host's bits. */
#include "tests/kernels/cuda_dense.h"

#include <string.h>

#include "tests/kernels/cuda_numbers.h"

static float *floats(char *base, size_t at) {
  return (float *)(void *)(base + at);
}

/* ---- cross layers -------------------------------------------------------- */

typedef struct cross_case {
  int width, stride, t_stride, batch;
  bool half, add, first, last, y16, ends; /* ENDS: no y, dy comes as bf16 */
  size_t x0, x, t, y, y_half, plus, dy, dy_half, dx0, dt;
} cross_case;

static uint16_t *halves(char *base, size_t at) {
  return (uint16_t *)(void *)(base + at);
}

static ts_err cross_task(const ts_kernels *k, char *base, const void *arg) {
  const cross_case *c = arg;
  ts_err err = TS_OK;
  ts_cross_args a = {.x0 = floats(base, c->x0),
                     .x = floats(base, c->x),
                     .t = base + c->t,
                     .y = c->ends ? NULL : floats(base, c->y),
                     .y16 = c->y16 ? halves(base, c->y_half) : NULL,
                     .half = c->half,
                     .add = c->add ? base + c->plus : NULL,
                     .dy = floats(base, c->dy),
                     .dy16 = c->ends ? halves(base, c->dy_half) : NULL,
                     .dx0 = floats(base, c->dx0),
                     .dt = base + c->dt,
                     .first = c->first,
                     .width = c->width,
                     .stride = c->stride,
                     .t_stride = c->t_stride,
                     .batch = c->batch};
  TS_TRY(k->cross_forward(&a));
  if (c->last) a.t = NULL;
  TS_TRY(k->cross_backward(&a));
done:
  return err;
}

static void cross(int width, int batch, int how) {
  const bool odd = how & 16;
  cross_case c = {.width = width,
                  .stride = odd ? width + 1 : (width + 31) / 32 * 32,
                  .t_stride = odd ? width : (width + 3) / 4 * 4,
                  .batch = batch,
                  .half = how & 1,
                  .add = how & 2,
                  .first = how & 4,
                  .last = how & 8,
                  .y16 = (how & 32) || ((how & 1) && below(3)),
                  .ends = how & 32};
  const int64_t n = (int64_t)batch * c.stride, m = (int64_t)batch * c.t_stride;
  const int off = odd ? 4 : 0;
  size_t *const all[] = {&c.x0, &c.x, &c.y, &c.dy, &c.dx0};
  dense_begin();
  for (int i = 0; i < 5; i++) *all[i] = dense_take_floats(n, off);
  c.t = c.half ? dense_take_halves(m, off) : dense_take_floats(m, off);
  c.dt = c.half ? dense_take_halves(m, off) : dense_take_floats(m, off);
  c.plus = c.half ? dense_take_halves(n, off) : dense_take_floats(n, off);
  c.y_half = dense_take_halves(n, off);
  c.dy_half = dense_take_halves(n, off);
  dense_run(cross_task, &c);
  dense_same("cross layer");
  if (c.last || (c.ends && !c.add))
    ck_assert_mem_eq(dense_of_target() + c.dy, dense_was() + c.dy, 4 * n);
}

START_TEST(crosses) {
  static const int widths[] = {1, 3, 4, 32, 37, 132, 3456};
  for (int w = 0; w < 7; w++)
    for (int how = 0; how < 64; how++)
      if (how < 32 || how & 1)
        cross(widths[w], widths[w] > 1000 ? 3 : how % 3 ? 19 : 300, how);
  cross(32, 0, 0);
}
END_TEST

/* ---- factorisation machines ---------------------------------------------- */

typedef struct fm_case {
  int n, dim, stride, out_stride, batch;
  size_t x, dx, out, grad;
} fm_case;

static ts_err fm_task(const ts_kernels *k, char *base, const void *arg) {
  const fm_case *c = arg;
  ts_err err = TS_OK;
  const ts_fm_args a = {.x = floats(base, c->x),
                        .dx = floats(base, c->dx),
                        .out = floats(base, c->out),
                        .grad = floats(base, c->grad),
                        .n_vectors = c->n,
                        .dim = c->dim,
                        .stride = c->stride,
                        .out_stride = c->out_stride,
                        .batch = c->batch};
  TS_TRY(k->fm_forward(&a));
  TS_TRY(k->fm_backward(&a));
done:
  return err;
}

static void machine(int n, int dim, int batch) {
  fm_case c = {.n = n,
               .dim = dim,
               .stride = n * dim + below(5),
               .out_stride = 1 + below(3),
               .batch = batch};
  dense_begin();
  c.x = dense_take_floats((int64_t)batch * c.stride, 4);
  c.dx = dense_take_floats((int64_t)batch * c.stride, 0);
  c.out = dense_take_floats((int64_t)batch * c.out_stride, 0);
  c.grad = dense_take_floats((int64_t)batch * c.out_stride, 8);
  dense_run(fm_task, &c);
  dense_same("factorisation machine");
}

START_TEST(machines) {
  static const int dims[] = {1, 2, 7, 16, 19, 32, 64, 128};
  static const int n[] = {1, 2, 15, 16, 27, 40};
  for (int d = 0; d < 8; d++)
    for (int v = 0; v < 6; v++) machine(n[v], dims[d], 3 + 20 * (v % 2));
  machine(3456, 1, 5);
  machine(3, 4, 500);
  machine(3, 4, 0);
}
END_TEST

/* ---- rows side by side --------------------------------------------------- */

enum { PARTS = 150 };

typedef struct join_case {
  int n, stride, first_width, batch;
  bool split, add;
  int at[PARTS], width[PARTS];
  int64_t step[PARTS];
  size_t wide, first, part[PARTS];
} join_case;

static ts_err join_task(const ts_kernels *k, char *base, const void *arg) {
  const join_case *c = arg;
  float *part[PARTS];
  for (int i = 0; i < c->n; i++) part[i] = floats(base, c->part[i]);
  const ts_join_args a = {.wide = floats(base, c->wide),
                          .first =
                              c->first_width ? floats(base, c->first) : NULL,
                          .part = part,
                          .part_stride = c->step,
                          .at = c->at,
                          .width = c->width,
                          .stride = c->stride,
                          .first_width = c->first_width,
                          .n_parts = c->n,
                          .batch = c->batch,
                          .add = c->add};
  return c->split ? k->split_rows(&a) : k->join_rows(&a);
}

static void join(int n, int batch, int how) {
  static join_case c;
  const int odd = how & 4;
  c = (join_case){.n = n,
                  .first_width = how & 8 ? 8 + odd / 4 : 0,
                  .batch = batch,
                  .split = how & 1,
                  .add = (how & 3) == 2};
  c.stride = c.first_width;
  dense_begin();
  for (int i = 0; i < n; i++) {
    c.at[i] = c.stride;
    c.width[i] = odd ? 1 + i % 5 : 4 * (1 + i % 9);
    c.step[i] = c.width[i] + (odd ? i % 2 : 0);
    c.stride += c.width[i];
    c.part[i] = dense_take_floats(batch * c.step[i], odd);
  }
  c.stride += 3 * (odd / 4);
  c.wide = dense_take_floats((int64_t)batch * c.stride, odd);
  c.first = dense_take_floats((int64_t)batch * c.first_width, odd);
  dense_run(join_task, &c);
  dense_same("rows side by side");
}

START_TEST(joins) {
  static const int n[] = {0, 1, 2, 26, 59, 60, 150};
  for (int how = 0; how < 16; how++) {
    for (int i = 0; i < 7; i++) join(n[i], 1 + below(40), how);
    join(3, 0, how);
  }
}
END_TEST

TCase *cuda_dense_rows(void) {
  TCase *c = tcase_create("rows");
  tcase_add_test(c, crosses);
  tcase_add_test(c, machines);
  tcase_add_test(c, joins);
  return c;
}
