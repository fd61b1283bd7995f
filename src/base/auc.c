/* auc.c - AUC by sorting: pairs of a positive and a negative sample that are
 * in order count 1, ties 1/2. */
#include "base/auc.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* Key that sorts like the float: predictions are >= 0, so their bits do. */
static uint32_t key_of(float p) {
  uint32_t u;
  memcpy(&u, &p, sizeof u);
  return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* Sorts (key << 32 | index) by key: three passes of 11 bits. */
static void sort(uint64_t *a, uint64_t *b, int64_t n) {
  for (int pass = 0; pass < 3; pass++) {
    const int shift = 32 + 11 * pass;
    int64_t count[2049] = {0};
    for (int64_t i = 0; i < n; i++) count[(a[i] >> shift & 2047) + 1]++;
    for (int k = 0; k < 2048; k++) count[k + 1] += count[k];
    for (int64_t i = 0; i < n; i++) b[count[a[i] >> shift & 2047]++] = a[i];
    uint64_t *swap = a;
    a = b;
    b = swap;
  }
  memcpy(b, a, (size_t)n * sizeof *a); /* an odd number of passes */
}

static double sweep(const uint64_t *a, const float *label, int64_t n) {
  double below = 0, area = 0, positive = 0;
  for (int64_t i = 0; i < n;) {
    double pos = 0, neg = 0;
    const uint64_t key = a[i] >> 32;
    for (; i < n && a[i] >> 32 == key; i++) {
      const bool is_positive = label[(uint32_t)a[i]] > 0.5f;
      pos += is_positive;
      neg += !is_positive;
    }
    area += pos * (below + 0.5 * neg);
    below += neg;
    positive += pos;
  }
  return positive > 0 && below > 0 ? area / (positive * below) : 0.5;
}

ts_err ts_auc_order(uint64_t **order, const float *prediction, int64_t n) {
  ts_err err = TS_OK;
  uint64_t *a = NULL, *b = NULL;
  TS_TRY(ts_mem_many(a, n, METRICS));
  TS_TRY(ts_mem_many(b, n, METRICS));
  for (int64_t i = 0; i < n; i++)
    a[i] = (uint64_t)key_of(prediction[i]) << 32 | (uint32_t)i;
  sort(a, b, n);
  *order = a;
  a = NULL;
done:
  ts_mem_free_all(a, b);
  return err;
}

ts_err ts_auc(double *auc, const float *prediction, const float *label,
              int64_t n) {
  uint64_t *a;
  TS_DO(ts_auc_order(&a, prediction, n));
  *auc = sweep(a, label, n);
  ts_mem_free(a);
  return TS_OK;
}
