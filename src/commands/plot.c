/* plot.c - `tessera plot RUN... --out FILE.svg`. */
#include "commands/plot.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "commands/commands.h"

enum { SMOOTH_MAX = 10000 };

static ts_err unknown_figure(const char *word, int n) {
  ts_err err = TS_OK;
  ts_str all = {0};
  for (int w = 0; w < TS_PLOT_COUNT; w++)
    TS_TRY(ts_str_append(&all, "%s%s", w ? ", " : "",
                         ts_plot_name((ts_plot_what)w)));
  TS_THROW(TS_ERR_USAGE, "--what: no figure \"%.*s\"; there are: %s", n, word,
           all.text);
done:
  ts_str_reset(&all);
  return err;
}

/* "loss,auc"; NULL is all. */
static ts_err parse_what(const char *text, bool what[TS_PLOT_COUNT]) {
  for (int w = 0; w < TS_PLOT_COUNT; w++) what[w] = !text;
  while (text) {
    const size_t n = strcspn(text, ",");
    int w = 0;
    while (w < TS_PLOT_COUNT &&
           (strlen(ts_plot_name((ts_plot_what)w)) != n ||
            strncmp(ts_plot_name((ts_plot_what)w), text, n) != 0))
      w++;
    if (w == TS_PLOT_COUNT) return unknown_figure(text, (int)n);
    what[w] = true;
    text = text[n] ? text + n + 1 : NULL;
  }
  return TS_OK;
}

static ts_err parse_smooth(const char *text, int64_t *n) {
  char *end;
  *n = 1;
  if (!text) return TS_OK;
  *n = strtol(text, &end, 10);
  if (end == text || *end || *n < 1 || *n > SMOOTH_MAX)
    return ts_fail(TS_ERR_USAGE, "--smooth %s is no number of lines in 1 to %d",
                   text, SMOOTH_MAX);
  return TS_OK;
}

/* A drawing must not take the place of what it is drawn from. */
static ts_err check_out(const char *out, const ts_plot_run *run, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (ts_file_is_same(out, run[i].path))
      return ts_fail(TS_ERR_USAGE, "--out %s is a file to read", out);
  return TS_OK;
}

static bool has(const ts_plot_run *r, ts_plot_what w) {
  for (int32_t i = 0; i < r->n_series; i++)
    if (r->series[i].what == w) return true;
  return false;
}

/* Notes the figures that are missing, and the lines that could not be read. */
static void note(const ts_plot_run *run, int32_t n, const bool *what) {
  for (int32_t i = 0; i < n; i++)
    if (run[i].n_bad)
      ts_note("%s: %lld of %lld lines could not be read: left out", run[i].path,
              (long long)run[i].n_bad, (long long)run[i].n_lines);
  for (int w = 0; w < TS_PLOT_COUNT; w++) {
    int32_t n_with = 0;
    for (int32_t i = 0; i < n; i++) n_with += has(&run[i], (ts_plot_what)w);
    for (int32_t i = 0; what[w] && n_with && i < n; i++)
      if (!has(&run[i], (ts_plot_what)w))
        ts_note("%s has no figures of %s", run[i].name,
                ts_plot_name((ts_plot_what)w));
  }
}

/* Names that are given twice become whole paths. */
static ts_err part_names(ts_plot_run *run, int32_t n) {
  bool twice = false;
  for (int32_t i = 0; i < n; i++)
    for (int32_t k = 0; k < i; k++) twice |= !strcmp(run[i].name, run[k].name);
  for (int32_t i = 0; twice && i < n; i++) {
    ts_mem_free(run[i].name);
    run[i].name = NULL;
    TS_DO(ts_mem_strdup(&run[i].name, run[i].path));
  }
  return TS_OK;
}

ts_err ts_cmd_plot(const ts_args *a) {
  ts_err err = TS_OK;
  bool what[TS_PLOT_COUNT];
  ts_plot_run *run = NULL;
  int32_t n = 0;
  int64_t smooth;
  if (!a->target || !a->out)
    TS_THROW(TS_ERR_USAGE, "usage: tessera plot RUN... --out FILE.svg "
                           "[--what NAME,NAME] [--smooth N], or tessera plot "
                           "--model DECK --out FILE.svg");
  if (a->model) return ts_plot_model(a->target, a->sets, a->n_sets, a->out);
  TS_TRY(parse_what(a->what, what));
  TS_TRY(parse_smooth(a->smooth, &smooth));
  TS_TRY(ts_mem_array(&run, 1 + a->n_more, sizeof *run, TS_TAG_MISC));
  for (; n < 1 + a->n_more; n++)
    TS_TRY(ts_plot_read(&run[n], n ? a->more[n - 1] : a->target));
  TS_TRY(check_out(a->out, run, n));
  TS_TRY(part_names(run, n));
  note(run, n, what);
  for (int32_t i = 0; i < n; i++) ts_plot_smooth(&run[i], smooth);
  TS_TRY(ts_plot_draw(run, n, what, a->out));
done:
  while (n-- > 0) ts_plot_run_reset(&run[n]);
  ts_mem_free(run);
  return err;
}
