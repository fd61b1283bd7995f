/* test_plot.c - metrics.jsonl read back for drawings: where evaluations are,
 * resumed runs, broken lines, means; round steps of axes.  ranks: 1 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "commands/plot.h"
#include "commands/svg.h"
#include "tests/support/harness.h"

static char path[] = "/tmp/tessera-plot-XXXXXX";

static void write_text(const char *text) {
  FILE *f = fopen(path, "w");
  ck_assert_ptr_nonnull(f);
  fputs(text, f);
  ck_assert_int_eq(fclose(f), 0);
}

static const ts_plot_series *series_of(const ts_plot_run *r, ts_plot_what w,
                                       ts_plot_data data, const char *task) {
  for (int32_t i = 0; i < r->n_series; i++) {
    const ts_plot_series *s = &r->series[i];
    if (s->what == w && s->data == data &&
        (task ? s->task && !strcmp(s->task, task) : !s->task))
      return s;
  }
  return NULL;
}

static void point_is(const ts_plot_series *s, int64_t k, int64_t step, double x,
                     double y) {
  ck_assert_ptr_nonnull(s);
  ck_assert_int_lt(k, s->n);
  ck_assert_int_eq(s->point[k].step, step);
  ck_assert_double_eq_tol(s->point[k].x, x, 1e-9 * (1 + x));
  ck_assert_double_eq_tol(s->point[k].y, y, 1e-12);
}

/* Evaluations lie where the lines around say that their step was, on the way
 * from the start before the first and on the last one's way behind it. */
TS_TEST(evaluations_have_places) {
  ts_plot_run r;
  write_text(
      "{\"step\":5,\"eval\":true,\"ne\":0.99,\"samples\":77}\n"
      "{\"step\":10,\"loss\":0.7,\"samples\":1000,\"window_ne\":0.9}\n"
      "{\"step\":10,\"table\":\"t\",\"hit_rate\":1,\"loss\":5}\n"
      "{\"step\":15,\"eval\":true,\"ne\":0.8,\"auc\":0.7,\"logloss\":0.6,"
      "\"samples\":77}\n"
      "{\"step\":20,\"loss\":0.6,\"samples\":3000,\"samples_per_s\":12.5}\n"
      "{\"step\":25,\"eval\":true,\"ne\":0.7,\"samples\":77}\n"
      "{\"step\":25,\"valid\":true,\"ne\":0.5,\"samples\":77}\n");
  ck_assert_ok(ts_plot_read(&r, path));
  point_is(series_of(&r, TS_PLOT_NE, TS_PLOT_VALID, NULL), 0, 25, 4000, 0.5);
  const ts_plot_series *s = series_of(&r, TS_PLOT_LOSS, TS_PLOT_TRAIN, NULL);
  ck_assert_int_eq(s->n, 2);
  point_is(s, 0, 10, 1000, 0.7);
  point_is(s, 1, 20, 3000, 0.6);
  point_is(series_of(&r, TS_PLOT_NE, TS_PLOT_EVAL, NULL), 0, 5, 500, 0.99);
  point_is(series_of(&r, TS_PLOT_NE, TS_PLOT_EVAL, NULL), 1, 15, 2000, 0.8);
  point_is(series_of(&r, TS_PLOT_NE, TS_PLOT_EVAL, NULL), 2, 25, 4000, 0.7);
  point_is(series_of(&r, TS_PLOT_LOSS, TS_PLOT_EVAL, NULL), 0, 15, 2000, 0.6);
  point_is(series_of(&r, TS_PLOT_AUC, TS_PLOT_EVAL, NULL), 0, 15, 2000, 0.7);
  point_is(series_of(&r, TS_PLOT_SPEED, TS_PLOT_TRAIN, NULL), 0, 20, 3000,
           12.5);
  point_is(series_of(&r, TS_PLOT_NE, TS_PLOT_TRAIN, NULL), 0, 10, 1000, 0.9);
  ck_assert_ptr_null(series_of(&r, TS_PLOT_AUC, TS_PLOT_TRAIN, NULL));
  ck_assert_int_eq(r.n_bad, 0);
  ck_assert_int_eq(r.n_lines, 7);
  ts_plot_run_reset(&r);
}

/* A run taken up at step 10, whose old lines are still there, and one that
 * evaluated its last step twice. */
TS_TEST(later_lines_count) {
  ts_plot_run r;
  write_text("{\"step\":10,\"loss\":1,\"samples\":10}\n"
             "{\"step\":20,\"loss\":2,\"samples\":20}\n"
             "{\"step\":20,\"eval\":true,\"ne\":3}\n"
             "{\"step\":30,\"loss\":3,\"samples\":30}\n"
             "{\"step\":15,\"loss\":4,\"samples\":16}\n"
             "{\"step\":20,\"loss\":5,\"samples\":22}\n"
             "{\"step\":20,\"eval\":true,\"ne\":6}\n"
             "{\"step\":20,\"eval\":true,\"ne\":7}\n");
  ck_assert_ok(ts_plot_read(&r, path));
  const ts_plot_series *s = series_of(&r, TS_PLOT_LOSS, TS_PLOT_TRAIN, NULL);
  ck_assert_int_eq(s->n, 3);
  point_is(s, 0, 10, 10, 1);
  point_is(s, 1, 15, 16, 4);
  point_is(s, 2, 20, 22, 5);
  s = series_of(&r, TS_PLOT_NE, TS_PLOT_EVAL, NULL);
  ck_assert_int_eq(s->n, 1);
  point_is(s, 0, 20, 22, 7);
  ts_plot_run_reset(&r);
}

