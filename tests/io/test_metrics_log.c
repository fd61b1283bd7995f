/* test_metrics_log.c - metrics.jsonl in several files: whatever is written,
 * resumed and killed, they are the lines that one file would have.  ranks: 1 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/metrics_log.h"
#include "tests/support/folder.h"
#include "tests/support/walk.h"

enum { MOST = 4000 };

/* The lines as one file would have them: steps and evaluations. */
static struct {
  int64_t step[MOST];
  int event[MOST], n;
} whole;

static char path[96], name[128];
static ts_metrics_log *the_log;
static int64_t resumed_at, greatest; /* step of the start; of the log */
static const char *const events[] = {NULL, "eval", "checkpoint"};

static const char *numbered(int64_t n) {
  snprintf(name, sizeof name, "%s/metrics.%lld.jsonl", dir, (long long)n);
  return name;
}

static int64_t size_of(const char *file) {
  struct stat s;
  return stat(file, &s) == 0 ? (int64_t)s.st_size : -1;
}

static void start(void) {
  folder_start();
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  whole.n = 0;
  greatest = 0;
  the_log = NULL;
}

static void stop(void) {
  ts_metrics_log_close(the_log);
  folder_stop();
}

/* A number says where a line stands, so that none can take another's place. */
static ts_err put(int64_t step, int event) {
  static const char *const names[] = {"at"};
  const double at = whole.n;
  ck_assert_int_lt(whole.n, MOST);
  whole.step[whole.n] = step;
  whole.event[whole.n++] = event;
  if (step > greatest) greatest = step;
  return ts_metrics_log_line(the_log, &(ts_metrics_line){.step = step,
                                                         .event = events[event],
                                                         .n = 1,
                                                         .names = names,
                                                         .values = &at});
}

/* As a run begins at STEP: of one file all would go from the first line on that
 * is of a later step. */
static void resume(int64_t step, int64_t n_bytes) {
  int64_t n_evaluations = 0;
  int n = 0;
  ts_metrics_log_close(the_log);
  the_log = NULL;
  ck_assert_ok(ts_metrics_log_open(&the_log, path, step, n_bytes));
  for (; n < whole.n && step > 0 && whole.step[n] <= step; n++)
    n_evaluations += whole.step[n] == step && whole.event[n] == 1;
  whole.n = n;
  ck_assert_int_eq(ts_metrics_log_evaluations(the_log), n_evaluations);
  resumed_at = greatest = step;
}

/* The reader has N lines of the whole log from FIRST on. */
static void read_from(int first, int n) {
  ts_metrics_reader r = {.path = path};
  json_t *line;
  bool end;
  for (int i = first;; i++) {
    ck_assert_ok(ts_metrics_reader_next(&r, &line, &end));
    if (end) {
      ck_assert_int_eq(i, first + n);
      break;
    }
    ck_assert_int_lt(i, first + n);
    ck_assert_int_eq(json_integer_value(json_object_get(line, "at")), i);
    ck_assert_int_eq(json_integer_value(json_object_get(line, "step")),
                     whole.step[i]);
    if (events[whole.event[i]])
      ck_assert(json_is_true(json_object_get(line, events[whole.event[i]])));
    json_decref(line);
  }
  ts_metrics_reader_reset(&r);
}

/* Files have numbers from 1 on, and all but the newest the size. */
static int64_t count_files(int64_t n_bytes) {
  int64_t n = 0;
  for (; size_of(numbered(n + 1)) >= 0; n++)
    ck_assert_int_ge(size_of(name), n_bytes);
  ck_assert_int_ge(size_of(path), 0);
  return n;
}

/* Lines as runs have them: several of a step, and now and then one of a
 * checkpoint that was begun before. */
static void write_some(int n) {
  for (int i = 0; i < n; i++) {
    const int what = rand() % 8;
    const int64_t late = greatest - 1 > resumed_at ? greatest - 1 : greatest;
    if (what < 5 || !greatest)
      ck_assert_ok(put(greatest + 1 + (int64_t)(what == 0), 0));
    else
      ck_assert_ok(put(what == 5 ? late : greatest, what == 5 ? 2 : 1));
  }
}

