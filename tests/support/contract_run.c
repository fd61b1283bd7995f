/* contract_run.c - a case's arrays, and their runs. */
#include "tests/support/contract_impl.h"

#include <omp.h>
#include <sys/mman.h>

#include "base/hash.h"

/* ---- arrays -------------------------------------------------------------- */

/* A sanitizer knows by itself where arrays end; else bytes around them are
 * compared. */
#ifdef __SANITIZE_ADDRESS__
enum { FRONT = 0, BEHIND = 0 };
#else
enum { FRONT = 256, BEHIND = 64 };
#endif
enum { ARRAYS_MAX = 1024, PAGE = 4096 };

typedef struct array {
  /* The test's, the oracle's, and of who is tested: what the host has and
   * where kernels see it. */
  char *was, *ref, *got, *there;
  char *last;         /* of the one before */
  size_t bytes, size; /* of the array, of an element */
  size_t all, at;     /* with what is around it; its start */
  ts_buffer buffer;
  kt_how how;
  bool reached;
} array;

static array arrays[ARRAYS_MAX];
static int n_arrays, least_shared;
static void (*look)(const void *);

static char *take(const array *a) {
  void *p = NULL;
  if (a->reached) {
    p = mmap(NULL, a->all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
             -1, 0);
    ck_assert_ptr_ne(p, MAP_FAILED);
  } else {
    ck_assert_int_eq(posix_memalign(&p, 256, a->all ? a->all : 1), 0);
  }
  return p;
}

static void give(const array *a, char **p) {
  if (*p && a->reached) munmap(*p, a->all);
  if (*p && !a->reached) free(*p);
  *p = NULL;
}

void kt_begin(void) {
  for (int i = 0; i < n_arrays; i++) {
    array *a = &arrays[i];
    give(a, &a->was);
    give(a, &a->ref);
    give(a, &a->got);
    give(a, &a->last);
  }
  n_arrays = least_shared = 0;
  look = NULL;
}

static void *add(array x) {
  ck_assert_int_lt(n_arrays, ARRAYS_MAX);
  array *a = &arrays[n_arrays++];
  *a = x;
  a->was = take(a);
  for (size_t i = 0; i + 4 <= a->all; i += 4) {
    const uint32_t b = kt_bits();
    memcpy(a->was + i, &b, 4);
  }
  return a->was + a->at;
}

void *kt_array(int64_t n, size_t size, int off) {
  const size_t bytes = (size_t)n * size, at = FRONT + (size_t)off;
  return add((array){
      .bytes = bytes, .size = size, .at = at, .all = at + bytes + BEHIND});
}

void *kt_reached(int64_t n, size_t size) {
  const size_t bytes = (size_t)n * size;
  return add((array){.bytes = bytes,
                     .all = (bytes + PAGE - 1) / PAGE * PAGE,
                     .reached = true});
}

void *kt_copy(const void *from, int64_t n, size_t size) {
  if (!from) return NULL;
  void *p = kt_array(n, size, 0);
  if (n) memcpy(p, from, (size_t)n * size);
  return p;
}

void *kt_zeros(int64_t n, size_t size) {
  return memset(kt_array(n, size, 0), 0, (size_t)n * size);
}

/* Whose array P points into, *AT bytes from its start; NULL: none. */
static array *look_up(const void *p, size_t *at) {
  for (int i = 0; i < n_arrays; i++) {
    const char *from = arrays[i].was + arrays[i].at;
    *at = (size_t)((const char *)p - from);
    if ((const char *)p >= from && *at <= arrays[i].bytes) return &arrays[i];
  }
  return NULL;
}

static array *find(const void *p, size_t *at) {
  array *a = look_up(p, at);
  ck_assert_msg(a != NULL, "a pointer into no array of the case");
  return a;
}

void kt_compare(const void *p, kt_how how) {
  size_t at;
  find(p, &at)->how = how;
}

void *kt_own(int64_t n, size_t size) {
  void *p = kt_array(n, size, 0);
  kt_compare(p, KT_OWN);
  return p;
}

void kt_look(void (*f)(const void *)) {
  look = f;
}

void kt_least_shared(int bytes) {
  least_shared = bytes;
}

static void *at_run(const array *a, size_t at) {
  return (kt_now ? a->there : a->ref) + a->at + at;
}

void *kt_at(const void *p) {
  size_t at;
  if (!p) return NULL;
  const array *a = find(p, &at);
  return at_run(a, at);
}

void kt_at_all(void *args, size_t bytes) {
  void **word = args;
  for (size_t i = 0, at; i < bytes / sizeof *word; i++) {
    const array *a = look_up(word[i], &at);
    if (a) word[i] = at_run(a, at);
  }
}

void *kt_host(const void *p) {
  return kt_now ? kt_got(p) : kt_ref(p);
}

void *kt_ref(const void *p) {
  size_t at;
  const array *a = find(p, &at);
  return a->ref + a->at + at;
}

