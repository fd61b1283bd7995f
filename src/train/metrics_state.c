/* metrics_state.c - a metric in checkpoints: on any number of ranks it goes
 * on where it was. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "train/metrics_impl.h"

enum { SUMS = sizeof(ts_metric_sums) / sizeof(double) };

typedef struct ts_metric_name {
  char text[256];
} ts_metric_name;

static ts_metric_name named(const char *prefix, const char *what) {
  ts_metric_name name;
  snprintf(name.text, sizeof name.text, "%.200s/%s", prefix, what);
  return name;
}

/* ---- save ---------------------------------------------------------------- */

static ts_err add_window(const ts_metrics *m, ts_ckpt *c, const char *prefix) {
  ts_err err = TS_OK;
  ts_metric_sums *parts = NULL;
  TS_TRY(ts_mem_many(parts, m->window.n, METRICS));
  for (int64_t i = 0; i < m->window.n; i++)
    parts[i] = *ts_metric_window_part(&m->window, i);
  TS_TRY(ts_ckpt_add_value(c, named(prefix, "steps").text, TS_F64,
                           m->window.n * SUMS, parts));
done:
  ts_mem_free(parts);
  return err;
}

/* Each rank's samples, the oldest first, and how many each has. */
static ts_err add_samples(const ts_metrics *m, ts_ckpt *c, const char *prefix,
                          ts_comm *comm) {
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  int64_t counts[w], total = 0, row0 = 0;
  ts_ckpt_item *item;
  TS_DO(ts_comm_gather_all(comm, counts, &m->place.n, sizeof m->place.n));
  for (int r = 0; r < w; r++) {
    if (r < me) row0 += counts[r];
    total += counts[r];
  }
  TS_DO(ts_ckpt_add_value(c, named(prefix, "window_samples").text, TS_I64, 1,
                          &total));
  TS_DO(ts_ckpt_add_value(c, named(prefix, "window_ranks").text, TS_I64, w,
                          counts));
  if (!total) return TS_OK;
  TS_DO(ts_ckpt_add_item(c, named(prefix, "window").text, TS_F32, total, 3,
                         &item));
  const int64_t next = m->place.next, old = m->place.n - next;
  if (old)
    TS_DO(ts_ckpt_add_piece(item, true, false, row0, old, m->ring + next));
  if (next)
    TS_DO(ts_ckpt_add_piece(item, true, false, row0 + old, next, m->ring));
  return TS_OK;
}

ts_err ts_metrics_save(ts_metrics *m, ts_ckpt *c, const char *prefix,
                       ts_comm *comm) {
  TS_DO(ts_metrics_gather(m, comm));
  TS_DO(ts_metrics_fetch(m));
  TS_DO(
      ts_ckpt_add_value(c, named(prefix, "sums").text, TS_F64, SUMS, &m->sums));
  TS_DO(add_window(m, c, prefix));
  return add_samples(m, c, prefix, comm);
}

/* ---- load ---------------------------------------------------------------- */

/* Samples of a file: this rank reads N rows from FROM. */
typedef struct ts_stored {
  ts_metric_sample *rows;
  int64_t total, from, n;
  const int64_t *counts; /* (n_counts) of the ranks that wrote it, or NULL */
  int64_t n_counts;
} ts_stored;

/* Those whose counts fit to the rows: an edited file's may not. */
static void find_counts(ts_stored *s, const ts_ckpt *c, const char *prefix) {
  int64_t sum = 0;
  const ts_ckpt_value *v =
      ts_ckpt_value_of(c, named(prefix, "window_ranks").text);
  if (!v || v->dtype != TS_I64) return;
  const int64_t *counts = v->ptr;
  for (int64_t r = 0; r < v->n; r++) {
    if (counts[r] < 0 || counts[r] > s->total - sum) return;
    sum += counts[r];
  }
  if (sum != s->total) return;
  s->counts = counts;
  s->n_counts = v->n;
}

/* As many ranks as wrote it have their own again; of other numbers the first
 * reads all; and where nobody wrote whose they are, each reads a share. */
static void find_rows(ts_stored *s, ts_comm *comm) {
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  if (!s->counts) {
    s->from = s->total * me / w;
    s->n = s->total * (me + 1) / w - s->from;
  } else if (s->n_counts == w) {
    for (int r = 0; r < me; r++) s->from += s->counts[r];
    s->n = s->counts[me];
  } else {
    s->n = me == 0 ? s->total : 0;
  }
}