TS_TESTS(files_are_one_log, 1, 40) {
  static const int64_t sizes[] = {0, 1, 150, 400};
  srand((unsigned)_i);
  start();
  const int64_t held = walk_held();
  for (int k = 0; k < 30; k++) {
    const int64_t n_bytes = sizes[rand() % 4];
    const int64_t before = greatest;
    int64_t step = rand() % (before + 2);
    if (k % 3 == 0) step = before; /* no line goes */
    if (!k || k == 20) step = 0;
    resume(step, n_bytes);
    read_from(0, whole.n);
    write_some(rand() % 30);
    read_from(0, whole.n);
  }
  ts_metrics_log_close(the_log);
  the_log = NULL;
  ck_assert_int_eq(walk_held(), held);
  stop();
}

/* A file that has its number is left alone; a step's lines stay together; one
 * that is taken away leaves the others their numbers. */
TS_TEST(numbers_stay) {
  start();
  resume(0, 70);
  for (int64_t step = 1; step <= 60; step++) {
    ck_assert_ok(put(step, 0));
    ck_assert_ok(put(step, 1));
    ck_assert_ok(put(step, 1));
  }
  const int64_t n = count_files(70), first = size_of(numbered(1));
  ck_assert_int_eq(n, 59); /* a step's three lines are more than 70 bytes */
  for (int64_t i = 2; i <= n; i++)
    ck_assert_int_lt(llabs(size_of(numbered(i)) - first), 10);
  resume(60, 70);
  ck_assert_int_eq(ts_metrics_log_evaluations(the_log), 2);
  ck_assert_int_eq(count_files(70), 59);
  ck_assert_int_eq(unlink(numbered(1)), 0);
  ck_assert_int_eq(unlink(numbered(3)), 0);
  FILE *odd = fopen(numbered(7777), "w"); /* not one that is ours to count by */
  ck_assert_int_eq(fclose(odd), 0);
  ck_assert_int_eq(rename(numbered(7777), strcat(path, ".x")), 0);
  path[strlen(path) - 2] = '\0';
  ck_assert_ok(put(61, 0));
  ck_assert_int_gt(size_of(numbered(60)), 0);
  ck_assert_int_lt(size_of(numbered(61)), 0);
  resume(30, 0);
  ck_assert_int_lt(size_of(numbered(30)), 0); /* it is the newest again */
  ck_assert_int_gt(size_of(numbered(29)), 0);
  ts_metrics_reader r = {.path = path};
  json_t *line;
  int n_lines = 0;
  for (bool end = false; !end; n_lines += !end, json_decref(line))
    ck_assert_ok(ts_metrics_reader_next(&r, &line, &end));
  ck_assert_int_eq(n_lines, 3 * 28);
  ts_metrics_reader_reset(&r);
  stop();
}

/* Read while it is written: what is there is read once, whatever is renamed
 * between two lines. */
TS_TEST(read_while_written) {
  start();
  resume(0, 60);
  ck_assert_ok(put(1, 0));
  ts_metrics_reader r = {.path = path};
  json_t *line;
  bool end = false;
  for (int i = 0; i < 200; i++) {
    ck_assert_ok(ts_metrics_reader_next(&r, &line, &end));
    ck_assert(!end);
    ck_assert_int_eq(json_integer_value(json_object_get(line, "at")), i);
    json_decref(line);
    ck_assert_ok(put(greatest + 1, 0));
    if (i % 7 == 0) ck_assert_ok(put(greatest + 1, 0));
    if (r.last) break;
  }
  ts_metrics_reader_reset(&r);
  stop();
}

TS_TEST(of_another_name) {
  json_t *line;
  bool end;
  start();
  resume(0, 1);
  for (int64_t step = 1; step < 5; step++) ck_assert_ok(put(step, 0));
  ck_assert_int_eq(count_files(1), 3);
  ts_metrics_reader r = {.path = numbered(2)}; /* that file alone */
  ck_assert_ok(ts_metrics_reader_next(&r, &line, &end));
  ck_assert_int_eq(json_integer_value(json_object_get(line, "step")), 2);
  json_decref(line);
  ck_assert_ok(ts_metrics_reader_next(&r, &line, &end));
  ck_assert(end);
  ts_metrics_reader_reset(&r);
  ck_assert_int_eq(symlink(path, numbered(9)), 0); /* planted */
  ts_metrics_log_close(the_log);
  the_log = NULL;
  ck_assert_int_eq(ts_metrics_log_open(&the_log, path, 0, 1), TS_ERR_IO);
  ck_assert_ptr_nonnull(strstr(ts_err_message(), "9.jsonl: is a symbolic"));
  ts_err_clear();
  stop();
}