void *kt_got(const void *p) {
  size_t at;
  const array *a = find(p, &at);
  return a->got + a->at + at;
}

/* ---- a run --------------------------------------------------------------- */

typedef struct run {
  kt_call *call;
  const void *arg;
  ts_err err;
} run;

/* An error of the call is no error of the lane, which would keep it. */
static ts_err task(void *p, ts_lane *l) {
  run *r = *(run **)p;
  (void)l;
  omp_set_num_threads(kt_now->threads);
  r->err = r->call(&kt_now->kernels, r->arg);
  return TS_OK;
}

static void lend(array *a) {
  a->got = take(a);
  memcpy(a->got, a->was, a->all);
  a->there = a->got;
  if (a->reached) {
    void *seen;
    ck_assert_ok(ts_device_reach(kt_now->device, &seen, a->got, a->all, true));
    a->there = seen;
  } else if (ts_device_is_discrete(kt_now->device) && a->all) {
    ck_assert_ok(ts_buffer_create(&a->buffer, kt_now->device, a->all,
                                  TS_SPACE_DEVICE, TS_TAG_MISC));
    a->there = a->buffer.ptr;
    ts_test_put(kt_now->device, a->there, a->got, a->all);
  }
}

static void reclaim(array *a) {
  if (a->reached) {
    ts_device_unreach(kt_now->device, a->got, true);
  } else if (a->there != a->got) {
    ts_test_get(kt_now->device, a->got, a->there, a->all);
    ts_buffer_reset(&a->buffer);
  }
}

/* Elements of 2 bytes are of bf16. */
static double number(const array *a, const char *p) {
  double x;
  if (a->size == 8) memcpy(&x, p, sizeof x);
  return a->size == 8 ? x : test_get(p, a->size == 2 ? TS_BF16 : TS_F32, 0);
}

/* The number that byte I of A is part of is good enough. */
static bool will_do(const array *a, size_t i) {
  if (i < a->at || i >= a->at + a->bytes) return false;
  const bool half = a->size == 2 && a->how == KT_NEAR;
  const size_t size = a->size == 8 ? 8 : half ? 2 : 4;
  const size_t at = i - (i - a->at) % size;
  if (a->how == KT_OWN) return true;
  const double want = number(a, a->ref + at), got = number(a, a->got + at);
  if (a->how == KT_ANY_NAN) return isnan(want) && isnan(got);
  if (a->how == KT_BITS || !strcmp(kt_now->kernels.isa, "ref")) return false;
  return (kt_on("host") || kt_on("fake")) &&
         fabs(want - got) <= (half ? fabs(want) / 128 : 4e-6 * fabs(want)) +
                                 4e-6 * fabs(number(a, a->was + at)) + 3e-5;
}

static const who *before; /* who was tested last in this case */

/* Versions of the host's kernels may round another way; threads change
 * nothing. */
static void compare_threads(const array *a, int number_of) {
  if (a->how != KT_NEAR || !a->last || !kt_on("host") ||
      strcmp(kt_now->kernels.isa, before->kernels.isa) != 0)
    return;
  ck_assert_msg(!memcmp(a->last, a->got, a->all),
                "%s: array %d (%zu bytes) is not that on %d threads",
                kt_now->name, number_of, a->bytes, before->threads);
}

static void compare(const array *a, int number_of) {
  compare_threads(a, number_of);
  if (!memcmp(a->ref, a->got, a->all)) return;
  for (size_t i = 0; i < a->all; i++) {
    if (a->ref[i] == a->got[i] || will_do(a, i)) continue;
    const size_t word = i - (i - a->at) % 4;
    float x, y;
    memcpy(&x, a->ref + word, 4);
    memcpy(&y, a->got + word, 4);
    ck_abort_msg("%s: byte %lld of array %d (%zu bytes) is %d, not %d (as "
                 "floats %a, not %a)",
                 kt_now->name, (long long)i - (long long)a->at, number_of,
                 a->bytes, a->got[i], a->ref[i], (double)y, (double)x);
  }
}

/* GOT for the next one. */
static void keep(array *a) {
  give(a, &a->last);
  a->last = a->got;
  a->got = NULL;
}

static int n_steps, at_step;

static void run_oracle(run *r) {
  kt_now = NULL;
  n_steps = at_step = 0;
  for (int i = 0; i < n_arrays; i++) {
    array *a = &arrays[i];
    if (!a->ref) a->ref = take(a);
    memcpy(a->ref, a->was, a->all);
  }
  omp_set_num_threads(1);
  r->err = r->call(&kt_oracle, r->arg);
}

enum { PINS_MAX = 64 };
static ts_buffer pins[PINS_MAX];
static int n_pins;

