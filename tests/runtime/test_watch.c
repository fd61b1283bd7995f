/* test_watch.c - deadlines of the watchdog's sections: the deck's, those that
 * follow the median of steps, and those before anything is known.  That hangs
 * are found is watchdog.sh's. */
#include <math.h>

#include "tests/support/harness.h"
#include "runtime/watchdog_impl.h"

static void learn(int n, double seconds) {
  for (int i = 0; i < n; i++) ts_watch_learn(seconds);
}

TS_TEST(the_median_counts) {
  const ts_watch_options o = {.otherwise_s = 600};
  ts_watch_configure(&o);
  learn(7, 10);
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_STEP), 600);
  learn(1, 10000); /* one that is slow moves nothing */
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_STEP), 500);
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_EVAL), 500);
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_INPUT), 500);
  /* These have no median. */
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_SETUP), 600);
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_SAVE), 600);
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_LOAD), 600);
  ck_assert(isinf(ts_watch_deadline(TS_SECTION_NONE)));
  /* The last steps count, and a deadline is never very short. */
  learn(32, 20);
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_STEP), 1000);
  learn(32, 0.01);
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_STEP), 120);
}

TS_TEST(the_deck_wins) {
  ts_watch_options o = {.otherwise_s = 600};
  learn(32, 20);
  o.deadline_s[TS_SECTION_STEP] = 30;
  o.deadline_s[TS_SECTION_INPUT] = 40;
  ts_watch_configure(&o);
  /* A step may wait for its input. */
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_STEP), 40);
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_INPUT), 40);
  ck_assert_double_eq(ts_watch_deadline(TS_SECTION_EVAL), 1000);
  o.otherwise_s = 0; /* none */
  ts_watch_configure(&o);
  ck_assert(isinf(ts_watch_deadline(TS_SECTION_SAVE)));
}