#ifdef TS_FAULTS
/* In a process that is killed at FAULT, if it comes there: a start at STEP, and
 * 20 steps.  Returns whether it was. */
static bool killed_at(const char *fault, int64_t step) {
  int status;
  ts_metrics_log_close(the_log);
  the_log = NULL;
  const pid_t child = fork();
  if (!child) {
    if (ts_fault_set(fault, 0) != TS_OK) _exit(3);
    if (ts_metrics_log_open(&the_log, path, step, 120) != TS_OK) _exit(4);
    int n = 0;
    for (; n < whole.n && whole.step[n] <= step; n++)
      ;
    whole.n = n;
    for (int64_t s = step + 1; s <= step + 20; s++)
      if (put(s, 0) != TS_OK) _exit(5);
    _exit(0);
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

/* Lines that the files have, which follow each other from the first. */
static int n_whole(void) {
  ts_metrics_reader r = {.path = path};
  json_t *line;
  bool end;
  int n = 0;
  for (;; n++) {
    ck_assert_ok(ts_metrics_reader_next(&r, &line, &end));
    if (end) break;
    ck_assert_int_eq(json_integer_value(json_object_get(line, "at")), n);
    json_decref(line);
  }
  ts_metrics_reader_reset(&r);
  return n;
}

/* Each passage through each point in turn: of 20 steps that go on at step 40,
 * after 80, those until 40 stay, and all that were told before the kill. */
TS_TEST(killed_anywhere) {
  static const char *const points[] = {"rename", "open", "flush"};
  char fault[64];
  start();
  for (int p = 0; p < 3; p++)
    for (int nth = 1;; nth++) {
      whole.n = 0;
      resume(0, 120);
      for (int64_t step = 1; step <= 80; step++) ck_assert_ok(put(step, 0));
      snprintf(fault, sizeof fault, "%s:rank0:nth%d:KILL", points[p], nth);
      if (!killed_at(fault, 40)) {
        ck_assert_int_gt(nth, p == 1 ? 8 : 4);
        break;
      }
      const int n = n_whole();
      ck_assert_int_ge(n, 40);
      if (p == 2) ck_assert_int_eq(n, 40 + nth - 1);
      whole.n = n; /* steps 1, 2, 3... as before */
      resume(40, 0);
      ck_assert_int_eq(whole.n, 40);
      read_from(0, 40);
    }
  stop();
}

static ts_err write_and_close(void *arg) {
  (void)arg;
  ts_err err = TS_OK;
  ts_metrics_log *l = NULL;
  TS_TRY(ts_metrics_log_open(&l, path, 3, 1));
  for (int64_t step = 4; step < 8; step++)
    TS_TRY(ts_metrics_log_line(l, &(ts_metrics_line){.step = step}));
done:
  /* A log that failed can be written to still, as a run that ends may. */
  if (l && err != TS_OK) {
    ts_err_record why;
    ts_err_take(&why);
    (void)ts_metrics_log_line(l, &(ts_metrics_line){.step = 9});
    ts_err_clear();
    ts_err_put(&why);
  }
  ts_metrics_log_close(l);
  return err;
}

TS_TEST(each_call_may_fail) {
  start();
  resume(0, 1);
  for (int64_t step = 1; step <= 6; step++) ck_assert_ok(put(step, 0));
  ts_metrics_log_close(the_log);
  the_log = NULL;
  walk(write_and_close, NULL, "rename", 1u << TS_ERR_IO);
  walk(write_and_close, NULL, "open", 1u << TS_ERR_IO);
  walk(write_and_close, NULL, "flush", 1u << TS_ERR_IO);
  walk(write_and_close, NULL, "alloc", 1u << TS_ERR_NOMEM);
  stop();
}
#endif

int main(int argc, char **argv) {
  return ts_test_main(argc, argv);
}
