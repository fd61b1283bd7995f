/* small_model.h - a model in memory and the file that serves it, for tests: a
 * vocabulary, lists, dense numbers that are scaled, and weights that follow
 * from a seed. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "dense/param_optim.h"
#include "io/deck.h"
#include "model/model.h"
#include "serve/write.h"

enum { SMALL_WORDS = 3, SMALL_BAGS = 50, SMALL_IDS = 99 };

static const char small_deck[] =
    "run = { steps = 1; };\n"
    "data = { format = \"csv\"; train = \"a.csv\"; global_batch = 4;\n"
    "  columns = ( { name = \"y\"; kind = \"label\"; },\n"
    "    { name = \"x\"; kind = \"dense\"; transform = \"log1p\"; },\n"
    "    { name = \"z\"; kind = \"dense\"; transform = \"standardise\"; },\n"
    "    { name = \"word\"; kind = \"ids\"; encoding = \"vocabulary\"; },\n"
    "    { name = \"bag\"; kind = \"ids\"; encoding = \"modulo\";\n"
    "      list_separator = \"|\"; max_length = 3; } ); };\n"
    "table_defaults = { dim = 8; };\n"
    "tables = ( { name = \"words\"; rows = 4; features = \"word\"; },\n"
    "  { name = \"bags\"; rows = 50; features = \"bag\"; } );\n"
    "model = { kind = \"dlrm\"; dense_features = 2; dense_arch = [8];\n"
    "  over_arch = [8, 1]; };\n"
    "optimizer = { kind = \"sgd\"; lr = 0.1; };\n";
static const char small_scales[] = "D 1 2\nD 3 4\n";
static const char small_words[] = "V 3 word\napple\nbanana\ncherry\n";

typedef struct small_model {
  ts_config *config;
  ts_vocabularies *words;
  ts_tensors_out model;
  uint64_t seed;
  int64_t changed;    /* of table bags: this row is another; -1: none */
  ts_rows_kind dense; /* of matrices, one of which has 11 columns */
  bool dynamic;
  int64_t id[SMALL_IDS], n_ids; /* of table bags where it is dynamic */
} small_model;

/* Numbers of 64 bits. */
static inline int64_t small_id(int64_t k) {
  return (int64_t)((uint64_t)k * UINT64_C(0x9e3779b97f4a7c15));
}
static inline int small_by_key(const void *a, const void *b) {
  const uint64_t x = ts_mix64(*(const uint64_t *)a);
  const uint64_t y = ts_mix64(*(const uint64_t *)b);
  return (x > y) - (x < y);
}

static float small_weight(const small_model *m, const ts_tensor_out *t,
                          int64_t i) {
  uint32_t x[4];
  const bool bags = strstr(t->name, "bags.bags") != NULL;
  if (bags && m->dynamic) /* a row goes by its id */
    i = (int64_t)(ts_mix64((uint64_t)m->id[i / 8]) % 1000) * 8 + i % 8;
  const bool other = bags && m->changed == i / 8;
  ts_rng4(x, m->seed + other, TS_RNG_TEST, (uint64_t)i,
          (uint32_t)(t - m->model.item), 0);
  return (float)(2 * ts_rng_unit64(x[0], x[1]) - 1);
}

static ts_err small_read(void *arg, const ts_tensor_out *t, int64_t row0,
                         int64_t n, void *to) {
  const small_model *m = arg;
  const int64_t cols = t->cols ? t->cols : 1;
  if (t->dtype == TS_I64) memcpy(to, m->id + row0, (size_t)n * 8);
  for (int64_t i = 0; i < n * cols && t->dtype != TS_I64; i++)
    ((float *)to)[i] = small_weight(m, t, row0 * cols + i);
  return TS_OK;
}

static ts_err small_add(small_model *m, const char *name, int64_t rows,
                        int64_t cols) {
  return ts_tensors_out_add(&m->model, &(ts_tensor_out){.name = (char *)name,
                                                        .source = "",
                                                        .dtype = TS_F32,
                                                        .rows = rows,
                                                        .cols = cols});
}

