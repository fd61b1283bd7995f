/* test_cuda_replay.c - graphs that are captured once and replayed: steps of
 * random work on two or three lanes, which differ from each other in
 * arguments, sequence, length, or by a wait of the host, over a CUDA runtime
 * of threads whose graphs run in the worst order.  The oracle does each
 * piece on the host, one after the other. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated/emulated.h"
#include "tests/runtime/graph_rig.h"
#include "tests/runtime/cuda_kernels.h"
#include "runtime/graph.h"

__attribute__((constructor)) static void choose(void) {
  setenv("TESSERA_BACKEND", "emulated", 1);
}

enum { N = GRAPH_BYTES, LANES = 3, PIECES = 14, STEPS = 40 };

typedef enum { LAUNCH, TIMES, COPY, SET, CALL, PULL, SYNC, KINDS } ts_kind;

typedef struct ts_piece {
  ts_kind kind;
  int lane, from; /* PULL: what lane FROM has */
  size_t at, n;   /* of the lane's bytes */
  int v;
  unsigned blocks;
} ts_piece;

typedef struct ts_program {
  ts_piece piece[PIECES + 2];
  int n;
} ts_program;

typedef struct ts_replay_rig {
  ts_graph_rig g;
  ts_lane *lane[LANES];
  unsigned char *there[LANES]; /* (N) device memory */
  unsigned char want[LANES][N];
} ts_replay_rig;

/* ---- kernels ------------------------------------------------------------- */

static void add(unsigned char *p, size_t n, int v) {
  for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(p[i] + v);
}

static void times(unsigned char *p, size_t n, int v) {
  for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(p[i] * (2 * v + 1));
}

/* ---- pieces of work ------------------------------------------------------ */

static void expect(ts_replay_rig *r, const ts_piece *x) {
  unsigned char *p = r->want[x->lane] + x->at;
  switch (x->kind) {
  case LAUNCH:
    add(p, x->n, x->v);
    break;
  case TIMES:
    times(p, x->n, x->v);
    break;
  case COPY: /* the first bytes */
    memmove(p, r->want[x->lane], x->n);
    break;
  case SET:
  case CALL:
    memset(p, x->v, x->n);
    break;
  case PULL:
    memcpy(p, r->want[x->from] + x->at, x->n);
    break;
  default:
    break;
  }
}

static void submit(ts_replay_rig *r, const ts_piece *x, ts_task task) {
  const ts_piece_args a = {.p = r->there[x->lane] + x->at,
                           .n = x->n,
                           .v = x->v,
                           .blocks = x->blocks,
                           .times = x->kind == TIMES};
  ck_assert_ok(ts_lane_submit(r->lane[x->lane], "piece", task, &a, sizeof a));
}

static void wait_for(ts_replay_rig *r, int who, int whom) {
  ck_assert_ok(ts_lane_wait(r->lane[who], ts_lane_record(r->lane[whom])));
}

static void enqueue(ts_replay_rig *r, const ts_piece *x) {
  unsigned char *p = r->there[x->lane] + x->at;
  switch (x->kind) {
  case LAUNCH:
  case TIMES:
    submit(r, x, ts_test_launch);
    break;
  case SET:
    submit(r, x, ts_test_set);
    break;
  case CALL:
    submit(r, x, ts_test_call);
    break;
  case COPY:
    ck_assert_ok(ts_lane_copy(r->lane[x->lane], p, r->there[x->lane], x->n));
    break;
  case PULL: /* and FROM goes on once it has been read */
    wait_for(r, x->lane, x->from);
    ck_assert_ok(
        ts_lane_copy(r->lane[x->lane], p, r->there[x->from] + x->at, x->n));
    wait_for(r, x->from, x->lane);
    break;
  default:
    ck_assert_ok(ts_lane_sync(r->lane[x->lane]));
  }
}

/* ---- programs ------------------------------------------------------------ */

static uint32_t state;

static int below(int n) {
  state = state * 1664525u + 1013904223u;
  return (int)(state >> 8) % n;
}

static ts_piece arguments(ts_piece x) {
  x.at = (size_t)below(N / 2) + N / 4;
  x.n = 2 * (size_t)(1 + below(N / 8)); /* COPY: no overlap */
  x.v = 1 + below(100);
  x.blocks = 1 + (unsigned)below(4);
  return x;
}

