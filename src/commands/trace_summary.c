/* trace_summary.c - how long each stage took, and how much of that passed
 * while a compute lane of the same rank computed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "commands/trace.h"

/* ---- covers -------------------------------------------------------------- */

ts_err ts_cover_make(ts_cover *c, const ts_trace *t, int rank,
                     bool (*wanted)(const ts_trace *, const ts_read_span *,
                                    const void *),
                     const void *arg) {
  *c = (ts_cover){0};
  TS_DO(ts_mem_array(&c->t0, t->n_spans, sizeof *c->t0, TS_TAG_MISC));
  TS_DO(ts_mem_array(&c->t1, t->n_spans, sizeof *c->t1, TS_TAG_MISC));
  for (int64_t i = 0; i < t->n_spans; i++) { /* by start */
    const ts_read_span *s = &t->spans[i];
    if (s->kind != TS_SPAN_COMPUTE || t->lanes[s->lane].rank != rank) continue;
    if (wanted && !wanted(t, s, arg)) continue;
    if (c->n && s->t0 <= c->t1[c->n - 1]) {
      if (s->t1 > c->t1[c->n - 1]) c->t1[c->n - 1] = s->t1;
      continue;
    }
    c->t0[c->n] = s->t0;
    c->t1[c->n++] = s->t1;
  }
  return TS_OK;
}

void ts_cover_reset(ts_cover *c) {
  ts_mem_free_all(c->t0, c->t1);
  *c = (ts_cover){0};
}

double ts_cover_overlap(const ts_cover *c, double t0, double t1) {
  double sum = 0;
  int64_t low = 0, high = c->n; /* the first that ends behind t0 */
  while (low < high) {
    const int64_t mid = (low + high) / 2;
    if (c->t1[mid] <= t0)
      low = mid + 1;
    else
      high = mid;
  }
  for (int64_t i = low; i < c->n && c->t0[i] < t1; i++)
    sum += (c->t1[i] < t1 ? c->t1[i] : t1) - (c->t0[i] > t0 ? c->t0[i] : t0);
  return sum;
}

/* ---- the table ----------------------------------------------------------- */

/* Collectives of one name that differ in their phase are stages of their
 * own: output dist forward, its transpose backward. */
typedef struct ts_stage_row {
  const char *name, *phase;
  ts_span_kind kind;
  int32_t order;
  int64_t n, bytes;
  double *time, *hidden; /* (n_ranks) us */
} ts_stage_row;

typedef struct ts_table {
  const ts_trace *trace;
  ts_stage_row *rows;
  int32_t n;
} ts_table;

static bool same(const ts_stage_row *row, const ts_read_span *s) {
  return row->name == s->name && row->kind == s->kind &&
         (s->kind != TS_SPAN_COMM || row->phase == s->phase);
}

static ts_err find_row(ts_table *table, ts_stage_row **out,
                       const ts_read_span *s) {
  const int w = table->trace->n_ranks;
  int32_t i = 0;
  while (i < table->n && !same(&table->rows[i], s)) i++;
  *out = table->rows + i;
  if (i < table->n) return TS_OK;
  TS_DO(
      ts_mem_extend(&table->rows, i, i + 1, sizeof *table->rows, TS_TAG_MISC));
  ts_stage_row *row = &table->rows[i];
  *row = (ts_stage_row){
      .name = s->name, .phase = s->phase, .kind = s->kind, .order = i};
  table->n++;
  *out = row;
  TS_DO(ts_mem_array(&row->time, w, sizeof *row->time, TS_TAG_MISC));
  return ts_mem_array(&row->hidden, w, sizeof *row->hidden, TS_TAG_MISC);
}

/* The lane that hides others: the first compute lane, which is never hidden
 * itself. */
static int32_t first_compute(const ts_trace *t, int rank) {
  int32_t least = INT32_MAX;
  for (int64_t i = 0; i < t->n_spans; i++)
    if (t->spans[i].kind == TS_SPAN_COMPUTE && t->spans[i].lane < least &&
        t->lanes[t->spans[i].lane].rank == rank)
      least = t->spans[i].lane;
  return least;
}

