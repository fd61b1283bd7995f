/* pipeline.c - the table of pipelines.  To add one: one file, one line. */
#include "train/pipeline.h"

#include <string.h>

extern const ts_pipeline_ops ts_pipeline_base, ts_pipeline_sparse_dist,
    ts_pipeline_fused_sparse_dist, ts_pipeline_semi_sync, ts_pipeline_prefetch;

static const ts_pipeline_ops *const table[] = {
    &ts_pipeline_base, &ts_pipeline_sparse_dist, &ts_pipeline_fused_sparse_dist,
    &ts_pipeline_semi_sync, &ts_pipeline_prefetch};

const ts_pipeline_ops *ts_pipeline_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i]->name, name)) return table[i];
  return NULL;
}

void ts_pipeline_drain(ts_trainer *t, ts_loader *loader) {
  for (int k = 0; k < t->n_cargo; k++)
    ts_stage_discard(t, ts_cargo_at(t, k), loader);
}
