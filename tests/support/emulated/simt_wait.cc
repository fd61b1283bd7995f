/* simt_wait.cc - where the threads of a block wait for each other: barriers and
 * warp operations.
 *
 * What a warp operation gives is worked out for all of its lanes when the last
 * one comes, as a lane that has its result may be at the next one before the
 * others look. */
#include <stdio.h>
#include <string.h>

#include "tests/support/emulated/simt_engine.h"

static const char *const op_names[] = {"nothing",
                                       "__syncthreads",
                                       "__syncwarp",
                                       "a shuffle",
                                       "a vote",
                                       "__match_any_sync",
                                       "__reduce_add_sync",
                                       "__reduce_min_sync",
                                       "__reduce_max_sync",
                                       "__reduce_and_sync",
                                       "__reduce_or_sync",
                                       "__reduce_xor_sync"};

void ts_simt_fail(engine *e, int i, const waiting *w, const char *what) {
  if (e->failed) return;
  e->failed = true;
  snprintf(e->message, sizeof e->message,
           "block (%u, %u, %u), thread %d at %s:%d: %s (%s, mask %08x)",
           blockIdx.x, blockIdx.y, blockIdx.z, i, w->file, w->line, what,
           op_names[w->op], w->mask);
}

/* Nobody can go on: names the first who waits, and one who waits for
 * something else. */
void ts_simt_fail_stuck(engine *e) {
  int first = -1, other = -1;
  for (int i = 0; i < e->n_threads; i++) {
    if (e->threads[i].state == DONE) continue;
    const waiting *w = &e->threads[i].w;
    if (first < 0) first = i;
    const waiting *v = &e->threads[first].w;
    if (other < 0 &&
        (w->op != v->op || w->mask != v->mask || !same_place(w, v)))
      other = i;
  }
  char what[400] = "not all of its threads come; they are done";
  if (other >= 0) {
    const waiting *w = &e->threads[other].w;
    snprintf(what, sizeof what,
             "not all of its threads come; thread %d is in %s, mask %08x, at "
             "%.200s:%d",
             other, op_names[w->op], w->mask, w->file, w->line);
  }
  ts_simt_fail(e, first, &e->threads[first].w, what);
}

/* ---- barriers and warp operations ---------------------------------------- */

/* All threads that are left wait for the block's barrier: on they go. */
static void try_barrier(engine *e) {
  const waiting *first = NULL;
  uint64_t sum = 0;
  if (e->n_at_barrier + e->n_done < e->n_threads || !e->n_at_barrier) return;
  for (int i = 0; i < e->n_threads; i++) {
    const thread *t = &e->threads[i];
    if (t->state == DONE) continue;
    if (!first) first = &t->w;
    if (!same_place(first, &t->w)) {
      ts_simt_fail(e, i, &t->w, "others are at a barrier in another line");
      return;
    }
    sum += t->w.value;
  }
  for (int i = 0; i < e->n_threads; i++) {
    e->threads[i].w.result = sum;
    if (e->threads[i].state != DONE) ts_simt_set_state(e, i, READY);
  }
  e->n_at_barrier = 0;
  e->n_barriers++;
}

static uint64_t combine(ts_emulate_op op, uint64_t a, uint64_t b) {
  switch (op) {
  case TS_EMULATE_ADD:
    return a + b;
  case TS_EMULATE_MIN:
    return (int64_t)a < (int64_t)b ? a : b;
  case TS_EMULATE_MAX:
    return (int64_t)a > (int64_t)b ? a : b;
  case TS_EMULATE_AND:
    return a & b;
  case TS_EMULATE_OR:
    return a | b;
  default:
    return a ^ b;
  }
}

/* The result for lane I of the warp; the lanes of WITH take part. */
static uint64_t result_of(const thread *lanes, uint32_t with, int i) {
  const waiting *w = &lanes[i].w;
  uint64_t all = 0;
  bool some = false;
  if (w->op == TS_EMULATE_SHUFFLE) return lanes[w->lane].w.value;
  for (int k = 0; k < WARP; k++) {
    if (!(with >> k & 1)) continue;
    const uint64_t v = lanes[k].w.value;
    if (w->op == TS_EMULATE_BALLOT)
      all |= v << k;
    else if (w->op == TS_EMULATE_MATCH)
      all |= (uint64_t)(v == w->value) << k;
    else if (w->op >= TS_EMULATE_ADD)
      all = some ? combine(w->op, all, v) : v;
    some = true;
  }
  return all;
}

