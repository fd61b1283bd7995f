/* bench_tbe_dynamic.c - `tessera bench tbe dynamic=1`: tables of any id beside
 * plain ones of as many rows, on the same batches, in turns.  Ids have their
 * rows in the plain tables' order, so that both read memory alike.  Times are
 * the host's, from the call to the end of the lane's work. */
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "commands/bench_table.h"
#include "commands/bench_tbe.h"
#include "runtime/trace.h"
#include "sparse/mirror.h"

/* ms of each batch, or medians. */
typedef struct ts_both {
  double plain, plain_back;
  double known, placed, forward, backward; /* known: no id is learnt */
} ts_both;

typedef struct ts_dynamic_case {
  ts_tbe_case plain, own; /* own: the same but the tables and the rows */
  ts_table_config config;
  const ts_kernels *kernels;
  int64_t *ids; /* (n) of the batch that is placed */
  /* On a discrete device, which has copies of the batches: */
  bool there;
  ts_tbe_lent lent;
  ts_buffer plain_rows, wide, rows; /* (n) ids of the batch: rows of plain
                                       tables, 64 bits, rows */
} ts_dynamic_case;

/* ---- tables -------------------------------------------------------------- */

/* The id that a plain table's row is. */
static int64_t id_of(int64_t row) {
  return (int64_t)ts_mix64((uint64_t)row + 1);
}

/* On a device, whose memory is there before it is written. */
static ts_err learn_there(ts_dynamic_case *d) {
  ts_err err = TS_OK;
  int64_t *ids = NULL;
  TS_TRY(ts_mem_many(ids, d->plain.rows, MISC));
  for (int64_t i = 0; i < d->plain.rows; i++) ids[i] = id_of(i);
  for (int t = 0; t < d->plain.tables; t++)
    TS_TRY(ts_tbe_learn(d->own.tbe, t, ids, d->plain.rows));
done:
  ts_mem_free(ids);
  return err;
}

/* All tables learn as many ids as plain ones have rows. */
static ts_err learn(ts_dynamic_case *d) {
  enum { SOME = 4096 };
  int64_t ids[SOME];
  int32_t rows[SOME];
  for (int t = 0; t < d->plain.tables; t++)
    for (int64_t at = 0; at < d->plain.rows; at += SOME) {
      const int64_t left = d->plain.rows - at, n = left < SOME ? left : SOME;
      for (int64_t i = 0; i < n; i++) ids[i] = id_of(at + i);
      TS_DO(ts_tbe_place(d->own.tbe, t, rows, ids, n, 1, 0));
    }
  return TS_OK;
}

static ts_err room_there(ts_dynamic_case *d) {
  const int64_t n = d->plain.n;
  ts_buffer *all[] = {&d->plain_rows, &d->wide, &d->rows};
  if (!d->there) return TS_OK;
  TS_DO(ts_tbe_case_lend(&d->lent, &d->plain));
  for (int k = 0; k < 3; k++)
    TS_DO(ts_buffer_create(all[k], d->plain.device,
                           (size_t)n * (k == 1 ? 8 : 4), TS_SPACE_DEVICE,
                           TS_TAG_INPUT));
  return TS_OK;
}

static ts_err create(ts_dynamic_case *d, const ts_tbe_case *c, double load) {
  d->plain = d->own = *c;
  d->config = *c->config;
  d->config.capacity = d->config.rows = (int64_t)((double)c->rows / load);
  d->own.config = &d->config;
  d->own.rows = ts_tbe_rows_of(&d->config, d->config.capacity);
  d->there = ts_device_is_discrete(c->device);
  for (int i = 0; i < TS_TBE_INPUTS; i++) d->own.ids[i] = NULL;
  for (int i = 0; i < TS_TBE_INPUTS; i++)
    TS_DO(ts_mem_array(&d->own.ids[i], c->n, 4, TS_TAG_INPUT));
  TS_DO(ts_mem_array(&d->ids, c->n, 8, TS_TAG_INPUT));
  TS_DO(ts_tbe_case_group(&d->plain, d->kernels));
  TS_DO(ts_tbe_case_group(&d->own, d->kernels));
  TS_DO(room_there(d));
  return d->there ? learn_there(d) : learn(d);
}

static void destroy(ts_dynamic_case *d) {
  ts_tbe_destroy(d->plain.tbe);
  ts_tbe_destroy(d->own.tbe);
  for (int i = 0; i < TS_TBE_INPUTS; i++) ts_mem_free(d->own.ids[i]);
  ts_mem_free(d->ids);
  ts_buffer_reset(&d->plain_rows);
  ts_buffer_reset(&d->wide);
  ts_buffer_reset(&d->rows);
  ts_tbe_lent_reset(&d->lent);
}

/* ---- measuring ----------------------------------------------------------- */

typedef struct ts_placing {
  ts_dynamic_case *d;
  int i;
  uint32_t batch;
} ts_placing;

static ts_err place_there(const ts_placing *p) {
  const ts_tbe_case *c = &p->d->own;
  const int64_t per_table = (int64_t)c->batch * c->pool;
  ts_mirror_part *parts;
  TS_DO(ts_tbe_parts(c->tbe, c->tables, &parts));
  for (int t = 0; t < c->tables; t++)
    parts[t] = (ts_mirror_part){(int64_t *)p->d->wide.ptr + t * per_table,
                                t * per_table, per_table, t};
  return ts_tbe_place_parts(c->tbe, parts, c->tables, p->d->rows.ptr, p->batch,
                            0);
}

