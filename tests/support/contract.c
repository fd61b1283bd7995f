/* contract.c - who is tested, numbers, and the program. */
#include "tests/support/contract_impl.h"

#include <omp.h>
#include <stdio.h>

#ifdef HAVE_EMULATED
#include "tests/support/emulated/emulated.h"
#endif

/* ---- numbers ------------------------------------------------------------- */

static uint64_t seed;

void kt_seed(void) {
  seed = 1;
}

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

float kt_some(kt_numbers kind) {
  static const float rare[] = {0, -0.0f, 0x1p-140f, -0x1p-149f, 1, -1};
  if (kind == KT_SPECIAL && kt_below(64) == 0) return kt_special();
  if (kind == KT_UNIT)
    return kt_below(16) ? (float)((int32_t)kt_bits()) * 0x1p-31f
                        : rare[kt_below(6)];
  const float x = kind == KT_SPECIAL ? kt_number(-20, 20) : kt_number(-16, 8);
  return kind == KT_POSITIVE ? fabsf(x) : x;
}

int kt_off(void) {
  return kt_bits() % 4 ? 0 : 4 * kt_below(4);
}

float *kt_floats(int64_t n, int off, kt_numbers kind) {
  float *x = kt_array(n, 4, off);
  for (int64_t i = 0; i < n; i++) x[i] = kt_some(kind);
  return x;
}

/* ---- who is tested ------------------------------------------------------- */

who kt_all[WHO_MAX], *kt_now;
int kt_n;
ts_kernels kt_oracle;

bool kt_on(const char *backend) {
  return !strcmp(ts_test_backend(), backend);
}

const char *kt_who(void) {
  return kt_now ? kt_now->name : "the oracle";
}

bool kt_apart(void) {
  return kt_now && ts_device_is_discrete(kt_now->device);
}

bool kt_is(const char *isa) {
  return kt_now && !strcmp(kt_now->kernels.isa, isa);
}

/* All that there is; a little; so little that rows go by chunks of columns and
 * grids of a few blocks go on with their stride. */
enum { GPUS = 3 };
#ifdef HAVE_EMULATED
static const ts_emulated_gpu gpus[GPUS] = {
    {0},
    {.n_sms = 3, .shared_bytes = 40 << 10},
    {.n_sms = 1, .grid_max = 3, .shared_bytes = 7 << 10}};

void kt_use_gpu(int i) {
  ts_emulated_set_gpu(&gpus[i]);
  ts_emulated_set_order(ts_emulated_seed() + (uint64_t)i * 77);
  ts_emulated_set_fill(i ? 0xff : 0xa5);
}

int kt_shared_bytes(int gpu) {
  return gpus[gpu].shared_bytes ? gpus[gpu].shared_bytes : 227 << 10;
}

int64_t kt_launches(const char *name) {
  return kt_now && kt_on("emulated") ? ts_emulated_launches(name) : -1;
}
#else
void kt_use_gpu(int i) {
  (void)i;
}

int kt_shared_bytes(int gpu) {
  (void)gpu;
  return 0;
}

int64_t kt_launches(const char *name) {
  (void)name;
  return -1;
}
#endif

static who *add_who(const ts_kernels *k, int threads) {
  ck_assert_int_lt(kt_n, WHO_MAX);
  who *w = &kt_all[kt_n++];
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

static const char *tested; /* entries of the table */

static void start(void) {
  ts_kernels k;
  skip_without(tested);
  kt_n = 0;
  ck_assert_ok(ts_kernels_fill(&kt_oracle, "host", "ref"));
  ck_assert_ok(ts_test_kernels(&k));
  if (kt_on("host"))
    add_host();
  else
    for (int i = 0; i < (kt_on("emulated") ? GPUS : 1); i++) {
      who *w = add_who(&k, 1);
      w->gpu = i;
      snprintf(w->name, sizeof w->name, "%s, GPU %d", ts_test_backend(), i);
    }
  for (who *w = kt_all; w < kt_all + kt_n; w++) {
    if (kt_on("emulated")) kt_use_gpu(w->gpu);
    ck_assert_ok(ts_test_device(&w->device, true, 1));
    ck_assert_ok(
        ts_lane_create(w->device, &w->lane, "kernels", TS_LANE_COMPUTE));
  }
}

static void stop(void) {
  kt_begin();
  omp_set_num_threads(1);
  for (who *w = kt_all; w < kt_all + kt_n; w++) {
    ts_lane_destroy(w->lane);
    ts_device_destroy(w->device);
  }
}

/* ---- the program --------------------------------------------------------- */

static void start_test(void) {
  kt_seed();
  kt_begin();
}

void kt_contract(const char *kernels) {
  TCase *c = ts_test_group();
  tested = kernels;
  tcase_add_unchecked_fixture(c, start, stop);
  tcase_add_checked_fixture(c, start_test, NULL);
}
