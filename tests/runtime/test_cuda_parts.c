/* test_cuda_parts.c - what of cuda/ needs neither CUDA nor a GPU: which
 * positions have been reached, grids, which GPU a rank takes, how lookups are
 * cut. */
#include <stdlib.h>

#include "cuda/runtime/choose.h"
#include "cuda/runtime/event_ring.h"
#include "cuda/runtime/grid.h"
#include "cuda/sparse/lookup_plan.h"
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

/* The event found for SEQ is its own, never a later one's. */
static void check(const ts_event_ring *r, uint64_t seq) {
  const ts_fake_event *e = ts_event_ring_find(r, seq);
  if (seq > r->done)
    ck_assert_uint_eq(e->recorded, seq);
  else
    ck_assert_ptr_null(e);
}

/* Nothing is reached while a thousand more are recorded: each keeps its own.
 * Those that are reached make room. */
TS_TEST(a_ring_loses_nothing) {
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

/* A lane that gets on needs as many events as it has open positions, whatever
 * the number of those it has had. */
TS_TEST(events_are_used_again) {
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

/* A held position is not asked for and not reached; released it is recorded
 * once for all, and reached together. */
TS_TEST(held_positions_wait) {
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

/* After a fault everything is done, and nothing new is recorded. */
TS_TEST(a_broken_ring_is_done) {
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

/* ---- grids --------------------------------------------------------------- */

TS_TEST(grids_hold_their_limits) {
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

/* ---- which GPU ----------------------------------------------------------- */

TS_TEST(ranks_take_turns) {
  ck_assert_int_eq(ts_cuda_choose(0, 4), 0);
  ck_assert_int_eq(ts_cuda_choose(3, 4), 3);
  ck_assert_int_eq(ts_cuda_choose(5, 4), 1);
  ck_assert_int_eq(ts_cuda_choose(7, 1), 0);
  ck_assert_int_eq(ts_cuda_choose(-1, 4), 0);
}

TS_TEST(builds_run_on_their_architectures) {
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

/* ---- how lookups are cut ------------------------------------------------- */

static const ts_lookup_machine h200 = {132, TS_GRID_X_MAX};

typedef struct plan_case {
  ts_dtype t;
  int32_t dim;
  int vector, lanes;
  int32_t chunks;
} plan_case;

TS_TEST(plan_of_rows) {
  static const plan_case cases[] = {{TS_F32, 1, 1, 4, 1},
                                    {TS_F32, 3, 1, 4, 1},
                                    {TS_F32, 4, 4, 4, 1},
                                    {TS_F32, 16, 4, 4, 1},
                                    {TS_F32, 20, 4, 8, 1},
                                    {TS_F32, 32, 4, 8, 1},
                                    {TS_F32, 33, 1, 32, 2},
                                    {TS_F32, 64, 4, 16, 1},
                                    {TS_F32, 100, 4, 32, 1},
                                    {TS_F32, 128, 4, 32, 1},
                                    {TS_F32, 1000, 4, 32, 8},
                                    {TS_BF16, 1, 1, 4, 1},
                                    {TS_BF16, 4, 4, 8, 1},
                                    {TS_BF16, 8, 8, 4, 1},
                                    {TS_BF16, 36, 4, 32, 1},
                                    {TS_F16, 100, 4, 32, 1},
                                    {TS_F16, 128, 8, 16, 1},
                                    {TS_BF16, 256, 8, 32, 1},
                                    {TS_F16, 1000, 8, 32, 4},
                                    {TS_BF16, 130, 1, 32, 5},
                                    {TS_F32, INT32_MAX, 1, 32, 67108864}};
  for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
    const plan_case *c = &cases[i];
    const ts_lookup_plan p = ts_lookup_plan_of(c->t, c->dim, NULL, 1000, &h200);
    ck_assert_int_eq(p.vector, c->vector);
    ck_assert_int_eq(p.lanes, c->lanes);
    ck_assert_int_eq(p.chunks, c->chunks);
  }
  /* Rows off the borders of vectors. */
  char *p = (char *)(uintptr_t)4096;
  ck_assert_int_eq(ts_lookup_vector(TS_F32, 64, p), 4);
  ck_assert_int_eq(ts_lookup_vector(TS_F32, 64, p + 8), 1);
  ck_assert_int_eq(ts_lookup_vector(TS_BF16, 64, p + 8), 4);
  ck_assert_int_eq(ts_lookup_vector(TS_BF16, 64, p + 4), 1);
}

/* All bags have a place, no grid is larger than CUDA's; few bags make short
 * runs, many long ones. */
TS_TEST(plan_of_bags) {
  static const int64_t bags[] = {0,         1,          2,
                                 1000,      65536,      INT64_C(1) << 20,
                                 100000000, 3000000000, INT64_C(1) << 40};
  static const int32_t some[] = {1, 32, 128, 1000};
  int last = 0;
  for (int i = 0; i < (int)(sizeof bags / sizeof *bags); i++)
    for (int d = 0; d < (int)(sizeof some / sizeof *some); d++) {
      const ts_lookup_plan p =
          ts_lookup_plan_of(TS_F32, some[d], NULL, bags[i], &h200);
      const int64_t places =
          p.items / p.chunks * p.run * (TS_LOOKUP_THREADS / p.lanes);
      ck_assert(places >= bags[i] && p.items >= 0);
      ck_assert(p.blocks >= 1 && p.blocks <= TS_GRID_X_MAX);
      ck_assert(p.blocks == p.items || p.blocks == TS_GRID_X_MAX || !p.items);
      ck_assert(p.run <= p.lanes);
      if (d != 2) continue;
      ck_assert_int_ge(p.run, last);
      last = p.run;
    }
  ck_assert_int_eq(ts_lookup_plan_of(TS_F32, 128, NULL, 4096, &h200).run, 1);
  ck_assert_int_eq(last, TS_LOOKUP_RUN_MAX);
  ck_assert_int_eq(
      ts_weight_grad_plan_of(TS_F32, 128, NULL, bags[8], &h200).run, 32);
}
