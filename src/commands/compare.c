/* compare.c - `tessera compare RUN RUN`. */
#include "train/compare.h"

#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "commands/commands.h"
#include "train/metrics.h"

enum { RESAMPLES = 1000, LEAST = 100, MOST = 100000 };

/* What is printed beside the figures. */
typedef struct ts_telling {
  int32_t resamples, seed;
} ts_telling;

/* ---- text ---------------------------------------------------------------- */

static const char *verdict(const ts_paired *p, int kind) {
  const int better = ts_paired_better(p, kind);
  return !better      ? "no difference beyond chance"
         : better > 0 ? "B is better"
                      : "A is better";
}

static void print_task(const ts_comparison *c, int32_t task) {
  if (c->n_tasks > 1) printf("task %s\n", c->tasks[task]);
  puts("figure          A         B     B - A  95% interval");
  for (int k = 0; k < TS_PAIRED_KINDS; k++) {
    const ts_paired *p = &c->figures[task * TS_PAIRED_KINDS + k];
    int digits;
    const char *name =
        ts_metric_text(ts_metric_find(ts_paired_names[k]), &digits);
    printf("%-8s  %8.*f  %8.*f  %+8.*f  %+.*f to %+.*f  %s\n", name, digits,
           p->of[0], digits, p->of[1], digits, p->of[1] - p->of[0], digits,
           p->low, digits, p->high, verdict(p, k));
  }
}

static ts_err print_text(const ts_comparison *c, const void *telling) {
  const ts_telling *t = telling;
  char n[32];
  for (int k = 0; k < 2; k++)
    printf("%c: %s, step %lld of %s\n", 'A' + k, c->run[k].run,
           (long long)c->run[k].step, c->run[k].checkpoint);
  printf("the same %s samples, %d resamples of seed %d\n",
         ts_str_count(n, c->n_samples), t->resamples, t->seed);
  for (int32_t k = 0; k < c->n_tasks; k++) print_task(c, k);
  return TS_OK;
}

/* ---- JSON ---------------------------------------------------------------- */

static json_t *json_of_run(const ts_compared_run *r) {
  return json_pack("{s:o, s:o, s:o}", "run", ts_json_text(r->run), "checkpoint",
                   ts_json_text(r->checkpoint), "step",
                   ts_json_number((double)r->step));
}

static json_t *json_of_task(const ts_comparison *c, int32_t task) {
  json_t *of = json_pack("{s:o}", "task", ts_json_text(c->tasks[task]));
  for (int k = 0; of && k < TS_PAIRED_KINDS; k++) {
    const ts_paired *p = &c->figures[task * TS_PAIRED_KINDS + k];
    const int better = ts_paired_better(p, k);
    json_object_set_new(of, ts_paired_names[k],
                        json_pack("{s:o, s:o, s:o, s:o, s:o, s:s?}", "a",
                                  ts_json_number(p->of[0]), "b",
                                  ts_json_number(p->of[1]), "difference",
                                  ts_json_number(p->of[1] - p->of[0]), "low",
                                  ts_json_number(p->low), "high",
                                  ts_json_number(p->high), "better",
                                  !better      ? NULL
                                  : better > 0 ? "b"
                                               : "a"));
  }
  return of;
}

static ts_err print_json(const ts_comparison *c, const void *telling) {
  const ts_telling *t = telling;
  json_t *tasks = json_array();
  for (int32_t k = 0; k < c->n_tasks; k++)
    json_array_append_new(tasks, json_of_task(c, k));
  TS_DO(ts_json_put(stdout,
                    json_pack("{s:o, s:o, s:o, s:i, s:i, s:o}", "a",
                              json_of_run(&c->run[0]), "b",
                              json_of_run(&c->run[1]), "samples",
                              ts_json_number((double)c->n_samples), "resamples",
                              t->resamples, "seed", t->seed, "tasks", tasks),
                    6));
  puts("");
  return TS_OK;
}

/* ---- the command --------------------------------------------------------- */

ts_err ts_cmd_compare(const ts_args *a) {
  ts_err err = TS_OK;
  ts_strings data = {0};
  ts_telling t;
  if (a->n_more != 1)
    return ts_fail(TS_ERR_USAGE, "usage: tessera compare RUN RUN [--data "
                                 "FILE,FILE] [--resamples N] [--seed N] "
                                 "[--json]");
  if (a->json) ts_log_aside();
  TS_TRY(ts_args_number("--resamples", a->resamples, RESAMPLES, LEAST, MOST,
                        &t.resamples));
  TS_TRY(ts_args_number("--seed", a->seed, 1, 0, INT32_MAX, &t.seed));
  TS_TRY(ts_args_names(&data, "--data", a->data));
  TS_TRY(ts_run_compare(&(ts_compare){.run = {a->target, a->more[0]},
                                      .data = &data,
                                      .sets = a->sets,
                                      .n_sets = a->n_sets,
                                      .n_resamples = t.resamples,
                                      .seed = (uint64_t)t.seed,
                                      .tell = a->json ? print_json : print_text,
                                      .arg = &t}));
done:
  ts_args_names_free(&data);
  return err;
}
