/* pipeline.c - the table of pipelines.  To add one: one file, one line. */
#include "train/pipeline.h"

#include <string.h>

extern const ts_pipeline_ops ts_pipeline_base;

static const ts_pipeline_ops *const table[] = {
    &ts_pipeline_base,
};

const ts_pipeline_ops *ts_pipeline_find(const char *name) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(table[i]->name, name)) return table[i];
  return NULL;
}
