/* cuda_fake_cub.c - what CUB's kernels come to that cuda/ asks for: stable
 * sorts of pairs, the first entries of runs.  And all kernels by name. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/emulated/cuda_fake_body.h"

/* ---- sorts --------------------------------------------------------------- */

static void *param(const ts_fake_call *c, int i) {
  void *p;
  memcpy(&p, c->param[i], sizeof p);
  return p;
}

static uint32_t number(const ts_fake_call *c, int i) {
  uint32_t n;
  memcpy(&n, c->param[i], sizeof n);
  return n;
}

typedef struct ts_pairs {
  uint32_t *keys_out, *values_out;
  const uint32_t *keys, *values;
  uint32_t n, bit, n_bits;
} ts_pairs;

/* By the bits of one pass, or of all: bit by bit. */
static void sort(const ts_pairs *p) {
  uint32_t *key = malloc(2 * ((size_t)p->n + 1) * sizeof *key);
  uint32_t *value = malloc(2 * ((size_t)p->n + 1) * sizeof *value);
  if (!key || !value) abort();
  memcpy(key, p->keys, p->n * sizeof *key);
  memcpy(value, p->values, p->n * sizeof *value);
  for (uint32_t b = p->bit; b < p->bit + p->n_bits; b++) {
    uint32_t at = 0;
    for (uint32_t one = 0; one < 2; one++)
      for (uint32_t i = 0; i < p->n; i++) {
        if ((key[i] >> b & 1) != one) continue;
        key[p->n + at] = key[i];
        value[p->n + at++] = value[i];
      }
    memcpy(key, key + p->n, p->n * sizeof *key);
    memcpy(value, value + p->n, p->n * sizeof *value);
  }
  memcpy(p->keys_out, key, p->n * sizeof *key);
  memcpy(p->values_out, value, p->n * sizeof *value);
  free(key);
  free(value);
}

/* keys, keys_out, values, values_out, n, first bit, last bit. */
static void single_tile(const ts_fake_call *c) {
  const ts_pairs p = {.keys = param(c, 0),
                      .keys_out = param(c, 1),
                      .values = param(c, 2),
                      .values_out = param(c, 3),
                      .n = number(c, 4),
                      .bit = number(c, 5),
                      .n_bits = number(c, 6) - number(c, 5)};
  sort(&p);
}

/* lookback, counters, bins out and in, keys out and in, values out and in, n,
 * bit, number of bits. */
static void one_sweep(const ts_fake_call *c) {
  const ts_pairs p = {.keys_out = param(c, 4),
                      .keys = param(c, 5),
                      .values_out = param(c, 6),
                      .values = param(c, 7),
                      .n = number(c, 8),
                      .bit = number(c, 9),
                      .n_bits = number(c, 10)};
  sort(&p);
}

/* ---- first entries of runs ----------------------------------------------- */

/* numbers, flags (a number, then the keys), selected, how many, state, two
 * operations, n. */
static void select_starts(const ts_fake_call *c) {
  const uint32_t *keys;
  uint32_t *out = param(c, 2), *n_out = param(c, 3), at = 0;
  memcpy(&keys, (const char *)c->param[1] + 8, sizeof keys);
  for (uint32_t i = 0; i < number(c, 7); i++)
    if (!i || keys[i] != keys[i - 1]) out[at++] = i;
  *n_out = at;
}

static void nothing(const ts_fake_call *c) {
  (void)c;
}

const ts_fake_body ts_fake_cub[] = {
    {"DeviceRadixSortSingleTileKernel", single_tile},
    {"DeviceRadixSortOnesweepKernel", one_sweep},
    {"DeviceRadixSortHistogramKernel", nothing},
    {"DeviceRadixSortExclusiveSumKernel", nothing},
    {"DeviceSelectSweepKernel", select_starts},
    {"DeviceCompactInitKernel", nothing},
    {NULL, NULL}};

/* ---- names --------------------------------------------------------------- */

char *__cxa_demangle(const char *, char *, size_t *, int *);

/* Without spaces, a type before it and parameters behind it. */
static void shorten(char *to, size_t size, const char *name) {
  size_t n = 0;
  if (!strncmp(name, "void ", 5)) name += 5;
  for (; *name && *name != '(' && n + 1 < size; name++)
    if (*name != ' ') to[n++] = *name;
  to[n] = '\0';
}

static const ts_fake_body *look_up(const ts_fake_body *table,
                                   const char *name) {
  char own[256];
  for (; table->name; table++) {
    shorten(own, sizeof own, table->name);
    if (!strcmp(own, name)) return table;
  }
  return NULL;
}

const ts_fake_body *ts_fake_body_of(const char *mangled) {
  static const ts_fake_body *const tables[] = {ts_fake_pack, ts_fake_ids,
                                               ts_fake_rows, ts_fake_dense};
  const ts_fake_body *found = NULL;
  char name[256];
  for (const ts_fake_body *b = ts_fake_cub; b->name; b++)
    if (strstr(mangled, b->name)) return b;
  char *text = __cxa_demangle(mangled, NULL, NULL, NULL);
  if (!text) return NULL;
  shorten(name, sizeof name, text);
  free(text);
  for (int i = 0; i < 4 && !found; i++) found = look_up(tables[i], name);
  return found;
}