static bool on_lane(const ts_trace *t, const ts_read_span *s, const void *arg) {
  (void)t;
  return s->lane == *(const int32_t *)arg;
}

static ts_err add_rank(ts_table *table, int rank) {
  ts_err err = TS_OK;
  const ts_trace *t = table->trace;
  const int32_t main = first_compute(t, rank);
  ts_cover all = {0}, cover = {0};
  TS_TRY(ts_cover_make(&all, t, rank, NULL, NULL));
  TS_TRY(ts_cover_make(&cover, t, rank, on_lane, &main));
  for (int64_t i = 0; i < t->n_spans; i++) {
    const ts_read_span *s = &t->spans[i];
    ts_stage_row *row;
    if (t->lanes[s->lane].rank != rank) continue;
    TS_TRY(find_row(table, &row, s));
    row->n++;
    row->bytes += s->bytes;
    row->time[rank] += s->t1 - s->t0;
    if (s->lane != main)
      row->hidden[rank] += ts_cover_overlap(
          s->kind == TS_SPAN_COMPUTE ? &cover : &all, s->t0, s->t1);
  }
done:
  ts_cover_reset(&all);
  ts_cover_reset(&cover);
  return err;
}

/* Compute first, then what is to be hidden; each in the order of a step. */
static int by_kind(const void *a, const void *b) {
  const ts_stage_row *x = a, *y = b;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  return x->order - y->order;
}

static void print_row(const ts_stage_row *row, int w) {
  static const char *const kinds[] = {"compute", "data", "comm", "wait"};
  double time = 0, hidden = 0, least = 0, most = 0;
  char name[64], bytes[32] = "";
  for (int r = 0; r < w; r++) {
    const double exposed = row->time[r] - row->hidden[r];
    time += row->time[r];
    hidden += row->hidden[r];
    if (r == 0 || exposed < least) least = exposed;
    if (r == 0 || exposed > most) most = exposed;
  }
  snprintf(name, sizeof name, "%.40s%s%.16s", row->name,
           row->kind == TS_SPAN_COMM && *row->phase ? ", " : "",
           row->kind == TS_SPAN_COMM ? row->phase : "");
  if (row->kind == TS_SPAN_COMM || row->bytes) ts_str_bytes(bytes, row->bytes);
  printf("%-26s %-7s %7lld %11s %10.3f %10.3f %10.3f %6.1f %10.3f %10.3f\n",
         name, kinds[row->kind], (long long)row->n, bytes, time / w / 1e3,
         hidden / w / 1e3, (time - hidden) / w / 1e3,
         time > 0 ? 100 * hidden / time : 0.0, least / 1e3, most / 1e3);
}

static void print_head(const ts_trace *t) {
  double t0 = 0, t1 = 0;
  int64_t first = -1, last = -1;
  for (int64_t i = 0; i < t->n_spans; i++) {
    const ts_read_span *s = &t->spans[i];
    if (i == 0) t0 = s->t0;
    if (s->t1 > t1) t1 = s->t1;
    if (s->batch >= 0 && (first < 0 || s->batch < first)) first = s->batch;
    if (s->batch > last) last = s->batch;
  }
  printf("%d ranks, batches %lld to %lld, %.3f ms; times in ms, averages of a "
         "rank\n\n",
         t->n_ranks, (long long)first, (long long)last, (t1 - t0) / 1e3);
  printf("%-26s %-7s %7s %11s %10s %10s %10s %6s %10s %10s\n", "stage", "lane",
         "spans", "sent", "time", "hidden", "exposed", "% hid", "exp. min",
         "exp. max");
}

ts_err ts_trace_summary(const ts_trace *t) {
  ts_err err = TS_OK;
  ts_table table = {.trace = t};
  for (int r = 0; r < t->n_ranks; r++) TS_TRY(add_rank(&table, r));
  print_head(t);
  if (table.n) qsort(table.rows, (size_t)table.n, sizeof *table.rows, by_kind);
  for (int32_t i = 0; i < table.n; i++) print_row(&table.rows[i], t->n_ranks);
done:
  for (int32_t i = 0; i < table.n; i++) {
    ts_mem_free_all(table.rows[i].time, table.rows[i].hidden);
  }
  ts_mem_free(table.rows);
  return err;
}
