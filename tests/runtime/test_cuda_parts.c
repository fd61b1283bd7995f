/* test_cuda_parts.c - what of cuda/ needs neither CUDA nor a GPU: which
 * positions have been reached, grids, which GPU a rank takes. */
#include <stdlib.h>

#include "cuda/runtime/choose.h"
#include "cuda/runtime/event_ring.h"
#include "cuda/runtime/grid.h"
#include "tests/support/harness.h"

/* ---- the ring, over events that are reached on demand -------------------- */

typedef struct ts_fake_event {
  uint64_t recorded; /* position of the fake stream */
} ts_fake_event;

static uint64_t position, reached; /* recorded so far; reached so far */
static int n_events, n_queries;
static bool broken;

static ts_err fake_create(void **event, void *arg) {
  (void)arg;
  *event = calloc(1, sizeof(ts_fake_event));
  n_events++;
  return *event ? TS_OK : ts_fail(TS_ERR_NOMEM, "no event");
}

static void fake_destroy(void *event, void *arg) {
  (void)arg;
  free(event);
  n_events--;
}

static ts_err fake_record(void *event, void *arg) {
  (void)arg;
  if (broken) return ts_fail(TS_ERR_INTERNAL, "broken");
  ((ts_fake_event *)event)->recorded = ++position;
  return TS_OK;
}

static ts_err fake_query(void *event, bool *is, void *arg) {
  (void)arg;
  n_queries++;
  if (broken) return ts_fail(TS_ERR_INTERNAL, "broken");
  *is = ((ts_fake_event *)event)->recorded <= reached;
  return TS_OK;
}

static const ts_event_calls fakes = {fake_create, fake_destroy, fake_record,
                                     fake_query};

static void start(ts_event_ring *r) {
  position = reached = 0;
  n_events = n_queries = 0;
  broken = false;
  ts_event_ring_start(r, &fakes, NULL);
}

/* What stands for SEQ is its own, never that of a later one. */
static void check(const ts_event_ring *r, uint64_t seq) {
  const ts_fake_event *e = ts_event_ring_find(r, seq);
  if (seq > r->done)
    ck_assert_uint_eq(e->recorded, seq);
  else
    ck_assert_ptr_null(e);
}

/* Nothing is reached while a thousand more are recorded: each keeps its own.
 * Those that are reached make room. */
START_TEST(a_ring_loses_nothing) {
  enum { MANY = 1000 };
  ts_event_ring r;
  uint64_t seq;
  start(&r);
  for (uint64_t i = 1; i <= MANY; i++) {
    ck_assert_ok(ts_event_ring_record(&r, &seq));
    ck_assert_uint_eq(seq, i);
    for (uint64_t s = 1; s <= i; s += 1 + i / 7) check(&r, s);
  }
  ck_assert_uint_eq(r.done, 0);
  for (reached = 0; reached <= MANY; reached += 37) {
    ck_assert_ok(ts_event_ring_poll(&r));
    ck_assert_uint_eq(r.done, reached);
    for (uint64_t s = 0; s <= MANY; s++) check(&r, s);
  }
  reached = MANY;
  ck_assert_ok(ts_event_ring_poll(&r));
  ck_assert_uint_eq(r.done, MANY);
  ts_event_ring_reset(&r);
  ck_assert_int_eq(n_events, 0);
}
END_TEST

/* A lane that gets on needs as many events as it has open positions, whatever
 * the number of those it has had. */
START_TEST(events_are_used_again) {
  enum { OPEN = 10, MANY = 10000 };
  ts_event_ring r;
  uint64_t seq;
  start(&r);
  for (uint64_t i = 1; i <= MANY; i++) {
    reached = i > OPEN ? i - OPEN : 0;
    ck_assert_ok(ts_event_ring_record(&r, &seq));
    ck_assert_uint_eq(seq, i);
    check(&r, i);
    check(&r, reached);
    check(&r, reached + 1);
  }
  ck_assert_int_le(n_events, OPEN + 1);
  ck_assert_int_le(n_queries, 3 * MANY);
  ck_assert_uint_le(r.capacity, 64);
  ts_event_ring_reset(&r);
  ck_assert_int_eq(n_events, 0);
}
END_TEST

/* What is held is not asked for and not reached; released it is recorded once
 * for all, and reached together. */