static ts_piece draw(int n_lanes) {
  ts_piece x = {.kind = (ts_kind)below(SYNC), .lane = below(n_lanes)};
  if (n_lanes == 1 && x.kind == PULL) x.kind = LAUNCH;
  if (x.kind == PULL) x.from = (x.lane + 1) % n_lanes;
  return arguments(x);
}

/* Lanes other than the first take part once they are pulled or pull. */
static ts_program draw_program(int n_lanes) {
  ts_program p = {.n = PIECES};
  for (int i = 0; i < PIECES; i++) p.piece[i] = draw(n_lanes);
  for (int l = 1; l < n_lanes; l++) {
    p.piece[l - 1] = arguments((ts_piece){.kind = PULL, .lane = l});
    p.piece[PIECES - l] = arguments((ts_piece){.kind = PULL, .from = l});
  }
  return p;
}

/* The parts of LIKE that may differ from step to step. */
typedef struct ts_unlike {
  bool arguments, library, sequence, length, syncs;
} ts_unlike;

static ts_program vary(const ts_program *like, const ts_unlike *u,
                       int n_lanes) {
  ts_program p = *like;
  for (int i = 0; i < p.n; i++) {
    ts_piece *x = &p.piece[i];
    if (x->kind == CALL ? u->library && below(4) == 0
                        : u->arguments && below(2))
      *x = arguments(*x);
    /* Pieces that bring lanes together stay. */
    if (u->sequence && i >= n_lanes && i < PIECES - n_lanes && below(20) == 0)
      *x = draw(n_lanes);
  }
  if (u->length && n_lanes == 1) p.n -= below(3);
  if (u->syncs && below(3) == 0) {
    const int at = below(p.n);
    memmove(&p.piece[at + 1], &p.piece[at],
            (size_t)(p.n - at) * sizeof *p.piece);
    p.piece[at] = (ts_piece){.kind = SYNC};
    p.n++;
  }
  return p;
}

/* ---- runs ---------------------------------------------------------------- */

static void start(ts_replay_rig *r) {
  const ts_buffer *b[LANES];
  ts_graph_rig_start(&r->g);
  b[0] = &r->g.a;
  b[1] = &r->g.b;
  b[2] = &r->g.c;
  r->lane[0] = r->g.lane;
  r->lane[1] = r->g.other;
  ck_assert_ok(ts_lane_create(r->g.device, &r->lane[2], "third", TS_LANE_DATA));
  for (int l = 0; l < LANES; l++) {
    r->there[l] = b[l]->ptr;
    for (int i = 0; i < N; i++) r->want[l][i] = (unsigned char)(i * 13 + l);
    memcpy(r->g.pins.ptr, r->want[l], N);
    ck_assert_ok(ts_lane_copy(r->lane[0], r->there[l], r->g.pins.ptr, N));
    ck_assert_ok(ts_lane_sync(r->lane[0]));
  }
}

static void stop(ts_replay_rig *r) {
  ts_lane_destroy(r->lane[2]);
  ts_graph_rig_stop(&r->g);
}

static void look(ts_replay_rig *r, int step) {
  for (int l = 0; l < LANES; l++) {
    ck_assert_ok(ts_lane_copy(r->lane[0], r->g.out.ptr, r->there[l], N));
    ck_assert_ok(ts_lane_sync(r->lane[0]));
    ck_assert_msg(!memcmp(r->g.out.ptr, r->want[l], N), "step %d, lane %d",
                  step, l);
  }
}

/* STEPS of which each is a graph of its own, or one of two by turns. */
static ts_graph_counts run(unsigned seed, const ts_unlike *u, int n_lanes,
                           int n_graphs) {
  static ts_replay_rig r;
  ts_graph *g[2] = {NULL, NULL};
  ts_program like[2];
  state = 77 + seed;
  start(&r);
  for (int k = 0; k < n_graphs; k++) {
    ck_assert_ok(ts_graph_create(&g[k], r.lane[0]));
    like[k] = draw_program(n_lanes);
  }
  for (int s = 0; s < STEPS; s++) {
    const int k = s % n_graphs;
    const ts_program p = vary(&like[k], u, n_lanes);
    ck_assert_ok(ts_graph_begin(g[k]));
    for (int i = 0; i < p.n; i++) {
      enqueue(&r, &p.piece[i]);
      expect(&r, &p.piece[i]);
    }
    ck_assert_ok(ts_graph_end(g[k]));
    look(&r, s);
  }
  const ts_graph_counts n = ts_graph_counts_of(g[0]);
  ts_graph_destroy(g[0]);
  ts_graph_destroy(g[1]);
  stop(&r);
  return n;
}

