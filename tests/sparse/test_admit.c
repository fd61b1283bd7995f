/* test_admit.c - ids without a row, in how many steps they were met, beside a
 * plain model: batches in parts of steps, that come once more, that are taken
 * back and forgotten, with few counters and with many, however parts are dealt;
 * memory that fails. */
#include <string.h>

#include "base/mem.h"
#include "sparse/admit.h"
#include "sparse/index.h"
#include "tests/support/walk.h"

enum { SEEDS = 250, OPS = 40, POOL = 300, IDS = 200, LINES = 3, STEPS = 6 };

static uint64_t draws;

static uint64_t draw(uint64_t below) {
  return ts_mix64(++draws * UINT64_C(0x9e3779b97f4a7c15)) % below;
}

/* ---- the model ----------------------------------------------------------- */

/* Of few parts, so that counters are shared.  batch[b]: ids of batch b, which
 * is of the step of batch first[b]. */
typedef struct model {
  ts_admit *x;
  ts_admit_spec spec;
  int64_t id[POOL];
  int n_batches, from; /* those before FROM are in base */
  int first[OPS + 2];
  bool met[OPS + 2][POOL];
  uint8_t base[TS_INDEX_PARTS / 512 * LINES * TS_ADMIT_LINE];
  uint8_t counts[TS_INDEX_PARTS / 512 * LINES * TS_ADMIT_LINE];
} model;

static int64_t counter_at(const model *m, int64_t id, int k) {
  const uint64_t key = ts_index_key(id);
  const int64_t part = (int64_t)(key >> 52) - m->spec.first_part;
  const int64_t line =
      (int64_t)((key >> 20 & UINT32_MAX) * (uint64_t)m->spec.lines >> 32);
  const int64_t at = (int64_t)(key >> 4 * k & 15);
  return ((part * m->spec.lines + line) * 4 + k) * 16 + at;
}

/* Counts with the steps before batch B. */
static void count_up_to(model *m, int b) {
  memcpy(m->counts, m->base, sizeof m->counts);
  for (int s = m->from; s < b; s++) {
    if (m->first[s] != s) continue;
    for (int i = 0; i < POOL; i++) {
      bool met = false;
      for (int k = s; k < m->n_batches && m->first[k] == s; k++)
        met |= m->met[k][i];
      for (int k = 0; met && k < 4; k++) {
        uint8_t *n = &m->counts[counter_at(m, m->id[i], k)];
        *n = *n == 255 ? *n : *n + 1;
      }
    }
  }
}

static bool may(const model *m, int i) {
  int least = 255;
  for (int k = 0; k < 4; k++) {
    const int n = m->counts[counter_at(m, m->id[i], k)];
    least = n < least ? n : least;
  }
  return least + 1 >= m->spec.least;
}

static size_t n_counts(const model *m) {
  return (size_t)(m->spec.n_parts * m->spec.lines * TS_ADMIT_LINE);
}

/* ---- what is done to both ------------------------------------------------ */

/* Batch B's ids in any order, some twice, in several questions. */
static void ask(model *m, int b) {
  int64_t ids[IDS];
  int place[IDS];
  bool got[IDS];
  int n = 0;
  count_up_to(m, m->first[b]);
  ts_admit_begin(m->x, (uint32_t)b, m->first[b] != b);
  for (int i = (int)draw(POOL), k = 0; k < POOL; k++, i = (i + 7) % POOL) {
    for (uint64_t times = m->met[b][i] ? 1 + draw(2) : 0; times > 0; times--) {
      place[n] = i;
      ids[n++] = m->id[i];
    }
    if (n < IDS - 2 && k < POOL - 1) continue;
    ck_assert_int_eq(ts_admit_ask(m->x, got, ids, n), TS_OK);
    for (int j = 0; j < n; j++) ck_assert_int_eq(got[j], may(m, place[j]));
    n = 0;
  }
}

static void come(model *m) {
  const int b = m->n_batches++;
  const bool again = b > m->from && draw(3) == 0;
  m->first[b] = again ? m->first[b - 1] : b;
  const uint64_t share = 1 + draw(6);
  for (int i = 0; i < POOL; i++) m->met[b][i] = draw(share) == 0;
  ask(m, b);
}

/* A batch that is the first of a step, not many steps ago. */
static int some_first(const model *m) {
  int b = m->n_batches - 1 - (int)draw(STEPS);
  if (b < m->from) b = m->from;
  return b < m->n_batches ? m->first[b] : b;
}

static void look_back(model *m) {
  const int b = some_first(m);
  ts_admit_back(m->x, b == m->n_batches ? 0 : (uint32_t)b);
  count_up_to(m, b);
  ck_assert_mem_eq(ts_admit_counts(m->x), m->counts, n_counts(m));
}

static void come_again(model *m) {
  for (int b = some_first(m); b < m->n_batches; b++) ask(m, b);
}

