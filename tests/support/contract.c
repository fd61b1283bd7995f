/* contract.c - who is tested, a case's arrays, and their runs. */
#include "tests/support/contract.h"

#include <omp.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/support/fake_device.h"
#ifdef HAVE_EMULATED
#include "tests/support/emulated/emulated.h"
#endif

/* ---- numbers ------------------------------------------------------------- */

static uint64_t seed;

uint32_t kt_bits(void) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 32);
}

int32_t kt_below(int32_t n) {
  return (int32_t)(kt_bits() % (uint32_t)n);
}

float kt_special(void) {
  static const uint32_t all[] = {
      0,          0x80000000, 1,          0x807fffff, 0x7f800000, 0xff800000,
      0x7fc00000, 0xffc12345, 0x7f800001, 0x7f7fffff, 0xff7fffff, 0x3f808000,
      0x3f818000, 0x3f801000, 0x3f803000, 0x477fe000, 0x477ff000, 0xc7800000,
      0x33000000, 0x33000001, 0x38000000, 0x387fffff, 0xb7ffffff, 0x007fffff};
  float f;
  memcpy(&f, &all[kt_below(TEST_COUNT(all))], 4);
  return f;
}

float kt_number(int low, int high) {
  const float m = 1 + (float)(kt_bits() >> 9) * 0x1p-23f;
  const float x = ldexpf(m, low + kt_below(high - low));
  return kt_bits() & 1 ? x : -x;
}

/* ---- who is tested ------------------------------------------------------- */

enum { WHO_MAX = 12 };
typedef struct who {
  char name[64];
  ts_kernels kernels;
  int threads;
  int gpu; /* of gpus */
  ts_device *device;
  ts_lane *lane;
} who;

static who all_who[WHO_MAX], *now; /* NULL: the oracle */
static int n_who;
static ts_kernels oracle;

static bool is(const char *backend) {
  return !strcmp(ts_test_backend(), backend);
}

const char *kt_who(void) {
  return now ? now->name : "the oracle";
}

bool kt_apart(void) {
  return now && ts_device_is_apart(now->device);
}

bool kt_is(const char *isa) {
  return now && !strcmp(now->kernels.isa, isa);
}

/* All that there is; a little; so little that rows go by chunks of columns and
 * grids of a few blocks go on with their stride. */
enum { GPUS = 3 };
#ifdef HAVE_EMULATED
static const ts_emulated_gpu gpus[GPUS] = {
    {0},
    {.n_sms = 3, .shared_bytes = 40 << 10},
    {.n_sms = 1, .shared_bytes = 7 << 10}};

static void use_gpu(int i) {
  ts_emulated_set_gpu(&gpus[i]);
  ts_emulated_set_order((uint64_t)i * 77);
  ts_emulated_set_fill(i ? 0xff : 0xa5);
}

static int shared_bytes(int gpu) {
  return gpus[gpu].shared_bytes ? gpus[gpu].shared_bytes : 227 << 10;
}

int64_t kt_launches(const char *name) {
  return now && is("emulated") ? ts_emulated_launches(name) : -1;
}
#else
static void use_gpu(int i) {
  (void)i;
}

static int shared_bytes(int gpu) {
  (void)gpu;
  return 0;
}

int64_t kt_launches(const char *name) {
  (void)name;
  return -1;
}
#endif

static who *add_who(const ts_kernels *k, int threads) {
  ck_assert_int_lt(n_who, WHO_MAX);
  who *w = &all_who[n_who++];
  *w = (who){.kernels = *k, .threads = threads};
  snprintf(w->name, sizeof w->name, "%s on %d threads", k->isa, threads);
  return w;
}

static void add_host(void) {
  static const char *const isas[] = {"ref", "avx2", "avx512", "avx512_bf16"};
  ts_kernels k;
  for (int i = 0; i < TEST_COUNT(isas); i++) {
    if (ts_kernels_fill(&k, "host", isas[i]) != TS_OK) {
      ts_err_clear(); /* this CPU has no more */
      break;
    }
    for (int threads = i ? 1 : 2; threads <= 3; threads++) add_who(&k, threads);
  }
}