/* False while the operation that lane ME waits for lacks a lane of WITH. */
static bool all_came(engine *e, int first, int me, uint32_t with) {
  const thread *lanes = e->threads + first;
  const waiting *w = &lanes[me].w;
  for (uint32_t left = with; left; left &= left - 1) {
    const int k = __builtin_ctz(left);
    const thread *t = &lanes[k];
    if (t->w.op != w->op || t->w.mask != w->mask) return false;
    if (!same_place(&t->w, w)) {
      ts_simt_fail(e, first + k, &t->w,
                   "lanes of its mask are in another line");
      return false;
    }
    if (w->op == TS_EMULATE_SHUFFLE && !(with >> t->w.lane & 1)) {
      ts_simt_fail(e, first + k, &t->w,
                   "it wants the value of a lane that isn't there");
      return false;
    }
  }
  return true;
}

/* The operation that lane ME of the warp from FIRST on waits for, if all of
 * its lanes do. */
static void try_warp(engine *e, int first, int me) {
  thread *lanes = e->threads + first;
  const int warp = first / WARP;
  const uint32_t with = lanes[me].w.mask & e->alive[warp];
  if (with & e->open[warp] || !all_came(e, first, me, with)) return;
  const ts_emulate_op op = lanes[me].w.op;
  const bool own = op == TS_EMULATE_SHUFFLE || op == TS_EMULATE_MATCH;
  const uint64_t all = own ? 0 : result_of(lanes, with, me);
  for (uint32_t left = with; left; left &= left - 1) {
    const int k = __builtin_ctz(left);
    lanes[k].w.result = own ? result_of(lanes, with, k) : all;
    lanes[k].w.with = with;
    lanes[k].w.odd = e->odd[warp];
    ts_simt_set_state(e, first + k, READY);
  }
}

/* Who waited for thread I, which has come to its end, need not. */
void ts_simt_without(engine *e, int i) {
  const int warp = i / WARP, first = warp * WARP, n = warp_size(e, warp);
  try_barrier(e);
  if (e->open[warp] == e->alive[warp]) return;
  for (int k = first; k < first + n; k++)
    if (e->threads[k].state == WAITING &&
        e->threads[k].w.op > TS_EMULATE_BARRIER)
      try_warp(e, first, k - first);
}

static uint64_t wait_for_block(engine *e, thread *t) {
  char *mark = &e->barrier[e->n_barriers & 1];
  release(mark);
  e->n_at_barrier++;
  try_barrier(e);
  ts_simt_leave(e, t->on);
  acquire(mark);
  return t->w.result;
}

static uint64_t wait_for_warp(engine *e, thread *t, int first, int lane) {
  release(&t->mark[e->odd[first / WARP] >> lane & 1]);
  if (!(t->w.mask >> lane & 1))
    ts_simt_fail(e, first + lane, &t->w, "the mask lacks the lane itself");
  else
    try_warp(e, first, lane);
  ts_simt_leave(e, t->on);
  e->odd[first / WARP] ^= UINT32_C(1) << lane;
  for (int k = 0; IS_RACE_BUILD && k < WARP; k++)
    if (t->w.with >> k & 1)
      acquire(&e->threads[first + k].mark[t->w.odd >> k & 1]);
  return t->w.result;
}

uint64_t ts_emulate_wait(ts_emulate_op op, uint32_t mask, uint64_t value,
                         int lane, const char *file, int line) {
  engine *e = ts_simt_now;
  const int i = e->running;
  thread *t = &e->threads[i];
  /* Each by itself: copied as a whole from where it has just been made, it
   * costs as much as all the rest here. */
  t->w.op = op;
  t->w.mask = mask;
  t->w.value = value;
  t->w.lane = lane;
  t->w.file = file;
  t->w.line = line;
  ts_simt_set_state(e, i, WAITING);
  return op == TS_EMULATE_BARRIER
             ? wait_for_block(e, t)
             : wait_for_warp(e, t, i / WARP * WARP, i % WARP);
}

void ts_emulate_fail(const char *what, const char *file, int line) {
  engine *e = ts_simt_now;
  thread *t = &e->threads[e->running];
  t->w = {TS_EMULATE_NONE, 0, 0, 0, 0, file, line, 0, 0};
  ts_simt_fail(e, e->running, &t->w, what);
  ts_simt_leave(e, t->on);
  abort(); /* not reached: the run is given up */
}

/* -fsanitize=alignment calls the functions below; their argument begins with
 * the place in the source. */
struct place {
  const char *file;
  unsigned line, column;
};
extern "C" void __ubsan_handle_type_mismatch_v1(void *data, void *) {
  const place *at = (const place *)data;
  if (!ts_simt_now) abort(); /* no kernel's */
  ts_emulate_fail("misaligned address", at->file, (int)at->line);
}