static ts_err read_samples(ts_stored *s, const ts_ckpt *c, const char *path,
                           const char *prefix, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_ckpt window = {0};
  ts_ckpt_item *item;
  const ts_ckpt_value *v =
      ts_ckpt_value_of(c, named(prefix, "window_samples").text);
  if (v && v->dtype == TS_I64 && v->n == 1)
    memcpy(&s->total, v->ptr, sizeof s->total);
  if (s->total < 1) goto done;
  TS_TRY(ts_ckpt_add_item(&window, named(prefix, "window").text, TS_F32,
                          s->total, 3, &item));
  /* With no piece to fill yet: whether the file has so many rows. */
  TS_TRY(ts_ckpt_load_items(&window, path, comm));
  find_counts(s, c, prefix);
  find_rows(s, comm);
  TS_TRY(ts_mem_many(s->rows, s->n, METRICS));
  TS_TRY(ts_ckpt_add_piece(item, false, true, s->from, s->n, s->rows));
  TS_TRY(ts_ckpt_load_items(&window, path, comm));
done:
  ts_ckpt_reset(&window);
  return err;
}

/* The samples of all that wrote them, in the order in which their ranks forget
 * them, dealt out to the ranks there are now. */
static ts_err deal(ts_stored *s, ts_comm *comm) {
  ts_err err = TS_OK;
  const int w = ts_comm_size(comm), me = ts_comm_rank(comm);
  ts_metric_sample *all = NULL, *own = NULL;
  int64_t most = 0, seen = 0, n = 0;
  TS_TRY(ts_mem_many(all, s->total, METRICS));
  TS_TRY(ts_mem_many(own, s->total / w + 1, METRICS));
  if (me == 0) memcpy(all, s->rows, (size_t)s->total * sizeof *all);
  TS_TRY(ts_comm_bcast(comm, all, s->total * (int64_t)sizeof *all, 0));
  for (int64_t r = 0; r < s->n_counts; r++)
    if (s->counts[r] > most) most = s->counts[r];
  for (int64_t age = most; age > 0; age--) {
    const ts_metric_sample *end = all;
    for (int64_t r = 0; r < s->n_counts; r++) {
      end += s->counts[r];
      if (s->counts[r] >= age && seen++ % w == me) own[n++] = end[-age];
    }
  }
  ts_mem_free(s->rows);
  s->rows = own;
  s->n = n;
  own = NULL;
done:
  ts_mem_free_all(all, own);
  return err;
}

/* Files from before windows were sums: of their samples, the oldest first,
 * parts as if each had been some steps. */
static ts_err sum_samples(ts_metrics *m, const ts_stored *s, ts_comm *comm) {
  ts_err err = TS_OK;
  const int64_t n = s->total < TS_WINDOW_PARTS ? s->total : TS_WINDOW_PARTS;
  ts_metric_sums *parts = NULL;
  TS_TRY(ts_mem_many(parts, n, METRICS));
  for (int64_t k = 0; k < n; k++)
    for (int64_t i = s->n * k / n; i < s->n * (k + 1) / n; i++)
      ts_metric_sums_add(&parts[k], s->rows[i]);
  TS_TRY(ts_comm_sum_f64(comm, (double *)parts, n * SUMS));
  for (int64_t k = 0; k < n; k++) ts_metric_window_push(&m->window, &parts[k]);
done:
  ts_mem_free(parts);
  return err;
}

static ts_err take_samples(ts_metrics *m, ts_stored *s, bool sums,
                           ts_comm *comm) {
  if (sums) TS_DO(sum_samples(m, s, comm));
  if (s->counts && s->n_counts != ts_comm_size(comm)) TS_DO(deal(s, comm));
  if (!m->keep_all && m->limit == 0) return TS_OK;
  TS_DO(ts_metrics_reserve(m, s->n));
  for (int64_t i = 0; i < s->n; i++)
    ts_metric_push(m->ring, &m->place, m->capacity, s->rows[i]);
  return TS_OK;
}

static void forget(ts_metrics *m) {
  m->sums = (ts_metric_sums){0};
  m->place = (ts_metric_place){0};
  m->window.n = m->window.first = 0;
  m->window.samples = 0;
  memset(m->fresh, 0, (size_t)m->n_fresh * sizeof *m->fresh);
  m->at = 0;
}

ts_err ts_metrics_load(ts_metrics *m, const ts_ckpt *c, const char *path,
                       const char *prefix, ts_comm *comm) {
  ts_err err = TS_OK;
  ts_stored stored = {0};
  const ts_ckpt_value *v = ts_ckpt_value_of(c, named(prefix, "sums").text);
  forget(m);
  if (v && v->dtype == TS_F64 && v->n == SUMS)
    memcpy(&m->sums, v->ptr, sizeof m->sums);
  v = ts_ckpt_value_of(c, named(prefix, "steps").text);
  if (v && v->dtype != TS_F64) v = NULL;
  for (int64_t i = 0; v && i < v->n / SUMS; i++)
    ts_metric_window_push(&m->window, (const ts_metric_sums *)v->ptr + i);
  TS_TRY(read_samples(&stored, c, path, prefix, comm));
  TS_TRY(take_samples(m, &stored, !v, comm));
  TS_TRY(ts_metrics_put(m));
done:
  ts_mem_free(stored.rows);
  return err;
}