START_TEST(held_positions_wait) {
  enum { BEFORE = 3, HELD = 100 };
  ts_event_ring r;
  uint64_t seq;
  start(&r);
  for (int i = 0; i < BEFORE; i++) ck_assert_ok(ts_event_ring_record(&r, &seq));
  ts_event_ring_hold(&r);
  for (int i = 0; i < HELD; i++) ck_assert_ok(ts_event_ring_record(&r, &seq));
  reached = UINT64_MAX;
  ck_assert_ok(ts_event_ring_poll(&r));
  ck_assert_uint_eq(r.done, BEFORE);
  ck_assert(!ts_event_ring_holds(&r, BEFORE));
  ck_assert(ts_event_ring_holds(&r, BEFORE + 1));
  ck_assert(ts_event_ring_holds(&r, BEFORE + HELD));
  ck_assert(!ts_event_ring_holds(&r, BEFORE + HELD + 1));
  reached = BEFORE; /* recordings are numbered */
  ck_assert_ok(ts_event_ring_release(&r));
  ck_assert(!ts_event_ring_holds(&r, BEFORE + 1));
  ck_assert_ok(ts_event_ring_poll(&r));
  ck_assert_uint_eq(r.done, BEFORE); /* it is behind what came before */
  void *all = ts_event_ring_find(&r, BEFORE + HELD);
  ck_assert_ptr_nonnull(all);
  for (uint64_t i = 1; i < HELD; i++)
    ck_assert_ptr_eq(ts_event_ring_find(&r, BEFORE + i), all);
  for (int i = 0; i < HELD; i++) { /* the ring turns and grows */
    ck_assert_ok(ts_event_ring_record(&r, &seq));
    ck_assert_ptr_ne(ts_event_ring_find(&r, seq), all);
  }
  ck_assert_ptr_eq(ts_event_ring_find(&r, BEFORE + 1), all);
  reached = BEFORE + 1;
  ck_assert_ok(ts_event_ring_poll(&r));
  ck_assert_uint_eq(r.done, BEFORE + HELD);
  reached += HELD;
  ck_assert_ok(ts_event_ring_poll(&r));
  ck_assert_uint_eq(r.done, seq);
  ts_event_ring_reset(&r);
  ck_assert_int_eq(n_events, 0);
}
END_TEST

/* After a fault everything is done, and nothing new is recorded. */
START_TEST(a_broken_ring_is_done) {
  ts_event_ring r;
  uint64_t seq;
  start(&r);
  for (int i = 0; i < 100; i++) ck_assert_ok(ts_event_ring_record(&r, &seq));
  reached = 50;
  broken = true;
  ck_assert_int_eq(ts_event_ring_poll(&r), TS_ERR_INTERNAL);
  ck_assert_uint_eq(r.done, 100);
  ts_err_clear();
  ck_assert_int_eq(ts_event_ring_record(&r, &seq), TS_ERR_INTERNAL);
  ck_assert_uint_eq(seq, 100);
  ck_assert_ptr_null(ts_event_ring_find(&r, seq));
  ts_err_clear();
  ts_event_ring_reset(&r);
  ck_assert_int_eq(n_events, 0);
}
END_TEST

/* ---- grids --------------------------------------------------------------- */

START_TEST(grids_hold_their_limits) {
  ck_assert_int_eq(ts_ceil_div(0, 256), 0);
  ck_assert_int_eq(ts_ceil_div(1, 256), 1);
  ck_assert_int_eq(ts_ceil_div(256, 256), 1);
  ck_assert_int_eq(ts_ceil_div(257, 256), 2);
  ck_assert_int_eq(ts_ceil_div(INT64_MAX, 2), INT64_MAX / 2 + 1);
  ck_assert_int_eq(ts_round_up(65, 64), 128);
  ck_assert_uint_eq(ts_grid(0, 256, 100), 1);
  ck_assert_uint_eq(ts_grid(1, 256, 100), 1);
  ck_assert_uint_eq(ts_grid(257, 256, 100), 2);
  ck_assert_uint_eq(ts_grid(1000000, 256, 100), 100);
  ck_assert_uint_eq(ts_grid(INT64_MAX, 1, INT64_MAX), TS_GRID_X_MAX);
  ck_assert_uint_eq(ts_grid(10, 1, 0), 1);
}
END_TEST

/* ---- which GPU ----------------------------------------------------------- */

START_TEST(ranks_take_turns) {
  ck_assert_int_eq(ts_cuda_choose(0, 4), 0);
  ck_assert_int_eq(ts_cuda_choose(3, 4), 3);
  ck_assert_int_eq(ts_cuda_choose(5, 4), 1);
  ck_assert_int_eq(ts_cuda_choose(7, 1), 0);
  ck_assert_int_eq(ts_cuda_choose(-1, 4), 0);
}
END_TEST

START_TEST(builds_run_on_their_architectures) {
  ck_assert(ts_cuda_runs_on("80 90", 80));
  ck_assert(ts_cuda_runs_on("80 90", 86)); /* code of 80 */
  ck_assert(ts_cuda_runs_on("80 90", 90));
  ck_assert(ts_cuda_runs_on("80 90", 100)); /* PTX of 90 */
  ck_assert(!ts_cuda_runs_on("80 90", 75));
  ck_assert(!ts_cuda_runs_on("90", 80));
  ck_assert(!ts_cuda_runs_on("86 90", 80));
  ck_assert(ts_cuda_runs_on("90a", 90));
  ck_assert(!ts_cuda_runs_on("", 90));
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("parts of cuda");
  TCase *t = tcase_create("parts");
  tcase_add_test(t, a_ring_loses_nothing);
  tcase_add_test(t, events_are_used_again);
  tcase_add_test(t, held_positions_wait);
  tcase_add_test(t, a_broken_ring_is_done);
  tcase_add_test(t, grids_hold_their_limits);
  tcase_add_test(t, ranks_take_turns);
  tcase_add_test(t, builds_run_on_their_architectures);
  suite_add_tcase(s, t);
  return s;
}

TS_TEST_MAIN(suite)