void *kt_pin(const void *p, size_t bytes) {
  if (!kt_now || !bytes)
    return (void *)(uintptr_t)p; /* the oracle has read it */
  ck_assert_int_lt(n_pins, PINS_MAX);
  ts_buffer *b = &pins[n_pins++];
  ck_assert_ok(
      ts_buffer_create(b, kt_now->device, bytes, TS_SPACE_PINNED, TS_TAG_MISC));
  return memcpy(b->ptr, p, bytes);
}

static void run_tested(run *r) {
  at_step = 0;
  if (kt_on("emulated")) kt_use_gpu(kt_now->gpu);
  for (int i = 0; i < n_arrays; i++) lend(&arrays[i]);
  ck_assert_ok(ts_lane_submit(kt_now->lane, "kernel", task, &r, sizeof r));
  ck_assert_ok(ts_lane_sync(kt_now->lane));
  while (n_pins > 0) ts_buffer_reset(&pins[--n_pins]);
  for (int i = 0; i < n_arrays; i++) reclaim(&arrays[i]);
}

/* A bit for each of kt_all that has room for the case. */
static uint32_t with_room(void) {
  uint32_t all = 0;
  for (int i = 0; i < kt_n; i++)
    if (!kt_on("emulated") || kt_shared_bytes(kt_all[i].gpu) >= least_shared)
      all |= UINT32_C(1) << i;
  return all;
}

/* Sanitizers watch memory, the plain build compares numbers for each of ALL:
 * here one of each version's numbers of threads, or one of the GPUs.  It is
 * drawn anew for each case, by the arrays and how many cases there were, so
 * that each has its share of every family of cases. */
static uint32_t some_of(uint32_t all) {
  static uint64_t n_cases;
  uint64_t seed = n_cases++;
  uint32_t some = 0;
  for (int i = 0; i < n_arrays; i++) seed = ts_mix64(seed + arrays[i].all);
  for (int i = 0, n; i < kt_n; i += n) {
    int can[WHO_MAX], n_can = 0;
    for (n = 0; i + n < kt_n &&
                !strcmp(kt_all[i + n].kernels.isa, kt_all[i].kernels.isa);
         n++)
      if (all >> (i + n) & 1) can[n_can++] = i + n;
    if (n_can) some |= UINT32_C(1) << can[ts_mix64(seed) % (uint64_t)n_can];
  }
  return some;
}

void kt_check(kt_call *call, const void *arg) {
  run r = {call, arg, TS_OK};
  run_oracle(&r);
  ck_assert_ok(r.err);
  uint32_t whom = with_room();
  if (getenv("TESSERA_SANITIZED")) whom = some_of(whom);
  for (kt_now = kt_all; kt_now < kt_all + kt_n; kt_now++) {
    if (!(whom >> (kt_now - kt_all) & 1)) continue;
    run_tested(&r);
    ck_assert_ok(r.err);
    ck_assert_int_eq(at_step, n_steps);
    for (int i = 0; i < n_arrays; i++) compare(&arrays[i], i);
    if (look) look(arg);
    for (int i = 0; i < n_arrays; i++) keep(&arrays[i]);
    before = kt_now;
  }
}

void kt_refused(kt_call *call, const void *arg, ts_err err, const char *words) {
  run r = {call, arg, TS_OK};
  for (kt_now = kt_all; kt_now < kt_all + kt_n; kt_now++) {
    run_tested(&r);
    ck_assert_int_eq(r.err, err);
    ck_assert_ptr_nonnull(strstr(ts_err_message(), words));
    ts_err_clear();
    for (int i = 0; i < n_arrays; i++) give(&arrays[i], &arrays[i].got);
  }
}

/* ---- steps --------------------------------------------------------------- */

enum { STEPS_MAX = 512, STEP_ARRAYS = 48 };
static uint64_t steps[STEPS_MAX][STEP_ARRAYS];

static uint64_t hash(const char *p, size_t n) {
  uint64_t h = n, x;
  for (; n >= 8; n -= 8, p += 8) {
    memcpy(&x, p, 8);
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    h ^= h >> 29;
  }
  for (; n; n--) h = (h ^ (uint8_t)*p++) * UINT64_C(0x100000001b3);
  return h;
}

void kt_step(const ts_kernels *k, const char *what) {
  ck_assert(at_step < STEPS_MAX && n_arrays <= STEP_ARRAYS);
  for (int i = 0; i < n_arrays; i++) {
    const array *a = &arrays[i];
    const char *host = kt_now ? a->got : a->ref;
    if (kt_now && !a->reached && a->there != a->got)
      ck_assert_ok(k->fetch(a->got, a->there, a->all));
    const uint64_t h = hash(host, a->all);
    if (!kt_now) steps[at_step][i] = h;
    ck_assert_msg(steps[at_step][i] == h,
                  "%s, step %d, %s: array %d (%zu bytes) is another", kt_who(),
                  at_step, what, i, a->bytes);
  }
  at_step++;
  if (!kt_now) n_steps = at_step;
}
