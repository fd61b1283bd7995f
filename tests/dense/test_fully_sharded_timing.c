/* test_fully_sharded_timing.c - what fully_sharded hides under what, with
 * layers and collectives that sleep; and that the same checks fail where
 * nothing can overlap (all lanes are one).
 *
 * Sleeps need no processor, so times hold on few cores; a busy machine makes
 * them longer, never shorter: the best of some runs counts.  Times are told in
 * units of some ms, the more the less a busy machine matters.
 * ranks: 1 2 4
 * seconds: 400 sanitizers: none isa: none */
#include "tests/dense/fully_sharded_sleep.h"
#include "runtime/trace.h"

enum { TRIES = 8, ANY = 1 << 20 };

/* Units of FN after PREPARE (may be NULL), the best of some. */
static double best_ms(toy *t, void (*prepare)(toy *), void (*fn)(toy *),
                      double enough) {
  double best = INFINITY;
  for (int i = 0; i < TRIES && best > enough; i++) {
    if (prepare) prepare(t);
    toy_sync(t);
    (void)over_ranks(0); /* together */
    const double t0 = ts_now();
    fn(t);
    toy_sync(t);
    best = fmin(best, over_ranks(1e3 * (ts_now() - t0)) / UNIT);
  }
  return best;
}

static void backward(toy *t) {
  toy_backward(t, 1, true, -1, NULL);
}

/* ---- forward and backward ------------------------------------------------ */

/* One gathering, then work alone: 10 + 3 x 25; one after the other 105.  BACK:
 * one gathering, work, one reduction: 10 + 3 x 50 + 10; one after the other
 * 210. */
static double pass_ms(bool back, bool serial) {
  toy_spec s = sleeping(3);
  static toy t;
  s.serial = serial;
  toy_start(&t, &s);
  const double ms =
      best_ms(&t, back ? toy_forward : NULL, back ? backward : toy_forward,
              serial ? ANY
              : back ? 190
                     : 95);
  toy_stop(&t);
  return ms;
}

TS_TEST(forward_hides_gathering) {
  const double ms = pass_ms(false, false);
  say("forward", ms, "serial", 3 * (C + M));
  ck_assert_msg(ms >= 85 && ms <= 95, "forward: %.1f ms", ms);
}

TS_TEST(backward_hides_gathering_and_reduction) {
  const double ms = pass_ms(true, false);
  say("backward", ms, "serial", 3 * (2 * C + 2 * M));
  ck_assert_msg(ms >= 170 && ms <= 190, "backward: %.1f ms", ms);
}

TS_TEST(one_lane_hides_nothing) {
  const double forward = pass_ms(false, true), back = pass_ms(true, true);
  say("one lane: forward", forward, "backward", back);
  ck_assert_msg(forward > 95 && back > 190, "forward %.1f ms, backward %.1f ms",
                forward, back);
}

/* ---- lists --------------------------------------------------------------- */

/* One large layer and small ones behind it: their gatherings fit under its
 * work, but not each under the one before it. */
static double uneven_ms(bool lists, bool serial) {
  static const double ms[] = {240, 3, 3, 3, 3, 3, 3, 3}; /* 80 and 1 */
  toy_spec s = sleeping(8);
  static toy t;
  s.ms_of = ms;
  s.serial = serial;
  if (lists)
    toy_list(&s.config, TS_FORWARD, 1, (const int[]){2, 3, 4, 5, 6, 7, 8, 0});
  toy_start(&t, &s);
  const double best =
      best_ms(&t, NULL, toy_forward, lists && !serial ? 115 : ANY);
  toy_stop(&t);
  return best;
}

/* In backward small ones between two large ones, under which their reductions
 * fit. */
static double uneven_backward_ms(bool lists) {
  static const double ms[] = {240, 3, 3, 3, 3, 3, 3, 240};
  toy_spec s = sleeping(8);
  static toy t;
  s.ms_of = ms;
  s.config.dense.reduce_inputs = 8;
  if (lists)
    toy_list(&s.config, TS_BACKWARD, 8, (const int[]){7, 6, 5, 4, 3, 2, 1, 0});
  toy_start(&t, &s);
  const double best = best_ms(&t, toy_forward, backward, lists ? 205 : ANY);
  toy_stop(&t);
  return best;
}

TS_TEST(lists_beat_the_default) {
  /* 10 + 80 + 7 x 1 against 10 + 80 and five gatherings. */
  const double lists = uneven_ms(true, false), plain = uneven_ms(false, false);
  say("forward with lists", lists, "without", plain);
  ck_assert_msg(lists <= 115 && plain >= 135,
                "forward: lists %.1f, without %.1f", lists, plain);
  const double back = uneven_backward_ms(true);
  const double plain_back = uneven_backward_ms(false);
  /* 10 + 80 + 6 x 1 + 80 + 10 against six gatherings more. */
  say("backward with lists", back, "without", plain_back);
  ck_assert_msg(back <= 205 && plain_back >= 225,
                "backward: lists %.1f, without %.1f", back, plain_back);
}

/* Where nothing overlaps lists gain nothing. */
TS_TEST(lists_on_one_lane) {
  const double lists = uneven_ms(true, true), plain = uneven_ms(false, true);
  say("one lane: forward with lists", lists, "without", plain);
  ck_assert_msg(lists >= 160 && plain >= 160, "lists %.1f, without %.1f", lists,
                plain);
}