enum { SEEDS = 12 };

static int lanes_of(int i) {
  return 1 + i % LANES;
}

/* Whatever the arguments are, nothing but the first step is captured, and no
 * kernel is launched any more. */
TS_TESTS(arguments_are_given, 0, SEEDS) {
  const ts_unlike u = {.arguments = true};
  const ts_emulated_counts before = ts_emulated_now();
  const ts_graph_counts n = run((unsigned)_i, &u, lanes_of(_i), 1);
  const ts_emulated_counts after = ts_emulated_now();
  ck_assert_int_eq(after.captures - before.captures, STEPS - n.n_replayed);
  ck_assert_int_le(after.launches - before.launches,
                   (STEPS - n.n_replayed) * PIECES);
  /* Sets of another size the fake does not take. */
  ck_assert_int_eq(n.n_cut, 0);
  ck_assert_int_eq(n.n_made, 1);
}

TS_TESTS(the_same_is_replayed, 0, LANES) {
  const ts_unlike u = {0};
  const ts_emulated_counts before = ts_emulated_now();
  const ts_graph_counts n = run((unsigned)_i, &u, lanes_of(_i), 2);
  ck_assert_int_eq(ts_emulated_now().captures - before.captures, 2);
  ck_assert_int_eq(n.n_begun, STEPS / 2);
  ck_assert_int_eq(n.n_replayed, STEPS / 2 - 1);
  ck_assert_int_eq(n.n_renewed, 0);
  ck_assert_int_eq(n.n_made, 1);
}

/* Only a capture can change these; then replays go on. */
TS_TESTS(libraries_are_captured_anew, 0, SEEDS) {
  const ts_unlike u = {.arguments = true, .library = true};
  const ts_graph_counts n = run((unsigned)_i, &u, lanes_of(_i), 1);
  ck_assert_int_eq(n.n_made, 1);
  ck_assert_int_eq(n.n_made + n.n_updated + n.n_replayed, STEPS);
}

TS_TESTS(sequences_differ, 0, SEEDS) {
  const ts_unlike u = {.arguments = true, .sequence = true, .length = true};
  const ts_graph_counts n = run((unsigned)_i, &u, lanes_of(_i), 1);
  ck_assert_int_gt(n.n_made, 1);
  ck_assert_int_eq(n.n_made + n.n_updated + n.n_replayed, STEPS);
}

TS_TESTS(the_host_waits_now_and_then, 0, SEEDS) {
  const ts_unlike u = {.arguments = true, .syncs = true};
  const ts_graph_counts n = run((unsigned)_i, &u, lanes_of(_i), 1);
  ck_assert_int_gt(n.n_cut, 0);
  ck_assert_int_lt(n.n_cut, STEPS);
}

/* A launch that can't be is an error as without a graph, in a capture and in
 * a replay, and names the kernel. */
TS_TESTS(launches_that_can_t_be, 0, 2) {
  static ts_replay_rig r;
  ts_graph *g;
  start(&r);
  ts_lane *lane = r.lane[2];
  ck_assert_ok(ts_graph_create(&g, lane));
  for (int s = 0; s < 3; s++) {
    const bool bad = s == (_i ? 2 : 0);
    ts_piece_args a = {
        .p = r.there[2], .n = 4, .v = s, .blocks = !bad, .times = !bad};
    if (ts_graph_begin(g) != TS_OK) break;
    const ts_err err =
        ts_lane_submit(lane, "piece", ts_test_launch, &a, sizeof a);
    ck_assert_int_eq(err, bad ? TS_ERR_INTERNAL : TS_OK);
    if (bad) {
      ck_assert_ptr_nonnull(strstr(ts_err_message(), "times : add"));
      ts_err_clear();
      (void)ts_graph_end(g);
      ts_err_clear();
      break;
    }
    ck_assert_ok(ts_graph_end(g));
  }
  (void)ts_lane_sync(lane);
  ts_err_clear();
  ts_graph_destroy(g);
  stop(&r);
}