static ts_err place_task(void *arg, ts_lane *lane) {
  const ts_placing *p = arg;
  const ts_tbe_case *c = &p->d->own;
  const int64_t per_table = (int64_t)c->batch * c->pool;
  (void)lane;
  if (p->d->there) return place_there(p);
  for (int t = 0; t < c->tables; t++)
    TS_DO(ts_tbe_place(c->tbe, t, c->ids[p->i % TS_TBE_INPUTS] + t * per_table,
                       p->d->ids + t * per_table, per_table, p->batch, 0));
  return TS_OK;
}

/* Batch I's ids become rows, which are looked for anew each time. */
static ts_err place(ts_dynamic_case *d, int i, uint32_t batch, double *ms) {
  const ts_placing p = {d, i, batch};
  const double t0 = ts_now();
  TS_DO(ts_lane_run(d->own.lane, "place", place_task, p));
  TS_DO(ts_lane_sync(d->own.lane));
  *ms = 1e3 * (ts_now() - t0);
  return TS_OK;
}

/* Batch I of plain tables and its ids go to the device. */
static ts_err bring(ts_dynamic_case *d, int i) {
  ts_err err = TS_OK;
  ts_staging s = {0};
  const size_t n = (size_t)d->plain.n;
  if (!d->there) return TS_OK;
  TS_TRY(ts_staging_create(&s, d->plain.device));
  TS_TRY(ts_staging_put(&s, d->plain_rows.ptr, d->plain.ids[i % TS_TBE_INPUTS],
                        n * 4));
  TS_TRY(ts_staging_put(&s, d->wide.ptr, d->ids, n * 8));
done:
  ts_staging_reset(&s);
  return err;
}

static void cool(ts_dynamic_case *d, ts_tbe_case *c, int i) {
  if (!d->there) ts_tbe_case_cool(c, i);
}

/* ms of batch I's passes of C, on the device with ROWS. */
static ts_err time_passes(const ts_dynamic_case *d, ts_tbe_case *c, int i,
                          const ts_buffer *rows, double *f, double *b) {
  if (!d->there) return ts_tbe_case_time(c, i, f, b);
  const ts_tbe_input in =
      ts_tbe_lent_input(&d->lent, ts_tbe_case_input(c, i), rows);
  return ts_tbe_case_passes(c, i, &in, d->lent.out.ptr, d->lent.grad.ptr, f, b);
}

static ts_err time_batch(ts_dynamic_case *d, int i, ts_both *t) {
  for (int64_t k = 0; k < d->own.n; k++)
    d->ids[k] = id_of(d->plain.ids[i % TS_TBE_INPUTS][k]);
  TS_DO(bring(d, i));
  cool(d, &d->plain, 3 * i);
  TS_DO(
      time_passes(d, &d->plain, i, &d->plain_rows, &t->plain, &t->plain_back));
  cool(d, &d->own, 3 * i + 1);
  TS_DO(place(d, i, 0, &t->known));
  cool(d, &d->own, 3 * i + 2);
  TS_DO(place(d, i, 2, &t->placed));
  return time_passes(d, &d->own, i, &d->rows, &t->forward, &t->backward);
}

/* The median of a figure, which is AT in each of T. */
static double median(const ts_both *t, int n, size_t at) {
  double x[n];
  for (int i = 0; i < n; i++)
    x[i] = *(const double *)((const char *)&t[i] + at);
  return ts_bench_median(x, n);
}
#define MEDIAN(t, n, field) median(t, n, offsetof(ts_both, field))

static const ts_bench_table lines = {
    "dynamic",
    "{ids|%-7s|ids}{load| %5.2f|load}"
    "{plain_forward_ms| %8.2f|plain\nforward}{find_ms| %8.2f|find\nms}"
    "{place_ms| %8.2f|place\nms}{forward_ms| %8.2f|forward\nms}"
    "{lookup_of_plain| %7.2f|place +\nforward}"
    "{plain_backward_ms| %9.2f|plain\nbackward}"
    "{backward_ms| %9.2f|backward\nms}{backward_of_plain| %6.2f|of\nplain}"};

static ts_err measure(ts_dynamic_case *d, double load, double alpha) {
  enum { WARM = 2 };
  ts_both t[d->plain.iters];
  const int n = d->plain.iters - WARM;
  ts_tbe_case_draw(&d->plain, alpha);
  for (int i = 0; i < d->plain.iters; i++) TS_DO(time_batch(d, i, &t[i]));
  const double plain = MEDIAN(t + WARM, n, plain);
  const double place_ms = MEDIAN(t + WARM, n, placed);
  const double forward = MEDIAN(t + WARM, n, forward);
  const double back = MEDIAN(t + WARM, n, backward);
  const double plain_back = MEDIAN(t + WARM, n, plain_back);
  ts_bench_print(&lines, alpha > 0 ? "zipf" : "uniform", load, plain,
                 MEDIAN(t + WARM, n, known), place_ms, forward,
                 (place_ms + forward) / plain, plain_back, back,
                 back / plain_back);
  return TS_OK;
}

ts_err ts_bench_tbe_dynamic(ts_tbe_case *c, const ts_kernels *k, double load) {
  ts_err err = TS_OK;
  ts_dynamic_case *d = NULL;
  TS_TRY(ts_mem_many(d, 1, MISC));
  d->kernels = k;
  TS_TRY(create(d, c, load));
  ts_bench_heads(&lines);
  TS_TRY(measure(d, load, 0));
  if (c->alpha > 0) TS_TRY(measure(d, load, c->alpha));
done:
  if (d) destroy(d);
  ts_mem_free(d);
  return err;
}