TS_TEST(tasks_are_apart) {
  ts_plot_run r;
  write_text("{\"step\":2,\"loss\":1,\"samples\":10}\n"
             "{\"step\":2,\"eval\":true,\"task\":\"click\",\"ne\":0.5,"
             "\"logloss\":9}\n"
             "{\"step\":2,\"eval\":true,\"task\":\"buy\",\"ne\":0.6}\n");
  ck_assert_ok(ts_plot_read(&r, path));
  point_is(series_of(&r, TS_PLOT_NE, TS_PLOT_EVAL, "click"), 0, 2, 10, 0.5);
  point_is(series_of(&r, TS_PLOT_NE, TS_PLOT_EVAL, "buy"), 0, 2, 10, 0.6);
  ck_assert_ptr_null(series_of(&r, TS_PLOT_LOSS, TS_PLOT_EVAL, "click"));
  ts_plot_run_reset(&r);
}

static const char *const broken[] = {"{\"step\":3,\"loss\":0.5",
                                     "{\"step\":3,\"loss\":",
                                     "{\"step\":3,\"lo",
                                     "{\"step\":3,\"loss\":0.5}}",
                                     "{\"loss\":0.5,\"samples\":3}",
                                     "{\"step\":-3,\"loss\":0.5}",
                                     "{\"step\":\"3\",\"loss\":0.5}",
                                     "[1, 2]",
                                     "{\"step\":3,\"loss\":inf}",
                                     "",
                                     "{\"step\":1e300,\"samples\":1}",
                                     "garbage",
                                     "{\"step\":3,\"loss\":0.5,}",
                                     "{\"step\":nan,\"loss\":0.5}"};

/* What can't be read is counted, and the rest is as it is without it. */
TS_TESTS(broken_lines_are_counted, 0, (int)(sizeof broken / sizeof *broken)) {
  ts_plot_run r;
  char text[1024];
  snprintf(text, sizeof text,
           "{\"step\":1,\"loss\":1,\"samples\":10}\n%s\n"
           "{\"step\":2,\"loss\":2,\"samples\":20}\n%s",
           broken[_i], broken[_i]);
  write_text(text);
  ck_assert_ok(ts_plot_read(&r, path));
  ck_assert_int_eq(r.n_bad, *broken[_i] ? 2 : 1);
  ck_assert_int_eq(series_of(&r, TS_PLOT_LOSS, TS_PLOT_TRAIN, NULL)->n, 2);
  ts_plot_run_reset(&r);
  write_text(broken[_i]);
  ck_assert_int_eq(ts_plot_read(&r, path), TS_ERR_DATA);
  ts_err_clear();
}

TS_TEST(figures_that_are_no_numbers) {
  ts_plot_run r;
  write_text(
      "{\"step\":1,\"loss\":\"1\",\"samples\":10,\"samples_per_s\":1}\n"
      "{\"step\":2,\"loss\":null,\"samples\":20,\"other\":{\"loss\":1}}\n"
      "{\"step\":3,\"loss\":[1],\"samples\":30}");
  ck_assert_ok(ts_plot_read(&r, path));
  ck_assert_int_eq(r.n_bad, 0);
  ck_assert_ptr_null(series_of(&r, TS_PLOT_LOSS, TS_PLOT_TRAIN, NULL));
  ck_assert_int_eq(series_of(&r, TS_PLOT_SPEED, TS_PLOT_TRAIN, NULL)->n, 1);
  ts_plot_run_reset(&r);
}

TS_TEST(means) {
  ts_plot_run r;
  write_text("{\"step\":1,\"loss\":1,\"samples\":1}\n"
             "{\"step\":2,\"loss\":3,\"samples\":2}\n"
             "{\"step\":3,\"loss\":8,\"samples\":3}\n"
             "{\"step\":4,\"loss\":4,\"samples\":4}\n"
             "{\"step\":3,\"eval\":true,\"logloss\":100}\n");
  ck_assert_ok(ts_plot_read(&r, path));
  ts_plot_smooth(&r, 1);
  point_is(series_of(&r, TS_PLOT_LOSS, TS_PLOT_TRAIN, NULL), 2, 3, 3, 8);
  ts_plot_smooth(&r, 3);
  const ts_plot_series *s = series_of(&r, TS_PLOT_LOSS, TS_PLOT_TRAIN, NULL);
  ck_assert_int_eq(s->n, 3); /* step 3 was told again */
  point_is(s, 0, 1, 1, 1);
  point_is(s, 1, 2, 2, 2);
  point_is(s, 2, 3, 3, 4);
  point_is(series_of(&r, TS_PLOT_LOSS, TS_PLOT_EVAL, NULL), 0, 3, 3, 100);
  ts_plot_run_reset(&r);
}

/* Steps are 1, 2 or 5 times a power of ten, LEAST or up to 2.5 LEAST. */
TS_TEST(steps_are_round) {
  for (int least = 1; least < 20; least++)
    for (double span = 1e-6; span < 1e9; span *= 1.37) {
      const double step = ts_svg_step(span, least);
      const double ten = pow(10, floor(log10(step) + 1e-9));
      const int digit = (int)lround(step / ten);
      ck_assert_msg(digit == 1 || digit == 2 || digit == 5, "step %g", step);
      ck_assert_double_eq_tol(step, digit * ten, 1e-9 * step);
      ck_assert_double_ge(span / step, least * (1 - 1e-9));
      ck_assert_double_le(span / step, 2.5 * least * (1 + 1e-9));
    }
}

int main(int argc, char **argv) {
  const int fd = mkstemp(path);
  if (fd < 0) return 99;
  close(fd);
  const int code = ts_test_main(argc, argv);
  unlink(path);
  return code;
}