/* What is before the first one that is forgotten is for good. */
static void forget(model *m) {
  const int b = some_first(m);
  ts_admit_forget(m->x, b == m->n_batches ? 0 : (uint32_t)b);
  count_up_to(m, b);
  memcpy(m->base, m->counts, sizeof m->base);
  m->from = b;
  if (draw(2)) {
    ts_admit_halve(m->x);
    for (size_t i = 0; i < sizeof m->base; i++) m->base[i] /= 2;
  }
  if (draw(2))
    for (; b < m->n_batches;) m->n_batches--;
  for (int k = b; k < m->n_batches; k++) ask(m, k);
}

static void prepare(model *m, int seed) {
  draws = (uint64_t)seed * 1000003;
  memset(m, 0, sizeof *m);
  m->spec = (ts_admit_spec){.first_part = 8 * (int32_t)draw(500),
                            .n_parts = 1 + (int32_t)draw(8),
                            .lines = 1 + (int64_t)draw(LINES),
                            .least = 1 + (int32_t)draw(seed % 5 ? 5 : 255)};
  m->n_batches = m->from = 1;
  int64_t id = (int64_t)draw(1u << 30) - (1 << 29);
  for (int i = 0; i < POOL; id++) {
    const int32_t part = ts_index_part(ts_index_key(id)) - m->spec.first_part;
    if (part >= 0 && part < m->spec.n_parts) m->id[i++] = id;
  }
  ck_assert_int_eq(ts_admit_create(&m->x, &m->spec), TS_OK);
}

TS_TEST(like_the_model) {
  static model m;
  for (int seed = 1; seed <= SEEDS; seed++) {
    prepare(&m, seed);
    for (int k = 0; k < OPS; k++) switch (draw(8)) {
      case 0:
        look_back(&m);
        break;
      case 1:
        come_again(&m);
        break;
      case 2:
        forget(&m);
        break;
      default:
        come(&m);
      }
    ts_admit_destroy(m.x);
  }
}

/* An id that is met in 300 steps: counters end at 255. */
TS_TEST(many_steps) {
  ts_admit *x;
  const ts_admit_spec spec = {0, TS_INDEX_PARTS, 1, 255};
  const int64_t id = -5;
  bool yes;
  int64_t sum = 0;
  ck_assert_int_eq(ts_admit_create(&x, &spec), TS_OK);
  for (uint32_t b = 1; b <= 300; b++) {
    ts_admit_begin(x, b, false);
    ck_assert_int_eq(ts_admit_ask(x, &yes, &id, 1), TS_OK);
    ck_assert_int_eq(yes, b >= 255);
  }
  ts_admit_back(x, 0);
  for (int64_t k = 0; k < INT64_C(4096) * 64; k++) sum += ts_admit_counts(x)[k];
  ck_assert_int_eq(sum, 4 * 255);
  ts_admit_clear(x);
  ts_admit_restart(x);
  ts_admit_begin(x, 1, false);
  ck_assert_int_eq(ts_admit_ask(x, &yes, &id, 1), TS_OK);
  ck_assert(!yes);
  ts_admit_destroy(x);
}

/* Parts say the same in one shard and in three. */
TS_TEST(parts_are_dealt) {
  enum { N = 20000, SHARDS = 3 };
  static int64_t ids[N];
  static bool one[N], other[N];
  ts_admit *x[1 + SHARDS];
  for (int s = 0; s <= SHARDS; s++) {
    const int32_t first = s ? ts_index_first_part(s - 1, SHARDS) : 0;
    const int32_t end = s ? ts_index_first_part(s, SHARDS) : TS_INDEX_PARTS;
    const ts_admit_spec spec = {first, end - first, 1, 3};
    ck_assert_int_eq(ts_admit_create(&x[s], &spec), TS_OK);
  }
  for (uint32_t b = 1; b <= 40; b++) {
    for (int i = 0; i < N; i++) ids[i] = (int64_t)draw(400000);
    for (int s = 0; s <= SHARDS; s++) ts_admit_begin(x[s], b, false);
    ck_assert_int_eq(ts_admit_ask(x[0], one, ids, N), TS_OK);
    int64_t n = 0;
    for (int i = 0; i < N; i++) {
      const int s = 1 + ts_index_shard(ids[i], SHARDS);
      ck_assert_int_eq(ts_admit_ask(x[s], &other[i], &ids[i], 1), TS_OK);
      n += one[i];
    }
    ck_assert_mem_eq(one, other, sizeof one);
    ck_assert_msg(b < 3 ? n < 10 : b < 35 || n > N / 20, "batch %u: %lld", b,
                  (long long)n);
  }
  for (int s = 0; s <= SHARDS; s++) ts_admit_destroy(x[s]);
}

#ifdef TS_FAULTS
static ts_err life(void *arg) {
  ts_admit *x;
  int64_t ids[500];
  bool yes[500];
  (void)arg;
  TS_DO(ts_admit_create(&x, &(ts_admit_spec){0, TS_INDEX_PARTS, 1, 2}));
  for (int i = 0; i < 500; i++) ids[i] = i;
  ts_admit_begin(x, 1, false);
  const ts_err err = ts_admit_ask(x, yes, ids, 500);
  ts_admit_destroy(x);
  return err;
}

TS_TEST(memory_fails) {
  walk(life, NULL, "alloc", 1 << TS_ERR_NOMEM);
}
#endif