static ts_err small_params(small_model *m) {
  ts_err err = TS_OK;
  ts_device *device = NULL;
  ts_lane *lane = NULL;
  ts_model *model = NULL;
  ts_kernels kernels;
  const ts_device_options options = {.serial = true, .n_threads = 1};
  TS_TRY(ts_kernels_fill(&kernels, "host", NULL));
  TS_TRY(ts_device_create(&device, "host", &options));
  TS_TRY(ts_lane_create(device, &lane, "small", TS_LANE_COMPUTE));
  const ts_model_spec spec = {.config = m->config,
                              .n_features = 2,
                              .batch_max = 1,
                              .deferred = true,
                              .kernels = &kernels};
  TS_TRY(ts_model_create(&model, &spec, device, lane));
  for (int32_t i = 0; i < model->params.n; i++)
    TS_TRY(small_add(m, model->params.item[i]->name,
                     model->params.item[i]->rows, model->params.item[i]->cols));
done:
  ts_model_destroy(model);
  if (lane) ts_lane_destroy(lane);
  if (device) ts_device_destroy(device);
  return err;
}

static ts_err small_create_of(small_model *m, uint64_t seed,
                              const char *const *sets, int n_sets) {
  ts_err err = TS_OK;
  ts_str name = {0};
  m->seed = seed;
  m->changed = -1;
  m->model.read = small_read;
  m->model.arg = m;
  m->model.step = 7;
  TS_TRY(ts_deck_parse(&m->config, small_deck, "/", sets, n_sets));
  TS_TRY(ts_vocabularies_create(&m->words, m->config, NULL));
  TS_TRY(ts_vocabularies_load(m->words, small_words));
  for (int32_t t = 0; t < 2; t++) {
    ts_str_reset(&name);
    TS_TRY(ts_param_table_name(&name, &m->config->tables[t]));
    TS_TRY(small_add(m, name.text,
                     t && m->dynamic ? m->n_ids : m->config->tables[t].rows,
                     8));
  }
  TS_TRY(small_params(m));
done:
  ts_str_reset(&name);
  return err;
}

static inline ts_err small_create(small_model *m, uint64_t seed) {
  *m = (small_model){0};
  return small_create_of(m, seed, NULL, 0);
}

/* Table bags is dynamic and has N ids, from small_id(FIRST) on. */
static inline ts_err small_create_dynamic(small_model *m, uint64_t seed,
                                          int64_t first, int64_t n) {
  static const char *const sets[] = {"tables.bags.rows=dynamic",
                                     "tables.bags.capacity=99"};
  *m = (small_model){.dynamic = true, .n_ids = n};
  for (int64_t k = 0; k < n; k++) m->id[k] = small_id(first + k);
  qsort(m->id, (size_t)n, sizeof *m->id, small_by_key);
  TS_DO(small_create_of(m, seed, sets, 2));
  TS_DO(small_add(m, "dynamic/bags/ids", n, 0));
  m->model.item[m->model.n - 1].dtype = TS_I64;
  return TS_OK;
}

static void small_destroy(small_model *m) {
  ts_tensors_out_reset(&m->model);
  ts_vocabularies_destroy(m->words);
  ts_deck_destroy(m->config);
}

/* PATH serves M; BASE: as a delta over it. */
static ts_err small_write(const small_model *m, const char *path,
                          ts_rows_kind kind, const char *base) {
  ts_serve_out o = {.config = m->config,
                    .tables = kind,
                    .dense = m->dense,
                    .base = base,
                    .format = "csv",
                    .scales = small_scales,
                    .words = m->words,
                    .negatives = 1,
                    .model = &m->model};
  return ts_serve_write(&o, path);
}

/* ---- files that are edited ----------------------------------------------- */

/* The index is whole again, so that what is behind its check is seen. */
static inline void small_seal(char *p, size_t n) {
  ts_serve_head h;
  memcpy(&h, p, sizeof h);
  if (h.index < 0 || (size_t)h.index > n) return;
  h.bytes = (int64_t)n;
  h.index_crc = ts_crc32c(0, p + h.index, n - (size_t)h.index);
  memcpy(p, &h, sizeof h);
}

/* And so are the parts that it names. */
static inline void small_seal_parts(char *p, size_t n) {
  ts_serve_head h;
  memcpy(&h, p, sizeof h);
  for (uint32_t i = 0; i < h.n_parts; i++) {
    ts_serve_entry e;
    const size_t at = (size_t)h.index + i * sizeof e;
    if (h.index < 0 || at + sizeof e > n) return;
    memcpy(&e, p + at, sizeof e);
    if (e.at < 0 || e.bytes < 0 || (size_t)e.at > n ||
        (size_t)e.bytes > n - (size_t)e.at)
      continue;
    e.crc = ts_crc32c(0, p + e.at, (size_t)e.bytes);
    memcpy(p + at, &e, sizeof e);
  }
}