static void start(void) {
  ts_kernels k;
  n_who = 0;
  ck_assert_ok(ts_kernels_fill(&oracle, "host", "ref"));
  ck_assert_ok(ts_test_kernels(&k));
  if (is("host"))
    add_host();
  else
    for (int i = 0; i < (is("emulated") ? GPUS : 1); i++) {
      who *w = add_who(&k, 1);
      w->gpu = i;
      snprintf(w->name, sizeof w->name, "%s, GPU %d", ts_test_backend(), i);
    }
  for (who *w = all_who; w < all_who + n_who; w++) {
    if (is("emulated")) use_gpu(w->gpu);
    ck_assert_ok(ts_test_device(&w->device, true, 1));
    ck_assert_ok(
        ts_lane_create(w->device, &w->lane, "kernels", TS_LANE_COMPUTE));
  }
}

static void stop(void) {
  kt_begin();
  omp_set_num_threads(1);
  for (who *w = all_who; w < all_who + n_who; w++) {
    ts_lane_destroy(w->lane);
    ts_device_destroy(w->device);
  }
}

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

/* Whose array P points into, *AT bytes from its start. */
static array *find(const void *p, size_t *at) {
  for (int i = 0; i < n_arrays; i++) {
    const char *from = arrays[i].was + arrays[i].at;
    *at = (size_t)((const char *)p - from);
    if ((const char *)p >= from && *at <= arrays[i].bytes) return &arrays[i];
  }
  ck_abort_msg("a pointer into no array of the case");
  return NULL;
}

void kt_compare(const void *p, kt_how how) {
  size_t at;
  find(p, &at)->how = how;
}

void kt_look(void (*f)(const void *)) {
  look = f;
}

void kt_least_shared(int bytes) {
  least_shared = bytes;
}

void *kt_at(const void *p) {
  size_t at;
  if (!p) return NULL;
  const array *a = find(p, &at);
  return (now ? a->there : a->ref) + a->at + at;
}

void *kt_host(const void *p) {
  return now ? kt_got(p) : kt_ref(p);
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
  omp_set_num_threads(now->threads);
  r->err = r->call(&now->kernels, r->arg);
  return TS_OK;
}

static void lend(array *a) {
  a->got = take(a);
  memcpy(a->got, a->was, a->all);
  a->there = a->got;
  if (a->reached) {
    void *seen;
    ck_assert_ok(ts_device_reach(now->device, &seen, a->got, a->all, true));
    a->there = seen;
  } else if (ts_device_is_apart(now->device) && a->all) {
    ck_assert_ok(ts_buffer_create(&a->buffer, now->device, a->all,
                                  TS_SPACE_DEVICE, TS_TAG_MISC));
    a->there = a->buffer.ptr;
    ts_test_put(now->device, a->there, a->got, a->all);
  }
}

