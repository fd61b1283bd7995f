/* layers_expect.c - expected numbers (layers.h). */
#include "tests/kernels/layers.h"

#include <stdio.h>

enum { OUTS = 16 };

typedef struct number {
  double want, of;
  bool is;
} number;
static struct {
  const char *p;
  int64_t n;
  size_t size;
  number *number;
  char *last;
} outs[OUTS];
static int n_outs;
static char last_who[64];

void lt_begin(void) {
  for (int i = 0; i < n_outs; i++) {
    free(outs[i].number);
    free(outs[i].last);
  }
  n_outs = 0;
  last_who[0] = 0;
  kt_begin();
}

void lt_over(const void *p, int64_t n, size_t size) {
  ck_assert_int_lt(n_outs, OUTS);
  outs[n_outs].p = p;
  outs[n_outs].n = n;
  outs[n_outs].size = size;
  outs[n_outs].number = calloc((size_t)n + 1, sizeof(number));
  outs[n_outs].last = calloc((size_t)n + 1, size);
  n_outs++;
  kt_compare(p, KT_OWN);
}

void *lt_out(int64_t n, size_t size) {
  void *p = kt_array(n, size, kt_off() / 4 * (int)size);
  for (int64_t i = 0; size == 4 && i < n; i++) ((float *)p)[i] = lt_number(1);
  lt_over(p, n, size);
  return p;
}

void lt_want(const void *p, int64_t at, double want, double of) {
  for (int i = 0; p && i < n_outs; i++)
    if (outs[i].p == p) {
      ck_assert_int_lt(at, outs[i].n);
      outs[i].number[at] = (number){want, of, true};
    }
}

float lt_number(float of) {
  return of * (float)(int32_t)kt_bits() * 0x1p-31f;
}

float *lt_numbers(int64_t n, float of) {
  float *x = kt_array(n, 4, kt_off());
  for (int64_t i = 0; i < n; i++) x[i] = lt_number(of);
  return x;
}

static void look_number(int i, int64_t k, const char *x, const char *who) {
  const number *q = &outs[i].number[k];
  double got;
  if (outs[i].size == 4) {
    float f;
    memcpy(&f, x, 4);
    got = (double)f;
  } else {
    memcpy(&got, x, 8);
  }
  if (!q->is) {
    ck_assert_msg(
        !memcmp(x, outs[i].p + k * (int64_t)outs[i].size, outs[i].size),
        "%s: number %lld of array %d is written", who, (long long)k, i);
    return;
  }
  const double want = outs[i].size == 4 ? (double)(float)q->want : q->want;
  ck_assert_msg((isnan(want) && isnan(got)) || got == want ||
                    fabs(got - want) <= 4e-6 * q->of,
                "%s: number %lld of array %d is %.9g, not %.9g (of %.9g)", who,
                (long long)k, i, got, want, q->of);
}

/* "avx2 on 3 threads" and "emulated, GPU 2" are avx2 and emulated. */
static bool same_as_last(void) {
  char who[sizeof last_who];
  snprintf(who, sizeof who, "%.*s", (int)strcspn(kt_who(), " ,"), kt_who());
  const bool same = !strcmp(who, last_who);
  memcpy(last_who, who, sizeof who);
  return same;
}

static void look(const void *arg) {
  const bool same = same_as_last();
  (void)arg;
  for (int i = 0; i < n_outs; i++) {
    const size_t size = outs[i].size, bytes = (size_t)outs[i].n * size;
    const char *ref = kt_ref(outs[i].p), *got = kt_got(outs[i].p);
    for (int64_t k = 0; k < outs[i].n; k++) {
      look_number(i, k, ref + k * (int64_t)size, "the oracle");
      look_number(i, k, got + k * (int64_t)size, kt_who());
    }
    ck_assert_msg(!same || !memcmp(outs[i].last, got, bytes),
                  "%s: array %d has other bits than before", kt_who(), i);
    memcpy(outs[i].last, got, bytes);
  }
}

void lt_check(kt_call *call, const void *arg) {
  kt_look(look);
  kt_check(call, arg);
}
