/* trace_file.c - ranks' clocks compared at the start, their events put
 * together at the end; both over the run's own messages, so that no file
 * system needs to be shared. */
#include "runtime/trace_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "config.h"

enum { ROUNDS = 8, CHUNK = 1 << 20 };

/* ---- clocks -------------------------------------------------------------- */

/* BYTES from every rank to rank 0, or back. */
static ts_err to_or_from_first(ts_comm *c, bool back, void *recv,
                               const void *send, int64_t bytes) {
  const int w = ts_comm_size(c);
  const bool first = ts_comm_rank(c) == 0;
  int64_t all[w], one[w];
  ts_token token;
  for (int r = 0; r < w; r++) {
    all[r] = first ? bytes : 0;
    one[r] = r == 0 ? bytes : 0;
  }
  TS_DO(ts_comm_all_to_all_v(c, &token, recv, back ? one : all, send,
                             back ? all : one, NULL));
  return ts_comm_wait(&token);
}

/* Rank 0's clock minus this one's.  Rank 0 reads its clock after everyone
 * has asked and before anyone has an answer; the quickest round says most.
 * An offset that can't be told from zero is zero: ranks of one machine share a
 * clock. */
static ts_err compare_clocks(double *offset, ts_comm *c) {
  const int w = ts_comm_size(c);
  double asked[w], answers[w], answer = 0, least = INFINITY;
  *offset = 0;
  for (int k = 0; k < ROUNDS; k++) {
    const double before = ts_now();
    TS_DO(to_or_from_first(c, false, asked, &before, sizeof before));
    for (int r = 0; r < w; r++) answers[r] = ts_now();
    TS_DO(to_or_from_first(c, true, &answer, answers, sizeof answer));
    const double took = ts_now() - before;
    if (took >= least) continue;
    least = took;
    *offset = answer - (before + took / 2);
  }
  if (fabs(*offset) <= least) *offset = 0;
  return TS_OK;
}

ts_err ts_trace_file_open(ts_trace_file *f, const char *path, int64_t first,
                          int64_t end, ts_comm *c) {
  ts_err err = TS_OK;
  ts_str part = {0};
  double offset, origin = ts_now();
  TS_TRY(compare_clocks(&offset, c));
  TS_TRY(ts_comm_bcast(c, &origin, sizeof origin, 0));
  err = ts_str_append(&part, "%s.%d.part", path, ts_comm_rank(c));
  if (err == TS_OK) err = ts_mem_strdup(&f->path, path);
  if (err == TS_OK) err = ts_mem_strdup(&f->part, part.text);
  if (err == TS_OK)
    err = ts_trace_open(f->part, ts_comm_rank(c), origin - offset, first, end);
  TS_TRY(ts_agree(c, err));
done:
  ts_str_reset(&part);
  if (err != TS_OK) ts_trace_file_reset(f);
  return err;
}

/* ---- merging ------------------------------------------------------------- */

static ts_err put(FILE *out, const char *data, int64_t n, const char *path) {
  if (fwrite(data, 1, (size_t)n, out) == (size_t)n) return TS_OK;
  return ts_fail(TS_ERR_IO, "trace %s: %s", path, strerror(errno));
}

/* All of rank R's part to rank 0's OUT, through BUF (CHUNK bytes).  A local
 * error is kept in *OWN and the ranks go on together. */
static ts_err move_part(ts_comm *c, int r, FILE *part, FILE *out, char *buf,
                        const char *path, ts_err *own) {
  const int w = ts_comm_size(c);
  const bool first = ts_comm_rank(c) == 0, mine = ts_comm_rank(c) == r;
  int64_t n, send[w], recv[w];
  ts_token token;
  memset(send, 0, sizeof send);
  memset(recv, 0, sizeof recv);
  for (;;) {
    n = mine && part ? (int64_t)fread(buf, 1, CHUNK, part) : 0;
    TS_DO(ts_comm_bcast(c, &n, sizeof n, r));
    if (n == 0) break;
    send[0] = mine && !first ? n : 0;
    recv[r] = first && !mine ? n : 0;
    TS_DO(ts_comm_all_to_all_v(c, &token, buf, recv, buf, send, NULL));
    TS_DO(ts_comm_wait(&token));
    if (out && *own == TS_OK) *own = put(out, buf, n, path);
  }
  return TS_OK;
}

/* Up to the first event, and the ranks' names: an event a line. */
static ts_err write_head(FILE *out, int w) {
  fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":", out);
  TS_DO(ts_json_put(out,
                    json_pack("{s:s,s:s,s:i}", "program", "tessera", "version",
                              PACKAGE_VERSION, "ranks", w),
                    15));
  fputs(",\"traceEvents\":[", out);
  for (int r = 0; r < w; r++) {
    char name[32];
    snprintf(name, sizeof name, "rank %d", r);
    fputs(r ? ",\n" : "\n", out);
    TS_DO(ts_json_put(out,
                      json_pack("{s:s,s:s,s:i,s:{s:s}}", "ph", "M", "name",
                                "process_name", "pid", r, "args", "name", name),
                      15));
  }
  return TS_OK;
}

static ts_err merge(const ts_trace_file *f, const int64_t *counts, ts_comm *c,
                    ts_err *own) {
  ts_err err = TS_OK;
  char *buf = NULL;
  FILE *out = NULL, *part = fopen(f->part, "r");
  const bool first = ts_comm_rank(c) == 0;
  if (!part && *own == TS_OK)
    *own = ts_fail(TS_ERR_IO, "trace %s: %s", f->part, strerror(errno));
  if (first) out = fopen(f->path, "w");
  if (first && !out && *own == TS_OK)
    *own = ts_fail(TS_ERR_IO, "trace %s: %s", f->path, strerror(errno));
  TS_TRY(ts_mem_alloc(&buf, CHUNK, TS_TAG_MISC));
  if (out && *own == TS_OK) *own = write_head(out, ts_comm_size(c));
  for (int r = 0; r < ts_comm_size(c); r++) {
    if (out && counts[r]) fputs(",\n", out);
    TS_TRY(move_part(c, r, part, out, buf, f->path, own));
  }
  if (out) fputs("\n]}\n", out);
done:
  if (part) fclose(part);
  if (out && fclose(out) != 0 && *own == TS_OK)
    *own = ts_fail(TS_ERR_IO, "trace %s: %s", f->path, strerror(errno));
  ts_mem_free(buf);
  return err;
}

ts_err ts_trace_file_close(ts_trace_file *f, int64_t *n_events, ts_comm *c) {
  ts_err err = TS_OK;
  int64_t counts[ts_comm_size(c)], n = ts_trace_count();
  if (!f->path) return TS_OK;
  ts_err own = ts_trace_close();
  TS_TRY(ts_comm_gather_all(c, counts, &n, sizeof n));
  TS_TRY(merge(f, counts, c, &own));
  TS_TRY(ts_agree(c, own));
  n = 0;
  for (int r = 0; r < ts_comm_size(c); r++) n += counts[r];
  if (n_events) *n_events = n;
done:
  ts_trace_file_reset(f);
  return err;
}

void ts_trace_file_reset(ts_trace_file *f) {
  if (f->path && ts_trace_close() != TS_OK) ts_err_clear();
  if (f->part) unlink(f->part);
  ts_mem_free_all(f->path, f->part);
  *f = (ts_trace_file){0};
}