static void reclaim(array *a) {
  if (a->reached) {
    ts_device_unreach(now->device, a->got, true);
  } else if (a->there != a->got) {
    ts_test_get(now->device, a->got, a->there, a->all);
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
  if (a->how == KT_BITS || !strcmp(now->kernels.isa, "ref")) return false;
  return (is("host") || is("fake")) &&
         fabs(want - got) <= (half ? fabs(want) / 128 : 4e-6 * fabs(want)) +
                                 4e-6 * fabs(number(a, a->was + at)) + 3e-5;
}

static void compare(const array *a, int number_of) {
  if (!memcmp(a->ref, a->got, a->all)) return;
  for (size_t i = 0; i < a->all; i++) {
    if (a->ref[i] == a->got[i] || will_do(a, i)) continue;
    const size_t word = i - (i - a->at) % 4;
    float x, y;
    memcpy(&x, a->ref + word, 4);
    memcpy(&y, a->got + word, 4);
    ck_abort_msg("%s: byte %lld of array %d (%zu bytes) is %d, not %d (as "
                 "floats %a, not %a)",
                 now->name, (long long)i - (long long)a->at, number_of,
                 a->bytes, a->got[i], a->ref[i], (double)y, (double)x);
  }
}

static int n_steps, at_step;

static void run_oracle(run *r) {
  now = NULL;
  n_steps = at_step = 0;
  for (int i = 0; i < n_arrays; i++) {
    array *a = &arrays[i];
    if (!a->ref) a->ref = take(a);
    memcpy(a->ref, a->was, a->all);
  }
  omp_set_num_threads(1);
  r->err = r->call(&oracle, r->arg);
}

enum { PINS_MAX = 64 };
static ts_buffer pins[PINS_MAX];
static int n_pins;

void *kt_pin(const void *p, size_t bytes) {
  if (!now || !bytes) return (void *)(uintptr_t)p; /* the oracle has read it */
  ck_assert_int_lt(n_pins, PINS_MAX);
  ts_buffer *b = &pins[n_pins++];
  ck_assert_ok(
      ts_buffer_create(b, now->device, bytes, TS_SPACE_PINNED, TS_TAG_MISC));
  return memcpy(b->ptr, p, bytes);
}

static void run_tested(run *r) {
  at_step = 0;
  if (is("emulated")) use_gpu(now->gpu);
  for (int i = 0; i < n_arrays; i++) lend(&arrays[i]);
  ck_assert_ok(ts_lane_submit(now->lane, "kernel", task, &r, sizeof r));
  ck_assert_ok(ts_lane_sync(now->lane));
  while (n_pins > 0) ts_buffer_reset(&pins[--n_pins]);
  for (int i = 0; i < n_arrays; i++) reclaim(&arrays[i]);
}

void kt_check(kt_call *call, const void *arg) {
  run r = {call, arg, TS_OK};
  run_oracle(&r);
  ck_assert_ok(r.err);
  for (now = all_who; now < all_who + n_who; now++) {
    if (is("emulated") && shared_bytes(now->gpu) < least_shared) continue;
    run_tested(&r);
    ck_assert_ok(r.err);
    ck_assert_int_eq(at_step, n_steps);
    for (int i = 0; i < n_arrays; i++) compare(&arrays[i], i);
    if (look) look(arg);
    for (int i = 0; i < n_arrays; i++) give(&arrays[i], &arrays[i].got);
  }
}

void kt_refused(kt_call *call, const void *arg, ts_err err, const char *words) {
  run r = {call, arg, TS_OK};
  for (now = all_who; now < all_who + n_who; now++) {
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
    const char *host = now ? a->got : a->ref;
    if (now && !a->reached && a->there != a->got)
      ck_assert_ok(k->fetch(a->got, a->there, a->all));
    const uint64_t h = hash(host, a->all);
    if (!now) steps[at_step][i] = h;
    ck_assert_msg(steps[at_step][i] == h,
                  "%s, step %d, %s: array %d (%zu bytes) is another", kt_who(),
                  at_step, what, i, a->bytes);
  }
  at_step++;
  if (!now) n_steps = at_step;
}

/* ---- the program --------------------------------------------------------- */

static void start_test(void) {
  seed = 1;
  kt_begin();
}

/* Whether NAME is among NAMES, with blanks between them. */
static bool among(const char *names, const char *name) {
  const size_t n = strlen(name);
  for (const char *p = names; (p = strstr(p, name)); p += n)
    if ((p == names || p[-1] == ' ') && (!p[n] || p[n] == ' ')) return true;
  return false;
}

static void skip_without(const char *kernels) {
  ts_kernels k;
  ck_assert_ok(ts_test_kernels(&k));
#define LACKS(entry, params)                                                   \
  if (!k.entry && among(kernels, #entry)) {                                    \
    printf("SKIPPED: backend %s has no kernel %s\n", ts_test_backend(),        \
           #entry);                                                            \
    ts_mpi_stop();                                                             \
    exit(77);                                                                  \
  }
  TS_KERNEL_LIST(LACKS)
#undef LACKS
}

Suite *kt_suite(const char *kernels, const kt_test *t, int n) {
  Suite *s = suite_create(ts_test_backend());
  TCase *c = tcase_create("contract");
  skip_without(kernels);
  tcase_set_timeout(c, 0);
  tcase_add_unchecked_fixture(c, start, stop);
  tcase_add_checked_fixture(c, start_test, NULL);
  for (int i = 0; i < n; i++)
    tcase_add_loop_test(c, t[i].test, 0, t[i].n ? t[i].n : 1);
  suite_add_tcase(s, c);
  return s;
}
