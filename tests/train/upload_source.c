/* upload_source.c - made-up samples. */
#include "tests/train/upload_source.h"

#include <string.h>

#include "base/err.h"
#include "io/batch_store.h"
#include "io/deck.h"

static const char deck[] =
    "run = { name = \"t\"; seed = 5; steps = 7; threads = 1; };\n"
    "data = { format = \"synthetic\"; global_batch = 24;\n"
    "  dedup = [\"d\"]; };\n"
    "sharding = { topology = \"none\"; };\n"
    "tables = (\n"
    "  { name = \"a\"; rows = 40; dim = 8; features = [\"o0\", \"m1\"];\n"
    "    sharding = \"data_parallel\"; },\n"
    "  { name = \"b\"; rows = 300; dim = 8; features = [\"m2\", \"o3\"];\n"
    "    sharding = \"row_wise\"; weighted = true; },\n"
    "  { name = \"c\"; rows = 70; dim = 8; features = [\"m4\"];\n"
    "    pooling = \"mean\"; sharding = \"row_wise\"; },\n"
    "  { name = \"d\"; rows = 9; dim = 8; features = [\"d\"];\n"
    "    sharding = \"table_wise\"; },\n"
    "  { name = \"e\"; rows = 90; dim = 8; features = [\"s\"];\n"
    "    sharding = \"row_wise\"; } );\n"
    "model = { kind = \"dlrm\"; dense_features = 3; dense_arch = [8];\n"
    "  over_arch = [8, 1]; };\n"
    "optimizer = { kind = \"sgd\"; lr = 0.1; };\n";

ts_err us_config_create(ts_config **c, const char *const *sets, int n) {
  const ts_err err = ts_deck_parse(c, deck, "/tmp", sets, n);
  if (err == TS_OK) (*c)->tables[(*c)->n_tables - 1].pooling = TS_POOL_NONE;
  return err;
}

/* Ids in the bag of SAMPLE. */
static int64_t length(const ts_feature_of *of, int32_t f, int64_t sample) {
  if (of->name[0] == 'o') return 1;
  return (sample * 5 + f * 3 + sample / 7) % 6;
}

static float value(int64_t sample, int32_t k) {
  return (float)((sample * 31 + k * 7) % 64) / 8;
}

static ts_err fill(ts_batch_store *s, int32_t f, int64_t first, int32_t n) {
  const ts_feature_of *of = &s->of[f];
  const int64_t rows = of->table->rows;
  int64_t n_ids = 0, k = 0;
  for (int32_t b = 0; b < n; b++) n_ids += length(of, f, first + b);
  const ts_err err = ts_batch_store_feature(s, f, n_ids,
                                            of->name[0] == 'o' ? TS_BAGS_ONE
                                            : f % 2            ? TS_BAGS_OFFSETS
                                                    : TS_BAGS_LENGTHS,
                                            of->table->weighted);
  if (err != TS_OK) return err;
  const ts_feature_store *x = &s->feature[f];
  for (int32_t b = 0; b < n; b++) {
    const int64_t m = length(of, f, first + b);
    if (x->lengths) x->lengths[b] = (int32_t)m;
    if (x->offsets) x->offsets[b] = k;
    for (int64_t i = 0; i < m; i++, k++) {
      x->ids[k] = ((first + b) * 13 + i * 29 + f) % rows;
      if (x->weights) x->weights[k] = 0.25f + value(first + b, (int32_t)i);
    }
  }
  if (x->offsets) x->offsets[n] = k;
  return TS_OK;
}

static ts_err read_batch(ts_source *src, ts_batch_store *s, int64_t first,
                         int32_t n) {
  TS_DO(ts_batch_store_begin(s, n, src->info.n_tasks, src->info.n_dense, true));
  for (int32_t b = 0; b < n; b++) {
    s->labels[b] = (float)((first + b) % 2);
    s->weights[b] = 1 + value(first + b, 5);
    for (int32_t k = 0; k < src->info.n_dense; k++)
      s->dense[b * src->info.n_dense + k] = value(first + b, k);
  }
  for (int32_t f = 0; f < src->info.n_features; f++)
    TS_DO(fill(s, f, first, n));
  return ts_batch_store_end(s);
}

void us_source_start(ts_source *s, const ts_config *c, int64_t n_samples) {
  static const ts_source_ops ops = {.format = "made up", .read = read_batch};
  memset(s, 0, sizeof *s);
  s->ops = &ops;
  s->config = c;
  s->info = (ts_source_info){.format = "made up",
                             .n_samples = n_samples,
                             .n_dense = c->model.dense_features,
                             .n_tasks = 1,
                             .n_features = ts_feature_count(c),
                             .has_weights = true};
}
